"""The exact length up to which a position-only 2D-RoPE copier copies every string, by a scan over columns.

*Statement* (new). With e(D) = exp(-gap(0, D)) and e'(D) = exp(-gap(1, D)), the copier copies all binary strings of
length n iff for every step i

    P(i) + H(n-i) < 1,   P(i) = sum_{k=1}^{i-1} e(-k) + sum_{t=1}^{i-1} e'(b-a-1-t),   H(m) = sum_{k=1}^{m} e(k).

*Why.* Every source j /= i and every output j < i can vote against s_i, all of them at once in the string that differs
from a constant one only at i; the wanted key has weight 1. Equality makes the numerator 0, which is wrong. P and H do
not decrease, so failure at n implies failure beyond n, and n* exists.

*How it is computed.* Only near-resonances matter: columns with a gap below a cut T. A float scan lists a certain
superset of them (`_resonances`); their weights are balls; the columns not listed weigh at most exp(-T) each and are
accounted for in bulk. Where balls cannot decide, T and the precision go up; at the cap the answer is a bracket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from math import ceil, log
from typing import Generic, Literal, Protocol, TypeVar, runtime_checkable

from flint import arb

from theory.grid._resonances import columns_below
from theory.grid._score import GridScore, require_two_after
from theory.numbers import InputError, require_at_least, working_precision
from theory.task import Status

#: Which steps a score is used at: all, the first alone, or all but the first.
StepRange = Literal["every", "first", "later"]

#: Columns scanned first; each further round takes eight times as many.
FIRST_COLUMNS = 512

#: (nats added to the least useful cut, working precision) of the successive attempts.
ATTEMPTS = ((16, 96), (48, 160), (160, 384), (600, 1200), (2500, 4500))

#: Lengths above this are not scanned.
LARGEST_LIMIT = 10**9

#: A round that lists more near-resonances, times frequencies, than this has a score scale too small for its length and
#: is given up as undecided.
MOST_RESONANCES = 4_000_000


@dataclass(frozen=True)
class SingleFlip:
    """A failing case: the string of this length that is `background` but for one symbol, at the step that must write
    it (1-based).
    """

    length: int
    step: int
    background: int = 0

    @property
    def flip_position(self) -> int:
        """Position of the flipped symbol, 1-based; it is the one the failing step must write."""
        return self.step


@runtime_checkable
class Failing(Protocol):
    """A case that certainly fails, of a string of some length."""

    @property
    def length(self) -> int:
        """Number of symbols of the string."""


FailingT = TypeVar("FailingT", bound=Failing)


@dataclass(frozen=True)
class LengthBracket(Generic[FailingT]):
    """What was proved of a length bound n*: lower <= n*, and n* < the length of what fails, if something does.

    Attributes:
        lower: every string of every length up to it is copied (0: nothing proved).
        fails: the failing case with the least length that was proved to fail, or None.
        limit: no length above it was looked at.
    """

    lower: int
    fails: FailingT | None
    limit: int

    @property
    def upper(self) -> int | None:
        """The largest length for which all strings might be copied; None if none was ruled out up to the limit."""
        return None if self.fails is None else self.fails.length - 1

    @property
    def proved_to(self) -> int:
        """Every string of every length up to it is copied (0: nothing proved)."""
        return self.lower

    @property
    def fails_at(self) -> int | None:
        """The least length that was proved to fail, or None."""
        return None if self.fails is None else self.fails.length

    @property
    def exact(self) -> bool:
        """Is `proved_to` the largest length up to which every string is copied?"""
        return self.length is not None

    @property
    def exceeds_limit(self) -> bool:
        """Are all strings of every length up to the limit copied?"""
        return self.lower >= self.limit

    @property
    def length(self) -> int | None:
        """The exact bound n*, if it was decided and is not above the limit."""
        return self.lower if self.upper == self.lower else None

    @property
    def status(self) -> Status:
        """PROVED if the bound is exact or known to exceed the limit."""
        return "PROVED" if self.exceeds_limit or self.length is not None else "UNDECIDED"


@dataclass(frozen=True)
class LengthBound(LengthBracket[SingleFlip]):
    """What a scan proved: all strings of length <= lower are copied; if `fails` is given, some string of its length is
    not.
    """

    @property
    def status(self) -> Status:
        """PROVED if n* is exact, known to exceed the limit, or between two proved ends; else UNDECIDED."""
        return "PROVED" if self.lower >= 1 and self.fails is not None else super().status


@dataclass(frozen=True)
class _Event:
    """A prefix sum grows by `weight` from index `at` on."""

    at: int
    weight: arb


def exact_length(score: GridScore, limit: int = 1_000_000, steps: StepRange = "every") -> LengthBound:
    """The exact length bound n* of a position-only copier, or what can be proved of it.

    Args:
        score: the copier's score, exact.
        limit: largest length looked at.
        steps: the steps at which this score decides, for copiers whose query differs at step 1.

    Returns:
        A LengthBound; method float+bound for the columns that are skipped, ball for those that count.

    Raises:
        InputError: limit < 1 or above 10^9, or b < 2.

    Cost: a few ns a column and frequency up to n* (or the limit), and a few microseconds for each near-resonance and
    frequency; beyond MOST_RESONANCES of these, or 2 10^10 columns times frequencies, the answer stays a bracket.
    """
    require_two_after(score.b)
    require_at_least("limit", limit, 1)
    if limit > LARGEST_LIMIT:
        raise InputError("limit", limit, f"at most {LARGEST_LIMIT}, beyond which a scan is out of reach")
    proved, failure = 0, None
    horizon = min(limit, FIRST_COLUMNS)
    while True:
        proved_here, failure_here = _scan_up_to(score, horizon, steps)
        proved = max(proved, proved_here)
        failure = failure_here if failure_here is not None else failure
        if failure is not None or horizon == limit or proved < horizon:
            return LengthBound(proved, failure, limit)
        horizon = min(limit, 8 * horizon)


def _scan_up_to(score: GridScore, horizon: int, steps: StepRange = "every") -> tuple[int, SingleFlip | None]:
    """(all lengths up to it are copied, the least length certainly failing) among the lengths <= horizon."""
    proved, failure = 0, None
    for extra, precision in ATTEMPTS:
        cut = ceil(log(4 * horizon)) + extra
        with working_precision(precision):
            listed = columns_below(score, cut, horizon, MOST_RESONANCES // len(score.column))
            if listed is None:
                break
            before, after, bulk = _events(score, listed, horizon, cut)
            first, before = (2, before) if steps == "later" else (1, [] if steps == "first" else before)
            certain = _least_failing(before, after, horizon, _at_least_one, first)
            possible = _least_failing(before, after, horizon, partial(_perhaps_one, bulk), first)
        proved = max(proved, horizon if possible is None else possible.length - 1)
        failure = certain if certain is not None else failure
        if proved == (horizon if failure is None else failure.length - 1):
            break
    return proved, failure


def _at_least_one(left: arb, right: arb) -> bool:
    return bool(left + right >= 1)


def _perhaps_one(bulk: arb, left: arb, right: arb) -> bool:
    return not left + right + bulk < 1


def _events(score: GridScore, listed: Iterable[int], horizon: int, cut: int) -> tuple[list[_Event], list[_Event], arb]:
    """Events of P (by step i) and of H (by m), sorted, and a bound on what all unlisted columns add to any P(i) +
    H(n-i) with n <= horizon.
    """
    row_weight = (-score.row_gap()).exp()
    weights = {column: (-score.column_gap(column)).exp() for column in listed if column != 0}
    offset = score.output_offset
    before = [_Event(1 - column, weight) for column, weight in weights.items() if column < 0]
    outputs = {**weights, 0: arb(1)}
    before += [
        _Event(offset - column + 1, row_weight * weight)
        for column, weight in outputs.items()
        if 1 <= offset - column < horizon
    ]
    after = [_Event(column, weight) for column, weight in weights.items() if 0 < column < horizon]
    bulk = (horizon - 1) * (-arb(cut)).exp() * (1 + row_weight)
    return (
        sorted(before, key=lambda e: e.at),
        sorted(after, key=lambda e: e.at),
        arb(0) if horizon == 1 else bulk,
    )


def _least_failing(
    before: list[_Event], after: list[_Event], horizon: int, fails: Callable[[arb, arb], bool], first: int = 1
) -> SingleFlip | None:
    """Least n <= horizon with fails(P(i), H(n-i)) for some i >= first; `fails` must be monotone in both.

    Two pointers, O(events).
    """
    steps = [first, *(max(first, event.at) for event in before)]
    sums = list(accumulate((event.weight for event in before), initial=arb(0)))
    distances = [0, *(event.at for event in after)]
    tails = list(accumulate((event.weight for event in after), initial=arb(0)))
    best: SingleFlip | None = None
    right = len(tails) - 1
    for step, left in zip(steps, sums, strict=True):
        if not fails(left, tails[right]):
            continue
        while right > 0 and fails(left, tails[right - 1]):
            right -= 1
        length = step + distances[right]
        if length <= horizon and (best is None or length < best.length):
            best = SingleFlip(length=length, step=step)
    return best
