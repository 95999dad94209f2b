"""Theorem 3.2's constants for given and for all norm budgets: L0, and the lemma on the anchor curve.

*Lemma* (paper, appendix I.3). With h_{-1} = v_A1, h_0 = (v_A1 + v_A2)/sqrt 2 and h_i the first layer's output at s_i,
`<h_i, h_j> <= 1 - 1/(72 L0^2)` for all -1 <= i < j <= n+1, n < L0.

*All budgets* (new). For the construction with N = floor(f rho^2/ln rho), beta = pi/(4N), C = N, S = (rho/10)^4 every
inequality that the proof needs is monotone in rho, so that its corner, the least rho allowed, decides:

- N increases with rho. N times the least step on [0, N+1] is at least
  `mu(N) = 2N sin(pi/(8N)) (pi/4) cos(y) / (2 cosh((pi/4) sin y))`, y = (pi/4)(1 + 1/N):
  every factor improves with N. `N^2 (1 - cos(mu/N))` increases with N.
- so the lemma holds with 1/(q N^2) where `kappa = N1^2 (1 - cos(mu(N1)/N1)) >= 1/q` at the corner N1;
- the gaps of wrong sources are at least `c kappa ln(rho)^2/(10^4 f^2)`, and fewer than `2 N` tokens compete: the
  logarithm of what they weigh together falls in x = ln rho from the corner on.

The lift is 64 for b <= 2N, where all scores fall with the distance, else 64 + 2N. The norm is 8 (rho/10)^2 for the
second layer and at most 20 sqrt(N) + 256 for the first, for all a and b: see `constructions/theorem_3_2/_copier.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from theory.numbers import (
    InputError,
    ball,
    integer_floor,
    last_true,
    require_at_least,
    upper_fraction,
    working_precision,
)
from theory.two_layer._anchor_curve import AnchorScores, Curve, slope_is_at_least

#: The paper's lemma is <h_i, h_j> <= 1 - 1/(LEMMA_FACTOR L0^2).
LEMMA_FACTOR = 72

#: The paper's length is LENGTH_FACTOR rho^2/ln rho, for every rho above LEAST_BUDGET.
LENGTH_FACTOR, LEAST_BUDGET = Fraction(1, 1000), 10**4

#: The lift of the ideal copier: the A anchors keep at most exp(-LIFT) of the B anchors' attention.
IDEAL_LIFT = 64

PRECISION = 192


def paper_two_layer_length(rho: Fraction, factor: Fraction = LENGTH_FACTOR) -> int:
    """L0 = rho^2/(1000 ln rho), rounded down; a length is at most one iff it is at most the other.

    Raises:
        InputError: rho <= 1. ArithmeticError: the floor is not decided (L0 would be a whole number).
    """
    if rho <= 1:
        raise InputError("rho", str(rho), "a number > 1")
    # As many bits as rho has come on top: L0 has twice as many, and ln rho loses those that rho - 1 begins with.
    size = 4 * max(number.bit_length() for number in (*rho.as_integer_ratio(), *factor.as_integer_ratio()))
    for bits in (256, 1024, 4096):
        with working_precision(bits + size):
            value = ball(factor) * ball(rho) ** 2 / ball(rho).log()
            if value.is_finite() and integer_floor(value) == -integer_floor(-value) - 1:
                return integer_floor(value)
    raise ArithmeticError(f"the floor of L0 is not decided for rho = {rho}")


@dataclass(frozen=True)
class LemmaResult:
    """What was decided of `<h_i, h_j> <= 1 - 1/denominator` for -1 <= i < j <= length + 1.

    Attributes:
        holds: decided, or None.
        least_step: lower bound of the angle between neighbours, if it holds.
        pair: (i, j) that violate it, if it does not.
        excess: for the pair, <h_i, h_j> - 1 + 1/denominator, certainly positive.
    """

    holds: bool | None
    least_step: Fraction | None = None
    pair: tuple[int, int] | None = None
    excess: arb | None = None


def anchor_lemma(scores: AnchorScores, length: int, denominator: int) -> LemmaResult:
    """Decide the lemma for the stored weights: all pairs at once, or a pair that violates it.

    Angles rise from h_{-1} = 0 over h_0 = pi/4 to at most pi/2, so all pairs keep the least angle of neighbours.

    Method: ball. Cost: some hundred evaluations of the curve, whatever the length is.

    Raises:
        InputError: length or denominator < 1, or weights with repeated anchors, of which the lemma does not speak.
    """
    require_at_least("length", length, 1)
    require_at_least("denominator", denominator, 1)
    if scores.form == "repeated":
        raise InputError("form", scores.form, "separate or shared")
    with working_precision(scores.precision + 2 * denominator.bit_length()):
        curve = scores.source_curve()
        needed = (1 - ball(Fraction(1, denominator))).acos()
        step = _rational_above(needed)
        first = bool(curve.angle(1) - arb.pi() / 4 >= ball(step)) and bool(ball(step) <= arb.pi() / 4)
        if first and slope_is_at_least(curve, Fraction(1), Fraction(length + 1), step) is True:
            return LemmaResult(True, least_step=step)
        for i in _suspected_pairs(curve, length):
            excess = anchor_product(curve, i, i + 1) - 1 + ball(Fraction(1, denominator))
            if excess > 0:
                return LemmaResult(False, pair=(i, i + 1), excess=excess)
        return LemmaResult(None)


def anchor_product(curve: Curve, i: int, j: int) -> arb:
    """<h_i, h_j> at the working precision, with the paper's h_{-1} and h_0."""
    return (_place(curve, j) - _place(curve, i)).cos()


