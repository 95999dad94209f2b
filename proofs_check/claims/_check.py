"""`copycert check`: every claim for the norm budgets given, with certificates that the independent checker has
accepted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from engine import write_atomically
from proofs_check._results import claimed_directory, provenance
from proofs_check._results import output_directory as output_directory
from proofs_check.claims._claim import Claim, Task
from proofs_check.claims._coq import run_kernel
from proofs_check.claims._theorem_3_1 import shift_claims
from proofs_check.claims._theorem_3_2 import TwoLayerParameters, two_layer_claims, two_layer_universal_claims
from proofs_check.claims._theorem_4_1 import (
    BudgetParameters,
    budget_claims,
    require_enough_bits,
    require_theorem_range,
    theorem_d,
    universal_claims,
)
from proofs_check.claims._theorem_4_2 import MinimiserParameters, minimiser_claims
from theory import InputError
from theory.grid import require_two_after
from theory.numbers import require_at_least, require_pair_dimension

#: Where certificates and weights go below the output directory.
CERTIFICATES = "certificates"

REPORT = "check.json"

#: Each draw takes about a second, and has certificates of its own.
MOST_DRAWS = 10_000

#: The budget for which the claims are listed when none is given; their names depend on none.
ANY_BUDGET = Fraction(20000)

#: Theorem 4.2's claims take some seconds a draw; no more draws than this are made for them.
MINIMISER_DRAWS = 5


@dataclass(frozen=True)
class CheckParameters:
    """What to check.

    Attributes:
        rhos: norm budgets, at least one.
        a, b: layout, b >= 2.
        d: RoPE dimension, or None for the least multiple of 4 >= 100 + 4a + 4b.
        draws: frequency draws for each budget.
        seed: of the draws.
        bits: of the drawn frequencies, fractions of a turn.
        beyond_theorem: run outside the theorem's hypotheses too, labelled so.
        kernel: let Coq check its part on this machine, and label those claims so.
        only: the claims to make, each by its id or by how its id begins; () for all.
    """

    rhos: tuple[Fraction, ...]
    a: int = 2
    b: int = 3
    d: int | None = None
    draws: int = 20
    seed: int = 0
    bits: int = 1024
    beyond_theorem: bool = False
    kernel: bool = False
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_at_least("a", self.a, 1)
        require_two_after(self.b)
        require_at_least("draws", self.draws, 1)
        if self.draws > MOST_DRAWS:
            raise InputError("draws", self.draws, f"at most {MOST_DRAWS}: a draw takes about a second")
        require_at_least("seed", self.seed, 0)
        require_pair_dimension(self.dimension)
        if not self.rhos or len(set(self.rhos)) < len(self.rhos):
            raise InputError(
                "rho", " ".join(map(str, self.rhos)) or "none", "one norm budget or several different ones"
            )
        for rho in self.rhos:
            if rho <= 0:
                raise InputError("rho", str(rho), "a number > 0")
            require_theorem_range(rho, self.a, self.b, self.dimension, self.beyond_theorem)
            require_enough_bits(self.bits, rho, self.dimension)
        require_known_claims(self.only)

    @property
    def dimension(self) -> int:
        """The RoPE dimension in force."""
        return theorem_d(self.a, self.b) if self.d is None else self.d

    def for_budget(self, rho: Fraction, out: Path, tick: Callable[[], None]) -> BudgetParameters:
        """What to check for one norm budget."""
        return BudgetParameters(rho, self.a, self.b, self.dimension, self.draws, self.seed, self.bits, out, tick)

    def document(self) -> dict[str, Any]:
        """Everything that a report depends on; the dimension is that in force."""
        return {
            "rho": [str(rho) for rho in self.rhos],
            "a": self.a,
            "b": self.b,
            "d": self.dimension,
            "draws": self.draws,
            "seed": self.seed,
            "bits": self.bits,
            "beyond_theorem": self.beyond_theorem,
            "kernel": self.kernel,
            # None as in reports from before claims could be chosen.
            "only": sorted(set(self.only)) or None,
        }

    @property
    def ticks(self) -> int:
        """How often `tick` will be called: once a draw, norm budget and choice of embedded tokens."""
        return sum(task.ticks for task in tasks_of(self))


def run_check(
    parameters: CheckParameters, out: Path | None = None, tick: Callable[[], None] = lambda: None
) -> list[Claim]:
    """All claims, decided. Certificates and weights go to `out`; accepted certificates found there for the same weights
    are used again.

    Args:
        parameters: what to check.
        out: directory for `certificates/` (with the weights) and `check.json`; made if missing. None: a temporary one,
            and no certificate is named.
        tick: called after each draw.

    Raises:
        InputError: `out` is not a directory or holds a report of other parameters, or no Coq for `kernel`.
        OSError: `out` cannot be written.
        KernelError: Coq does not accept the proofs.
        RejectedCertificateError: the independent checker rejects a certificate that was just made.
    """
    return run_report(parameters, out, tick)[0]


def run_report(
    parameters: CheckParameters, out: Path | None = None, tick: Callable[[], None] = lambda: None
) -> tuple[list[Claim], dict[str, Any]]:
    """`run_check`'s claims, and the report on them as one JSON object, as it stands in `out`."""
    settings = parameters.document()
    with claimed_directory(out, "check", settings, (REPORT, CERTIFICATES)), output_directory(out) as directory:
        needs_kernel = parameters.kernel and any(task.theorem == "3.1" for task in tasks_of(parameters))
        tasks = tasks_of(parameters, directory / CERTIFICATES, run_kernel() if needs_kernel else None, tick)
        claims = [_located(task(), kept=out is not None) for task in tasks]
        document = check_document(parameters, claims)
        if out is not None:
            write_atomically(directory / REPORT, json.dumps(document, indent=1).encode())
        return claims, document


