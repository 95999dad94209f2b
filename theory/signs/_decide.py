"""Can a one-layer, one-head model copy all strings up to a length? A model, or strings that cancel.

Label: new (the paper's Theorem 3.1 is one entry of the table). Evidence: exact, by `check_certificate` and
`check_witness`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np
from jaxtyping import Int64

from theory.numbers import InputError, require_at_least
from theory.signs._certificate import Case, Certificate, Witness, check_certificate, check_witness
from theory.signs._farkas import UndecidedError, find_multipliers, find_weights
from theory.signs._system import (
    FOR_ALL,
    Block,
    Layout,
    Signs,
    SignSystem,
    Unknown,
    Votes,
    require_signs,
    sign_system,
    vote_choices,
)
from theory.task import RELATIONS, Relate, relation_named

#: Numbers of tokens (a, b) in the default table; (None, None) is all of them at once.
DEFAULT_LAYOUTS: tuple[tuple[int | None, int | None], ...] = ((1, 1), (1, 2), (2, 2), (2, 3), (None, None))

#: Linear programmes that one decision may take for branching on votes; the default table needs below 300.
MOST_PROGRAMMES = 5000

Solution = list[tuple[Block, Int64[np.ndarray, "_"]]]


@dataclass(frozen=True)
class Decision:
    """Whether some model copies every string of length <= `length`, and what shows it.

    Attributes:
        layout: relation, a and b.
        length: the length asked about.
        signs: the condition on the votes of 0 and 1.
        witness: a model, if possible.
        certificates: if impossible, certificates that cover all signs of the votes together.
        rows: number of distinct inequalities of the system.
    """

    layout: Layout
    length: int
    signs: Signs
    witness: Witness | None
    certificates: tuple[Certificate, ...]
    rows: int

    def __repr__(self) -> str:
        layout, told = self.layout, "possible" if self.possible else f"impossible, {len(self.cases)} steps contradict"
        asked = f"{layout.relation}, a={layout.a}, b={layout.b}, length <= {self.length}, signs {self.signs}"
        return f"<Decision {told}: {asked}; exact>"

    @property
    def possible(self) -> bool:
        """Does such a model exist?"""
        return self.witness is not None

    @property
    def cases(self) -> tuple[Case, ...]:
        """The cases of the first certificate; () if possible."""
        return self.certificates[0].cases if self.certificates else ()


@dataclass(frozen=True)
class Threshold:
    """The largest length up to which all strings can be copied; equal to `searched_to` if nothing stood in the way."""

    relation: str
    a: int | None
    b: int | None
    signs: Signs
    largest: int
    searched_to: int


def decide(
    relation: str | Relate, a: int | None, b: int | None, length: int, signs: str = "any", *, smallest: bool = True
) -> Decision:
    """Decide whether a one-layer, one-head model copies every binary string of length <= `length`.

    Args:
        relation: what scores may depend on: a name in `RELATIONS`, or any function of the query's and the key's
            position (row, column, index) whose values are tuples of integers.
        a, b: numbers of tokens of the theory layout, or None and None for all numbers and lists at once (also None and
            a number for `shift`). Then "impossible" holds for every a and b (b >= 1 where a case is a first step), and
            "possible" for `shift` with b left open means that no certificate serves all: a >= 2, b >= max(2, length)
            has a model.
        length: longest string.
        signs: `opposite`: 0 votes for 0, 1 for 1. `equal`: both vote for the same output. `any`: no condition.
        smallest: search for certificates with the fewest cases.

    Postcondition: the witness or the certificates have passed their exact checks.

    Raises:
        InputError: unknown relation or signs, a or b that is not possible there, a system that is too large.
        UndecidedError: floats were not good enough to find either, or branching took MOST_PROGRAMMES programmes.

    Cost: linear programmes of the size of the system, 0.2 s at length 6, up to threefold with each length; `smallest`
    adds about a second.
    """
    named = relation_named(relation)
    return _decide(Layout(named.name, a, b, named.relate), length, require_signs(signs), smallest)


def _decide(layout: Layout, length: int, choice: Signs, smallest: bool) -> Decision:
    system = _system(layout, require_at_least("length", length, 1))
    certificates: list[Certificate] = []
    search = _Search(system, smallest)
    for votes in _roots(choice, system):
        outcome = search.settle(votes)
        if isinstance(outcome, Witness):
            return Decision(layout, length, choice, outcome, (), system.rows)
        certificates += outcome
        if choice == "equal":
            certificates += _mirrored(outcome)
        if not votes or choice == "equal":
            break
    return Decision(layout, length, choice, None, tuple(certificates), system.rows)


def thresholds(
    max_length: int = 8,
    relations: Sequence[str | Relate] = tuple(RELATIONS),
    layouts: Sequence[tuple[int | None, int | None]] = DEFAULT_LAYOUTS,
) -> Iterator[Threshold]:
    """The table of thresholds over relations, (a, b) and signs, row by row as it is found.

    Layouts that a relation has no system for (all (a, b) at once) are left out.

    Raises:
        InputError: as in `decide`.

    Cost: up to a dozen decisions a row; the default table takes about 25 s on one core.
    """
    require_at_least("max_length", max_length, 1)
    for relation, (a, b) in product(relations, layouts):
        named = relation_named(relation)
        if a is None and named.name not in FOR_ALL:
            continue
        found: dict[Signs, int] = {}
        order: tuple[Signs, ...] = ("opposite", "equal", "any")
        for signs in order:
            known = max(found.values()) if signs == "any" else 0
            found[signs] = _largest(Layout(named.name, a, b, named.relate), signs, max_length, known)
            yield Threshold(named.name, a, b, signs, found[signs], max_length)


def _largest(layout: Layout, signs: Signs, max_length: int, known: int) -> int:
    """The threshold, known to be >= `known`: each certificate brings the length below its longest string."""
    length = max_length
    while length > known:
        try:
            decision = _decide(layout, length, signs, smallest=False)
        except InputError as error:
            if error.argument != "length":
                raise
            raise InputError("max_length", length, error.allowed) from error
        if decision.possible:
            return length
        length = max(certificate.length for certificate in decision.certificates) - 1
    return length


@lru_cache(maxsize=4)
def _system(layout: Layout, length: int) -> SignSystem:
    return sign_system(layout, length)


def _roots(signs: Signs, system: SignSystem) -> Iterator[dict[str, int]]:
    """The sign choices to settle. For `any` the empty one first, if it alone is impossible: one certificate for all."""
    if signs == "any" and any(find_weights(block, {}) is None for block in system.blocks):
        yield {}
    yield from vote_choices(signs)


def _mirrored(certificates: list[Certificate]) -> list[Certificate]:
    """With 0 and 1 exchanged, certificates for votes (+, +) of 0 and 1 are certificates for (-, -)."""
    mirrored = [certificate.mirrored() for certificate in certificates]
    for certificate in mirrored:
        check_certificate(certificate)
    return mirrored


class _Search:
    """Branching on the votes of one system's tokens, within MOST_PROGRAMMES linear programmes."""

    def __init__(self, system: SignSystem, smallest: bool) -> None:
        self.system, self.smallest = system, smallest
        self.left = MOST_PROGRAMMES

    def settle(self, votes: Mapping[str, int]) -> Witness | list[Certificate]:
        """A witness with these votes, or certificates for every way of completing them; branches on one token's vote.

        Each call decides one more vote, so that calls nest no deeper than there are tokens.
        """
        solution: Solution = []
        for block in self.system.blocks:
            if self.left == 0:
                raise UndecidedError(f"branching on the votes of tokens took {MOST_PROGRAMMES} linear programmes")
            self.left -= 1
            weights = find_weights(block, votes)
            if weights is None:
                return [_certificate(self.system, block, votes, self.smallest)]
            solution.append((block, weights))
        open_tokens = [token for token in self.system.layout.tokens if token not in votes]
        if not open_tokens:
            return _witness(self.system, votes, solution)
        leaning = {token: _leaning(solution, token) for token in open_tokens}
        torn = max(open_tokens, key=lambda token: min(leaning[token]))
        if min(leaning[torn]) == 0:
            completed = {token: 1 if positive >= negative else -1 for token, (positive, negative) in leaning.items()}
            return self.settle({**votes, **completed})
        return self._branch(votes, torn, leaning[torn])

    def _branch(self, votes: Mapping[str, int], token: str, leaning: tuple[int, int]) -> Witness | list[Certificate]:
        certificates: list[Certificate] = []
        for vote in (1, -1) if leaning[0] >= leaning[1] else (-1, 1):
            outcome = self.settle({**votes, token: vote})
            if isinstance(outcome, Witness):
                return outcome
            certificates += outcome
        return certificates


