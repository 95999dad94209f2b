"""The weights file of one one-layer model and its prompt, which certificates pin (see docs/certificates.md)."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from torch import nn

from engine import (
    ALiBi,
    AutoGridRoPE,
    Encoding,
    GridRoPE,
    RoPE,
    Transformer,
    TransformerConfig,
    load_exactly,
    load_weights,
    save_weights,
    stored_epsilon,
    tensors_digest,
)
from theory import BasePower, Frequency, GridFrequencies, InputError, Radian, Template, Turn
from theory.numbers import parse_rational

CONSTRUCTION = "one-layer"

#: The digest of the tensors among the metadata, without which damage could not be told from other weights.
DIGEST = "tensors_sha256"

#: What the tensors are called in a transformer of the engine.
_NAMES = {
    "embedding": "embedding.weight",
    "readout": "readout.weight",
    **{part: f"blocks.0.attention.{part}.weight" for part in ("query", "key", "value", "output")},
    "attention_gain": "blocks.0.norm.weight",
    "final_gain": "norm.weight",
    "gate": "blocks.0.attention.encoding.gate.weight",
    "gate_bias": "blocks.0.attention.encoding.gate.bias",
}


def save_subject(path: Path, model: Transformer, template: Template) -> str:
    """The weights file that certificates about a one-layer model pin (see docs/certificates.md); returns its SHA-256.

    Tensors are the model's own, bit by bit, vectors as matrices of one row.
    """
    tensors = _tensors(model)
    return save_weights(path, tensors, {**_metadata(model, template), DIGEST: tensors_digest(tensors)})


def load_one_layer(path: Path) -> tuple[Transformer, Template]:
    """The model and the prompt in a weights file that `save_subject` wrote, every stored number exactly.

    Raises:
        InputError: unreadable, damaged, or a model that the engine cannot run, with the reason.
    """
    tensors, metadata = load_weights(path)
    if DIGEST in metadata and metadata[DIGEST] != tensors_digest(tensors):
        raise InputError("weights", str(path), "undamaged: its tensors do not match their digest")
    try:
        template = _template(metadata)
        model = _built(metadata, tensors, template)
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError("weights", str(path), f"a weights file of a one-layer model ({reason})") from error
    shaped = {
        name: tensor[0] if name in ("attention_gain", "final_gain", "gate_bias") else tensor
        for name, tensor in tensors.items()
    }
    load_exactly(model, {_NAMES.get(name, name): tensor for name, tensor in shaped.items()}, path)
    return model.eval(), template


def _template(metadata: dict[str, Any]) -> Template:
    prefix, infix, ends = (tuple(map(int, metadata[name])) for name in ("prefix", "infix", "row_ends"))
    zero, one = map(int, metadata["data"])
    return Template(prefix, infix, (zero, one), frozenset(ends))


def _built(metadata: dict[str, Any], tensors: dict[str, torch.Tensor], template: Template) -> Transformer:
    vocabulary, width = tensors["embedding"].shape
    epsilons = {name: metadata.get(f"{name}_epsilon", metadata.get("epsilon")) for name in ("attention", "final")}
    config = TransformerConfig(
        vocabulary, width, 1, metadata["heads"], metadata["head_width"], metadata["value_width"], metadata["outputs"],
        "grid" if metadata["row"] else "shift", metadata["residual"], "attention_gain" in tensors,
        metadata["sub_norm"], "final_gain" in tensors, _float(metadata["score_scale"], "score_scale"),
    )  # fmt: skip
    if len(template.ends) > 1:
        raise InputError("row_ends", sorted(template.ends), "at most one token: the engine knows one newline")
    model = Transformer(config, _encoding(metadata, width), next(iter(template.ends), None)).requires_grad_(False)
    for name, norm in (("attention", model.block(0).norm), ("final", model.norm)):
        if isinstance(norm, nn.RMSNorm):
            norm.eps = _float(str(epsilons[name]), f"{name}_epsilon")
    return model


def _encoding(metadata: dict[str, Any], width: int) -> Encoding:
    row, column = (tuple(_frequency(entry) for entry in metadata[name]) for name in ("row", "column"))
    if metadata["gated"]:
        return AutoGridRoPE(GridFrequencies(row, column), width)
    if row:
        return GridRoPE(GridFrequencies(row, column))
    if metadata["slopes"] and column:
        raise InputError("slopes", metadata["slopes"], "none where coordinates turn: the engine has no such encoding")
    if metadata["slopes"]:
        encoding = ALiBi(len(metadata["slopes"]))
        encoding.slopes = tuple(_float(slope, "slopes") for slope in metadata["slopes"])
        return encoding
    return RoPE(column) if column else Encoding()


def _float(text: str, name: str) -> float:
    """A rational that a float holds exactly."""
    exact = Fraction(parse_rational(text, name))
    if abs(exact) > Fraction(2) ** 1023 or Fraction(float(exact)) != exact:
        raise InputError(name, text, "a number that a float64 holds exactly")
    return float(exact)


def _frequency(entry: dict[str, str]) -> Frequency:
    if "turn" in entry:
        return Turn(parse_rational(entry["turn"], "frequency"))
    if "radian" in entry:
        return Radian(parse_rational(entry["radian"], "frequency"))
    return BasePower(*(parse_rational(entry[name], "frequency") for name in ("base", "exponent")))


def _tensors(model: Transformer) -> dict[str, torch.Tensor]:
    block = model.block(0)
    attention = block.attention
    tensors = {"embedding": model.embedding.weight, "readout": model.readout.weight}
    tensors |= {part: getattr(attention, part).weight for part in ("query", "key", "value", "output")}
    for name, norm in (("attention_gain", block.norm), ("final_gain", model.norm)):
        if isinstance(norm, nn.RMSNorm):
            tensors[name] = norm.weight.unsqueeze(0)
    return tensors | attention.encoding.spelled_tensors()


def _metadata(model: Transformer, template: Template) -> dict[str, Any]:
    config, attention = model.config, model.block(0).attention
    heads, head_width, value_width = config.layer(0)
    attention_epsilon, final_epsilon = (stored_epsilon(norm) for norm in (model.block(0).norm, model.norm))
    return {
        "construction": CONSTRUCTION,
        "prefix": list(template.prefix),
        "infix": list(template.infix),
        "data": list(template.data),
        "row_ends": sorted(template.ends),
        "heads": heads,
        "head_width": head_width,
        "value_width": value_width,
        "outputs": config.outputs,
        "residual": config.residual,
        "sub_norm": config.sub_norm,
        "score_scale": str(Fraction(attention.score_scale)),
        "attention_epsilon": None if attention_epsilon is None else str(attention_epsilon),
        "final_epsilon": None if final_epsilon is None else str(final_epsilon),
        "sub_norm_epsilon": "0" if config.sub_norm else None,
        "rotary_layout": "interleaved",
        **attention.encoding.spelled(),
    }
