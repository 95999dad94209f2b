"""Theorem 4.2 at 50 draws: every search against the certified bound and against the polished closed form.

Each row has two ratios of excesses over the floor, which locate what lies between the closed form and the bound: the
best point found over the certified excess (the bound loses no more), and the closed form over the best point found (the
closed form loses no less). Both also as certified numbers, from ball bounds on the excess of the stored points. The
bound's certificate is checked by the independent checker. Under free queries the bound over position-only models alone
(one key for 0 and 1) says where the minimiser certainly uses content: where some point found lies below it.

`python -m benchmarks.minimisers [--scale 0.1]` writes results/minimisers.jsonl, a line a draw, and goes on with it.
Finished starts are kept in out/minimisers and checked anew when they are used again; what the results file says of them
(all of them, failed ones too) holds for the folders in its head.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch

from benchmarks._campaign import Results, option_parser, progress, show
from benchmarks._provenance import ROOT
from constructions import Found, MinimiserProblem, Start, programme_heads, search_minimisers
from proofs_check.claims import loss_certificate
from proofs_check.verify import verify_file
from theory import MinimiserSetting, draw_grid_frequencies, loss_lower_bound
from theory.minimisers import LossBound

RESULTS = Path(__file__).parent / "results" / "minimisers.jsonl"
FOLDERS = ("theory", "engine", "constructions", "proofs_check", "benchmarks/minimisers.py")
KEPT = ROOT / "out" / "minimisers"
SEED, DRAWS, STARTS = 0, 50, 20

#: From here on the closed form is held to be the best, and its excess to be at most twice the certified one.
LARGE_BOUND = Fraction(3, 2)

#: How much worse than the best search, relative to the loss, the polished closed form may be.
WORSE = 1e-4


def setting_of(draw: int) -> MinimiserSetting:
    """Draw number `draw`: d = 16, 24, 32 in turn; M from 1 to 4 in steps of 3/16; L = 4, 5, 6; every fifth tied."""
    d, bound = (16, 24, 32)[draw % 3], 1 + Fraction(3 * (draw // 3), 16)
    frequencies = draw_grid_frequencies(d, SEED, draw)
    return MinimiserSetting(frequencies, 4 + draw // 3 % 3, bound, 1, "tied" if draw % 5 == 4 else "free")


def one_draw(draw: int, starts: int) -> dict[str, Any]:
    """What the searches, the closed form and the bound come to at one draw."""
    setting = setting_of(draw)
    problem = MinimiserProblem(setting, seed=draw)
    found = search_minimisers(problem, starts, KEPT / f"draw-{draw:03d}", programme_heads(setting))
    bound = loss_lower_bound(setting)
    closed = _best(found, lambda start: start.method in ("closed-form", "linear-programme"))
    content = _best(found, lambda start: start.method == "content-programme")
    searched = _best(found, lambda start: start.name.startswith("search"))
    best = _best(found, lambda start: True)
    if closed is None or searched is None or best is None:
        raise ArithmeticError("no figures")
    every = [one.start for one in found]
    position = loss_lower_bound(setting, position_only=True).certified_excess
    return {
        "draw": draw,
        "d": setting.d,
        "M": str(setting.bound),
        "L": setting.length,
        "queries": setting.queries,
        "floor": float(bound.floor),
        "certified_loss": bound.certified_loss,
        "certified_excess": bound.certified_excess,
        "closed_form_loss": closed.loss,
        "closed_form_excess": closed.excess,
        "content_programme_excess": None if content is None else content.excess,
        "best_search_loss": searched.loss,
        "best_search_excess": searched.excess,
        "best_search_method": searched.method,
        "best_excess": best.excess,
        "best_method": best.method,
        "closed_form_over_certified": _ratio(closed.excess, bound.certified_excess),
        "best_over_certified": _ratio(best.excess, bound.certified_excess),
        "closed_form_over_best": _ratio(closed.excess, best.excess),
        "bound_loses_at_most": _ratio(best.excess_upper, bound.certified_excess),
        "closed_form_loses_at_least": _ratio(closed.excess_lower, best.excess_upper),
        "position_only_certified_excess": position,
        "minimiser_certainly_uses_content": setting.queries == "free" and (best.excess_upper or 0.0) < position,
        "certificate_accepted": _accepted(bound, KEPT / f"draw-{draw:03d}"),
        "closed_form_worse_by": (closed.loss or 0.0) / (searched.loss or 1.0) - 1,
        "bound_holds": all((s.excess_upper or 0.0) >= bound.certified_excess for s in every if s.excess is not None),
        "starts": [s.document() for s in every],
    }


def _best(found: list[Found], wanted: Callable[[Start], bool]) -> Start | None:
    """The finished start of least excess among those wanted."""
    finished = [one.start for one in found if one.start.excess is not None and wanted(one.start)]
    return min(finished, key=lambda start: start.excess or 0.0, default=None)


def _accepted(bound: LossBound, directory: Path) -> bool:
    return verify_file(directory / loss_certificate(directory, "loss.json", bound)).accepted


def _ratio(excess: float | None, by: float | None) -> float | None:
    return excess / by if excess is not None and by else None


def _largest(rows: list[dict[str, Any]], field: str) -> float | None:
    return max((row[field] for row in rows if row[field] is not None), default=None)


def _at_most_two(rows: list[dict[str, Any]], field: str) -> int:
    return sum(row[field] is not None and row[field] <= 2 for row in rows)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The counts that sum the draws up."""
    large = [row for row in rows if Fraction(row["M"]) >= LARGE_BOUND]
    starts = [start for row in rows for start in row["starts"]]
    return {
        "draws": len(rows),
        "starts": len(starts),
        "failed_starts": sum(start["status"] == "failed" for start in starts),
        "bound_beaten": sum(not row["bound_holds"] for row in rows),
        "bound_no_better_than_floor": sum(not row["certified_excess"] > 0 for row in rows),
        "large_M_draws": len(large),
        "large_M_closed_form_over_certified_at_most_2": _at_most_two(large, "closed_form_over_certified"),
        "large_M_largest_closed_form_over_certified": _largest(large, "closed_form_over_certified"),
        "large_M_best_over_certified_at_most_2": _at_most_two(large, "best_over_certified"),
        "large_M_largest_best_over_certified": _largest(large, "best_over_certified"),
        "large_M_closed_form_over_best_at_most_2": _at_most_two(large, "closed_form_over_best"),
        "large_M_bound_loses_at_most": _largest(large, "bound_loses_at_most"),
        "draws_where_the_minimiser_certainly_uses_content": sum(
            row["minimiser_certainly_uses_content"] for row in rows
        ),
        "certificates_accepted": sum(row["certificate_accepted"] for row in rows),
        "closed_form_worse_than_1e-4": sum(row["closed_form_worse_by"] > WORSE for row in large),
        "largest_closed_form_worse_by": _largest(large, "closed_form_worse_by"),
        "draws_where_a_search_beats_the_closed_form": sum(
            row["best_search_excess"] < row["closed_form_excess"] for row in rows
        ),
        "draws_where_the_content_programme_is_best": sum(row["best_method"] == "content-programme" for row in rows),
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the draws that are missing."""
    parser = option_parser(__doc__, RESULTS, scale="fraction of the draws and of the starts")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    draws, starts = max(2, round(DRAWS * options.scale)), max(3, round(STARTS * options.scale))
    results = Results(options.out, {"seed": SEED, "scale": options.scale, "starts_each": starts}, FOLDERS)
    for draw in progress(results.missing(range(draws), lambda row: row["draw"]), "draws"):
        results.add(one_draw(draw, starts))
    show(summary(results.rows))


if __name__ == "__main__":
    main()
