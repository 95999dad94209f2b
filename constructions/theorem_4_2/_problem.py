"""What a search for minimisers minimises, and the checker that every result passes.

*Norms.* linf: every entry in [-M, M]. l2, for comparison: the ball of radius M sqrt(P), P the number of parameters. It
is the smallest ball around the box, so whatever the box allows the ball allows too, and the box's corners (where the
minimisers under linf gather) lie on its sphere. Another radius may be given, as the norm of a minimiser under linf.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import isclose, isqrt, log, nextafter
from typing import Any, Literal, get_args

import numpy as np

from constructions.theorem_4_2._models import HeadParameters, Parametrisation, Theta
from theory import InputError, MinimiserSetting, loss_lower_bound
from theory.minimisers import (
    ENUMERATED_IN_SAMPLE,
    LONGEST_ENUMERATION,
    HeadWeights,
    LossBound,
    PopulationLoss,
    energy_loss_bound,
    population_excess_bounds,
    sampled_strings,
)
from theory.numbers import (
    ball,
    float_above,
    float_below,
    grid_frequencies_document,
    require_at_least,
    require_one_of,
    working_precision,
)

Norm = Literal["linf", "l2"]
Method = Literal["closed-form", "linear-programme", "content-programme", "L-BFGS-B", "Adam", "sign-descent"]

#: Strings of each length in the sample that a search beyond LONGEST_ENUMERATION minimises over, and in the fresh one
#: that its result is judged by.
SEARCH_SAMPLE, JUDGING_SAMPLE = 8, 64

#: Most parameters of a head that is searched; a polish evaluates the loss for each of them several times.
MOST_PARAMETERS = 4096

#: An excess below this is 0 to the searches.
LEAST_EXCESS = 1e-300

#: An entry counts as saturated from this fraction of M on.
SATURATED = 1 - 1e-6


class RejectedThetaError(ValueError):
    """A point that violates the constraint, or whose loss is not the one claimed."""


@dataclass(frozen=True)
class MinimiserProblem:
    """What to minimise.

    Attributes:
        setting: frequencies, L, M, a and the reading of the queries.
        parametrisation: decoupled or coupled.
        norm: linf or l2.
        seed: of the random starts and samples.
        l2_square: the square of the radius under l2; None for M^2 P.

    Raises:
        InputError: any of them out of range, or a radius under linf.
    """

    setting: MinimiserSetting
    parametrisation: Parametrisation = "decoupled"
    norm: Norm = "linf"
    seed: int = 0
    l2_square: Fraction | None = None

    def __post_init__(self) -> None:
        if not Fraction(1, 1000) <= self.bound <= 1000:
            raise InputError("M", str(self.bound), "a number from 0.001 to 1000, so that scores are float64 numbers")
        require_at_least("seed", self.seed, 0)
        require_one_of("norm", self.norm, get_args(Norm))
        if self.l2_square is not None and (self.norm == "linf" or self.l2_square <= 0):
            raise InputError("l2_square", f"{float(self.l2_square):g}", "a number > 0, and only under l2")
        if self.parameters.size > MOST_PARAMETERS:
            allowed = f"small enough, with a = {self.setting.a}, for {MOST_PARAMETERS} parameters"
            raise InputError("d", self.setting.d, f"{allowed}, not {self.parameters.size}")

    @property
    def bound(self) -> Fraction:
        """M."""
        return self.setting.bound

    @cached_property
    def parameters(self) -> HeadParameters:
        """How theta stands for a head."""
        return HeadParameters(self.parametrisation, self.setting.queries, self.setting.d, self.setting.a)

    @cached_property
    def largest_entry(self) -> float:
        """The largest float that is at most M."""
        value = float(self.bound)
        return value if Fraction(value) <= self.bound else nextafter(value, 0)

    @property
    def square_radius(self) -> Fraction:
        """What the squares of the entries may add up to under l2."""
        return self.bound**2 * self.parameters.size if self.l2_square is None else self.l2_square

    @property
    def exact(self) -> bool:
        """Is the loss the exact mean over all strings?"""
        return self.setting.length <= LONGEST_ENUMERATION

    @cached_property
    def ceiling(self) -> Fraction:
        """A bound on |v_x| over all points within the constraint."""
        if self.parametrisation == "decoupled":
            return self.bound if self.norm == "linf" else _root_above(self.square_radius)
        # |w . e_x| is at most d M^2, and at most (|w|^2 + |e_x|^2)/2 <= R^2/2; the last factor covers float products.
        product = self.setting.d * self.bound**2 if self.norm == "linf" else self.square_radius / 2
        return product * (1 + Fraction(1, 2**40))

    @cached_property
    def covering(self) -> MinimiserSetting:
        """The setting whose box [-M', M'] holds the queries, keys and values of every point within the constraint, so
        that what bounds the loss over that box from below does so here.

        M' is the ceiling: decoupled, no entry exceeds M or R; coupled, an entry of W_Q e_c, W_K e_x or w . e_x is an
        inner product of two disjoint parts of theta, like a value. Only a tied query is a part of a coupled theta
        itself, and may be as large as M or R.
        """
        largest = self.ceiling
        if self.parametrisation == "coupled" and self.setting.queries == "tied":
            largest = max(largest, self.bound if self.norm == "linf" else _root_above(self.square_radius))
        return replace(self.setting, bound=largest)

    @cached_property
    def least_logit(self) -> Fraction:
        """No model within the constraint has an expected loss below ln(1 + exp(-this)).

        At every step both symbols are equally probable and z lies between the least and the largest value, so by
        convexity the step costs at least softplus(-(v_max - v_min)/2) on average; half the difference is largest at R /
        sqrt 2 (decoupled, l2) and R^2 / (2 sqrt 2) (coupled, l2: |w| |e| with |w|^2 + 2 |e|^2 = R^2).
        """
        if self.parametrisation == "decoupled":
            return self.bound if self.norm == "linf" else _root_above(self.square_radius / 2)
        if self.norm == "linf":
            return self.setting.d * self.bound**2
        return _root_above(self.square_radius**2 / 8)

    @cached_property
    def trivial_floor(self) -> float:
        """A float certainly at most ln(1 + exp(-least_logit))."""
        with working_precision(128):
            return float_below((-ball(self.least_logit)).exp().log1p())

    @cached_property
    def box_bound(self) -> LossBound:
        """The certified bound over the covering box."""
        return loss_lower_bound(self.covering)

    @cached_property
    def lower_bound(self) -> float:
        """A float certainly at most the loss of every point within the constraint: the best of the floor, the bound
        over the covering box and, for a ball of decoupled parameters, that of `energy_loss_bound`.
        """
        best = max(self.trivial_floor, self.box_bound.certified_loss)
        if self.norm == "linf" or self.parametrisation == "coupled":
            return best
        return max(best, float_below(energy_loss_bound(self.setting.length, self.setting.queries, self.square_radius)))

    @cached_property
    def objective(self) -> PopulationLoss:
        """The loss that the searches minimise."""
        return self._loss(SEARCH_SAMPLE, self.seed)

    @cached_property
    def judge(self) -> PopulationLoss:
        """The loss that results are judged by: the same, or one over a fresh sample."""
        return self.objective if self.exact else self._loss(JUDGING_SAMPLE, self.seed + 1)

    @cached_property
    def data_objective(self) -> PopulationLoss:
        """The searched loss without the tokens of A and B."""
        setting, strings = self.setting, self.objective.strings
        return PopulationLoss(setting.frequencies, setting.a, setting.length, strings, data_only=True)

    def _loss(self, per_length: int, seed: int) -> PopulationLoss:
        length = self.setting.length
        sample = None if self.exact else sampled_strings(length, per_length, seed)
        return PopulationLoss(self.setting.frequencies, self.setting.a, length, sample)

    def document(self) -> dict[str, Any]:
        """Everything that a start depends on, as a JSON object."""
        return {
            "frequencies": grid_frequencies_document(self.setting.frequencies),
            "a": self.setting.a,
            "length": self.setting.length,
            "bound": str(self.bound),
            "queries": self.setting.queries,
            "parametrisation": self.parametrisation,
            "norm": self.norm,
            "seed": self.seed,
        } | ({} if self.l2_square is None else {"l2_square": str(self.l2_square)})

    def project(self, theta: Theta) -> Theta:
        """The nearest point within the constraint (under l2 a hair inside)."""
        if self.norm == "linf":
            clipped: Theta = np.clip(theta, -self.largest_entry, self.largest_entry)
            return clipped
        radius, norm = float(self.square_radius) ** 0.5 * (1 - 2**-40), float(np.linalg.norm(theta))
        return theta if norm <= radius else theta * (radius / norm)

    def log_excess(self, theta: Theta, *, data_only: bool = False) -> tuple[float, Theta]:
        """Logarithm of the searched loss's excess over the floor at the ceiling, and its gradient."""
        objective = self.data_objective if data_only else self.objective
        value, by_head = objective.excess_and_gradient(self.parameters.head(theta), float(self.ceiling))
        value = max(value, LEAST_EXCESS)
        return log(value), self.parameters.gradient(theta, by_head) / value


