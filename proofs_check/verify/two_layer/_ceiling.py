"""Kinds `plane-curve-ceiling` and `attention-share-ceiling`: what no two-layer model of a kind can do.

docs/certificates.md has the proofs. In the first, with x and y the gaps of a vector h to its neighbours in the plane
and l = sin(y)/(sin(x) + sin(y)), `l h_- + (1-l) h_+ = h cos(s)/cos(d)`, s = (x+y)/2 and d = (x-y)/2, and so the mean
of the neighbours' score deficits is at most

    S (1 - cos(s)/cos(d)) = 4 l (1-l) S sin(s)^2 cos(d)/(cos(s) + cos(d)) <= 4 l (1-l) S (1 - cos(s)),

the last step being `(1 + cos s) cos d <= cos s + cos d`.
"""

from __future__ import annotations

from fractions import Fraction

from flint import arb

from proofs_check.verify.reading import (
    Rejected,
    ball,
    require_fields,
    require_integer,
    require_rational,
    spell,
    working_precision,
)
from proofs_check.verify.two_layer._anchor_curve import bits_of

#: Bits of numbers beyond which nothing is decided.
MOST_BITS = 16384

LARGEST_HEADS = 10**12


def check_plane_curve_ceiling(inputs: object, claim: object) -> str:
    """The statement of a `plane-curve-ceiling` certificate.

    Raises:
        Rejected: the length is not certainly long enough.
    Cost: one sine.
    """
    by_norm = isinstance(inputs, dict) and "rho" in inputs
    name = "rho" if by_norm else "scale"
    given = require_rational(require_fields(inputs, "inputs", (name,))[name], f"inputs.{name}")
    fails_at = require_integer(require_fields(claim, "claim", ("fails_at",))["fails_at"], "claim.fails_at", 3)
    if given <= 0:
        raise Rejected(f"inputs.{name} is not positive")
    scale = given**4 / 8 if by_norm else given
    size = bits_of(scale) + 2 * bits_of(fails_at)
    if size > MOST_BITS:
        raise Rejected("undecided: numbers of too many digits")
    with working_precision(128 + size):
        # 1 - cos(z) = 2 sin(z/2)^2
        if not 2 * ball(scale) * (arb.pi() / (4 * ball(fails_at - 2))).sin() ** 2 <= arb(2).log():
            raise Rejected("claim.fails_at is not certainly long enough")
    bound = f"of length at most {spell(scale)}"
    if by_norm:
        bound = (
            f"g_i = (K2 O1)^T Q2 O1 z, |z| <= 1, with matrices of a model of parameter norm at most {spell(given)} "
            f"(so |g_i| <= {spell(scale)})"
        )
    return (
        f"No model copies every binary string of length {spell(fails_at)}, nor of any larger length, whose step i is "
        "answered by the sign of [the sum of exp(<g_i, h_j>) over the sources j that are 0 minus that over those that "
        "are 1, plus the same for the outputs with any non-negative weights, plus a number], where the h_j are unit "
        f"vectors in a quadrant of a plane, the vectors g_i are {bound}, and h_j, g_i and that number are the same for "
        "all strings of one length (real-arithmetic model)."
    )


def check_attention_share_ceiling(inputs: object, claim: object) -> str:
    """The statement of an `attention-share-ceiling` certificate; exact.

    Raises:
        Rejected: claim.log_share is below (1+H) rho^4/4.
    """
    fields = require_fields(inputs, "inputs", ("rho", "heads"))
    rho = require_rational(fields["rho"], "inputs.rho")
    heads = require_integer(fields["heads"], "inputs.heads", 1, LARGEST_HEADS)
    share = require_rational(require_fields(claim, "claim", ("log_share",))["log_share"], "claim.log_share")
    if rho <= 0 or share < Fraction(1 + heads, 4) * rho**4:
        raise Rejected("inputs.rho is not positive, or claim.log_share is below (1+H) rho^4/4")
    one_head = (
        " If moreover the last layer's scores on data tokens do not depend on the string (but on length, step and "
        "position) and a step's answer is the sign of the sum of exp(score) u_token over them plus a number that does "
        f"not depend on the string, not all strings of length n >= 2 are copied once ln(2n-2) >= {spell(share)}."
        if heads == 1
        else ""
    )
    return (
        f"In every two-layer transformer with {heads} head{'s' if heads > 1 else ''} a layer, head outputs of "
        "Euclidean norm at most 1, with a residual or without, queries and keys turned by any rotations, scores not "
        f"scaled up, no other norm, no bias, no MLP, and parameter norm at most {spell(rho)}: each score is at most "
        f"{spell(share / 2)} in absolute value, so a token's attention among T tokens is at most exp({spell(share)})/T."
        f"{one_head}"
    )
