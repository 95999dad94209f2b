"""Theorem 4.1: one layer with 2D-RoPE; scores of rows and columns, the length they copy, and its probability.

P and H are the parts of the numerator N before and after the step, D the denominator; a relative position is key minus
query.
"""

from theory.grid._ceiling import dirichlet_ceiling as dirichlet_ceiling
from theory.grid._ceiling import norm_ceiling as norm_ceiling
from theory.grid._cosine_lemma import cosine_constant as cosine_constant
from theory.grid._cosine_lemma import cosine_step_excess as cosine_step_excess
from theory.grid._length_scan import LARGEST_LIMIT as LARGEST_LIMIT
from theory.grid._length_scan import LengthBound as LengthBound
from theory.grid._length_scan import LengthBracket as LengthBracket
from theory.grid._length_scan import SingleFlip as SingleFlip
from theory.grid._length_scan import StepRange as StepRange
from theory.grid._length_scan import exact_length as exact_length
from theory.grid._probability import LEAST_D as LEAST_D
from theory.grid._probability import Budget as Budget
from theory.grid._probability import UniversalProof as UniversalProof
from theory.grid._probability import embedded_tokens as embedded_tokens
from theory.grid._probability import failure_bound as failure_bound
from theory.grid._probability import length_with_failure as length_with_failure
from theory.grid._probability import paper_length as paper_length
from theory.grid._probability import prove_failure_probability as prove_failure_probability
from theory.grid._probability import score_scale as score_scale
from theory.grid._resonances import columns_below as columns_below
from theory.grid._resonances import resonance_columns_exact as resonance_columns_exact
from theory.grid._score import Amplitude as Amplitude
from theory.grid._score import GridScore as GridScore
from theory.grid._score import ideal_grid_score as ideal_grid_score
from theory.grid._score import require_two_after as require_two_after
from theory.grid._separation import SeparationCertifier as SeparationCertifier
from theory.grid._separation import certify_length as certify_length
from theory.grid._separation import furthest_length as furthest_length
from theory.grid._separation import separation_lattice_for as separation_lattice_for
from theory.grid._step_weights import StepWeights as StepWeights
from theory.grid._step_weights import first_step_failure as first_step_failure
from theory.grid._step_weights import step_weights as step_weights
