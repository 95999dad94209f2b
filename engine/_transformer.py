"""The transformer that the constructions are loaded into, and that trained models share.

Per layer `x <- x + attention(norm(x))` with a residual, `x <- attention(norm(x))` without; the same with an MLP in
place of attention, where there is one: `output(gelu(input(norm(x))))`. Then `logits = readout(norm(x))`. The norms are
RMSNorms with a gain and are each optional. No biases.

With gradients, whole sequences go through torch's fused kernels. Without, tokens go through all layers in blocks, each
layer keeping the keys and values of what it has seen, for inputs of any length and for generation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any, cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from engine._attention import Attention, KeysValues, SubNorm
from engine._encodings import Encoding, GridRoPE, Places, RoPE, place_after, places_of
from engine._norm import NORM_EPSILON, RMSNorm
from theory import Frequency, GridFrequencies, InputError, Radian
from theory.numbers import require_at_least

#: Tokens in a block of queries and in a block of keys: score blocks of float32 are 4 MiB a head and sequence.
QUERY_BLOCK, KEY_BLOCK = 512, 2048

#: The learning rate of Auto-2D-RoPE's gates, in units of the rest's.
GATE_RATE = 3.0

LayerEncoding = GridFrequencies | Encoding


@dataclass(frozen=True)
class TransformerConfig:
    """Shape of a transformer.

    Attributes:
        vocabulary_size: number of tokens.
        model_width: width of the residual stream.
        layers: number of layers.
        heads: number of heads, the same in every layer or one entry a layer.
        head_width: query and key coordinates of a head, twice the number of its frequencies; as `heads`.
        value_width: value coordinates of a head; as `heads`.
        outputs: number of logits.
        position: what given frequencies turn by: "grid" (rows and columns from the newlines) or "shift" (row 0, column
            = index); or the name of a trained encoding.
        residual: add each layer's output to its input, or replace it.
        pre_norm, sub_norm, final_norm: RMSNorm before attention, on the head outputs, before the read-out. `sub_norm`
            "unit" divides the head outputs by their Euclidean norm instead, so that no factor of the value width hides
            in them.
        score_scale: factor on the attention scores, the same in every layer or one entry a layer; None stands for
            1/sqrt(head width).
        mlp_width: hidden width of the MLPs, 0 for none.
        norm_epsilon: epsilon of every RMSNorm with a gain, whatever dtype the model has; that of `sub_norm` is 0. A
            document without it, as written before there was this field, means 2^-23.
    """

    vocabulary_size: int
    model_width: int
    layers: int
    heads: int | tuple[int, ...]
    head_width: int | tuple[int, ...]
    value_width: int | tuple[int, ...]
    outputs: int
    position: str
    residual: bool
    pre_norm: bool
    sub_norm: SubNorm
    final_norm: bool
    score_scale: float | tuple[float, ...] | None = 1.0
    mlp_width: int = 0
    norm_epsilon: float = NORM_EPSILON

    def document(self) -> dict[str, Any]:
        """The JSON object of the configuration; a whole score scale is written as an integer."""
        fields = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        if isinstance(self.score_scale, float) and self.score_scale == int(self.score_scale):
            fields["score_scale"] = int(self.score_scale)
        if not (self.pre_norm or self.final_norm):
            # No norm has one.
            del fields["norm_epsilon"]
        return fields

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> TransformerConfig:
        """The configuration that `document` describes; TypeError for missing or unknown fields."""
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in document.items()
        }
        scale = fields.get("score_scale", 1)
        return cls(**{**fields, "score_scale": float(scale) if isinstance(scale, int) else scale})

    def scale(self, number: int) -> float:
        """The factor on the scores of layer `number`."""
        scale = self.score_scale[number] if isinstance(self.score_scale, tuple) else self.score_scale
        return self.layer(number)[1] ** -0.5 if scale is None else float(scale)

    def layer(self, number: int) -> tuple[int, int, int]:
        """Heads, head width and value width of layer `number`."""
        heads, head_width, value_width = (
            value[number] if isinstance(value, tuple) else value
            for value in (self.heads, self.head_width, self.value_width)
        )
        return heads, head_width, value_width


@dataclass
class Seen:
    """What one layer keeps of the tokens seen so far.

    Attributes:
        keys, values: room for `capacity` tokens, filled from the front.
        length: how many are filled.
        places: of the last block, as the layer located them; None at first.
    """

    keys: Float[Tensor, "batch heads capacity head_width"]
    values: Float[Tensor, "batch heads capacity value_width"]
    length: int = 0
    places: Places | None = None

    def append(self, block: KeysValues, places: Places) -> None:
        """Take in the next block."""
        stop = self.length + block.keys.shape[2]
        self.keys[:, :, self.length : stop] = block.keys
        self.values[:, :, self.length : stop] = block.values
        self.length, self.places = stop, places

    def blocks(self) -> Iterator[KeysValues]:
        """Keys and values of all tokens so far, in blocks."""
        return KeysValues(0, self.keys[:, :, : self.length], self.values[:, :, : self.length]).blocks(KEY_BLOCK)


@dataclass
class Cache:
    """What a transformer keeps of the tokens seen so far: each layer's part, and the place of the next token."""

    layers: list[Seen]
    next_place: Places | None = field(default=None)


