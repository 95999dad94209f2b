"""Kinds `cosine-lemma` and `cosine-step-counterexample`: how likely a cosine is close to 1.

With delta = 2 t^2, `arccos(1 - delta) = 2 arcsin(t)`, since cos(2 arcsin t) = 1 - 2 t^2. For theta uniform on
[0, 2 pi], `P(cos theta >= 1 - delta) = arccos(1 - delta)/pi` for 0 < delta <= 2. As arcsin(t)/t increases on
(0, 1], so does `arccos(1 - delta)/(pi sqrt(delta))` on (0, 2]: its value at the right end bounds it on all
smaller delta.
"""

from __future__ import annotations

from fractions import Fraction

from flint import arb

from proofs_check.verify.reading import (
    Rejected,
    ball,
    decide,
    is_at_most,
    is_less,
    require_fields,
    require_rational,
    spell,
)


def check_cosine_lemma(inputs: object, claim: object) -> str:
    """The statement of a `cosine-lemma` certificate.

    Raises:
        Rejected: delta_below outside (0, 2], or the constant is too small.
    """
    fields = require_fields(inputs, "inputs", ("delta_below",))
    delta = require_rational(fields["delta_below"], "inputs.delta_below")
    constant = require_rational(require_fields(claim, "claim", ("constant",))["constant"], "claim.constant")
    if not 0 < delta <= 2:
        raise Rejected("inputs.delta_below is not in (0, 2]")
    if not _bounds_ratio(delta, constant):
        raise Rejected("claim.constant is too small")
    return (
        f"For theta uniform on [0, 2 pi] and all 0 < delta < {spell(delta)}: "
        f"P(cos theta >= 1 - delta) <= {spell(constant)} sqrt(delta)."
    )


def _bounds_ratio(delta: Fraction, constant: Fraction) -> bool:
    """Is arccos(1 - delta) <= constant pi sqrt(delta)?

    At delta = 1 the ratio is exactly 1/2. At every other rational delta in (0, 2] it is irrational, so that balls
    decide: a rational ratio would make arccos(1 - delta)/pi algebraic, so rational by Gelfond and Schneider, which
    Niven's theorem leaves to 1 - delta in {0, 1/2, -1/2, -1}, and there sqrt(delta) is irrational but for delta = 1.
    """
    if delta == 1:
        return constant >= Fraction(1, 2)
    return decide(
        lambda: is_at_most(_arccos_one_minus(delta), ball(constant) * arb.pi() * ball(delta).sqrt()), "the constant"
    )


def check_cosine_step_counterexample(inputs: object, claim: object) -> str:
    """The statement of a `cosine-step-counterexample` certificate.

    Raises:
        Rejected: delta outside (0, 1/10), or so small that the balls do not separate the two sides.
    """
    require_fields(inputs, "inputs", ())
    delta = require_rational(require_fields(claim, "claim", ("delta",))["delta"], "claim.delta")
    if not 0 < delta < Fraction(1, 10):
        raise Rejected("claim.delta is not in (0, 1/10)")
    if not decide(lambda: is_less(ball(2 * delta).sqrt(), _arccos_one_minus(delta)), "arccos(1-delta) > sqrt(2 delta)"):
        raise Rejected("arccos(1-delta) is not above sqrt(2 delta)")
    return (
        f"At delta = {spell(delta)}, theta = arccos(1 - delta) in [0, pi] has cos theta >= 1 - delta "
        "but theta > sqrt(2 delta), so cos theta >= 1 - delta does not imply theta <= sqrt(2 delta)."
    )


def _arccos_one_minus(delta: Fraction) -> arb:
    """arccos(1 - delta) for 0 < delta <= 2, without cancellation for small delta."""
    return arb.pi() if delta == 2 else 2 * ball(delta / 2).sqrt().asin()
