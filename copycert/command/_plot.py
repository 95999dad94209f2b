"""`copycert plot`: figures from the package's own numbers, without Jupyter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from copycert.command._options import COUNT, json_option, keeping, print_json, progress, said_of_itself
from copycert.figures import (
    POINTS,
    bounds_document,
    bounds_series,
    bounds_ticks,
    draw_bounds,
    draw_minimisers,
    minimiser_figures,
    new_figure,
    require_figure_file,
    require_matplotlib,
    save_figure,
)
from engine import difference, write_atomically
from theory import InputError, draw_grid_frequencies


@click.group("plot")
def plot() -> None:
    """Figures, saved as pdf, png or svg (extra `plots`)."""


@plot.command("bounds")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File of the figure: .pdf, .png or .svg.")
@click.option(
    "--draws", type=COUNT, default=20, show_default=True, help="Frequency draws for each norm budget, at least 2."
)
@click.option("--seed", type=COUNT, default=0, show_default=True, help="Seed of the draws.")
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


@plot.command("minimisers")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The figure: FILE.pdf, .png or .svg.")
@click.option("--d", type=COUNT, default=16, show_default=True, help="RoPE dimension, a multiple of 4.")
@click.option("--seed", type=COUNT, default=0, show_default=True, help="Seed of the frequencies (draw 0).")
def plot_minimisers(out: Path, d: int, seed: int) -> None:
    """Loss against M with both bounds, and the length copied against L with the paper's line.

    The figures drawn are kept beside the plot in FILE.json, and used again by the same command.
    """
    require_matplotlib()
    if out.suffix not in (".pdf", ".png", ".svg"):
        raise InputError("--out", str(out), "a file name that ends in .pdf, .png or .svg")
    draw_grid_frequencies(d, seed, 0)
    kept = "finished points are kept, and the same command goes on from there"
    with keeping(kept), progress("points", len(POINTS)) as tick:
        figures = minimiser_figures(out.with_suffix(".json"), d, seed, tick)
    draw_minimisers(out, figures)
    click.echo(f"Saved: {out}, figures: {out.with_suffix('.json')}")
