"""A certain superset of the columns whose gap is below a cut, by a float scan with a proved rounding bound.

With angle addition, `sum_f A'_f cos(beta_f k) + B'_f sin(beta_f k)` at k = s + j is a product of a table over block
starts s and a table over offsets j: one matrix product of inner length 2m for millions of columns.

*Rounding bound.* Let W = sum_f (|A'_f| + |B'_f|), u = 2^-53. Table entries come from balls and are off by at most 2u
times their bound (W_f for the weighted table, 1 for the other), so exact products of the stored tables differ from the
true sum by at most `2 W (4u + 4u^2)`, two entries a frequency. A dot product of length 2m in floats, in any order, with
or without fused operations, errs by at most `2mu/(1-2mu)` times the sum of absolute products, which is at most `2 W
(1+4u+4u^2)`. Together below `(4m + 9) u W` for m < 10^6.

*Range.* All of this holds of normal floats. The amplitudes are scaled by a power of two first, which no verdict depends
on, so that 1/8 <= W <= 1 (or W = 0, where every sum is exactly 0): nothing overflows, and what an entry or a product
below 2^-1022 is off by, at most 2^-1022 each also where it is flushed to 0, adds up to less than the part `u W` that is
left. The code checks the range, and takes `(4m + 10) u W`, rounded up, with m and the sums from the same two tables.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter, ulp
from typing import NamedTuple

import numpy as np
from flint import arb
from jaxtyping import Float64, Int64

from theory.grid._score import GridScore
from theory.numbers import (
    TABLE_PRECISION,
    TABLE_RADIUS,
    VacuousBallError,
    ball,
    float_above,
    float_below,
    integer_floor,
    total,
    working_precision,
)

#: Most columns in the offset table; block starts in one matrix product.
OFFSETS, STARTS = 4096, 64

#: The rounding bound is for no more frequencies than this.
MOST_PAIRS = 10**6 - 1

#: Entries of the offset table, columns times frequencies.
MOST_ENTRIES = 2**20

#: Columns times frequencies that one scan goes through; minutes. More is given up.
MOST_PRODUCTS = 2 * 10**10


def columns_below(score: GridScore, cut: int, horizon: int, most: int) -> list[int] | None:
    """A superset of the columns D /= 0, |D| < horizon + |b-a-1|, with `column_gap(D) < cut`; None if there are more
    than `most`, or more columns times frequencies in range than MOST_PRODUCTS.

    Postcondition: a column in range that is not listed has a gap >= cut, proved (float+bound).
    Cost: 4m flops a column, twice that if the gap is not even.
    """
    reach = horizon - 1 + abs(score.output_offset)
    pairs = len(score.column)
    if reach * pairs > MOST_PRODUCTS:
        return None
    scan = _Scan(score, cut, offsets=max(1, min(OFFSETS, reach, MOST_ENTRIES // pairs)))
    listed: list[int] = []
    for first in range(1, reach + 1, OFFSETS * STARTS):
        last = min(reach, first + OFFSETS * STARTS - 1)
        for columns in scan.block(first, last):
            listed.extend(columns)
        if len(listed) > most:
            return None
    return listed


class _Sums(NamedTuple):
    """Float sums, one row a block start and one column an offset, and what each of them is off by at most."""

    values: Float64[np.ndarray, "starts offsets"]
    error: float


class _Scan:
    """Float tables for one score and one cut.

    Raises:
        VacuousBallError: scaled amplitudes outside the range in which the rounding bound holds.
    """

    def __init__(self, score: GridScore, cut: int, offsets: int) -> None:
        self.score = score
        self.width = offsets
        with working_precision(TABLE_PRECISION):
            exact = score.centred_column_amplitudes()
            # Divided by a power of two, which is exact, so that no scale leaves the range of floats.
            unit = _power_of_two_below_one(total(abs(a) + abs(b) for a, b in exact))
            self.weights = [(a * unit, b * unit) for a, b in exact]
            self.weight = _weight_in_range(total(abs(a) + abs(b) for a, b in self.weights))
            #: A column is listed unless its sum is certainly below this.
            self.least = total(a for a, _ in self.weights) - cut * unit
            self.signs = (1,) if score.symmetric else (1, -1)
            self.offsets = self._offset_table()

    def block(self, first: int, last: int) -> list[list[int]]:
        """Listed columns k and, on the other side, -k for first <= k <= last."""
        starts = range(first, last + 1, self.width)
        found = []
        for sign in self.signs:
            sums = self._sums(starts, sign)
            with working_precision(TABLE_PRECISION):
                threshold = float_below(self.least - arb(sums.error))
            # A sum that is no number is listed, too.
            hits = np.flatnonzero(~(sums.values < threshold)) + first
            found.append([sign * int(k) for k in hits if k <= last])
        if self.score.symmetric:
            found.append([-k for k in found[0]])
        return found

    def _sums(self, starts: range, sign: int) -> _Sums:
        """`sum_f A'_f cos(beta_f k) + B'_f sin(beta_f k)`, scaled, at the columns k = sign (start + offset), with the
        rounding bound of the module.
        """
        table = self._start_table(starts, sign)
        terms = table.shape[1]
        if terms != len(self.offsets) or terms > 2 * MOST_PAIRS:
            raise ValueError(f"the rounding bound is not about {terms} and {len(self.offsets)} terms")
        error = nextafter((2 * terms + 10) * (ulp(1.0) / 2) * self.weight * (1 + 2**-20), inf)
        return _Sums(table @ self.offsets, error)

    def _offset_table(self) -> Float64[np.ndarray, "two_m offsets"]:
        rows = []
        for frequency in self.score.frequencies.column:
            cosines, sines = zip(*map(frequency.float_cos_sin, range(self.width)), strict=True)
            rows += [cosines, sines]
        return np.array(rows)

    def _start_table(self, starts: range, sign: int) -> Float64[np.ndarray, "starts two_m"]:
        """The factors of cos(beta j) and sin(beta j) at each block start s, for distances sign * (s + j).

        With x = beta s, y = beta j and B'' = sign B': A' cos(x+y) + B'' sin(x+y) = cos y (A' cos x + B'' sin x) + sin y
        (B'' cos x - A' sin x).
        """
        table = np.empty((len(starts), 2 * len(self.weights)))
        with working_precision(TABLE_PRECISION):
            for column, (frequency, (a, b)) in enumerate(zip(self.score.frequencies.column, self.weights, strict=True)):
                for row, start in enumerate(starts):
                    cosine, sine = frequency.cos_sin(start, TABLE_RADIUS)
                    table[row, 2 * column] = float((a * cosine + sign * b * sine).mid())
                    table[row, 2 * column + 1] = float((sign * b * cosine - a * sine).mid())
        return table


def _weight_in_range(weight: arb) -> float:
    """A float above W, the sum of the scaled amplitudes, which is 0 or from 1/8 to 1."""
    above = float_above(weight)
    if weight == 0 or (weight >= ball(Fraction(1, 8)) and above <= 1):
        return above
    raise VacuousBallError(f"the scaled amplitudes sum to {weight}, outside 1/8 to 1")


def _power_of_two_below_one(weight: arb) -> arb:
    """A power of two that brings a positive `weight` to at most 1 (and not far below it); 1 for weight 0."""
    if not weight > 0:
        return arb(1)
    return arb(2) ** (integer_floor(-weight.log() / arb(2).log()) - 1)


def resonance_columns_exact(score: GridScore, cut: Fraction, reach: int) -> Int64[np.ndarray, " found"]:
    """The columns D /= 0, |D| <= reach, whose gap is not certainly >= cut, one ball at a time: the slow route that
    tests compare with.
    """
    columns = (sign * k for k in range(1, reach + 1) for sign in (1, -1))
    return np.array([k for k in columns if not score.column_gap(k) >= ball(cut)], dtype=np.int64)
