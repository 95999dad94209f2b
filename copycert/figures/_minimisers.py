"""Theorem 4.2's loss against M with both bounds, and the length reached against L.

Colours are Okabe and Ito's, which colour-blind readers tell apart; every curve has a marker and dashes of its own, for
prints without colour.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from constructions import MinimiserProblem, best_of, programme_heads, search_minimisers
from copycert.figures._style import BLACK, BLUE, GREEN, PURPLE, VERMILION, new_figure, save_figure
from engine import difference, write_atomically
from theory import InputError, MinimiserSetting, draw_grid_frequencies, head_length, loss_lower_bound
from theory.minimisers import Queries

#: The bounds M of the first two panels, at L = LENGTH.
BOUNDS = tuple(Fraction(k, 4) for k in range(2, 13))
LENGTH = 5

#: The lengths L of the third panel, at these bounds M and readings.
LENGTHS = (2, 3, 4, 5, 6, 7, 8)
REACHED: tuple[tuple[Queries, Fraction], ...] = (
    ("free", Fraction(3, 2)), ("free", Fraction(3)), ("tied", Fraction(3, 2)), ("tied", Fraction(3)),
)  # fmt: skip

#: No length above this is looked at.
LIMIT = 10_000

#: Colour, marker and dashes of a curve.
STYLES = ((BLUE, "o", "-"), (VERMILION, "s", "--"), (GREEN, "^", "-."), (PURPLE, "D", ":"))


@dataclass(frozen=True)
class Point:
    """One problem; drawn is the best of the polished closed form and the polished heads of `programme_heads`."""

    queries: Queries
    bound: Fraction
    length: int

    @property
    def name(self) -> str:
        """Its key in the figures' file."""
        return f"{self.queries} M={self.bound} L={self.length}"


POINTS = (
    *(Point("free", bound, LENGTH) for bound in BOUNDS),
    *(Point(queries, bound, length) for queries, bound in REACHED for length in LENGTHS),
)


def require_matplotlib() -> None:
    """InputError in one line where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError("package matplotlib", "missing", "installed: pip install 'copycert[plots]'") from error


def minimiser_figures(file: Path, d: int, seed: int, tick: Callable[[], None]) -> dict[str, Any]:
    """The figures of every point, saved after each."""
    head = {"d": d, "seed": seed}
    figures: dict[str, Any] = {**head, "points": {}}
    if file.exists():
        try:
            known = json.loads(file.read_text(encoding="utf-8"))
            differs = difference({key: known[key] for key in head}, head)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError("--out", str(file), "figures of this command, or absent") from error
        if differs:
            raise InputError("--out", str(file), f"new, or figures of the same settings ({differs})")
        figures = known
    for point in POINTS:
        if point.name not in figures["points"]:
            figures["points"][point.name] = _figures_of(point, d, seed)
            write_atomically(file, (json.dumps(figures, indent=1) + "\n").encode())
        tick()
    return figures


def _figures_of(point: Point, d: int, seed: int) -> dict[str, Any]:
    setting = MinimiserSetting(draw_grid_frequencies(d, seed, 0), point.length, point.bound, 1, point.queries)
    problem, bound = MinimiserProblem(setting), loss_lower_bound(setting)
    with TemporaryDirectory() as directory:
        found = search_minimisers(problem, 0, Path(directory), programme_heads(setting))
    best = best_of(found)
    closed = best_of([one for one in found if one.start.method != "content-programme"])
    if best.theta is None:
        raise ArithmeticError("the closed form came to no point")
    reached = head_length(setting.frequencies, setting.a, problem.parameters.head(best.theta), LIMIT)
    return {
        "loss": best.start.loss,
        "excess": best.start.excess,
        "closed_form_excess": closed.start.excess,
        "certified_loss": bound.certified_loss,
        "certified_excess": bound.certified_excess,
        "floor": float(bound.floor),
        "length": reached.lower,
        "exceeds_limit": reached.fails is None,
        "paper_length": setting.paper_length,
    }


def draw_minimisers(out: Path, figures: dict[str, Any]) -> None:
    """Three panels: loss against M, excess over the floor against M, length copied against L."""
    from matplotlib import rc_context

    style: Any = {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False}
    with rc_context(style):
        figure = new_figure(10.5, 4.2)
        axes = figure.subplots(1, 3)
        _loss_panel(axes[0], figures)
        _excess_panel(axes[1], figures)
        _length_panel(axes[2], figures)
        out.parent.mkdir(parents=True, exist_ok=True)
        save_figure(figure, out)


def _curve(axes: Any, x: Sequence[float], y: Sequence[float], number: int, label: str) -> None:
    """Curve number 0, 1, ..: hollow markers that shrink, so that curves on top of each other all show."""
    colour, marker, dashes = STYLES[number]
    axes.plot(
        x, y, dashes, color=colour, marker=marker, markersize=9 - 2 * number, markerfacecolor="none",
        linewidth=2.2 - 0.4 * number, label=label,
    )  # fmt: skip


def _along_bounds(figures: dict[str, Any], field: str) -> list[float]:
    return [figures["points"][Point("free", bound, LENGTH).name][field] for bound in BOUNDS]


def _legend_below(axes: Any) -> None:
    """The legend under the panel, where it hides no curve."""
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18))


def _loss_panel(axes: Any, figures: dict[str, Any]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    bounds = [float(bound) for bound in BOUNDS]
    curves = (
        ("loss", "best point found"),
        ("certified_loss", "certified lower bound"),
        ("floor", "trivial floor $\\ln(1 + e^{-M})$"),
    )
    for number, (field, label) in enumerate(curves):
        _curve(axes, bounds, _along_bounds(figures, field), number, label)
    axes.set(xlabel="bound M on every parameter", ylabel="population loss (nats a step)", yscale="log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_title(f"loss, d = {figures['d']}, L = {LENGTH}, free queries")
    _legend_below(axes)


def _excess_panel(axes: Any, figures: dict[str, Any]) -> None:
    bounds = [float(bound) for bound in BOUNDS]
    curves = (
        ("closed_form_excess", "closed form, polished"),
        ("excess", "best point found"),
        ("certified_excess", "certified lower bound"),
    )
    for number, (field, label) in enumerate(curves):
        _curve(axes, bounds, _along_bounds(figures, field), number, label)
    axes.set(xlabel="bound M on every parameter", ylabel="loss less the trivial floor", yscale="log")
    axes.set_title("the same above the floor")
    _legend_below(axes)


def _length_panel(axes: Any, figures: dict[str, Any]) -> None:
    for number, (queries, bound) in enumerate(REACHED):
        points = [figures["points"][Point(queries, bound, length).name] for length in LENGTHS]
        label = f"{queries} queries, M = {float(bound):g}"
        lengths = [max(point["length"], 1) for point in points]
        _curve(axes, LENGTHS, lengths, number, label)
    papers = [figures["points"][Point("free", REACHED[0][1], length).name]["paper_length"] for length in LENGTHS]
    axes.plot(LENGTHS, papers, "-", color=BLACK, linewidth=2.5, alpha=0.5, label="the paper's $L^{\\sqrt{d}/2}$")
    axes.axhline(LIMIT, color=BLACK, linewidth=0.6, linestyle=(0, (1, 3)))
    axes.annotate("not looked at beyond", (LENGTHS[0], LIMIT), xytext=(0, 3), textcoords="offset points", fontsize=7)
    axes.set(xlabel="training length L", ylabel="every string copied up to length", yscale="log")
    axes.set_title(f"length of the best point found, d = {figures['d']}")
    _legend_below(axes)
