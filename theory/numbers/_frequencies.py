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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from flint import arb, ctx, fmpq

from theory.numbers._balls import VacuousBallError, ball, integer_floor, working_precision
from theory.numbers._errors import InputError, parse_rational, require_at_least, require_pair_dimension

#: Beyond this no precision is tried; decimal exponents are limited to 5000, 16,610 bits.
MOST_PRECISION = 2**18


#: Most bits of a drawn fraction of a turn.
MOST_BITS = 2**16


@dataclass(frozen=True)
class Turn:
    """A frequency of `value` turns (2 pi `value` radians) per position."""

    value: Fraction

    def turns(self) -> arb:
        """Turns per position modulo 1, a ball of the working precision."""
        return ball(self.value % 1)

    def whole_turns(self, distance: int) -> bool:
        """Is the angle at this distance exactly a whole number of turns?"""
        return (self.value * distance).denominator == 1

    def spelled(self) -> dict[str, str]:
        """How files write it, exact."""
        return {"turn": rational_text(self.value)}


@dataclass(frozen=True)
class Radian:
    """A frequency of `value` radians per position. Unless 0 it never comes full circle, pi being irrational."""

    value: Fraction

    def turns(self) -> arb:
        """Turns per position modulo 1, a ball of the working precision, however large the frequency is."""
        return _modulo_one(lambda: ball(self.value) / (2 * arb.pi()))

    def whole_turns(self, distance: int) -> bool:
        """Is the angle at this distance exactly a whole number of turns?"""
        return self.value == 0 or distance == 0

    def spelled(self) -> dict[str, str]:
        """How files write it, exact."""
        return {"radian": rational_text(self.value)}


@dataclass(frozen=True)
class BasePower:
    """A frequency of `base^exponent` radians per position (RoPE's own choice), an algebraic number."""

    base: Fraction
    exponent: Fraction

    def turns(self) -> arb:
        """Turns per position modulo 1, a ball of the working precision, however large the frequency is."""
        return _modulo_one(lambda: ball(self.base) ** ball(self.exponent) / (2 * arb.pi()))

    def whole_turns(self, distance: int) -> bool:
        """Is the angle at this distance exactly a whole number of turns? Never: pi is transcendental."""
        return distance == 0

    def spelled(self) -> dict[str, str]:
        """How files write it, exact."""
        return {"base": rational_text(self.base), "exponent": rational_text(self.exponent)}


def rational_text(value: Fraction) -> str:
    """The number as `p` or `p/q` in full; `str` refuses more than 4300 digits."""
    return str(fmpq(value.numerator, value.denominator))


def _modulo_one(turns: Callable[[], arb]) -> arb:
    """`turns()` less a whole number, with a radius below 2^-precision: whole turns may take any number of bits."""
    wanted = arb(2) ** -ctx.prec
    precision = ctx.prec + 16
    while precision <= MOST_PRECISION:
        with working_precision(precision):
            value = turns()
            fraction = value - integer_floor(value)
        if fraction.rad() < wanted:
            return fraction
        precision *= 2
    raise VacuousBallError(f"no frequency of {MOST_PRECISION} bits of whole turns is handled")


Frequency = Turn | Radian | BasePower


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
    if all(isinstance(frequency, BasePower) for frequency in every):
        base = frequencies.row[0]
        width = 4 * len(frequencies.row)
        if isinstance(base, BasePower) and base_grid_frequencies(base.base, width) == frequencies:
            return {"base": rational_text(base.base), "d": width}
    for unit, kind in (("turn", Turn), ("radian", Radian)):
        if all(isinstance(frequency, kind) for frequency in every):
            row, column = ([f.spelled()[unit] for f in axis] for axis in (frequencies.row, frequencies.column))
            return {"unit": unit, "row": row, "column": column}
    raise InputError("frequencies", "mixed units", "one unit for both axes")
