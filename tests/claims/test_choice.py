"""Claims by name: only those asked for are made, none under another name, and a report is made again from its file."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from proofs_check.claims import CheckParameters, Claim, _check, claim_list, reported_parameters, run_report
from proofs_check.claims._check import tasks_of
from proofs_check.claims._claim import Task, three_digits
from theory import InputError

RHO = (Fraction(20000),)

CLAIM = Claim("3.1/x", "3.1", "new", "exact", "PROVED", "PROVED", "It is so.")

#: Claims that take no time.
QUICK = ("3.1/b-1", "4.1/ceiling", "4.1/cosine")


def ids(only: tuple[str, ...]) -> list[str]:
    return [task.id for task in claim_list(only)]


def test_a_name_chooses_its_claim_or_those_that_begin_so() -> None:
    everything = ids(())
    assert len(everything) == len(set(everything)) == 35
    assert ids(("3.2",)) == [name for name in everything if name.startswith("3.2/")]
    assert ids(("4.1/probability/three-tokens/rho^(7d/20)",)) == ["4.1/probability/three-tokens/rho^(7d/20)"]
    # An id chooses itself and not those that go on from there.
    assert ids(("3.2/length/shared-1",)) == ["3.2/length/shared-1"]
    assert ids(("3.2/length/sh",)) == [name for name in everything if name.startswith("3.2/length/")]
    # In the order of the report, whatever the order of the names, and none twice.
    assert ids(("4.1/ceiling", "3.1", "3.1/b-1")) == [*everything[:4], "4.1/ceiling"]


@pytest.mark.parametrize("name", ["", "nope", "3.3", "/ceiling", "4.1/ceiling/", "3.1/PRINTED", " 3.1"])
def test_a_name_of_no_claim_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"only = .*: must be the id of a claim, .* 3\.1, 3\.2, 4\.1, 4\.2; --list"):
        CheckParameters(RHO, only=("3.1", name))


def test_every_theorem_is_that_of_its_id() -> None:
    for task in claim_list():
        assert task.id.startswith(f"{task.theorem}/") and "\n" not in task.about and len(task.about) < 80


def test_other_claims_are_not_computed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    began: list[str] = []
    monkeypatch.setattr(_check, "_all_tasks", recorded(_check._all_tasks, began))
    claims, _ = run_report(CheckParameters(RHO, draws=1, only=("3.1/b-1", "4.1/ceiling")), tmp_path)
    assert began == [claim.id for claim in claims] == ["3.1/b-1", "4.1/ceiling"]
    assert len(list((tmp_path / "certificates").glob("*.json"))) == 2


def recorded(tasks: Callable[..., list[Task]], began: list[str]) -> Callable[..., list[Task]]:
    """The tasks, each writing down its id when it is run."""

    def noted(task: Task) -> Task:
        return replace(task, run=lambda: began.append(task.id) or task.run())  # type: ignore[func-returns-value]

    return lambda *arguments: [noted(task) for task in tasks(*arguments)]


def test_coq_is_run_only_for_its_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []
    monkeypatch.setattr(_check, "run_kernel", lambda: runs.append("run") or "Coq")
    for only, count in ((("4.1/ceiling",), 0), (("4.1/ceiling", "3.1/b-1"), 1)):
        claims, _ = run_report(CheckParameters(RHO, kernel=True, only=only))
        assert len(runs) == count
    assert [claim.method for claim in claims] == ["kernel", "ball"]


def test_progress_counts_the_draws_that_are_made() -> None:
    assert CheckParameters(RHO, draws=3).ticks == 6
    assert CheckParameters((Fraction(20000), Fraction(30000)), draws=3, only=("4.1/draws/all",)).ticks == 6
    assert CheckParameters(RHO, only=("4.1/norm",)).ticks == 0


@pytest.mark.parametrize("wrong", [replace(CLAIM, id="3.1/y"), replace(CLAIM, theorem="3.2")])
def test_no_claim_is_made_under_another_name(wrong: Claim) -> None:
    made = Task("3.1/x", "3.1", "it is so", lambda: CLAIM, Fraction(7, 2))()
    assert (made.id, made.rho) == ("3.1/x", "7/2") and made.seconds >= 0
    with pytest.raises(RuntimeError, match=r"the task 3\.1/x of Theorem 3\.1 decided"):
        Task("3.1/x", "3.1", "it is so", lambda: wrong)()


def test_ids_do_not_depend_on_the_number_of_budgets() -> None:
    one, two = tasks_of(CheckParameters(RHO)), tasks_of(CheckParameters((*RHO, Fraction(30000))))
    assert {task.id for task in one} == {task.id for task in two}
    assert len({(task.id, task.rho) for task in two}) == len(two) == 53
    assert [task for task in two if task.rho is None and task.id not in {t.id for t in one if t.rho is None}] == []


def test_the_short_texts_round_to_the_safe_side() -> None:
    assert three_digits(Fraction(2, 3), up=True) == "0.667" and three_digits(Fraction(2, 3), up=False) == "0.666"
    assert three_digits(1.2345e-7, up=False) == "1.23e-07" and three_digits(1.2345e-7, up=True) == "1.24e-07"
    assert three_digits(2, up=True) == three_digits(2, up=False) == "2"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("report") / "out"
    parameters = CheckParameters((Fraction(20001), Fraction(41001, 2)), 3, 4, 132, 1, 5, 1025, only=QUICK)
    return out, run_report(parameters, out)[1]


def of_itself(document: dict[str, Any]) -> list[tuple[Any, ...]]:
    names = ("id", "rho", "status", "statement", "printed", "ours", "certificate")
    return [tuple(claim[name] for name in names) for claim in document["claims"]]


def test_a_report_made_again_from_its_file_is_the_same(report: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    out, document = report
    parameters = reported_parameters(out / "check.json")
    again = run_report(parameters, tmp_path)[1]
    assert again["provenance"]["parameters"] == document["provenance"]["parameters"]
    assert of_itself(again) == of_itself(document) and len(again["claims"]) == 1 + 2 + 2
    for file in (out / "certificates").iterdir():
        assert (tmp_path / "certificates" / file.name).read_bytes() == file.read_bytes()
    # In its own directory it goes on with its own results.
    assert of_itself(run_report(parameters, out)[1]) == of_itself(document)


def test_every_parameter_is_read_back(tmp_path: Path) -> None:
    for parameters in (
        CheckParameters(RHO),
        CheckParameters((Fraction(7, 3), Fraction(2)), 3, 4, 8, 5, 6, 1030, beyond_theorem=True, kernel=True),
        CheckParameters(RHO, only=("4.2", "3.1")),
    ):
        (tmp_path / "r.json").write_text(json.dumps(_check.check_document(parameters, [])))
        read = reported_parameters(tmp_path / "r.json")
        assert read.document() == parameters.document()
        assert replace(read, only=()) == replace(parameters, d=parameters.dimension, only=())


def test_a_report_from_before_claims_could_be_chosen_is_of_all(tmp_path: Path) -> None:
    document = _check.check_document(CheckParameters(RHO), [])
    del document["provenance"]["parameters"]["only"]
    (tmp_path / "old.json").write_text(json.dumps(document))
    assert reported_parameters(tmp_path / "old.json").only == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"draws": "2"}, "there draws is '2'"),
        ({"draws": True}, "there draws is True"),
        ({"kernel": 1}, "there kernel is 1"),
        ({"rho": 20000}, "there rho is 20000"),
        ({"rho": [20000]}, r"there rho is \[20000\]"),
        ({"rho": ["x"]}, "rho = x: must be a finite decimal"),
        ({"rho": []}, "rho = none"),
        ({"only": "3.1"}, "there only is '3.1'"),
        ({"only": ["5"]}, "only = 5: must be the id of a claim"),
        ({"draws": 0}, "draws = 0"),
        ({"extra": 0}, "its parameters are rho, a, .*extra"),
    ],
)
def test_parameters_that_are_none_are_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    document = _check.check_document(CheckParameters(RHO), [])
    document["provenance"]["parameters"] |= change
    (tmp_path / "r.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=words):
        reported_parameters(tmp_path / "r.json")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it does not say what it is of"),
        ("[]", "it does not say what it is of"),
        ("{}", "it does not say what it is of"),
        ('{"provenance": {"command": "check"}}', "it does not say what it is of"),
        ('{"provenance": {"command": "check", "parameters": 3}}', "it does not say what it is of"),
        ('{"provenance": {"command": "check", "parameters": {}}}', "its parameters are none"),
        ('{"provenance": {"command": "floats", "parameters": {}}}', "it is of `copycert floats`"),
        ("[" * 100_000, "it does not say what it is of"),
    ],
)
def test_what_is_no_report_of_a_check_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(InputError, match=f"must be a report of `copycert check`: .*{words}"):
        reported_parameters(tmp_path / "r.json")
    with pytest.raises(InputError, match="No such file"):
        reported_parameters(tmp_path / "nowhere.json")
