"""Stored binary weights as exact rationals."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from theory import InputError

#: Largest width of the residual stream; matrices of its square are built, 128 MiB each.
LARGEST_WIDTH = 4096

Row = list[Fraction]

#: Formats whose numbers are all float64 numbers too.
EXACT = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def exact_floats(weights: Tensor) -> Any:
    """The entries as nested lists of Python floats, each the stored number itself.

    Raises:
        InputError: another format, whose numbers a float need not hold.
    """
    if weights.dtype not in EXACT:
        raise InputError("weights", str(weights.dtype), "float64, float32, bfloat16 or float16")
    return weights.detach().double().tolist()


def require_buildable(argument: str, value: int, width: int) -> None:
    """InputError for `argument` if a model of this width is more than is built."""
    if width > LARGEST_WIDTH:
        raise InputError(argument, value, f"small enough for a model of width {LARGEST_WIDTH}, not {width}")


def exact_matrix(weights: Tensor) -> list[Row]:
    """The entries of a matrix as rationals."""
    return [[Fraction(entry) for entry in row] for row in exact_floats(weights)]


def exact_product(matrix: Tensor, vector: Row) -> Row:
    """Matrix times vector in exact arithmetic. Cost: nonzero entries of the vector times rows."""
    columns = {index: entry for index, entry in enumerate(vector) if entry}
    picked = exact_floats(matrix[:, list(columns)])
    return [
        sum((Fraction(w) * x for w, x in zip(row, columns.values(), strict=True) if w), Fraction(0)) for row in picked
    ]


def exact_square_norm(parameters: Iterable[Tensor]) -> Fraction:
    """Sum of the squares of all entries, exact."""
    nonzero = (entry for tensor in parameters for entry in exact_floats(tensor[tensor != 0]))
    return sum((Fraction(entry) ** 2 for entry in nonzero), Fraction(0))
