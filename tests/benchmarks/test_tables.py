"""Every table and figure that a page quotes from stored results is the one that the rows give."""

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks._campaign import read
from benchmarks._provenance import ROOT
from benchmarks.results._tables import FIGURES, RESULTS, Figure

Rows = list[dict[str, Any]]


def part(rows: Rows, name: str, **wanted: object) -> dict[str, Any]:
    """The first row of a part."""
    return next(row for row in rows if row["part"] == name and wanted.items() <= row.items())


def set_to(row: dict[str, Any], **values: object) -> None:
    row.update(values)


#: For each figure what a wrong row might be.
CHANGES: dict[str, list[Callable[[Rows], None]]] = {
    "trained_seeds": [
        lambda rows: set_to(part(rows, "seed 3")["result"], margin=7.93),
        lambda rows: set_to(part(rows, "seed 7")["result"], status="REFUTED"),
        lambda rows: set_to(part(rows, "cpu_seconds_by_length")["result"], **{"1000": 0.2}),
        lambda rows: set_to(part(rows, "cpu_seconds_by_length_one_by_one")["result"], **{"800": 22.1}),
        lambda rows: set_to(part(rows, "checker_100000")["result"], accepted=False),
        lambda rows: set_to(part(rows, "intervals seed 5")["result"], proves_length=1000),
    ],
    "campaign": [
        lambda rows: set_to(rows[40], proved_4=rows[40]["proved_4"] + 1),
        lambda rows: set_to(rows[40], refuted=rows[40]["refuted"] - 1),
        lambda rows: set_to(rows[0], false_proved=1),
        lambda rows: set_to(rows[-1], models=99),
    ],
    "hostile": [
        lambda rows: set_to(rows[17], faults=["false PROVED"]),
        lambda rows: set_to(rows[0], status="UNDECIDED"),
        lambda rows: set_to(rows[5], longest=7),
    ],
    "forged": [
        lambda rows: set_to(next(row for row in rows if not row["true"]), accepted=True),
        lambda rows: set_to(next(row for row in rows if row["true"]), accepted=False),
        lambda rows: set_to(next(row for row in rows if 0 < row["units"] <= 10), units=11.0),
        lambda rows: set_to(rows[3], faults=["unfinished"]),
        lambda rows: set_to(rows[3], forgery="other"),
        lambda rows: set_to(rows[0], seconds=20.0),
    ],
    "branching": [
        lambda rows: set_to(rows[0], proved_by_branching=11),
        lambda rows: set_to(rows[3], false_proved=1),
    ],
    "half_hour": [
        lambda rows: set_to(part(rows, "star", seed=3), cpu_seconds=99.0),
        lambda rows: set_to(part(rows, "converge", encoding="alibi"), cpu_seconds=700.0),
        lambda rows: set_to(part(rows, "grid")["tests"][0]["within"], samples=50),
    ],
    "trained": [
        lambda rows: set_to(part(rows, "grid", seed=4)["tests"][2]["beyond"][1], exact=9),
        lambda rows: set_to(part(rows, "others", encoding="alibi")["tests"][0]["beyond"][0], exact=1),
        lambda rows: set_to(part(rows, "long", seed=6), accuracy=0.0),
        lambda rows: set_to(part(rows, "star", encoding="auto2d")["tests"][3], verdict="in part"),
        lambda rows: set_to(part(rows, "converge", encoding="rnope")["tests"][0]["within"], exact=91),
        lambda rows: set_to(part(rows, "uniform", encoding="rope")["tests"][2]["within"], exact=60),
    ],
    "repetition": [lambda rows: set_to(part(rows, "converge", encoding="rope")["repetition"][3], exact=7)],
    "lists": [
        lambda rows: set_to(part(rows, "lists", seed=0)["results"][-1], accuracy=0.8),
        lambda rows: set_to(part(rows, "lists", seed=1)["within"], accuracy=0.99),
    ],
    "readme_training": [
        lambda rows: set_to(part(rows, "long", seed=2), accuracy=0.0),
        lambda rows: set_to(part(rows, "star", encoding="auto2d", seed=5)["tests"][1]["beyond"][2], exact=9),
        lambda rows: set_to(part(rows, "converge", encoding="rope")["tests"][1]["beyond"][0], exact=1),
    ],
    "minimiser_counts": [
        lambda rows: set_to(rows[30], bound_holds=False),
        lambda rows: set_to(rows[30], certificate_accepted=False),
        lambda rows: set_to(rows[30], bound_loses_at_most=1.9),
        lambda rows: set_to(rows[30], closed_form_worse_by=1e-5),
        lambda rows: set_to(rows[0], best_over_certified=2.9),
        lambda rows: set_to(rows[40]["starts"][2], status="failed"),
        lambda rows: set_to(rows[20], best_method="content-programme") or set_to(rows[12], best_method="L-BFGS-B"),
        lambda rows: rows[3]["starts"].pop(),
        lambda rows: set_to(rows[18], closed_form_excess=1.0),
        lambda rows: set_to(rows[19], closed_form_over_certified=1.001),
        lambda rows: set_to(rows[1], minimiser_certainly_uses_content=True),
    ],
    "minimiser_table": [
        lambda rows: set_to(rows[12], certified_excess=5.2e-12),
        lambda rows: set_to(rows[31], closed_form_over_certified=48.3),
        lambda rows: set_to(rows[47], position_only_certified_excess=rows[47]["best_excess"]),
        lambda rows: set_to(rows[30], closed_form_over_certified=2.01),
    ],
    "readme_minimisers": [lambda rows: set_to(rows[1], minimiser_certainly_uses_content=True)],
    "comparison": [
        lambda rows: set_to(rows[0], loss=0.21),
        lambda rows: set_to(rows[1], length=100),
        lambda rows: set_to(rows[9], lower_bound=rows[9]["loss"] / 2),
        lambda rows: set_to(rows[6], parameters=117),
    ],
    "several_heads": [lambda rows: set_to(part(rows, "several_heads")["result"]["2"], exact_margin="0.1093")],
    "readme_heads": [
        lambda rows: set_to(part(rows, "several_heads")["result"]["3"], copies_all_strings_up_to=9),
        lambda rows: set_to(part(rows, "furthest_length")["result"], median="10^173"),
    ],
    "typical_length": [
        lambda rows: set_to(part(rows, "typical_length")["result"]["d=12 S=10"], median_over_typical=0.94),
        lambda rows: set_to(part(rows, "furthest_length")["result"], median="10^173"),
    ],
    "separation_speed": [lambda rows: set_to(rows[0], value=0.2), lambda rows: set_to(rows[1], value=0.5)],
}


