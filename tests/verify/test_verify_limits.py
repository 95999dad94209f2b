"""Contrived certificates: each ends in a rejection that names the limit, and none in an accident."""

import json
import random
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from flint import ctx

from constructions import build_grid_copier, build_two_layer_copier
from proofs_check.verify import verify_file
from proofs_check.verify.minimisers._gap import relations_of
from proofs_check.verify.reading import _work, spell
from proofs_check.verify.two_layer import read_two_layer_model
from proofs_check.verify.two_layer._anchor_curve import source_curve, working_bits
from proofs_check.verify.two_layer._form import read_form
from theory import GridFrequencies, Turn, draw_grid_frequencies

LIMIT = "undecided: the check takes more work than its limit"

Document = dict[str, Any]


def document(kind: str, inputs: Document, evidence: Document, claim: Document) -> Document:
    return {"schema": 1, "kind": kind, "inputs": inputs, "evidence": evidence, "claim": claim}


def grid_weights(folder: Path, turn: Fraction, pairs: int) -> Document:
    """A grid copier whose column frequencies are all close to this one."""
    turns = tuple(Turn(turn + Fraction(f, 10**9)) for f in range(pairs))
    frequencies = GridFrequencies(tuple(Turn(Fraction(1, 3)) for _ in range(pairs)), turns)
    copier = build_grid_copier(6, 4 * pairs, 2, 3, frequencies)
    return {"weights": {"file": "w.safetensors", "sha256": copier.save(folder / "w.safetensors")}}


def many_columns(folder: Path) -> Document:
    """A table of phases for each of 500 frequencies."""
    inputs = grid_weights(folder, Fraction(1, 7), 500)
    return document("grid-scan", inputs, {}, {"copies_up_to": 2_000_000, "fails_at": None})


def many_keys(folder: Path) -> Document:
    inputs = grid_weights(folder, Fraction(1, 10**12), 20)
    claim = {"length": 2_000_000, "background": 0, "flips": [7], "step": 1_000_000}
    return document("grid-counterexample", inputs, {}, claim)


def equal_gap(_folder: Path) -> Document:
    """Gaps that are rational numbers: a claim of equality, which no precision decides, for 1024 pairs an axis."""
    frequencies = {"unit": "turn", "row": ["1/6"] * 1024, "column": ["1/3"] * 1024}
    inputs = {"frequencies": frequencies, "length": 128, "asker": "any"}
    flat = {"row": [["1/2", "0"]] * 1024, "column": [["0", "0"]] * 1024}
    evidence = {**flat, "multipliers": [[0, 0, 1]]}
    return document("minimiser-gap", inputs, evidence, {"at_least": "-256", "at_most": "10000"})


def many_terms(_folder: Path) -> Document:
    frequencies = {"unit": "turn", "row": ["1/6"] * 1024, "column": ["1/3"] * 1024}
    inputs = {"frequencies": frequencies, "length": 128, "bound": "1", "queries": "tied"}
    relations = relations_of("any", 128)
    costs = [["any", "mean", row, column, "1"] for row, column in relations]
    evidence = {"wish": "1/1000000", "costs": costs, "same": costs}
    return document("minimiser-loss", inputs, evidence, {"excess_at_least": "0"})


def many_cases(_folder: Path) -> Document:
    cases = [{"string": "01" * 200, "step": 400, "multiplier": 1}] * 1000
    parts = [{"votes": {"0": 1, "1": -1}, "cases": cases}] * 30
    inputs = {"relation": "hirope", "a": 64, "b": 64, "signs": "opposite"}
    return document("sign-cancellation", inputs, {"parts": parts}, {"length": 400})


def many_votes(_folder: Path) -> Document:
    """Parts that cancel and cover nothing new: every choice of signs is compared with each."""
    votes = {"0": -1, "1": 1, **{f"A_{k}": 1 for k in range(1, 15)}}
    cases = [{"string": s, "step": 1, "multiplier": 1} for s in ("0", "1")]
    parts = [{"votes": votes, "cases": cases}] * 4096
    inputs = {"relation": "nope", "a": 14, "b": 1, "signs": "any"}
    return document("sign-cancellation", inputs, {"parts": parts}, {"length": 4})


def two_layers(folder: Path) -> Document:
    copier = build_two_layer_copier(300, beyond_theorem=True)
    return {"weights": {"file": "t.safetensors", "sha256": copier.save(folder / "t.safetensors")}}


def least_slope(folder: Path) -> Document:
    """A step that is the slope at one end to hundreds of digits: no piece there, however short, is decided."""
    inputs = two_layers(folder)
    form = read_form(read_two_layer_model(folder, inputs))
    length = 10
    with ctx.workprec(4000):
        curve = source_curve(form)
        value = curve.derivatives(length, 2)
        slope = -value[1] / (2 * value[0].cosh())
        step = Fraction(int((slope * 2**3000).floor().unique_fmpz()), 2**3000)
    assert working_bits(form, length, 1 / step) < 2000
    return document("two-layer-length", inputs, {"step_at_least": spell(step)}, {"length": length})


