"""The criterion `half`: is the right output's probability above one half, for all strings of all lengths?

The probability of the right output t is above 1/2 iff `sum over y of exp(-(l_t - l_y)) < 1`, over the competitors y.
By logits before the final norms, `l_t - l_y = g (difference)`, g their positive factor, at least `least_scale`. With
m_y > 0 a proved lower bound of the difference over all strings, for given query token and symbol,

    sum over y of exp(-least_scale m_y) < 1      proves it                              (label: new; method:
    float+bound, ball).

Failing the arg-max refutes it, since then some output is at least as likely as the right one. In between, the answer
is UNDECIDED: the worst strings of different competitors are different strings. With two outputs both criteria are the
same.
"""

from __future__ import annotations

from dataclasses import dataclass

from flint import arb

from theory._balls import total, working_precision
from theory._certify_one_layer import Certified, Decider, Status, Tick, certify_strings
from theory._one_layer import OneLayerModel, StepCase

#: Threshold of a step that no length up to the largest has.
VACUOUS = 2.0**20


@dataclass(frozen=True)
class CertifiedHalf:
    """What was decided under the criterion `half`.

    Attributes:
        argmax: the decision by arg-max.
        status: of the criterion.
        thresholds: for each case a logit difference that all strings were proved to exceed.
        competing: an upper bound of the largest sum over competitors; None if the arg-max fails.
    """

    argmax: Certified
    status: Status
    thresholds: dict[StepCase, float]
    competing: float | None


def certify_half(model: OneLayerModel, max_length: int, tick: Tick = lambda: None) -> CertifiedHalf:
    """Decide the criterion `half` for every string of every length up to `max_length`.

    Raises:
        InputError: as `certify_strings`.

    Cost: a few times that of `certify_strings` for each competitor.
    """
    argmax = certify_strings(model, max_length, tick)
    if argmax.status != "PROVED":
        return CertifiedHalf(argmax, argmax.status, {}, None)
    decider = Decider(model, max_length, tick)
    thresholds = {
        case: decider.threshold(case, argmax, max_length) if case.first or max_length > 1 else VACUOUS
        for case in model.cases()
    }
    if model.outputs == 2:
        return CertifiedHalf(argmax, "PROVED", thresholds, None)
    with working_precision(128):
        groups: dict[tuple[int, bool, int], list[arb]] = {}
        for case, threshold in thresholds.items():
            term = (-model.least_scale * arb(threshold)).exp()
            groups.setdefault((case.query, case.first, case.symbol), []).append(term)
        sums = [total(terms) for terms in groups.values()]
        status: Status = "PROVED" if all(value < 1 for value in sums) else "UNDECIDED"
        return CertifiedHalf(argmax, status, thresholds, max(float(value.upper()) for value in sums))
