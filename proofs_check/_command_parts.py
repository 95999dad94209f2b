"""What the commands share: one JSON object on stdout, and a progress bar on stderr."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on stdout; everything else goes to stderr."
)


def print_json(document: dict[str, Any]) -> None:
    """The one JSON object of a command."""
    click.echo(json.dumps(document))


@contextmanager
def progress(what: str, steps: int) -> Iterator[Any]:
    """A progress bar on stderr, shown on a terminal only; yields a function that advances it by one step."""
    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=steps or None)
        yield lambda: bar.advance(task)
