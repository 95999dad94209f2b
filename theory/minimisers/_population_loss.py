"""The population loss of Theorem 4.2, and its gradient, through tables of exp(score) instead of forward passes.

*Setting* (reconstructed; the paper's equations are missing). One layer, one head, one-hot tokens, 2D-RoPE, theory
layout with b = a+2. Query c asks with q_c, key token x answers with k_x, both in R^d, and adds v_x to the logit of 0
minus the logit of 1. Only 0, 1 and B_b ever ask. With Delta the position of the key less that of the query,

    score(c, x, Delta) = sum_f A_f cos(beta_f Delta) + B_f sin(beta_f Delta),   A + iB = q_c,f conj(k_x,f),

row pairs with the row difference, column pairs with the column difference. At step i of a string of length n the wanted
symbol s_i stands at Delta = (-1, 0), the source s_j at (-1, j-i), the output s_j at (0, j-i+1), A_k at (-1, k-a-i), B_1
at (-1, n-i+1) and B_j at (0, j-a-1-i). With sigma = +1 for s_i = 0 and -1 for s_i = 1 the step costs ln(1 + exp(-sigma
z)), z the attention-weighted mean of the v_x. The population loss is the mean over n uniform on 1..L, then over the
string, then over the step.

*Excess.* For any `ceiling` >= |v_x| every step costs at least the floor ln(1 + exp(-ceiling)), and

    cost - floor = log1p(sigmoid(-ceiling) expm1(delta)),
    delta = sum over the tokens seen of exp(score) (ceiling - sigma v_x) / sum of exp(score),

a mean of non-negative numbers. So the excess keeps its relative accuracy where it is far below the floor's last digit.

*What it is good for.* Floats without a rounding bound: searches minimise it, and nothing is proved by it.
`_population_bounds` bounds the loss of the point that a search came to, in balls.

*How it is computed.* A step's two sums are linear in the tables: one sparse map spreads the entries over (token at a
place, step), and one matrix product with the strings' 0/1 indicators does all steps of all strings. The gradient is the
same two maps transposed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64
from scipy.sparse import csr_array

from theory.numbers import Frequency, GridFrequencies, InputError, fixed_point_turns, require_at_least
from theory.task import CopyTask, all_strings, require_room, theory_task

#: Up to this length the loss is the exact mean over all strings; beyond it a seeded sample stands for them.
LONGEST_ENUMERATION = 12

#: Of a sample, lengths up to this are enumerated all the same.
ENUMERATED_IN_SAMPLE = 6

#: Query tokens, in the order of `HeadWeights.queries`: 0, 1, B_b.
ASKING = 3

#: A step whose weights add up to less, against 1 for the largest entry of its query's table, counts as fully wrong.
LEAST_WEIGHT = 1e-150

_TURN_BITS = 128
_ROWS = (-1, 0)


class HeadWeights(NamedTuple):
    """Weights of the one-layer head, float64, in the token order of `theory_task(a, a+2)`: 0, 1, A_1..A_a, B_1..B_b.

    Attributes:
        queries: q_c of the query tokens 0, 1 and B_b; coordinates (2f, 2f+1) are pair f, row pairs first.
        keys: k_x of every token.
        values: v_x, what token x adds to the logit of 0 minus the logit of 1.
    """

    queries: Float64[np.ndarray, "3 d"]
    keys: Float64[np.ndarray, "tokens d"]
    values: Float64[np.ndarray, " tokens"]


def require_finite_head(head: HeadWeights) -> HeadWeights:
    """`head`, or InputError if a weight of it is not a finite number."""
    for name, part in zip(head._fields, head, strict=True):
        if not np.isfinite(part).all():
            wrong = np.flatnonzero(~np.isfinite(part))[0]
            raise InputError(name, float(part.flat[wrong]), "made of finite numbers")
    return head


@dataclass(frozen=True)
class WeightedStrings:
    """Strings of lengths up to L, padded with zeros, each with the weight that every one of its steps has in the mean.

    Attributes:
        symbols: one string a row.
        lengths: their lengths.
        step_weights: weight of each step of the string; sum of lengths times weights is 1.
    """

    symbols: Int64[np.ndarray, "count L"]
    lengths: Int64[np.ndarray, " count"]
    step_weights: Float64[np.ndarray, " count"]


def every_string(length: int) -> WeightedStrings:
    """All strings of all lengths 1..length with the weights of the population loss, 2^(length+1) - 2 rows.

    Raises:
        InputError: length < 1 or above LONGEST_ENUMERATION.
    """
    require_at_least("L", length, 1)
    if length > LONGEST_ENUMERATION:
        raise InputError("L", length, f"at most {LONGEST_ENUMERATION} for an enumeration")
    return _weighted([all_strings(n) for n in range(1, length + 1)], length)


def sampled_strings(length: int, per_length: int, seed: int) -> WeightedStrings:
    """A stratified sample: all strings up to ENUMERATED_IN_SAMPLE, `per_length` uniform strings of each longer length.

    The weighted mean over it is unbiased for the population loss. The same arguments give the same strings anywhere.

    Raises:
        InputError: length, per_length or seed out of range, or more than 2^28 symbols in all.
    """
    require_room("L", length, require_at_least("per_length", per_length, 1) * require_at_least("L", length, 1))
    require_at_least("seed", seed, 0)
    parts = [all_strings(n) for n in range(1, min(length, ENUMERATED_IN_SAMPLE) + 1)]
    for n in range(len(parts) + 1, length + 1):
        generator = np.random.default_rng(np.random.SeedSequence([seed, n]))
        parts.append(generator.integers(0, 2, (per_length, n), dtype=np.int64))
    return _weighted(parts, length)


def _weighted(parts: list[Int64[np.ndarray, "_ _"]], length: int) -> WeightedStrings:
    symbols = np.concatenate([np.pad(part, ((0, 0), (0, length - part.shape[1]))) for part in parts])
    lengths = np.concatenate([np.full(len(part), part.shape[1], dtype=np.int64) for part in parts])
    weights = np.concatenate([np.full(len(part), 1.0 / (length * len(part) * part.shape[1])) for part in parts])
    return WeightedStrings(symbols, lengths, weights)


def turns_modulo_one(
    frequencies: tuple[Frequency, ...], distances: list[int]
) -> Float64[np.ndarray, "distances pairs"]:
    """Each frequency times each integer distance, in turns modulo 1, reduced in integers before it becomes a float.

    Within distance * 2^-128 + 2^-53 of the exact value.
    """
    units = [fixed_point_turns(frequency, _TURN_BITS) for frequency in frequencies]
    scale = 1 << _TURN_BITS
    turns = [[unit * distance % scale / scale for unit in units] for distance in distances]
    return np.array(turns, dtype=np.float64).reshape(len(distances), len(units))


class PopulationLoss:
    """Loss and gradient of a head over a weighted set of strings; the set of every string gives the population loss.

    Args:
        frequencies: exact frequencies; pair f of the head is row frequency f, then column frequencies.
        a: tokens before the string; b = a+2.
        length: L, the longest string.
        strings: the strings, by default every string up to L.
        data_only: leave out the tokens of A and B, as if nobody attended to them: what the data tokens cost alone.

    Raises:
        InputError: a or L < 1, or L above LONGEST_ENUMERATION without a sample.

    Cost of one evaluation: O(count L^2) multiplications and as much memory as 18 floats a step; about 5 ms at d = 32,
    L = 10.
    """

    def __init__(
        self,
        frequencies: GridFrequencies,
        a: int,
        length: int,
        strings: WeightedStrings | None = None,
        *,
        data_only: bool = False,
    ) -> None:
        self.frequencies, self.length = frequencies, length
        self.task: CopyTask = theory_task(a, a + 2)
        self.strings = every_string(length) if strings is None else strings
        self.columns = list(range(-(length - 1 + a), length + 1))
        self._rows = _trigonometry(frequencies.row, list(_ROWS))
        self._columns = _trigonometry(frequencies.column, self.columns)
        self._spread = _spreading(self.task, length, self.columns, data_only)
        self._place_steps()

    @property
    def d(self) -> int:
        """Coordinates of queries and keys."""
        return self.frequencies.head_width

    def _place_steps(self) -> None:
        """Indicators of the strings, and where each step's sums stand in the product with the spread tables."""
        symbols, lengths = self.strings.symbols, self.strings.lengths
        length = symbols.shape[1]
        inside = np.arange(length)[None, :] < lengths[:, None]
        indicators = [(symbols == 0) & inside, (symbols == 1) & inside, np.arange(1, length + 1) == lengths[:, None]]
        self._indicators = np.concatenate(indicators, axis=1).astype(np.float64)
        string, step = np.nonzero(inside)
        asking = np.where(step == 0, 0, symbols[string, step - 1])
        self._denominators = ((string * 2 + asking) * length + step) * 3
        self._numerators = self._denominators + 1 + symbols[string, step]
        self._step_weights = self.strings.step_weights[string]
        self._string_of_step = string

    def excess(self, head: HeadWeights, ceiling: float) -> float:
        """Loss less the floor ln(1 + exp(-ceiling)), accurate relative to itself; `ceiling` >= every |v_x|.

        Raises InputError for weights that are not finite.
        """
        require_finite_head(head)
        tables = self._tables(head, ceiling)
        return float(self._step_weights @ _step_excess(self._means(tables)[0], ceiling))

    def loss(self, head: HeadWeights) -> float:
        """The loss, in nats a step."""
        ceiling = float(np.abs(require_finite_head(head).values).max())
        return floor(ceiling) + self.excess(head, ceiling)

    def string_excesses(self, head: HeadWeights, ceiling: float) -> Float64[np.ndarray, " count"]:
        """Mean excess of the steps of each string. Raises InputError for weights that are not finite."""
        require_finite_head(head)
        steps = _step_excess(self._means(self._tables(head, ceiling))[0], ceiling)
        totals: Float64[np.ndarray, " count"] = np.bincount(self._string_of_step, steps, len(self.strings.lengths))
        totals /= self.strings.lengths
        return totals

    def excess_and_gradient(self, head: HeadWeights, ceiling: float) -> tuple[float, HeadWeights]:
        """The excess and its gradient with respect to queries, keys and values."""
        tables = self._tables(head, ceiling)
        means, denominators = self._means(tables)
        value = float(self._step_weights @ _step_excess(means, ceiling))
        by_mean = self._step_weights * _sigmoid(means - ceiling)
        by_numerator = np.divide(by_mean, denominators, out=np.zeros_like(means), where=denominators > LEAST_WEIGHT)
        by_denominator = -by_numerator * np.where(denominators > LEAST_WEIGHT, means, 0.0)
        return value, self._pull_back(head, ceiling, tables, by_numerator, by_denominator)

    def _tables(self, head: HeadWeights, ceiling: float) -> Float64[np.ndarray, "entries 3"]:
        """exp(score) of every (query, key, row, column), plain and times ceiling - v_x and ceiling + v_x."""
        even, odd = amplitudes(head.queries, head.keys)
        pairs = len(self.frequencies.row)
        both = np.stack([even, odd], axis=-2)
        rows = both[..., :pairs].reshape(ASKING, len(head.keys), -1) @ self._rows.T
        columns = both[..., pairs:].reshape(ASKING, len(head.keys), -1) @ self._columns.T
        scores = rows[..., :, None] + columns[..., None, :]
        # A step's quotient does not change with the shift; it keeps exp within the range of floats.
        seen = np.where(self._spread.seen.reshape(scores.shape), scores, -np.inf)
        scores = np.minimum(scores - seen.max(axis=(1, 2, 3), keepdims=True), 0.0)
        weights = np.exp(scores)
        votes = np.stack([np.ones_like(head.values), ceiling - head.values, ceiling + head.values], axis=-1)
        tables: Float64[np.ndarray, "entries 3"] = (weights[..., None] * votes[None, :, None, None, :]).reshape(-1, 3)
        return tables

    def _means(
        self, tables: Float64[np.ndarray, "entries 3"]
    ) -> tuple[Float64[np.ndarray, " steps"], Float64[np.ndarray, " steps"]]:
        """delta of each step, with its denominator. Where the weights underflow, the step counts as fully wrong
        (delta infinite, later cut to twice the ceiling).
        """
        spread = (self._spread.matrix @ tables).reshape(2, 3 * self.length, self.length * 3)
        product = np.concatenate([self._indicators @ spread[0], self._indicators @ spread[1]], axis=1).ravel()
        numerators, denominators = product[self._numerators], product[self._denominators]
        means = np.divide(
            numerators, denominators, out=np.full_like(numerators, np.inf), where=denominators > LEAST_WEIGHT
        )
        return means, denominators

    def _pull_back(
        self,
        head: HeadWeights,
        ceiling: float,
        tables: Float64[np.ndarray, "entries 3"],
        by_numerator: Float64[np.ndarray, " steps"],
        by_denominator: Float64[np.ndarray, " steps"],
    ) -> HeadWeights:
        count = len(self.strings.lengths)
        steps = np.zeros(count * 6 * self.length)
        steps[self._numerators] = by_numerator
        steps[self._denominators] = by_denominator
        product = steps.reshape(count, 2, 3 * self.length)
        spread = np.stack([self._indicators.T @ product[:, 0], self._indicators.T @ product[:, 1]])
        by_table = (self._spread.transposed @ spread.reshape(-1, 3)).reshape(ASKING, len(head.keys), -1, 3)
        weights = tables[:, 0].reshape(by_table.shape[:-1])
        by_value = (weights * (by_table[..., 2] - by_table[..., 1])).sum(axis=(0, 2))
        votes = np.stack([np.ones_like(head.values), ceiling - head.values, ceiling + head.values], axis=-1)
        by_score = weights * np.einsum("cxrk,xk->cxr", by_table, votes)
        by_score = by_score.reshape(ASKING, len(head.keys), len(_ROWS), len(self.columns))
        return _by_vectors(head, by_score.sum(3) @ self._rows, by_score.sum(2) @ self._columns, by_value)


