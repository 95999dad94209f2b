"""Figures: the numbers behind them, the same bytes for the same seed, and bad input."""

from math import log10
from pathlib import Path
from statistics import median

import pytest

from constructions import build_grid_copier
from copycert.command._main import main
from copycert.figures import _style as _figures
from copycert.figures import bounds_series, bounds_ticks, draw_bounds
from copycert.figures._bounds import SMALL_BUDGETS, Series
from tests._rounding import gamma
from theory import InputError, draw_grid_frequencies, exact_length

pytestmark = pytest.mark.slow

pytest.importorskip("matplotlib", reason="extra `plots`")


TICKS: list[None] = []


@pytest.fixture(scope="module")
def series() -> list[Series]:
    return bounds_series(2, 0, lambda: TICKS.append(None))


def of(series: list[Series], panel: str, name: str) -> Series:
    (found,) = (one for one in series if panel in one.panel and name in one.name)
    return found


def test_clouds_lie_between_the_printed_bound_and_the_ceiling(series: list[Series]) -> None:
    printed, ceiling = of(series, "one layer", "d/12), d = 120"), of(series, "one layer", "no choice")
    cloud = of(series, "one layer", "certified")
    assert cloud.rho == printed.rho == ceiling.rho
    for low, values, high in zip(printed.log10_length, cloud.log10_length, ceiling.log10_length, strict=True):
        assert all(low < value < high for value in values)
        rho = cloud.rho[printed.log10_length.index(low)]
        assert low == pytest.approx(10 * log10(rho), rel=gamma(20), abs=0)  # logarithms within their ulps, a product


def test_two_layer_curves_are_in_order(series: list[Series]) -> None:
    names = ("1000 ln rho", "paper's weights", "one frequency", "8 frequencies", "no plane curve")
    curves = [of(series, "3.2", name).log10_length for name in names]
    assert all(list(lengths) == sorted(set(lengths)) for lengths in zip(*curves, strict=True))


def test_small_lengths_are_those_of_the_exact_scan(series: list[Series]) -> None:
    cloud, typical = of(series, "exact", "exact n*"), of(series, "exact", "typical")
    for place, rho in enumerate(SMALL_BUDGETS[:2]):
        frequencies = draw_grid_frequencies(8, 0, 1, 2048)
        found = exact_length(build_grid_copier(rho, 8, 2, 3, frequencies).score())
        assert cloud.log10_length[place][1] == log10(found.length or 0)
    medians = [median(values) for values in cloud.log10_length]
    assert all(abs(m - t) < 1 for m, t in zip(medians, typical.log10_length, strict=True))


def test_ticks_are_counted(series: list[Series]) -> None:
    assert len(TICKS) == bounds_ticks(2)


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_the_same_figure_gives_the_same_bytes(series: list[Series], ending: str, tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for file in files:
        _figures.save_figure(draw_bounds(series), file)
    assert files[0].read_bytes() == files[1].read_bytes() != b""
    assert sorted(tmp_path.iterdir()) == files


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "b.jpg"], "--out = b.jpg: must be a file name that ends in .pdf, .png, .svg"),
        (["--out", "missing/b.png"], "--out = missing/b.png: must be a file in a directory that exists"),
        (["--out", "b.png", "--draws", "1"], "draws = 1: must be an integer >= 2"),
        (["--out", "b.png", "--seed", "-1"], "seed = -1: "),
    ],
)
def test_bad_input(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["plot", "bounds", *arguments])
    assert stop.value.code == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and message in lines[0]
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(
        InputError, match=r"package matplotlib = missing: must be installed: pip install 'copycert\[plots\]'"
    ):
        _figures.new_figure(1, 1)
