"""Minimisers under a bound on every entry: models, the problem, and the search."""

from constructions.theorem_4_2._models import HeadParameters as HeadParameters
from constructions.theorem_4_2._models import Parametrisation as Parametrisation
from constructions.theorem_4_2._models import ProgrammeMethod as ProgrammeMethod
from constructions.theorem_4_2._models import build_coupled_model as build_coupled_model
from constructions.theorem_4_2._models import build_minimiser_model as build_minimiser_model
from constructions.theorem_4_2._models import closed_form as closed_form
from constructions.theorem_4_2._models import content_head as content_head
from constructions.theorem_4_2._models import head_of_model as head_of_model
from constructions.theorem_4_2._models import programme_amplitudes as programme_amplitudes
from constructions.theorem_4_2._models import programme_heads as programme_heads
from constructions.theorem_4_2._problem import MinimiserProblem as MinimiserProblem
from constructions.theorem_4_2._problem import Norm as Norm
from constructions.theorem_4_2._problem import RejectedThetaError as RejectedThetaError
from constructions.theorem_4_2._problem import Start as Start
from constructions.theorem_4_2._problem import require_as_claimed as require_as_claimed
from constructions.theorem_4_2._problem import require_feasible as require_feasible
from constructions.theorem_4_2._search import Found as Found
from constructions.theorem_4_2._search import best_of as best_of
from constructions.theorem_4_2._search import count_starts as count_starts
from constructions.theorem_4_2._search import search_minimisers as search_minimisers
