"""Eight trained `provable-1layer` models, each proved for every string of every length <= 100,000 or refuted; and what
it costs.

`python -m benchmarks.certify_seeds [--runs DIR]` trains what DIR lacks (15 s of processor time a seed) and writes
results/certify_seeds.jsonl, a line a part, and goes on with it: the verdict and exact limit of each seed (looked for up
to 1,000,000), the checker's verdict, processor time against N, and how far two other routes get: lengths one by one
(O(N^2)), and interval bounds of the attention (each key's weight between its least and its largest share, source and
copy apart).
"""

from __future__ import annotations

import json
import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._campaign import Results, option_parser
from engine import RunDirectory, preset_run, train
from proofs_check.certify import Subject, described, load, one_layer_model, replay_error, replay_step, save_subject
from proofs_check.documents import weights_input, write_certificate
from theory import OneLayerModel, certify_strings
from theory.one_layer import View, first_step, float_votes, kernels_for, later_steps, needed_spans

RESULTS = Path(__file__).parent / "results" / "certify_seeds.jsonl"
FOLDERS = ("theory", "engine", "proofs_check", "benchmarks/certify_seeds.py")
SEEDS, LENGTH, CAP = 8, 100_000, 1_000_000

#: Lengths of the timed decisions, of those one by one, of the checker, and where the search by intervals ends.
GROWTH = (1000, 10_000, 100_000, 1_000_000)
ONE_BY_ONE = (100, 200, 400, 800)
CHECKED = (10_000, 100_000)
LONGEST = 512


def subject(runs: Path, seed: int) -> Subject:
    """The trained model of a seed."""
    path = runs / f"rope2d-{seed}"
    if not (path / "model.safetensors").exists():
        train(preset_run("provable-1layer", "rope2d", seed), RunDirectory(path))
    return load(path)


def seed_row(runs: Path, seed: int) -> dict[str, Any]:
    """Verdict at 100,000, exact limit up to the cap, replay."""
    chosen = subject(runs, seed)
    model = one_layer_model(chosen.model, chosen.template)
    start = time.process_time()
    found = certify_strings(model, LENGTH)
    seconds, start = time.process_time() - start, time.process_time()
    furthest = certify_strings(model, CAP) if found.fails_at is None else found
    row: dict[str, Any] = {
        "status": found.status,
        "max_length": LENGTH,
        "margin": found.margin,
        "margin_below": found.margin_below,
        "limit": furthest.limit,
        "proved_to": furthest.proved_to,
        "fails_at": furthest.fails_at,
        "margin_to_cap": furthest.margin,
        "cpu_seconds": round(seconds, 2),
        "cpu_seconds_find_limit": round(time.process_time() - start, 2),
    }
    if furthest.fails_at is not None:
        worst = furthest.worst
        error = replay_error(model, 2 * worst.length)
        replay = replay_step(chosen.model, chosen.template, worst.string, worst.step, worst.difference, error)
        row["counterexample"] = {"length": worst.length, "step": worst.step, "string": described(worst.string)}
        row["replay"] = {"ran": replay.ran, "wrong": replay.wrong, "reason": replay.reason}
    return row


def checker_row(runs: Path, length: int) -> dict[str, Any]:
    """The independent checker's time for the first seed."""
    chosen = subject(runs, 0)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "w.safetensors"
        inputs = weights_input(file.name, save_subject(file, chosen.model, chosen.template))
        claim = {"criterion": "argmax", "copies_up_to": length, "fails_at": None}
        start = time.process_time()
        path = Path(directory) / "c.json"
        verdict = write_certificate(path, "one-layer-copies", inputs, {"thresholds": []}, claim)
        return {"accepted": verdict.accepted, "cpu_seconds": round(time.process_time() - start, 2)}


def growth(runs: Path) -> dict[str, float]:
    """Processor time of the verdict against the largest length, the first seed."""
    chosen = subject(runs, 0)
    times = {}
    for length in GROWTH:
        start = time.process_time()
        certify_strings(one_layer_model(chosen.model, chosen.template), length)
        times[str(length)] = round(time.process_time() - start, 3)
    return times


