"""Explicit weights, one module a theorem, each with its derivation."""

from constructions._replay import Replay as Replay
from constructions._replay import conclusive as conclusive
from constructions._replay import greedy_copy as greedy_copy
from constructions._replay import replay as replay
from constructions._replay import score_error_bound as score_error_bound
from constructions._score_table import ScoreTable as ScoreTable
from constructions._score_table import TableHead as TableHead
from constructions._score_table import TableModel as TableModel
from constructions._score_table import forced_answers as forced_answers
from constructions._score_table import table_of_witness as table_of_witness
from constructions._two_layer_replay import LONGEST_TWO_LAYER_REPLAY as LONGEST_TWO_LAYER_REPLAY
from constructions._two_layer_replay import ball_difference as ball_difference
from constructions._two_layer_replay import replay_two_layer as replay_two_layer
from constructions.theorem_3_1 import ShiftCopier as ShiftCopier
from constructions.theorem_3_1 import build_shift_copier as build_shift_copier
from constructions.theorem_3_2 import TwoLayerCopier as TwoLayerCopier
from constructions.theorem_3_2 import anchor_tokens as anchor_tokens
from constructions.theorem_3_2 import build_two_layer_copier as build_two_layer_copier
from constructions.theorem_3_2 import load_two_layer_copier as load_two_layer_copier
from constructions.theorem_4_1 import GridCopier as GridCopier
from constructions.theorem_4_1 import build_grid_copier as build_grid_copier
from constructions.theorem_4_1 import load_grid_copier as load_grid_copier
from constructions.two_heads import search_heads as search_heads
