"""One layer with 2D-RoPE: the weights, and a step replayed."""

from constructions.theorem_4_1._copier import GridCopier as GridCopier
from constructions.theorem_4_1._copier import build_grid_copier as build_grid_copier
from constructions.theorem_4_1._copier import load_grid_copier as load_grid_copier
from constructions.theorem_4_1._replay import LONGEST_REPLAY as LONGEST_REPLAY
from constructions.theorem_4_1._replay import Replay as Replay
from constructions.theorem_4_1._replay import conclusive as conclusive
from constructions.theorem_4_1._replay import greedy_copy as greedy_copy
from constructions.theorem_4_1._replay import replay as replay
from constructions.theorem_4_1._replay import score_error_bound as score_error_bound
