"""`copycert plot`: figures from the package's own numbers, without Jupyter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from engine import difference, write_atomically
from proofs_check._command_parts import json_option, print_json, progress, said_of_itself
from proofs_check._figures import new_figure, require_figure_file, save_figure
from proofs_check._plot_bounds import bounds_document, bounds_series, bounds_ticks, draw_bounds
from proofs_check._plot_minimisers import minimisers_command
from theory import InputError


@click.group("plot")
def plot() -> None:
    """Figures, saved as pdf, png or svg (extra `plots`)."""


@plot.command("bounds")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File of the figure: .pdf, .png or .svg.")
@click.option("--draws", default=20, show_default=True, help="Frequency draws for each norm budget, at least 2.")
@click.option("--seed", default=0, show_default=True, help="Seed of the draws.")
@json_option
def plot_bounds(out: Path, draws: int, seed: int, as_json: bool) -> None:
    """Length against the norm budget: the printed bounds, what single models reach, and the ceilings."""
    require_figure_file(out)
    new_figure(1, 1)  # a missing matplotlib is found before the long part
    figures, settings = out.with_suffix(".json"), {"draws": draws, "seed": seed}
    _require_same(out, figures, settings)
    with progress("draws", bounds_ticks(draws)) as tick:
        series = bounds_series(draws, seed, tick)
    document = said_of_itself({**bounds_document(series), "file": str(out), "settings": settings})
    write_atomically(figures, (json.dumps(document, indent=1) + "\n").encode())
    save_figure(draw_bounds(series), out)
    if as_json:
        print_json(document)
    else:
        click.echo(f"Saved: {out}, figures: {figures}")


def _require_same(out: Path, figures: Path, settings: dict[str, Any]) -> None:
    """InputError if there is a figure already, of other or of unknown settings."""
    if not figures.exists() and not out.exists():
        return
    try:
        differs = difference(json.loads(figures.read_bytes())["settings"], settings)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        allowed = f"new, or a figure of the same settings ({figures.name} does not say of which)"
        raise InputError("--out", str(out), allowed) from error
    if differs:
        raise InputError("--out", str(out), f"new, or a figure of the same settings ({differs})")


plot.add_command(minimisers_command)
