"""How far minimisers copy: position-only solutions, the draw's threshold M_0, and where the limit point fails.

*Position-only solutions* (reconstructed). Keys do not depend on the data token, the values are M for 0, -M for 1 and 0
for the rest, and each asker has a score `sum A_f cos + B_f sin` with |A_f| + |B_f| <= 2 M^2. Their worst strings are
constant but for s_i, as in `_length_scan`, with the asker's own score at each step: B_b at step 1, the data token
written last afterwards.

*The tied limit and M_0* (new). Under tied queries the limit point is the closed form: columns A = 2 M^2, B = 0. Its gap
at column distance k is `2 M^2 sum_f (1 - cos(beta_f k))`, 0 only if every beta_f k is a whole number of turns: for
almost every draw at no k. All its gaps are 2 M^2 times fixed numbers >= 0, so copying up to a length is monotone in M,
and M_0, the least M beyond which every string up to floor(L^(sqrt(d)/2)) is copied, exists for every such draw.

*Where the free limit fails* (new). If B_b has its own query, that of the largest worst-case gap t* over the distances 1
.. L-1 it has seen may put a source at distance k >= L above the wanted one: gap(k) < 0. For any multipliers lambda_r >=
0 and any margin tau,

    gap(r) >= tau for all r < L    implies    gap(k) <= P(delta_k + lambda) - tau sum lambda,

since gap(k) + sum lambda_r gap(r) <= P. If the right side is negative and tau is below the optimum, every query whose
worst-case gap is within optimum - tau of the best fails at distance k, not only the limit point itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb
from scipy.optimize import linprog

from theory.grid import (
    LARGEST_LIMIT,
    Amplitude,
    GridScore,
    LengthBound,
    SingleFlip,
    StepRange,
    certify_length,
    columns_below,
    exact_length,
)
from theory.minimisers._programme import PRECISION, GapCoefficients, closed_form_amplitudes, worst_case_gap
from theory.minimisers._setting import WANTED, Asker, GridRelation, MinimiserSetting
from theory.numbers import BALL_VOLUME, InputError, ball, halved, lower_fraction, require_at_least, working_precision

#: M_0 is bracketed between multiples of this fraction of a power of two of its size.
THRESHOLD_STEPS = 12

#: Largest M looked at, and lengths beyond which M_0 comes from lattices instead of a scan.
LARGEST_M, LONGEST_SCAN = 2**40, 20_000

#: The margin of a limit failure is this close to the optimum, relatively; widened while it proves nothing.
MARGINS = (Fraction(1, 2**10), Fraction(1, 2**16), Fraction(1, 2**24), Fraction(1, 2**32))

#: Failing distances of the limit point are listed at most this many at once.
MOST_LISTED = 1_000_000


@dataclass(frozen=True)
class PositionOnlySolution:
    """Queries and keys of a position-only model by their scores, one for each asker.

    Attributes:
        setting: the problem; its M bounds the amplitudes.
        scores: exact amplitudes by asker, relative position (-1, 0) wanted.

    Raises:
        InputError: a score is missing, or |A_f| + |B_f| > 2 M^2 somewhere.
    """

    setting: MinimiserSetting
    scores: Mapping[Asker, GridScore]

    def __post_init__(self) -> None:
        if set(self.scores) != set(self.setting.askers):
            raise InputError("scores", ", ".join(self.scores), "one for each of " + ", ".join(self.setting.askers))
        for score in self.scores.values():
            for a, b in (*score.row, *score.column):
                if abs(a) + abs(b) > self.setting.scale:
                    raise InputError("amplitude", f"({a}, {b})", f"at most 2 M^2 = {self.setting.scale} in |A| + |B|")


@dataclass(frozen=True)
class MinimiserThreshold:
    """M_0 of a draw for the tied limit (the closed form), bracketed.

    Attributes:
        length: the length to be copied.
        copies: for every M >= this, every string up to the length is copied (proved).
        fails: for every M <= this, some string up to the length is not; None where nothing was proved to fail.
        witness: the string that fails at M = `fails`.
        by_lattice: was `copies` proved by lattice reduction?
    """

    length: int
    copies: Fraction
    fails: Fraction | None
    witness: SingleFlip | None
    by_lattice: bool


@dataclass(frozen=True)
class LimitFailure:
    """A distance at which every nearly optimal query of B_b fails.

    Attributes:
        distance: k >= L; the source k columns to the right of s_1 outscores it.
        margin: tau, in units of 2 M^2; some query has a worst-case gap above it, certainly.
        multipliers: lambda by distance.
        ceiling: a ball; gap(k) of every query of worst-case gap >= tau is at most its upper end, which is < 0.
        least: is k the least distance at which the limit point fails (float+bound)?
    """

    distance: int
    margin: Fraction
    multipliers: Mapping[int, Fraction]
    ceiling: arb
    least: bool


def position_only(
    setting: MinimiserSetting, points: Mapping[Asker, tuple[tuple[Amplitude, ...], tuple[Amplitude, ...]]]
) -> PositionOnlySolution:
    """The solution with these row and column amplitudes, in units of 2 M^2.

    Raises:
        InputError: as in `PositionOnlySolution`.
    """

    def scaled(amplitudes: tuple[Amplitude, ...]) -> tuple[Amplitude, ...]:
        return tuple((setting.scale * a, setting.scale * b) for a, b in amplitudes)

    scores = {
        asker: GridScore(setting.frequencies, scaled(row), scaled(column), WANTED, setting.a, setting.b)
        for asker, (row, column) in points.items()
    }
    return PositionOnlySolution(setting, scores)


def closed_form_solution(setting: MinimiserSetting) -> PositionOnlySolution:
    """Columns A = 2 M^2, B = 0, rows at the best corner, for every asker: the limit under tied queries."""
    return position_only(setting, dict.fromkeys(setting.askers, closed_form_amplitudes(setting.frequencies)))


def limit_solution(setting: MinimiserSetting) -> PositionOnlySolution:
    """The optimum of each asker's linear programme, scaled to M: the limit of the minimisers' directions where that
    optimum is unique.

    Raises:
        InputError: L = 1, where nothing is asked of the scores.
    """
    points = {}
    for asker in setting.askers:
        if not setting.relations(asker):
            raise InputError("L", setting.length, "at least 2, so that other tokens are seen")
        found = worst_case_gap(setting, asker)
        points[asker] = (found.row, found.column)
    return position_only(setting, points)


def solution_length(solution: PositionOnlySolution, limit: int = 1_000_000) -> LengthBound:
    """The exact length up to which a position-only solution copies every string (float+bound and ball); any B.

    Raises:
        InputError: limit < 1 or above 10^9.
    Cost: one scan for each asker.
    """
    ranges: dict[Asker, StepRange] = {"any": "every", "last": "first", "data": "later"}
    bounds = [exact_length(score, limit, ranges[asker]) for asker, score in solution.scores.items()]
    failing = [bound.fails for bound in bounds if bound.fails is not None]
    fails = min(failing, key=lambda flip: flip.length) if failing else None
    return LengthBound(min(bound.lower for bound in bounds), fails, limit)


def tied_threshold(setting: MinimiserSetting, length: int | None = None) -> MinimiserThreshold | None:
    """M_0 of the draw for the closed form; `length` defaults to floor(L^(sqrt(d)/2)). None: not found up to 2^40, as
    where all frequencies come full circle within the length.

    Cost: about 30 scans up to the length; beyond 20,000 lattice reductions instead, which only prove copying.
    """
    target = setting.paper_length if length is None else require_at_least("length", length, 1)
    by_lattice = target > LONGEST_SCAN
    copies = _copies_by_lattice if by_lattice else _copies_by_scan
    high = _first_power(setting, target, copies)
    if high is None:
        return None
    low = high / 2
    while low > Fraction(1, 2**20) and copies(setting, low, target):
        low, high = low / 2, low
    low, high = halved(lambda scale: not copies(setting, scale, target), low, high, THRESHOLD_STEPS)
    if by_lattice:
        return MinimiserThreshold(target, high, None, None, True)
    fails = _closed_form_length(setting, low, target).fails
    return MinimiserThreshold(target, high, low if fails is not None else None, fails, False)


def tied_failure_bound(setting: MinimiserSetting, length: int | None = None) -> arb:
    """Ball above the probability, over uniform frequencies, that the closed form fails on a string up to the length
    (default floor(L^(sqrt(d)/2))); may exceed 1.

    With eta = ln(length+1)/(2 M^2), all strings are copied if C(k) >= eta for 1 <= k < length and the row gap is at
    least eta: the wrong weights then sum to less than 1 (see `_failure_probability`; b-a-1 = 1, so outputs stand at
    distances 0 .. 2-length). The row gap is at least sum (1 - cos), so each of these `length` events fails with
    probability at most the volume of a ball of radius sqrt(eta/8) in d/4 dimensions.
    """
    target = setting.paper_length if length is None else require_at_least("length", length, 1)
    with working_precision(PRECISION):
        eta = ball(target + 1).log() / ball(setting.scale)
        return target * BALL_VOLUME.ball(m=setting.d // 4, delta=eta)


def limit_failure(setting: MinimiserSetting, limit: int = 1_000_000) -> LimitFailure | None:
    """The least distance up to `limit` at which B_b's limit point ranks a source above the wanted one, with a
    certificate for all queries near it; None if there is none, or none was certified.

    Cost: a float scan of the columns, one linear programme.
    Raises:
        InputError: L < 2, limit < 1 or above 10^9, or the queries are tied (B_b has no query of its own).
    """
    require_at_least("L", setting.length, 2)
    if setting.queries != "free":
        raise InputError("queries", setting.queries, "free: under tied queries the limit point has no negative gap")
    require_at_least("limit", limit, 1)
    if limit > LARGEST_LIMIT:
        raise InputError("limit", limit, f"at most {LARGEST_LIMIT}, beyond which a scan is out of reach")
    best = worst_case_gap(setting, "last")
    score = position_only(setting, {"last": (best.row, best.column), "data": (best.row, best.column)}).scores["last"]
    horizon = 512
    while True:
        horizon = min(horizon, limit + 1)
        found, all_before = _certainly_negative(score, horizon)
        if found or horizon > limit:
            break
        horizon *= 8
    for place, distance in enumerate(found[:8]):
        least = all_before and place == 0
        for margin in MARGINS:
            failure = _failure_at(setting, distance, lower_fraction(best.lower) * (1 - margin), least)
            if failure is not None:
                return failure
    return None


def failure_ceiling(
    setting: MinimiserSetting, distance: int, margin: Fraction, multipliers: Mapping[int, Fraction]
) -> arb:
    """P(delta_k + lambda) - tau sum lambda, in units of 2 M^2; a ball.

    Its upper end bounds gap(k) of every query of B_b whose gaps at all distances 1 .. L-1 are at least the margin.

    Raises:
        InputError: a multiplier is negative, or at a distance outside 1 .. L-1.
    """
    if any(weight < 0 or not 1 <= r < setting.length for r, weight in multipliers.items()):
        raise InputError("multipliers", str(dict(multipliers)), "non-negative, at distances 1 .. L-1")
    weights: dict[GridRelation, Fraction] = {(-1, r): weight for r, weight in multipliers.items()}
    weights[-1, distance] = weights.get((-1, distance), Fraction(0)) + 1
    with working_precision(PRECISION):
        return GapCoefficients(setting.frequencies).largest(weights) - ball(margin * sum(multipliers.values()))


def _failure_at(setting: MinimiserSetting, distance: int, margin: Fraction, least: bool) -> LimitFailure | None:
    """The certificate from the linear programme: maximise gap(k) where all seen gaps are at least the margin."""
    coefficients = GapCoefficients(setting.frequencies)
    rows = len(setting.frequencies.row)
    seen = setting.sources("last")
    table = coefficients.floats([*seen, (-1, distance)])[:, rows:]
    box = np.stack([table[..., 0] + table[..., 1], table[..., 0] - table[..., 1]], axis=2).reshape(len(table), -1) / 2
    solved = linprog(
        -box[-1], -box[:-1], np.full(len(seen), -float(margin)), bounds=[(-1.0, 1.0)] * box.shape[1], method="highs"
    )
    if solved.status != 0:
        return None
    multipliers = {
        relation[1]: Fraction(float(weight)).limit_denominator(2**40)
        for relation, weight in zip(seen, -solved.ineqlin.marginals, strict=True)
        if weight > 1e-9
    }
    ceiling = failure_ceiling(setting, distance, margin, multipliers)
    return LimitFailure(distance, margin, multipliers, ceiling, least) if ceiling < 0 else None


def _certainly_negative(score: GridScore, horizon: int) -> tuple[list[int], bool]:
    """Distances 1 .. horizon-1 at which the gap is certainly negative, in order, and whether every distance before the
    first of them certainly has a gap >= 0; a float scan finds all candidates.
    """
    listed = columns_below(score, 0, horizon, MOST_LISTED)
    if listed is None:
        return [], False
    with working_precision(PRECISION):
        gaps = {column: score.column_gap(column) for column in sorted(listed) if column > 0}
        found = [column for column, gap in gaps.items() if gap < 0]
        return found, all(gap >= 0 for column, gap in gaps.items() if found and column < found[0])


def _closed_form_length(setting: MinimiserSetting, bound: Fraction, length: int) -> LengthBound:
    tied = MinimiserSetting(setting.frequencies, setting.length, bound, setting.a, "tied")
    return solution_length(closed_form_solution(tied), length)


def _copies_by_scan(setting: MinimiserSetting, bound: Fraction, length: int) -> bool:
    return _closed_form_length(setting, bound, length).lower >= length


def _copies_by_lattice(setting: MinimiserSetting, bound: Fraction, length: int) -> bool:
    tied = MinimiserSetting(setting.frequencies, setting.length, bound, setting.a, "tied")
    return certify_length(closed_form_solution(tied).scores["any"], length) is not None


def _first_power(
    setting: MinimiserSetting, length: int, copies: Callable[[MinimiserSetting, Fraction, int], bool]
) -> Fraction | None:
    """The least power of two from 1 on at which the closed form copies up to the length."""
    bound = Fraction(1)
    while bound <= LARGEST_M:
        if copies(setting, bound, length):
            return bound
        bound *= 2
    return None
