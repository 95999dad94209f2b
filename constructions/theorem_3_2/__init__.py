"""Two layers with RoPE: the weights, and a step replayed."""

from constructions.theorem_3_2._copier import TwoLayerCopier as TwoLayerCopier
from constructions.theorem_3_2._copier import anchor_tokens as anchor_tokens
from constructions.theorem_3_2._copier import build_two_layer_copier as build_two_layer_copier
from constructions.theorem_3_2._copier import load_two_layer_copier as load_two_layer_copier
from constructions.theorem_3_2._replay import LONGEST_TWO_LAYER_REPLAY as LONGEST_TWO_LAYER_REPLAY
from constructions.theorem_3_2._replay import ball_difference as ball_difference
from constructions.theorem_3_2._replay import replay_two_layer as replay_two_layer
