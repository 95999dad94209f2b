"""The anchor curve of Theorem 3.2: where the first layer puts each position, in ball arithmetic.

*What the first layer computes.* Only four tokens have a value there, the anchors A_{a-1}, A_a and B_{b-1}, B_b. Both
anchors of a pair have the same key, so with K(r) the score of such a key at distance r the source s_j sees them with
scores K_A(j+1) and K_A(j), and the query of step i sees the B pair with K_B(i) and K_B(i-1). After the normalisation
only the angle is left,

    phi(x) = arctan exp(-D(x)),    D_A(x) = K_A(x+1) - K_A(x),    D_B(x) = K_B(x) - K_B(x-1),

the angle at which the second anchor's share stands to the first's. Sources are the points phi_A(j) of a curve in a
quadrant, queries phi_B(i), and the construction makes D_A = D_B.

*What has to be proved.* Points of consecutive positions keep an angle: phi' >= m > 0. Since phi' = -D'/(2 cosh D) and D
is a short trigonometric sum, a bound on each of a few intervals is enough, whatever the length is: the interval is cut
in two until the enclosure of phi' decides. Cost is independent of the length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from flint import arb

from theory.grid import Amplitude
from theory.numbers import Frequency, InputError, ball, require_around, total

#: An interval is not cut further once it is this small a part of the whole; the slope is then called undecided.
MOST_CUTS = 24

#: Derivatives of D that are evaluated on each interval; the next one is bounded once for all.
TAYLOR_ORDER = 8

#: Largest place, phase and |D| at which floats sample the slope; balls alone do beyond them.
MOST_PLACE, MOST_PHASE, MOST_DIFFERENCE = 1e300, 1e4, 1e3

#: Places whose slope in floats is above the least by no more than this part of it are left to balls. Phases are known
#: to 2^-39 there and D to 2^-29, so that only a slope that nearly cancels is off by more.
ROUGHNESS = 1e-6

#: Most intervals looked at in one proof.
MOST_PIECES = 200_000


#: How the first layer's values lie: two planes, one plane with a marker, or one plane and anchors that occur twice.
Form = Literal["separate", "shared", "repeated"]


@dataclass(frozen=True)
class AnchorScores:
    """Everything in a two-layer copier's weights on which copying depends, exact.

    The score of an anchor at distance r (query index minus key index) is the sum over the turning pairs of
    `even cos(beta r) + odd sin(beta r)`, plus a constant.

    Attributes:
        form: "separate": the B anchors' values have two directions of their own. "shared": both pairs of anchors share
            a plane, and each B anchor's value has in addition a part of a third direction, the marker. "repeated": the
            same two tokens are the anchors before and after the string (the trained layout); the marker is a token of
            its own, the last of B.
        frequencies: exact frequencies of the turning pairs.
        before: (even, odd) of each turning pair for A_{a-1} and A_a.
        after: the same for B_{b-1} and B_b.
        lift: the B anchors' constant minus the A anchors' constant.
        scale: S, the second layer's score of two equal unit vectors.
        marker: size of the marker relative to the B anchors' values ("repeated": to the second anchor's); else 0.
        ratio: size of the first anchor's value relative to the second's, 1 unless "repeated".
        a, b: numbers of tokens before and after the string, at least 2.
    """

    form: Form
    frequencies: tuple[Frequency, ...]
    before: tuple[Amplitude, ...]
    after: tuple[Amplitude, ...]
    lift: Fraction
    scale: Fraction
    marker: Fraction
    ratio: Fraction
    a: int
    b: int

    def __post_init__(self) -> None:
        require_around("a", self.a, 2)
        require_around("b", self.b, 2)
        if not len(self.frequencies) == len(self.before) == len(self.after):
            raise InputError("amplitudes", f"{len(self.before)} and {len(self.after)}", "one pair for each frequency")
        if self.scale <= 0 or self.ratio <= 0 or self.marker < 0:
            raise InputError("scale", str(self.scale), "a rational number > 0, with a ratio > 0 and a marker >= 0")

    @property
    def precision(self) -> int:
        """Working bits: differences of neighbouring scores lose twice the bits of an amplitude, their slopes three
        times.
        """
        largest = max((abs(x) for pair in (*self.before, *self.after) for x in pair), default=Fraction(1))
        return 192 + 6 * (int(largest) + 1).bit_length() + int(self.scale).bit_length()

    def source_curve(self) -> Curve:
        """D_A at the working precision, with the logarithm of the ratio."""
        return _curve(self.frequencies, tuple(map(_step_ahead, self.frequencies, self.before)), self.ratio)

    def query_curve(self) -> Curve:
        """D_B at the working precision; for repeated anchors the same as D_A."""
        if self.form == "repeated":
            return self.source_curve()
        return _curve(self.frequencies, tuple(map(_step_behind, self.frequencies, self.after)), self.ratio)

    def amplitude_sum(self) -> arb:
        """An upper bound of |K_A| + |K_B| at any two distances, constants left out."""
        return total(_size(ball(x), ball(y)) for x, y in (*self.before, *self.after))


@dataclass(frozen=True)
class Curve:
    """D(x) = constant + sum over pairs of u cos(beta x) + v sin(beta x), coefficients in balls.

    Attributes:
        frequencies: the beta, exact; at whole positions only their fraction of a turn counts, and that is taken.
        coefficients: (u, v) of each.
        radians: balls around the beta.
        constant: ball.
    """

    frequencies: tuple[Frequency, ...]
    coefficients: tuple[tuple[arb, arb], ...]
    radians: tuple[arb, ...]
    constant: arb

    def derivatives(self, x: Fraction | int, order: int = 2) -> list[arb]:
        """D and its derivatives up to `order` at a position. Cost: one sine and cosine a pair."""
        found = [self.constant, *[arb(0)] * order]
        for frequency, (u, v), beta in zip(self.frequencies, self.coefficients, self.radians, strict=True):
            cosine, sine = frequency.cos_sin(x)
            power, turn = arb(1), (u * cosine + v * sine, v * cosine - u * sine)
            for k in range(order + 1):
                found[k] += power * turn[0]
                power, turn = power * beta, (turn[1], -turn[0])
        return found

    def value(self, x: Fraction | int) -> arb:
        """D at a position."""
        return self.derivatives(x)[0]

    def angle(self, x: Fraction | int) -> arb:
        """phi(x) = arctan exp(-D(x)), in (0, pi/2)."""
        return (-self.value(x)).exp().atan()

    def derivative_bound(self, order: int) -> arb:
        """An upper bound of the absolute derivative of this order everywhere."""
        terms = zip(self.coefficients, self.radians, strict=True)
        return total(beta**order * _size(u, v) for (u, v), beta in terms).upper()

    def largest_difference(self, other: Curve) -> arb:
        """An upper bound of |D - other D| everywhere, for curves with the same frequencies and constant."""
        pairs = zip(self.coefficients, other.coefficients, strict=True)
        return total(_size(u - w, v - z) for (u, v), (w, z) in pairs)

    def slope(self, x: Fraction | int) -> arb:
        """phi'(x)."""
        d0, d1 = self.derivatives(x, 1)
        return -d1 / (2 * d0.cosh())

    def slope_on(self, low: Fraction, high: Fraction, highest: arb) -> arb:
        """An enclosure of phi' over [low, high]; `highest` bounds the derivative of order TAYLOR_ORDER + 1 of D.

        phi' at the middle, and half the width times an enclosure of phi'' = (-D'' + D'^2 tanh D) / (2 cosh D), in which
        D, D', D'' are enclosed by their Taylor sums.
        """
        middle, half = (low + high) / 2, ball((high - low) / 2)
        at = [*self.derivatives(middle, TAYLOR_ORDER), highest]
        d0, d1, d2 = (_taylor_range(at[k:], half) for k in range(3))
        centre = -at[1] / (2 * at[0].cosh())
        bend = (-d2 + d1 * d1 * d0.tanh()) / (2 * d0.cosh())
        return _widened(centre, half * abs(bend).upper())


