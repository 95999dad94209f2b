"""The transformer that the constructions are loaded into, and what running it takes."""

from engine._attention import Attention as Attention
from engine._rotary import ANGLE_ERROR as ANGLE_ERROR
from engine._rotary import RotaryPhases as RotaryPhases
from engine._rotary import rotate as rotate
from engine._transformer import Transformer as Transformer
from engine._transformer import TransformerConfig as TransformerConfig
from engine._weights_file import load_weights as load_weights
from engine._weights_file import save_weights as save_weights
from engine._weights_file import write_atomically as write_atomically
