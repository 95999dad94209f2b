"""Kinds `anchor-curve-lemma` and `anchor-curve-pair`: Theorem 3.2's lemma on the vectors h_i of a stored model.

h_{-1} = (1, 0), h_0 = (1, 1)/sqrt(2), and h_i = (cos phi_A(i), sin phi_A(i)) for i >= 1: unit vectors at angles in
[0, pi/2], so that `<h_i, h_j>` is the cosine of the difference of two angles and falls as that grows. If phi_A rises
by at least m a position on [1, n+1], with `phi_A(1) >= pi/4 + m` and `m <= pi/4`, any two of the angles with
-1 <= i < j <= n+1 are at least m apart.
"""

from __future__ import annotations

from flint import arb

from proofs_check.verify.reading import Rejected, ball, require_fields, require_integer, spell, working_precision
from proofs_check.verify.two_layer._anchor_curve import LARGEST_LENGTH, Curve, source_curve, working_bits
from proofs_check.verify.two_layer._form import Form, read_form
from proofs_check.verify.two_layer._length import require_positive, require_step
from proofs_check.verify.two_layer._model import TwoLayerModel

_VECTORS = (
    "h_{-1} = (1, 0), h_0 = (1, 1)/sqrt(2) and h_i = (cos phi_i, sin phi_i), tan phi_i = exp(K(i) - K(i+1)), "
    "K(r) being what the turning pairs of layer 1 add to the score of an A anchor r indices back"
)

#: Denominators beyond this are refused.
LARGEST_DENOMINATOR = LARGEST_LENGTH**3


def check_anchor_lemma(model: TwoLayerModel, evidence: object, claim: object) -> str:
    """The statement of an `anchor-curve-lemma` certificate.

    Raises:
        Rejected: the layout is the trained one, the weights are not of the form, or the evidence does not carry it.
    Cost: reading the form, and at most `MOST_WAVES` evaluations of waves.
    """
    fields = require_fields(claim, "claim", ("length", "denominator"))
    length = require_integer(fields["length"], "claim.length", 1, LARGEST_LENGTH)
    denominator = require_integer(fields["denominator"], "claim.denominator", 1, LARGEST_DENOMINATOR)
    given = require_fields(evidence, "evidence", ("step_at_least",))
    step = require_positive(given["step_at_least"], "evidence.step_at_least")
    form = _theory_form(model)
    bits = working_bits(form, length, 1 / step, denominator)
    with working_precision(bits):
        curve, m = source_curve(form), ball(step)
        # 1 - cos(m) = 2 sin(m/2)^2
        if not (4 * m <= arb.pi() and 2 * (m / 2).sin() ** 2 * denominator >= 1):
            raise Rejected("evidence.step_at_least is above pi/4, or its cosine above 1 - 1/claim.denominator")
        if not curve.angle(1) - arb.pi() / 4 >= m:
            raise Rejected("h_1 is not certainly evidence.step_at_least away from h_0")
        require_step(curve, 1, length + 1, step, bits)
    return (
        f"For {model.description}: with {_VECTORS}, <h_i, h_j> <= 1 - 1/{spell(denominator)} for all "
        f"-1 <= i < j <= {spell(length + 1)}."
    )


def check_anchor_pair(model: TwoLayerModel, claim: object) -> str:
    """The statement of an `anchor-curve-pair` certificate.

    Raises:
        Rejected: the layout is the trained one, the weights are not of the form, or the product is not certainly
            larger.
    """
    fields = require_fields(claim, "claim", ("i", "j", "denominator"))
    j = require_integer(fields["j"], "claim.j", 0, LARGEST_LENGTH)
    i = require_integer(fields["i"], "claim.i", -1, j - 1)
    denominator = require_integer(fields["denominator"], "claim.denominator", 1, LARGEST_DENOMINATOR)
    form = _theory_form(model)
    with working_precision(working_bits(form, j, denominator)):
        curve = source_curve(form)
        apart = _angle(curve, j) - _angle(curve, i)
        if not 2 * (apart / 2).sin() ** 2 * denominator < 1:
            raise Rejected("<h_i, h_j> is not certainly above 1 - 1/claim.denominator")
    return (
        f"For {model.description}: with {_VECTORS}, <h_i, h_j> > 1 - 1/{spell(denominator)} for i = {spell(i)} and "
        f"j = {spell(j)}."
    )


def _theory_form(model: TwoLayerModel) -> Form:
    if model.trained:
        raise Rejected("this kind is about the theory layout")
    return read_form(model, answers=False)


def _angle(curve: Curve, i: int) -> arb:
    if i >= 1:
        return curve.angle(i)
    return arb.pi() / 4 if i == 0 else arb(0)
