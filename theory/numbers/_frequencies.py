"""RoPE frequencies as exact objects.

A frequency turns a pair of coordinates by a fixed angle per position. Three kinds exist: a rational number of turns, a
rational number of radians, and a power `base^(-f/m)` radians with rational base, an algebraic number. Floats do not
occur: a 53-bit fraction of a turn is periodic in the position with period at most 2^53, so a model with such
frequencies confuses positions that far apart. That is a true property of *that* frequency, and a wrong statement about
the real number it was meant to stand for.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from flint import arb, ctx, fmpq, fmpz

from theory.numbers._balls import VacuousBallError, ball, integer_floor, require_width, working_precision
from theory.numbers._errors import InputError, parse_rational, require_at_least, require_pair_dimension

#: Beyond this no precision is tried; decimal exponents are limited to 5000, 16,610 bits.
MOST_PRECISION = 2**18

#: Working precision of float tables, and the largest radius of a table entry, far below the rounding to a float.
TABLE_PRECISION, TABLE_RADIUS = 192, Fraction(1, 2**110)

#: Most bits of a drawn fraction of a turn.
MOST_BITS = 2**16


class Frequency(ABC):
    """A rotation by a fixed angle per position. What is known of one it answers itself."""

    #: How a file names its unit.
    unit: ClassVar[str]

    @property
    @abstractmethod
    def rational_turns(self) -> Fraction | None:
        """Turns per position where they are rational, so that the frequency comes full circle; else None."""

    @abstractmethod
    def turns(self) -> arb:
        """Turns per position modulo 1, a ball of the working precision, however large the frequency is."""

    @abstractmethod
    def spelled(self) -> dict[str, str]:
        """How files write it, exact."""

    def whole_turns(self, distance: int) -> bool:
        """Is the angle at this distance exactly a whole number of turns?"""
        turns = self.rational_turns
        return distance == 0 or (turns is not None and (turns * distance).denominator == 1)

    def cos_sin(self, distance: Fraction | int, widest: Fraction | None = None) -> tuple[arb, arb]:
        """Cosine and sine of the angle at a distance: balls of the working precision, however far away that is.

        The frequency counts modulo one turn per position. Rational turns are reduced exactly, so that whole turns give
        1 and 0; others are taken with as many more bits as the distance has.

        Raises:
            VacuousBallError: a ball wider than `widest`, where that is given.
        """
        turns = self.rational_turns
        if turns is not None:
            above = turns.numerator % turns.denominator * distance.numerator
            below = turns.denominator * distance.denominator
            half_turns = arb(fmpz(2 * (above % below))) / fmpz(below)
        else:
            with working_precision(ctx.prec + _more_bits(distance)):
                half_turns = 2 * self.turns() * ball(distance)
        sine, cosine = half_turns.sin_cos_pi()
        if widest is not None:
            require_width(cosine, widest, "cosine")
            require_width(sine, widest, "sine")
        return cosine, sine

    def float_cos_sin(self, distance: int) -> tuple[float, float]:
        """The floats of cosine and sine: the middles of balls no wider than TABLE_RADIUS, each rounded once."""
        with working_precision(TABLE_PRECISION):
            cosine, sine = self.cos_sin(distance, TABLE_RADIUS)
        return float(cosine.mid()), float(sine.mid())


@dataclass(frozen=True)
class Turn(Frequency):
    """A frequency of `value` turns (2 pi `value` radians) per position."""

    value: Fraction
    unit: ClassVar[str] = "turn"

    @property
    def rational_turns(self) -> Fraction:
        """See `Frequency.rational_turns`."""
        return self.value

    def turns(self) -> arb:
        """See `Frequency.turns`."""
        return ball(self.value % 1)

    def spelled(self) -> dict[str, str]:
        """See `Frequency.spelled`."""
        return {self.unit: rational_text(self.value)}


@dataclass(frozen=True)
class Radian(Frequency):
    """A frequency of `value` radians per position. Unless 0 it never comes full circle, pi being irrational."""

    value: Fraction
    unit: ClassVar[str] = "radian"

    @property
    def rational_turns(self) -> Fraction | None:
        """See `Frequency.rational_turns`."""
        return None if self.value else self.value

    def turns(self) -> arb:
        """See `Frequency.turns`."""
        return _turns_of_power(self.value, Fraction(1), ctx.prec)

    def spelled(self) -> dict[str, str]:
        """See `Frequency.spelled`."""
        return {self.unit: rational_text(self.value)}


@dataclass(frozen=True)
class BasePower(Frequency):
    """A frequency of `base^exponent` radians per position (RoPE's own choice), an algebraic number, so that it never
    comes full circle: pi is transcendental.
    """

    base: Fraction
    exponent: Fraction
    unit: ClassVar[str] = "base"

    @property
    def rational_turns(self) -> None:
        """See `Frequency.rational_turns`."""
        return None

    def turns(self) -> arb:
        """See `Frequency.turns`."""
        return _turns_of_power(self.base, self.exponent, ctx.prec)

    def spelled(self) -> dict[str, str]:
        """See `Frequency.spelled`."""
        return {self.unit: rational_text(self.base), "exponent": rational_text(self.exponent)}


def _more_bits(distance: Fraction | int) -> int:
    """Bits that the whole part of a distance takes, in words: so few precisions are asked for."""
    return -(-(abs(distance.numerator) // distance.denominator).bit_length() // 64) * 64


def rational_text(value: Fraction) -> str:
    """The number as `p` or `p/q` in full; `str` refuses more than 4300 digits."""
    return str(fmpq(value.numerator, value.denominator))


@lru_cache(maxsize=4096)
def _turns_of_power(base: Fraction, exponent: Fraction, bits: int) -> arb:
    """The turns of `base^exponent` radians less a whole number of them, with a radius below 2^-bits.

    Whole turns may take any number of bits. Remembered: tables ask for the same few again and again.
    """
    wanted = arb(2) ** -bits
    precision = bits + 16
    while precision <= MOST_PRECISION:
        with working_precision(precision):
            radians = ball(base) if exponent == 1 else ball(base) ** ball(exponent)
            turns = radians / (2 * arb.pi())
            fraction = turns - integer_floor(turns)
        if fraction.rad() < wanted:
            return fraction
        precision *= 2
    raise VacuousBallError(f"no frequency of {MOST_PRECISION} bits of whole turns is handled")


def rational_turns(frequencies: Iterable[Frequency]) -> list[Fraction]:
    """Turns per position of those frequencies that come full circle."""
    return [turns for turns in (frequency.rational_turns for frequency in frequencies) if turns is not None]


@dataclass(frozen=True)
class GridFrequencies:
    """Row and column frequencies of a 2D-RoPE head, each a tuple of exact frequencies."""

    row: tuple[Frequency, ...]
    column: tuple[Frequency, ...]

    def __post_init__(self) -> None:
        for axis, values in (("row", self.row), ("column", self.column)):
            if not values:
                raise InputError(f"frequencies.{axis}", "[]", "at least one frequency")

    @property
    def head_width(self) -> int:
        """Coordinates that the head needs: two for each frequency."""
        return 2 * (len(self.row) + len(self.column))


def fixed_point_turns(frequency: Frequency, bits: int) -> int:
    """An integer within 1 of `2^bits` times the frequency's fractional turns, in [0, 2^bits].

    Cost: one ball evaluation.
    """
    with working_precision(bits + 64):
        return integer_floor(frequency.turns() * arb(2) ** bits + arb(0.5))


def draw_grid_frequencies(d: int, seed: int, draw: int, bits: int = 1024) -> GridFrequencies:
    """The draw with number `draw` of `seed`: d/4 row and d/4 column frequencies, uniform multiples of 2^-bits turns.

    Depends on (d, seed, draw, bits) alone, through SHAKE-256, so draws can be split over runs and resumed. The uniform
    grid of 2^-bits turns stands for Unif[0, 2 pi] (Theorem 4.1); it is periodic with period 2^bits, so `bits` has to
    exceed log2 of any length of interest.

    Raises:
        InputError: d not a positive multiple of 4, negative seed or draw, bits < 1 or above 65,536.
    """
    require_pair_dimension(d)
    require_at_least("seed", seed, 0)
    require_at_least("draw", draw, 0)
    require_at_least("bits", bits, 1)
    if bits > MOST_BITS:
        raise InputError("bits", bits, f"at most {MOST_BITS}")

    def axis(name: str) -> tuple[Frequency, ...]:
        return tuple(Turn(_uniform_fraction(f"{d}/{seed}/{draw}/{name}/{index}", bits)) for index in range(d // 4))

    return GridFrequencies(row=axis("row"), column=axis("column"))


def _uniform_fraction(label: str, bits: int) -> Fraction:
    digest = hashlib.shake_256(f"copycert frequency {label}".encode()).digest((bits + 7) // 8)
    return Fraction(int.from_bytes(digest, "big") >> (-bits % 8), 1 << bits)


def base_grid_frequencies(base: Fraction, d: int) -> GridFrequencies:
    """RoPE's geometric frequencies on both axes: `base^(-f/(d/4))` radians per position, f = 0 .. d/4-1.

    Raises:
        InputError: base <= 0, or d not a positive multiple of 4.
    """
    require_pair_dimension(d)
    if base <= 0:
        raise InputError("base", str(base), "a rational number > 0")
    axis = tuple(BasePower(base, Fraction(-index, d // 4)) for index in range(d // 4))
    return GridFrequencies(row=axis, column=axis)


class _Spelled(str):
    """A JSON number kept as it was spelled, so that its decimal value is exact."""

    __slots__ = ()


def _reject_constant(name: str) -> None:
    raise InputError("frequencies", name, "made of finite numbers")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise InputError("frequencies", ", ".join(name for name, _ in pairs), "an object without duplicate fields")
    return fields


def parse_grid_frequencies(text: str) -> GridFrequencies:
    """Frequencies from the JSON of a frequencies file.

    `{"unit": "radian" | "turn", "row": [...], "column": [...]}`; a JSON number is the decimal that it spells, a string
    may be a decimal or `p/q`; `unit` defaults to radian. Also `{"base": B, "d": D}` as in `base_grid_frequencies`.

    Raises:
        InputError: not such a JSON object, an unknown field, NaN, infinity, or no frequency on an axis.
    """
    try:
        document = json.loads(
            text, parse_float=_Spelled, parse_int=_Spelled, parse_constant=_reject_constant, object_pairs_hook=_unique
        )
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError("frequencies", text[:40], f"a JSON object ({error})") from error
    if not isinstance(document, dict):
        raise InputError("frequencies", text[:40], "a JSON object with the fields row and column")
    return grid_frequencies_from_document(document)


def grid_frequencies_from_document(document: Mapping[str, Any]) -> GridFrequencies:
    """Frequencies from the parsed JSON object; see `parse_grid_frequencies`."""
    fields = set(document)
    if fields == {"base", "d"}:
        width = parse_rational(document["d"], "frequencies.d")
        if width.denominator != 1:
            raise InputError("frequencies.d", str(width), "a positive multiple of 4")
        return base_grid_frequencies(parse_rational(document["base"], "frequencies.base"), int(width))
    if not fields <= {"unit", "row", "column"} or not {"row", "column"} <= fields:
        raise InputError(
            "frequencies",
            ", ".join(sorted(fields)),
            "an object with the fields row, column and perhaps unit, or base and d",
        )
    unit = document.get("unit", "radian")
    if unit not in ("radian", "turn"):
        raise InputError("frequencies.unit", unit, "radian or turn")
    kind = Radian if unit == "radian" else Turn
    return GridFrequencies(_axis(document["row"], kind, "row"), _axis(document["column"], kind, "column"))


def _axis(values: object, kind: type[Radian] | type[Turn], name: str) -> tuple[Frequency, ...]:
    if not isinstance(values, list):
        raise InputError(f"frequencies.{name}", repr(values), "a list of numbers")
    return tuple(kind(parse_rational(value, f"frequencies.{name}[{i}]")) for i, value in enumerate(values))


def read_grid_frequencies(path: Path) -> GridFrequencies:
    """Frequencies from a file in the format of `parse_grid_frequencies`, in UTF-8, UTF-16 or UTF-32.

    A byte order mark, as some editors write, is read over.

    Raises:
        InputError: unreadable file, or as in `parse_grid_frequencies`; it names the file.
    """
    try:
        data = path.read_bytes()
        text = data.decode(json.detect_encoding(data))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("frequencies", str(path), f"a readable JSON file ({type(error).__name__})") from error
    try:
        return parse_grid_frequencies(text)
    except InputError as error:
        if error.argument != "frequencies":
            raise
        raise InputError("frequencies", str(path), f"a file with {error.allowed}") from error


def grid_frequencies_document(frequencies: GridFrequencies) -> dict[str, Any]:
    """The JSON object from which `grid_frequencies_from_document` makes the same frequencies.

    Raises:
        InputError: an axis mixes units, which the file format cannot say.
    """
    every = (*frequencies.row, *frequencies.column)
    first, width = every[0], 4 * len(frequencies.row)
    if isinstance(first, BasePower) and base_grid_frequencies(first.base, width) == frequencies:
        return {"base": rational_text(first.base), "d": width}
    units = {frequency.unit for frequency in every}
    if units in ({Turn.unit}, {Radian.unit}):
        (unit,) = units
        row, column = ([f.spelled()[unit] for f in axis] for axis in (frequencies.row, frequencies.column))
        return {"unit": unit, "row": row, "column": column}
    raise InputError("frequencies", "mixed units", "one unit for both axes")
