"""How far floats carry the two constructions: where rounding of the scores makes a model fail that is right on paper.

A score is a number of size T. In a format with unit roundoff u the difference of two is good to about 2 u T, and a
model fails where that reaches what its answers hang on.

    two layers (Theorem 3.2)    T = S = rho^4/10^4,  neighbours are lower by (25/18) ln^2 rho, S/(72 L0^2)
    one layer (Theorem 4.1)     T = (d/2) S;  at half its exact length n* the wrong weights may about double: ln 2

The first is a race that rho loses quickly, for T grows like rho^4 and the gap like ln^2 rho. So does the second at its
*own* lengths, which are astronomical for large d. At lengths that one can run no source there comes near the wanted
one: the gap is a fixed part of T, and rho does not matter.

*Measured* (sampled): the torch model itself, in the format, on strings that put every neighbour of some steps on the
wrong side. A run that gets them all right proves nothing; one that errs shows a failure. *Predicted*: the budget at
which 2 u T reaches that difference. *Proved*: `conclusive_steps`, the steps that no machine's rounding can change.
Label: new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from fractions import Fraction
from math import log, sqrt
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from constructions._score_table import forced_answers
from constructions.theorem_3_2 import TwoLayerCopier, build_two_layer_copier
from constructions.theorem_4_1 import build_grid_copier
from engine import ANGLE_ERROR, KeysValues, Places
from theory import InputError, draw_grid_frequencies, exact_length, paper_two_layer_length, sample_strings
from theory.numbers import halved, require_one_of

Construction = Literal["two-layer", "grid"]

DTYPES: dict[str, torch.dtype] = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}

#: Strings up to this length go through the model as they are; longer ones through `sparse_answers`.
LONGEST_FULL_RUN = 2_000

#: Flipped symbols of the test string stand this far apart, so that all near neighbours are against each.
FLIP_DISTANCE = 61

#: Steps of each string that are run.
STEPS = 32

#: Dimension of the one-layer copier whose exact length n* can be reached.
GRID_DIMENSION = 4

#: Lengths of the one-layer copier are not looked for beyond this.
LONGEST_GRID = 10**6

#: n* is about sqrt(2 pi S) at d = 4: near the limit at this budget.
LARGEST_GRID_RHO = 1200

#: The one-layer copier at a size as in Theorem 4.1, and a length that one can run.
PRACTICAL_RHO, PRACTICAL_DIMENSION, PRACTICAL_LENGTH = Fraction(20_000), 120, 2_000

#: Symbols on each side of the wanted one that a sparse run looks at.
WINDOW = 512

#: Units roundoff by which the library's exp may be off, relative; assumed, not proved.
EXP_UNITS = 32

#: The same for 1/sqrt; a correctly rounded root and a division are two.
RSQRT_UNITS = 4

#: Longest string whose steps are judged: one pass over at most two blocks of 2048 keys, and one block more in a sparse
#: run.
LONGEST_JUDGED = 2_000
BLOCKS = 3


@dataclass(frozen=True)
class Trial:
    """One budget in one format.

    Attributes:
        rho: the norm budget.
        length: of the strings.
        steps, wrong: how many were run, and how many went wrong.
    """

    rho: float
    length: int
    steps: int
    wrong: int


@dataclass(frozen=True)
class FloatReach:
    """How far one format carries one construction.

    Attributes:
        construction: `two-layer` (paper's constants) or `grid` (d = 4, one draw, at half its exact length n*).
        dtype: the format.
        predicted_rho: where rounding reaches what the answers hang on.
        trials: budgets in rising order; up to `measured_rho` all steps are right, the last trial has a wrong step,
            unless the ladder ended first.
    """

    construction: Construction
    dtype: str
    predicted_rho: float
    trials: tuple[Trial, ...]

    @property
    def measured(self) -> Trial | None:
        """The last trial before the first wrong step, None if the very first was wrong."""
        right = [trial for trial in self.trials if not trial.wrong]
        return right[-1] if right else None

    @property
    def first_wrong(self) -> Trial | None:
        """The trial that failed, None if the ladder ended first."""
        return self.trials[-1] if self.trials and self.trials[-1].wrong else None


def unit_roundoff(dtype: str) -> float:
    """Half the distance from 1 to the next number of the format. InputError for an unknown format."""
    require_one_of("dtype", dtype, DTYPES)
    return torch.finfo(DTYPES[dtype]).eps / 2


def predicted_rho(construction: Construction, dtype: str) -> float:
    """The rho at which 2 u T reaches the difference that the answers hang on: (25/18) ln^2 rho, or ln 2."""
    unit = unit_roundoff(dtype)
    if construction == "grid":
        return float((log(2) / (unit * GRID_DIMENSION) * 12 * GRID_DIMENSION) ** 0.25)
    return halved(
        lambda rho: 2 * unit * rho**4 / 1e4 < 25 / 18 * log(rho) ** 2, 2.0, 1e12, 35, lambda low, high: sqrt(low * high)
    )[0]


def spaced_flips(length: int) -> Int64[np.ndarray, " length"]:
    """0 everywhere but for a 1 in every 61st place, from the first on: no neighbour of a 1 votes for it."""
    string = np.zeros(length, dtype=np.int64)
    string[::FLIP_DISTANCE] = 1
    return string


def worst_strings(
    length: int, seed: int = 0
) -> Iterator[tuple[Int64[np.ndarray, " length"], Int64[np.ndarray, " steps"]]]:
    """Strings and the steps (1-based) to look at: spaced flips at their flips, alternating and random symbols."""
    flips = np.arange(0, length, FLIP_DISTANCE)
    generator = np.random.default_rng(seed)
    yield spaced_flips(length), 1 + flips[np.unique(np.linspace(0, len(flips) - 1, STEPS).astype(np.int64))]
    spread = np.unique(np.concatenate([np.linspace(1, length, STEPS // 2).astype(np.int64),
                                       generator.integers(1, length + 1, STEPS // 2)]))  # fmt: skip
    yield np.arange(length, dtype=np.int64) % 2, spread
    yield sample_strings("uniform", length, 1, seed)[0], spread


def try_two_layer(rho: Fraction, dtype: str) -> Trial:
    """Run the paper's two-layer copier in the format, on its worst strings of length L0(rho)."""
    copier = build_two_layer_copier(rho, beyond_theorem=True)
    return run_two_layer(copier, dtype, copier.length)


def run_two_layer(copier: TwoLayerCopier, dtype: str, length: int) -> Trial:
    """Run a two-layer copier in the format, on worst strings of that length; the copier itself is left as it is.

    Raises:
        InputError: unknown format.
    """
    require_one_of("dtype", dtype, DTYPES)
    cast = replace(copier, model=deepcopy(copier.model).to(DTYPES[dtype]))
    return _trial(copier.rho, length, lambda string, steps: _two_layer_answers(cast, string, steps))


def try_grid(rho: Fraction, dtype: str, d: int = GRID_DIMENSION, length: int | None = None) -> Trial:
    """Run the one-layer 2D-RoPE copier in the format, on its worst strings of half its exact length n*."""
    copier = build_grid_copier(rho, d, 2, 3, draw_grid_frequencies(d, 0, 0))
    if length is None:
        length = max(1, exact_length(copier.score(), LONGEST_GRID).lower // 2)
    copier.model.to(DTYPES[dtype])
    return _trial(rho, length, lambda string, steps: [_answer(_last_logits(copier, string, int(i))) for i in steps])


def _trial(rho: Fraction, length: int, answers: Callable[..., list[int]]) -> Trial:
    steps = wrong = 0
    with torch.inference_mode():
        for string, chosen in worst_strings(length):
            found = np.array(answers(string, chosen))
            steps += len(chosen)
            wrong += int((found != string[chosen - 1]).sum())
    return Trial(float(rho), length, steps, wrong)


def _last_logits(copier: Any, string: Int64[np.ndarray, " length"], step: int) -> Tensor:
    tokens = copier.task.sequences(string[None])[0, : copier.task.query_index(len(string), step) + 1]
    logits: Tensor = copier.model.last_logits(torch.from_numpy(tokens))
    return logits


def _answer(logits: Tensor) -> int:
    zero, one = logits.tolist()
    return 0 if zero > one else 1 if one > zero else -1


def _two_layer_answers(
    copier: TwoLayerCopier, string: Int64[np.ndarray, " length"], steps: Int64[np.ndarray, " steps"]
) -> list[int]:
    if len(string) <= LONGEST_FULL_RUN:
        answers: list[int] = forced_answers(copier.model, copier.task, string[None])[0, steps - 1].tolist()
        return answers
    return sparse_answers(copier, string, steps)


def sparse_answers(
    copier: TwoLayerCopier, string: Int64[np.ndarray, " length"], steps: Int64[np.ndarray, " steps"]
) -> list[int]:
    """The model's answers at some steps of a long string, from the tokens that matter: O(WINDOW) a step.

    The modules are the model's own, in its format. Layer 1 sees the four anchors only: every other token has the value
    0 there and drops out when the head output is normalised. Layer 2 sees the string within WINDOW symbols of the
    wanted one: a source k symbols away is lower by k^2 gaps, output tokens by about S, and the rest has the value 0.
    """
    first = _Sparse(copier, len(string))
    return [_answer(_sparse_logits(copier, first, string, int(step))) for step in steps]


def _sparse_logits(copier: TwoLayerCopier, first: _Sparse, string: Any, step: int) -> Tensor:
    token = copier.task.infix[-1] if step == 1 else int(string[step - 2])
    index = first.after + step - 1
    x = first.outputs(torch.tensor([token]), index, [first.before_part, first.after_part])
    low = max(0, step - 1 - WINDOW)
    near, start = torch.from_numpy(string[low : step + WINDOW]), copier.task.a + low
    attention = copier.model.block(1).attention
    keys = first.outputs(near, start, [first.before_part])
    queries = attention.queries(x, attention.encoding.turns(places_from(index, 1), x.dtype))
    turns = attention.encoding.turns(places_from(start, len(near)), x.dtype)
    y = attention.attend(queries, [attention.keys_values(keys, start, turns)], index)
    logits: Tensor = copier.model.readout(x + y)
    return logits[0, 0]


class _Sparse:
    """Keys and values of the anchors in layer 1."""

    def __init__(self, copier: TwoLayerCopier, length: int) -> None:
        task = copier.task
        self.model = copier.model
        self.after = task.a + length + task.b - 1  # index of B_b
        self.before_part = self._keys(task.prefix[-2:], task.a - 2)
        self.after_part = self._keys(task.infix[-2:], self.after - 1)

    def _keys(self, tokens: tuple[int, ...], start: int) -> KeysValues:
        places = places_from(start, len(tokens))
        x = self.model.embedding(torch.tensor([tokens]))
        attention = self.model.block(0).attention
        return attention.keys_values(x, start, attention.encoding.turns(places, x.dtype))

    def outputs(self, tokens: Tensor, start: int, parts: list[KeysValues]) -> Tensor:
        """Layer 1's output for tokens from index `start` on that all see the given anchors."""
        x = self.model.embedding(tokens[None])
        attention = self.model.block(0).attention
        queries = attention.queries(x, attention.encoding.turns(places_from(start, tokens.shape[0]), x.dtype))
        out: Tensor = x + attention.attend(queries, parts, start)
        return out


def conclusive_steps(
    copier: TwoLayerCopier, string: Int64[np.ndarray, " length"], steps: Int64[np.ndarray, " steps"]
) -> Bool[np.ndarray, " steps"]:
    """At which steps (1-based) is the copier right on every IEEE machine, whole or sparse, in the model's own format?

    True is proved, False is not known. Method: float+bound, for any order of summation and fused operations or not,
    resting on EXP_UNITS, RSQRT_UNITS, and sine and cosine good to two float64 units, as in `score_error_bound`.

    *Derivation.* u is the unit roundoff, B = BLOCKS, all rounding against the model with the stored weights, for which
    `copier.scores()` proves the form: a linear map has one term for each coordinate that matters, for the others are
    products with 0. So it costs one rounding, and adding 0 none.

    Layer 1. An anchor's score is a product of vectors with three coordinates, and with W the sum of |q_f| |k_f| it is
    off by at most `e = W (2 sqrt 2 (ANGLE_ERROR + 2^-51 + 5u) + 5u)`. Its weight exp(score - maximum) is off by a
    factor of logarithm `e + B (2 W + EXP_UNITS + 2) u` at most (a block costs a difference of at most 2 W, an exp, a
    product and a sum), and value, division and cast are four more roundings. The position's angle is the arc tangent
    of the ratio of two such weights. It moves by at most half of what the ratio's logarithm does, so by at most

        epsilon = e + B (2 W + EXP_UNITS + 2) u + 4 u.

    Layer 2. Each coordinate of the normalised vector has in addition half of four roundings (squares and their sum),
    RSQRT_UNITS and a product; then O, and Q or K: RSQRT_UNITS + 5. Queries and keys have coordinates >= 0 in a pair
    that does not turn, so |q| |k| is summed to S cos(delta) <= S, delta the angle between query i and source j. Their
    score is therefore off by at most

        E_ij = S (2 epsilon (|delta| + epsilon) + (2 (RSQRT_UNITS + 5) + 3 + B) u) + B (EXP_UNITS + 2) u,

    the difference from the maximum and the exp of every block among it. Output tokens have keys near 0, since the lift
    hides the A anchors from them: they are S/2 below at least.

    The sum of weights times +-v has the right sign if the source's own weight outweighs all wrong ones and the sum's
    rounding: `exp(-E_ii) > 2 sum over wrong j of exp(E_ij - S (cos delta_ii - cos delta_ij))`. The factor 2 covers the
    sum's rounding, (tokens + 4 B) u < 1/8 of all terms, and what follows keeps signs. A sparse run has fewer terms.

    Errors of second order are within the factor 1 + 2^-8 on epsilon and E, given that epsilon < 2^-8.

    Cost: O(steps length) and a ball evaluation a symbol.

    Raises:
        InputError: a format other than float64 and float32, a variant other than "paper", more than LONGEST_JUDGED
            symbols, or weights of another form.
    """
    dtype = next(copier.model.parameters()).dtype
    if dtype not in (torch.float64, torch.float32):
        raise InputError("dtype", str(dtype), "float64 or float32")
    if copier.variant != "paper":
        raise InputError("variant", copier.variant, "paper")
    if len(string) > LONGEST_JUDGED:
        raise InputError("string", f"{len(string)} symbols", f"at most {LONGEST_JUDGED} symbols long")
    unit, scores = torch.finfo(dtype).eps / 2, copier.scores()
    scale, angle_error = float(scores.scale), _angle_error(copier, unit)
    if not angle_error < 2.0**-8:
        return np.zeros(len(steps), dtype=bool)
    sources, queries = scores.source_curve(), scores.query_curve()
    source_angles = np.array([float(sources.angle(j).mid()) for j in range(1, len(string) + 1)])
    found = []
    for step in steps.tolist():
        delta = source_angles - float(queries.angle(step).mid())
        roundings = (2 * (RSQRT_UNITS + 5) + 3 + BLOCKS) * unit
        error = scale * (2 * angle_error * (np.abs(delta) + angle_error) + roundings) + BLOCKS * (EXP_UNITS + 2) * unit
        error *= 1 + 2.0**-8
        below = 2 * scale * (np.sin(delta / 2) ** 2 - np.sin(delta[step - 1] / 2) ** 2)
        wrong = string != string[step - 1]
        # All in nats above the source's least score, so that nothing overflows but what is lost anyway.
        above = np.minimum(error - below + error[step - 1], 100.0)[wrong]
        outputs = len(string) * np.exp(min(error.max() + error[step - 1] - scale / 2, 100.0))
        found.append(2 * (np.exp(above).sum() + outputs) < 1)
    return np.array(found, dtype=bool)


def _angle_error(copier: TwoLayerCopier, unit: float) -> float:
    """Epsilon of `conclusive_steps`; 2^-50 more for the angles that are compared with, which are floats."""
    attention, embedding = copier.model.block(0).attention, copier.model.embedding.weight.double()
    queries = (embedding @ attention.query.weight.double().T).abs().amax(0)
    keys = (embedding @ attention.key.weight.double().T).abs().amax(0)
    sizes = [side.reshape(-1, 2).square().sum(-1).sqrt() for side in (queries, keys)]
    weight = float((sizes[0] * sizes[1]).sum())
    score = weight * (2 * sqrt(2) * (ANGLE_ERROR + 2.0**-51 + 5 * unit) + 5 * unit)
    return (score + BLOCKS * (2 * weight + EXP_UNITS + 2) * unit + 4 * unit) * (1 + 2.0**-8) + 2.0**-50


def places_from(start: int, count: int) -> Places:
    """Places of `count` tokens in one row, from index `start` on: all that shift positions look at."""
    return Places(start, torch.zeros(1, count, dtype=torch.int64), torch.arange(start, start + count)[None])


def budgets(construction: Construction, dtype: str) -> list[Fraction]:
    """A ladder around the prediction, four budgets to a factor of 2, each rounded to three digits.

    It starts where there is a length to copy, and ends where the one-layer copier's length is out of reach.
    """
    ladder = (Fraction(f"{predicted_rho(construction, dtype) * 2 ** (k / 4):.3g}") for k in range(-8, 9))
    if construction == "two-layer":
        return [rho for rho in ladder if rho > 1 and paper_two_layer_length(rho) >= 1]
    return [rho for rho in ladder if 3 <= rho <= LARGEST_GRID_RHO]


def float_reach(construction: Construction, dtype: str, tick: Callable[[], None] = lambda: None) -> FloatReach:
    """Climb the ladder of budgets until a step goes wrong; calls `tick` after each.

    Cost: some seconds a budget.

    Raises:
        InputError: unknown format.
    """
    require_one_of("dtype", dtype, DTYPES)
    attempt = try_two_layer if construction == "two-layer" else try_grid
    trials: list[Trial] = []
    for rho in budgets(construction, dtype):
        trials.append(attempt(rho, dtype))
        tick()
        if trials[-1].wrong:
            break
    return FloatReach(construction, dtype, predicted_rho(construction, dtype), tuple(trials))


def practical_trial(dtype: str) -> Trial:
    """The one-layer copier of rho = 20,000, d = 120 on worst strings of 2000 symbols."""
    return try_grid(PRACTICAL_RHO, dtype, PRACTICAL_DIMENSION, PRACTICAL_LENGTH)
