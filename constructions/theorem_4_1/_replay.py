"""Witnesses replayed through the torch model, where its rounding error allows a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot

import numpy as np
import torch
from flint import arb
from jaxtyping import Int64

from constructions._score_table import forced_answers
from constructions.theorem_4_1._copier import GridCopier
from engine import ANGLE_ERROR
from theory import GridScore
from theory.grid import StepWeights, step_weights
from theory.numbers import working_precision

#: Longer inputs are decided in balls only.
LONGEST_REPLAY = 10_000_000

#: Steps with more tokens than this are not evaluated in balls for their margin.
LONGEST_MARGIN = 200_000


@dataclass(frozen=True)
class Replay:
    """What the torch model did at one step of one string.

    Attributes:
        ran: was the model run?
        wrong: did it get the step wrong? None if it was not run.
        reason: why it was not run, or why its verdict is not conclusive; empty otherwise.
        stored_dtype: the dtype that the model is stored in, if it was run in it too; empty otherwise.
        stored_wrong: what that run did; None where its logits are no numbers.
    """

    ran: bool
    wrong: bool | None
    reason: str = ""
    stored_dtype: str = ""
    stored_wrong: bool | None = None


def score_error_bound(score: GridScore, dtype: torch.dtype) -> float:
    """Bound of the error of one attention score of the torch model in `dtype`.

    A rotated coordinate is off by the angle error, the cosine's own (two units in the last place assumed of the
    library, after the float64 angle), and three roundings; a score is a dot product of two rotated vectors. With u the
    unit roundoff and W the sum of |q_f| |k_f| over pairs, the error is at most `W (2 sqrt 2 (ANGLE_ERROR + 2^-51 + 5u)
    + (d + 2) u) (1 + 2^-10)`.
    Method: float+bound, resting on that assumption about sine and cosine; used only to decide whether a replay can be
    conclusive.
    """
    unit = torch.finfo(dtype).eps / 2
    amplitudes = [(float(a), float(b)) for a, b in (*score.row, *score.column)]
    weight = sum(hypot(a, b) for a, b in amplitudes)
    width = 2 * len(amplitudes)
    return weight * (2 * 2**0.5 * (ANGLE_ERROR + 2.0**-51 + 5 * unit) + (width + 2) * unit) * (1 + 2.0**-10)


def conclusive(weights: StepWeights, error: float, tokens: int, dtype: torch.dtype) -> bool:
    """Can no perturbation of the scores by `error` each, and no rounding of the sums, change the sign of right -
    wrong?
    """
    unit = torch.finfo(torch.promote_types(dtype, torch.float32)).eps / 2
    if error > 1e17:
        return False
    with working_precision(256):
        slack = (2 * arb(error)).exp() * (1 + 8 * (tokens + 16) * arb(unit))
        return bool(weights.right * slack < weights.wrong or weights.wrong * slack < weights.right)


def replay(copier: GridCopier, string: Int64[np.ndarray, " n"], step: int) -> Replay:
    """Run one step of a string (1-based) through the torch model: the single query, keys in blocks.

    Cost: O(tokens d). Inputs above 10^7 tokens are not run.
    """
    query = copier.task.query_index(len(string), step)
    if query + 1 > LONGEST_REPLAY:
        return Replay(
            False,
            None,
            f"{query + 1} tokens: decided in balls only, above {LONGEST_REPLAY} tokens nothing is replayed",
        )
    dtype = copier.model.readout.weight.dtype
    if query + 1 <= LONGEST_MARGIN:
        score = copier.score()
        if not conclusive(step_weights(score, string, step), score_error_bound(score, dtype), query + 1, dtype):
            return Replay(False, None, f"the margin is within the rounding error of {dtype}")
    tokens = torch.from_numpy(copier.task.sequences(string[None])[0, : query + 1])
    with torch.inference_mode():
        zero, one = copier.model.last_logits(tokens).tolist()
    wanted = int(string[step - 1])
    unchecked = f"above {LONGEST_MARGIN} tokens the margin was not compared with the rounding error"
    wrong = not ((one > zero) if wanted == 1 else (zero > one))
    return Replay(True, wrong, "" if query + 1 <= LONGEST_MARGIN else unchecked)


def greedy_copy(copier: GridCopier, strings: Int64[np.ndarray, "count n"]) -> Int64[np.ndarray, "count n"]:
    """The model's answer at every step under teacher forcing; -1 where the two logits are equal. Exact match holds iff
    it equals `strings`.

    Cost: O(n^2 d) a string.
    """
    return forced_answers(copier.model, copier.task, strings)
