"""Are all strings of all lengths copied by a one-layer, one-head model? Decided, with the worst string.

The worst N of every step of every length is `P(i) + H(n-i)` (`_worst_case`): in float64 with the rounding bound
derived there, and in balls for the cases whose worst N lies within that bound of 0. What neither decides stays
UNDECIDED.

The *margin* is the least logit difference N/D over all strings, steps and competitors, before the positive factor of a
final norm; over all lengths asked for, or up to the first one that fails.

Everything is decided in units of a power of two near the largest vote (`OneLayerModel.in_units`) and told in logits: a
verdict does not depend on the scale of the weights. What floats cannot carry is handed to balls; a comparison with an
error that is not finite decides nothing. A `CertifiedHead` that contradicts itself cannot be made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce
from math import isfinite
from typing import Any

import numpy as np
from flint import arb
from jaxtyping import Int64

from theory.numbers import (
    UNIT_ROUNDOFF,
    InputError,
    Rounded,
    Vote,
    ball,
    exact_middle,
    float_at_most,
    last_true,
    lower_fraction,
    nearest_float,
    require_at_least,
    running_minimum,
    total,
    working_precision,
)
from theory.one_layer._model import MODEL_PRECISION, OneLayerModel, StepCase
from theory.one_layer._weights import BallKernels, FloatKernels, Kernels, RoundedKernels, Span, TooCoarseError
from theory.one_layer._worst_case import (
    BALLS,
    FLOATS,
    Balls,
    Family,
    Geometry,
    assemble,
    first_step,
    float_votes,
    later_steps,
    least_numerators,
    needed_spans,
    total_weight,
    worst_string,
)
from theory.task import Status

#: Longest strings looked at.
LARGEST_LENGTH = 10**7

#: Longest strings of models that have string and copy in one row: work grows with the square.
LARGEST_ONE_ROW_LENGTH = 20_000

#: Lengths up to which is decided first; each further round takes eight times as many.
FIRST_HORIZON, GROWTH = 64, 8

#: Precisions at which balls try what floats leave open, and the largest horizon at which they do.
BALL_PRECISIONS, LARGEST_BALL_HORIZON = (128, 256, 768), 100_000

#: Largest horizon at which balls are asked for a lower bound of the margin.
LARGEST_MARGIN_HORIZON = 512

#: Strings of at most this length have their ratio evaluated in balls, at growing precision while its sign is open.
LONGEST_BALL_STRING, RATIO_PRECISIONS = 20_000, (MODEL_PRECISION, 2 * MODEL_PRECISION, 4 * MODEL_PRECISION)

#: Rounds of Dinkelbach's iteration; each lowers the ratio, and a handful is usual.
MOST_ROUNDS = 64

#: Bounds of ratios below 2^-LEAST_TOLD, in units, are none in logits.
LEAST_TOLD = 8192

#: Below this a denominator in floats says too little.
LEAST_DENOMINATOR = 2.0**-600

#: Most tokens around the string, times lengths.
MOST_WORK = 2 * 10**10

Tick = Callable[[], None]


@dataclass(frozen=True)
class WorstStep:
    """A step of a string.

    Attributes:
        length, step: of the string; the step is 1-based.
        case: query token, symbol to write, competitor.
        string: the symbols.
        difference: the logit difference N/D there, as it was found; it has the right sign where a verdict rests on it.
    """

    length: int
    step: int
    case: StepCase
    string: Int64[np.ndarray, " n"]
    difference: Fraction

    @property
    def ratio(self) -> float:
        """The difference as a float of the same sign, at the end of the range where it lies beyond."""
        return nearest_float(self.difference)

    def in_logits(self, unit: int) -> WorstStep:
        """The same step, its difference having been in units of 2^unit."""
        return replace(self, difference=self.difference * Fraction(2) ** unit)


@dataclass(frozen=True)
class CertifiedHead:
    """What was decided about all strings of all lengths up to `max_length`.

    Attributes:
        max_length: largest length asked for.
        proved_to: every string of every length up to it is copied, proved (0: nothing proved).
        fails_at: the least length with a string proved not to be copied, or None.
        margin_below: a proved lower bound of the margin, above 0 if PROVED; None if none was found, or no float is one.
        worst: where the margin is attained, as found in floats or balls.
        balls: was anything decided in balls?
        least_length: smallest length looked at; `proved_to` speaks of the lengths from there on.
    """

    max_length: int
    proved_to: int
    fails_at: int | None
    margin_below: float | None
    worst: WorstStep
    balls: bool
    least_length: int = 1

    def __post_init__(self) -> None:
        """ArithmeticError if the verdict and the step shown contradict each other."""
        require_consistent(self.status, self.worst, self.fails_at, self.margin_below)

    @property
    def margin(self) -> float:
        """The least logit difference over all strings of all lengths up to max_length, or to the first that fails."""
        return self.worst.ratio

    @property
    def status(self) -> Status:
        """PROVED: all strings of all lengths up to max_length are copied. REFUTED: some string is not."""
        if self.fails_at is not None:
            return "REFUTED"
        return "PROVED" if self.proved_to >= self.max_length else "UNDECIDED"

    @property
    def limit(self) -> int | None:
        """The largest length up to which all strings are copied, if it was decided and is below max_length."""
        return self.proved_to if self.least_length == 1 and self.fails_at == self.proved_to + 1 else None


def require_consistent(status: Status, worst: WorstStep, fails_at: int | None, below: float | None = None) -> None:
    """ArithmeticError if a verdict contradicts the step or bound shown beside it, so that none such is ever told."""
    where = f"step {worst.step} of length {worst.length}"
    if status == "PROVED" and below is not None and not below > 0:
        raise ArithmeticError(f"proved, and yet the margin is bounded by {below}")
    if status == "PROVED" and not worst.difference > 0:
        raise ArithmeticError(f"proved, and yet {where} is wrong")
    if status == "REFUTED" and not (worst.difference <= 0 and worst.length == fails_at):
        raise ArithmeticError(f"refuted at length {fails_at}, but not by {where}")


def certify_strings(model: OneLayerModel, max_length: int, tick: Tick = lambda: None) -> CertifiedHead:
    """Decide whether a one-head model copies every string of every length up to `max_length`, by arg-max.

    Args:
        model: one layer, one head.
        max_length: largest length.
        tick: called after each query token and symbol, for a progress bar.

    Returns:
        A CertifiedHead; method float+bound, or ball where floats leave the sign of a worst numerator open.

    Raises:
        InputError: several heads, max_length < 1, or beyond 10^7 (20,000 where string and copy stand in one row).

    Cost: with rows between string and copy O(max_length) kernel entries and work; in one row O(max_length^2) work.
    """
    if len(model.heads) != 1:
        raise InputError("heads", len(model.heads), "1; several heads have a search of their own")
    require_length(model, max_length)
    horizon, scaled = min(max_length, FIRST_HORIZON), model.in_units()
    while True:
        decider = Decider(scaled, horizon, tick)
        proved, fails = decider.decide()
        if fails is not None or proved < horizon or horizon == max_length:
            break
        horizon = min(max_length, horizon * GROWTH)
    worst, bound = decider.margin(proved, fails)
    below = None if bound is None else told_bound(bound * Fraction(2) ** scaled.unit)
    return CertifiedHead(max_length, proved, fails, below, worst.in_logits(scaled.unit), decider.used_balls)


def told_bound(bound: Fraction) -> float | None:
    """A lower bound as a float that is not above it; None where that is minus infinity, or 0 for a bound above 0."""
    told = float_at_most(bound)
    return told if isfinite(told) and (told != 0 or bound <= 0) else None


def require_length(model: OneLayerModel, max_length: int) -> None:
    """InputError unless the length is positive and within reach for this model."""
    require_at_least("max_length", max_length, 1)
    one_row = not model.template.placement.separate
    largest = LARGEST_ONE_ROW_LENGTH if one_row else LARGEST_LENGTH
    if max_length > largest:
        why = " (string and copy stand in one row, so that work grows with the square)" if one_row else ""
        raise InputError("max_length", max_length, f"at most {largest}{why}")
    around = len(model.template.prefix) + len(model.template.infix)
    if max_length * around > MOST_WORK:
        allowed = f"at most {MOST_WORK // around} with {around} tokens around the string"
        raise InputError("max_length", max_length, allowed)


@dataclass(frozen=True)
class LeastSums:
    """P by step and H by n - i in floats: the least N of length i + m at step i is P(i) + H(m).

    Attributes:
        first: the least step.
        only: the single length that they are about, or None: all up to the horizon.
        before, after: P and H.
    """

    first: int
    only: int | None
    before: Rounded
    after: Rounded

    @cached_property
    def error(self) -> float:
        """What any P + H is off by; four roundings more than the sum has, for the ways in which they are compared."""
        whole = self.before[:1] + self.after[:1]
        return replace(whole, relative=whole.relative + 4 * UNIT_ROUNDOFF).error

    @cached_property
    def _running(self) -> Rounded:
        return running_minimum(self.after)

    def least(self, last: int) -> tuple[float, int, int]:
        """The least N over lengths up to `last`, and its length and step."""
        if self.only is not None:
            return self.least_at(self.only)
        count = last - self.first + 1
        before = self.before.value[:count]
        values = before + self._running.value[:count][::-1][: before.size]
        best = int(np.argmin(values))
        rest = int(np.argmin(self.after.value[: count - best]))
        return float(values[best]), self.first + best + rest, self.first + best

    def least_at(self, length: int) -> tuple[float, int, int]:
        """The least N of one length, and its length and step."""
        count = length - self.first + 1
        before = self.before.value[:count]
        values = before + self.after.value[:count][::-1][: before.size]
        best = int(np.argmin(values))
        return float(values[best]), length, self.first + best

    def first_length(self, level: float, horizon: int) -> int | None:
        """The least length up to the horizon at which the least N is at most `level`."""
        if self.only is not None:
            return self.only if bool((self.before.value + self.after.value[::-1] <= level).any()) else None
        rests = np.searchsorted(-self._running.value, self.before.value - level)
        lengths = self.first + np.arange(len(self.before)) + rests
        found = lengths[(rests < len(self.after)) & (lengths <= horizon)]
        return int(found.min()) if found.size else None


class View:
    """What one query token sees for all lengths up to `horizon`, or for the length `only`.

    Args:
        model: with one head, or several of which `head` is meant.
        geometry: where the query sees things.
        horizon: largest length.
        only: the single length that the geometry is about, or None.
        kernels: weights in float64 of all columns that are needed.
        head: number of the head.
    """

    def __init__(
        self,
        model: OneLayerModel,
        geometry: Geometry,
        horizon: int,
        only: int | None,
        kernels: Kernels,
        head: int = 0,
    ) -> None:
        self.model, self.geometry, self.horizon, self.only = model, geometry, horizon, only
        self.kernels, self.head = kernels, head
        self.family = assemble(geometry, model.template.data, horizon, kernels.weights)
        self._balls: dict[tuple[int, int], Family] = {}

    def least_sums(self, symbol: int, votes: Mapping[int, Vote]) -> LeastSums:
        """The least N of every step of every length, in floats with their bound. Cost: O(horizon)."""
        before, after = least_numerators(self.family, symbol, votes, FLOATS)
        if not (isinstance(before, Rounded) and isinstance(after, Rounded)):
            raise TypeError("floats expected")
        return LeastSums(self.geometry.least_step, self.only, before, after)

    def string(self, case: StepCase, votes: Mapping[int, Any], length: int, step: int) -> Int64[np.ndarray, " n"]:
        """The string that attains the least N at a length and step."""
        return worst_string(self.family, case, votes, length, step)

    def balls(self, horizon: int, precision: int) -> Family:
        """The family in balls, at that working precision, which is in force."""
        if (horizon, precision) not in self._balls:
            kernels = BallKernels(self.model.frequencies, self.model.heads[self.head])

            def weights(key: int, row: int, span: Span) -> Balls:
                return np.array([*kernels.weights(self.geometry.query, key, row, span), None], dtype=object)[:-1]

            self._balls[horizon, precision] = assemble(self.geometry, self.model.template.data, horizon, weights)
        return self._balls[horizon, precision]


@dataclass(frozen=True)
class BallDecision:
    """What balls say about one case: N > 0 up to the length `proved`; N <= 0 for some string of length `fails`."""

    proved: int
    fails: int | None
    step: int | None = None
    string: Int64[np.ndarray, " n"] | None = None


def decide_in_balls(view: View, case: StepCase, votes: Mapping[int, arb], horizon: int) -> BallDecision:
    """Decide a case up to `horizon` in balls, at growing precision. Cost: O(horizon) ball operations."""
    best = BallDecision(view.geometry.least_step - 1, None)
    if view.only is not None:
        best = BallDecision(view.only - 1, None)
    if horizon > LARGEST_BALL_HORIZON:
        return best
    for precision in BALL_PRECISIONS:
        with working_precision(precision):
            best = _attempt_in_balls(view, case, votes, horizon, precision)
        if best.proved >= (horizon if best.fails is None else best.fails - 1):
            break
    return best


def _attempt_in_balls(
    view: View, case: StepCase, votes: Mapping[int, arb], horizon: int, precision: int
) -> BallDecision:
    family = view.balls(horizon, precision)
    before, after = least_numerators(family, case.symbol, votes, BALLS)
    first = view.geometry.least_step
    running = after
    if view.only is None:
        running = np.frompyfunc(lambda x, y: x.min(y), 2, 1).accumulate(after)

    def sums(length: int) -> Balls:
        count = length - first + 1
        total: Balls = before[:count] + running[:count][::-1][: before[:count].size]
        return total

    def proved(length: int) -> bool:
        return all(value > 0 for value in sums(length))

    def failed(length: int) -> bool:
        return any(value <= 0 for value in sums(length))

    lengths = range(first, horizon + 1) if view.only is None else range(view.only, view.only + 1)
    copied = last_true(proved, lengths.start - 1, lengths.stop)
    fails = 1 + last_true(lambda length: not failed(length), lengths.start - 1, lengths.stop)
    if fails == lengths.stop:
        return BallDecision(copied, None)
    index = next(i for i, value in enumerate(sums(fails)) if value <= 0)
    string = worst_string(family, case, votes, fails, first + index)
    return BallDecision(copied, fails, first + index, string)


def _least_in_balls(view: View, symbol: int, votes: Mapping[int, arb], reach: int, precision: int) -> arb:
    """A number that no N of lengths up to `reach` (or of the length `only`) is below; the precision is in force."""
    before, after = least_numerators(view.balls(reach, precision), symbol, votes, BALLS)
    if view.only is None:
        after = np.frompyfunc(arb.min, 2, 1).accumulate(after)
    count = reach - view.geometry.least_step + 1
    ends: list[arb] = [value.lower() for value in before[:count] + after[:count][::-1][: before[:count].size]]
    return reduce(lambda left, right: left.min(right), ends)


class Decider:
    """Decides a model with one head, its logits in units (`in_units`), up to one horizon."""

    def __init__(self, model: OneLayerModel, horizon: int, tick: Tick = lambda: None) -> None:
        self.model, self.horizon, self.tick = model, horizon, tick
        self.used_balls = False
        self.cases = model.cases()
        self.votes = {case: model.single_votes(case) for case in self.cases}
        self.zero = {case: float_votes(votes) for case, votes in self.votes.items()}
        self.failures: list[WorstStep] = []
        self._kernels: dict[tuple[int, bool], Kernels] = {}
        self._kept: dict[tuple[int, bool], View] = {}

    def decide(self) -> tuple[int, int | None]:
        """(all strings up to it are copied, the least length with a string that is not)."""
        proved, fails = self.horizon, None
        for view, case in self.questions(self.horizon):
            if view.only is not None and fails is not None and view.only > fails:
                break
            decided = self._decide(view, case, self.horizon if fails is None else fails)
            proved = min(proved, decided.proved)
            if decided.fails is not None and (fails is None or decided.fails < fails):
                fails = decided.fails
        return proved, fails

    def questions(self, last: int) -> Iterator[tuple[View, StepCase]]:
        """Every query token, for lengths up to `last`, with every case of it."""
        for view in self.views(last):
            for case in self.cases:
                if (case.query, case.first) == (view.geometry.query, view.geometry.first):
                    yield view, case
            self.tick()

    def views(self, last: int) -> Iterator[View]:
        """Step 1; then the later steps, for all lengths at once or, where string and copy share a row, one by one."""
        template = self.model.template
        yield self._view(first_step(template), None)
        if last < 2:
            return
        if template.placement.separate:
            for query in template.data:
                yield self._view(later_steps(template, query), None)
            return
        for length in range(2, last + 1):
            for query in template.data:
                yield self._view(later_steps(template, query, length), length)

    def _view(self, geometry: Geometry, only: int | None) -> View:
        place = geometry.query, geometry.first
        if only is None and place in self._kept:
            return self._kept[place]
        if place not in self._kernels:
            needed = needed_spans(geometry, self.model.template.data, self.horizon)
            for length in () if only is None else (2, self.horizon):
                other = later_steps(self.model.template, geometry.query, length)
                for key, span in needed_spans(other, self.model.template.data, self.horizon).items():
                    needed[key] = needed[key].join(span)
            self._kernels[place] = kernels_for(self.model, 0, geometry.query, needed)
        view = View(self.model, geometry, self.horizon if only is None else only, only, self._kernels[place])
        if only is None:
            self._kept[place] = view
        return view

    def _decide(self, view: View, case: StepCase, last: int) -> BallDecision:
        """One case: proved up to, and failing at, within `last`. The step that fails is kept."""
        sums = view.least_sums(case.symbol, self.zero[case])
        possible: int | None = view.geometry.least_step if view.only is None else view.only
        certain = None
        if isfinite(sums.error):
            possible = sums.first_length(sums.error, view.horizon)
            certain = sums.first_length(-sums.error, view.horizon)
        if possible is None or possible > last:
            return BallDecision(self.horizon, None)
        if certain == possible:
            self._keep_certain(view, case, sums, certain)
            return BallDecision(certain - 1, certain)
        self.used_balls = True
        decided = decide_in_balls(view, case, self.votes[case], min(last, view.horizon if certain is None else certain))
        if decided.fails is not None and decided.step is not None and decided.string is not None:
            found = WorstStep(decided.fails, decided.step, case, decided.string, Fraction(0))
            self.failures.append(self._weighed(found, view))
        elif certain is not None and certain <= last:
            self._keep_certain(view, case, sums, certain)
        proved = max(possible - 1, decided.proved)
        fails = decided.fails if decided.fails is not None else certain
        if fails is None and proved >= min(last, view.horizon):
            proved = self.horizon
        return BallDecision(proved, fails)

    def _keep_certain(self, view: View, case: StepCase, sums: LeastSums, length: int) -> None:
        """Keep the step of that length whose N is certainly negative."""
        value, _, step = sums.least_at(length)
        string = view.string(case, self.zero[case], length, step)
        found = self._rated(view, case, string, step, 0.0, value)
        if length <= LONGEST_BALL_STRING or found is None:
            found = self._weighed(WorstStep(length, step, case, string, Fraction(0)), view)
        self.failures.append(found)

    def threshold(self, case: StepCase, found: CertifiedHead, last: int) -> float:
        """A logit difference, in units, that all strings of lengths up to `last` are proved to exceed in this case.

        Precondition: all strings of these lengths are copied.
        """
        worst, _ = self._least_ratio(last, case)
        for threshold in somewhat_below(worst.ratio):
            if self._all_above(threshold, last, case):
                # Every N is positive, so that 0 is exceeded in any case.
                return max(0.0, threshold)
        below = found.margin_below
        if below is None or not (below > 0 and isfinite(below)):
            return 0.0
        return max(0.0, float_at_most(Fraction(below) * Fraction(2) ** -self.model.unit))

    def margin(self, proved: int, fails: int | None) -> tuple[WorstStep, Fraction | None]:
        """The step with the least ratio over the lengths decided, and a number that all of them are proved to exceed.

        Of what was decided by `decide`; lengths up to the horizon, or to the first that fails. Both in units.
        """
        last = self.horizon if fails is None else fails
        worst, view = self._least_ratio(last, None)
        copied = fails is None and proved >= last
        if copied or worst.length <= LONGEST_BALL_STRING:
            worst = self._weighed(worst, view)
        if fails is not None:
            failing = [step for step in self.failures if step.length == fails]
            certain = worst.length == fails and worst.length <= LONGEST_BALL_STRING and worst.difference < 0
            worst = min([worst, *failing] if certain else failing, key=lambda step: step.difference)
        below = self._margin_below(worst.ratio, last)
        if not copied:
            if below is None and last <= LARGEST_MARGIN_HORIZON:
                worst = self._lowered_in_balls(worst, last)
                below = self._margin_below(worst.ratio, last)
            return worst, below
        # Every N is proved positive then, so every ratio is above 0. A bound far below the ratio found says that floats
        # may not have seen the least of them.
        if loose(below, worst) and last <= LARGEST_MARGIN_HORIZON:
            worst = self._lowered_in_balls(worst, last)
            parts = (tau for tau in parts_of(worst.difference) if self._all_above_in_balls(tau, last))
            below = max(below or Fraction(0), next(parts, Fraction(0)))
        if loose(below, worst):
            below = max(below or Fraction(0), self._positive_below(last))
        return worst, below or None

    def _least_ratio(self, last: int, only: StepCase | None) -> tuple[WorstStep, View]:
        """The step with the least ratio, of one case or of all, by Dinkelbach's iteration in float64: a search."""
        worst: WorstStep | None = None
        place: View | None = None
        for view, case in self.questions(last):
            if only is not None and case != only:
                continue
            for _ in range(MOST_ROUNDS):
                threshold = 0.0 if worst is None else worst.ratio
                votes = float_votes(self.votes[case], threshold)
                value, length, step = view.least_sums(case.symbol, votes).least(last)
                if worst is not None and not value < 0:
                    break
                string = view.string(case, votes, length, step)
                found = self._rated(view, case, string, step, threshold, value)
                if found is None and (worst is None or length <= LONGEST_BALL_STRING):
                    found = self._weighed(WorstStep(length, step, case, string, Fraction(0)), view)
                if found is None or (worst is not None and found.difference >= worst.difference):
                    break
                worst, place = found, view
        if worst is None or place is None:
            raise ArithmeticError("no step was looked at")
        return worst, place

    def _rated(
        self, view: View, case: StepCase, string: Int64[np.ndarray, " n"], step: int, threshold: float, value: float
    ) -> WorstStep | None:
        """The step with its ratio from N and D in floats; None where they are out of range."""
        weight = total_weight(view.family, string, step)
        if not (weight > LEAST_DENOMINATOR and isfinite(value) and isfinite(weight)):
            return None
        return WorstStep(len(string), step, case, string, Fraction(threshold + value / weight))

    def _weighed(self, step: WorstStep, view: View) -> WorstStep:
        """The step with its ratio from balls."""
        return replace(step, difference=step_difference(self.model, view.geometry, step, self.votes[step.case]))

    def _lowered_in_balls(self, worst: WorstStep, last: int) -> WorstStep:
        """A step with a smaller ratio if balls see one: weights may differ by more than floats can hold."""
        for view, case in self.questions(last):
            reach = last if view.only is None else view.only
            for _ in range(MOST_ROUNDS):
                with working_precision(MODEL_PRECISION):
                    tau = ball(worst.difference)
                    votes = {token: vote - tau for token, vote in self.votes[case].items()}
                    family = view.balls(reach, MODEL_PRECISION)
                    length, step = _lowest(view, least_numerators(family, case.symbol, votes, BALLS))
                    string = worst_string(family, case, votes, length, step)
                found = self._weighed(WorstStep(length, step, case, string, Fraction(0)), view)
                if not found.difference < worst.difference:
                    break
                worst = found
        return worst

    def _margin_below(self, ratio: float, last: int) -> Fraction | None:
        """A number that all ratios of lengths up to `last` are proved to exceed, close below the least; or None."""
        return next((Fraction(value) for value in somewhat_below(ratio) if self._all_above(value, last)), None)

    def _all_above(self, threshold: float, last: int, only: StepCase | None = None) -> bool:
        for view, case in self.questions(last):
            if only is not None and case != only:
                continue
            sums = view.least_sums(case.symbol, float_votes(self.votes[case], threshold))
            value, _, _ = sums.least(last)
            if not value > sums.error and not self._above_in_balls(view, case, Fraction(threshold), last):
                return False
        return True

    def _all_above_in_balls(self, threshold: Fraction, last: int) -> bool:
        return all(self._above_in_balls(view, case, threshold, last) for view, case in self.questions(last))

    def _positive_below(self, last: int) -> Fraction:
        """A number that all ratios of lengths up to `last` are proved to exceed, above 0 if every N is proved positive.

        The least N over the largest D: `N/D >= least N / largest D` as both are positive, whatever their strings are.
        0 if that is below 2^-8192, beyond every float in logits. Cost: as `decide`.
        """
        return min(self._quotient_below(view, case, last) for view, case in self.questions(last))

    def _quotient_below(self, view: View, case: StepCase, last: int) -> Fraction:
        # The largest D is minus the least N of votes that are all -1.
        sums = view.least_sums(case.symbol, self.zero[case])
        weights = view.least_sums(case.symbol, {token: Vote(-1.0, 0.0) for token in self.zero[case]})
        (least, _, _), (most, _, _) = sums.least(last), weights.least(last)
        if least > sums.error and isfinite(weights.error):
            return (Fraction(least) - Fraction(sums.error)) / (Fraction(weights.error) - Fraction(most))
        reach = last if view.only is None else view.only
        for precision in BALL_PRECISIONS if reach <= LARGEST_BALL_HORIZON else ():
            with working_precision(precision):
                numerator = _least_in_balls(view, case.symbol, self.votes[case], reach, precision)
                minus = {token: arb(-1) for token in self.votes[case]}
                quotient = numerator / -_least_in_balls(view, case.symbol, minus, reach, precision)
                if quotient > arb((1, -LEAST_TOLD)):
                    return lower_fraction(quotient)
        return Fraction(0)

    def _above_in_balls(self, view: View, case: StepCase, threshold: Fraction, last: int) -> bool:
        reach = last if view.only is None else view.only
        if reach > LARGEST_MARGIN_HORIZON:
            return False
        with working_precision(MODEL_PRECISION):
            votes = {token: vote - ball(threshold) for token, vote in self.votes[case].items()}
        return decide_in_balls(view, case, votes, reach).proved >= reach


