"""The forged certificates in small: a checker that forgets something accepts one; what is called true is true."""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import accumulate
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

from benchmarks import certify_forged
from benchmarks._campaign import read
from benchmarks._forging import BITS, Certificate, Truth, alibi_slopes_of, is_true
from benchmarks.certify_forged import (
    NEAR_UNITS,
    Checked,
    Forged,
    category,
    check,
    checked,
    faults_of,
    forged,
    main,
    record,
    totals,
    write,
)
from benchmarks.certify_hostile import engine_model
from benchmarks.results._tables import RESULTS
from engine import alibi_slopes
from proofs_check.certify import Subject, certify, save, write_certified
from proofs_check.verify.one_layer import _branching, _copies, _model
from proofs_check.verify.reading import ball, working_precision
from tests.models.every_string import slow_differences

pytestmark = pytest.mark.slow

#: Of every kind, and for each of the mutants below one that it accepts.
NUMBERS = (*range(8), 13, 19, 20, 22, 31, 41, 48, 52, 58, 61, 62, 75, 110, 123, 142, 146, 168, 204, 280, 286)


@cache
def example(number: int) -> Forged:
    return forged(number)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The certificates, written once."""
    result = {number: tmp_path_factory.mktemp(f"forged{number}") for number in NUMBERS}
    for number, folder in result.items():
        write(example(number), folder)
    return result


def accepted(folders: dict[int, Path]) -> Iterator[int]:
    """The false certificates that the checker accepts."""
    for number, folder in folders.items():
        one = example(number)
        if one.true is False and checked(folder / "forged.json").accepted:
            yield number


def test_no_false_certificate_is_accepted_and_most_true_ones_are(folders: dict[int, Path]) -> None:
    assert list(accepted(folders)) == []
    true = [checked(folders[number] / "forged.json").accepted for number in NUMBERS if example(number).true]
    assert len(true) >= 4 and sum(map(bool, true)) >= 0.7 * len(true)


def test_a_line_has_no_fault_and_both_sides_of_0_occur() -> None:
    rows = [record(number) for number in (1, 6)]
    found = totals(rows)
    assert not found["faults"] and found["false_accepted"] == 0
    assert found["near"]["below"] and found["near"]["above"]


# --- mutants --------------------------------------------------------------------------------------------------------

votes, copied, begun = _copies.Checker._votes, _copies.Checker.require_copied, _copies.Checker.__init__
exceeds, read_file = _branching._Ratio.exceeds, _model.read_weights_file
difference, odds = _copies.logit_difference, _copies.sum_of_odds


def a_little_less(self: Any, head: int, case: Any) -> dict[int, arb]:
    """Thresholds lowered by 2^-60 of themselves before they are compared."""
    found = votes(self, head, case)
    with working_precision(320):
        off = arb(2) ** -60 * (abs(ball(self.thresholds[case][head])) if self.thresholds else 0)
        return {token: vote + off for token, vote in found.items()}


def of_any_digest(directory: Path, reference: Any) -> Any:
    digest = hashlib.sha256((directory / reference["file"]).read_bytes()).hexdigest()
    return read_file(directory, {**reference, "sha256": digest})


def positive_in_the_middle(self: Any, symbol: int, votes: Any, only: int | None) -> bool:
    with working_precision(self.bits):
        before, after = self._sums(symbol, votes)
        rest = after if only is not None else list(accumulate(after, arb.min))
        return all(value.mid() > 0 for value in map(add, before, reversed(rest[: self.free + 1])))


def with_half_the_cases(self: Any, *arguments: Any) -> None:
    begun(self, *arguments)
    self.cases = [case for case in self.cases if case.symbol == 0]


Mutant = tuple[Any, str, Callable[..., Any]]

MUTANTS: dict[str, Mutant] = {
    "no error term": (_copies.Terms, "error", lambda *_: 0),
    "thresholds a little lower": (_copies.Checker, "_votes", a_little_less),
    "thresholds not taken off": (_copies.Checker, "_votes", lambda self, head, case: self.plain_votes(head, case)),
    "thresholds not added up": (_copies.Checker, "_require_thresholds", lambda *_: None),
    "middles of balls": (_copies.BallTerms, "all_positive", positive_in_the_middle),
    "one length too few": (
        _copies.Checker, "require_copied", lambda self, length, how: length > 1 and copied(self, length - 1, how)
    ),
    "half of the cases": (_copies.Checker, "__init__", with_half_the_cases),
    "a leaf a little lower": (_branching._Ratio, "exceeds", lambda self, at, known: exceeds(self, at - 2, known)),
    "leaves that settle nothing": (_branching._Step, "_enough", lambda *_: True),
    "strings not looked at": (_branching._Step, "_require_string", lambda *_: None),
    "any digest": (_model, "read_weights_file", of_any_digest),
    "a difference a little lower": (_copies, "logit_difference", lambda *a: difference(*a) - arb(2) ** -90),
    "odds a little higher": (_copies, "sum_of_odds", lambda *a: odds(*a) + arb(2) ** -90),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_of_the_checker_accepts_a_false_certificate(
    name: str, folders: dict[int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*MUTANTS[name])
    number = next(accepted(folders), None)
    assert number is not None
    found = replace(checked(folders[number] / "forged.json"), digest="")
    assert faults_of(example(number), found) == ["a false certificate accepted"]


def test_a_check_that_breaks_or_never_ends_is_a_fault(
    folders: dict[int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, path = example(0), folders[0] / "forged.json"

    def broken(*_: object) -> None:
        raise KeyError(1)

    def endless(*_: object) -> None:
        while True:
            pass

    monkeypatch.setattr(_copies.Checker, "require_copied", broken)
    assert faults_of(one, checked(path)) == ["traceback within the check"]
    monkeypatch.setattr(certify_forged, "PATIENCE", 1)
    monkeypatch.setattr(_copies.Checker, "require_copied", endless)
    assert faults_of(one, checked(path)) == ["unfinished"]
    monkeypatch.setattr(certify_forged, "verify_file", broken)
    assert faults_of(one, checked(path)) == ["traceback KeyError"]


def test_a_statement_about_other_weights_is_a_fault() -> None:
    found = check(example(0))
    assert found.accepted and faults_of(example(0), found) == []
    assert faults_of(example(0), replace(found, digest="0" * 64)) == ["a statement about other weights"]
    assert faults_of(example(0), Checked(False, "wrong")) == []


# --- what is true ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heads", range(1, 8))
def test_slopes_are_those_of_the_engine(heads: int) -> None:
    assert alibi_slopes_of(heads) == tuple(map(Fraction, alibi_slopes(heads)))


def test_three_heads_with_alibi_are_the_model_that_is_judged() -> None:
    assert not record(596)["faults"]


def test_a_certificate_is_a_function_of_seed_and_number() -> None:
    one, same, other = forged(13), example(13), forged(13, seed=1)
    assert one.certificate == same.certificate and np.array_equal(one.plain.key, same.plain.key)
    assert one.certificate != other.certificate or one.plain.key.shape != other.plain.key.shape


def test_ratios_add_up_to_differences_from_the_definition() -> None:
    chosen = [example(number) for number in NUMBERS]
    for one in [next(one for one in chosen if one.kind == kind) for kind in ("one head", "heads", "half")]:
        truth = Truth(one.plain, min(2, one.longest), one.criterion)
        for step in truth.steps[:: max(1, len(truth.steps) // 4)]:
            string = [(step.string >> j) & 1 for j in range(step.length)]
            slow = slow_differences(one.plain, string, step.step, BITS)
            with ctx.workprec(BITS):
                for at, competitor in enumerate(step.competitors):
                    case = (step.query, step.step == 1, step.symbol, competitor)
                    added = sum(step.ratios[at], truth.direct(case))
                    assert added.overlaps(slow[at]) and step.differences[at].overlaps(slow[at])


def test_what_the_verifier_certifies_is_called_true(tmp_path: Path) -> None:
    """One head, several heads and half; the kinds of certificate that it writes."""
    kinds = set()
    for number in (1, 6, 8, 13, 19, 31, 41, 58, 75, 123):
        one = example(number) if number in NUMBERS else forged(number)
        model, template = engine_model(certify_forged._asked(one, one.plain))
        outcome = certify(Subject(model, None, template, f"m{number}"), one.longest, one.criterion)
        written = write_certified(tmp_path / str(number), outcome).file
        if written is None:
            continue
        document = json.loads((tmp_path / str(number) / written).read_text())
        certificate = Certificate(document["kind"], {"unit": 0, **document["evidence"]}, document["claim"])
        fails = certificate.claim.get("fails_at")
        if fails is not None and fails > 6:
            continue
        truth = Truth(one.plain, max(one.longest, fails or 0), one.criterion)
        if one.criterion == "argmax" or one.plain.final_gain is None or "trees" not in document["evidence"]:
            assert is_true(truth, certificate) is True, number
            kinds.add((one.kind, document["kind"]))
    assert {kind for kind, _ in kinds} == {"one head", "heads", "half"} and len(kinds) >= 4


def test_a_unit_is_the_checker_s_own_rounding_bound_at_least(tmp_path: Path) -> None:
    one = next(one for one in map(example, NUMBERS) if one.kind == "one head" and 0 < abs(one.units) <= NEAR_UNITS)
    truth = Truth(one.plain, one.longest, "argmax")
    step = truth.worst(one.longest)
    model, template = engine_model(certify_forged._asked(one, one.plain))
    digest = save(model, tmp_path / "w.safetensors", template)
    inputs = {"weights": {"file": "w.safetensors", "sha256": digest}}
    checker = _copies.Checker(_model.read_one_layer(tmp_path, inputs), {})
    competitor = min(zip(step.differences, step.competitors, strict=True), key=lambda pair: float(pair[0].mid()))[1]
    case = _copies.Case(step.query, step.step == 1, step.symbol, competitor)
    sight = next(s for s in checker.sights_of(one.longest) if (s.query, s.first) == (case.query, case.first))
    terms = _copies.Sums(checker.model, 0, sight, one.longest).terms
    assert terms is not None
    with working_precision(320):
        integers = _copies.integer_votes(checker.plain_votes(0, case))
    bound = terms.error(integers.largest) * 2.0**integers.unit / terms.met
    assert 1 <= bound / float(truth.unit(step)) < 1.5


def test_the_factor_of_a_final_norm_is_the_checker_s(tmp_path: Path) -> None:
    one = next(one for one in map(forged, range(60)) if one.kind == "half" and one.plain.final_gain is not None)
    model, template = engine_model(certify_forged._asked(one, one.plain))
    digest = save(model, tmp_path / "w.safetensors", template)
    read_model = _model.read_one_layer(tmp_path, {"weights": {"file": "w.safetensors", "sha256": digest}})
    with ctx.workprec(BITS):
        assert Truth(one.plain, 1, "half").factor.overlaps(read_model.least_factor)


def test_equal_reasons_are_counted_together() -> None:
    first = category(f"the weights file w has SHA-256 {'0a' * 32}, not '{'1b' * 32}'")
    assert first == category(f"the weights file w has SHA-256 {'f3' * 32}, not '{'29' * 32}'")
    assert category("step 3 of length 12") == category("step 1 of length 5")


def test_a_run_is_gone_on_with_and_a_fault_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, fine = tmp_path / "lines.jsonl", record(13)
    monkeypatch.setattr(certify_forged, "record", lambda number, seed: {**fine, "number": number})
    assert main(["--count", "3", "--out", str(out)]) == 0
    wrong = ["a false certificate accepted"]
    monkeypatch.setattr(certify_forged, "record", lambda number, seed: {**fine, "number": number, "faults": wrong})
    assert main(["--count", "3", "--out", str(out)]) == 0
    assert main(["--count", "4", "--out", str(out)]) == 1
    assert [line["number"] for line in read(out)[1]] == [0, 1, 2, 3]
    with pytest.raises(SystemExit):
        main(["--count", "4", "--seed", "9", "--out", str(out)])


def test_the_stored_campaign_has_no_fault_and_many_near_ties() -> None:
    _, rows = read(RESULTS / "certify_forged.jsonl")
    found = totals(rows)
    assert [row["number"] for row in rows] == list(range(len(rows)))
    assert not found["faults"] and found["false_accepted"] == 0
    assert len(rows) >= 3000 and min(found["near"]["below"], found["near"]["above"]) >= 300
    for kind in ("one head", "heads", "half"):
        assert found["near"][kind]["true"] and found["near"][kind]["false"]
