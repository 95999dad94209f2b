"""Explicit weights, one module a theorem, each with its derivation."""

from constructions._replay import Replay as Replay
from constructions._replay import conclusive as conclusive
from constructions._replay import greedy_copy as greedy_copy
from constructions._replay import replay as replay
from constructions._replay import score_error_bound as score_error_bound
from constructions.theorem_4_1 import GridCopier as GridCopier
from constructions.theorem_4_1 import build_grid_copier as build_grid_copier
from constructions.theorem_4_1 import load_grid_copier as load_grid_copier
