"""Accuracy of exact copying: the share of strings whose every symbol is the model's arg-max, by teacher forcing.

Teacher forcing decides what greedy generation would write: as long as every symbol so far is right, both see the same
tokens, and at the first wrong one both have failed. Every accuracy here is **sampled**.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from engine._transformer import Transformer
from engine.training._data import IGNORED, CopySource, Example, Source, collate, equal_lengths, step_seed
from engine.training._evaluation import exact_match
from theory.numbers import require_at_least

#: Tokens in the batch of one pass; a single longer sequence is one batch.
TOKENS_IN_A_PASS = 1 << 16

#: Sequences up to this many tokens are padded and run PADDED at a time.
SHORT, PADDED = 512, 50

#: Added to a run's seed for test strings, so that they are none of its training strings.
TEST_SEED = 1_000_003


@dataclass(frozen=True)
class Accuracy:
    """How many of the strings sampled were copied exactly.

    Attributes:
        distribution: of the strings.
        length: of each; for lengths drawn from a range, the largest.
        exact: strings copied without a mistake.
        samples: strings tried.
    """

    distribution: str
    length: int
    exact: int
    samples: int

    @property
    def accuracy(self) -> float:
        """Share copied exactly."""
        return self.exact / self.samples

    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval. It is no proof: a proportion that was only sampled stays `sampled`."""
        from scipy.stats import binomtest  # it takes half a second to load

        found = binomtest(self.exact, self.samples).proportion_ci(confidence_level=0.95, method="wilson")
        return float(found.low), float(found.high)

    def document(self) -> dict[str, object]:
        """The JSON object of the command `evaluate`."""
        return {
            "distribution": self.distribution,
            "length": self.length,
            "accuracy": self.accuracy,
            "samples": self.samples,
        }


def accuracy_at(
    model: Transformer, source: Source, distribution: str, length: int, samples: int, seed: int
) -> Accuracy:
    """Accuracy on `samples` strings of one length. Cost: O(length^2) a string."""
    require_at_least("samples", samples, 1)
    examples = source.examples_of_length(distribution, length, step_seed(TEST_SEED + seed, length), samples)
    return Accuracy(distribution, length, count_exact(model, examples), samples)


def accuracy_within(model: Transformer, source: Source, distribution: str, samples: int, seed: int) -> Accuracy:
    """Accuracy at the lengths trained on: `samples` strings, lengths uniform on the training range."""
    require_at_least("samples", samples, 1)
    generator = np.random.default_rng(step_seed(TEST_SEED + seed, 0))
    lengths = generator.integers(source.min_length, source.max_length + 1, samples)
    examples = [
        example
        for length, count in zip(*np.unique(lengths, return_counts=True), strict=True)
        for example in source.examples_of_length(
            distribution, int(length), step_seed(TEST_SEED + seed, int(length)), int(count)
        )
    ]
    return Accuracy(distribution, source.max_length, count_exact(model, examples), samples)


def accuracy_under_repetition(
    model: Transformer, source: CopySource, keep: float, length: int, samples: int, seed: int
) -> Accuracy:
    """Accuracy on repeat-structure strings whose symbols are flipped with probability `1 - keep` (paper, Figure 2)."""
    examples = source.examples_of_length(
        "repeat-structure", length, step_seed(TEST_SEED + seed, length), samples, flip_probability=1 - keep
    )
    return Accuracy("repeat-structure", length, count_exact(model, examples), samples)


def count_exact(model: Transformer, examples: Sequence[Example]) -> int:
    """How many examples the model answers exactly: short ones padded together, long ones in groups of one length."""
    short = sorted((e for e in examples if e.length <= SHORT), key=lambda example: example.length)
    exact = sum(_exact_padded(model, short[start : start + PADDED]) for start in range(0, len(short), PADDED))
    for group in equal_lengths([example for example in examples if example.length > SHORT]):
        share = max(1, TOKENS_IN_A_PASS // group[0].length)
        exact += sum(_exact(model, group[start : start + share]) for start in range(0, len(group), share))
    return exact


def _exact(model: Transformer, examples: Sequence[Example]) -> int:
    """For examples of one length, in blocks that stop when none is right any more."""
    rows = np.stack([np.concatenate([example.prompt, example.answer]) for example in examples])
    tokens = torch.from_numpy(rows).to(next(model.parameters()).device)
    return int(exact_match(model, tokens, slice(len(examples[0].prompt), None)).sum())


def _exact_padded(model: Transformer, examples: Sequence[Example]) -> int:
    batch = collate(examples)
    with torch.no_grad():
        written = model(batch.tokens.to(next(model.parameters()).device)).argmax(-1).cpu()
    return int(((written == batch.targets) | (batch.targets == IGNORED)).all(-1).sum())
