"""Positional encodings: what one attention layer knows of where its tokens stand.

With q, k the query and key of a head at tokens t and s, and R(angles) the rotation of coordinate pairs (2f, 2f+1):

==========  =====================================================================  ===================================
name        score of token s seen from token t (before the factor 1/sqrt(width))   source
==========  =====================================================================  ===================================
nope        q.k
alibi       q.k, and after the factor minus m_h (t - s)                            Press et al. 2021
rope        R(beta t) q . R(beta s) k, beta_f = base^(-f/pairs)                    Su et al. 2024
rope2d      the same with row(t) for half of the pairs and column(t) for the rest  paper, sections 4.1, 4.2, D.1
auto2d      as rope2d; rows and columns come from the tokens by learned gates      reconstructed (paper, 4.3 and F)
rnope       rope and nope layers in turn                                           Yang et al. 2025b
hrope       rope and rope2d layers in turn                                         paper, section 5.3
==========  =====================================================================  ===================================
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Complex, Float, Int64, Shaped
from torch import Tensor, nn

from engine._rotary import RotaryPhases
from engine._scan import affine_scan
from theory import Frequency, GridFrequencies
from theory.numbers import require_at_least

#: cos + i sin of the angle of each coordinate pair at each token, the same for all sequences or not; or no turning.
Turns = Complex[Tensor, "one_or_batch block pairs"] | None


@dataclass
class Places:
    """Where the tokens of a block stand.

    Attributes:
        start: index of the first token.
        rows, columns: of each token; int64 by newlines, float64 where a layer learned them.
        bound: a number above all rows and columns, if one is known: tables of phases need one.
    """

    start: int
    rows: Shaped[Tensor, "batch block"]
    columns: Shaped[Tensor, "batch block"]
    bound: int | None = None

    @property
    def stop(self) -> int:
        """One more than the index of the last token."""
        return self.start + self.rows.shape[-1]

    def indices(self) -> Int64[Tensor, "1 block"]:
        """The tokens' indices."""
        return torch.arange(self.start, self.stop, device=self.rows.device)[None]

    def part(self, tokens: slice) -> Places:
        """The places of a slice of the block's tokens; the slice has a start."""
        return Places(self.start + tokens.start, self.rows[:, tokens], self.columns[:, tokens], self.bound)


def places_of(tokens: Int64[Tensor, "batch block"], newline: int | None, first: Places | None = None) -> Places:
    """Rows and columns of a block of tokens by newlines, as in `theory.grid_positions`: a newline ends its own row.

    Args:
        tokens: the block.
        newline: the token that ends a row, or None.
        first: the place of the block's first token; None stands for the very first place.
    """
    if first is None:
        first = Places(0, *torch.zeros(2, tokens.shape[0], 1, dtype=torch.int64, device=tokens.device))
    index = torch.arange(tokens.shape[1], device=tokens.device)
    ends = _ends(tokens, newline)
    last = torch.where(ends > 0, index, -1).cummax(-1).values
    before = torch.cat([torch.full_like(last[:, :1], -1), last[:, :-1]], dim=-1)
    columns = index - 1 - before + torch.where(before < 0, first.columns, 0)
    stop = first.start + tokens.shape[1]
    return Places(first.start, first.rows + ends.cumsum(-1) - ends, columns, bound=stop)


def place_after(tokens: Int64[Tensor, "batch block"], newline: int | None, places: Places) -> Places:
    """The place of the one token that comes after a block with these places by newlines."""
    ends = _ends(tokens[:, -1:], newline)
    return Places(places.stop, places.rows[:, -1:] + ends, (1 - ends) * (places.columns[:, -1:] + 1))


def _ends(tokens: Int64[Tensor, "batch block"], newline: int | None) -> Int64[Tensor, "batch block"]:
    return torch.zeros_like(tokens) if newline is None else (tokens == newline).long()


class Encoding(nn.Module):
    """One layer's positional encoding; this one, `nope`, has no effect.

    Attributes:
        slopes: for each head what its scores lose per position between query and key; empty where they lose nothing.
        learned: are the places learned from the layer's input?
    """

    slopes: tuple[float, ...] = ()
    learned: bool = False

    def locate(self, x: Float[Tensor, "batch block model_width"], given: Places, before: Places | None) -> Places:
        """The places that this layer goes by: the given ones, unless it learns them from its input `x`.

        Args:
            x: the input of the attention layer, after its norm.
            given: places by newlines.
            before: what this layer located for the block before; None at index 0.
        """
        return given

    def turns(self, places: Places, dtype: torch.dtype) -> Turns:
        """By what queries and keys at these places are turned, complex128 for float64 and complex64 otherwise."""
        return None


