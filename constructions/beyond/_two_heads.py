"""More than one head: score tables found by gradient search, and verified exactly.

No model with shift relations copies all strings of length 6 (see `theorem_3_1`): a statement about *one* head. With
several heads the right answer is no longer decided by linear inequalities, since each head has its own softmax
denominator. A search with Adam over free tables finds two-head models that copy every string of length <= 6.

Label: new. Method: the search is floats; what it returns are tables of rationals, whose margin is computed exactly.
With enough heads any finite set of strings can be copied; a failed search shows nothing.
"""

from __future__ import annotations

from fractions import Fraction

import torch
from jaxtyping import Float64, Int64
from scipy.sparse import block_diag
from torch import Tensor

from constructions._score_table import TableHead, TableModel
from theory import InputError
from theory.numbers import require_at_least
from theory.signs import Layout, SignSystem, Unknown, sign_system

#: Steepness of the loss, the logarithm of the mean of exp(-STEEPNESS * margin) over the distinct steps.
STEEPNESS = 3.0

LEARNING_RATE = 0.05

#: exp(score) and votes are rounded to multiples of these.
WEIGHT_UNIT, VOTE_UNIT = Fraction(1, 2**30), Fraction(1, 2**10)

#: Iterations between looks at the margin.
LOOK_EVERY = 100


class _Tables:
    """The distinct steps of a system as tensors: how often a step sees each unknown, and which token that is."""

    def __init__(self, system: SignSystem) -> None:
        self.tokens = system.layout.tokens
        self.unknowns: list[Unknown] = [unknown for block in system.blocks for unknown in block.unknowns]
        matrix = torch.from_numpy(block_diag([block.coefficients for block in system.blocks]).toarray())
        self.counts: Float64[Tensor, "steps unknowns"] = matrix.abs()
        self.right: Float64[Tensor, " steps"] = matrix.sum(1).sign()
        self.token: Int64[Tensor, " unknowns"] = torch.tensor([self.tokens.index(u.token) for u in self.unknowns])

    def margins(
        self, scores: Float64[Tensor, "heads unknowns"], votes: Float64[Tensor, "heads tokens"]
    ) -> Float64[Tensor, " steps"]:
        """Right minus wrong logit of every distinct step."""
        weights = (scores - scores.amax(1, keepdim=True)).exp()
        numerators, denominators = (weights * votes[:, self.token]) @ self.counts.T, weights @ self.counts.T
        return self.right * (numerators / denominators).sum(0)


def search_heads(
    a: int,
    b: int,
    length: int,
    heads: int = 2,
    *,
    relation: str = "shift",
    seeds: range = range(16),
    iterations: int = 2000,
) -> TableModel | None:
    """A model with that many heads that copies every string of length <= `length`, or None if the search found none.

    Args:
        a, b: numbers of tokens of the theory layout.
        length: longest string.
        heads: number of heads.
        relation: the positional relation.
        seeds: starts of the search, tried in turn; the result depends on them alone.
        iterations: steps of Adam for each.

    Postcondition: the model's exact margin over every step of every string is positive.

    Raises:
        InputError: as in `sign_system`, heads < 1, or no seeds.

    Cost: O(iterations heads steps unknowns) for each seed: at length 6 about a second.
    """
    require_at_least("heads", heads, 1)
    require_at_least("iterations", iterations, 1)
    if not seeds:
        raise InputError("seeds", str(seeds), "at least one")
    layout = Layout(relation, a, b)
    tables = _Tables(sign_system(layout, length))
    for seed in seeds:
        model = _search_from(tables, layout, heads, seed, iterations)
        if model is not None and model.margin(length) > 0:
            return model
    return None


def _search_from(tables: _Tables, layout: Layout, heads: int, seed: int, iterations: int) -> TableModel | None:
    generator = torch.Generator().manual_seed(seed)
    scores, votes = (
        torch.randn(heads, size, generator=generator, dtype=torch.float64).requires_grad_()
        for size in (len(tables.unknowns), len(tables.tokens))
    )
    optimiser = torch.optim.Adam([scores, votes], lr=LEARNING_RATE)
    for iteration in range(1, iterations + 1):
        margins = tables.margins(scores, votes)
        scores.grad, votes.grad = torch.autograd.grad((-STEEPNESS * margins).logsumexp(0), (scores, votes))
        if iteration % LOOK_EVERY == 0 and bool(margins.min() > 0.1):
            break
        optimiser.step()
    with torch.no_grad():
        if not bool(tables.margins(scores, votes).min() > 0):
            return None
        return _rounded(tables, layout, scores, votes)


def _rounded(
    tables: _Tables, layout: Layout, scores: Float64[Tensor, "heads unknowns"], votes: Float64[Tensor, "heads tokens"]
) -> TableModel:
    weights = (scores - scores.amax(1, keepdim=True)).exp()
    return TableModel(
        layout,
        tuple(
            TableHead(
                dict(zip(tables.unknowns, (_multiple(w, WEIGHT_UNIT, 1) for w in head.tolist()), strict=True)),
                dict(zip(tables.tokens, (_multiple(v, VOTE_UNIT) for v in vote.tolist()), strict=True)),
            )
            for head, vote in zip(weights, votes, strict=True)
        ),
    )


def _multiple(value: float, unit: Fraction, least: int | None = None) -> Fraction:
    count = round(Fraction(value) / unit)
    return unit * (count if least is None else max(count, least))