def floor(ceiling: float) -> float:
    """The trivial floor ln(1 + exp(-ceiling)): no step of a model with values in [-ceiling, ceiling] costs less."""
    return float(np.logaddexp(0.0, -ceiling))


def amplitudes(
    queries: Float64[np.ndarray, "asking d"], keys: Float64[np.ndarray, "tokens d"]
) -> tuple[Float64[np.ndarray, "asking tokens pairs"], Float64[np.ndarray, "asking tokens pairs"]]:
    """(A, B) of every pair, for every query and key."""
    qx, qy, kx, ky = queries[:, None, 0::2], queries[:, None, 1::2], keys[None, :, 0::2], keys[None, :, 1::2]
    return qx * kx + qy * ky, qy * kx - qx * ky


def _by_vectors(
    head: HeadWeights,
    rows: Float64[np.ndarray, "3 tokens two_row_pairs"],
    columns: Float64[np.ndarray, "3 tokens two_column_pairs"],
    by_value: Float64[np.ndarray, " tokens"],
) -> HeadWeights:
    """The gradient by (A, B) carried over to queries and keys."""
    m, p = rows.shape[-1] // 2, columns.shape[-1] // 2
    even = np.concatenate([rows[..., :m], columns[..., :p]], axis=-1)
    odd = np.concatenate([rows[..., m:], columns[..., p:]], axis=-1)
    qx, qy, kx, ky = head.queries[:, 0::2], head.queries[:, 1::2], head.keys[:, 0::2], head.keys[:, 1::2]
    by_queries, by_keys = np.empty_like(head.queries), np.empty_like(head.keys)
    by_queries[:, 0::2] = np.einsum("cxf,xf->cf", even, kx) - np.einsum("cxf,xf->cf", odd, ky)
    by_queries[:, 1::2] = np.einsum("cxf,xf->cf", even, ky) + np.einsum("cxf,xf->cf", odd, kx)
    by_keys[:, 0::2] = np.einsum("cxf,cf->xf", even, qx) + np.einsum("cxf,cf->xf", odd, qy)
    by_keys[:, 1::2] = np.einsum("cxf,cf->xf", even, qy) - np.einsum("cxf,cf->xf", odd, qx)
    return HeadWeights(by_queries, by_keys, by_value)


