"""Kind `grid-scan`: lengths up to which a position-only model copies every string, and beyond which not.

With e(k) = exp(-gap(0, k)), e'(k) = exp(-gap(1, k)), all strings of length n are copied iff for all 1 <= i <= n

    P(i) + H(n-i) < 1,   P(i) = sum_{k=1}^{i-1} e(-k) + sum_{k=1}^{i-1} e'(b-a-1-k),   H(h) = sum_{k=1}^{h} e(k).

All terms are positive, so P and H increase: a length that fails makes all larger ones fail, and one that does not
shows that all smaller ones do not either.

The columns with a gap above a cut T are not evaluated: there are n-1 sources and at most n-1 outputs, so they
weigh at most `(n-1) exp(-T) (1 + exp(-gap(1, 0)))` in any P(i) + H(n-i), and at least 0. Between two steps at
which a listed output or source enters P, P stays and H(n-i) does not grow with i, so that step 1 and those
steps are enough.

A column at which every column frequency has come full circle exactly weighs exactly 1. Such terms are counted
apart: one of them makes the sum at least 1 whatever the rest, with equality, which fails, included.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from flint import arb

from proofs_check.verify.grid._model import GridModel, Score
from proofs_check.verify.grid._waves import WaveSum, precision_for
from proofs_check.verify.reading import (
    Rejected,
    function_units,
    require_fields,
    require_integer,
    spend,
    working_precision,
)

LARGEST_LENGTH = 2_000_000

#: (nats beyond ln(4n) for the cut T, absolute precision of scores in bits) of the successive attempts.
ATTEMPTS = ((8, 64), (24, 128), (64, 256), (160, 640), (400, 1600))

#: Shorter lengths are looked at first, each this many times longer than the one before.
_FIRST_LENGTH, _GROWTH = 64, 8


@dataclass(frozen=True)
class _Weight:
    """A number of terms that are exactly 1, and the sum of other positive terms."""

    ones: int
    rest: arb

    def __add__(self, other: _Weight) -> _Weight:
        return _Weight(self.ones + other.ones, self.rest + other.rest)

    def total(self) -> arb:
        return self.ones + self.rest


_NOTHING, _EXACTLY_ONE = _Weight(0, arb(0)), _Weight(1, arb(0))


class _Prefix:
    """A sum that grows at certain indices."""

    def __init__(self, events: Iterable[tuple[int, _Weight]]) -> None:
        ordered = sorted(events, key=lambda event: event[0])
        self.indices = [index for index, _ in ordered]
        self._sums = [_NOTHING]
        for _, weight in ordered:
            self._sums.append(self._sums[-1] + weight)

    def up_to(self, index: int) -> _Weight:
        return self._sums[bisect_right(self.indices, index)]


def check_grid_scan(model: GridModel, claim: object) -> str:
    """The statement of a `grid-scan` certificate, derived from the weights.

    Raises:
        Rejected: the claim is wrong, or balls do not decide it.
    Cost: a fraction of a microsecond a column, and microseconds for each column of almost the wanted score.
    """
    fields = require_fields(claim, "claim", ("copies_up_to", "fails_at"))
    copies = require_integer(fields["copies_up_to"], "claim.copies_up_to", 0, LARGEST_LENGTH)
    scan = _Scan(model.position_only_score(), model.wanted_column, model.b - model.a - 1)
    parts = []
    if copies:
        scan.require_copied(copies)
        parts.append(f"every binary string of every length from 1 to {copies} is copied")
    if fields["fails_at"] is not None:
        fails = require_integer(fields["fails_at"], "claim.fails_at", 1, LARGEST_LENGTH)
        scan.require_failing(fails)
        parts.append(f"at every length >= {fails} some binary string is not copied")
    return f"For {model.description}: {', and '.join(parts) or 'nothing is claimed'}."


class _Scan:
    """Decides lengths for one score; the prepared waves are kept between lengths."""

    def __init__(self, score: Score, wanted: int, offset: int) -> None:
        """The score, the wanted column relative to the query, and b - a - 1."""
        self._score, self._wanted, self._offset = score, wanted, offset
        self._prepared: dict[int, tuple[WaveSum, WaveSum]] = {}

    def require_copied(self, length: int) -> None:
        """Rejected unless all strings of this length are certainly copied."""
        copied: bool | None = None
        for n in _lengths(length):
            copied = self._decide(n)
            if copied is False:
                raise Rejected(f"some string of length {n} is not copied")
        if copied is None:
            raise Rejected(f"undecided whether every string of length {length} is copied")

    def require_failing(self, length: int) -> None:
        """Rejected unless some string of this length, or of a smaller one, is certainly not copied."""
        copied: bool | None = None
        for n in _lengths(length):
            copied = self._decide(n)
            if copied is False:
                return
        if copied is None:
            raise Rejected(f"undecided whether some string of length {length} is not copied")
        raise Rejected(f"every string of length {length} is copied")

    def _decide(self, n: int) -> bool | None:
        """Are all strings of length n copied? None: undecided at the highest precision."""
        for extra, bits in ATTEMPTS:
            precision = precision_for((*self._score.row, *self._score.column), bits)
            with working_precision(precision):
                answer = self._attempt(n, n.bit_length() + 2 + extra, precision)
            if answer is not None:
                return answer
        return None

    def _attempt(self, n: int, cut: int, precision: int) -> bool | None:
        """One attempt with T = cut, under the working precision."""
        columns, rows = self._waves(precision)
        before, after = self._prefixes(self._column_weights(columns, n, cut), _row_weight(rows), n)
        unlisted = (n - 1) * (-arb(cut)).exp() * (1 + _row_weight(rows).total())
        copied = True
        for step in [1, *before.indices]:
            wrong = before.up_to(step) + after.up_to(n - step)
            if wrong.ones or wrong.rest >= 1:
                return False
            copied = copied and wrong.rest + unlisted < 1
        return True if copied else None

    def _waves(self, precision: int) -> tuple[WaveSum, WaveSum]:
        if precision not in self._prepared:
            self._prepared[precision] = (
                WaveSum(self._score.column, precision),
                WaveSum(self._score.row, precision),
            )
        return self._prepared[precision]

    def _column_weights(self, columns: WaveSum, n: int, cut: int) -> dict[int, _Weight]:
        """Weights of the listed columns, by their distance k to the wanted one; k = 0 is always there."""
        wanted = columns.value(self._wanted)
        first, last = min(0, self._offset) + 1 - n, max(n, self._offset) - 1
        listed = columns.at_least(wanted - cut, self._wanted + first, self._wanted + last)
        weights = {0: _EXACTLY_ONE}
        spend(len(listed) * 2 * function_units())
        for r in listed:
            k = r - self._wanted
            if columns.period is not None and k % columns.period == 0:
                weights[k] = _EXACTLY_ONE
            elif k != 0:
                weights[k] = _Weight(0, (columns.value(r) - wanted).exp())
        return weights

    def _prefixes(self, weights: dict[int, _Weight], row: _Weight, n: int) -> tuple[_Prefix, _Prefix]:
        """P by the step i, and H by h, over the listed columns."""
        before = [(1 - k, weight) for k, weight in weights.items() if 1 - n <= k < 0]
        for column, weight in weights.items():
            if 1 <= self._offset - column <= n - 1:
                product = weight if row.ones else _Weight(0, row.rest * weight.total())
                before.append((self._offset - column + 1, product))
        return _Prefix(before), _Prefix((k, weight) for k, weight in weights.items() if 1 <= k <= n - 1)


def _row_weight(rows: WaveSum) -> _Weight:
    """exp(-gap(1, 0)): the wanted row is -1, the outputs' is 0; rows that come full circle at once weigh 1."""
    return _EXACTLY_ONE if rows.period == 1 else _Weight(0, (rows.value(0) - rows.value(-1)).exp())


def _lengths(length: int) -> list[int]:
    """Lengths to look at, in order, the last one being `length`: a short failure decides a long one cheaply."""
    lengths, n = [], _FIRST_LENGTH
    while n < length:
        lengths.append(n)
        n *= _GROWTH
    return [*lengths, length]
