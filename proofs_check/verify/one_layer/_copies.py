"""Kinds `one-layer-copies` and `one-layer-counterexample`: every string of a range of lengths at once, and one step of
one.

*Why a minimum over strings is a sum of minima.* For a query token c, a symbol t to write and a competitor, token x
weighs `exp(score) a_x` in N, a_x its logit for t minus the competitor's (less a threshold). At step i > 1 the places
of s_j in the string and of s_k in the copy, relative to the query, depend on j - i and k - i alone if a row break
separates string and copy; s_{i-1} = c and s_i = t are fixed, every other symbol is free and stands in one term (source
and copy together). So the least N of all strings is `P(i) + H(n - i)`, both prefix sums. Step 1 sees no copy. In one
row (no break) the same holds for each n by itself.

*Arithmetic.* Scores come from a matrix product of balls (block starts by offsets, angle addition), weights from exp of
balls. Weights, scaled so that none exceeds 1, are kept as integers, in units of 2^-WEIGHT_BITS, off by at most `slack`
units; the votes of a case as integers in units of 2^-VOTE_BITS of a power of two above the largest of them, off by less
than 2: the sign of N does not depend on the scale. All sums are sums of integers, exact, so that every `P(i) + H(m)` is
off by at most

    sum over terms met and tokens x there of  slack |A_x| + W_x + slack                      (A, W: votes and weights
    in units)

which is added up over everything that could be met. Where that does not decide (weights that are all far below the
largest one met anywhere, votes that cancel), the same sums are formed in balls, up to LARGEST_BALL_HORIZON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import isfinite, isqrt
from operator import add
from pathlib import Path
from typing import Any

from flint import arb, arb_mat, ctx

from proofs_check.verify.one_layer._model import MODEL_BITS, OneLayer, Place, Wave, read_one_layer
from proofs_check.verify.reading import (
    Frequency,
    Rejected,
    Turns,
    ball,
    digest,
    exact_sum,
    floor_of_exact,
    function_units,
    product_units,
    require_choice,
    require_fields,
    require_integer,
    require_list,
    require_rational,
    spend,
    total,
    working_precision,
)

LARGEST_LENGTH, LARGEST_ONE_ROW_LENGTH = 1_000_000, 300

#: Weights and votes are kept in units of 2^-WEIGHT_BITS and 2^-VOTE_BITS; weights are computed with more bits.
GUARD_BITS, WEIGHT_BITS, VOTE_BITS = 64, 128, 96

#: Precisions of sums in balls, and the longest strings that they are formed for; in one row each length by itself.
BALL_BITS, LARGEST_BALL_HORIZON, LARGEST_ONE_ROW_BALL_HORIZON = (192, 768), 4096, 64

#: Units of work of one check, see `_work`: a proof of 10^6 symbols takes about a quarter of it.
MOST_UNITS = 400_000_000

_MOST_THRESHOLDS = 100_000

#: Longest description of a string, in runs.
_MOST_RUNS = 200_000

Integers = list[int]


@dataclass(frozen=True)
class Case:
    """A query token (of step 1 or not), the symbol to write, and another output."""

    query: int
    first: bool
    symbol: int
    competitor: int


@dataclass(frozen=True)
class _Moving:
    """A token of A or B at relative row `row` and column `column + sign k`, k the step, or n - i."""

    token: int
    row: int
    column: int
    sign: int


@dataclass(frozen=True)
class _Sight:
    """What a query sees: row and column of the wanted key, tokens that move with the step and with n - i.

    `backwards`: step 1 asked from the row of the string; `target` is then the column of s_n.
    """

    query: int
    first: bool
    row: int
    target: int
    by_step: tuple[_Moving, ...]
    by_rest: tuple[_Moving, ...]
    backwards: bool


def check_one_layer_copies(directory: Path, inputs: object, evidence: object, claim: object) -> str:
    """The statement of a `one-layer-copies` certificate, derived from the weights.

    Raises:
        Rejected: the claim is wrong, or integers and balls of these precisions do not decide it.
    Cost: about 100 microseconds for each length (5 tokens, one head), times the square of the length in one row.
    """
    fields = require_fields(claim, "claim", ("criterion", "copies_up_to", "fails_at"))
    criterion = require_choice(fields["criterion"], "claim.criterion", ("argmax", "half"))
    copies = require_integer(fields["copies_up_to"], "claim.copies_up_to", 0, LARGEST_LENGTH)
    model = read_one_layer(directory, inputs)
    thresholds = require_fields(evidence, "evidence", ("thresholds",))["thresholds"]
    checker = Checker(model, read_thresholds(model, thresholds))
    parts = []
    if copies:
        checker.require_copied(copies, criterion)
        what = "every output but the right one has a smaller logit"
        if criterion == "half":
            what = "the right output has a probability above one half"
        parts.append(f"at every step of every binary string of every length from 1 to {copies}, {what}")
    if fields["fails_at"] is not None:
        fails = require_integer(fields["fails_at"], "claim.fails_at", 1, LARGEST_LENGTH)
        checker.require_failing(fails)
        parts.append(f"some binary string of length {fails} is not copied")
    return f"For {model.description}: {', and '.join(parts) or 'nothing is claimed'}."


def read_thresholds(model: OneLayer, thresholds: object) -> dict[Case, list[Fraction]]:
    """By case, one threshold for each head, from the list in the evidence."""
    entries = require_list(thresholds, "evidence.thresholds", _MOST_THRESHOLDS)
    found: dict[Case, list[Fraction]] = {}
    for entry in entries:
        fields = require_fields(entry, "a threshold", ("query", "first", "symbol", "competitor", "heads"))
        if not isinstance(fields["first"], bool):
            raise Rejected("a threshold's field first is not true or false")
        case = Case(
            require_integer(fields["query"], "query", 0),
            fields["first"],
            require_integer(fields["symbol"], "symbol", 0, 1),
            require_integer(fields["competitor"], "competitor", 0, model.outputs - 1),
        )
        heads = [require_rational(value, "a threshold") for value in require_list(fields["heads"], "heads", 64)]
        if len(heads) != len(model.heads) or case in found:
            raise Rejected("evidence.thresholds has a case twice, or not one number for each head")
        found[case] = heads
    return found


class Undecided(Rejected):
    """Integers of these precisions do not carry what is asked."""


class Checker:
    """Decides one model."""

    def __init__(self, model: OneLayer, thresholds: dict[Case, list[Fraction]]) -> None:
        self.model, self.thresholds = model, thresholds
        last = model.layout.infix[-1]
        self.cases = [
            Case(query, first, symbol, other)
            for query, first in ((last, True), *((token, False) for token in model.layout.data))
            for symbol in (0, 1)
            for other in range(model.outputs)
            if other != model.targets[symbol]
        ]
        self.separate = model.layout.output.slope == 0

    def require_copied(self, length: int, criterion: str) -> None:
        """Rejected unless all strings of all lengths from 1 to `length` are certainly copied."""
        self._require_reach(length)
        if self.thresholds or criterion == "half" or len(self.model.heads) > 1:
            self._require_thresholds(criterion)
        for head in range(len(self.model.heads)):
            for sight, only in self._sights(length):
                sums = Sums(self.model, head, sight, length if only is None else only)
                for case in self.cases_of(sight):
                    if not sums.all_positive(case.symbol, self._votes(head, case), only):
                        raise Rejected(f"not every string of every length up to {length} is certainly copied")

    def require_failing(self, length: int) -> None:
        """Rejected unless some string of exactly this length certainly has a step that is wrong by arg-max."""
        self._require_reach(length)
        if len(self.model.heads) > 1:
            raise Rejected("claim.fails_at: with several heads a counterexample is needed")
        for sight, only in self._sights(length):
            if only not in (None, length):
                continue
            sums = Sums(self.model, 0, sight, length)
            for case in self.cases_of(sight):
                with working_precision(MODEL_BITS):
                    votes = self.plain_votes(0, case)
                if sums.some_not_positive(case.symbol, votes, only):
                    return
        raise Rejected(f"it is not certain that some string of length {length} is not copied")

    def _require_reach(self, length: int) -> None:
        if not self.separate and length > LARGEST_ONE_ROW_LENGTH:
            raise Rejected(f"string and copy stand in one row: lengths up to {LARGEST_ONE_ROW_LENGTH} are checked")

    def cases_of(self, sight: _Sight) -> list[Case]:
        """The cases of a query."""
        return [case for case in self.cases if (case.query, case.first) == (sight.query, sight.first)]

    def plain_votes(self, head: int, case: Case) -> dict[int, arb]:
        """Votes of a head; those of a single head include what the query token adds."""
        return _plain_votes(self.model, case.query, head, self.model.targets[case.symbol], case.competitor)

    def direct(self, case: Case) -> arb:
        """What the query token adds by itself to the difference."""
        logits = self.model.direct[case.query]
        return logits[self.model.targets[case.symbol]] - logits[case.competitor]

    def _votes(self, head: int, case: Case) -> dict[int, arb]:
        with working_precision(MODEL_BITS):
            votes = self.plain_votes(head, case)
            if self.thresholds:
                threshold = ball(self.thresholds[case][head])
                votes = {x: vote - threshold for x, vote in votes.items()}
            return votes

    def _require_thresholds(self, criterion: str) -> None:
        """The thresholds, exceeded by each head's mean, must make the criterion true."""
        if set(self.thresholds) != set(self.cases):
            raise Rejected("evidence.thresholds does not hold exactly the cases of this model")
        with working_precision(MODEL_BITS):
            sums: dict[tuple[int, bool, int], arb] = {}
            for case, heads in self.thresholds.items():
                direct = self.direct(case) if len(heads) > 1 else arb(0)
                difference = total(map(ball, heads)) + direct
                if not (difference >= 0 or (direct.is_zero() and exact_sum(heads) >= 0)):
                    raise Rejected("the thresholds of a case do not certainly add up to a number >= 0")
                place = (case.query, case.first, case.symbol)
                sums[place] = sums.get(place, arb(0)) + (-self.model.least_factor * difference).exp()
            if criterion == "half" and self.model.outputs > 2 and not all(value <= 1 for value in sums.values()):
                raise Rejected("the thresholds leave room for a probability of one half or less")

    def sights_of(self, length: int) -> list[_Sight]:
        """Step 1, and the later steps of one length."""
        later = [_later_sight(self.model, query, 0 if self.separate else length) for query in self.model.layout.data]
        return [_first_sight(self.model), *(later if length > 1 else [])]

    def _sights(self, length: int) -> Iterator[tuple[_Sight, int | None]]:
        """Step 1; the later steps, for all lengths at once, or for each length in one row."""
        yield _first_sight(self.model), None
        if length < 2:
            return
        for n in (0,) if self.separate else range(2, length + 1):
            for query in self.model.layout.data:
                yield _later_sight(self.model, query, n), n or None


