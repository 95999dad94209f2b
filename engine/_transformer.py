"""The transformer that the constructions are loaded into, and that trained models share.

Per layer `x <- x + attention(norm(x))` with a residual, `x <- attention(norm(x))` without; then `logits =
readout(norm(x))`. The norms are RMSNorms with a gain and are each optional. Attention only: no MLP, no biases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from engine._attention import Attention, KeysValues, Positions, SubNorm, part_of
from theory import GridFrequencies, InputError, grid_positions, shift_positions

#: Tokens in a block of queries and in a block of keys; score blocks of float64 stay at 32 MiB a head and sequence.
QUERY_BLOCK, KEY_BLOCK = 512, 8192


@dataclass(frozen=True)
class TransformerConfig:
    """Shape of a transformer.

    Attributes:
        vocabulary_size: number of tokens.
        model_width: width of the residual stream.
        layers, heads: numbers of layers, and of heads in each.
        head_width: query and key coordinates of a head, twice the number of its frequencies.
        value_width: value coordinates of a head.
        outputs: number of logits.
        position: "grid" (rows and columns from the newlines) or "shift" (row 0, column = index).
        residual: add each layer's output to its input, or replace it.
        pre_norm, sub_norm, final_norm: RMSNorm before attention, on the head outputs, before the read-out. `sub_norm`
            "unit" divides the head outputs by their Euclidean norm instead, so that no factor of the value width hides
            in them.
        score_scale: factor on the attention scores.
        mlp_width: 0; no MLP in attention-only models.
    """

    vocabulary_size: int
    model_width: int
    layers: int
    heads: int
    head_width: int
    value_width: int
    outputs: int
    position: Literal["grid", "shift"]
    residual: bool
    pre_norm: bool
    sub_norm: SubNorm
    final_norm: bool
    score_scale: float = 1.0
    mlp_width: int = 0

    def document(self) -> dict[str, Any]:
        """The JSON object of the configuration; a whole score scale is written as an integer."""
        fields = asdict(self)
        if self.score_scale == int(self.score_scale):
            fields["score_scale"] = int(self.score_scale)
        return fields

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> TransformerConfig:
        """The configuration that `document` describes; TypeError for missing or unknown fields."""
        return cls(**{**document, "score_scale": float(document.get("score_scale", 1))})


class Block(nn.Module):
    """One layer: an optional RMSNorm and attention."""

    def __init__(self, config: TransformerConfig, frequencies: GridFrequencies) -> None:
        super().__init__()
        self.residual = config.residual
        self.norm = nn.RMSNorm(config.model_width) if config.pre_norm else nn.Identity()
        self.attention = Attention(
            config.model_width,
            config.heads,
            config.value_width,
            frequencies,
            score_scale=config.score_scale,
            sub_norm=config.sub_norm,
        )

    def key_blocks(self, x: Float[Tensor, "batch length model_width"], positions: Positions) -> list[KeysValues]:
        """Keys and values of all tokens, in blocks."""
        parts = (slice(start, start + KEY_BLOCK) for start in range(0, x.shape[1], KEY_BLOCK))
        return [self.keys_values(x[:, part], part_of(positions, part), part.start) for part in parts]

    def keys_values(self, x: Float[Tensor, "batch block model_width"], positions: Positions, start: int) -> KeysValues:
        """Keys and values of one block of tokens that begins at index `start`."""
        return self.attention.keys_values(self.norm(x), positions, start)

    def forward(
        self, x: Float[Tensor, "batch length model_width"], positions: Positions, first_query: int
    ) -> Float[Tensor, "batch queries model_width"]:
        """Output for the tokens from index `first_query` on, in blocks of queries."""
        blocks = self.key_blocks(x, positions)
        outputs = []
        for start in range(first_query, x.shape[1], QUERY_BLOCK):
            part = slice(start, start + QUERY_BLOCK)
            outputs.append(self.step(x[:, part], part_of(positions, part), blocks, start))
        return torch.cat(outputs, dim=1)

    def step(
        self,
        x: Float[Tensor, "batch queries model_width"],
        positions: Positions,
        blocks: Iterable[KeysValues],
        start: int,
    ) -> Float[Tensor, "batch queries model_width"]:
        """Output for one block of queries that begins at index `start`; `blocks` are the keys seen so far."""
        y = self.attention.attend(self.attention.queries(self.norm(x), positions), blocks, start)
        return x + y if self.residual else y


class Transformer(nn.Module):
    """Embedding, layers, read-out. The frequencies are one per layer and are no parameters.

    Args:
        config: the shape.
        frequencies: row and column frequencies, for every layer the same or one entry a layer. Shift positions turn the
            column pairs only.
        newline: the token that ends a row (grid positions), or None.

    Raises:
        InputError: `head_width` does not fit the frequencies, or an unsupported part is asked for.
    """

    def __init__(
        self,
        config: TransformerConfig,
        frequencies: GridFrequencies | tuple[GridFrequencies, ...],
        newline: int | None,
    ) -> None:
        super().__init__()
        per_layer = frequencies if isinstance(frequencies, tuple) else (frequencies,) * config.layers
        _check(config, per_layer)
        self.config, self.frequencies, self.newline = config, per_layer, newline
        self.embedding = nn.Embedding(config.vocabulary_size, config.model_width)
        self.blocks = nn.ModuleList(Block(config, layer) for layer in per_layer)
        self.norm = nn.RMSNorm(config.model_width) if config.final_norm else nn.Identity()
        self.readout = nn.Linear(config.model_width, config.outputs, bias=False)

    def block(self, number: int) -> Block:
        """Layer `number`, from 0."""
        return cast(Block, self.blocks[number])

    def positions(self, tokens: Int64[Tensor, "batch length"]) -> Positions:
        """Rows and columns of the tokens, int64."""
        array = tokens.cpu().numpy()
        if self.config.position == "grid":
            rows, columns = grid_positions(array, self.newline)
        else:
            rows, columns = np.zeros_like(array), shift_positions(array)
        return torch.from_numpy(rows).to(tokens.device), torch.from_numpy(columns).to(tokens.device)

    def forward(
        self, tokens: Int64[Tensor, "batch length"], first_query: int = 0
    ) -> Float[Tensor, "batch queries outputs"]:
        """Logits at the tokens from index `first_query` on; each sees the tokens up to itself.

        Cost: O(length^2) time in every layer, O(length) memory plus blocks of scores.
        """
        positions = self.positions(tokens)
        x = self.embedding(tokens)
        for number in range(self.config.layers):
            last = number == self.config.layers - 1
            x = self.block(number)(x, positions, first_query if last else 0)
        logits: Tensor = self.readout(self.norm(x))
        return logits

    def last_logits(self, tokens: Int64[Tensor, " length"]) -> Float[Tensor, " outputs"]:
        """Logits at the last token of one long sequence.

        One-layer models stream over the tokens, in O(block) memory beside the tokens.
        """
        if self.config.layers > 1:
            return self.forward(tokens[None], tokens.shape[0] - 1)[0, -1]
        positions = self.positions(tokens[None])
        block = self.block(0)
        last = tokens.shape[0] - 1

        def stream() -> Iterator[KeysValues]:
            for start in range(0, last + 1, KEY_BLOCK):
                part = slice(start, start + KEY_BLOCK)
                yield block.keys_values(self.embedding(tokens[None, part]), part_of(positions, part), start)

        query = self.embedding(tokens[None, last:])
        x = block.step(query, part_of(positions, slice(last, None)), stream(), last)
        logits: Tensor = self.readout(self.norm(x))
        return logits[0, 0]


def _check(config: TransformerConfig, frequencies: tuple[GridFrequencies, ...]) -> None:
    if len(frequencies) != config.layers:
        raise InputError("frequencies", f"{len(frequencies)} entries", f"one for each of the {config.layers} layers")
    for layer in frequencies:
        if layer.head_width != config.head_width:
            raise InputError("head_width", config.head_width, f"twice the number of frequencies, {layer.head_width}")
    if config.mlp_width:
        raise InputError("mlp_width", config.mlp_width, "0: this model is attention-only")
