"""`copycert compare`: encodings trained on every seed, their tables and plots."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from copycert.command._options import (
    COUNT,
    Integers,
    ManyValues,
    Names,
    json_option,
    keeping,
    print_json,
    progress_to,
    said_of_itself,
)
from copycert.figures import plot_lengths, plot_repetition, plot_training_distributions, require_plots
from copycert.sampled import Job, Questions, compare, write_comparison
from engine import COPY_DISTRIBUTIONS, ENCODINGS, RunConfig, preset_run
from proofs_check._results import claimed_directory
from theory.numbers import require_at_least

#: Probabilities p of the plot against repetition. Flipping with probability 1-p makes p and 1-p the same up to the
#: names of the symbols, so that the axis begins at 1/2.
KEEPS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)


@click.command("compare", cls=ManyValues)
@click.option("--encodings", type=Names(ENCODINGS), required=True, help="Several: " + " ".join(ENCODINGS) + ".")
@click.option(
    "--seeds", type=COUNT, default=8, show_default=True, help="Number of seeds, 0, 1, ...; every one is listed."
)
@click.option("--layers", type=COUNT, default=None, help="Layers [default: the preset's, 1 where 1 can copy, else 2].")
@click.option("--preset", default="laptop", show_default=True, help="Sizes and training.")
@click.option(
    "--train-distributions",
    type=Names(COPY_DISTRIBUTIONS),
    default="imbalanced,uniform",
    show_default=True,
    help="What to train on.",
)
@click.option(
    "--distributions",
    type=Names(COPY_DISTRIBUTIONS),
    default=",".join(COPY_DISTRIBUTIONS),
    show_default=True,
    help="What to test on.",
)
@click.option("--lengths", type=Integers(), default="250,500,1000", show_default=True, help="Test lengths.")
@click.option("--samples", type=COUNT, default=10, show_default=True, help="Strings of each length.")
@click.option("--separator", default="<n>", show_default=True, help="<n>, or * which starts no row.")
@click.option("--steps", type=COUNT, default=None, help="Optimiser steps [default: the preset's].")
@click.option("--processes", type=COUNT, default=None, help="Runs at a time on this machine [default: its cores].")
@click.option("--dask", default=None, help="Address of a Dask scheduler to run on, tcp://HOST:PORT.")
@click.option("--plots/--no-plots", default=True, help="Write the plots, which need the extra plots.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Directory; the same command resumes.")
@json_option
def compare_command(
    encodings: tuple[str, ...],
    seeds: int,
    layers: int | None,
    preset: str,
    train_distributions: tuple[str, ...],
    distributions: tuple[str, ...],
    lengths: tuple[int, ...],
    samples: int,
    separator: str,
    steps: int | None,
    processes: int | None,
    dask: str | None,
    plots: bool,
    out: Path,
    as_json: bool,
) -> None:
    """Train encodings on several seeds and compare what they copy beyond the lengths they were trained on."""
    require_at_least("seeds", seeds, 1)
    require_at_least("samples", samples, 1)
    if plots:
        require_plots()
    ask = Questions(distributions, lengths, samples, keeps=KEEPS)
    jobs = [
        Job(config, out / "runs" / run_name(config), ask)
        for trained in train_distributions
        for encoding in encodings
        for seed in range(seeds)
        for config in [
            preset_run(preset, encoding, seed, distribution=trained, separator=separator, layers=layers, steps=steps)
        ]
    ]
    settings = {
        "encodings": encodings,
        "seeds": seeds,
        "layers": layers,
        "preset": preset,
        "train_distributions": train_distributions,
        "distributions": distributions,
        "lengths": lengths,
        "samples": samples,
        "separator": separator,
        "steps": steps,
    }
    with claimed_directory(out, "compare", settings, ("comparison.json",)):
        kept = "finished runs and the steps of others are kept, and the same command goes on from there"
        with keeping(kept), progress_to("runs", len(jobs)) as tick:
            document = compare(jobs, out, processes=processes or os.cpu_count() or 1, dask=dask, tick=tick)
        document = said_of_itself(document)
        write_comparison(document, out)
        if plots:
            write_plots(document, out)
    if as_json:
        print_json(document)
    else:
        print_comparison(document, out, plots=plots)


def run_name(config: RunConfig) -> str:
    """Name of a run's directory: encoding, layers, what it was trained on, seed."""
    separated = "" if config.data.separator == "<n>" else "-star"
    layers = f"{config.model.layers}-layer"
    return f"{config.encoding}{separated}-{layers}-{config.data.distribution}-seed-{config.training.seed}"


def write_plots(document: dict[str, Any], out: Path) -> None:
    """All plots of a comparison, as PDF and PNG."""
    for trained in dict.fromkeys(row["train_distribution"] for row in document["runs"]):
        plot_lengths(document, trained, out / f"accuracy-against-length-trained-on-{trained}")
    plot_training_distributions(document, out / "training-distributions")
    # Lists are no strings whose symbols repeat.
    if any(row["repetition"] for row in document["runs"]):
        plot_repetition(document, out / "accuracy-against-repetition")


def print_comparison(document: dict[str, Any], out: Path, *, plots: bool) -> None:
    """Every seed, then the sums over all of them."""
    console = Console(highlight=False)
    console.print(_seeds_table(document["runs"]))
    console.print(_summary_table(document["summary"]))
    click.echo("Method: sampled. NOT CONVERGED: below 99% at the trained lengths; no statement on generalisation then.")
    click.echo(f"Saved: {out}/comparison.json{' and plots' * plots}.")


def _seeds_table(runs: list[dict[str, Any]]) -> Table:
    table = Table(box=None, title="Every seed, share of strings exact", title_justify="left")
    for column in ("encoding", "layers", "trained on", "seed", "tested on"):
        table.add_column(column, overflow="fold")
    counted = [runs[0]["trained"], *runs[0]["tests"][0]["beyond"]] if runs else []
    for number, count in enumerate(counted):
        table.add_column(f"{'<= ' * (number == 0)}{count['length']}", justify="right")
    table.add_column("verdict", no_wrap=True)
    for row in runs:
        head = (row["encoding"], str(row["layers"]), row["train_distribution"], str(row["seed"]))
        for test in row["tests"]:
            shares = [f"{c['exact'] / c['samples']:.0%}" for c in (test["within"], *test["beyond"])]
            table.add_row(*head, test["distribution"], *shares, test["verdict"])
    return table


def _summary_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, title="All seeds together: accuracy, 95% interval (Wilson)", title_justify="left")
    for column in ("encoding", "trained on", "tested on", "verdicts"):
        table.add_column(column)
    counted = [rows[0]["within"], *rows[0]["beyond"]] if rows else []
    for number, count in enumerate(counted):
        table.add_column(f"<= {count['length']}" if number == 0 else str(count["length"]))
    for row in rows:
        verdicts = ", ".join(f"{name} {count}" for name, count in row["verdicts"].items())
        cells = [
            f"{c['accuracy']:.0%} ({c['interval'][0]:.2f}-{c['interval'][1]:.2f})"
            for c in (row["within"], *row["beyond"])
        ]
        table.add_row(row["encoding"], row["train_distribution"], row["distribution"], verdicts, *cells)
    return table
