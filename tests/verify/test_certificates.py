"""Tampering with real certificates: what an edit changes is judged by code other than the checker's."""

import copy
import itertools
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import fmpz_mat

from constructions import GridCopier, load_grid_copier
from proofs_check.claims import CheckParameters
from proofs_check.claims._check import run_check
from proofs_check.verify import verify_file
from tests._commands import Report
from theory import base_grid_frequencies, draw_grid_frequencies, exact_length, prove_failure_probability
from theory.grid import (
    SeparationCertifier,
    cosine_constant,
    cosine_step_excess,
    failure_bound,
    norm_ceiling,
    step_weights,
)
from theory.grid._separation import SeparationBasis, reduce_separation_lattice, separation_generators
from theory.numbers import fixed_point_turns, working_precision
from theory.signs import Case, Certificate, Layout, Unknown, Witness, check_certificate
from theory.signs._certificate import check_witness

EDITS = 500


@pytest.fixture(scope="module")
def out(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of every kind, at small sizes so that five hundred re-checks are quick."""
    directory = tmp_path_factory.mktemp("certificates")
    for file in report.certificates("14401"):
        shutil.copy(file, directory)
    for rho, d in ((6, 8), (2, 24)):
        parameters = CheckParameters((Fraction(rho),), d=d, draws=1, beyond_theorem=True, only=("4.1",))
        run_check(parameters, directory / str(d))
        for file in (directory / str(d) / "certificates").iterdir():
            file.replace(directory / file.name)
    return directory


def documents(out: Path) -> dict[str, dict[str, Any]]:
    """All but those that tests/theory/minimisers/ and test_verify_two_layer.py tamper with."""
    paths = [path for path in sorted(out.glob("*.json")) if not path.name.startswith(("theorem-4-2", "two-layer"))]
    return {path.name: json.loads(path.read_text()) for path in paths}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all values in a document, containers too."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], (*path, key))
    elif isinstance(value, list):
        for index in range(len(value)):
            yield from leaves(value[index], (*path, index))


def edited(document: dict[str, Any], generator: random.Random) -> dict[str, Any]:
    """A copy with one random edit: a value changed, removed, added, swapped or retyped."""
    changed = copy.deepcopy(document)
    path = generator.choice([p for p in leaves(document) if p])
    # Lists of big integers would draw nearly all edits to themselves.
    crowded = {"basis", "weights"} if "relation" in document["inputs"] else {"basis"}
    if crowded & set(path) and generator.random() < 0.7:
        path = generator.choice([p for p in leaves(document) if p and not crowded & set(p)])
    place = changed
    for key in path[:-1]:
        place = place[key]
    key, old = path[-1], place[path[-1]]
    choices = [
        lambda: generator.choice([None, True, 1.5, [], {}, "", "x", 0, -1, 1, 2**70]),
        lambda: changed_value(old, generator),
    ]
    if isinstance(place, dict) and generator.random() < 0.15:
        if generator.random() < 0.5:
            del place[key]
        else:
            place[generator.choice(["note", "comment", "length", "schema2"])] = old
        return changed
    place[key] = choices[generator.random() < 0.75]()
    return changed


def changed_value(old: Any, generator: random.Random) -> Any:
    if isinstance(old, bool) or old is None:
        return not old
    if isinstance(old, int):
        return old + generator.choice([-3, -2, -1, 1, 2, 3, old, -2 * old])
    if isinstance(old, str):
        try:
            number = Fraction(old)
            return str(
                number * generator.choice([Fraction(1, 2), 2, Fraction(99, 100), Fraction(101, 100), -1])
                + generator.choice([0, 0, 1, -1])
            )
        except ValueError:
            position = generator.randrange(len(old)) if old else 0
            return old[:position] + generator.choice("0aZ/.") + old[position + 1 :]
    if isinstance(old, list):
        return generator.choice([old[:-1], old + old[-1:], list(reversed(old)), old[1:]])
    return {}


def integer(value: Any) -> int:
    return int(value)


def true_by_other_code(document: dict[str, Any], out: Path) -> bool:
    """Is the claim of an accepted certificate true, judged by the library's own routes and not by the checker's?"""
    inputs, claim, kind = document["inputs"], document["claim"], document["kind"]
    judge = JUDGES[kind]
    return judge(inputs, document["evidence"], claim, out)


def copier_of(inputs: dict[str, Any], out: Path) -> GridCopier:
    return load_grid_copier(out / inputs["weights"]["file"])


def judge_norm(inputs: Any, evidence: Any, claim: Any, out: Path) -> bool:
    bound = Fraction(claim["norm_at_most"])
    return bound >= 0 and copier_of(inputs, out).square_norm() <= bound**2


def judge_separation(inputs: Any, evidence: Any, claim: Any, out: Path) -> bool:
    score = copier_of(inputs, out).score()
    basis = tuple(tuple(integer(entry) for entry in row) for row in evidence["basis"])
    lattice = SeparationBasis(integer(evidence["bits"]), integer(evidence["weight"]), basis)
    return spans(lattice, score.frequencies.column) and SeparationCertifier(score, lattice).certifies(
        integer(claim["length"])
    )


def spans(lattice: SeparationBasis, column: Any) -> bool:
    """Every generator lies in the lattice: adding the generators changes no Hermite normal form."""
    rows = [list(row) for row in lattice.basis]
    generators = separation_generators(column, lattice.bits, lattice.weight)
    alone, together = fmpz_mat(rows).hnf().tolist(), fmpz_mat(rows + generators).hnf().tolist()
    return alone == together[: len(rows)] and not any(any(row) for row in together[len(rows) :])


def judge_scan(inputs: Any, evidence: Any, claim: Any, out: Path) -> bool:
    found = exact_length(copier_of(inputs, out).score(), 10**6)
    upper = claim["fails_at"]
    fails = found.fails.length if found.fails else None
    return integer(claim["copies_up_to"]) <= found.lower and (
        upper is None or (fails is not None and integer(upper) >= fails)
    )


def judge_counterexample(inputs: Any, evidence: Any, claim: Any, out: Path) -> bool:
    string = np.full(integer(claim["length"]), integer(claim["background"]), dtype=np.int64)
    for flip in claim["flips"]:
        string[integer(flip) - 1] ^= 1
    weights = step_weights(copier_of(inputs, out).score(), string, integer(claim["step"]))
    return bool(weights.right <= weights.wrong)


def judge_probability(inputs: Any, evidence: Any, claim: Any, out: Path) -> bool:
    # No d below 112 satisfies d >= 100 + 4a + 4b with a >= 1, b >= 2, and d is a multiple of 4.
    least = max(112, -(-integer(inputs["d_least"]) // 4) * 4)
    return prove_failure_probability(Fraction(inputs["exponent"]), inputs["budget"], least) is not None


def judge_probability_at(inputs: Any, evidence: Any, claim: Any, out: Path) -> bool:
    sizes = (integer(inputs[name]) for name in ("d", "a", "b"))
    bound = failure_bound(integer(claim["length"]), Fraction(inputs["rho"]), *sizes, inputs["budget"])
    at_most = Fraction(claim["failure_at_most"])
    with working_precision(256):
        return bool(bound * at_most.denominator <= at_most.numerator) or at_most >= 1


def judge_lemma(inputs: Any, evidence: Any, claim: Any, out: Path) -> bool:
    constant = Fraction(claim["constant"])
    return bool(cosine_constant(Fraction(inputs["delta_below"])) * constant.denominator <= constant.numerator)


def judge_step(inputs: Any, evidence: Any, claim: Any, out: Path) -> bool:
    delta = Fraction(claim["delta"])
    return 0 < delta < Fraction(1, 10) and bool(cosine_step_excess(delta) > 0)


def judge_ceiling(inputs: Any, evidence: Any, claim: Any, out: Path) -> bool:
    # The library's own Q is the least one, so any larger true claim lies above its ceiling.
    return integer(claim["fails_at"]) >= norm_ceiling(integer(inputs["d"]), Fraction(inputs["rho"])).fails_at


def decision_parts(inputs: Any, evidence: Any) -> list[Certificate]:
    layout = Layout(inputs["relation"], inputs["a"], inputs["b"])
    return [
        Certificate(
            layout,
            tuple(sorted((name, integer(vote)) for name, vote in part["votes"].items())),
            tuple(Case(case["string"], integer(case["step"]), integer(case["multiplier"])) for case in part["cases"]),
            False,
            False,
        )
        for part in evidence["parts"]
    ]


def judge_cancellation(inputs: Any, evidence: Any, claim: Any, out: Path) -> bool:
    """Each part by the library's check; the parts must leave no sign of the votes open; no string beyond the length."""
    parts = decision_parts(inputs, evidence)
    for part in parts:
        check_certificate(part)
    named = sorted({name for part in parts for name, _ in part.votes} | {"0", "1"})
    choices = [dict(zip(named, signs, strict=True)) for signs in itertools.product((1, -1), repeat=len(named))]
    allowed = {"any": lambda v: True, "opposite": lambda v: v["0"] == 1 == -v["1"], "equal": lambda v: v["0"] == v["1"]}
    open_votes = [votes for votes in choices if allowed[inputs["signs"]](votes)]
    covered = all(any(dict(part.votes).items() <= votes.items() for part in parts) for votes in open_votes)
    return covered and max(part.length for part in parts) <= integer(claim["length"])


def judge_witness(inputs: Any, evidence: Any, claim: Any, out: Path) -> bool:
    votes = {name: integer(vote) for name, vote in evidence["votes"].items()}
    weights = {
        Unknown(entry["query"], entry["key"], tuple(integer(part) for part in entry["relation"])): integer(
            entry["weight"]
        )
        for entry in evidence["weights"]
    }
    layout = Layout(inputs["relation"], inputs["a"], inputs["b"])
    margin = check_witness(Witness(layout, integer(claim["length"]), votes, weights, Fraction(0)))
    signs_as_said = {"any": True, "opposite": votes["0"] == 1 == -votes["1"], "equal": votes["0"] == votes["1"]}
    return margin > 0 and signs_as_said[inputs["signs"]]


JUDGES = {
    "sign-cancellation": judge_cancellation,
    "sign-witness": judge_witness,
    "weights-norm": judge_norm,
    "grid-separation": judge_separation,
    "grid-scan": judge_scan,
    "grid-counterexample": judge_counterexample,
    "failure-probability": judge_probability,
    "failure-probability-at": judge_probability_at,
    "cosine-lemma": judge_lemma,
    "cosine-step-counterexample": judge_step,
    "dirichlet-ceiling": judge_ceiling,
}


@pytest.mark.slow
def test_the_certificates_at_hand_are_of_every_kind_and_true(out: Path) -> None:
    found = documents(out)
    assert {document["kind"] for document in found.values()} == set(JUDGES)
    for name, document in found.items():
        assert verify_file(out / name).accepted
        assert true_by_other_code(document, out)


@pytest.mark.slow
def test_five_hundred_single_edits_are_rejected_or_leave_a_true_claim(out: Path) -> None:
    generator = random.Random(20000)
    originals = documents(out)
    outcomes = {"same": 0, "rejected": 0, "accepted and true": 0}
    by_kind: dict[str, int] = {}
    names = sorted(originals)
    for number in range(EDITS):
        name = names[number % len(names)]
        document = edited(originals[name], generator)
        if document == originals[name] and json.dumps(document) == json.dumps(originals[name]):
            outcomes["same"] += 1
            continue
        path = out / "edited.certificate"
        path.write_text(json.dumps(document))
        verdict = verify_file(path)
        if not verdict.accepted:
            assert verdict.reason and "\n" not in verdict.reason
            outcomes["rejected"] += 1
            continue
        assert set(document) == {"schema", "kind", "inputs", "evidence", "claim"}
        assert true_by_other_code(document, out), document
        outcomes["accepted and true"] += 1
        by_kind[document["kind"]] = by_kind.get(document["kind"], 0) + 1
    assert outcomes["rejected"] > EDITS // 2
    # Weaker claims are accepted, so the classification above was put to work.
    assert outcomes["accepted and true"] > 10 and len(by_kind) >= 4


@pytest.mark.slow
def test_claims_just_beyond_the_evidence_are_rejected_and_weaker_ones_accepted(out: Path) -> None:
    for name, document in documents(out).items():
        kind, claim = document["kind"], document["claim"]
        stronger, weaker = copy.deepcopy(document), copy.deepcopy(document)
        if kind == "grid-separation":
            stronger["claim"]["length"] = str(int(claim["length"]) * 2)
            weaker["claim"]["length"] = 10**6
        elif kind == "weights-norm":
            stronger["claim"]["norm_at_most"] = str(Fraction(claim["norm_at_most"]) * Fraction(999_999, 1_000_000))
            weaker["claim"]["norm_at_most"] = str(Fraction(claim["norm_at_most"]) + 1)
        elif kind == "failure-probability-at":
            stronger["claim"]["failure_at_most"] = str(Fraction(claim["failure_at_most"]) / 2)
            weaker["claim"]["length"] = 1
        elif kind == "dirichlet-ceiling":
            stronger["claim"]["fails_at"] = str(int(claim["fails_at"]) - 1)
            weaker["claim"]["fails_at"] = str(int(claim["fails_at"]) + 1)
        elif kind == "cosine-lemma":
            stronger["claim"]["constant"] = "0.4539"
            weaker["claim"]["constant"] = "0.4540"
        elif kind == "grid-scan":
            length = exact_length(copier_of(document["inputs"], out).score()).length
            assert length is not None
            stronger["claim"] |= {"copies_up_to": length + 1, "fails_at": None}
            weaker["claim"] |= {"copies_up_to": length, "fails_at": length + 1}
        else:
            continue
        for variant, accepted in ((stronger, False), (weaker, True)):
            path = out / "variant.certificate"
            path.write_text(json.dumps(variant))
            assert verify_file(path).accepted is accepted, (name, variant["claim"])


@pytest.mark.slow
def test_a_basis_of_another_lattice_or_of_a_sublattice_is_rejected(out: Path) -> None:
    document = next(d for d in documents(out).values() if d["kind"] == "grid-separation")
    bits, weight = int(document["evidence"]["bits"]), int(document["evidence"]["weight"])
    rows = [[int(entry) for entry in row] for row in document["evidence"]["basis"]]

    def accepted(basis: list[list[int]]) -> bool:
        path = out / "basis.certificate"
        path.write_text(
            json.dumps(
                document
                | {"evidence": {"bits": bits, "weight": weight, "basis": [[str(e) for e in row] for row in basis]}}
            )
        )
        return verify_file(path).accepted

    assert accepted(rows)
    assert accepted([rows[1], rows[0], *rows[2:]])
    assert accepted([[x + y for x, y in zip(rows[0], rows[1], strict=True)], *rows[1:]])
    assert not accepted([[2 * entry for entry in rows[0]], *rows[1:]])  # a sublattice
    assert not accepted([[rows[0][0] + 1, *rows[0][1:]], *rows[1:]])  # another lattice
    assert not accepted([rows[0], rows[0], *rows[2:]])  # dependent
    # The true lattice of other frequencies, reduced just as well.
    other = reduce_separation_lattice(draw_grid_frequencies(120, 99, 99).column, bits, weight)
    assert not accepted([list(row) for row in other.basis])


def test_a_moved_weight_is_refused_by_its_hash_and_judged_anew_with_a_new_one(out: Path) -> None:
    name, document = next((n, d) for n, d in documents(out).items() if d["kind"] == "grid-separation")
    weights = out / document["inputs"]["weights"]["file"]
    copier = load_grid_copier(weights)
    copier.model.block(0).attention.query.weight.data[100, 0] *= -1.0
    moved = out / "moved.safetensors"
    digest = copier.save(moved)
    for inputs in (
        {"file": moved.name, "sha256": document["inputs"]["weights"]["sha256"]},
        {"file": moved.name, "sha256": digest},
    ):
        path = out / "moved.certificate"
        path.write_text(json.dumps(document | {"inputs": {"weights": inputs}}))
        verdict = verify_file(path)
        assert not verdict.accepted
    assert verify_file(out / name).accepted


@pytest.mark.slow
def test_the_checker_runs_isolated_and_optimised(out: Path) -> None:
    files = [str(path) for path in sorted(out.glob("*.json"))]
    command = [sys.executable, "-I", "-O", "-m", "proofs_check.verify", "--json", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(entry["accepted"] for entry in json.loads(done.stdout)["files"])
    heavy = {"torch", "scipy", "sympy", "numpy", "theory", "engine", "constructions"}
    code = f"import sys, proofs_check.verify; print(sorted({{m.split('.')[0] for m in sys.modules}} & {heavy}))"
    loaded = subprocess.run([sys.executable, "-I", "-O", "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"


def test_rounded_frequencies_cannot_move_the_lattice_unseen() -> None:
    """The integers of the lattice are within one unit of the exact frequencies, for each unit of frequency."""
    for frequency in base_grid_frequencies(Fraction(10000), 16).column:
        with working_precision(400):
            turns = frequency.turns()
            assert abs(fixed_point_turns(frequency, 100) - (turns - turns.floor()) * 2**100) <= 1


@pytest.mark.parametrize("name", ["w) copies all strings; and, for x.st", "a b.safetensors", "../w.safetensors", ""])
def test_a_weights_file_s_name_cannot_read_as_a_statement(out: Path, name: str) -> None:
    """The name stands in the statement, so only letters, digits and . _ - are let in, even where the file exists."""
    document = next(d for d in documents(out).values() if d["kind"] == "weights-norm")
    weights = document["inputs"]["weights"]
    if name and "/" not in name:
        (out / name).write_bytes((out / weights["file"]).read_bytes())
    path = out / "named.certificate"
    path.write_text(json.dumps(document | {"inputs": {"weights": weights | {"file": name}}}))
    verdict = verify_file(path)
    assert not verdict.accepted and verdict.reason is not None and "not a file name" in verdict.reason
