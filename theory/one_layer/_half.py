"""The criterion `half`: is the right output's probability above one half, for all strings of all lengths?

The probability of the right output t is above 1/2 iff `sum over y of exp(-(l_t - l_y)) < 1`, over the competitors y.
By logits before the final norms, `l_t - l_y = g (difference)`, g their positive factor, at least `least_scale`. With
m_y > 0 a proved lower bound of the difference over all strings, for given query token and symbol,

    sum over y of exp(-least_scale m_y) < 1      proves it                              (label: new; method:
    float+bound, ball).

The bound falls with the largest length, so that bisection finds how far it reaches. Different competitors have
different worst strings, and g is larger for most strings than its bound. So beyond that, lengths up to 40 are looked at
one by one, by branching on single symbols (`_branching`): with some symbols fixed, m_y is the least difference over
the others and g is bounded by the shares of attention that are left possible. Counterexamples are looked for at the
strings that are worst for single competitors, and by single flips that raise the sum; a string counts as one only if
balls say that its sum of odds is at least 1. Failing the arg-max refutes `half` too. With two outputs both criteria are
the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from flint import arb
from jaxtyping import Float64

from theory.numbers import ball, exact_middle, furthest, joined, nearest_float, total, working_precision
from theory.one_layer._branching import LEAF_BITS, Budget, Choice, Numbers, Question, Ratio, Tree
from theory.one_layer._heads import (
    LONGEST_BALL_STRING,
    NODES,
    FailureSearch,
    Place,
    branch_on_lengths,
    least_ratio,
    vacuous,
)
from theory.one_layer._model import MODEL_PRECISION, OneLayerModel, StepCase
from theory.one_layer._one_head import (
    LEAST_DENOMINATOR,
    CertifiedHead,
    Decider,
    Tick,
    View,
    WorstStep,
    certify_strings,
    kernels_for,
    require_consistent,
    step_weights,
)
from theory.one_layer._worst_case import Geometry, first_step, later_steps, needed_spans
from theory.task import Status

#: Precision of odds, and what is told of larger ones.
ODDS_PRECISION, MOST_ODDS = 128, Fraction(2) ** 2000


@dataclass(frozen=True)
class CertifiedHalf:
    """What was decided under the criterion `half`.

    Attributes:
        argmax: the decision by arg-max.
        status: of the criterion.
        worst: the counterexample if REFUTED (its competitor the most likely one); else what arg-max found as the worst.
        odds: the sum of the competitors' odds there, if it is a counterexample that arg-max passes; else None.
        fails_at: the length of the counterexample, or None. Shorter ones may exist unless it is proved_to + 1.
        proved_to: all strings of all lengths up to it are proved to have the right output above one half.
        bounded_to: the part of it that the thresholds prove.
        thresholds: for each case a logit difference that all strings of lengths up to `bounded_to` exceed.
        trees: proofs of all steps of the lengths from there to `proved_to`.
        unit: the numbers of the trees' leaves are in units of 2^(unit - 44).
        competing: an upper bound of the largest sum of odds up to `bounded_to`; None with two outputs, or if that is 0.
        remark: how it was decided.
    """

    argmax: CertifiedHead
    status: Status
    worst: WorstStep
    odds: float | None
    fails_at: int | None
    proved_to: int
    bounded_to: int
    thresholds: dict[StepCase, Fraction]
    trees: dict[Place, Tree]
    unit: int
    competing: float | None
    remark: str

    def __post_init__(self) -> None:
        """ArithmeticError if the verdict contradicts what is shown beside it."""
        if self.odds is None:
            require_consistent(self.status, self.worst, self.fails_at)
        elif self.status != "REFUTED" or not self.odds >= 1 or self.worst.length != self.fails_at:
            raise ArithmeticError(f"{self.status} with odds of {self.odds} at length {self.worst.length}")

    @property
    def limit(self) -> int | None:
        """The largest length up to which the criterion holds for all strings, if it was found."""
        return self.proved_to if self.fails_at == self.proved_to + 1 else None


def certify_half(model: OneLayerModel, max_length: int, tick: Tick = lambda: None, nodes: int = NODES) -> CertifiedHalf:
    """Decide the criterion `half` for every string of every length up to `max_length`, as far as bounds and search go.

    Args:
        model: one layer, one head.
        max_length: largest length.
        tick: called after each query token and symbol, and each length.
        nodes: budget of the branching.

    Raises:
        InputError: as `certify_strings`.

    Cost: a few times that of `certify_strings` for each competitor; log(max_length) times that where the bound does not
    reach all lengths, then up to `nodes` times O(outputs length).
    """
    argmax = certify_strings(model, max_length, tick)
    reach = argmax.proved_to
    search = _Search(model.in_units(), reach, argmax, Budget(nodes), tick)
    if model.outputs == 2:
        if argmax.status == "PROVED":
            search.bound_all()
        return search.result(argmax.status, reach, argmax.fails_at, "with two outputs this is arg-max")
    bounded = search.bound_all() if reach else 0
    if bounded == max_length:
        return search.result("PROVED", bounded, None, "the sum of the competitors' largest odds")
    proved, why = branch_on_lengths(search.length, bounded, reach, tick)
    search.look_upwards(proved + 1, reach)
    search.look_downwards(proved)
    if search.refuted is not None:
        why = "a string found by branching on single symbols or by flipping them"
        return search.result("REFUTED", proved, search.refuted.length, why)
    if argmax.fails_at is not None:
        return search.result("REFUTED", proved, argmax.fails_at, "the arg-max fails")
    if proved == max_length:
        return search.result("PROVED", proved, None, f"branching on single symbols, {search.budget.spent} nodes")
    return search.result("UNDECIDED", proved, None, f"the sum of the largest odds reaches {bounded}; {why}")


#: Query token, step 1 or not, symbol to write: what competitors share.
Group = tuple[int, bool, int]


class _Search(FailureSearch):
    """Bounds, proofs by branching, and the worst string, for lengths up to `reach`, at which arg-max holds."""

    def __init__(self, model: OneLayerModel, reach: int, argmax: CertifiedHead, budget: Budget, tick: Tick) -> None:
        self.model, self.reach, self.argmax, self.budget = model, reach, argmax, budget
        self.decider = Decider(model, max(1, reach), tick)
        self.groups: dict[Group, list[StepCase]] = {}
        for case in model.cases():
            self.groups.setdefault((case.query, case.first, case.symbol), []).append(case)
        self.thresholds: dict[StepCase, float] = {}
        self.trees: dict[Place, Tree] = {}
        self.competing: float | None = None
        self.odds: float | None = None

    def result(self, status: Status, proved: int, fails: int | None, remark: str) -> CertifiedHalf:
        """The decision in one object."""
        worst, odds, unit = self.argmax.worst, None, self.model.unit
        if self.refuted is not None:
            worst, odds = self.refuted.in_logits(unit), self.odds
        thresholds: dict[StepCase, Fraction] = {}
        if self._bounded:
            thresholds = {case: Fraction(value) * Fraction(2) ** unit for case, value in self.thresholds.items()}
        return CertifiedHalf(
            self.argmax, status, worst, odds, fails, proved, self._bounded, thresholds, self.trees, unit,
            self.competing, remark,
        )  # fmt: skip

    _bounded = 0

    def bound_all(self) -> int:
        """How far the sum of the competitors' largest odds proves the criterion, up to `reach`."""
        reached, odds, open_groups = self.reach, [0.0], []
        for group, cases in self.groups.items():
            bound = self._bound(cases, self.reach)
            if bound is None:
                open_groups.append(cases)
                reached = min(reached, furthest(partial(self._holds, group), reached - 1))
            else:
                odds.append(bound)
        # Thresholds of longer strings hold of shorter ones too; those of open groups are found again.
        odds += [self._bound(cases, reached) or 0.0 for cases in open_groups if reached]
        self._bounded = reached
        self.competing = max(odds) if reached and self.model.outputs > 2 else None
        return reached

    def _holds(self, group: Group, last: int) -> bool:
        """Does the bound prove a group up to `last`? A later step has no length below 2."""
        return (last == 1 and not group[1]) or self._bound(self.groups[group], last) is not None

    def _bound(self, cases: list[StepCase], last: int) -> float | None:
        """An upper bound of the sum of odds up to `last`, if it is below 1; the thresholds are kept."""
        for case in cases:
            seen = case.first or last > 1
            self.thresholds[case] = self.decider.threshold(case, self.argmax, last) if seen else vacuous(self.model)
        if self.model.outputs == 2:
            return 0.0
        with working_precision(ODDS_PRECISION):
            odds = total((-self.model.least_scale * arb(self.thresholds[case])).exp() for case in cases)
            return float(odds.upper()) if odds < 1 else None

    def _geometries(self, length: int) -> Iterable[tuple[Geometry, View]]:
        template = self.model.template
        geometries = [first_step(template)]
        if length > 1:
            one_row = 0 if template.placement.separate else length
            geometries += [later_steps(template, query, one_row) for query in template.data]
        for geometry in geometries:
            kernels = kernels_for(self.model, 0, geometry.query, needed_spans(geometry, template.data, length))
            yield geometry, View(self.model, geometry, length, None if geometry.first else length, kernels)

    def length(self, length: int) -> None:
        """Proofs of all steps of one length.

        Raises:
            FoundError, StuckError: as `Question.prove`.
        """
        trees: dict[Place, Tree] = {}
        for geometry, view in self._geometries(length):
            for (query, first, symbol), cases in self.groups.items():
                if (query, first) == (geometry.query, geometry.first):
                    for step in [1] if first else range(2, length + 1):
                        question = _Odds(self, view, cases, length, step)
                        trees[Place(length, step, query, symbol, None)] = question.prove(self.budget)
        self.trees |= trees

    def look_at(self, length: int) -> None:
        """Search one length for a counterexample: steps at each competitor's least difference, and the ends."""
        for geometry, view in self._geometries(length):
            for (query, first, _), cases in self.groups.items():
                if (query, first) != (geometry.query, geometry.first):
                    continue
                steps = {1}
                if not first:
                    # The ends too: there the other competitors can weigh more.
                    steps = {2, length, *(least_ratio(view, c, self.decider.votes[c], length)[2] for c in cases)}
                for step in sorted(steps):
                    _Odds(self, view, cases, length, step).search_all()

    def judge(self, question: _Odds, choice: Choice, surely: bool) -> bool | None:
        """Is the sum of odds of a string below 1? Remembered if it certainly is not, and no shorter one is known."""
        if (question.value(choice) > 1e-6 and not surely) or question.length > LONGEST_BALL_STRING:
            return None
        string, length, step = question.string(choice), question.length, question.step
        found = WorstStep(length, step, question.cases[0], string, Fraction(0))
        weights = step_weights(self.model, question.view.geometry, found)
        with working_precision(MODEL_PRECISION):
            denominator = total(weights.values())
            shares = {token: weight / denominator for token, weight in weights.items()}
            factor = self.factor(question.view.geometry.query, shares)
            if factor is None:
                return None
            differences = [
                total(share * self.decider.votes[case][token] for token, share in shares.items())
                for case in question.cases
            ]
            odds = total((-factor * difference).exp() for difference in differences)
            right = True if odds < 1 else False if odds >= 1 else None
        if right is False and (self.refuted is None or length < self.refuted.length):
            found_differences = [exact_middle(difference) for difference in differences]
            nearest = min(range(len(differences)), key=lambda k: found_differences[k])
            self.refuted = WorstStep(length, step, question.cases[nearest], string, found_differences[nearest])
            # Odds beyond the floats are told as the largest of them.
            self.odds = max(1.0, nearest_float(exact_middle(odds))) if odds.is_finite() else nearest_float(MOST_ODDS)
        return right

    def factor(self, query: int, shares: Mapping[int, arb]) -> arb | None:
        """The final norm's factor; None if the model does not tell it."""
        if self.model.norm is not None:
            everyone = {token: shares.get(token, arb(0)) for token in self.model.template.tokens}
            return self.model.norm.factor(query, everyone)
        # Without norms after attention the factor is that of the unit alone.
        unit = arb((1, self.model.unit))
        return unit if self.model.least_scale == unit else None


