"""How far no bounded two-layer copier gets.

*Plane curves* (new). If the steps of a model weigh source j by exp(<g_i, h_j>), with unit vectors h_j in a quadrant of
a plane and |g_i| <= S, both the same for all strings of length n, and its answer is the majority so weighed, it does
not copy all strings of length n once `S (1 - cos(pi/(2(n-2)))) <= ln 2`, so at about 1.334 sqrt(S).

*Proof.* Sort the angles. The n-2 inner points have gaps x, y to their neighbours that add up to at most pi, so some i
has x + y <= w = pi/(n-2). Let l = sin y/(sin x + sin y) and 1-l weigh the two neighbours' score deficits: their mean is
`|g| cos(eta) (1 - cos((x+y)/2)/cos((x-y)/2))`, eta the angle of g_i to h_i, and that is at most `4 l (1-l) S (1 -
cos(w/2))`. The entropy of (l, 1-l) is at least `4 l (1-l) ln 2`. By the weighted mean inequality the two neighbours
weigh at least exp(entropy - mean) >= 1 against source i's 1. Let all others vote against s_i.

For parameter norm rho, |g_i| <= |Q2| |O1|^2 |K2| <= rho^4/8; with S times the identity as in the construction, rho^4/64
for separate planes and rho^4/32 for a shared one.

*Attention shares* (paper's remark, made explicit). In a two-layer transformer of norm rho with H heads, outputs of each
head of norm at most 1 and scores from linear queries and keys, each score is at most (1+H) rho^4/8 in size, so a
token's share among T is at most exp((1+H) rho^4/4)/T. That alone does not bound the length, since a normalised head
output forgets how small the shares are, and an answer needs a sign, not a margin. It does for one head whose last
scores do not depend on the string: with 2n-2 others against s_i at step n, `ln(2n-2) >= rho^4/2` is the end.
"""

from __future__ import annotations

from fractions import Fraction

from flint import arb

from theory.numbers import InputError, ball, integer_floor, last_true, require_at_least, working_precision

PRECISION = 256


def plane_curve_fails(scale: Fraction, length: int) -> bool:
    """Does the criterion certainly rule out that all strings of this length are copied? Method: ball."""
    require_at_least("length", length, 1)
    if length < 3:
        return False
    with working_precision(PRECISION + 2 * length.bit_length()):
        return bool(ball(scale) * (1 - (arb.pi() / (2 * (length - 2))).cos()) <= arb(2).log())


def plane_curve_ceiling(scale: Fraction) -> int:
    """The least length that the criterion rules out.

    Raises:
        InputError: scale <= 0.
    """
    if scale <= 0:
        raise InputError("scale", str(scale), "a rational number > 0")
    with working_precision(PRECISION):
        about = 2 + integer_floor((ball(scale) / (8 * arb(2).log())).sqrt() * arb.pi())
    found = 1 + last_true(lambda length: not plane_curve_fails(scale, length), 2, max(4, 2 * about))
    if not plane_curve_fails(scale, found):
        raise ArithmeticError(f"no length up to {found} was proved to be out of reach")
    return found


def norm_scale(rho: Fraction) -> Fraction:
    """rho^4/8: no second-layer score form of a model with this parameter norm is larger."""
    if rho <= 0:
        raise InputError("rho", str(rho), "a number > 0")
    return rho**4 / 8


def log_attention_share(rho: Fraction, heads: int = 1) -> Fraction:
    """(1+H) rho^4/4: the logarithm of T times the largest share of attention that a token can have among T."""
    require_at_least("heads", heads, 1)
    if rho <= 0:
        raise InputError("rho", str(rho), "a number > 0")
    return (1 + heads) * rho**4 / 4
