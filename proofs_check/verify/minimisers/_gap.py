"""Kinds `minimiser-gap` and `minimiser-limit-failure`: how well one query can tell the wanted key from the rest.

Notation of docs/certificates.md. In units of 2 M^2 a query with (A_f, B_f), |A_f| + |B_f| <= 1, has at relation r =
(row, column) the gap `sum_f A_f (cos(beta_f w) - cos(beta_f r)) + B_f (sin(beta_f w) - sin(beta_f r))`, w = (-1, 0),
each pair with the coordinate of its own axis.

1. The worst gap over the relations of a query is at least that of a point given, and at most `P(lambda) = sum_f
   max(|a_f|, |b_f|)`, (a_f, b_f) the coefficients of (A_f, B_f) in `sum_r lambda_r gap(r)`, for lambda >= 0 of sum 1: a
   mean is at least the minimum, and a linear functional on a diamond is largest at a corner.
2. If all gaps at the columns 1 .. L-1 are at least tau, `gap(k) <= P(delta_k + lambda) - tau sum lambda` for any
   lambda >= 0. If that is negative, such a query scores the source at column k above the wanted one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from flint import arb, ctx

from proofs_check.verify.reading import (
    Frequency,
    Phase,
    Rejected,
    ball,
    decide,
    function_units,
    is_at_most,
    is_less,
    product_units,
    read_frequencies,
    require_choice,
    require_fields,
    require_integer,
    require_list,
    require_rational,
    spell,
    spend,
    total,
)

Relation = tuple[int, int]
Pair = tuple[Fraction, Fraction]

WANTED: Relation = (-1, 0)

ASKERS = {
    "last": "B_b, which asks at step 1",
    "data": "a data token, which asks at later steps",
    "any": "one query for all steps",
}

#: Largest training length, and furthest distance of a failure.
LARGEST_TRAINING_LENGTH, FURTHEST = 128, 10**12

#: Most bits that a comparison may take.
MOST_BITS = 8192

#: Most bits of all multipliers together: their exact sum may have as many.
MOST_MULTIPLIER_BITS = 200_000


class Waves:
    """Cosines and sines of all pairs at relations, at the working precision in force; row pairs first."""

    def __init__(self, row: Sequence[Frequency], column: Sequence[Frequency]) -> None:
        axes = [(frequency, 0) for frequency in row] + [(frequency, 1) for frequency in column]
        spend(len(axes) * function_units())
        self._phases = [(Phase(frequency, int(ctx.prec), FURTHEST), axis) for frequency, axis in axes]

    def at(self, relation: Relation) -> list[tuple[arb, arb]]:
        """(cosine, sine) of each pair. Cost: about a microsecond a pair."""
        spend(len(self._phases) * (function_units() + 2))
        turned = [phase.sine_cosine(relation[axis]) for phase, axis in self._phases]
        return [(cosine, sine) for sine, cosine in turned]

    def gap(self, relation: Relation) -> list[tuple[arb, arb]]:
        """The coefficients of (A_f, B_f) in gap(relation)."""
        return [(c - x, s - y) for (c, s), (x, y) in zip(self.at(WANTED), self.at(relation), strict=True)]


def weighted(waves: Waves, multipliers: Mapping[Relation, arb]) -> list[tuple[arb, arb]]:
    """The coefficients of (A_f, B_f) in `sum_r multiplier gap(r)`."""
    rows = [(weight, waves.gap(relation)) for relation, weight in multipliers.items()]
    size = len(waves.at(WANTED))
    spend(2 * size * len(rows) * product_units())
    return [
        (total(weight * gap[f][0] for weight, gap in rows), total(weight * gap[f][1] for weight, gap in rows))
        for f in range(size)
    ]


def largest(waves: Waves, multipliers: Mapping[Relation, arb]) -> arb:
    """P: the largest `sum_r multiplier gap(r)` over the diamonds."""
    return total(larger(abs(a), abs(b)) for a, b in weighted(waves, multipliers))


def larger(x: arb, y: arb) -> arb:
    """A ball around max(x, y)."""
    return (x + y + abs(x - y)) / 2


def relations_of(asker: str, length: int) -> list[Relation]:
    """Where the data tokens other than the wanted one stand, over all strings of length <= L and all steps asked.

    Source j seen from step i is at (-1, j-i), the output j < i at (0, j-i+1), 1 <= i, j <= n <= L, as b = a+2. For one
    step these are two runs of columns that hold 0 (the second only if i > 1), so their union over steps is two runs.
    """
    first = last = 0
    oldest = 1
    for step in {"last": (1,), "data": range(2, length + 1), "any": range(1, length + 1)}[asker]:
        first, last = min(first, 1 - step), max(last, length - step)
        oldest = min(oldest, 2 - step)
    runs = [(-1, k) for k in range(first, last + 1) if k != 0]
    return runs + [(0, k) for k in range(oldest, 1)]


def check_minimiser_gap(inputs: object, evidence: object, claim: object) -> str:
    """The statement of a `minimiser-gap` certificate.

    Raises:
        Rejected: the point leaves a diamond, the multipliers are no weights, or a bound is not proved.
    """
    fields = require_fields(inputs, "inputs", ("frequencies", "length", "asker"))
    frequencies = read_frequencies(fields["frequencies"])
    row, column = frequencies.row, frequencies.column
    length = read_training_length(fields["length"], 2)
    asker = require_choice(fields["asker"], "inputs.asker", tuple(ASKERS))
    given = require_fields(evidence, "evidence", ("row", "column", "multipliers"))
    point = read_point(given["row"], "evidence.row", len(row))
    point += read_point(given["column"], "evidence.column", len(column))
    relations = relations_of(asker, length)
    multipliers = read_multipliers(given["multipliers"], relations)
    if sum(multipliers.values()) != 1:
        raise Rejected("evidence.multipliers do not sum to 1")
    bounds = require_fields(claim, "claim", ("at_least", "at_most"))
    least = require_rational(bounds["at_least"], "claim.at_least")
    most = require_rational(bounds["at_most"], "claim.at_most")
    if not decide(lambda: _reaches(Waves(row, column), point, relations, least), "claim.at_least", MOST_BITS):
        raise Rejected("claim.at_least is larger than a gap of the point")
    if not decide(lambda: is_at_most(_bound(Waves(row, column), multipliers), ball(most)), "claim.at_most", MOST_BITS):
        raise Rejected("claim.at_most is smaller than what the multipliers prove")
    return (
        f"Of {ASKERS[asker]}, with {frequencies.description}, and strings of length <= {length}, the largest "
        f"worst-case gap is at least {spell(least)} and at most {spell(most)}, in units of 2 M^2."
    )


def check_minimiser_limit_failure(inputs: object, evidence: object, claim: object) -> str:
    """The statement of a `minimiser-limit-failure` certificate.

    Raises:
        Rejected: the margin is not reached by the point, or the multipliers do not force a negative gap.
    """
    fields = require_fields(inputs, "inputs", ("frequencies", "length"))
    frequencies = read_frequencies(fields["frequencies"])
    row, column = frequencies.row, frequencies.column
    length = read_training_length(fields["length"], 2)
    given = require_fields(evidence, "evidence", ("column", "multipliers"))
    zero = (Fraction(0), Fraction(0))
    point = [*[zero] * len(row), *read_point(given["column"], "evidence.column", len(column))]
    relations = relations_of("last", length)
    multipliers = read_multipliers(given["multipliers"], relations)
    claimed = require_fields(claim, "claim", ("distance", "margin"))
    distance = require_integer(claimed["distance"], "claim.distance", length, FURTHEST)
    margin = require_rational(claimed["margin"], "claim.margin")
    if margin <= 0:
        raise Rejected("claim.margin is not positive")
    if not decide(lambda: _reaches(Waves(row, column), point, relations, margin), "claim.margin", MOST_BITS):
        raise Rejected("claim.margin is not reached by the point, so that nothing might be near the optimum")

    def negative() -> bool | None:
        weights = {relation: ball(weight) for relation, weight in multipliers.items()}
        weights[-1, distance] = arb(1)
        return is_less(largest(Waves(row, column), weights), ball(margin * sum(multipliers.values())))

    if not decide(negative, "the gap at claim.distance", MOST_BITS):
        raise Rejected("the multipliers do not make the gap at claim.distance negative")
    return (
        f"With {frequencies.description}: some query of B_b has gaps of at least {spell(margin)} (in units of 2 M^2) "
        f"at all distances 1 to {length - 1}, and every query that has gives the source {distance} columns further on "
        "a larger score than the wanted one."
    )


def _reaches(waves: Waves, point: Sequence[Pair], relations: Sequence[Relation], least: Fraction) -> bool | None:
    """Are all gaps of the point >= least?"""
    answer: bool | None = True
    for relation in relations:
        pairs = zip(point, waves.gap(relation), strict=True)
        reached = is_at_most(ball(least), total(ball(a) * x + ball(b) * y for (a, b), (x, y) in pairs if a or b))
        if reached is False:
            return False
        answer = answer if reached else None
    return answer


def _bound(waves: Waves, multipliers: Mapping[Relation, Fraction]) -> arb:
    return largest(waves, {relation: ball(weight) for relation, weight in multipliers.items()})


def read_training_length(value: object, least: int) -> int:
    """`inputs.length`, the training length L."""
    return require_integer(value, "inputs.length", least, LARGEST_TRAINING_LENGTH)


def read_point(value: object, what: str, size: int) -> list[Pair]:
    """One (A, B) for each pair, each in the diamond, exactly.

    Raises:
        Rejected: another number of them, or |A| + |B| > 1.
    """
    entries = require_list(value, what, size)
    if len(entries) != size:
        raise Rejected(f"{what} has {len(entries)} entries, not {size}")
    point = []
    for entry in entries:
        numbers = [require_rational(x, f"an entry of {what}") for x in require_list(entry, f"an entry of {what}", 2)]
        if len(numbers) != 2 or abs(numbers[0]) + abs(numbers[1]) > 1:
            raise Rejected(f"an entry of {what} is no pair (A, B) with |A| + |B| <= 1")
        point.append((numbers[0], numbers[1]))
    return point


def read_relation(entry: Sequence[Any], what: str) -> Relation:
    """The relation that two entries of a list spell."""
    return (
        require_integer(entry[0], f"a row in {what}", -1, 0),
        require_integer(entry[1], f"a column in {what}", -LARGEST_TRAINING_LENGTH, LARGEST_TRAINING_LENGTH),
    )


def read_multipliers(value: object, relations: Sequence[Relation]) -> dict[Relation, Fraction]:
    """`evidence.multipliers`, a list of [row, column, weight] with different relations of the query, weights >= 0."""
    allowed, found = set(relations), dict[Relation, Fraction]()
    for item in require_list(value, "evidence.multipliers", len(relations)):
        entry = require_list(item, "an entry of evidence.multipliers", 3)
        if len(entry) != 3:
            raise Rejected("an entry of evidence.multipliers is not [row, column, weight]")
        relation = read_relation(entry, "evidence.multipliers")
        weight = require_rational(entry[2], "a weight in evidence.multipliers")
        if relation not in allowed or relation in found or weight < 0:
            raise Rejected("an entry of evidence.multipliers is negative, repeated, or of a relation that never occurs")
        found[relation] = weight
    if sum(sum(map(int.bit_length, weight.as_integer_ratio())) for weight in found.values()) > MOST_MULTIPLIER_BITS:
        raise Rejected(f"evidence.multipliers have more than {MOST_MULTIPLIER_BITS} bits together")
    return found
