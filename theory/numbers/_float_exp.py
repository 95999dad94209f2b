"""The exponential function in float64 from IEEE operations alone, with a proved bound of its error.

*Algorithm.* With L = ln 2 / 64 split into L_hi (36 significant bits) and L_lo, and k the integer nearest to x / L as
computed, `r = (x - k L_hi) - k L_lo` and `exp(x) = 2^(k >> 6) T[k mod 64] p(r)`, T[j] the floats nearest to 2^(j/64)
(from balls) and p the Taylor polynomial of degree 5.

*Bound*, with u = 2^-53 and -600 <= x <= 0. |k| < 2^16, so that k L_hi (16 + 36 bits) is exact. The computed x / L is
off by less than 2^-35, so |r| <= L/2 + 2^-35 < 0.0055, computed with an absolute error below 0.02 u: two subtractions,
each rounded by at most 0.0056 u, and the product k L_lo, below 2^-26, by less than 2^-25 u. The polynomial is off by
less than r^6/720 (1 + r) < 0.4 u, by 0.02 u for r, by at most 0.05 u for rounding in Horner's scheme up to the last
addition (every rounding there acts on a term below 0.0056, and six of them are relative errors of it), and by 1.006 u
for the last addition; together below 1.5 u relative to p >= 0.994. T adds u, the product T p adds u, the power of two
is exact, as nothing is below 2^-1022. In all less than 3.6 u; `EXP_ERROR` = 4 u.

Below -600 the result is 0, which is off by less than 2^-865.
"""

from __future__ import annotations

import numpy as np
from flint import arb
from jaxtyping import Float64

from theory.numbers._balls import integer_floor, working_precision
from theory.numbers._rounded import UNIT_ROUNDOFF

#: Bound of the relative error for arguments from -600 to 0.
EXP_ERROR = 4 * UNIT_ROUNDOFF

#: Arguments below LEAST_ARGUMENT give 0, off by less than EXP_UNDERFLOW.
LEAST_ARGUMENT, EXP_UNDERFLOW = -600.0, 2.0**-865

_PARTS = 64
_CHUNK = 1 << 14


def _constants() -> tuple[float, float, float, Float64[np.ndarray, " parts"]]:
    """64 / ln 2, L_hi, L_lo and the table of 2^(j/64)."""
    with working_precision(160):
        log = arb(2).log() / _PARTS
        high = integer_floor(log * arb(2) ** 42) * 2.0**-42
        powers = [float((arb(j) / _PARTS * arb(2).log()).exp().mid()) for j in range(_PARTS)]
        return float((1 / log).mid()), high, float((log - arb(high)).mid()), np.array(powers)


_PER_LOG, _HIGH, _LOW, _POWERS = _constants()


def exp_nonpositive(x: Float64[np.ndarray, "*shape"]) -> Float64[np.ndarray, "*shape"]:
    """exp of numbers <= 0, to the bounds above, written over `x`, which is returned.

    Cost: about 15 ns an entry.
    """
    flat = x.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        part = flat[start : start + _CHUNK]
        np.maximum(part, LEAST_ARGUMENT - 1, out=part)
        small = part < LEAST_ARGUMENT
        k = np.rint(part * _PER_LOG)
        part -= k * _HIGH
        part -= k * _LOW
        p = part * (1 / 120)
        for coefficient in (1 / 24, 1 / 6, 0.5, 1.0):
            p += coefficient
            p *= part
        np.add(p, 1.0, out=part)
        whole = k.astype(np.int64)
        part *= _POWERS[whole & (_PARTS - 1)]
        part *= (((whole >> 6) + 1023) << 52).view(np.float64)
        part[small] = 0.0
    return x
