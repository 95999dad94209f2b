"""All strings of lengths up to 12, and the largest lengths that --find-limit finds."""

import json
from pathlib import Path

import pytest

from engine import RunDirectory, preset_run, train
from proofs_check.certify import one_layer_model
from proofs_check.verify import verify_file
from tests._commands import answered
from tests._rounding import margin_error
from tests.models.small import brute_force, copying_sample
from theory import certify_strings

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(x, marks=pytest.mark.deep) for x in range(4, 12))])
def test_models_agree_with_all_strings_of_length_twelve(seed: int) -> None:
    """All 8190 strings of lengths up to 12, at every step; the campaign has 300 such models."""
    sample = copying_sample(4 * 10**5 + seed, noise=(0.0, 0.01, 0.05, 0.1)[seed % 4], least=2.5, most=4.5)
    model = one_layer_model(sample.model, sample.template)
    found, least, error = certify_strings(model, 12), brute_force(sample, 12), margin_error(model, 12)
    assert all(abs(value) > error for value in least)  # so that these signs are certain
    fails = next((n for n, value in enumerate(least, 1) if value <= 0), None)
    margin = min(least[: fails or 12])
    assert found.fails_at == fails
    assert found.status == ("PROVED" if fails is None else "REFUTED")
    assert abs(found.margin - margin) <= error
    assert found.margin_below is not None
    assert margin - 1e-3 * max(1, abs(margin)) < found.margin_below <= margin + error


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run of the preset that copies at least a few symbols."""
    path = tmp_path_factory.mktemp("rope2d") / "run"
    train(preset_run("provable-1layer", "rope2d", 0, steps=60, max_length=12), RunDirectory(path))
    return path


@pytest.mark.parametrize("criterion", ["argmax", "half"])
def test_the_limit_is_found_under_both_criteria(criterion: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proved up to a length and refuted, with a replayed string, at a longer one; the next one if it is exact."""
    arguments = ("certify", str(run), "--max-length", "3", "--find-limit", "--cap", "4000", "--json")
    code, out, _ = answered(capsys, *arguments, "--criterion", criterion)
    document = json.loads(out)
    assert code == 0
    assert document["status"] == "PROVED"
    proved, fails = document["limit_proved_to"], document["limit_fails_at"]
    assert 3 <= proved < fails <= 4000
    assert document["limit"] == (proved if fails == proved + 1 else None)
    shown = document["limit_counterexample"]
    assert shown["length"] == fails
    assert shown["replay"]["wrong"] is True
    for length, status in ((proved, "PROVED"), (fails, "REFUTED")):
        arguments = ("certify", str(run), "--max-length", str(length), "--criterion", criterion, "--json")
        _, out, _ = answered(capsys, *arguments)
        assert json.loads(out)["status"] == status


def test_two_heads_have_a_limit_or_a_bracket(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Short training: some lengths are copied, longer ones are not; what is in between is said to be undecided."""
    path = tmp_path / "run"
    train(preset_run("provable-1layer", "rope2d", 0, heads=2, steps=60, max_length=12), RunDirectory(path))
    arguments = ("certify", str(path), "--max-length", "3", "--find-limit", "--cap", "1000", "--json")
    code, out, _ = answered(capsys, *arguments)
    document = json.loads(out)
    assert code == 0
    assert document["status"] == "PROVED"
    proved, fails = document["limit_proved_to"], document["limit_fails_at"]
    assert 3 <= proved < fails
    assert document["limit_counterexample"]["replay"]["wrong"] is True
    answered(capsys, "certify", str(path), "--max-length", str(proved), "--out", str(tmp_path / "out"))
    assert verify_file(tmp_path / "out" / "run-copies.json").accepted
    code, _, err = answered(capsys, "certify", str(path), "--max-length", "3", "--criterion", "half")
    assert code == 2
    assert "several heads" in err
