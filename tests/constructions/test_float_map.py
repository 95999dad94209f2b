"""Where floats end: the sparse run against the whole model, predictions against runs, and what must fail."""

import json
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from fractions import Fraction
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch

from constructions import (
    DTYPES,
    Construction,
    TwoLayerCopier,
    budgets,
    build_grid_copier,
    build_two_layer_copier,
    conclusive,
    conclusive_steps,
    float_map,
    float_reach,
    forced_answers,
    practical_trial,
    predicted_rho,
    score_error_bound,
)
from constructions.float_map import (
    FLIP_DISTANCE,
    LONGEST_GRID,
    _angle_error,
    _answer,
    places_from,
    spaced_flips,
    sparse_answers,
    try_grid,
    try_two_layer,
    unit_roundoff,
    worst_strings,
)
from copycert.command._main import main
from theory import InputError, draw_grid_frequencies, exact_length
from theory.grid import step_weights

pytestmark = pytest.mark.slow

Case = tuple[np.ndarray, np.ndarray]


def copier_in(rho: int, dtype: torch.dtype) -> TwoLayerCopier:
    copier = build_two_layer_copier(Fraction(rho), beyond_theorem=True)
    return replace(copier, model=copier.model.to(dtype))


def runs_of_128(length: int) -> Case:
    """Runs of 128 equal symbols, some hundred steps: within a run the neighbours say what the source does."""
    return np.arange(length, dtype=np.int64) // 128 % 2, np.arange(1, length + 1, 1 + length // 128)


def wrong_where_proved(judged: TwoLayerCopier, run: TwoLayerCopier, cases: Iterable[Case]) -> tuple[int, int, int, int]:
    """Steps, proved ones, and how many of these the whole and the sparse run of another copier get wrong."""
    counts = [0, 0, 0, 0]
    for string, steps in cases:
        proved = conclusive_steps(judged, string, steps)
        with torch.inference_mode():
            whole = forced_answers(run.model, run.task, string[None])[0, steps - 1]
            sparse = np.array(sparse_answers(run, string, steps))
        errs = [(answers != string[steps - 1])[proved].sum() for answers in (whole, sparse)]
        counts = [x + int(y) for x, y in zip(counts, [len(steps), proved.sum(), *errs], strict=True)]
    return counts[0], counts[1], counts[2], counts[3]


@pytest.mark.parametrize(("rho", "dtype"), [(2500, torch.float64), (300, torch.float32), (500, torch.float32)])
def test_whole_and_sparse_run_are_right_where_no_rounding_can_matter(rho: int, dtype: torch.dtype) -> None:
    """At these budgets the margins are several times the bound of any machine's rounding, at every step."""
    copier = copier_in(rho, dtype)
    steps, proved, *wrong = wrong_where_proved(
        copier, copier, [*worst_strings(copier.length), runs_of_128(copier.length)]
    )
    assert steps == proved and wrong == [0, 0]


def test_where_float32_errs_the_runs_are_compared_within_runs_of_equal_symbols() -> None:
    """At rho = 2500 rounding reaches some 25 symbols: nothing is known at flips, and much in runs of 128."""
    copier = copier_in(2500, torch.float32)
    flips, steps = next(worst_strings(copier.length))
    assert not conclusive_steps(copier, flips, steps).any()
    _, proved, *wrong = wrong_where_proved(copier, copier, [runs_of_128(copier.length)])
    assert proved > 40 and wrong == [0, 0]


@pytest.mark.parametrize(("rho", "dtype"), [(2500, torch.float64), (500, torch.float32)])
def test_the_bound_is_above_what_rounding_does_to_angles(rho: int, dtype: torch.dtype) -> None:
    """The angles of the first layer's output against balls; a bound too small by orders would be seen here."""
    copier = copier_in(rho, dtype)
    string = np.zeros(copier.length, dtype=np.int64)
    tokens = torch.from_numpy(copier.task.sequences(string[None]))
    with torch.inference_mode():
        h = copier.model.block(0)(copier.model.embedding(tokens), places_from(0, tokens.shape[1]))
    read = (copier.model.block(1).attention.key.weight.abs().sum(0) > 0).nonzero().flatten()[:2]
    y = h[0, copier.task.a : copier.task.a + copier.length][:, read].double().numpy()
    curve = copier.scores().source_curve()
    exact = np.array([float(curve.angle(j).mid()) for j in range(1, copier.length + 1)])
    off = np.abs(np.arctan2(y[:, 1], y[:, 0]) - exact)
    # The output has been normalised and multiplied: ten roundings beside the angle's error.
    bound = _angle_error(copier, torch.finfo(dtype).eps / 2) + 10 * torch.finfo(dtype).eps
    assert off.max() <= bound < 1e-3


