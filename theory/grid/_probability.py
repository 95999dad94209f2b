"""Theorem 4.1's probability: for all d, rho, a, b at once, and sharper at one place.

*Statement* (paper for exponent 1/12; new for larger ones). For all d >= d_least divisible by 4, a >= 1, b >= 2 with d
>= 100 + 4a + 4b and all rho > d^2, with independent uniform frequencies, the ideal copier of parameter norm rho copies
every string of length <= rho^(c d) with probability at least 1 - d/rho.

*Proof.* Write m = d/4 >= 28, x = ln rho > 2 ln(4m), L = floor(rho^(c d)) <= exp(4 c m x). With eta = ln(L+1)/S, it is
enough that C_column(k) >= eta for 1 <= k <= K = L - 1 + |b-a-1| and C_row(1) >= eta: the wrong weights then sum to at
most L/(L+1) + (L-1)/(L+1)^2 < 1. Each of these K + 1 <= L + m events (a + b <= m - 25) fails with probability at most
`pi^(m/2)/Gamma(m/2+1) (eta/8)^(m/2)`. So it is enough that

    F = ln(L+m) + (m/2) ln(pi eta/8) - ln Gamma(m/2+1) + x - ln(4m)  <=  0.

Upper bounds used, each for m >= 28, x > 2 ln(4m) > 9.4:

1. ln(L+m) <= 4 c m x + ln(1+m), since L <= exp(4cmx) and exp(4cmx) >= 1.
2. ln(L+1) <= 4 c m x + ln 2 <= k m x with k = 4 c + 1/100, since m x/100 >= 28 * 9.4/100 > ln 2.
3. S >= (1 - 2^-30) e^(4x)/(16 v m), where 4 V d <= 16 v m: v = 3 for three tokens; for the paper's budget V = a+b+2 <=
   m - 23 < m, so v = m.
   Hence ln(pi eta/8) <= ln(2 pi k v m^2 x) + 2^-29 - 4x.
4. ln Gamma(m/2+1) >= (m/2) ln(m/2) - m/2 (Stirling's lower bound, without its positive terms).

They give F <= G(m, x) = ln(1+m) - ln(4m) + (4 c m - 2 m + 1) x + (m/2) [ln(2 pi k v m^2 x) + 2^-29 - ln(m/2) + 1]. In
x: dG/dx = 1 + (4c - 2) m + m/(2x) < 0 if (4c - 2) + 1/m + 1/(2x) < 0, which is worst at the least m and x. So G <= G(m,
x0) with x0 = 2 ln(4m). There, with y = ln(4m) and ln(1+m) - ln(4m) <= 0 as 1 + m <= 4m,

    G(m, x0)/m <= 2 (4c - 2) y + 2 y/m + (1/2) [ln(2 pi k v m^2 2 y) + 2^-29 - ln(m/2) + 1] =: g(m).

In m: y' = 1/m, and y/m decreases for 4m > e, so g'(m) m <= 2 (4c - 2) + (1/2) [e_v + 1/y], with e_v = 2 for v = m
(powers m^3/m) and 1 for v = 3. If that is negative at some m it is for all larger m, and g does not exceed its value
there. So three signs at one corner m decide for all m from there on: the two slopes and g itself.

For the finitely many m below such a corner the inequality is used at each m by itself, with V <= m - 23 and the Gamma
function as they are: `H(m) = ln((1+m)/(4m)) + (4 c m - 2 m + 1) x0 + (m/2) [ln(2 pi k (m-23 or 3) m^2 x0) + 2^-29] - ln
Gamma(m/2+1) < 0` together with dG/dx < 0. All of these are signs of balls.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from flint import arb, fmpz

from theory.grid._score import require_two_after
from theory.numbers import (
    BALL_VOLUME,
    NEEDED_SEPARATION,
    SCORE_SCALE,
    UNION_BOUND,
    InputError,
    ball,
    exact_value,
    furthest,
    require_around,
    require_at_least,
    require_pair_dimension,
    working_precision,
)

Budget = Literal["paper", "three-tokens"]

PRECISION = 256

#: No length beyond this is looked at.
LONGEST = 10**4000

#: A corner is looked for up to this d.
LARGEST_CORNER = 40_000

#: Least d that Theorem 4.1 allows with a >= 1, b >= 2.
LEAST_D = 112


@dataclass(frozen=True)
class CornerSigns:
    """The quantities whose signs decide the statement for all d >= d_least at once; all must be negative.

    Attributes:
        slope_in_rho: (4c - 2) + 1/m + 1/(2 x) at the corner.
        slope_in_d: 2 (4c - 2) + (e_v + 1/y)/2 at the corner.
        value: g at the corner; m times it bounds the logarithm of (failure probability * rho / d).
    """

    slope_in_rho: arb
    slope_in_d: arb
    value: arb

    @property
    def proved(self) -> bool:
        """Are all three certainly negative?"""
        return bool(self.slope_in_rho < 0 and self.slope_in_d < 0 and self.value < 0)


def corner_signs(exponent: Fraction, budget: Budget, d_least: int = LEAST_D) -> CornerSigns:
    """The corner of the proof above for lengths up to rho^(exponent d).

    Raises:
        InputError: exponent <= 0, or d_least below 112 or not divisible by 4.
    Cost: a few ball operations, for all d, rho, a and b at once.
    """
    if exponent <= 0:
        raise InputError("exponent", str(exponent), "a rational number > 0")
    require_pair_dimension(d_least, "d_least")
    if d_least < LEAST_D:
        raise InputError("d_least", d_least, f"at least {LEAST_D} = 100 + 4a + 4b with a = 1, b = 2")
    with working_precision(PRECISION):
        c, m = ball(exponent), arb(d_least // 4)
        y = (4 * m).log()
        k = 4 * c + ball(Fraction(1, 100))
        v, power = (m, 2) if budget == "paper" else (arb(3), 1)
        logarithm = (4 * arb.pi() * k * v * m**2 * y).log() + arb(2) ** -29 - (m / 2).log() + 1
        return CornerSigns(
            slope_in_rho=4 * c - 2 + 1 / m + 1 / (4 * y),
            slope_in_d=2 * (4 * c - 2) + (power + 1 / y) / 2,
            value=2 * (4 * c - 2) * y + 2 * y / m + logarithm / 2,
        )


def single_value(exponent: Fraction, budget: Budget, m: int) -> arb:
    """H(m) of the proof above: it bounds the logarithm of (failure probability * rho / d) at d = 4m for any rho."""
    with working_precision(PRECISION):
        c, size, x = ball(exponent), arb(m), 2 * arb(4 * m).log()
        k = 4 * c + ball(Fraction(1, 100))
        v = m - 23 if budget == "paper" else 3
        logarithm = (2 * arb.pi() * k * v * size**2 * x).log() + arb(2) ** -29
        ratio = ((1 + size) / (4 * size)).log()
        return ratio + (4 * c * m - 2 * m + 1) * x + size / 2 * logarithm - (size / 2 + 1).lgamma()


@dataclass(frozen=True)
class UniversalProof:
    """A proof of the statement for all d >= d_least.

    Attributes:
        corner_d: from this d on the three signs of the corner decide.
        corner: those signs, all negative.
        largest_single: a ball around the largest H(m) of the smaller d, checked one by one; None if there are none.
    """

    corner_d: int
    corner: CornerSigns
    largest_single: arb | None


def prove_failure_probability(exponent: Fraction, budget: Budget, d_least: int = LEAST_D) -> UniversalProof | None:
    """A proof that a draw fails up to rho^(exponent d) with probability <= d/rho, all d >= d_least and rho > d^2.

    None if there is none of this form, which refutes nothing. The exponents within reach are those below 3/8 for the
    paper's budget and 7/16 for three tokens, where the corner's slope in d ends.

    Raises:
        InputError: as in `corner_signs`.
    Cost: a few ball operations for each d below the corner.
    """
    singles: list[arb] = []
    for d in range(d_least, LARGEST_CORNER, 4):
        corner = corner_signs(exponent, budget, d)
        if corner.proved:
            return UniversalProof(d, corner, max(singles, key=lambda value: value.upper(), default=None))
        value = single_value(exponent, budget, d // 4)
        if not (corner.slope_in_rho < 0 and value < 0):
            return None
        singles.append(value)
    return None


def embedded_tokens(budget: Budget, a: int, b: int) -> int:
    """V, the number of tokens with a nonzero embedding: all a+b+2, or the three that ask or are sought."""
    if budget not in ("paper", "three-tokens"):
        raise InputError("budget", budget, "paper or three-tokens")
    require_around("a", a)
    require_around("b", b)
    return a + b + 2 if budget == "paper" else 3


def score_scale(rho: Fraction, d: int, a: int, b: int, budget: Budget) -> Fraction:
    """S = rho^4/(4 V d) exactly, the largest score scale of an ideal copier of parameter norm rho."""
    if rho <= 0:
        raise InputError("rho", str(rho), "a number > 0")
    return exact_value(SCORE_SCALE, rho=rho, V=embedded_tokens(budget, a, b), d=require_pair_dimension(d))


def failure_bound(length: int, rho: Fraction, d: int, a: int, b: int, budget: Budget) -> arb:
    """Ball above the probability that a draw fails to copy some string of length <= `length` (union bound).

    Raises:
        InputError: length < 1, b < 2, d not a positive multiple of 4.
    """
    require_at_least("length", length, 1)
    require_two_after(b)
    scale = score_scale(rho, d, a, b, budget)
    with working_precision(PRECISION):
        return UNION_BOUND.ball(L=length, m=d // 4, S=scale, a=a, b=b)


def length_with_failure(probability: Fraction, rho: Fraction, d: int, a: int, b: int, budget: Budget) -> int:
    """The largest length, to three digits, whose `failure_bound` is certainly at most `probability` (0: none); no
    length above 10^4000 is looked at.
    """
    if not 0 < probability < 1:
        raise InputError("probability", str(probability), "a number between 0 and 1")

    def fine(length: int) -> bool:
        return bool(failure_bound(length, rho, d, a, b, budget) <= ball(probability))

    return furthest(fine, LONGEST, growth=16, digits=1000)


def paper_length(rho: Fraction, d: int, exponent: Fraction = Fraction(1, 12)) -> int:
    """floor(rho^(exponent d)): the lengths that Theorem 4.1 speaks of, for exponent 1/12."""
    power = exponent * d
    # L <= rho^(p/q) iff L^q <= floor(rho^p), for integers L.
    return int(fmpz((rho**power.numerator).__floor__()).root(power.denominator))


def resonance_bound(m: int, delta: Fraction) -> arb:
    """Ball above P(sum of m terms 1 - cos theta <= delta), theta uniform: the volume of a ball of radius
    sqrt(delta/8), at most 1/2 in radius or not.
    """
    with working_precision(PRECISION):
        return BALL_VOLUME.ball(m=m, delta=delta)


def needed_separation(length: int, scale: Fraction) -> arb:
    """ln(L+1)/S, the separation that is enough for all strings of length <= L."""
    with working_precision(PRECISION):
        return NEEDED_SEPARATION.ball(L=length, S=scale)
