"""How far two runs of one formula may lie apart on machines that round as IEEE 754 says, whatever the order of sums.

Assumed: +, -, *, / and square roots are rounded to nearest, sums and fused products taken in any order; the elementary
functions of numpy, libm and torch are within `ULPS` units in the last place, and the float32 exp of torch's fused
attention, which is a short polynomial, within `SINGLE_EXP_ULPS`. Nothing else is assumed of a machine.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, cat

from engine import Transformer
from proofs_check.certify import replay_error
from theory import OneLayerModel
from theory.minimisers import HeadWeights

#: Unit roundoff of float64 and float32.
DOUBLE, SINGLE = 2.0**-53, 2.0**-24
ULPS, SINGLE_EXP_ULPS = 4, 64


def gamma(n: float, unit: float = DOUBLE) -> float:
    """Relative error of n roundings, any order of summation."""
    assert n * unit < 0.01
    return n * unit / (1 - n * unit)


def margin_error(model: OneLayerModel, longest: int) -> float:
    """How far two float64 runs of a logit difference may lie apart, at strings of up to that length.

    Twice what the replays of verdicts go by: `replay_error`, 256 roundings a score, generous but an estimate. Long
    doubles count as float64: on some machines they are.
    """
    tokens = len(model.template.prefix) + len(model.template.infix) + 2 * longest
    return 2 * float(replay_error(model, tokens))


def weight_error(head: HeadWeights) -> float:
    """Relative error of the attention weights of a head, before they are normed, and of their sums, in one run.

    A score's terms add up to `scores` at most; each takes part in fewer than 4 d + 300 units: products and sums over d,
    its angle's and cosine's, exp's and those of the sums over the tokens.
    """
    queries, keys = (np.abs(part[:, 0::2]) + np.abs(part[:, 1::2]) for part in (head.queries, head.keys))
    scores = float((queries @ keys.T).max())
    return gamma((4 * head.queries.shape[1] + 300) * (scores + 1))


def loss_error(head: HeadWeights) -> float:
    """How far two runs of the loss may lie apart, over up to 1000 steps: a logit is a mean of values, -log p is
    1-Lipschitz in it and below one more than the largest value.
    """
    largest = float(np.abs(head.values).max())
    return 4 * math.expm1(2 * weight_error(head)) * largest + 2 * gamma(1000) * (largest + 1)


def excess_error(head: HeadWeights, ceiling: float) -> float:
    """Relative error of a step's excess, and so of the loss's, in one run.

    ceiling minus the logit is a mean of numbers >= 0. Below 1 the excess keeps its relative error up to a factor 2;
    above, it is the difference of two numbers of size `ceiling` and at least e^-ceiling.
    """
    return math.expm1(8 * weight_error(head)) + gamma(20 * (ceiling + 1) * math.exp(ceiling) + 1000)


@dataclass
class Bounded:
    """A float64 run's values, and entry by entry how far another run of the same formula may be from them.

    `unit` is the sum of the two runs' unit roundoffs: an operation of size s is off by at most u s in each, and `size`
    is above the values of both.
    """

    value: np.ndarray
    error: np.ndarray
    unit: float

    @classmethod
    def exact(cls, value: np.ndarray, unit: float) -> "Bounded":
        """What both runs are given."""
        return cls(value, np.zeros_like(value), unit)

    def of(self, value: np.ndarray, error: np.ndarray) -> "Bounded":
        """The result of an operation; the slack is for the roundings of the bound itself."""
        return Bounded(value, error * (1 + 2.0**-20), self.unit)

    @property
    def size(self) -> np.ndarray:
        return np.abs(self.value) + self.error

    def gamma(self, n: float) -> float:
        return gamma(n, self.unit)

    def holds(self, run: np.ndarray) -> bool:
        """Is the other run within the bound?"""
        return bool((np.abs(run.astype(np.float64) - self.value) <= self.error).all())

    def __getitem__(self, part: object) -> "Bounded":
        return Bounded(self.value[part], self.error[part], self.unit)  # type: ignore[index]

    def joined(self, *others: "Bounded") -> "Bounded":
        """Side by side."""
        parts = (self, *others)
        return self.of(np.concatenate([p.value for p in parts], -1), np.concatenate([p.error for p in parts], -1))

    def plus(self, other: "Bounded") -> "Bounded":
        error = self.error + other.error
        return self.of(self.value + other.value, error + self.unit * (self.size + other.size))

    def times(self, matrix: np.ndarray) -> "Bounded":
        """Each row times the matrix's transpose."""
        n, m = matrix.shape[-1], np.abs(matrix)
        return self.of(self.value @ matrix.T, self.error @ m.T + self.gamma(n + 1) * (self.size @ m.T))

    def normed(self, gain: np.ndarray | float, epsilon: float) -> "Bounded":
        """x / rms(x) g, rms with epsilon inside: 1-Lipschitz in the root mean square of the change of x."""
        rms = np.sqrt((self.value**2).mean(-1, keepdims=True) + epsilon)
        change = np.sqrt((self.error**2).mean(-1, keepdims=True))
        assert (change < rms / 2).all()
        error = (self.error + np.abs(self.value) * change / rms) / (rms - change) * np.abs(gain)
        value = self.value / rms * gain
        rounding = self.gamma(self.value.shape[-1] + 10 + 2 * ULPS)
        return self.of(value, error + rounding * (np.abs(value) + error))

    def gelu(self) -> "Bounded":
        """x (1 + erf(x / sqrt 2)) / 2; its slope is below 1.13."""
        erf = np.vectorize(math.erf)(self.value / math.sqrt(2))
        return self.of(self.value * 0.5 * (1 + erf), 1.2 * self.error + self.gamma(2 * ULPS + 8) * self.size)

    def turned(self, angles: np.ndarray, error: np.ndarray | float) -> "Bounded":
        """Coordinate pairs (2f, 2f+1) turned; angles may be off by `error`, a cosine by its own ulps."""
        value, x, y = np.empty_like(self.value), self.value[..., 0::2], self.value[..., 1::2]
        value[..., 0::2] = x * np.cos(angles) - y * np.sin(angles)
        value[..., 1::2] = x * np.sin(angles) + y * np.cos(angles)
        both = self.error[..., 0::2] + self.error[..., 1::2]
        both = both + (error + self.gamma(2 * ULPS + 4)) * (self.size[..., 0::2] + self.size[..., 1::2])
        return self.of(value, np.repeat(both, 2, axis=-1))

    def attended(self, k: "Bounded", v: "Bounded", scale: float, slope: float = 0.0) -> tuple["Bounded", "Bounded"]:
        """Causal weights and output of one head with these queries, softmax whole or over blocks of 3 keys and more.

        A score's error e changes its weight by a factor exp(+-e) before the weights are normed.
        """
        exp_units = 2 * (ULPS if self.unit < SINGLE else SINGLE_EXP_ULPS)
        n, width = self.value.shape
        distance = slope * np.abs(np.arange(n)[:, None] - np.arange(n))
        scores = self.value @ k.value.T * scale - distance
        sizes = self.size @ k.size.T * scale + distance
        errors = (self.error @ k.size.T + self.size @ k.error.T) * scale + self.gamma(width + 8) * sizes
        weights = self.of(np.zeros((n, n)), np.zeros((n, n)))
        for t in range(n):
            row = np.exp(scores[t, : t + 1] - scores[t, : t + 1].max())
            row /= row.sum()
            spread = (np.abs(scores) + errors)[t, : t + 1].max()
            # The argument of exp is a difference; a block's weights are scaled down at each greater maximum after it.
            off = errors[t, : t + 1] + 4 * self.unit * spread + self.gamma((n // 3 + 2) * exp_units)
            sum_off = max(math.log1p(row @ np.expm1(off)), -math.log1p(row @ np.expm1(-off)))
            weights.value[t, : t + 1] = row
            # A weight may underflow, below 2^-126 in float32.
            weights.error[t, : t + 1] = np.expm1(off + sum_off + self.gamma(n + 20)) * row + 2.0**-126
        out = weights.error @ v.size + weights.size @ v.error + self.gamma(n + 20) * (weights.size @ v.size)
        return weights, self.of(weights.value @ v.value, out)


def inputs_seen(model: Transformer, run: Callable[[], Any], length: int) -> tuple[Any, list[np.ndarray]]:
    """What `run` returns, and the input [batch, length, width] of each layer after the first in it."""
    seen: list[list[Tensor]] = [[] for _ in range(1, model.config.layers)]
    hooks = [
        model.block(number + 1).norm.register_forward_pre_hook(lambda _, x, kept=kept: kept.append(x[0].clone()))
        for number, kept in enumerate(seen)
    ]
    result = run()
    for hook in hooks:
        hook.remove()
    return result, [cat(kept, dim=1)[:, :length].detach().numpy() for kept in seen]


def agrees(
    plain: Callable[[list[int], list[np.ndarray]], Bounded],
    model: Transformer,
    tokens: Tensor,
    run: Callable[[], Tensor],
) -> bool:
    """Are the logits of the last tokens that `run` gives, [batch, queries, outputs], within the bound of `plain`?

    `plain` is given a row of tokens and the inputs [length, width] of the layers after the first in that run.
    """
    logits, seen = inputs_seen(model, run, tokens.shape[1])
    found = [plain(row.tolist(), [x[b] for x in seen]) for b, row in enumerate(tokens)]
    return all(p[-mine.shape[0] :].holds(mine.detach().numpy()) for p, mine in zip(found, logits, strict=True))
