"""Where models to certify come from, and the weights files that their certificates pin."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from torch import nn

from constructions import load_grid_copier
from constructions.one_layer import epsilon_of, require_covered, template_of
from engine import (
    AutoGridRoPE,
    CopySource,
    GridRoPE,
    RoPE,
    Transformer,
    load_run,
    load_weights,
    save_weights,
)
from theory import CopyTask, Frequency, InputError, Template, exact_middle

CONSTRUCTION = "one-layer"


@dataclass(frozen=True)
class Subject:
    """A model to certify.

    Attributes:
        model: as stored.
        task: the layout, with the names of tokens.
        template: its tokens with the positions that the model gives them.
        name: for file names.
    """

    model: Transformer
    task: CopyTask
    template: Template
    name: str

    def token(self, token: int) -> str:
        """Name of a token."""
        return self.task.names[token]

    def output(self, output: int) -> str:
        """Name of an output."""
        return self.task.names[output] if self.model.config.outputs != 2 else str(output)


def load_subject(path: Path) -> Subject:
    """The model in a run directory, in a run's weights file, or in the weights file of a construction.

    Raises:
        InputError: nothing of the kind, another task than copying, or a part that is not covered.
    """
    if not path.exists():
        raise InputError("RUN_OR_FILE", str(path), "a run directory or a weights file that is there")
    if path.is_file() and load_weights(path)[1].get("construction") == "grid-copier":
        copier = load_grid_copier(path)
        return _subject(copier.model, copier.task, path)
    config, model = load_run(path)
    source = config.data.source()
    if not isinstance(source, CopySource):
        raise InputError("RUN", config.data.task, "a run of the copy task")
    return _subject(model, source.task, path)


def _subject(model: Transformer, task: CopyTask, path: Path) -> Subject:
    require_covered(model)
    name = path.resolve().name if path.is_dir() else path.stem
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name).lstrip(".-_")
    return Subject(model, task, template_of(model, task), plain or "model")


def save_subject(path: Path, model: Transformer, template: Template) -> str:
    """The weights file that certificates about a one-layer model pin (see docs/certificates.md); returns its SHA-256.

    Tensors are the model's own, bit by bit, vectors as matrices of one row.
    """
    return save_weights(path, _tensors(model), _metadata(model, template))


def _tensors(model: Transformer) -> dict[str, torch.Tensor]:
    block = model.block(0)
    attention = block.attention
    tensors = {"embedding": model.embedding.weight, "readout": model.readout.weight}
    tensors |= {part: getattr(attention, part).weight for part in ("query", "key", "value", "output")}
    for name, norm in (("attention_gain", block.norm), ("final_gain", model.norm)):
        if isinstance(norm, nn.RMSNorm):
            tensors[name] = norm.weight.unsqueeze(0)
    if isinstance(attention.encoding, AutoGridRoPE):
        gate = attention.encoding.gate
        tensors |= {"gate": gate.weight, "gate_bias": gate.bias.unsqueeze(0)}
    return tensors


def _metadata(model: Transformer, template: Template) -> dict[str, Any]:
    config, attention = model.config, model.block(0).attention
    encoding = attention.encoding
    heads, head_width, value_width = config.layer(0)
    row: tuple[Frequency, ...] = ()
    column: tuple[Frequency, ...] = ()
    if isinstance(encoding, GridRoPE):
        row, column = encoding.row.frequencies, encoding.column.frequencies
    elif isinstance(encoding, RoPE):
        column = encoding.phases.frequencies
    return {
        "construction": CONSTRUCTION,
        "prefix": list(template.prefix),
        "infix": list(template.infix),
        "data": list(template.data),
        "row_ends": sorted(template.ends),
        "gated": isinstance(encoding, AutoGridRoPE),
        "heads": heads,
        "head_width": head_width,
        "value_width": value_width,
        "outputs": config.outputs,
        "residual": config.residual,
        "sub_norm": config.sub_norm,
        "score_scale": str(Fraction(attention.score_scale)),
        "slopes": [str(Fraction(slope)) for slope in encoding.slopes],
        "attention_epsilon": _epsilon(model.block(0).norm),
        "final_epsilon": _epsilon(model.norm),
        "sub_norm_epsilon": "0" if config.sub_norm else None,
        "rotary_layout": "interleaved",
        "row": [frequency.spelled() for frequency in row],
        "column": [frequency.spelled() for frequency in column],
    }


def _epsilon(norm: nn.Module) -> str | None:
    """The epsilon that a norm is stored with, exact; None where there is no norm."""
    return str(exact_middle(epsilon_of(norm))) if isinstance(norm, nn.RMSNorm) else None
