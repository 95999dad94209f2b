"""RoPE phases: exact frequencies times positions, reduced to one turn, cast last.

A phase formed in the model's dtype loses its meaning at a few hundred positions in bfloat16. Here a frequency is kept
as 96 bits of its fraction of a turn, in int64 buffers that `.to(dtype)` does not touch; the product with a whole
position below 2^31 is reduced modulo one turn in integers, to within 3 * 2^-62 turns, and only then becomes a float64
angle in [-pi, pi). Learned positions need not be whole: they are float64, and so is their product with the frequency.
"""

from __future__ import annotations

from math import pi

import torch
from jaxtyping import Complex, Float, Float64, Int64, Shaped
from torch import Tensor, nn

from theory import Frequency
from theory.numbers import fixed_point_turns

_WORD = 32
_MASK = (1 << _WORD) - 1

#: Whole positions must be below this; the integer products would overflow.
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

    def angles(self, positions: Int64[Tensor, "*batch length"]) -> Float64[Tensor, "*batch length pairs"]:
        """The angle of each frequency at each position, in [-pi, pi), within ANGLE_ERROR.

        Precondition: 0 <= positions < 2^31.
        """
        t = positions.unsqueeze(-1)
        high, middle, low = self.words.unbind(-1)
        # In units of 2^-62 turns; each summand is below 2^62.
        units = ((t * high & _MASK) << 30) + ((t * middle) >> 2) + ((t * low) >> 34)
        units = (units + (1 << 61)) % (1 << 62) - (1 << 61)
        return units.to(torch.float64) * (2 * pi * 2.0**-62)

    def angles_between(self, positions: Float64[Tensor, "*batch length"]) -> Float64[Tensor, "*batch length pairs"]:
        """The angles at positions that need not be whole, in [-pi, pi]; differentiable.

        Precondition: the frequencies are below one turn per position, since their whole turns are not kept. The error
        is at most 4 pi * 2^-53 (1 + position) radians: frequency, product and reduction in float64.
        """
        high, middle, low = self.words.double().unbind(-1)
        frequencies = (high + (middle + low * 2.0**-_WORD) * 2.0**-_WORD) * 2.0**-_WORD
        turns = positions.unsqueeze(-1) * frequencies
        return (turns - turns.detach().round()) * (2 * pi)

    def forward(
        self, positions: Shaped[Tensor, "*batch length"], dtype: torch.dtype, bound: int | None = None
    ) -> Complex[Tensor, "*batch length pairs"]:
        """cos + i sin of the angles, formed in float64 and cast to the complex type of `dtype` (complex64 at least).

        Args:
            positions: int64 in [0, bound), or float64.
            dtype: of the vectors to turn.
            bound: with more positions than this, a table of `bound` angles is made and looked up in.
        """
        if positions.is_floating_point():
            return unit_circle(self.angles_between(positions), dtype)
        if bound is None or positions.numel() <= bound:
            return unit_circle(self.angles(positions), dtype)
        table = unit_circle(self.angles(torch.arange(bound, device=positions.device)), dtype)
        return table[positions]


def unit_circle(angles: Float64[Tensor, "*shape"], dtype: torch.dtype) -> Complex[Tensor, "*shape"]:
    """cos + i sin, complex128 for float64 and complex64 for all smaller types."""
    real = torch.float64 if dtype == torch.float64 else torch.float32
    return torch.complex(angles.cos().to(real), angles.sin().to(real))


def _fraction_bits(frequency: Frequency) -> int:
    return fixed_point_turns(frequency, 3 * _WORD) % (1 << 3 * _WORD)


def rotate(
    vectors: Float[Tensor, "*batch width"], turns: Complex[Tensor, "*#batch pairs"]
) -> Float[Tensor, "*batch width"]:
    """Turn the coordinate pairs (2f, 2f+1), read as x + i y, by cos + i sin: (x cos - y sin, x sin + y cos).

    In complex64 at least: a bfloat16 vector is turned in float32 and rounded once.
    """
    pairs = vectors.to(turns.real.dtype).reshape(*vectors.shape[:-1], -1, 2)
    if any(stride % 2 for stride in pairs.stride()[:-1]):
        pairs = pairs.clone(memory_format=torch.contiguous_format)  # complex views ask for even strides
    return torch.view_as_real(torch.view_as_complex(pairs) * turns).flatten(-2).to(vectors.dtype)
