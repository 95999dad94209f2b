"""Kind `minimiser-loss`: every model with parameters in [-M, M] has at least a certain population loss.

Setting and notation of docs/certificates.md: one 2D-RoPE head over one-hot tokens, b = a+2, values in [-M, M], queries
free or tied, n uniform on 1 .. L, the string, then the step.

Write X for the attention on tokens that answer wrongly, as a mean over n, strings and steps.

1. f(m) = ln(1 + e^-m) is convex and decreasing, and for two strings that differ in s_i only the margins add up to
   something that grows with v_0 and with -v_1. So the loss is at least f(M (1 - 2X)) with v_0 = M, v_1 = -M; other
   tokens count as wrong in parts that add up to 1 over the two strings.
2. For one step, one query token, and a, b the weights of the wanted key for s_i = 0, 1, the mean of X over the other
   symbols is at least (X_t/(a + E) + Y_t/(b + E))/4, where X_t and Y_t sum the weights x, y that the data tokens have
   if their symbol is 1, 0 (tokens of fixed symbol, and those of A and B, count double), and E the same over all
   tokens and relations ever seen by that query. (1/(a + D) is convex in the weight D of the rest, whose mean is at
   most E.)
3. If E <= kappa min(a, b) for a query, h = kappa/(1 + kappa), it loses a factor 1 - h at most against X_t/a + Y_t/b.
   If not, say E > kappa b and b <= a: every token and relation has probability at least W, and the mean of Y_t is at
   least a y; with q = Y/E four times the mean of X is at least W (1-q) (E/a)/(1 + E/a) + h (theta y a/E + (1-theta) W
   q), hence at least `min((1-theta) h W, 2 sqrt(theta h y W) - theta h y)` for any theta. That is g for `h = g/W +
   g^2/(y (sqrt(W) + sqrt(W-g))^2)`.
4. What is linear, `sum omega exp(-gap)`, is at least `sum mu (1 + gamma) - P`, mu = omega exp(-gamma), for any costs
   gamma, with P the largest `sum mu gap` over the box. The mean of the two gaps of one query (0 wanted and 1 wrong, 1
   wanted and 0 wrong) is that of the mean key: a point of a diamond of size 2 M^2 for each pair. For the queries c = 0
   and 1 under free queries let W and R be the means over c of the (A, B) of (q_c, k_other) and of (q_c, k_c). The mean
   gap over c is W at w less R at r where the other symbol is wanted, R at w less W at r where c is; repeats of c are
   wrong in the first case only. A linear function of q and k is largest at corners, where each (A + i B)/(2 M^2) is a
   power of i, and the product of the two of W equals that of R; so `w_A W_A + r_A R_A + w_B W_B + r_B R_B` of a pair is
   at most `max(|w_A| + |r_A|, |w_B| + |r_B|)`: if all four powers are real or all imaginary that is plain; if those of
   W are real and those of R imaginary, or the other way, W or R vanishes; else all parts are +-1/2.

So X >= min(tau, linear part with the factors 1 - h), g = 4 tau.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from proofs_check.verify.minimisers._gap import (
    WANTED,
    Relation,
    Waves,
    larger,
    largest,
    read_relation,
    read_training_length,
)
from proofs_check.verify.reading import (
    Frequencies,
    Rejected,
    ball,
    decide,
    function_units,
    is_at_most,
    product_units,
    read_frequencies,
    require_choice,
    require_fields,
    require_list,
    require_rational,
    spell,
    spend,
    total,
)

#: Who asks; which symbol is wanted (the mean of both, the query token or the other one); where the wrong token stands.
Term = tuple[str, str, Relation]

#: Most bits that the comparison may take.
MOST_BITS = 8192

#: Units of work for adding the probability of a token seen.
_UNITS_AN_OCCURRENCE = 5


@dataclass(frozen=True)
class _Case:
    """The inputs and the evidence, read.

    Attributes:
        frequencies: of both axes.
        length, bound: L and M.
        tied: one query for all?
        weights: omega of each term.
        wish: tau.
        costs: gamma of each term.
        same: the costs of the sums over tokens of one symbol, by asker.
    """

    frequencies: Frequencies
    length: int
    bound: Fraction
    tied: bool
    weights: dict[Term, Fraction]
    wish: Fraction
    costs: dict[Term, Fraction]
    same: dict[str, dict[Relation, Fraction]]


def check_minimiser_loss(inputs: object, evidence: object, claim: object) -> str:
    """The statement of a `minimiser-loss` certificate.

    Raises:
        Rejected: costs missing or negative, or the claim is more than they prove.
    """
    case = _read(inputs, evidence)
    claimed = require_fields(claim, "claim", ("excess_at_least",))
    excess = require_rational(claimed["excess_at_least"], "claim.excess_at_least")
    if not decide(lambda: is_at_most(ball(excess), _excess(case)), "claim.excess_at_least", MOST_BITS):
        raise Rejected("claim.excess_at_least is more than the evidence proves")
    return (
        f"With {case.frequencies.description}, and {'tied' if case.tied else 'free'} queries, "
        f"every one-layer model with all parameters in [-M, M], M = {spell(case.bound)}, has a population loss over "
        f"strings of length <= {case.length} of at least ln(1 + exp(-M)) + {spell(excess)}."
    )


def _excess(case: _Case) -> arb:
    """f(M (1 - 2X)) - f(M) at the proved X: ln(1 + (e^(2MX) - 1)/(e^M + 1))."""
    bound = ball(case.bound)
    return ((2 * bound * _share(case)).expm1() / (bound.exp() + 1)).log1p()


def _share(case: _Case) -> arb:
    if not case.weights:
        return arb(0)
    spend(2 * len(case.weights) * function_units())
    waves, scale = Waves(case.frequencies.row, case.frequencies.column), 2 * ball(case.bound) ** 2
    askers = sorted({asker for asker, _, _ in case.weights})
    factors = {asker: _factor(case, waves, scale, asker) for asker in askers}
    multipliers = {
        term: factors[term[0]] * ball(weight) * (-ball(case.costs[term])).exp() for term, weight in case.weights.items()
    }
    linear = total(weight * (1 + ball(case.costs[term])) for term, weight in multipliers.items())
    linear -= scale * total(_largest_of(waves, multipliers, asker) for asker in askers)
    wish = ball(case.wish)
    return _not_negative((linear + wish - abs(linear - wish)) / 2)


def _not_negative(value: arb) -> arb:
    return larger(value, arb(0))


def _factor(case: _Case, waves: Waves, scale: arb, asker: str) -> arb:
    """1 - h of a query, cut at 0."""
    if case.wish == 0:
        return arb(1)
    wish, least = 4 * case.wish, _least_probability(case, asker)
    same = _same_symbol(case, waves, scale, asker)
    if wish > least or not same > 0:
        return arb(0)
    roots = ball(least).sqrt() + ball(least - wish).sqrt()
    return _not_negative(1 - ball(wish / least) - ball(wish) ** 2 / (same * roots**2))


def _least_probability(case: _Case, asker: str) -> Fraction:
    """W. A token at its rarest relation is seen in strings of length L only, at one step of L; for each of the query
    tokens 0 and 1 half as often. Under tied queries a repeat counts half the steps after the first, its symbol being
    that of the query: 1/8 for L = 2, and more than 1/L^2 for L > 2.
    """
    if asker == "any" and case.length == 2:
        return Fraction(1, 8)
    return Fraction(1, case.length**2 * (2 if asker == "data" else 1))


def _same_symbol(case: _Case, waves: Waves, scale: arb, asker: str) -> arb:
    """y: a bound from below of the mean of the sum of exp(-gap) over tokens of one symbol."""
    multipliers, value = {}, arb(0)
    spend(len(case.same[asker]) * function_units())
    for relation, weight in _same_weights(case.length, case.tied, asker).items():
        cost = ball(case.same[asker][relation])
        multipliers[relation] = ball(weight) * (-cost).exp()
        value += multipliers[relation] * (1 + cost)
    return value - scale * largest(waves, multipliers)


def _largest_of(waves: Waves, multipliers: Mapping[Term, arb], asker: str) -> arb:
    """P of one asker, in units of 2 M^2."""
    own = {(kind, relation): weight for (who, kind, relation), weight in multipliers.items() if who == asker}
    if asker != "data":
        return largest(waves, {relation: weight for (_, relation), weight in own.items()})
    wanted = waves.at(WANTED)
    turned = [(kind, weight, waves.at(relation)) for (kind, relation), weight in own.items()]
    result = arb(0)
    spend(4 * len(wanted) * len(turned) * product_units())
    for f in range(len(wanted)):
        sides = []
        for side in (0, 1):
            # Coefficients of W and R: the wanted key's turn for the kind that has it wanted, less the wrong one's.
            parts = {"other": arb(0), "same": arb(0)}
            for kind, weight, there in turned:
                parts[kind] += weight * wanted[f][side]
                parts["same" if kind == "other" else "other"] -= weight * there[f][side]
            sides.append(abs(parts["other"]) + abs(parts["same"]))
        result += larger(*sides)
    return result


def _read(inputs: object, evidence: object) -> _Case:
    fields = require_fields(inputs, "inputs", ("frequencies", "length", "bound", "queries"))
    frequencies = read_frequencies(fields["frequencies"])
    length = read_training_length(fields["length"], 1)
    bound = require_rational(fields["bound"], "inputs.bound")
    tied = require_choice(fields["queries"], "inputs.queries", ("free", "tied")) == "tied"
    if bound <= 0:
        raise Rejected("inputs.bound is not positive")
    given = require_fields(evidence, "evidence", ("wish", "costs", "same"))
    wish = require_rational(given["wish"], "evidence.wish")
    if wish < 0:
        raise Rejected("evidence.wish is negative")
    weights = _weights(length, tied)
    costs = _read_costs(given["costs"], list(weights))
    same: dict[str, dict[Relation, Fraction]] = {}
    askers = sorted({term[0] for term in weights})
    chosen = [(asker, "mean", relation) for asker in askers for relation in _same_weights(length, tied, asker)]
    for (asker, _, relation), cost in _read_costs(given["same"], chosen).items():
        same.setdefault(asker, {})[relation] = cost
    return _Case(frequencies, length, bound, tied, weights, wish, costs, same)


def _occurrences(length: int, tied: bool) -> Iterator[tuple[str, Relation, bool, Fraction]]:
    """Every wrong token of every step: who asks, where it stands, whether it repeats c, the step's probability.

    A relation (-1, k) or (0, k) occurs at most once in each step; the tokens with the symbol of the query token
    s_(i-1), for i > 1, are (-1, -1) and (0, 0).
    """
    for n in range(2, length + 1):
        for step in range(1, n + 1):
            asker = "any" if tied else "last" if step == 1 else "data"
            spend(_UNITS_AN_OCCURRENCE * n)
            seen = [(-1, k) for k in range(1 - step, n - step + 1) if k != 0]
            for relation in seen + [(0, k) for k in range(2 - step, 1)]:
                yield asker, relation, step > 1 and relation in ((-1, -1), (0, 0)), Fraction(1, length * n)


def _weights(length: int, tied: bool) -> dict[Term, Fraction]:
    """omega: half the probability of the steps at which a wrong token stands at a relation.

    For the queries 0 and 1 it is shared by the two symbols that can be wanted, but for a repeat of c, wrong for one.
    """
    weights: dict[Term, Fraction] = {}
    for asker, relation, repeated, probability in _occurrences(length, tied):
        kinds = ("mean",) if asker != "data" else ("other",) if repeated else ("other", "same")
        for kind in kinds:
            term = (asker, kind, relation)
            weights[term] = weights.get(term, Fraction(0)) + probability / (2 * len(kinds))
    return weights


def _same_weights(length: int, tied: bool, asker: str) -> dict[Relation, Fraction]:
    """Probabilities, for one query, of a token of a symbol that may be either: repeats do not count for the queries 0
    and 1, each of which asks half the time, but for L = 2, where nothing else is seen; a repeat counts double.
    """
    weights: dict[Relation, Fraction] = {}
    for who, relation, repeated, probability in _occurrences(length, tied):
        if who == asker and (asker != "data" or length == 2 or not repeated):
            part = probability / 2 if asker == "data" and not repeated else probability
            weights[relation] = weights.get(relation, Fraction(0)) + part
    return weights


def _read_costs(value: object, terms: Sequence[Term]) -> dict[Term, Fraction]:
    """A list of [asker, kind, row, column, cost], one for each of the terms, costs >= 0."""
    costs: dict[Term, Fraction] = {}
    allowed = set(terms)
    for item in require_list(value, "the costs in evidence", len(terms)):
        entry = require_list(item, "an entry of the costs", 5)
        if len(entry) != 5:
            raise Rejected("an entry of the costs is not [asker, kind, row, column, cost]")
        asker = require_choice(entry[0], "an asker", ("last", "data", "any"))
        kind = require_choice(entry[1], "a kind", ("mean", "other", "same"))
        term = (asker, kind, read_relation(entry[2:4], "the costs"))
        cost = require_rational(entry[4], "a cost")
        if term not in allowed or term in costs or cost < 0:
            raise Rejected("a cost is negative, repeated, or of a term that does not occur")
        costs[term] = cost
    if len(costs) != len(terms):
        raise Rejected("a term has no cost")
    return costs
