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

import constructions.theorem_4_2._search as search_module
import copycert.figures._minimisers as plot_module
from benchmarks import minimiser_comparison, minimisers
from benchmarks._campaign import read
from constructions import (
    HeadParameters,
    MinimiserProblem,
    RejectedThetaError,
    best_of,
    build_minimiser_model,
    closed_form,
    forced_answers,
    programme_heads,
    require_as_claimed,
    require_feasible,
    search_minimisers,
)
from copycert.command._main import cli
from tests._rounding import excess_error, gamma
from theory import InputError, MinimiserSetting, draw_grid_frequencies, head_length, loss_lower_bound, theory_task
from theory.minimisers import HeadWeights, PopulationLoss, energy_loss_bound, population_excess_bounds
from theory.task import all_strings

COMMAND = [sys.executable, "-m", "copycert", "minimize"]


def setting_of(d: int = 4, length: int = 3, bound: str = "1", **options: Any) -> MinimiserSetting:
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


def test_a_figure_that_is_not_the_point_s_own_is_rejected(tmp_path: Path) -> None:
    problem = MinimiserProblem(setting_of())
    search_minimisers(problem, 0, tmp_path)
    file = tmp_path / "starts" / "closed-form.json"
    document = json.loads(file.read_text())
    for edit in ({"loss": 0.1}, {"excess": 0.0}, {"saturated_fraction": 0.5}, {"excess_upper": 0.0}):
        file.write_text(json.dumps({**document, "start": {**document["start"], **edit}}))
        with pytest.raises(InputError, match="checker accepts"):
            search_minimisers(problem, 0, tmp_path)
    # No figure depends on these; they are compared with the start that is wanted.
    for edit in ({"method": "Adam"}, {"name": "search-0001"}, {"status": "failed"}):
        file.write_text(json.dumps({**document, "start": {**document["start"], **edit}}))
        with pytest.raises(InputError, match="saved by this command"):
            search_minimisers(problem, 0, tmp_path)
    file.write_text("{")
    with pytest.raises(InputError, match="saved by this command"):
        search_minimisers(problem, 0, tmp_path)


