"""`copycert verify`: the independent checker on files and folders."""

from __future__ import annotations

from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap

import click

from copycert._verify import verify
from copycert.command._options import json_option, print_json
from proofs_check.verify import Finding, Verdict


@click.command("verify")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE|DIR...")
@json_option
@click.pass_context
def verify_command(ctx: click.Context, files: tuple[Path, ...], as_json: bool) -> None:
    """Check certificates with the independent checker, and print the statements that it derives itself.

    Of a folder, such as that of check --out, all certificates in it and in its folder certificates.
    """
    found = verify(*files, tell=_told_quietly if as_json else _told)
    if as_json:
        print_json(found.document())
    elif checked := [finding.verdict for finding in found.findings if finding.verdict is not None]:
        accepted = sum(verdict.accepted for verdict in checked)
        click.echo(f"{accepted} accepted, {len(checked) - accepted} rejected.")
    ctx.exit(found.exit_code)


def _told_quietly(finding: Finding) -> None:
    """What is no certificate, on stderr."""
    if finding.skipped is not None:
        click.echo(f"skipped   {finding.file}: it {finding.skipped}", err=True)
    elif finding.unreadable is not None:
        # The whole path: of a folder with many files its end is what tells them apart.
        name = " ".join(finding.file.split())
        click.echo(f"copycert: FILE = {name}: must be a certificate; it {finding.unreadable}", err=True)


def _told(finding: Finding) -> None:
    _told_quietly(finding)
    if finding.verdict is not None:
        _print_verdict(finding.verdict)


def _print_verdict(verdict: Verdict) -> None:
    click.echo(f"{'accepted' if verdict.accepted else 'REJECTED'}  {verdict.file}")
    _echo_wrapped((verdict.statement if verdict.accepted else verdict.reason) or "")


def _echo_wrapped(text: str) -> None:
    indent = " " * 10
    width = max(40, min(120, get_terminal_size().columns))
    click.echo("\n".join(wrap(text, width, initial_indent=indent, subsequent_indent=indent)))