def one_by_one(runs: Path) -> dict[str, float]:
    """Processor time of the same decision length by length, O(N^2), the first seed: arg-max, signs only."""
    chosen = subject(runs, 0)
    model = one_layer_model(chosen.model, chosen.template)
    times = {}
    for longest in ONE_BY_ONE:
        start = time.process_time()
        least = min(_least_of_length(model, length) for length in range(1, longest + 1))
        if not least > 0:
            raise ArithmeticError("the slow route disagrees")
        times[str(longest)] = round(time.process_time() - start, 3)
    return times


def _views(model: OneLayerModel, length: int) -> list[View]:
    template = model.template
    geometries = [first_step(template)] + [later_steps(template, query) for query in template.data if length > 1]
    return [
        View(
            model, geometry, length, length,
            kernels_for(model, 0, geometry.query, needed_spans(geometry, template.data, length)),
        )
        for geometry in geometries
    ]  # fmt: skip


def _least_of_length(model: OneLayerModel, length: int) -> float:
    least = np.inf
    for view in _views(model, length):
        for case in model.cases():
            if (case.query, case.first) == (view.geometry.query, view.geometry.first):
                votes = float_votes(model.single_votes(case))
                least = min(least, view.least_sums(case.symbol, votes).least(length)[0])
    return float(least)


def intervals(runs: Path, seed: int) -> dict[str, Any]:
    """The largest length that interval bounds of the attention prove, by doubling and bisection over single lengths."""
    chosen = subject(runs, seed)
    model = one_layer_model(chosen.model, chosen.template)
    low, high = 0, 1
    while high <= LONGEST and _interval_bound(model, high) > 0:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _interval_bound(model, middle) > 0 else (low, middle)
    return {"proves_length": low, "searched_to": LONGEST}


def _interval_bound(model: OneLayerModel, length: int) -> float:
    """A lower bound of the logit difference at one length: softmax shares and votes as independent intervals."""
    least = np.inf
    for view in _views(model, length):
        family, geometry = view.family, view.geometry
        for case in model.cases():
            if (case.query, case.first) != (geometry.query, geometry.first):
                continue
            votes = {token: vote.value for token, vote in float_votes(model.single_votes(case)).items()}
            data = [votes[token] for token in family.data]
            for step in [1] if geometry.first else range(2, length + 1):
                before, after = max(0, step - 2), length - step
                earlier, later = (np.stack([one.value for one in side]) for side in (family.before, family.after))
                free = np.concatenate([earlier[:, :before], later[:, :after]], axis=1)
                fixed = [(family.target[case.symbol].value[0], data[case.symbol])]
                fixed += [(along.value[step - geometry.least_step], votes[t]) for t, along in family.steps.items()]
                fixed += [(along.value[length - step], votes[t]) for t, along in family.rests.items()]
                if family.previous is not None:
                    fixed.append((family.previous.value[0], votes[geometry.query]))
                lows = np.concatenate([free.min(0), [w for w, _ in fixed]])
                highs = np.concatenate([free.max(0), [w for w, _ in fixed]])
                worst = np.concatenate([np.full(free.shape[1], min(data)), [v for _, v in fixed]])
                lowest = lows / (lows + highs.sum() - highs)
                highest = highs / (highs + lows.sum() - lows)
                least = min(least, float(np.where(worst > 0, lowest * worst, highest * worst).sum()))
    return float(least)


def main(arguments: list[str] | None = None) -> None:
    """Run the parts that are missing."""
    parser = option_parser(__doc__, RESULTS)
    parser.add_argument("--runs", type=Path, default=Path(__file__).parent / "runs")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    parts: dict[str, Callable[[], Any]] = {
        f"seed {seed}": lambda seed=seed: seed_row(options.runs, seed) for seed in range(SEEDS)
    }
    parts |= {
        "cpu_seconds_by_length": lambda: growth(options.runs),
        "cpu_seconds_by_length_one_by_one": lambda: one_by_one(options.runs),
        **{f"checker_{length}": lambda length=length: checker_row(options.runs, length) for length in CHECKED},
        **{f"intervals seed {seed}": lambda seed=seed: intervals(options.runs, seed) for seed in range(SEEDS)},
    }
    results = Results(options.out, {"seed": 0}, FOLDERS)
    for name in results.missing(parts, lambda row: row["part"]):
        results.add({"part": name, "result": parts[name]()})
        print(name, json.dumps(results.rows[-1]["result"]), flush=True)


if __name__ == "__main__":
    main()
