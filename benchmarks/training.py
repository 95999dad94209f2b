"""Every encoding trained on a laptop's budget and tested far beyond: resumable, every seed in the results.

`python -m benchmarks.training [--parts grid star ...] [--seeds 8] [--processes 2]` trains in `out/training/` (each run
goes on where it was stopped) and writes results/training.jsonl, a line a run; runs that it holds are not asked again.

Parts of the half hour on two idle cores: `grid` (2D-RoPE, up to 10,000 symbols), `star` (Auto-2D-RoPE and 2D-RoPE with
`*` for the newline), `others` (RoPE, ALiBi, NoPE, RNoPE, two layers, OTHERS_STEPS steps), `uniform` (trained on uniform
strings). Beyond it: `long` (100,000 symbols, after `grid`), `converge` (the others with all of the preset's steps) and
`lists` (Python-list conversion).
"""

from __future__ import annotations

import argparse
import json
import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks._campaign import Results, option_parser
from benchmarks._provenance import ROOT
from copycert.command._compare import KEEPS, run_name, write_plots
from copycert.sampled import Job, Questions, comparison_document, run_job
from engine import (
    COPY_DISTRIBUTIONS,
    Devices,
    RunConfig,
    RunDirectory,
    accuracy_at,
    accuracy_within,
    load_run,
    preset_run,
    sweep,
    train,
    write_atomically,
)

RESULTS = Path(__file__).parent / "results" / "training.jsonl"
FOLDERS = ("theory", "engine", "copycert/sampled", "copycert/command/_compare.py", "benchmarks/training.py")
RUNS = ROOT / "out" / "training"

#: Lengths at which runs are judged; the trained ones are up to 100.
FAR = (250, 1000, 10_000)
STAR = (250, 1000, 3000)
OTHERS = (250, 500, 1000)
LONG = 100_000

#: Data points of lists and their periods in samples: as trained (50 to 150, 2 to 8), and beyond.
LISTS = (100, 200, 300, 500)
PERIODS = ((2, 8), (9, 32))

#: Steps of the encodings of one axis within the half hour, on the way to convergence at best.
OTHERS_STEPS = 600


@dataclass(frozen=True)
class LongJob:
    """One string of LONG symbols for a trained run."""

    directory: Path
    distribution: str
    seed: int


def grid(seeds: int) -> Iterator[tuple[RunConfig, Questions]]:
    """2D-RoPE, one layer."""
    ask = Questions(COPY_DISTRIBUTIONS, FAR, keeps=KEEPS)
    yield from ((preset_run("laptop", "rope2d", seed), ask) for seed in range(seeds))


def star(seeds: int) -> Iterator[tuple[RunConfig, Questions]]:
    """`*` for the newline: rows can only be learned."""
    ask = Questions(COPY_DISTRIBUTIONS, STAR)
    for encoding in ("auto2d", "rope2d"):
        yield from ((preset_run("laptop", encoding, seed, separator="*"), ask) for seed in range(seeds))


def others(seeds: int, steps: int | None = OTHERS_STEPS) -> Iterator[tuple[RunConfig, Questions]]:
    """The encodings of one axis, two layers."""
    ask = Questions(COPY_DISTRIBUTIONS, OTHERS, keeps=KEEPS)
    for encoding in ("rope", "alibi", "nope", "rnope"):
        yield from ((preset_run("laptop", encoding, seed, steps=steps), ask) for seed in range(seeds))


def converge(seeds: int) -> Iterator[tuple[RunConfig, Questions]]:
    """The same with all of the preset's steps."""
    yield from others(seeds, None)


def uniform(seeds: int) -> Iterator[tuple[RunConfig, Questions]]:
    """Trained on uniform strings (the paper's Figure 7)."""
    ask = Questions(COPY_DISTRIBUTIONS, (250,), keeps=KEEPS)
    for encoding, steps in (("rope2d", None), ("rope", OTHERS_STEPS)):
        for seed in range(seeds):
            yield preset_run("laptop", encoding, seed, distribution="uniform", steps=steps), ask


#: Parts by name; the first ones make up the half hour.
PARTS = {"grid": grid, "star": star, "others": others, "uniform": uniform, "converge": converge}
HALF_HOUR = ("grid", "star", "others", "uniform")

#: Encodings in the order of the plots.
ORDER = ("auto2d", "rope2d", "rope", "alibi", "nope", "rnope", None)


def timed_job(job: Job) -> dict[str, Any]:
    """The row of a job and the processor time that it took, kept beside the run; a try that was killed is not in it."""
    file = job.directory / "cpu.json"
    spent = json.loads(file.read_text()) if file.exists() else 0.0
    start = time.process_time()
    row = run_job(job)
    spent = round(spent + time.process_time() - start, 1)
    write_atomically(file, (json.dumps(spent) + "\n").encode())
    return {**row, "cpu_seconds": spent}


