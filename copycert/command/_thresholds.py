"""`copycert thresholds`: the largest length that one layer can copy, over positional relations."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.console import Console
from rich.table import Table

from copycert.command._options import COUNT, json_option, print_json, progress
from theory import thresholds
from theory.signs import Threshold


@click.command("thresholds")
@click.option("--max-length", type=COUNT, default=8, show_default=True, help="Longest strings looked at.")
@json_option
@click.pass_context
def thresholds_command(ctx: click.Context, max_length: int, as_json: bool) -> None:
    """The largest length that one layer can copy, for every positional relation, some (a, b) and signs of the votes."""
    rows = []
    with progress("rows", 0) as tick:
        for row in thresholds(max_length):
            rows.append(row)
            tick()
    if as_json:
        print_json({"rows": [asdict(row) for row in rows]})
    else:
        _print_thresholds(rows)
    ctx.exit(0)


def _print_thresholds(rows: list[Threshold]) -> None:
    table = Table(box=None)
    for column in ("relation", "a", "b", "signs", "largest length"):
        table.add_column(column)
    for row in rows:
        reached = f">= {row.largest}" if row.largest == row.searched_to else str(row.largest)
        table.add_row(row.relation, _all_or(row.a), _all_or(row.b), row.signs, reached)
    Console().print(table)
    click.echo("Label: new. Method: exact. One layer, one head, two outputs, linear read-out.")


def _all_or(number: int | None) -> str:
    return "all" if number is None else str(number)
