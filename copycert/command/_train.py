"""`copycert train`: one run of a preset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from copycert.command._options import COUNT, Integers, Stopped, json_option, keeping, print_json, progress_to
from engine import (
    LIST_DISTRIBUTIONS,
    PRECISIONS,
    PRESETS,
    Devices,
    Interrupted,
    RunConfig,
    RunDirectory,
    preset_run,
    train,
)
from theory import InputError


@click.command("train")
@click.option("--preset", required=True, help="Sizes and training: " + ", ".join(PRESETS) + ".")
@click.option("--encoding", required=True, help="Positional encoding, such as rope2d; a wrong name lists the known.")
@click.option("--seed", type=COUNT, default=0, show_default=True, help="Seed of weights and data.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Run directory; the same command resumes.")
@click.option("--task", default="copy", show_default=True, help="copy, or list: Python-list conversion.")
@click.option(
    "--train-distribution",
    "distribution",
    default=None,
    help="uniform, imbalanced, recursive-flip or repeat-structure [default: imbalanced]; for lists "
    + ", ".join(LIST_DISTRIBUTIONS)
    + " [default: mixed].",
)
@click.option("--separator", default="<n>", show_default=True, help="<n>, or * which starts no row.")
@click.option("--layers", type=COUNT, default=None, help="Number of layers [default: the preset's].")
@click.option("--heads", type=Integers(), default=None, help="Heads of each layer, 2,1, or of all.")
@click.option("--steps", type=COUNT, default=None, help="Optimiser steps [default: the preset's].")
@click.option("--max-length", type=COUNT, default=None, help="Longest training string [default: 100], or list [150].")
@click.option("--precision", default=None, help=", ".join(PRECISIONS) + " [default: 32-true].")
@click.option("--accelerator", default="auto", show_default=True, help="cpu, cuda, or auto.")
@click.option(
    "--devices", type=COUNT, default=1, show_default=True, help="Processes, one a device; torchrun sets its own number."
)
@click.option("--checkpoint-every", type=COUNT, default=100, show_default=True, help="Steps between checkpoints.")
@json_option
def train_command(
    preset: str,
    encoding: str,
    seed: int,
    out: Path,
    task: str,
    distribution: str | None,
    separator: str,
    layers: int | None,
    heads: tuple[int, ...] | None,
    steps: int | None,
    max_length: int | None,
    precision: str | None,
    accelerator: str,
    devices: int,
    checkpoint_every: int,
    as_json: bool,
) -> None:
    """Train a model from scratch on the copy task, or on list conversion. A run that was stopped goes on."""
    config = preset_run(
        preset,
        encoding,
        seed,
        task=task,
        distribution=distribution,
        separator=separator,
        layers=layers,
        heads=heads[0] if heads is not None and len(heads) == 1 else heads,
        steps=steps,
        max_length=max_length,
        precision=precision,
    )
    run = RunDirectory(out)
    where, steps_asked = Devices(accelerator, devices), config.training.steps
    with keeping("steps since the last checkpoint are lost"), progress_to("steps", steps_asked) as tick:
        try:
            first = train(config, run, devices=where, checkpoint_every=checkpoint_every, tick=tick, warn=_warn)
        except Interrupted as error:
            goes_on = f"the same command goes on from step {error.step} of {steps_asked}"
            raise Stopped(goes_on if error.step else "no step was done", error.number) from error
    if first:
        _report(config, run, as_json)


def _warn(message: str) -> None:
    click.echo(f"copycert: {message}", err=True)


def _report(config: RunConfig, run: RunDirectory, as_json: bool) -> None:
    lines = run.metrics()
    if not lines:
        raise InputError("out", str(run.path), "a run that still has its metrics.jsonl")
    last = lines[-1]
    if as_json:
        print_json(train_document(config, run, last))
        return
    click.echo(
        f"Trained {config.encoding}, {config.model.layers} layer{'s' * (config.model.layers > 1)}, preset "
        f"{config.preset}, seed {config.training.seed}: loss {last['loss']:.2g} a token at step {last['step'] + 1}."
    )
    click.echo(f"Saved: {run.model}. A small loss is not yet exact copying: copycert evaluate {run.path} says.")


def train_document(config: RunConfig, run: RunDirectory, last: dict[str, Any]) -> dict[str, Any]:
    """The JSON object of the command."""
    return {
        "run": str(run.path),
        "model": str(run.model),
        "preset": config.preset,
        "encoding": config.encoding,
        "seed": config.training.seed,
        "steps": last["step"] + 1,
        "loss": last["loss"],
    }
