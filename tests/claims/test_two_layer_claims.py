"""Theorem 3.2 in reports and on the command line: decided as expected, certified, and refused in one line."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from copycert.command._main import cli, main
from proofs_check.claims import Claim, _theorem_3_2
from proofs_check.claims._theorem_3_2 import TwoLayerParameters, two_layer_claims, two_layer_universal_claims
from proofs_check.documents import RejectedCertificateError
from proofs_check.verify import verify_file

FIELDS = {"status", "length", "length_lower", "length_upper", "limit", "exceeds_limit", "witness"}
FIELDS |= {"proved_to", "fails_at", "exact", "provenance"}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Claim]]:
    out = tmp_path_factory.mktemp("two-layer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_theorem_3_2, "SHARP", (("sharp", 8), ("shared", 1)))
        tasks = [
            *two_layer_universal_claims(out),
            *two_layer_claims(TwoLayerParameters(Fraction(20000), 2, 3, out)),
        ]
        return out, [task() for task in tasks]


@pytest.mark.slow
def test_every_claim_is_decided_as_expected(report: tuple[Path, list[Claim]]) -> None:
    _, claims = report
    assert [claim.id for claim in claims if claim.status != claim.expected] == []
    assert {claim.id for claim in claims if claim.status == "REFUTED"} == {"3.2/repeated-anchors"}
    assert len({claim.id for claim in claims}) == len(claims) == 10


@pytest.mark.slow
def test_every_claim_has_certificates_that_the_checker_accepts(report: tuple[Path, list[Claim]]) -> None:
    out, claims = report
    kinds = set()
    for claim in claims:
        names = [*claim.figures.get("certificates", []), *([claim.certificate] if claim.certificate else [])]
        assert names, claim.id
        for name in names:
            assert verify_file(out / name).accepted
            kinds.add(json.loads((out / name).read_text())["kind"])
    assert kinds == {
        "weights-norm", "two-layer-length", "two-layer-counterexample", "two-layer-wrong-step", "anchor-curve-lemma",
        "two-layer-all-budgets", "plane-curve-ceiling", "attention-share-ceiling",
    }  # fmt: skip


def test_a_length_beyond_the_counterexample_is_rejected(report: tuple[Path, list[Claim]]) -> None:
    out, claims = report
    sharp = next(claim for claim in claims if claim.id == "3.2/length/sharp-8")
    document = json.loads((out / str(sharp.certificate)).read_text())
    assert document["claim"]["length"] == sharp.figures["copies_up_to"] < sharp.figures["fails_at"]
    document["claim"]["length"] = sharp.figures["fails_at"]
    forged = out / "forged.json"
    forged.write_text(json.dumps(document))
    assert not verify_file(forged).accepted


def test_a_claim_whose_certificate_is_rejected_is_not_made(
    report: tuple[Path, list[Claim]], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, _ = report
    monkeypatch.setattr(_theorem_3_2, "LEMMA_FACTOR", 50)
    monkeypatch.setattr(_theorem_3_2, "_buildable", lambda *_: None)
    budget = TwoLayerParameters(Fraction(20000), 2, 3, out / "broken")
    assert _theorem_3_2._lemma(budget).status == "NOT_APPLICABLE"
    claim = _theorem_3_2._all_budgets(out / "broken")
    assert claim.status == "UNDECIDED" and claim.certificate is None
    with pytest.raises(RejectedCertificateError):
        _theorem_3_2._certificate(out / "x.json", "plane-curve-ceiling", {"rho": "20000"}, {}, {"fails_at": 1000})


def test_a_budget_that_is_too_small_is_not_applicable(tmp_path: Path) -> None:
    claims = [task() for task in two_layer_claims(TwoLayerParameters(Fraction(5), 1, 2, tmp_path))]
    judged = {claim.id: claim.status for claim in claims}
    assert judged["3.2/lemma"] == judged["3.2/all-strings"] == judged["3.2/norm"] == "NOT_APPLICABLE"
    assert all(claim.figures["reason"] for claim in claims if claim.status == "NOT_APPLICABLE")


def bound(*arguments: str) -> tuple[dict[str, Any], int]:
    done = CliRunner().invoke(cli, ["bound", "two-layer", *arguments, "--json"])
    return json.loads(done.stdout), done.exit_code


@pytest.mark.slow
def test_bound_two_layer_prints_the_fields_of_bound_grid() -> None:
    document, code = bound("--rho", "20000")
    assert code == 0 and set(document) == FIELDS
    assert document["length_lower"] >= 40_389 and document["length_lower"] < document["length_upper"]
    assert document["witness"]["length"] == document["length_upper"] + 1
    small, code = bound("--rho", "60", "--variant", "sharp", "--beyond-theorem", "--full-witness")
    assert code == 0 and small["status"] == "PROVED"
    assert small["length"] == small["length_lower"] == small["length_upper"] == small["witness"]["length"] - 1
    assert len(small["witness"]["string"]) == small["witness"]["length"]
    trained, code = bound("--rho", "20000", "--variant", "trained-layout")
    assert code == 0 and trained["witness"] is None and trained["length_lower"] > 3 * 10**7


def test_bound_two_layer_for_people() -> None:
    done = CliRunner().invoke(cli, ["bound", "two-layer", "--rho", "20000", "--variant", "shared", "--pairs", "2"])
    assert done.exit_code == 0
    assert "PROVED: every string of every length <= " in done.output and "Witness: all 0 but symbol" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rho", "10000"], "rho = 10000: must be greater than 10^4 (Theorem 3.2); --beyond-theorem"),
        (["--rho", "-1"], "rho = -1: must be a number > 0"),
        (["--rho", "20000", "--a", "1"], "a = 1: must be an integer >= 2"),
        (["--rho", "20000", "--b", "1"], "b = 1: must be an integer >= 2"),
        (["--rho", "20000", "--variant", "best"], "variant = best: must be one of paper, sharp, shared"),
        (["--rho", "20000", "--variant", "trained-layout", "--a", "3"], "the trained layout only"),
        (["--rho", "20000", "--variant", "sharp", "--pairs", "99"], "pairs = 99: must be at most 48"),
    ],
)
def test_bad_input_is_told_in_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["bound", "two-layer", *arguments])
    captured = capsys.readouterr()
    assert caught.value.code == 2 and captured.out == ""
    assert message in captured.err and captured.err.count("\n") == 1
