"""`copycert bound two-layer`: how far the two-layer copier of a norm budget copies every string."""

from __future__ import annotations

from fractions import Fraction

from constructions import Trial, TwoLayerCopier, build_two_layer_copier, run_two_layer
from theory import InputError, LengthBound, two_layer_length

#: Turning pairs of the sharp variants, unless given: small budgets cannot afford the amplitudes of many pairs.
SHARP_PAIRS = ((10**4, 32), (1000, 8), (0, 1))

VARIANTS = {"paper": "paper", "sharp": "sharp", "shared": "shared", "trained-layout": "repeated"}


def two_layer_bound(
    rho: Fraction, variant: str, a: int, b: int, pairs: int | None, beyond_theorem: bool
) -> tuple[TwoLayerCopier, LengthBound]:
    """The copier and how far its stored weights copy; method ball.

    Raises:
        InputError: rho <= 0, unknown variant, rho <= 10^4 without `beyond_theorem`, a or b < 2, too many pairs.
    """
    if rho <= 0:
        raise InputError("--rho", str(rho), "a number > 0")
    if variant not in VARIANTS:
        raise InputError("--variant", variant, "one of " + ", ".join(VARIANTS))
    chosen = next(count for least, count in SHARP_PAIRS if rho > least) if pairs is None else pairs
    copier = build_two_layer_copier(rho, a, b, VARIANTS[variant], pairs=chosen, beyond_theorem=beyond_theorem)
    return copier, two_layer_length(copier.scores(), copier.length)


def describe_copier(copier: TwoLayerCopier) -> str:
    """One line on what was built."""
    size, pairs = float(copier.square_norm() / copier.rho**2), len(copier.frequencies.column)
    return (
        f"Two-layer copier, {copier.variant}, {pairs} turning pairs, rho = {copier.rho}, a = {copier.task.a}, b = "
        f"{copier.task.b}, d = {copier.model.config.model_width}; square norm {size:.4f} rho^2 (exact, stored weights)."
    )


def require_precision(copier: TwoLayerCopier, length: int, dtype: str, beyond_precision: bool) -> Trial:
    """The torch model's run in that format on worst strings of the length it was built for (sampled).

    Raises:
        InputError: it gets a step wrong, and `beyond_precision` is not given; or an unknown format.
    """
    trial = run_two_layer(copier, dtype, length)
    if trial.wrong and not beyond_precision:
        reason = (
            f"{trial.wrong} of {trial.steps} steps of worst strings of {length} symbols go wrong at this norm budget"
        )
        raise InputError(
            "--dtype", dtype, f"a format in which the torch model copies: {reason}; --beyond-precision goes on"
        )
    return trial
