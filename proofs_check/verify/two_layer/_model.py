"""The two-layer, one-head model in a weights file: its layout, its tensors, and the form that theorems need.

The score of a key at the distance r (query minus key, in indices) is the sum over the turning pairs of
`even cos(beta r) + odd sin(beta r)` with `even = q_x k_x + q_y k_y`, `odd = q_x k_y - q_y k_x`, plus the inner
product of the still pairs. All of these are rational numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from proofs_check.verify.grid import LARGEST_SIZE, read_sizes, require_shapes, spend_on_weights
from proofs_check.verify.reading import (
    Frequency,
    Matrix,
    Radians,
    Rejected,
    Turns,
    Vector,
    WeightsFile,
    read_frequencies,
    read_weights_file,
    require_choice,
    require_fields,
    require_integer,
    require_rational,
    require_text,
    spend,
)

EMBEDDING, READOUT = "embedding.weight", "readout.weight"

CONSTRUCTION = "two-layer-copier"

#: Units of work for the exact products of a turning pair.
_UNITS_A_PAIR = 6

_METADATA = ("construction", "layout", "a", "b", "rho", "variant", "length", "frequencies", "config")

_FIXED: dict[str, object] = {
    "layers": 2,
    "heads": 1,
    "outputs": 2,
    "position": "shift",
    "residual": True,
    "pre_norm": False,
    "sub_norm": "unit",
    "final_norm": False,
    "score_scale": 1,
    "mlp_width": 0,
}


@dataclass(frozen=True)
class Turning:
    """What one turning pair adds to a score: `even cos(beta r) + odd sin(beta r)` at the distance r."""

    frequency: Frequency
    even: Fraction
    odd: Fraction

    @property
    def square(self) -> Fraction:
        """The square of its amplitude."""
        return self.even**2 + self.odd**2


@dataclass(frozen=True)
class TwoLayerModel:
    """A two-layer model as stored.

    Attributes:
        file: the weights file; all its tensors have been checked to fit the layout.
        trained: the trained layout (a = 2, b = 3, shared tokens), else the theory layout.
        a, b: numbers of tokens before and after the string, at least 2.
        still: how many coordinates of queries and keys do not turn; they come first.
        frequencies: of the turning pairs.
    """

    file: WeightsFile
    trained: bool
    a: int
    b: int
    still: int
    frequencies: tuple[Frequency, ...]

    @property
    def description(self) -> str:
        """How statements name the model."""
        layout = "trained" if self.trained else "theory"
        return (
            f"the two-layer model in {self.file.name} (SHA-256 {self.file.digest[:16]}..., {layout} layout, "
            f"a = {self.a}, b = {self.b}; real-arithmetic model with the stored binary weights)"
        )

    @property
    def before(self) -> tuple[int, ...]:
        """The tokens A_1 .. A_a."""
        return (2, 3) if self.trained else tuple(range(2, self.a + 2))

    @property
    def after(self) -> tuple[int, ...]:
        """The tokens B_1 .. B_b."""
        return (2, 3, 4) if self.trained else tuple(range(self.a + 2, self.a + self.b + 2))

    @property
    def vocabulary(self) -> int:
        return self.matrix(EMBEDDING).height

    def matrix(self, name: str) -> Matrix:
        return self.file.matrices[name]

    def part(self, layer: int, name: str) -> Matrix:
        """The query, key, value or output matrix of layer 0 or 1."""
        return self.file.matrices[_part(layer, name)]

    def word(self, token: int) -> Vector:
        """The embedding of a token."""
        return self.matrix(EMBEDDING).row(token)

    def square_norm(self) -> Fraction:
        """Sum of the squares of all stored parameters, exact."""
        return sum((matrix.square_norm() for matrix in self.file.matrices.values()), Fraction(0))

    def turning(self, query: Vector, key: Vector) -> tuple[Turning, ...]:
        """What each turning pair adds to the score of these coordinates, pairs that add nothing included."""
        result = []
        spend(_UNITS_A_PAIR * len(self.frequencies))
        for f, frequency in enumerate(self.frequencies):
            (q_x, q_y), (k_x, k_y) = (_pair(vector, self.still + 2 * f) for vector in (query, key))
            result.append(Turning(frequency, q_x * k_x + q_y * k_y, q_x * k_y - q_y * k_x))
        return tuple(result)

    def still_product(self, query: Vector, key: Vector) -> Fraction:
        """What the still pairs add to the score of these coordinates."""
        return sum((x * key[index] for index, x in query.items() if index < self.still and index in key), Fraction(0))


def two_layer_model(file: WeightsFile) -> TwoLayerModel:
    """The model in a weights file.

    Raises:
        Rejected: its metadata or its tensors are not those of a two-layer copier.
    """
    metadata = require_fields(file.metadata, "metadata", _METADATA)
    require_choice(metadata["construction"], "metadata.construction", (CONSTRUCTION,))
    trained = require_choice(metadata["layout"], "metadata.layout", ("theory", "trained")) == "trained"
    require_rational(metadata["rho"], "metadata.rho")
    require_text(metadata["variant"], "metadata.variant")
    require_integer(metadata["length"], "metadata.length")
    a = require_integer(metadata["a"], "metadata.a", 2, LARGEST_SIZE)
    b = require_integer(metadata["b"], "metadata.b", 2, LARGEST_SIZE)
    if trained and (a, b) != (2, 3):
        raise Rejected("the trained layout has a = 2 and b = 3")
    frequencies = read_frequencies(metadata["frequencies"])
    row, column = frequencies.row, frequencies.column
    if any(_is_not_zero(frequency) for frequency in row):
        raise Rejected("a row frequency of a two-layer copier is not 0")
    sizes = read_sizes(metadata["config"], _FIXED)
    vocabulary = 5 if trained else a + b + 2
    if sizes["vocabulary_size"] != vocabulary:
        raise Rejected(f"config.vocabulary_size is {sizes['vocabulary_size']}, not {vocabulary}")
    if sizes["head_width"] != 2 * (len(row) + len(column)):
        raise Rejected(f"config.head_width is {sizes['head_width']}, not twice the number of frequencies")
    require_shapes(file, _shapes(sizes))
    spend_on_weights(file)
    return TwoLayerModel(file, trained, a, b, 2 * len(row), column)


def read_two_layer_model(directory: Path, inputs: object) -> TwoLayerModel:
    """The model that `inputs`, which is `{"weights": {...}}`, refers to.

    Raises:
        Rejected: the file, its metadata or its tensors are not those of a two-layer copier.
    """
    fields = require_fields(inputs, "inputs", ("weights",))
    return two_layer_model(read_weights_file(directory, fields["weights"]))


def _part(layer: int, name: str) -> str:
    return f"blocks.{layer}.attention.{name}.weight"


def _shapes(sizes: dict[str, int]) -> dict[str, tuple[int, int]]:
    model, head, value = sizes["model_width"], sizes["head_width"], sizes["value_width"]
    shapes = {EMBEDDING: (sizes["vocabulary_size"], model), READOUT: (2, model)}
    for layer in (0, 1):
        shapes[_part(layer, "query")] = shapes[_part(layer, "key")] = (head, model)
        shapes[_part(layer, "value")] = (value, model)
        shapes[_part(layer, "output")] = (model, value)
    return shapes


def _is_not_zero(frequency: Frequency) -> bool:
    return (frequency.value if isinstance(frequency, Turns) else frequency.base) != 0


def _pair(vector: Vector, x: int) -> tuple[Fraction, Fraction]:
    zero = Fraction(0)
    return vector.get(x, zero), vector.get(x + 1, zero)


def frequency_bits(frequency: Frequency) -> int:
    """Bits that the whole turns of a frequency may take."""
    if isinstance(frequency, Radians):
        return frequency.magnitude_bits()
    # Turns are reduced exactly.
    return 0
