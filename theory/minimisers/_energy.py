"""A lower bound on the population loss of every decoupled model whose parameters lie in a ball: values against scores.

*Statement* (new). In the setting of `_minimiser_setting`, but with the square norm of all queries, keys and values
together at most R^2, the population loss is at least

    min over 0 <= E <= R^2 of  f(sqrt((R^2 - E)/2) (1 - 2T(E))),    2T(E) = W / (2 (1 + exp(E sqrt(rho/2)))),

f(m) = ln(1 + e^-m), with the numbers W and rho below.

*Derivation.* Let h be half the difference of the largest and the least value, and E the square norm of the queries and
of the keys of 0 and 1. Two values have squares that sum to at least 2 h^2, so h <= sqrt((R^2 - E)/2).

1. *One step.* Fix (n, i) and all symbols but s_i. With the wanted key's weight a if s_i = 0, b if s_i = 1, and the rest
   of total weight D and mean value r, the two margins add up to z_0 - z_1, z = (a v_0 + D r)/(a + D) and (b v_1 + D r)/
   (b + D). That does not decrease in v_0 nor in -v_1 (r holds a part y/D <= 1 of v_0, and (a + y)/(a + D) >= y/(b +
   D)), so v_0 and v_1 may be the largest and the least value. Measured from their mean in units of h, the sum is
   `2 - D (1 - r)/(a + D) - D (1 + r)/(b + D) <= 2 - 2 D/(c + D)`, c the larger one of a and b.
2. *One wrong token.* D is at least the weight x of a source j other than i and i-1. Its symbol is independent of the
   query token and of s_i; with probability 1/2 it is not the one whose wanted weight is c. Then ln(c/x) <= |q| (|k_0| +
   |k_1|), whatever the positions, since turning keeps norms.
3. *All steps.* Such a j exists at step 1 for n >= 2 and at every step for n >= 3. Let w be the share of these steps
   that a query asks, W their sum, rho the sum of (w/W)^2 (1 where one query asks for all). 1/(1 + e^g) is convex for g
   >= 0, and by Cauchy and Schwarz `sum (w/W) |q| (|k_0| + |k_1|) <= sqrt(rho) sqrt(sum |q|^2) sqrt(2 (|k_0|^2 +
   |k_1|^2)) <= E sqrt(rho/2)`. So the mean margin is at most h (1 - 2T(E)), and f is convex and decreasing (Jensen).

The minimum over E is bounded piece by piece: on [E_1, E_2] the margin is at most sqrt((R^2 - E_1)/2) (1 - 2T(E_2)).

Method: ball. Cost: PIECES ball exponentials and roots.
"""

from __future__ import annotations

from fractions import Fraction

from flint import arb

from theory.minimisers._programme import PRECISION
from theory.minimisers._setting import LARGEST_TRAINING_LENGTH, Queries
from theory.numbers import InputError, ball, require_at_least, working_precision

#: Pieces of equal length of [0, R^2].
PIECES = 2048


def energy_loss_bound(length: int, queries: Queries, square: Fraction) -> arb:
    """A ball whose lower end is at most the population loss of every decoupled model of square norm <= `square`.

    Raises:
        InputError: L < 1 or above 128, or a square that is not positive.
    """
    require_at_least("L", length, 1)
    if length > LARGEST_TRAINING_LENGTH:
        raise InputError("L", length, f"at most {LARGEST_TRAINING_LENGTH}")
    if square <= 0:
        raise InputError("square", str(square), "a number > 0")
    whole, rho = asking_shares(length, queries)
    with working_precision(PRECISION):
        rate = (ball(rho) / 2).sqrt()
        ends = [ball(square * k / PIECES) for k in range(PIECES + 1)]
        # 1/(1 + e^g) by e^-g, which is finite for every g >= 0.
        falling = [(-rate * end).exp() for end in ends]
        attention = [ball(whole) / 2 * weight / (1 + weight) for weight in falling]
        largest = arb(0)
        for k in range(PIECES):
            largest = largest.max((ends[-1] - ends[k]).max(arb(0)).sqrt() * (1 - attention[k + 1]))
        return arb((-largest / arb(2).sqrt()).exp().log1p())


def asking_shares(length: int, queries: Queries) -> tuple[Fraction, Fraction]:
    """W and rho: the share of the steps that see a source other than i and i-1, and how it is spread over queries."""
    first = sum((Fraction(1, n) for n in range(2, length + 1)), Fraction(0)) / length
    later = sum((Fraction(n - 1, n) for n in range(3, length + 1)), Fraction(0)) / length
    whole = first + later
    if queries == "tied" or whole == 0:
        return whole, Fraction(1)
    return whole, (first**2 + 2 * (later / 2) ** 2) / whole**2
