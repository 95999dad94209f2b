"""Theorem 4.2: minimisers under a bound on every query and key entry, their loss and how far they copy."""

from theory.minimisers._content import content_solution as content_solution
from theory.minimisers._energy import energy_loss_bound as energy_loss_bound
from theory.minimisers._head_length import LARGEST_HEAD_LENGTH as LARGEST_HEAD_LENGTH
from theory.minimisers._head_length import HeadLength as HeadLength
from theory.minimisers._head_length import head_length as head_length
from theory.minimisers._limit import LimitFailure as LimitFailure
from theory.minimisers._limit import MinimiserThreshold as MinimiserThreshold
from theory.minimisers._limit import closed_form_solution as closed_form_solution
from theory.minimisers._limit import limit_failure as limit_failure
from theory.minimisers._limit import solution_length as solution_length
from theory.minimisers._limit import tied_failure_bound as tied_failure_bound
from theory.minimisers._limit import tied_threshold as tied_threshold
from theory.minimisers._loss_bound import LossBound as LossBound
from theory.minimisers._loss_bound import loss_lower_bound as loss_lower_bound
from theory.minimisers._population_bounds import population_excess_bounds as population_excess_bounds
from theory.minimisers._population_loss import ENUMERATED_IN_SAMPLE as ENUMERATED_IN_SAMPLE
from theory.minimisers._population_loss import LONGEST_ENUMERATION as LONGEST_ENUMERATION
from theory.minimisers._population_loss import HeadWeights as HeadWeights
from theory.minimisers._population_loss import PopulationLoss as PopulationLoss
from theory.minimisers._population_loss import sampled_strings as sampled_strings
from theory.minimisers._population_loss import turns_modulo_one as turns_modulo_one
from theory.minimisers._programme import closed_form_amplitudes as closed_form_amplitudes
from theory.minimisers._programme import worst_case_gap as worst_case_gap
from theory.minimisers._setting import Asker as Asker
from theory.minimisers._setting import MinimiserSetting as MinimiserSetting
from theory.minimisers._setting import Queries as Queries
