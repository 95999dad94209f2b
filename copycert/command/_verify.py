"""`copycert verify`: the independent checker on files and folders."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap

import click

from copycert.command._options import EXIT_BAD_INPUT, json_option, print_json
from proofs_check.verify import Verdict, verify_paths


@click.command("verify")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE|DIR...")
@json_option
@click.pass_context
def verify_command(ctx: click.Context, files: tuple[Path, ...], as_json: bool) -> None:
    """Check certificates with the independent checker, and print the statements that it derives itself.

    Of a folder, such as that of check --out, all certificates in it and in its folder certificates.
    """
    checked: list[Verdict] = []
    verdicts, skipped, code = [], [], 0
    for finding in verify_paths(files):
        if finding.skipped is not None:
            skipped.append({"file": finding.file, "reason": finding.skipped})
            click.echo(f"skipped   {finding.file}: it {finding.skipped}", err=True)
        elif finding.verdict is None:
            code = EXIT_BAD_INPUT
            checked.append(Verdict(finding.file, False, None, finding.unreadable))
            # The whole path: of a folder with many files its end is what tells them apart.
            name = " ".join(finding.file.split())
            click.echo(f"copycert: FILE = {name}: must be a certificate; it {finding.unreadable}", err=True)
        else:
            code = max(code, 0 if finding.verdict.accepted else 1)
            checked.append(finding.verdict)
            verdicts.append(finding.verdict)
            if not as_json:
                _print_verdict(finding.verdict)
    if as_json:
        print_json({"files": [asdict(verdict) for verdict in checked], "skipped": skipped})
    elif verdicts:
        accepted = sum(verdict.accepted for verdict in verdicts)
        click.echo(f"{accepted} accepted, {len(verdicts) - accepted} rejected.")
    ctx.exit(code)


def _print_verdict(verdict: Verdict) -> None:
    click.echo(f"{'accepted' if verdict.accepted else 'REJECTED'}  {verdict.file}")
    _echo_wrapped((verdict.statement if verdict.accepted else verdict.reason) or "")


def _echo_wrapped(text: str) -> None:
    indent = " " * 10
    width = max(40, min(120, get_terminal_size().columns))
    click.echo("\n".join(wrap(text, width, initial_indent=indent, subsequent_indent=indent)))
