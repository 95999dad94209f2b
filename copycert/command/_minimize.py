"""`copycert minimize`: minimisers of Theorem 4.2's population loss, searched for, sandwiched, and how far they copy."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from constructions import (
    Found,
    MinimiserProblem,
    Norm,
    Parametrisation,
    ProgrammeMethod,
    best_of,
    build_coupled_model,
    build_minimiser_model,
    count_starts,
    forced_answers,
    programme_heads,
    search_minimisers,
)
from copycert.command._options import COUNT, json_option, keeping, print_json, progress, said_of_itself
from engine import save_weights, write_atomically
from proofs_check._results import claimed_directory
from theory import (
    GridFrequencies,
    HeadLength,
    InputError,
    MinimiserSetting,
    draw_grid_frequencies,
    head_length,
    read_grid_frequencies,
)
from theory.minimisers import LARGEST_HEAD_LENGTH, Queries
from theory.numbers import grid_frequencies_document, parse_rational, require_at_least

#: Longest witness that is written out and run in torch.
LONGEST_WITNESS = 2000

#: Lengths beyond this are looked at only if asked for.
USUAL_LIMIT = 10_000


@dataclass(frozen=True)
class Minimisation:
    """What was found for one problem.

    Attributes:
        problem: what was minimised.
        found: every start.
        reached: how far the best point copies.
    """

    problem: MinimiserProblem
    found: list[Found]
    reached: HeadLength

    @property
    def best(self) -> Found:
        """The start with the least loss."""
        return best_of(self.found)

    @property
    def certified_excess(self) -> float:
        """A float certainly at most the bound's excess over the floor that the starts' excess is measured from."""
        return self.problem.box_bound.excess_over(self.problem.ceiling)

    @property
    def closed(self) -> Found | None:
        """The better of the polished closed form and the polished solution of the linear programme."""
        closed = [one for one in self.found if one.start.method in ("closed-form", "linear-programme")]
        return best_of(closed) if any(one.start.excess is not None for one in closed) else None

    @property
    def beaten(self) -> bool:
        """Does some start lie certainly below the certified bound? That would refute the bound."""
        least = self.certified_excess
        return any(one.start.excess_upper is not None and one.start.excess_upper < least for one in self.found)

    def ratio(self, found: Found) -> float | None:
        """The start's excess over the floor, in units of the certified excess."""
        if found.start.excess is None or not self.certified_excess > 0:
            return None
        return found.start.excess / self.certified_excess

    def document(self) -> dict[str, Any]:
        """The JSON object of the command."""
        best, closed = self.best.start, self.closed
        return {
            "best_loss": best.loss,
            "lower_bound": self.problem.lower_bound,
            "trivial_floor": self.problem.trivial_floor,
            "closed_form_loss": None if closed is None else closed.start.loss,
            "saturated_fraction": best.saturated_fraction,
            "length_generalised": self.reached.lower,
            "paper_length": self.problem.setting.paper_length,
            "fails_at": _failure_document(self.reached),
            "starts": [{**one.start.document(), "ratio_of_excesses": self.ratio(one)} for one in self.found],
        }


def minimise(
    problem: MinimiserProblem, starts: int, out: Path, limit: int, tick: Callable[[], None] = lambda: None
) -> Minimisation:
    """Search, bound, and measure how far the best point copies; starts are saved below `out` as they finish."""
    require_at_least("starts", starts, 1)
    require_at_least("limit", limit, 1)
    setting, decoupled = problem.setting, problem.parametrisation == "decoupled"
    heads = programme_heads(setting) if decoupled else {}
    found = search_minimisers(problem, starts, out, heads, tick)
    theta = best_of(found).theta
    if theta is None:
        raise ArithmeticError("the best start has no point")
    head = problem.parameters.head(theta)
    return Minimisation(problem, found, head_length(setting.frequencies, setting.a, head, limit))


def _failure_document(reached: HeadLength) -> dict[str, Any] | None:
    if reached.fails is None:
        return None
    string = "".join(map(str, reached.fails.string)) if reached.fails.length <= LONGEST_WITNESS else None
    return {"length": reached.fails.length, "step": reached.fails.step, "string": string}


