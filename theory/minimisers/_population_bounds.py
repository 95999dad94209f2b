"""CertifiedHead bounds on the population loss of a given head, for lengths at which strings can't be enumerated.

*Statement* (new). For a step (n, i) with query token c and wanted symbol s, write delta = N / D for the
attention-weighted mean of ceiling - sigma v. The step's excess is f(delta) = log1p(sigmoid(-ceiling) expm1(delta)),
increasing and convex. N and D are sums over the other symbols of the string, each of which enters through its own
terms: their means, minima and maxima over all strings are sums of means, minima and maxima. Over uniform strings

    f(E N / D_max)  <=  E f(delta)  <=  f(low) + (E N / D_min - low) (f(high) - f(low)) / (high - low),

low = N_min / D_max and high = min(N_max / D_min, 2 ceiling): Jensen on the left, the chord on the right. Both are tight
where attention is concentrated and the two data tokens have nearly the same weight.

Method: ball. The terms with j < i-1 depend on i - j alone and those with j > i on j - i alone, so prefix sums serve all
steps of all lengths: O(L^2) ball operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from flint import arb

from theory.minimisers._population_loss import HeadWeights, require_finite_head
from theory.numbers import (
    GridFrequencies,
    InputError,
    ball,
    require_around,
    require_at_least,
    total,
    working_precision,
)

PRECISION = 192

#: Largest L; the work grows with its square.
LARGEST_LENGTH = 500


@dataclass(frozen=True)
class _Spread:
    """Mean, least and largest value of a sum over the strings."""

    mean: arb
    least: arb
    largest: arb

    def __add__(self, other: _Spread) -> _Spread:
        return _Spread(self.mean + other.mean, self.least + other.least, self.largest + other.largest)


#: By N or D, then by a number of symbols.
_Sums = dict[bool, list[_Spread]]


def _fixed(value: arb) -> _Spread:
    return _Spread(value, value, value)


def _either(zero: arb, one: arb) -> _Spread:
    return _Spread((zero + one) / 2, zero.min(one), zero.max(one))


def population_excess_bounds(
    frequencies: GridFrequencies, a: int, length: int, head: HeadWeights, ceiling: Fraction
) -> tuple[arb, arb]:
    """Certain bounds (lower, upper) on the population loss of the stored head less ln(1 + exp(-ceiling)); balls.

    Precondition: |v_x| <= ceiling for every token.

    Raises:
        InputError: a or L < 1, L above 500, a value beyond the ceiling, or a weight that is not finite.

    Cost: O(L^2) ball operations, about 0.1 s at L = 10 and 1 s at L = 50.
    """
    require_at_least("L", length, 1)
    if length > LARGEST_LENGTH:
        raise InputError("L", length, f"at most {LARGEST_LENGTH}: every step of every length takes balls")
    require_around("a", a)
    require_finite_head(head)
    if any(abs(Fraction(value)) > ceiling for value in head.values.tolist()):
        raise InputError("ceiling", str(ceiling), "at least every |v_x|")
    with working_precision(PRECISION):
        bounds = _Bounds(frequencies, a, length, head, ceiling)
        lower, upper = arb(0), arb(0)
        for n in range(1, length + 1):
            steps = [bounds.step(n, i) for i in range(1, n + 1)]
            lower += total(low for low, _ in steps) / (n * length)
            upper += total(high for _, high in steps) / (n * length)
        return lower.lower(), upper.upper()


class _Bounds:
    def __init__(self, frequencies: GridFrequencies, a: int, length: int, head: HeadWeights, ceiling: Fraction) -> None:
        self.a, self.length, self.ceiling = a, length, ball(ceiling)
        self.values = [ball(Fraction(value)) for value in head.values.tolist()]
        self.tokens = len(self.values)
        self.tables = HeadTables(frequencies, head)
        self.floor_odds = 1 / (1 + self.ceiling.exp())

    def step(self, n: int, i: int) -> tuple[arb, arb]:
        """Bounds on the mean excess of step i over the strings of length n."""
        asked = (0, 1) if i > 1 else (2,)
        cases = [self._case(query, symbol, i, n - i) for query in asked for symbol in (0, 1)]
        return total(low for low, _ in cases) / len(cases), total(high for _, high in cases) / len(cases)

    def _case(self, query: int, symbol: int, i: int, after: int) -> tuple[arb, arb]:
        known, before, behind = self._sums[query, symbol]
        numerator, denominator = (
            _fixed(known[weighted] + self._others(query, symbol, i, after, weighted))
            + before[weighted][i]
            + behind[weighted][after]
            for weighted in (True, False)
        )
        return self._mean_excess(numerator, denominator)

    def _mean_excess(self, numerator: _Spread, denominator: _Spread) -> tuple[arb, arb]:
        low = numerator.least / denominator.largest
        high = (numerator.largest / denominator.least).min(2 * self.ceiling)
        lower = self._excess(numerator.mean / denominator.largest)
        at_high = self._excess(high)
        span = high - low
        if not span > 0:
            return lower, at_high
        at_low = self._excess(low)
        chord = at_low + (numerator.mean / denominator.least - low) * (at_high - at_low) / span
        return lower, chord.min(at_high)

    def _excess(self, delta: arb) -> arb:
        return (self.floor_odds * delta.expm1()).log1p()

    def _vote(self, symbol: int, token: int, weighted: bool) -> arb:
        if not weighted:
            return arb(1)
        return self.ceiling - self.values[token] if symbol == 0 else self.ceiling + self.values[token]

    def _source(self, query: int, symbol: int, token: int, distance: int, weighted: bool) -> arb:
        return self.tables.weight(query, token, -1, distance) * self._vote(symbol, token, weighted)

    def _output(self, query: int, symbol: int, token: int, distance: int, weighted: bool) -> arb:
        return self.tables.weight(query, token, 0, distance) * self._vote(symbol, token, weighted)

    def _others(self, query: int, symbol: int, i: int, after: int, weighted: bool) -> arb:
        """What A_1..A_a, B_1..B_b add at step i with `after` symbols behind the wanted one."""
        a = self.a
        places = [(2 + k - 1, -1, k - a - i) for k in range(1, a + 1)]
        places += [(a + 2, -1, after + 1)]
        places += [(a + 1 + j, 0, j - a - 1 - i) for j in range(2, a + 3)]
        return total(
            self.tables.weight(query, token, row, column) * self._vote(symbol, token, weighted)
            for token, row, column in places
        )

    @cached_property
    def _sums(self) -> dict[tuple[int, int], tuple[dict[bool, arb], _Sums, _Sums]]:
        """For each query and wanted symbol: the wanted key with what the query token itself adds; the sums over j < i-1
        by i; the sums over j > i by n - i.
        """
        return {
            (query, symbol): (
                {w: self._known(query, symbol, w) for w in (True, False)},
                {w: self._before(query, symbol, w) for w in (True, False)},
                {w: self._behind(query, symbol, w) for w in (True, False)},
            )
            for query in range(3)
            for symbol in (0, 1)
        }

    def _known(self, query: int, symbol: int, weighted: bool) -> arb:
        value = self._source(query, symbol, symbol, 0, weighted)
        if query < 2:
            value += self._source(query, symbol, query, -1, weighted) + self._output(query, symbol, query, 0, weighted)
        return value

    def _before(self, query: int, symbol: int, weighted: bool) -> list[_Spread]:
        sums = [_fixed(arb(0))] * 3
        for distance in range(2, self.length):
            zero, one = (
                self._source(query, symbol, token, -distance, weighted)
                + self._output(query, symbol, token, 1 - distance, weighted)
                for token in (0, 1)
            )
            sums.append(sums[-1] + _either(zero, one))
        return sums

    def _behind(self, query: int, symbol: int, weighted: bool) -> list[_Spread]:
        sums = [_fixed(arb(0))]
        for distance in range(1, self.length):
            zero, one = (self._source(query, symbol, token, distance, weighted) for token in (0, 1))
            sums.append(sums[-1] + _either(zero, one))
        return sums


class HeadTables:
    """exp(score) of the stored weights, as balls, made once for each (query, token, row, column)."""

    def __init__(self, frequencies: GridFrequencies, head: HeadWeights) -> None:
        self.frequencies = frequencies
        self.queries, self.keys = (
            [[Fraction(entry) for entry in vector] for vector in part.tolist()] for part in (head.queries, head.keys)
        )
        self._weights: dict[tuple[int, int, int, int], arb] = {}
        self._parts: dict[tuple[int, int, int, int], arb] = {}
        self._angles: dict[tuple[int, int], list[tuple[arb, arb]]] = {}
        self._pairs: dict[tuple[int, int], list[tuple[arb, arb]]] = {}

    def weight(self, query: int, token: int, row: int, column: int) -> arb:
        """exp(score) of a key token seen from a query token (0, 1 or 2 for B_b) at a relative position."""
        place = query, token, row, column
        if place not in self._weights:
            self._weights[place] = (self._part(query, token, 0, row) + self._part(query, token, 1, column)).exp()
        return self._weights[place]

    def _part(self, query: int, token: int, axis: int, distance: int) -> arb:
        place = query, token, axis, distance
        if place not in self._parts:
            rows = len(self.frequencies.row)
            amplitudes = self._amplitudes(query, token)
            amplitudes = amplitudes[rows:] if axis else amplitudes[:rows]
            angles = self._cos_sin(axis, distance)
            self._parts[place] = total(
                even * cosine + odd * sine for (even, odd), (cosine, sine) in zip(amplitudes, angles, strict=True)
            )
        return self._parts[place]

    def _amplitudes(self, query: int, token: int) -> list[tuple[arb, arb]]:
        if (query, token) not in self._pairs:
            q, k = self.queries[query], self.keys[token]
            self._pairs[query, token] = [
                (ball(q[f] * k[f] + q[f + 1] * k[f + 1]), ball(q[f + 1] * k[f] - q[f] * k[f + 1]))
                for f in range(0, len(q), 2)
            ]
        return self._pairs[query, token]

    def _cos_sin(self, axis: int, distance: int) -> list[tuple[arb, arb]]:
        if (axis, distance) not in self._angles:
            frequencies = self.frequencies.column if axis else self.frequencies.row
            self._angles[axis, distance] = [frequency.cos_sin(distance) for frequency in frequencies]
        return self._angles[axis, distance]
