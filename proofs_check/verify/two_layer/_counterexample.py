"""Kind `two-layer-counterexample`: a copier of the form gets one step of one string wrong, however long it is.

In the string that is constant but for s_i, all other sources and all outputs before step i vote against s_i. With the
query's part c_i at the angle phi_B(i), the source j weighs, over the source i,

    w_j = exp(-S c_i (cos(phi_B(i) - phi_A(i)) - cos(phi_B(i) - phi_A(j)))),

and so the step is wrong if some of the w_j add up to 1 or more. c_i and the query's angle are known but for what leaks
from the A anchors.
"""

from __future__ import annotations

from flint import arb

from proofs_check.verify.reading import Rejected, ball, require_fields, require_integer, spell, total, working_precision
from proofs_check.verify.two_layer._anchor_curve import LARGEST_LENGTH, bits_of, query_curve, source_curve, working_bits
from proofs_check.verify.two_layer._form import Form, read_form
from proofs_check.verify.two_layer._length import NEIGHBOURS, leak_bound, shared_lengths
from proofs_check.verify.two_layer._model import TwoLayerModel


def check_two_layer_counterexample(model: TwoLayerModel, claim: object) -> str:
    """The statement of a `two-layer-counterexample` certificate.

    Raises:
        Rejected: the layout is the trained one, the weights are not of the form, or the step is not certainly wrong.
    Cost: reading the form, and 130 evaluations of the curve.
    """
    fields = require_fields(claim, "claim", ("length", "background", "step"))
    length = require_integer(fields["length"], "claim.length", 1, LARGEST_LENGTH)
    background = require_integer(fields["background"], "claim.background", 0, 1)
    step = require_integer(fields["step"], "claim.step", 1, length)
    if model.trained:
        raise Rejected("this kind is about the theory layout")
    form = read_form(model)
    with working_precision(working_bits(form, length, bits_of(form.scale))):
        if not _others(form, length, step) >= 1:
            raise Rejected("the sources near claim.step do not certainly weigh as much as the right one")
    return (
        f"For {model.description}: in the string of length {spell(length)} that is {background} everywhere but at "
        f"{spell(step)}, the answer of step {spell(step)} is not the symbol {1 - background} that stands there, so "
        "this string is not copied."
    )


def _others(form: Form, length: int, step: int) -> arb:
    """The sum of the w_j with j within `NEIGHBOURS` of the step."""
    sources = source_curve(form)
    part, angle = _query(form, length, step)
    strength, here = ball(form.scale) * part, sources.angle(step)
    near = range(max(1, step - NEIGHBOURS), min(length, step + NEIGHBOURS) + 1)

    def weight(j: int) -> arb:
        there = sources.angle(j)
        # cos(q - h) - cos(q - t) = 2 sin((t + h)/2 - q) sin((t - h)/2) where nearby angles would cancel.
        fall = 2 * ((there + here) / 2 - angle).sin() * ((there - here) / 2).sin()
        return (-strength * fall).exp()

    return total(weight(j) for j in near if j != step)


def _query(form: Form, length: int, step: int) -> tuple[arb, arb]:
    """c_i and the angle of the query's part, as balls."""
    leak = leak_bound(form, length)
    tangent = (-query_curve(form).derivatives(step, 1)[0]).exp()
    if form.marker is None:
        return (1 / (1 + 2 * leak * leak).sqrt()).union(arb(1)), tangent.atan()
    least, _ = shared_lengths(leak)
    length_of_part = (1 + tangent * tangent).sqrt() / (1 + tangent)
    widened = length_of_part + arb(0, leak.upper())
    share = widened / (widened * widened + ball(form.marker) ** 2).sqrt()
    return share, tangent.atan() + arb(0, (leak / least).atan().upper())
