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

from theory._anchor_curve import AnchorScores, Curve, least_slope_place, slope_is_at_least
from theory._balls import ball, total, working_precision
from theory._errors import InputError, require_at_least
from theory._length_scan import SingleFlip

#: Neighbours on each side that are summed one by one.
NEIGHBOURS = 64

#: A slope that is proved is this much below the least slope sampled, relative.
SLOPE_SLACK = Fraction(1, 2**12)

#: Lengths up to this are decided step by step.
LONGEST_SCAN = 20_000

#: A bracket's two ends may differ by this much where no scan is possible.
BRACKET = Fraction(1, 100)

#: Lengths above this are not looked at.
LARGEST_LENGTH = 10**60


@dataclass(frozen=True)
class LengthProof:
    """Why every string of every length up to `length` is copied.

    Attributes:
        length: L.
        least_step: m, a rational lower bound of phi_A' on [1, L].
        mismatch: eta. leak: the A anchors' relative share after the string.
        others: the left side of the condition, certainly below 1.
    """

    length: int
    least_step: Fraction
    mismatch: arb
    leak: arb
    others: arb


@dataclass(frozen=True)
class _Frame:
    """Bounds of a copier's query and key vectors: eta, c and lambda of the module's statement, and the leak."""

    mismatch: arb
    leak: arb
    query_part: arb
    output_part: arb


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


def _frame(scores: AnchorScores, length: int, sources: Curve, queries: Curve) -> _Frame:
    leak = leak_bound(scores, length)
    # |d phi / d D| = 1/(2 cosh D) <= 1/2
    mismatch = sources.largest_difference(queries) / 2
    if scores.marker is None:
        # (w1, w2) of one pair is at most sqrt 2 times its larger entry, and at least that entry.
        share = arb(2).sqrt() * leak
        return _Frame(mismatch.upper(), leak, (1 / (1 + share * share).sqrt()).lower(), share.upper())
    # The B anchors' shares (p, 1-p) have norm r in [1/sqrt 2, 1]; the leak moves the plane part by at most `leak`.
    marker = abs(ball(scores.marker))
    shortest, longest = 1 / arb(2).sqrt() - leak, 1 + leak
    if not shortest > 0:
        raise InputError("lift", str(scores.lift), "large enough to keep the A anchors out of the queries")
    turn = (leak / shortest).atan() if leak < shortest else arb.pi()
    return _Frame(
        (mismatch + turn).upper(),
        leak,
        (shortest / (shortest**2 + marker**2).sqrt()).lower(),
        (longest / (longest**2 + marker**2).sqrt()).upper(),
    )


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
        others, frame = _others(scores, length, sources, queries, least_step)
        if not others < 1:
            return None
        if length > 1 and slope_is_at_least(sources, Fraction(1), Fraction(length), least_step) is not True:
            return None
        return LengthProof(length, least_step, frame.mismatch, frame.leak, others)


def _sampled_step(sources: Curve, length: int) -> Fraction:
    """A short rational a little below the least slope among sample points, 0 if that is not positive."""
    slope = least_slope_place(sources, Fraction(1), Fraction(length))[1]
    if not slope > 0:
        return Fraction(0)
    mantissa, exponent = (int(part) for part in slope.lower().man_exp())
    exact = Fraction(mantissa) * Fraction(2) ** exponent * (1 - SLOPE_SLACK)
    bits = 24 - exact.numerator.bit_length() + exact.denominator.bit_length()
    return Fraction(int(exact * 2**bits), 2**bits)


def _others(
    scores: AnchorScores, length: int, sources: Curve, queries: Curve, least_step: Fraction
) -> tuple[arb, _Frame]:
    """The left side of the condition, infinite where its side conditions are not certain."""
    frame = _frame(scores, length, sources, queries)
    scale = ball(scores.scale) * frame.query_part
    step, eta = ball(least_step), frame.mismatch
    nearest, last = eta.cos(), min(NEIGHBOURS, length)
    if not step >= 2 * eta or not step * last - eta <= arb.pi():
        return arb("inf"), frame
    weights = [(-scale * (nearest - (step * k - eta).cos())).exp() for k in range(1, last + 1)]
    outputs = (length - 1) * (-scale * (nearest - frame.output_part)).exp()
    if length == 1:
        return arb(0), frame
    return 2 * total(weights[:-1]) + 2 * length * weights[-1] + outputs, frame


def step_others(scores: AnchorScores, length: int, step: int, reach: int = NEIGHBOURS) -> tuple[arb, arb]:
    """Weight of all tokens other than source i against its own 1, at step i of any string of `length`: a certain lower
    bound (the nearest sources only), and a ball that is certainly at least the whole.

    The larger is what the other tokens weigh in the string that is constant but for s_i.

    Cost: `2 reach` evaluations of the curve. The upper value assumes that source angles are monotone on [1, length].
    """
    if not 1 <= step <= length:
        raise InputError("step", step, f"a step from 1 to the length {length}")
    with working_precision(scores.precision):
        sources, queries = scores.source_curve(), scores.query_curve()
        frame = _frame(scores, length, sources, queries)
        scale = ball(scores.scale) * _query_part(scores, queries, step, frame)
        asked = queries.angle(step)
        if scores.marker is not None:
            asked += arb(0, (frame.mismatch).upper())
        own = (asked - sources.angle(step)).cos()
        near = [j for j in range(step - reach, step + reach + 1) if 1 <= j <= length and j != step]
        weights = {j: (-scale * (own - (asked - sources.angle(j)).cos())).exp() for j in near}
        inner = total(weights.values())
        edge = [weights[j] for j in near if abs(j - step) == reach]
        outputs = (step - 1) * (-scale * (own - frame.output_part)).exp()
        return inner, inner + length * total(edge) + outputs


def _query_part(scores: AnchorScores, queries: Curve, step: int, frame: _Frame) -> arb:
    """Length of the query's part in the plane of the sources, a ball."""
    if scores.marker is None:
        return _between(frame.query_part, arb(1))
    ratio = (-queries.value(step)).exp()
    r = (1 + ratio * ratio).sqrt() / (1 + ratio) + arb(0, frame.leak.upper())
    return r / (r * r + ball(scores.marker) ** 2).sqrt()


def _between(low: arb, high: arb) -> arb:
    return low.union(high)


def breaks(scores: AnchorScores, flip: SingleFlip) -> bool:
    """Does the copier certainly get the step of a single-flip string wrong? Method: ball."""
    return bool(step_others(scores, flip.length, flip.step)[0] >= 1)
