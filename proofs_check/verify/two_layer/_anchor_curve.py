"""Curves `phi(x) = arctan exp(-D(x))`, `D(x) = constant + sum of u cos(beta x) + v sin(beta x)`, in balls.

`phi' = -D'/(2 cosh D)` and `phi'' = (-D'' + D'^2 tanh D)/(2 cosh D)`. Over an interval of half width h around x, D
and its derivatives are enclosed by their Taylor sums at x, with `beta^k sqrt(u^2 + v^2)` bounding the k-th derivative
of a wave in the remainder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import factorial

from flint import arb

from proofs_check.verify.reading import (
    Frequency,
    Rejected,
    Turns,
    ball,
    floor_of_exact,
    function_units,
    product_units,
    spend,
    total,
)
from proofs_check.verify.two_layer._form import Form
from proofs_check.verify.two_layer._model import Turning, frequency_bits

#: Lengths, steps and places beyond this are refused.
LARGEST_LENGTH = 10**60

#: Bits kept beyond those that sizes of numbers suggest, and the most bits in all.
GUARD_BITS = 256
MOST_BITS = 4096

#: Waves evaluated at most in one search, times `bits/512` beyond 512 bits.
MOST_WAVES = 400_000

#: Terms of the Taylor sums.
_ORDER = 10

Question = Callable[[Fraction, arb], bool | None]


@dataclass(frozen=True)
class _Wave:
    turns: arb
    beta: arb
    u: arb
    v: arb


class Curve:
    """The sum D of waves, prepared at the working precision; use it under that precision."""

    def __init__(self, waves: Sequence[_Wave], constant: arb) -> None:
        self._waves, self._constant = waves, constant

    @property
    def count(self) -> int:
        """How many waves there are, at least 1."""
        return max(1, len(self._waves))

    @cached_property
    def remainder(self) -> arb:
        """A bound of the derivative of order `_ORDER`."""
        return self.largest(_ORDER)

    def largest(self, order: int) -> arb:
        """A bound of the derivative of an order >= 1, or of D less its constant for order 0, at all real x."""
        return total(abs(wave.beta) ** order * size(wave.u, wave.v) for wave in self._waves)

    def derivatives(self, x: Fraction | int, orders: int) -> list[arb]:
        """D and its derivatives of orders below `orders` at x. Cost: microseconds for each wave."""
        result = [arb(0)] * orders
        place = ball(x)
        spend(len(self._waves) * (function_units() + (4 + 3 * orders) * product_units()))
        for wave in self._waves:
            sine, cosine = (2 * wave.turns * place).sin_cos_pi()
            value = wave.u * cosine + wave.v * sine
            turned = wave.v * cosine - wave.u * sine
            power = arb(1)
            for k in range(orders):
                result[k] += power * value
                value, turned = turned, -value
                power *= wave.beta
        result[0] += self._constant
        return result

    def angle(self, x: int) -> arb:
        """phi(x)."""
        return (-self.derivatives(x, 1)[0]).exp().atan()

    def ranges(self, derivatives: Sequence[arb], half: arb, orders: int) -> list[arb]:
        """Enclosures of D and its derivatives of orders below `orders` within `half` of where `derivatives` are."""
        powers = [arb(0, half**k) / factorial(k) if k else arb(1) for k in range(_ORDER + 1)]
        return [
            total(derivatives[k] * powers[k - order] for k in range(order, _ORDER))
            + self.remainder * powers[_ORDER - order]
            for order in range(orders)
        ]

    def slope_at_least(self, least: arb) -> Question:
        """Is phi' >= least within a half width of a place? None: look at the halves."""

        def question(place: Fraction, half: arb) -> bool | None:
            at = self.derivatives(place, _ORDER)
            slope = -at[1] / (2 * at[0].cosh())
            if slope < least:
                return False
            d, d1, d2 = self.ranges(at, half, 3)
            bend = (-d2 + d1 * d1 * d.tanh()) / (2 * d.cosh())
            return True if slope - half * abs(bend).upper() >= least else None

        return question

    def value_at_most(self, most: arb) -> Question:
        """Is D <= most within a half width of a place? None: look at the halves."""

        def question(place: Fraction, half: arb) -> bool | None:
            at = self.derivatives(place, _ORDER)
            if at[0] > most:
                return False
            d, d1 = self.ranges(at, half, 2)
            return True if d <= most or at[0] + half * abs(d1).upper() <= most else None

        return question

    def require_on(self, low: int, high: int, question: Question, bits: int, what: str) -> None:
        """Rejected unless the answer is True on pieces that make up [low, high], low <= high.

        Cost: at most `MOST_WAVES` evaluations of waves.
        """
        left = MOST_WAVES * 512 // max(512, bits)
        # Where balls of this precision do not decide a piece so short, they decide none in it; only numbers grow.
        narrowest = Fraction(1, 2**bits)
        pieces = [(Fraction(low), Fraction(high))]
        while pieces:
            start, end = pieces.pop()
            left -= self.count
            if left < 0:
                raise Rejected(f"undecided: {what} takes too many evaluations")
            if end - start < narrowest:
                raise Rejected(f"undecided: {what}, near a place where it holds with equality or nearly so")
            answer = question((start + end) / 2, ball((end - start) / 2))
            if answer is False:
                raise Rejected(f"not so: {what}")
            if answer is None:
                middle = (start + end) / 2
                pieces += [(middle, end), (start, middle)]


