"""The sign system of a one-layer, one-head model with two outputs and a linear read-out.

Let `e(c, x, r) > 0` be exp(score) of a key token x seen from a query token c at positional relation r, and `v_x` the
logit of output 0 minus the logit of output 1 that the value of x adds. Step i of the string s is right iff

    N(s, i) = sum over tokens seen of e(c, x, r) v_x    is > 0 for s_i = 0,  < 0 for s_i = 1,

since the denominator of softmax is positive and drops out; a tie is wrong. In the unknowns
`h(c, x, r) = e(c, x, r) v_x` each step is one strict linear inequality with integer coefficients. `weights` are `|h|`,
`votes` the signs of v: one sign per token x, shared by all c and r. (A vote of 0 needs no case of its own: the
inequalities are strict, so a small vote of either sign does as well.)

*Signs.* They speak of the votes of the data tokens only: `opposite`: 0 votes for 0 and 1 for 1 (v_0 > 0 > v_1); the
reverse contradicts itself at length 1; `equal`: both vote for the same output; `any`: no condition. Each of the tokens
A_k and B_k votes either way, always.

*All (a, b) at once.* Where the contribution of the A tokens at a step depends only on the query token and n+i, and that
of the B tokens only on the query token and i, they are left as free reals, named `A` and `B`: an impossibility then
holds for arbitrary token lists, whatever stands in them. With b left open, too, a source is not known to stand at the
same distance as an output, so the two are told apart.

Label: paper (appendix H has the criterion), the system itself new.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product
from typing import Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Int64
from scipy.sparse import csr_matrix

from theory.numbers import InputError, require_at_least
from theory.task import RELATIONS, Position, Relate, Related, relation_named

Signs = Literal["any", "opposite", "equal"]

#: Signs of votes by token name; a token that is missing may vote either way, even differently at different positions.
Votes = Mapping[str, int]

#: Systems with more coefficients than this are refused.
LARGEST_SYSTEM = 2_000_000

#: Most tokens before or after the string: the vote of each may have to be branched on.
LARGEST_LAYOUT = 100

#: Relations for which the A and B contributions depend on (c, n+i) and (c, i) alone, for every a and b.
FOR_ALL = ("shift", "nope", "row-and-shift")


class Unknown(NamedTuple):
    """h(query, token, relation), tokens by name."""

    query: str
    token: str
    relation: Related


class Step(NamedTuple):
    """A step of a string, 1-based: the inequality that it stands for."""

    string: str
    step: int


Row = dict[Unknown, int]


def _what_the_name_says(query: Position, key: Position) -> Related:
    raise NotImplementedError


@dataclass(frozen=True)
class Layout:
    """A positional relation and the numbers of tokens before and after the string.

    Attributes:
        relation: name of the relation.
        a: number of tokens before the string, or None for all numbers and lists at once.
        b: number of tokens after it, or None for all (with a None).
        relate: the relation as a function; by default what the name says.

    Raises:
        InputError: unknown relation, a or b < 1 or above 100, or None where the relation or the other number does not
            allow it.
    """

    relation: str
    a: int | None
    b: int | None
    relate: Relate = field(default=_what_the_name_says, repr=False)

    def __post_init__(self) -> None:
        if self.relate is _what_the_name_says:
            relation = relation_named(self.relation)
            object.__setattr__(self, "relation", relation.name)
            object.__setattr__(self, "relate", relation.relate)
        elif self.relation in RELATIONS and self.relate is not RELATIONS[self.relation].relate:
            raise InputError("relation", self.relation, "another name: this one is taken")
        for argument, count in (("a", self.a), ("b", self.b)):
            if count is not None and require_at_least(argument, count, 1) > LARGEST_LAYOUT:
                raise InputError(argument, count, f"at most {LARGEST_LAYOUT}: the vote of each token is decided")
        if self.a is None and self.relation not in FOR_ALL:
            raise InputError("a", "all", f"a number for {self.relation}; all at once for " + ", ".join(FOR_ALL))
        if self.a is None and self.b is not None and self.relation != "shift":
            raise InputError("b", self.b, f"all, as for a (the {self.relation} relation is the same for every b)")
        if self.a is not None and self.b is None:
            raise InputError("b", "all", "a number where a is one")

    @property
    def tokens(self) -> tuple[str, ...]:
        """Names of the tokens with one vote each; the free contributions A and B have none."""
        if self.a is None or self.b is None:
            return "0", "1"
        return "0", "1", *_prefix(self.a), *_infix(self.b)

    def row(self, step: Step) -> Row:
        """The coefficients of a step, signed so that the step is right iff the sum is > 0."""
        row: Row = {}
        for unknown in self._seen(step):
            row[unknown] = row.get(unknown, 0) + (1 if step.string[step.step - 1] == "0" else -1)
        return row

    def entries(self, length: int) -> int:
        """Tokens seen in all steps of all strings of length <= `length`: what building the system costs."""
        a, b = self.a or 1, self.b or 1
        return sum(2**n * n * (2 * (a + b + n) + n - 1) // 2 for n in range(1, length + 1))

    def _seen(self, step: Step) -> Iterator[Unknown]:
        if self.a is not None and self.b is not None:
            return _seen_in_layout(self.relate, self.a, self.b, step)
        return _seen_for_all(self.relation, self.b, step)


def _prefix(a: int) -> list[str]:
    return [f"A_{k}" for k in range(1, a + 1)]


def _infix(b: int) -> list[str]:
    return ["<n>", *(f"B_{k}" for k in range(2, b + 1))]


def _seen_in_layout(relate: Relate, a: int, b: int, step: Step) -> Iterator[Unknown]:
    tokens = [*_prefix(a), *step.string, *_infix(b), *step.string[: step.step - 1]]
    query = tokens[-1]
    for token, related in zip(tokens, _relations_seen(relate, a + len(step.string), len(tokens)), strict=True):
        yield Unknown(query, token, related)


@lru_cache(maxsize=1024)
def _relations_seen(relate: Relate, newline: int, count: int) -> tuple[Related, ...]:
    """The relations of the last of `count` tokens to each of them; they depend on the place of the newline only."""
    positions = [_position(index, newline) for index in range(count)]
    return tuple(relate(positions[-1], position) for position in positions)


def _position(index: int, newline: int) -> Position:
    return (0, index, index) if index <= newline else (1, index - newline - 1, index)


def _seen_for_all(relation: str, b: int | None, step: Step) -> Iterator[Unknown]:
    n, i = len(step.string), step.step
    query = step.string[i - 2] if i > 1 else "B"
    if relation == "nope":
        yield from (Unknown(query, token, ()) for token in ("A", "B", *step.string, *step.string[: i - 1]))
        return
    yield Unknown(query, "A", (n + i,))
    yield Unknown(query, "B", (i,))
    for j, token in enumerate(step.string, 1):
        yield Unknown(query, token, (1, n + i - j) if b is None else (n + i - j + b - 1,))
    for j, token in enumerate(step.string[: i - 1], 1):
        yield Unknown(query, token, (0, i - 1 - j) if b is None else (i - 1 - j,))


@dataclass(frozen=True)
class Block:
    """The distinct inequalities of one query token, which share no unknown with those of another.

    Attributes:
        query: name of the query token.
        unknowns: the unknowns, one a column.
        steps: the shortest, then first, step for each row.
        coefficients: the matrix; a model is right at all steps iff `coefficients @ h > 0`.
    """

    query: str
    unknowns: tuple[Unknown, ...]
    steps: tuple[Step, ...]
    coefficients: csr_matrix

    def signs(self, votes: Votes) -> Int64[np.ndarray, " unknowns"]:
        """+1 or -1 for each unknown with a given vote, 0 for the others."""
        return np.array([votes.get(unknown.token, 0) for unknown in self.unknowns], dtype=np.int64)

    def restricted(self, rows: list[int]) -> Block:
        """The block with some of its rows only; all unknowns stay."""
        return Block(self.query, self.unknowns, tuple(self.steps[row] for row in rows), self.coefficients[rows])


@dataclass(frozen=True)
class SignSystem:
    """All inequalities of a layout up to a length, without repetitions."""

    layout: Layout
    length: int
    blocks: tuple[Block, ...]

    @cached_property
    def rows(self) -> int:
        """Number of distinct inequalities."""
        return sum(len(block.steps) for block in self.blocks)


def steps_up_to(length: int) -> Iterator[Step]:
    """Every step of every binary string of length 1..length, shortest strings first: (length-1) 2^(length+1) + 2."""
    for n in range(1, length + 1):
        for symbols in product("01", repeat=n):
            string = "".join(symbols)
            yield from (Step(string, i) for i in range(1, n + 1))


def sign_system(layout: Layout, length: int) -> SignSystem:
    """The inequalities of all strings of length <= `length`.

    Cost: O(length^2 2^length) time and memory, dictionary operations.

    Raises:
        InputError: length < 1, or more than 2,000,000 coefficients.
    """
    require_at_least("length", length, 1)
    if length > 20 or layout.entries(length) > LARGEST_SYSTEM:
        raise InputError("length", length, _size_message(layout, length))
    found: dict[str, _Rows] = {}
    for step in steps_up_to(length):
        row = layout.row(step)
        found.setdefault(next(iter(row)).query, _Rows({}, {})).add(row, step)
    return SignSystem(layout, length, tuple(rows.block(query) for query, rows in sorted(found.items())))


@dataclass(frozen=True)
class _Rows:
    """The distinct rows of one query token, the unknowns by number."""

    numbers: dict[Unknown, int]
    steps: dict[frozenset[tuple[int, int]], Step]

    def add(self, row: Row, step: Step) -> None:
        numbers = self.numbers
        key = frozenset((numbers.setdefault(unknown, len(numbers)), value) for unknown, value in row.items())
        self.steps.setdefault(key, step)

    def block(self, query: str) -> Block:
        unknowns = sorted(self.numbers)
        column = {self.numbers[unknown]: place for place, unknown in enumerate(unknowns)}
        entries = [(row, column[number], value) for row, key in enumerate(self.steps) for number, value in key]
        where, what, values = zip(*entries, strict=True)
        shape = (len(self.steps), len(unknowns))
        matrix = csr_matrix((np.array(values, dtype=np.float64), (where, what)), shape=shape)
        return Block(query, tuple(unknowns), tuple(self.steps.values()), matrix)


def _size_message(layout: Layout, length: int) -> str:
    size = f"{layout.entries(length)}" if length <= 20 else f"over {layout.entries(20)}"
    allowed = max(n for n in range(1, 21) if layout.entries(n) <= LARGEST_SYSTEM)
    return f"at most {allowed} here: the system has {size} coefficients, the limit is {LARGEST_SYSTEM}"


def require_signs(signs: str) -> Signs:
    """`signs`, or InputError with the valid choices."""
    for choice in get_args(Signs):
        if signs == choice:
            valid: Signs = choice
            return valid
    raise InputError("signs", signs, "one of " + ", ".join(get_args(Signs)))


def vote_choices(signs: Signs) -> tuple[dict[str, int], ...]:
    """The signs of the votes of 0 and 1 that a choice leaves open. `any` begins with the likeliest."""
    choices: dict[Signs, tuple[dict[str, int], ...]] = {
        "opposite": ({"0": 1, "1": -1},),
        "equal": ({"0": 1, "1": 1}, {"0": -1, "1": -1}),
    }
    if signs == "any":
        return (*choices["opposite"], *choices["equal"], {"0": -1, "1": 1})
    return choices[signs]
