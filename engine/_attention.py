"""Multi-head causal attention: fused over whole sequences, or in blocks of keys and queries for any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from engine._encodings import Encoding, Places, Turns
from engine._rotary import rotate

#: RMSNorm of each head's output without gain (True), division by its Euclidean norm ("unit"), or neither (False).
SubNorm = bool | Literal["unit"]


@dataclass
class KeysValues:
    """Turned keys and values of a block of tokens, and the index of its first token."""

    start: int
    keys: Float[Tensor, "batch heads block head_width"]
    values: Float[Tensor, "batch heads block value_width"]

    def blocks(self, size: int) -> Iterator[KeysValues]:
        """The same in blocks of `size` tokens, views."""
        for first in range(0, self.keys.shape[2], size):
            part = slice(first, first + size)
            yield KeysValues(self.start + first, self.keys[:, :, part], self.values[:, :, part])


class OnlineSoftmax:
    """Softmax-weighted sum of values over blocks of keys, with a running maximum (in at least float32)."""

    def __init__(self, queries: Float[Tensor, "batch heads queries head_width"], value_width: int) -> None:
        self.queries = queries
        self.dtype = torch.promote_types(queries.dtype, torch.float32)
        shape = queries.shape[:-1]
        self.maximum = torch.full(shape, -torch.inf, dtype=self.dtype, device=queries.device)
        self.total = torch.zeros(shape, dtype=self.dtype, device=queries.device)
        self.sum = torch.zeros((*shape, value_width), dtype=self.dtype, device=queries.device)

    def add(self, block: KeysValues, first_query: int, score_scale: float, slopes: tuple[float, ...] = ()) -> None:
        """Take in a block of keys; query number j of this batch stands at index first_query + j and sees keys up to
        it.
        """
        scores = (self.queries @ block.keys.transpose(-1, -2)).to(self.dtype)
        if score_scale != 1:
            scores *= score_scale
        if slopes:
            scores += distance_bias(slopes, scores, first_query, block.start)
        last_key = block.start + scores.shape[-1] - 1
        if last_key > first_query:
            scores.masked_fill_(_distances(scores, first_query, block.start) < 0, -torch.inf)
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


def _distances(scores: Tensor, first_query: int, first_key: int) -> Tensor:
    """Index of the query minus index of the key, int64 [queries, keys]."""
    queries = torch.arange(first_query, first_query + scores.shape[-2], device=scores.device)
    keys = torch.arange(first_key, first_key + scores.shape[-1], device=scores.device)
    return queries[:, None] - keys[None, :]


def distance_bias(
    slopes: tuple[float, ...], scores: Float[Tensor, "*batch queries keys"], first_query: int, first_key: int
) -> Float[Tensor, "heads queries keys"]:
    """ALiBi's `-slope * (query - key)` in the dtype of the scores; the distances are exact below 2^24."""
    slope = torch.tensor(slopes, dtype=scores.dtype, device=scores.device)
    return slope[:, None, None] * -_distances(scores, first_query, first_key).to(scores.dtype)


