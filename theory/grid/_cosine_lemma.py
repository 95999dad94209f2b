"""The paper's lemma on one cosine, its one false step, and the sharp constant.

*Lemma* (paper, section J.2). For theta uniform on [0, 2 pi] and 0 < delta < 0.1, P(cos theta >= 1 - delta) <=
sqrt(delta).

*Proof* (new; the printed one passes through theta <= sqrt(2 delta), which is false). The probability is arccos(1 -
delta)/pi. With delta = 2 t^2, arccos(1 - delta) = 2 arcsin t, and arcsin(t)/t increases on (0, 1]; so arccos(1 -
delta)/(pi sqrt(delta)) increases on (0, 2], and its value at the right end bounds it: 0.4540 at 1/10, against the 1
needed.
"""

from __future__ import annotations

from fractions import Fraction

from flint import arb

from theory.numbers import InputError, ball, working_precision

PRECISION = 128


def cosine_constant(delta_below: Fraction) -> arb:
    """Ball around the least c with P(cos theta >= 1 - delta) <= c sqrt(delta) for all 0 < delta < delta_below.

    Raises:
        InputError: delta_below outside (0, 2], where the monotonicity argument ends.
    """
    if not 0 < delta_below <= 2:
        raise InputError("delta_below", str(delta_below), "a number in (0, 2]")
    with working_precision(PRECISION):
        return _arccos_one_minus(delta_below) / (arb.pi() * ball(delta_below).sqrt())


def cosine_step_excess(delta: Fraction) -> arb:
    """arccos(1 - delta) - sqrt(2 delta): positive, so the step theta <= sqrt(2 delta) of the printed proof is false
    at this delta.
    """
    if not 0 < delta < 2:
        raise InputError("delta", str(delta), "a number in (0, 2)")
    with working_precision(PRECISION):
        return _arccos_one_minus(delta) - ball(2 * delta).sqrt()


def _arccos_one_minus(delta: Fraction) -> arb:
    return 2 * (ball(delta / 2).sqrt()).asin() if delta < 2 else arb.pi()
