"""`copycert check` for people: the table, the choice of claims, their list, and a report made again."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from copycert.command._main import cli, main
from copycert.command.check import _command as command
from copycert.command.check._table import WIDTH, cut, shortened, table
from proofs_check.claims import Claim, claim_list

QUICK = ("check", "--rho", "20000", "--only", "3.1/b-1", "4.1/ceiling")


def output(*arguments: str) -> str:
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    captured = capsys.readouterr()
    assert caught.value.code == 2 and captured.out == "" and captured.err.count("\n") == 1
    return captured.err


def claim(name: str = "4.1/ceiling", **changes: Any) -> Claim:
    made = Claim(name, name[:3], "new", "ball", "PROVED", "PROVED", "It is so.", printed="rho^(d/12)", ours="10^187.1")
    return replace(made, **changes)


def rows(*claims: Claim) -> list[str]:
    lines = [line.plain for line in table(claims)]
    assert all(len(line) <= WIDTH == 80 and "\n" not in line for line in lines)
    return lines


def test_a_check_ends_with_a_line_for_each_claim() -> None:
    lines = output(*QUICK).splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["claim", "status", "the", "paper", "prints", "we", "have"],
        ["3.1/b-1", "PROVED", "-", "not", "all", "n", "<=", "5"],
        ["4.1/ceiling", "PROVED", "-", "fails", "at", "10^266.7"],
    ]
    assert lines[3].startswith("2 claims: 2 PROVED; all as expected, ") and len(lines) == 5
    assert lines[4] == "The independent checker accepted every certificate; --out DIR keeps them."


@pytest.mark.parametrize("flag", ["-v", "--verbose"])
def test_full_statements_come_before_the_table_when_asked_for(flag: str) -> None:
    brief, full = output(*QUICK), output(*QUICK, flag)
    assert "Whatever the frequencies" not in brief and "Whatever the frequencies" in full
    assert "PROVED     4.1/ceiling  [new, ball]" in full
    assert full.splitlines()[-5:-2] == brief.splitlines()[-5:-2]


def test_every_claim_of_a_report_can_be_told_from_the_others() -> None:
    for budgets in (("20000",), ("20000", "40000")):
        claims = [
            claim(task.id, rho=None if task.rho is None else rho, printed="rho^2/(1000 ln rho)", ours="x" * 20)
            for rho in budgets
            for task in claim_list()
        ]
        for status in ("PROVED", "UNDECIDED", "NOT_APPLICABLE"):
            names = [line.split(status)[0] for line in rows(*(replace(c, status=status) for c in claims))[1:36]]
            assert len(set(names)) == 35
    # With one budget and everything decided nothing is cut but long ids.
    short = {task.id for task in claim_list() if "/probability/" not in task.id}
    decided = claim(status="UNDECIDED", expected="UNDECIDED", printed="rho^2/(1000 ln rho)", ours="x" * 19)
    lines = rows(*(replace(decided, id=name) for name in short))
    assert not any("..." in line for line in lines)


@pytest.mark.parametrize("length", [1, 30, 79, 1000])
def test_long_entries_are_shortened_and_nothing_wraps(length: int) -> None:
    for name, rho in ((claim().id, None), ("4.1/" + "n" * length, "1" * length)):
        for status in ("PROVED", "REFUTED", "NOT_APPLICABLE"):
            one = claim(name, status=status, rho=rho, printed="p" * length, ours="o" * length)
            assert len(rows(one, replace(one, rho="7"))[1]) <= 80
    assert cut("fails at 188671869", 14) == "fails at 18..." and cut("whole", 5) == "whole"
    assert shortened("a" * 10 + "z", 9) == "aaa...aaz" and shortened("short", 5) == "short"


def test_norm_budgets_are_named_if_there_are_several() -> None:
    assert rows(claim(rho="20000"), claim("3.1/b-1"))[1].split() == ["4.1/ceiling", "PROVED", "rho^(d/12)", "10^187.1"]
    head, first, second, third = rows(claim("3.1/b-1"), claim(rho="20000"), claim(rho="7/2"))
    assert head.split()[:2] == ["claim", "rho"]
    assert [line.split()[1] for line in (first, second, third)] == ["all", "20000", "7/2"]


def test_surprises_are_marked_and_explained() -> None:
    wrong, open_ = claim(status="REFUTED", rho="20000"), claim("4.1/b-1", status="UNDECIDED", expected=None)
    lines = rows(claim("3.1/b-1"), wrong, open_)
    assert [("(!)" in line) for line in lines] == [False, False, True, True, True, True]
    assert "REFUTED (!)" in lines[2] and "UNDECIDED (!)" in lines[3]
    assert lines[4] == "(!) 4.1/ceiling: REFUTED, expected PROVED"
    assert lines[5] == "(!) 4.1/b-1: UNDECIDED, expected a decision"
    assert rows(wrong, claim(rho="7"))[-1] == "(!) 4.1/ceiling at rho = 20000: REFUTED, expected PROVED"


def test_a_surprise_ends_the_command_with_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "run_report", lambda *_: ([claim(status="UNDECIDED")], {}))
    done = CliRunner().invoke(cli, list(QUICK))
    assert done.exit_code == 3 and "1 claims: 1 UNDECIDED; 1 not as expected" in done.stdout
    assert "UNDECIDED (!)" in done.stdout


def test_values_in_a_row_are_one_option_s() -> None:
    def parsed(*arguments: str) -> dict[str, Any]:
        return command.check_command.make_context("check", list(arguments)).params

    read = parsed("--rho", "2", "3", "--only", "3.1", "4.1/ceiling", "-v", "--seed", "1", "--only", "4.2")
    assert read["rho"] == (2, 3) and read["only"] == ("3.1", "4.1/ceiling", "4.2")
    assert read["verbose"] and read["seed"] == 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("--only", "5.1"),
            "only = 5.1: must be the id of a claim, such as 4.1/ceiling, or how ids begin, such as 3.1",
        ),
        (("--only", "3.1", "x"), "only = x: must be the id of a claim"),
        (("--only", "x", "--list"), "only = x: must be the id of a claim"),
    ],
)
def test_an_unknown_claim_is_one_line(
    arguments: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert line in told(capsys, "check", "--rho", "20000", *arguments, "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_the_list_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(command, "run_report")
    lines = output("check", "--list").splitlines()
    assert [line.split()[0] for line in lines] == [task.id for task in claim_list()]
    assert lines[0].split(None, 1)[1].startswith("Theorem 3.1: as printed")
    assert len(output("check", "--list", "--only", "4.2").splitlines()) == 6
    listed = json.loads(output("check", "--list", "--only", "3.1/b-1", "--json"))["claims"]
    assert [(entry["id"], entry["theorem"]) for entry in listed] == [("3.1/b-1", "3.1")]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("check") / "out"
    output(*QUICK, "--seed", "3", "--out", str(directory))
    return directory


def test_a_report_is_made_again_from_its_file(out: Path, tmp_path: Path) -> None:
    first = json.loads((out / "check.json").read_text())
    again = json.loads(output("check", "--rerun", str(out / "check.json"), "--out", str(tmp_path), "--json"))
    strip = lambda document: [{**entry, "seconds": 0} for entry in document["claims"]]  # noqa: E731
    assert strip(again) == strip(first) and len(first["claims"]) == 2
    assert again["provenance"]["parameters"] == first["provenance"]["parameters"]
    assert first["provenance"]["parameters"]["only"] == ["3.1/b-1", "4.1/ceiling"]
    (tmp_path / "printed.json").write_text(json.dumps(again))
    assert "2 claims: 2 PROVED; all as expected" in output("check", "--rerun", str(tmp_path / "printed.json"), "-v")


@pytest.mark.parametrize(
    "beside",
    [("--rho", "20000"), ("--seed", "3"), ("--a", "2"), ("--b", "3"), ("--d", "120"), ("--draws", "20"),
     ("--bits", "1024"), ("--only", "3.1"), ("--beyond-theorem",), ("--kernel",), ("--list",)],
)  # fmt: skip
def test_no_parameter_stands_beside_rerun(
    out: Path, beside: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    line = told(capsys, "check", "--rerun", str(out / "check.json"), *beside)
    assert f"options = --rerun and {beside[0]}: must be --rerun FILE without parameters" in line


def test_other_claims_are_not_written_over_these(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    for only in (("3.1/b-1",), ("3.1/b-1", "4.1/ceiling", "4.1/b-1"), None):
        chosen = ("--only", *only) if only else ()
        line = told(capsys, "check", "--rho", "20000", "--seed", "3", *chosen, "--out", str(out))
        wanted = None if only is None else sorted(only)
        assert f"(there only is ['3.1/b-1', '4.1/ceiling'], not {wanted})" in line
    assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == before
    # The order of the names says nothing.
    output("check", "--rho", "20000", "--seed", "3", "--only", "4.1/ceiling", "3.1/b-1", "--out", str(out))
