"""Kinds `failure-probability` and `failure-probability-at`: how often a random draw of frequencies fails.

*Setting.* d = 4m, the m row and m column frequencies are independent and uniform on [0, 2 pi], b >= 2, and the
ideal copier has the score `S sum_f cos(beta_f (r - wanted))`, so that with C(k) = sum_f (1 - cos(beta_f k)),
gap(0, k) = S C_column(k) and gap(1, k) = S (C_row(1) + C_column(k)).
Its score scale is S >= (1 - 2^-30) rho^4/(4 V d), V = a+b+2 (paper) or 3.

*Enough.* Let L >= 1 and eta = ln(L+1)/S. If C_column(k) >= eta for 1 <= k <= K = L - 1 + |b-a-1|
and C_row(1) >= eta, all strings of length <= L are copied. The wrong weights of any step are at most L-1 sources
of at most exp(-S eta) = 1/(L+1), one output at distance 0 of at most 1/(L+1), and L-1 further outputs of at most
1/(L+1)^2. Their sum is at most L/(L+1) + (L-1)/(L+1)^2, which is below 1 as (L-1)/(L+1)^2 < 1/(L+1).

*One event.* For a fixed k >= 1, k alpha_f mod 1 is uniform and independent over f (alpha_f = beta_f/2 pi).
As 1 - cos(2 pi x) >= 8 x^2 for |x| <= 1/2, C(k) < eta puts the distances to Z into a ball of radius sqrt(eta/8) in
R^m, with probability at most its volume pi^(m/2)/Gamma(m/2+1) (eta/8)^(m/2). There are K + 1 = L + |b-a-1|
events; therefore

    failure <= (L + |b-a-1|) pi^(m/2)/Gamma(m/2+1) (ln(L+1)/(8 S))^(m/2).          (1)

A larger S only lowers this. `failure-probability-at` evaluates (1) at S = rho^4/(4 V d).

*For all places at once.* Let d >= 100 + 4a + 4b, a >= 1, b >= 2, rho > d^2, L = floor(rho^(c d)), c > 0.
So m >= 28, a + b <= m - 25, |b-a-1| <= m (as b-a-1 <= b <= m and a+1-b <= a <= m), V <= m - 23 < m for the paper's
budget. Write x = ln rho, y = ln(4m), so x > 2y, and E = rho^(c d) = exp(4 c m x) >= 1, so 1 <= L <= E. By (1)
it is enough that

    F = ln(L+m) + (m/2) ln(pi eta/8) - ln Gamma(m/2+1) + x - ln(4m)  <=  0            (failure * rho/d <= 1).

Bounds, valid for every m >= n and x >= 2 ln(4n), for an integer n >= 28 that is chosen below:

(i)   ln(L+m) <= ln(E (1+m)) = 4 c m x + ln(1+m).
(ii)  ln(L+1) <= ln(2 E) = 4 c m x + ln 2 <= k m x with k = 4 c + ln 2/(n 2 ln(4n)), since m x >= n 2 ln(4n).
(iii) S >= (1 - 2^-30) e^(4x)/(16 v m) for any v >= V. With (ii), pi eta/8 <= 2 pi k v m^2 x e^(-4x)/(1 - 2^-30).

They give, the term (m/2)(-4x) being -2 m x,

    F <= G(m, x) = (4 c m - 2 m + 1) x + (m/2) ln(2 pi k v m^2 x/(1 - 2^-30)) - ln Gamma(m/2+1) + ln((1+m)/(4m)).

*In x.* dG/dx = m [(4c - 2) + 1/m + 1/(2x)]. The bracket decreases in m and x. If it is negative at
m = n, x = 2 ln(4n), it is so for all m >= n and x >= 2 ln(4m) >= 2 ln(4n), and G(m, x) <= G(m, 2y). (A)

*One m.* With n = m and v = m - 23 (paper) or 3: (A) and G(m, 2y) <= 0 prove the claim for this m. (B)

*All m >= n.* ln((1+m)/(4m)) <= 0 as m >= 1. ln Gamma(z+1) >= z ln z - z for z >= 1, by Binet's formula
ln Gamma(z+1) = z ln z - z + ln(2 pi z)/2 + (a positive integral). With v = m (paper) or 3, G(m, 2y)/m is at most

    g(m) = 2 (4c - 2) y + 2 y/m + (1/2) [ln(8 pi k v m y/(1 - 2^-30)) + 1],

as ln(2 pi k v m^2 2y) - ln(m/2) = ln(8 pi k v m y). Here k is the constant of (ii). With y' = 1/m,

    m g'(m) = 2 (4c - 2) + 2 (1 - y)/m + (1/2) [p + 1/y],    p = 2 (v = m) or 1 (v = 3),

and y > 1, so m g' <= 2 (4c - 2) + (p + 1/y)/2, which decreases in m. If that is negative at m = n then g
decreases on [n, infinity), and with g(n) <= 0 and (A) the claim holds for all m >= n. (C)

*What is checked.* n0 = max(28, ceil(d_least/4)). Some n >= n0 satisfies (C), and each m from n0 to n - 1
satisfies (B). Each sign is that of a ball. As n grows, (C) needs 8 c - 4 + p/2 < 0: c < 3/8 for the paper's
budget, c < 7/16 for three tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from proofs_check.verify.reading import (
    Rejected,
    ball,
    decide,
    function_units,
    is_at_most,
    require_choice,
    require_fields,
    require_integer,
    require_rational,
    spell,
    spend,
    working_precision,
)

BUDGETS = ("paper", "three-tokens")

#: Least m = d/4 with d >= 100 + 4a + 4b, a >= 1, b >= 2.
LEAST_M = 28

#: At most this many m are checked one by one before the bound for all larger ones takes over.
MOST_SINGLE = 8192

#: Working precision; the quantities are of moderate size and a ball that does not decide is a rejection.
PRECISION = 256

#: Largest d of a single place.
LARGEST_D = 10**12


@dataclass(frozen=True)
class _Universal:
    """The exponent c and the budget of a claim for all places."""

    exponent: Fraction
    budget: str

    @property
    def power(self) -> int:
        """p: the power of m in v m."""
        return 2 if self.budget == "paper" else 1

    def tail(self, n: int) -> bool:
        """Does (C) certainly hold at n?"""
        with working_precision(PRECISION):
            c, m, y = ball(self.exponent), arb(n), (4 * arb(n)).log()
            v = m if self.budget == "paper" else arb(3)
            inside = 8 * arb.pi() * self._k(n) * v * m * y / _reserve()
            value = 2 * (4 * c - 2) * y + 2 * y / m + (inside.log() + 1) / 2
            slope = 2 * (4 * c - 2) + (self.power + 1 / y) / 2
            return bool(self._decreasing_in_x(n) and y > 1 and slope < 0 and value < 0)

    def single(self, m_value: int) -> bool:
        """Does (B) certainly hold at this m?"""
        spend(16 * function_units(PRECISION))
        with working_precision(PRECISION):
            c, m, x = ball(self.exponent), arb(m_value), 2 * (4 * arb(m_value)).log()
            v = m - 23 if self.budget == "paper" else arb(3)
            inside = 2 * arb.pi() * self._k(m_value) * v * m**2 * x / _reserve()
            value = (4 * c * m - 2 * m + 1) * x + m / 2 * inside.log() - (m / 2 + 1).lgamma()
            return bool(self._decreasing_in_x(m_value) and value + ((1 + m) / (4 * m)).log() < 0)

    def _k(self, n: int) -> arb:
        return 4 * ball(self.exponent) + arb(2).log() / (2 * n * (4 * arb(n)).log())

    def _decreasing_in_x(self, n: int) -> bool:
        """Does (A) certainly hold from n on?"""
        slope = 4 * ball(self.exponent) - 2 + 1 / arb(n) + 1 / (4 * (4 * arb(n)).log())
        return bool(slope < 0)


def _reserve() -> arb:
    return 1 - arb((1, -30))


def check_failure_probability(inputs: object, claim: object) -> str:
    """The statement of a `failure-probability` certificate.

    Raises:
        Rejected: the derivation above does not prove the claim for this exponent and d_least.
    Cost: microseconds for the bound for all large m and for each m checked singly.
    """
    fields = require_fields(inputs, "inputs", ("exponent", "budget", "d_least"))
    exponent = require_rational(fields["exponent"], "inputs.exponent")
    budget = require_choice(fields["budget"], "inputs.budget", BUDGETS)
    d_least = require_integer(fields["d_least"], "inputs.d_least", 1)
    ratio = require_fields(claim, "claim", ("failure_numerator", "failure_denominator"))
    require_choice(ratio["failure_numerator"], "claim.failure_numerator", ("d",))
    require_choice(ratio["failure_denominator"], "claim.failure_denominator", ("rho",))
    if exponent <= 0:
        raise Rejected("inputs.exponent is not positive")
    _require_proved(_Universal(exponent, budget), max(LEAST_M, -(-d_least // 4)))
    tokens = "V = a+b+2" if budget == "paper" else "V = 3"
    return (
        f"For all d >= {spell(d_least)} divisible by 4, all a >= 1, b >= 2 with d >= 100+4a+4b and all rho > d^2: "
        "with frequencies independent and uniform on [0, 2 pi], the ideal grid copier of score scale "
        f"S >= (1 - 2^-30) rho^4/(4 V d), {tokens}, copies every binary string of length <= rho^({spell(exponent)} d) "
        "with probability at least 1 - d/rho (real-arithmetic model)."
    )


def _require_proved(universal: _Universal, least: int) -> None:
    if 8 * universal.exponent - 4 + Fraction(universal.power, 2) >= 0:
        raise Rejected(f"exponent {spell(universal.exponent)} is out of this derivation's reach, however large d is")
    step = 0
    while True:
        if universal.tail(least + step):
            return
        following = 2 * step + 1
        if following > MOST_SINGLE:
            raise Rejected(f"not proved for all d >= {spell(4 * (least + step))}")
        for m in range(least + step, least + following):
            if not universal.single(m):
                raise Rejected(f"not proved at d = {spell(4 * m)}: the union bound is not certainly below d/rho")
        step = following


def check_failure_probability_at(inputs: object, claim: object) -> str:
    """The statement of a `failure-probability-at` certificate: the bound (1) at one place.

    Raises:
        Rejected: the bound is larger than claimed, or undecided.
    Cost: a few ball operations.
    """
    fields = require_fields(inputs, "inputs", ("rho", "d", "a", "b", "budget"))
    rho = require_rational(fields["rho"], "inputs.rho")
    d = require_integer(fields["d"], "inputs.d", 4, LARGEST_D)
    a, b = require_integer(fields["a"], "inputs.a", 1), require_integer(fields["b"], "inputs.b", 2)
    budget = require_choice(fields["budget"], "inputs.budget", BUDGETS)
    wanted = require_fields(claim, "claim", ("length", "failure_at_most"))
    length = require_integer(wanted["length"], "claim.length", 1)
    most = require_rational(wanted["failure_at_most"], "claim.failure_at_most")
    if rho <= 0 or d % 4:
        raise Rejected("inputs.rho is not positive, or inputs.d not divisible by 4")
    if most <= 0:
        raise Rejected("claim.failure_at_most is not positive, and the bound is")
    scale = rho**4 / (4 * (a + b + 2 if budget == "paper" else 3) * d)
    events = length + abs(b - a - 1)

    def below() -> bool | None:
        half = arb(d // 4) / 2
        radius = arb.pi() * arb(length + 1).log() / (8 * ball(scale))
        return is_at_most(arb(events).log() + half * radius.log() - (half + 1).lgamma(), ball(most).log())

    if not decide(below, "the failure probability", most_bits=8192):
        raise Rejected("the union bound is larger than claim.failure_at_most")
    return (
        f"With a = {spell(a)}, b = {spell(b)}, d = {d}, rho = {spell(rho)} and frequencies independent and uniform on "
        f"[0, 2 pi], the ideal grid copier of score scale S = rho^4/(4 V d) = {spell(scale)} ({budget} budget) copies "
        f"every binary string of every length from 1 to {spell(length)} with probability at least 1 - {spell(most)} "
        "(real-arithmetic model)."
    )