def missing(figure: Figure, texts: list[str]) -> list[str]:
    """Texts that do not stand in the page; of a table also those that are not all of it."""
    page = "\n".join(line.strip() for line in (ROOT / figure.page).read_text().splitlines())
    flowing = " ".join(page.split())
    found = [text for text in texts if " ".join(text.split()) not in flowing]
    return found + [text for text in texts if text.startswith("|") and f"{text.splitlines()[-1]}\n|" in page]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.texts.__name__)
def test_a_page_says_what_the_rows_say(figure: Figure) -> None:
    assert missing(figure, figure.written()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("figure", "number"),
    [(figure, number) for figure in FIGURES for number in range(len(CHANGES[figure.texts.__name__]))],
    ids=lambda value: value.texts.__name__ if isinstance(value, Figure) else str(value),
)
def test_a_changed_row_is_noticed(figure: Figure, number: int) -> None:
    _, rows = read(RESULTS / f"{figure.results}.jsonl")
    CHANGES[figure.texts.__name__][number](rows)
    try:
        texts = figure.texts(rows)
    except (ArithmeticError, ValueError, KeyError):  # a sentence that cannot be written of such rows
        return
    assert missing(figure, texts)


def test_no_results_file_is_quoted_without_a_figure() -> None:
    """`encodings` is quoted nowhere."""
    assert {path.stem for path in RESULTS.glob("*.jsonl")} == {figure.results for figure in FIGURES} | {"encodings"}
    assert {path.suffix for path in RESULTS.iterdir() if path.is_file()} == {".jsonl", ".py"}
