"""Where floats end: the sparse run against the whole model, predictions against runs, and what must fail."""

import json
from fractions import Fraction
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch

from constructions import budgets, build_two_layer_copier, float_reach, practical_trial, predicted_rho
from constructions._score_table import forced_answers
from constructions.float_map import (
    FLIP_DISTANCE,
    spaced_flips,
    sparse_answers,
    try_grid,
    try_two_layer,
    unit_roundoff,
    worst_strings,
)
from proofs_check.command_line import main
from theory import InputError


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_sparse_run_gives_the_whole_model_s_answers(dtype: torch.dtype) -> None:
    """In float32 at rho = 2500 both err, and so are compared where it matters."""
    copier = build_two_layer_copier(Fraction(2500), beyond_theorem=True)
    copier.model.to(dtype)
    wrong = 0
    for string, steps in worst_strings(copier.length):
        with torch.inference_mode():
            whole = forced_answers(copier.model, copier.task, string[None])[0, steps - 1]
            sparse = np.array(sparse_answers(copier, string, steps))
        wrong += int((whole != string[steps - 1]).sum())
        # Rounding differs between the runs, so that answers drawn by lot may differ.
        assert (whole == sparse).mean() > (0.8 if dtype == torch.float32 else 0.999)
    assert (wrong > 0) == (dtype == torch.float32)


def test_worst_strings_put_the_neighbours_on_the_wrong_side() -> None:
    string, steps = next(worst_strings(1000))
    for step in steps:
        near = string[max(0, step - FLIP_DISTANCE) : step + FLIP_DISTANCE - 1]
        assert string[step - 1] == 1 and near.sum() == 1
    assert (spaced_flips(1000) == string).all()
    assert all(((steps >= 1) & (steps <= 7)).all() for _, steps in worst_strings(7))


def test_predictions_solve_their_equations() -> None:
    for dtype, unit in (("float64", 2.0**-53), ("float32", 2.0**-24), ("bfloat16", 2.0**-8)):
        assert unit_roundoff(dtype) == unit
        rho = predicted_rho("two-layer", dtype)
        assert 2 * unit * rho**4 / 1e4 == pytest.approx(25 / 18 * log(rho) ** 2, rel=1e-6)
        scale = predicted_rho("grid", dtype) ** 4 / (12 * 4)
        assert 2 * unit * (4 / 2) * scale == pytest.approx(log(2), rel=1e-9)


@pytest.mark.parametrize(
    ("construction", "dtype"), [("two-layer", "float32"), ("grid", "float32"), ("grid", "bfloat16")]
)
def test_models_fail_near_the_prediction_and_not_before(construction: str, dtype: str) -> None:
    reach = float_reach(construction, dtype)
    assert reach.measured is not None and reach.first_wrong is not None
    assert reach.measured.rho < reach.first_wrong.rho
    assert reach.predicted_rho / 2 < reach.first_wrong.rho < reach.predicted_rho * 3
    assert len(reach.trials) <= len(budgets(construction, dtype))


def test_float32_is_nowhere_in_the_theorem_s_range_and_float64_is_at_its_start() -> None:
    assert try_two_layer(Fraction(10_001), "float32").wrong > 0
    assert try_two_layer(Fraction(10_001), "float64").wrong == 0
    assert try_two_layer(Fraction(600_000), "float64").wrong > 0


def test_one_layer_at_lengths_that_one_can_run_does_not_mind_the_format() -> None:
    for dtype in ("float64", "bfloat16"):
        trial = practical_trial(dtype)
        assert (trial.wrong, trial.length) == (0, 2000) and trial.steps > 50
    assert try_grid(Fraction(60), "bfloat16").wrong > 0  # at the end of its exact length it does


def test_the_command_prints_the_table_and_saves_the_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="extra `plots`")
    with pytest.raises(SystemExit) as stop:
        main(["floats", "--dtypes", "bfloat16", "--out", str(tmp_path / "out"), "--json"])
    assert stop.value.code == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "out" / "floats.json").read_text())
    assert {row["construction"] for row in printed["rows"]} == {"two-layer", "grid"}
    names = ["floats-settings.json", "floats.json", "floats.pdf"]
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == names


def test_a_format_known_to_be_wrong_is_refused_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(["bound", "two-layer", *arguments])
        printed = capsys.readouterr()
        return int(stop.value.code or 0), printed.out, printed.err

    code, out, err = run("--rho", "10001", "--dtype", "float32")
    assert (code, out) == (2, "") and len(err.splitlines()) == 1
    assert "--dtype = float32: must be a format in which the torch model copies" in err and "--beyond-precision" in err
    code, out, _ = run("--rho", "10001", "--dtype", "float32", "--beyond-precision", "--json")
    assert code == 0 and json.loads(out)["torch_run"]["wrong"] > 0
    code, out, _ = run("--rho", "1000", "--beyond-theorem", "--dtype", "float32", "--json")
    assert code == 0 and json.loads(out)["torch_run"]["wrong"] == 0
    assert run("--rho", "10001", "--dtype", "float16")[0] == 2


def test_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["floats", "--dtypes", "float64,float16"])
    assert stop.value.code == 2
    assert "--dtypes = float64,float16: must be some of float64, float32, bfloat16" in capsys.readouterr().err
    with pytest.raises(InputError, match="dtype = float8: must be one of float64, float32, bfloat16"):
        float_reach("grid", "float8")
