"""Several heads: a sound lower bound for all strings of all lengths, a search for counterexamples, and branching.

The logit difference is `direct + sum over heads h of N_h/D_h`, each head with its own denominator, so its minimum over
strings does not split. But each head's least ratio r_h does (Dinkelbach), and

    direct + sum over heads of r_h  <=  the difference at every string                        (label: new)

with r_h taken over all lengths and steps at once: O(length) work in all, and `> 0` proves every string. It is an
equality where one string is worst for all heads. The bound falls with the largest length, so that bisection finds how
far it reaches. Beyond that, lengths up to 40 are looked at one by one, step by step, by branching on single symbols
(`_branching`). Counterexamples are looked for at the lengths where the heads' worst strings stand and at the first
length that the bound leaves open: worst strings of each head, then single flips that lower the sum. A string counts
as one only if balls say that its difference is at most 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, isfinite
from typing import NamedTuple

import numpy as np
from flint import arb
from jaxtyping import Float64, Int64

from theory.numbers import (
    InputError,
    ball,
    exact_middle,
    float_below,
    furthest,
    lower_fraction,
    total,
    working_precision,
)
from theory.one_layer._branching import LEAF_BITS, Budget, Choice, FoundError, Question, Ratio, StuckError, Tree
from theory.one_layer._model import MODEL_PRECISION, OneLayerModel, StepCase
from theory.one_layer._one_head import (
    LEAST_DENOMINATOR,
    MOST_ROUNDS,
    RATIO_PRECISIONS,
    Tick,
    View,
    WorstStep,
    kernels_for,
    require_consistent,
    require_length,
    somewhat_below,
    step_weights,
    told_bound,
)
from theory.one_layer._worst_case import Geometry, first_step, float_votes, later_steps, needed_spans, total_weight
from theory.task import Status

#: Lengths are looked at one by one up to this, and so many nodes are spent in all.
LONGEST_SEARCH, NODES = 40, 20_000

#: Strings of at most this length have their difference evaluated in balls.
LONGEST_BALL_STRING = 20_000


class Place(NamedTuple):
    """What a tree is about: step and length, query token, symbol to write, competitor (None: all of them)."""

    length: int
    step: int
    query: int
    symbol: int
    competitor: int | None


@dataclass(frozen=True)
class CertifiedHeads:
    """What was decided about a model with several heads.

    Attributes:
        status: of all strings of all lengths asked for.
        worst: the string with the least difference that was found; a counterexample if REFUTED.
        margin_below: a proved lower bound of all differences, if PROVED by the sum of the heads' bounds; else None.
        fails_at: the length of the counterexample, or None. Shorter ones may exist unless it is proved_to + 1.
        proved_to: all strings of all lengths up to it are proved to be copied.
        bounded_to: the part of it that the sum of bounds proves.
        thresholds: for each case a number for each head, in logits, that its ratios exceed up to `bounded_to`.
        trees: proofs of all steps of the lengths from there to `proved_to`.
        unit: the numbers of the trees' leaves are in units of 2^(unit - 44).
        remark: how it was decided.
    """

    status: Status
    worst: WorstStep
    margin_below: float | None
    fails_at: int | None
    proved_to: int
    bounded_to: int
    thresholds: dict[StepCase, tuple[Fraction, ...]]
    trees: dict[Place, Tree]
    unit: int
    remark: str

    def __post_init__(self) -> None:
        """ArithmeticError if the verdict and the step shown contradict each other."""
        require_consistent(self.status, self.worst, self.fails_at, self.margin_below)

    @property
    def limit(self) -> int | None:
        """The largest length up to which all strings are copied, if it was found."""
        return self.proved_to if self.fails_at == self.proved_to + 1 else None


def branch_on_lengths(decide: Callable[[int], None], proved: int, last: int, tick: Tick) -> tuple[int, str]:
    """Branch on the lengths proved + 1, ..., last one by one, up to LONGEST_SEARCH.

    Args:
        decide: proves one length, or raises FoundError or StuckError (theory/one_layer/_branching.py).
        proved: the lengths that are proved already.
        last: the longest length asked for.
        tick: called after each length.

    Returns:
        Up to which length all are proved, and what ends it if that is not `last` and no string was found.
    """
    try:
        while proved < min(last, LONGEST_SEARCH):
            decide(proved + 1)
            proved += 1
            tick()
    except StuckError as stuck:
        return proved, str(stuck)
    except FoundError:
        pass
    return proved, f"lengths above {LONGEST_SEARCH} are not branched on"


def certify_heads(
    model: OneLayerModel, max_length: int, tick: Tick = lambda: None, nodes: int = NODES
) -> CertifiedHeads:
    """Decide, as far as the bounds go, whether a model with any number of heads copies every string up to `max_length`.

    Args:
        model: one layer, any number of heads, with rows between string and copy (in one row: lengths up to 40).
        max_length: largest length.
        tick: called after each query token or length.
        nodes: budget of the branching.

    Raises:
        InputError: max_length < 1 or too large.

    Cost: O(heads max_length), log(max_length) times that where the bound does not reach all lengths, then up to
    `nodes` times O(heads length).
    """
    require_length(model, max_length)
    separate = model.template.placement.separate
    if not separate and max_length > LONGEST_SEARCH:
        raise InputError("max_length", max_length, f"at most {LONGEST_SEARCH} with several heads in one row")
    search = _Search(model.in_units(), Budget(nodes))
    bounded = search.bound_all(max_length, tick) if separate else 0
    if bounded == max_length:
        return search.result("PROVED", bounded, "the sum of the heads' least ratios")
    proved, why = branch_on_lengths(search.length, bounded, max_length, tick)
    if search.refuted is None and proved < max_length:
        search.look_upwards(proved + 1, max_length)
    elif search.refuted is not None and search.refuted.length > proved + 1:
        search.look_at(proved + 1)
    search.look_downwards(proved)
    if search.refuted is not None:
        return search.result("REFUTED", proved, "a string found by branching on single symbols or by flipping them")
    if proved == max_length:
        return search.result("PROVED", proved, f"branching on single symbols, {search.budget.spent} nodes")
    return search.result("UNDECIDED", proved, f"the sum of the heads' least ratios reaches {bounded}; {why}")


class FailureSearch(ABC):
    """A search for a short string that fails, over lengths.

    Attributes:
        refuted: the shortest that was found.
    """

    refuted: WorstStep | None = None

    @abstractmethod
    def look_at(self, length: int) -> None:
        """Search one length; what is found is kept."""

    def look_upwards(self, first: int, last: int) -> None:
        """Search lengths from the first that is open on, each twice as long, up to the first counterexample."""
        length, last = first, min(last, LONGEST_BALL_STRING)
        while self.refuted is None and length <= last:
            self.look_at(length)
            length = min(2 * length, last) if length < last else last + 1

    def look_downwards(self, proved: int) -> None:
        """Look for a shorter counterexample between the lengths proved and the one found, by bisection."""
        low = proved
        while self.refuted is not None and self.refuted.length - low > 1:
            middle = (low + self.refuted.length) // 2
            self.look_at(middle)
            if self.refuted.length > middle:
                low = middle


class _Search(FailureSearch):
    """What was found so far: bounds, proofs by branching, the worst string."""

    def __init__(self, model: OneLayerModel, budget: Budget) -> None:
        self.model, self.budget = model, budget
        self.heads = range(len(model.heads))
        self.votes = {case: [model.votes(h, case) for h in self.heads] for case in model.cases()}
        self.direct = {case: model.direct_vote(case) for case in model.cases()}
        self.bounds: dict[StepCase, tuple[float, ...]] = {}
        self.trees: dict[Place, Tree] = {}
        self.bounded = 0
        self.best: WorstStep | None = None

    def result(self, status: Status, proved: int, remark: str) -> CertifiedHeads:
        """The decision in one object."""
        worst = self.refuted or self.best
        if worst is None:
            raise ArithmeticError("no string was looked at")
        scale, below = Fraction(2) ** self.model.unit, None
        if status == "PROVED" and self.bounded == proved:
            # Each of these sums was certainly positive, and so is its lower end.
            with working_precision(MODEL_PRECISION):
                least = min(lower_fraction(self._total(case, values)) for case, values in self.bounds.items())
            below = told_bound(least * scale)
        fails = self.refuted.length if self.refuted is not None else None
        thresholds = {case: tuple(Fraction(value) * scale for value in values) for case, values in self.bounds.items()}
        return CertifiedHeads(
            status, worst.in_logits(self.model.unit), below, fails, proved, self.bounded,
            thresholds if self.bounded else {}, self.trees, self.model.unit, remark,
        )  # fmt: skip

    def _total(self, case: StepCase, bounds: tuple[float, ...]) -> arb:
        return self.direct[case] + sum((arb(value) for value in bounds), arb(0))

    def views(self, geometry: Geometry, horizon: int, only: int | None) -> list[View]:
        """What the query sees through each head."""
        needed = needed_spans(geometry, self.model.template.data, horizon)
        return [
            View(self.model, geometry, horizon, only, kernels_for(self.model, h, geometry.query, needed), h)
            for h in self.heads
        ]

    def _cases_of(self, geometry: Geometry) -> list[StepCase]:
        return [c for c in self.model.cases() if (c.query, c.first) == (geometry.query, geometry.first)]

    def bound_all(self, last: int, tick: Tick) -> int:
        """How far the sum of the heads' least ratios proves all cases, up to `last`."""
        template = self.model.template
        geometries = [first_step(template)]
        if last > 1:
            geometries += [later_steps(template, query) for query in template.data]
        reached = last
        for geometry in geometries:
            views = self.views(geometry, last, None)
            for case in self._cases_of(geometry):
                reached = min(reached, self._reach(views, case, last))
            tick()
        for case in self.model.cases():
            # At length 1 no later step exists; any threshold is exceeded there.
            self.bounds.setdefault(case, (vacuous(self.model),) * len(self.heads))
        self.bounded = reached
        return reached

    def _reach(self, views: list[View], case: StepCase, last: int) -> int:
        """How far the bound proves one case; its thresholds there are kept."""
        if self._bounded(views, case, last, look=True):
            return last
        # A later step has no length below 2: nothing is to be shown there.
        least = views[0].geometry.least_step
        reached = furthest(lambda n: n < least or self._bounded(views, case, n, look=False), last - 1)
        if reached < least:
            self.bounds[case] = (vacuous(self.model),) * len(self.heads)
        else:
            self._bounded(views, case, reached, look=False)
        return reached

    def _bounded(self, views: list[View], case: StepCase, last: int, *, look: bool) -> bool:
        """Does the bound prove the case up to `last`? With `look`, the heads' worst strings are tried."""
        thresholds = []
        for head, view in enumerate(views):
            votes = self.votes[case][head]
            ratio, length, step, string = least_ratio(view, case, votes, last)
            thresholds.append(_proved_below(view, case, votes, ratio, last))
            if look:
                question = self._question(views, case, length, step)
                choice = string[question.numbers - 1]
                question.fails(choice)
                if length <= LONGEST_BALL_STRING:
                    question.fails(question.search(choice))
        self.bounds[case] = tuple(thresholds)
        with working_precision(MODEL_PRECISION):
            return bool(self._total(case, tuple(thresholds)) > 0)

    def _question(self, views: list[View], case: StepCase, length: int, step: int) -> _Sum:
        return _Sum(self, views, case, length, step)

    def judge(self, question: _Sum, choice: Choice, surely: bool) -> bool | None:
        """Is the difference of a string positive? Remembered if it certainly is not, or if it is the least so far."""
        value = question.value(choice)
        string, length, step = question.string(choice), question.length, question.step
        found, right = WorstStep(length, step, question.case, string, Fraction(value if isfinite(value) else 0)), None
        if (surely or not value > question.error) and length <= LONGEST_BALL_STRING:
            difference, right = self._difference(question, found)
            found = replace(found, difference=difference)
        if right is False and (self.refuted is None or length < self.refuted.length):
            self.refuted = found
        if right is not False and (self.best is None or found.difference < self.best.difference):
            self.best = found
        return right

    def _difference(self, question: _Sum, step: WorstStep) -> tuple[Fraction, bool | None]:
        """The logit difference of a string from balls, and whether it is positive; 0 and None if balls don't tell."""
        geometry, votes = question.view.geometry, self.votes[question.case]
        for precision in RATIO_PRECISIONS:
            weights = [step_weights(self.model, geometry, step, head, precision) for head in self.heads]
            with working_precision(precision):
                difference = sum_of_means(self.direct[question.case], votes, weights)
            if difference > 0 or difference <= 0:
                return exact_middle(difference), bool(difference > 0)
        return Fraction(0), None

    def length(self, length: int) -> None:
        """Proofs of all steps of one length.

        Raises:
            FoundError, StuckError: as `Question.prove`.
        """
        trees: dict[Place, Tree] = {}
        for question in self._questions(length):
            case = question.case
            place = Place(length, question.step, case.query, case.symbol, case.competitor)
            trees[place] = question.prove(self.budget)
        self.trees |= trees

    def look_at(self, length: int) -> None:
        """Search one length for a counterexample: the step where each head's worst string stands, in every case."""
        for geometry in self._geometries(length):
            views = self.views(geometry, length, length)
            for case in self._cases_of(geometry):
                steps = {1}
                if not geometry.first:
                    steps = {least_ratio(v, case, self.votes[case][h], length)[2] for h, v in enumerate(views)}
                for step in sorted(steps):
                    self._question(views, case, length, step).search_all()

    def _geometries(self, length: int) -> list[Geometry]:
        template = self.model.template
        one_row = 0 if template.placement.separate else length
        later = [later_steps(template, query, one_row) for query in template.data if length > 1]
        return [first_step(template), *later]

    def _questions(self, length: int) -> list[_Sum]:
        result = []
        for geometry in self._geometries(length):
            views = self.views(geometry, length, length)
            for case in self._cases_of(geometry):
                steps = [1] if geometry.first else range(2, length + 1)
                result += [self._question(views, case, length, step) for step in steps]
        return result


