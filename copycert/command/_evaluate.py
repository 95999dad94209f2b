"""`copycert evaluate`: accuracy of exact copying, beside that at the lengths the run was trained on."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from copycert._runs import Evaluation, evaluate
from copycert.command._options import COUNT, Integers, json_option, print_json, progress_to, run_argument
from copycert.sampled import share


@click.command("evaluate")
@run_argument
@click.option("--distribution", required=True, help="Of the strings, or lists; a wrong name lists the known.")
@click.option("--lengths", type=Integers(), required=True, help="Lengths of the strings, or numbers of data points.")
@click.option("--samples", type=COUNT, default=10, show_default=True, help="Strings of each length.")
@click.option(
    "--seed", type=COUNT, default=0, show_default=True, help="Seed of the strings; never those of the training."
)
@click.option("--periods", type=Integers(), default=None, help="LEAST,LARGEST period of lists [default: as trained].")
@json_option
def evaluate_command(
    run: Path,
    distribution: str,
    lengths: tuple[int, ...],
    samples: int,
    seed: int,
    periods: tuple[int, ...] | None,
    as_json: bool,
) -> None:
    """How many strings of each length RUN copies exactly, by teacher forcing."""
    with progress_to("lengths", len(lengths)) as tick:
        found = evaluate(run, lengths, distribution, samples=samples, seed=seed, periods=periods, tick=tick)
    if as_json:
        print_json(found.document())
    else:
        _print(found)


def _print(found: Evaluation) -> None:
    config, trained, within, verdict = found.config, found.trained, found.within, found.verdict
    table = Table(box=None)
    for column in ("distribution", "length", "exact", "accuracy", "95% (Wilson)"):
        table.add_column(column)
    rows = [(f"{config.data.min_length} to {a.length}, as trained", a) for a in dict.fromkeys((trained, within))]
    for length, accuracy in [*rows, *((str(a.length), a) for a in found.beyond)]:
        low, high = accuracy.interval()
        exact = f"{accuracy.exact} of {accuracy.samples}"
        table.add_row(accuracy.distribution, length, exact, share(accuracy), f"{low:.3f} to {high:.3f}")
    Console(highlight=False).print(table)
    click.echo(f"{config.encoding} on {within.distribution}: {verdict.sentence}")
    click.echo("Method: sampled; no proof. copycert certify decides one-layer models for all strings.")