class _Odds(Question):
    """Is the sum of the competitors' odds below 1? One ratio a competitor, over the same weights."""

    def __init__(self, search: _Search, view: View, cases: list[StepCase], length: int, step: int) -> None:
        self.cases, self._search = cases, search
        votes = search.decider.votes
        ratios = [Ratio(view, cases[0].symbol, votes[case], length, step) for case in cases]
        super().__init__(view, cases[0].symbol, ratios, length, step)
        model = search.model
        self.tokens = model.template.tokens
        data = view.family.data
        fixed = ratios[0].fixed
        self._fixed = np.array([float(fixed[x].value[0]) if x in fixed else 0.0 for x in self.tokens])
        # Of any sum of these weights: each is off by so much, and passes through at most as many additions.
        self._relative = joined([*ratios[0].free, *fixed.values()]).total().relative
        self._data = [self.tokens.index(token) for token in data]
        self._gram = None
        self._scale = nearest_float(exact_middle(model.least_scale))
        if model.norm is not None:
            norm, gram = model.norm, model.norm.gram[view.geometry.query]
            self._gram = np.array([[float(gram[x, y].mid()) for y in self.tokens] for x in self.tokens])
            self._width, self._epsilon = norm.width, float(norm.epsilon.mid())
            self._unit = nearest_float(Fraction(2) ** norm.unit)

    def enough(self, bounds: tuple[int, ...], fixed: Choice) -> bool:
        """`sum of exp(-g bound) <= 1` with all bounds >= 0 and g a lower bound of the factor for these strings."""
        if min(bounds) < 0:
            return False
        # Most leaves are far off or far inside: floats say which need not be asked in balls. They prove nothing.
        rough = np.array(bounds, dtype=float) * 2.0**-LEAF_BITS
        with np.errstate(all="ignore"):
            largest = self._scale if self._gram is None else self._unit * np.float64(self._epsilon) ** -0.5
            if np.isfinite(largest) and np.exp(-largest * rough).sum() > 1.001:
                return False
        with working_precision(ODDS_PRECISION):
            factor = self._least_factor(fixed)
            return bool(total((-factor * ball(bound) / 2**LEAF_BITS).exp() for bound in bounds) <= 1)

    def _least_factor(self, fixed: Choice) -> arb:
        """A lower bound of the final norm's factor over all strings with these symbols, from intervals of shares."""
        model, norm = self._search.model, self._search.model.norm
        if norm is None:
            return model.least_scale
        shares = self._shares(fixed)
        gram = norm.gram[self.view.geometry.query]
        square = arb(0)
        for (x, y), z in gram.items():
            (low_x, high_x), (low_y, high_y) = shares[x], shares[y]
            square += (z * high_x * high_y).max(z * low_x * low_y)
        return norm.of_square(square).lower().max(model.least_scale)

    def _shares(self, fixed: Choice) -> dict[int, tuple[arb, arb]]:
        """By token, the least and the largest share of attention that strings with these symbols can give it."""
        weights, relative = self.ratios[0].weights, 4 * self._relative
        low, high = self._fixed.copy(), self._fixed.copy()
        for symbol, at in enumerate(self._data):
            low[at] += weights[symbol][fixed == symbol].sum()
            high[at] += weights[symbol][(fixed == symbol) | (fixed < 0)].sum()
        shares = {}
        for at, token in enumerate(self.tokens):
            least = low[at] / (low[at] + np.delete(high, at).sum())
            most = high[at] / (high[at] + np.delete(low, at).sum())
            # Weights that were replaced by 0 have shares below 2^-200.
            shares[token] = (arb(least * (1 - relative)), arb(min(1.0, most * (1 + relative) + 2.0**-200)))
        return shares

    def value(self, choice: Choice) -> float:
        """1 minus the sum of odds, by the factor itself where it is known, else by its bound."""
        weights = self.ratios[0].weights[choice, np.arange(choice.size)]
        met = self._fixed.copy()
        for symbol, at in enumerate(self._data):
            met[at] += weights[choice == symbol].sum()
        differences = np.array([ratio.value(choice) for ratio in self.ratios])
        with np.errstate(all="ignore"):
            return float(1 - np.exp(-self._factors(met[:, None]) * differences).sum())

    def _factors(self, met: Float64[np.ndarray, "tokens strings"]) -> Numbers:
        """The factor for the weights that tokens meet in some strings, or its bound where it is not known."""
        if self._gram is None:
            return np.full(met.shape[1], self._scale)
        # Shares first: squares of small weights would be 0, and so would the sum of weights that all underflowed.
        shares = met / np.maximum(met.sum(0), LEAST_DENOMINATOR)
        square = np.einsum("xs,xy,ys->s", shares, self._gram, shares)
        factor: Numbers = self._unit / np.sqrt(np.maximum(square, 0.0) / self._width + self._epsilon)
        return factor

    def after_flips(self, choice: Choice) -> Float64[np.ndarray, " free"]:
        """The same after each flip."""
        places = np.arange(choice.size)
        weights = self.ratios[0].weights
        here, there = weights[choice, places], weights[1 - choice, places]
        met = np.repeat(self._fixed[:, None], choice.size, axis=1)
        for symbol, at in enumerate(self._data):
            met[at] += here[choice == symbol].sum() + np.where(choice == symbol, -here, there)
        odds = np.zeros(choice.size)
        with np.errstate(all="ignore"):
            factor = self._factors(met)
            for ratio in self.ratios:
                numerator, denominator = ratio.after_flips(choice)
                odds += np.exp(-factor * numerator / denominator)
        return 1 - odds

    def judge(self, choice: Choice, *, surely: bool = False) -> bool | None:
        """Is the sum of odds below 1?"""
        return self._search.judge(self, choice, surely)