class _Sum(Question):
    """Is the logit difference, a sum over the heads, positive?"""

    def __init__(self, search: _Search, views: list[View], case: StepCase, length: int, step: int) -> None:
        self.case, self._search, self._exact = case, search, search.direct[case]
        ratios = [
            Ratio(view, case.symbol, votes, length, step) for view, votes in zip(views, search.votes[case], strict=True)
        ]
        super().__init__(views[0], case.symbol, ratios, length, step)
        self._direct = float(self._exact.mid())
        self.error = sum(ratio.error for ratio in ratios) + 2.0**-40 * abs(self._direct)

    def enough(self, bounds: tuple[int, ...], fixed: Choice) -> bool:
        """`direct + sum >= 0`: the ratios exceed their bounds."""
        with working_precision(MODEL_PRECISION):
            return bool(self._exact + ball(sum(bounds)) / 2**LEAF_BITS >= 0)

    def value(self, choice: Choice) -> float:
        """The difference."""
        return self._direct + sum(ratio.value(choice) for ratio in self.ratios)

    def after_flips(self, choice: Choice) -> Float64[np.ndarray, " free"]:
        """The difference after each flip."""
        result: Float64[np.ndarray, " free"] = np.full(choice.size, self._direct)
        for ratio in self.ratios:
            numerator, denominator = ratio.after_flips(choice)
            result = result + numerator / denominator
        return result

    def judge(self, choice: Choice, *, surely: bool = False) -> bool | None:
        """Is the difference positive?"""
        return self._search.judge(self, choice, surely)


