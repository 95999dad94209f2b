"""How far a two-layer copier copies: proofs for all strings at once, and single strings that break it.

*Statement* (reconstructed; the sharp constants are new). Let phi_A' >= m > 0 on [1, L] and put

    eta >= |phi_B(i) - phi_A(i)|,   c = bound of the part of a query in its plane,   lambda = bound of the part of an
    output key in the plane that queries read.

Every string of every length n <= L is copied if, with gap(k) = S c (cos eta - cos(m k - eta)),

    2 sum_{k=1}^{K-1} exp(-gap(k)) + 2 L exp(-gap(K)) + L exp(-S c (cos eta - lambda)) < 1,     K = min(64, L),

and m K >= 2 eta.

*Why.* The second layer's head output is a positive multiple of sum_j exp(score_j) v_j, v_j = +1 for the data token 0
and -1 for 1, and the normalisation leaves its sign. In the worst string all other data tokens vote against s_i: all at
once in a string that is constant but for s_i. Source j stands at an angle of at least m|i-j| from source i, on one side
or the other, so at least m|i-j| - eta from the query, and at most pi/2 + eta. An output key lies in the plane that
queries read only as far as the A anchors still get attention (or, in a shared plane, up to the marker).

*The leak.* After the string, the A anchors' share relative to the B anchors' is at most exp(-lift) if both scores fall
with the distance, at most exp(-(lift - amplitudes)) in any case; see `leak_bound`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from theory.grid import LengthBound, SingleFlip
from theory.numbers import (
    InputError,
    ball,
    furthest,
    last_true,
    lower_fraction,
    require_at_least,
    total,
    working_precision,
)
from theory.two_layer._anchor_curve import AnchorScores, Curve, curve_is_at_most, least_slope_place, slope_is_at_least

#: Neighbours on each side that are summed one by one.
NEIGHBOURS = 64

#: A slope that is proved is this much below the least slope sampled, relative.
SLOPE_SLACK = Fraction(1, 2**12)

#: Weights below exp(-NEGLIGIBLE) are bounded and not summed.
NEGLIGIBLE = 400

#: Lengths up to this are decided step by step.
LONGEST_SCAN = 20_000

#: Lengths above this are not looked at.
LARGEST_LENGTH = 10**60


@dataclass(frozen=True)
class LengthProof:
    """Why every string of every length up to `length` is copied.

    Attributes:
        length: L.
        least_step: m, a rational lower bound of phi_A' on [1, L].
        least_fall: for repeated anchors, a lower bound of K(x) - K(x+1) on [0, 2L+2]; else None.
        mismatch: eta.
        others: the left side of the condition, certainly below 1.
    """

    length: int
    least_step: Fraction
    least_fall: Fraction | None
    mismatch: arb
    others: arb


@dataclass(frozen=True)
class _Frame:
    """Bounds of a copier's query and key vectors.

    Attributes:
        mismatch: eta, the angle between a query and its source.
        widened: the part of eta that comes from what else a query sees, not from D_B.
        leak: bound of the change of a query's plane part.
        query_part, output_part: c and lambda of the module's statement.
        fall: for repeated anchors, the bound used.
    """

    mismatch: arb
    widened: arb
    leak: arb
    query_part: arb
    output_part: arb
    fall: Fraction | None = None


def leak_bound(scores: AnchorScores, length: int) -> arb:
    """An upper bound of exp(score) of any A anchor over exp(score) of any B anchor, at every query of every string of
    length <= `length`.

    If one pair turns, with the same radius R before and after, K(r) = R cos(beta r - psi), and all angles that occur
    are in [0, pi], then the nearer B anchors score no less than the A anchors and exp(-lift) is a bound. In general the
    scores differ by at most the sum of their amplitudes.
    """
    if _falls_with_distance(scores, length):
        return (-ball(scores.lift)).exp().upper()
    return (scores.amplitude_sum() - ball(scores.lift)).exp().upper()


def _falls_with_distance(scores: AnchorScores, length: int) -> bool:
    turning = [
        (f, before, after)
        for f, before, after in zip(scores.frequencies, scores.before, scores.after, strict=True)
        if any((*before, *after))
    ]
    if len(turning) != 1:
        return False
    frequency, (even_a, odd_a), (even_b, odd_b) = turning[0]
    if even_a**2 + odd_a**2 != even_b**2 + odd_b**2:
        return False
    beta = 2 * arb.pi() * frequency.turns()
    psi_a, psi_b = arb.atan2(ball(odd_a), ball(even_a)), arb.atan2(ball(odd_b), ball(even_b))
    starts = bool(-psi_b >= 0) and bool(-psi_a + beta >= 0)
    ends = bool(beta * (2 * length + scores.b) - psi_a <= arb.pi()) and bool(beta * length - psi_b <= arb.pi())
    return starts and ends and bool(beta * scores.b >= psi_a - psi_b)


def _frame(scores: AnchorScores, length: int, sources: Curve, queries: Curve) -> _Frame | None:
    """The bounds for all strings of length <= `length`, or None if some of them cannot be given."""
    if scores.form == "repeated":
        return _repeated_frame(scores, length, sources)
    leak = leak_bound(scores, length)
    # |d phi / d D| = 1/(2 cosh D) <= 1/2
    mismatch = (sources.largest_difference(queries) / 2).upper()
    if scores.form == "separate":
        # (w1, w2) of one pair is at most sqrt 2 times its larger entry, and at least that entry.
        share = arb(2).sqrt() * leak
        return _Frame(mismatch, arb(0), leak, (1 / (1 + share * share).sqrt()).lower(), share.upper())
    # The B anchors' shares (p, 1-p) have norm r in [1/sqrt 2, 1]; the leak moves the plane part by at most `leak`.
    shortest, longest = 1 / arb(2).sqrt() - leak, 1 + leak
    if not leak < shortest:
        return None
    turn = (leak / shortest).atan().upper()
    parts = [(r / (r * r + ball(scores.marker) ** 2).sqrt()) for r in (shortest, longest)]
    return _Frame((mismatch + turn).upper(), turn, leak, parts[0].lower(), parts[1].upper())


def _repeated_frame(scores: AnchorScores, length: int, sources: Curve) -> _Frame | None:
    """The anchors occur before and after the string, with the same key: K falls by at least s a position, so that the
    nearer occurrence outweighs the farther by exp(s(n+2)) at least, and both shares change by nearly the same factor.
    """
    low, high = Fraction(0), Fraction(2 * length + 2)
    offset = sources.constant
    highest = max(
        (sources.value(low + (high - low) * k / 256) - offset for k in range(257)), key=lambda d: float(d.mid())
    )
    if not highest < -1:
        return None
    fall = _short_rational((-highest).lower())
    if curve_is_at_most(sources, low, high, offset - ball(fall)) is not True:
        return None
    slope = sources.derivative_bound(1)
    most = sources.derivative_bound(0)
    turn = (Fraction(3, 2).numerator * (-3 * ball(fall)).exp() * slope / 2).upper()
    least_mark = ball(scores.marker) * ball(fall).exp() / (2 * (ball(scores.ratio) * (-ball(fall)).exp() + 1))
    most_mark = ball(scores.marker) * most.exp()
    parts = [1 / (1 + mark * mark).sqrt() for mark in (most_mark, least_mark)]
    return _Frame(turn, turn, turn, parts[0].lower(), parts[1].upper(), fall)


def prove_length(scores: AnchorScores, length: int, least_step: Fraction | None = None) -> LengthProof | None:
    """A proof that every string of every length up to `length` is copied, or None if this argument does not give it.

    Args:
        scores: of the stored weights, exact.
        length: L.
        least_step: a lower bound of phi_A' to use; by default a little below the least value sampled.

    Method: ball. Cost: some hundred to some thousand evaluations of the curve, whatever the length is.

    Raises:
        InputError: length < 1 or above 10^60.
    """
    require_at_least("length", length, 1)
    if length > LARGEST_LENGTH:
        raise InputError("length", length, "at most 10^60")
    with working_precision(scores.precision):
        sources, queries = scores.source_curve(), scores.query_curve()
        if least_step is None:
            least_step = _sampled_step(sources, length)
        if least_step <= 0:
            return None
        frame = _frame(scores, length, sources, queries)
        if frame is None:
            return None
        others = _others(scores, length, frame, least_step)
        if not others < 1:
            return None
        if length > 1 and slope_is_at_least(sources, Fraction(1), Fraction(length), least_step) is not True:
            return None
        return LengthProof(length, least_step, frame.fall, frame.mismatch, others)


def _sampled_step(sources: Curve, length: int) -> Fraction:
    """A short rational a little below the least slope among sample points, 0 if that is not positive."""
    slope = least_slope_place(sources, Fraction(1), Fraction(length))[1]
    if not slope > 0:
        return Fraction(0)
    return _short_rational(slope.lower())


def _short_rational(value: arb) -> Fraction:
    """A rational of 24 bits, a little below a positive exact ball."""
    exact = lower_fraction(value) * (1 - SLOPE_SLACK)
    bits = 24 - exact.numerator.bit_length() + exact.denominator.bit_length()
    return Fraction(int(exact * Fraction(2) ** bits)) / Fraction(2) ** bits


def _others(scores: AnchorScores, length: int, frame: _Frame, least_step: Fraction) -> arb:
    """The left side of the condition, infinite where its side conditions are not certain."""
    if length == 1:
        return arb(0)
    scale = ball(scores.scale) * frame.query_part
    step, eta = ball(least_step), frame.mismatch
    nearest, last = eta.cos(), min(NEIGHBOURS, length)
    if not step >= 2 * eta or not step * last - eta <= arb.pi():
        return arb("inf")
    weights = [(-scale * (nearest - (step * k - eta).cos())).exp() for k in range(1, last + 1)]
    outputs = (length - 1) * (-scale * (nearest - frame.output_part)).exp()
    return 2 * total(weights[:-1]) + 2 * length * weights[-1] + outputs


class StepJudge:
    """Judges single steps of strings that are constant but for the symbol to write, in balls.

    The second layer's weights do not depend on the symbols, so one table of angles serves all strings up to a length.

    Args:
        scores: of the stored weights, exact; the anchors must not be repeated.
        length: no longer strings are asked about.
    """

    def __init__(self, scores: AnchorScores, length: int) -> None:
        if scores.form == "repeated":
            raise InputError("form", scores.form, "separate or shared")
        self.scores, self.length = scores, length
        with working_precision(scores.precision):
            self.sources, self.queries = scores.source_curve(), scores.query_curve()
            self.frame = _frame(scores, length, self.sources, self.queries)
        self._angles: dict[int, arb] = {}

    def others(self, length: int, step: int) -> tuple[arb, arb]:
        """Weight of all tokens other than source i against its own 1, in the string that is constant but for s_i.

        A ball that is certainly no more than the whole, and one that is certainly at least the whole if source angles
        rise.

        Cost: some ten evaluations of the curve for each side.
        """
        if not 1 <= step <= length <= self.length:
            raise InputError("step", step, f"a step from 1 to the length {length}, at most {self.length}")
        if self.frame is None:
            return arb(0), arb("inf")
        with working_precision(self.scores.precision):
            asked = self.queries.angle(step) + arb(0, self.frame.widened)
            scale = ball(self.scores.scale) * self._query_part(step)
            own = (asked - self._angle(step)).cos()
            left, left_rest = self._side(asked, own, scale, step, range(step - 1, 0, -1))
            right, right_rest = self._side(asked, own, scale, step, range(step + 1, length + 1))
            outputs = (step - 1) * (-scale * (own - self.frame.output_part)).exp()
            inner = left + right
            return inner, inner + left_rest + right_rest + outputs

    def wrong(self, length: int, step: int) -> bool:
        """Is the step certainly wrong in the string that is constant but for the symbol to write?"""
        return bool(self.others(length, step)[0] >= 1)

    def right(self, length: int, step: int) -> bool:
        """Is the step certainly right in every string of that length, if source angles rise?"""
        return bool(self.others(length, step)[1] < 1)

    def rises(self, position: int) -> bool:
        """Is the source angle at the next position certainly larger?"""
        with working_precision(self.scores.precision):
            return bool(self._angle(position) < self._angle(position + 1))

    def _angle(self, position: int) -> arb:
        if position not in self._angles:
            self._angles[position] = self.sources.angle(position)
        return self._angles[position]

    def _side(self, asked: arb, own: arb, scale: arb, step: int, places: range) -> tuple[arb, arb]:
        """Weights of the sources on one side until they are below exp(-NEGLIGIBLE), and a bound of what remains."""
        weight, inner = arb(0), arb(0)
        for number, place in enumerate(places, start=1):
            weight = (-scale * (own - (asked - self._angle(place)).cos())).exp()
            inner += weight
            if number == NEIGHBOURS or weight < self._negligible:
                return inner, (abs(places.stop - places.start) - number) * weight
        return inner, arb(0)

    @property
    def _negligible(self) -> arb:
        return (-arb(NEGLIGIBLE)).exp()

    def _query_part(self, step: int) -> arb:
        """Length of the query's part in the plane of the sources, a ball."""
        assert self.frame is not None
        if self.scores.form == "separate":
            return self.frame.query_part.union(arb(1))
        ratio = (-self.queries.value(step)).exp()
        r = (1 + ratio * ratio).sqrt() / (1 + ratio) + arb(0, self.frame.leak)
        return r / (r * r + ball(self.scores.marker) ** 2).sqrt()


