"""Can any one-layer, one-head model copy all strings up to a length?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proofs_check._results import output_directory
from proofs_check.claims import case_documents, decision_certificate
from theory import Decision
from theory import decide as _decide
from theory.signs import Signs
from theory.task import Relate


def decide(
    relation: str | Relate, a: int, b: int, length: int, signs: Signs = "any", *, out: Path | str | None = None
) -> Decision:
    """Decide whether a one-layer, one-head model with such positions can copy every string of length <= `length`.

    Args:
        relation: what a score may depend on: one of `theory.task.RELATIONS`, or a function of the query's and the
            key's position (row, column, index), whose values are tuples of integers.
        a, b: tokens before the string, and between it and its copy.
        length: the longest string.
        signs: of the votes of 0 and 1: any, opposite or equal.
        out: directory for the certificate, or the witness, which is checked in any case; none for a function of one's
            own, which the checker does not know.

    Returns:
        `possible` with a model as witness, or a few strings whose steps cannot all be right.

    Raises:
        InputError: an unknown relation, or numbers out of range.
        UndecidedError: neither was found.
        RejectedCertificateError: the independent checker does not accept what was found.

    Label: new. Method: exact.
    """
    decision = _decide(relation, a, b, length, signs)
    if callable(relation) and out is None:
        return decision
    with output_directory(None if out is None else Path(out)) as directory:
        decision_certificate(directory, decision_file(decision), decision)
    return decision


def decision_file(decision: Decision) -> str:
    """Name of its certificate."""
    layout = decision.layout
    return f"decide-{layout.relation}-a-{layout.a}-b-{layout.b}-length-{decision.length}-{decision.signs}.json"


def decision_document(decision: Decision, file: str | None) -> dict[str, Any]:
    """A decision as one JSON object; `file` is its certificate or witness, if it was kept."""
    return {
        "relation": decision.layout.relation,
        "a": decision.layout.a,
        "b": decision.layout.b,
        "length": decision.length,
        "signs": decision.signs,
        "possible": decision.possible,
        "witness" if decision.possible else "certificate": file,
        "cases": case_documents(decision.cases),
    }
