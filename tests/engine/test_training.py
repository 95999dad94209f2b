"""Training: one plain loop against Fabric's, resuming after kill -9, torchrun, Dask, and directories left untouched."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from engine import (
    ENCODINGS,
    IGNORED,
    PRESETS,
    CopySource,
    Devices,
    Interrupted,
    RunConfig,
    RunDirectory,
    TrainingConfig,
    load_run,
    load_weights,
    micro_batches,
    preset_run,
    sweep,
    train,
)
from engine.training._accuracy import count_exact
from engine.training._loop import _leave_group
from engine.training._run_directory import save_digested
from tests._rounding import gamma
from theory import InputError

CPU = Devices("cpu")
TINY = ["--preset", "provable-1layer", "--encoding", "rope2d", "--max-length", "8", "--accelerator", "cpu"]


def tiny(steps: int, **options: Any) -> RunConfig:
    return preset_run("provable-1layer", "rope2d", steps=steps, max_length=8, **options)


def contents(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in directory.iterdir()}


def results(directory: Path) -> tuple[bytes, bytes]:
    return (directory / "model.safetensors").read_bytes(), (directory / "metrics.jsonl").read_bytes()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that copies: seeds 0 to 2 do from step 30 on, with a loss below 0.006 there and 0.0001 at 120."""
    directory = tmp_path_factory.mktemp("runs") / "finished"
    train(tiny(120), RunDirectory(directory), devices=CPU)
    return directory


def plain_loop(config: RunConfig) -> dict[str, torch.Tensor]:
    """The same training without Fabric, accumulation or our schedule: whole batches, one formula a line."""
    model, c = config.build().double(), config.training
    optimizer = torch.optim.AdamW(
        model.parameter_groups(c.learning_rate, c.weight_decay), betas=(0.9, 0.95), foreach=False
    )
    peaks = [group["lr"] for group in optimizer.param_groups]
    for step in range(c.steps):
        cosine = 0.5 * (1 + np.cos(np.pi * (step - c.warmup) / (c.steps - c.warmup)))
        decayed = c.final_learning_rate + (c.learning_rate - c.final_learning_rate) * cosine
        rate = c.learning_rate * (step + 1) / c.warmup if step < c.warmup else decayed
        for group, peak in zip(optimizer.param_groups, peaks, strict=True):
            group["lr"] = peak * rate / c.learning_rate
        (batch,) = micro_batches(config.data.source(), c.seed, step, c.batch_size, 1)
        optimizer.zero_grad()
        cross_entropy(model(batch.tokens).flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.state_dict()


def largest_difference(directory: Path, weights: dict[str, torch.Tensor]) -> float:
    tensors, _ = load_weights(directory / "model.safetensors")
    assert tensors.keys() == weights.keys()
    return max(float((tensors[name] - weights[name]).abs().max()) for name in weights)


#: A gradient below AdamW's epsilon, 1e-8, is worth its error over 1e-8 times the learning rate, 3e-3, a step; with an
#: error of 1e-14, ten times what the order of sums does to gradients of size 1 in float64, that is 2e-8 in six steps.
#: No strict bound: steps feed back into each other. Float32 moves weights by 7e-7 and more, a wrong factor by 1e-5.
SAME = 2e-8


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["rope2d", "auto2d"])
def test_training_is_a_plain_loop_of_adamw(encoding: str, tmp_path: Path) -> None:
    config = preset_run("laptop", encoding, 3, steps=6, max_length=8, precision="64-true")
    config = replace(config, training=replace(config.training, warmup=2, accumulate=4))
    train(config, RunDirectory(tmp_path / "run"), devices=CPU)
    assert largest_difference(tmp_path / "run", plain_loop(config)) < SAME
    wrong = replace(config, training=replace(config.training, weight_decay=0.02))
    assert largest_difference(tmp_path / "run", plain_loop(wrong)) > SAME


def test_warm_up_and_cosine() -> None:
    config = TrainingConfig(steps=110, learning_rate=1e-2, final_learning_rate=1e-3, warmup=10)
    assert [config.rate_factor(step) for step in (0, 4, 9, 10, 60, 110)] == pytest.approx(
        [0.1, 0.5, 1, 1, 0.55, 0.1], rel=gamma(20)
    )


def test_the_curriculum_grows_to_the_longest_string() -> None:
    config = TrainingConfig(steps=100, curriculum=50)
    assert [config.longest(step, 1, 100) for step in (0, 25, 49, 50, 99)] == [10, 55, 98, 100, 100]
    assert [config.longest(0, least, most) for least, most in ((1, 8), (50, 150))] == [8, 50]
    lengths = [len(e.answer) for e in CopySource().examples(0, 500, 12)]
    assert max(lengths) == 12 and min(lengths) == 1


