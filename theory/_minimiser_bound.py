"""A lower bound on the population loss of every one-layer 2D-RoPE model with parameters in [-M, M], certified.

*Statement* (new). In the setting of `_minimiser_setting`, every choice of queries, keys and values, whether or not keys
and values depend on the token, has population loss at least `f(M (1 - 2T))`, f(m) = ln(1 + e^-m), for the T computed
here. T > 0, so the bound is better than the floor f(M) = ln(1 + e^-M).

*Derivation.* Fix a step t = (n, i) and the query token c.

1. *Jensen.* f is convex and decreasing, so the loss is at least f of the mean margin. Write the rest (everything but
   the wanted key) as total weight D with mean value r, the wanted key's weight as a if s_i = 0 and b if s_i = 1. For the
   two strings that differ in s_i only, the margins add up to `p (v_0 - r) + p' (r - v_1)`, p = a/(a+D), p' = b/(b+D),
   which does not decrease in v_0 nor in -v_1 (r holds a part of each at most 1). So v_0 = M, v_1 = -M may be assumed,
   and the mean margin is M (1 - 2 E X), X the attention on wrong tokens; a token of A or B with value v counts as wrong
   with the part (1 - v/M)/2 if s_i = 0 and (1 + v/M)/2 if s_i = 1.
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
4. *Linear part.* What remains is a sum of `omega_r exp(-g_r)`, g_r linear in the products of queries and keys. For any
   costs gamma_r, `exp(-g) >= exp(-gamma) (1 + gamma - g)`, so the sum is at least `sum mu_r (1 + gamma_r) - P`, mu_r =
   omega_r exp(-gamma_r), P the largest `sum mu_r g_r` over the box. For free tokens the two gaps (0 wanted and 1 wrong,
   1 wanted and 0 wrong) have the mean of the one key (k_0 + k_1)/2: pairs (A, B) in a diamond. A repeat of c is wrong
   only where the other symbol is wanted; there the mean over c couples q_0, q_1, k_0, k_1 (under tied queries it does
   not), and P is found by going through the corners of (k_0, k_1), pair by pair.
5. *The wish.* If some query is diluted, it costs tau = g/4 by itself; if none is, the linear part remains. So
   T = min(tau, linear part), where each query's part has its own factor 1 - h.

The costs gamma come from a convex minimisation in floats (the position-only model with the least linear loss); any
costs prove a bound. At the optimum the linear part loses nothing against position-only models. What is lost is the
factor 1 - h, Jensen's inequality, and what coupled repeats could gain but do not.

Method: ball. Cost: O(d L) ball operations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import exp, floor, log
from typing import Literal

import numpy as np
from flint import acb, arb
from jaxtyping import Float64
from scipy.optimize import minimize
from scipy.special import logsumexp

from theory._balls import ball, float_below, integer_floor, require_width, total, working_precision
from theory._minimiser_program import PRECISION, GapCoefficients, closed_form_amplitudes
from theory._minimiser_setting import WANTED, Asker, GridRelation, MinimiserSetting

Kind = Literal["free", "repeat"]

#: A term of the linear part: who asks, whether the wrong token repeats the query token, its relation.
Term = tuple[Asker, Kind, GridRelation]

#: Costs gamma are multiples of this.
COST_UNIT = Fraction(1, 2**40)

#: The wish tau is rounded down to this many significant bits.
WISH_BITS = 40

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
        return max(0.0, float_below(self.excess))


def loss_lower_bound(setting: MinimiserSetting) -> LossBound:
    """The best bound that this method finds; see the derivation above.

    For L = 1 no other data token exists and the bound is the floor itself (which no model reaches).
    Cost: one bounded convex minimisation in floats for each asker, and about 100 times `certified_bound` at 64 bits.
    """
    problem = _Problem(setting)
    costs = {term: _exact_cost(cost) for term, cost in problem.best_costs(problem.terms).items()}
    same = {
        asker: {term[2]: _exact_cost(cost) for term, cost in problem.best_costs(problem.same_terms(asker)).items()}
        for asker in setting.askers
    }
    # Where little else than repeats is seen, content tells a repeat from the wanted key better than any position does.
    dropped = {
        term: problem.largest_repeat_cost(term[2]) if term[0] == "data" and term[1] == "repeat" else
        same[term[0]][term[2]]
        for term in problem.terms
    }  # fmt: skip
    choices = [BoundEvidence(Fraction(0), chosen, same) for chosen in (costs, dropped)]
    with working_precision(PRECISION):
        best = max(choices, key=lambda evidence: problem.linear_part(evidence).mid())
    return certified_bound(setting, replace(best, wish=_rounded_down(problem.best_wish(best))))


def certified_bound(setting: MinimiserSetting, evidence: BoundEvidence) -> LossBound:
    """The bound that the evidence proves (method: ball).

    Raises:
        KeyError: a term of the setting has no cost.
        VacuousBallError: the enclosure of the loss is too wide.
    """
    problem = _Problem(setting)
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


class _Problem:
    """The terms of the linear part and what bounds them."""

    def __init__(self, setting: MinimiserSetting) -> None:
        self.setting = setting
        self.coefficients = GapCoefficients(setting.frequencies)
        self.weights = _term_weights(setting)
        self.terms = sorted(self.weights)

    def same_terms(self, asker: Asker) -> list[Term]:
        """The tokens that the bound of one symbol's sum counts: all, but the repeats where 0 and 1 ask by themselves
        and there are others (for L = 2 there are none).
        """
        own = [term for term in self.terms if term[0] == asker]
        free = [term for term in own if term[1] == "free"]
        return free if asker == "data" and free else own

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
        """y of an asker. omega counts a step twice what the linear part does; one of the queries 0 and 1 has half of
        that; where only repeats exist (L = 2) they count double.
        """
        terms = self.same_terms(asker)
        double = 2 if asker == "data" and terms[0][1] == "free" else 1
        multipliers, value = {}, arb(0)
        for term in terms:
            cost = ball(evidence.same[asker][term[2]])
            multipliers[term[2]] = 2 * ball(self.weights[term]) / double * (-cost).exp()
            value += multipliers[term[2]] * (1 + cost)
        return value - ball(self.setting.scale) * self.coefficients.largest(multipliers)

    def factors(self, evidence: BoundEvidence) -> dict[Asker, arb]:
        """1 - h of each asker."""
        wish = 4 * ball(evidence.wish)
        return {
            asker: undiluted_factor(wish, ball(self.least_probability(asker)), self.same(asker, evidence))
            for asker in self.setting.askers
            if self.same_terms(asker)
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
        free: dict[Asker, dict[GridRelation, arb]] = defaultdict(dict)
        repeats: dict[GridRelation, arb] = {}
        for (asker, kind, relation), multiplier in multipliers.items():
            if kind == "repeat" and asker == "data":
                repeats[relation] = multiplier
            else:
                # Under tied queries a repeat's mean over c is the gap of the one query and the mean key.
                free[asker][relation] = free[asker].get(relation, arb(0)) + multiplier
        alone = total(self.coefficients.largest(own) for asker, own in free.items() if asker != "data")
        coupled = self._largest_coupled(free["data"], repeats) if repeats else self.coefficients.largest(free["data"])
        return ball(self.setting.scale) * (alone + coupled)

    def _largest_coupled(self, free: Mapping[GridRelation, arb], repeats: Mapping[GridRelation, arb]) -> arb:
        """Over q_0, q_1, k_0, k_1, in units of 2 M^2: the mean over c of the free gaps of (q_c, (k_0 + k_1)/2) and
        of the repeats' `score(q_c, k_other, w) - score(q_c, k_c, r)`.

        With z = a + i b for `a A + b B` and a complex number k for the key, the coefficients of q are the two parts of
        z k: the largest value over q is M times their 1-norm, a convex function of the keys, so largest at corners.
        """
        cosine, sine = self.coefficients.totals(free)
        wanted, there = [acb(0)] * len(cosine), [acb(0)] * len(cosine)
        for relation, multiplier in repeats.items():
            pairs = zip(self.coefficients.waves(WANTED), self.coefficients.waves(relation), strict=True)
            for f, ((c, s), (x, y)) in enumerate(pairs):
                wanted[f] += multiplier * acb(c, s)
                there[f] += multiplier * acb(x, y)
        return total(
            _coupled_pair(acb(x, y) / 2, wanted[f], there[f]) for f, (x, y) in enumerate(zip(cosine, sine, strict=True))
        )

    def largest_repeat_cost(self, relation: GridRelation) -> Fraction:
        """A number that no gap of a repeat exceeds, whatever the two queries and keys."""
        with working_precision(PRECISION):
            waves = (*self.coefficients.waves(WANTED), *self.coefficients.waves(relation))
            most = ball(self.setting.scale) * total(abs(x).max(abs(y)) for x, y in waves)
            return Fraction(integer_floor(most) + 1)

    def best_costs(self, terms: list[Term]) -> dict[Term, float]:
        """Costs: the gaps of the position-only model that minimises the linear loss over these terms, in floats."""
        scale, rows, costs = float(self.setting.scale), len(self.setting.frequencies.row), dict[Term, float]()
        corner = np.array([[float(a), float(b)] for a, b in closed_form_amplitudes(self.setting.frequencies)[0]])
        for asker in sorted({term[0] for term in terms}):
            own = [term for term in terms if term[0] == asker]
            table = scale * self.coefficients.floats([term[2] for term in own])
            # Rows stand at the corner that is best for every output; columns are free in the box of A + B and A - B.
            fixed = np.einsum("tfc,fc->t", table[:, :rows], corner)
            box = np.stack([table[..., 0] + table[..., 1], table[..., 0] - table[..., 1]], axis=2)[:, rows:] / 2
            weights = np.array([float(self.weights[term]) for term in own])
            gaps = fixed + _least_linear_loss(box.reshape(len(own), -1), fixed, weights)
            costs |= dict(zip(own, gaps.tolist(), strict=True))
        return costs

    def best_wish(self, evidence: BoundEvidence) -> float:
        """The largest tau with linear part >= tau, in floats, by bisection: the linear part falls with tau."""
        if not self.terms:
            return 0.0
        with working_precision(128):
            high = float_below(self.linear_part(evidence))
            low = high * 2.0**-60
            for _ in range(WISH_STEPS if high > 0 else 0):
                middle = exp((log(low) + log(high)) / 2) if low > 0 else 0.0
                if self.linear_part(replace(evidence, wish=Fraction(middle))) > arb(middle):
                    low = middle
                else:
                    high = middle
            return max(0.0, low)


def _term_weights(setting: MinimiserSetting) -> dict[Term, Fraction]:
    """omega of each term: half the probability of the steps where the wrong token occurs."""
    weights: dict[Term, Fraction] = defaultdict(Fraction)
    for step in setting.steps():
        asker, half = setting.asker(step.step), Fraction(1, 2 * setting.length * step.n)
        for relation in step.free:
            weights[asker, "free", relation] += half
        for relation in step.repeats:
            weights[asker, "repeat", relation] += half
    return dict(weights)


def _coupled_pair(free: acb, wanted: acb, there: acb) -> arb:
    """The largest of a quarter of the two 1-norms over corners k_0, k_1 = +-1 +-i; M^2 is half of 2 M^2, and the mean
    over c takes another half.
    """
    corners = [acb(x, y) for x, y in product((1, -1), repeat=2)]
    best = arb(0)
    for k0, k1 in product(corners, repeat=2):
        zero, one = (free * (k0 + k1) + wanted * other - there * own for own, other in ((k0, k1), (k1, k0)))
        best = best.max((_one_norm(zero) + _one_norm(one)) / 4)
    return best


def _one_norm(z: acb) -> arb:
    return arb(abs(z.real) + abs(z.imag))


def _least_linear_loss(
    rates: Float64[np.ndarray, "terms k"], fixed: Float64[np.ndarray, " terms"], weights: Float64[np.ndarray, " terms"]
) -> Float64[np.ndarray, " terms"]:
    """`rates @ x` at the x in [-1, 1]^k that minimises `sum weights exp(-fixed - rates @ x)`, by L-BFGS-B on its
    logarithm.
    """
    logs = np.log(weights) - fixed

    def objective(x: Float64[np.ndarray, " k"]) -> tuple[float, Float64[np.ndarray, " k"]]:
        exponents = logs - rates @ x
        value = float(logsumexp(exponents))
        return value, -(np.exp(exponents - value) @ rates)

    found = minimize(
        objective, np.ones(rates.shape[1]), jac=True, method="L-BFGS-B", bounds=[(-1, 1)] * rates.shape[1],
        options={"maxiter": 2000, "maxfun": 5000, "ftol": 1e-16, "gtol": 1e-12},
    )  # fmt: skip
    return np.asarray(rates @ found.x)


def _exact_cost(cost: float) -> Fraction:
    return max(Fraction(0), Fraction(round(cost / COST_UNIT)) * COST_UNIT)


def _rounded_down(value: float) -> Fraction:
    """`value` rounded down to WISH_BITS significant bits."""
    if value <= 0:
        return Fraction(0)
    exact = Fraction(value)
    shift = WISH_BITS - (exact.numerator.bit_length() - exact.denominator.bit_length())
    return Fraction(floor(exact * Fraction(2) ** shift)) / Fraction(2) ** shift
