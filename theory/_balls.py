"""Ball arithmetic: exact rationals in, `flint.arb` enclosures out, widths that are looked at.

`arb` comparisons are three-valued: `x < y` is True only if it is certain, so `not (x < y)` never stands
for `x >= y` here.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from fractions import Fraction
from math import inf, nextafter

from flint import arb, ctx, fmpq, fmpz

#: Precisions tried in turn where a comparison is undecided.
PRECISIONS = (128, 256, 512, 1024, 2048)


class VacuousBallError(ArithmeticError):
    """An enclosure came out wider than its use allows; it proves nothing."""


def working_precision(bits: int) -> AbstractContextManager[object]:
    """Context manager: arb works with `bits` bits inside."""
    manager: AbstractContextManager[object] = ctx.workprec(bits)
    return manager


def ball(value: Fraction | int) -> arb:
    """Enclosure of a rational at the working precision. Cost: one division."""
    if isinstance(value, int):
        return arb(fmpz(value))
    return arb(fmpq(value.numerator, value.denominator))


def require_width(value: arb, widest: Fraction, what: str) -> arb:
    """`value` itself; VacuousBallError unless its radius is certainly at most `widest`."""
    if value.is_finite() and value.rad() <= ball(widest):
        return value
    raise VacuousBallError(f"{what}: enclosure {value} is wider than {float(widest):.3g}")


def total(values: Iterable[arb]) -> arb:
    """Sum of balls, 0 for none."""
    result = arb(0)
    for value in values:
        result += value
    return result


def float_below(value: arb) -> float:
    """A float that is certainly <= every number in the ball."""
    bound = float(value.lower())
    while not arb(bound) <= value.lower():
        bound = nextafter(bound, -inf)
    return bound


def float_above(value: arb) -> float:
    """A float that is certainly >= every number in the ball."""
    return -float_below(-value)


def integer_floor(value: arb) -> int:
    """Floor of the ball's lower end (which is an exact binary number), so a certain lower bound."""
    mantissa, exponent = (int(part) for part in value.lower().man_exp())
    return mantissa << exponent if exponent >= 0 else mantissa >> -exponent


def describe(value: arb, digits: int = 6) -> str:
    """The ball as text, `digits` significant digits, with its radius when it shows."""
    text: str = value.str(digits)
    return text
