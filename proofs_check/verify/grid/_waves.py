"""Sums of waves `A cos(beta r) + B sin(beta r)` over integers r: values as balls, and where they are large.

Finding the r with a large value in a long range uses a table for each wave. The phase of r, in turns, falls
into one of `CELLS` cells; with x the middle of the cell, h half its width (plus what the fixed-point phase may
be off) and `R = sqrt(A^2 + B^2)` a bound of the second derivative, Taylor's theorem bounds the wave in the cell
by `f(x) + |f'(x)| h + R h^2 / 2`. These bounds are computed in balls and rounded up to multiples of 2^-10, so
the r whose table entries sum to less than a threshold certainly have a smaller value. No other r is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from flint import arb

from proofs_check.verify.grid._model import Term
from proofs_check.verify.reading import (
    Phase,
    Rejected,
    ball,
    common_period,
    fixed_point,
    floor_of_exact,
    function_units,
    product_units,
    spend,
)

#: Distances up to this may be asked for.
FURTHEST = 2**40

#: Table entries are multiples of 2^-UNIT_BITS.
UNIT_BITS = 10

#: Bits of the fixed-point phase, and of the cell number in it.
PHASE_BITS = 72
_FEW_TERMS, _FINE_CELL_BITS, _COARSE_CELL_BITS = 4, 12, 9

#: Integers looked at together.
_BLOCK = 1 << 15

#: A search that finds more than this divided by the number of waves is given up.
MOST_EVALUATIONS = 2_000_000

#: Table look-ups that take about as long as a unit of work.
_LOOK_UPS_A_UNIT = 4

#: A search that takes more table look-ups than this, about a minute, is given up.
MOST_LOOK_UPS = 400_000_000


def precision_for(terms: Iterable[Term], bits: int) -> int:
    """A working precision at which sums of these terms have absolute errors of about 2^-bits."""
    amplitude = sum((abs(term.cosine) + abs(term.sine) for term in terms), Fraction(1))
    return bits + int(amplitude).bit_length()


def exact_period(terms: Iterable[Term]) -> int | None:
    """The least k >= 1 at which every term that is not zero has come full circle exactly; None: never."""
    return common_period(term.frequency for term in terms if term.cosine or term.sine)


class WaveSum:
    """A sum of terms, prepared at the working precision `precision`; use it under that precision."""

    def __init__(self, terms: Sequence[Term], precision: int) -> None:
        self.period = exact_period(terms)
        self._terms = [term for term in terms if term.cosine or term.sine]
        spend((1 + len(self._terms)) * function_units(precision))
        self._waves = [
            (Phase(term.frequency, precision, FURTHEST), ball(term.cosine), ball(term.sine)) for term in self._terms
        ]
        self._tables: list[tuple[int, list[int]]] | None = None

    def value(self, r: int) -> arb:
        """The sum at r. Cost: about a microsecond for each term."""
        result = arb(0)
        spend(len(self._waves) * function_units())
        for phase, a, b in self._waves:
            sine, cosine = phase.sine_cosine(r)
            result += a * cosine + b * sine
        return result

    def most(self) -> int:
        """How many r may be listed."""
        return MOST_EVALUATIONS // max(1, len(self._waves))

    def at_least(self, threshold: arb, first: int, last: int) -> list[int]:
        """All r in [first, last] whose value may be at least `threshold`; the others' is certainly below it.

        Raises:
            Rejected: there are too many of them, the search takes too long, or r is out of reach.
        Cost: about 0.2 microseconds for each r and the terms needed to exclude it.
        """
        if max(abs(first), abs(last)) > FURTHEST:
            raise Rejected(f"distances beyond {FURTHEST} are out of reach")
        level = floor_of_exact((threshold * (1 << UNIT_BITS)).lower())
        stages, rest = [], 0
        for step, table in reversed(self._prepared_tables()):
            stages.append((step, table, level - rest))
            rest += max(table)
        shift, mask = PHASE_BITS - self._cell_bits(), (1 << self._cell_bits()) - 1
        found: list[int] = []
        looked_up = 0
        for start in range(first, last + 1, _BLOCK):
            live = [(r, 0) for r in range(start, min(start + _BLOCK, last + 1))]
            for step, table, least in reversed(stages):
                looked_up += len(live)
                spend(1 + len(live) // _LOOK_UPS_A_UNIT)
                live = [(r, s) for r, t in live if (s := t + table[((r * step) >> shift) & mask]) >= least]
            found += [r for r, s in live if s >= level]
            if looked_up > MOST_LOOK_UPS:
                raise Rejected(f"undecided: more than {MOST_LOOK_UPS} table entries would have to be looked up")
            if len(found) > self.most():
                raise Rejected(
                    f"undecided: more than {self.most()} keys are too close to the wanted one to be told apart"
                )
        return found

    def _cell_bits(self) -> int:
        return _FINE_CELL_BITS if len(self._waves) <= _FEW_TERMS else _COARSE_CELL_BITS

    def _prepared_tables(self) -> list[tuple[int, list[int]]]:
        if self._tables is None:
            self._tables = [
                (fixed_point(term.frequency, PHASE_BITS)[0], _table(a, b, self._cell_bits()))
                for term, (_, a, b) in zip(self._terms, self._waves, strict=True)
            ]
        return self._tables


def _table(a: arb, b: arb, cell_bits: int) -> list[int]:
    """Upper bounds of `a cos + b sin` in each cell of phases, in units of 2^-UNIT_BITS, rounded up.

    A fixed-point phase is off by less than 1 unit of 2^-PHASE_BITS turns times |r| <= FURTHEST.
    """
    scale = 1 << UNIT_BITS
    largest = (a * a + b * b).sqrt()
    half = (arb((1, -cell_bits - 1)) + FURTHEST * arb((1, -PHASE_BITS))) * 2 * arb.pi()
    bend = largest * half * half / 2
    result = []
    spend((1 << cell_bits) * (function_units() + 8 * product_units()))
    for cell in range(1 << cell_bits):
        sine, cosine = arb((2 * cell + 1, -cell_bits)).sin_cos_pi()
        bound = a * cosine + b * sine + abs(b * cosine - a * sine) * half + bend
        result.append(-floor_of_exact((-scale * bound).lower()))
    return result
