"""What takes too long for the test suite: resumable, with a progress bar.

`python -m benchmarks.acceptance [--scale 0.01] [--parts NAME ...]` writes results/acceptance.jsonl, a line a part. A
part that the file already holds for the present folders is not run again. `--scale` shrinks every part, for continuous
integration.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import statistics
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._campaign import Results, option_parser, progress, show
from benchmarks.speed import several_heads, table_entries, two_layer_at_its_length
from constructions import build_grid_copier, greedy_copy, replay
from theory import draw_grid_frequencies, exact_length, ideal_grid_score, sample_strings
from theory.grid import furthest_length
from theory.numbers import TYPICAL_LENGTH
from theory.task import single_flip_strings

RESULTS = Path(__file__).parent / "results" / "acceptance.jsonl"
FOLDERS = ("theory", "engine", "constructions", "proofs_check", "benchmarks/speed", "benchmarks/acceptance.py")
SEED = 0

#: Score scales at which n* is some hundreds, by RoPE dimension.
SCALES = {4: 3000.0, 8: 30.0, 12: 10.0}


def model_against_theory(scale: float) -> dict[str, Any]:
    """For 200 draws of each d: is the witness of length n*+1 wrong, and are single-flip and sampled strings of
    length n* right?
    """
    counts = {
        str(d): {"draws": 0, "witness_wrong": 0, "replay_skipped": 0, "n_star_right": 0, "largest_n_star": 0}
        for d in SCALES
    }
    for d, score_scale in SCALES.items():
        rho = Fraction(round((score_scale * 12 * d) ** 0.25 * 1000), 1000)
        for draw in progress(range(shrunk(200, scale)), f"model against theory, d = {d}"):
            copier = build_grid_copier(rho, d, 2, 3, draw_grid_frequencies(d, SEED + 77, draw))
            found = exact_length(copier.score())
            if found.fails is None or found.length is None:
                raise ArithmeticError(f"d = {d}, draw {draw}: n* is not exact below the limit")
            string = np.zeros(found.fails.length, dtype=np.int64)
            string[found.fails.flip_position - 1] = 1
            outcome = replay(copier, string, found.fails.step)
            row = counts[str(d)]
            row["draws"] += 1
            row["witness_wrong"] += outcome.wrong is True
            row["replay_skipped"] += not outcome.ran
            row["n_star_right"] += found.length == 0 or copied(copier, found.length)
            row["largest_n_star"] = max(row["largest_n_star"], found.length)
    return counts


def copied(copier: Any, length: int) -> bool:
    """Single-flip strings (all up to length 200, 200 of them beyond) and 20 samples of each of two distributions."""
    flips = np.unique(np.linspace(0, length - 1, min(length, 200)).astype(int))
    samples = [sample_strings(kind, length, 20, SEED) for kind in ("uniform", "recursive-flip")]
    strings = np.concatenate([single_flip_strings(length)[flips], *samples])
    return all(
        np.array_equal(greedy_copy(copier, part), part) for part in np.array_split(strings, max(1, len(strings) // 20))
    )


def typical_length(scale: float) -> dict[str, Any]:
    """Medians of n* over (2 pi S)^(d/8), 400 draws for each d and scale (sampled)."""
    ratios = {}
    for d, scales in {4: (10**3, 10**6, 10**8), 8: (10**2, 10**3, 10**4), 12: (10, 30, 200)}.items():
        for s in scales:
            typical = float(TYPICAL_LENGTH.ball(S=s, d=d))
            draws = progress(range(shrunk(400, scale)), f"typical length, d = {d}, S = {s}")
            lengths = [
                exact_length(ideal_grid_score(draw_grid_frequencies(d, SEED, k), Fraction(s), 2, 3), 10**7).lower
                for k in draws
            ]
            ratios[f"d={d} S={s}"] = {
                "draws": len(lengths),
                "median_over_typical": statistics.median(lengths) / typical,
            }
    return ratios


def furthest(scale: float) -> dict[str, Any]:
    """Largest certified length of 200 draws at rho = 20000, d = 120, three tokens."""
    exponents = []
    for draw in progress(range(shrunk(200, scale)), "furthest certified length"):
        copier = build_grid_copier(20000, 120, 2, 3, draw_grid_frequencies(120, SEED, draw))
        length, _ = furthest_length(copier.score())
        exponents.append(len(str(length)) - 1)
    return {
        "draws": len(exponents),
        "least": f"10^{min(exponents)}",
        "median": f"10^{int(statistics.median(exponents))}",
        "largest": f"10^{max(exponents)}",
    }


PARTS: dict[str, Callable[[float], dict[str, Any]]] = {
    "model_against_theory": model_against_theory,
    "typical_length": typical_length,
    "furthest_length": furthest,
    "table_entries": table_entries,
    "several_heads": several_heads,
    "two_layer_at_its_length": two_layer_at_its_length,
}


def shrunk(count: int, scale: float) -> int:
    """`count` times `scale`, at least 2."""
    return max(2, round(count * scale))


def main(arguments: list[str] | None = None) -> None:
    """Run the parts that are missing."""
    parser = option_parser(__doc__, RESULTS, scale="fraction of every part")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args(arguments)
    results = Results(options.out, {"seed": SEED, "scale": options.scale}, FOLDERS, parts=options.parts)
    for name in results.missing(options.parts, lambda row: row["part"]):
        results.add({"part": name, "result": PARTS[name](options.scale)})
    show({row["part"]: row["result"] for row in results.rows if row["part"] in options.parts})


if __name__ == "__main__":
    main()
