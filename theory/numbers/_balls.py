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


#: Rounds that `float_below` takes at most: the conversion is off by at most one step of floats.
FLOAT_ROUNDS = 4

#: Most binary places before or after the point of a ball's end that becomes an integer or a rational.
MOST_PLACES = 2**24


def float_below(value: arb) -> float:
    """A float that is certainly <= every number in the ball; -inf below the range of floats.

    Raises:
        VacuousBallError: a ball that is not finite, which has no such number worth returning.
    """
    bound = float(_lower_end(value))
    for _ in range(FLOAT_ROUNDS):
        if arb(bound) <= value.lower():
            return bound
        bound = nextafter(bound, -inf)
    raise VacuousBallError(f"no float was found below {value}")


def float_above(value: arb) -> float:
    """A float that is certainly >= every number in the ball; inf above the range of floats.

    Raises:
        VacuousBallError: a ball that is not finite.
    """
    return -float_below(-value)


def integer_floor(value: arb) -> int:
    """Floor of the ball's lower end (which is an exact binary number), so a certain lower bound.

    Raises:
        VacuousBallError: a ball that is not finite, or an end of more than 2^24 binary places.
    """
    mantissa, exponent = _mantissa_exponent(_lower_end(value))
    return mantissa << exponent if exponent >= 0 else mantissa >> -exponent


def lower_fraction(value: arb) -> Fraction:
    """The ball's lower end at the working precision, exact: certainly <= every number in the ball.

    Raises:
        VacuousBallError: as in `integer_floor`.
    """
    mantissa, exponent = _mantissa_exponent(_lower_end(value))
    return Fraction(mantissa << exponent) if exponent >= 0 else Fraction(mantissa, 1 << -exponent)


def upper_fraction(value: arb) -> Fraction:
    """The ball's upper end at the working precision, exact. Raises as `lower_fraction`."""
    return -lower_fraction(-value)


def _lower_end(value: arb) -> arb:
    if not value.is_finite():
        raise VacuousBallError(f"the ball {value} is not finite and bounds nothing")
    return value.lower()


def _mantissa_exponent(end: arb) -> tuple[int, int]:
    mantissa, exponent = (int(part) for part in end.man_exp())
    if abs(exponent) > MOST_PLACES:
        raise VacuousBallError(f"{end} takes more than {MOST_PLACES} binary places")
    return mantissa, exponent


def describe(value: arb, digits: int = 6) -> str:
    """The ball as text, `digits` significant digits, with its radius when it shows."""
    text: str = value.str(digits)
    return text
