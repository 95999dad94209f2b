"""Speed of the separation certificate, of the exact scan, of the checker and of the main job; each beside a slower
route of the same run.
"""

from __future__ import annotations

import json
import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks._provenance import provenance
from constructions import build_grid_copier, build_two_layer_copier, forced_answers, greedy_copy
from engine import write_atomically
from proofs_check._certificates import weights_input, write_certificate
from proofs_check.verify import verify_file
from theory import (
    AnchorScores,
    SeparationCertifier,
    certify_length,
    draw_grid_frequencies,
    exact_length,
    furthest_length,
    ideal_grid_score,
    prove_length,
    resonance_columns_exact,
    sample_strings,
    separation_lattice_for,
    working_precision,
)

RESULTS = Path(__file__).parent / "results" / "benchmarks.json"
REPEATS = 7
RHO, D, A, B = Fraction(20000), 120, 2, 3
PAPER_LENGTH = 1024 * 10**40


@dataclass(frozen=True)
class Row:
    """One line of the table; `value` in `unit`, the median of `runs` runs."""

    name: str
    value: float
    unit: str
    target: str
    runs: int


def median_seconds(task: Callable[[int], object], repeats: int = REPEATS) -> float:
    """Median time of `task(k)`, k = 0 .. repeats-1 (so that nothing is served from a cache)."""
    times = []
    for k in range(repeats):
        start = time.perf_counter()
        task(k)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def separation_rows(directory: Path) -> list[Row]:
    """One certificate at d = 120, L = rho^(d/12), with its own ball check; the furthest length; the independent
    checker.
    """
    scores = [build_grid_copier(RHO, D, A, B, draw_grid_frequencies(D, 0, k)).score() for k in range(REPEATS)]

    def certify(k: int) -> None:
        if certify_length(scores[k], PAPER_LENGTH) is None:
            raise ArithmeticError("not certified")

    rows = [
        Row("separation certificate, L = rho^(d/12)", median_seconds(certify), "s", "< 1 s on one core", REPEATS),
        Row("furthest certified length", median_seconds(lambda k: furthest_length(scores[k])), "s", "", REPEATS),
    ]
    copier = build_grid_copier(RHO, D, A, B, draw_grid_frequencies(D, 0, 0))
    length, lattice = furthest_length(copier.score())
    if lattice is None:
        raise ArithmeticError("not certified")
    inputs = weights_input("w.safetensors", copier.save(directory / "w.safetensors"))
    evidence = {"bits": lattice.bits, "weight": lattice.weight, "basis": [list(row) for row in lattice.basis]}
    write_certificate(directory / "c.json", "grid-separation", inputs, evidence, {"length": length})
    rows.append(
        Row("independent check of it", median_seconds(lambda k: verify_file(directory / "c.json")), "s", "", REPEATS)
    )
    coarse = separation_lattice_for(scores[0], PAPER_LENGTH)
    rows.append(
        Row(
            "ball check alone",
            median_seconds(lambda k: SeparationCertifier(scores[0], coarse).certifies(PAPER_LENGTH)),
            "s",
            "",
            REPEATS,
        )
    )
    return rows


def scan_rows() -> list[Row]:
    """n* by scan at two column frequencies, in columns a second, against one ball for each column."""
    columns = 100_000_000
    score = ideal_grid_score(draw_grid_frequencies(8, 0, 1), Fraction(10**11), A, B)
    fast = median_seconds(lambda k: exact_length(score, columns), 3)
    with working_precision(96):
        slow = median_seconds(lambda k: resonance_columns_exact(score, Fraction(30), 5000), 3) / 10_000
    rate = columns / fast
    return [
        Row("scan, 2 column frequencies", rate / 1e6, "million columns/s", ">= 10 a core", 3),
        Row("scan against a ball a column", rate * slow, "times", "", 3),
    ]


def model_rows() -> list[Row]:
    """The torch model in float64: every step of a string of 4000 symbols."""
    copier = build_grid_copier(RHO, D, A, B, draw_grid_frequencies(D, 0, 0))
    strings = sample_strings("uniform", 4000, 1, 0)
    return [Row("torch model, 4000 symbols", median_seconds(lambda k: greedy_copy(copier, strings), 3), "s", "", 3)]


def two_layer_rows() -> list[Row]:
    """Theorem 3.2: the all-strings proof at L0 for three budgets and for 32 pairs, and the torch model at L0(10001)."""
    rows = []
    for rho, variant, pairs in ((10_001, "paper", 1), (10**6, "paper", 1), (10**8, "paper", 1), (10**8, "sharp", 32)):
        copier = build_two_layer_copier(rho, variant=variant, pairs=pairs)
        scores = copier.scores()

        def prove(k: int, scores: AnchorScores = scores, length: int = copier.length) -> None:
            if prove_length(scores, length) is None:
                raise ArithmeticError("not proved")

        name = f"all strings, two layers, {variant} ({pairs} pairs), rho = {rho}"
        rows.append(Row(name, median_seconds(prove), "s", "< 5 s on one core", REPEATS))
    copier = build_two_layer_copier(10_001)
    string = sample_strings("recursive-flip", copier.length, 1, 0)
    seconds = median_seconds(lambda k: forced_answers(copier.model, copier.task, string), 1)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    rows.append(Row("two-layer torch model at L0(10001)", seconds, "s", "", 1))
    return [*rows, Row("its memory, with all that ran before", memory, "GiB", "< 1.86 GiB (2 GB)", 1)]


def main_job_row() -> Row:
    """`copycert check --rho 20000` in a new process."""
    command = [sys.executable, "-m", "proofs_check.command_line", "check", "--rho", "20000", "--json"]
    seconds = median_seconds(lambda k: subprocess.run(command, check=True, capture_output=True), 3)
    return Row("copycert check --rho 20000", seconds, "s", "< 60 s", 3)


def main() -> None:
    """Run everything, print the table, write the JSON."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        rows = [
            *separation_rows(Path(directory)),
            *scan_rows(),
            *model_rows(),
            *two_layer_rows(),
            main_job_row(),
        ]
    table = Table(box=None)
    for column in ("benchmark", "median", "unit", "target", "runs"):
        table.add_column(column)
    for row in rows:
        table.add_row(row.name, f"{row.value:.4g}", row.unit, row.target, str(row.runs))
    Console().print(table)
    document = {
        **provenance(seed=0),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "rows": [asdict(row) for row in rows],
    }
    write_atomically(RESULTS, (json.dumps(document, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
