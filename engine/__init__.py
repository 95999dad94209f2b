"""The transformer that trains and that the constructions are loaded into, and what running it takes."""

from engine._attention import Attention as Attention
from engine._attention import KeysValues as KeysValues
from engine._encodings import ALiBi as ALiBi
from engine._encodings import AutoGridRoPE as AutoGridRoPE
from engine._encodings import Encoding as Encoding
from engine._encodings import GridRoPE as GridRoPE
from engine._encodings import Places as Places
from engine._encodings import RoPE as RoPE
from engine._encodings import alibi_slopes as alibi_slopes
from engine._encodings import places_of as places_of
from engine._evaluation import exact_match as exact_match
from engine._model import ENCODINGS as ENCODINGS
from engine._model import ModelConfig as ModelConfig
from engine._model import build_model as build_model
from engine._rotary import ANGLE_ERROR as ANGLE_ERROR
from engine._rotary import RotaryPhases as RotaryPhases
from engine._rotary import rotate as rotate
from engine._scan import affine_scan as affine_scan
from engine._transformer import Transformer as Transformer
from engine._transformer import TransformerConfig as TransformerConfig
from engine._weights_file import load_weights as load_weights
from engine._weights_file import save_weights as save_weights
from engine._weights_file import write_atomically as write_atomically