def claim_list(only: tuple[str, ...] = ()) -> list[Task]:
    """The claims that a check of one norm budget makes, undecided.

    Args:
        only: as in `CheckParameters`.

    Raises:
        InputError: no claim is called so.
    """
    return tasks_of(CheckParameters((ANY_BUDGET,), only=only))


def require_known_claims(only: tuple[str, ...]) -> None:
    """InputError for a name that is no claim's, nor how one begins."""
    ids = {task.id for task in _all_tasks(CheckParameters((ANY_BUDGET,)))} if only else set()
    for name in only:
        if not _called(name, ids):
            theorems = sorted({known.split("/")[0] for known in ids})
            allowed = f"the id of a claim, such as 4.1/ceiling, or how ids begin, such as {', '.join(theorems)}"
            raise InputError("only", name, f"{allowed}; --list prints all ids")


def _called(name: str, ids: set[str]) -> set[str]:
    """The claim of this name, or all whose names begin so."""
    return {name} if name in ids else {known for known in ids if name and known.startswith(name)}


def tasks_of(
    parameters: CheckParameters,
    certificates: Path = Path(),
    kernel: str | None = None,
    tick: Callable[[], None] = lambda: None,
) -> list[Task]:
    """The claims asked for, undecided, in the order of the report.

    Args:
        parameters: what to check.
        certificates: directory of the certificates and weights.
        kernel: the version of Coq that has checked the proofs in this run, or None.
        tick: called after each draw.
    """
    tasks = _all_tasks(parameters, certificates, kernel, tick)
    ids = {task.id for task in tasks}
    wanted = {known for name in parameters.only for known in _called(name, ids)} if parameters.only else ids
    return [task for task in tasks if task.id in wanted]


def _all_tasks(
    parameters: CheckParameters,
    certificates: Path = Path(),
    kernel: str | None = None,
    tick: Callable[[], None] = lambda: None,
) -> list[Task]:
    tasks = [
        *shift_claims(certificates, kernel),
        *universal_claims(certificates),
        *two_layer_universal_claims(certificates),
    ]
    for rho in parameters.rhos:
        tasks += budget_claims(parameters.for_budget(rho, certificates, tick))
        tasks += two_layer_claims(TwoLayerParameters(rho, parameters.a, parameters.b, certificates))
    draws = min(parameters.draws, MINIMISER_DRAWS)
    return tasks + minimiser_claims(MinimiserParameters(parameters.a, draws, parameters.seed, certificates))


def _located(claim: Claim, *, kept: bool) -> Claim:
    """The claim with its certificate named relative to the output directory, or not at all if that is thrown away."""
    located = f"{CERTIFICATES}/{claim.certificate}" if kept and claim.certificate else None
    return replace(claim, certificate=located)


def check_document(parameters: CheckParameters, claims: list[Claim]) -> dict[str, Any]:
    """The report as one JSON object."""
    return {
        "rho": [float(rho) if rho.denominator != 1 else int(rho) for rho in parameters.rhos],
        "claims": [claim.document() for claim in claims],
        "provenance": provenance("check", parameters.document()),
    }