def _sigmoid(x: Float64[np.ndarray, " steps"]) -> Float64[np.ndarray, " steps"]:
    value: Float64[np.ndarray, " steps"] = np.exp(-np.logaddexp(0.0, -x))
    return value


def _step_excess(means: Float64[np.ndarray, " steps"], ceiling: float) -> Float64[np.ndarray, " steps"]:
    """softplus(delta - ceiling) - softplus(-ceiling), without cancellation where delta is small."""
    delta = np.minimum(means, 2 * ceiling)
    near = np.minimum(delta, 1.0)
    small = np.log1p(np.exp(-np.logaddexp(0.0, ceiling)) * np.expm1(near))
    value: Float64[np.ndarray, " steps"]
    value = np.where(delta <= 1.0, small, np.logaddexp(0.0, delta - ceiling) - floor(ceiling))
    return value


def _trigonometry(
    frequencies: tuple[Frequency, ...], distances: list[int]
) -> Float64[np.ndarray, "distances two_pairs"]:
    angles = 2 * np.pi * turns_modulo_one(frequencies, distances)
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


@dataclass(frozen=True)
class _Spreading:
    """Which table entries a step sees: rows (query slot, indicator, step), columns (query, key, row, column).

    The two slots are the query tokens 0 and 1 from step 2 on; step 1, which B_b asks, takes slot 0.
    """

    matrix: csr_array
    transposed: csr_array
    seen: np.ndarray