def slope_is_at_least(curve: Curve, low: Fraction, high: Fraction, least: Fraction) -> bool | None:
    """Is phi' >= `least` on all of [low, high]? None if that stays undecided.

    Method: ball; intervals are cut in two until each is decided. Cost: some hundred intervals, whatever their length.
    """
    bound, highest = ball(least), curve.derivative_bound(TAYLOR_ORDER + 1)
    return _everywhere(
        low,
        high,
        lambda start, end: bool(curve.slope_on(start, end, highest) >= bound),
        lambda x: bool(curve.slope(x) < bound),
    )


def curve_is_at_most(curve: Curve, low: Fraction, high: Fraction, most: arb) -> bool | None:
    """Is D <= `most` on all of [low, high]? None if that stays undecided. Method and cost as in `slope_is_at_least`."""
    highest = curve.derivative_bound(TAYLOR_ORDER + 1)

    def holds(start: Fraction, end: Fraction) -> bool:
        at = [*curve.derivatives((start + end) / 2, TAYLOR_ORDER), highest]
        return bool(_taylor_range(at, ball((end - start) / 2)) <= most)

    return _everywhere(low, high, holds, lambda x: bool(curve.value(x) > most))


def _everywhere(
    low: Fraction, high: Fraction, holds: Callable[[Fraction, Fraction], bool], fails: Callable[[Fraction], bool]
) -> bool | None:
    """Does something hold on a whole interval? False at a place that fails, None if cutting in two comes to no end."""
    stack, pieces = [(low, high, 0)], 0
    while stack:
        start, end, cuts = stack.pop()
        pieces += 1
        if holds(start, end):
            continue
        middle = (start + end) / 2
        if fails(middle):
            return False
        if cuts == MOST_CUTS or pieces > MOST_PIECES or start == end:
            return None
        stack += [(start, middle, cuts + 1), (middle, end, cuts + 1)]
    return True


