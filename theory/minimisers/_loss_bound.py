"""A lower bound on the population loss of every one-layer 2D-RoPE model with parameters in [-M, M], certified.

*Statement* (new). In the setting of `_minimiser_setting`, every choice of queries, keys and values, whether or not keys
and values depend on the token, has population loss at least `f(M (1 - 2T))`, f(m) = ln(1 + e^-m), for the T computed
here. T > 0, so the bound is better than the floor f(M) = ln(1 + e^-M).

*Derivation.* Fix a step t = (n, i) and the query token c.

1. *Jensen.* f is convex and decreasing, so the loss is at least f of the mean margin. Write the rest (everything but
   the wanted key) as total weight D with mean value r, the wanted key's weight as a if s_i = 0 and b if s_i = 1. For
   the two strings that differ in s_i only, the margins add up to `p (v_0 - r) + p' (r - v_1)`, p = a/(a+D), p' =
   b/(b+D), which does not decrease in v_0 nor in -v_1 (r holds a part of each at most 1). So v_0 = M, v_1 = -M may be
   assumed, and the mean margin is M (1 - 2 E X), X the attention on wrong tokens; a token of A or B with value v
   counts as wrong with the part (1 - v/M)/2 if s_i = 0 and (1 + v/M)/2 if s_i = 1.
2. *Averaging over strings.* x_j, y_j: the weight of token j if its symbol is 1, 0. Given that j is wrong, D is at most
   X_t + Y_t on average, where X_t (Y_t) sums the x_j (y_j) of the data tokens with free symbols, and twice the part
   wrong for s_i = 0 (1) of the weight of each token that is there for every string: those of A and B, and the repeats
   of c. Since 1/(a + D) is convex in D,

       E[X | t, c]  >=  (X_t/(a + E) + Y_t/(b + E)) / 4,    E >= X_t + Y_t.

3. *Dilution.* Only E makes this nonlinear. Take all steps with the same query; a and b are then the same, and E the sum
   over all tokens and relations that occur, E = X + Y. With kappa > 0, h = kappa/(1 + kappa), two cases.
   - E <= kappa min(a, b): the mean of the right side is at least (1 - h)/4 times that of X_t/a + Y_t/b.
   - E > kappa b, b <= a say. Each token and relation occurs with probability at least W, so the means of X_t, Y_t are
     at least W X and W Y; the mean of Y_t is also at least a y, where y bounds the mean of the sum of exp(-gap) over
     tokens of *one* symbol, which have one query and one key: a linear part as in 4. With q = Y/E, e = E/a and any
     theta in [0, 1] four times the mean is at least

         W (1-q) e/(1+e) + h (theta y/e + (1-theta) W q)  >=  min((1-theta) h W, 2 sqrt(theta h y W) - theta h y),

     since it is linear in q. For a wish g <= W it is at least g if `h = g/W + g^2/(y (sqrt(W) + sqrt(W-g))^2)`.
   - L = 2 under free queries: query 0 meets no data token but 0, so that X_t holds no data token and nothing bounds its
     mean by y. But then only the part of Y_t is kept as linear, and b takes the place of min(a, b) in both cases (for
     query 1, a).
4. *Linear part.* What remains is a sum of `omega exp(-g)`, g linear in the products of queries and keys. For any
   costs gamma, `exp(-g) >= exp(-gamma) (1 + gamma - g)`, so the sum is at least `sum mu (1 + gamma) - P`, mu = omega
   exp(-gamma), P the largest `sum mu g` over the box. B_b, and any token if queries are tied, has the mean of its two
   gaps (0 wanted and 1 wrong, 1 wanted and 0 wrong), that of the key (k_0 + k_1)/2: a point of a diamond for each
   pair. For c = 0, 1 under free queries let W and R be the means over c of the (A, B) of (q_c, k_other) and of (q_c,
   k_c). The mean gap over c is `W at w - R at r` where the other symbol is wanted, `R at w - W at r` where c is.
   Repeats of c are wrong in the first case only. In units of 2 M^2 a linear functional of (W, R) is at most
   `max(|w_A| + |r_A|, |w_B| + |r_B|)`, pair by pair. For at corners q_c = M i^m (1 + i), k_x = M i^n (1 + i), the
   products (A + i B)/(2 M^2) are powers of i, p p' for W and s s' for R, with p p' = s s'. If all four are real or
   all imaginary, the value is at most one of the two; if p, p' are real and s, s' imaginary, or the other way, p p' =
   s s' makes one of the two means vanish; else each mean has parts +-1/2, and the value is at most a mean of the two.
5. *The wish.* If some query is diluted, it costs tau = g/4 by itself; if none is, the linear part remains. So
   T = min(tau, linear part), where each query's part has its own factor 1 - h.

The costs gamma come from a convex minimisation in floats of the linear loss over the diamonds, or over the hull of (W,
R), which is max(|W_A|, |R_A|) + max(|W_B|, |R_B|) <= 1; any costs prove a bound. What is lost against the true minimum
is the factor 1 - h, Jensen's inequality, and what the hull holds beyond the choices of queries and keys.

Method: ball. Cost: O(d L) ball operations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp, floor, log
from typing import Literal

import numpy as np
from flint import arb
from jaxtyping import Float64

from theory.minimisers._log_programme import LogProgramme, least_log_sum
from theory.minimisers._programme import PRECISION, GapCoefficients
from theory.minimisers._setting import WANTED, Asker, GridRelation, MinimiserSetting
from theory.numbers import InputError, ball, float_below, halved, require_width, total, working_precision

#: Which symbol is wanted: the mean of both, or the query token c itself, or the other one.
Kind = Literal["mean", "same", "other"]

#: A term of the linear part: who asks, which symbol is wanted, the relation of the wrong token.
Term = tuple[Asker, Kind, GridRelation]

#: Costs gamma are multiples of this.
COST_UNIT = Fraction(1, 2**40)

#: The wish tau is rounded down to this many significant bits.
WISH_BITS = 40

#: Largest M whose scores are numbers to propose costs from.
LARGEST_BOUND = 2**100

#: Bisection steps, in the logarithm, for the best wish.
WISH_STEPS = 60


@dataclass(frozen=True)
class BoundEvidence:
    """What proves a lower bound; any numbers >= 0 prove one, if perhaps none better than the floor.

    Attributes:
        wish: tau, the share that a diluted query is to cost by itself.
        costs: gamma of each term of the linear part, in nats.
        same: for each asker, the costs of the sum over tokens of one symbol, by relation.
    """

    wish: Fraction
    costs: Mapping[Term, Fraction]
    same: Mapping[Asker, Mapping[GridRelation, Fraction]]


@dataclass(frozen=True)
class LossBound:
    """A certified lower bound on the population loss of every model in the box.

    Attributes:
        setting: the problem.
        evidence: what proves it.
        share: T, an exact ball: the mean attention on wrong tokens is at least that.
        loss: f(M (1 - 2T)); its lower end is the certified bound.
        excess: how far that is above the floor, with a relative precision of its own.
        floor: ln(1 + e^-M).
    """

    setting: MinimiserSetting
    evidence: BoundEvidence
    share: arb
    loss: arb
    excess: arb
    floor: arb

    @property
    def certified_loss(self) -> float:
        """A float that is certainly at most the bound."""
        return float_below(self.loss)

    @property
    def certified_excess(self) -> float:
        """A float that is certainly at most the excess over the floor (0 below the range of floats)."""
        return self.excess_over(self.setting.bound)

    def excess_over(self, ceiling: Fraction) -> float:
        """A float that is certainly at most the bound less ln(1 + exp(-ceiling)) (0 if that is not positive)."""
        with working_precision(PRECISION):
            same = ceiling == self.setting.bound  # then nothing cancels
            return max(0.0, float_below(self.excess if same else self.excess + self.floor - softplus(-ball(ceiling))))


def loss_lower_bound(setting: MinimiserSetting, *, position_only: bool = False) -> LossBound:
    """The best bound that this method finds; see the derivation above.

    `position_only` bounds the loss of the models with one key for 0 and 1 only (queries may differ): a query's gap is
    then the same whichever symbol is wanted, and that of the mean of the queries a point of a diamond for each pair.

    For L = 1 no other data token exists and the bound is the floor itself (which no model reaches).
    Cost: a few convex minimisations in floats, and about 100 times `certified_bound` at 64 bits.
    """
    problem = LossTerms(setting, position_only)
    means = problem.position_costs(problem.mean_weights)
    floats: dict[Term, float] = {(asker, "mean", r): cost for asker, own in means.items() for r, cost in own.items()}
    floats |= _coupled_costs(problem)
    costs = {term: _exact_cost(cost) for term, cost in floats.items()}
    same = {
        asker: {relation: _exact_cost(cost) for relation, cost in own.items()}
        for asker, own in problem.position_costs(problem.same_weights).items()
    }
    evidence = BoundEvidence(Fraction(0), costs, same)
    evidence = replace(evidence, wish=_rounded_down(problem.best_wish(evidence)))
    return certified_bound(setting, evidence, position_only=position_only)


def certified_bound(setting: MinimiserSetting, evidence: BoundEvidence, *, position_only: bool = False) -> LossBound:
    """The bound that the evidence proves (method: ball).

    Raises:
        KeyError: a term of the setting has no cost.
        VacuousBallError: the enclosure of the loss is too wide.
    """
    problem = LossTerms(setting, position_only)
    with working_precision(PRECISION):
        bound, share = ball(setting.bound), arb(0)
        if problem.terms:
            linear = problem.linear_part(evidence)
            share = arb(linear.min(ball(evidence.wish)).lower()).max(arb(0))
        # f(m) - f(M) = ln((1 + e^-m)/(1 + e^-M)) without cancellation: e^-m = e^-M e^(2MT).
        excess = ((2 * bound * share).expm1() / (bound.exp() + 1)).log1p()
        loss = require_width(softplus(bound * (2 * share - 1)), Fraction(1, 2**60), "the bound of the loss")
        return LossBound(setting, evidence, share, loss, excess, softplus(-bound))


def softplus(x: arb) -> arb:
    """ln(1 + e^x), a ball."""
    return arb(x.exp().log1p())


def undiluted_factor(wish: arb, least: arb, same: arb) -> arb:
    """1 - h of the derivation, cut at 0: what remains of the linear part if a diluted query costs `wish` (g).

    Args:
        wish: g = 4 tau.
        least: W, the least probability of a token at a relation.
        same: y, a lower bound of the mean of sum exp(-gap) over tokens of one symbol.
    """
    if wish == 0:
        return arb(1)
    if not (wish <= least and same > 0):
        return arb(0)
    roots = least.sqrt() + (least - wish).sqrt()
    return (1 - wish / least - wish**2 / (same * roots**2)).max(arb(0))


class LossTerms:
    """The terms of the linear part and what bounds them.

    Raises:
        InputError: M above 2^100: the costs are proposed in floats.
    """

    def __init__(self, setting: MinimiserSetting, position_only: bool = False) -> None:
        if setting.bound > LARGEST_BOUND:
            raise InputError("M", str(setting.bound), "at most 2^100, for a bound of the loss")
        self.setting = setting
        self.coefficients = GapCoefficients(setting.frequencies)
        self.weights = _term_weights(setting, position_only)
        self.terms = sorted(self.weights)
        self.same_weights = _same_weights(setting)

    @property
    def mean_weights(self) -> dict[Asker, dict[GridRelation, Fraction]]:
        """omega of the terms of kind "mean", by asker and relation."""
        weights: dict[Asker, dict[GridRelation, Fraction]] = {}
        for (asker, kind, relation), weight in self.weights.items():
            if kind == "mean":
                weights.setdefault(asker, {})[relation] = weight
        return weights

    def least_probability(self, asker: Asker) -> Fraction:
        """W: the least probability of a step with one query at which a given token stands at a given relation.

        1/L^2 at step 1 (only strings of length L have a source L-1 columns away) and 1/(2 L^2) for each of 0 and 1.
        Under tied queries a repeat counts half, its symbol being c; for L = 2 that is the least.
        """
        length = self.setting.length
        if asker == "any" and length == 2:
            return Fraction(1, 8)
        return Fraction(1, length**2 * (2 if asker == "data" else 1))

    def same(self, asker: Asker, evidence: BoundEvidence) -> arb:
        """y of an asker."""
        multipliers, value = {}, arb(0)
        for relation, weight in self.same_weights[asker].items():
            cost = ball(evidence.same[asker][relation])
            multipliers[relation] = ball(weight) * (-cost).exp()
            value += multipliers[relation] * (1 + cost)
        return value - ball(self.setting.scale) * self.coefficients.largest(multipliers)

    def factors(self, evidence: BoundEvidence) -> dict[Asker, arb]:
        """1 - h of each asker."""
        wish = 4 * ball(evidence.wish)
        return {
            asker: undiluted_factor(wish, ball(self.least_probability(asker)), self.same(asker, evidence))
            for asker in self.same_weights
        }

    def linear_part(self, evidence: BoundEvidence) -> arb:
        """sum mu (1 + gamma) - P, with each asker's factor."""
        factors = self.factors(evidence)
        multipliers, value = {}, arb(0)
        for term in self.terms:
            cost = ball(evidence.costs[term])
            multipliers[term] = factors[term[0]] * ball(self.weights[term]) * (-cost).exp()
            value += multipliers[term] * (1 + cost)
        return value - self.largest(multipliers)

    def largest(self, multipliers: Mapping[Term, arb]) -> arb:
        """P: the largest `sum mu g` over the box."""
        means: dict[Asker, dict[GridRelation, arb]] = defaultdict(dict)
        coupled: dict[Term, arb] = {}
        for term, multiplier in multipliers.items():
            if term[1] == "mean":
                means[term[0]][term[2]] = multiplier
            else:
                coupled[term] = multiplier
        alone = total(self.coefficients.largest(own) for own in means.values())
        return ball(self.setting.scale) * (alone + self._largest_coupled(coupled))

    def _largest_coupled(self, multipliers: Mapping[Term, arb]) -> arb:
        """P of the askers 0 and 1 under free queries, in units of 2 M^2."""
        wanted = self.coefficients.waves(WANTED)
        # By pair: the coefficients of W_A, W_B and of R_A, R_B.
        other, same = ([[arb(0), arb(0)] for _ in wanted] for _ in range(2))
        for (_, kind, relation), multiplier in multipliers.items():
            right, wrong = (other, same) if kind == "other" else (same, other)
            for f, there in enumerate(self.coefficients.waves(relation)):
                for side in (0, 1):
                    right[f][side] += multiplier * wanted[f][side]
                    wrong[f][side] -= multiplier * there[side]
        sides = [[abs(x) + abs(y) for x, y in zip(*pair, strict=True)] for pair in zip(other, same, strict=True)]
        return total(a.max(b) for a, b in sides)

    def vertex_gaps(self, term: Term) -> Float64[np.ndarray, "pairs 8"]:
        """The gap of a term of the askers 0 and 1 that each pair adds at the hull's vertices: (W, R) with W = 1, -1, i,
        -i in units of 2 M^2 and R = W, then R = -W; floats.
        """
        wanted, there = self.float_waves(WANTED), self.float_waves(term[2])
        # Where the other symbol is wanted the gap is W at w - R at r, where c is wanted it is R at w - W at r.
        equal, opposite = wanted - there, wanted + there if term[1] == "other" else -wanted - there
        parts = [sign * half[:, side] for half in (equal, opposite) for side in (0, 1) for sign in (1, -1)]
        return float(self.setting.scale) * np.stack(parts, axis=1)

    def float_waves(self, relation: GridRelation) -> Float64[np.ndarray, "pairs 2"]:
        """(cos, sin) of each pair's angle at a relation, floats."""
        return np.array([[float(x.mid()), float(y.mid())] for x, y in self.coefficients.waves(relation)])

    def position_costs(
        self, weights: Mapping[Asker, Mapping[GridRelation, Fraction]]
    ) -> dict[Asker, dict[GridRelation, float]]:
        """The gaps of the position-only query that minimises `sum weight exp(-gap)`, for each asker; floats."""
        costs = {}
        for asker, own in weights.items():
            table = float(self.setting.scale) * self.coefficients.floats(list(own))
            corners = np.stack([table[..., 0], -table[..., 0], table[..., 1], -table[..., 1]], axis=-1)
            costs[asker] = dict(zip(own, _least_gaps(corners, own.values()), strict=True))
        return costs

    def best_wish(self, evidence: BoundEvidence) -> float:
        """The largest tau with linear part >= tau, in floats, by bisection: the linear part falls with tau."""
        if not self.terms:
            return 0.0
        with working_precision(128):
            high = float_below(self.linear_part(evidence))
            low = high * 2.0**-60

            def above(wish: float) -> bool:
                return bool(self.linear_part(replace(evidence, wish=Fraction(wish))) > arb(wish))

            return max(0.0, halved(above, low, high, WISH_STEPS, _geometric_mean)[0] if high > 0 else low)


