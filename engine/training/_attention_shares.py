"""What attention goes to while a model writes a copy: stripes on the delimiters, diagonals, and the right source.

For one head, over the steps of the copy, means of the attention weight that the query of a step gives to

* stripe: the delimiter tokens, wherever they stand (the horizontal stripes of the paper's Figures 3 and 8);
* diagonal: the token at one fixed distance back, the distance with the most weight (the diagonals of an induction
  head). The source token is not counted here: its distance is n + 2, which is fixed within one string;
* source: the token to be copied;
* near: the tokens up to NEAR places beside the source.

A key can be in several of these (a delimiter may be at the fixed distance), so the shares need not add up to 1.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from jaxtyping import Float, Int64

from engine.training._data import Example

#: Places beside the source that count as near it.
NEAR = 3


@dataclass(frozen=True)
class AttentionShares:
    """Mean shares of one head's attention over the steps of a copy.

    Attributes:
        layer, head: which, from 0.
        stripe, diagonal, source, near: shares, see the module.
        distance: of the diagonal, in tokens back from the query.
    """

    layer: int
    head: int
    stripe: float
    diagonal: float
    distance: int
    source: float
    near: float

    def document(self) -> dict[str, float | int]:
        """The JSON object."""
        return asdict(self)


def attention_shares(
    weights: Float[np.ndarray, "length length"],
    example: Example,
    sources: Int64[np.ndarray, " steps"],
    delimiters: frozenset[int],
    layer: int,
    head: int,
) -> AttentionShares:
    """The shares of one head on one example.

    Args:
        weights: [t, s] is what token t gives to token s, over the tokens that the model reads.
        example: prompt and answer.
        sources: for each step the index of the token to be copied.
        delimiters: the tokens that are no data.
        layer, head: to be noted.
    """
    tokens = np.concatenate([example.prompt, example.answer[:-1]])
    queries = np.arange(len(example.answer)) + len(example.prompt) - 1
    rows = weights[queries]
    stripe = rows[:, np.isin(tokens, list(delimiters))].sum(1).mean()
    source = rows[np.arange(len(queries)), sources]
    beside = [
        rows[inside, places[inside]].sum()
        for shift in range(-NEAR, NEAR + 1)
        if shift
        for places in [sources + shift]
        for inside in [(places >= 0) & (places <= queries)]
    ]
    distance, diagonal = _strongest_diagonal(rows, queries, sources)
    return AttentionShares(
        layer, head, float(stripe), diagonal, distance, float(source.mean()), float(sum(beside) / len(queries))
    )


def _strongest_diagonal(
    rows: Float[np.ndarray, "steps length"], queries: Int64[np.ndarray, " steps"], sources: Int64[np.ndarray, " steps"]
) -> tuple[int, float]:
    """The distance with the most weight over the steps, the source's own left out, and its mean weight."""
    steps = np.arange(len(queries))
    means = {}
    for distance in range(int(queries[0]) + 1):
        other = queries - distance != sources
        means[distance] = float((rows[steps, queries - distance] * other).mean())
    best = max(means, key=lambda distance: means[distance])
    return best, means[best]
