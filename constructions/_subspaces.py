"""Named directions of a vector space, so that weights are written as maps between names and not as index arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor


@dataclass(frozen=True)
class Space:
    """A coordinate space of given width whose first directions carry names; the rest is unused.

    Attributes:
        names: the named directions, in coordinate order.
        width: number of coordinates, at least the number of names.
    """

    names: tuple[str, ...]
    width: int

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names) or len(self.names) > self.width:
            raise ValueError(f"{len(self.names)} distinct names do not fit a space of width {self.width}")

    def index(self, name: str) -> int:
        """The coordinate of a named direction."""
        return self.names.index(name)

    def vector(self, coefficients: Mapping[str, float]) -> Float64[Tensor, " width"]:
        """The vector with the given coefficients, 0 elsewhere."""
        vector = torch.zeros(self.width, dtype=torch.float64)
        for name, coefficient in coefficients.items():
            vector[self.index(name)] = coefficient
        return vector


def linear_map(
    source: Space, target: Space, images: Mapping[str, Mapping[str, float]]
) -> Float64[Tensor, "target source"]:
    """The matrix that sends each named source direction to the given combination of target directions, and all else
    to 0.
    """
    matrix = torch.zeros(target.width, source.width, dtype=torch.float64)
    for name, image in images.items():
        matrix[:, source.index(name)] = target.vector(image)
    return matrix


def rotary_pairs(row: int, column: int) -> Space:
    """The query and key space of a 2D-RoPE head: coordinates x and y of each row pair, then of each column pair."""
    names = [*_pairs("row", range(row)), *_pairs("column", range(column))]
    return Space(tuple(names), len(names))


def _pairs(axis: str, numbers: Iterable[int]) -> list[str]:
    return [f"{axis} {number} {coordinate}" for number in numbers for coordinate in "xy"]