@pytest.mark.deep
def test_a_killed_run_goes_on_to_the_same_result(finished: Path, tmp_path: Path) -> None:
    """kill -9 while it trains, twice; then weights and metrics are an undisturbed run's, byte for byte."""
    steps, out = "120", tmp_path / "killed"
    command = [sys.executable, "-m", "copycert", "train", *TINY, "--steps", steps]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    for least in (15, 40):
        process = subprocess.Popen([*command, "--out", str(out), "--checkpoint-every", "7"], env=environment)
        deadline = time.monotonic() + 300
        while len(RunDirectory(out).metrics()) < least and time.monotonic() < deadline:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        done = len(RunDirectory(out).metrics())
        assert least <= done < int(steps) and (out / "checkpoint.safetensors").exists()
        # A last line that the kill cut short must not matter.
        with (out / "metrics.jsonl").open("a") as file:
            file.write('{"step": 1')
    train(tiny(120), RunDirectory(out), devices=CPU)
    assert results(out) == results(finished)
    assert not (out / "checkpoint.safetensors").exists()
    assert [line["step"] for line in RunDirectory(out).metrics()] == list(range(120))


@pytest.mark.deep
def test_two_torchrun_processes_do_the_work_of_one(tmp_path: Path) -> None:
    options = [*TINY, "--steps", "5", "--precision", "64-true", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m",
         "copycert", "train", *options, "--out", str(tmp_path / "two")],
        capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["steps"] == 5  # one process reports
    train(tiny(5, precision="64-true"), RunDirectory(tmp_path / "one"), devices=CPU)
    weights, _ = load_weights(tmp_path / "one" / "model.safetensors")
    assert largest_difference(tmp_path / "two", weights) < SAME
    two, one = (RunDirectory(tmp_path / name).metrics() for name in ("two", "one"))
    assert [line["loss"] for line in two] == pytest.approx([line["loss"] for line in one], rel=SAME)


def square(number: int) -> int:
    return number * number


@pytest.mark.slow
def test_sweeps_give_every_result_once() -> None:
    assert sorted(sweep(square, [3, 4, 5], processes=1)) == [(0, 9), (1, 16), (2, 25)]
    assert sorted(sweep(abs, [-3, 4, -5], processes=2)) == [(0, 3), (1, 4), (2, 5)]


@pytest.fixture(scope="module")
def dask_address() -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, worker_dashboard_address=None) as dask:
        yield dask.scheduler_address


@pytest.mark.slow
def test_a_sweep_on_a_dask_cluster_is_the_local_one(dask_address: str, tmp_path: Path) -> None:
    from copycert.sampled import Job, Questions, compare

    ask = Questions(("uniform",), (10,), samples=2, within_samples=5, keeps=(1.0,), repetition_length=10)
    documents = []
    for place, dask in (("here", None), ("dask", dask_address)):
        jobs = [Job(tiny(3, seed=seed), tmp_path / place / f"seed-{seed}", ask) for seed in (0, 1)]
        documents.append(compare(jobs, tmp_path / place, processes=1, dask=dask))
    for document in documents:
        for row in document["runs"]:
            assert row.pop("train_seconds") > 0
    assert documents[0] == documents[1]
    assert [row["seed"] for row in documents[0]["runs"]] == [0, 1]
    for seed in (0, 1):
        assert results(tmp_path / "here" / f"seed-{seed}") == results(tmp_path / "dask" / f"seed-{seed}")


def test_no_scheduler_at_the_address_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.training._sweep.DASK_TIMEOUT", 0.2)
    with pytest.raises(InputError, match=r"dask = tcp://127.0.0.1:9: must be the address of a running Dask scheduler"):
        list(sweep(square, [1], dask="tcp://127.0.0.1:9"))


@pytest.mark.slow
def test_a_finished_run_is_not_trained_again(finished: Path) -> None:
    before = contents(finished)
    train(tiny(120), RunDirectory(finished), devices=CPU)
    assert contents(finished) == before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seed": 1}, "there training.seed is 0, not 1"),
        ({"steps": 121}, "there training.steps is 120, not 121"),
        ({"distribution": "uniform"}, "there data.distribution is imbalanced, not uniform"),
        ({"encoding": "rope"}, "there encoding is rope2d, not rope"),
    ],
)
def test_a_directory_of_another_configuration_is_left_untouched(
    finished: Path, change: dict[str, Any], told: str
) -> None:
    before = contents(finished)
    options = {"encoding": "rope2d", "steps": 120, "max_length": 8} | change
    with pytest.raises(InputError) as caught:
        train(preset_run("provable-1layer", **options), RunDirectory(finished), devices=CPU)
    assert told in str(caught.value) and contents(finished) == before


