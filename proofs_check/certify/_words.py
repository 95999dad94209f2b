"""A certified verdict in words and as a JSON object."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np
from flint import fmpz
from jaxtyping import Int64

from constructions import Replay
from proofs_check.certify._outcome import Certified
from proofs_check.certify._subject import Subject
from theory.numbers import spelled
from theory.one_layer import WorstStep
from theory.task import spell

#: Strings are written out up to this length, if that is asked for, and up to the second always.
LONGEST_SPELLED, SHORT = 100_000, 100

#: Most runs of equal symbols that a string is described by, unless it is written out.
MOST_RUNS = 1000

#: A string with at most this many symbols unlike the others is described by them.
MOST_FLIPS = 50


def runs_of(string: Int64[np.ndarray, " n"]) -> tuple[int, list[int]]:
    """The first symbol, and the lengths of the runs of equal symbols."""
    changes = np.flatnonzero(np.diff(string)) + 1
    return int(string[0]), np.diff(np.concatenate([[0], changes, [len(string)]])).tolist()


def certified_document(
    found: Certified, *, full_witness: bool = False, certificate: str | None = None
) -> dict[str, Any]:
    """The JSON object of the command; `certificate` is the name of its file."""
    search, question = found.search, found.question
    longest = LONGEST_SPELLED if full_witness else SHORT
    return {
        "status": found.status,
        "max_length": question.max_length,
        "criterion": question.criterion,
        "strings": number_of_strings(question.max_length),
        "margin": number(found.worst.difference),
        "margin_below": finite(found.margin_below),
        "worst": worst_document(question.subject, found.worst, longest),
        "proved_to": found.proved_to,
        "fails_at": found.fails_at,
        "exact": found.exact,
        "witness": _counterexample(question.subject, found, longest),
        "limit": found.limit,
        "limit_proved_to": None if search is None else search.proved_to,
        "limit_fails_at": None if search is None else search.fails_at,
        "limit_counterexample": None if search is None else _counterexample(question.subject, search, longest),
        "odds": found.odds,
        "replay": _replay_document(found.replay),
        "label": "new",
        "method": found.method,
        "remark": found.remark,
        "certificate": certificate,
        "seconds": round(found.seconds, 3),
    }


def _counterexample(subject: Subject, found: Certified, longest: int) -> dict[str, Any] | None:
    if found.status != "REFUTED":
        return None
    worst = worst_document(subject, found.worst, longest)
    return {
        **worst,
        "difference": number(found.worst.difference),
        "odds": found.odds,
        "replay": _replay_document(found.replay),
    }


def _replay_document(replay: Replay | None) -> dict[str, Any] | None:
    if replay is None:
        return None
    stored = {"dtype": replay.stored_dtype, "wrong": replay.stored_wrong} if replay.stored_dtype else None
    return {"ran": replay.ran, "wrong": replay.wrong, "reason": replay.reason, "as_stored": stored}


def finite(bound: float | None) -> float | None:
    """A bound below the range of floats says nothing."""
    return bound if bound is not None and isfinite(bound) else None


def number(value: Fraction) -> float | str:
    """A rational as a JSON number, or as text where a float has not the range: it is never 0 unless the rational is."""
    return float(value) if value == 0 or 2.0**-1022 <= abs(value) < 2.0**1023 else spelled(value, 12)


def number_of_strings(max_length: int) -> str:
    """How many binary strings have a length from 1 to `max_length`: 2^(max_length+1) - 2, in full."""
    return str(fmpz(2) ** (max_length + 1) - 2)


def worst_document(subject: Subject, worst: WorstStep, longest: int = SHORT) -> dict[str, Any]:
    """The worst step as a JSON object: its string by its runs, in full up to a length, and in words."""
    case, (first, runs) = worst.case, runs_of(worst.string)
    return {
        "length": worst.length,
        "step": worst.step,
        "query": subject.token(case.query),
        "symbol": case.symbol,
        "competitor": subject.output(case.competitor),
        "string": spell(worst.string) if worst.length <= longest else None,
        "first_symbol": first,
        "runs": runs if len(runs) <= MOST_RUNS or worst.length <= longest else None,
        "description": described(worst.string),
    }


def described(string: Int64[np.ndarray, " n"]) -> str:
    """The string in words: its most frequent symbol, and where the others stand."""
    common = int(2 * int(string.sum()) > len(string))
    flips = (np.flatnonzero(string != common) + 1).tolist()
    if not flips:
        return f"{len(string)} symbols, all {common}"
    if len(flips) <= MOST_FLIPS:
        return f"{len(string)} symbols, all {common} but {1 - common} at {', '.join(map(str, flips))}"
    return f"{len(string)} symbols in {len(runs_of(string)[1])} runs"
