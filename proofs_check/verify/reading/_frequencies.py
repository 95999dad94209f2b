"""RoPE frequencies as exact objects, and their phases at integer distances as balls."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

from flint import arb

from proofs_check.verify.reading._balls import ball, floor_of_exact, working_precision
from proofs_check.verify.reading._document import (
    Rejected,
    digest,
    require_choice,
    require_fields,
    require_integer,
    require_list,
    require_rational,
    spell,
)

#: Most frequencies on an axis.
MOST_FREQUENCIES = 1024

#: Longest canonical text of frequencies that a statement spells out.
LONGEST_NAME = 200

#: Common periods beyond this are of no interest; distances are shorter.
LARGEST_PERIOD = 2**64

#: Bits kept beyond those that a result needs.
GUARD_BITS = 64


@dataclass(frozen=True)
class Turns:
    """A frequency of `value` turns (2 pi `value` radians) per position."""

    value: Fraction

    @property
    def period(self) -> int | None:
        """The least k >= 1 at which the phase is a whole number of turns."""
        return self.value.denominator


@dataclass(frozen=True)
class Radians:
    """A frequency of `base^exponent` radians per position.

    `exponent` is 1 where a rational number of radians is meant, of any sign; else base > 0, -1 < exponent <= 0.
    """

    base: Fraction
    exponent: Fraction = Fraction(1)

    @property
    def period(self) -> int | None:
        """1 for frequency 0. Else None: a nonzero algebraic number times k is no multiple of 2 pi unless k = 0."""
        return 1 if self.base == 0 else None

    def turns(self) -> arb:
        """Turns per position, a ball at the working precision."""
        power = ball(self.base) if self.exponent == 1 else ball(self.base) ** ball(self.exponent)
        return power / (2 * arb.pi())

    def magnitude_bits(self) -> int:
        """Bits that the whole turns may take: |exponent| <= 1."""
        return max(self.base.numerator.bit_length(), self.base.denominator.bit_length())


Frequency = Turns | Radians


@dataclass(frozen=True)
class Frequencies:
    """The frequencies of both axes, and how a statement names them.

    Attributes:
        row, column: the frequencies, at least one on each axis.
        canonical: the document that was read, as one text: the same for the same numbers, however they were spelled.
    """

    row: tuple[Frequency, ...]
    column: tuple[Frequency, ...]
    canonical: str

    @property
    def description(self) -> str:
        """How statements name them: in full where that is short, else by a digest of the canonical text."""
        counts = f"{len(self.row)} + {len(self.column)} frequency pairs"
        if len(self.canonical) <= LONGEST_NAME:
            return f"{counts}, frequencies {self.canonical}"
        return f"{counts}, frequencies of {digest(self.canonical)}"


def read_frequencies(document: object) -> Frequencies:
    """Row and column frequencies, from the inputs of a certificate or the metadata of a weights file.

    Raises:
        Rejected: not of one of the two forms of docs/certificates.md, or no frequency on an axis.
    """
    if isinstance(document, dict) and "base" in document:
        return _base_frequencies(require_fields(document, "frequencies", ("base", "d")))
    fields = require_fields(document, "frequencies", ("unit", "row", "column"))
    unit = require_choice(fields["unit"], "frequencies.unit", ("turn", "radian"))
    row, column = (_numbers(fields[name], name) for name in ("row", "column"))
    canonical = {"unit": unit, "row": [spell(x) for x in row], "column": [spell(x) for x in column]}
    return Frequencies(_axis(row, unit), _axis(column, unit), _canonical(canonical))


def _canonical(document: Mapping[str, object]) -> str:
    """JSON without blanks: fields in the order of docs/certificates.md, rationals as strings in lowest terms."""
    return json.dumps(document, separators=(",", ":"))


def _base_frequencies(fields: dict[str, Any]) -> Frequencies:
    base = require_rational(fields["base"], "frequencies.base")
    d = require_integer(fields["d"], "frequencies.d", 4, 4 * MOST_FREQUENCIES)
    if base <= 0 or d % 4:
        raise Rejected("frequencies: base must be positive and d divisible by 4")
    axis = tuple(Radians(base, Fraction(-f, d // 4)) for f in range(d // 4))
    return Frequencies(axis, axis, _canonical({"base": spell(base), "d": d}))


def _numbers(values: object, name: str) -> list[Fraction]:
    entries = require_list(values, f"frequencies.{name}", MOST_FREQUENCIES)
    if not entries:
        raise Rejected(f"frequencies.{name} is empty")
    return [require_rational(entry, f"frequencies.{name}[{i}]") for i, entry in enumerate(entries)]


def _axis(numbers: list[Fraction], unit: str) -> tuple[Frequency, ...]:
    return tuple(Turns(number) if unit == "turn" else Radians(number) for number in numbers)


def common_period(frequencies: Iterable[Frequency]) -> int | None:
    """The least k >= 1 at which all phases are whole turns (1 for no frequency); None if no k up to 2^64 does."""
    result = 1
    for frequency in frequencies:
        period = frequency.period
        if period is None:
            return None
        result = lcm(result, period)
        if result > LARGEST_PERIOD:
            return None
    return result


def fixed_point(frequency: Frequency, bits: int) -> tuple[int, arb]:
    """An integer nearest to `2^bits` times the frequency in turns, and a bound of the difference.

    The bound is exact or a certain upper end, at most 1/2 + 2^-50. The integer is a nearest one but where the
    frequency is closer to half-way between two than a ball of `bits + 64` bits tells; ties go up.
    Cost: one ball evaluation.
    """
    if isinstance(frequency, Turns):
        scaled = frequency.value * 2**bits
        nearest = (scaled + Fraction(1, 2)).__floor__()
        with working_precision(GUARD_BITS):
            return nearest, ball(abs(scaled - nearest)).abs_upper()
    with working_precision(bits + frequency.magnitude_bits() + 2 * GUARD_BITS):
        turns = frequency.turns() * arb((1, bits))
        nearest = (floor_of_exact(2 * turns.mid()) + 1) // 2
        error = (turns - nearest).abs_upper()
    if not error < 1:
        raise Rejected("a frequency could not be enclosed tightly enough")
    return nearest, error


class Phase:
    """Sine and cosine of a frequency at integer distances, at one precision."""

    def __init__(self, frequency: Frequency, precision: int, furthest: int) -> None:
        """Prepare distances up to `furthest` in absolute value. Cost: one `fixed_point`."""
        self._period = frequency.period
        self._bits = precision + GUARD_BITS + furthest.bit_length()
        self._step, error = fixed_point(frequency, self._bits)
        self._unit = arb((1, -self._bits))
        self._error = (error * self._unit).upper()
        self._modulus = 1 << self._bits

    def sine_cosine(self, distance: int) -> tuple[arb, arb]:
        """Sine and cosine of the phase at `distance`; exactly 0 and 1 at whole turns. Cost: a microsecond."""
        if distance == 0 or (self._period is not None and distance % self._period == 0):
            return arb(0), arb(1)
        scaled = (distance * self._step) % self._modulus
        if 2 * scaled > self._modulus:
            scaled -= self._modulus
        turns = arb(scaled) * self._unit + arb(0, abs(distance) * self._error)
        sine, cosine = (2 * turns).sin_cos_pi()
        return sine, cosine
