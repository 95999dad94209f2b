"""Searches for minimisers: the checker, seeds, resuming, brute force at tiny sizes, the length, the command."""

import json
import subprocess
import sys
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize as scipy_minimize

import constructions._minimiser_search as search_module
from benchmarks import minimisers
from constructions import (
    HeadParameters,
    MinimiserProblem,
    RejectedThetaError,
    best_of,
    build_minimiser_model,
    closed_form,
    forced_answers,
    programme_amplitudes,
    require_as_claimed,
    require_feasible,
    search_minimisers,
)
from proofs_check.command_line import cli
from theory import (
    HeadWeights,
    InputError,
    MinimiserSetting,
    PopulationLoss,
    all_strings,
    draw_grid_frequencies,
    head_length,
    loss_lower_bound,
    population_excess_bounds,
    theory_task,
)

COMMAND = [sys.executable, "-m", "proofs_check.command_line", "minimize"]


def setting_of(d: int = 8, length: int = 3, bound: str = "1", **options: Any) -> MinimiserSetting:
    return MinimiserSetting(draw_grid_frequencies(d, 0, 0), length, Fraction(bound), **options)


@pytest.fixture(autouse=True)
def short_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "TORCH_ITERATIONS", 12)
    monkeypatch.setattr(search_module, "MOST_SWEEPS", 1)
    monkeypatch.setitem(search_module.LBFGS_OPTIONS, "maxfun", 40)


def test_a_point_beyond_the_bound_by_a_millionth_is_rejected(tmp_path: Path) -> None:
    problem = MinimiserProblem(setting_of())
    found = search_minimisers(problem, 0, tmp_path)[0]
    assert found.theta is not None
    require_feasible(problem, found.theta)
    require_as_claimed(problem, found.theta, found.start)
    planted = found.theta.copy()
    planted[np.argmax(np.abs(planted))] *= 1 + 1e-6
    with pytest.raises(RejectedThetaError, match="exceeds M = 1 by 1e-06"):
        require_feasible(problem, planted)
    file = tmp_path / "starts" / "closed-form.json"
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, "theta": planted.tolist()}))
    with pytest.raises(InputError, match="checker accepts"):
        search_minimisers(problem, 0, tmp_path)


def test_the_l2_ball_is_checked_exactly_too() -> None:
    problem = MinimiserProblem(setting_of(), norm="l2")
    corner = np.ones(problem.parameters.size)
    require_feasible(problem, corner)  # the box's corners lie on the sphere
    with pytest.raises(RejectedThetaError, match="square norm"):
        require_feasible(problem, corner * (1 + 1e-6))
    require_feasible(problem, problem.project(corner * 7.3))


@pytest.mark.parametrize(
    "edit", [{"loss": 0.1}, {"excess": 0.0}, {"saturated_fraction": 0.5}, {"excess_upper": 0.0}, {"method": "Adam"}]
)
def test_a_figure_that_is_not_the_point_s_own_is_rejected(edit: dict[str, Any], tmp_path: Path) -> None:
    problem = MinimiserProblem(setting_of())
    search_minimisers(problem, 0, tmp_path)
    file = tmp_path / "starts" / "closed-form.json"
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, "start": {**document["start"], **edit}}))
    if edit == {"method": "Adam"}:
        # A label that no figure depends on: accepted by the checker, and therefore compared with the task's own.
        with pytest.raises(InputError, match="saved by this command"):
            search_minimisers(problem, 0, tmp_path)
    else:
        with pytest.raises(InputError, match="checker accepts"):
            search_minimisers(problem, 0, tmp_path)


def test_the_start_of_another_problem_is_not_used(tmp_path: Path) -> None:
    search_minimisers(MinimiserProblem(setting_of()), 0, tmp_path)
    with pytest.raises(InputError, match="other arguments"):
        search_minimisers(MinimiserProblem(setting_of(bound="5/4")), 0, tmp_path)


@pytest.mark.parametrize(
    "options",
    [{}, {"norm": "l2"}, {"parametrisation": "coupled"}, {"queries": "tied"}, {"length": 14}],
    ids=lambda options: str(options),
)
def test_interrupted_and_resumed_equals_undisturbed(options: dict[str, Any], tmp_path: Path) -> None:
    of_setting = {name: options.pop(name) for name in ("queries", "length") if name in options}
    problem = MinimiserProblem(setting_of(d=4, **of_setting), **options)
    amplitudes = programme_amplitudes(problem.setting) if problem.parametrisation == "decoupled" else None
    whole = search_minimisers(problem, 3, tmp_path / "whole", amplitudes)

    ticks = iter((False, True, False, False, True))

    def tick() -> None:
        if next(ticks):
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            search_minimisers(problem, 3, tmp_path / "parts", amplitudes, tick)
    parts = search_minimisers(problem, 3, tmp_path / "parts", amplitudes)
    assert [one.start for one in whole] == [one.start for one in parts]
    for one, other in zip(whole, parts, strict=True):
        assert one.theta is not None and other.theta is not None
        np.testing.assert_array_equal(one.theta, other.theta)
        require_feasible(problem, one.theta)