def test_a_directory_with_other_files_is_left_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(InputError, match="new, empty, or the directory of a run"):
        train(tiny(2), RunDirectory(tmp_path), devices=CPU)
    assert contents(tmp_path) == before


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    def stop(done: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tiny(6), RunDirectory(tmp_path / "run"), devices=CPU, checkpoint_every=2, tick=stop)
    return tmp_path / "run"


def damage(file: Path, how: str) -> None:
    data = bytearray(file.read_bytes())
    if how == "truncated":
        data = data[: len(data) // 2]
    elif how == "one bit":
        data[-100] ^= 1
    elif how == "other bytes":
        data = bytearray(b"PK" + bytes(100))
    file.write_bytes(data)


@pytest.mark.parametrize("how", ["truncated", "one bit", "other bytes"])
def test_a_damaged_checkpoint_is_refused_and_left_untouched(interrupted: Path, how: str) -> None:
    damage(interrupted / "checkpoint.safetensors", how)
    before = contents(interrupted)
    with pytest.raises(InputError, match=r"weights = .*: must be"):
        train(tiny(6), RunDirectory(interrupted), devices=CPU)
    assert contents(interrupted) == before


def test_a_checkpoint_of_another_model_is_refused_and_left_untouched(interrupted: Path) -> None:
    file = interrupted / "checkpoint.safetensors"
    tensors, metadata = load_weights(file)
    tensors.pop("adamw.readout.weight.exp_avg")
    save_digested(file, tensors, metadata)
    before = contents(interrupted)
    with pytest.raises(InputError, match="a checkpoint of this configuration"):
        train(tiny(6), RunDirectory(interrupted), devices=CPU)
    assert contents(interrupted) == before


@pytest.mark.parametrize(
    ("ends", "left"), [(None, True), (Interrupted(3, signal.SIGINT), True), (RuntimeError("one process alone"), False)]
)
def test_processes_leave_their_group_together(
    ends: BaseException | None, left: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At their end and when interrupted, as all are; not where one fails, whose others would be waited for."""
    registered: list[object] = []

    def trained(*arguments: object) -> None:
        if ends is not None:
            raise ends

    monkeypatch.setattr("engine.training._loop._train", trained)
    monkeypatch.setattr("engine.training._loop.atexit.register", registered.append)
    with pytest.raises(type(ends)) if ends is not None else nullcontext():
        train(tiny(6), RunDirectory(tmp_path / "run"), devices=CPU)
    assert (_leave_group in registered) is left


def test_an_interrupted_run_is_no_finished_one(interrupted: Path) -> None:
    with pytest.raises(InputError, match="a finished run"):
        load_run(interrupted)


def test_a_damaged_model_or_a_changed_configuration_is_refused(finished: Path, tmp_path: Path) -> None:
    for name in ("model", "config"):
        copy = tmp_path / name
        copy.mkdir()
        for file in ("model.safetensors", "config.json"):
            (copy / file).write_bytes((finished / file).read_bytes())
        if name == "model":
            damage(copy / "model.safetensors", "one bit")
        else:
            text = (copy / "config.json").read_text()
            (copy / "config.json").write_text(text.replace('"imbalanced"', '"uniform"'))
        with pytest.raises(InputError):
            load_run(copy)


def test_two_processes_cannot_train_in_one_directory(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    with run.claimed(tiny(2).document()), pytest.raises(InputError, match="no other run is using now"):
        train(tiny(2), run, devices=CPU)


def test_a_run_s_weights_file_says_all_that_is_needed(finished: Path) -> None:
    config, model = load_run(finished / "model.safetensors")
    assert config == tiny(120)
    _, metadata = load_weights(finished / "model.safetensors")
    assert metadata["layout"] == {
        "task": "copy", "vocabulary": ["0", "1", "<n>", "<I:>", "<O:>"], "newline": 2, "prefix": [2, 3],
        "infix": [2, 3, 4],
    }  # fmt: skip
    assert not any(parameter.requires_grad for parameter in model.parameters())


#: Factors on the finished run's queries that flatten its attention, so that some symbols come out wrong; (length,
#: strings) to try.
BLUNT = {0.3: ((5, 6), (20, 6), (60, 4)), 0.5: ((270, 2),)}


@pytest.mark.slow
def test_exact_match_is_what_plain_generation_does(finished: Path) -> None:
    """Both ways of counting (padded, in blocks) against writing one symbol at a time.

    What the model writes is right by definition, and one other symbol is wrong, for any weights: nothing hangs on what
    the training's rounding made of them. Float64, so that the ways differ by some 1e-15 where logits are of size 1.
    """
    from engine.training import _accuracy

    for factor, cases in BLUNT.items():
        config, model = load_run(finished)
        model = model.double()
        source = config.data.source()
        model.block(0).attention.query.weight *= factor
        for length, count in cases:
            for example in source.examples_of_length("uniform", length, 1, count):
                written = model.generate(torch.from_numpy(example.prompt)[None], length)[0].numpy()
                for place in (None, 0, length // 2, length - 1):
                    answer = written.copy()
                    if place is not None:
                        answer[place] = (answer[place] + 1) % 2
                    tried = replace(example, answer=answer)
                    assert count_exact(model, [tried]) == _accuracy._exact(model, [tried]) == (place is None)
                expected = bool((written == example.answer).all())
                assert count_exact(model, [example]) == _accuracy._exact(model, [example]) == expected


def test_presets_are_the_paper_s_sizes() -> None:
    """Appendix B: 1 layer of 2 heads of 512; 12 layers of 12 heads of 128; weight decay, beta2, warm-up, batch."""
    sizes = {"paper-1layer": (1, 2, 512), "paper-12layer": (12, 12, 128)}
    for name, (layers, heads, head_width) in sizes.items():
        run = preset_run(name, "rope2d")
        assert (run.model.layers, run.model.heads, run.model.model_width) == (layers, heads, heads * head_width)
        training = run.training
        assert (training.weight_decay, training.beta2, training.warmup) == (0.01, 0.95, 100)
        assert training.accumulate == 4 and training.batch_size == 4 * 64
    provable = preset_run("provable-1layer", "rope2d").model
    assert (provable.layers, provable.heads, provable.mlp_width, provable.model_width) == (1, 1, 0, 128)
    assert provable.grid_base == 1000 and provable.shape().pre_norm and provable.shape().final_norm


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_configurations_survive_their_document(preset: str, encoding: str) -> None:
    layers = 2 if encoding in ("rnope", "hrope") else None
    for task in ("copy", "list"):
        run = preset_run(preset, encoding, task=task, separator="*", layers=layers)
        assert RunConfig.from_document(json.loads(json.dumps(run.document()))) == run


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"name": "desktop", "encoding": "rope"}, "preset = desktop: must be one of laptop, provable-1layer"),
        ({"encoding": "rope3d"}, "encoding = rope3d: must be one of rope, nope, alibi, rnope, rope2d, hrope, auto2d"),
        ({"encoding": "rnope", "layers": 3}, "layers = 3: must be even"),
        ({"encoding": "rope", "heads": 3}, "model_width = 128: must be a multiple of"),
        ({"encoding": "rope", "task": "sort"}, "task = sort: must be one of copy, list"),
        ({"encoding": "rope", "steps": 0}, "steps = 0"),
        ({"encoding": "rope", "precision": "8-bit"}, "precision = 8-bit: must be one of 32-true"),
    ],
)
def test_bad_configurations_are_refused(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as caught:
        preset_run(**{"name": "laptop", **arguments})
    assert told in str(caught.value)


@pytest.mark.slow
def test_mixed_precision_trains(tmp_path: Path) -> None:
    train(tiny(40, precision="bf16-mixed"), RunDirectory(tmp_path / "run"), devices=CPU)
    losses = [line["loss"] for line in RunDirectory(tmp_path / "run").metrics()]
    tensors, _ = load_weights(tmp_path / "run" / "model.safetensors")
    # From ln 5 = 1.61 for five tokens alike; to know that answers are 0 or 1 is to be at ln 2 = 0.69.
    assert losses[-1] < 0.8 * losses[0]
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}


def test_a_small_model_learns_to_copy(finished: Path) -> None:
    config, model = load_run(finished)
    examples = config.data.source().examples(99, 50)
    assert count_exact(model, examples) == 50


def test_lists_are_trained_by_the_same_call(tmp_path: Path) -> None:
    run = preset_run("laptop", "rope2d", task="list", steps=2, max_length=55)
    run = replace(run, training=replace(run.training, batch_size=4))
    train(run, RunDirectory(tmp_path / "run"), devices=CPU)
    config, _ = load_run(tmp_path / "run")
    assert config.data.source().names[-3:] == ("<n>", "<I:>", "<O:>")


def test_a_missing_fabric_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "lightning_fabric", None)
    with pytest.raises(InputError, match=r"lightning-fabric = missing: .*pip install 'copycert\[train\]'"):
        train(tiny(2), RunDirectory(tmp_path / "run"), devices=CPU)
    assert not (tmp_path / "run").exists()


def test_a_device_that_is_not_there_is_refused(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(InputError, match="accelerator = cuda"):
        train(tiny(2), RunDirectory(tmp_path / "run"), devices=Devices("cuda"))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.deep)])
def test_an_interrupt_keeps_every_step(finished: Path, tmp_path: Path, number: signal.Signals) -> None:
    """A signal while it trains: a checkpoint of that very step, and then an undisturbed run's bytes."""
    out = tmp_path / "run"
    command = [sys.executable, "-m", "copycert", "train", *TINY, "--steps", "120", "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    deadline = time.monotonic() + 300
    while len(RunDirectory(out).metrics()) < 20 and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    done = len(RunDirectory(out).metrics())
    assert 20 <= done < 120 and process.returncode == 128 + number
    assert f"interrupted; the same command goes on from step {done} of 120" in errors and "Traceback" not in errors
    _, metadata = load_weights(out / "checkpoint.safetensors")
    assert metadata["step"] == done  # though the next regular checkpoint was at step 100
    train(tiny(120), RunDirectory(out), devices=CPU)
    assert results(out) == results(finished)


def test_an_interrupt_ends_the_step_and_restores_the_handlers(tmp_path: Path) -> None:
    def stop(done: int) -> None:
        if done == 1:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted) as caught:
        train(tiny(6), RunDirectory(tmp_path / "run"), devices=CPU, tick=stop)
    assert (caught.value.step, caught.value.number) == (1, signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_run_says_with_what_it_was_made_and_going_on_with_other_versions_warns(interrupted: Path) -> None:
    run = RunDirectory(interrupted)
    (part,) = run.environments()
    assert part["from_step"] == 0 and part["threads"] == torch.get_num_threads() and part["torch"] == torch.__version__
    assert {"copycert", "python", "python-flint", "numpy", "scipy"} <= set(part)
    file = interrupted / "environment.json"
    file.write_text(json.dumps({"parts": [{**part, "torch": "1.0", "threads": 99}]}))
    with pytest.warns(UserWarning, match=r"up to step 2 with torch 1\.0, now .*, threads 99, now 1: its last digits"):
        train(tiny(6), run, devices=CPU)
    assert [each["from_step"] for each in run.environments()] == [0, 2]


def test_a_run_of_old_without_an_environment_goes_on(interrupted: Path) -> None:
    (interrupted / "environment.json").unlink()
    train(tiny(6), RunDirectory(interrupted), devices=CPU)
    assert RunDirectory(interrupted).finished


def test_a_checkpoint_in_another_precision_is_not_rounded(interrupted: Path) -> None:
    file = interrupted / "checkpoint.safetensors"
    tensors, metadata = load_weights(file)
    tensors["model.readout.weight"] = tensors["model.readout.weight"].double()
    save_digested(file, tensors, metadata)
    with pytest.raises(InputError, match=r"model\.readout\.weight is torch\.float64"):
        train(tiny(6), RunDirectory(interrupted), devices=CPU)


def test_no_lock_file_is_left(finished: Path, interrupted: Path) -> None:
    assert not (finished / ".lock").exists()
    train(tiny(6), RunDirectory(interrupted), devices=CPU)
    assert not (interrupted / ".lock").exists()


@pytest.mark.slow
def test_a_run_begun_before_there_were_all_fields_goes_on(tmp_path: Path) -> None:
    """Its configuration means the numbers that were in force then; another epsilon is another configuration."""
    run, config = RunDirectory(tmp_path / "run"), preset_run("provable-1layer", "rope2d", 0, steps=2, max_length=4)
    old = config.document()
    for name in ("norm_epsilon", "score_scale", "rotary_layout"):
        del old["model"][name]
    run.path.mkdir()
    (run.path / "config.json").write_text(json.dumps(old))
    train(config, run)
    loaded, model = load_run(run.path)
    assert loaded.model.norm_epsilon == 2.0**-23
    assert model.norm.eps == 2.0**-23
    other = replace(config, model=replace(config.model, norm_epsilon=1e-5))
    with pytest.raises(InputError, match="norm_epsilon"):
        train(other, run)
