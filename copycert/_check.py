"""Every claim for norm budgets, decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from proofs_check.claims import CheckParameters, Claim, exit_code, run_report
from theory.numbers import parse_rational


@dataclass(frozen=True)
class Report:
    """The claims of a check.

    Attributes:
        parameters: everything that they depend on.
        claims: each with its two labels, status and statement.
        document: the report as one JSON object, as it stands in check.json.
    """

    parameters: CheckParameters
    claims: tuple[Claim, ...]
    document: dict[str, Any]

    @property
    def as_expected(self) -> bool:
        """Was every claim decided as expected?"""
        return all(claim.as_expected for claim in self.claims)

    @property
    def exit_code(self) -> int:
        """0 all as expected; 1 one decided otherwise; 3 an unexpected UNDECIDED; 2 no claim applies."""
        return exit_code(self.claims)

    def claim(self, id: str) -> Claim:
        """The claim of that name; KeyError if there is none."""
        for claim in self.claims:
            if claim.id == id:
                return claim
        raise KeyError(id)

    def __repr__(self) -> str:
        counts = Counter(claim.status for claim in self.claims)
        told = ", ".join(f"{count} {status}" for status, count in counts.items())
        surprising = sum(not claim.as_expected for claim in self.claims)
        rhos = ", ".join(map(str, self.parameters.rhos[:4])) + ", ..." * (len(self.parameters.rhos) > 4)
        return f"<Report rho = {rhos}: {told}; {f'{surprising} not' if surprising else 'all'} as expected>"


def check(
    rho: int | str | Fraction | Iterable[int | str | Fraction],
    *,
    out: Path | str | None = None,
    tick: Callable[[], None] = lambda: None,
    **parameters: Any,
) -> Report:
    """Decide every claim of the four theorems for norm budgets, with certificates that the checker accepts.

    Args:
        rho: one norm budget or several, exact: integers, rationals, or decimals as text.
        out: directory for certificates, weights and check.json; goes on with what is there.
        tick: called after each draw.
        parameters: the others of `proofs_check.claims.CheckParameters`, such as a, b, d, draws, seed, bits.

    Raises:
        InputError: outside of the theorems' hypotheses, or a directory of another run.
        RejectedCertificateError: the independent checker does not accept a certificate that was just made.

    Cost: about 25 s for one norm budget.
    """
    several = rho if isinstance(rho, Iterable) and not isinstance(rho, str) else (rho,)
    asked = CheckParameters(tuple(parse_rational(value, "rho") for value in several), **parameters)
    claims, document = run_report(asked, None if out is None else Path(out), tick)
    return Report(asked, tuple(claims), document)