def test_more_starts_later_are_the_same_as_more_starts_at_once(tmp_path: Path) -> None:
    problem = MinimiserProblem(setting_of(d=4))
    few = search_minimisers(problem, 1, tmp_path)
    more = search_minimisers(problem, 2, tmp_path)
    assert more[: len(few)] == few or [one.start for one in more[: len(few)]] == [one.start for one in few]
    assert len(more) == len(few) + 1


def test_a_failed_start_is_kept_and_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(search_module, "_projected", lambda problem, theta, method: (theta * np.nan, 1))
    problem = MinimiserProblem(setting_of(d=4))
    found = search_minimisers(problem, 3, tmp_path)
    assert [one.start.status for one in found] == ["finished", "finished", "failed", "failed"]
    assert found[2].start.reason == "an entry is not finite" and found[2].start.loss is None
    assert best_of(found).start.status == "finished"
    assert [one.start for one in search_minimisers(problem, 3, tmp_path)] == [one.start for one in found]


def test_the_polished_closed_form_is_the_best_of_brute_force_and_of_all_corners() -> None:
    """d = 4, L = 2, a = 1, tied: 4 query coordinates, 8 of the data keys, the rest at their best; plus 15 searches by
    another optimiser on the plain loss.
    """
    setting = setting_of(d=4, length=2, bound="3/2", queries="tied")
    problem = MinimiserProblem(setting)
    loss, m = PopulationLoss(setting.frequencies, 1, 2), 1.5
    theta, _ = search_module.polish(problem, problem.parameters.theta(closed_form(setting)))
    polished = loss.loss(problem.parameters.head(theta))
    base = problem.parameters.head(theta)
    corners = min(
        loss.loss(
            HeadWeights(
                np.tile(np.array(signs[:4]) * m, (3, 1)),
                np.concatenate([np.array(signs[4:]).reshape(2, 4) * m, base.keys[2:]]),
                base.values,
            )
        )
        for signs in product((-1.0, 1.0), repeat=12)
        if signs[4] > 0
    )
    assert polished <= corners * (1 + 1e-12)
    generator = np.random.default_rng(0)
    for _ in range(15):
        start = generator.uniform(-m, m, problem.parameters.size)
        searched = scipy_minimize(
            lambda x: loss.loss(problem.parameters.head(x)), start, method="L-BFGS-B", bounds=[(-m, m)] * start.size,
            options={"maxfun": 3000},
        )  # fmt: skip
        assert polished <= searched.fun * (1 + 1e-6)


@given(
    seed=st.integers(0, 2**32),
    bound=st.fractions(Fraction(1, 4), 4),
    d=st.sampled_from([4, 8]),
    length=st.integers(1, 4),
)
@settings(max_examples=25)
def test_certified_bounds_enclose_the_exact_loss_and_the_lower_bound_lies_below(
    seed: int, bound: Fraction, d: int, length: int
) -> None:
    setting = MinimiserSetting(draw_grid_frequencies(d, seed, 0), length, bound)
    problem = MinimiserProblem(setting)
    generator = np.random.default_rng(seed)
    random = generator.uniform(-1, 1, problem.parameters.size) * problem.largest_entry
    for head in (problem.parameters.head(random), closed_form(setting)):
        excess = PopulationLoss(setting.frequencies, 1, length).excess(head, float(bound))
        lower, upper = population_excess_bounds(setting.frequencies, 1, length, head, bound)
        assert float(lower) * (1 - 1e-9) <= excess <= float(upper) * (1 + 1e-9) + 1e-300
        assert excess >= loss_lower_bound(setting).certified_excess


def test_a_bound_of_another_head_does_not_enclose() -> None:
    """The comparison above would notice a moved weight."""
    setting = setting_of(length=4)
    head = closed_form(setting)
    excess = PopulationLoss(setting.frequencies, 1, 4).excess(head, 1.0)
    head.keys[1, 5] *= 0.5
    lower, _ = population_excess_bounds(setting.frequencies, 1, 4, head, Fraction(1))
    assert not float(lower) <= excess