def size(x: arb, y: arb) -> arb:
    """sqrt(x^2 + y^2)."""
    return (x * x + y * y).sqrt()


def bits_of(number: Fraction | int) -> int:
    """Bits of the whole part of a number's absolute value, and a bit more."""
    numerator, denominator = number.as_integer_ratio()
    return max(0, numerator.bit_length() - denominator.bit_length() + 1)


def working_bits(form: Form, *numbers: Fraction | int) -> int:
    """A working precision for curves of this form at places and with bounds of the sizes of `numbers`.

    It decides only whether a check succeeds, never whether it is right.

    Raises:
        Rejected: more than `MOST_BITS`.
    """
    turning = (*form.before, *form.after)
    amplitude = sum((abs(wave.even) + abs(wave.odd) for wave in turning), Fraction(1))
    turns = max((frequency_bits(wave.frequency) for wave in turning), default=0)
    bits = GUARD_BITS + bits_of(amplitude) + bits_of(form.scale) + turns + 2 * sum(map(bits_of, numbers))
    if bits > MOST_BITS:
        raise Rejected(f"undecided: more than {MOST_BITS} bits would be needed")
    return bits


def source_curve(form: Form) -> Curve:
    """D_A(x) = K_A(x+1) - K_A(x), with ln(v1/v2) added in the trained layout."""
    constant = arb(0) if form.values is None else ball(form.values[0] / form.values[1]).log()
    return Curve([_ahead(wave) for wave in form.before], constant)


def plain_source_curve(form: Form) -> Curve:
    """K_A(x+1) - K_A(x)."""
    return Curve([_ahead(wave) for wave in form.before], arb(0))


def query_curve(form: Form) -> Curve:
    """D_B(x) = K_B(x) - K_B(x-1)."""
    return Curve([_behind(wave) for wave in form.after], arb(0))


def largest_difference(form: Form) -> arb:
    """A bound of |D_A(x) - D_B(x)| at all real x."""
    waves = [(_ahead(early), _behind(late)) for early, late in zip(form.before, form.after, strict=True)]
    return total(size(a.u - b.u, a.v - b.v) for a, b in waves)


def fraction_of_turn(frequency: Frequency) -> arb:
    """A frequency in turns, less a whole number of turns so that it is in [0, 1) as far as balls tell."""
    if isinstance(frequency, Turns):
        return ball(frequency.value % 1)
    turns = frequency.turns()
    return turns - floor_of_exact(turns.mid())


def _ahead(wave: Turning) -> _Wave:
    """The wave of K(x+1) - K(x)."""
    turns, beta, sine, fall = _turned(wave)
    even, odd = ball(wave.even), ball(wave.odd)
    return _Wave(turns, beta, odd * sine - even * fall, -odd * fall - even * sine)


def _behind(wave: Turning) -> _Wave:
    """The wave of K(x) - K(x-1)."""
    turns, beta, sine, fall = _turned(wave)
    even, odd = ball(wave.even), ball(wave.odd)
    return _Wave(turns, beta, even * fall + odd * sine, odd * fall - even * sine)


def _turned(wave: Turning) -> tuple[arb, arb, arb, arb]:
    """beta in turns and radians, sin(beta), and 1 - cos(beta) without cancellation."""
    turns = fraction_of_turn(wave.frequency)
    half_sine = turns.sin_pi()
    return turns, 2 * arb.pi() * turns, (2 * turns).sin_pi(), 2 * half_sine * half_sine
