"""`copycert plot`: figures from the package's own numbers, without Jupyter."""

from __future__ import annotations

from pathlib import Path

import click

from proofs_check._command_parts import json_option, print_json, progress
from proofs_check._figures import new_figure, require_figure_file, save_figure
from proofs_check._plot_bounds import bounds_document, bounds_series, bounds_ticks, draw_bounds
from proofs_check._plot_minimisers import minimisers_command


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
    with progress("draws", bounds_ticks(draws)) as tick:
        series = bounds_series(draws, seed, tick)
    save_figure(draw_bounds(series), out)
    if as_json:
        print_json({**bounds_document(series), "file": str(out)})
    else:
        click.echo(f"Saved: {out}")


plot.add_command(minimisers_command)
