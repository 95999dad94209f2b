"""Kind `dirichlet-ceiling`: a length at which every position-only copier fails, whatever its frequencies.

*Proof.* Let Q >= 1 and m = d/4. Dirichlet: some 1 <= k <= Q^m has dist(k alpha_f, Z) <= 1/Q for all m column
frequencies, so 1 - cos(beta_f k) <= 2 pi^2/Q^2. In gap(0, k) + gap(0, -k) = 2 sum_f A'_f (1 - cos(beta_f k))
the sines cancel, and A'_f <= sqrt(A_f^2 + B_f^2), so the sum is at most 2 W 2 pi^2/Q^2 <= 2 ln 2
if `Q^2 ln 2 >= 2 pi^2 W`. By convexity exp(-gap(0, k)) + exp(-gap(0, -k)) >= 2 exp(-ln 2) = 1, and
equality fails too. Step k+1 of a string of length n >= 2k+1 has sources at both distances, so all
n >= 2 Q^m + 1 fail.

*W from the norm.* A position-only copier has one query q = Q w_c and one key k = K w_x, and its sum of
column amplitudes sqrt(A_f^2 + B_f^2) = |q_f| |k_f| is at most
`|q| |k| <= |Q| |K| |w_c| |w_x| <= (|Q|^2 + |K|^2)/2 |w|^2`, w being the whole embedding matrix. With
|Q|^2 + |K|^2 + |w|^2 <= rho^2 this is at most rho^4/8. (The score scale is 1.)
"""

from __future__ import annotations

from fractions import Fraction

from flint import arb

from proofs_check.verify.reading import (
    LONGEST_NUMBER,
    Rejected,
    ball,
    decide,
    is_at_most,
    require_fields,
    require_integer,
    require_rational,
    spell,
)

LARGEST_D = 10**12


def check_dirichlet_ceiling(inputs: object, evidence: object, claim: object) -> str:
    """The statement of a `dirichlet-ceiling` certificate.

    Raises:
        Rejected: Q is too small for the amplitude, or the length too small for Q.
    Cost: one power of integers and one ball comparison.
    """
    by_norm = isinstance(inputs, dict) and "rho" in inputs
    bound = "rho" if by_norm else "column_amplitude"
    fields = require_fields(inputs, "inputs", ("d", bound))
    d = require_integer(fields["d"], "inputs.d", 4, LARGEST_D)
    given = require_rational(fields[bound], f"inputs.{bound}")
    q = require_integer(require_fields(evidence, "evidence", ("q",))["q"], "evidence.q", 1)
    fails_at = require_integer(require_fields(claim, "claim", ("fails_at",))["fails_at"], "claim.fails_at", 3)
    if d % 4 or given < 0:
        raise Rejected(f"inputs.d is not divisible by 4, or inputs.{bound} is negative")
    _require_far_enough(fails_at, q, d // 4)
    amplitude = given**4 / 8 if by_norm else given
    _require_close_enough(q, amplitude)
    which = f"parameter norm at most {spell(given)}" if by_norm else f"column amplitudes of sum at most {spell(given)}"
    return (
        f"Whatever the frequencies, no position-only grid copier with d/4 = {d // 4} column frequencies "
        f"(b >= 2, score scale 1) and {which} copies every binary string of length {spell(fails_at)}, nor of any "
        "larger length (real-arithmetic model)."
    )


def _require_far_enough(fails_at: int, q: int, m: int) -> None:
    """fails_at >= 2 Q^m + 1, without forming a power that is certainly too large."""
    # Q^m >= 2^(m (bits of Q - 1)), and a number that was read has less than 4 bits a digit.
    too_large = m * (q.bit_length() - 1) > 4 * LONGEST_NUMBER
    if too_large or fails_at < 2 * q**m + 1:
        raise Rejected("claim.fails_at is below 2 Q^m + 1")


def _require_close_enough(q: int, amplitude: Fraction) -> None:
    """Q^2 ln 2 >= 2 pi^2 W."""

    def enough() -> bool | None:
        return is_at_most(2 * arb.pi() ** 2 * ball(amplitude), ball(q**2) * arb(2).log())

    if not decide(enough, "Q^2 ln 2 >= 2 pi^2 W"):
        raise Rejected("evidence.q is too small: Q^2 ln 2 < 2 pi^2 W")
