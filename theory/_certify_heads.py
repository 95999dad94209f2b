"""Several heads: a sound lower bound for all strings of all lengths, a search for counterexamples, and branching.

The logit difference is `direct + sum over heads h of N_h/D_h`, each head with its own denominator, so its minimum over
strings does not split. But each head's least ratio r_h does (Dinkelbach), and

    direct + sum over heads of r_h  <=  the difference at every string                        (label: new)

with r_h taken over all lengths and steps at once: O(length) work in all, and `> 0` proves every string. It is an
equality where one string is worst for all heads. Where it does not prove a case, lengths are looked at one by one,
step by step: with some symbols fixed the same bound holds over the others; it is attained if the heads agree on their
worst string; if they do not, the symbol that matters most among those they disagree about is fixed both ways (branch
and bound). Every worst string of a head is tried as a counterexample, and counts as one only if balls say that its
difference is at most 0.

*Rounding* (float+bound). N/D is a mean of votes; weights known to a relative error k, sums of at most m terms
included, leave it with an error of at most `2 k / (1 - k)` times the largest vote, k = kappa + (m + 4) u. The code
doubles that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import numpy as np
from flint import arb
from jaxtyping import Int64

from theory._balls import float_below, working_precision
from theory._certify_one_layer import (
    Status,
    Tick,
    View,
    WorstStep,
    kernels_for,
    require_length,
    step_ratio,
)
from theory._errors import InputError
from theory._float_exp import UNIT_ROUNDOFF
from theory._one_layer import MODEL_PRECISION, OneLayerModel, StepCase
from theory._worst_case import (
    Geometry,
    Series,
    first_step,
    float_votes,
    later_steps,
    needed_spans,
    total_weight,
)

#: Threshold of a step that no length up to the largest has.
VACUOUS = 2.0**20

#: Lengths are looked at one by one up to this, and so many nodes are spent in all.
LONGEST_SEARCH, NODES = 40, 20_000


@dataclass(frozen=True)
class CertifiedHeads:
    """What was decided about a model with several heads.

    Attributes:
        status: of all strings of all lengths asked for.
        worst: the string with the least difference that was found; a counterexample if REFUTED.
        margin_below: a proved lower bound of all differences, if PROVED by the sum of the heads' bounds; else None.
        fails_at: the length of the counterexample, or None. Shorter ones may exist.
        proved_to: all strings of all lengths up to it are proved to be copied.
        thresholds: if PROVED by the sum of bounds, for each case a number for each head that its ratios exceed.
        remark: how it was decided.
    """

    status: Status
    worst: WorstStep
    margin_below: float | None
    fails_at: int | None
    proved_to: int
    thresholds: dict[StepCase, tuple[float, ...]]
    remark: str


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

    Cost: O(heads max_length), then up to `nodes` times O(heads length).
    """
    require_length(model, max_length)
    separate = model.template.placement.separate
    if not separate and max_length > LONGEST_SEARCH:
        raise InputError("max_length", max_length, f"at most {LONGEST_SEARCH} with several heads in one row")
    search = _Search(model, nodes)
    if separate:
        search.bound_all(max_length, tick)
        if search.refuted is None and not search.open:
            return search.result("PROVED", max_length, "the sum of the heads' least ratios")
    else:
        search.open = set(model.cases())
    longest = min(max_length, LONGEST_SEARCH)
    proved = search.one_by_one(longest, tick)
    if search.refuted is not None:
        return search.result("REFUTED", proved, "a string found by branching on single symbols")
    if proved == max_length:
        return search.result("PROVED", proved, f"branching on single symbols, {search.spent} nodes")
    why = "the budget of nodes ended" if search.spent > nodes else f"lengths above {longest} are not branched on"
    return search.result("UNDECIDED", proved, why)


