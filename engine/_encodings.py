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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from flint import arb
from jaxtyping import Complex, Float, Int64, Shaped
from torch import Tensor, nn

from engine._rotary import RotaryPhases
from engine._scan import affine_scan
from theory import Frequency, GridFrequencies, InputError
from theory.numbers import require_at_least, total

#: cos + i sin of the angle of each coordinate pair at each token, the same for all sequences or not; or no turning.
Turns = Complex[Tensor, "one_or_batch block pairs"] | None

#: Frequencies of the pairs that turn with the row, and of those that turn with the column.
AxisFrequencies = tuple[tuple[Frequency, ...], tuple[Frequency, ...]]


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

    A new encoding is a subclass. To run it says `turns`, or has `slopes`; to be certified it says in its own class what
    its `axes` are: that its scores depend on the places as those frequencies and `slopes` have it is then its word.

    Attributes:
        slopes: for each head what its scores lose per position between query and key; empty where they lose nothing.
        learned: are the places learned from the layer's input?
        first_column: column of the very first token.
    """

    slopes: tuple[float, ...] = ()
    learned: bool = False
    first_column: int = 0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "axes" not in vars(cls):
            # What a class says of itself need not hold of one derived from it.
            cls.axes = _untold  # type: ignore[assignment, method-assign]

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

    def axes(self) -> AxisFrequencies:
        """The exact frequencies of the pairs that turn with the row, then of those that turn with the column.

        Without newlines that end a row (`row_ends`) the column is the index.

        Raises:
            InputError: a subclass that does not say, named.
        """
        return (), ()

    def row_ends(self, newline: int | None) -> frozenset[int]:
        """Tokens after which a row begins, of a model whose newline this is."""
        return frozenset()

    def row_starts(self, inputs: Mapping[int, Sequence[arb]], names: Sequence[str]) -> frozenset[int]:
        """Tokens that begin a row themselves; asked where places are learned.

        Args:
            inputs: by token what `locate` reads of it, balls at the working precision.
            names: of the tokens, for messages.

        Raises:
            InputError: the token of which that is not certain, named; or an encoding that does not say.
        """
        raise InputError("encoding", type(self).__name__, "one that says which tokens start a row")

    def spelled(self) -> dict[str, Any]:
        """The fields of a weights file that are the encoding's, exact (see docs/certificates.md)."""
        row, column = ([frequency.spelled() for frequency in axis] for axis in self.axes())
        slopes = [str(Fraction(slope)) for slope in self.slopes]
        return {"gated": self.learned, "slopes": slopes, "row": row, "column": column}

    def spelled_tensors(self) -> dict[str, Tensor]:
        """The tensors of a weights file that are the encoding's: matrices."""
        return {}


def _untold(encoding: Encoding) -> AxisFrequencies:
    allowed = "nope, alibi, rope, rope2d, auto2d, or a class that says its own axes"
    raise InputError("encoding", type(encoding).__name__, allowed)


class RoPE(Encoding):
    """Pair f is turned by `frequencies[f]` times the index."""

    def __init__(self, frequencies: tuple[Frequency, ...]) -> None:
        super().__init__()
        self.phases = RotaryPhases(frequencies)

    def turns(self, places: Places, dtype: torch.dtype) -> Turns:
        """See `Encoding.turns`; the same for all sequences of a batch."""
        turns: Tensor = self.phases(places.indices(), dtype)
        return turns

    def axes(self) -> AxisFrequencies:
        """See `Encoding.axes`."""
        return (), self.phases.frequencies


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

    def axes(self) -> AxisFrequencies:
        """See `Encoding.axes`."""
        return self.row.frequencies, self.column.frequencies

    def row_ends(self, newline: int | None) -> frozenset[int]:
        """See `Encoding.row_ends`: the newline."""
        return frozenset() if newline is None else frozenset({newline})


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
    first_column = 1

    def __init__(self, frequencies: GridFrequencies, model_width: int) -> None:
        super().__init__(frequencies)
        self.gate = nn.Linear(model_width, 1)
        nn.init.constant_(self.gate.bias, self.BIAS)

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

    def axes(self) -> AxisFrequencies:
        """See `Encoding.axes`: at places that are whole numbers, as they are where all gates are saturated."""
        return super().axes()

    def row_ends(self, newline: int | None) -> frozenset[int]:
        """See `Encoding.row_ends`: none, whatever the newline is."""
        return frozenset()

    def row_starts(self, inputs: Mapping[int, Sequence[arb]], names: Sequence[str]) -> frozenset[int]:
        """See `Encoding.row_starts`: tokens whose gate is exactly 0, all others' being exactly 1."""
        weights, bias = self.gate.weight.detach().double()[0].tolist(), arb(float(self.gate.bias.detach()))
        starts = set()
        for token, x in inputs.items():
            height = bias + total(arb(weight) * entry for weight, entry in zip(weights, x, strict=True))
            if height <= -3:
                starts.add(token)
            elif not height >= 3:
                allowed = "at most -3 or at least 3 before the hard sigmoid: only then are positions whole numbers"
                raise InputError(f"gate of token {names[token]}", f"{float(height.mid()):.4g}", allowed)
        return frozenset(starts)

    def spelled_tensors(self) -> dict[str, Tensor]:
        """See `Encoding.spelled_tensors`: the gate's."""
        return {"gate": self.gate.weight, "gate_bias": self.gate.bias.unsqueeze(0)}


class ALiBi(Encoding):
    """Scores lose `slopes[h]` for each position between query and key."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.slopes = alibi_slopes(heads)

    def axes(self) -> AxisFrequencies:
        """See `Encoding.axes`: nothing turns."""
        return (), ()


def alibi_slopes(heads: int) -> tuple[float, ...]:
    """2^(-8 h/n), h = 1..n, for a power of two n; else those of the next smaller power p, then every other one of 2p.

    Source: Press, Smith and Lewis, "Train Short, Test Long" (2021), and their published rule for other numbers.
    """
    require_at_least("heads", heads, 1)
    power = 1 << (heads.bit_length() - 1)
    slopes = tuple(2.0 ** (-8 * h / power) for h in range(1, power + 1))
    return slopes if power == heads else slopes + alibi_slopes(2 * power)[0::2][: heads - power]
