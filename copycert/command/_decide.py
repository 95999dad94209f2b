"""`copycert decide` and `copycert thresholds`: can any one-layer, one-head model copy all strings up to a length?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from copycert._decide import decide, decision_document, decision_file
from copycert.command._options import COUNT, Choice, json_option, print_json, progress
from theory import Decision, thresholds
from theory.signs import Signs, Threshold
from theory.task import RELATION_NAMES


@click.command("decide")
@click.option("--relation", required=True, help=f"Positional relation: {RELATION_NAMES}.")
@click.option("--a", type=COUNT, required=True, help="Tokens before the string.")
@click.option("--b", type=COUNT, required=True, help="Tokens between the string and its copy.")
@click.option("--length", type=COUNT, required=True, help="Longest string.")
@click.option(
    "--signs",
    type=Choice(("any", "opposite", "equal")),
    default="any",
    show_default=True,
    help="Votes of 0 and 1: any, opposite or equal.",
)
@click.option("--out", type=click.Path(path_type=Path), default=None, help="Directory for the certificate.")
@json_option
@click.pass_context
def decide_command(
    ctx: click.Context, relation: str, a: int, b: int, length: int, signs: Signs, out: Path | None, as_json: bool
) -> None:
    """Can any one-layer, one-head model copy all strings up to a length? A model, or a few strings that cancel."""
    decision = decide(relation, a, b, length, signs, out=out)
    name = decision_file(decision)
    document = decision_document(decision, None if out is None else str(out / name))
    if as_json:
        print_json(document)
    else:
        if relation != decision.layout.relation:
            click.echo(f"{relation} is a {decision.layout.relation} relation: the answer is about all of these.")
        _print_decision(decision, out, name)
    ctx.exit(0)


def _print_decision(decision: Decision, out: Path | None, name: str) -> None:
    what = f"every binary string of length <= {decision.length} ({decision.layout.relation}, a = {decision.layout.a}, "
    what += f"b = {decision.layout.b}, signs {decision.signs})"
    if decision.possible:
        click.echo(f"POSSIBLE: a one-layer, one-head model copies {what}.")
    else:
        click.echo(f"IMPOSSIBLE: no one-layer, one-head model copies {what}.")
        _print_cases(decision)
    click.echo("Label: new. Method: exact; accepted by the independent checker.")
    click.echo(f"Saved: {out / name}" if out else "--out DIR keeps the certificate.")


def _print_cases(decision: Decision) -> None:
    part = decision.certificates[0]
    assumed = ", ".join(f"{token} votes for {0 if vote > 0 else 1}" for token, vote in part.votes)
    click.echo(f"These steps cannot all be right{f' if {assumed}' if assumed else ''}:")
    for case in part.cases:
        n, i = len(case.string), case.step
        seen = f"after {case.string[: i - 1]}" if i > 1 else "at the start"
        times = f", counted {case.multiplier} times" if case.multiplier > 1 else ""
        click.echo(f"  string {case.string} (length {n}), step {i}: {seen}, write {case.string[i - 1]}{times}")
    click.echo(
        "At each step the votes of all tokens seen, weighted by attention, must add up to the side of the symbol to "
        "write. Write each sum with + for 0 and - for 1: added up, every contribution cancels or has the wrong sign."
    )
    if len(decision.certificates) > 1:
        click.echo(f"{len(decision.certificates) - 1} more such lists cover the other signs of the votes.")


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