def test_the_start_of_another_problem_is_not_used(tmp_path: Path) -> None:
    search_minimisers(MinimiserProblem(setting_of()), 0, tmp_path)
    with pytest.raises(InputError, match="other arguments"):
        search_minimisers(MinimiserProblem(setting_of(bound="5/4")), 0, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"norm": "l2"}, {"parametrisation": "coupled"}, {"queries": "tied"}, {"length": 13}],
    ids=lambda options: str(options),
)
def test_interrupted_and_resumed_equals_undisturbed(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "length" in options:
        monkeypatch.setattr(search_module, "MOST_SWEEPS", 0)
    of_setting = {name: options.pop(name) for name in ("queries", "length") if name in options}
    problem = MinimiserProblem(setting_of(d=4, **of_setting), **options)
    heads = programme_heads(problem.setting)
    starts = 3 if problem.exact else 0  # certified bounds of sampled starts take long
    whole = search_minimisers(problem, starts, tmp_path / "whole", heads)

    ticks = iter((False, True, False, False, True))

    def tick() -> None:
        if next(ticks):
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            search_minimisers(problem, starts, tmp_path / "parts", heads, tick)
    parts = search_minimisers(problem, starts, tmp_path / "parts", heads)
    assert [one.start for one in whole] == [one.start for one in parts]
    for one, other in zip(whole, parts, strict=True):
        assert one.theta is not None and other.theta is not None
        np.testing.assert_array_equal(one.theta, other.theta)
        require_feasible(problem, one.theta)


def test_more_starts_later_are_the_same_as_more_starts_at_once(tmp_path: Path) -> None:
    problem = MinimiserProblem(setting_of(d=4))
    few = search_minimisers(problem, 1, tmp_path)
    more = search_minimisers(problem, 2, tmp_path)
    assert [one.start for one in more[:-1]] == [one.start for one in few]


def test_a_failed_start_is_kept_and_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(search_module, "_projected", lambda problem, theta, method: (theta * np.nan, 1))
    problem = MinimiserProblem(setting_of(d=4))
    found = search_minimisers(problem, 3, tmp_path)
    assert [one.start.status for one in found] == ["finished", "finished", "failed", "failed"]
    assert found[2].start.reason == "an entry is not finite" and found[2].start.loss is None
    assert best_of(found).start.status == "finished"
    assert [one.start for one in search_minimisers(problem, 3, tmp_path)] == [one.start for one in found]


@pytest.mark.slow
def test_the_polished_closed_form_is_the_best_of_brute_force_and_of_all_corners(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """d = 4, L = 2, tied: all corners of the query and of the data tokens' keys, the rest as polished; and another
    optimiser on the plain loss, from random points.
    """
    monkeypatch.setitem(search_module.LBFGS_OPTIONS, "maxfun", 1000)
    setting = setting_of(length=2, bound="3/2", queries="tied")
    problem, m = MinimiserProblem(setting), 1.5
    theta, _ = search_module.polish(problem, problem.parameters.theta(closed_form(setting)))
    loss, base = problem.objective, problem.parameters.head(theta)
    polished = loss.excess(base, m)
    corners = min(
        loss.excess(
            HeadWeights(
                np.tile(np.array(signs[:4]) * m, (3, 1)),
                np.concatenate([np.full((1, 4), m), np.array([signs[4:]]) * m, base.keys[2:]]),
                base.values,
            ),
            m,
        )
        for signs in product((-1.0, 1.0), repeat=8)
    )
    assert polished <= corners * (1 + 2 * excess_error(base, m))  # the best corner may be the point itself
    generator = np.random.default_rng(0)

    def plain(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, by_head = loss.excess_and_gradient(problem.parameters.head(x), m)
        return value, problem.parameters.gradient(x, by_head)

    for _ in range(10):
        start = generator.uniform(-m, m, problem.parameters.size)
        searched = scipy_minimize(
            plain, start, jac=True, method="TNC", bounds=[(-m, m)] * start.size, options={"maxfun": 300}
        )
        # An optimum to a millionth: where searches stop is not rounding's, and they may reach the same minimum.
        assert polished <= searched.fun * (1 + 1e-6)


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**32),
    sixteenths=st.integers(4, 64),
    d=st.sampled_from([4, 8]),
    length=st.integers(1, 3),
)
@settings(max_examples=12)
def test_certified_bounds_enclose_the_exact_loss_and_the_lower_bound_lies_below(
    seed: int, sixteenths: int, d: int, length: int
) -> None:
    bound = Fraction(sixteenths, 16)  # a float: points of the box can reach it
    setting = MinimiserSetting(draw_grid_frequencies(d, seed, 0), length, bound)
    problem = MinimiserProblem(setting)
    generator = np.random.default_rng(seed)
    random = generator.uniform(-1, 1, problem.parameters.size) * problem.largest_entry
    certified = loss_lower_bound(setting).certified_excess
    for head in (problem.parameters.head(random), closed_form(setting)):
        excess = PopulationLoss(setting.frequencies, 1, length).excess(head, float(bound))
        lower, upper = population_excess_bounds(setting.frequencies, 1, length, head, bound)
        error = excess_error(head, float(bound))
        assert error < 1e-8
        assert float(lower) * (1 - error) <= excess <= float(upper) * (1 + error) + 2.0**-1022
        assert excess >= certified


@pytest.mark.slow
@pytest.mark.parametrize("queries", ["free", "tied"])
@pytest.mark.parametrize(
    ("parametrisation", "norm"), [("coupled", "linf"), ("coupled", "l2"), ("decoupled", "l2"), ("decoupled", "linf")]
)
def test_the_covering_box_holds_every_head_and_its_bound_lies_below(
    parametrisation: Any, norm: Any, queries: Any
) -> None:
    setting = setting_of(8, 3, "1/3", queries=queries)
    problem = MinimiserProblem(setting, parametrisation, norm)
    box = problem.covering
    certified = loss_lower_bound(box).certified_loss
    energy = 0.0
    if norm == "l2" and parametrisation == "decoupled":
        energy = float(energy_loss_bound(3, queries, problem.square_radius).lower())
    largest = 0.0
    generator = np.random.default_rng(0)
    for size in (0.3, 1.0, 100.0, 100.0, 100.0):
        theta = problem.project(generator.normal(size=problem.parameters.size) * size * problem.largest_entry)
        head = problem.parameters.head(theta)
        largest = max(largest, *(float(np.abs(part).max()) for part in head))
        loss = PopulationLoss(setting.frequencies, 1, 3).loss(head)
        assert loss >= max(certified, energy)
    # All entries at the bound and alike: the head's largest entries are the box's, for some of its kinds.
    corner = problem.project(np.full(problem.parameters.size, 1.0))
    largest = max(largest, *(float(np.abs(part).max()) for part in problem.parameters.head(corner)))
    # An entry is an inner product of at most 8 terms, of a point that is on the box or ball up to a few roundings.
    assert largest <= float(box.bound) * (1 + gamma(50)) and (norm == "l2" or largest >= 0.999 * float(box.bound))


def test_the_bound_of_a_ball_is_above_its_floor_and_near_what_searches_find(tmp_path: Path) -> None:
    problem = MinimiserProblem(setting_of(8, 3, "3/2"), norm="l2")
    bound = float(energy_loss_bound(3, "free", problem.square_radius).lower())
    floor = float(np.log1p(np.exp(-float(problem.least_logit))))
    best = best_of(search_minimisers(problem, 1, tmp_path)).start.loss
    assert best is not None and 1.05 * floor < bound <= best
    # A ball of nine tenths the square has a better model than this bound of it would allow for the whole.
    assert float(energy_loss_bound(3, "free", problem.square_radius * Fraction(9, 10)).lower()) > bound
    # The minimum over E by a grid of floats; W and rho counted step by step.
    shares: dict[int, float] = {}
    for n in range(1, 4):
        for i in range(1, n + 1):
            others = set(range(1, n + 1)) - {i, i - 1}
            for asker in ((2,) if i == 1 else (0, 1)) if others else ():
                shares[asker] = shares.get(asker, 0.0) + 1 / (3 * n * (1 if i == 1 else 2))
    whole = sum(shares.values())
    rho = sum((share / whole) ** 2 for share in shares.values())
    energy = np.linspace(0, float(problem.square_radius), 20_000)
    attention = whole / (2 * (1 + np.exp(energy * np.sqrt(rho / 2))))
    margin = np.sqrt((energy[-1] - energy) / 2) * (1 - attention)
    # The grid of energies and the concave bound used differ by a hundredth or so; this is no matter of rounding.
    assert bound == pytest.approx(float(np.log1p(np.exp(-margin.max()))), rel=0.02)


def test_a_bound_of_another_head_does_not_enclose() -> None:
    """The comparison above would notice a moved weight."""
    setting = setting_of(length=4)
    head = closed_form(setting)
    excess = PopulationLoss(setting.frequencies, 1, 4).excess(head, 1.0)
    head.keys[1, 3] *= 0.5
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
    for draw in range(4):
        setting = MinimiserSetting(draw_grid_frequencies(8, 1, draw), 4, Fraction(1), a)
        noise = np.random.default_rng(draw)
        head = HeadWeights(*(part + 0.15 * noise.normal(size=part.shape) for part in closed_form(setting)))
        found = head_length(setting.frequencies, a, head, 300)
        assert found.fails is not None and found.status == "PROVED"
        reached.append(found.lower)
        assert min(found.lower, 8) == brute_length(head, setting, 8)
        string = np.array([found.fails.string])
        answers = forced_answers(build_minimiser_model(head, setting.frequencies, a), theory_task(a, a + 2), string)
        assert answers[0, found.fails.step - 1] != string[0, found.fails.step - 1]
    assert len(set(reached)) > 1


def test_no_length_beyond_the_limit_is_claimed() -> None:
    found = head_length(draw_grid_frequencies(16, 0, 0), 1, closed_form(setting_of(16, 5, "2")), 8)
    assert (found.lower, found.fails, found.status) == (8, None, "PROVED")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.deep
def test_the_command_gives_the_same_figures_in_a_new_process(tmp_path: Path) -> None:
    arguments = ("--M", "1", "--L", "2", "--d", "4", "--seed", "3", "--starts", "1", "--json")
    first, second = (run(*arguments, "--out", str(tmp_path / name)) for name in ("one", "two"))
    assert first.returncode == second.returncode == 0, first.stderr
    document, again = json.loads(first.stdout), json.loads(second.stdout)
    assert document == json.loads((tmp_path / "one" / "minimize.json").read_text())
    assert document.pop("provenance")["parameters"]["starts"] == again.pop("provenance")["parameters"]["starts"]
    assert document == again
    assert list(document) == [
        "best_loss", "lower_bound", "trivial_floor", "closed_form_loss", "saturated_fraction", "length_generalised",
        "paper_length", "fails_at", "starts",
    ]  # fmt: skip
    assert document["trivial_floor"] < document["lower_bound"] <= document["best_loss"] <= document["closed_form_loss"]
    assert [start["name"] for start in document["starts"]] == [
        "closed-form",
        "linear-programme",
        "content-programme",
        "search-0001",
    ]
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
        (("--M", "1", "--L", "5", "--d", "4", "--queries", "some"), "--queries = some"),
        (("--M", "1", "--L", "5", "--d", "4", "--parametrisation", "x"), "--parametrisation = x"),
        (("--M", "1", "--L", "5", "--d", "4", "--norm", "l3"), "--norm = l3"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: tuple[str, ...], argument: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=argument.replace("-", r"\-")) as caught:
        cli.main(["minimize", *arguments, "--out", str(tmp_path / "out")], standalone_mode=False)
    assert "\n" not in str(caught.value) and not (tmp_path / "out").exists()


def drawn_points() -> dict[str, dict[str, float]]:
    return {
        point.name: {
            "loss": 0.3 / float(point.bound) + 0.01, "certified_loss": 0.3 / float(point.bound) + 0.005,
            "floor": 0.3 / float(point.bound), "excess": 0.01, "closed_form_excess": 0.02,
            "certified_excess": 0.005,
            "length": point.length**2 + 3, "paper_length": point.length**2, "exceeds_limit": False,
        }
        for point in plot_module.POINTS
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["pdf", "png", "svg"])
def test_the_figure_is_drawn_from_saved_points_without_searching(ending: str, tmp_path: Path) -> None:
    out = tmp_path / f"minimisers.{ending}"
    out.with_suffix(".json").write_text(json.dumps({"d": 16, "seed": 0, "points": drawn_points()}))
    cli.main(["plot", "minimisers", "--out", str(out)], standalone_mode=False)
    assert out.stat().st_size > 5000


def test_plots_without_matplotlib_and_with_a_wrong_ending_are_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="ends in"):
        cli.main(["plot", "minimisers", "--out", str(tmp_path / "x.gif")], standalone_mode=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'copycert\[plots\]'"):
        cli.main(["plot", "minimisers", "--out", str(tmp_path / "x.pdf")], standalone_mode=False)
    assert list(tmp_path.iterdir()) == []


def test_a_tied_head_needs_one_query_and_a_coupled_theta_no_head() -> None:
    with pytest.raises(InputError, match="parametrisation"):
        HeadParameters("coupled", "free", 4, 1).theta(closed_form(setting_of(4)))


@pytest.mark.slow
def test_a_small_acceptance_run_resumes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(minimisers, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(minimisers, "setting_of", lambda draw: setting_of(length=2 + draw))
    out = tmp_path / "minimisers.jsonl"
    minimisers.main(["--scale", "0.04", "--out", str(out)])
    head, rows = read(out)
    assert (head["seed"], head["scale"], head["starts_each"]) == (0, 0.04, 3)
    summary = minimisers.summary(rows)
    assert summary["draws"] == 2 and summary["bound_beaten"] == 0
    assert summary["bound_no_better_than_floor"] == 0
    assert summary["certificates_accepted"] == 2
    assert all(row["closed_form_over_best"] >= 1 <= row["best_over_certified"] for row in rows)
    kept = sorted((tmp_path / "kept").rglob("starts/*.json"))
    before = [path.stat().st_mtime_ns for path in kept]
    whole = out.read_bytes()
    out.write_bytes(whole[:-100])  # the second draw is torn
    minimisers.main(["--scale", "0.04", "--out", str(out)])
    assert out.read_bytes() == whole
    assert [path.stat().st_mtime_ns for path in kept] == before


@pytest.mark.slow
def test_a_small_comparison_resumes_and_beats_no_bound(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small: dict[str, Any] = {"KEPT": tmp_path / "kept", "DIMENSION": 4, "LENGTH": 2, "LIMIT": 50, "READINGS": ("tied",)}
    small |= {"COUPLED_STARTS": 1, "DECOUPLED_STARTS": 1}
    for name, value in small.items():
        monkeypatch.setattr(minimiser_comparison, name, value)
    out = tmp_path / "comparison.jsonl"
    minimiser_comparison.main(["--scale", "0.05", "--out", str(out)])
    whole, (_, rows) = out.read_bytes(), read(out)
    assert len(rows) == 5 and [line["lower_bound_beaten"] for line in minimiser_comparison.summary(rows)] == [0] * 5
    inside = [row for row in rows if row["variant"] == "coupled-inside"]
    assert all(row["bound"] ** 2 * 4 <= 1.5 and row["lower_bound"] > np.log1p(np.exp(-1.5)) for row in inside)
    monkeypatch.setattr(minimiser_comparison, "one_reading", lambda draw, queries: rows)
    minimiser_comparison.main(["--scale", "0.05", "--out", str(out)])  # every draw is there
    assert out.read_bytes() == whole
    out.write_bytes(whole[:-100])  # the last row is torn: its draw and reading are asked again as a whole
    minimiser_comparison.main(["--scale", "0.05", "--out", str(out)])
    assert out.read_bytes() == whole