def _first_sight(model: OneLayer) -> _Sight:
    """Step 1; columns of moving tokens at n = 1."""
    layout = model.layout
    here = layout.infix_places[-1]
    moving: dict[bool, list[_Moving]] = {True: [], False: []}
    for token, place in _around(model):
        sign = place.slope - here.slope
        moving[sign == 0].append(_Moving(token, place.row - here.row, place.column - here.column + sign, sign))
    return _Sight(
        layout.infix[-1], True, layout.source.row - here.row, layout.source.column - here.column - here.slope,
        tuple(moving[True]), tuple(moving[False]), here.slope == 1,
    )  # fmt: skip


def _later_sight(model: OneLayer, query: int, n: int) -> _Sight:
    """Steps above 1: the query of step i stands i - 2 columns after the first symbol written."""
    layout = model.layout
    row, column = layout.output.row, layout.output.column + layout.output.slope * n - 2
    steps, rests = [], []
    for token, place in _around(model):
        if place.slope and not layout.output.slope:
            rests.append(_Moving(token, place.row - row, place.column - column, 1))
        else:
            steps.append(_Moving(token, place.row - row, place.column + place.slope * n - column, -1))
    target = layout.source.column - 1 - column
    return _Sight(query, False, layout.source.row - row, target, tuple(steps), tuple(rests), False)


