"""`copycert floats`: how far float64, float32 and bfloat16 carry the two constructions."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from constructions import DTYPES, Construction, FloatReach, Trial, budgets, float_reach, practical_trial, predicted_rho
from copycert.command._options import json_option, print_json, progress, said_of_itself
from copycert.figures import MARKERS, PALETTE, new_figure, save_figure
from engine import write_atomically
from proofs_check._results import claimed_directory
from theory import InputError

CONSTRUCTIONS: tuple[Construction, ...] = ("two-layer", "grid")

NAMES = {"two-layer": "two layers (3.2), length L0", "grid": "one layer (4.1), d = 4, half of n*"}


@click.command("floats")
@click.option("--dtypes", default=",".join(DTYPES), show_default=True, help="Formats, separated by commas.")
@click.option("--out", type=click.Path(path_type=Path), default=None, help="Directory for floats.json and floats.pdf.")
@json_option
def floats_command(dtypes: str, out: Path | None, as_json: bool) -> None:
    """For each float format the largest norm budget at which the torch model itself still copies its worst strings.

    Measured on a ladder of budgets (sampled: a run without an error proves nothing), and predicted from the rounding of
    the scores. Label: new.
    """
    names = _known(dtypes)
    if out is not None:
        new_figure(1, 1)  # a missing matplotlib is found before the long part
    with claimed_directory(out, "floats", {"dtypes": names}, ("floats.json", "floats.pdf")):
        reaches, practical = _measured(names)
        document = said_of_itself(floats_document(reaches, practical))
        if out is not None:
            write_atomically(out / "floats.json", (json.dumps(document, indent=1) + "\n").encode())
            save_figure(draw_floats(reaches), out / "floats.pdf")
    if as_json:
        print_json(document)
    else:
        _print_table(reaches, practical)
        click.echo(f"Saved: {out}/floats.json, {out}/floats.pdf" if out else "--out DIR keeps the table and a plot.")


def _known(dtypes: str) -> list[str]:
    names = [name.strip() for name in dtypes.split(",")]
    for name in names:
        if name not in DTYPES:
            raise InputError("--dtypes", dtypes, "some of " + ", ".join(DTYPES))
    return names


def _measured(names: list[str]) -> tuple[list[FloatReach], dict[str, Trial]]:
    pairs = [(construction, name) for construction in CONSTRUCTIONS for name in names]
    with progress("budgets", sum(len(budgets(one, name)) for one, name in pairs)) as tick:
        reaches = [float_reach(one, name, tick) for one, name in pairs]
    return reaches, {name: practical_trial(name) for name in names}


def floats_document(reaches: list[FloatReach], practical: dict[str, Trial]) -> dict[str, Any]:
    """The map as one JSON object."""
    rows = [
        {
            **asdict(reach),
            "measured": None if reach.measured is None else asdict(reach.measured),
            "first_wrong": None if reach.first_wrong is None else asdict(reach.first_wrong),
        }
        for reach in reaches
    ]
    return {
        "rows": rows,
        "one_layer_at_rho_20000_d_120": {name: asdict(trial) for name, trial in practical.items()},
        "labels": {"measured": ["new", "sampled"], "predicted": ["new", "sampled"]},
    }


def _print_table(reaches: list[FloatReach], practical: dict[str, Trial]) -> None:
    table = Table(box=None)
    head = "construction, format, predicted rho, right up to rho, n there, first wrong at rho, n there, steps wrong"
    for column in head.split(", "):
        table.add_column(column)
    for reach in reaches:
        right, wrong = reach.measured, reach.first_wrong
        table.add_row(
            NAMES[reach.construction],
            reach.dtype,
            f"{reach.predicted_rho:.3g}",
            "none tried" if right is None else f"{right.rho:.6g}",
            "" if right is None else str(right.length),
            "beyond the ladder" if wrong is None else f"{wrong.rho:.6g}",
            "" if wrong is None else str(wrong.length),
            "" if wrong is None else f"{wrong.wrong} of {wrong.steps}",
        )
    Console().print(table)
    click.echo(
        "Label: new. Method: sampled, on strings that put the neighbours of a step on the wrong side. What is measured "
        "is of this machine: the order of sums, and so the last bits, differ between processors and thread counts."
    )
    click.echo(
        "Theorem 3.2 asks for rho > 10^4. Its scores, of size rho^4/10^4, differ by 1.39 ln^2 rho between neighbours: "
        "a format with too few bits cannot tell them apart."
    )
    for name, trial in practical.items():
        click.echo(
            f"One layer at rho = {trial.rho:.0f}, d = 120, strings of {trial.length} symbols, {name}: "
            f"{trial.wrong} of {trial.steps} steps wrong."
        )


def draw_floats(reaches: list[FloatReach]) -> Any:
    """Share of wrong steps against the norm budget: one panel a construction, one marker and colour a format."""
    figure = new_figure(10.4, 4.0)
    present = [name for name in CONSTRUCTIONS if any(reach.construction == name for reach in reaches)]
    for place, construction in enumerate(present, 1):
        axes = figure.add_subplot(1, len(present), place)
        for number, reach in enumerate(reach for reach in reaches if reach.construction == construction):
            style: dict[str, Any] = {"color": PALETTE[number + 4], "marker": MARKERS[number]}
            shares = [trial.wrong / trial.steps for trial in reach.trials]
            axes.plot([trial.rho for trial in reach.trials], shares, label=f"{reach.dtype}, measured", **style)
            axes.axvline(predicted_rho(reach.construction, reach.dtype), color=style["color"], linestyle="--",
                         label=f"{reach.dtype}, predicted")  # fmt: skip
        axes.set_xscale("log")
        axes.set_ylim(-0.02, 0.5)
        axes.set_title(NAMES[construction], fontsize="medium")
        axes.set_xlabel("norm budget rho")
        axes.set_ylabel("share of wrong steps")
        axes.legend(fontsize="x-small")
        axes.grid(alpha=0.3)
    return figure
