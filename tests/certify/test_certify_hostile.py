"""The hostile campaign in small: its truth by two other routes, its demands, and that each of them can fail."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flint import ctx

from benchmarks import certify_hostile
from benchmarks._campaign import read
from benchmarks.certify_hostile import (
    RESULTS,
    TENSORS,
    Answer,
    Hostile,
    ask,
    engine_model,
    faults,
    hostile,
    main,
    record,
    summary,
    totals,
)
from tests.models.every_string import Judged, UndefinedError, judge, slow_differences

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

MODELS = 60

#: Kinds of faults that say something untrue; the others are refusals, breaks and certificates.
UNTRUE = ("false", "margin", "statement", "a s", "fails_at", "PROVED short", "PROVED with", "REFUTED with a", "verdict")


@cache
def lines() -> list[dict[str, Any]]:
    return [record(number) for number in range(MODELS)]


@cache
def example(status: str) -> tuple[Hostile, Answer, list[Judged]]:
    """The first float64 model of argmax, one head, with that verdict and no fault."""
    for number in range(200):
        asked = hostile(number)
        doubles = set(asked.dtypes.values()) == {torch.float64}
        if doubles and asked.kind == "copying" and asked.criterion == "argmax" and asked.plain.heads == 1:
            answer, truth = ask(asked), judge(asked.plain, asked.longest, asked.criterion)
            if answer.status == status and len(answer.string) > 1 and not faults(asked, answer, truth):
                return asked, answer, truth
    raise AssertionError(f"no {status} among 200 models")


def test_no_verdict_or_margin_is_untrue() -> None:
    wrong = {
        line["number"]: fault
        for line in lines()
        for fault in line["faults"]
        if fault.startswith(UNTRUE) and "certificate" not in fault
    }
    assert not wrong


def test_every_demand_is_met() -> None:
    assert not totals(lines())["faults"]


def test_all_kinds_of_truth_and_verdict_occur() -> None:
    found = totals(lines())
    assert found["truth"]["copies"] >= 10
    assert found["truth"]["fails"] >= 10
    assert found["status"]["PROVED"] >= 10
    assert found["status"]["REFUTED"] >= 10
    assert found["near"]["below"] >= 3
    assert found["near"]["above"] >= 3
    assert found["near"]["tied"] >= 1
    assert found["truth"].get("untold", 0) <= 1


def test_the_truth_is_that_of_the_definition_and_of_torch() -> None:
    told = 0
    for number in range(400, 480):
        asked = hostile(number)
        if len(asked.plain.prefix) + len(asked.plain.infix) > 100:
            continue
        try:
            truth = judge(asked.plain, asked.longest, asked.criterion)
        except UndefinedError:
            continue
        g = np.random.default_rng(number)
        judged = truth[int(g.integers(0, asked.longest))]
        row = judged.rows[int(g.integers(0, len(judged.rows)))]
        string = [(row.string >> j) & 1 for j in range(row.length)]
        slow = slow_differences(asked.plain, string, row.step)
        assert all(one.overlaps(other) for one, other in zip(slow, row.differences, strict=True)), number
        sizes = [float(np.abs(part).max()) for name in TENSORS if (part := getattr(asked.plain, name)) is not None]
        if not 2.0**-60 < min(sizes) <= max(sizes) < 2.0**60:
            continue  # squares and products underflow or overflow in torch
        model, template = engine_model(asked)
        logits = model.double().last_logits(torch.from_numpy(template.sequence(np.array(string), row.step)))
        target = asked.plain.target(string[row.step - 1])
        for other, true in zip(row.competitors, row.differences, strict=True):
            difference = float(logits[target] - logits[other])
            if abs(true) > row.size * 1e-8 and np.isfinite(difference):
                assert (difference > 0) == (true > 0), number
                told += 1
    assert told >= 30


def test_a_model_is_a_function_of_seed_and_number() -> None:
    one, same, other = hostile(5), hostile(5), hostile(5, seed=1)
    assert np.array_equal(one.plain.value, same.plain.value)
    assert not np.array_equal(one.plain.value, other.plain.value)


def test_precision_does_not_leak() -> None:
    before = ctx.prec
    judge(hostile(0).plain, 1, "argmax")
    assert ctx.prec == before


Change = Callable[[Answer], Answer]


@pytest.mark.parametrize(
    ("status", "change", "kind"),
    [
        ("REFUTED", lambda a: replace(a, status="PROVED", proved_to=6, fails_at=None), "false PROVED"),
        ("REFUTED", lambda a: replace(a, status="UNDECIDED", proved_to=6, fails_at=None), "false proved_to"),
        ("PROVED", lambda a: replace(a, status="REFUTED", fails_at=len(a.string)), "false REFUTED"),
        ("PROVED", lambda a: replace(a, status="REFUTED", fails_at=len(a.string)), "false fails_at"),
        ("PROVED", lambda a: replace(a, status="REFUTED"), "fails_at is not the witness's length"),
        ("PROVED", lambda a: replace(a, proved_to=0), "PROVED short of the length"),
        ("PROVED", lambda a: replace(a, margin=-a.margin), "margin with the wrong sign"),
        ("REFUTED", lambda a: replace(a, margin=-a.margin), "REFUTED with a margin above 0"),
        ("PROVED", lambda a: replace(a, margin=0.0), "PROVED with a margin of 0 or below"),
        ("PROVED", lambda a: replace(a, margin=1.01 * a.margin), "margin off"),
        ("PROVED", lambda a: replace(a, difference=a.difference * 2), "margin off"),
        ("PROVED", lambda a: replace(a, difference=-a.difference), "margin and its float have different signs"),
        ("PROVED", lambda a: replace(a, margin=float("nan")), "margin is not finite"),
        ("PROVED", lambda a: replace(a, margin_below=1.01 * a.margin), "margin_below above the margin"),
        ("PROVED", lambda a: replace(a, string=()), "no step is shown"),
        ("PROVED", lambda a: replace(a, accepted=False, statement="7"), "PROVED without an accepted certificate: #"),
        ("PROVED", lambda a: replace(a, statement="it copies"), "statement without the length"),
        ("REFUTED", lambda a: replace(a, accepted=False, statement=""), "REFUTED without an accepted certificate: "),
        ("PROVED", lambda a: Answer("UNFINISHED"), "unfinished"),
        ("PROVED", lambda a: Answer("BROKEN", reason="Traceback\nKeyError: 1"), "traceback KeyError"),
        ("PROVED", lambda a: Answer("REFUSED", reason="two\nlines"), "refusal of several lines"),
    ],
)  # fmt: skip
def test_each_demand_can_fail(status: str, change: Change, kind: str) -> None:
    asked, answer, truth = example(status)
    assert kind in faults(asked, change(answer), truth)


def test_a_verdict_on_an_undefined_model_is_a_fault() -> None:
    asked, answer, _ = example("PROVED")
    assert faults(asked, answer, None) == ["PROVED of an undefined model"]
    assert faults(asked, Answer("REFUSED", reason="epsilon = 0: must be above 0"), None) == []


def test_another_step_than_the_least_is_a_fault() -> None:
    asked, answer, truth = example("PROVED")
    row = max((row for judged in truth for row in judged.rows), key=lambda row: float(row.differences[0].mid()))
    string = tuple((row.string >> j) & 1 for j in range(row.length))
    shown = replace(
        answer, string=string, step=row.step, competitor=row.competitors[0], margin=float(row.differences[0].mid())
    )
    assert "a smaller margin exists" in faults(asked, shown, truth)


def test_a_verdict_that_changes_with_the_scale_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    number = next(n for n in range(3, 400, 10) if certify_hostile.rescaled_twin(hostile(n)) is not None)
    answers = iter([Answer("UNDECIDED"), Answer("REFUTED")])
    monkeypatch.setattr(certify_hostile, "ask", lambda *_, **__: next(answers))
    assert "verdict changes with the scale" in record(number)["faults"]


def test_a_slow_verdict_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*_: object, **__: object) -> None:
        while True:
            pass

    monkeypatch.setattr(certify_hostile, "PATIENCE", 1)
    monkeypatch.setattr(certify_hostile, "certify", endless)
    assert ask(hostile(0)).status == "UNFINISHED"


def test_a_run_is_gone_on_with_and_a_fault_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "lines.jsonl"
    fine = {**lines()[0], "faults": []}
    monkeypatch.setattr(certify_hostile, "record", lambda number, seed: {**fine, "number": number})
    assert main(["--count", "3", "--out", str(out)]) == 0
    out.write_text(out.read_text() + '{"number": 3, "ki')
    monkeypatch.setattr(
        certify_hostile, "record", lambda number, seed: {**fine, "number": number, "faults": ["false PROVED"]}
    )
    assert main(["--count", "3", "--out", str(out)]) == 0
    assert main(["--count", "4", "--out", str(out)]) == 1
    assert [line["number"] for line in read(out)[1]] == [0, 1, 2, 3]
    with pytest.raises(SystemExit):
        main(["--count", "4", "--seed", "9", "--out", str(out)])


def test_the_docs_say_what_the_results_say() -> None:
    """The stored campaign has every model, no fault, and the figures of the docs."""
    _, rows = read(RESULTS)
    found = totals(rows)
    assert [row["number"] for row in rows] == list(range(3000))
    assert not found["faults"]
    assert min(found["near"]["below"], found["near"]["above"]) >= 150
    assert found["near"]["below"] + found["near"]["above"] >= 300
    docs = " ".join((ROOT / "docs" / "certify.md").read_text().split())
    assert summary(found) in docs
