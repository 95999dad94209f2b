"""What `certify` answers: one result for one head, for several heads and for the criterion `half`."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Int64

from constructions import Replay
from proofs_check.certify._subject import Subject
from theory.numbers import spelled_at_least
from theory.one_layer import CertifiedHalf, CertifiedHead, CertifiedHeads, Place, StepCase, Tree, WorstStep
from theory.task import Status

Criterion = Literal["argmax", "half"]


@dataclass(frozen=True)
class Question:
    """What is asked of a model.

    Attributes:
        subject: the model.
        max_length: every string of every length up to it.
        criterion: argmax (no other logit is as large as the right one's), or half (its probability is above 1/2).
    """

    subject: Subject
    max_length: int
    criterion: Criterion = "argmax"


@dataclass(frozen=True, kw_only=True)
class Certified:
    """What was decided about all strings of all lengths up to `question.max_length`, for the model as stored.

    Attributes:
        question: what was asked.
        status: PROVED (all are copied), REFUTED (`witness` is not) or UNDECIDED.
        proved_to: every string of every length up to it is copied, proved.
        fails_at: the length of the witness; a shorter one may exist unless it is proved_to + 1.
        worst: the step that fails, or the one with the least logit difference found.
        margin_below: a proved lower bound of all logit differences, if one was found.
        thresholds: by case one logit difference a head, exact; empty where the certificate needs none.
        bounded_to: lengths up to it are proved by the thresholds (or, with none, by the least sums themselves).
        trees: proofs by branching of the lengths from there to proved_to, in units of 2^(unit - 44).
        odds: the sum of the competitors' odds at the worst step, if that is what refutes `half`.
        replay: the witness in torch, as stored and in float64.
        search: what was found up to a cap beyond max_length, if a limit was asked for.
        method: float+bound, and ball if anything was decided in balls.
        remark: how it was decided.
        seconds: time that it took.
    """

    question: Question
    status: Status
    proved_to: int
    fails_at: int | None
    worst: WorstStep
    margin_below: float | None
    thresholds: dict[StepCase, list[Fraction]] = field(default_factory=dict)
    bounded_to: int = 0
    trees: dict[Place, Tree] = field(default_factory=dict)
    unit: int = 0
    odds: float | None = None
    replay: Replay | None = None
    search: Certified | None = None
    method: str = "float+bound"
    remark: str = ""
    seconds: float = 0.0

    @property
    def margin(self) -> float:
        """The least logit difference over all strings up to max_length, or of the string that fails, as found."""
        return self.worst.ratio

    @property
    def witness(self) -> Int64[np.ndarray, " n"] | None:
        """A string that is not copied, at step `worst.step`."""
        return self.worst.string if self.status == "REFUTED" else None

    @property
    def limit(self) -> int | None:
        """The largest length up to which every string is copied, if it was looked for and found exactly."""
        return self.search.proved_to if self.search and self.search.exact else None

    @property
    def exact(self) -> bool:
        """Is `proved_to` the largest length up to which every string is copied?"""
        return self.fails_at == self.proved_to + 1

    def write(self, directory: Path | str) -> Path | None:
        """Write certificate and weights into a directory, made if missing; the path of the certificate.

        The independent checker accepts it first. None where there is nothing that the checker could prove.

        Raises:
            InputError: the directory holds results of another model or question, or cannot be made.
            RejectedCertificateError: the checker does not accept the certificate.
        """
        from proofs_check.certify._certificate import write_certified

        written = write_certified(Path(directory), self)
        return None if written.file is None else Path(directory) / written.file

    def document(self, *, full_witness: bool = False) -> dict[str, Any]:
        """The JSON object that `copycert certify --json` prints."""
        from proofs_check.certify._words import certified_document

        return certified_document(self, full_witness=full_witness)

    def __repr__(self) -> str:
        asked = f"{self.question.subject.name}, {self.question.criterion}, max_length={self.question.max_length}"
        found = f"proved_to={self.proved_to}, fails_at={self.fails_at}, margin={self.margin:.6g}"
        limit = "" if self.search is None else f", limit={self.limit}"
        return f"<Certified {self.status}: {asked}; {found}{limit}; method {self.method}>"


def of_head(question: Question, found: CertifiedHead) -> Certified:
    """The answer of one head by arg-max."""
    return Certified(
        question=question, status=found.status, proved_to=found.proved_to, fails_at=found.fails_at, worst=found.worst,
        margin_below=found.margin_below, bounded_to=found.proved_to, method=_method(found),
    )  # fmt: skip


def of_heads(question: Question, found: CertifiedHeads) -> Certified:
    """The answer of several heads."""
    return Certified(
        question=question, status=found.status, proved_to=found.proved_to, fails_at=found.fails_at, worst=found.worst,
        margin_below=found.margin_below, thresholds={case: list(values) for case, values in found.thresholds.items()},
        bounded_to=found.bounded_to, trees=found.trees, unit=found.unit, remark=found.remark,
    )  # fmt: skip


def of_half(question: Question, found: CertifiedHalf) -> Certified:
    """The answer by the criterion `half`."""
    remark = found.remark
    if found.competing is not None:
        remark += f"; up to length {found.bounded_to} that is at most {spelled_at_least(found.competing, 3)}"
    if found.odds is not None:
        remark += f"; the right output's probability there is {1 / (1 + found.odds):.6g}"
    return Certified(
        question=question, status=found.status, proved_to=found.proved_to, fails_at=found.fails_at, worst=found.worst,
        margin_below=found.argmax.margin_below if found.status == "PROVED" else None,
        thresholds={case: [value] for case, value in found.thresholds.items()}, bounded_to=found.bounded_to,
        trees=found.trees, unit=found.unit, odds=found.odds, method=_method(found.argmax), remark=remark,
    )  # fmt: skip


def _method(found: CertifiedHead) -> str:
    return "float+bound, ball" if found.balls else "float+bound"
