"""Commands run in this process, as tests ask for them."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from copycert.command._main import cli, main


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