def sum_of_means(direct: arb, votes: Sequence[Mapping[int, arb]], weights: Sequence[Mapping[int, arb]]) -> arb:
    """`direct` plus, for each head, the mean of its votes by its weights: a ball at the working precision.

    A mean is its heaviest token's vote and a mean of how far the others lie from it. These votes and `direct` are added
    up before any weight comes in, so that they cancel exactly where they do, and a sum far below them keeps its sign.
    """
    heaviest = [max(seen.items(), key=lambda item: item[1].mid())[0] for seen in weights]
    result = direct + total(own[top] for own, top in zip(votes, heaviest, strict=True))
    for own, seen, top in zip(votes, weights, heaviest, strict=True):
        result += total(w * (own[token] - own[top]) for token, w in seen.items()) / total(seen.values())
    return result


def vacuous(model: OneLayerModel) -> float:
    """A threshold, in units, for a step that no length asked for has: every odds that it gives is below 2^-1000."""
    with working_precision(MODEL_PRECISION):
        mantissa, exponent = model.least_scale.lower().man_exp()
    size = int(exponent) + int(mantissa).bit_length() if mantissa > 0 else 0
    return 2.0 ** min(1000, max(20, 12 - size))


def least_ratio(
    view: View, case: StepCase, votes: Mapping[int, arb], last: int
) -> tuple[float, int, int, Int64[np.ndarray, " n"]]:
    """The least N/D of one head over all lengths up to `last`, with its length, step and string, by Dinkelbach.

    A suggestion, in floats: inf where they are out of range.
    """
    threshold = 0.0
    value, length, step = view.least_sums(case.symbol, rounded := float_votes(votes, threshold)).least(last)
    string = view.string(case, rounded, length, step)
    found = inf, length, step, string
    for _ in range(MOST_ROUNDS):
        weight = total_weight(view.family, string, step)
        ratio = threshold + value / weight if weight > LEAST_DENOMINATOR else inf
        if not (isfinite(ratio) and ratio < found[0]):
            break
        found, threshold = (ratio, length, step, string), ratio
        value, length, step = view.least_sums(case.symbol, rounded := float_votes(votes, threshold)).least(last)
        if not value < 0:
            break
        string = view.string(case, rounded, length, step)
    return found


def _proved_below(view: View, case: StepCase, votes: Mapping[int, arb], ratio: float, last: int) -> float:
    """A number that all of the head's ratios are proved to exceed, near the least one found."""
    for threshold in somewhat_below(ratio, 2.0**-34, 1.0, 64) if isfinite(ratio) else ():
        sums = view.least_sums(case.symbol, float_votes(votes, threshold))
        if sums.least(last)[0] > sums.error:
            return threshold
    # A mean of votes is never below the least of them.
    return min(float_below(vote) for vote in votes.values()) - 1.0
