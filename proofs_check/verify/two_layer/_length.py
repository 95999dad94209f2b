"""Kind `two-layer-length`: a two-layer copier copies every binary string of every length up to L.

Against the source s_i all other sources and all outputs before step i may vote at once. In the plane that layer 2
compares, sources are unit vectors at the angles phi(j) in [0, pi/2], and the query of step i has a part of length
c_i >= c at an angle within eta of phi(i), and in [0, pi/2] too. With phi' >= m on [1, L] the source j is at least
m|i-j| - eta away from it, and at most pi/2. So with m >= 2 eta its score is less than that of s_i by at least

    gap(|i-j|),   gap(k) = S c (cos(eta) - cos(m k - eta)),

which increases in k as long as m k - eta <= pi. From the distance K = min(64, L) on there are at most L - K sources,
since j <= i-K and j >= i+K leave out 2K-1 or, where one side is empty, K places at least. An output's part in that
plane is at most lambda, so its score is at most S c_i lambda. Every length n <= L is covered: phi and the query's part
do not depend on n but through what leaks, which is bounded for all n, and there are fewer sources and outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from proofs_check.verify.reading import (
    Rejected,
    ball,
    require_fields,
    require_integer,
    require_rational,
    spell,
    total,
    working_precision,
)
from proofs_check.verify.two_layer._anchor_curve import (
    LARGEST_LENGTH,
    Curve,
    fraction_of_turn,
    largest_difference,
    plain_source_curve,
    source_curve,
    working_bits,
)
from proofs_check.verify.two_layer._form import Form, read_form
from proofs_check.verify.two_layer._model import Turning, TwoLayerModel

#: Distances summed one by one.
NEIGHBOURS = 64


@dataclass(frozen=True)
class Frame:
    """How far queries and outputs may be from the ideal.

    Attributes:
        mismatch: eta, a bound of the angle between the query's part of step i and the source i.
        query: c, the least part of a query in the plane. output: lambda, the largest part of an output in it.
    """

    mismatch: arb
    query: arb
    output: arb


def check_two_layer_length(model: TwoLayerModel, evidence: object, claim: object) -> str:
    """The statement of a `two-layer-length` certificate, derived from the weights.

    Raises:
        Rejected: the weights are not of the form, or the evidence does not carry the length.
    Cost: reading the form, and at most `MOST_WAVES` evaluations of waves.
    """
    names = ("step_at_least", "fall_at_least") if model.trained else ("step_at_least",)
    fields = require_fields(evidence, "evidence", names)
    length = require_integer(require_fields(claim, "claim", ("length",))["length"], "claim.length", 1, LARGEST_LENGTH)
    step = require_positive(fields["step_at_least"], "evidence.step_at_least")
    fall = require_rational(fields["fall_at_least"], "evidence.fall_at_least") if model.trained else None
    form = read_form(model)
    bits = working_bits(form, length, 1 / step)
    with working_precision(bits):
        _require_length(form, length, step, fall, bits)
    return f"For {model.description}: every binary string of every length from 1 to {spell(length)} is copied."


def require_positive(value: object, what: str) -> Fraction:
    """`value` as a rational number above 0."""
    number = require_rational(value, what)
    if number <= 0:
        raise Rejected(f"{what} is not positive")
    return number


def _require_length(form: Form, length: int, step: Fraction, fall: Fraction | None, bits: int) -> None:
    """Under the working precision `bits`."""
    frame = theory_frame(form, length) if fall is None else _trained_frame(form, length, fall, bits)
    if length > 1:
        require_step(source_curve(form), 1, length, step, bits)
    m, far = ball(step), min(NEIGHBOURS, length)
    if not (m >= 2 * frame.mismatch and m * far - frame.mismatch <= arb.pi()):
        raise Rejected("evidence.step_at_least is too small beside the mismatch of queries and sources, or too large")
    scale = ball(form.scale) * frame.query

    def weight(k: int) -> arb:
        return (-scale * (frame.mismatch.cos() - (m * k - frame.mismatch).cos())).exp()

    others = 2 * total(weight(k) for k in range(1, far))
    if length > far:
        others += (length - far) * weight(far)
    if length > 1:
        others += (length - 1) * (-scale * (frame.mismatch.cos() - frame.output)).exp()
    if not others < 1:
        raise Rejected("evidence.step_at_least does not carry claim.length: the other tokens may weigh 1 or more")


def require_step(curve: Curve, low: int, high: int, step: Fraction, bits: int) -> None:
    """Rejected unless phi' >= step at all real x in [low, high]."""
    curve.require_on(low, high, curve.slope_at_least(ball(step)), bits, f"phi' >= the step on [{low}, {high}]")