def two_layer_length(scores: AnchorScores, near: int, limit: int = LARGEST_LENGTH) -> LengthBound:
    """How far the stored weights copy every string: exact where a scan is possible, else a bracket.

    Args:
        scores: of the stored weights, exact.
        near: a length of the expected size, for instance the design length.
        limit: no longer strings are looked at.

    Returns:
        A LengthBound, method ball. Its two ends are equal up to lengths of about 20,000, else at most about 1% apart
        (where the search finds a failing string; none is claimed otherwise).

    Cost: some proofs and some hundred single steps; a scan takes some seconds.
    """
    require_at_least("near", near, 1)
    lower = min(_largest_proved(scores, near, limit), limit)
    if lower == limit:
        return LengthBound(lower, None, limit)
    if scores.form == "repeated":
        return LengthBound(lower, None, limit)
    if lower <= LONGEST_SCAN:
        return _scan(scores, lower, min(limit, lower + lower // 8 + 64), limit)
    return LengthBound(lower, _failing_above(scores, lower, limit), limit)


def _largest_proved(scores: AnchorScores, near: int, limit: int) -> int:
    """The largest length found for which `prove_length` succeeds, to a relative 2^-10; 0 for none."""
    return furthest(lambda length: prove_length(scores, length) is not None, limit, first=near, digits=1025)


def _failing_above(scores: AnchorScores, lower: int, limit: int) -> SingleFlip | None:
    """A failing string not much longer than `lower`, or None if none is found up to a quarter more."""
    judge = StepJudge(scores, lower + lower // 4 + 8)
    for part in (2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4):
        length = min(lower + max(1, lower // part), limit, judge.length)
        for step in _suspects(judge, length):
            if judge.wrong(length, step):
                return _shortened(judge, SingleFlip(length, step), lower)
    return None


def _suspects(judge: StepJudge, length: int) -> list[int]:
    """Steps that are likely to fail first: at both ends, and where the sampled slope is least."""
    with working_precision(judge.scores.precision):
        place = int(least_slope_place(judge.sources, Fraction(1), Fraction(length))[0])
    near = [place + k for k in range(-3, 4)]
    return sorted({step for step in (*near, 2, 3, 4, 5, *range(length - 5, length)) if 1 <= step <= length})


def _shortened(judge: StepJudge, flip: SingleFlip, lower: int) -> SingleFlip:
    """The least length above `lower` for which the same step, counted from the same end, is certainly wrong.

    By bisection, so it is the least where failing goes on once it began.
    """
    from_end = flip.length - flip.step if 2 * flip.step > flip.length else None

    def step_of(length: int) -> int:
        return flip.step if from_end is None else length - from_end

    def not_wrong(length: int) -> bool:
        return not (1 <= step_of(length) <= length and judge.wrong(length, step_of(length)))

    least = 1 + last_true(not_wrong, lower, flip.length)
    return SingleFlip(least, step_of(least))


def _scan(scores: AnchorScores, proved: int, horizon: int, limit: int) -> LengthBound:
    """The exact bound: the least length at which some step fails, with every step of every shorter length certainly
    right.

    What the others weigh at a step grows with the length, so a step that is right at the horizon is right before it.
    """
    judge = StepJudge(scores, horizon)
    last = next((p for p in range(max(1, proved), horizon) if not judge.rises(p)), horizon)
    delicate = [step for step in range(1, last + 1) if not judge.right(last, step)]
    lower = proved
    for length in range(proved + 1, last + 1):
        steps = [step for step in delicate if step <= length]
        wrong = next((step for step in steps if judge.wrong(length, step)), None)
        if wrong is not None:
            return LengthBound(lower, SingleFlip(length, wrong), limit)
        if not all(judge.right(length, step) for step in steps):
            break
        lower = length
    return LengthBound(lower, _first_wrong(judge, lower, horizon), limit)


def _first_wrong(judge: StepJudge, lower: int, horizon: int) -> SingleFlip | None:
    """A failing string beyond the place where source angles stop to rise, or where balls left a step open."""
    for length in range(lower + 1, horizon + 1):
        for step in _suspects(judge, length):
            if judge.wrong(length, step):
                return SingleFlip(length, step)
    return None