def _around(model: OneLayer) -> list[tuple[int, Place]]:
    layout = model.layout
    return [
        *zip(layout.prefix, layout.prefix_places, strict=True),
        *zip(layout.infix, layout.infix_places, strict=True),
    ]


@dataclass(frozen=True)
class IntegerVotes:
    """Votes in units of 2^unit, off by less than 2 units, and the largest absolute value."""

    values: dict[int, int]
    largest: int
    unit: int


def integer_votes(votes: dict[int, arb]) -> IntegerVotes:
    """Votes in units of 2^-VOTE_BITS of a power of two above the largest of them.

    Raises:
        Undecided: their balls are too wide for that.
    """
    most = _largest([abs(vote).upper() for vote in votes.values()])
    if not most.is_finite():
        raise Undecided("a vote is not finite")
    mantissa, exponent = most.upper().man_exp()
    unit = int(exponent) + int(mantissa).bit_length() - VOTE_BITS
    integers = {}
    for token, vote in votes.items():
        scaled = vote * arb((1, -unit))
        if not scaled.rad() < 0.25:
            raise Undecided("a vote could not be enclosed tightly enough")
        integers[token] = floor_of_exact(scaled.mid())
    return IntegerVotes(integers, max(abs(value) for value in integers.values()), unit)


class Sums:
    """The least N of all steps of one query token: in integers, and where they do not decide, in balls."""

    def __init__(self, model: OneLayer, head: int, sight: _Sight, horizon: int, bits: int = WEIGHT_BITS) -> None:
        self.model, self.head, self.sight, self.horizon = model, head, sight, horizon
        self.terms: Terms | None = None
        with suppress(Undecided):
            self.terms = Terms(model, head, sight, horizon, bits)
        self._balls: dict[int, BallTerms] = {}

    def balls(self, bits: int) -> BallTerms:
        """The terms in balls of that precision."""
        if bits not in self._balls:
            self._balls[bits] = BallTerms(self.model, self.head, self.sight, self.horizon, bits)
        return self._balls[bits]

    def all_positive(self, symbol: int, votes: dict[int, arb], only: int | None) -> bool:
        """Is N certainly positive for all lengths up to the horizon (or for the length `only`)?"""
        integers = self._integers(votes)
        if self.terms is not None and integers is not None and self.terms.all_positive(symbol, integers, only):
            return True
        return any(self.balls(bits).all_positive(symbol, votes, only) for bits in self._precisions(only))

    def some_not_positive(self, symbol: int, votes: dict[int, arb], only: int | None) -> bool:
        """Is N certainly at most 0 at some step of some string of exactly this length, the horizon?"""
        integers = self._integers(votes)
        if self.terms is not None and integers is not None and self.terms.some_not_positive(symbol, integers):
            return True
        return any(self.balls(bits).some_not_positive(symbol, votes) for bits in self._precisions(only))

    def _integers(self, votes: dict[int, arb]) -> IntegerVotes | None:
        try:
            with working_precision(MODEL_BITS):
                return integer_votes(votes)
        except Undecided:
            return None

    def _precisions(self, only: int | None) -> tuple[int, ...]:
        longest = LARGEST_BALL_HORIZON if only is None else LARGEST_ONE_ROW_BALL_HORIZON
        return BALL_BITS if self.horizon <= longest else ()