def theory_frame(form: Form, length: int) -> Frame:
    """The frame in the theory layout for every length up to `length`.

    An A anchor weighs at most ell times what a B anchor does. In planes of their own the A anchors' part is at most
    `sqrt(2) ell` times the B anchors' part. In a shared plane, with the B anchors' weights adding up to 1, their part
    is between 1/sqrt(2) and 1 long, the A anchors' at most ell, and the marker is mu long.

    Raises:
        Rejected: in a shared plane, the leak is too large for a bound.
    """
    leak = leak_bound(form, length)
    mismatch = largest_difference(form) / 2
    if form.marker is None:
        leaked = arb(2).sqrt() * leak
        return Frame(mismatch, 1 / (1 + leaked * leaked).sqrt(), leaked)
    least, most = shared_lengths(leak)
    return Frame(mismatch + (leak / least).atan(), _share(least, form.marker), _share(most, form.marker))


def shared_lengths(leak: arb) -> tuple[arb, arb]:
    """Least and largest length of a query's part in a shared plane, the B anchors' weights adding up to 1."""
    least = 1 / arb(2).sqrt() - leak
    if not least > leak:
        raise Rejected("too much may leak from the A anchors into the queries")
    return least, 1 + leak


def _share(length: arb, marker: Fraction) -> arb:
    """What a part of this length is of a unit vector, the marker being the rest."""
    return length / (length * length + ball(marker) ** 2).sqrt()


def leak_bound(form: Form, length: int) -> arb:
    """ell: what an A anchor weighs at most, over a B anchor, at any query of any length up to `length`."""
    if _both_fall(form, length):
        return (-ball(form.lift)).exp()
    amplitudes = total(ball(wave.square).sqrt() for wave in (*form.before, *form.after))
    return (amplitudes - ball(form.lift)).exp()


def _both_fall(form: Form, length: int) -> bool:
    """Is one wave all, does it fall with the distance as far as it matters, and are A anchors farther in it?

    The scores are R cos(beta r - psi_A) at A anchors, beta r - psi_A in [beta - psi_A, beta (2L+b) - psi_A], and
    R cos(beta r' - psi_B) at B anchors, beta r' - psi_B in [-psi_B, beta L - psi_B], with r - r' >= b.
    """
    if len(form.before) != 1 or form.before[0].square != form.after[0].square:
        return False
    beta = 2 * arb.pi() * fraction_of_turn(form.before[0].frequency)
    early, late = _phase(form.before[0]), _phase(form.after[0])
    b = form.model.b
    return bool(
        beta >= 0
        and -late >= 0
        and beta - early >= 0
        and beta * (2 * length + b) - early <= arb.pi()
        and beta * length - late <= arb.pi()
        and beta * b >= early - late
    )


def _phase(wave: Turning) -> arb:
    """psi with even cos(x) + odd sin(x) = R cos(x - psi)."""
    return arb.atan2(ball(wave.odd), ball(wave.even))


def _trained_frame(form: Form, length: int, fall: Fraction, bits: int) -> Frame:
    """The frame in the trained layout for every length up to `length`; see docs/certificates.md.

    Raises:
        Rejected: K does not fall by `fall` a position, or `fall` is below 1.
    """
    if form.values is None or fall < 1:
        raise Rejected("evidence.fall_at_least is below 1")
    curve, s = plain_source_curve(form), ball(fall)
    curve.require_on(0, 2 * length + 2, curve.value_at_most(-s), bits, "K falls by evidence.fall_at_least a position")
    v1, v2, v3 = (ball(value) for value in form.values)
    mismatch = 3 * (-3 * s).exp() * curve.largest(1) / 2
    most = v3 / v2 * curve.largest(0).exp()
    least = v3 * s.exp() / (2 * (v1 * (-s).exp() + v2))
    return Frame(mismatch, 1 / (1 + most * most).sqrt(), 1 / (1 + least * least).sqrt())
