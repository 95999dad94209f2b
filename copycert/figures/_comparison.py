"""Plots in the manner of the paper's Figures 2, 3, 4, 7 and 8, as PDF and PNG.

Every line has a marker and dashes of its own, so that a print without colour can be read. Hollow markers: some seed is
NOT CONVERGED; the legend says how many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from copycert.figures._style import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY_BLUE, VERMILION, new_figure, save_figure
from copycert.sampled import CONVERGED, repetition_summary
from theory import InputError

#: Colour, marker and dashes of each encoding.
STYLES: dict[str, tuple[str, str, str]] = {
    "rope2d": (BLUE, "o", "-"),
    "auto2d": (GREEN, "s", "--"),
    "hrope": (SKY_BLUE, "D", "-."),
    "rope": (VERMILION, "v", "-"),
    "alibi": (ORANGE, "^", "--"),
    "nope": (PURPLE, "P", "-."),
    "rnope": (BLACK, "X", ":"),
}

PANEL = (3.2, 2.6)  # inches


def require_plots() -> None:
    """InputError in one line where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        allowed = "installed for plots: pip install 'copycert[plots]'; or give --no-plots"
        raise InputError("package matplotlib", "missing", allowed) from error


@contextmanager
def _figure(file: Path, panels: int, columns: int = 4, size: tuple[float, float] = PANEL) -> Iterator[Any]:
    """A figure with its axes in a list, saved as PDF and PNG at the end; no window, no global state."""
    from matplotlib import rc_context

    columns = min(columns, panels)
    rows = -(-panels // columns)
    with rc_context({"font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 100}):
        figure = new_figure(size[0] * columns, size[1] * rows)
        axes = [figure.add_subplot(rows, columns, number + 1) for number in range(panels)]
        yield figure, axes
        file.parent.mkdir(parents=True, exist_ok=True)
        for ending in (".pdf", ".png"):
            save_figure(figure, file.with_suffix(ending))


def _name(row: dict[str, Any]) -> str:
    return str(row["encoding"]) + ("" if row["separator"] == "<n>" else f" with {row['separator']}")


def _label(row: dict[str, Any]) -> str:
    return _counted(_name(row), row["verdicts"].get("NOT CONVERGED", 0), row["seeds"])


def _counted(name: str, missed: int, seeds: int) -> str:
    return name if not missed else f"{name} (NOT CONVERGED: {missed} of {seeds} seeds)"


def trained_label(runs: Sequence[dict[str, Any]]) -> str:
    """The label of runs of one encoding where no test distribution is meant: who has not learned the trained one."""
    shares = [row["trained"]["exact"] / row["trained"]["samples"] for row in runs]
    return _counted(_name(runs[0]), sum(share < CONVERGED for share in shares), len(runs))


def _draw(
    axis: Any, encoding: str, x: Sequence[float], counts: Sequence[dict[str, Any]], label: str, *, joined: bool = True
) -> None:
    colour, marker, dashes = STYLES[encoding]
    if not joined:
        dashes = "none"
    face = "white" if "NOT CONVERGED" in label else colour
    y = [count["accuracy"] for count in counts]
    # The interval of a share of 0 or 1 touches it; rounding must not make a bar negative.
    bars = [[max(0.0, c["accuracy"] - c["interval"][0]) for c in counts]]
    bars.append([max(0.0, c["interval"][1] - c["accuracy"]) for c in counts])
    axis.errorbar(
        x, y, yerr=bars, color=colour, marker=marker, linestyle=dashes, markerfacecolor=face, label=label,
        markersize=4, linewidth=1.2, elinewidth=0.7, capsize=1.5,
    )  # fmt: skip


def _runs(document: dict[str, Any], train_distribution: str, name: str) -> list[dict[str, Any]]:
    rows = document["runs"]
    return [row for row in rows if row["train_distribution"] == train_distribution and _name(row) == name]


def plot_lengths(document: dict[str, Any], train_distribution: str, file: Path) -> None:
    """Accuracy against length, a panel for each test distribution (the manner of Figure 4)."""
    rows = [row for row in document["summary"] if row["train_distribution"] == train_distribution]
    distributions = list(dict.fromkeys(row["distribution"] for row in rows))
    with _figure(file, len(distributions), columns=2) as (figure, axes):
        for axis, distribution in zip(axes, distributions, strict=True):
            for number, row in enumerate(row for row in rows if row["distribution"] == distribution):
                counts = [row["within"], *row["beyond"]]
                # A little to the right of each other, so that no interval hides another.
                _draw(axis, row["encoding"], [c["length"] * 1.03**number for c in counts], counts, _label(row))
            axis.axvspan(axis.get_xlim()[0], rows[0]["within"]["length"], color="0.92", zorder=0)
            axis.set(
                xscale="log", ylim=(-0.05, 1.05), title=distribution, xlabel="string length", ylabel="exact copies"
            )
            axis.legend(fontsize=6, frameon=False, loc="best")
        figure.suptitle(
            f"Exact copies, mean over all seeds; trained on {train_distribution} strings (grey: lengths trained on)"
        )


def plot_training_distributions(document: dict[str, Any], file: Path) -> None:
    """Accuracy at the trained lengths on each test distribution, a panel for each training one (Figure 7)."""
    trained = list(dict.fromkeys(row["train_distribution"] for row in document["summary"]))
    with _figure(file, len(trained), columns=2) as (_, axes):
        for axis, train_distribution in zip(axes, trained, strict=True):
            rows = [row for row in document["summary"] if row["train_distribution"] == train_distribution]
            tests = list(dict.fromkeys(row["distribution"] for row in rows))
            for number, name in enumerate(dict.fromkeys(map(_name, rows))):
                mine = [row for row in rows if _name(row) == name]
                # Beside each other; categories have nothing between them, so nothing joins them.
                x = [place + 0.08 * number for place in range(len(mine))]
                label = trained_label(_runs(document, train_distribution, name))
                _draw(axis, mine[0]["encoding"], x, [row["within"] for row in mine], label, joined=False)
            axis.set_xticks(range(len(tests)), tests, rotation=20)
            axis.set(ylim=(-0.05, 1.05), title=f"trained on {train_distribution}", ylabel="exact, trained lengths")
            axis.legend(fontsize=6, frameon=False)


def plot_repetition(document: dict[str, Any], file: Path) -> None:
    """Accuracy on repeat-structure strings against p (the manner of Figure 2), a panel for each training set."""
    asked = [row for row in document["runs"] if row["repetition"]]
    trained = list(dict.fromkeys(row["train_distribution"] for row in asked))
    with _figure(file, len(trained), columns=2) as (_, axes):
        for axis, train_distribution in zip(axes, trained, strict=True):
            names = dict.fromkeys(_name(row) for row in asked if row["train_distribution"] == train_distribution)
            for name in names:
                runs = _runs(document, train_distribution, name)
                counts = repetition_summary(runs)
                x = [count["p"] for count in counts]
                _draw(axis, runs[0]["encoding"], x, counts, trained_label(runs))
            title = f"length {counts[0]['length']}, trained on {train_distribution}"
            axis.set(ylim=(-0.05, 1.05), title=title, xlabel="p, share of symbols kept", ylabel="exact copies")
            axis.legend(fontsize=6, frameon=False)


def plot_attention(maps: list[Any], titles: list[str], tokens: list[str], file: Path) -> None:
    """Attention maps, a panel a head (the manner of Figures 3 and 8); query rows down, key columns across."""
    with _figure(file, len(maps), columns=3, size=(3.4, 3.4)) as (_, axes):
        for axis, weights, title in zip(axes, maps, titles, strict=True):
            # The square root shows faint stripes; grey levels print.
            axis.imshow(weights**0.5, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest", aspect="equal")
            axis.set_title(title, fontsize=7)
            axis.set(xlabel="key", ylabel="query")
            marks = delimiter_labels(tokens)
            axis.set_xticks(list(marks), list(marks.values()), rotation=90, fontsize=5)
            axis.set_yticks(list(marks), list(marks.values()), fontsize=5)


def delimiter_labels(tokens: Sequence[str]) -> dict[int, str]:
    """Runs of tokens that are no data, joined, by the index of their first token: single labels would overlap."""
    marks: dict[int, str] = {}
    first = 0
    for number, token in enumerate(tokens):
        if token in ("0", "1"):
            first = number + 1
        else:
            marks[first] = f"{marks[first]} {token}" if first in marks else token
    return marks