def somewhat_below(ratio: float, nearest: float = 2.0**-40, unit: float = 1e-3, factor: int = 256) -> Iterator[float]:
    """Numbers below a ratio that is to be proved, each `factor` times as far off as the one before, up to 2^-4 of it.

    The first is off by `nearest` of the ratio, or of `unit` where that is larger.
    """
    size = max(unit, abs(ratio))
    slack = nearest
    while slack < 0.1:
        yield ratio - slack * size
        slack *= factor


def loose(below: Fraction | None, worst: WorstStep) -> bool:
    """Is a bound of ratios that are all positive far below the least one found?"""
    return below is None or not 2 * below > worst.difference


def parts_of(ratio: Fraction) -> Iterator[Fraction]:
    """Numbers between 0 and a positive ratio that is to be proved, however small it is."""
    for bits in (40, 20, 8, 1):
        yield ratio - ratio / 2**bits


def _lowest(view: View, sums: tuple[Any, Any]) -> tuple[int, int]:
    """Length and step of the least N in balls, by lower ends. Cost: O(horizon)."""
    before, after = sums
    first = view.geometry.least_step
    if view.only is not None:
        return view.only, first + _lowest_index(before + after[::-1])[-1]
    ends = _lowest_index(after)
    count = len(after)
    index = _lowest_index([value + after[ends[count - 1 - i]] for i, value in enumerate(before)])[-1]
    return first + index + ends[count - 1 - index], first + index


