"""`copycert plot bounds`: how far the constructions copy, against the norm budget rho, with draws and ceilings.

Lengths reach 10^200, so that the vertical axes carry their logarithms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from math import log10
from statistics import quantiles
from typing import Any

from constructions import build_grid_copier, build_two_layer_copier
from copycert.figures._style import LINE_STYLES, PALETTE, new_figure
from proofs_check.claims import UNIVERSAL
from theory import draw_grid_frequencies, exact_length, paper_two_layer_length, two_layer_length
from theory.grid import furthest_length, norm_ceiling
from theory.numbers import PAPER_LENGTH, TYPICAL_LENGTH, Label, Method, ball, require_at_least
from theory.two_layer import norm_scale, plane_curve_ceiling

A, B = 2, 3

#: Turning pairs of the sharp two-layer copier.
PAIRS = 8

#: RoPE dimensions whose printed bound is drawn: the theorem's least for a = 2, b = 3, and two larger ones.
PAPER_DIMENSIONS = (120, 180, 240)

#: RoPE dimension at which lengths can be decided exactly, and its norm budgets.
SMALL_DIMENSION, SMALL_BUDGETS = 8, (6, 8, 11, 15, 20, 28)

#: Bits of the drawn frequencies: enough for lengths of 10^330.
BITS = 2048

#: Lengths above this are not looked for exactly.
SCAN_LIMIT = 10**7


@dataclass(frozen=True)
class Series:
    """One curve or cloud.

    Attributes:
        panel: which panel it belongs to.
        name: what the legend says.
        label, method: the two labels of the claim.
        kind: `line`, or `cloud` of draws.
        rho: norm budgets.
        log10_length: for each of them the logarithm of the length; a list of one for each draw in a cloud.
    """

    panel: str
    name: str
    label: Label
    method: Method
    kind: str
    rho: tuple[int, ...]
    log10_length: tuple[Any, ...]


def bounds_series(draws: int, seed: int, tick: Callable[[], None] = lambda: None) -> list[Series]:
    """Everything that the figure shows.

    Args:
        draws: frequency draws for each norm budget.
        seed: of the draws.
        tick: called after each draw.

    Raises:
        InputError: draws < 2 or seed < 0.

    Cost: about 0.4 s a draw.
    """
    require_at_least("draws", draws, 2)
    require_at_least("seed", seed, 0)
    return [*_theorem_3_2(), *_theorem_4_1(draws, seed, tick), *_small_dimension(draws, seed, tick)]


def bounds_ticks(draws: int) -> int:
    """How often `bounds_series` calls `tick`."""
    return draws * (len(_large_budgets()) + len(SMALL_BUDGETS))


def _large_budgets() -> tuple[int, ...]:
    return (15_000, 10**5, 10**6, 10**7)


def _theorem_3_2() -> list[Series]:
    panel, budgets = "3.2, two layers with RoPE", (10_001, 10**5, 10**6, 10**7)

    def proved(variant: str, pairs: int) -> Callable[[int], float]:
        return lambda rho: log10(_two_layer_length(rho, variant, pairs))

    return [
        _line(panel, "paper: rho^2/(1000 ln rho)", "paper", "ball", budgets,
              lambda rho: log10(paper_two_layer_length(Fraction(rho)))),
        _line(panel, "the paper's weights copy", "new", "ball", budgets, proved("paper", 1)),
        _line(panel, "sharp weights, one frequency", "new", "ball", budgets, proved("sharp", 1)),
        _line(panel, f"sharp weights, {PAIRS} frequencies", "new", "ball", budgets, proved("sharp", PAIRS)),
        _line(panel, "no plane curve at this norm", "new", "ball", budgets,
              lambda rho: log10(plane_curve_ceiling(norm_scale(Fraction(rho))))),
    ]  # fmt: skip


def _two_layer_length(rho: int, variant: str, pairs: int) -> int:
    copier = build_two_layer_copier(Fraction(rho), A, B, variant, pairs=pairs)
    return two_layer_length(copier.scores(), copier.length).lower


def _theorem_4_1(draws: int, seed: int, tick: Callable[[], None]) -> list[Series]:
    sharp = max(exponent for _, exponent, _ in UNIVERSAL)
    panel, d, budgets = "4.1, one layer with 2D-RoPE", PAPER_DIMENSIONS[0], _large_budgets()
    printed = [
        _line(panel, f"paper: rho^(d/12), d = {width}", "paper", "ball", _budgets_of(width), _paper_length(width))
        for width in PAPER_DIMENSIONS
    ]
    certified = tuple(
        [log10(furthest_length(_copier(d, rho, seed, draw, tick).score())[0]) for draw in range(draws)]
        for rho in budgets
    )
    return [
        *printed,
        _line(panel, f"rho^({sharp} d), same probability, d = {d}", "new", "ball", budgets, _power(float(sharp * d))),
        Series(panel, f"certified for single draws, d = {d}", "new", "ball", "cloud", budgets, certified),
        _line(panel, f"no choice of frequencies, d = {d}", "new", "ball", budgets, lambda rho: _ceiling(d, rho)),
    ]


def _small_dimension(draws: int, seed: int, tick: Callable[[], None]) -> list[Series]:
    panel, d = f"4.1, exact at d = {SMALL_DIMENSION}", SMALL_DIMENSION
    exact = tuple([_log_exact(_copier(d, rho, seed, draw, tick)) for draw in range(draws)] for rho in SMALL_BUDGETS)
    return [
        Series(panel, "exact n* of single draws", "new", "float+bound", "cloud", SMALL_BUDGETS, exact),
        _line(panel, "typical: (2 pi S)^(d/8)", "new", "sampled", SMALL_BUDGETS, lambda rho: _typical(d, rho)),
        _line(panel, "no choice of frequencies", "new", "ball", SMALL_BUDGETS, lambda rho: _ceiling(d, rho)),
    ]


def _budgets_of(d: int) -> tuple[int, ...]:
    """The norm budgets that Theorem 4.1 speaks of: above d^2."""
    return tuple(dict.fromkeys((max(d * d + 1, _large_budgets()[0]), *_large_budgets()[1:])))


def _line(
    panel: str, name: str, label: Label, method: Method, budgets: tuple[int, ...], value: Callable[[int], float]
) -> Series:
    return Series(panel, name, label, method, "line", budgets, tuple(map(value, budgets)))


def _paper_length(d: int) -> Callable[[int], float]:
    return lambda rho: float(PAPER_LENGTH.ball(rho=rho, d=d).log() / ball(10).log())


def _power(exponent: float) -> Callable[[int], float]:
    return lambda rho: exponent * log10(rho)


def _ceiling(d: int, rho: int) -> float:
    return log10(norm_ceiling(d, Fraction(rho)).fails_at)


def _typical(d: int, rho: int) -> float:
    return float(TYPICAL_LENGTH.ball(S=Fraction(rho**4, 12 * d), d=d).log() / ball(10).log())


def _copier(d: int, rho: int, seed: int, draw: int, tick: Callable[[], None]) -> Any:
    tick()
    return build_grid_copier(rho, d, A, B, draw_grid_frequencies(d, seed, draw, BITS))


def _log_exact(copier: Any) -> float:
    return log10(max(1, exact_length(copier.score(), SCAN_LIMIT).lower))


def bounds_document(series: list[Series]) -> dict[str, Any]:
    """The figure's numbers as one JSON object."""
    return {"series": [asdict(one) for one in series]}


