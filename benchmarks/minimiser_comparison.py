"""Theorem 4.2's other constraints, over many draws: l2 against linf, and coupled against decoupled parameters.

`python -m benchmarks.minimiser_comparison [--scale 0.1]` writes results/minimiser_comparison.jsonl, a line a draw,
reading and variant, and goes on with it (finished starts are kept in out/minimiser_comparison). d = 16, L = 4, M = 3/2,
both readings. For each draw the best point found under each of

- *linf*: decoupled, every entry in [-M, M];
- *l2-around*: decoupled, the ball of radius M sqrt(P), the smallest around that box;
- *l2-same*: decoupled, the ball whose radius is the norm of the best point found under linf;
- *coupled-same*: one embedding feeds queries, keys and values, every entry in [-M, M];
- *coupled-inside*: the same with entries in [-M', M'], M' the largest multiple of 1/1024 with d M'^2 <= M, so that the
  queries, keys and values lie in [-M, M] (tied: and the query in [-M', M']).

Reported: its loss, the certified lower bound of the loss under that constraint, its excess over the floor ln(1 + e^-z),
z the largest logit that the constraint allows on average, and the exact length up to which it copies every string
(looked at up to LIMIT). A search shows nothing but the point that it found: losses are *sampled*, and lengths exact for
those points (ball).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import isqrt
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks._campaign import Results, option_parser, progress, show
from benchmarks._provenance import ROOT
from constructions import Found, MinimiserProblem, ProgrammeMethod, best_of, programme_heads, search_minimisers
from theory import MinimiserSetting, draw_grid_frequencies, head_length
from theory.minimisers import HeadWeights, Queries
from theory.numbers import ball, working_precision

RESULTS = Path(__file__).parent / "results" / "minimiser_comparison.jsonl"
FOLDERS = ("theory", "engine", "constructions", "benchmarks/minimiser_comparison.py")
KEPT = ROOT / "out" / "minimiser_comparison"
SEED, DRAWS = 0, 20
DIMENSION, LENGTH, BOUND = 16, 4, Fraction(3, 2)

#: Random starts: decoupled (the programmes' starts come on top), and coupled.
DECOUPLED_STARTS, COUPLED_STARTS = 3, 6

#: No length above this is looked at.
LIMIT = 10_000

#: Of these the summary gives median and range.
FIELDS = ("bound", "loss", "lower_bound", "excess", "length")

READINGS: tuple[Queries, ...] = ("free", "tied")
VARIANTS = ("linf", "l2-around", "l2-same", "coupled-same", "coupled-inside")


def one_reading(draw: int, queries: Queries) -> list[dict[str, Any]]:
    """The best point of every variant."""
    setting = MinimiserSetting(draw_grid_frequencies(DIMENSION, SEED, draw), LENGTH, BOUND, 1, queries)
    box = MinimiserProblem(setting, seed=draw)
    heads = programme_heads(setting)
    best = best_of(_search(box, "linf", heads))
    inner = Fraction(isqrt(int(BOUND * 1024**2 / DIMENSION)), 1024)
    problems = {
        "linf": box,
        "l2-around": replace(box, norm="l2"),
        "l2-same": replace(box, norm="l2", l2_square=_square_norm(best)),
        "coupled-same": replace(box, parametrisation="coupled"),
        "coupled-inside": replace(box, parametrisation="coupled", setting=replace(setting, bound=inner)),
    }
    return [_row(draw, name, problem, _search(problem, name, heads)) for name, problem in problems.items()]


def _search(problem: MinimiserProblem, name: str, heads: Mapping[ProgrammeMethod, HeadWeights]) -> list[Found]:
    decoupled = problem.parametrisation == "decoupled"
    setting = problem.setting
    out = KEPT / f"{setting.queries}-{problem.seed:03d}-{name}"
    return search_minimisers(
        problem, DECOUPLED_STARTS if decoupled else COUPLED_STARTS, out, heads if decoupled else {}
    )


def _square_norm(found: Found) -> Fraction:
    """A multiple of 2^-20 just above the square norm of a point."""
    if found.theta is None:
        raise ArithmeticError("no point")
    return Fraction(int(sum(Fraction(x) ** 2 for x in found.theta.tolist()) * 2**20) + 1, 2**20)


def _row(draw: int, name: str, problem: MinimiserProblem, found: list[Found]) -> dict[str, Any]:
    best, setting = best_of(found), problem.setting
    if best.theta is None or best.start.loss is None or best.start.excess is None:
        raise ArithmeticError("no figures")
    reached = head_length(setting.frequencies, setting.a, problem.parameters.head(best.theta), LIMIT)
    with working_precision(128):
        # Of a start it is over the floor at the largest single value, which lies below the one at the largest logit.
        least, lowest = ((-ball(z)).exp().log1p() for z in (problem.least_logit, problem.ceiling))
        excess = float(ball(Fraction(best.start.excess)) - (least - lowest))
    return {
        "draw": draw,
        "queries": setting.queries,
        "variant": name,
        "bound": float(setting.bound) if problem.norm == "linf" else float(problem.square_radius) ** 0.5,
        "parameters": problem.parameters.size,
        "loss": best.start.loss,
        "lower_bound": problem.lower_bound,
        "excess": excess,
        "length": reached.lower,
        "length_is_exact": reached.length is not None,
        "method": best.start.method,
        "starts": [one.start.document() for one in found],
    }


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Median and range of every variant in both readings."""
    lines = []
    for queries in READINGS:
        lengths = {row["draw"]: row["length"] for row in rows if (row["queries"], row["variant"]) == (queries, "linf")}
        for variant in VARIANTS:
            part = [row for row in rows if (row["queries"], row["variant"]) == (queries, variant)]
            lines.append(
                {"queries": queries, "variant": variant, "draws": len(part)}
                | {field: _spread([row[field] for row in part]) for field in FIELDS}
                | {
                    "lower_bound_beaten": sum(row["loss"] < row["lower_bound"] for row in part),
                    "copies_further_than_linf": sum(row["length"] > lengths[row["draw"]] for row in part),
                    "copies_less_far_than_linf": sum(row["length"] < lengths[row["draw"]] for row in part),
                    "draws_below_paper_length": sum(row["length"] < LENGTH ** (DIMENSION**0.5 / 2) for row in part),
                }
            )
    return lines


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": median(values), "least": min(values), "largest": max(values)}


def main(arguments: list[str] | None = None) -> None:
    """Run the draws that are missing."""
    options = option_parser(__doc__, RESULTS, scale="fraction of the draws").parse_args(arguments)
    torch.set_num_threads(1)
    draws = max(1, round(DRAWS * options.scale))
    parameters = {
        "seed": SEED, "scale": options.scale, "d": DIMENSION, "L": LENGTH, "M": str(BOUND), "limit": LIMIT,
        "paper_length": LENGTH ** (DIMENSION**0.5 / 2),
    }  # fmt: skip
    results = Results(options.out, parameters, FOLDERS)
    plan = [(draw, queries) for draw in range(draws) for queries in READINGS]
    left = results.missing(plan, lambda row: (row["draw"], row["queries"]), each=len(VARIANTS))
    for draw, queries in progress(left, "draws and readings"):
        results.add(*one_reading(draw, queries))
    show(summary(results.rows))


if __name__ == "__main__":
    main()
