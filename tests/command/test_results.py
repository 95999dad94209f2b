"""Results on disk: of one set of settings, saying what they are of; files that cannot be written told in one line."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from copycert._bound import bound_document
from copycert.command import _floats as _command_floats
from copycert.command import _plot as _command_plot
from copycert.command._main import cli, main
from engine import Devices, RunDirectory, load_run, load_weights, preset_run, save_run, train
from tests._commands import run_json, told
from theory import LengthBound
from theory.grid import SingleFlip

COMMAND = [sys.executable, "-m", "copycert"]


def contents(directory: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in directory.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "run"
    train(
        preset_run("provable-1layer", "rope2d", steps=1, max_length=8), RunDirectory(directory), devices=Devices("cpu")
    )
    return directory


CHECK = ("check", "--rho", "2", "--d", "4", "--beyond-theorem", "--draws", "1", "--only", "3.1/b-1")


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("checked") / "out"
    return out, run_json(*CHECK, "--out", str(out))


def test_a_report_says_what_it_is_of(checked: tuple[Path, dict[str, Any]]) -> None:
    out, document = checked
    assert json.loads((out / "check.json").read_text()) == document
    made = document["provenance"]
    assert made["command"] == "check"
    assert made["parameters"] == {
        "rho": ["2"], "a": 2, "b": 3, "d": 4, "draws": 1, "seed": 0, "bits": 1024, "beyond_theorem": True,
        "kernel": False, "only": ["3.1/b-1"],
    }  # fmt: skip
    assert {"copycert", "python", "python-flint", "torch", "numpy", "scipy"} <= set(made["versions"])
    assert made["versions"]["torch"] == torch.__version__ and made["threads"] == torch.get_num_threads()
    assert made["date"].endswith("+00:00")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("--seed", "1"), "there seed is 0, not 1"),
        (("--draws", "2"), "there draws is 1, not 2"),
        (("--rho", "3"), "there rho is ['2'], not ['2', '3']"),
        (("--bits", "1025"), "there bits is 1024, not 1025"),
        (("--a", "3"), "there a is 2, not 3"),
        (("--only", "3.1"), "there only is ['3.1/b-1'], not ['3.1', '3.1/b-1']"),
    ],
)
def test_check_leaves_another_report_as_it_is(
    checked: tuple[Path, dict[str, Any]], change: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = checked
    before = contents(out)
    assert f"must be new, or results of the same settings ({line})" in told(capsys, *CHECK, *change, "--out", str(out))
    assert contents(out) == before


def test_check_leaves_a_report_of_unknown_settings_as_it_is(
    checked: tuple[Path, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(checked[0], tmp_path / "old")
    (tmp_path / "old" / "check-settings.json").unlink()
    before = contents(tmp_path)
    assert "there is a check.json, and no check-settings.json" in told(capsys, *CHECK, "--out", str(tmp_path / "old"))
    assert contents(tmp_path) == before


@pytest.mark.slow
def test_other_commands_leave_results_of_other_settings_as_they_are(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_command_floats, "_measured", lambda names: ([], {}))
    monkeypatch.setattr(_command_plot, "bounds_series", lambda draws, seed, tick: [])
    monkeypatch.setattr(_command_plot, "draw_bounds", lambda series: _command_plot.new_figure(1, 1))
    monkeypatch.setattr(_command_plot, "bounds_document", lambda series: {"series": []})
    minimize = ("minimize", "--M", "1", "--L", "2", "--d", "4", "--starts", "1")
    compare = ("compare", "--encodings", "rope2d", "--seeds", "1", "--steps", "1", "--processes", "1", "--lengths",
               "9", "--distributions", "uniform", "--train-distributions", "uniform", "--no-plots")  # fmt: skip
    for arguments, change, line, out in (
        (minimize, ("--limit", "9"), "there limit is 10000, not 9", "minimize"),
        (minimize, ("--M", "2"), "there", "minimize"),
        (compare, ("--samples", "3"), "there samples is 10, not 3", "compare"),
        (compare, ("--lengths", "9,8"), "there lengths is [9], not [9, 8]", "compare"),
        (("attention", str(trained), "--length", "5"), ("--seed", "1"), "there seed is 0, not 1", "attention"),
        (("floats",), ("--dtypes", "float32"), "there dtypes is", "floats"),
        (("plot", "bounds"), ("--draws", "3"), "there draws is 20, not 3", "bounds.png"),
    ):
        place = ("--out", str(tmp_path / out))
        if not (tmp_path / out).exists():
            CliRunner().invoke(cli, [*arguments, *place], catch_exceptions=False)
        before = contents(tmp_path)
        assert before and line in told(capsys, *arguments, *change, *place)
        assert contents(tmp_path) == before
        again = CliRunner().invoke(cli, [*arguments, *place], catch_exceptions=False)
        assert again.exit_code == 0 and set(contents(tmp_path)) == set(before)


def commands(trained: Path) -> list[tuple[str, ...]]:
    """Every command that takes a directory."""
    return [
        ("check", "--rho", "20000"),
        ("decide", "--relation", "shift", "--a", "2", "--b", "3", "--length", "3"),
        ("train", "--preset", "provable-1layer", "--encoding", "rope2d", "--steps", "1", "--max-length", "8"),
        ("minimize", "--M", "1", "--L", "2", "--d", "4", "--starts", "1"),
        ("floats",),
        ("compare", "--encodings", "rope2d", "--seeds", "1", "--steps", "1", "--processes", "1"),
        ("attention", str(trained), "--length", "5"),
        ("certify", str(trained), "--max-length", "3"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(8))
def test_a_directory_that_cannot_be_is_one_line(
    trained: Path, tmp_path: Path, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "at" / "all")
    before = sorted(tmp_path.rglob("*"))
    for out in (tmp_path / "file", tmp_path / "file" / "deep", tmp_path / "dangling", Path("/proc/mine")):
        line = told(capsys, *commands(trained)[number], "--out", str(out))
        assert str(out)[:50] in line and ": must be " in line
    assert sorted(tmp_path.rglob("*")) == before and (tmp_path / "file").read_text() == "mine"


#: No file may grow beyond 0 bytes: every write fails as on a full disk. Pipes are free.
FULL_DISK = """
import contextlib, io, json, resource, sys
from copycert.command import main
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
ends = []
for arguments in json.loads(sys.argv[1]):
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            main(arguments)
    except SystemExit as end:
        ends.append((end.code, said.getvalue()))