def _geometric_mean(low: float, high: float) -> float:
    return exp((log(low) + log(high)) / 2) if low > 0 else 0.0


def _term_weights(setting: MinimiserSetting, position_only: bool) -> dict[Term, Fraction]:
    """omega of each term: half the probability of the steps where the wrong token occurs, shared among kinds; a repeat
    of c is wrong where the other symbol is wanted.
    """
    weights: dict[Term, Fraction] = defaultdict(Fraction)
    for step in setting.steps():
        asker, half = setting.asker(step.step), Fraction(1, 2 * setting.length * step.n)
        for relation in step.free + step.repeats:
            if asker != "data" or position_only:
                weights[asker, "mean", relation] += half
            elif relation in step.repeats:
                weights[asker, "other", relation] += half
            else:
                weights[asker, "other", relation] += half / 2
                weights[asker, "same", relation] += half / 2
    return dict(weights)


def _same_weights(setting: MinimiserSetting) -> dict[Asker, dict[GridRelation, Fraction]]:
    """The weights of the sum that y bounds: the probability of a token at a relation that may have either symbol, for
    one query; each of 0 and 1 asks half the time. Where only repeats exist (L = 2, free queries) they count double.
    """
    weights: dict[Asker, dict[GridRelation, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for step in setting.steps():
        asker, probability = setting.asker(step.step), Fraction(1, setting.length * step.n)
        seen = step.free + step.repeats if asker != "data" or setting.length == 2 else step.free
        for relation in seen:
            weights[asker][relation] += probability / (2 if asker == "data" and setting.length > 2 else 1)
    return {asker: dict(own) for asker, own in weights.items()}


def _least_gaps(corners: Float64[np.ndarray, "terms pairs corners"], weights: Iterable[Fraction]) -> list[float]:
    """The terms' gaps where `sum weight exp(-gap)` is least over the hulls of the pairs' corners."""
    logs = np.log(np.array([float(weight) for weight in weights]))
    found = least_log_sum(LogProgramme(corners, logs, np.ones(corners.shape[1:], dtype=bool)))
    return [float(gap) for gap in found.gaps]


def _exact_cost(cost: float) -> Fraction:
    return max(Fraction(0), Fraction(round(cost / COST_UNIT)) * COST_UNIT)


def _rounded_down(value: float) -> Fraction:
    """`value` rounded down to WISH_BITS significant bits."""
    if value <= 0:
        return Fraction(0)
    exact = Fraction(value)
    shift = WISH_BITS - (exact.numerator.bit_length() - exact.denominator.bit_length())
    return Fraction(floor(exact * Fraction(2) ** shift)) / Fraction(2) ** shift


def _coupled_costs(problem: LossTerms) -> dict[Term, float]:
    """Costs of the terms of the askers 0 and 1 under free queries: their gaps where `sum omega exp(-g)` is least over
    the hull of (W, R).
    """
    terms = [term for term in problem.terms if term[1] != "mean"]
    if not terms:
        return {}
    corners = np.stack([problem.vertex_gaps(term) for term in terms])
    return dict(zip(terms, _least_gaps(corners, (problem.weights[term] for term in terms)), strict=True))
