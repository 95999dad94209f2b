"""The presets: `laptop`, `provable-1layer`, `paper-1layer`, `paper-12layer`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from engine._model import ModelConfig
from engine._run_config import COPY_DATA, LIST_DATA, TASKS, RunConfig, TrainingConfig
from theory import InputError

#: Encodings whose one-layer models can be trained to copy; the others get two layers in the preset `laptop`.
ONE_LAYER_ENCODINGS = ("rope2d", "auto2d")


@dataclass(frozen=True)
class Preset:
    """Sizes and training of a named configuration.

    Attributes:
        width: of the residual stream, `heads` times the head width.
        heads, layers: of the model; `layers` by encoding.
        mlp_width: 0 for none.
        copy, list: training for the two tasks.
    """

    width: int
    heads: int
    layers: Callable[[str], int]
    mlp_width: int
    copy: Callable[[str], TrainingConfig]
    list: Callable[[str], TrainingConfig]


def _laptop(encoding: str) -> TrainingConfig:
    if encoding in ONE_LAYER_ENCODINGS:
        return TrainingConfig(200, 64, 2, 3e-3, 1e-4, warmup=20)
    return TrainingConfig(3000, 32, 2, 2e-3, 1e-4, warmup=100)


PRESETS = {
    # Ours: two cores, minutes.
    "laptop": Preset(
        128,
        2,
        lambda encoding: 1 if encoding in ONE_LAYER_ENCODINGS else 2,
        0,
        _laptop,
        lambda encoding: TrainingConfig(200, 8, 4, 3e-3, 1e-4, warmup=20),
    ),
    # One head, no MLP: `copycert certify` decides it exactly.
    "provable-1layer": Preset(
        128,
        1,
        lambda encoding: 1,
        0,
        lambda encoding: TrainingConfig(100, 64, 2, 3e-3, 1e-4, warmup=20),
        lambda encoding: TrainingConfig(150, 8, 4, 3e-3, 1e-4, warmup=20),
    ),
    # The paper's sizes (appendix B); learning rates, steps and MLP width are ours, its Table 3 is not in our text.
    "paper-1layer": Preset(
        1024,
        2,
        lambda encoding: 1,
        4096,
        lambda encoding: TrainingConfig(5000, 256, 4, 1e-3, 1e-4, warmup=100),
        lambda encoding: TrainingConfig(5000, 64, 4, 1e-3, 1e-4, warmup=100),
    ),
    "paper-12layer": Preset(
        1536,
        12,
        lambda encoding: 12,
        6144,
        lambda encoding: TrainingConfig(10_000, 256, 4, 3e-4, 3e-5, warmup=100),
        lambda encoding: TrainingConfig(10_000, 64, 4, 3e-4, 3e-5, warmup=100),
    ),
}


def preset_run(
    name: str,
    encoding: str,
    seed: int = 0,
    *,
    task: str = "copy",
    distribution: str | None = None,
    separator: str = "<n>",
    layers: int | None = None,
    heads: int | tuple[int, ...] | None = None,
    steps: int | None = None,
    max_length: int | None = None,
    precision: str | None = None,
) -> RunConfig:
    """A run of a preset, with what the caller chose otherwise.

    Args:
        name: of the preset.
        encoding: name of the positional encoding.
        seed: of weights and data.
        task: "copy" or "list".
        distribution, separator, max_length: of the training data.
        layers: number of layers.
        heads: heads of each layer, such as (2, 1) in the paper's Figure 3.
        steps: optimiser steps.
        precision: Fabric's name.

    Raises:
        InputError: unknown preset, encoding, task, distribution or separator, or numbers that do not fit.
    """
    if name not in PRESETS:
        raise InputError("preset", name, "one of " + ", ".join(PRESETS))
    if task not in TASKS:
        raise InputError("task", task, "one of " + ", ".join(TASKS))
    preset = PRESETS[name]
    training = preset.copy(encoding) if task == "copy" else preset.list(encoding)
    training = replace(training, seed=seed, **_chosen(steps=steps, precision=precision))
    data = COPY_DATA if task == "copy" else LIST_DATA
    data = replace(data, separator=separator, **_chosen(distribution=distribution, max_length=max_length))
    source = data.source()
    model = ModelConfig(
        encoding,
        vocabulary_size=len(source.names),
        model_width=preset.width,
        layers=preset.layers(encoding) if layers is None else layers,
        heads=preset.heads if heads is None else heads,
        mlp_width=preset.mlp_width,
        newline=source.newline,
    )
    return RunConfig(name, model, data, training)


def _chosen(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