@click.command("minimize")
@click.option("--M", "bound", required=True, help="Norm bound, a number > 0.")
@click.option("--L", "length", type=COUNT, required=True, help="Longest string of the population.")
@click.option("--d", type=COUNT, default=None, help="RoPE dimension of a draw, a multiple of 4.")
@click.option(
    "--seed", type=COUNT, default=0, show_default=True, help="Seed of the draw (its draw 0) and of the starts."
)
@click.option(
    "--frequencies", "file", type=click.Path(path_type=Path), default=None, help="JSON file of frequencies instead."
)
@click.option("--a", type=COUNT, default=1, show_default=True, help="Tokens before the string; b = a+2.")
@click.option("--queries", default="free", show_default=True, help="free or tied: one query vector for all.")
@click.option("--parametrisation", default="decoupled", show_default=True, help="decoupled or coupled.")
@click.option("--norm", default="linf", show_default=True, help="linf, or l2: the ball around the linf box.")
@click.option(
    "--starts", type=COUNT, default=20, show_default=True, help="Random starts; the closed forms come on top."
)
@click.option(
    "--limit", type=COUNT, default=USUAL_LIMIT, show_default=True, help="Largest length at which copying is decided."
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Directory; reused when resumed.")
@json_option
@click.pass_context
def minimize_command(
    ctx: click.Context,
    bound: str,
    length: int,
    d: int | None,
    seed: int,
    file: Path | None,
    a: int,
    queries: str,
    parametrisation: str,
    norm: str,
    starts: int,
    limit: int,
    out: Path,
    as_json: bool,
) -> None:
    """Search for minimisers of the population loss under a norm bound, and compare them with the certified bound.

    Exit code 1 if a point lies below the certified bound, which would refute it.
    """
    frequencies = _frequencies(file, d, seed)
    setting = MinimiserSetting(
        frequencies, length, parse_rational(bound, "M"), a, _one_of("--queries", queries, Queries)
    )
    problem = MinimiserProblem(
        setting, _one_of("--parametrisation", parametrisation, Parametrisation), _one_of("--norm", norm, Norm), seed
    )
    require_at_least("starts", starts, 1)
    require_at_least("limit", limit, 1)
    if limit > LARGEST_HEAD_LENGTH:
        raise InputError("limit", limit, f"at most {LARGEST_HEAD_LENGTH}, for balls at every length")
    settings = {**problem.document(), "starts": starts, "limit": limit}
    with claimed_directory(out, "minimize", settings, ("minimize.json", "best.safetensors")):
        heads = len(get_args(ProgrammeMethod)) if queries == "free" and length > 1 else 0
        kept = "finished starts are kept, and the same command goes on from there"
        with keeping(kept), progress("starts", count_starts(problem, starts, heads)) as tick:
            result = minimise(problem, starts, out, limit, tick)
        document = said_of_itself(result.document())
        write_atomically(out / "minimize.json", (json.dumps(document, indent=1) + "\n").encode())
        _save_best(result, out)
    if as_json:
        print_json(document)
    else:
        _print(result, out)
    ctx.exit(1 if result.beaten else 0)


def _one_of(argument: str, value: str, known: Any) -> Any:
    """The value, if it is one of a Literal's."""
    if value not in get_args(known):
        raise InputError(argument, value, "one of " + ", ".join(get_args(known)))
    return value


def _frequencies(file: Path | None, d: int | None, seed: int) -> GridFrequencies:
    if file is not None and d is None:
        return read_grid_frequencies(file)
    if file is None and d is not None:
        return draw_grid_frequencies(d, seed, 0)
    given = [name for name, value in (("--frequencies", file), ("--d", d)) if value is not None]
    allowed = "--frequencies FILE alone, or else --d D with --seed S"
    raise InputError("options", " and ".join(given) or "none of frequencies", allowed)


def _save_best(result: Minimisation, out: Path) -> None:
    """The best point as weights of a torch model (a tied coupled one as the head that it stands for)."""
    problem, theta = result.problem, result.best.theta
    if theta is None:
        return
    setting = problem.setting
    if problem.parametrisation == "coupled" and setting.queries == "free":
        model = build_coupled_model(problem.parameters, theta, setting.frequencies)
    else:
        model = build_minimiser_model(problem.parameters.head(theta), setting.frequencies, setting.a)
    metadata = {
        "construction": "minimiser",
        "a": setting.a,
        "b": setting.b,
        "M": str(setting.bound),
        "L": setting.length,
        "queries": setting.queries,
        "parametrisation": problem.parametrisation,
        "norm": problem.norm,
        "frequencies": grid_frequencies_document(setting.frequencies),
        "config": model.config.document(),
    }
    save_weights(out / "best.safetensors", model.state_dict(), metadata)


def _print(result: Minimisation, out: Path) -> None:
    console = Console(highlight=False)
    table = Table(box=None)
    for column in ("start", "method", "loss", "excess", "/ certified", "saturated", "status"):
        table.add_column(column, no_wrap=column in ("start", "loss", "excess"))
    for one in result.found:
        start, ratio = one.start, result.ratio(one)
        table.add_row(
            start.name, start.method, _spelled(start.loss, 9), _spelled(start.excess, 4), _spelled(ratio, 4),
            _spelled(start.saturated_fraction, 3), start.reason or start.status,
        )  # fmt: skip
    console.print(table)
    best = result.best.start
    exact = result.problem.exact
    console.print(
        f"Best loss {_spelled(best.loss, 9)} ({best.name}), {_kind(exact, best.standard_error)}.", soft_wrap=True
    )
    problem = result.problem
    label = "new, ball" if problem.lower_bound > problem.trivial_floor else "trivial"
    if result.certified_excess > 0:  # perhaps below the loss's last digit
        label = f"new, ball: an excess of {result.certified_excess:.4g}"
    console.print(
        f"No point within the constraint is below {problem.lower_bound:.9g} ({label}); trivial floor "
        f"{problem.trivial_floor:.9g}.",
        soft_wrap=True,
    )
    console.print(_reach_line(result), soft_wrap=True)
    console.print(f"Report: {out}/minimize.json, weights: {out}/best.safetensors.", soft_wrap=True)
    if result.beaten:
        console.print("A point lies below the certified bound: the bound is REFUTED.", style="bold red")


def _kind(exact: bool, error: float | None) -> str:
    if exact:
        return "the exact mean over all strings, in floats; that no point is better is not shown (sampled)"
    return f"estimated from sampled strings, standard error {_spelled(error, 2)}; certified bounds stand in the report"


def _reach_line(result: Minimisation) -> str:
    reached, paper = result.reached, result.problem.setting.paper_length
    if reached.fails is None:
        line = f"PROVED (ball): the best point copies every string of length <= {reached.lower} (the --limit)"
    elif reached.length is not None:
        line = (
            f"PROVED (ball): the best point copies every string of length <= {reached.lower}, and fails at step "
            f"{reached.fails.step} of a string of length {reached.fails.length}{_replayed(result)}"
        )
    else:
        line = f"UNDECIDED: the best point copies every string of length <= {reached.lower}"
    return f"{line}; the paper's length L^(sqrt(d)/2) is {paper}."


def _replayed(result: Minimisation) -> str:
    """What the torch model does at the witness."""
    fails, theta = result.reached.fails, result.best.theta
    if fails is None or theta is None or fails.length > LONGEST_WITNESS:
        return ""
    setting = result.problem.setting
    model = build_minimiser_model(result.problem.parameters.head(theta), setting.frequencies, setting.a)
    string = np.array([fails.string], dtype=np.int64)
    wrong = forced_answers(model, setting.task, string)[0, fails.step - 1] != string[0, fails.step - 1]
    return " (the torch model gets it wrong too)" if wrong else " (in torch, rounding hides it)"


def _spelled(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}g}"
