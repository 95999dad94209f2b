"""exp(score) over ranges of columns: in balls, and in float64 with a proved bound of the error.

With angle addition a column score at s + j is a product of a table over block starts s and a table over offsets j: one
matrix product of inner length 2m, m the number of column frequencies, for a whole range.

*Bound for floats*, u = 2^-53, `W = sum_f |A_f| + |B_f|`. The floats of A, B, cos and sin come from balls, each off by
at most u times its bound (and 2^-100 of it for the ball). A start entry `A cos x + B sin x` is off by at most `5u (|A|
+ |B|)`, an offset entry by u, so exact products of the stored tables differ from the true score by at most `2 (5u + u
+ 6u^2) W`. A dot product of length 2m, in any order, fused or not, errs by at most `2mu/(1-2mu)` times the sum of
absolute products, which is at most (1+10u) W by Cauchy-Schwarz in each pair. Subtracting the reference M, `|M| <= W (1
+ (2m+20) u)`, costs `3uW`. So an exponent is off by at most eta = (2m + 20) u W for m < 10^6. A slope term is a float
product and sum with errors below `3u |slope| reach`, added to eta.

The weight is `exp(S - M)` times the float of `exp(M + row score + constant - normaliser)`, each off as said in
`_float_exp` and
by 2u, with one rounding more: relative error at most `(1 + 2^-11) eta + 4u + 3u + u`, if eta < 2^-12. What underflows
is replaced by 0 and is off by less than 2^-850. `weights` returns `Rounded` numbers that carry both bounds.

*Range.* The largest weight is near 1. Amplitudes below 2^1000 are asked for, by eta; what underflows in the tables or
the matrix product is off by less than 2^-900, added to eta. Row scores and constants enter through `height`, a ball
that must be narrow; a score too large for that, or for eta, is TooCoarseError, and beyond 384-bit balls an InputError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isqrt
from typing import TypeVar

import numpy as np
from flint import arb, arb_mat
from jaxtyping import Float64

from theory.numbers import (
    EXP_ERROR,
    TABLE_PRECISION,
    TABLE_RADIUS,
    UNIT_ROUNDOFF,
    Frequency,
    InputError,
    Rounded,
    VacuousBallError,
    ball,
    exp_nonpositive,
    float_above,
    require_width,
    total,
    working_precision,
)
from theory.one_layer._model import Axes, Head, PairScore, Wave

#: What replaced underflows are off by, at most.
UNDERFLOW = 2.0**-850

#: Exponents may be off by this in floats; models with larger scores are left to balls.
LARGEST_ETA = 2.0**-12

#: What underflow in a table or a matrix product may add to that.
TABLE_UNDERFLOW = 2.0**-900


class TooCoarseError(ArithmeticError):
    """Float64 cannot carry the scores of this model; balls have to."""


@dataclass(frozen=True)
class Span:
    """Columns from `first` to `last`, both included."""

    first: int
    last: int

    def __len__(self) -> int:
        return max(0, self.last - self.first + 1)

    def join(self, other: Span) -> Span:
        """The smallest span that holds both."""
        return Span(min(self.first, other.first), max(self.last, other.last))


def row_score(frequencies: Axes, score: PairScore, row: int) -> arb:
    """What the rows and the constant add to a score: a ball at the working precision."""
    return score.constant + _wave_sum(frequencies.row, score.row, row)


def column_score(frequencies: Axes, score: PairScore, column: int) -> arb:
    """What the column adds to a score: a ball at the working precision."""
    return ball(score.slope) * column + _wave_sum(frequencies.column, score.column, column)


def _wave_sum(frequencies: tuple[Frequency, ...], waves: tuple[Wave, ...], distance: int) -> arb:
    if distance == 0:
        return total(a for a, _ in waves)
    if not waves:
        return arb(0)
    turned = (frequency.cos_sin(distance) for frequency in frequencies)
    return total(a * cosine + b * sine for (a, b), (cosine, sine) in zip(waves, turned, strict=True))


class BallKernels:
    """Weights exp(score) of one head as balls at the working precision in force; use it under that precision."""

    def __init__(self, frequencies: Axes, head: Head) -> None:
        self.frequencies, self.head = frequencies, head

    def weights(self, query: int, key: int, row: int, span: Span) -> list[arb]:
        """Weights of a key token along a span of columns. Cost: about 3 microseconds a column."""
        return [score.exp() for score in self.scores(query, key, row, span)]

    def scores(self, query: int, key: int, row: int, span: Span) -> list[arb]:
        """Scores of a key token along a span of columns. Cost: one matrix product, about 2 microseconds a column."""
        if not len(span):
            return []
        score = self.head.scores[query, key]
        base = row_score(self.frequencies, score, row)
        if len(span) <= 4:
            return [base + column_score(self.frequencies, score, c) for c in range(span.first, span.last + 1)]
        width = isqrt(len(span)) + 1
        starts = range(span.first, span.last + 1, width)
        columns, waves = self.frequencies.column, score.column
        start_rows, offset_rows = [], []
        for start in starts:
            turned = [frequency.cos_sin(start) for frequency in columns]
            start_rows.append(
                [z for (a, b), (c, s) in zip(waves, turned, strict=True) for z in (a * c + b * s, b * c - a * s)]
            )
        for frequency in columns:
            cosines, sines = zip(*map(frequency.cos_sin, range(width)), strict=True)
            offset_rows += [list(cosines), list(sines)]
        scores = [arb(0)] * len(span)
        if waves:
            scores = (arb_mat(start_rows) * arb_mat(offset_rows)).entries()[: len(span)]
        if score.slope:
            slope = ball(score.slope)
            scores = [s + slope * c for s, c in zip(scores, range(span.first, span.last + 1), strict=True)]
        return [base + s for s in scores]


class Kernels:
    """Weights of one head and one query token in float64, up to a factor that is the query token's own.

    Attributes:
        error: bound of their relative error.
    """

    error: float

    def __init__(self) -> None:
        self._weights: dict[tuple[int, int], Float64[np.ndarray, " columns"]] = {}
        self._first: dict[tuple[int, int], int] = {}

    def weights(self, key: int, row: int, span: Span) -> Rounded:
        """Weights along a part of the span prepared for that key token and row."""
        offset = span.first - self._first[key, row]
        return Rounded.known(self._weights[key, row][offset : offset + len(span)], self.error, UNDERFLOW)


class FloatKernels(Kernels):
    """The weights from a matrix product of floats.

    Raises:
        TooCoarseError: the scores are too large for float64 to tell weights apart.
    Cost: about 4m flops and 30 ns for each column and key token.
    """

    def __init__(self, frequencies: Axes, head: Head, query: int, needed: Mapping[tuple[int, int], Span]) -> None:
        """Prepare the weights of the key tokens at the rows and columns in `needed`, by (key token, row)."""
        super().__init__()
        spans: dict[int, Span] = {}
        for (key, _), span in needed.items():
            spans[key] = spans[key].join(span) if key in spans else span
        scores = {key: head.scores[query, key] for key in spans}
        with working_precision(TABLE_PRECISION):
            self.error = _relative_error(frequencies, scores, spans)
            columns = _ColumnScores(frequencies.column, spans.values())
            exponents = {key: columns.scores(scores[key], span) for key, span in spans.items()}
            references = {key: float(values.max()) for key, values in exponents.items()}
            heights = {
                (key, row): row_score(frequencies, scores[key], row) + arb(references[key]) for key, row in needed
            }
            try:
                factors = _factors(heights)
            except VacuousBallError as error:
                raise TooCoarseError(str(error)) from error
        for key, values in exponents.items():
            values -= references[key]
            np.minimum(values, 0.0, out=values)
            exp_nonpositive(values)
        for (key, row), span in needed.items():
            offset = span.first - spans[key].first
            self._weights[key, row] = exponents[key][offset : offset + len(span)] * factors[key, row]
            self._first[key, row] = span.first


class RoundedKernels(Kernels):
    """The same from balls, rounded: for scores too large for float64. Cost: about 10 microseconds a column.

    Raises:
        InputError: the scores are too large for balls of the model's precision.
    """

    #: A ball of radius below 2^-100 of it, one rounding.
    error = 2 * UNIT_ROUNDOFF

    def __init__(self, frequencies: Axes, head: Head, query: int, needed: Mapping[tuple[int, int], Span]) -> None:
        """Prepare the weights of the key tokens at the rows and columns in `needed`, by (key token, row)."""
        super().__init__()
        with working_precision(2 * TABLE_PRECISION):
            kernels = BallKernels(frequencies, head)
            scores = {
                (key, row, column): score
                for (key, row), span in needed.items()
                for column, score in enumerate(kernels.scores(query, key, row, span))
            }
            try:
                factors = _factors(scores)
            except VacuousBallError as error:
                raise InputError("scores", _size(scores.values()), "below about 10^70 in absolute value") from error
        for (key, row), span in needed.items():
            self._weights[key, row] = np.array([factors[key, row, column] for column in range(len(span))])
            self._first[key, row] = span.first


Key = TypeVar("Key")


def _factors(exponents: Mapping[Key, arb]) -> dict[Key, float]:
    """exp of each exponent less the largest one; VacuousBallError if an exponent is not known closely."""
    for exponent in exponents.values():
        require_width(exponent, TABLE_RADIUS, "score")
    middles = [exponent.mid() for exponent in exponents.values()]
    highest = middles[0]
    for middle in middles:
        highest = highest.max(middle)
    return {place: _factor(exponent - highest) for place, exponent in exponents.items()}


def _size(scores: Iterable[arb]) -> str:
    largest = total(())
    for score in scores:
        largest = largest.max(abs(score).mid())
    return f"about {largest.str(3, radius=False)}"


def _factor(exponent: arb) -> float:
    value = float(exponent.exp().mid())
    return value if value > UNDERFLOW else 0.0


def _relative_error(frequencies: Axes, scores: Mapping[int, PairScore], spans: Mapping[int, Span]) -> float:
    """The bound of the relative error derived above."""
    eta = 0.0
    for key, score in scores.items():
        weight = float_above(total(abs(a) + abs(b) for a, b in score.column))
        reach = max(abs(spans[key].first), abs(spans[key].last))
        slope = float_above(abs(ball(score.slope)) * reach)
        eta = max(eta, ((2 * len(frequencies.column) + 20) * weight + 4 * slope) * UNIT_ROUNDOFF + TABLE_UNDERFLOW)
    if not eta < LARGEST_ETA:
        raise TooCoarseError(f"scores may be off by {eta:.3g} in float64")
    return ((1 + 2.0**-11) * eta + EXP_ERROR + 4 * UNIT_ROUNDOFF) * (1 + 2.0**-20)


class _ColumnScores:
    """Tables of cosines and sines from which the column scores of all key tokens over their spans are formed."""

    def __init__(self, columns: tuple[Frequency, ...], spans: Iterable[Span]) -> None:
        self.columns = columns
        longest = max(len(span) for span in spans)
        self.width = isqrt(longest) + 1
        self.offsets = np.empty((2 * len(columns), self.width))
        self.starts: dict[int, Float64[np.ndarray, "two m"]] = {}
        for number, frequency in enumerate(columns):
            for j in range(self.width):
                cosine, sine = frequency.float_cos_sin(j)
                self.offsets[2 * number, j], self.offsets[2 * number + 1, j] = cosine, sine

    def scores(self, score: PairScore, span: Span) -> Float64[np.ndarray, " columns"]:
        """Column scores over a span, in a new array."""
        first = span.first // self.width * self.width
        starts = range(first, span.last + 1, self.width)
        a, b = (np.array([float(wave[part].mid()) for wave in score.column], dtype=np.float64) for part in (0, 1))
        cosines, sines = np.stack([self._start(start) for start in starts], axis=1)
        table = np.empty((len(starts), 2 * len(self.columns)))
        table[:, 0::2] = a * cosines + b * sines
        table[:, 1::2] = b * cosines - a * sines
        values = (table @ self.offsets).reshape(-1)[span.first - first :][: len(span)].copy()
        if score.slope:
            values += float(score.slope) * np.arange(span.first, span.last + 1)
        return values

    def _start(self, start: int) -> Float64[np.ndarray, "two m"]:
        if start not in self.starts:
            pairs = [frequency.float_cos_sin(start) for frequency in self.columns]
            self.starts[start] = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
        return self.starts[start]
