"""The command line: JSON, exit codes, bad input in one line, resuming, nothing half-written."""

import json
import os
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from copycert.command._main import cli
from proofs_check.claims import Claim, exit_code
from proofs_check.claims._theorem_4_1 import power_of_ten
from proofs_check.documents import json_ready
from tests._commands import Report, answered, told

COMMAND = [sys.executable, "-m", "copycert"]

#: A report of one claim, of two budgets.
SMALL = ("check", "--rho", "20000", "40000", "--draws", "2", "--only", "4.1/draws/three-tokens", "3.1/b-1")


def run_json(*arguments: str) -> tuple[dict[str, Any], int]:
    done = CliRunner().invoke(cli, [*arguments, "--json"], catch_exceptions=False)
    return json.loads(done.stdout), done.exit_code


def test_check_decides_every_claim_as_expected(report: Report) -> None:
    out, document = report.out, report.document
    assert report.exit_code == 0
    assert document["rho"] == [14401, 20000]
    fields = {
        "id",
        "theorem",
        "label",
        "method",
        "status",
        "expected",
        "statement",
        "figures",
        "certificate",
        "seconds",
        "printed",
        "ours",
        "rho",
    }
    for claim in document["claims"]:
        assert set(claim) == fields
        assert claim["status"] == claim["expected"]
        assert claim["label"] in ("paper", "reconstructed", "new")
        assert claim["method"] in ("kernel", "exact", "ball", "float+bound", "sampled")
        assert claim["certificate"] is None or (out / claim["certificate"]).is_file()
        # So long that the table cuts neither, with one budget or with two.
        assert 0 < len(claim["printed"]) <= 19 and 0 < len(claim["ours"]) <= 19
    assert json.loads((out / "check.json").read_text()) == document


def test_a_claim_is_named_by_its_id_and_its_norm_budget(report: Report) -> None:
    claims = report.document["claims"]
    assert len({(claim["id"], claim["rho"]) for claim in claims}) == len(claims) == 17 + 2 * 18
    by_budget = [{claim["id"] for claim in claims if claim["rho"] == rho} for rho in (None, "14401", "20000")]
    assert by_budget[1] == by_budget[2] and not by_budget[0] & by_budget[1]
    assert {claim["theorem"] for claim in claims if claim["rho"] is None} == {"3.1", "3.2", "4.1", "4.2"}
    assert all(claim["figures"].get("rho", claim["rho"]) == claim["rho"] for claim in claims if claim["rho"])
    assert not any("rho=" in claim["id"] for claim in claims)


def test_every_draw_covers_the_papers_length_and_more(report: Report) -> None:
    out, document = report.out, report.document
    draws = [
        (claim, draw) for claim in document["claims"] if "/draws/" in claim["id"] for draw in claim["figures"]["draws"]
    ]
    assert len(draws) == 2 * 2
    for claim, draw in draws:
        assert int(draw["length"]) >= 10**160 > int(claim["figures"]["paper_length"])
        assert (out / "certificates" / draw["certificate"]).is_file() and (
            out / "certificates" / draw["weights"]
        ).is_file()


def test_verify_accepts_every_certificate_of_the_report(report: Report) -> None:
    files = sorted(str(path) for path in (report.out / "certificates").glob("*.json"))
    document, code = run_json("verify", *files)
    assert code == 0
    assert [entry["file"] for entry in document["files"]] == files
    assert all(entry["accepted"] and entry["statement"] and entry["reason"] is None for entry in document["files"])


@pytest.mark.slow
def test_a_second_run_uses_accepted_certificates_again(tmp_path: Path) -> None:
    document, _ = run_json(*SMALL, "--out", str(tmp_path))
    separation = sorted((tmp_path / "certificates").glob("*separation.json"))
    before = {path: path.stat().st_mtime_ns for path in separation}
    assert len(before) > 1
    damaged = separation[0]
    damaged.write_text(damaged.read_text().replace('"bits": ', '"bits": 1'))
    again, code = run_json(*SMALL, "--out", str(tmp_path))
    assert code == 0
    assert {path for path in separation if path.stat().st_mtime_ns != before[path]} == {damaged}
    strip = lambda claims: [{**claim, "seconds": 0} for claim in claims]  # noqa: E731
    assert strip(again["claims"]) == strip(document["claims"])