def _leaning(solution: Solution, token: str) -> tuple[int, int]:
    """Sum of the positive and of the negative contributions of a token."""
    values = [
        value
        for block, weights in solution
        for unknown, value in zip(block.unknowns, weights.tolist(), strict=True)
        if unknown.token == token
    ]
    return sum(value for value in values if value > 0), -sum(value for value in values if value < 0)


def _certificate(system: SignSystem, block: Block, votes: Votes, smallest: bool) -> Certificate:
    found = find_multipliers(block, votes, smallest=smallest)
    cases = tuple(Case(*block.steps[row], value) for row, value in zip(found.rows, found.values, strict=True))
    certificate = Certificate(
        system.layout, tuple(sorted(votes.items())), cases, found.irreducible, smallest and found.smallest
    )
    check_certificate(certificate)
    return certificate


def _witness(system: SignSystem, votes: Votes, solution: Solution) -> Witness:
    weights: dict[Unknown, int] = {}
    for block, values in solution:
        for unknown, value in zip(block.unknowns, values.tolist(), strict=True):
            weights[unknown] = value * votes.get(unknown.token, 1)
    unchecked = Witness(system.layout, system.length, dict(votes), weights, Fraction(0))
    return Witness(system.layout, system.length, dict(votes), weights, check_witness(unchecked))
