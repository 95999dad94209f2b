"""Wilson's score interval for a proportion, for accuracies that are sampled."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

from theory.numbers._errors import InputError, require_at_least


def wilson_interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of all p with `|successes/trials - p| <= z sqrt(p (1-p) / trials)` (Wilson 1927), z two-sided.

    It is no proof: a proportion that was only sampled stays `sampled`.

    Raises:
        InputError: trials < 1, successes outside 0..trials, confidence outside (0, 1).
    """
    require_at_least("trials", trials, 1)
    if not 0 <= successes <= trials:
        raise InputError("successes", successes, f"from 0 to the {trials} trials")
    if not 0 < confidence < 1:
        raise InputError("confidence", confidence, "between 0 and 1")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, spread = successes / trials, z * z / trials
    middle = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / trials + spread / trials / 4) / (1 + spread)
    # At the ends the interval touches 0 or 1 exactly; rounding must not move it off.
    return (0.0 if successes == 0 else middle - half, 1.0 if successes == trials else middle + half)