def _lowest_index(values: Iterable[arb]) -> list[int]:
    """For each number of values from the front the index of the one with the least lower end."""
    result: list[int] = []
    best, least = 0, None
    for index, value in enumerate(values):
        lower = value.lower()
        if least is None or lower < least:
            best, least = index, lower
        result.append(best)
    return result


def kernels_for(model: OneLayerModel, head: int, query: int, needed: Mapping[tuple[int, int], Span]) -> Kernels:
    """Weights in float64, from floats or, where scores are too large for them, from balls.

    Raises:
        InputError: scores too large for balls of the model's precision.
    """
    try:
        return FloatKernels(model.frequencies, model.heads[head], query, needed)
    except TooCoarseError:
        return RoundedKernels(model.frequencies, model.heads[head], query, needed)


def step_ratio(
    model: OneLayerModel,
    geometry: Geometry,
    step: WorstStep,
    votes: Mapping[int, arb],
    head: int = 0,
    precision: int = MODEL_PRECISION,
) -> arb:
    """N/D of one step of one string in balls, straight from its tokens' positions. Cost: O(length) balls."""
    weights = step_weights(model, geometry, step, head, precision)
    with working_precision(precision):
        return total(weight * votes[token] for token, weight in weights.items()) / total(weights.values())


def step_difference(model: OneLayerModel, geometry: Geometry, step: WorstStep, votes: Mapping[int, arb]) -> Fraction:
    """N/D of one step of one string: near it, and of its sign if balls tell that, else 0. Cost: as `step_ratio`."""
    for precision in RATIO_PRECISIONS:
        ratio = step_ratio(model, geometry, step, votes, precision=precision)
        if ratio > 0 or ratio < 0:
            with working_precision(MODEL_PRECISION):
                return exact_middle(ratio)
    return Fraction(0)


def step_weights(
    model: OneLayerModel, geometry: Geometry, step: WorstStep, head: int = 0, precision: int = MODEL_PRECISION
) -> dict[int, arb]:
    """The weight that each token has at one step of one string, its occurrences together. Cost: O(length) balls."""
    rows, columns = model.template.positions(step.length, step.step)
    tokens = model.template.sequence(step.string, step.step)
    result: dict[int, arb] = {}
    with working_precision(precision):
        kernels = BallKernels(model.frequencies, model.heads[head])
        for token in np.unique(tokens).tolist():
            for row in np.unique(rows[tokens == token]):
                at = columns[(tokens == token) & (rows == row)] - columns[-1]
                span = Span(int(at.min()), int(at.max()))
                weights = kernels.weights(geometry.query, token, int(row - rows[-1]), span)
                result[token] = result.get(token, arb(0)) + total(weights[int(column) - span.first] for column in at)
    return result
