"""Kind `two-layer-all-budgets`: Theorem 3.2 and its lemma for the ideal copier, for all norms above one at once.

The ideal copier of norm rho has N = floor(f rho^2/ln rho), one frequency beta = pi/(4N), S = (rho/10)^4, planes of
their own for both pairs of anchors, and `K_A(r) = N cos(beta (r - 1/2))`, `K_B(r) = N cos(beta (r + 1/2))`, so that
D_A(x) = D_B(x) = -2 N sin(beta/2) sin(beta x): queries and sources are at the same angles. Its lift is 64 where
b <= 2N and 64 + 2N elsewhere.

*What leaks.* If b <= 2N, all places beta (r - 1/2), r <= 2N + b, and beta (r + 1/2), r <= N, are in [0, pi], where the
cosine falls, and A anchors are farther away than B anchors: an A anchor weighs at most exp(-64) of a B anchor. For
larger b the A anchors may have come round again; then |K_A| + |K_B| <= 2N and the larger lift say the same.

*The curve.* With y = (pi/4)(1 + 1/N1) < pi/2, N1 <= N, the least step on [0, N+1] times N is at least

    mu = 2 N1 sin(pi/(8 N1)) (pi/4) cos(y) / (2 cosh((pi/4) sin y)),

since z sin(pi/(8z)) grows with z and is at most pi/8. N^2 (1 - cos(mu/N)) = 2 N^2 sin(mu/(2N))^2 grows with N, so it
is at least kappa, its value at N1. h_0 is on the curve, and h_{-1} is pi/4 > mu/N away from it.

*Copying.* rho^2/ln rho grows for rho > 2, and S >= N^2 ln(rho)^2/(10^4 f^2). Sources are at least
`c S kappa/N^2 >= c' ln(rho)^2` below the right one, outputs at least c S/2; there are fewer than N of each. So it is
enough that `N exp(-c' x^2) < 1/2` and `N exp(-c S/2) < 1/2`, x = ln rho, N <= f e^(2x)/x: the logarithms
`ln(4f) + 2x - ln x - c' x^2` (with a factor 2 to spare) and `ln(2f) + 2x - ln x - c e^(4x)/20000` are negative at
x1 = ln rho_above and fall from there on.

*Norm.* Layer 2's scores cost `8 (rho/10)^2`: four rows of O, two of Q, two of K, each rho/10. Layer 1 has embedding
entries e for "asks" (0, 1, B_b) and "is a key" (four anchors), seven in all, an amplitude kappa in one row of Q and of
two turned keys, e^2 kappa^2 = N, and the still pair's two entries of product lift/e^2: with e^2 = sqrt(N) that is
`7 sqrt(N) + 3 sqrt(N) + 2 (64 + 2N)/sqrt(N) <= 16 sqrt(N) + 256`. What values need, of embeddings too, is as small as
one likes, since outputs of heads are normalised and the read-out only needs a sign; 2^-16 rho^2 is left for it.
"""

from __future__ import annotations

from fractions import Fraction

from flint import arb

from proofs_check.verify.reading import (
    Rejected,
    ball,
    floor_of_exact,
    require_fields,
    require_integer,
    require_rational,
    spell,
    working_precision,
)
from proofs_check.verify.two_layer._anchor_curve import bits_of

LEAST_RHO = 100

#: The ideal copier's lift, and the least N that the derivation serves.
LIFT, LEAST_LENGTH = 64, 4

#: Bits of rho_above and of the length factor beyond which nothing is decided.
MOST_BITS = 8192


def check_all_budgets(inputs: object, claim: object) -> str:
    """The statement of a `two-layer-all-budgets` certificate.

    Raises:
        Rejected: a condition does not certainly hold at rho_above.
    Cost: some ball evaluations.
    """
    fields = require_fields(inputs, "inputs", ("rho_above", "length_factor"))
    rho = require_rational(fields["rho_above"], "inputs.rho_above")
    factor = require_rational(fields["length_factor"], "inputs.length_factor")
    q = require_integer(require_fields(claim, "claim", ("denominator",))["denominator"], "claim.denominator", 1)
    if rho < LEAST_RHO or factor <= 0:
        raise Rejected(f"inputs.rho_above is below {LEAST_RHO}, or inputs.length_factor is not positive")
    size = 2 * bits_of(rho) + bits_of(factor) + bits_of(1 / factor)
    if size > MOST_BITS:
        raise Rejected("undecided: inputs of too many digits")
    with working_precision(256 + size):
        _require_all(rho, factor, q)
    return (
        f"For all rho > {spell(rho)} and all a, b >= 2, with N = floor({spell(factor)} rho^2/ln rho): the ideal "
        "two-layer copier (real arithmetic, theory layout, frequency pi/(4N), S = (rho/10)^4, the lift being 64 "
        "for b <= 2N and 64 + 2N elsewhere) has a parameter norm of at most rho, its vectors have "
        f"<h_i, h_j> <= 1 - 1/({spell(q)} N^2) for all -1 <= i < j <= N+1, and it copies every binary string of "
        "every length up to N."
    )


def _require_all(rho: Fraction, factor: Fraction, q: int) -> None:
    x, f = ball(rho).log(), ball(factor)
    # All conditions get easier with a larger N1, so that any certain lower bound of the floor will do.
    least = floor_of_exact((f * ball(rho) ** 2 / x).lower())
    if least < LEAST_LENGTH:
        raise Rejected(f"the length at inputs.rho_above is not certainly {LEAST_LENGTH} or more")
    kappa = _kappa(least)
    if not kappa * q >= 1:
        raise Rejected("claim.denominator is too small for the curve")
    share = 1 / (1 + 2 * arb(-2 * LIFT).exp()).sqrt()
    pull = share * kappa / (10**4 * f * f)
    growth = 2 * x - x.log()
    if not ((4 * f).log() + growth - pull * x * x < 0 and 2 - 2 * pull * x < 0):
        raise Rejected("the other sources may weigh too much")
    power = ball(rho) ** 4
    if not ((2 * f).log() + growth - share * power / 20000 < 0 and 2 - share * power / 5000 < 0):
        raise Rejected("the outputs may weigh too much")
    spent = arb(8) / 100 + 16 * (f / x).sqrt() / ball(rho) + 256 / ball(rho) ** 2 + arb((1, -16))
    if not spent < 1:
        raise Rejected("the parameter norm may be above rho")


def _kappa(least: int) -> arb:
    """N^2 (1 - cos(mu/N)) at N = N1, a lower bound for all larger N."""
    n = arb(least)
    quarter = arb.pi() / 4
    y = quarter * (1 + 1 / n)
    mu = 2 * n * (arb.pi() / (8 * n)).sin() * quarter * y.cos() / (2 * (quarter * y.sin()).cosh())
    return 2 * n * n * (mu / (2 * n)).sin() ** 2
