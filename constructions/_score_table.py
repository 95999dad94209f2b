"""One attention layer whose scores are a table: any function of the query token, the key token and their relation.

Every positional encoding that acts on scores through a relation of the two positions is such a table, so a table that
copies shows what the relation allows, and no more than that: RoPE, ALiBi and the like reach some tables only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import log

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from theory import CopyTask, InputError, theory_task
from theory.signs import Layout, Unknown, Witness, seen_by_steps
from theory.task import Position, Strings, grid_positions


@dataclass(frozen=True)
class TableHead:
    """A head: exp(score) for each unknown, positive rationals, and the vote of each token (logit 0 minus logit 1)."""

    weights: Mapping[Unknown, Fraction]
    votes: Mapping[str, Fraction]


@dataclass(frozen=True)
class TableModel:
    """A one-layer model with any number of heads, in exact numbers.

    Attributes:
        layout: relation, a and b.
        heads: the heads; their outputs add up.
    """

    layout: Layout
    heads: tuple[TableHead, ...]

    def margin(self, length: int) -> Fraction:
        """Least difference of the logits, right minus wrong, over every step of every string of length <= `length`.

        Exact. Cost: O(heads length^2 2^length) rational operations.
        """
        return min(
            self.logit(seen) * (1 if string[step - 1] == "0" else -1)
            for string, step, seen in seen_by_steps(self.layout, length)
        )

    def logit(self, seen: Iterable[Unknown]) -> Fraction:
        """Logit of 0 minus logit of 1 for the tokens seen at a step."""
        unknowns = list(seen)
        return sum((_head_logit(head, unknowns) for head in self.heads), Fraction(0))

    def module(self) -> ScoreTable:
        """The model in torch, float64."""
        return ScoreTable(self)


def _head_logit(head: TableHead, seen: list[Unknown]) -> Fraction:
    weights = [head.weights[unknown] for unknown in seen]
    terms = (weight * head.votes[unknown.token] for weight, unknown in zip(weights, seen, strict=True))
    return sum(terms, Fraction(0)) / sum(weights, Fraction(0))


def table_of_witness(witness: Witness) -> TableModel:
    """The one-head model that a witness for given (a, b) stands for: exp(score) = weight, votes +1 and -1."""
    weights = {unknown: Fraction(weight) for unknown, weight in witness.weights.items()}
    votes = {token: Fraction(vote) for token, vote in witness.votes.items()}
    return TableModel(witness.layout, (TableHead(weights, votes),))


class ScoreTable(nn.Module):
    """Softmax attention with tabulated scores and a linear read-out of two logits, in torch.

    Parameters: `scores` [heads, query token, key token, relation], `votes` [heads, token]. Query tokens and relations
    that the table does not know have score 0.

    Raises:
        InputError: the layout has no numbers a and b.
    """

    def __init__(self, table: TableModel) -> None:
        super().__init__()
        layout = table.layout
        if layout.a is None or layout.b is None:
            raise InputError("a", "all", "a number, for a model in torch")
        self.task: CopyTask = theory_task(layout.a, layout.b)
        self.relate = layout.relate
        relations = sorted({unknown.relation for head in table.heads for unknown in head.weights})
        self.numbers = {relation: number for number, relation in enumerate(relations)}
        size = self.task.vocabulary_size
        scores = torch.zeros(len(table.heads), size, size, len(relations) + 1, dtype=torch.float64)
        token = {name: number for number, name in enumerate(self.task.names)}
        for number, head in enumerate(table.heads):
            for unknown, weight in head.weights.items():
                place = number, token[unknown.query], token[unknown.token], self.numbers[unknown.relation]
                scores[place] = log(weight.numerator) - log(weight.denominator)
        votes = [[float(head.votes[name]) for name in self.task.names] for head in table.heads]
        self.scores = nn.Parameter(scores, requires_grad=False)
        self.votes = nn.Parameter(torch.tensor(votes, dtype=torch.float64), requires_grad=False)

    def forward(
        self, tokens: Int64[Tensor, "batch length"], first_query: int = 0
    ) -> Float[Tensor, "batch queries outputs"]:
        """Logits of 0 and 1 at the tokens from index `first_query` on; each sees the tokens up to itself.

        Cost: O(batch heads length^2), and O(length^2) look-ups for each pattern of newlines in the batch.
        """
        relations = self._relations(tokens)[:, first_query:]
        queries = tokens[:, first_query:, None].expand_as(relations)
        keys = tokens[:, None, :].expand_as(relations)
        scores = self.scores[:, queries, keys, relations]
        length = tokens.shape[1]
        unseen = torch.arange(length)[None, :] > torch.arange(first_query, length)[:, None]
        attention = scores.masked_fill(unseen, -torch.inf).softmax(-1)
        logit = (attention * self.votes[:, keys]).sum(-1).sum(0)
        return torch.stack((logit / 2, -logit / 2), dim=-1)

    def _relations(self, tokens: Int64[Tensor, "batch length"]) -> Int64[Tensor, "batch length length"]:
        """Number of the relation of each key to each query."""
        array = tokens.cpu().numpy()
        rows, columns = grid_positions(array, self.task.newline)
        patterns, which = np.unique(np.stack([rows, columns]), axis=1, return_inverse=True)
        tables = [self._relation_table(patterns[0, k], patterns[1, k]) for k in range(patterns.shape[1])]
        return torch.tensor(tables, dtype=torch.int64)[torch.from_numpy(which.reshape(-1))]

    def _relation_table(
        self, rows: Int64[np.ndarray, " length"], columns: Int64[np.ndarray, " length"]
    ) -> list[list[int]]:
        positions: list[Position] = list(zip(rows.tolist(), columns.tolist(), range(len(rows)), strict=True))
        unknown = len(self.numbers)
        return [[self.numbers.get(self.relate(query, key), unknown) for key in positions] for query in positions]


def forced_answers(model: nn.Module, task: CopyTask, strings: Strings) -> Int64[np.ndarray, "count n"]:
    """A two-logit model's answer at every step under teacher forcing; -1 where the logits are equal.

    The string is copied iff its row equals it.
    """
    tokens = torch.from_numpy(task.sequences(strings))
    with torch.inference_mode():
        logits = model(tokens, task.query_index(strings.shape[1], 1))
    zero, one = logits[..., 0], logits[..., 1]
    answers: Int64[np.ndarray, "count n"] = torch.where(one > zero, 1, torch.where(zero > one, 0, -1)).numpy()
    return answers
