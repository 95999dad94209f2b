"""What all figures share: a palette that colour-blind readers can tell apart, line styles, and how they are saved.

Needs matplotlib (extra `plots`), imported only when a figure is drawn.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from engine import write_atomically
from theory import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Okabe and Ito 2008.
BLACK, ORANGE, SKY_BLUE, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
VERMILION, BLUE, PURPLE = "#D55E00", "#0072B2", "#CC79A7"
PALETTE = (BLACK, ORANGE, SKY_BLUE, GREEN, VERMILION, BLUE, PURPLE)

#: One for each colour, so that a figure survives a black-and-white print.
LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))

MARKERS = ("o", "s", "^", "D", "v", "P", "X")

#: File formats by the ending of the file's name.
FORMATS = ("pdf", "png", "svg")


def require_figure_file(path: Path) -> Path:
    """`path`, if its ending is a format that can be written and its directory exists.

    Raises:
        InputError: another ending, or no such directory.
    """
    if path.suffix.lstrip(".") not in FORMATS:
        raise InputError("--out", str(path), "a file name that ends in ." + ", .".join(FORMATS))
    if not path.parent.is_dir():
        raise InputError("--out", str(path), "a file in a directory that exists")
    return path


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, sizes in inches.

    Raises:
        InputError: matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise InputError("package matplotlib", "missing", "installed: pip install 'copycert[plots]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure, in the format of the file's ending; the same figure gives the same bytes."""
    from matplotlib import rc_context

    buffer = BytesIO()
    kind = require_figure_file(path).suffix.lstrip(".")
    stamp = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind)
    with rc_context({"svg.hashsalt": "copycert"}):
        figure.savefig(buffer, format=kind, dpi=200, metadata=stamp)
    write_atomically(path, buffer.getvalue())