def numbers_without_common_factors(_folder: Path) -> Document:
    """Multipliers whose exact sum has as many digits as all of them together."""
    frequencies = {"unit": "turn", "row": ["1/6"], "column": ["1/3"]}
    inputs = {"frequencies": frequencies, "length": 128, "asker": "any"}
    draw = random.Random(0)
    weights = [spell(Fraction(1, draw.getrandbits(60_000) | 1)) for _ in range(250)]
    relations = relations_of("any", 128)
    multipliers = [[*relation, weight] for relation, weight in zip(relations, weights, strict=False)]
    evidence = {"row": [["1", "0"]], "column": [["1", "0"]], "multipliers": multipliers}
    return document("minimiser-gap", inputs, evidence, {"at_least": "0", "at_most": "2"})


def basis_of_nothing(folder: Path) -> Document:
    """Random numbers of 8192 bits for a basis: an exact solution has fractions of 250,000 bits."""
    copier = build_grid_copier(20000, 120, 2, 3, draw_grid_frequencies(120, 0, 0))
    inputs = {"weights": {"file": "w.safetensors", "sha256": copier.save(folder / "w.safetensors")}}
    draw = random.Random(0)
    basis = [[str(draw.getrandbits(8192)) for _ in range(31)] for _ in range(31)]
    evidence = {"bits": 8192, "weight": 1, "basis": basis}
    return document("grid-separation", inputs, evidence, {"length": "1000"})


CONTRIVED: dict[Callable[[Path], Document], str] = {
    many_columns: LIMIT,
    many_keys: LIMIT,
    equal_gap: LIMIT,
    many_terms: LIMIT,
    many_cases: LIMIT,
    many_votes: LIMIT,
    least_slope: "near a place where it holds with equality or nearly so",
    numbers_without_common_factors: "evidence.multipliers have more than 200000 bits together",
    basis_of_nothing: "a generator of the lattice is no integer combination",
}


@pytest.mark.slow
@pytest.mark.parametrize("contrived", CONTRIVED, ids=lambda contrived: contrived.__name__)
def test_contrived_certificates_are_rejected_before_long(
    contrived: Callable[[Path], Document], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A thirtieth of the limit, so that the test is short; without one each of these takes minutes to hours.
    monkeypatch.setattr(_work, "MOST_UNITS", _work.MOST_UNITS // 30)
    (tmp_path / "c.json").write_text(json.dumps(contrived(tmp_path)))
    start = time.process_time()
    verdict = verify_file(tmp_path / "c.json")
    assert CONTRIVED[contrived] in (verdict.reason or ""), verdict
    assert time.process_time() - start < 30


def test_a_reason_is_one_short_line_whatever_it_quotes(tmp_path: Path) -> None:
    big, odd = "9" * 19_999, "\u00e9\n\x1b[31m" + "x" * 100_000
    cases = [{"string": "0", "step": 1, "multiplier": big}]
    inputs = {"relation": "shift", "a": 2, "b": 3, "signs": "opposite"}
    weight = {"query": odd, "key": odd, "relation": [0], "weight": 1}
    votes = dict.fromkeys(("0", "1", "A_1", "A_2", "<n>", "B_2", "B_3"), 1) | {"1": -1}
    for contrived in (
        document("sign-cancellation", inputs, {"parts": [{"votes": {}, "cases": cases}]}, {"length": 1}),
        document("sign-cancellation", inputs, {"parts": [{"votes": {odd: 2}, "cases": cases}]}, {"length": 1}),
        document("sign-witness", inputs, {"votes": votes, "weights": [weight, weight]}, {"length": 1}),
        document("failure-probability", {"exponent": big, "budget": "paper", "d_least": 4}, {},
                 {"failure_numerator": "d", "failure_denominator": "rho"}),
    ):  # fmt: skip
        (tmp_path / "c.json").write_text(json.dumps(contrived))
        reason = verify_file(tmp_path / "c.json").reason
        assert reason and "broke off" not in reason and len(reason) <= 300, reason
        assert reason.isascii() and reason.isprintable(), reason


def test_work_is_counted_anew_for_each_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document_ = document("failure-probability", {"exponent": "1/12", "budget": "paper", "d_least": 112}, {},
                         {"failure_numerator": "d", "failure_denominator": "rho"})  # fmt: skip
    (tmp_path / "c.json").write_text(json.dumps(document_))
    monkeypatch.setattr(_work, "MOST_UNITS", 20_000)
    assert all(verify_file(tmp_path / "c.json").accepted for _ in range(50))
