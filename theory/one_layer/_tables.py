"""Every string of one length, for scores that depend on both tokens and both positions in any way.

*Statement* (new). Let `e(c, x, q, k) = exp(score)` be any positive weight that query token c at position q gives key
token x at position k, and a_x the vote of x: what its value adds to the logit of the symbol to write minus the
competitor's. A position is (row, column, index), so every relation is covered: BiPE, Segatron, HiRoPE, absolute
positions, learned tables. At step i of a string of length n the positions of all tokens are known, since no data
token breaks a row. With s_{i-1} = c and s_i = x* fixed, symbol s_j stands at its source and, if j < i, at its copy, and
nowhere else. So `N = sum of e a` over the tokens seen is a constant plus a sum of functions of one symbol each,

    min over s of N  =  constant  +  sum over j not in {i-1, i} of  min_x (e(source of j) + [j < i] e(copy of j)) a_x,

and it is attained, by the string of the minimisers. Source and copy must be taken together: apart, they would be a
lower bound only. A length takes O(n^2) weights: positions of source and query need not depend on their distance alone,
so nothing is shared between steps or lengths.

*Ratios.* As in `_worst_case`: `N/D > tau` for all strings iff the least `N - tau D` is positive, and Dinkelbach's
iteration finds the least ratio.

*Rounding* (ball). Weights, votes and sums are balls, of 128, then 256 and 768 bits where a sign stays open. Scores
given with an error are balls of that radius; what they leave open stays UNDECIDED. The counterexample takes for each
symbol the choice with the smaller upper end, so that its own N is certainly at most 0 whenever the least N is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import isfinite

import numpy as np
from flint import arb
from jaxtyping import Int64

from theory.numbers import InputError, ball, exact_middle, float_below, require_at_least, total, working_precision
from theory.one_layer._model import MODEL_PRECISION, Axes, Head, OneLayerModel, StepCase
from theory.one_layer._one_head import BALL_PRECISIONS, MOST_ROUNDS, CertifiedHead, Tick, WorstStep, somewhat_below
from theory.task import Position, Template

#: Longest strings looked at: a length takes about 8 n^2 scores.
LARGEST_TABLE_LENGTH = 2000

Number = arb | Fraction | int | float

#: (query token, key token, position of the query, position of the key) -> score.
Score = Callable[[int, int, Position, Position], Number]


@dataclass(frozen=True)
class TableModel:
    """A one-layer, one-head model by its scores, which may depend on tokens and positions in any way.

    Attributes:
        template: the tokens around the string and the rule of rows and columns.
        score: of a key token for a query token, by their positions (row, column, index), all from 0: a rational or a
            float (taken as the binary number that it is), exact up to `score_error`, or a ball. It must not depend on
            anything else, as it is called several times for each place that can be met.
        values: by key token, the logits that its value adds, one an output.
        direct: by query token, the logits that it adds by itself (a residual); missing: none.
        targets: the outputs that stand for 0 and 1.
        score_error, value_error: what scores, and values and direct logits, may be off by.

    Raises:
        InputError: a token without values, lists of different lengths, fewer than two outputs, a negative error.
    """

    template: Template
    score: Score
    values: Mapping[int, tuple[Number, ...]]
    direct: Mapping[int, tuple[Number, ...]] = field(default_factory=dict)
    targets: tuple[int, int] = (0, 1)
    score_error: Fraction = Fraction(0)
    value_error: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        missing = [token for token in self.template.tokens if token not in self.values]
        if missing:
            raise InputError("values", f"none for token {missing[0]}", "given for every token of the template")
        counts = {len(logits) for logits in (*self.values.values(), *self.direct.values())}
        if len(counts) > 1 or min(counts) < 2:
            raise InputError("values", sorted(counts), "as many logits for every token, two or more")
        if len({*self.targets, *range(self.outputs)}) != self.outputs or self.targets[0] == self.targets[1]:
            raise InputError("targets", self.targets, "two different outputs")
        for name, error in (("score_error", self.score_error), ("value_error", self.value_error)):
            if error < 0:
                raise InputError(name, error, "at least 0")

    @property
    def outputs(self) -> int:
        """Number of logits."""
        return len(next(iter(self.values.values())))

    @cached_property
    def questions(self) -> OneLayerModel:
        """The cases and votes, as a one-layer model without scores."""
        with working_precision(MODEL_PRECISION):
            values, direct = (
                {
                    token: tuple(_enclosed(logit, self.value_error, "values") for logit in logits)
                    for token, logits in table.items()
                }
                for table in (self.values, self.direct)
            )
        head = Head({}, {token: values[token] for token in self.template.tokens})
        return OneLayerModel(self.template, Axes(), (head,), direct, self.targets, self.outputs, arb(1))


def _enclosed(value: Number, error: Fraction, argument: str) -> arb:
    """The number as a ball at the working precision, widened by what it may be off by."""
    if isinstance(value, float):
        if not isfinite(value):
            raise InputError(argument, value, "made of finite numbers")
        exact = arb(value)
    elif isinstance(value, arb):
        exact = value
    else:
        exact = ball(value)
    if not exact.is_finite():
        raise InputError(argument, str(exact), "made of finite numbers")
    return exact if error == 0 else exact + arb(0, ball(error).upper())


def certify_table(
    model: TableModel, max_length: int, least_length: int = 1, tick: Tick = lambda: None
) -> CertifiedHead:
    """Decide for every string of every length from `least_length` to `max_length` whether it is copied, by arg-max.

    Args:
        model: scores of any kind.
        max_length: largest length.
        least_length: smallest length; the same as max_length for one length by itself.
        tick: called after each length, for a progress bar.

    Returns:
        A CertifiedHead, up to the first length that fails; method ball. `proved_to` and `limit` speak of the lengths
        from `least_length` on.

    Raises:
        InputError: lengths that are not 1 <= least_length <= max_length <= 2000, or a score that is not finite.

    Cost: about 8 n^2 scores and O(outputs n^2) ball operations for each length n.
    """
    require_at_least("least_length", least_length, 1)
    require_at_least("max_length", max_length, least_length)
    if max_length > LARGEST_TABLE_LENGTH:
        raise InputError("max_length", max_length, f"at most {LARGEST_TABLE_LENGTH}")
    search = _Search(model)
    proved, fails = least_length - 1, None
    for length in range(least_length, max_length + 1):
        decided = search.length(length)
        if decided is True and proved == length - 1:
            proved = length
        tick()
        if decided is False:
            fails = length
            break
    worst = search.worst if search.failing is None else search.failing
    if worst is None:
        raise ArithmeticError("no step was looked at")
    below = search.below
    if below is not None and proved == max_length and not below > 0:
        # Every ratio is above 0, the least of them by less than floats tell.
        below = None
    return CertifiedHead(max_length, proved, fails, below, worst, True, least_length)


class _Search:
    """What was found so far: the least ratio, a bound of all of them, and the worst step that certainly fails."""

    def __init__(self, model: TableModel) -> None:
        self.model = model
        self.cases = model.questions.cases()
        self.votes = {case: model.questions.single_votes(case) for case in self.cases}
        self.worst: WorstStep | None = None
        self.failing: WorstStep | None = None
        self.below: float | None = np.inf

    def length(self, length: int) -> bool | None:
        """Are all strings of one length copied? None if balls leave it open."""
        copied: bool | None = True
        for step in range(1, length + 1):
            for query in (self.model.template.infix[-1],) if step == 1 else self.model.template.data:
                sights = _Sights(self.model, length, step, query)
                for case in self.cases:
                    if (case.query, case.first) != (query, step == 1):
                        continue
                    positive = self._case(sights, case)
                    if positive is False or copied is False:
                        copied = False
                    elif positive is None:
                        copied = None
        return copied

    def _case(self, sights: _Sights, case: StepCase) -> bool | None:
        """Is N positive for all strings at one step? The least ratio is kept on the way."""
        positive = None
        for precision in BALL_PRECISIONS:
            with working_precision(precision):
                sight = sights.at(precision)
                least = sight.least(case, self.votes[case])
                if least > 0:
                    positive = True
                elif least <= 0:
                    positive = False
                    self._keep(sight, case, sight.lowest(case, self.votes[case]), fails=True)
            if positive is not None:
                break
        for finer in BALL_PRECISIONS[BALL_PRECISIONS.index(precision) :]:
            with working_precision(finer):
                if self._bound(sights.at(finer), case, positive is True):
                    return positive
        with working_precision(finer):
            bound = sights.at(finer).positive_below(case, self.votes[case]) if positive else None
        self._lower(bound)
        return positive

    def _lower(self, bound: float | None) -> None:
        """Lower what all ratios are proved to exceed; None: of some nothing was proved."""
        self.below = None if self.below is None or bound is None else min(self.below, bound)

    def _keep(self, sight: _Sight, case: StepCase, choice: Int64[np.ndarray, " free"], *, fails: bool = False) -> float:
        """The ratio of a string, kept if it is the least, or the least of those whose N is certainly at most 0."""
        difference = exact_middle(sight.ratio(case, self.votes[case], choice))
        found = WorstStep(
            sight.length,
            sight.step,
            case,
            sight.string(case, choice),
            min(difference, Fraction(0)) if fails else difference,
        )
        if self.worst is None or found.difference < self.worst.difference:
            self.worst = found
        if fails and (self.failing is None or found.difference < self.failing.difference):
            self.failing = found
        return found.ratio

    def _bound(self, sight: _Sight, case: StepCase, positive: bool) -> bool:
        """Lower the least ratio to this step's if it is smaller, and prove that all of them exceed a number below.

        False if that was not proved: where weights differ by more than the precision, a ratio hides the smaller ones.
        """
        least = np.inf if self.worst is None else self.worst.ratio
        choice = sight.least_ratio(case, self.votes[case], least)
        if choice is not None:
            least = min(least, self._keep(sight, case, choice))
        # The slack is an increasing function of the least ratio, so bounds shown earlier lie above those of the end.
        # Of ratios that are all positive one above 0 is wanted, however small they are.
        for threshold in somewhat_below(least, unit=0.0) if positive and least > 0 else somewhat_below(least):
            votes = {token: vote - arb(threshold) for token, vote in self.votes[case].items()}
            if sight.least(case, votes) > 0:
                self._lower(threshold)
                return True
        return False


class _Sights:
    """One step of one length as one query token sees it, at several precisions."""

    def __init__(self, model: TableModel, length: int, step: int, query: int) -> None:
        self.place = model, length, step, query
        self._kept: dict[int, _Sight] = {}

    def at(self, precision: int) -> _Sight:
        """The weights at that precision, which must be in force."""
        if precision not in self._kept:
            self._kept[precision] = _Sight(*self.place)
        return self._kept[precision]


def occurrences(template: Template, length: int, step: int) -> Iterator[tuple[int, ...]]:
    """For j = 1 .. n the indices at which symbol s_j stands: its source, and its copy if j < step."""
    source = len(template.prefix)
    copy = source + length + len(template.infix)
    for j in range(length):
        yield (source + j, copy + j) if j + 1 < step else (source + j,)


class _Sight:
    """All weights that one query token meets at one step of one length: balls at the working precision in force.

    Attributes:
        free: for each free symbol the weight of all its occurrences, were it 0 and were it 1.
        fixed: the weight of the tokens that stand there whatever the string, by token.
        target: the weight of s_i, were it 0 and were it 1.
    """

    def __init__(self, model: TableModel, length: int, step: int, query: int) -> None:
        self.model, self.length, self.step, self.query = model, length, step, query
        template = model.template
        rows, columns = template.positions(length, step)
        self._places = [*zip(rows.tolist(), columns.tolist(), range(len(rows)), strict=True)]
        self.fixed: dict[int, arb] = {}
        start = len(template.prefix)
        around = [*enumerate(template.prefix), *enumerate(template.infix, start + length)]
        for index, token in around:
            self._add(token, self._weight(token, (index,)))
        symbols = [*occurrences(template, length, step)]
        if step > 1:
            self._add(query, self._weight(query, symbols[step - 2]))
        self.target = self._both(symbols[step - 1])
        self.free = [self._both(at) for at in (*symbols[: max(0, step - 2)], *symbols[step:])]

    def _add(self, token: int, weight: arb) -> None:
        self.fixed[token] = self.fixed[token] + weight if token in self.fixed else weight

    def _both(self, indices: tuple[int, ...]) -> tuple[arb, arb]:
        zero, one = self.model.template.data
        return self._weight(zero, indices), self._weight(one, indices)

    def _weight(self, key: int, indices: tuple[int, ...]) -> arb:
        """The weight of a token that stands at these indices."""
        here, model = self._places[-1], self.model
        scores = (model.score(self.query, key, here, self._places[index]) for index in indices)
        weight = total(_enclosed(score, model.score_error, "score").exp() for score in scores)
        if not weight.is_finite():
            raise InputError(
                "score", f"of token {key} at index {indices[0]}", "a finite number with a finite exponential"
            )
        return weight

    def _constant(self, case: StepCase, votes: Mapping[int, arb]) -> arb:
        token = self.model.template.data[case.symbol]
        constant: arb = self.target[case.symbol] * votes[token]
        return constant + total(weight * votes[token] for token, weight in self.fixed.items())

    def least(self, case: StepCase, votes: Mapping[int, arb]) -> arb:
        """The least N over all strings. Cost: O(length)."""
        zero, one = (votes[token] for token in self.model.template.data)
        return self._constant(case, votes) + total((w * zero).min(v * one) for w, v in self.free)

    def lowest(self, case: StepCase, votes: Mapping[int, arb]) -> Int64[np.ndarray, " free"]:
        """The free symbols for which the upper end of N is smallest."""
        zero, one = (votes[token] for token in self.model.template.data)
        smaller = [(v * one).upper() < (w * zero).upper() for w, v in self.free]
        return np.array(smaller, dtype=np.int64)

    def positive_below(self, case: StepCase, votes: Mapping[int, arb]) -> float:
        """A number that all ratios exceed, their N being certainly positive: the least N over the largest D.

        The upper end of D is the sound one, as N/D falls with D; the lower one may be below 0, which D is not.
        """
        largest = total([*(w.max(v) for w, v in self.free), *self.fixed.values(), self.target[case.symbol]])
        return float_below(self.least(case, votes) / largest.upper())

    def ratio(self, case: StepCase, votes: Mapping[int, arb], choice: Int64[np.ndarray, " free"]) -> arb:
        """N/D of one string; where the sign of D is open, what N/D is at least if N > 0, and at most if N < 0.

        D is positive as a sum of exponentials, but scores that are known roughly make balls of weights that reach below
        0. D lies between 0 and its upper end d then, so that N/D >= N/d where N > 0, and N/D <= N/d where N < 0. The
        sign is N's: N/d is as near to 0 as N/D can be, and neither a margin nor a failure is overstated. No end of D
        bounds the other side.
        """
        data = self.model.template.data
        chosen = [pair[symbol] for pair, symbol in zip(self.free, choice.tolist(), strict=True)]
        numerator = total(weight * votes[data[symbol]] for weight, symbol in zip(chosen, choice.tolist(), strict=True))
        denominator = total([*chosen, *self.fixed.values(), self.target[case.symbol]])
        return (numerator + self._constant(case, votes)) / (denominator if denominator > 0 else denominator.upper())

    def least_ratio(self, case: StepCase, votes: Mapping[int, arb], below: float) -> Int64[np.ndarray, " free"] | None:
        """The free symbols with the least ratio, by Dinkelbach's iteration on midpoints; None if it is not below.

        Not in floats: weights may differ by more than floats can hold. A candidate: what all ratios exceed is proved
        afterwards. Few rounds are needed; after MOST_ROUNDS the best so far is taken.
        """
        ratio = arb(below) if isfinite(below) else max((vote.mid() for vote in votes.values()), key=float)
        best: Int64[np.ndarray, " free"] | None = None
        for _ in range(MOST_ROUNDS):
            choice = self.lowest(case, {token: vote - ratio for token, vote in votes.items()})
            found = self.ratio(case, votes, choice).mid()
            if not found < (ratio if best is not None else below):
                return best
            ratio, best = found, choice
        return best

    def string(self, case: StepCase, choice: Int64[np.ndarray, " free"]) -> Int64[np.ndarray, " n"]:
        """The string with these free symbols."""
        before = max(0, self.step - 2)
        middle = [case.symbol] if self.step == 1 else [self.model.template.data.index(self.query), case.symbol]
        return np.concatenate([choice[:before], middle, choice[before:]]).astype(np.int64)
