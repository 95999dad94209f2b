"""Float64 numbers together with the bound of what they are off by: every operation returns both.

Each entry of a `Rounded` stands for a sum of terms. With u = 2^-53, the computed terms add up, in absolute value, to at
most `each` in any one entry and to at most `all` over all entries; every term is off by at most `relative` of itself,
and what is not proportional to the terms (votes known to a radius only, underflow) comes to at most `off_each` in any
entry and `off_all` over all. So

    |computed - true|  <=  each relative + off_each                                                       (`error`)

* A product with a number known to a radius adds one rounding, u, to `relative`, and `each radius` to `off_each`.
* A sum of entries adds to `relative` one u for each addition that a term passes through, in whatever order they are
  done: that number is counted by the code that adds.
* Below 2^-1022 roundings are no longer proportional. Each operation counts SUBNORMAL for that, which also covers
  processors that put 0 in the place of such numbers.

*Second order.* `relative` is the sum of first-order bounds r. As (1 + r_1)(1 + r_2).. - 1 <= r + r^2, as a term is at
most (1 + 2 r) times what was computed of it, and as `each` itself takes a few roundings, `error` multiplies by
1 + 2^-8; it is infinite unless r < 2^-11. Nothing overflows where `each` is below LARGEST; elsewhere `error` is
infinite too. A comparison with an infinite error proves nothing, and no entry is nan unless the error is infinite.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import inf, isqrt, nextafter
from typing import Any

import numpy as np
from flint import arb
from jaxtyping import Float64

from theory.numbers._balls import ball, float_above, working_precision

UNIT_ROUNDOFF = 2.0**-53

#: Least normal number: what an operation may be off by where its result is below it.
SUBNORMAL = 2.0**-1022

#: Sums of absolute values beyond this are left to balls.
LARGEST = 2.0**1000

#: First-order bounds beyond this are left to balls.
LARGEST_RELATIVE = 2.0**-11

#: What `each` and `all` may be too small by, relatively, as sums of up to 2^31 floats.
_SUMMED = 1 + 2.0**-20


@dataclass(frozen=True)
class Vote:
    """A number: the float nearest to it, and a bound of the difference."""

    value: float
    radius: float


def rounded_vote(value: arb) -> Vote:
    """A float near the middle of a ball. The ball must be finite, and below 2^1000 in absolute value."""
    middle = float(value.mid())
    return Vote(middle, float_above(abs(value - arb(middle))))


@dataclass(frozen=True)
class Rounded:
    """See above; `value` holds the numbers, one-dimensional."""

    value: Float64[np.ndarray, " entries"]
    each: float
    all: float
    relative: float
    off_each: float
    off_all: float

    @classmethod
    def known(cls, value: Float64[np.ndarray, " entries"], relative: float, off: float) -> Rounded:
        """Numbers >= 0, each known up to a relative and an absolute error."""
        each = float(value.max()) if value.size else 0.0
        return cls(value, each, float(value.sum()) * _SUMMED, relative, off, off * value.size)

    @property
    def error(self) -> float:
        """What any entry is off by, at most; infinite where this arithmetic proves nothing."""
        if not (self.relative < LARGEST_RELATIVE and self.each < LARGEST and self.off_each < LARGEST):
            return inf
        return (self.each * self.relative + self.off_each + SUBNORMAL) * (1 + 2.0**-8)

    def __len__(self) -> int:
        return int(self.value.size)

    def __getitem__(self, part: slice) -> Rounded:
        """Some of the entries; the bounds are those of all of them."""
        return Rounded(self.value[part], self.each, self.all, self.relative, self.off_each, self.off_all)

    def anew(self) -> Rounded:
        """The same entries, sums of terms >= 0, with `each` and `all` taken from them: after slicing."""
        return Rounded.known(self.value, self.relative, self.off_each)

    def __mul__(self, vote: Vote) -> Rounded:
        size = abs(vote.value)
        off = 2 * vote.radius
        return Rounded(
            self.value * vote.value,
            self.each * size,
            self.all * size,
            self.relative + UNIT_ROUNDOFF,
            self.off_each * (size + off) + self.each * off + SUBNORMAL,
            self.off_all * (size + off) + self.all * off + SUBNORMAL * len(self),
        )

    def __add__(self, other: Rounded) -> Rounded:
        """Entry by entry; a single entry is added to all."""
        count = max(len(self), len(other))
        everything, off = 0.0, 0.0
        for part in (self, other):
            times = count if len(part) == 1 else 1
            everything, off = everything + part.all * times, off + part.off_all * times
        return Rounded(
            self.value + other.value,
            self.each + other.each,
            everything,
            max(self.relative, other.relative) + UNIT_ROUNDOFF,
            self.off_each + other.off_each + SUBNORMAL,
            off + SUBNORMAL * count,
        )

    def total(self) -> Rounded:
        """The sum of all entries, in any order: one entry."""
        value = np.array([self.value.sum()])
        passed = self.relative + len(self) * UNIT_ROUNDOFF
        off = self.off_all + SUBNORMAL * len(self)
        return Rounded(value, self.all, self.all, passed, off, off)


def minimum(left: Rounded, right: Rounded) -> Rounded:
    """The smaller one of each two entries: off by no more than the worse of them."""
    return Rounded(
        np.minimum(left.value, right.value),
        max(left.each, right.each),
        left.all + right.all,
        max(left.relative, right.relative),
        max(left.off_each, right.off_each),
        left.off_all + right.off_all,
    )


def prefix_sums(terms: Rounded) -> Rounded:
    """0 and the sums of the first 1, 2, .. entries, in blocks: rounding grows with the root of their number only.

    An entry passes through at most `width` additions within its block (`width` entries), then, as part of the block's
    sum, through one for each later block, and through one more that adds the sum of the blocks before.
    Cost: two passes.
    """
    count = len(terms)
    width = isqrt(count) + 1
    rows = -(-count // width)
    sums = np.zeros(1 + rows * width)
    sums[1 : 1 + count] = terms.value
    blocks = sums[1:].reshape(rows, width)
    np.cumsum(blocks, axis=1, out=blocks)
    blocks[1:] += np.cumsum(blocks[:-1, -1])[:, None]
    passed = terms.relative + (width + rows + 1) * UNIT_ROUNDOFF
    off = terms.off_all + SUBNORMAL * (1 + count)
    return Rounded(sums[: 1 + count], terms.all, terms.all * (1 + count), passed, off, off * (1 + count))


def joined(parts: list[Rounded]) -> Rounded:
    """Entries of several series in one."""
    return Rounded(
        np.concatenate([part.value for part in parts]),
        max(part.each for part in parts),
        sum(part.all for part in parts),
        max(part.relative for part in parts),
        max(part.off_each for part in parts),
        sum(part.off_all for part in parts),
    )


def chosen(which: Any, zero: Rounded, one: Rounded) -> Rounded:
    """Entry by entry the one of `one` where `which` holds, else that of `zero`."""
    least = minimum(zero, one)
    return Rounded(
        np.where(which, one.value, zero.value), least.each, least.all, least.relative, least.off_each, least.off_all
    )


def running_minimum(terms: Rounded) -> Rounded:
    """The least of the first 1, 2, .. entries."""
    return Rounded(
        np.minimum.accumulate(terms.value), terms.each, terms.all * len(terms), terms.relative, terms.off_each,
        terms.off_all * len(terms),
    )  # fmt: skip


#: Largest and least positive float64.
_MOST, _LEAST = nextafter(inf, 0.0), nextafter(0.0, inf)


def nearest_float(value: Fraction) -> float:
    """The float nearest to a rational, but of the same sign and finite: never 0 unless the rational is."""
    try:
        found = float(value)
    except OverflowError:
        return _MOST if value > 0 else -_MOST
    if found == 0 and value != 0:
        return _LEAST if value > 0 else -_LEAST
    return found


def float_at_most(value: Fraction) -> float:
    """The largest float that is not above a rational; -inf below all of them."""
    found = nearest_float(value)
    return found if Fraction(found) <= value else nextafter(found, -inf)


#: Binary exponents beyond this are not written out: exp of a score may have 10^30 bits.
_LARGEST_EXPONENT = 10**6


def exact_middle(value: arb) -> Fraction:
    """The midpoint of a finite ball, an exact binary number; 2^(-10^6) or 2^(10^6) of its sign where it lies beyond."""
    mantissa, exponent = (int(part) for part in value.mid().man_exp())
    size = exponent + mantissa.bit_length()
    if abs(size) <= _LARGEST_EXPONENT:
        return Fraction(mantissa) * Fraction(2) ** exponent
    sign = 1 if mantissa > 0 else -1
    return sign * Fraction(2) ** (_LARGEST_EXPONENT if size > 0 else -_LARGEST_EXPONENT)


def spelled(value: Fraction, digits: int = 6) -> str:
    """A rational as a short decimal, such as `0.25` or `1.2e-4000`, whatever its size."""
    if value == 0 or 1e-300 < abs(value) < 1e300:
        return f"{float(value):.{digits}g}"
    with working_precision(
        64 + 2 * digits + max(value.numerator.bit_length(), value.denominator.bit_length()).bit_length()
    ):
        text: str = ball(value).str(digits, radius=False)
    return text


def spelled_at_most(value: float, digits: int = 6) -> str:
    """A short decimal that is not above a finite float: a lower bound stays one as text."""
    return f"{Context(prec=digits, rounding=ROUND_FLOOR).plus(Decimal(value)):g}"


def spelled_at_least(value: float, digits: int = 6) -> str:
    """A short decimal that is not below a finite float: an upper bound stays one as text."""
    return f"{Context(prec=digits, rounding=ROUND_CEILING).plus(Decimal(value)):g}"