def long_job(job: LongJob) -> dict[str, Any]:
    """Whether one string of LONG symbols is copied; kept beside the run."""
    file = job.directory / f"long-{job.distribution}.json"
    if not file.exists():
        start = time.process_time()
        config, model = load_run(job.directory)
        found = accuracy_at(model, config.data.source(), job.distribution, LONG, 1, job.seed)
        document = {**found.document(), "seed": job.seed, "cpu_seconds": round(time.process_time() - start, 1)}
        document["memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        write_atomically(file, (json.dumps(document) + "\n").encode())
    kept: dict[str, Any] = json.loads(file.read_text())
    return kept


@dataclass(frozen=True)
class ListJob:
    """A run of the Python-list conversion."""

    config: RunConfig
    directory: Path
    samples: int


def list_job(job: ListJob) -> dict[str, Any]:
    """Lists copied exactly by a run, by length in points and range of periods; kept beside the run."""
    file = job.directory / "lists.json"
    if not file.exists():
        start = time.process_time()
        run, seed = RunDirectory(job.directory), job.config.training.seed
        train(job.config, run, devices=Devices("cpu"))
        config, model = load_run(job.directory)
        within = accuracy_within(model, config.data.source(), "mixed", 100, seed)
        results = [
            {"periods": list(periods), **accuracy_at(model, source, "mixed", length, job.samples, seed).document()}
            for periods in PERIODS
            for source in [config.data.with_periods(*periods).source()]
            for length in LISTS
        ]
        document = {"encoding": config.encoding, "seed": seed, "within": within.document(), "results": results}
        document["cpu_seconds"] = round(time.process_time() - start, 1)
        write_atomically(file, (json.dumps(document) + "\n").encode())
    kept: dict[str, Any] = json.loads(file.read_text())
    return kept


def run_part(name: str, options: argparse.Namespace, results: Results) -> None:
    """The runs of a part that are missing, a line each when it is done."""
    work, items = part_jobs(name, options)
    jobs = {job_key(job): job for job in items}
    left = [jobs[key] for key in results.missing(jobs, lambda row: row_key(row) if row["part"] == name else None)]
    done = len(jobs) - len(left)
    for _, row in sweep(work, left, processes=options.processes):
        results.add({"part": name, **row})
        done += 1
        Console(stderr=True).print(f"{name}: {done} of {len(jobs)} done")


def job_key(job: Job | LongJob | ListJob) -> tuple[Any, ...]:
    """What tells a job from the others of its part."""
    if isinstance(job, LongJob):
        return (job.distribution, job.seed)
    return (job.config.training.seed,) if isinstance(job, ListJob) else (job.directory.name,)


def row_key(row: dict[str, Any]) -> tuple[Any, ...]:
    """The same of the job's row."""
    return (row["run"],) if "run" in row else (row["distribution"], row["seed"]) if "length" in row else (row["seed"],)


def part_jobs(name: str, options: argparse.Namespace) -> tuple[Callable[[Any], dict[str, Any]], list[Any]]:
    """The function that does one job of a part, and the jobs."""
    seeds, runs = range(options.seeds), options.runs / name
    if name == "long":
        grids = [options.runs / "grid" / run_name(preset_run("laptop", "rope2d", seed)) for seed in seeds]
        names = ("recursive-flip", "imbalanced")
        return long_job, [LongJob(grids[seed], distribution, seed) for seed in seeds for distribution in names]
    if name == "lists":
        lists = [preset_run("laptop", "rope2d", seed, task="list") for seed in seeds]
        return list_job, [ListJob(config, runs / run_name(config), options.samples) for config in lists]
    asked = PARTS[name](options.seeds)
    return timed_job, [Job(c, runs / run_name(c), replace(ask, samples=options.samples)) for c, ask in asked]


def part_rows(rows: list[dict[str, Any]], *parts: str) -> list[dict[str, Any]]:
    """The rows of some parts, by encoding as the encodings were asked for, and by seed."""
    found = [row for row in rows if row["part"] in parts]
    return sorted(found, key=lambda row: (parts.index(row["part"]), ORDER.index(row.get("encoding")), row["seed"]))


def write_figures(rows: list[dict[str, Any]], out: Path) -> None:
    """The plots of the half hour's parts, as `copycert compare` draws them."""
    plain = [{key: value for key, value in row.items() if key != "part"} for row in part_rows(rows, *HALF_HOUR)]
    write_plots(comparison_document(plain, complete=True), out)


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing of the parts asked for; a part of other folders is made again from its runs."""
    parser = option_parser(__doc__, RESULTS)
    parser.add_argument("--parts", nargs="+", choices=[*PARTS, "long", "lists"], default=HALF_HOUR)
    parser.add_argument("--seeds", type=int, default=8, help="seeds; more of them go on with fewer")
    parser.add_argument("--samples", type=int, default=10, help="strings of each length")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--runs", type=Path, default=RUNS)
    parser.add_argument("--plots", type=Path, default=None, help="directory for plots of the results, when all is done")
    options = parser.parse_args(arguments)
    parameters = {"seed": 0, "method": "sampled", "samples": options.samples}
    results = Results(options.out, parameters, FOLDERS, parts=options.parts)
    for name in options.parts:
        run_part(name, options, results)
    if options.plots is not None:
        write_figures(results.rows, options.plots)


if __name__ == "__main__":
    main()
