"""The cases that Coq checks are those of the certificates; they cancel by the library's own count too."""

import random
import re
from pathlib import Path

import pytest

from theory import THEOREM_3_1, Case, Certificate, RejectedError, balance, check_certificate

CASES = (Path(__file__).parents[1] / "proofs_check" / "coq" / "Cases.v").read_text(encoding="utf-8")
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
