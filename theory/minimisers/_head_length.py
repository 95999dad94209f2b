"""The exact length up to which a one-layer head copies every string, queries, keys and values being token-dependent.

*Statement* (new). Step (n, i) with query token c and wanted symbol s is right iff N > 0, N the sum of exp(score)
sigma v over the tokens seen, sigma = +1 for s = 0 and -1 for s = 1. Each symbol other than s_i and s_{i-1} = c enters N
through one source and, before i-1, one output, so the minimum over all strings is a sum of minima, and it splits:

    min N(n, i) = F(i) + G(n-i),

F holds the wanted source, what stands before it, the outputs, A and B_2..B_b; G the sources behind it and the newline,
which stands n-i+1 columns from the query. In the search for the least n with a failing step, F and G may be replaced by
their running minima, since a smaller index is never worse. So O(length) balls decide every string of every length, and
the minimising string is the counterexample.

Method: ball, of the stored binary weights and the exact frequencies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from flint import arb

from theory.grid import LengthBracket
from theory.minimisers._population_bounds import HeadTables
from theory.minimisers._population_loss import HeadWeights, require_finite_head
from theory.numbers import GridFrequencies, InputError, ball, require_around, require_at_least, total, working_precision

#: Working precisions, tried in turn while a comparison is undecided.
PRECISIONS = (128, 512)

#: Lengths above this are not looked at: every length keeps some ten balls for each token.
LARGEST_HEAD_LENGTH = 100_000

#: Lengths looked at first; each further round takes eight times as many.
FIRST_LENGTHS = 64


@dataclass(frozen=True)
class HeadFailure:
    """A step that certainly goes wrong (1-based), and a string at which it does."""

    length: int
    step: int
    string: tuple[int, ...]


class HeadLength(LengthBracket[HeadFailure]):
    """What was proved of a head."""


def head_length(frequencies: GridFrequencies, a: int, head: HeadWeights, limit: int = 10_000) -> HeadLength:
    """The length up to which the head copies every string, b = a+2, and a string that breaks it at the next length.

    Raises:
        InputError: a or limit < 1, limit above 100,000, or a weight that is not finite.

    Cost: some ten ball operations for each length and frequency; about 0.2 ms a length at d = 16.
    """
    require_around("a", a)
    require_at_least("limit", limit, 1)
    if limit > LARGEST_HEAD_LENGTH:
        raise InputError("limit", limit, f"at most {LARGEST_HEAD_LENGTH}, for balls at every length")
    require_finite_head(head)
    result = HeadLength(0, None, limit)
    for precision in PRECISIONS:
        with working_precision(precision):
            found = _scan(_Sums(frequencies, a, head), limit)
        result = HeadLength(max(result.lower, found.lower), found.fails or result.fails, limit)
        if result.status == "PROVED":
            break
    return result


def _scan(sums: _Sums, limit: int) -> HeadLength:
    horizon = min(limit, FIRST_LENGTHS)
    while True:
        sums.extend(horizon)
        perhaps = _least(sums, horizon, lambda value: not value > 0)
        if perhaps is not None or horizon == limit:
            break
        horizon = min(limit, 8 * horizon)
    if perhaps is None:
        return HeadLength(limit, None, limit)
    certain = _least(sums, horizon, lambda value: bool(value <= 0))
    fails = None if certain is None else HeadFailure(certain[0], certain[1], sums.worst_string(*certain))
    return HeadLength(perhaps[0] - 1, fails, limit)


#: (length, step, query, symbol) of a step.
_Case = tuple[int, int, int, int]


def _least(sums: _Sums, horizon: int, fails: Callable[[arb], bool]) -> _Case | None:
    """The least length <= horizon with fails(F(i) + G(m)); `fails` must hold for everything below what it holds for.

    With running minima for F and G the least failing m does not grow with i: two pointers, O(horizon).
    """
    best: _Case | None = None
    for query, symbol in sums.cases:
        left = list(accumulate(sums.before[query, symbol][:horizon], arb.min))
        right = list(accumulate(sums.behind[query, symbol][:horizon], arb.min))
        m = horizon - 1
        for before, value in enumerate(left):
            m = min(m, horizon - 1 - before)
            if not fails(value + right[m]):
                continue
            while m > 0 and fails(value + right[m - 1]):
                m -= 1
            if best is None or before + 1 + m < best[0]:
                best = before + 1 + m, before + 1, query, symbol
    return best


class _Sums:
    """F by i-1 and G by n-i, for each query token and wanted symbol, extended as far as asked."""

    def __init__(self, frequencies: GridFrequencies, a: int, head: HeadWeights) -> None:
        self.a, self.tables = a, HeadTables(frequencies, head)
        self.values = [Fraction(value) for value in head.values.tolist()]
        self.cases = [(query, symbol) for query in range(3) for symbol in (0, 1)]
        self.before: dict[tuple[int, int], list[arb]] = {case: [] for case in self.cases}
        self.behind: dict[tuple[int, int], list[arb]] = {case: [] for case in self.cases}
        self._past: dict[tuple[int, int], arb] = {case: arb(0) for case in self.cases}
        self._future: dict[tuple[int, int], arb] = {case: arb(0) for case in self.cases}

    def extend(self, horizon: int) -> None:
        """Make F and G known for all steps of lengths up to the horizon."""
        for case in self.cases:
            last = 1 if case[0] == 2 else horizon
            for i in range(len(self.before[case]) + 1, last + 1):
                self.before[case].append(self._before(case, i))
            for m in range(len(self.behind[case]), horizon):
                self.behind[case].append(self._behind(case, m))

    def worst_string(self, length: int, step: int, query: int, symbol: int) -> tuple[int, ...]:
        """A string that minimises N at the step."""
        chosen = []
        for j in range(1, length + 1):
            if j == step:
                chosen.append(symbol)
            elif j == step - 1:
                chosen.append(query)
            else:
                zero, one = (self._symbol(query, symbol, token, j - step) for token in (0, 1))
                chosen.append(1 if one < zero else 0)
        return tuple(chosen)

    def _before(self, case: tuple[int, int], i: int) -> arb:
        query, symbol = case
        wanted = self._vote(symbol, symbol) * self.tables.weight(query, symbol, -1, 0)
        if i > 2:
            zero, one = (self._symbol(query, symbol, token, 1 - i) for token in (0, 1))
            self._past[case] += zero.min(one)
        if i == 1 and query < 2:
            return arb("inf")  # 0 and 1 ask from step 2 on: never the minimum
        own = arb(0) if i == 1 else self._symbol(query, symbol, query, -1)
        return wanted + own + self._past[case] + self._others(case, i)

    def _behind(self, case: tuple[int, int], m: int) -> arb:
        query, symbol = case
        if m > 0:
            zero, one = (self._symbol(query, symbol, token, m) for token in (0, 1))
            self._future[case] += zero.min(one)
        newline = self.a + 2
        value = self._future[case]
        if self.values[newline]:
            value += self._vote(symbol, newline) * self.tables.weight(query, newline, -1, m + 1)
        return value

    def _symbol(self, query: int, symbol: int, token: int, distance: int) -> arb:
        """What the symbol `token` at this distance from the wanted one adds: its source, and before it its output."""
        weight = self.tables.weight(query, token, -1, distance)
        if distance < 0:
            weight += self.tables.weight(query, token, 0, distance + 1)
        return self._vote(symbol, token) * weight

    def _others(self, case: tuple[int, int], i: int) -> arb:
        query, symbol = case
        places = [(1 + k, -1, k - self.a - i) for k in range(1, self.a + 1)]
        places += [(self.a + 1 + j, 0, j - self.a - 1 - i) for j in range(2, self.a + 3)]
        return total(
            self._vote(symbol, token) * self.tables.weight(query, token, row, column)
            for token, row, column in places
            if self.values[token]
        )

    def _vote(self, symbol: int, token: int) -> arb:
        return ball(self.values[token] if symbol == 0 else -self.values[token])
