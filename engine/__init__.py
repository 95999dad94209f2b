"""The transformer that the constructions are loaded into, and what running it takes."""

from engine._attention import Attention as Attention
from engine._data import IGNORED as IGNORED
from engine._data import SEPARATORS as SEPARATORS
from engine._data import Batch as Batch
from engine._data import CopySource as CopySource
from engine._data import Example as Example
from engine._data import Source as Source
from engine._data import collate as collate
from engine._data import equal_lengths as equal_lengths
from engine._data import micro_batches as micro_batches
from engine._list_conversion import LIST_DISTRIBUTIONS as LIST_DISTRIBUTIONS
from engine._list_conversion import ListSource as ListSource
from engine._rotary import ANGLE_ERROR as ANGLE_ERROR
from engine._rotary import RotaryPhases as RotaryPhases
from engine._rotary import rotate as rotate
from engine._transformer import Transformer as Transformer
from engine._transformer import TransformerConfig as TransformerConfig
from engine._weights_file import load_weights as load_weights
from engine._weights_file import save_weights as save_weights
from engine._weights_file import write_atomically as write_atomically