class _Search:
    """State of one decision."""

    def __init__(self, model: OneLayerModel, nodes: int) -> None:
        self.model, self.nodes, self.spent = model, nodes, 0
        self.heads = range(len(model.heads))
        self.votes = {case: [model.votes(head, case) for head in self.heads] for case in model.cases()}
        self.direct = {case: model.direct_vote(case) for case in model.cases()}
        self.bounds: dict[StepCase, tuple[float, ...]] = {}
        self.open: set[StepCase] = set()
        self.best: WorstStep | None = None
        self.refuted: WorstStep | None = None
        self.below = inf

    def result(self, status: Status, proved: int, remark: str) -> CertifiedHeads:
        """The decision in one object."""
        worst = self.refuted or self.best
        if worst is None:
            raise ArithmeticError("no string was looked at")
        by_sum = status == "PROVED" and not self.open
        fails = worst.length if self.refuted is not None else None
        return CertifiedHeads(
            status, worst, self.below if by_sum else None, fails, proved, self.bounds if by_sum else {}, remark
        )

    def bound_all(self, last: int, tick: Tick) -> None:
        """The sum of the heads' least ratios over all lengths up to `last`, case by case."""
        template = self.model.template
        geometries = [first_step(template)]
        if last > 1:
            geometries += [later_steps(template, query) for query in template.data]
        for geometry in geometries:
            needed = needed_spans(geometry, template.data, last)
            views = [
                View(self.model, geometry, last, None, kernels_for(self.model, h, geometry.query, needed), h)
                for h in self.heads
            ]
            for case in self._cases_of(geometry):
                self._bound(views, case, last)
            tick()
        for case in self.model.cases():
            # At length 1 no later step exists; any threshold is exceeded there.
            self.bounds.setdefault(case, (VACUOUS,) * len(self.heads))

    def _cases_of(self, geometry: Geometry) -> list[StepCase]:
        return [c for c in self.model.cases() if (c.query, c.first) == (geometry.query, geometry.first)]

    def _bound(self, views: list[View], case: StepCase, last: int) -> None:
        thresholds = []
        for head, view in enumerate(views):
            votes = self.votes[case][head]
            ratio, length, step, string = _least_ratio(view, case, votes, last)
            self._try(case, view.geometry, length, step, string)
            thresholds.append(_proved_below(view, case, votes, ratio, last))
        self.bounds[case] = tuple(thresholds)
        with working_precision(MODEL_PRECISION):
            total = self.direct[case] + sum((arb(value) for value in thresholds), arb(0))
        self.below = min(self.below, float_below(total))
        if not total > 0:
            self.open.add(case)

    def _try(self, case: StepCase, geometry: Geometry, length: int, step: int, string: Int64[np.ndarray, " n"]) -> arb:
        """The difference of a string in balls; remembered if it is the least, or a counterexample."""
        found = WorstStep(length, step, case, string, 0.0)
        if length > 20_000:
            # Long strings are looked at again where lengths are gone through; here they would take too long.
            return arb(0, 1)
        parts = [step_ratio(self.model, geometry, found, self.votes[case][head], head) for head in self.heads]
        with working_precision(MODEL_PRECISION):
            difference: arb = self.direct[case] + sum(parts, arb(0))
        found = WorstStep(length, step, case, string, float(difference.mid()))
        if self.best is None or found.ratio < self.best.ratio:
            self.best = found
        if difference <= 0 and (self.refuted is None or length < self.refuted.length):
            self.refuted = found
        return difference

    def one_by_one(self, longest: int, tick: Tick) -> int:
        """Lengths 1, 2, .. `longest` in the open cases; returns the last one that was proved."""
        template = self.model.template
        separate = template.placement.separate
        for length in range(1, longest + 1):
            if self.refuted is not None and self.refuted.length <= length:
                return length - 1
            geometries = [first_step(template)]
            if length > 1:
                geometries += [later_steps(template, query, 0 if separate else length) for query in template.data]
            for geometry in geometries:
                cases = [case for case in self._cases_of(geometry) if case in self.open]
                if cases and not self._length(geometry, cases, length):
                    return length - 1
            tick()
        return longest

    def _length(self, geometry: Geometry, cases: list[StepCase], length: int) -> bool:
        """Is one length proved for these cases?"""
        needed = needed_spans(geometry, self.model.template.data, length)
        views = [
            View(self.model, geometry, length, length, kernels_for(self.model, h, geometry.query, needed), h)
            for h in self.heads
        ]
        steps = [1] if geometry.first else range(2, length + 1)
        for case in cases:
            for step in steps:
                if not self._step(views, case, length, step):
                    return False
        return True

    def _step(self, views: list[View], case: StepCase, length: int, step: int) -> bool:
        """Branch and bound on one step of one length; True if the difference is positive for all strings."""
        problem = _StepProblem(views, case, self.votes[case], float(self.direct[case].mid()), length, step)
        stack = [np.full(problem.free, -1)]
        while stack:
            self.spent += 1
            if self.spent > self.nodes:
                return False
            fixed = stack.pop()
            least, choices = problem.bound(fixed)
            if least > 0:
                continue
            for choice in choices:
                difference = self._try(case, views[0].geometry, length, step, problem.string(choice))
                if difference <= 0:
                    return False
            branch = problem.branch(fixed, choices)
            if branch is None:
                return False
            for symbol in (0, 1):
                child = fixed.copy()
                child[branch] = symbol
                stack.append(child)
        return True