def draw_bounds(series: list[Series]) -> Any:
    """The figure: one panel a construction, curves and clouds with the median and the quartiles of the draws."""
    panels = list(dict.fromkeys(one.panel for one in series))
    figure = new_figure(5.2 * len(panels), 5.2)
    for place, panel in enumerate(panels, 1):
        axes = figure.add_subplot(1, len(panels), place)
        for number, one in enumerate(one for one in series if one.panel == panel):
            style: dict[str, Any] = {"color": PALETTE[number % len(PALETTE)]}
            if one.kind == "cloud":
                _draw_cloud(axes, one, style)
            else:
                axes.plot(one.rho, one.log10_length, linestyle=LINE_STYLES[number % len(LINE_STYLES)],
                          label=_legend(one), **style)  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlabel("norm budget rho")
        axes.set_ylabel("length, powers of ten")
        axes.set_title(f"Theorem {panel}", fontsize="medium")
        axes.legend(fontsize="x-small", loc="upper center", bbox_to_anchor=(0.5, -0.13))
        axes.grid(alpha=0.3)
    return figure


def _draw_cloud(axes: Any, one: Series, style: dict[str, Any]) -> None:
    for rho, values in zip(one.rho, one.log10_length, strict=True):
        spread = [rho * 10 ** (0.012 * (k % 9 - 4)) for k in range(len(values))]
        axes.plot(spread, values, linestyle="", marker=".", markersize=3, alpha=0.5, **style)
    low, middle, high = zip(*(quantiles(values, n=4) for values in one.log10_length), strict=True)
    errors = [[m - x for m, x in zip(middle, low, strict=True)], [x - m for m, x in zip(middle, high, strict=True)]]
    axes.errorbar(one.rho, middle, errors, fmt="D", markersize=5, capsize=4,
                  label=_legend(one) + "; median, quartiles", **style)  # fmt: skip


def _legend(one: Series) -> str:
    return f"{one.name} [{one.label}, {one.method}]"
