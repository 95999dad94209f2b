"""Training a run, and measuring how many strings it copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from copycert.sampled import Verdict, verdict_on
from engine import (
    Accuracy,
    Devices,
    RunConfig,
    RunDirectory,
    accuracy_at,
    accuracy_within,
    load_run,
    preset_run,
    require_finite,
)
from engine import train as _train

#: Strings tried at the lengths of the training range.
WITHIN_SAMPLES = 200


def train(
    preset: str,
    encoding: str,
    out: Path | str,
    seed: int = 0,
    *,
    accelerator: str = "auto",
    devices: int = 1,
    checkpoint_every: int = 100,
    tick: Callable[[int], None] = lambda steps: None,
    **options: Any,
) -> RunDirectory:
    """Train a model from scratch, or go on with a run that was stopped.

    Args:
        preset, encoding, seed: what to train; `engine.PRESETS` and `engine.ENCODINGS` list the names.
        out: the run directory.
        accelerator, devices: where; cpu, cuda, or auto.
        checkpoint_every: steps between checkpoints; it changes no result.
        tick: called with the number of steps done.
        options: the others of `engine.preset_run`, such as steps, max_length, distribution, layers.

    Raises:
        InputError: unknown names, numbers that do not fit, or a directory of another run.
        Interrupted: by SIGINT or SIGTERM, with a checkpoint of all steps done.
    """
    config, run = preset_run(preset, encoding, seed, **options), RunDirectory(Path(out))
    _train(config, run, devices=Devices(accelerator, devices), checkpoint_every=checkpoint_every, tick=tick)
    return run


@dataclass(frozen=True)
class Evaluation:
    """Accuracies of exact copying on samples; no proof.

    Attributes:
        config: of the run.
        trained: at the lengths of the training range, on its distribution.
        within: the same on the distribution asked for.
        beyond: at each length asked for.
        verdict: what they let one say.
    """

    config: RunConfig
    trained: Accuracy
    within: Accuracy
    beyond: tuple[Accuracy, ...]
    verdict: Verdict

    def document(self) -> dict[str, Any]:
        """The JSON object of `copycert evaluate --json`."""
        return {
            "results": [accuracy.document() for accuracy in self.beyond],
            "within_training": self.within.document(),
            "on_training_distribution": self.trained.document(),
            "verdict": self.verdict.name,
            "method": "sampled",
        }

    def __repr__(self) -> str:
        shown = ", ".join(f"{a.exact}/{a.samples} at {a.length}" for a in self.beyond[:6])
        more = ", ..." * (len(self.beyond) > 6)
        return f"<Evaluation {self.verdict.name} ({self.within.distribution}): {shown}{more}; sampled>"


def evaluate(
    run: Path | str,
    lengths: Sequence[int],
    distribution: str,
    *,
    samples: int = 10,
    seed: int = 0,
    periods: tuple[int, ...] | None = None,
    tick: Callable[[int], None] = lambda done: None,
) -> Evaluation:
    """How many strings of each length a run copies exactly, by teacher forcing, beside the lengths it was trained on.

    Args:
        run: its directory or weights file.
        lengths: of the strings, or numbers of data points of lists.
        distribution: of the strings or lists.
        samples: strings of each length.
        seed: of the strings; never those of the training.
        periods: least and largest period of lists; as trained if None.
        tick: called with the number of lengths done.

    Raises:
        InputError: no run, weights that are not finite, an unknown distribution, or numbers out of range.

    Method: sampled.
    """
    config, model = load_run(Path(run))
    require_finite(model, Path(run))
    data = config.data if periods is None else config.data.with_periods(*periods)
    source = data.source()
    trained = accuracy_within(model, config.data.source(), config.data.distribution, WITHIN_SAMPLES, seed)
    within = accuracy_within(model, source, distribution, WITHIN_SAMPLES, seed)
    beyond: list[Accuracy] = []
    for length in lengths:
        beyond.append(accuracy_at(model, source, distribution, length, samples, seed))
        tick(len(beyond))
    return Evaluation(config, trained, within, tuple(beyond), verdict_on(trained, within, beyond))
