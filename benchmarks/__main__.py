"""Speed of the separation certificate, the exact scan, the checker, the decisions and the main job, each beside a
slower route of the same run.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks._campaign import option_parser, write_fresh
from benchmarks.speed import sign_system_rows, two_layer_rows
from benchmarks.speed._rows import REPEATS, Row, median_seconds
from constructions import build_grid_copier, build_minimiser_model, closed_form, greedy_copy
from proofs_check.documents import weights_input, write_certificate
from proofs_check.verify import verify_file
from theory import (
    MinimiserSetting,
    certify_length,
    draw_grid_frequencies,
    exact_length,
    ideal_grid_score,
    sample_strings,
    theory_task,
)
from theory.grid import SeparationCertifier, furthest_length, resonance_columns_exact, separation_lattice_for
from theory.minimisers import PopulationLoss
from theory.numbers import working_precision
from theory.task import all_strings

RESULTS = Path(__file__).parent / "results" / "benchmarks.jsonl"
FOLDERS = (
    "theory", "engine", "constructions", "proofs_check", "copycert", "benchmarks/speed", "benchmarks/__main__.py",
)  # fmt: skip
RHO, D, A, B = Fraction(20000), 120, 2, 3
PAPER_LENGTH = 1024 * 10**40


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


def population_rows() -> list[Row]:
    """Exact population loss and gradient at d = 32, L = 10 (2046 strings), against a forward pass a string."""
    frequencies, a, length = draw_grid_frequencies(32, 0, 0), 1, 10
    head = closed_form(MinimiserSetting(frequencies, length, Fraction(3, 2), a))
    loss, model = PopulationLoss(frequencies, a, length), build_minimiser_model(head, frequencies, a)
    task = theory_task(a, a + 2)

    def forward_passes(k: int) -> None:
        with torch.inference_mode():
            for n in range(1, length + 1):
                for tokens in torch.from_numpy(task.sequences(all_strings(n))):
                    model(tokens[None], task.query_index(n, 1))

    fast = median_seconds(lambda k: loss.excess_and_gradient(head, 1.5), 4 * REPEATS)
    slow = median_seconds(forward_passes, 3)
    return [
        Row("population loss and gradient, d = 32, L = 10", 1e3 * fast, "ms", "< 100 ms on one core", 4 * REPEATS),
        Row("forward pass a string (loss only) against it", slow / fast, "times", "", 3),
    ]


def main_job_row() -> Row:
    """`copycert check --rho 20000` in a new process."""
    command = [sys.executable, "-m", "copycert", "check", "--rho", "20000", "--json"]
    seconds = median_seconds(lambda k: subprocess.run(command, check=True, capture_output=True), 3)
    return Row("copycert check --rho 20000", seconds, "s", "< 60 s", 3)


def main(arguments: list[str] | None = None) -> None:
    """Run everything, print the table, write the rows."""
    options = option_parser(__doc__, RESULTS).parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        rows = [
            *separation_rows(Path(directory)),
            *scan_rows(),
            *model_rows(),
            *sign_system_rows(),
            *population_rows(),
            *two_layer_rows(),
            main_job_row(),
        ]
    table = Table(box=None)
    for column in ("benchmark", "median", "unit", "target", "runs"):
        table.add_column(column)
    for row in rows:
        table.add_row(row.name, f"{row.value:.4g}", row.unit, row.target, str(row.runs))
    Console().print(table)
    head = {"seed": 0, "python": platform.python_version(), "torch": torch.__version__}
    write_fresh(options.out, head, FOLDERS, [asdict(row) for row in rows])


if __name__ == "__main__":
    main()
