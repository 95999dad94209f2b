"""How far a copier copies every string."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from constructions import Trial, TwoLayerCopier, build_two_layer_copier, run_two_layer
from proofs_check.claims import witness_document
from proofs_check.documents import json_ready
from theory import (
    GridFrequencies,
    InputError,
    LengthBound,
    base_grid_frequencies,
    exact_length,
    ideal_grid_score,
    two_layer_length,
)
from theory.grid import SingleFlip
from theory.numbers import parse_rational
from theory.task import Status

#: No longer string is written out: it stands in one line, and its position says all of it.
LONGEST_WITNESS = 10**7

#: Turning pairs of the sharp variants, unless given: small budgets cannot afford the amplitudes of many pairs.
SHARP_PAIRS = ((10**4, 32), (1000, 8), (0, 1))

VARIANTS = {"paper": "paper", "sharp": "sharp", "shared": "shared", "trained-layout": "repeated"}

Number = int | str | Fraction


@dataclass(frozen=True)
class Length:
    """How far a copier copies: every string up to `proved_to`, and not every one of length `fails_at`.

    Attributes:
        copier: grid or two-layer.
        found: the bound in full.
        model: the copier's weights, where they were built.
        label, method: where the claim comes from, and what its proof rests on.
    """

    copier: str
    found: LengthBound
    model: TwoLayerCopier | None
    label: str
    method: str

    @property
    def status(self) -> Status:
        """PROVED up to `proved_to`; UNDECIDED where a scan ends before its limit without a failure."""
        # What is not looked for above a proved length of two layers is no part of the question.
        return "PROVED" if self.model is not None and self.found.lower else self.found.status

    @property
    def proved_to(self) -> int:
        """Every string of every length up to it is copied (0: nothing proved)."""
        return self.found.proved_to

    @property
    def fails_at(self) -> int | None:
        """The least length found at which some string is not copied."""
        return self.found.fails_at

    @property
    def exact(self) -> bool:
        """Is `proved_to` the largest length up to which every string is copied?"""
        return self.found.exact

    @property
    def witness(self) -> SingleFlip | None:
        """A string of length `fails_at` that is not copied, all one symbol but for one, and the step that fails."""
        return self.found.fails

    def document(self, *, full_witness: bool = False) -> dict[str, Any]:
        """The JSON object of `copycert bound --json`."""
        return bound_document(self.found, self.status, full_witness=full_witness)

    def __repr__(self) -> str:
        numbers = f"proved_to={_short(self.proved_to)}, fails_at={_short(self.fails_at)}, exact={self.exact}"
        return f"<Length {self.status} ({self.copier}): {numbers}; {self.label}, {self.method}>"


def _short(value: int | None) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:6]}...({len(text)} digits)"


def bound(copier: Literal["grid", "two-layer"], /, **arguments: Any) -> Length:
    """`bound_grid` for "grid", `bound_two_layer` for "two-layer", with their arguments.

    Raises:
        InputError: another copier, or as those two.
    """
    copiers: dict[str, Callable[..., Length]] = {"grid": bound_grid, "two-layer": bound_two_layer}
    if copier not in copiers:
        raise InputError("copier", copier, "one of " + ", ".join(copiers))
    return copiers[copier](**arguments)


def bound_grid(
    frequencies: GridFrequencies | None = None,
    *,
    base: Number | None = None,
    d: int | None = None,
    scale: Number,
    a: int,
    b: int,
    limit: int = 1_000_000,
) -> Length:
    """The length up to which the ideal 2D-RoPE copier with these frequencies copies every string, exactly.

    Args:
        frequencies: of rows and columns, exact (radians or turns per position); or else both of
        base, d: frequencies base^(-f/(d/4)) on both axes.
        scale: score scale S, a rational > 0.
        a, b: tokens before the string (at least 1), and between it and its copy (at least 2).
        limit: the largest length looked at.

    Raises:
        InputError: neither or both of frequencies and (base, d), or numbers out of range.

    Label: new. Method: float+bound for the columns skipped, ball for those that count.
    """
    given = [name for name, value in (("frequencies", frequencies), ("base", base), ("d", d)) if value is not None]
    if given not in (["frequencies"], ["base", "d"]):
        raise InputError("frequencies", " and ".join(given) or "none", "frequencies alone, or else both base and d")
    if frequencies is None and base is not None and d is not None:
        frequencies = base_grid_frequencies(parse_rational(base, "base"), d)
    assert frequencies is not None
    found = exact_length(ideal_grid_score(frequencies, parse_rational(scale, "scale"), a, b), limit)
    return Length("grid", found, None, "new", "float+bound, ball")


def bound_two_layer(
    rho: Number,
    variant: str = "paper",
    *,
    a: int = 2,
    b: int = 3,
    pairs: int | None = None,
    beyond_theorem: bool = False,
) -> Length:
    """How far the two-layer RoPE copier of a norm budget copies every string, by its stored weights.

    Args:
        rho: the norm budget.
        variant: paper, sharp, shared (a plane) or trained-layout.
        a, b: tokens before the string, and between it and its copy, at least 2 each.
        pairs: turning pairs of the sharp variants; 32 for rho > 10^4, fewer below.
        beyond_theorem: allow rho <= 10^4.

    Raises:
        InputError: rho <= 0, unknown variant, rho <= 10^4 without `beyond_theorem`, a or b < 2, too many pairs.

    Label: new; reconstructed for the paper's weights. Method: ball.
    """
    budget = parse_rational(rho, "rho")
    if budget <= 0:
        raise InputError("rho", str(budget), "a number > 0")
    if variant not in VARIANTS:
        raise InputError("variant", variant, "one of " + ", ".join(VARIANTS))
    chosen = next(count for least, count in SHARP_PAIRS if budget > least) if pairs is None else pairs
    copier = build_two_layer_copier(budget, a, b, VARIANTS[variant], pairs=chosen, beyond_theorem=beyond_theorem)
    label = "reconstructed" if variant == "paper" else "new"
    return Length("two-layer", two_layer_length(copier.scores(), copier.length), copier, label, "ball")


def bound_document(found: LengthBound, status: Status, *, full_witness: bool = False) -> dict[str, Any]:
    """A length bound as one JSON object: what is proved up to `proved_to`, and false at `fails_at`."""
    longest = LONGEST_WITNESS if full_witness else 0
    document = {
        "status": status,
        "length": found.length,
        "length_lower": found.lower,
        "length_upper": found.upper,
        "limit": found.limit,
        "exceeds_limit": found.exceeds_limit,
        "proved_to": found.proved_to,
        "fails_at": found.fails_at,
        "exact": found.exact,
        "witness": None if found.fails is None else witness_document(found.fails, longest),
    }
    ready: dict[str, Any] = json_ready(document)
    return ready


def require_precision(copier: TwoLayerCopier, length: int, dtype: str, beyond_precision: bool) -> Trial:
    """The torch model's run in that format on worst strings of the length it was built for (sampled).

    Raises:
        InputError: it gets a step wrong, and `beyond_precision` is not given; or an unknown format.
    """
    trial = run_two_layer(copier, dtype, length)
    if trial.wrong and not beyond_precision:
        reason = (
            f"{trial.wrong} of {trial.steps} steps of worst strings of {length} symbols go wrong at this norm budget"
        )
        allowed = f"a format in which the torch model copies: {reason}; beyond_precision goes on"
        raise InputError("dtype", dtype, allowed)
    return trial
