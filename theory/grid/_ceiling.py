"""Dirichlet's ceiling: no choice of frequencies carries a position-only copier further than about rho^(d/2).

*Statement* (new). Let the column amplitudes of a position-only copier sum to at most W and let Q be an integer with
`Q^2 ln 2 >= 2 pi^2 W`. Then, whatever its m = d/4 column frequencies, it does not copy all strings of length 2 Q^m + 1,
nor of any larger length.

*Proof.* Dirichlet: some 1 <= k <= Q^m has dist(k alpha_f, Z) <= 1/Q for all f, so 1 - cos(beta_f k) <= 2 pi^2/Q^2. The
sine parts cancel in gap(0, k) + gap(0, -k) = 2 sum A'_f (1 - cos(beta_f k)) <= 2 W 2 pi^2/Q^2 <= 2 ln 2, so exp(-gap(0,
k)) + exp(-gap(0, -k)) >= 2 exp(-ln 2) = 1 by convexity. In a string of length 2k + 1 the middle symbol has wrong
neighbours at both distances. Equality also fails.

For parameter norm rho, W <= |q| |k| <= |w|^2 |Q| |K| <= |w|^2 (|Q|^2 + |K|^2)/2 <= rho^4/8. So no position-only copier
exceeds 2 ceil(sqrt(pi^2 rho^4/(4 ln 2)))^(d/4) + 1, about (1.89 rho^2)^(d/4): d/2 is also the
exponent of the typical length of a random draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from theory.numbers import (
    AMPLITUDE_CEILING,
    DIRICHLET_Q,
    InputError,
    exact_value,
    integer_floor,
    require_pair_dimension,
    working_precision,
)


@dataclass(frozen=True)
class Ceiling:
    """A length at which every position-only copier of the family fails.

    Attributes:
        q: the integer Q of the proof.
        fails_at: 2 Q^m + 1.
    """

    q: int
    fails_at: int


def dirichlet_ceiling(d: int, column_amplitude: Fraction) -> Ceiling:
    """The ceiling for column amplitudes that sum to at most `column_amplitude` (equal amplitudes S: m S).

    Raises:
        InputError: d not a positive multiple of 4, amplitude <= 0.
    Cost: one ball evaluation.
    """
    m = require_pair_dimension(d) // 4
    if column_amplitude <= 0:
        raise InputError("column_amplitude", str(column_amplitude), "a rational number > 0")
    with working_precision(256):
        q = integer_floor(DIRICHLET_Q.ball(W=column_amplitude)) + 1
    return Ceiling(q, 2 * q**m + 1)


def norm_ceiling(d: int, rho: Fraction) -> Ceiling:
    """The ceiling for parameter norm at most rho and any amplitudes at all."""
    if rho <= 0:
        raise InputError("rho", str(rho), "a number > 0")
    return dirichlet_ceiling(d, exact_value(AMPLITUDE_CEILING, rho=rho))