def test_planted_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = copier_in(500, torch.float32)
    cases = [*worst_strings(judged.length), runs_of_128(judged.length)]
    steps = sum(len(chosen) for _, chosen in cases)

    def planted(part: str, layer: int, factor: float) -> TwoLayerCopier:
        model = deepcopy(judged.model)
        weight = getattr(model.block(layer).attention, part).weight
        row, column = weight.nonzero()[-1].tolist()
        weight[row, column] *= factor
        return replace(judged, model=model)

    for part, layer, factor in (("key", 0, -1.0), ("key", 1, 0.5), ("query", 1, 1.25), ("output", 1, -1.0)):
        _, proved, whole, sparse = wrong_where_proved(judged, planted(part, layer, factor), cases)
        assert proved == steps and whole > 0 and sparse > 0, (part, layer)
    with monkeypatch.context() as patch:  # a wrong sign
        patch.setattr(float_map, "_answer", lambda logits: 1 - _answer(logits))
        assert wrong_where_proved(judged, judged, cases)[2:] == (0, steps)
    with monkeypatch.context() as patch:  # a dropped term: B_b is not seen
        keys = float_map._Sparse._keys
        patch.setattr(float_map._Sparse, "_keys", lambda self, tokens, start: keys(self, tokens[:1], start))
        assert wrong_where_proved(judged, judged, cases)[3] > 0


def test_what_is_not_judged_is_refused() -> None:
    copier = build_two_layer_copier(10_001)
    string, steps = np.zeros(2001, dtype=np.int64), np.array([1])
    with pytest.raises(InputError, match="string = 2001 symbols: must be at most 2000 symbols long"):
        conclusive_steps(copier, string, steps)
    with pytest.raises(InputError, match=r"dtype = torch.bfloat16: must be float64 or float32"):
        conclusive_steps(replace(copier, model=deepcopy(copier.model).bfloat16()), string[:9], steps)
    sharp = build_two_layer_copier(10_001, variant="sharp")
    with pytest.raises(InputError, match="variant = sharp: must be paper"):
        conclusive_steps(sharp, string[:9], steps)


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


def grid_steps_proved(rho: Fraction, dtype: str) -> tuple[int, int]:
    """Steps of the one-layer copier's worst strings, and how many of them no machine's rounding can change."""
    copier = build_grid_copier(rho, 4, 2, 3, draw_grid_frequencies(4, 0, 0))
    kind = DTYPES[dtype]
    copier = replace(copier, model=copier.model.to(kind))
    score = copier.score()
    length = max(1, exact_length(score, LONGEST_GRID).lower // 2)
    error = score_error_bound(score, kind)
    found = [
        conclusive(step_weights(score, string, int(step)), error, 2 * length + 5, kind)
        for string, steps in worst_strings(length)
        for step in steps
    ]
    return len(found), sum(found)


def two_layer_steps_proved(rho: Fraction, dtype: str) -> tuple[int, int]:
    copier = build_two_layer_copier(rho, beyond_theorem=True)
    copier = replace(copier, model=copier.model.to(DTYPES[dtype]))
    found = [conclusive_steps(copier, string, steps) for string, steps in worst_strings(copier.length)]
    return sum(map(len, found)), sum(int(proved.sum()) for proved in found)


@pytest.mark.parametrize(
    ("construction", "dtype", "proved"), [("two-layer", "float32", 3), ("grid", "float32", 3), ("grid", "bfloat16", 0)]
)
def test_models_fail_near_the_prediction_and_nowhere_below_what_is_proved(
    construction: Construction, dtype: str, proved: int
) -> None:
    """Below, a bound holds on every machine; above, some sixty steps would have to be right by luck.

    At three times the prediction 2 u T is 81 times what the answers hang on, so that each flip's source is one of ten
    or more that rounding puts in any order.
    """
    reach = float_reach(construction, dtype)
    assert reach.first_wrong is not None and reach.first_wrong.rho < reach.predicted_rho * 3
    assert len(reach.trials) <= len(budgets(construction, dtype))
    prove = two_layer_steps_proved if construction == "two-layer" else grid_steps_proved
    for rho, trial in zip(budgets(construction, dtype)[:proved], reach.trials[:proved], strict=True):
        assert prove(rho, dtype) == (trial.steps, trial.steps) and trial.wrong == 0


def test_float32_is_nowhere_in_the_theorem_s_range_and_float64_is_at_its_start() -> None:
    """Scores of size 10^12 in float32 are 65,536 apart, and a neighbour is 118 lower: 32 flips are right by luck only,
    each against a hundred neighbours. In float64 they are 10^-4 apart.
    """
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
