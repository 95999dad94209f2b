"""Ball arithmetic: rationals in, `flint.arb` enclosures out, and decisions that are never guesses.

A comparison of balls is true only if it is certain, so `not x < y` says nothing about `x >= y`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from fractions import Fraction

from flint import arb, ctx, fmpq, fmpz

from proofs_check.verify.reading._document import Rejected

#: Precisions in bits tried in turn where balls do not decide.
PRECISIONS = (128, 512, 2048, 8192, 32768, 131072)


def working_precision(bits: int) -> AbstractContextManager[object]:
    """Context manager: arb rounds to `bits` bits inside."""
    manager: AbstractContextManager[object] = ctx.workprec(bits)
    return manager


def ball(value: Fraction | int) -> arb:
    """Enclosure of a rational at the working precision; exact for integers."""
    numerator, denominator = value.as_integer_ratio()
    return arb(fmpz(numerator)) if denominator == 1 else arb(fmpq(numerator, denominator))


def total(values: Iterable[arb]) -> arb:
    """Sum of balls, 0 for none."""
    result = arb(0)
    for value in values:
        result += value
    return result


def exact_sum(values: Iterable[Fraction]) -> fmpq:
    """Sum of rationals, exact. Cost: of the size of the product of all denominators."""
    return sum((fmpq(*value.as_integer_ratio()) for value in values), fmpq(0))


def floor_of_exact(value: arb) -> int:
    """Floor of a ball of radius 0, such as a midpoint or an end point.

    Raises:
        ValueError: not finite, or not exact.
    """
    mantissa, exponent = value.man_exp()
    shift = int(exponent)
    return int(mantissa) << shift if shift >= 0 else int(mantissa) >> -shift


def is_at_most(left: arb, right: arb) -> bool | None:
    """Is left <= right? None where the balls do not tell."""
    if left <= right:
        return True
    return False if left > right else None


def is_less(left: arb, right: arb) -> bool | None:
    """Is left < right? None where the balls do not tell."""
    if left < right:
        return True
    return False if left >= right else None


def decide(question: Callable[[], bool | None], what: str, most_bits: int = PRECISIONS[-1]) -> bool:
    """The answer of `question`, asked at precisions growing up to `most_bits` until it is not None.

    Raises:
        Rejected: undecided at the highest precision.
    """
    for bits in (bits for bits in PRECISIONS if bits <= most_bits):
        with working_precision(bits):
            answer = question()
        if answer is not None:
            return answer
    raise Rejected(f"{what}: undecided at {most_bits} bits")