class MLP(nn.Module):
    """`output(gelu(input(x)))`."""

    def __init__(self, model_width: int, mlp_width: int) -> None:
        super().__init__()
        self.input = nn.Linear(model_width, mlp_width, bias=False)
        self.output = nn.Linear(mlp_width, model_width, bias=False)

    def forward(self, x: Float[Tensor, "*batch model_width"]) -> Float[Tensor, "*batch model_width"]:
        """The MLP's output for each vector."""
        out: Tensor = self.output(nn.functional.gelu(self.input(x)))
        return out


class Block(nn.Module):
    """One layer: an optional RMSNorm and attention; then, where there is an MLP, another optional RMSNorm and it."""

    def __init__(self, config: TransformerConfig, number: int, encoding: Encoding) -> None:
        super().__init__()
        heads, head_width, value_width = config.layer(number)
        self.residual = config.residual
        self.norm = _norm(config, config.pre_norm)
        self.attention = Attention(
            config.model_width,
            heads,
            head_width,
            value_width,
            encoding,
            score_scale=config.scale(number),
            sub_norm=config.sub_norm,
        )
        self.mlp_norm = _norm(config, config.pre_norm) if config.mlp_width else None
        self.mlp = MLP(config.model_width, config.mlp_width) if config.mlp_width else None

    def forward(
        self, x: Float[Tensor, "batch length model_width"], given: Places
    ) -> Float[Tensor, "batch length model_width"]:
        """Output for whole sequences; differentiable."""
        h = self.norm(x)
        return self._finish(x, self.attention(h, self.attention.encoding.locate(h, given, None)))

    def weights(
        self, x: Float[Tensor, "batch length model_width"], given: Places
    ) -> Float[Tensor, "batch heads length length"]:
        """Attention weights of whole sequences."""
        h = self.norm(x)
        return self.attention.weights(h, self.attention.encoding.locate(h, given, None))

    def seen(self, batch: int, capacity: int) -> Seen:
        """Room for the keys and values of that many tokens."""
        key, value, heads = self.attention.key.weight, self.attention.value.weight, self.attention.heads
        return Seen(
            key.new_empty(batch, heads, capacity, key.shape[0] // heads),
            value.new_empty(batch, heads, capacity, value.shape[0] // heads),
        )

    def extend(
        self, x: Float[Tensor, "batch block model_width"], given: Places, seen: Seen, wanted: bool
    ) -> Float[Tensor, "batch block model_width"]:
        """Output for the next block of tokens; x itself where only its keys and values are wanted."""
        h = self.norm(x)
        places = self.attention.encoding.locate(h, given, seen.places)
        turns = self.attention.encoding.turns(places, h.dtype)
        seen.append(self.attention.keys_values(h, given.start, turns), places)
        if not wanted:
            return x
        return self._finish(x, self.attention.attend(self.attention.queries(h, turns), seen.blocks(), given.start))

    def answer(
        self, x: Float[Tensor, "batch one model_width"], place: Places, blocks: Iterator[KeysValues]
    ) -> Float[Tensor, "batch one model_width"]:
        """Output for one token that stands at `place` and sees the given keys, its own among them."""
        h = self.norm(x)
        queries = self.attention.queries(h, self.attention.encoding.turns(place, h.dtype))
        return self._finish(x, self.attention.attend(queries, blocks, place.start))

    def _finish(
        self, x: Float[Tensor, "batch block model_width"], y: Float[Tensor, "batch block model_width"]
    ) -> Float[Tensor, "batch block model_width"]:
        x = self._added(x, y)
        return x if self.mlp is None or self.mlp_norm is None else self._added(x, self.mlp(self.mlp_norm(x)))

    def _added(
        self, x: Float[Tensor, "batch block model_width"], y: Float[Tensor, "batch block model_width"]
    ) -> Float[Tensor, "batch block model_width"]:
        if not self.residual:
            return y
        # In place where no precision is lost (mixed precision gives y in bfloat16): y is a product that nothing keeps.
        return y.add_(x) if y.dtype == x.dtype else x + y


class Transformer(nn.Module):
    """Embedding, layers, read-out. Given frequencies are no parameters.

    Args:
        config: the shape.
        encodings: for every layer the same or one entry a layer: row and column frequencies, turned by grid or shift
            positions as the configuration says (shift positions turn the column pairs only), or an encoding.
        newline: the token that ends a row (grid positions), or None.

    Raises:
        InputError: `head_width` does not fit the frequencies, or there is not one entry a layer.
    """

    def __init__(
        self,
        config: TransformerConfig,
        encodings: LayerEncoding | tuple[LayerEncoding, ...],
        newline: int | None,
    ) -> None:
        super().__init__()
        per_layer = encodings if isinstance(encodings, tuple) else (encodings,) * config.layers
        _check(config, per_layer)
        self.config, self.newline = config, newline
        self.frequencies = tuple(layer for layer in per_layer if isinstance(layer, GridFrequencies))
        self.embedding = nn.Embedding(config.vocabulary_size, config.model_width)
        self.blocks = nn.ModuleList(
            Block(config, number, _encoding(layer, config.position)) for number, layer in enumerate(per_layer)
        )
        self.norm = _norm(config, config.final_norm)
        self.readout = nn.Linear(config.model_width, config.outputs, bias=False)

    def block(self, number: int) -> Block:
        """Layer `number`, from 0."""
        return cast(Block, self.blocks[number])

    def forward(
        self, tokens: Int64[Tensor, "batch length"], first_query: int = 0
    ) -> Float[Tensor, "batch queries outputs"]:
        """Logits at the tokens from index `first_query` on; each sees the tokens up to itself.

        Cost: O(length^2) time in every layer. Without gradients O(length) memory plus blocks of scores.
        """
        x = self.embedding(tokens)
        if x.requires_grad:
            given = places_of(tokens, self.newline)
            for block in self.blocks:
                x = block(x, given)
            return self._logits(x[:, first_query:])
        return torch.cat(list(self.logits_in_blocks(tokens, first_query)), dim=1)

    def logits_in_blocks(
        self, tokens: Int64[Tensor, "batch length"], first_query: int = 0, block: int | None = None
    ) -> Iterator[Float[Tensor, "batch queries outputs"]]:
        """Logits at the tokens from index `first_query` on, block by block, so that a caller may stop early.

        Cost: O(length^2) time; the keys and values of every layer are held, 2 layers length model_width numbers in
        trained models.
        """
        size = block or QUERY_BLOCK
        cache = self.cache(*tokens.shape)
        for start in range(0, tokens.shape[1], size):
            part = tokens[:, start : start + size]
            wanted = start + part.shape[1] > first_query
            logits = self.extend(part, cache, wanted)
            if wanted:
                yield logits[:, max(0, first_query - start) :]

    def cache(self, batch: int, capacity: int) -> Cache:
        """Room for a batch of sequences of up to `capacity` tokens each."""
        return Cache([self.block(number).seen(batch, capacity) for number in range(self.config.layers)])

    def extend(
        self, tokens: Int64[Tensor, "batch block"], cache: Cache, wanted: bool = True
    ) -> Float[Tensor, "batch block outputs"]:
        """Logits at the next tokens, which the cache takes in; without meaning where they are not `wanted`."""
        given = places_of(tokens, self.newline, cache.next_place)
        cache.next_place = place_after(tokens, self.newline, given)
        x = self.embedding(tokens)
        for number, seen in enumerate(cache.layers):
            x = self.block(number).extend(x, given, seen, wanted or number < self.config.layers - 1)
        return self._logits(x)

    @torch.no_grad()
    def generate(self, prompt: Int64[Tensor, "batch length"], steps: int) -> Int64[Tensor, "batch steps"]:
        """The tokens that follow the prompt, each the arg-max given all before it; keys and values are kept.

        Raises:
            InputError: an empty prompt, or steps < 1.

        Cost: O((length + steps)^2) in every layer.
        """
        require_at_least("prompt length", prompt.shape[1], 1)
        require_at_least("steps", steps, 1)
        cache = self.cache(prompt.shape[0], prompt.shape[1] + steps)
        written = [self._prefill(prompt, cache)]
        while len(written) < steps:
            written.append(self.extend(written[-1], cache).argmax(-1))
        return torch.cat(written[:steps], dim=1)

    def _prefill(self, prompt: Int64[Tensor, "batch length"], cache: Cache) -> Int64[Tensor, "batch 1"]:
        for start in range(0, prompt.shape[1], QUERY_BLOCK):
            logits = self.extend(prompt[:, start : start + QUERY_BLOCK], cache)
        return logits[:, -1:].argmax(-1)

    @torch.no_grad()
    def attention_maps(self, tokens: Int64[Tensor, "batch length"]) -> list[Float[Tensor, "batch heads length length"]]:
        """For each layer the attention weights: [.., t, s] is what token t gives to token s. O(length^2) memory."""
        given, x, maps = places_of(tokens, self.newline), self.embedding(tokens), []
        for number in range(self.config.layers):
            maps.append(self.block(number).weights(x, given))
            x = self.block(number)(x, given)
        return maps

    def parameter_groups(self, learning_rate: float, weight_decay: float) -> list[dict[str, Any]]:
        """Parameter groups for AdamW: matrices decay; gains do not; gates do not, and learn three times as fast."""
        gates = {id(p) for m in self.modules() if isinstance(m, Encoding) for p in m.parameters()}
        matrices = [p for p in self.parameters() if id(p) not in gates and p.ndim > 1]
        gains = [p for p in self.parameters() if id(p) not in gates and p.ndim <= 1]
        groups = [
            (matrices, 1.0, weight_decay),
            (gains, 1.0, 0.0),
            ([p for p in self.parameters() if id(p) in gates], GATE_RATE, 0.0),
        ]
        return [
            {"params": parameters, "lr": learning_rate * factor, "weight_decay": decay}
            for parameters, factor, decay in groups
            if parameters
        ]

    def last_logits(self, tokens: Int64[Tensor, " length"]) -> Float[Tensor, " outputs"]:
        """Logits at the last token of one long sequence.

        One-layer models stream over the tokens, in O(block) memory beside the tokens.
        """
        block, last = self.block(0), tokens.shape[0] - 1
        encoding = block.attention.encoding
        if self.config.layers > 1 or encoding.learned:
            return self.forward(tokens[None], last)[0, -1]
        given = places_of(tokens[None], self.newline)

        def stream() -> Iterator[KeysValues]:
            for start in range(0, last + 1, KEY_BLOCK):
                part = slice(start, min(start + KEY_BLOCK, last + 1))
                x = block.norm(self.embedding(tokens[None, part]))
                yield block.attention.keys_values(x, start, encoding.turns(given.part(part), x.dtype))

        logits: Tensor = self._logits(
            block.answer(self.embedding(tokens[None, last:]), given.part(slice(last, last + 1)), stream())
        )
        return logits[0, 0]

    def _logits(self, x: Float[Tensor, "batch block model_width"]) -> Float[Tensor, "batch block outputs"]:
        logits: Tensor = self.readout(self.norm(x))
        return logits


def _norm(config: TransformerConfig, wanted: bool) -> nn.Module:
    return RMSNorm(config.model_width, config.norm_epsilon) if wanted else nn.Identity()


def _encoding(layer: LayerEncoding, position: str) -> Encoding:
    if isinstance(layer, Encoding):
        return layer
    if position == "grid":
        return GridRoPE(layer)
    still: tuple[Frequency, ...] = (Radian(Fraction(0)),) * len(layer.row)
    return RoPE(still + layer.column)


def _check(config: TransformerConfig, encodings: tuple[LayerEncoding, ...]) -> None:
    if len(encodings) != config.layers:
        raise InputError("frequencies", f"{len(encodings)} entries", f"one for each of the {config.layers} layers")
    for number, layer in enumerate(encodings):
        width = config.layer(number)[1]
        if isinstance(layer, GridFrequencies) and layer.head_width != width:
            raise InputError("head_width", width, f"twice the number of frequencies, {layer.head_width}")
    require_at_least("mlp_width", config.mlp_width, 0)