class Terms:
    """Integer weights of all that one query token can see at lengths up to `horizon`."""

    def __init__(self, model: OneLayer, head: int, sight: _Sight, horizon: int, weight_bits: int = WEIGHT_BITS) -> None:
        self.sight, self.horizon, self.data = sight, horizon, model.layout.data
        waves = {x: wave for (c, x), wave in model.heads[head][0].items() if c == sight.query}
        self._table = self._tabulated(model, waves, sight, horizon, weight_bits)
        free = horizon - (1 if sight.first else 2)
        self.free, read, target = free, self._table.read, sight.target
        self.before: tuple[Integers, ...] = ([], [])
        self.previous = 0
        if sight.backwards:
            self.after = tuple(read(x, sight.row, target, -1, free) for x in self.data)
            self.wanted = tuple(read(x, sight.row, target, -1, free + 1) for x in self.data)
        else:
            self.after = tuple(read(x, sight.row, target + 1, 1, free) for x in self.data)
            self.wanted = tuple(read(x, sight.row, target, 1, 1) for x in self.data)
        if not sight.first:
            self.before = tuple(
                list(map(add, read(x, sight.row, target - 2, -1, free), read(x, 0, -1, -1, free))) for x in self.data
            )
            self.previous = read(sight.query, sight.row, target - 1, 1, 1)[0] + read(sight.query, 0, 0, 1, 1)[0]
        first, count = (1, 1) if sight.first else (2, horizon - 1)
        self.steps = self._moving(sight.by_step, first, count)
        self.rests = self._moving(sight.by_rest, 0, free + 1)
        self._bound(horizon)

    def _tabulated(
        self, model: OneLayer, waves: dict[int, Wave], sight: _Sight, horizon: int, bits: int
    ) -> _WeightTable:
        return _WeightTable(model, waves, sight, horizon, bits)

    def _bound(self, horizon: int) -> None:
        """What the error of sums is derived from."""
        self.slack = self._table.slack
        self.met = sum(map(sum, (*self.before, *self.after, *self.wanted)), 2 * self.previous)
        self.met += sum(max(weights) for group in (self.steps, self.rests) for weights in group.values())
        self.terms = 8 * horizon + 4 * (len(self.sight.by_step) + len(self.sight.by_rest)) + 8

    def _moving(self, tokens: Sequence[_Moving], first: int, count: int) -> dict[int, Integers]:
        result: dict[int, Integers] = {}
        spend(count * len(tokens) // 4)
        for m in tokens:
            start = m.column + m.sign * first
            along = self._table.read(m.token, m.row, start, m.sign, count) if m.sign else None
            if along is None:
                along = self._table.read(m.token, m.row, start, 1, 1) * count
            known = result.get(m.token)
            result[m.token] = along if known is None else list(map(add, known, along))
        return result

    def error(self, largest_vote: int, met: int | None = None) -> int:
        """Bound, in units of weights times votes, of what any P(i) + H(m) is off by.

        `met` is what the weights of the terms add up to, if not all that can be met are.
        """
        return 2 * self.terms * self.slack * (largest_vote + 2) + 2 * (self.met if met is None else met)

    def fixed_weights(self, symbol: int, length: int, step: int) -> dict[int, int]:
        """By token, the weight of what stands there at one step whatever the free symbols are."""
        rest, index = length - step, step - (1 if self.sight.first else 2)
        parts = [(self.data[symbol], self.wanted[symbol][rest if self.sight.backwards else 0])]
        parts += [(token, along[index]) for token, along in self.steps.items()]
        parts += [(token, along[rest]) for token, along in self.rests.items()]
        if not self.sight.first:
            parts.append((self.sight.query, self.previous))
        result: dict[int, int] = {}
        for token, weight in parts:
            result[token] = result.get(token, 0) + weight
        return result

    def place_of(self, number: int, length: int, step: int) -> tuple[tuple[Integers, ...], int]:
        """The weights, by symbol, in which the free symbol of that number stands, and at which index."""
        if number < step:
            return self.before, step - 2 - number
        return self.after, length - number if self.sight.backwards else number - step - 1

    def _sums(self, symbol: int, votes: dict[int, int]) -> tuple[Integers, Integers]:
        """P by step and H by n - i, in units of weights times votes."""
        spend(self.free * (3 + len(self.steps) + len(self.rests)) // 2)
        zero, one = (votes[token] for token in self.data)
        wanted = [weight * votes[self.data[symbol]] for weight in self.wanted[symbol]]
        before = self._prefix(self.before, zero, one)
        after = self._prefix(self.after, zero, one)
        for token, weights in self.steps.items():
            before = list(map(add, before, map(votes[token].__mul__, weights)))
        for token, weights in self.rests.items():
            after = list(map(add, after, map(votes[token].__mul__, weights)))
        constant = 0 if self.sight.backwards else wanted[0]
        if not self.sight.first:
            constant += self.previous * votes[self.sight.query]
        if self.sight.backwards:
            after = list(map(add, after, wanted))
        return [value + constant for value in before], after

    @staticmethod
    def _prefix(weights: tuple[Integers, ...], zero: int, one: int) -> Integers:
        least = map(min, map(zero.__mul__, weights[0]), map(one.__mul__, weights[1]))
        return list(accumulate(least, initial=0))

    def _exact_length(self, symbol: int, votes: dict[int, int]) -> Iterator[int]:
        """The least N of each step of the horizon's length."""
        before, after = self._sums(symbol, votes)
        steps = before if not self.sight.first else before[:1]
        return map(add, steps, reversed(after) if not self.sight.first else after[-1:])

    def all_positive(self, symbol: int, votes: IntegerVotes, only: int | None) -> bool:
        """Is N certainly positive for all lengths up to the horizon (or for the length `only`)?"""
        before, after = self._sums(symbol, votes.values)
        error = self.error(votes.largest)
        rest = after if only is not None else list(accumulate(after, min))
        return all(value > error for value in map(add, before, reversed(rest[: self.free + 1])))

    def some_not_positive(self, symbol: int, votes: IntegerVotes) -> bool:
        """Is N certainly at most 0 at some step of some string of exactly this length, the horizon?"""
        error = self.error(votes.largest)
        return any(value + error <= 0 for value in self._exact_length(symbol, votes.values))


class BallTerms(Terms):
    """The same with balls for weights and votes, which have any exponent: slower, and certain by themselves."""

    def __init__(self, model: OneLayer, head: int, sight: _Sight, horizon: int, bits: int) -> None:
        self.bits = bits
        with working_precision(bits):
            super().__init__(model, head, sight, horizon, bits)

    def _tabulated(
        self, model: OneLayer, waves: dict[int, Wave], sight: _Sight, horizon: int, bits: int
    ) -> _WeightTable:
        return _BallTable(model, waves, sight, horizon, bits)

    def _bound(self, horizon: int) -> None:
        """Balls carry their own."""

    @staticmethod
    def _prefix(weights: Any, zero: Any, one: Any) -> Any:
        least = map(arb.min, map(zero.__mul__, weights[0]), map(one.__mul__, weights[1]))
        return list(accumulate(least, initial=arb(0)))

    def all_positive(self, symbol: int, votes: Any, only: int | None) -> bool:
        """Is N certainly positive for all lengths up to the horizon (or for the length `only`)?"""
        with working_precision(self.bits):
            before, after = self._sums(symbol, votes)
            rest = after if only is not None else list(accumulate(after, arb.min))
            return all(value > 0 for value in map(add, before, reversed(rest[: self.free + 1])))

    def some_not_positive(self, symbol: int, votes: Any) -> bool:
        """Is N certainly at most 0 at some step of some string of exactly this length, the horizon?"""
        with working_precision(self.bits):
            return any(value <= 0 for value in self._exact_length(symbol, votes))


class _WeightTable:
    """exp(score) in units of 2^-bits, up to a common factor, each off by at most `slack` units."""

    def __init__(self, model: OneLayer, waves: dict[int, Wave], sight: _Sight, horizon: int, bits: int) -> None:
        self._bits = bits
        spans: dict[tuple[int, int], tuple[int, int]] = {}

        def need(token: int, row: int, *ends: int) -> None:
            low, high = spans.get((token, row), (ends[0], ends[0]))
            spans[token, row] = min(low, *ends), max(high, *ends)

        # Exactly the columns that are read: a key that is never seen must not set the scale of the weights.
        free = horizon - (1 if sight.first else 2)
        for token in model.layout.data:
            if sight.first:
                need(token, sight.row, sight.target, sight.target + (-free if sight.backwards else free))
            else:
                need(token, sight.row, sight.target - 1 - free, sight.target + free)
                need(token, 0, -free, 0)
        least = 1 if sight.first else 2
        for m in sight.by_step:
            need(m.token, m.row, m.column + m.sign * least, m.column + m.sign * (least if sight.first else horizon))
        for m in sight.by_rest:
            need(m.token, m.row, m.column, m.column + m.sign * free)
        self._spans, self._columns = spans, {}
        with working_precision(bits + GUARD_BITS):
            scores = _column_scores(model, waves, spans)
            heights = {
                (token, row): waves[token].constant + _turned(model.row, waves[token].row, row) for token, row in spans
            }
            seen = {
                (x, row): scores[x][1][low - scores[x][0] :][: high - low + 1]
                for (x, row), (low, high) in spans.items()
            }
            top, self.slack = _highest([heights[place] + _highest(along) for place, along in seen.items()]), 2
            # exp of minus infinity is 0 exactly, which no weight is.
            if not top.is_finite():
                raise Undecided("undecided: scores are not finite")
            for place, along in seen.items():
                self._columns[place] = self._integers(along, heights[place] - top)

    def _integers(self, scores: list[arb], shift: arb) -> Integers:
        unit = arb((1, self._bits))
        weights = [(score + shift).exp() * unit for score in scores]
        widest = max((weight.rad() for weight in weights), key=float)
        if not widest < 1:
            raise Undecided("undecided: scores are too large for weights of this precision")
        return [floor_of_exact(weight.mid()) for weight in weights]

    def read(self, token: int, row: int, start: int, sign: int, count: int) -> Integers:
        """Weights at columns start, start + sign, ..: `count` of them."""
        low, high = self._spans[token, row]
        last = start + sign * (count - 1)
        if count > 0 and not (low <= min(start, last) and max(start, last) <= high):
            raise Rejected("a column outside the table was asked for")
        first = min(start, last) - low
        along = self._columns[token, row][first : first + max(0, count)]
        return along if sign > 0 else along[::-1]


class _BallTable(_WeightTable):
    """exp(score) as balls, up to a common factor."""

    def _integers(self, scores: list[arb], shift: arb) -> Any:
        spend(len(scores) * function_units())
        weights = [(score + shift).exp() for score in scores]
        # Every weight is above 0: one that certainly is not would make a tie, or a failure, of nothing.
        if any(weight <= 0 or not weight.is_finite() for weight in weights):
            raise Undecided("undecided: scores are too large for balls")
        return weights


def _largest(values: list[arb]) -> arb:
    result = arb(0)
    for value in values:
        result = result.max(value)
    return result


def _highest(scores: list[arb]) -> arb:
    """A number about as large as the largest middle, exact; the sign of N does not depend on which."""
    best = max(scores, key=_middle)
    if not isfinite(_middle(best)):
        # Floats do not hold the scores: middles are compared as they are.
        for score in scores:
            if not score.mid() <= best.mid():
                best = score
    return best.mid()


def _middle(score: arb) -> float:
    return float(score.mid())


def _column_scores(
    model: OneLayer, waves: dict[int, Wave], spans: dict[tuple[int, int], tuple[int, int]]
) -> dict[int, tuple[int, list[arb]]]:
    """For each key token the first column of its span and the column scores along it, by one matrix product."""
    joined: dict[int, tuple[int, int]] = {}
    for (token, _), (low, high) in spans.items():
        before = joined.get(token, (low, high))
        joined[token] = min(before[0], low), max(before[1], high)
    width = isqrt(max(high - low for low, high in joined.values()) + 1) + 1
    halves = [_half_turns(frequency) for frequency in model.column]
    offsets = arb_mat(
        [row for half in halves for row in zip(*(_cos_sin(half, j) for j in range(width)), strict=True)]
    ) if halves else None  # fmt: skip
    turned: dict[int, list[tuple[arb, arb]]] = {}
    result = {}
    for token, (low, high) in joined.items():
        spend((high - low + width) * (2 + len(halves) // 8) * product_units())
        start = low - low % width
        starts = range(start, high + 1, width)
        along = [arb(0)] * (len(starts) * width)
        if offsets is not None:
            table = []
            for s in starts:
                if s not in turned:
                    turned[s] = [_cos_sin(half, s) for half in halves]
                pairs = zip(waves[token].column, turned[s], strict=True)
                table.append([z for (a, b), (c, d) in pairs for z in (a * c + b * d, b * c - a * d)])
            along = (arb_mat(table) * offsets).entries()
        if waves[token].slope:
            slope = ball(waves[token].slope)
            along = [score + slope * (start + k) for k, score in enumerate(along)]
        result[token] = start, along
    return result


def _half_turns(frequency: Frequency) -> arb:
    """Half turns per position less a whole number of turns, so that a phase has the working precision left."""
    if isinstance(frequency, Turns):
        return 2 * ball(frequency.value % 1)
    spend(function_units())
    with working_precision(int(ctx.prec) + frequency.magnitude_bits() + GUARD_BITS):
        turns = frequency.turns()
        return 2 * (turns - floor_of_exact(turns.mid()))


def _cos_sin(half: arb, distance: int) -> tuple[arb, arb]:
    sine, cosine = (half * distance).sin_cos_pi()
    return cosine, sine


def _turned(frequencies: Sequence[Frequency], waves: Sequence[tuple[arb, arb]], distance: int) -> arb:
    turned = (_cos_sin(_half_turns(frequency), distance) for frequency in frequencies)
    return total(a * c + b * s for (a, b), (c, s) in zip(waves, turned, strict=True))


def check_one_layer_counterexample(directory: Path, inputs: object, evidence: object, claim: object) -> str:
    """The statement of a `one-layer-counterexample` certificate: one step of one string, in balls from its tokens.

    A competitor of null claims that the right output has a probability of at most one half.

    Raises:
        Rejected: the step is right against that competitor, or balls do not decide it.
    Cost: microseconds for each token seen and head.
    """
    require_fields(evidence, "evidence", ())
    fields = require_fields(claim, "claim", ("first_symbol", "runs", "step", "competitor"))
    symbol = require_integer(fields["first_symbol"], "claim.first_symbol", 0, 1)
    runs = [require_integer(run, "a run", 1) for run in require_list(fields["runs"], "claim.runs", _MOST_RUNS)]
    n = sum(runs)
    if not 1 <= n <= LARGEST_LENGTH:
        raise Rejected(f"the runs do not add up to a length from 1 to {LARGEST_LENGTH}")
    string = bytearray()
    for run in runs:
        string += bytes([symbol]) * run
        symbol ^= 1
    step = require_integer(fields["step"], "claim.step", 1, n)
    model = read_one_layer(directory, inputs)
    if fields["competitor"] is None:
        return _require_unlikely(model, bytes(string), step, len(runs))
    competitor = require_integer(fields["competitor"], "claim.competitor", 0, model.outputs - 1)
    if competitor == model.targets[string[step - 1]]:
        raise Rejected("claim.competitor is the right output")
    for bits in (192, 768):
        with working_precision(bits):
            difference = logit_difference(model, bytes(string), step, competitor)
        if difference <= 0:
            return (
                f"For {model.description}: in the binary string of length {n} {_spelled(string, len(runs))}, at step "
                f"{step} output {competitor} has a logit at least as large as that of the symbol {string[step - 1]} "
                "to write: it is not copied."
            )
        if difference > 0:
            raise Rejected(f"at step {step} the right output is above output {competitor}")
    raise Rejected(f"undecided whether step {step} is wrong")


def _spelled(string: bytes | bytearray, runs: int) -> str:
    text = string.translate(bytes.maketrans(b"\0\1", b"01")).decode()
    return text if len(text) <= 100 else f"with {runs} runs, beginning {text[:60]}... ({digest(text)})"


def _require_unlikely(model: OneLayer, string: bytes, step: int, runs: int) -> str:
    """The statement that the right output has a probability of at most one half; Rejected if that is not certain."""
    if len(model.heads) > 1:
        raise Rejected("claim.competitor: with several heads it must be an output")
    for bits in (192, 768):
        with working_precision(bits):
            odds = sum_of_odds(model, string, step)
        if odds >= 1:
            return (
                f"For {model.description}: in the binary string of length {len(string)} {_spelled(string, runs)}, at "
                f"step {step} the symbol {string[step - 1]} to write has a probability of at most one half."
            )
        if odds < 1:
            raise Rejected(f"at step {step} the right output has a probability above one half")
    raise Rejected(f"undecided whether the probability at step {step} is above one half")


def _weights_seen(model: OneLayer, string: bytes, step: int) -> tuple[int, list[dict[int, arb]]]:
    """The query token of a step, and for each head the weight of each token, its occurrences together."""
    layout, n = model.layout, len(string)
    query = layout.infix[-1] if step == 1 else layout.data[string[step - 2]]
    here = layout.infix_places[-1]
    if step > 1:
        here = Place(layout.output.row, layout.output.column + step - 2, layout.output.slope)
    column = here.column + here.slope * n
    seen: dict[tuple[int, int], list[int]] = {}
    for token, place in _around(model):
        seen.setdefault((token, place.row - here.row), []).append(place.column + place.slope * n - column)
    for place, symbols in ((layout.source, string), (layout.output, string[: step - 1])):
        start = place.column + place.slope * n - column
        for symbol in (0, 1):
            columns = [start + k for k, s in enumerate(symbols) if s == symbol]
            if columns:
                seen.setdefault((layout.data[symbol], place.row - here.row), []).extend(columns)
    spans = {place: (min(columns), max(columns)) for place, columns in seen.items()}
    result = []
    for waves, _ in model.heads:
        mine = {x: wave for (c, x), wave in waves.items() if c == query}
        scores = _column_scores(model, mine, spans)
        weights: dict[int, arb] = {}
        for (token, row), columns in seen.items():
            first, along = scores[token]
            height = mine[token].constant + _turned(model.row, mine[token].row, row)
            spend(len(columns) * function_units())
            weight = total((along[c - first] + height).exp() for c in columns)
            weights[token] = weights.get(token, arb(0)) + weight
        result.append(weights)
    return query, result


def logit_difference(model: OneLayer, string: bytes, step: int, competitor: int) -> arb:
    """Logit of the right output minus the competitor's, before the final norm's factor, at the working precision.

    A number of the same sign, the numerator of the mean, where one head's sum of weights is not certainly positive: it
    is, as a sum of exponentials, but its ball does not tell.
    """
    query, heads = _weights_seen(model, string, step)
    target = model.targets[string[step - 1]]
    votes = [_plain_votes(model, query, number, target, competitor) for number in range(len(heads))]
    if len(heads) == 1:
        # A weight is a number, so that no vote of it adds nothing, however large its ball is.
        counted = (weight * votes[0][x] for x, weight in heads[0].items() if not votes[0][x].is_zero())
        numerator, everything = total(counted), total(heads[0].values())
        return numerator / everything if everything > 0 else numerator
    # A mean is that of its heaviest token's vote, and of how far the others lie from it. These votes and what the query
    # token adds are summed before any weight comes in, so that they cancel exactly where they do.
    heaviest = [max(weights.items(), key=lambda item: item[1].mid())[0] for weights in heads]
    with working_precision(_vote_bits()):
        direct = model.direct[query]
        result = direct[target] - direct[competitor] + total(own[x] for own, x in zip(votes, heaviest, strict=True))
        votes = [{x: vote - own[top] for x, vote in own.items()} for own, top in zip(votes, heaviest, strict=True)]
    for weights, own in zip(heads, votes, strict=True):
        result += total(w * own[x] for x, w in weights.items()) / total(weights.values())
    return result


def _vote_bits() -> int:
    """Votes are differences of numbers of MODEL_BITS, exact where these are: no fewer bits are kept of them."""
    return max(MODEL_BITS, int(ctx.prec))


def _plain_votes(model: OneLayer, query: int, head: int, target: int, other: int) -> dict[int, arb]:
    """Votes of a head for one output against another; those of a single head include what the query token adds.

    Weights of a head add up to 1 after division, so that it can join the votes; and it must join them before a weight
    comes in: a vote that it cancels is then 0, and not a ball as wide as the working precision makes it.
    """
    with working_precision(_vote_bits()):
        direct = model.direct[query]
        own = direct[target] - direct[other] if len(model.heads) == 1 else arb(0)
        return {x: row[target] - row[other] + own for x, row in model.heads[head][1].items()}


def sum_of_odds(model: OneLayer, string: bytes, step: int) -> arb:
    """The sum of the competitors' odds against the right output, one head, at the working precision."""
    query, (weights,) = _weights_seen(model, string, step)
    target = model.targets[string[step - 1]]
    everything = total(weights.values())
    shares = {token: weight / everything for token, weight in weights.items()}
    factor = model.least_factor
    if model.norm is not None:
        factor = model.norm.factor(query, shares)
    elif not (factor >= 1 and factor <= 1):
        raise Rejected("claim.competitor: the factor of this model's norms is not known, so neither are odds")
    votes = (_plain_votes(model, query, 0, target, y) for y in range(model.outputs) if y != target)
    return total((-factor * total(share * own[x] for x, share in shares.items())).exp() for own in votes)
