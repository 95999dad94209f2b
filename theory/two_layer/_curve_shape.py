"""The shape of the anchor curve that keeps neighbours furthest apart.

With t = 2x/L - 1 in [-1, 1] the curve phi = arctan exp(-D), D(t) = -sum_f a_f sin(X_f t), has the slope L phi'(x) =
2 D'(t) .. /(2 cosh D) in units of 1/L; tau is its least value. A quadrant allows tau <= pi/2 at most. One pair reaches
tau = 0.6627 X cot X at a = 1.1997/sin X; several come close to pi/2.

The amplitudes found here are a design, not evidence: what they achieve is proved of the stored weights afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import pi
from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.optimize import linprog

from theory.numbers import InputError, halved, require_at_least

#: The root of 2 sum_{k >= 1} exp(-g k^2) = 1 (just above pi/4, by Poisson's summation formula), rounded up: neighbours
#: weigh less than the source iff S (angle)^2/2 exceeds it.
CRITICAL_GAP = 0.78542

#: Points of [0, 1] at which the slope is looked at (D is odd, so half the interval is enough).
POINTS = 600

MOST_PAIRS = 48

#: X_1/pi for up to so many pairs.
SPREADS = (
    (1, Fraction(1, 16)),
    (4, Fraction(1, 4)),
    (8, Fraction(3, 10)),
    (16, Fraction(3, 8)),
    (24, Fraction(2, 5)),
    (MOST_PAIRS, Fraction(7, 16)),
)


@dataclass(frozen=True)
class CurveShape:
    """A scale-free anchor curve.

    Attributes:
        half_turns: X_f/pi, rational; pair f has the frequency X_f/pi/L turns per position at design length L.
        amplitudes: a_f.
        phases: the query's angle in each pair; D(x) = ln(ratio) - sum_f a_f sin(2 pi X_f/pi x/L + phase_f).
        slope: tau, the least L phi' found, at most pi/2.
        ratio: of the first anchor's value to the second's.
    """

    half_turns: tuple[Fraction, ...]
    amplitudes: tuple[float, ...]
    phases: tuple[float, ...]
    slope: float
    ratio: float = 1.0


@lru_cache(maxsize=8)
def curve_shape(pairs: int) -> CurveShape:
    """The best shape found with this many pairs. Deterministic. Cost: linear programmes, some seconds for many pairs.

    Raises:
        InputError: pairs < 1 or above 48.
    """
    require_at_least("pairs", pairs, 1)
    if pairs > MOST_PAIRS:
        raise InputError("pairs", pairs, f"at most {MOST_PAIRS}")
    half_turns = tuple(_spread(pairs) * (2 * f + 1) for f in range(pairs))
    angles = pi * np.array([float(x) for x in half_turns])
    t = np.linspace(0, 1, POINTS)
    sines, slopes = np.sin(np.outer(t, angles)), np.cos(np.outer(t, angles)) * angles
    amplitudes, least = _improved(sines, slopes, t)
    return CurveShape(half_turns, tuple(float(a) for a in amplitudes), tuple(-float(x) for x in angles), 2 * least)


@lru_cache(maxsize=1)
def falling_shape() -> CurveShape:
    """The shape for repeated anchors: one pair whose score falls steeply all the way, from angle pi/4 on.

    D(x) = ln(ratio) - A sin(pi/4 + X x/L), X = pi/16 over the design length; the ratio puts D = 0 where both ends have
    the same slope.
    """
    turn = pi / 16
    low, high = pi / 4, pi / 4 + turn
    best = CurveShape((), (), (), -1.0)
    for amplitude in np.linspace(8, 40, 641):
        centre = _balanced(float(amplitude), low, high)
        ends = [amplitude * turn * np.cos(x) / (2 * np.cosh(amplitude * np.sin(x) - centre)) for x in (low, high)]
        if min(ends) > best.slope:
            pair = (Fraction(1, 32),), (float(amplitude),), (low,)
            best = CurveShape(*pair, float(min(ends)), float(np.exp(centre)))
    return best


def _balanced(amplitude: float, low: float, high: float) -> float:
    """The logarithm of the ratio for which the slopes at both ends are equal, by bisection."""
    start, end = amplitude * np.sin(low), amplitude * np.sin(high)

    def first_steeper(centre: float) -> bool:
        return bool(np.cos(low) / np.cosh(start - centre) > np.cos(high) / np.cosh(end - centre))

    return halved(first_steeper, float(start), float(end), 60)[0]


def _spread(pairs: int) -> Fraction:
    """X_1/pi. The smaller, the better the best curve and the larger its amplitudes, which cost norm and precision."""
    return next(spread for most, spread in SPREADS if pairs <= most)


def _improved(
    sines: Float64[np.ndarray, "points pairs"],
    slopes: Float64[np.ndarray, "points pairs"],
    t: Float64[np.ndarray, " points"],
) -> tuple[Float64[np.ndarray, " pairs"], float]:
    """Maximise the least slope by linear programmes in a shrinking trust region on D."""
    start = -np.log(np.tan(pi / 4 * (1 - 0.9 * t)))
    best = np.linalg.lstsq(sines, start, rcond=1e-9)[0]
    least, trust = float(_slope(sines, slopes, best).min()), 0.5
    for _ in range(120):
        step = _step(sines, slopes, best, trust)
        found = -np.inf if step is None else float(_slope(sines, slopes, best + step).min())
        if step is not None and found > least:
            best, least = best + step, found
        else:
            trust /= 2
        if trust < 1e-7:
            break
    return best, least


def _slope(sines: Any, slopes: Any, a: Any) -> Any:
    """phi'(t)"""
    return (slopes @ a) / (2 * np.cosh(sines @ a))


def _step(sines: Any, slopes: Any, a: Any, trust: float) -> Any:
    count, pairs = sines.shape
    d, cosh = sines @ a, np.cosh(sines @ a)
    value = (slopes @ a) / (2 * cosh)
    gradient = slopes / (2 * cosh)[:, None] - (value * np.tanh(d))[:, None] * sines
    free = np.zeros((count, 1))
    rows = np.vstack([np.hstack([-gradient, free + 1]), np.hstack([sines, free]), np.hstack([-sines, free])])
    limits = np.concatenate([value, np.full(2 * count, trust)])
    bounds = [(None, None)] * (pairs + 1)
    found = linprog(np.r_[np.zeros(pairs), -1.0], A_ub=rows, b_ub=limits, bounds=bounds, method="highs")
    return found.x[:pairs] if found.status == 0 else None
