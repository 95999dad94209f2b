"""`copycert plot`: figures, for which the extra `plots` is needed."""

from __future__ import annotations

import click

from proofs_check._plot_minimisers import minimisers_command


@click.group("plot")
def plot() -> None:
    """Figures as PDF, PNG or SVG; needs the extra plots (matplotlib)."""


plot.add_command(minimisers_command)
