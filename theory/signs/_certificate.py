"""Certificates and witnesses of sign systems, and their checks.

The checks rebuild every inequality from the token sequence itself, count in integers, and share nothing with the system
builder or the linear programmes but the definition of the relation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from theory.signs._system import Layout, Unknown
from theory.task import Position, Relate, all_strings, grid_positions, relation_named, spell, theory_task


class RejectedError(ValueError):
    """A certificate or a witness does not show what it says; the message gives the reason."""


@dataclass(frozen=True)
class Case:
    """A step of a string (1-based) and its multiplier, a positive integer."""

    string: str
    step: int
    multiplier: int


@dataclass(frozen=True)
class Certificate:
    """Strings that no model of the layout copies together.

    The inequalities of the cases, each times its multiplier, add up to 0 > 0, or to something negative > 0 under
    `votes`. Without votes this holds even if exp(score) is replaced by arbitrary real numbers.

    Attributes:
        layout: relation, a and b; None for all.
        votes: the signs of votes that are assumed, by token name; every other token may vote in any way.
        cases: the inequalities.
        irreducible: can any proper subset be satisfied? (Exact.)
        smallest: did the search for the fewest cases close? (Floats.)
    """

    layout: Layout
    votes: tuple[tuple[str, int], ...]
    cases: tuple[Case, ...]
    irreducible: bool
    smallest: bool

    @property
    def length(self) -> int:
        """Length of the longest string in it."""
        return max(len(case.string) for case in self.cases)

    def mirrored(self) -> Certificate:
        """The certificate with 0 and 1 exchanged, and so every vote turned round: as sound as this one."""
        swap = str.maketrans("01", "10")
        votes = tuple(sorted((token.translate(swap) if token in "01" else token, -vote) for token, vote in self.votes))
        cases = tuple(Case(case.string.translate(swap), case.step, case.multiplier) for case in self.cases)
        return Certificate(self.layout, votes, cases, self.irreducible, self.smallest)


@dataclass(frozen=True)
class Witness:
    """A model: exp(score) of each key token at each relation for each query token, and the votes.

    Attributes:
        layout: relation, a and b.
        length: it copies every string of length <= this.
        votes: +1 (votes for 0) or -1 (for 1), by token name.
        weights: positive integers; those of the free contributions A and B, for all (a, b), are integers of any sign.
        margin: least difference of the logits, right minus wrong, over all steps of all strings, votes being +-1 (for
            all (a, b): relative to the sum of the absolute contributions).
    """

    layout: Layout
    length: int
    votes: Mapping[str, int]
    weights: Mapping[Unknown, int]
    margin: Fraction


def balance(
    cases: Sequence[Case], relation: str | Relate, prefix: Sequence[int], infix: Sequence[int], newline: int | None
) -> dict[tuple[int, int, tuple[int, ...]], int]:
    """The sum of the inequalities over arbitrary token lists A and B (either may be empty, and hold 0 and 1).

    Returns the coefficient of each h(query token, key token, relation) that does not cancel.

    Raises:
        RejectedError: a step outside its string, a string that is not binary, a first step without any token before.

    Cost: O(tokens) a case.
    """
    total: Counter[tuple[int, int, tuple[int, ...]]] = Counter()
    relate = relation_named(relation).relate
    for case in cases:
        string = [int(symbol) for symbol in _require_case(case).string]
        tokens = [*prefix, *string, *infix, *string[: case.step - 1]]
        positions = _positions(tokens, newline)
        sign = case.multiplier * (1 if string[case.step - 1] == 0 else -1)
        for token, position in zip(tokens, positions, strict=True):
            total[tokens[-1], token, relate(positions[-1], position)] += sign
    return {key: value for key, value in total.items() if value}


def check_certificate(certificate: Certificate) -> None:
    """Check in integers that the cases cancel under the assumed votes.

    Raises:
        RejectedError: they do not, or the certificate is malformed.
    """
    if not certificate.cases:
        raise RejectedError("no cases")
    votes = dict(certificate.votes)
    if any(vote not in (-1, 1) for vote in votes.values()) or not votes.keys() <= set(certificate.layout.tokens):
        raise RejectedError(f"votes {votes}: +1 or -1 for tokens of the layout")
    for unknown, value in _remainder(certificate).items():
        vote = votes.get(unknown.token)
        if vote is None:
            raise RejectedError(f"{value} h{tuple(unknown)} is left, whose sign is not known")
        if vote * value > 0:
            raise RejectedError(f"{value} h{tuple(unknown)} is left, which is positive")


def check_witness(witness: Witness) -> Fraction:
    """The least margin over every step of every string up to the witness's length, in exact arithmetic.

    Raises:
        RejectedError: a weight is missing or has the wrong sign, or a step is wrong.

    Cost: O(length^2 2^length) dictionary look-ups.
    """
    votes = witness.votes
    if set(votes) != set(witness.layout.tokens) or any(vote not in (-1, 1) for vote in votes.values()):
        raise RejectedError(f"votes {dict(votes)}: +1 or -1 for each token of the layout")
    contributions = {unknown: _contribution(unknown, weight, votes) for unknown, weight in witness.weights.items()}
    margins = []
    for string, step, seen in seen_by_steps(witness.layout, witness.length):
        right = 1 if string[step - 1] == "0" else -1
        missing = [unknown for unknown in seen if unknown not in contributions]
        if missing:
            raise RejectedError(f"no weight for {tuple(missing[0])}")
        terms = [contributions[unknown] for unknown in seen]
        if right * sum(terms) <= 0:
            raise RejectedError(f"step {step} of {string} is wrong: the sum is {sum(terms)}")
        margins.append(Fraction(right * sum(terms), sum(abs(term) for term in terms)))
    return min(margins)


def _contribution(unknown: Unknown, weight: int, votes: Mapping[str, int]) -> int:
    vote = votes.get(unknown.token)
    if vote is None:
        return weight
    if weight <= 0:
        raise RejectedError(f"weight {weight} for {tuple(unknown)} is not positive")
    return vote * weight


def _require_case(case: Case) -> Case:
    if not case.string or set(case.string) - {"0", "1"} or not 1 <= case.step <= len(case.string):
        raise RejectedError(f"case {case.string!r}, step {case.step}: a binary string and one of its steps")
    if isinstance(case.multiplier, bool) or case.multiplier < 1:
        raise RejectedError(f"multiplier {case.multiplier}: a positive integer")
    return case


def _positions(tokens: Sequence[int], newline: int | None) -> list[Position]:
    rows, columns = grid_positions(np.array(tokens, dtype=np.int64), newline)
    return list(zip(rows.tolist(), columns.tolist(), range(len(tokens)), strict=True))


def _remainder(certificate: Certificate) -> dict[Unknown, int]:
    layout = certificate.layout
    if layout.a is None or layout.b is None:
        return _remainder_for_all(certificate)
    task = theory_task(layout.a, layout.b)
    left = balance(certificate.cases, layout.relate, task.prefix, task.infix, task.newline)
    return {Unknown(task.names[q], task.names[k], related): value for (q, k, related), value in left.items()}


def _remainder_for_all(certificate: Certificate) -> dict[Unknown, int]:
    total: Counter[Unknown] = Counter()
    for case in map(_require_case, certificate.cases):
        sign = case.multiplier if case.string[case.step - 1] == "0" else -case.multiplier
        for unknown in _seen_for_all(certificate.layout, case.string, case.step):
            total[unknown] += sign
    return {unknown: value for unknown, value in total.items() if value}


def _seen_for_all(layout: Layout, string: str, step: int) -> list[Unknown]:
    """What a step sees when the lists A and B are arbitrary: A by n+i, B by i, data by their distances."""
    query = string[step - 2] if step > 1 else "B"
    end = len(string) + step  # the index after the query's, counted from s_1, is end + b - 1
    sources = [(token, end - place) for place, token in enumerate(string, 1)]
    outputs = [(token, step - 1 - place) for place, token in enumerate(string[: step - 1], 1)]
    if layout.relation == "nope":
        return [Unknown(query, token, ()) for token in ("A", "B", *string, *string[: step - 1])]
    free = [Unknown(query, "A", (end,)), Unknown(query, "B", (step,))]
    if layout.b is None:
        apart = [Unknown(query, token, (1, distance)) for token, distance in sources]
        return free + apart + [Unknown(query, token, (0, distance)) for token, distance in outputs]
    shift = layout.b - 1
    moved = [(token, distance + shift) for token, distance in sources] + outputs
    return free + [Unknown(query, token, (distance,)) for token, distance in moved]


def seen_by_steps(layout: Layout, length: int) -> Iterator[tuple[str, int, list[Unknown]]]:
    """Every step of every string of length 1..length, and the unknowns of the tokens that it sees, token by token."""
    for n in range(1, length + 1):
        if layout.a is not None and layout.b is not None:
            yield from _seen_in_layout(layout.relate, layout.a, layout.b, n)
            continue
        for string in map(spell, all_strings(n)):
            yield from ((string, step, _seen_for_all(layout, string, step)) for step in range(1, n + 1))


def _seen_in_layout(relate: Relate, a: int, b: int, n: int) -> Iterator[tuple[str, int, list[Unknown]]]:
    task = theory_task(a, b)
    strings = all_strings(n)
    positions = _positions(task.sequences(strings[:1])[0].tolist(), task.newline)  # the data do not move positions
    queries = [task.query_index(n, step) for step in range(1, n + 1)]
    related = [[relate(positions[query], position) for position in positions[: query + 1]] for query in queries]
    for symbols, sequence in zip(strings, task.sequences(strings).tolist(), strict=True):
        names, string = [task.names[token] for token in sequence], spell(symbols)
        for step, (query, relations) in enumerate(zip(queries, related, strict=True), 1):
            yield string, step, [Unknown(names[query], x, r) for x, r in zip(names, relations, strict=False)]
