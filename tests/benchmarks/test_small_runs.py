"""Every benchmark in small: the format, a torn line gone on with, other parameters refused."""

import argparse
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchmarks import (
    acceptance,
    certify_branching,
    certify_campaign,
    certify_forged,
    certify_hostile,
    certify_seeds,
    encodings,
    minimiser_comparison,
    minimisers,
    training,
)
from benchmarks._campaign import line, read
from benchmarks._provenance import provenance
from copycert.sampled import Questions
from engine import preset_run
from proofs_check.certify import Subject
from tests.models.small import copying_sample

pytestmark = pytest.mark.slow

Main = Callable[[list[str]], int | None]


@dataclass(frozen=True)
class Small:
    """A benchmark, what is made smaller in it, its arguments, some that ask for something else, and its rows."""

    module: Any
    rows: int
    small: dict[str, Any]
    arguments: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)


def tiny(seeds: int) -> list[Any]:
    ask = Questions(("uniform",), (12,), within_samples=2, keeps=(0.5,), repetition_length=12)
    return [(preset_run("laptop", "rope2d", seed, steps=1), ask) for seed in range(seeds)]


def copier(runs: Path, seed: int) -> Subject:
    sample = copying_sample(2 * 10**5, noise=0.0, least=2.5, most=4.5)
    return Subject(sample.model, None, sample.template, f"seed-{seed}")


def one_draw(draw: int, starts: int) -> dict[str, Any]:
    """A stored row: the searches themselves run in small in tests/constructions/test_minimise.py."""
    return read(minimisers.RESULTS)[1][draw]


def one_reading(draw: int, queries: str) -> list[dict[str, Any]]:
    rows = read(minimiser_comparison.RESULTS)[1]
    return [row for row in rows if (row["draw"], row["queries"]) == (draw, queries)]


RUNS = {
    "acceptance": Small(
        acceptance, 2, {"SCALES": {4: 300.0}},
        ["--scale", "0.005", "--parts", "model_against_theory", "furthest_length"], ["--scale", "0.006"],
    ),
    "certify_branching": Small(
        certify_branching, 2, {"KINDS": {"half": (4, 2), "heads": (4, 2)}}, [], ["--scale", "0.5"]
    ),
    "certify_campaign": Small(
        certify_campaign, 4, {"KINDS": {"random": (4, 2), "copying": (4, 2)}, "AROUND": 2, "CHUNK": 2}, [],
        ["--scale", "0.5"],
    ),
    "certify_forged": Small(certify_forged, 4, {}, ["--count", "4"], ["--count", "4", "--seed", "1"]),
    "certify_hostile": Small(certify_hostile, 6, {}, ["--count", "6"], ["--count", "6", "--seed", "1"]),
    "certify_seeds": Small(
        certify_seeds, 5,
        {"SEEDS": 1, "LENGTH": 20, "CAP": 30, "GROWTH": (10, 20), "ONE_BY_ONE": (4, 6), "CHECKED": (6,), "LONGEST": 4,
         "subject": copier},
    ),
    "minimisers": Small(minimisers, 3, {"one_draw": one_draw}, ["--scale", "0.06"], ["--scale", "0.08"]),
    "minimiser_comparison": Small(
        minimiser_comparison, 20, {"one_reading": one_reading}, ["--scale", "0.1"], ["--scale", "0.2"]
    ),
    "training": Small(
        training, 2, {"PARTS": {**training.PARTS, "grid": tiny}},
        ["--parts", "grid", "--seeds", "2", "--processes", "1", "--samples", "2"],
        ["--parts", "grid", "--samples", "3"],
    ),
}  # fmt: skip


@pytest.fixture(params=RUNS)
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Small:
    run = RUNS[request.param]
    for name, value in run.small.items():
        monkeypatch.setattr(run.module, name, value)
    return run


