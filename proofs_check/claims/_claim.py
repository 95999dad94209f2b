"""What a claim is, and what a list of claims amounts to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, Literal

from proofs_check.documents import json_ready
from theory.numbers import Label, Method

Status = Literal["PROVED", "REFUTED", "UNDECIDED", "NOT_APPLICABLE"]


@dataclass(frozen=True)
class Claim:
    """One statement with its two labels and its outcome.

    Attributes:
        id: name of the claim; with rho it is unique within a report.
        theorem: the theorem or section that it belongs to.
        label: paper, reconstructed or new.
        method: kernel, exact, ball, float+bound or sampled.
        status: PROVED, REFUTED (with a witness among the figures), UNDECIDED or NOT_APPLICABLE.
        expected: the status expected, or None where either decision is as good.
        statement: the claim in one sentence.
        figures: numbers that go with it; large integers are decimal strings.
        certificate: name of the certificate file, or None.
        seconds: time that it took.
        printed: what the paper prints, in a few words; - for nothing.
        ours: what this run has, in a few words; - for nothing.
        rho: the norm budget, or None if the claim depends on none.
    """

    id: str
    theorem: str
    label: Label
    method: Method
    status: Status
    expected: Status | None
    statement: str
    figures: dict[str, Any] = field(default_factory=dict)
    certificate: str | None = None
    seconds: float = 0.0
    printed: str = "-"
    ours: str = "-"
    rho: str | None = None

    @property
    def as_expected(self) -> bool:
        """Was the claim decided as expected (or at all, where nothing is expected)?"""
        if self.status == "NOT_APPLICABLE":
            return True
        # Beyond a theorem nothing is expected, and what is only tried cannot be decided positively.
        decided = self.status != "UNDECIDED" or self.method == "sampled"
        return self.status == self.expected or (self.expected is None and decided)

    def document(self) -> dict[str, Any]:
        """The claim as a JSON object."""
        return {**asdict(self), "figures": json_ready(self.figures), "seconds": round(self.seconds, 3)}


@dataclass(frozen=True)
class Task:
    """A claim before it is decided.

    Attributes:
        id, theorem: those of the claim.
        about: what it says, in one line.
        run: decides it.
        rho: the norm budget, or None if the claim depends on none.
        ticks: how many draws `run` reports as it goes.
    """

    id: str
    theorem: str
    about: str
    run: Callable[[], Claim]
    rho: Fraction | None = None
    ticks: int = 0

    def __call__(self) -> Claim:
        """The claim, decided, with its norm budget and the time that it took.

        Raises:
            RuntimeError: `run` returns a claim of another name.
        """
        start = time.perf_counter()
        claim = self.run()
        if (claim.id, claim.theorem) != (self.id, self.theorem):
            raise RuntimeError(f"the task {self.id} of Theorem {self.theorem} decided {claim.id} of {claim.theorem}")
        rho = None if self.rho is None else str(self.rho)
        return replace(claim, rho=rho, seconds=time.perf_counter() - start)


def three_digits(value: float | Fraction, *, up: bool) -> str:
    """A number as text, rounded to three significant digits: up, or down."""
    exact = Fraction(value)
    context = Context(prec=3, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return f"{float(context.divide(Decimal(exact.numerator), Decimal(exact.denominator))):.3g}"


def exit_code(claims: Iterable[Claim]) -> int:
    """0 all decided as expected; 1 one decided otherwise; 3 an unexpected UNDECIDED; 2 no claim applies."""
    listed = list(claims)
    if all(claim.status == "NOT_APPLICABLE" for claim in listed):
        return 2
    surprising = [claim for claim in listed if not claim.as_expected]
    if any(claim.status != "UNDECIDED" for claim in surprising):
        return 1
    return 3 if surprising else 0
