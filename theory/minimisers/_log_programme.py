"""The least sum of exponentials of linear functions over a product of polytopes, in floats: a proposal, never evidence.

The point x has blocks; in each it is a mean of that block's vertices, with weights w >= 0 that sum to 1. Minimised is

    F(w) = ln sum_t exp(log_t - g_t),    g_t = sum over blocks and vertices of gaps[t, block, vertex] w[block, vertex].

In the logarithm the terms may differ by any number of orders of magnitude. With the shares p_t of the terms in the sum,
every point has `sum p g <= P(p)`, the sum over the blocks of the largest `sum_t p_t gaps[t, block, vertex]`; so F is
nowhere below F(w) - (P(p) - sum p g), and the part subtracted is the duality gap. Newton steps with a log barrier
drive it down; the Hessian is a diagonal plus as many ranks as there are terms: O(terms^2 blocks vertices) a step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64
from scipy.special import logsumexp

from theory.numbers import InputError

#: Duality gap, in the logarithm, at which the iteration ends; steps after which it ends anyway. Floats allow no less.
ENOUGH, MOST_STEPS = 1e-6, 200

#: The barrier falls by this factor once a Newton step would gain less than this part of it.
FALL, NEAR_PATH = 0.2, 0.1

#: Part of the way to the boundary that a step may go, least step of the line search.
INSIDE, LEAST_STEP = 0.95, 1e-10

_Weights = Float64[np.ndarray, "blocks vertices"]


class LogProgramme(NamedTuple):
    """What to minimise.

    Attributes:
        gaps: the value of term t at each vertex of each block.
        logs: ln of the terms' weights.
        allowed: which vertices each block has, at least one.
    """

    gaps: Float64[np.ndarray, "terms blocks vertices"]
    logs: Float64[np.ndarray, " terms"]
    allowed: Bool[np.ndarray, "blocks vertices"]

    def at(self, weights: _Weights) -> Float64[np.ndarray, " terms"]:
        """g of every term at a point."""
        return np.asarray(np.einsum("tbv,bv->t", self.gaps, weights))

    def value(self, weights: _Weights) -> float:
        """F."""
        return float(logsumexp(self.logs - self.at(weights)))


class LogOptimum(NamedTuple):
    """A point near the optimum.

    Attributes:
        weights: of each vertex of each block.
        gaps: g of each term there.
        upper, lower: F there, and the bound below F anywhere that its shares give.
    """

    weights: _Weights
    gaps: Float64[np.ndarray, " terms"]
    upper: float
    lower: float


def least_log_sum(programme: LogProgramme, enough: float = ENOUGH) -> LogOptimum:
    """The point of the least duality gap on the way (floats). Cost: some 50 steps, each O(terms^2 blocks vertices).

    Raises:
        InputError: gaps or logs that are not finite, or a block without vertices.
    """
    if not (np.isfinite(programme.gaps).all() and np.isfinite(programme.logs).all()):
        raise InputError("programme", "gaps and logs", "made of finite numbers")
    if not programme.allowed.any(axis=1).all():
        raise InputError("programme", "allowed", "one vertex or more in each block")
    weights = programme.allowed / programme.allowed.sum(axis=1, keepdims=True)
    barrier = 1.0
    best: LogOptimum | None = None
    for _ in range(MOST_STEPS):
        exponents = programme.logs - programme.at(weights)
        value = float(logsumexp(exponents))
        shares = np.exp(exponents - value)
        rates = np.einsum("tbv,t->bv", programme.gaps, shares)
        largest = np.where(programme.allowed, rates, -np.inf).max(axis=1)
        lower = value - float(largest.sum() - (rates * weights).sum())
        if best is None or value - lower < best.upper - best.lower:
            best = LogOptimum(weights, programme.at(weights), value, lower)
        if value - lower <= enough:
            break
        slope, step = _newton_step(programme, weights, shares, rates, barrier)
        gain = -float((slope * step).sum())
        if not gain > 0:  # rounding decides from here on
            break
        weights = weights + _length(programme, weights, step, gain, barrier) * step
        weights /= weights.sum(axis=1, keepdims=True)
        if gain < NEAR_PATH * barrier * len(weights):
            barrier *= FALL
    if best is None:
        raise ArithmeticError("no step was made")
    return best


def _newton_step(
    programme: LogProgramme, weights: _Weights, shares: Float64[np.ndarray, " terms"], rates: _Weights, barrier: float
) -> tuple[_Weights, _Weights]:
    """The slope of F less barrier times the sum of ln w, and Newton's step along the planes where each block's weights
    keep their sum; the matrix is inverted by Woodbury's identity.
    """
    inside = np.where(programme.allowed, weights, 1.0)
    slope = np.where(programme.allowed, -rates - barrier / inside, 0.0)
    diagonal = np.where(programme.allowed, inside**2 / barrier, 0.0)
    ranks = np.sqrt(shares)[:, None, None] * (programme.gaps - rates)
    eased, first = _eased(diagonal, ranks), _eased(diagonal, slope)
    matrix = np.eye(len(shares)) + np.einsum("tbv,sbv->ts", ranks, eased)
    through = np.linalg.solve(matrix, np.einsum("tbv,bv->t", ranks, first))
    return slope, np.einsum("t,tbv->bv", through, eased) - first


def _eased(
    diagonal: _Weights, x: Float64[np.ndarray, "*terms blocks vertices"]
) -> Float64[np.ndarray, "*terms blocks vertices"]:
    """The inverse of the barrier's Hessian on the planes, times x."""
    scaled = diagonal * x
    part = scaled.sum(axis=-1, keepdims=True) / diagonal.sum(axis=1, keepdims=True)
    return np.asarray(scaled - diagonal * part)


def _merit(programme: LogProgramme, weights: _Weights, barrier: float) -> float:
    return programme.value(weights) - barrier * float(np.log(weights[programme.allowed]).sum())


def _length(programme: LogProgramme, weights: _Weights, step: _Weights, gain: float, barrier: float) -> float:
    """How far to go along the step: inside the polytopes, and down (Armijo's rule)."""
    falling = programme.allowed & (step < 0)
    length = min(1.0, INSIDE * float((-weights[falling] / step[falling]).min())) if falling.any() else 1.0
    before = _merit(programme, weights, barrier)
    while length > LEAST_STEP and not (
        _merit(programme, weights + length * step, barrier) <= before - 1e-4 * length * gain
    ):
        length /= 2
    return length