@pytest.mark.deep
def test_a_small_run_is_gone_on_with(small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rows.jsonl"
    arguments = [*small.arguments, "--out", str(out)]
    arguments += ["--runs", str(tmp_path / "runs")] if small.module is training else []
    main: Main = small.module.main
    assert main(arguments) in (None, 0)
    whole, (head, rows) = out.read_bytes(), read(out)
    assert whole.decode().splitlines(keepends=True) == [line(head), *map(line, rows)] and len(rows) == small.rows
    of = next(iter(head["parts"].values())) if "parts" in head else head
    assert provenance(small.module.FOLDERS) == {name: of[name] for name in ("trees", "clean")}
    assert head["seed"] == 0 and all(of["trees"].values())

    out.write_bytes(whole[:-5])
    assert main(arguments) in (None, 0)
    again = read(out)
    assert again[0] == head and again[1][: len(rows) - 1] == rows[:-1]
    assert again[1][-1].keys() == rows[-1].keys() and len(again[1]) == len(rows)
    assert out.read_bytes().count(b"\n") == small.rows + 1

    capsys.readouterr()
    if small.other:
        before = out.read_bytes()
        with pytest.raises(SystemExit) as stopped:
            main([*small.other, "--out", str(out)])
        assert stopped.value.code == 2 and out.read_bytes() == before
        assert "results of other parameters" in capsys.readouterr().err


def test_intervals_prove_no_more_than_is_true(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The model copies every string of every length up to 6."""
    monkeypatch.setattr(certify_seeds, "subject", copier)
    monkeypatch.setattr(certify_seeds, "LONGEST", 16)
    assert certify_seeds.seed_row(tmp_path, 0)["limit"] == 6
    assert 1 <= certify_seeds.intervals(tmp_path, 0)["proves_length"] <= 6


def test_a_training_run_with_more_seeds_goes_on_and_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "PARTS", {**training.PARTS, "grid": tiny})
    out, runs = tmp_path / "rows.jsonl", str(tmp_path / "runs")
    options = ["--parts", "grid", "--processes", "1", "--samples", "2", "--runs", runs, "--out", str(out)]
    training.main([*options, "--seeds", "1"])
    first = out.read_bytes()
    training.main([*options, "--seeds", "2", "--plots", str(tmp_path / "plots")])
    assert out.read_bytes().startswith(first) and [row["seed"] for row in read(out)[1]] == [0, 1]
    assert list((tmp_path / "plots").iterdir())


@pytest.mark.parametrize("part", [*training.PARTS, "long", "lists"])
def test_every_stored_training_row_is_one_of_its_part_s_jobs(part: str, tmp_path: Path) -> None:
    """So that a run goes on with all of them."""
    options = argparse.Namespace(seeds=8, samples=10, runs=tmp_path)
    jobs = [training.job_key(job) for job in training.part_jobs(part, options)[1]]
    rows = [training.row_key(row) for row in read(training.RESULTS)[1] if row["part"] == part]
    assert rows and len(set(rows)) == len(rows) and set(rows) <= set(jobs) and len(set(jobs)) == len(jobs)


def test_the_speed_of_encodings_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WIDTH": 16, "BATCH": 2, "LENGTH": 12}.items():
        monkeypatch.setattr(encodings, name, value)
    encodings.main(["--repeats", "15", "--out", str(tmp_path / "rows.jsonl")])
    head, rows = read(tmp_path / "rows.jsonl")
    assert head["repeats"] == 15 and head["trees"] == provenance(encodings.FOLDERS)["trees"]
    assert (
        "tokens_per_second" in rows[0]
        and rows[-1]["of"] == "auto2d"
        and rows[-1]["low"] <= rows[-1]["median"] <= rows[-1]["high"]
    )


@pytest.mark.deep
def test_the_table_of_speeds_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    speeds = importlib.import_module("benchmarks.__main__")
    for name in ("scan_rows", "sign_system_rows", "population_rows", "two_layer_rows", "model_rows"):
        monkeypatch.setattr(speeds, name, list)
    stored = read(speeds.RESULTS)[1]
    monkeypatch.setattr(speeds, "main_job_row", lambda: speeds.Row("copycert check --rho 20000", 1.0, "s", "< 60 s", 3))
    speeds.main(["--out", str(tmp_path / "rows.jsonl")])
    head, rows = read(tmp_path / "rows.jsonl")
    assert head["seed"] == 0 and head["trees"] == provenance(speeds.FOLDERS)["trees"]
    assert [row["name"] for row in rows] == [row["name"] for row in (*stored[:4], stored[-1])]
    assert all(row.keys() == stored[0].keys() and row["value"] > 0 for row in rows)