def _place(curve: Curve, i: int) -> arb:
    return arb(0) if i == -1 else arb.pi() / 4 if i == 0 else curve.angle(i)


def _rational_above(value: arb) -> Fraction:
    exact = upper_fraction(value)
    bits = 30 - exact.numerator.bit_length() + exact.denominator.bit_length()
    return (Fraction(int(exact * Fraction(2) ** bits)) + 1) / Fraction(2) ** bits


def _suspected_pairs(curve: Curve, length: int) -> list[int]:
    """Indices i whose pair (i, i+1) is likely to violate the lemma: at the ends, where the sampled slope is least in
    size, and where the curve turns back.
    """
    count = 1024
    places = [1 + Fraction(length, count) * k for k in range(count + 1)]
    slopes = [float(curve.slope(x).mid()) for x in places]
    found = {int(places[min(range(count + 1), key=lambda k: abs(slopes[k]))])}
    for k in range(count):
        if slopes[k] > 0 >= slopes[k + 1]:
            found.add(last_true(lambda x: bool(curve.slope(x) > 0), int(places[k]), int(places[k + 1]) + 1))
    near = {i + shift for i in found for shift in (-2, -1, 0, 1)} | {0, 1, length - 1, length}
    return sorted(i for i in near if 0 <= i <= length)


@dataclass(frozen=True)
class BudgetProof:
    """The quantities at the corner that prove the statement for all larger budgets.

    Attributes:
        least_length: N1, at least 4.
        curvature: kappa, a lower bound of N^2 (1 - cos(least step)) for all N >= N1; the lemma needs 1/72.
        sources, outputs: logarithms of bounds of twice what wrong sources and outputs weigh; negative.
        sources_slope, outputs_slope: their derivatives in ln rho, negative from the corner on.
        norm: the square norm over rho^2, below 1.
    """

    least_length: int
    curvature: arb
    sources: arb
    sources_slope: arb
    outputs: arb
    outputs_slope: arb
    norm: arb

    def holds(self, denominator: int) -> bool:
        """Do all inequalities hold, with the lemma's constant 1/denominator?"""
        negative = (self.sources, self.sources_slope, self.outputs, self.outputs_slope)
        certain = [bool(value < 0) for value in negative]
        lemma = bool(self.curvature >= ball(Fraction(1, denominator)))
        return self.least_length >= 4 and lemma and all(certain) and bool(self.norm < 1)


def all_budgets(rho_above: Fraction = Fraction(LEAST_BUDGET), factor: Fraction = LENGTH_FACTOR) -> BudgetProof:
    """The corner of the statement for all rho > rho_above and all a, b >= 2. Method: ball. Cost: one evaluation each.

    Raises:
        InputError: rho_above < 100, factor <= 0, or a length below 4 at the corner.
    """
    if rho_above < 100:
        raise InputError("rho_above", str(rho_above), "at least 100")
    if factor <= 0:
        raise InputError("length_factor", str(factor), "a rational number > 0")
    least = paper_two_layer_length(rho_above, factor)
    if least < 4:
        raise InputError("length_factor", str(factor), "large enough for a length of 4 at the least budget")
    with working_precision(PRECISION):
        # 1 - cos, without its cancellation
        curvature = 2 * least**2 * (_scaled_step(least) / (2 * least)).sin() ** 2
        x, f = ball(rho_above).log(), ball(factor)
        shrink = 1 / (1 + 2 * (-arb(2 * IDEAL_LIFT)).exp()).sqrt()
        gap = shrink * curvature / (10**4 * f**2)
        outputs = shrink * ball(rho_above) ** 4 / 20000
        rho = ball(rho_above)
        return BudgetProof(
            least_length=least,
            curvature=curvature,
            sources=(4 * f).log() + 2 * x - x.log() - gap * x * x,
            sources_slope=2 - 2 * gap * x,
            outputs=(2 * f).log() + 2 * x - x.log() - outputs,
            outputs_slope=2 - 4 * outputs,
            norm=ball(Fraction(8, 100)) + 20 * (f / x).sqrt() / rho + 256 / rho**2 + ball(Fraction(1, 2**16)),
        )


def _scaled_step(least: int) -> arb:
    """mu(N): N times the least step of the ideal curve on [0, N+1], increasing in N."""
    quarter = arb.pi() / 4
    y = quarter * (1 + ball(Fraction(1, least)))
    amplitude = 2 * least * (arb.pi() / (8 * least)).sin()
    return amplitude * quarter * y.cos() / (2 * (quarter * y.sin()).cosh())
