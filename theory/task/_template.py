"""Where the tokens of a copy prompt stand, for every length at once.

A *template* is the token lists A and B around the string, and which tokens break rows: a token that *ends* a row is
followed by column 0 of the next one (the paper's newline), a token that *starts* a row stands at column 0 of the next
one itself (what a gate of Auto-2D-RoPE that is exactly 0 does). The data tokens do neither, so the string and its copy
are each one run of neighbouring columns. With no row-breaking token at all the columns are the indices: shift
positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int64

from theory.numbers import InputError, require_at_least
from theory.task._copy_task import ONE, ZERO, CopyTask


@dataclass(frozen=True)
class Place:
    """A position: the row, and the column as `column + slope n`, n the length of the string and slope 0 or 1."""

    row: int
    column: int
    slope: int = 0


@dataclass(frozen=True)
class Placement:
    """The places of all tokens.

    Attributes:
        prefix, infix: of the tokens A and B.
        source: of s_1; s_j stands j-1 columns further.
        output: of the first symbol written; the k-th stands k-1 columns further.
    """

    prefix: tuple[Place, ...]
    source: Place
    infix: tuple[Place, ...]
    output: Place

    @property
    def separate(self) -> bool:
        """Does the relation of source j to the query of step i depend on j - i alone, for steps above 1?"""
        return self.output.slope == 0

    @property
    def first_query(self) -> Place:
        """Place of B_b, which asks at step 1."""
        return self.infix[-1]


@dataclass(frozen=True)
class Template:
    """The tokens around the string and the rule of positions.

    Attributes:
        prefix, infix: the tokens A and B, at least one each.
        data: the tokens that stand for 0 and 1.
        ends: tokens after which a new row begins.
        starts: tokens that begin a new row themselves.
        first_column: column of the very first token, if it does not start a row.
    """

    prefix: tuple[int, ...]
    infix: tuple[int, ...]
    data: tuple[int, int] = (ZERO, ONE)
    ends: frozenset[int] = frozenset()
    starts: frozenset[int] = frozenset()
    first_column: int = 0

    def __post_init__(self) -> None:
        require_at_least("a", len(self.prefix), 1)
        require_at_least("b", len(self.infix), 1)
        if self.data[0] == self.data[1]:
            raise InputError("data", self.data, "two different tokens")
        for token in self.data:
            if token in self.ends or token in self.starts:
                raise InputError("data", token, "tokens that break no row: positions would depend on the string")

    @property
    def tokens(self) -> tuple[int, ...]:
        """Every token that occurs, once, in increasing order."""
        return tuple(sorted({*self.prefix, *self.data, *self.infix}))

    @cached_property
    def placement(self) -> Placement:
        """The places of all tokens as functions of the length."""
        walk = _Walk(self)
        prefix = tuple(walk.step(token) for token in self.prefix)
        source = walk.run()
        infix = tuple(walk.step(token) for token in self.infix)
        return Placement(prefix, source, infix, walk.next)

    def sequence(self, string: Int64[np.ndarray, " n"], step: int) -> Int64[np.ndarray, " seen"]:
        """The tokens seen at a step (1-based) of a string of 0s and 1s."""
        data = np.array(self.data, dtype=np.int64)
        parts = (np.array(self.prefix), data[string], np.array(self.infix), data[string[: step - 1]])
        return np.concatenate(parts).astype(np.int64)

    def positions(self, length: int, step: int) -> tuple[Int64[np.ndarray, " seen"], Int64[np.ndarray, " seen"]]:
        """Rows and columns of the tokens seen at a step of any string of that length."""
        placed = self.placement
        runs = [(placed.source, length), (placed.output, step - 1)]
        (source_rows, source_columns), (rows, columns) = (
            (np.full(count, place.row), place.column + place.slope * length + np.arange(count)) for place, count in runs
        )
        before, between = (
            np.array([(p.row, p.column + p.slope * length) for p in places], dtype=np.int64).T
            for places in (placed.prefix, placed.infix)
        )
        return (
            np.concatenate([before[0], source_rows, between[0], rows]).astype(np.int64),
            np.concatenate([before[1], source_columns, between[1], columns]).astype(np.int64),
        )


class _Walk:
    """Position of the next token, were it one that breaks no row."""

    def __init__(self, template: Template) -> None:
        self.template = template
        self.next = Place(0, template.first_column)

    def step(self, token: int) -> Place:
        here = self.next
        if token in self.template.starts:
            here = Place(here.row + 1, 0)
        ends = token in self.template.ends
        self.next = Place(here.row + 1, 0) if ends else Place(here.row, here.column + 1, here.slope)
        return here

    def run(self) -> Place:
        """n data tokens; returns the place of the first. In the same row the columns that follow grow with n."""
        here = self.next
        self.next = Place(here.row, here.column, 1)
        return here


def grid_template(task: CopyTask) -> Template:
    """The template of a task under grid positions."""
    ends = frozenset() if task.newline is None else frozenset({task.newline})
    return Template(task.prefix, task.infix, ends=ends)


def shift_template(task: CopyTask) -> Template:
    """The template of a task under shift positions: one row, the columns being the indices."""
    return Template(task.prefix, task.infix)