def least_slope_place(curve: Curve, low: Fraction, high: Fraction, samples: int = 512) -> tuple[Fraction, arb]:
    """Where phi' is least among equally spaced sample points of [low, high], and its value there. No proof.

    Floats leave out the places whose slope is clearly not the least; balls choose among the others.
    """
    places = [low + (high - low) * k / samples for k in range(samples + 1)]
    if _known_in_floats(curve, high):
        rough = _rough_slopes(curve, [float(x) for x in places])
        cut = min(rough) + ROUGHNESS * abs(min(rough))
        places = [x for x, slope in zip(places, rough, strict=True) if slope <= cut]
    slopes = [(float(curve.slope(x).mid()), x) for x in places]
    x = min(slopes)[1]
    return x, curve.slope(x)


def _known_in_floats(curve: Curve, high: Fraction) -> bool:
    phase, difference = ball(high) * total(map(abs, curve.radians)), curve.derivative_bound(0) + abs(curve.constant)
    return high < MOST_PLACE and bool(phase < MOST_PHASE) and bool(difference < MOST_DIFFERENCE)


def _rough_slopes(curve: Curve, places: list[float]) -> list[float]:
    """phi' in plain floats."""
    waves = [(float(u), float(v), float(beta)) for (u, v), beta in zip(curve.coefficients, curve.radians, strict=True)]
    constant, slopes = float(curve.constant), []
    for x in places:
        value, change = constant, 0.0
        for u, v, beta in waves:
            cosine, sine = math.cos(beta * x), math.sin(beta * x)
            value += u * cosine + v * sine
            change += beta * (v * cosine - u * sine)
        fall = math.exp(-abs(value))  # 1/(2 cosh D) = fall/(1 + fall^2), without overflow
        slopes.append(-change * fall / (1 + fall * fall))
    return slopes


def _curve(frequencies: tuple[Frequency, ...], coefficients: tuple[tuple[arb, arb], ...], ratio: Fraction) -> Curve:
    radians = tuple(2 * arb.pi() * frequency.turns() for frequency in frequencies)
    return Curve(frequencies, coefficients, radians, arb(0) if ratio == 1 else ball(ratio).log())


def _step_ahead(frequency: Frequency, amplitude: Amplitude) -> tuple[arb, arb]:
    """K(x+1) - K(x) as coefficients of cos(beta x) and sin(beta x)."""
    even, odd = ball(amplitude[0]), ball(amplitude[1])
    cosine, sine = frequency.cos_sin(1)
    return even * (cosine - 1) + odd * sine, odd * (cosine - 1) - even * sine


def _step_behind(frequency: Frequency, amplitude: Amplitude) -> tuple[arb, arb]:
    """K(x) - K(x-1) as coefficients of cos(beta x) and sin(beta x)."""
    even, odd = ball(amplitude[0]), ball(amplitude[1])
    cosine, sine = frequency.cos_sin(1)
    return even * (1 - cosine) + odd * sine, odd * (1 - cosine) - even * sine


def _size(u: arb, v: arb) -> arb:
    """An upper bound of sqrt(u^2 + v^2), also where the ball touches 0."""
    return (u * u + v * v).upper().sqrt().upper()


def _taylor_range(derivatives: Sequence[arb], half: arb) -> arb:
    """Enclosure of a function within `half` of a place, from its derivatives there; the last one is a bound of the
    absolute value throughout.
    """
    radius, factor = arb(0), arb(1)
    for k, derivative in enumerate(derivatives[1:], start=1):
        factor = factor * half / k
        radius += factor * abs(derivative).upper()
    return _widened(derivatives[0], radius)


def _widened(value: arb, by: arb) -> arb:
    """The ball with its radius enlarged by an upper bound `by` >= 0."""
    return value + arb(0, by.upper())