class _StepProblem:
    """One step of one length: the free symbols and what each adds in each head, float64."""

    def __init__(
        self, views: list[View], case: StepCase, votes: list[dict[int, arb]], direct: float, length: int, step: int
    ) -> None:
        self.case, self.length, self.step = case, length, step
        self.direct, self.view = direct, views[0]
        self.parts = [_HeadProblem(view, case, vote, length, step) for view, vote in zip(views, votes, strict=True)]
        self.free = self.parts[0].weights.shape[1]
        self.error = sum(part.error for part in self.parts) + 4 * UNIT_ROUNDOFF * abs(direct)

    def bound(self, fixed: Int64[np.ndarray, " free"]) -> tuple[float, list[Int64[np.ndarray, " free"]]]:
        """A proved lower bound of the difference, and each head's worst choice of the free symbols."""
        found = [part.least(fixed) for part in self.parts]
        return self.direct + sum(ratio for ratio, _ in found) - self.error, [choice for _, choice in found]

    def branch(self, fixed: Int64[np.ndarray, " free"], choices: list[Int64[np.ndarray, " free"]]) -> int | None:
        """A symbol that the heads disagree about, the one with the most weight; None if there is none."""
        disagree = np.zeros(self.free, dtype=bool)
        for choice in choices[1:]:
            disagree |= choice != choices[0]
        disagree &= fixed < 0
        if not disagree.any():
            return None
        weight = sum((part.weights.sum(0) / part.weights.sum() for part in self.parts), np.zeros(self.free))
        return int(np.argmax(np.where(disagree, weight, -1.0)))

    def string(self, choice: Int64[np.ndarray, " free"]) -> Int64[np.ndarray, " n"]:
        """The string that a choice of the free symbols stands for."""
        before, geometry = max(0, self.step - 2), self.view.geometry
        string = np.empty(self.length, dtype=np.int64)
        string[self.step - 1] = self.case.symbol
        after = choice[before:]
        string[self.step :] = after[::-1] if geometry.reverse else after
        if self.step > 1:
            string[self.step - 2] = self.view.family.data.index(self.case.query)
            string[: self.step - 2] = choice[:before][::-1]
        return string


class _HeadProblem:
    """What one head contributes: weights [symbol, free position], votes, and the fixed sums."""

    def __init__(self, view: View, case: StepCase, votes: Mapping[int, arb], length: int, step: int) -> None:
        family, geometry = view.family, view.geometry
        before, after = max(0, step - 2), length - step
        sides = [np.concatenate([family.before[x][:before], family.after[x][:after]]) for x in (0, 1)]
        self.weights: Series = np.stack(sides)
        rounded = float_votes(votes)
        self.votes = np.array([rounded.value[token] for token in family.data])
        rest, index = length - step, step - geometry.least_step
        fixed = [(family.data[case.symbol], family.target[case.symbol][rest if geometry.reverse else 0])]
        fixed += [(token, along[index]) for token, along in family.steps.items()]
        fixed += [(token, along[rest]) for token, along in family.rests.items()]
        if family.previous is not None:
            fixed.append((geometry.query, family.previous))
        self.denominator = float(sum(weight for _, weight in fixed))
        self.numerator = float(sum(weight * rounded.value[token] for token, weight in fixed))
        terms = 2 * length + len(fixed) + 8
        k = view.kernels.error + (terms + 4) * UNIT_ROUNDOFF
        largest = max(abs(value) for value in rounded.value.values())
        self.error = 4 * k * largest + 2 * max(rounded.radius.values())

    def least(self, fixed: Int64[np.ndarray, " free"]) -> tuple[float, Int64[np.ndarray, " free"]]:
        """The least ratio over the symbols not fixed (-1), by Dinkelbach, and where it is attained."""
        ratio = inf
        choice = best = np.where(fixed < 0, 0, fixed)
        places = np.arange(choice.size)
        while True:
            weights = self.weights[choice, places]
            numerator = self.numerator + float((weights * self.votes[choice]).sum())
            value = numerator / (self.denominator + float(weights.sum()))
            if value >= ratio:
                return ratio, best
            ratio, best = value, choice
            zero, one = (self.weights[x] * (self.votes[x] - ratio) for x in (0, 1))
            choice = np.where(fixed < 0, (one < zero).astype(np.int64), fixed)


def _least_ratio(
    view: View, case: StepCase, votes: Mapping[int, arb], last: int
) -> tuple[float, int, int, Int64[np.ndarray, " n"]]:
    """The least N/D of one head over all lengths up to `last`, with its length, step and string, by Dinkelbach."""
    threshold, found = 0.0, None
    while True:
        rounded = float_votes(votes, threshold)
        value, length, step = view.least(case.symbol, rounded.value, last)
        if found is not None and value >= 0:
            return found
        string = view.string(case, rounded.value, length, step)
        ratio = threshold + value / total_weight(view.family, string, step)
        if found is not None and ratio >= found[0]:
            return found
        found, threshold = (ratio, length, step, string), ratio


def _proved_below(view: View, case: StepCase, votes: Mapping[int, arb], ratio: float, last: int) -> float:
    """A number that all of the head's ratios are proved to exceed, near the least one found."""
    slack = 2.0**-34 * max(1.0, abs(ratio))
    for _ in range(6):
        threshold = ratio - slack
        rounded = float_votes(votes, threshold)
        value, _, _ = view.least(case.symbol, rounded.value, last)
        if value > view.error(rounded):
            return threshold
        slack *= 64
    # A mean of votes is never below the least of them.
    return min(float_below(vote) for vote in votes.values()) - 1.0
