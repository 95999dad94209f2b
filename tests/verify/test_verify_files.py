"""What `verify` says of files that are no certificates, and what it takes from folders, in both programs."""

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from copycert.command._floats import floats_document
from copycert.command._main import main
from copycert.sampled import comparison_document
from engine import preset_run
from proofs_check.claims import CheckParameters
from proofs_check.claims._check import check_document
from proofs_check.verify import UnreadableCertificateError, certificates_in, verify_file, verify_paths
from proofs_check.verify.__main__ import main as plain_main

LEMMA = {
    "schema": 1, "kind": "cosine-lemma", "inputs": {"delta_below": "0.1"}, "evidence": {}, "claim": {"constant": "1"}
}  # fmt: skip

#: Files by name, with what must be said of each. Reports are made by the functions that write them.
OTHERS: dict[str, tuple[bytes, str]] = {
    "check.json": (
        json.dumps(check_document(CheckParameters((Fraction(20000),)), [])).encode(),
        "is the report of `copycert check`",
    ),
    "comparison.json": (
        json.dumps(comparison_document([], complete=True)).encode(), "is the report of `copycert compare`"
    ),
    "floats.json": (json.dumps(floats_document([], {})).encode(), "is the report of `copycert floats`"),
    "config.json": (
        json.dumps(preset_run("provable-1layer", "rope2d").document()).encode(),
        "is the configuration of a training run",
    ),
    "mine.json": (b'{"row": [0.5], "column": [1.0]}', "is a file of frequencies"),
    "verdicts.json": (b'{"files": []}', "is the report of `copycert verify`"),
    "bom.json": (b"\xef\xbb\xbf" + json.dumps(LEMMA).encode(), "begins with a byte order mark; save it as UTF-8"),
    "little.json": (json.dumps(LEMMA).encode("utf-16"), "is UTF-16 with a byte order mark"),
    "big.json": (b"\xfe\xff" + json.dumps(LEMMA).encode("utf-16-be"), "is UTF-16 with a byte order mark"),
    "w.safetensors": ((2).to_bytes(8, "little") + b"{}", "is a weights file (safetensors)"),
    "large.safetensors": (
        (2**20).to_bytes(8, "little") + b"{" + bytes(2**24), "is a weights file (safetensors)"
    ),
    "model.pt": (b"PK\x03\x04" + bytes(30), "is a zip archive"),
    "cut.json": (json.dumps(LEMMA)[:-4].encode(), "is not JSON: "),
    "latin.json": (b'{"\xe9": 1}', "is not JSON: it is not UTF-8 text"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_certificate_is_called_by_its_name(tmp_path: Path, name: str) -> None:
    data, words = OTHERS[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UnreadableCertificateError, match=words.split(";")[0].replace("(", r"\(").replace(")", r"\)")):
        verify_file(tmp_path / name)


@pytest.mark.parametrize(
    "document", [{}, {"rope_scaling": {"factor": 8.0}}, {"schema": 1, "kind": "cosine-lemma"}, {"inputs": 1e5}]
)
def test_other_objects_are_rejected_as_what_they_are(tmp_path: Path, document: dict[str, Any]) -> None:
    (tmp_path / "x.json").write_text(json.dumps(document))
    verdict = verify_file(tmp_path / "x.json")
    assert verdict.reason == "it is no certificate: it has neither the field evidence nor the field claim"


def test_a_report_s_fields_do_not_hide_a_certificate(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps({**LEMMA, "rho": 1, "claims": []}))
    assert "unknown field" in (verify_file(tmp_path / "x.json").reason or "")


def command(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as raised:
        main(["verify", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert isinstance(raised.value.code, int)
    return raised.value.code, out, err


@pytest.mark.parametrize("name", [*OTHERS, "nothere.json"])
def test_both_programs_say_it_in_one_line(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    data, words = OTHERS.get(name, (b"", "cannot be read: no such file"))
    path = tmp_path / name
    if data:
        path.write_bytes(data)
    code, out, err = command(path, capsys=capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("copycert: FILE = ") and f": must be a certificate; it {words}" in err
    assert plain_main([str(path)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1) and f"{name} {words}" in err


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder as `copycert check --out` leaves it, with more in it."""
    for name in ("check.json", "config.json"):
        (tmp_path / name).write_bytes(OTHERS[name][0])
    (tmp_path / "numbers.json").write_text("[1, 2.5]")
    (tmp_path / "own.json").write_text(json.dumps(LEMMA))
    deep = tmp_path / "certificates" / "deep"
    deep.mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "unseen.json").write_text(json.dumps(LEMMA))
    (tmp_path / "certificates" / "b.json").write_text(json.dumps(LEMMA))
    (tmp_path / "certificates" / "a.json").write_text(json.dumps(LEMMA | {"claim": {"constant": "0.1"}}))
    (deep / "c.json").write_text(json.dumps(LEMMA))
    (deep / "w.safetensors").write_bytes(b"not looked at")
    return tmp_path


def test_a_folder_stands_for_its_certificates(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = certificates_in(results)
    names = [str(path.relative_to(results)) for path in found.certificates]
    assert names == ["own.json", "certificates/a.json", "certificates/b.json", "certificates/deep/c.json"]
    assert [path.name for path, _ in found.skipped] == ["check.json", "config.json", "numbers.json"]
    assert certificates_in(results / "certificates").certificates == found.certificates[1:]
    code, out, err = command(results, capsys=capsys)
    assert code == 1 and out.endswith("3 accepted, 1 rejected.\n")
    assert err.count("\n") == 3 and "check.json: it is the report of `copycert check`, not a certificate" in err
    code, out, err = command("--json", results, capsys=capsys)
    document = json.loads(out)
    # The command adds what its answer is of; the checker by itself has no versions to tell.
    assert document.pop("provenance")["command"] == "verify"
    assert [Path(entry["file"]).name for entry in document["files"]] == ["own.json", "a.json", "b.json", "c.json"]
    assert [entry["accepted"] for entry in document["files"]] == [True, False, True, True]
    assert [Path(entry["file"]).name for entry in document["skipped"]] == ["check.json", "config.json", "numbers.json"]
    assert plain_main(["--json", str(results)]) == 1
    assert json.loads(capsys.readouterr().out) == document


def test_a_damaged_certificate_in_a_folder_is_not_skipped(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (results / "certificates" / "b.json").write_text(json.dumps(LEMMA)[:-3])
    code, out, err = command(results, capsys=capsys)
    assert code == 2 and "2 accepted, 1 rejected." in out and "b.json: must be a certificate; it is not JSON" in err
    findings = [finding for finding in verify_paths([results]) if finding.unreadable]
    assert [Path(finding.file).name for finding in findings] == ["b.json"]


def test_a_folder_without_certificates_is_an_error_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "check.json").write_bytes(OTHERS["check.json"][0])
    code, out, err = command(tmp_path, capsys=capsys)
    assert (code, out, err.count("\n")) == (2, "", 1) and "is a folder without a certificate" in err


def test_folders_are_read_isolated_and_optimised_too(results: Path) -> None:
    program = [sys.executable, "-I", "-O", "-c", "import sys; sys.path.insert(0, sys.argv.pop(1)); import runpy; "
               "runpy.run_module('proofs_check.verify', run_name='__main__')"]  # fmt: skip
    done = subprocess.run(
        [*program, str(Path(__file__).parents[2]), str(results)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and done.stdout.count("accepted: ") == 3 and done.stderr.count("skipped") == 3


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(UnreadableCertificateError, match="not a regular file"):
        verify_file(tmp_path / "pipe.json")
