"""Multi-head causal attention with rotary positions, in blocks of keys and queries, for inputs of any length."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from engine._rotary import RotaryPhases, rotate
from theory import GridFrequencies

#: RMSNorm of each head's output without gain (True), division by its Euclidean norm ("unit"), or neither (False).
SubNorm = bool | Literal["unit"]

#: (rows, columns) of a batch of tokens; for shift positions the rows are 0 and the columns the indices.
Positions = tuple[Tensor, Tensor]


@dataclass
class KeysValues:
    """Rotated keys and values of a block of tokens, and the index of its first token."""

    start: int
    keys: Float[Tensor, "batch heads block head_width"]
    values: Float[Tensor, "batch heads block value_width"]


class OnlineSoftmax:
    """Softmax-weighted sum of values over blocks of keys, with a running maximum (in at least float32)."""

    def __init__(self, queries: Float[Tensor, "batch heads queries head_width"], value_width: int) -> None:
        self.queries = queries
        self.dtype = torch.promote_types(queries.dtype, torch.float32)
        shape = queries.shape[:-1]
        self.maximum = torch.full(shape, -torch.inf, dtype=self.dtype, device=queries.device)
        self.total = torch.zeros(shape, dtype=self.dtype, device=queries.device)
        self.sum = torch.zeros((*shape, value_width), dtype=self.dtype, device=queries.device)

    def add(self, block: KeysValues, first_query: int, score_scale: float) -> None:
        """Take in a block of keys; query number j of this batch stands at index first_query + j and sees keys up to
        it.
        """
        scores = (self.queries @ block.keys.transpose(-1, -2)).to(self.dtype)
        if score_scale != 1:
            scores *= score_scale
        last_key = block.start + scores.shape[-1] - 1
        if last_key > first_query:
            queries = torch.arange(first_query, first_query + scores.shape[-2], device=scores.device)
            keys = torch.arange(block.start, last_key + 1, device=scores.device)
            scores.masked_fill_(keys[None, :] > queries[:, None], -torch.inf)
        maximum = torch.maximum(self.maximum, scores.amax(-1))
        # A query that has seen no key yet keeps the maximum -inf; 0 stands in for it, so that no nan arises.
        finite = torch.where(maximum == -torch.inf, 0.0, maximum)
        scores.sub_(finite.unsqueeze(-1)).exp_()
        decay = (self.maximum - finite).exp()
        self.total = self.total * decay + scores.sum(-1)
        self.sum = self.sum * decay.unsqueeze(-1) + scores @ block.values.to(self.dtype)
        self.maximum = maximum

    def result(self) -> Float[Tensor, "batch heads queries value_width"]:
        """The weighted mean of the values seen, in the dtype of the queries."""
        return (self.sum / self.total.unsqueeze(-1)).to(self.queries.dtype)


class Attention(nn.Module):
    """One attention layer: queries and keys turned by 2D-RoPE (row pairs first, then column pairs), values, output map.

    A head has `2 (rows + columns)` coordinates, pair f being coordinates (2f, 2f+1). Parameters: `query`, `key` [heads
    head_width, model_width], `value` [heads value_width, model_width], `output` [model_width, heads value_width], no
    biases.

    Args:
        model_width: width of the residual stream.
        heads: number of heads.
        value_width: width of a head's values.
        frequencies: row and column frequencies, shared by the heads.
        score_scale: factor on the scores (1 in the theorems, 1/sqrt(head_width) in trained models).
        sub_norm: divide each head's output before the output map by its root mean square (True) or by its Euclidean
            norm ("unit"); epsilon 0, a zero vector is kept zero.
    """

    def __init__(
        self,
        model_width: int,
        heads: int,
        value_width: int,
        frequencies: GridFrequencies,
        *,
        score_scale: float = 1.0,
        sub_norm: SubNorm = False,
    ) -> None:
        super().__init__()
        self.heads, self.value_width, self.score_scale, self.sub_norm = (
            heads,
            value_width,
            score_scale,
            sub_norm,
        )
        self.row_phases = RotaryPhases(frequencies.row)
        self.column_phases = RotaryPhases(frequencies.column)
        width = heads * frequencies.head_width
        self.query = nn.Linear(model_width, width, bias=False)
        self.key = nn.Linear(model_width, width, bias=False)
        self.value = nn.Linear(model_width, heads * value_width, bias=False)
        self.output = nn.Linear(heads * value_width, model_width, bias=False)

    def keys_values(self, x: Float[Tensor, "batch block model_width"], positions: Positions, start: int) -> KeysValues:
        """Rotated keys and values of a block of tokens that begins at index `start`."""
        return KeysValues(start, self._rotated(self.key(x), positions), self._split(self.value(x)))

    def queries(
        self, x: Float[Tensor, "batch block model_width"], positions: Positions
    ) -> Float[Tensor, "batch heads block head_width"]:
        """Rotated queries of a block of tokens."""
        return self._rotated(self.query(x), positions)

    def attend(
        self,
        queries: Float[Tensor, "batch heads queries head_width"],
        blocks: Iterable[KeysValues],
        first_query: int,
    ) -> Float[Tensor, "batch queries model_width"]:
        """Output of the layer for consecutive queries, the first of them at index `first_query`.

        Cost: O(queries keys).
        """
        softmax = OnlineSoftmax(queries, self.value_width)
        last_query = first_query + queries.shape[-2] - 1
        for block in blocks:
            if block.start <= last_query:
                softmax.add(block, first_query, self.score_scale)
        heads = softmax.result()
        if self.sub_norm:
            heads = _normalised(heads, self.sub_norm)
        out: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return out

    def _split(self, x: Float[Tensor, "batch block width"]) -> Float[Tensor, "batch heads block head"]:
        return x.reshape(*x.shape[:-1], self.heads, -1).transpose(1, 2)

    def _rotated(
        self, x: Float[Tensor, "batch block width"], positions: Positions
    ) -> Float[Tensor, "batch heads block head"]:
        row, column = (
            phases(p, x.dtype) for phases, p in zip((self.row_phases, self.column_phases), positions, strict=True)
        )
        cosines, sines = (torch.cat(parts, dim=-1).unsqueeze(1) for parts in zip(row, column, strict=True))
        return rotate(self._split(x), cosines, sines)


def _normalised(x: Float[Tensor, "*batch width"], sub_norm: SubNorm) -> Float[Tensor, "*batch width"]:
    squares = x.square()
    size = squares.sum(-1, keepdim=True) if sub_norm == "unit" else squares.mean(-1, keepdim=True)
    return torch.where(size == 0, x, x * size.rsqrt())


def part_of(positions: Positions, part: slice) -> Positions:
    """The positions of the tokens in a slice."""
    return positions[0][:, part], positions[1][:, part]
