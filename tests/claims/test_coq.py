"""The cases that Coq checks are those of the certificates; they cancel by the library's own count too."""

import random
import re
import shutil
from pathlib import Path

import pytest

from proofs_check.claims import KernelError
from proofs_check.claims._coq import COQ, run_kernel
from proofs_check.claims._coq import cases_in_coq as cases_in_coq_file
from proofs_check.claims._theorem_3_1 import shift_claims
from theory import InputError
from theory.signs import THEOREM_3_1, Case, Certificate, check_certificate
from theory.signs._certificate import RejectedError, balance

CASES = (Path(__file__).parents[2] / "proofs_check" / "coq" / "Cases.v").read_text(encoding="utf-8")
NAMES = {"opposite-signs": "cases_opposite", "any-signs": "cases_any", "b-1": "cases_one_token"}


def cases_in_coq(name: str) -> list[tuple[str, int, int]]:
    """The triples of a `Definition name : ... := [...]` of Cases.v."""
    body = re.search(rf"Definition {name} [^\[]*:=\s*\[(.*?)\]\.", CASES, re.DOTALL)
    assert body is not None
    triples = re.findall(r'\(bits "([01]+)", (\d+), (\d+)\)', body[1])
    assert len(triples) == body[1].count("bits")
    return [(string, int(step), int(multiplier)) for string, step, multiplier in triples]


@pytest.mark.parametrize(("certificate", "definition"), NAMES.items())
def test_the_same_cases_stand_in_coq_and_in_the_certificates(certificate: str, definition: str) -> None:
    cases = [(case.string, case.step, case.multiplier) for case in THEOREM_3_1[certificate].cases]
    assert cases == cases_in_coq(definition)
    check_certificate(THEOREM_3_1[certificate])


@pytest.mark.parametrize("name", NAMES)
def test_any_change_of_the_cases_is_rejected(name: str) -> None:
    certificate = THEOREM_3_1[name]
    for index, case in enumerate(certificate.cases):
        for changed in (None, Case(case.string, case.step, 2), Case(case.string, max(1, case.step - 1), 1)):
            cases = (*certificate.cases[:index], *([changed] if changed else []), *certificate.cases[index + 1 :])
            with pytest.raises(RejectedError):
                check_certificate(Certificate(certificate.layout, certificate.votes, cases, False, False))


@pytest.mark.parametrize("name", NAMES)
def test_the_cases_cancel_for_random_token_lists_that_may_hold_zero_and_one(name: str) -> None:
    generator = random.Random(3)
    for _ in range(60):
        prefix = [generator.randrange(6) for _ in range(generator.randrange(10))]
        infix = [generator.randrange(6) for _ in range(1 if name == "b-1" else generator.randrange(10))]
        left = balance(THEOREM_3_1[name].cases, "shift", prefix, infix, None)
        # Opposite signs leave h(0, 1, 1) - h(0, 0, 1), negative as 1 votes for 1 and 0 for 0; the others leave nothing.
        expected = {(0, 1, (1,)): 1, (0, 0, (1,)): -1} if name == "opposite-signs" else {}
        assert left == expected


def test_the_eight_cases_do_not_cancel_for_two_tokens() -> None:
    assert balance(THEOREM_3_1["b-1"].cases, "shift", [4], [5, 6], None)


def test_the_parser_of_the_command_reads_the_same_cases() -> None:
    for name, definition in NAMES.items():
        assert cases_in_coq_file(definition) == THEOREM_3_1[name].cases
    assert cases_in_coq_file("cases_of_nothing") == ()


coq = pytest.mark.skipif(shutil.which("coqc") is None, reason="no Coq on this machine; CI has it")


def edited_copy(directory: Path, file: str, old: str, new: str) -> Path:
    """The proofs with one edit."""
    copy = directory / "coq"
    shutil.copytree(COQ, copy)
    text = (copy / file).read_text(encoding="utf-8")
    assert old in text
    (copy / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    return copy


def test_other_cases_than_the_certificates_are_not_called_kernel_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/" + name)
    copy = edited_copy(tmp_path, "Cases.v", '(bits "0101", 2, 1)', '(bits "0101", 3, 1)')
    with pytest.raises(KernelError, match=r"cases_any in Cases\.v has other cases"):
        run_kernel(copy)


@pytest.mark.slow
@coq
@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("Cases.v", "Definition cases_opposite", "Definition cases_opposed", "has other cases"),
        ("Impossibility.v", "Qed.", "Admitted.", "a word that could let in an unproved statement"),
        ("Cancellation.v", "Qed.", "Defined. Definition x : 0 = 1 := eq_refl.", "does not compile"),
    ],
)
def test_edited_proofs_are_refused(tmp_path: Path, file: str, old: str, new: str, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        run_kernel(edited_copy(tmp_path, file, old, new))


@pytest.mark.slow
def test_claims_are_labelled_kernel_only_in_a_run_that_ran_coq(tmp_path: Path) -> None:
    for kernel, method in (("The Coq Proof Assistant, version 8.16.1", "kernel"), (None, "exact")):
        claims = [task() for task in shift_claims(tmp_path, kernel)]
        assert [claim.method for claim in claims] == ["exact", method, method, method]
        assert all(("in this run" in claim.statement) == (kernel is not None) for claim in claims[1:])


def test_the_answer_of_the_proof_check_is_what_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make coq` runs the proofs themselves; here its script is replaced by ones that succeed and fail."""
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/" + name)
    copy = edited_copy(tmp_path, "check.sh", "set -eu", "set -eu")
    (copy / "check.sh").write_text("echo The Coq Proof Assistant, version 8.16.1; echo all theorems hold")
    assert run_kernel(copy) == "The Coq Proof Assistant, version 8.16.1"
    (copy / "check.sh").write_text("echo compiled; echo FAILED: a proof >&2; exit 1")
    with pytest.raises(KernelError, match="FAILED: a proof"):
        run_kernel(copy)


def test_without_coq_the_option_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(InputError, match=r"--kernel = no coqc: must be used where Coq 8.16 is installed"):
        run_kernel()