def _spreading(task: CopyTask, length: int, columns: list[int], data_only: bool) -> _Spreading:
    place = {column: number for number, column in enumerate(columns)}
    tokens, a = task.vocabulary_size, task.a
    rows: list[int] = []
    entries: list[int] = []

    def see(indicator: int, step: int, token: int, row: int, column: int) -> None:
        """The indicator's tokens have, seen from this step, `token` at (row, column)."""
        for slot, query in ((0, 2),) if step == 1 else ((0, 0), (1, 1)):
            rows.append((slot * 3 * length + indicator) * length + step - 1)
            entries.append(((query * tokens + token) * len(_ROWS) + _ROWS.index(row)) * len(columns) + place[column])

    for i in range(1, length + 1):
        for symbol in (0, 1):
            for j in range(1, length + 1):
                see(symbol * length + j - 1, i, symbol, -1, j - i)
                if j < i:
                    see(symbol * length + j - 1, i, symbol, 0, j - i + 1)
        for n in range(i, length + 1) if not data_only else ():
            indicator = 2 * length + n - 1
            for k in range(1, a + 1):
                see(indicator, i, task.prefix[k - 1], -1, k - a - i)
            see(indicator, i, task.infix[0], -1, n - i + 1)
            for j in range(2, task.b + 1):
                see(indicator, i, task.infix[j - 1], 0, j - a - 1 - i)
    size = ASKING * tokens * len(_ROWS) * len(columns)
    matrix = csr_array((np.ones(len(rows)), (rows, entries)), shape=(6 * length * length, size))
    seen = np.zeros(size, dtype=bool)
    seen[entries] = True
    return _Spreading(matrix, csr_array(matrix.T), seen)
