"""Positional relations: what the score of a one-layer head may depend on beside the two tokens.

Every relation is a function of two positions. A position is `(row, column, index)`: the index counts tokens from 0, row
and column come from the newlines as in `grid_positions`. In the theory layout `B_1` is the only newline.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from theory.numbers import InputError, Label

#: (row, column, index) of a token, all from 0.
Position = tuple[int, int, int]

#: The value of a relation; tuples of different lengths are different values.
Related = tuple[int, ...]

#: A relation as a function of (position of the query, position of the key).
Relate = Callable[[Position, Position], Related]

#: Index distances below this are told apart token by token in HiRoPE (L_window; 3 in its figure 2).
HIROPE_WINDOW = 3


@dataclass(frozen=True)
class Relation:
    """A positional relation.

    Attributes:
        name: the name on the command line.
        relate: its value for (position of the query, position of the key).
        label: how its definition is known.
        source: where it comes from.
        meaning: one line for a reader.
    """

    name: str
    relate: Relate
    label: Label
    source: str
    meaning: str


def _shift(query: Position, key: Position) -> Related:
    return (query[2] - key[2],)


def _nope(query: Position, key: Position) -> Related:
    return ()


def _absolute(query: Position, key: Position) -> Related:
    return query[2], key[2]


def _grid(query: Position, key: Position) -> Related:
    return query[0] - key[0], query[1] - key[1]


def _row_and_shift(query: Position, key: Position) -> Related:
    return query[0] - key[0], query[2] - key[2]


def _bipe(query: Position, key: Position) -> Related:
    return query[0] - key[0], query[1], key[1]


def _segatron(query: Position, key: Position) -> Related:
    paragraphs = 0
    return paragraphs, query[0] - key[0], query[1] - key[1]


def _hirope(query: Position, key: Position) -> Related:
    distance = query[2] - key[2]
    return (distance,) if distance < HIROPE_WINDOW else _grid(query, key)


RELATIONS: dict[str, Relation] = {
    relation.name: relation
    for relation in (
        Relation("shift", _shift, "paper", "section 3.2: RoPE, ALiBi and T5 biases among them",
                 "the difference of the indices"),
        Relation("nope", _nope, "paper", "section 3.2 (no positional encoding)", "nothing: positions do not enter"),
        Relation("absolute", _absolute, "reconstructed", "learned or sinusoidal positions, Vaswani et al. 2017",
                 "both indices; any function of them, so more than added position vectors can do"),
        Relation("grid", _grid, "reconstructed", "section 4.2 (2D-RoPE)",
                 "the difference of the rows and the difference of the columns"),
        Relation("row-and-shift", _row_and_shift, "new", "a control: rows known, columns not",
                 "the difference of the rows and the difference of the indices"),
        Relation("bipe", _bipe, "reconstructed", "He et al. 2024, Two Stones Hit One Bird (BiPE)",
                 "the difference of the segments, and the offset of either token within its segment; a newline ends "
                 "its segment"),
        Relation("segatron", _segatron, "reconstructed", "Bai et al. 2021, Segatron (Segatron-XL)",
                 "the differences of the paragraphs, of the sentences, and of the offsets within the sentence; a "
                 "newline ends a sentence and the layout is one paragraph, so that this is the grid's relation"),
        Relation("hirope", _hirope, "reconstructed", "Zhang et al. 2024, HiRoPE",
                 f"below the index distance {HIROPE_WINDOW} the difference of the indices, beyond it the differences "
                 "of the rows (its functions) and of the offsets within them; a window as long as the input makes it "
                 "the shift relation"),
    )
}  # fmt: skip


#: Encodings by which somebody may ask for their relation.
ENCODED = {"rope": "shift", "alibi": "shift"}


#: What one may ask for, for readers.
RELATION_NAMES = f"{', '.join(RELATIONS)}; {' and '.join(ENCODED)} are shift"


@dataclass(frozen=True)
class _Given:
    """A relation that a caller gave as a function; two of the same function are equal."""

    function: Relate

    def __call__(self, query: Position, key: Position) -> Related:
        value = self.function(query, key)
        if not isinstance(value, tuple) or not all(isinstance(part, int) for part in value):
            raise InputError("relation", repr(value), "a function with tuples of integers as its values")
        return value


def relation_named(name: str | Relate) -> Relation:
    """The relation of that name, or the one that a function of two positions is, named `custom:` and its own name.

    Raises:
        InputError: no such name, with the valid ones.
    """
    if not isinstance(name, str):
        own = getattr(name, "__name__", type(name).__name__)
        return Relation(f"custom:{own}", _Given(name), "new", "given as a function", "what the function says")
    name = ENCODED.get(name, name)
    if name not in RELATIONS:
        raise InputError("relation", name, f"one of {RELATION_NAMES}")
    return RELATIONS[name]
