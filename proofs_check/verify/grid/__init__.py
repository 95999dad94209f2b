"""Theorem 4.1: one 2D-RoPE layer, scans of lengths, separation of frequencies, probabilities and ceilings."""

from proofs_check.verify.grid._ceiling import check_dirichlet_ceiling as check_dirichlet_ceiling
from proofs_check.verify.grid._cosine import check_cosine_lemma as check_cosine_lemma
from proofs_check.verify.grid._cosine import check_cosine_step_counterexample as check_cosine_step_counterexample
from proofs_check.verify.grid._counterexample import check_grid_counterexample as check_grid_counterexample
from proofs_check.verify.grid._failure_probability import check_failure_probability as check_failure_probability
from proofs_check.verify.grid._failure_probability import check_failure_probability_at as check_failure_probability_at
from proofs_check.verify.grid._model import LARGEST_SIZE as LARGEST_SIZE
from proofs_check.verify.grid._model import GridModel as GridModel
from proofs_check.verify.grid._model import grid_model as grid_model
from proofs_check.verify.grid._model import read_grid_model as read_grid_model
from proofs_check.verify.grid._model import read_sizes as read_sizes
from proofs_check.verify.grid._model import require_shapes as require_shapes
from proofs_check.verify.grid._model import spend_on_weights as spend_on_weights
from proofs_check.verify.grid._scan import check_grid_scan as check_grid_scan
from proofs_check.verify.grid._separation import check_grid_separation as check_grid_separation