print("ENDS", json.dumps(ends))
"""


@pytest.mark.slow
def test_a_disk_without_room_is_one_line_and_leaves_nothing_half_written(trained: Path, tmp_path: Path) -> None:
    asked = [[*command, "--out", str(tmp_path / f"{n}")] for n, command in enumerate(commands(trained))]
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, json.dumps(asked)], capture_output=True, text=True, check=True
    )
    ends = json.loads(done.stdout.rsplit("ENDS ", 1)[1])
    assert len(ends) == len(asked) == 8
    for code, line in ends:
        assert code == 2 and line.count("\n") == 1 and f"file = {tmp_path}"[:40] in line
        assert "must be one that can be read or written here (File too large)" in line
    assert [file for file in tmp_path.rglob("*") if file.is_file() and file.name != ".lock"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("--help",), ("decide", "--relation", "nope", "--a", "2", "--b", "3", "--length", "3")]
)
def test_output_that_cannot_be_written_is_one_line_and_a_closed_pipe_none(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "copycert: output = standard output: must be one that can be written (No space left on device)\n"
    )
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, *arguments], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.slow
def test_an_interrupt_says_what_is_kept() -> None:
    """`bound grid` keeps nothing."""
    question = ["bound", "grid", "--base", "500000", "--d", "128", "--scale", "50", "--a", "2", "--b", "3"]
    process = subprocess.Popen(
        [*COMMAND, *question, "--limit", "1000000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(8)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert errors.strip() == "copycert: interrupted; nothing is kept: the same command starts again"


@pytest.mark.deep
@pytest.mark.parametrize("to_all", [True, False])
def test_an_interrupted_comparison_ends_every_process_and_keeps_its_steps(tmp_path: Path, to_all: bool) -> None:
    """Four runs, two at a time: those that wait do not begin, whether the group or the first process is told."""
    arguments = ["compare", "--encodings", "rope", "--seeds", "2", "--processes", "2", "--no-plots", "--lengths", "250"]
    process = subprocess.Popen(
        [*COMMAND, *arguments, "--out", str(tmp_path)], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    runs = [tmp_path / "runs" / f"rope-2-layer-imbalanced-seed-{seed}" for seed in (0, 1)]
    deadline = time.monotonic() + 120
    while any(len(RunDirectory(run).metrics()) < 2 for run in runs) and time.monotonic() < deadline:
        time.sleep(0.05)
    (os.killpg if to_all else os.kill)(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.strip() == (
        "copycert: interrupted; finished runs and the steps of others are kept, and the same command goes on from there"
    )
    assert sorted((tmp_path / "runs").iterdir()) == runs
    for directory in runs:
        step = load_weights(directory / "checkpoint.safetensors")[1]["step"]
        assert step == len(RunDirectory(directory).metrics()) >= 2


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_named(
    trained: Path, tmp_path: Path, value: float, capsys: pytest.CaptureFixture[str]
) -> None:
    config, model = load_run(trained)
    model.readout.weight[1, 2] = value
    file = tmp_path / "model.safetensors"
    save_run(file, config, model)
    for command in (("evaluate", str(file), "--distribution", "uniform", "--lengths", "5"), ("attention", str(file))):
        assert "finite numbers, which these are not: readout.weight" in told(capsys, *command)


FLIP = SingleFlip(length=13, step=2, background=0)


@pytest.mark.parametrize(
    ("found", "status", "exact"),
    [
        (LengthBound(10, FLIP, 100), "PROVED", False),
        (LengthBound(12, FLIP, 100), "PROVED", True),
        (LengthBound(100, None, 100), "PROVED", False),
        (LengthBound(10, None, 100), "UNDECIDED", False),
        (LengthBound(0, FLIP, 100), "UNDECIDED", False),
    ],
)
def test_a_bracket_is_proved_up_to_its_lower_end(found: LengthBound, status: str, exact: bool) -> None:
    document = bound_document(found, found.status)
    assert (document["status"], document["proved_to"], document["exact"]) == (status, found.lower, exact)
    assert document["fails_at"] == (None if found.fails is None else 13)
    if found.fails is not None:
        assert document["witness"] == {
            "length": 13, "step": 2, "background": 0, "flip_position": 2, "string": None
        }  # fmt: skip
        assert bound_document(found, found.status, full_witness=True)["witness"]["string"] == "0100000000000"


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["paper", "trained-layout"])
def test_bound_two_layer_says_the_same_in_json_and_in_words(variant: str) -> None:
    arguments = ["bound", "two-layer", "--rho", "20000", "--variant", variant]
    words = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    document = run_json(*arguments)
    assert words.exit_code == 0 and document["status"] == "PROVED"
    assert f"PROVED: every string of every length <= {document['proved_to']} is copied" in words.stdout
    if document["fails_at"] is not None:
        assert f"PROVED: not every string of length {document['fails_at']} is" in words.stdout
        assert document["witness"]["string"] is None


def test_large_integers_of_a_bound_are_strings() -> None:
    flip = SingleFlip(length=10**20, step=2, background=0)
    document = bound_document(LengthBound(10**19, flip, 10**30), "PROVED")
    assert document["proved_to"] == str(10**19) and document["fails_at"] == document["witness"]["length"] == str(10**20)


def test_options_that_exclude_each_other_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rest = ("--scale", "5", "--a", "2", "--b", "3")
    assert told(capsys, "bound", "grid", *rest) == (
        "copycert: options = none of frequencies: must be --frequencies FILE alone, or else both --base B and --d D\n"
    )
    line = told(capsys, "minimize", "--M", "1", "--L", "2", "--d", "4", "--frequencies", "f", "--out", str(tmp_path))
    assert "options = --frequencies and --d: must be --frequencies FILE alone" in line


def test_sigterm_in_a_command_is_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("copycert._bound.exact_length", lambda score, limit: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(SystemExit) as caught:
        main(["bound", "grid", "--base", "10", "--d", "8", "--scale", "5", "--a", "2", "--b", "3"])
    assert caught.value.code == 143 and "interrupted; nothing is kept" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before
