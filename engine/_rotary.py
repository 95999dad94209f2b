"""RoPE phases: exact frequencies times integer positions, reduced in integers, cast last.

A phase formed in the model's dtype loses its meaning at a few hundred positions in bfloat16. Here a frequency is kept
as 96 bits of its fraction of a turn, in int64 buffers that `.to(dtype)` does not touch; the product with a position
below 2^31 is reduced modulo one turn in integers, to within 3 * 2^-62 turns, and only then becomes a float64 angle in
[-pi, pi).
"""

from __future__ import annotations

from math import pi

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from theory import Frequency, fixed_point_turns

_WORD = 32
_MASK = (1 << _WORD) - 1

#: Positions must be below this; the integer products would overflow.
LARGEST_POSITION = 2**31 - 1

#: Bound of the error of an angle in radians: integer reduction, then the two roundings of a float64 in [-pi, pi).
ANGLE_ERROR = 2 * pi * (3 * 2.0**-62) + 2 * pi * 2.0**-53


class RotaryPhases(nn.Module):
    """Angles of a list of exact frequencies (radians, float64)."""

    words: Tensor

    def __init__(self, frequencies: tuple[Frequency, ...]) -> None:
        super().__init__()
        self.frequencies = frequencies
        words = [[(f >> shift) & _MASK for shift in (2 * _WORD, _WORD, 0)] for f in map(_fraction_bits, frequencies)]
        self.register_buffer("words", torch.tensor(words, dtype=torch.int64).reshape(-1, 3), persistent=False)

    def angles(self, positions: Int64[Tensor, "*batch length"]) -> Float[Tensor, "*batch length pairs"]:
        """The angle of each frequency at each position, float64, in [-pi, pi), within ANGLE_ERROR.

        Precondition: 0 <= positions < 2^31.
        """
        t = positions.unsqueeze(-1)
        high, middle, low = self.words.unbind(-1)
        # In units of 2^-62 turns; each summand is below 2^62.
        units = ((t * high & _MASK) << 30) + ((t * middle) >> 2) + ((t * low) >> 34)
        units = (units + (1 << 61)) % (1 << 62) - (1 << 61)
        return units.to(torch.float64) * (2 * pi * 2.0**-62)

    def forward(
        self, positions: Int64[Tensor, "*batch length"], dtype: torch.dtype
    ) -> tuple[Float[Tensor, "*batch length pairs"], Float[Tensor, "*batch length pairs"]]:
        """Cosines and sines of the angles, formed in float64 and cast to `dtype`."""
        angles = self.angles(positions)
        return angles.cos().to(dtype), angles.sin().to(dtype)


def _fraction_bits(frequency: Frequency) -> int:
    return fixed_point_turns(frequency, 3 * _WORD) % (1 << 3 * _WORD)


def rotate(
    vectors: Float[Tensor, "*batch length width"],
    cosines: Float[Tensor, "*#batch length pairs"],
    sines: Float[Tensor, "*#batch length pairs"],
) -> Float[Tensor, "*batch length width"]:
    """Turn the coordinate pairs (2f, 2f+1) by the given angles: (x cos - y sin, x sin + y cos)."""
    x, y = vectors[..., 0::2], vectors[..., 1::2]
    return torch.stack((x * cosines - y * sines, x * sines + y * cosines), dim=-1).flatten(-2)