def _root_above(square: Fraction) -> Fraction:
    """A rational just above the square root."""
    scale = 1 << 64
    return Fraction(isqrt(square.numerator * scale**2 // square.denominator) + 1, scale)


@dataclass(frozen=True)
class Start:
    """What became of one start.

    Attributes:
        name: the name of its file.
        method: how it was searched.
        status: finished, or failed (with the reason; figures are then None).
        loss: population loss of the result, or its estimate beyond L = 12.
        standard_error: of the estimate; 0 if exact.
        excess: loss less the floor ln(1 + exp(-ceiling)); where M is no float, over the floor at the nearest float,
            which differs from it by up to 2^-53.
        excess_lower, excess_upper: certified bounds on the excess of the population loss of the point.
        saturated_fraction: fraction of the entries at +-M (under l2: of the ball's radius that is used).
        evaluations: of the loss.
    """

    name: str
    method: Method
    status: Literal["finished", "failed"]
    reason: str
    loss: float | None
    standard_error: float | None
    excess: float | None
    excess_lower: float | None
    excess_upper: float | None
    saturated_fraction: float | None
    evaluations: int

    def document(self) -> dict[str, Any]:
        """The start as a JSON object."""
        return asdict(self)


def require_feasible(problem: MinimiserProblem, theta: Theta) -> None:
    """Check the constraint in exact arithmetic.

    Raises:
        RejectedThetaError: wrong number of entries, an entry that is not finite, or the norm exceeds the bound.
    """
    if theta.shape != (problem.parameters.size,):
        raise RejectedThetaError(f"{theta.size} entries instead of {problem.parameters.size}")
    if not np.isfinite(theta).all():
        raise RejectedThetaError("an entry is not finite")
    entries = [Fraction(entry) for entry in theta.tolist()]
    if problem.norm == "linf":
        largest = max(abs(entry) for entry in entries)
        if largest > problem.bound:
            raise RejectedThetaError(f"an entry exceeds M = {problem.bound} by {float(largest - problem.bound):.3g}")
    elif (square := sum(entry**2 for entry in entries)) > problem.square_radius:
        raise RejectedThetaError(f"the square norm exceeds the radius' by {float(square - problem.square_radius):.3g}")


def failed(name: str, method: Method, reason: str) -> Start:
    """A start that came to no point within the constraint."""
    return Start(name, method, "failed", reason, None, None, None, None, None, None, 0)


def judged(problem: MinimiserProblem, name: str, method: Method, theta: Theta, evaluations: int) -> Start:
    """A finished start: its point checked, its loss computed anew.

    Raises:
        RejectedThetaError: as in `require_feasible`.
    """
    require_feasible(problem, theta)
    head = problem.parameters.head(theta)
    excess, error = _estimate(problem, head)
    setting = problem.setting
    lower, upper = population_excess_bounds(setting.frequencies, setting.a, setting.length, head, problem.ceiling)
    with working_precision(128):
        loss = float((1 + (-ball(problem.ceiling)).exp()).log() + ball(Fraction(excess)))
    return Start(
        name, method, "finished", "", loss, error, excess, float_below(lower), float_above(upper),
        _used(problem, theta), evaluations,
    )  # fmt: skip


def require_as_claimed(problem: MinimiserProblem, theta: Theta, claimed: Start) -> None:
    """Check a start that was read from a file: its constraint, and every figure but the number of evaluations.

    Raises:
        RejectedThetaError: the constraint is violated, or a figure is not what the point gives.
    """
    found = judged(problem, claimed.name, claimed.method, theta, claimed.evaluations)
    for name, value in found.document().items():
        told = getattr(claimed, name)
        if value != told and not (
            isinstance(value, float) and isinstance(told, float) and isclose(value, told, rel_tol=1e-9)
        ):
            raise RejectedThetaError(f"{name} is {value}, not {told}")


def _used(problem: MinimiserProblem, theta: Theta) -> float:
    if problem.norm == "linf":
        return float(np.mean(np.abs(theta) >= SATURATED * problem.largest_entry))
    return float(np.linalg.norm(theta) / float(problem.square_radius) ** 0.5)


def _estimate(problem: MinimiserProblem, head: HeadWeights) -> tuple[float, float]:
    """The excess (exact, or estimated from the fresh sample) and its standard error."""
    ceiling, judge = float(problem.ceiling), problem.judge
    if problem.exact:
        return judge.excess(head, ceiling), 0.0
    each, lengths = judge.string_excesses(head, ceiling), judge.strings.lengths
    by_length = [each[lengths == n] for n in range(1, problem.setting.length + 1)]
    variance = sum(float(values.var(ddof=1)) / JUDGING_SAMPLE for values in by_length[ENUMERATED_IN_SAMPLE:])
    return float(np.mean([values.mean() for values in by_length])), variance**0.5 / problem.setting.length
