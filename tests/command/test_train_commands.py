"""train, evaluate, compare, attention: JSON, verdicts that name convergence, measured shares, bad input in one line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from copycert.command._attention import head_maps, measured
from copycert.command._compare import write_plots
from copycert.command._main import cli
from copycert.figures._comparison import delimiter_labels, trained_label
from copycert.sampled import share, summary, verdict_on
from engine import (
    Accuracy,
    AttentionShares,
    CopySource,
    Devices,
    Example,
    RunDirectory,
    accuracy_at,
    accuracy_under_repetition,
    attention_shares,
    load_run,
    preset_run,
    train,
)
from tests._commands import run_json, told
from theory import InputError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that copies: seeds 0 to 2 do from step 30 on, with a loss below 0.006 there and 0.0003 at 60."""
    directory = tmp_path_factory.mktemp("runs") / "good"
    config = preset_run("provable-1layer", "rope2d", steps=60, max_length=12)
    train(config, RunDirectory(directory), devices=Devices("cpu"))
    return directory


@pytest.fixture(scope="module")
def poor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has hardly begun, in two layers of 2 heads and 1 head."""
    directory = tmp_path_factory.mktemp("runs") / "poor"
    arguments = ["train", "--preset", "laptop", "--encoding", "rope", "--heads", "2,1", "--steps", "2"]
    document = run_json(*arguments, "--max-length", "12", "--out", str(directory))
    assert document["steps"] == 2 and document["model"] == str(directory / "model.safetensors")
    assert document["encoding"] == "rope" and document["loss"] > 0.1
    return directory


def test_evaluate_a_run_that_copies(good: Path) -> None:
    document = run_json("evaluate", str(good), "--distribution", "recursive-flip", "--lengths", "12,40")
    assert document["results"] == [
        {"distribution": "recursive-flip", "length": length, "accuracy": 1.0, "samples": 10} for length in (12, 40)
    ]
    assert document["within_training"]["accuracy"] == 1 and document["verdict"] == "copies"


def test_evaluate_a_run_that_has_not_converged(poor: Path) -> None:
    document = run_json("evaluate", str(poor), "--distribution", "imbalanced", "--lengths", "250,300")
    assert document["verdict"] == "NOT CONVERGED"
    assert all(row["accuracy"] == 0 for row in document["results"])
    text = CliRunner().invoke(cli, ["evaluate", str(poor), "--distribution", "uniform", "--lengths", "250"]).output
    assert "NOT CONVERGED" in text and "exact at lengths <= 12" in text and "fails" not in text


@pytest.mark.deep
def test_evaluation_is_the_same_in_another_process(poor: Path) -> None:
    arguments = ["evaluate", str(poor), "--distribution", "uniform", "--lengths", "2,3", "--samples", "40", "--json"]
    done = subprocess.run([sys.executable, "-m", "copycert", *arguments], capture_output=True, text=True, check=True)
    document, again = json.loads(done.stdout), run_json(*arguments[:-1])
    assert document.pop("provenance")["command"] == again.pop("provenance")["command"] == "evaluate"
    assert document == again
    config, model = load_run(poor)
    source = config.data.source()
    written = []
    for length in (2, 3):
        from engine.training._accuracy import TEST_SEED
        from engine.training._data import step_seed

        examples = source.examples_of_length("uniform", length, step_seed(TEST_SEED, length), 40)
        written.append(sum(generates(model, example) for example in examples) / 40)
    assert [row["accuracy"] for row in document["results"]] == written


def generates(model: Any, example: Example) -> bool:
    import torch

    answer = model.generate(torch.from_numpy(example.prompt)[None], len(example.answer))[0]
    return bool((answer.numpy() == example.answer).all())


def accuracy(exact: int, samples: int, length: int, distribution: str = "imbalanced") -> Accuracy:
    return Accuracy(distribution, length, exact, samples)


@pytest.mark.parametrize(
    ("trained", "within", "beyond", "name"),
    [
        (100, 100, {250: 0, 500: 0}, "fails"),
        (99, 99, {100: 7, 250: 0, 500: 0}, "fails"),
        (98, 100, {250: 0}, "NOT CONVERGED"),
        (100, 98, {250: 0}, "NOT CONVERGED"),
        (98, 98, {250: 10, 500: 10}, "NOT CONVERGED"),
        (100, 100, {250: 10, 500: 10}, "copies"),
        (100, 100, {250: 1, 500: 0}, "in part"),
        (100, 100, {249: 0}, "in part"),
        (100, 100, {}, "in part"),
    ],
)
def test_verdicts(trained: int, within: int, beyond: dict[int, int], name: str) -> None:
    tests = [accuracy(exact, 10, length, "uniform") for length, exact in beyond.items()]
    verdict = verdict_on(accuracy(trained, 100, 100), accuracy(within, 100, 100, "uniform"), tests)
    assert verdict.name == name
    assert f"{share(verdict.within)} exact at lengths <= 100" in verdict.sentence
    if name == "NOT CONVERGED":
        assert "NOT CONVERGED" in verdict.sentence and "fails" not in verdict.sentence
    if name == "fails":
        assert "fails at every length tested from 250 on" in verdict.sentence


def test_too_few_strings_do_not_make_a_failure() -> None:
    within = accuracy(100, 100, 100)
    assert verdict_on(within, within, [accuracy(0, 9, 250)]).name == "in part"
    assert verdict_on(within, within, [accuracy(0, 10, 250)]).name == "fails"


def test_shares_round_to_all_or_none_only_where_it_is_all_or_none() -> None:
    shares = [share(accuracy(exact, 1000, 1)) for exact in (0, 1, 500, 999, 1000)]
    assert shares == ["0%", "< 1%", "50%", "> 99%", "100%"]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("comparison")
    arguments = ["--encodings", "rope2d", "alibi", "--seeds", "2", "--steps", "3", "--lengths", "250", "300"]
    options = ["--train-distributions", "imbalanced", "uniform", "--distributions", "uniform", "recursive-flip"]
    return out, run_json(
        "compare", *arguments, *options, "--preset", "provable-1layer", "--processes", "1", "--out", str(out)
    )


def test_a_comparison_lists_every_seed(comparison: tuple[Path, dict[str, Any]]) -> None:
    out, document = comparison
    runs = {(row["encoding"], row["train_distribution"], row["seed"]) for row in document["runs"]}
    assert runs == {(e, d, s) for e in ("rope2d", "alibi") for d in ("imbalanced", "uniform") for s in (0, 1)}
    assert document["complete"] and json.loads((out / "comparison.json").read_text()) == document
    for row in document["summary"]:
        assert row["seeds"] == 2 and row["verdicts"] == {"NOT CONVERGED": 2}
        assert [count["length"] for count in row["beyond"]] == [250, 300]
        for count in (row["within"], *row["beyond"]):
            assert count["interval"][0] <= count["accuracy"] <= count["interval"][1]
    assert len(document["summary"]) == 2 * 2 * 2


def test_a_comparison_s_plots_are_written(comparison: tuple[Path, dict[str, Any]]) -> None:
    out, _ = comparison
    names = ["training-distributions", "accuracy-against-repetition"]
    names += [f"accuracy-against-length-trained-on-{trained}" for trained in ("imbalanced", "uniform")]
    for name in names:
        assert (out / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert (out / f"{name}.png").stat().st_size > 10_000


def test_runs_without_repetition_have_the_other_plots(comparison: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """As those of list conversion, whose symbols have no probability to repeat."""
    document = comparison[1]
    write_plots({**document, "runs": [{**row, "repetition": []} for row in document["runs"]]}, tmp_path)
    assert "training-distributions.pdf" in {file.name for file in tmp_path.iterdir()}
    assert not list(tmp_path.glob("accuracy-against-repetition*"))


def test_a_comparison_that_is_asked_again_trains_nothing(comparison: tuple[Path, dict[str, Any]]) -> None:
    out, document = comparison
    files = {file: file.stat().st_mtime_ns for file in out.glob("runs/*/*") if file.is_file()}
    again = CliRunner().invoke(
        cli,
        ["compare", "--encodings", "rope2d,alibi", "--seeds", "2", "--steps", "3", "--lengths", "250,300",
         "--train-distributions", "imbalanced,uniform", "--distributions", "uniform,recursive-flip", "--no-plots",
         "--preset", "provable-1layer", "--processes", "1", "--out", str(out)],
        catch_exceptions=False,
    )  # fmt: skip
    assert again.exit_code == 0 and again.stdout.count("NOT CONVERGED") >= len(document["runs"]) * 2
    assert {file: file.stat().st_mtime_ns for file in files} == files
    for row in document["runs"]:
        assert f" {row['seed']} " in again.stdout


def test_sums_over_seeds_count_every_seed() -> None:
    def row(seed: int, exact: int, verdict: str) -> dict[str, Any]:
        count = {"length": 250, "exact": exact, "samples": 10}
        test = {"distribution": "uniform", "within": count, "beyond": [count], "verdict": verdict}
        return {"encoding": "rope", "separator": "<n>", "train_distribution": "uniform", "seed": seed, "tests": [test]}

    (found,) = summary([row(0, 10, "copies"), row(1, 2, "NOT CONVERGED"), row(2, 0, "NOT CONVERGED")])
    assert found["within"]["accuracy"] == found["beyond"][0]["accuracy"] == 12 / 30
    assert found["verdicts"] == {"copies": 1, "NOT CONVERGED": 2}


def test_p_and_one_minus_p_are_the_same_up_to_the_names_of_the_symbols(good: Path) -> None:
    """Why the plot against repetition begins at p = 1/2: strings kept with 0 are those kept with 1, complemented."""
    source = CopySource()
    kept, flipped = (
        source.examples_of_length("repeat-structure", 40, 3, 5, flip_probability=flip) for flip in (0.0, 1.0)
    )
    assert all((a.answer + b.answer == 1).all() for a, b in zip(kept, flipped, strict=True))
    _, model = load_run(good)
    assert accuracy_under_repetition(model, source, 1.0, 20, 10, 0).exact == 10
    assert accuracy_at(model, source, "repeat-structure", 20, 10, 0).exact == 10


def test_attention_of_a_run_that_copies_is_on_the_source(good: Path, tmp_path: Path) -> None:
    document = run_json("attention", str(good), "--length", "20", "--out", str(tmp_path))
    (head,) = document["heads"]
    assert document["copied"] and head["source"] > 0.5
    assert head["source"] > head["diagonal"] and head["stripe"] < 0.5
    assert (tmp_path / "attention-maps.pdf").read_bytes().startswith(b"%PDF")
    assert json.loads((tmp_path / "attention.json").read_text()) == document


def test_plots_name_the_seeds_that_did_not_converge() -> None:
    def run(exact: int) -> dict[str, Any]:
        return {"encoding": "rope2d", "separator": "*", "trained": {"exact": exact, "samples": 100}}

    assert trained_label([run(99), run(100)]) == "rope2d with *"
    assert trained_label([run(98), run(100), run(0)]) == "rope2d with * (NOT CONVERGED: 2 of 3 seeds)"


def test_delimiters_side_by_side_get_one_label() -> None:
    tokens = ["<n>", "<I:>", "0", "1", "<n>", "<I:>", "<O:>", "0", "1", "<n>"]
    assert delimiter_labels(tokens) == {0: "<n> <I:>", 4: "<n> <I:> <O:>", 9: "<n>"}
    assert delimiter_labels(["0", "1"]) == {}


def test_heads_may_differ_from_layer_to_layer(poor: Path) -> None:
    document = run_json("attention", str(poor), "--length", "10")
    assert [(head["layer"], head["head"]) for head in document["heads"]] == [(0, 0), (0, 1), (1, 0)]


def shares_of(weights: np.ndarray, example: Example) -> AttentionShares:
    sources = np.arange(len(example.answer)) + 2
    return attention_shares(weights, example, sources, frozenset((2, 3, 4)), 0, 0)


def test_shares_of_made_up_maps() -> None:
    """Pure stripes, pure diagonals, the pure source, and the neighbour of the source."""
    (example,) = CopySource().examples_of_length("uniform", 12, 0, 1)
    length = example.length
    queries = np.arange(16, length)
    stripe, diagonal, source, near = (np.zeros((length, length)) for _ in range(4))
    stripe[:, 14] = 0.25
    stripe[:, 0] = 0.75
    diagonal[queries, queries - 5] = 1
    source[queries, queries - 14] = 1
    near[queries, queries - 13] = 1
    assert shares_of(stripe, example).stripe == 1
    found = shares_of(diagonal, example)
    assert (found.diagonal, found.distance, found.source) == (1, 5, 0)
    found = shares_of(source, example)
    assert (found.source, found.near, found.diagonal) == (1, 0, 0)
    found = shares_of(near, example)
    assert (found.source, found.near, found.distance, found.diagonal) == (0, 1, 13, 1)


def test_measured_maps_are_distributions(poor: Path) -> None:
    config, model = load_run(poor)
    source = config.data.source()
    assert isinstance(source, CopySource)
    (example,) = source.examples_of_length("uniform", 9, 0, 1)
    maps = head_maps(model, example)
    for _, _, weights in maps:
        assert np.allclose(weights.sum(1), 1, atol=1e-5) and np.all(np.triu(weights, 1) == 0)
    for found in measured(maps, example, source):
        assert 0 <= found.stripe <= 1 and 0 <= found.source <= 1 and found.source + found.near <= 1 + 1e-6


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["train", "--preset", "laptop", "--encoding", "rope3d", "--out", "OUT"], "one of rope, nope, alibi, rnope"),
        (["train", "--preset", "desk", "--encoding", "rope", "--out", "OUT"], "one of laptop, provable-1layer"),
        (
            ["train", "--preset", "laptop", "--encoding", "rope", "--train-distribution", "normal", "--out", "OUT"],
            "distribution = normal: must be one of uniform, imbalanced, recursive-flip, repeat-structure",
        ),
        (["train", "--preset", "laptop", "--encoding", "hrope", "--layers", "3", "--out", "OUT"], "must be even"),
        (["train", "--preset", "laptop", "--encoding", "rope", "--heads", "3", "--out", "OUT"], "must be a multiple"),
        (["compare", "--encodings", "rope", "pope", "--out", "OUT"], "--encodings = pope: must be one of rope, nope"),
        (["compare", "--encodings", "rope", "--seeds", "0", "--out", "OUT"], "seeds = 0"),
        (["evaluate", "OUT", "--distribution", "uniform", "--lengths", "5"], "must be a finished run"),
        (["attention", "OUT"], "must be a finished run"),
    ],
)
def test_bad_input_is_told_in_one_line(
    arguments: list[str], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    if arguments[0] in ("evaluate", "attention"):
        out.mkdir()
    before = sorted(tmp_path.rglob("*"))
    assert line in told(capsys, *(str(out) if argument == "OUT" else argument for argument in arguments))
    assert sorted(tmp_path.rglob("*")) == before


def test_bad_questions_to_a_good_run_are_told_in_one_line(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(good)
    assert "one of uniform" in told(capsys, "evaluate", run, "--distribution", "mixed", "--lengths", "5")
    assert "--lengths = 5,x" in told(capsys, "evaluate", run, "--distribution", "uniform", "--lengths", "5,x")
    line = told(capsys, "evaluate", run, "--distribution", "uniform", "--lengths", "5", "--periods", "9,20")
    assert "for runs of the task list" in line
    assert "from 1 to 2000" in told(capsys, "attention", run, "--length", "2001")


@pytest.mark.parametrize(
    ("package", "arguments", "line"),
    [
        ("lightning_fabric", ["train", "--preset", "laptop", "--encoding", "rope"], "pip install 'copycert[train]'"),
        ("matplotlib", ["compare", "--encodings", "rope"], "pip install 'copycert[plots]'"),
        (
            "distributed",
            ["compare", "--encodings", "rope", "--no-plots", "--dask", "tcp://127.0.0.1:1"],
            "pip install 'copycert[train]'",
        ),
    ],
)
def test_a_missing_extra_is_told_in_one_line(
    package: str,
    arguments: list[str],
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert line in told(capsys, *arguments, "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_checking_needs_no_extra() -> None:
    program = (
        "import sys, copycert.command._main; extras = {'lightning_fabric', 'matplotlib', 'distributed'};"
        "print(sorted(extras & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_lists_are_evaluated_by_points_and_periods(tmp_path: Path) -> None:
    run_json(
        "train", "--preset", "provable-1layer", "--encoding", "rope2d", "--task", "list", "--steps", "1",
        "--max-length", "50", "--out", str(tmp_path / "run"),
    )  # fmt: skip
    config, model = load_run(tmp_path / "run")
    assert accuracy_at(model, config.data.source(), "smooth", 2, 10, 0).samples == 10
    longer = config.data.with_periods(9, 30)
    assert (longer.min_period, longer.max_period) == (9, 30)
    with pytest.raises(InputError):
        config.data.with_periods(9)
