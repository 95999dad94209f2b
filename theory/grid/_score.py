"""The score of a position-only 2D-RoPE head, and its gaps in ball arithmetic.

With r the position of the key minus that of the query, a head whose query and key do not depend on the token has the
score

    score(r) = sum_f A_f cos(beta_f r) + B_f sin(beta_f r)      (row pairs turn with r_row, column pairs with r_column).

The key wanted at every step stands at the fixed relative position `wanted = (-1, a+2-b)` of the theory layout.
Distances below are taken from it: `gap(D_row, D_column) = score(wanted) - score(wanted + D)`, so gap(0, 0) = 0 and a
key at distance D has weight exp(-gap(D)) against the wanted key's 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from flint import arb

from theory.numbers import Frequency, GridFrequencies, InputError, ball, require_around, total

Amplitude = tuple[Fraction, Fraction]


@dataclass(frozen=True)
class GridScore:
    """A position-only score: exact frequencies, exact amplitudes, the wanted relative position, and the layout (a, b).

    Attributes:
        frequencies: row and column frequencies.
        row: (A_f, B_f) of each row pair, rationals.
        column: (A_f, B_f) of each column pair.
        wanted: relative position (row, column) of the key to find; (0, 0) when the amplitudes are given around it
            already.
        a, b: numbers of tokens before and after the string; all strings can be copied only for b >= 2.
    """

    frequencies: GridFrequencies
    row: tuple[Amplitude, ...]
    column: tuple[Amplitude, ...]
    wanted: tuple[int, int]
    a: int
    b: int

    def __post_init__(self) -> None:
        require_around("a", self.a)
        require_around("b", self.b)
        if (len(self.row), len(self.column)) != (len(self.frequencies.row), len(self.frequencies.column)):
            raise InputError("amplitudes", f"{len(self.row)} and {len(self.column)}", "one (A, B) for each frequency")

    @property
    def symmetric(self) -> bool:
        """Is the column gap exactly even in the distance (all amplitudes pure cosines around the wanted key)?"""
        return self.wanted[1] == 0 and all(b == 0 for _, b in self.column)

    def column_gap(self, distance: int) -> arb:
        """gap(0, distance), a ball at the working precision; exactly 0 where all angles are whole turns.

        Cost: O(m) ball operations.
        """
        return _gap(self.frequencies.column, self.column, self.wanted[1], distance)

    def row_gap(self, distance: int = 1) -> arb:
        """gap(distance, 0), by default what a key in the row below the wanted one loses; a ball."""
        return _gap(self.frequencies.row, self.row, self.wanted[0], distance)

    def centred_column_amplitudes(self) -> list[tuple[arb, arb]]:
        """(A', B') of each column pair around the wanted key: `column_gap(D) = sum A' (1 - cos(beta D)) - B'
        sin(beta D)`.
        """
        pairs = zip(self.frequencies.column, self.column, strict=True)
        return [_centre(frequency, amplitude, self.wanted[1]) for frequency, amplitude in pairs]

    @cached_property
    def output_offset(self) -> int:
        """Column distance to the wanted key of the output written t steps ago: `output_offset - t`."""
        return self.b - self.a - 1


def require_two_after(b: int) -> int:
    """`b`, or InputError: the fixed-offset copier needs b >= 2, with the reason."""
    require_around("b", b)
    if b < 2:
        raise InputError(
            "b",
            b,
            "at least 2: with b = 1 the newline itself asks at step 1, n columns away from s_1 in the same row, "
            "so no fixed offset serves",
        )
    return b


def ideal_grid_score(frequencies: GridFrequencies, scale: Fraction, a: int, b: int) -> GridScore:
    """The ideal copier's score, `scale` times the sum of the cosines of all pairs at the distance to the wanted key
    (Theorem 4.1).

    Raises:
        InputError: scale <= 0, a < 1 or b < 2.
    """
    require_two_after(b)
    if scale <= 0:
        raise InputError("scale", str(scale), "a rational number > 0")
    row: tuple[Amplitude, ...] = ((scale, Fraction(0)),) * len(frequencies.row)
    column: tuple[Amplitude, ...] = ((scale, Fraction(0)),) * len(frequencies.column)
    return GridScore(frequencies, row, column, (0, 0), a, b)


def _centre(frequency: Frequency, amplitude: Amplitude, wanted: int) -> tuple[arb, arb]:
    a, b = ball(amplitude[0]), ball(amplitude[1])
    if wanted == 0:
        return a, b
    cosine, sine = frequency.cos_sin(wanted)
    return a * cosine + b * sine, b * cosine - a * sine


def _gap(frequencies: tuple[Frequency, ...], amplitudes: tuple[Amplitude, ...], wanted: int, distance: int) -> arb:
    if all(frequency.whole_turns(distance) for frequency in frequencies):
        return arb(0)
    return total(
        _pair_gap(f, amplitude, wanted, distance) for f, amplitude in zip(frequencies, amplitudes, strict=True)
    )


def _pair_gap(frequency: Frequency, amplitude: Amplitude, wanted: int, distance: int) -> arb:
    a, b = _centre(frequency, amplitude, wanted)
    cosine, sine = frequency.cos_sin(distance)
    return a * (1 - cosine) - b * sine
