"""Stored binary weights as exact rationals."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from torch import Tensor

from theory import InputError

#: Largest width of the residual stream; matrices of its square are built, 128 MiB each.
LARGEST_WIDTH = 4096

Row = list[Fraction]


def require_buildable(argument: str, value: int, width: int) -> None:
    """InputError for `argument` if a model of this width is more than is built."""
    if width > LARGEST_WIDTH:
        raise InputError(argument, value, f"small enough for a model of width {LARGEST_WIDTH}, not {width}")


def exact_matrix(weights: Tensor) -> list[Row]:
    """The entries of a matrix as rationals; exact for float64, float32 and bfloat16."""
    return [[Fraction(entry) for entry in row] for row in weights.double().tolist()]


def exact_product(matrix: Tensor, vector: Row) -> Row:
    """Matrix times vector in exact arithmetic. Cost: nonzero entries of the vector times rows."""
    columns = {index: entry for index, entry in enumerate(vector) if entry}
    picked = matrix[:, list(columns)].double().tolist()
    return [
        sum((Fraction(w) * x for w, x in zip(row, columns.values(), strict=True) if w), Fraction(0)) for row in picked
    ]


def exact_square_norm(parameters: Iterable[Tensor]) -> Fraction:
    """Sum of the squares of all entries, exact."""
    nonzero = (entry for tensor in parameters for entry in tensor[tensor != 0].double().tolist())
    return sum((Fraction(entry) ** 2 for entry in nonzero), Fraction(0))
