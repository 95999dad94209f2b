"""Theorem 3.1: what one layer with shift-invariant positions can and cannot copy. Its claims do not depend on rho."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from constructions import build_shift_copier, forced_answers
from proofs_check.claims._claim import Claim, Task
from proofs_check.documents import write_certificate
from theory import Decision, InputError, decide
from theory.numbers import Label, describe
from theory.signs import THEOREM_3_1, Certificate, Layout, check_certificate
from theory.task import RELATIONS, all_strings

THEOREM = "3.1"

INDEPENDENT = "does not depend on rho"

#: The theorem's statement, in the words of the table.
IMPOSSIBLE = "not all n <= 5"

#: Label, signs and condition of each corrected form.
CORRECTED: dict[str, tuple[Label, str, str]] = {
    "opposite-signs": ("paper", "opposite", "every b, if 0 votes for 0 and 1 for 1"),
    "any-signs": ("new", "any", "every b, whatever the tokens vote for"),
    "b-1": ("new", "any", "b = 1, whatever the tokens vote for"),
}


def shift_claims(out: Path, kernel: str | None = None) -> list[Task]:
    """The printed theorem under our reading, and its corrected forms.

    Args:
        out: directory for the certificates.
        kernel: the version of Coq that has checked the proofs in this run, or None.
    """
    about = "as printed, any signs and b >= 2: no shift layer copies all strings up to 5"
    printed = Task("3.1/printed", THEOREM, about, partial(_printed, out))
    return [printed, *(_corrected(out, name, kernel) for name in CORRECTED)]


def _corrected(out: Path, name: str, kernel: str | None) -> Task:
    _, _, condition = CORRECTED[name]
    about = f"no shift layer copies all up to {THEOREM_3_1[name].length}: {condition}"
    return Task(f"3.1/{name}", THEOREM, about, partial(_impossible, out, name, kernel))


def decision_certificate(out: Path, name: str, decision: Decision) -> str:
    """Write the certificate or the witness of a decision, accepted by the checker; returns the file's name."""
    layout, signs, length = decision.layout, decision.signs, decision.length
    if decision.witness is None:
        return _write_cancellation(out, name, layout, signs, length, decision.certificates)
    weights = [
        {"query": key.query, "key": key.token, "relation": list(key.relation), "weight": weight}
        for key, weight in decision.witness.weights.items()
    ]
    evidence = {"votes": dict(decision.witness.votes), "weights": weights}
    write_certificate(out / name, "sign-witness", _inputs(layout, signs), evidence, {"length": length})
    return name


def _write_cancellation(
    out: Path, name: str, layout: Layout, signs: str, length: int, certificates: Sequence[Certificate]
) -> str:
    parts = [{"votes": dict(part.votes), "cases": case_documents(part.cases)} for part in certificates]
    write_certificate(out / name, "sign-cancellation", _inputs(layout, signs), {"parts": parts}, {"length": length})
    return name


def _inputs(layout: Layout, signs: str) -> dict[str, Any]:
    if layout.relation not in RELATIONS:
        raise InputError("relation", layout.relation, "for a certificate one that the checker knows by its name")
    return {"relation": layout.relation, "a": layout.a, "b": layout.b, "signs": signs}


def case_documents(cases: Any) -> list[dict[str, Any]]:
    """Cases of a certificate as JSON."""
    return [{"string": case.string, "step": case.step, "multiplier": case.multiplier} for case in cases]


def _impossible(out: Path, name: str, kernel: str | None) -> Claim:
    label, signs, condition = CORRECTED[name]
    certificate = THEOREM_3_1[name]
    check_certificate(certificate)
    file = f"theorem-3-1-{name}.json"
    return Claim(
        id=f"3.1/{name}",
        theorem=THEOREM,
        label=label,
        method="exact" if kernel is None else "kernel",
        status="PROVED",
        expected="PROVED",
        statement="No one-layer, one-head model with shift-invariant positions copies every binary string of length <= "
        f"{certificate.length}, for every a and {condition}, whatever the tokens A and B are. "
        f"({'Kernel-checked in CI' if kernel is None else 'Kernel-checked in this run'}: proofs_check/coq.)",
        figures={"cases": case_documents(certificate.cases), "rho": INDEPENDENT, "kernel": kernel or "in CI"},
        certificate=_write_cancellation(out, file, certificate.layout, signs, certificate.length, [certificate]),
        printed=IMPOSSIBLE if label == "paper" else "-",
        ours=f"not all n <= {certificate.length}",
    )


def _printed(out: Path) -> Claim:
    copier = build_shift_copier(2, 3, 5, "equal")
    wrong = sum(
        int((forced_answers(copier.model, copier.task, all_strings(n)) != all_strings(n)).any(axis=1).sum())
        for n in range(1, 6)
    )
    decision = decide("shift", 2, 3, 5, "equal")
    refuted = decision.possible and not wrong and bool(copier.margin() > 0)
    return Claim(
        id="3.1/printed",
        theorem=THEOREM,
        label="paper",
        method="exact",
        status="REFUTED" if refuted else "UNDECIDED",
        expected="REFUTED",
        statement="Theorem 3.1 as printed, for b >= 2 and without a condition on signs, under our reading (its "
        "definitions are missing and may exclude the model): no one-layer model with shift-invariant positions copies "
        "every binary string of length <= 5.",
        figures={
            "witness": {
                "a": 2,
                "b": 3,
                "signs": "equal",
                "d": copier.d,
                "frequencies": len(copier.distinct_frequencies),
            },
            "margin_of_the_stored_weights": describe(copier.margin()),
            "torch_replay": {"strings": 62, "strings_wrong": wrong},
            "rho": INDEPENDENT,
        },
        certificate=decision_certificate(out, "theorem-3-1-printed.json", decision) if decision.possible else None,
        printed=IMPOSSIBLE,
        ours="all n <= 5, b = 3" if refuted else "-",
    )
