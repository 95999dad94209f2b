"""The reduced problem of Theorem 4.2: the largest worst-case gap of a query, a linear programme with a certificate.

*Programme* (reconstructed). In units of 2 M^2, for one query token over its own relations r,

    maximise t  subject to  gap(r) >= t for every r,  |A_f| + |B_f| <= 1 for every frequency pair,
    gap(r) = sum_f A_f (cos(beta_f w) - cos(beta_f r)) + B_f (sin(beta_f w) - sin(beta_f r)),

r and w the coordinate of the relation and of the wanted one, w = (-1, 0), on the pair's axis. It is what the
population loss comes down to as M grows: the excess over ln(1 + e^-M) is a sum of exp(-2 M^2 gap(r)).

*Certificate.* For multipliers lambda_r >= 0 with sum 1, t <= sum_r lambda_r gap(r), and a linear functional a A + b B
over the diamond is at most max(|a|, |b|). So

    t  <=  P(lambda) = sum_f max(|sum_r lambda_r a_f(r)|, |sum_r lambda_r b_f(r)|)

and every feasible (A, B) bounds t from below by min_r gap(r). Both are balls here; HiGHS only proposes, and the
optimal basis it finds is solved again in balls, so that the two meet to far more digits than floats have.

*Closed form.* Columns A = 1, B = 0; rows at the corner of the diamond that maximises the row gap. Under tied queries
the column distances come in pairs +-k: exchanging B for -B exchanges their gaps, so (A, 0) is as good as (A, B), and
1 - cos >= 0 makes A = 1 best at every distance at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np
from flint import arb, arb_mat
from jaxtyping import Float64
from scipy.optimize import linprog

from theory.grid import Amplitude
from theory.minimisers._setting import WANTED, Asker, GridRelation, MinimiserSetting
from theory.numbers import (
    Frequency,
    GridFrequencies,
    InputError,
    ball,
    lower_fraction,
    require_width,
    total,
    working_precision,
)

#: Working precision, denominators of the rational points, and the widest enclosure of the optimum that is accepted.
PRECISION = 256
GRID = 2**120
WIDEST = Fraction(1, 2**20)

#: The widest enclosure of a cosine or sine that is accepted.
ANGLE_RADIUS = Fraction(1, 2**60)

#: Floats closer than this to a bound or to the optimum count as being there; only a proposal depends on it.
NEAR = 1e-7


@dataclass(frozen=True)
class WorstCaseGap:
    """The optimum of the linear programme of one query, in units of 2 M^2.

    Attributes:
        asker: who asks.
        relations: the relations it has to tell from the wanted one.
        row, column: a feasible point, (A_f, B_f) with |A_f| + |B_f| <= 1 exactly.
        multipliers: the dual certificate, rationals >= 0 with sum 1, by relation (zeros left out).
        lower: a ball; its lower end is certainly at most the optimum (the point's worst gap).
        upper: a ball; its upper end is certainly at least the optimum (P of the multipliers).
        closed_form: the worst gap of the closed form.
    """

    asker: Asker
    relations: tuple[GridRelation, ...]
    row: tuple[Amplitude, ...]
    column: tuple[Amplitude, ...]
    multipliers: Mapping[GridRelation, Fraction]
    lower: arb
    upper: arb
    closed_form: arb

    @property
    def width(self) -> arb:
        """How far apart the two bounds of the optimum are."""
        with working_precision(PRECISION):
            return arb(self.upper.upper()) - arb(self.lower.lower())

    @property
    def beats_closed_form(self) -> bool:
        """Is the optimum certainly larger than the closed form's worst gap?"""
        return bool(self.lower > self.closed_form)


class GapCoefficients:
    """The coefficients of A_f and B_f in gap(r), row pairs first, as balls of 256 bits."""

    def __init__(self, frequencies: GridFrequencies) -> None:
        self.frequencies = frequencies
        self.pairs: tuple[tuple[Frequency, int], ...] = (
            *((frequency, 0) for frequency in frequencies.row),
            *((frequency, 1) for frequency in frequencies.column),
        )
        self._known: dict[GridRelation, list[tuple[arb, arb]]] = {}

    def at(self, relation: GridRelation) -> list[tuple[arb, arb]]:
        """(coefficient of A, coefficient of B) of each pair. Cost: one ball sine and cosine a pair, kept."""
        if relation not in self._known:
            pairs = zip(self.waves(WANTED), self.waves(relation), strict=True)
            with working_precision(PRECISION):
                self._known[relation] = [(c - x, s - y) for (c, s), (x, y) in pairs]
        return self._known[relation]

    def waves(self, relation: GridRelation) -> list[tuple[arb, arb]]:
        """(cos, sin) of each pair's angle at a relation."""
        with working_precision(PRECISION):
            return [frequency.cos_sin(relation[axis], ANGLE_RADIUS) for frequency, axis in self.pairs]

    def gap(self, amplitudes: Sequence[Amplitude], relation: GridRelation) -> arb:
        """gap(relation) of a point, row pairs first; a ball. Cost: O(d)."""
        with working_precision(PRECISION):
            pairs = zip(amplitudes, self.at(relation), strict=True)
            return total(ball(a) * x + ball(b) * y for (a, b), (x, y) in pairs if a or b)

    def largest(self, multipliers: Mapping[GridRelation, Fraction | arb]) -> arb:
        """P(multipliers): the largest `sum_r multiplier gap(r)` over the diamonds; a ball. Cost: O(d relations)."""
        with working_precision(PRECISION):
            cosine, sine = self.totals(multipliers)
            return total(abs(x).max(abs(y)) for x, y in zip(cosine, sine, strict=True))

    def totals(self, multipliers: Mapping[GridRelation, Fraction | arb]) -> tuple[list[arb], list[arb]]:
        """The coefficients of A_f and of B_f in `sum_r multiplier gap(r)`."""
        cosine, sine = [arb(0)] * len(self.pairs), [arb(0)] * len(self.pairs)
        for relation, multiplier in multipliers.items():
            weight = multiplier if isinstance(multiplier, arb) else ball(multiplier)
            for f, (x, y) in enumerate(self.at(relation)):
                cosine[f] += weight * x
                sine[f] += weight * y
        return cosine, sine

    def floats(self, relations: Sequence[GridRelation]) -> Float64[np.ndarray, "relations pairs 2"]:
        """The coefficients of (A_f, B_f) as floats, shape (relations, pairs, 2), for proposals only."""
        table = [[(float(x.mid()), float(y.mid())) for x, y in self.at(relation)] for relation in relations]
        return np.array(table).reshape(len(relations), len(self.pairs), 2)


def closed_form_amplitudes(frequencies: GridFrequencies) -> tuple[tuple[Amplitude, ...], tuple[Amplitude, ...]]:
    """(A, B) of row and column pairs of the closed form, in units of 2 M^2.

    Columns (1, 0). Rows the corner that maximises the row gap `A (cos beta - 1) - B sin beta`: (-1, 0) where 1 - cos
    beta is the larger, else (0, -1) or (0, 1) against the sign of sin beta.
    """
    with working_precision(PRECISION):
        rows = tuple(_row_corner(frequency) for frequency in frequencies.row)
    return rows, ((Fraction(1), Fraction(0)),) * len(frequencies.column)


def worst_case_gap(setting: MinimiserSetting, asker: Asker) -> WorstCaseGap:
    """The optimum of the programme of one query, with its certificate (method: ball).

    Raises:
        InputError: the query meets no other data token (L = 1).
        VacuousBallError: the two bounds do not meet to 2^-20.
    Cost: one linear programme with d variables and up to 3L constraints, one d x d ball system.
    """
    relations = setting.relations(asker)
    if not relations:
        raise InputError("L", setting.length, f"at least 2: the query {asker} meets no other data token")
    coefficients = GapCoefficients(setting.frequencies)
    point, multipliers = _proposal(coefficients, relations)
    # Row pairs tell outputs from the wanted key, all by the same gap: the closed form's corner is best for any purpose.
    corners = closed_form_amplitudes(setting.frequencies)[0]
    point[: 2 * len(corners)] = [entry for a, b in corners for entry in (a + b, a - b)]
    refined = _refined(coefficients, relations, point, multipliers)
    proposals = (refined, (point, multipliers))
    found = [_certified(setting, asker, coefficients, relations, *proposal) for proposal in proposals]
    best = min(found, key=lambda candidate: candidate.width.mid())
    require_width(best.lower.union(best.upper), WIDEST, "the optimum of the linear programme")
    return best


def _certified(
    setting: MinimiserSetting,
    asker: Asker,
    coefficients: GapCoefficients,
    relations: tuple[GridRelation, ...],
    point: Sequence[Fraction],
    multipliers: Sequence[Fraction],
) -> WorstCaseGap:
    rows = len(setting.frequencies.row)
    amplitudes = [((u + v) / 2, (u - v) / 2) for u, v in zip(point[0::2], point[1::2], strict=True)]
    kept = {r: weight for r, weight in zip(relations, multipliers, strict=True) if weight}
    closed = [*closed_form_amplitudes(setting.frequencies)[0], *closed_form_amplitudes(setting.frequencies)[1]]
    with working_precision(PRECISION):
        return WorstCaseGap(
            asker=asker,
            relations=relations,
            row=tuple(amplitudes[:rows]),
            column=tuple(amplitudes[rows:]),
            multipliers=kept,
            lower=_least(coefficients.gap(amplitudes, r) for r in relations),
            upper=coefficients.largest(kept),
            closed_form=_least(coefficients.gap(closed, r) for r in relations),
        )


def _proposal(
    coefficients: GapCoefficients, relations: Sequence[GridRelation]
) -> tuple[list[Fraction], list[Fraction]]:
    """A point (u_f, v_f) = (A + B, A - B), which fill the box, and multipliers, from HiGHS; exact rationals."""
    table = coefficients.floats(relations)
    box = np.stack([table.sum(axis=2) / 2, (table[:, :, 0] - table[:, :, 1]) / 2], axis=2).reshape(len(relations), -1)
    cost = np.zeros(box.shape[1] + 1)
    cost[-1] = -1.0
    bounds = [(-1.0, 1.0)] * box.shape[1] + [(None, None)]
    solved = linprog(
        cost, np.hstack([-box, np.ones((len(relations), 1))]), np.zeros(len(relations)), bounds=bounds, method="highs"
    )
    if solved.status != 0:
        raise ArithmeticError(f"the linear programme was not solved: {solved.message}")
    return [_snap(float(x)) for x in solved.x[:-1]], _normalised(-solved.ineqlin.marginals)


def _refined(
    coefficients: GapCoefficients, relations: Sequence[GridRelation], point: list[Fraction], multipliers: list[Fraction]
) -> tuple[list[Fraction], list[Fraction]]:
    """The vertex and the multipliers of the basis that the floats point at, solved in balls; the floats themselves
    where that basis is not square or singular.
    """
    inside = [i for i, x in enumerate(point) if abs(x) < 1 - NEAR]
    active = [j for j, weight in enumerate(multipliers) if weight > NEAR / 100]
    if len(active) != len(inside) + 1:
        return point, multipliers
    with working_precision(PRECISION):
        fixed = [Fraction(0) if i in set(inside) else Fraction(1 if x > 0 else -1) for i, x in enumerate(point)]
        rows = [_box_row(coefficients.at(relations[j])) for j in active]
        matrix = arb_mat([[row[i] for i in inside] + [arb(-1)] for row in rows])
        right = arb_mat([[-total(x * ball(y) for x, y in zip(row, fixed, strict=True) if y)] for row in rows])
        unit = arb_mat([[arb(0)] for _ in inside] + [[arb(-1)]])
        try:
            solution, dual = matrix.solve(right), matrix.transpose().solve(unit)
        except (ZeroDivisionError, ValueError):
            return point, multipliers
        for place, i in enumerate(inside):
            fixed[i] = _clip(_on_grid(solution[place, 0]))
        weights = [Fraction(0)] * len(relations)
        for place, j in enumerate(active):
            weights[j] = max(Fraction(0), _on_grid(dual[place, 0]))
    whole = sum(weights)
    return (fixed, [weight / whole for weight in weights]) if whole else (point, multipliers)


def _box_row(pairs: Sequence[tuple[arb, arb]]) -> list[arb]:
    return [entry for x, y in pairs for entry in ((x + y) / 2, (x - y) / 2)]


def _row_corner(frequency: Frequency) -> Amplitude:
    cosine, sine = frequency.cos_sin(1, ANGLE_RADIUS)
    if abs(sine) > 1 - cosine:
        return Fraction(0), Fraction(-1 if sine > 0 else 1)
    return Fraction(-1), Fraction(0)


def _on_grid(value: arb) -> Fraction:
    return Fraction(round(lower_fraction(value.mid()) * GRID), GRID)


def _snap(value: float) -> Fraction:
    """A float as a rational, exactly on the bound where it is near it."""
    return Fraction(1 if value > 0 else -1) if abs(value) > 1 - NEAR else Fraction(value)


def _clip(value: Fraction) -> Fraction:
    return max(Fraction(-1), min(Fraction(1), value))


def _normalised(weights: Float64[np.ndarray, " relations"]) -> list[Fraction]:
    exact = [Fraction(max(0.0, float(weight))) for weight in weights]
    whole = sum(exact)
    if not whole:
        raise ArithmeticError("the linear programme has no multipliers")
    return [weight / whole for weight in exact]


def _least(values: Iterable[arb]) -> arb:
    """The minimum of balls, enclosed also where they overlap."""
    return reduce(lambda least, value: least.min(value), values)
