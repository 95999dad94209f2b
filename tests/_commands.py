"""Commands run in this process, as tests ask for them."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from copycert.command._main import cli, main


@dataclass(frozen=True)
class Report:
    """A whole report of `copycert check` with --json.

    Attributes:
        out: its directory; shared, so that a test that changes something copies it first.
        printed: the JSON object, as text.
        exit_code: of the command.
    """

    out: Path
    printed: str
    exit_code: int

    @property
    def document(self) -> dict[str, Any]:
        """What was printed."""
        document: dict[str, Any] = json.loads(self.printed)
        return document

    def certificates(self, rho: str) -> list[Path]:
        """Certificates and weights that are of this norm budget or of none."""
        others = [f"rho-{other}-" for other in self.document["rho"] if str(other) != rho]
        files = sorted((self.out / "certificates").iterdir())
        return [file for file in files if not any(other in file.name for other in others)]


def make_report(out: Path) -> Report:
    """A report of two norm budgets, by a process that does not check signatures: some ten seconds."""
    arguments = ["check", "--rho", "14401", "20000", "--draws", "1", "--out", str(out), "--json"]
    done = subprocess.run([sys.executable, "-m", "copycert", *arguments], capture_output=True, text=True, check=False)
    return Report(out, done.stdout, done.returncode)


def run_json(*arguments: str) -> dict[str, Any]:
    """The JSON object of a command that succeeds."""
    done = CliRunner().invoke(cli, [*arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    captured = capsys.readouterr()
    return int(caught.value.code or 0), captured.out, captured.err


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on standard error of a command that is given bad input."""
    code, out, err = answered(capsys, *arguments)
    assert code == 2 and out == "" and err.count("\n") == 1
    return err
