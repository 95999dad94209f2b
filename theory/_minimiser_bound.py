"""A lower bound on the population loss of every one-layer 2D-RoPE model with parameters in [-M, M], certified.

*Statement* (new). In the setting of `_minimiser_setting`, every choice of queries, keys and values, whether or not keys
and values depend on the token, has population loss at least `f(M (1 - 2T))`, f(m) = ln(1 + e^-m), for the T computed
here. T > 0, so the bound is better than the floor f(M) = ln(1 + e^-M).

*Derivation.* Fix a step t = (n, i) and the query token c.

1. *Jensen.* f is convex and decreasing, so the loss is at least f of the mean margin. Write the rest (everything but the
   wanted key) as total weight D with mean value r, the wanted key's weight as a if s_i = 0 and b if s_i = 1. For the
   two strings that differ in s_i only, the margins add up to `p (v_0 - r) + p' (r - v_1)`, p = a/(a+D), p' = b/(b+D),
   which does not decrease in v_0 nor in -v_1 (r holds a part of each at most 1). So v_0 = M, v_1 = -M may be assumed, and
   the mean margin is M (1 - 2 E X), X the attention on wrong tokens; a token of A or B with value v counts as wrong with
   the part (1 - v/M)/2 if s_i = 0 and (1 + v/M)/2 if s_i = 1.
2. *Averaging over strings.* x_j, y_j: the weight of token j if its symbol is 1, 0. Given that j is wrong, D is at most
   E = X_t + Y_t on average, where X_t (Y_t) sums the x_j (y_j) of the data tokens with free symbols, and twice the part
   wrong for s_i = 0 (1) of the weight of each token that is there for every string: those of A and B, and the repeats of
   c. Since 1/(a + D) is convex in D,

       E[X | t, c]  >=  (X_t/(a + E) + Y_t/(b + E)) / 4.

3. *Dilution.* Only E makes this nonlinear. With kappa > 0, say t is diluted if E > kappa min(a, b). If it is not, the
   right side is at least `(X_t/a + Y_t/b) / (4 (1 + kappa))`. If it is, say b <= a, let q = Y_t/E and y a lower bound
   of Y_t/a; then E >= a y/q, and with h = kappa/(1 + kappa) the bracket is at least `(1-q) y/(q + y) + q h >= 2 sqrt(h y
   (1+y)) - y (1+h)`. Weights of the same symbol, Y_t/a, have the form sum exp(-gap) for one query and one key, so
   y = exp(-2 M^2 P(delta_r)) for any r of a free token, or twice exp(-2 M^2 P((delta_r + delta_-r)/2)) for two of them.
   (At t = (2, 2) only repeats are there, of one symbol and with factor 2; the same bound holds.)
   For a wish G in (0, 1), the bracket is at least G in every diluted t if `1/(1 + kappa) = 1 - (sqrt(1+y) -
   sqrt(1-G))^2/y =: factor(G, y)`, where y may be lowered to G/(1-G), at which the factor is 1 - G.
4. *Linear part.* What remains is a sum of `omega_r exp(-g_r)`, g_r linear in the products of queries and keys. For any
   costs gamma_r, `exp(-g) >= exp(-gamma) (1 + gamma - g)`, so the sum is at least `sum mu_r (1 + gamma_r) - P`, mu_r =
   omega_r exp(-gamma_r), P the largest `sum mu_r g_r` over the box. For free tokens the two gaps (0 wanted and 1 wrong,
   1 wanted and 0 wrong) have the mean of the one key (k_0 + k_1)/2: pairs (A, B) in a diamond. A repeat of c is wrong
   only where the other symbol is wanted; there the mean over c couples q_0, q_1, k_0, k_1 (under tied queries it does
   not), and P is found by going through the corners of (k_0, k_1), pair by pair.
5. *Two wishes.* A diluted t either costs tau by itself, `G = 4 tau/weight(t, c)`, or at least as much as its share of the
   linear bound can ever be, `G = 2 sum over its r of exp(-gamma_r) (1 + gamma_r + R_r)`, R_r >= -g_r. Each t takes
   the better of the two; then T = min(tau, linear part).

The costs gamma come from a convex minimisation in floats (the position-only model with the least linear loss); any
costs prove a bound. At the optimum the linear part loses nothing against position-only models, so what is lost is
dilution, Jensen's inequality, and what coupled repeats could gain but do not.

Method: ball. Cost: O(L^2) ball operations a step and O(d L) for P.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import exp, floor, log
from typing import Literal

import numpy as np
from flint import acb, arb
from scipy.optimize import minimize
from scipy.special import logsumexp

from theory._balls import ball, float_below, require_width, total, working_precision
from theory._grid_score import Amplitude
from theory._minimiser_program import PRECISION, GapCoefficients, closed_form_amplitudes
from theory._minimiser_setting import WANTED, Asker, GridRelation, MinimiserSetting, MinimiserStep

Kind = Literal["free", "repeat"]

#: A term of the linear part: who asks, the wrong token's relation, and whether it repeats the query token.
Term = tuple[Asker, Kind, GridRelation]

#: Costs gamma are multiples of this.
COST_UNIT = Fraction(1, 2**40)

#: The wished-for share tau is rounded down to this many significant bits.
SHARE_BITS = 40

#: Alternations of the two searches for a good wish.
ROUNDS = 3


@dataclass(frozen=True)
class LossBound:
    """A certified lower bound on the population loss of every model in the box.

    Attributes:
        setting: the problem.
        share: T, a ball; its lower end is a certain lower bound of the mean attention on wrong tokens.
        loss: f(M (1 - 2T)); its lower end is the certified bound.
        excess: how far that is above the floor, with its own relative precision.
        floor: ln(1 + e^-M).
        wish: tau, part of the evidence.
        costs: gamma of each term, the rest of the evidence.
    """

    setting: MinimiserSetting
    share: arb
    loss: arb
    excess: arb
    floor: arb
    wish: Fraction
    costs: Mapping[Term, Fraction]

    @property
    def certified_loss(self) -> float:
        """A float that is certainly at most the bound."""
        return float_below(self.loss)

    @property
    def certified_excess(self) -> float:
        """A float that is certainly at most the excess over the floor (0 below the range of floats)."""
        return float_below(self.excess)


def loss_lower_bound(setting: MinimiserSetting) -> LossBound:
    """The best bound that this method finds; see the derivation above.

    For L = 1 no other data token exists and the bound is the floor itself (a model reaches it in the limit only).
    Cost: one bounded convex minimisation in floats for each asker, a few times, and `certified_bound`.
    """
    problem = _Problem(setting)
    if not problem.terms:
        return certified_bound(setting, Fraction(0), {})
    costs = problem.best_costs({step: 1.0 for step in problem.steps})
    wish = 0.0
    for _ in range(ROUNDS):
        wish = problem.best_wish(costs)
        costs = problem.best_costs(problem.factors(wish, costs))
    wish = problem.best_wish(costs)
    exact = {term: max(Fraction(0), Fraction(round(cost / COST_UNIT)) * COST_UNIT) for term, cost in costs.items()}
    return certified_bound(setting, _rounded_down(wish), exact)


def certified_bound(setting: MinimiserSetting, wish: Fraction, costs: Mapping[Term, Fraction]) -> LossBound:
    """The bound that given evidence proves: any wish >= 0 and any costs prove one (perhaps no better than the floor).

    Raises:
        KeyError: a term of the setting has no cost.
        VacuousBallError: the enclosure is too wide.
    """
    with working_precision(PRECISION):
        share = _certified_share(_Problem(setting), wish, costs)
        margin = ball(setting.bound) * (1 - 2 * share)
        floor_value = softplus(-ball(setting.bound))
        # f(m) - f(M) = ln((1 + e^-m)/(1 + e^-M)), without cancellation: e^-m = e^-M e^(2MT).
        growth = (2 * ball(setting.bound) * share).expm1()
        excess = (growth / (ball(setting.bound).exp() + 1)).log1p()
        loss = require_width(softplus(-margin), Fraction(1, 2**60), "the bound of the loss")
        return LossBound(setting, share, loss, excess, floor_value, wish, dict(costs))


def softplus(x: arb) -> arb:
    """ln(1 + e^x), a ball."""
    return arb(x.exp().log1p())


def factor_of_dilution(wish: arb, same: arb) -> arb:
    """factor(G, y) = 1 - (sqrt(1+y) - sqrt(1-G))^2/y of the derivation, cut to [0, 1]; 0 unless G < 1 certainly.

    `same` (y) is lowered to G/(1-G) where it is larger.
    """
    if not wish < 1 or not same > 0:
        return arb(0)
    y = same.min(wish / (1 - wish))
    if not y > 0:
        return arb(1) if wish == 0 else arb(0)
    root = (1 + y).sqrt() + (1 - wish).sqrt()
    return (1 - ((y + wish) / root) ** 2 / y).max(arb(0))


class _Problem:
    """The terms of the linear part and what bounds them; floats for the search, balls for the proof."""

    def __init__(self, setting: MinimiserSetting) -> None:
        self.setting = setting
        self.coefficients = GapCoefficients(setting.frequencies)
        self.steps = [step for step in setting.steps() if step.n > 1]
        self.terms = sorted({term for step in self.steps for term in self.terms_of(step)})
        self.ranges = {term: self._range(term) for term in self.terms}
        self.same = {step: self._same_symbol(step) for step in self.steps}

    def terms_of(self, step: MinimiserStep) -> list[Term]:
        """The wrong tokens of a step."""
        asker = self.setting.asker(step.step)
        free: list[Term] = [(asker, "free", relation) for relation in step.free]
        return free + [(asker, "repeat", relation) for relation in step.repeats]

    def probability(self, step: MinimiserStep) -> Fraction:
        """Of the step, n and step together."""
        return Fraction(1, self.setting.length * step.n)

    def weight(self, step: MinimiserStep) -> Fraction:
        """Of the step with one query token: 0 and 1 are equally likely after step 1."""
        return self.probability(step) / (1 if step.step == 1 else 2)

    def _range(self, term: Term) -> arb:
        """R: a bound of -g over the box, so of |g|."""
        _, kind, relation = term
        with working_precision(PRECISION):
            scale = ball(self.setting.scale)
            if kind == "free" or self.setting.queries == "tied":
                single = scale * self.coefficients.largest({relation: Fraction(1)})
                if kind == "free":
                    return single
            waves = self.coefficients.waves(relation), self.coefficients.waves(WANTED)
            return scale * total(abs(x).max(abs(y)) for side in waves for x, y in side)

    def _same_symbol(self, step: MinimiserStep) -> arb:
        """y: a lower bound of the weight of the tokens of one symbol against the wanted key of that symbol."""
        with working_precision(PRECISION):
            scale, best = ball(self.setting.scale), arb(0)
            for relation in step.free or step.repeats:
                one = (-scale * self.coefficients.largest({relation: Fraction(1)})).exp()
                best = best.max(one if step.free else 2 * one)
                mirrored = (relation[0], -relation[1])
                if step.free and relation[1] > 0 and mirrored in step.free:
                    halves = {relation: Fraction(1, 2), mirrored: Fraction(1, 2)}
                    best = best.max(2 * (-scale * self.coefficients.largest(halves)).exp())
            return arb(best.lower())

    def wishes(self, step: MinimiserStep, wish: arb, costs: Mapping[Term, arb]) -> tuple[arb, arb]:
        """G by the two rules."""
        own = total((-costs[term]).exp() * (1 + costs[term] + self.ranges[term]) for term in self.terms_of(step))
        return 4 * wish / ball(self.weight(step)), 2 * own

    def factor(self, step: MinimiserStep, wish: arb, costs: Mapping[Term, arb]) -> arb:
        """1/(1 + kappa) of a step, the better of the two rules."""
        first, second = self.wishes(step, wish, costs)
        same = self.same[step]
        return factor_of_dilution(first, same).max(factor_of_dilution(second, same))

    def largest(self, multipliers: Mapping[Term, arb]) -> arb:
        """P: the largest `sum mu g` over the box."""
        scale = ball(self.setting.scale)
        free: dict[Asker, dict[GridRelation, arb]] = defaultdict(dict)
        repeats: dict[GridRelation, arb] = {}
        for (asker, kind, relation), multiplier in multipliers.items():
            if kind == "repeat" and self.setting.queries == "free":
                repeats[relation] = multiplier
            else:
                # Under tied queries a repeat's mean over c is the gap of one query and the mean key.
                free[asker][relation] = free[asker].get(relation, arb(0)) + multiplier
        if not repeats:
            return scale * total(self.coefficients.largest(own) for own in free.values())
        alone = total(self.coefficients.largest(own) for asker, own in free.items() if asker != "data")
        return scale * (alone + self._largest_coupled(free["data"], repeats))

    def _largest_coupled(self, free: Mapping[GridRelation, arb], repeats: Mapping[GridRelation, arb]) -> arb:
        """Over q_0, q_1, k_0, k_1, in units of 2 M^2: the mean over c of the free gaps of (q_c, (k_0 + k_1)/2) and
        the repeats' `score(q_c, k_other, w) - score(q_c, k_c, r)`.

        With a complex number z for `a A + b B`, z = a + i b, and k for the key, the coefficients of q are the parts of z
        k; so the largest value over q is the 1-norm of that, and a convex function of the keys is largest at corners.
        """
        cosine, sine = self.coefficients.totals(free)
        wanted, there = [acb(0)] * len(cosine), [acb(0)] * len(cosine)
        for relation, multiplier in repeats.items():
            pairs = zip(self.coefficients.waves(WANTED), self.coefficients.waves(relation), strict=True)
            for f, ((c, s), (x, y)) in enumerate(pairs):
                wanted[f] += multiplier * acb(c, s)
                there[f] += multiplier * acb(x, y)
        result = arb(0)
        for f, (x, y) in enumerate(zip(cosine, sine, strict=True)):
            result += _coupled_pair(acb(x, y) / 2, wanted[f], there[f])
        return result

    def best_costs(self, factors: Mapping[MinimiserStep, float]) -> dict[Term, float]:
        """Costs: the gaps of the position-only model that minimises the linear loss, in floats."""
        frequency = self.frequencies_of_terms(factors)
        scale, costs = float(self.setting.scale), dict[Term, float]()
        for asker in self.setting.askers:
            terms = [term for term in self.terms if term[0] == asker]
            if not terms:
                continue
            table = self.coefficients.floats([term[2] for term in terms])
            rows = len(self.setting.frequencies.row)
            corner = np.array(closed_form_amplitudes(self.setting.frequencies)[0], dtype=float)
            fixed = scale * np.einsum("tfc,fc->t", table[:, :rows], corner)
            box = np.stack([table[..., 0] + table[..., 1], table[..., 0] - table[..., 1]], axis=2)[:, rows:] / 2
            gaps = fixed + _least_linear_loss(
                scale * box.reshape(len(terms), -1), fixed, np.array([frequency[term] for term in terms])
            )
            costs |= {term: float(gap) for term, gap in zip(terms, gaps, strict=True)}
        return costs

    def frequencies_of_terms(self, factors: Mapping[MinimiserStep, float]) -> dict[Term, float]:
        """omega of each term, in floats."""
        result: dict[Term, float] = dict.fromkeys(self.terms, 0.0)
        for step in self.steps:
            for term in self.terms_of(step):
                result[term] += float(self.probability(step)) * factors[step] / 2
        return result

    def factors(self, wish: float, costs: Mapping[Term, float]) -> dict[MinimiserStep, float]:
        """1/(1 + kappa) of each step, in floats."""
        with working_precision(53):
            exact = {term: arb(cost) for term, cost in costs.items()}
            return {step: float(self.factor(step, arb(wish), exact).mid()) for step in self.steps}

    def linear_part(self, wish: arb, costs: Mapping[Term, arb]) -> arb:
        """sum mu (1 + gamma) - P."""
        weights: dict[Term, arb] = {term: arb(0) for term in self.terms}
        for step in self.steps:
            part = ball(self.probability(step)) * self.factor(step, wish, costs) / 2
            for term in self.terms_of(step):
                weights[term] += part
        multipliers = {term: weight * (-costs[term]).exp() for term, weight in weights.items()}
        return total(mu * (1 + costs[term]) for term, mu in multipliers.items()) - self.largest(multipliers)

    def best_wish(self, costs: Mapping[Term, float]) -> float:
        """The largest tau with linear part >= tau, in floats, by bisection: the linear part falls with tau."""
        with working_precision(64):
            exact = {term: arb(cost) for term, cost in costs.items()}
            low, high = 0.0, float(self.linear_part(arb(0), exact).mid())
            if high <= 0:
                return 0.0
            low = high * 1e-6
            for _ in range(25):
                middle = exp((log(low) + log(high)) / 2)
                if self.linear_part(arb(middle), exact) > middle:
                    low = middle
                else:
                    high = middle
            return low


def _certified_share(problem: _Problem, wish: Fraction, costs: Mapping[Term, Fraction]) -> arb:
    if not problem.terms:
        return arb(0)
    balls = {term: ball(costs[term]) for term in problem.terms}
    linear = problem.linear_part(ball(wish), balls)
    share = arb(linear.min(ball(wish)).lower())
    return share if share > 0 else arb(0)


def _coupled_pair(free: acb, wanted: acb, there: acb) -> arb:
    """max over corners of 1/4 (|z_0 k|_1 ...), in units of 2 M^2: keys are corners (+-1, +-1), M^2 = (2 M^2)/2."""
    corners = [acb(x, y) for x, y in product((1, -1), repeat=2)]
    best = arb(0)
    for k0, k1 in product(corners, repeat=2):
        common = free * (k0 + k1)
        zero, one = common + wanted * k1 - there * k0, common + wanted * k0 - there * k1
        best = best.max((_one_norm(zero) + _one_norm(one)) / 4)
    return best


def _one_norm(z: acb) -> arb:
    return abs(z.real) + abs(z.imag)


def _least_linear_loss(rates: np.ndarray, fixed: np.ndarray, weights: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """The gaps `rates @ x` at the x in [-1, 1]^k that minimises `sum weights exp(-fixed - rates @ x)`, by L-BFGS-B on
    the logarithm.
    """
    logs = np.log(np.maximum(weights, 1e-300)) - fixed

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:  # type: ignore[type-arg]
        exponents = logs - rates @ x
        value = float(logsumexp(exponents))
        return value, -(np.exp(exponents - value) @ rates)

    start = np.ones(rates.shape[1])
    found = minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=[(-1, 1)] * len(start),
        options={"maxiter": 2000, "maxfun": 5000, "ftol": 1e-16, "gtol": 1e-12},
    )  # fmt: skip
    return np.asarray(rates @ found.x)


def _rounded_down(value: float) -> Fraction:
    """`value` rounded down to SHARE_BITS bits."""
    if value <= 0:
        return Fraction(0)
    exact = Fraction(value)
    shift = SHARE_BITS - (exact.numerator.bit_length() - exact.denominator.bit_length())
    return Fraction(floor(exact * Fraction(2) ** shift)) / Fraction(2) ** shift
