"""Theorem 4.2: minimisers of the population loss under ||theta||_inf <= M. The weights, and the derivation beside them.

*Claim* (paper). For random frequencies, with probability at least 1 - 3/d, some M_0 exists such that every global
minimiser of the population loss on strings of length <= L under ||theta||_inf <= M, M > M_0, copies all binary strings
of length <= L^(sqrt(d)/2). Its assumptions J.3 to J.5 are missing from the text that we have.

*Setting* (reconstructed): see `theory/minimisers/_population_loss.py`. theta is a list of vectors, every entry in
[-M, M]:

- *decoupled*: one query vector for each token that asks (0, 1, B_b; *free*) or one for all three (*tied*), a key and a
  scalar value for every token;
- *coupled*: one embedding e_x in R^d for every token, and `q_c = W_Q e_c`, `k_x = W_K e_x`, `v_x = w_V . e_x`; tied,
  one query vector stands for all W_Q e_c.

*Closed form* (reconstructed from the proof idea; new in the details). The data tokens' keys are (M, M) in every pair.
Then `A = M (q_x + q_y)` and `B = M (q_y - q_x)`: the square of queries is mapped onto the diamond |A| + |B| <= 2 M^2,
and no other key reaches more: |A| + |B| <= max(|q_x + q_y|, |q_y - q_x|) max(|k_x|, |k_y|) <= 2 M^2. A query is so
chosen by a point of the diamond for each pair:

- *column pairs*, queries 0 and 1: (2 M^2, 0), the wanted column is the largest value of every cosine. For B_b, which
  sees every source on one side, any point: `column_amplitudes` may carry those of the linear programme in `theory`.
- *row pairs*, queries 0 and 1: the score of a key one row up exceeds the score of a key in the query's row by `A (cos
  beta - 1) - B sin beta`; the corner that maximises it gains 2 M^2 max(1 - cos beta, |sin beta|). B_b sees no data
  token in its own row, and takes the corner with the largest score one row up, 2 M^2 max(|cos beta|, |sin beta|).
- *values*: M for 0, -M for 1, 0 for the rest.
- *keys of the other tokens*: they should be found by nobody, so each coordinate is -M times the sign of the sum, over
  the queries and the relative positions at which they see the token, of the turned queries.

At finite M the minimiser weighs the distances by how often they occur; `search_minimisers` polishes this form.

*Content form* (new), free queries. In some pairs, chosen by `content_solution`, k_1 = -k_0 = (-M, -M) and q_1 = -q_0:
after a 0 the query 0 asks for keys of 1 and away from keys of 0, and the other way round; the token just copied is such
a key at a known place. B_b has the query 0 in these pairs, where the keys of 0 and 1 are opposite. See
`theory/minimisers/_content.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float64
from scipy.optimize import minimize
from scipy.special import logsumexp
from torch import Tensor

from constructions._subspaces import Space, linear_map, rotary_pairs
from engine import Transformer, TransformerConfig
from theory import CopyTask, GridFrequencies, InputError, MinimiserSetting, theory_task
from theory.minimisers import (
    HeadWeights,
    Queries,
    closed_form_amplitudes,
    content_solution,
    turns_modulo_one,
    worst_case_gap,
)
from theory.numbers import ball, float_below, require_one_of

Parametrisation = Literal["decoupled", "coupled"]
ProgrammeMethod = Literal["linear-programme", "content-programme"]
Theta = Float64[np.ndarray, " parameters"]

VOTE = "vote"


@dataclass(frozen=True)
class HeadParameters:
    """How a vector theta stands for a head: the parametrisation and its sizes.

    Attributes:
        parametrisation: decoupled or coupled.
        queries: free, or tied to one vector.
        d: query and key coordinates, and width of the embedding if coupled.
        a: tokens before the string; b = a+2.

    Raises:
        InputError: unknown parametrisation or queries.
    """

    parametrisation: Parametrisation
    queries: Queries
    d: int
    a: int

    def __post_init__(self) -> None:
        for name, value, known in (
            ("parametrisation", self.parametrisation, get_args(Parametrisation)),
            ("queries", self.queries, get_args(Queries)),
        ):
            require_one_of(name, value, known)

    @property
    def tokens(self) -> int:
        """Number of tokens, a + b + 2."""
        return 2 * self.a + 4

    @property
    def asking(self) -> tuple[int, int, int]:
        """The tokens that ask: 0, 1, B_b."""
        return 0, 1, self.tokens - 1

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the parts of theta, in order: queries, keys, values; or embedding, W_Q (tied: q), W_K, w_V."""
        d, tokens = self.d, self.tokens
        if self.parametrisation == "decoupled":
            return (3 if self.queries == "free" else 1, d), (tokens, d), (tokens,)
        return (tokens, d), (d, d) if self.queries == "free" else (d,), (d, d), (d,)

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(int(np.prod(shape)) for shape in self.shapes)

    def parts(self, theta: Theta) -> list[Float64[np.ndarray, "*shape"]]:
        """The parts of theta, as views."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        pieces = np.split(theta, ends[:-1])
        return [piece.reshape(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def head(self, theta: Theta) -> HeadWeights:
        """The queries, keys and values that theta stands for."""
        if self.parametrisation == "decoupled":
            queries, keys, values = self.parts(theta)
            return HeadWeights(np.broadcast_to(queries, (3, self.d)), keys, values)
        embedding, query, key, value = self.parts(theta)
        asked = embedding[list(self.asking)] @ query.T if query.ndim == 2 else np.tile(query, (3, 1))
        return HeadWeights(asked, embedding @ key.T, embedding @ value)

    def gradient(self, theta: Theta, by_head: HeadWeights) -> Theta:
        """The gradient by theta, from the gradient by queries, keys and values."""
        if self.parametrisation == "decoupled":
            by_queries = by_head.queries if self.queries == "free" else by_head.queries.sum(0, keepdims=True)
            return np.concatenate([by_queries.ravel(), by_head.keys.ravel(), by_head.values])
        embedding, query, key, value = self.parts(theta)
        by_embedding = by_head.keys @ key + by_head.values[:, None] * value
        if query.ndim == 2:
            by_embedding[list(self.asking)] += by_head.queries @ query
            by_query = by_head.queries.T @ embedding[list(self.asking)]
        else:
            by_query = by_head.queries.sum(0)
        parts = by_embedding, by_query, by_head.keys.T @ embedding, embedding.T @ by_head.values
        return np.concatenate([part.ravel() for part in parts])

    def theta(self, head: HeadWeights) -> Theta:
        """The decoupled theta of a head.

        Raises:
            InputError: coupled (a head does not determine it), or tied and the queries differ.
        """
        if self.parametrisation == "coupled":
            raise InputError("parametrisation", "coupled", "decoupled, to be read off a head")
        queries = head.queries
        if self.queries == "tied":
            if not (queries == queries[0]).all():
                raise InputError("queries", "different", "one vector for all three, if tied")
            queries = queries[:1]
        return np.concatenate([queries.ravel(), head.keys.ravel(), head.values])


def closed_form(
    setting: MinimiserSetting,
    column_amplitudes: Sequence[Float64[np.ndarray, "2 pairs"]] | None = None,
) -> HeadWeights:
    """The closed form, before polishing; float64, every entry within [-M, M].

    Args:
        setting: frequencies, L (which enters through the distances at which other tokens are seen), M, a, and the
            reading; tied takes the queries of 0 for all.
        column_amplitudes: (A, B)/(2 M^2) of the column pairs for the queries 0, 1 and B_b, |A| + |B| <= 1; by default
            (1, 0) for all.

    Raises:
        InputError: amplitudes outside the diamond.
    """
    frequencies, task, bound = setting.frequencies, setting.task, float_below(ball(setting.bound))
    pairs = len(frequencies.column)
    straight = np.stack([np.ones(pairs), np.zeros(pairs)])
    columns = [straight] * 3 if column_amplitudes is None else list(column_amplitudes)
    separating = np.array(closed_form_amplitudes(frequencies)[0], dtype=np.float64).T
    rows = [separating, separating, _raising_corners(frequencies)]
    vectors = np.stack([_query(np.concatenate(pair, axis=1), bound) for pair in zip(rows, columns, strict=True)])
    if setting.queries == "tied":
        vectors = np.tile(vectors[0], (3, 1))
    keys = np.full((task.vocabulary_size, frequencies.head_width), bound)
    values = np.zeros(task.vocabulary_size)
    values[:2] = bound, -bound
    return with_avoiding_keys(setting, HeadWeights(vectors, keys, values))


def with_avoiding_keys(setting: MinimiserSetting, head: HeadWeights) -> HeadWeights:
    """The head with keys of the tokens of A and B that its queries avoid, as in the closed form."""
    task, bound, keys = setting.task, float_below(ball(setting.bound)), head.keys.copy()
    for token in range(2, task.vocabulary_size):
        seen_at = _seen_at(task, token, setting.length)
        keys[token] = _avoiding_key(setting.frequencies, head.queries, seen_at, bound)
    return head._replace(keys=keys)


def programme_amplitudes(setting: MinimiserSetting) -> list[Float64[np.ndarray, "2 pairs"]] | None:
    """(A, B)/(2 M^2) of the column pairs for the queries 0, 1 and B_b that solve the linear programme of `theory`, for
    `closed_form`; None where it has nothing to say (L = 1) or only the closed form (tied queries).
    """
    if setting.queries == "tied" or setting.length == 1:
        return None
    gaps = [worst_case_gap(setting, asker) if setting.relations(asker) else None for asker in ("data", "last")]
    data, last = (None if gap is None else np.array(gap.column, dtype=np.float64).T for gap in gaps)
    if data is None or last is None:
        return None
    return [data, data, last]


def content_head(setting: MinimiserSetting) -> HeadWeights:
    """The content form, before polishing; float64, every entry within [-M, M].

    Raises:
        InputError: tied queries, or L < 2.
    Cost: as `content_solution`, up to a few seconds.
    """
    solution, bound = content_solution(setting), float_below(ball(setting.bound))
    sign = np.repeat(np.where(solution.content, -1.0, 1.0), 2)
    # B_b sees no data token in its own row; where it looks for them is as in the closed form.
    rows = len(setting.frequencies.row)
    asked = np.concatenate([_raising_corners(setting.frequencies).T, solution.last[rows:]])
    own, last = (_query(_within(points).T, bound) for points in (solution.own, asked))
    head = closed_form(setting)
    keys = head.keys.copy()
    keys[:2] = np.full(sign.size, bound), sign * bound
    last = np.where(sign < 0, 0.0, last)
    queries = np.stack([own, sign * own, last])
    return _with_least_keys(setting, with_avoiding_keys(setting, HeadWeights(queries, keys, head.values)))


def programme_heads(setting: MinimiserSetting) -> dict[ProgrammeMethod, HeadWeights]:
    """The heads that programmes of `theory` propose, for `search_minimisers`; none for tied queries or L = 1."""
    amplitudes = programme_amplitudes(setting)
    if amplitudes is None:
        return {}
    return {"linear-programme": closed_form(setting, amplitudes), "content-programme": content_head(setting)}


def _within(points: Float64[np.ndarray, "pairs 2"]) -> Float64[np.ndarray, "pairs 2"]:
    """The points shrunk onto the diamond |A| + |B| <= 1 where rounding put them outside."""
    return np.asarray(points / np.maximum(1.0, np.abs(points).sum(axis=1, keepdims=True)))


def _query(amplitudes: Float64[np.ndarray, "2 pairs"], bound: float) -> Float64[np.ndarray, " d"]:
    """The query that meets the key (M, M) in every pair with the amplitudes 2 M^2 (A, B)."""
    even, odd = amplitudes
    if (np.abs(even) + np.abs(odd) > 1 + 1e-9).any():
        raise InputError("column_amplitudes", "outside", "points of the diamond |A| + |B| <= 1, in units of 2 M^2")
    query = np.stack([even - odd, even + odd], axis=1).ravel() * bound
    clipped: Float64[np.ndarray, " d"] = np.clip(query, -bound, bound)
    return clipped


def _raising_corners(frequencies: GridFrequencies) -> Float64[np.ndarray, "2 pairs"]:
    """For each row pair the corner of the diamond that maximises A cos beta - B sin beta."""
    beta = 2 * np.pi * turns_modulo_one(frequencies.row, [1])[0]
    by_sine = np.abs(np.sin(beta)) > np.abs(np.cos(beta))
    return np.stack([np.where(by_sine, 0.0, np.sign(np.cos(beta))), np.where(by_sine, -np.sign(np.sin(beta)), 0.0)])


def _seen_at(task: CopyTask, token: int, length: int) -> tuple[int, list[list[int]]]:
    """The row difference at which a token other than 0 and 1 is seen, and its column differences for each query."""
    steps = range(1, length + 1)
    if token in task.prefix:
        number = task.prefix.index(token) + 1
        row, columns = -1, [number - task.a - i for i in steps]
    elif token == task.newline:
        row, columns = -1, list(range(1, length + 1))
        return row, [columns, columns, columns]
    else:
        number = task.infix.index(token) + 1
        row, columns = 0, [number - task.a - 1 - i for i in steps]
    return row, [columns[1:], columns[1:], columns[:1]]


def _avoiding_key(
    frequencies: GridFrequencies,
    queries: Float64[np.ndarray, "3 d"],
    seen_at: tuple[int, list[list[int]]],
    bound: float,
) -> Float64[np.ndarray, " d"]:
    """The key that minimises the sum of the scores over the queries and relative positions."""
    total = np.concatenate(_turned(frequencies, queries, seen_at)).sum(axis=0)
    key: Float64[np.ndarray, " d"] = np.where(total > 0, -bound, bound)
    return key


def _turned(
    frequencies: GridFrequencies, queries: Float64[np.ndarray, "3 d"], seen_at: tuple[int, list[list[int]]]
) -> list[Float64[np.ndarray, "places d"]]:
    """For each query the vectors whose inner products with a key are its scores at the relative positions."""
    row, columns = seen_at
    row_turns = turns_modulo_one(frequencies.row, [row])
    turned = []
    for query, distances in zip(queries, columns, strict=True):
        column_turns = turns_modulo_one(frequencies.column, distances)
        turns = np.concatenate([row_turns.repeat(len(distances), axis=0), column_turns], axis=1)
        cosine, sine = np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)
        x, y = query[0::2], query[1::2]
        parts = np.stack([x * cosine + y * sine, y * cosine - x * sine], axis=2)
        turned.append(parts.reshape(len(distances), len(query)))
    return turned


def _with_least_keys(setting: MinimiserSetting, head: HeadWeights) -> HeadWeights:
    """The head with keys of the tokens of A and B that minimise their summed weights, each weight relative to the
    smaller one of the two wanted keys: convex in the key (floats, L-BFGS-B on the logarithm).

    Where 0 and 1 ask opposite questions, the corner that has the least sum of scores may please one of them.
    """
    task, bound, keys = setting.task, float_below(ball(setting.bound)), head.keys.copy()
    above = _turned(setting.frequencies, head.queries, (-1, [[0]] * 3))
    wanted = [float((turned @ keys[:2].T).min()) for turned in above]
    for token in range(2, task.vocabulary_size):
        turned = _turned(setting.frequencies, head.queries, _seen_at(task, token, setting.length))
        rates = np.concatenate(turned)
        levels = np.concatenate([np.full(len(part), level) for part, level in zip(turned, wanted, strict=True)])

        def logarithm(key: Theta, rates: Theta = rates, levels: Theta = levels) -> tuple[float, Theta]:
            scores = rates @ key - levels
            value = float(logsumexp(scores))
            return value, np.exp(scores - value) @ rates

        found = minimize(
            logarithm, keys[token], jac=True, method="L-BFGS-B", bounds=[(-bound, bound)] * len(keys[token])
        )
        keys[token] = np.clip(found.x, -bound, bound)
    return head._replace(keys=keys)


def build_minimiser_model(head: HeadWeights, frequencies: GridFrequencies, a: int) -> Transformer:
    """A head as a torch model, float64: one-hot embedding, and two logits whose difference is the attention-weighted
    value.

    Raises:
        InputError: the head does not fit the frequencies and a.
    """
    task = theory_task(a, a + 2)
    tokens, d = task.vocabulary_size, frequencies.head_width
    if head.queries.shape != (3, d) or head.keys.shape != (tokens, d) or head.values.shape != (tokens,):
        raise InputError("head", str([part.shape for part in head]), f"(3, {d}), ({tokens}, {d}) and ({tokens},)")
    model = Transformer(_config(tokens, d), frequencies, task.newline).to(torch.float64).requires_grad_(False)
    residual, votes, logits = Space(task.names, tokens), Space((VOTE,), 1), Space(("0", "1"), 2)
    coordinates = rotary_pairs(len(frequencies.row), len(frequencies.column))
    asking = [task.names[token] for token in (0, 1, tokens - 1)]
    images = {
        name: dict(zip(coordinates.names, vector.tolist(), strict=True))
        for name, vector in zip(asking, head.queries, strict=True)
    }
    keys = {
        name: dict(zip(coordinates.names, vector.tolist(), strict=True))
        for name, vector in zip(task.names, head.keys, strict=True)
    }
    weights: dict[str, Tensor] = {
        "embedding.weight": torch.eye(tokens, dtype=torch.float64),
        "blocks.0.attention.query.weight": linear_map(residual, coordinates, images),
        "blocks.0.attention.key.weight": linear_map(residual, coordinates, keys),
        "blocks.0.attention.value.weight": linear_map(
            residual, votes, {name: {VOTE: value} for name, value in zip(task.names, head.values.tolist(), strict=True)}
        ),
        "blocks.0.attention.output.weight": linear_map(votes, residual, {VOTE: {"0": 1.0}}),
        "readout.weight": linear_map(residual, logits, {"0": {"0": 0.5, "1": -0.5}}),
    }
    model.load_state_dict(weights, strict=True)
    return model


def head_of_model(model: Transformer) -> HeadWeights:
    """The queries, keys and values of a one-layer, one-head model with two logits and unrestricted embedding.

    The inverse of `build_minimiser_model`; also reads a coupled model. Token order as in its task.
    """
    attention, tokens = model.block(0).attention, model.embedding.weight
    asking = tokens[[0, 1, tokens.shape[0] - 1]]
    readout = model.readout.weight[0] - model.readout.weight[1]
    values = tokens @ attention.value.weight.T @ (readout @ attention.output.weight)
    parts = (asking @ attention.query.weight.T, tokens @ attention.key.weight.T, values)
    queries, keys, votes = (part.detach().double().numpy() for part in parts)
    return HeadWeights(queries, keys, votes)


def build_coupled_model(parameters: HeadParameters, theta: Theta, frequencies: GridFrequencies) -> Transformer:
    """A coupled theta as a torch model whose embedding, query, key and value weights are the parts of theta; float64.

    The embedding is followed by two coordinates for the logits, 0 in every token.

    Raises:
        InputError: not coupled, or tied (the shared query vector is no linear map of the embedding).
    """
    if parameters.parametrisation != "coupled" or parameters.queries != "free":
        raise InputError("parametrisation", f"{parameters.parametrisation}, {parameters.queries}", "coupled, free")
    embedding, query, key, value = (torch.from_numpy(part) for part in parameters.parts(theta))
    tokens, d = embedding.shape
    task = theory_task(parameters.a, parameters.a + 2)
    model = Transformer(_config(tokens, d, d + 2), frequencies, task.newline).to(torch.float64).requires_grad_(False)
    wider = torch.nn.functional.pad
    model.load_state_dict(
        {
            "embedding.weight": wider(embedding, (0, 2)),
            "blocks.0.attention.query.weight": wider(query, (0, 2)),
            "blocks.0.attention.key.weight": wider(key, (0, 2)),
            "blocks.0.attention.value.weight": wider(value[None], (0, 2)),
            "blocks.0.attention.output.weight": torch.eye(d + 2, dtype=torch.float64)[:, [d]],
            "readout.weight": torch.tensor([[0.5], [-0.5]], dtype=torch.float64)
            * torch.eye(d + 2, dtype=torch.float64)[d],
        },
        strict=True,
    )
    return model


def _config(tokens: int, d: int, width: int | None = None) -> TransformerConfig:
    return TransformerConfig(
        vocabulary_size=tokens, model_width=tokens if width is None else width, layers=1, heads=1, head_width=d,
        value_width=1, outputs=2, position="grid", residual=False, pre_norm=False, sub_norm=False, final_norm=False,
    )  # fmt: skip
