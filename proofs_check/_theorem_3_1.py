"""Theorem 3.1: what one layer with shift-invariant positions can and cannot copy. Its claims do not depend on rho."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from constructions import build_shift_copier, forced_answers
from proofs_check._certificates import write_certificate
from proofs_check._claims import Claim
from theory import Decision, Label, all_strings, decide

THEOREM = "3.1"

INDEPENDENT = "does not depend on rho"


def shift_claims(out: Path) -> list[Callable[[], Claim]]:
    """The printed theorem under our reading, and its corrected forms."""
    corrected: tuple[tuple[str, int | None, int, str, Label, str], ...] = (
        ("opposite-signs", None, 5, "opposite", "paper", "for every a and b, if 0 votes for 0 and 1 for 1,"),
        ("any-signs", None, 6, "any", "new", "for every a and b, whatever the tokens vote for,"),
        ("b-1", 1, 5, "any", "reconstructed", "for every a and b = 1, whatever the tokens vote for,"),
    )
    return [partial(_printed, out), *(partial(_impossible, out, *row) for row in corrected)]


def decision_certificate(out: Path, name: str, decision: Decision) -> str:
    """Write the certificate or the witness of a decision, accepted by the checker; returns the file's name."""
    inputs = {
        "relation": decision.layout.relation,
        "a": decision.layout.a,
        "b": decision.layout.b,
        "signs": decision.signs,
    }
    kind = "sign-witness" if decision.possible else "sign-cancellation"
    write_certificate(out / name, kind, inputs, _evidence(decision), {"length": decision.length})
    return name


def _evidence(decision: Decision) -> dict[str, Any]:
    if decision.witness is not None:
        weights = [
            {"query": key.query, "key": key.token, "relation": list(key.relation), "weight": weight}
            for key, weight in decision.witness.weights.items()
        ]
        return {"votes": dict(decision.witness.votes), "weights": weights}
    parts = [{"votes": dict(part.votes), "cases": case_documents(part.cases)} for part in decision.certificates]
    return {"parts": parts}


def case_documents(cases: Any) -> list[dict[str, Any]]:
    """Cases of a certificate as JSON."""
    return [{"string": case.string, "step": case.step, "multiplier": case.multiplier} for case in cases]


def _impossible(out: Path, name: str, b: int | None, length: int, signs: str, label: Label, condition: str) -> Claim:
    decision = decide("shift", None, b, length, signs)
    certificate = None if decision.possible else decision_certificate(out, f"theorem-3-1-{name}.json", decision)
    return Claim(
        id=f"3.1/{name}",
        theorem=THEOREM,
        label=label,
        method="exact",
        status="UNDECIDED" if decision.possible else "PROVED",
        expected="PROVED",
        statement=f"No one-layer, one-head model with shift-invariant positions copies every binary string of length "
        f"<= {length}: {condition} and whatever the tokens A and B are.",
        figures={"cases": case_documents(decision.cases), "rho": INDEPENDENT},
        certificate=certificate,
    )


def _printed(out: Path) -> Claim:
    copier = build_shift_copier(2, 3, 5, "equal")
    wrong = sum(
        int((forced_answers(copier.model, copier.task, all_strings(n)) != all_strings(n)).any(axis=1).sum())
        for n in range(1, 6)
    )
    decision = decide("shift", 2, 3, 5, "equal")
    refuted = decision.possible and not wrong
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
            "witness": {"a": 2, "b": 3, "signs": "equal", "rope_frequencies": len(copier.model.frequencies[0].column)},
            "torch_replay": {"strings": 62, "strings_wrong": wrong},
            "rho": INDEPENDENT,
        },
        certificate=decision_certificate(out, "theorem-3-1-printed.json", decision) if decision.possible else None,
    )