@pytest.mark.deep
def test_an_interrupted_run_leaves_whole_files_and_goes_on(tmp_path: Path) -> None:
    arguments = ["check", "--rho", "20000", "--draws", "6", "--only", "4.1/draws", "--out", str(tmp_path)]
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "certificates").glob("*separation.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted" in errors and "Traceback" not in errors
    assert not list((tmp_path / "certificates").glob(".*"))
    assert not (tmp_path / "check.json").exists()
    document, code = run_json(*arguments)
    assert code == 0 and len(document["claims"]) == 2


def test_small_budgets_beyond_the_theorem_are_decided_by_scan(tmp_path: Path) -> None:
    document, code = run_json(
        "check", "--rho", "2", "--d", "4", "--beyond-theorem", "--draws", "3", "--out", str(tmp_path),
        "--only", "4.1/draws/three-tokens",
    )  # fmt: skip
    assert code == 0
    (draws,) = document["claims"]
    assert draws["figures"]["beyond_theorem"] and draws["expected"] is None and "beyond" in draws["statement"]
    assert {draw["status"] for draw in draws["figures"]["draws"]} == {"PROVED"}


@pytest.mark.slow
def test_a_draw_that_fails_is_refuted_with_a_replayed_witness(tmp_path: Path) -> None:
    # At rho = 2, d = 24 the scale is tiny and the theorem's length 4 is out of reach.
    document, code = run_json(
        "check", "--rho", "2", "--d", "24", "--beyond-theorem", "--draws", "2", "--out", str(tmp_path),
        "--only", "4.1/draws/all-tokens",
    )  # fmt: skip
    (draws,) = document["claims"]
    assert draws["status"] == "REFUTED" and code == 0
    for draw in draws["figures"]["draws"]:
        assert draw["replay"] == {"ran": True, "torch_model_wrong": True, "reason": ""}
        assert draw["witness"]["string"].count("1") == 1
        verdict, accepted = run_json("verify", str(tmp_path / "certificates" / draw["certificate"]))
        assert accepted == 0 and "this string is not copied" in verdict["files"][0]["statement"]


def test_bound_grid_reports_length_and_witness(tmp_path: Path) -> None:
    question = ["bound", "grid", "--base", "10000", "--d", "8", "--scale", "50", "--a", "2", "--b", "3"]
    assert run_json(*question)[0]["witness"]["string"] is None
    document, code = run_json(*question, "--full-witness")
    assert code == 0
    old = {"status", "length", "length_lower", "length_upper", "limit", "exceeds_limit", "witness"}
    assert set(document) == old | {"proved_to", "fails_at", "exact", "provenance"}
    assert document["provenance"]["parameters"]["scale"] == "50" and document["provenance"]["command"] == "bound grid"
    assert (
        document["length"] == document["length_lower"] == document["length_upper"] == document["witness"]["length"] - 1
    )
    witness = document["witness"]
    assert set(witness) == {"length", "step", "background", "flip_position", "string"}
    assert witness["string"][witness["flip_position"] - 1] == "1" and len(witness["string"]) == witness["length"]
    file = tmp_path / "frequencies.json"
    file.write_text('{"unit": "turn", "row": ["1/3"], "column": [0.015625]}')
    document, code = run_json("bound", "grid", "--frequencies", str(file), "--scale", "1e12", "--a", "2", "--b", "4")
    assert (code, document["length"]) == (0, 64)
    document, code = run_json(
        "bound", "grid", "--frequencies", str(file), "--scale", "1e12", "--a", "2", "--b", "4", "--limit", "50"
    )
    assert (code, document["length"], document["exceeds_limit"], document["length_lower"]) == (0, None, True, 50)


@pytest.mark.slow
def test_bound_grid_at_a_long_witness_gives_no_string() -> None:
    document, _ = run_json(
        "bound", "grid", "--base", "3/2", "--d", "8", "--scale", "200000", "--a", "2", "--b", "3", "--limit", "3000000"
    )
    assert (
        document["witness"] is None or document["witness"]["length"] <= 10**5 or document["witness"]["string"] is None
    )


def test_near_tie_is_undecided_with_exit_code_3(tmp_path: Path) -> None:
    import mpmath

    mpmath.mp.dps = 2040
    costs = [1 - mpmath.cospi(mpmath.mpf(4) / 5 * k) for k in (1, 2)]
    s = mpmath.findroot(lambda s: sum(mpmath.exp(-s * c) for c in costs) * (1 + mpmath.exp(-2 * s)) - 1, 1)
    scale = Fraction(int(mpmath.floor(s * mpmath.mpf(10) ** 2000)), 10**2000)
    file = tmp_path / "frequencies.json"
    file.write_text('{"unit": "turn", "row": ["1/2"], "column": ["2/5"]}')
    whole, part = divmod(scale, 1)
    spelled = f"{whole}.{int(part * 10**2000):02000d}"
    document, code = run_json(
        "bound", "grid", "--frequencies", str(file), "--scale", spelled, "--a", "2", "--b", "3", "--limit", "3"
    )
    assert (code, document["status"], document["length"], document["length_lower"]) == (3, "UNDECIDED", None, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("check --rho 14400", "rho = 14400: must be greater than d^2 = 14400 (Theorem 4.1)"),
        ("check --rho 20000 100", "rho = 100: must be greater than d^2"),
        ("check --rho 20000 --d 100", "d = 100: must be at least 100 + 4a + 4b = 120 (Theorem 4.1)"),
        ("check --rho 20000 --d 122", "d = 122: must be a positive multiple of 4"),
        ("check --rho 20000 --b 1", "b = 1: must be at least 2"),
        ("check --rho nan", "--rho = nan: must be a finite decimal"),
        ("check --rho inf", "--rho = inf: must be a finite decimal"),
        ("check --rho 1e99999", "--rho = 1e99999"),
        ("check --rho -5 --beyond-theorem", "rho = -5: must be a number > 0"),
        ("check --rho 0.5 --d 4 --beyond-theorem", "rho = 1/2: must be at least 1"),
        ("bound grid --base 2 --d 4000000 --scale 10 --a 1 --b 2", "d = 4000000: must be at most 16384"),
        ("check --rho 20000 --draws 0", "draws = 0: must be an integer >= 1"),
        ("check --rho 20000 --seed -1", "seed = -1: must be an integer >= 0"),
        ("check --rho 20000 --bits 53", "bits = 53"),
        ("check --rho 20000 --draws x", "--draws = x: must be a whole number, such as 1000000, 1_000_000 or 1e6"),
        ("check", "Missing option '--rho'"),
        ("chekc", "No such command 'chekc'"),
        (
            "bound grid --base 10 --d 8 --scale 5 --a 2 --b 1",
            "b = 1: must be at least 2: with b = 1 the newline itself asks",
        ),
        ("bound grid --base 10 --d 8 --scale 0 --a 2 --b 3", "scale = 0: must be a rational number > 0"),
        ("bound grid --base 10 --d 6 --scale 1 --a 2 --b 3", "d = 6"),
        ("bound grid --base 10 --d 8 --scale 1 --a 0 --b 3", "a = 0"),
        ("bound grid --base 10 --scale 1 --a 2 --b 3", "or else both --base B and --d D"),
        ("bound grid --base 10 --d 8 --scale 1 --a 2 --b 3 --limit 0", "limit = 0"),
        ("bound grid --frequencies missing.json --scale 1 --a 2 --b 3", "missing.json: must be a readable JSON file"),
        ("verify missing.json", "missing.json"),
        ("verify", "Missing argument"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in told(capsys, *arguments.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("verify", "missing.json"), ("check", "--rho", "20000", "100")])
def test_a_process_ends_as_the_function_does(
    arguments: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == answered(capsys, *arguments)
    assert done.returncode == 2


def test_an_out_that_is_no_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    line = told(capsys, "check", "--rho", "20000", "--out", str(file))
    assert "--out" in line and "must be a directory" in line
    assert file.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_out_that_cannot_be_made_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.chmod(0o500)
    assert str(tmp_path) in told(capsys, "check", "--rho", "20000", "--out", str(tmp_path / "deeper"))


def claim_of(status: str, expected: str | None, method: str = "ball") -> Claim:
    return Claim("x", "4.1", "new", method, status, expected, "x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("claims", "code"),
    [
        ([claim_of("PROVED", "PROVED"), claim_of("REFUTED", "REFUTED")], 0),
        ([claim_of("PROVED", "PROVED"), claim_of("REFUTED", "PROVED")], 1),
        ([claim_of("PROVED", "REFUTED"), claim_of("UNDECIDED", "PROVED")], 1),
        ([claim_of("UNDECIDED", "PROVED"), claim_of("PROVED", "PROVED")], 3),
        ([claim_of("UNDECIDED", None)], 3),
        ([claim_of("REFUTED", None), claim_of("PROVED", None)], 0),
        ([claim_of("UNDECIDED", "UNDECIDED", "sampled"), claim_of("UNDECIDED", None, "sampled")], 0),
        ([claim_of("NOT_APPLICABLE", None), claim_of("PROVED", "PROVED")], 0),
        ([claim_of("NOT_APPLICABLE", None)], 2),
    ],
)
def test_exit_codes(claims: list[Claim], code: int) -> None:
    assert exit_code(claims) == code


def test_large_integers_are_strings_in_json() -> None:
    assert json_ready({"a": [2**53, 2**53 + 1, True, -(2**60)], "b": 0.5}) == {
        "a": [2**53, str(2**53 + 1), True, str(-(2**60))],
        "b": 0.5,
    }
    assert [power_of_ten(n) for n in (12, 10**7, 1024 * 10**40, 999 * 10**10)] == ["12", "10^7.0", "10^43.0", "10^12.9"]


@pytest.mark.parametrize("length", [10**7, 10**7 + 1, 5011872336272, 5011872336273, 1024 * 10**40, 7 * 10**171])
def test_lengths_are_rounded_to_the_safe_side(length: int) -> None:
    below, above = (Fraction(power_of_ten(length, up=up).removeprefix("10^")) for up in (False, True))
    assert 10 ** int(10 * below) <= length**10 <= 10 ** int(10 * above)
    assert above - below <= Fraction(1, 10)
