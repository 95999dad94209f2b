"""Encodings compared: one trained run for each encoding, seed and training distribution, and what it copies.

Every seed is kept and published, those that did not converge too. A mean over seeds counts every seed; its interval is
Wilson's over all strings, as if they were independent, which strings tried on one seed are not quite.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from copycert.sampled._verdicts import Verdict, verdict_on
from engine import (
    Accuracy,
    CopySource,
    Devices,
    RunConfig,
    RunDirectory,
    accuracy_at,
    accuracy_under_repetition,
    accuracy_within,
    load_run,
    sweep,
    train,
    write_atomically,
)

#: File beside a run's weights that keeps what it was asked and what it answered.
EVALUATION = "evaluation.json"


@dataclass(frozen=True)
class Questions:
    """What every run is asked.

    Attributes:
        distributions: of the test strings.
        lengths: of the test strings.
        samples: strings of each length.
        within_samples: strings at the trained lengths.
        keeps: probabilities p with which a repeat-structure string keeps a symbol of its base string.
        repetition_length: of those strings.
    """

    distributions: tuple[str, ...]
    lengths: tuple[int, ...]
    samples: int = 10
    within_samples: int = 100
    keeps: tuple[float, ...] = ()
    repetition_length: int = 100


@dataclass(frozen=True)
class Job:
    """One run: its configuration, its directory, what to ask it."""

    config: RunConfig
    directory: Path
    questions: Questions


def run_job(job: Job) -> dict[str, Any]:
    """Train the run unless it is there, ask it unless it was asked the same; its row as a JSON object."""
    run = RunDirectory(job.directory)
    train(job.config, run, devices=Devices("cpu"), warn=_warn)
    asked = json.loads(json.dumps(asdict(job.questions)))
    file = job.directory / EVALUATION
    known = json.loads(file.read_text()) if file.exists() else {}
    if known.get("asked") != asked:
        known = {"asked": asked, "answers": _answers(job)}
        write_atomically(file, (json.dumps(known, indent=1) + "\n").encode())
    config = job.config
    return {
        "encoding": config.encoding,
        "seed": config.training.seed,
        "layers": config.model.layers,
        "train_distribution": config.data.distribution,
        "separator": config.data.separator,
        "steps": config.training.steps,
        "train_seconds": run.seconds(),
        "run": job.directory.name,
        **known["answers"],
    }


def _warn(message: str) -> None:
    print(f"copycert: {message}", file=sys.stderr)


def _answers(job: Job) -> dict[str, Any]:
    config, model = load_run(job.directory)
    source, seed, ask = config.data.source(), config.training.seed, job.questions
    trained = accuracy_within(model, source, config.data.distribution, ask.within_samples, seed)
    tests = []
    for distribution in ask.distributions:
        within = accuracy_within(model, source, distribution, ask.within_samples, seed)
        beyond = [accuracy_at(model, source, distribution, n, ask.samples, seed) for n in ask.lengths]
        tests.append(_test_document(verdict_on(trained, within, beyond), beyond))
    repetition = []
    if isinstance(source, CopySource):
        for keep in ask.keeps:
            found = accuracy_under_repetition(model, source, keep, ask.repetition_length, ask.samples, seed)
            repetition.append({"p": keep, **_counts(found)})
    return {"trained": _counts(trained), "tests": tests, "repetition": repetition}


def _test_document(verdict: Verdict, beyond: Sequence[Accuracy]) -> dict[str, Any]:
    return {
        "distribution": verdict.within.distribution,
        "within": _counts(verdict.within),
        "beyond": [_counts(accuracy) for accuracy in beyond],
        "verdict": verdict.name,
        "sentence": verdict.sentence,
    }


def _counts(accuracy: Accuracy) -> dict[str, Any]:
    return {"length": accuracy.length, "exact": accuracy.exact, "samples": accuracy.samples}


def compare(
    jobs: Sequence[Job],
    out: Path,
    *,
    processes: int,
    dask: str | None,
    tick: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Run all jobs, here or on a Dask cluster; `comparison.json` in `out` holds the rows that are done so far."""
    rows: list[dict[str, Any] | None] = [None] * len(jobs)
    for done, (number, row) in enumerate(sweep(run_job, jobs, processes=processes, dask=dask), start=1):
        rows[number] = row
        document = comparison_document([row for row in rows if row is not None], complete=done == len(jobs))
        write_comparison(document, out)
        tick(done)
    return document


def write_comparison(document: dict[str, Any], out: Path) -> None:
    """Write `comparison.json`."""
    write_atomically(out / "comparison.json", (json.dumps(document, indent=1) + "\n").encode())


def comparison_document(rows: list[dict[str, Any]], *, complete: bool) -> dict[str, Any]:
    """Every run, and for each encoding, training and test distribution the sums over all seeds."""
    return {"complete": complete, "method": "sampled", "runs": rows, "summary": summary(rows)}


def summary(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each encoding, separator, training and test distribution: accuracies over all seeds, and their verdicts."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        for test in row["tests"]:
            key = (row["encoding"], row["separator"], row["train_distribution"], test["distribution"])
            groups.setdefault(key, []).append(test)
    names = ("encoding", "separator", "train_distribution", "distribution")
    return [dict(zip(names, key, strict=True)) | _summed(tests) for key, tests in groups.items()]


def _summed(tests: list[dict[str, Any]]) -> dict[str, Any]:
    lengths = zip(*(test["beyond"] for test in tests), strict=True)
    verdicts = [test["verdict"] for test in tests]
    return {
        "seeds": len(tests),
        "within": pooled([test["within"] for test in tests]),
        "beyond": [pooled(list(counts)) for counts in lengths],
        "verdicts": {name: verdicts.count(name) for name in dict.fromkeys(verdicts)},
    }


def pooled(counts: list[dict[str, Any]]) -> dict[str, Any]:
    """The sum of counts at one length, with accuracy and Wilson's interval."""
    exact, samples = (sum(count[key] for count in counts) for key in ("exact", "samples"))
    return {
        "length": counts[0]["length"],
        "exact": exact,
        "samples": samples,
        "accuracy": exact / samples,
        "interval": list(Accuracy("pooled", counts[0]["length"], exact, samples).interval()),
    }


def repetition_summary(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each encoding and training distribution: accuracy against p over all seeds."""
    groups: dict[tuple[str, str, float], list[dict[str, Any]]] = {}
    for row in rows:
        for count in row["repetition"]:
            groups.setdefault((row["encoding"], row["train_distribution"], count["p"]), []).append(count)
    return [
        {"encoding": encoding, "train_distribution": trained, "p": p, **pooled(counts)}
        for (encoding, trained, p), counts in groups.items()
    ]
