"""Strict linear inequalities with sign conditions: integer weights that satisfy them, or multipliers that cancel them.

For the coefficients M of a block, and unknowns some of which have a given sign, exactly one of these exists (Farkas,
Motzkin): an h with `M h > 0` and those signs; or multipliers y >= 0, not all 0, such that the sum `y M` is 0 at every
free unknown and has the wrong sign, or 0, at every signed one. HiGHS finds candidates in floats; what is returned is
integers, checked in integers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import gcd, lcm

import numpy as np
from jaxtyping import Float64, Int64
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_matrix, eye_array, hstack, vstack

from theory.signs._system import Block, Votes

#: A margin below this, in units of the largest |h|, is taken for none; integers then decide.
LEAST_MARGIN = 1e-7

#: Largest scale tried when weights are rounded to integers.
LARGEST_SCALE = 2**40

#: Denominators tried when multipliers are rounded to rationals.
DENOMINATORS = (1, 12, 1000, 10**6)

#: Multipliers below this, in units of their sum, count as 0 in a candidate.
LEAST_MULTIPLIER = 1e-6

#: Random costs tried for a small support before that search.
RANDOM_COSTS = 20

#: HiGHS: the programme has no solution.
INFEASIBLE = 2

#: Nodes, and seconds, that the search for the smallest support may take.
SUPPORT_NODES, SUPPORT_SECONDS = 20, 1.0


class UndecidedError(ArithmeticError):
    """Neither weights nor multipliers passed the exact check: the floats were not good enough."""


@dataclass(frozen=True)
class Multipliers:
    """Rows of a block, by number, with positive integer multipliers under which they cancel.

    Attributes:
        rows: the rows.
        values: their multipliers, without a common factor.
        irreducible: is every proper subset of the rows satisfiable? (Exact: shown by integer weights.)
        smallest: did the mixed-integer programme close on a support of this size? (Floats.)
    """

    rows: tuple[int, ...]
    values: tuple[int, ...]
    irreducible: bool
    smallest: bool


def find_weights(block: Block, votes: Votes) -> Int64[np.ndarray, " unknowns"] | None:
    """Integers h with `M h >= 1` and the given signs (so |h| >= 1 where a sign is given), or None if none was found.

    Exact where it answers with weights. Cost: one linear programme, O(40 entries).
    """
    margin, candidate = best_margin(block, votes)
    if margin < LEAST_MARGIN:
        return None
    if not np.isfinite(candidate).all():
        return None
    signs, scale = block.signs(votes), 1
    while scale <= LARGEST_SCALE:
        rounded: Int64[np.ndarray, " unknowns"] = np.rint(candidate * scale).astype(np.int64)
        if _satisfies(block, signs, rounded):
            return rounded
        scale *= 2
    return None


def best_margin(block: Block, votes: Votes) -> tuple[float, Float64[np.ndarray, " unknowns"]]:
    """The largest t with `M h >= t`, `|h| <= 1`, and `|h| >= t` where the sign is given; and that h.

    Cost: one linear programme. Floats: a candidate, no evidence.
    """
    signs = block.signs(votes)
    columns = block.coefficients.shape[1]
    signed = np.flatnonzero(signs)
    selection = csr_matrix((signs[signed].astype(float), (range(len(signed)), signed)), shape=(len(signed), columns))
    stacked = csr_matrix(vstack([block.coefficients, selection]))
    answer = linprog(
        np.append(np.zeros(columns), -1.0),
        A_ub=csr_matrix(hstack([-stacked, np.ones((stacked.shape[0], 1))])),
        b_ub=np.zeros(stacked.shape[0]),
        bounds=[(-1, 1)] * columns + [(0, 1)],
        method="highs",
    )
    if not answer.success:
        raise UndecidedError(f"the linear programme for a margin ended with: {answer.message}")
    return float(-answer.fun), np.asarray(answer.x[:columns], dtype=np.float64)


def find_multipliers(block: Block, votes: Votes, *, smallest: bool = True) -> Multipliers:
    """Multipliers that cancel the block, on an irreducible set of rows; on the fewest rows where that search closes.

    Args:
        block: inequalities that `find_weights` found no weights for.
        votes: the given signs.
        smallest: search for the fewest rows, for about a second at most. Otherwise the strings are kept short.

    Raises:
        UndecidedError: no candidate cancels exactly.

    Cost: a linear programme, or twenty and a mixed-integer one; then a linear programme for each row kept.
    """
    candidate = _few_rows(block, votes, RANDOM_COSTS if smallest else 0)
    if candidate is None:
        raise UndecidedError(f"query {block.query}: no weights and no multipliers found")
    closed = False
    if smallest:
        candidate, closed = _fewest_rows(block, votes, candidate)
    rows, irreducible = _reduce(block, votes, candidate)
    values = _exact_multipliers(block, votes, rows)
    if values is None:
        raise UndecidedError(f"query {block.query}: the multipliers of {len(rows)} rows did not round to rationals")
    return Multipliers(tuple(rows), values, irreducible, closed and len(rows) == len(candidate))


def _satisfies(block: Block, signs: Int64[np.ndarray, " unknowns"], h: Int64[np.ndarray, " unknowns"]) -> bool:
    """Exact: coefficients are small integers, and sums that might reach 2^62 are not accepted."""
    coefficients = block.coefficients.astype(np.int64)
    widest = int(np.asarray(abs(coefficients).sum(axis=1)).max(initial=0))
    if widest * max((abs(weight) for weight in h.tolist()), default=0) >= 2**62:
        return False
    sums = coefficients @ h
    return bool((sums >= 1).all() and (signs * h >= np.abs(signs)).all())


def _cancellation(block: Block, votes: Votes) -> tuple[csr_matrix, Float64[np.ndarray, " unknowns"]]:
    """The matrix C and lower bounds such that y cancels the block iff `lower <= C y <= 0`; y >= 0."""
    signs = block.signs(votes)
    oriented = csr_matrix(block.coefficients.multiply(np.where(signs == 0, 1, signs)[None, :]))
    return csr_matrix(oriented.T), np.where(signs == 0, 0.0, -np.inf)


def _few_rows(block: Block, votes: Votes, tries: int) -> list[int] | None:
    """The best of some vertices: for the cost of long strings, and for random costs. None if nothing cancels."""
    generator = np.random.default_rng(0)
    costs = [np.array([float(len(step.string)) for step in block.steps])]
    costs += [generator.random(len(block.steps)) for _ in range(tries)]
    vertices = (_float_multipliers(block, votes, cost) for cost in costs)
    supports = [np.flatnonzero(y > LEAST_MULTIPLIER).tolist() for y in vertices if y is not None]
    return min(supports, key=len, default=None)


def _fewest_rows(block: Block, votes: Votes, known: list[int]) -> tuple[list[int], bool]:
    """A cancelling set with fewer rows than `known` if there is one, and whether the search closed.

    The programme: min sum z over multipliers y <= z, z binary, sum y = 1, sum z < len(known).
    """
    matrix, lower = _cancellation(block, votes)
    count = matrix.shape[1]
    unit, ones, zeros = eye_array(count), np.ones(count), np.zeros(count)
    answer = milp(
        np.append(zeros, ones),
        constraints=[
            LinearConstraint(csr_matrix(hstack([matrix, csr_matrix(matrix.shape)])), lower, 0),
            LinearConstraint(csr_matrix(hstack([unit, -unit])), -np.inf, 0),
            LinearConstraint(np.append(ones, zeros)[None, :], 1, 1),
            LinearConstraint(np.append(zeros, ones)[None, :], 1, len(known) - 1),
        ],
        integrality=np.append(zeros, ones),
        bounds=Bounds(0, 1),
        options={"node_limit": SUPPORT_NODES, "time_limit": SUPPORT_SECONDS},
    )
    if answer.status == INFEASIBLE or len(known) == 1:
        return known, True
    if answer.x is None:
        return known, False
    return np.flatnonzero(answer.x[:count] > LEAST_MULTIPLIER).tolist(), answer.status == 0


def _float_multipliers(
    block: Block, votes: Votes, cost: Float64[np.ndarray, " rows"] | None = None
) -> Float64[np.ndarray, " rows"] | None:
    """Multipliers of sum 1 that cancel the block, a vertex of least cost, or None."""
    matrix, lower = _cancellation(block, votes)
    free = lower == 0
    count = matrix.shape[1]
    answer = linprog(
        np.zeros(count) if cost is None else cost,
        A_ub=matrix[~free],
        b_ub=np.zeros(int((~free).sum())),
        A_eq=csr_matrix(vstack([matrix[free], np.ones((1, count))])),
        b_eq=np.append(np.zeros(int(free.sum())), 1.0),
        bounds=(0, 1),
        method="highs",
    )
    return np.asarray(answer.x, dtype=np.float64) if answer.success else None


def _reduce(block: Block, votes: Votes, rows: Iterable[int]) -> tuple[list[int], bool]:
    """An irreducible subset, and whether each smaller one was shown satisfiable by integer weights."""
    kept, irreducible = list(rows), True
    for row in list(kept):
        fewer = [other for other in kept if other != row]
        if not fewer or find_weights(block.restricted(fewer), votes) is not None:
            continue
        if _float_multipliers(block.restricted(fewer), votes) is None:
            irreducible = False
        else:
            kept = fewer
    return kept, irreducible


def _exact_multipliers(block: Block, votes: Votes, rows: list[int]) -> tuple[int, ...] | None:
    """Integer multipliers of these rows that cancel exactly, or None."""
    restricted = block.restricted(rows)
    found = _float_multipliers(restricted, votes)
    if found is None or not (found > 0).all():
        return None
    for denominator in DENOMINATORS:
        values = _integers([Fraction(value / found.min()).limit_denominator(denominator) for value in found.tolist()])
        if all(value > 0 for value in values) and _cancels(restricted, votes, values):
            return values
    return None


def _integers(values: list[Fraction]) -> tuple[int, ...]:
    scale = reduce(lcm, (value.denominator for value in values), 1)
    whole = [int(value * scale) for value in values]
    common = reduce(gcd, whole, 0) or 1
    return tuple(value // common for value in whole)


def _cancels(block: Block, votes: Votes, values: tuple[int, ...]) -> bool:
    """Exact: is the sum 0 at free unknowns, and 0 or of the wrong sign at signed ones?"""
    signs = block.signs(votes).tolist()
    dense = block.coefficients.toarray().astype(np.int64).tolist()
    sums = [sum(value * row[column] for value, row in zip(values, dense, strict=True)) for column in range(len(signs))]
    return all(total == 0 if sign == 0 else sign * total <= 0 for sign, total in zip(signs, sums, strict=True))
