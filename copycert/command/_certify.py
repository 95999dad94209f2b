"""`copycert certify`: does a one-layer model copy all strings of all lengths? A proof, or a string that breaks it."""

from __future__ import annotations

from errno import EDQUOT, ENOSPC
from pathlib import Path
from typing import Any, Literal

import click

from copycert.command._options import COUNT, Choice, json_option, print_json, progress_to
from engine import make_directory
from proofs_check._results import require_own
from proofs_check.certify import (
    CAP,
    Certified,
    Question,
    Written,
    certified_document,
    certify,
    files_of,
    finite,
    load,
    number_of_strings,
    settings_of,
    worst_document,
    write_certified,
)
from theory import InputError
from theory.numbers import require_at_least, spelled, spelled_at_most


@click.command("certify")
@click.argument("run_or_file", type=click.Path(path_type=Path))
@click.option("--max-length", type=COUNT, required=True, help="Every string of every length up to it.")
@click.option(
    "--criterion",
    type=Choice(("argmax", "half")),
    default="argmax",
    show_default=True,
    help="argmax, or half: probability above 1/2.",
)
@click.option("--find-limit", is_flag=True, help="Find the largest length up to which every string is copied.")
@click.option("--cap", type=COUNT, default=CAP, show_default=True, help="Largest length --find-limit looks at.")
@click.option("--full-witness", is_flag=True, help="Write the strings shown out in the JSON object.")
@click.option("--out", type=click.Path(path_type=Path), default=None, help="Directory for certificate and weights.")
@json_option
@click.pass_context
def certify_command(
    ctx: click.Context,
    run_or_file: Path,
    max_length: int,
    criterion: Literal["argmax", "half"],
    find_limit: bool,
    cap: int,
    full_witness: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Prove that the one-layer model in RUN_OR_FILE copies every string, or show one that it does not copy.

    Exit codes: 0 proved, or with --find-limit the limit is decided; 1 refuted; 3 undecided.
    """
    require_at_least("--max-length", max_length, 1)
    require_at_least("--cap", cap, 1)
    subject = load(run_or_file)
    settings = settings_of(Question(subject, max_length, criterion), cap if find_limit else None)
    made = out is not None and _made(out, settings, files_of(subject))
    with progress_to("query tokens", 0) as advance:
        done = 0

        def tick() -> None:
            nonlocal done
            done += 1
            advance(done)

        try:
            found = certify(subject, max_length, criterion, find_limit=find_limit, cap=cap, tick=tick)
        except InputError:
            if made and out is not None:
                out.rmdir()
            raise
    if not as_json:
        # Before anything is saved: a full disk must not cost the verdict.
        _print(found)
    written, failed = Written(None, None), None
    if out is not None:
        try:
            written = write_certified(out, found, settings)
        except (OSError, InputError) as error:
            failed = error
    if as_json:
        print_json(certified_document(found, full_witness=full_witness, certificate=written.file))
    elif written.file is not None:
        click.echo(f"Certificate: {written.file}.")
    if written.reason:
        click.echo(f"No certificate: {written.reason}.", err=True)
    if failed is not None:
        raise failed
    ctx.exit(exit_code(found))


def exit_code(found: Certified) -> int:
    """0 proved, or the limit that was looked for is decided; 1 refuted; 3 undecided."""
    if found.search is not None and found.search.exact:
        return 0
    return {"PROVED": 0, "REFUTED": 1, "UNDECIDED": 3}[found.status]


def _made(out: Path, settings: dict[str, Any], names: tuple[str, ...]) -> bool:
    """Make the directory for what will be saved, before the work; was it not there before?

    A full disk is no reason yet: the verdict is told first.

    Raises:
        InputError: it holds results of other settings, or is none and cannot be one.
    """
    require_own(out, "certify", settings, names)
    there = out.exists()
    try:
        make_directory(out, "--out")
    except InputError as error:
        if getattr(error.__cause__, "errno", None) not in (ENOSPC, EDQUOT):
            raise
    return not there and out.exists()


def _print(found: Certified) -> None:
    subject, max_length = found.question.subject, found.question.max_length
    count = number_of_strings(max_length) if max_length < 90 else f"2^{max_length + 1} - 2"
    everything = f"every one of the {count} binary strings of length 1 to {max_length}"
    worst = worst_document(subject, found.worst)
    where = f"step {worst['step']} of length {worst['length']} (query {worst['query']}, {worst['symbol']} against "
    where += f"{worst['competitor']})"
    if found.status == "PROVED":
        click.echo(f"PROVED: {everything} is copied.")
        below = finite(found.margin_below)
        proved = f" (proved: above {spelled_at_most(below)})" if below else ""
        click.echo(f"Least logit difference found: {spelled(found.worst.difference)}{proved}, at {where}.")
    elif found.status == "REFUTED":
        click.echo(f"REFUTED: not {everything} is copied; every one of length <= {found.proved_to} is.")
        click.echo(
            f"Counterexample: {worst['description']}; logit difference {spelled(found.worst.difference)} at {where}."
        )
        _print_replay(found)
    else:
        click.echo(f"UNDECIDED whether {everything} is copied; every one of length <= {found.proved_to} is.")
    if found.search is not None:
        _print_limit(found.search)
        if found.search is not found:
            _print_replay(found.search)
    if found.remark:
        click.echo(f"Remark: {found.remark}.")
    click.echo(f"Label: new. Method: {found.method}. {found.seconds:.3f} s.")


def _print_limit(search: Certified) -> None:
    proved, fails = search.proved_to, search.fails_at
    if fails is None:
        click.echo(f"No limit found: every string of length <= {proved} is copied.")
    elif fails == proved + 1:
        click.echo(f"Limit: {proved}. Some string of length {fails} is not copied.")
    else:
        between = f"every string of length <= {proved} is copied, some string of length {fails} is not"
        click.echo(f"Limit between {proved} and {fails - 1}: {between}; in between it is undecided.")


def _print_replay(found: Certified) -> None:
    replay = found.replay
    if replay is None:
        return
    answers = {True: "the model gets that step wrong", False: "the model gets that step right", None: "no numbers"}
    if replay.stored_dtype:
        click.echo(f"Replayed in torch, as stored ({replay.stored_dtype}): {answers[replay.stored_wrong]}.")
    click.echo(f"Replayed in torch, float64: {answers[replay.wrong] if replay.ran else replay.reason}.")
    if replay.ran and replay.stored_dtype and replay.wrong != replay.stored_wrong:
        click.echo("The two differ: the verdict is about real arithmetic with the stored weights, not about that run.")
