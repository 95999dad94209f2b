"""Two-layer witnesses: replayed through the torch model, or run in ball arithmetic from the stored weights.

The ball run assumes no form of the weights: it is the two layers as they are defined, and so a second route to what the
theory says of the anchor curve.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import torch
from flint import arb
from jaxtyping import Int64
from torch import Tensor

from constructions.theorem_3_2._copier import TwoLayerCopier
from constructions.theorem_4_1 import Replay
from theory import Frequency, InputError, VacuousBallError
from theory.numbers import ball, working_precision

#: Both layers see all tokens at every position, so longer inputs are decided in balls only.
LONGEST_TWO_LAYER_REPLAY = 30_000

#: Longest input that is run in balls.
LONGEST_BALL_RUN = 256

Vector = list[arb]


def replay_two_layer(copier: TwoLayerCopier, string: Int64[np.ndarray, " n"], step: int) -> Replay:
    """Run one step of a string (1-based) through the torch model. Cost: O(tokens^2 d), half a minute at 30,000 tokens.

    The verdict is the torch model's own. At small budgets and short strings its rounding is far below the margin; at
    the lengths of the theorem's range it may not be.
    """
    query = copier.task.query_index(len(string), step)
    if query + 1 > LONGEST_TWO_LAYER_REPLAY:
        reason = (
            f"{query + 1} tokens: decided in balls only, above {LONGEST_TWO_LAYER_REPLAY} tokens nothing is replayed"
        )
        return Replay(False, None, reason)
    tokens = torch.from_numpy(copier.task.sequences(string[None])[0, : query + 1])
    with torch.inference_mode():
        zero, one = copier.model.last_logits(tokens).tolist()
    wanted = int(string[step - 1])
    return Replay(True, not ((one > zero) if wanted == 1 else (zero > one)))


def ball_difference(copier: TwoLayerCopier, string: Int64[np.ndarray, " n"], step: int, precision: int = 512) -> arb:
    """Logit of the right symbol minus the other's at a step, of the real-arithmetic model with the stored weights.

    Cost: O(tokens^2 d) ball operations.

    Raises:
        InputError: more than 256 tokens. VacuousBallError: a normalised vector may be 0 at this precision.
    """
    query = copier.task.query_index(len(string), step)
    if query + 1 > LONGEST_BALL_RUN:
        raise InputError("string", f"{query + 1} tokens", f"at most {LONGEST_BALL_RUN} tokens long")
    tokens = copier.task.sequences(string[None])[0, : query + 1].tolist()
    with working_precision(precision):
        width = copier.model.config.model_width
        rows = _sparse_rows(copier.model.embedding.weight)
        embedding = [[ball(row.get(index, Fraction(0))) for index in range(width)] for row in rows]
        states = [list(embedding[token]) for token in tokens]
        for layer in range(copier.model.config.layers):
            last = layer == copier.model.config.layers - 1
            states = _BallLayer(copier, layer).outputs(states, query if last else 0)
        zero, one = (_inner(row, states[-1]) for row in _sparse_rows(copier.model.readout.weight))
        return zero - one if string[step - 1] == 0 else one - zero


class _BallLayer:
    """One attention layer with unit sub-norm and a residual, in balls."""

    def __init__(self, copier: TwoLayerCopier, layer: int) -> None:
        attention = copier.model.block(layer).attention
        maps = (attention.query, attention.key, attention.value, attention.output)
        self.query, self.key, self.value, self.output = (_sparse_rows(part.weight) for part in maps)
        self.frequencies: tuple[Frequency, ...] = copier.frequencies.column
        self.still = 2 * len(copier.frequencies.row)
        self.support: list[int] = []  # head coordinates in which some key is not 0

    def outputs(self, states: list[Vector], first: int) -> list[Vector]:
        """The layer's output from index `first` on."""
        keys = [self._turned(_image(self.key, x), t) for t, x in enumerate(states)]
        self.support = [k for k in range(len(keys[0])) if any(key[k] != 0 for key in keys)]
        values = [_image(self.value, x) for x in states]
        return [self._output(states, keys, values, t) for t in range(first, len(states))]

    def _output(self, states: list[Vector], keys: list[Vector], values: list[Vector], t: int) -> Vector:
        query = self._turned(_image(self.query, states[t]), t)
        scores = [_product([query[k] for k in self.support], [key[k] for k in self.support]) for key in keys[: t + 1]]
        highest = max(scores, key=lambda score: float(score.mid()))
        weights = [(score - highest).exp() for score in scores]
        mean = [_product(weights, [value[k] for value in values[: t + 1]]) for k in range(len(values[0]))]
        return [x + y for x, y in zip(states[t], _image(self.output, _unit(mean)), strict=True)]

    def _turned(self, vector: Vector, t: int) -> Vector:
        turned = list(vector)
        for number, frequency in enumerate(self.frequencies):
            x, y = self.still + 2 * number, self.still + 2 * number + 1
            cosine, sine = frequency.cos_sin(t)
            turned[x], turned[y] = vector[x] * cosine - vector[y] * sine, vector[x] * sine + vector[y] * cosine
        return turned


def _unit(vector: Vector) -> Vector:
    if all(x == 0 for x in vector):
        return vector
    size = _product(vector, vector).sqrt()
    if not size > 0:
        raise VacuousBallError("a vector that is normalised may be 0")
    return [x / size for x in vector]


def _sparse_rows(weights: Tensor) -> list[dict[int, Fraction]]:
    """The nonzero entries of each row, exact."""
    rows: list[dict[int, Fraction]] = [{} for _ in range(weights.shape[0])]
    for row, column in weights.nonzero().tolist():
        rows[row][column] = Fraction(weights[row, column].item())
    return rows


def _inner(row: dict[int, Fraction], vector: Vector) -> arb:
    total = arb(0)
    for index, entry in row.items():
        total += ball(entry) * vector[index]
    return total


def _image(matrix: list[dict[int, Fraction]], vector: Vector) -> Vector:
    return [_inner(row, vector) for row in matrix]


def _product(left: Vector, right: Vector) -> arb:
    total = arb(0)
    for x, y in zip(left, right, strict=True):
        if not (x == 0 or y == 0):
            total += x * y
    return total