class RoPE(Encoding):
    """Pair f is turned by `frequencies[f]` times the index."""

    def __init__(self, frequencies: tuple[Frequency, ...]) -> None:
        super().__init__()
        self.phases = RotaryPhases(frequencies)

    def turns(self, places: Places, dtype: torch.dtype) -> Turns:
        """See `Encoding.turns`; the same for all sequences of a batch."""
        turns: Tensor = self.phases(places.indices(), dtype)
        return turns


class GridRoPE(Encoding):
    """2D-RoPE: the first pairs are turned by row frequencies times the row, the rest by column times column."""

    def __init__(self, frequencies: GridFrequencies) -> None:
        super().__init__()
        self.row, self.column = RotaryPhases(frequencies.row), RotaryPhases(frequencies.column)

    def turns(self, places: Places, dtype: torch.dtype) -> Turns:
        """See `Encoding.turns`."""
        row, column = (
            phases(positions, dtype, places.bound)
            for phases, positions in ((self.row, places.rows), (self.column, places.columns))
        )
        return torch.cat([row, column], dim=-1)


class AutoGridRoPE(GridRoPE):
    """Auto-2D-RoPE: 2D-RoPE at learned places. Label: reconstructed; the paper's appendix F is not in our text.

    With `g_t = hardsigmoid(w . x_t + bias) = clamp(w . x_t / 6 + bias / 6 + 1/2, 0, 1)` of the layer's input x_t:

        column_t = g_t (column_{t-1} + 1),    row_t = row_{t-1} + (1 - g_t),    column_{-1} = row_{-1} = 0.

    A gate of 1 moves one column on, a gate of 0 starts a row at its own token. Saturated gates give whole numbers,
    exact up to 2^53: gates are formed in float32 at least, places in float64.
    """

    #: Bias of the gate at the start: gates near 0.75. With 2.7, near saturation, two of four seeds failed, one with all
    #: gates at 1 and no gradient left before attention used positions; with 1.5 none of the same seeds lost it.
    BIAS = 1.5
    learned = True

    def __init__(self, frequencies: GridFrequencies, model_width: int) -> None:
        super().__init__(frequencies)
        self.gate = nn.Linear(model_width, 1)

    def gates(self, x: Float[Tensor, "batch block model_width"]) -> Float[Tensor, "batch block"]:
        """The gate of each token, float32 at least."""
        with torch.autocast(x.device.type, enabled=False):
            dtype = torch.promote_types(x.dtype, torch.float32)
            weight, bias = self.gate.weight.to(dtype), self.gate.bias.to(dtype)
            logits = nn.functional.linear(x.to(dtype), weight, bias).squeeze(-1)
        # Not torch's hardsigmoid: its gradient is 1/6 rounded to float32 even in float64.
        return (logits / 6 + 0.5).clamp(0, 1)

    def locate(self, x: Float[Tensor, "batch block model_width"], given: Places, before: Places | None) -> Places:
        """See `Encoding.locate`: rows and columns by a sum and a scan over the gates, float64."""
        gates = self.gates(x).double()
        rows, columns, offsets = (1 - gates).cumsum(-1), gates, gates
        if before is not None:
            rows = rows + before.rows[:, -1:]
            first = gates[:, :1] * (before.columns[:, -1:] + 1)
            offsets = torch.cat([first, gates[:, 1:]], dim=-1)
        columns = affine_scan(gates, offsets)
        return Places(given.start, rows, columns)


class ALiBi(Encoding):
    """Scores lose `slopes[h]` for each position between query and key."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.slopes = alibi_slopes(heads)


def alibi_slopes(heads: int) -> tuple[float, ...]:
    """2^(-8 h/n), h = 1..n, for a power of two n; else those of the next smaller power p, then every other one of 2p.

    Source: Press, Smith and Lewis, "Train Short, Test Long" (2021), and their published rule for other numbers.
    """
    require_at_least("heads", heads, 1)
    power = 1 << (heads.bit_length() - 1)
    slopes = tuple(2.0 ** (-8 * h / power) for h in range(1, power + 1))
    return slopes if power == heads else slopes + alibi_slopes(2 * power)[0::2][: heads - power]