class Attention(nn.Module):
    """One attention layer: queries and keys turned as the positional encoding says, values, output map.

    Parameters: `query`, `key` [heads head_width, model_width], `value` [heads value_width, model_width], `output`
    [model_width, heads value_width], no biases; and those of the encoding, if it has any.

    Args:
        model_width: width of the residual stream.
        heads: number of heads.
        head_width: query and key coordinates of a head, two for each pair that the encoding turns.
        value_width: width of a head's values.
        encoding: the positional encoding, shared by the heads.
        score_scale: factor on the scores (1 in the theorems, 1/sqrt(head_width) in trained models).
        sub_norm: divide each head's output before the output map by its root mean square (True) or by its Euclidean
            norm ("unit"); epsilon 0, a zero vector is kept zero.
    """

    def __init__(
        self,
        model_width: int,
        heads: int,
        head_width: int,
        value_width: int,
        encoding: Encoding,
        *,
        score_scale: float = 1.0,
        sub_norm: SubNorm = False,
    ) -> None:
        super().__init__()
        self.heads, self.value_width, self.score_scale, self.sub_norm = heads, value_width, score_scale, sub_norm
        self.encoding = encoding
        self.query = nn.Linear(model_width, heads * head_width, bias=False)
        self.key = nn.Linear(model_width, heads * head_width, bias=False)
        self.value = nn.Linear(model_width, heads * value_width, bias=False)
        self.output = nn.Linear(heads * value_width, model_width, bias=False)

    def forward(
        self, x: Float[Tensor, "batch length model_width"], places: Places
    ) -> Float[Tensor, "batch length model_width"]:
        """Output of the layer for whole sequences, through torch's fused kernels; differentiable.

        Cost: O(length^2) time; O(length) memory where the kernels and the encoding allow, ALiBi's bias is O(length^2).
        """
        turns = self.encoding.turns(places, x.dtype)
        # One product for all three is faster than three, forwards and backwards.
        maps = (self.query.weight, self.key.weight, self.value.weight)
        parts = linear(x, torch.cat(maps)).split([len(weight) for weight in maps], dim=-1)  # type: ignore[no-untyped-call]
        queries, keys = self._turned(parts[0], turns), self._turned(parts[1], turns)
        values = self._split(parts[2]).transpose(1, 2)
        bias = self._causal_bias(queries) if self.encoding.slopes else None
        heads = scaled_dot_product_attention(
            queries, keys, values, attn_mask=bias, is_causal=bias is None, scale=self.score_scale
        )
        return self._joined(heads)

    def weights(
        self, x: Float[Tensor, "batch length model_width"], places: Places
    ) -> Float[Tensor, "batch heads length length"]:
        """The attention weights: [.., t, s] is what token t gives to token s <= t. Cost: O(length^2) memory."""
        turns = self.encoding.turns(places, x.dtype)
        queries, keys = self.queries(x, turns), self.keys_values(x, 0, turns).keys
        scores = queries @ keys.transpose(-1, -2) * self.score_scale
        return (scores + self._causal_bias(queries)).softmax(-1)

    def keys_values(self, x: Float[Tensor, "batch block model_width"], start: int, turns: Turns) -> KeysValues:
        """Turned keys and values of a block of tokens that begins at index `start`."""
        return KeysValues(start, self._turned(self.key(x), turns), self._split(self.value(x)).transpose(1, 2))

    def queries(
        self, x: Float[Tensor, "batch block model_width"], turns: Turns
    ) -> Float[Tensor, "batch heads block head_width"]:
        """Turned queries of a block of tokens."""
        return self._turned(self.query(x), turns)

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
                softmax.add(block, first_query, self.score_scale, self.encoding.slopes)
        return self._joined(softmax.result())

    def _causal_bias(
        self, queries: Float[Tensor, "batch heads length head_width"]
    ) -> Float[Tensor, "one_or_heads length length"]:
        """-inf above the diagonal, and below it ALiBi's bias or 0."""
        length = queries.shape[2]
        zeros = queries.new_zeros(1, length, length)
        bias = distance_bias(self.encoding.slopes, zeros, 0, 0) if self.encoding.slopes else zeros
        return bias.masked_fill(_distances(zeros, 0, 0) < 0, -torch.inf)

    def _joined(
        self, heads: Float[Tensor, "batch heads length value_width"]
    ) -> Float[Tensor, "batch length model_width"]:
        if self.sub_norm:
            heads = _normalised(heads, self.sub_norm)
        out: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return out

    def _split(self, x: Float[Tensor, "batch block width"]) -> Float[Tensor, "batch block heads head"]:
        return x.reshape(*x.shape[:-1], self.heads, -1)

    def _turned(self, x: Float[Tensor, "batch block width"], turns: Turns) -> Float[Tensor, "batch heads block head"]:
        heads = self._split(x)
        return (heads if turns is None else rotate(heads, turns.unsqueeze(2))).transpose(1, 2)


def _normalised(x: Float[Tensor, "*batch width"], sub_norm: SubNorm) -> Float[Tensor, "*batch width"]:
    squares = x.square()
    size = squares.sum(-1, keepdim=True) if sub_norm == "unit" else squares.mean(-1, keepdim=True)
    return torch.where(size == 0, x, x * size.rsqrt())
