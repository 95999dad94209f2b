"""Theorem 3.2's constants: L0, the lemma on the anchor curve."""

from __future__ import annotations

from fractions import Fraction

from theory._balls import ball, integer_floor, working_precision
from theory._errors import InputError

#: Terms of the paper's lemma: <h_i, h_j> <= 1 - 1/(LEMMA L0^2).
LEMMA = 72


def paper_two_layer_length(rho: Fraction) -> int:
    """L0 = rho^2/(1000 ln rho), rounded down; a length is at most one iff it is at most the other.

    Raises:
        InputError: rho <= 1. ArithmeticError: the floor is not decided at 4096 bits (L0 would be a whole number).
    """
    if rho <= 1:
        raise InputError("rho", str(rho), "a number > 1")
    for bits in (256, 1024, 4096):
        with working_precision(bits):
            value = ball(rho) ** 2 / (1000 * ball(rho).log())
            if integer_floor(value) == -integer_floor(-value) - 1:
                return integer_floor(value)
    raise ArithmeticError(f"the floor of L0 is not decided for rho = {rho}")
