"""Theorem 3.2: speed of the all-strings proofs, and the torch model at the theorem's own length."""

from __future__ import annotations

import resource
from typing import Any

import numpy as np

from benchmarks._campaign import progress
from benchmarks.speed._rows import REPEATS, Row, median_seconds
from constructions import build_two_layer_copier, forced_answers
from theory import sample_strings
from theory.two_layer import AnchorScores, prove_length

SEED = 0

#: Norm budget, variant and turning pairs of the proofs that are timed.
PROOFS = ((10_001, "paper", 1), (10**6, "paper", 1), (10**8, "paper", 1), (10**8, "sharp", 32))


def two_layer_rows() -> list[Row]:
    """The all-strings proof at the design length, and the torch model at L0(10001) with its memory."""
    rows = []
    for rho, variant, pairs in PROOFS:
        copier = build_two_layer_copier(rho, variant=variant, pairs=pairs)
        design = copier.scores()

        def prove(k: int, scores: AnchorScores = design, length: int = copier.length) -> None:
            if prove_length(scores, length) is None:
                raise ArithmeticError("not proved")

        name = f"all strings, two layers, {variant} ({pairs} pairs), rho = {rho}"
        rows.append(Row(name, median_seconds(prove), "s", "< 5 s on one core", REPEATS))
    copier = build_two_layer_copier(10_001)
    string = sample_strings("recursive-flip", copier.length, 1, SEED)
    seconds = median_seconds(lambda k: forced_answers(copier.model, copier.task, string), 1)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    rows.append(Row("two-layer torch model at L0(10001)", seconds, "s", "", 1))
    return [*rows, Row("its memory, with all that ran before", memory, "GiB", "< 1.86 GiB (2 GB)", 1)]


def two_layer_at_its_length(scale: float) -> dict[str, Any]:
    """The copier at rho = 10001 in float64: strings of length L0 (times `scale`), one of each kind."""
    copier = build_two_layer_copier(10_001)
    length = max(2, int(copier.length * min(scale, 1.0)))
    strings = {kind: sample_strings(kind, length, 1, SEED) for kind in ("uniform", "recursive-flip", "single-flip")}
    strings["constant"] = np.zeros((1, length), dtype=np.int64)
    wrong = {
        kind: int((forced_answers(copier.model, copier.task, string) != string).sum())
        for kind, string in progress(list(strings.items()), "two layers at L0")
    }
    return {"length": length, "wrong_steps": wrong}
