"""The one-layer, one-head 2D-RoPE model in a weights file: its layout, and exact score coefficients.

The score of key token x at relative position r (key minus query) for query token c is the sum over the rotary pairs
of `A cos(beta r) + B sin(beta r)` with `A = q_x k_x + q_y k_y`, `B = q_y k_x - q_x k_y`, where (q_x, q_y) and
(k_x, k_y) are the coordinates of Q w_c and K w_x: the inner product of two turned pairs depends on the difference of
the angles only. All A and B are rational numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from proofs_check.verify.reading import (
    Frequency,
    Matrix,
    Rejected,
    Vector,
    WeightsFile,
    read_frequencies,
    read_weights_file,
    require_choice,
    require_fields,
    require_integer,
    require_rational,
    shown,
    spend,
)

EMBEDDING, READOUT = "embedding.weight", "readout.weight"
QUERY, KEY, VALUE, OUTPUT = (f"blocks.0.attention.{part}.weight" for part in ("query", "key", "value", "output"))

_METADATA = ("construction", "a", "b", "rho", "budget", "frequencies", "config")

_FIXED: dict[str, object] = {
    "layers": 1,
    "heads": 1,
    "outputs": 2,
    "position": "grid",
    "residual": False,
    "pre_norm": False,
    "sub_norm": False,
    "final_norm": False,
    "score_scale": 1,
    "mlp_width": 0,
}
_SIZES = ("vocabulary_size", "model_width", "head_width", "value_width")

#: Sizes in the configuration beyond this are refused; no file that may be read holds so many numbers.
LARGEST_SIZE = 2**28

#: Units of work for the exact product of a stored number.
UNITS_A_WEIGHT = 4


@dataclass(frozen=True)
class Term:
    """What one rotary pair adds to a score: `cosine cos(beta r) + sine sin(beta r)`."""

    frequency: Frequency
    cosine: Fraction
    sine: Fraction


@dataclass(frozen=True)
class Score:
    """The score of one key token for one query token, as row terms and column terms."""

    row: tuple[Term, ...]
    column: tuple[Term, ...]


@dataclass(frozen=True)
class GridModel:
    """A grid copier as stored.

    Attributes:
        file: the weights file; all its tensors have been checked to fit the layout.
        a, b: numbers of tokens before and after the string, both at least 1.
        row, column: the frequencies of the two axes.
    """

    file: WeightsFile
    a: int
    b: int
    row: tuple[Frequency, ...]
    column: tuple[Frequency, ...]

    @property
    def last_token(self) -> int:
        """The token B_b."""
        return self.a + self.b + 1

    @property
    def wanted_column(self) -> int:
        """Column of the wanted key relative to the query, in position-only models with b >= 2."""
        return self.a + 2 - self.b

    @property
    def description(self) -> str:
        """How statements name the model."""
        return (
            f"the grid model in {self.file.name} (SHA-256 {self.file.digest[:16]}..., a = {self.a}, b = {self.b}; "
            "real-arithmetic model with the stored binary weights)"
        )

    @cached_property
    def votes(self) -> tuple[Fraction, ...]:
        """For each token, logit 0 minus logit 1 of what its value adds; exact."""
        matrices = self.file.matrices
        difference = matrices[READOUT].row(0)
        for index, entry in matrices[READOUT].row(1).items():
            difference[index] = difference.get(index, Fraction(0)) - entry
        reading = matrices[VALUE].row_times(matrices[OUTPUT].row_times(difference))
        embedding = matrices[EMBEDDING]
        return tuple(_inner(embedding.row(token), reading) for token in range(embedding.height))

    def query(self, token: int) -> Vector:
        """Q w of a token."""
        return self._times(QUERY, token)

    def key(self, token: int) -> Vector:
        """K w of a token."""
        return self._times(KEY, token)

    def _times(self, name: str, token: int) -> Vector:
        matrix, word = self.file.matrices[name], self.file.matrices[EMBEDDING].row(token)
        spend(UNITS_A_WEIGHT * matrix.height * (1 + len(word)))
        return matrix.times(word)

    def score(self, query_token: int, key_token: int) -> Score:
        """The score of a key token for a query token. Cost: two sparse products."""
        query, key = self.query(query_token), self.key(key_token)
        frequencies = (*self.row, *self.column)
        terms = tuple(_term(frequency, query, key, 2 * f) for f, frequency in enumerate(frequencies))
        return Score(terms[: len(self.row)], terms[len(self.row) :])

    def square_norm(self) -> Fraction:
        """Sum of the squares of all stored parameters, exact."""
        return sum((matrix.square_norm() for matrix in self.file.matrices.values()), Fraction(0))

    def position_only_score(self) -> Score:
        """The score shared by all asking and answering tokens of a position-only model.

        Raises:
            Rejected: the stored weights are not position-only, compared exactly, or b < 2.
        """
        if self.b < 2:
            raise Rejected(f"b = {self.b}: the position-only condition needs b >= 2")
        queries = [self.query(token) for token in (0, 1, self.last_token)]
        votes = self.votes
        if queries[0] != queries[1] or queries[0] != queries[2] or self.key(0) != self.key(1):
            raise Rejected("the stored weights are not position-only: queries or keys differ between tokens")
        if not votes[0] > 0 or votes[0] != -votes[1] or any(votes[2:]):
            raise Rejected("the stored weights are not position-only: the votes are not u_0 = -u_1 > 0, others 0")
        return self.score(0, 0)


def read_grid_model(directory: Path, inputs: object) -> GridModel:
    """The model that `inputs`, which is `{"weights": {...}}`, refers to.

    Raises:
        Rejected: the file, its metadata or its tensors are not those of a grid copier.
    """
    fields = require_fields(inputs, "inputs", ("weights",))
    return grid_model(read_weights_file(directory, fields["weights"]))


def grid_model(file: WeightsFile) -> GridModel:
    """The model in a weights file.

    Raises:
        Rejected: its metadata or its tensors are not those of a grid copier.
    """
    metadata = require_fields(file.metadata, "metadata", _METADATA)
    require_choice(metadata["construction"], "metadata.construction", ("grid-copier",))
    require_choice(metadata["budget"], "metadata.budget", ("paper", "three-tokens"))
    if require_rational(metadata["rho"], "metadata.rho") <= 0:
        raise Rejected("metadata.rho is not positive")
    a = require_integer(metadata["a"], "metadata.a", 1, LARGEST_SIZE)
    b = require_integer(metadata["b"], "metadata.b", 1, LARGEST_SIZE)
    frequencies = read_frequencies(metadata["frequencies"])
    row, column = frequencies.row, frequencies.column
    sizes = read_sizes(metadata["config"], _FIXED)
    if sizes["vocabulary_size"] != a + b + 2:
        raise Rejected(f"config.vocabulary_size is {sizes['vocabulary_size']}, not a + b + 2 = {a + b + 2}")
    if sizes["head_width"] != 2 * (len(row) + len(column)):
        raise Rejected(f"config.head_width is {sizes['head_width']}, not twice the number of frequencies")
    require_shapes(file, _shapes(sizes))
    spend_on_weights(file)
    return GridModel(file, a, b, row, column)


def spend_on_weights(file: WeightsFile) -> None:
    """What it takes to multiply each stored number that is not 0 once, exactly."""
    spend(UNITS_A_WEIGHT * sum(len(row) for matrix in file.matrices.values() for row in matrix.rows))


def read_sizes(config: object, fixed: Mapping[str, object]) -> dict[str, int]:
    """The sizes in a configuration, all other fields of which must be as in `fixed`."""
    fields: dict[str, Any] = require_fields(config, "config", (*_SIZES, *fixed))
    for name, value in fixed.items():
        # The types are compared too: False == 0 and True == 1 in Python, not in JSON.
        if type(fields[name]) is not type(value) or fields[name] != value:
            raise Rejected(f"config.{name} is {shown(fields[name])}, not {shown(value)}")
    return {name: require_integer(fields[name], f"config.{name}", 1, LARGEST_SIZE) for name in _SIZES}


def require_shapes(file: WeightsFile, shapes: Mapping[str, tuple[int, int]]) -> None:
    """Rejected unless the file holds these tensors, of these shapes, and no others."""
    if set(file.matrices) != set(shapes):
        raise Rejected(f"{file.name} does not hold exactly the tensors of its construction")
    for name, shape in shapes.items():
        matrix: Matrix = file.matrices[name]
        if (matrix.height, matrix.width) != shape:
            raise Rejected(f"{name} has shape {matrix.height} x {matrix.width}, not {shape[0]} x {shape[1]}")


def _shapes(sizes: dict[str, int]) -> dict[str, tuple[int, int]]:
    vocabulary, model, head, value = (sizes[name] for name in _SIZES)
    return {
        EMBEDDING: (vocabulary, model),
        QUERY: (head, model),
        KEY: (head, model),
        VALUE: (value, model),
        OUTPUT: (model, value),
        READOUT: (2, model),
    }


def _term(frequency: Frequency, query: Vector, key: Vector, x: int) -> Term:
    zero = Fraction(0)
    query_x, query_y = query.get(x, zero), query.get(x + 1, zero)
    key_x, key_y = key.get(x, zero), key.get(x + 1, zero)
    return Term(frequency, query_x * key_x + query_y * key_y, query_y * key_x - query_x * key_y)


def _inner(left: Vector, right: Vector) -> Fraction:
    return sum((x * right[index] for index, x in left.items() if index in right), Fraction(0))
