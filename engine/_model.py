"""Configurations of trained models, and how such a model begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

import torch
from torch import nn

from engine._encodings import ALiBi, AutoGridRoPE, Encoding, GridRoPE, RoPE
from engine._norm import NORM_EPSILON, require_epsilon
from engine._transformer import Transformer, TransformerConfig
from theory import BasePower, InputError, base_grid_frequencies
from theory.numbers import parse_rational, require_at_least, require_one_of

#: Names of the positional encodings, as on the command line.
ENCODINGS = ("rope", "nope", "alibi", "rnope", "rope2d", "hrope", "auto2d")

#: As in GPT-2. With embeddings of size 1, or matrices of size 1/sqrt(width), 2D-RoPE learns slowly or not at all.
WEIGHT_DEVIATION = 0.02

#: Larger models are refused: 16 GB in float32.
MOST_PARAMETERS = 4 * 10**9

#: The encodings that take two kinds of layers in turn, beginning with the first.
_ALTERNATING = {"rnope": ("rope", "nope"), "hrope": ("rope", "rope2d")}

#: How many coordinates an encoding turns together: a pair for each axis.
_UNIT = {"rope": 2, "rope2d": 4, "auto2d": 4}


@dataclass(frozen=True)
class ModelConfig:
    """A model to train: pre-norm and residual, scores divided by sqrt(head width), as many logits as tokens.

    Attributes:
        encoding: one of ENCODINGS.
        vocabulary_size: number of tokens.
        model_width: width of the residual stream, a multiple of every layer's number of heads.
        layers: number of layers.
        heads: number of heads, the same in every layer or one entry a layer.
        mlp_width: hidden width of the MLPs, 0 for none.
        newline: the token that ends a row of the grid; None for a grid of one row.
        base: RoPE's base.
        grid_base: the base of both axes in 2D-RoPE and Auto-2D-RoPE (paper, appendix D.1).
        norm_epsilon: epsilon of every norm.
        score_scale: factor on the scores of each layer; empty stands for 1/sqrt(head width), which documents spell out.
        rotary_layout: which coordinates a rotary pair takes: interleaved, (2f, 2f+1).

    A document without the last three, as written before there were these fields, means their defaults: no library's.

    Raises:
        InputError: an unknown encoding, sizes that don't divide, an odd number of layers for an alternating encoding,
            an epsilon or a scale that is not finite, another rotary layout.
    """

    encoding: str
    vocabulary_size: int = 5
    model_width: int = 128
    layers: int = 1
    heads: int | tuple[int, ...] = 2
    mlp_width: int = 0
    newline: int | None = 2
    base: float = 10_000.0
    grid_base: float = 1_000.0
    norm_epsilon: float = NORM_EPSILON
    score_scale: tuple[float, ...] = ()
    rotary_layout: str = "interleaved"

    def __post_init__(self) -> None:
        require_one_of("encoding", self.encoding, ENCODINGS)
        require_at_least("vocabulary_size", self.vocabulary_size, 2)
        require_at_least("model_width", self.model_width, 1)
        require_at_least("layers", self.layers, 1)
        require_at_least("mlp_width", self.mlp_width, 0)
        if self.encoding in _ALTERNATING and self.layers % 2:
            kinds = " and ".join(_ALTERNATING[self.encoding])
            raise InputError("layers", self.layers, f"even: {self.encoding} takes {kinds} layers in turn")
        if isinstance(self.heads, tuple) and len(self.heads) != self.layers:
            raise InputError("heads", self.heads, f"one number, or one for each of the {self.layers} layers")
        if self.newline is not None and not 0 <= self.newline < self.vocabulary_size:
            raise InputError("newline", self.newline, f"a token, 0 to {self.vocabulary_size - 1}, or None")
        for name, base in (("base", self.base), ("grid_base", self.grid_base)):
            if not 1 <= base < float("inf"):
                raise InputError(name, base, "a finite number >= 1")
        for heads, kind in zip(self.heads_of_layers, self.encoding_of_layers, strict=True):
            require_at_least("heads", heads, 1)
            unit = _UNIT.get(kind, 1)
            if self.model_width % (unit * heads):
                raise InputError(
                    "model_width",
                    self.model_width,
                    f"a multiple of {unit} for each of {heads} heads ({kind})",
                )
        if self.parameters > MOST_PARAMETERS:
            raise InputError("layers", self.layers, f"such that the model has at most {MOST_PARAMETERS:,} parameters")
        require_epsilon(self.norm_epsilon)
        if self.rotary_layout != "interleaved":
            raise InputError("rotary_layout", self.rotary_layout, "interleaved: pair f is coordinates 2f and 2f+1")
        if self.score_scale == self._usual_scales:
            object.__setattr__(self, "score_scale", ())
        if len(self.score_scale) not in (0, self.layers) or not all(map(isfinite, self.score_scale)):
            raise InputError("score_scale", self.score_scale, f"a finite number for each of the {self.layers} layers")

    @property
    def parameters(self) -> int:
        """About the number of weights: matrices only."""
        layer = 4 * self.model_width**2 + 2 * self.model_width * self.mlp_width
        return self.layers * layer + 2 * self.vocabulary_size * self.model_width

    @property
    def _usual_scales(self) -> tuple[float, ...]:
        return tuple((self.model_width // heads) ** -0.5 for heads in self.heads_of_layers)

    @property
    def heads_of_layers(self) -> tuple[int, ...]:
        """Number of heads of each layer."""
        return self.heads if isinstance(self.heads, tuple) else (self.heads,) * self.layers

    @property
    def encoding_of_layers(self) -> tuple[str, ...]:
        """The encoding of each layer: rope, nope, alibi, rope2d or auto2d."""
        kinds = _ALTERNATING.get(self.encoding, (self.encoding,))
        return tuple(kinds[number % len(kinds)] for number in range(self.layers))

    def document(self) -> dict[str, Any]:
        """The JSON object of the configuration."""
        fields = asdict(self) | {"score_scale": self.score_scale or self._usual_scales}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> ModelConfig:
        """The configuration that `document` describes.

        Raises:
            InputError: missing or unknown fields, or what the configuration itself refuses.
        """
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in document.items()
        }
        try:
            return cls(**fields)
        except TypeError as error:
            raise InputError("model configuration", ", ".join(map(str, document)), f"a whole one ({error})") from error

    def shape(self) -> TransformerConfig:
        """The shape of the transformer; values are as wide as queries and keys, which torch's fused kernels need."""
        widths = tuple(self.model_width // heads for heads in self.heads_of_layers)
        width = widths if isinstance(self.heads, tuple) else widths[0]
        return TransformerConfig(
            vocabulary_size=self.vocabulary_size,
            model_width=self.model_width,
            layers=self.layers,
            heads=self.heads,
            head_width=width,
            value_width=width,
            outputs=self.vocabulary_size,
            position=self.encoding,
            residual=True,
            pre_norm=True,
            sub_norm=False,
            final_norm=True,
            score_scale=self.score_scale or None,
            mlp_width=self.mlp_width,
            norm_epsilon=self.norm_epsilon,
        )


def build_model(config: ModelConfig, seed: int) -> Transformer:
    """A model at the start of training, float32, on the CPU; the same configuration and seed give the same weights.

    Matrices are normal with standard deviation WEIGHT_DEVIATION, gains 1, gate biases `AutoGridRoPE.BIAS`.
    """
    with torch.random.fork_rng(devices=[]):
        model = Transformer(config.shape(), tuple(_encodings(config)), config.newline)
    generator = torch.Generator().manual_seed(require_at_least("seed", seed, 0))
    with torch.no_grad():
        for module in model.modules():
            _initialise(module, generator)
    return model


def _encodings(config: ModelConfig) -> list[Encoding]:
    make: dict[str, Callable[[int, int], Encoding]] = {
        "nope": lambda heads, width: Encoding(),
        "alibi": lambda heads, width: ALiBi(heads),
        "rope": lambda heads, width: RoPE(_powers(config.base, width // 2)),
        "rope2d": lambda heads, width: GridRoPE(base_grid_frequencies(_rational(config.grid_base), width)),
        "auto2d": lambda heads, width: AutoGridRoPE(
            base_grid_frequencies(_rational(config.grid_base), width), config.model_width
        ),
    }
    return [
        make[kind](heads, config.model_width // heads)
        for kind, heads in zip(config.encoding_of_layers, config.heads_of_layers, strict=True)
    ]


def _powers(base: float, pairs: int) -> tuple[BasePower, ...]:
    return tuple(BasePower(_rational(base), Fraction(-pair, pairs)) for pair in range(pairs))


def _rational(base: float) -> Fraction:
    return parse_rational(repr(base), "base")


def _initialise(module: nn.Module, generator: torch.Generator) -> None:
    if isinstance(module, nn.Embedding | nn.Linear):
        module.weight.normal_(0, WEIGHT_DEVIATION, generator=generator)