def brute_length(head: HeadWeights, setting: MinimiserSetting, longest: int) -> int:
    """The largest length up to `longest` up to which the torch model copies every string."""
    model, task = build_minimiser_model(head, setting.frequencies, setting.a), theory_task(setting.a, setting.b)
    for n in range(1, longest + 1):
        strings = all_strings(n)
        if not np.array_equal(forced_answers(model, task, strings), strings):
            return n - 1
    return longest


@pytest.mark.parametrize("a", [1, 2])
def test_the_length_agrees_with_the_torch_model_s_first_failure(a: int) -> None:
    reached = []
    for draw in range(8):
        setting = MinimiserSetting(draw_grid_frequencies(8, 1, draw), 4, Fraction(1), a)
        noise = np.random.default_rng(draw)
        head = HeadWeights(*(part + 0.15 * noise.normal(size=part.shape) for part in closed_form(setting)))
        found = head_length(setting.frequencies, a, head, 300)
        assert found.fails is not None and found.status == "PROVED"
        reached.append(found.lower)
        assert min(found.lower, 10) == brute_length(head, setting, 10)
        string = np.array([found.fails.string])
        answers = forced_answers(build_minimiser_model(head, setting.frequencies, a), theory_task(a, a + 2), string)
        assert answers[0, found.fails.step - 1] != string[0, found.fails.step - 1]
    assert len(set(reached)) > 3


def test_no_length_beyond_the_limit_is_claimed() -> None:
    found = head_length(draw_grid_frequencies(16, 0, 0), 1, closed_form(setting_of(16, 5, "2")), 8)
    assert (found.lower, found.fails, found.status) == (8, None, "PROVED")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)


def test_the_command_gives_the_same_figures_in_a_new_process(tmp_path: Path) -> None:
    arguments = ("--M", "1", "--L", "2", "--d", "4", "--seed", "3", "--starts", "1", "--json")
    first, second = (run(*arguments, "--out", str(tmp_path / name)) for name in ("one", "two"))
    assert first.returncode == second.returncode == 0, first.stderr
    document = json.loads(first.stdout)
    assert document == json.loads(second.stdout) == json.loads((tmp_path / "one" / "minimize.json").read_text())
    assert list(document) == [
        "best_loss", "lower_bound", "trivial_floor", "closed_form_loss", "saturated_fraction", "length_generalised",
        "paper_length", "fails_at", "starts",
    ]  # fmt: skip
    assert document["trivial_floor"] < document["lower_bound"] <= document["best_loss"] <= document["closed_form_loss"]
    assert [start["name"] for start in document["starts"]] == ["closed-form", "linear-programme", "search-0001"]
    assert (tmp_path / "one" / "best.safetensors").is_file()


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        (("--M", "0", "--L", "5", "--d", "16"), "M = 0"),
        (("--M", "-1", "--L", "5", "--d", "16"), "M = -1"),
        (("--M", "1", "--L", "0", "--d", "16"), "L = 0"),
        (("--M", "1", "--L", "5", "--d", "18"), "d = 18"),
        (("--M", "1", "--L", "5", "--d", "0"), "d = 0"),
        (("--M", "1", "--L", "5"), "--frequencies"),
        (("--M", "1", "--L", "5", "--d", "4", "--starts", "0"), "starts = 0"),
        (("--M", "1", "--L", "5", "--d", "4", "--queries", "some"), "queries = some"),
        (("--M", "1", "--L", "5", "--d", "4", "--parametrisation", "x"), "parametrisation = x"),
        (("--M", "1", "--L", "5", "--d", "4", "--norm", "l3"), "norm = l3"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: tuple[str, ...], argument: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=argument.replace("-", r"\-")) as caught:
        cli.main(["minimize", *arguments, "--out", str(tmp_path / "out")], standalone_mode=False)
    assert "\n" not in str(caught.value) and not (tmp_path / "out").exists()


def test_a_tied_head_needs_one_query_and_a_coupled_theta_no_head() -> None:
    with pytest.raises(InputError, match="parametrisation"):
        HeadParameters("coupled", "free", 4, 1).theta(closed_form(setting_of(4)))


def test_a_small_acceptance_run_resumes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(minimisers, "KEPT", tmp_path / "kept")
    out = tmp_path / "minimisers.json"
    minimisers.main(["--scale", "0.04", "--out", str(out)])
    document = json.loads(out.read_text())
    assert document["summary"]["draws"] == 2 and document["summary"]["bound_beaten"] == 0
    assert document["summary"]["bound_no_better_than_floor"] == 0
    kept = sorted((tmp_path / "kept").rglob("*.json"))
    before = [path.stat().st_mtime_ns for path in kept]
    out.unlink()
    minimisers.main(["--scale", "0.04", "--out", str(out)])
    assert json.loads(out.read_text())["rows"] == document["rows"]
    assert [path.stat().st_mtime_ns for path in kept] == before
