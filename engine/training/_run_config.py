"""Run configurations: everything that a training run's result depends on, but for the machine."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import cos, pi
from typing import Any

from engine._model import ModelConfig, build_model
from engine._transformer import Transformer
from engine.training._data import CopySource, Source
from engine.training._list_conversion import ListSource
from theory import InputError
from theory.numbers import require_at_least, require_one_of
from theory.task import require_room

#: Longest string at the start of a curriculum.
CURRICULUM_START = 10

TASKS = ("copy", "list")

#: Precisions, by Fabric's names.
PRECISIONS = ("32-true", "64-true", "bf16-mixed")


@dataclass(frozen=True)
class TrainingConfig:
    """How to train.

    The paper (appendix B) gives weight decay, beta2, warm-up 100, batch 64 and accumulation 4. Its learning rates stand
    in a table that the text lacks; ours are our own.

    Attributes:
        steps: optimiser steps.
        batch_size: strings in a step, over all processes.
        accumulate: micro-batches in a step, over all processes; a multiple of the number of processes.
        learning_rate, final_learning_rate: peak, and end of the cosine.
        warmup: steps of linear warm-up.
        weight_decay, beta1, beta2: AdamW's.
        precision: Fabric's name, "32-true", "64-true" or "bf16-mixed".
        seed: of the weights and of the data.
        curriculum: steps over which the longest training string grows from CURRICULUM_START to the data's longest; 0
            for none. Ours: without it encodings that have to match contexts do not leave the start on a laptop.
    """

    steps: int
    batch_size: int = 64
    accumulate: int = 4
    learning_rate: float = 1e-3
    final_learning_rate: float = 1e-4
    warmup: int = 100
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.95
    precision: str = "32-true"
    seed: int = 0
    curriculum: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "accumulate"):
            require_at_least(name, getattr(self, name), 1)
        for name in ("warmup", "seed", "curriculum"):
            require_at_least(name, getattr(self, name), 0)
        if self.batch_size % self.accumulate:
            raise InputError("batch_size", self.batch_size, f"a multiple of accumulate = {self.accumulate}")
        if not 0 <= self.final_learning_rate <= self.learning_rate:
            raise InputError("final_learning_rate", self.final_learning_rate, "from 0 to the learning rate")
        require_one_of("precision", self.precision, PRECISIONS)

    def longest(self, step: int, least: int, most: int) -> int:
        """Longest training string at a step, of data with lengths from `least` to `most`."""
        start = max(CURRICULUM_START, least)
        if step >= self.curriculum or start >= most:
            return most
        return start + (most - start) * step // self.curriculum

    def rate_factor(self, step: int) -> float:
        """The learning rate of a step (from 0) over the peak: linear warm-up, then half a cosine down to the end."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        end = self.final_learning_rate / self.learning_rate if self.learning_rate else 1.0
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return end + (1 - end) * (1 + cos(pi * done)) / 2


@dataclass(frozen=True)
class DataConfig:
    """What to train on.

    Attributes:
        task: "copy" or "list".
        distribution: of the training strings or lists.
        separator: `<n>`, or `*`, which starts no row.
        min_length, max_length: symbols of a string, or data points of a list.
        min_period, max_period: of a list's signal, in samples; 0 for the copy task.
    """

    task: str = "copy"
    distribution: str = "imbalanced"
    separator: str = "<n>"
    min_length: int = 1
    max_length: int = 100
    min_period: int = 0
    max_period: int = 0

    def with_periods(self, *periods: int) -> DataConfig:
        """The same lists with other periods, (least, largest); InputError for the copy task."""
        if self.task != "list" or len(periods) != 2:
            raise InputError("periods", ",".join(map(str, periods)), "LEAST,LARGEST, for runs of the task list")
        return replace(self, min_period=periods[0], max_period=periods[1])

    def source(self) -> Source:
        """The examples that this describes.

        Raises:
            InputError: unknown task, distribution or separator, or bad ranges.
        """
        require_one_of("task", self.task, TASKS)
        if self.task == "copy":
            return CopySource(self.distribution, self.separator, self.min_length, self.max_length)
        periods = (self.min_period, self.max_period)
        return ListSource(self.distribution, self.separator, self.min_length, self.max_length, periods)


#: The tasks with the paper's ranges: strings up to 100; 50 to 150 points of periods 2 to 8.
COPY_DATA = DataConfig()
LIST_DATA = DataConfig("list", "mixed", min_length=50, max_length=150, min_period=2, max_period=8)


@dataclass(frozen=True)
class RunConfig:
    """Everything that a training run's result depends on, but for the machine.

    Attributes:
        preset: its name, for the reader.
        model: shape and encoding of the model.
        data: what to train on.
        training: how.
    """

    preset: str
    model: ModelConfig
    data: DataConfig
    training: TrainingConfig

    def __post_init__(self) -> None:
        """InputError for batches of more symbols than are held, before a directory is made for the run."""
        require_room("max_length", self.data.max_length, self.training.batch_size)

    @property
    def encoding(self) -> str:
        """Name of the positional encoding."""
        return self.model.encoding

    def build(self) -> Transformer:
        """The untrained model."""
        return build_model(self.model, self.training.seed)

    def document(self) -> dict[str, Any]:
        """The JSON object: `config.json`, and the metadata of the weights. `layout` follows from the rest."""
        return {
            "kind": "training-run",
            "preset": self.preset,
            "encoding": self.encoding,
            "model": self.model.document(),
            "data": asdict(self.data),
            "training": asdict(self.training),
            "layout": self.data.source().document(),
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> RunConfig:
        """The configuration that `document` describes.

        Raises:
            InputError: missing or unknown fields, or values that do not fit.
        """
        try:
            return cls(
                str(document["preset"]),
                ModelConfig.from_document(document["model"]),
                DataConfig(**document["data"]),
                TrainingConfig(**document["training"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError("configuration", repr(error), "one that copycert train wrote") from error
