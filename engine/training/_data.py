"""Training data: seeded batches of prompts and answers, a function of (seed, step) alone.

Because a batch depends on nothing else, a run that was interrupted goes on with the very batches that it would have
seen, and processes that share a step agree on it without talking.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, get_args, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from theory import CopyTask, InputError, sample_strings, trained_task
from theory.numbers import require_at_least, require_one_of
from theory.task import Distribution

#: Target of a position that carries no loss (the value that torch's cross-entropy ignores).
IGNORED = -100

#: Distributions to train on. Single-flip strings are for tests only.
COPY_DISTRIBUTIONS = tuple(name for name in get_args(Distribution) if name != "single-flip")

#: Separators of the two layouts: the newline, and a character that makes no row.
SEPARATORS = ("<n>", "*")


@dataclass(frozen=True)
class Example:
    """One prompt and the answer that the model should write after it, int64 tokens."""

    prompt: Int64[np.ndarray, " prompt"]
    answer: Int64[np.ndarray, " answer"]

    @property
    def length(self) -> int:
        """Tokens that the model reads: all but the last one of the answer."""
        return len(self.prompt) + len(self.answer) - 1


@dataclass(frozen=True)
class Batch:
    """Tokens read and tokens to write next, padded at the end.

    Attributes:
        tokens: what the model reads (teacher forcing).
        targets: the token to write after each; IGNORED in the prompt and in the padding.
    """

    tokens: Int64[Tensor, "batch length"]
    targets: Int64[Tensor, "batch length"]

    @property
    def answers(self) -> int:
        """Number of positions that carry a loss."""
        return int((self.targets != IGNORED).sum())


@runtime_checkable
class Source(Protocol):
    """Where examples come from. Lengths are in the task's own units: symbols, or data points."""

    names: tuple[str, ...]
    newline: int | None
    min_length: int
    max_length: int

    def examples(self, seed: int, count: int, longest: int | None = None) -> list[Example]:
        """`count` examples with lengths drawn uniformly from min_length..longest, by default max_length."""

    def examples_of_length(self, distribution: str, length: int, seed: int, count: int) -> list[Example]:
        """`count` examples of one length from a distribution of this task."""

    def document(self) -> dict[str, object]:
        """What is needed to read the tokens: names, newline, layout."""


class CopySource:
    """The binary copy task in the trained layout `<n> <I:> s <n> <I:> <O:> s` (a = 2, b = 3; paper, section 3.4.2).

    Args:
        distribution: of the training strings.
        separator: `<n>`, or `*`, which starts no row (paper, section 5.4).
        min_length, max_length: of the training strings.

    Raises:
        InputError: unknown distribution or separator, or lengths that are not 1 <= min <= max.
    """

    def __init__(
        self, distribution: str = "imbalanced", separator: str = "<n>", min_length: int = 1, max_length: int = 100
    ) -> None:
        require_trained_distribution(distribution)
        self.distribution = distribution
        self.min_length, self.max_length = require_lengths(min_length, max_length)
        self.task: CopyTask = trained_task(require_separator(separator))
        self.names, self.newline = self.task.names, self.task.newline

    def examples(self, seed: int, count: int, longest: int | None = None) -> list[Example]:
        """`count` examples, lengths uniform on min_length..longest, by default max_length.

        A string of the longest length is cut: each trained distribution is that of its own longer strings' beginnings.
        """
        longest = longest or self.max_length
        strings = sample_strings(self.distribution, longest, count, seed)
        lengths = np.random.default_rng(seed).integers(self.min_length, longest + 1, count)
        return [self._example(string[:length]) for string, length in zip(strings, lengths, strict=True)]

    def examples_of_length(
        self,
        distribution: str,
        length: int,
        seed: int,
        count: int,
        *,
        base_length: int = 8,
        flip_probability: float = 0.05,
    ) -> list[Example]:
        """`count` examples of one length; `base_length` and `flip_probability` are repeat-structure's."""
        strings = sample_strings(
            distribution, length, count, seed, base_length=base_length, flip_probability=flip_probability
        )
        return [self._example(string) for string in strings]

    def document(self) -> dict[str, object]:
        """Vocabulary and layout as a JSON object."""
        task = self.task
        return {
            "task": "copy",
            "vocabulary": list(task.names),
            "newline": task.newline,
            "prefix": list(task.prefix),
            "infix": list(task.infix),
        }

    def _example(self, string: Int64[np.ndarray, " n"]) -> Example:
        return Example(self.task.prompts(string[None])[0], string)


def require_trained_distribution(distribution: str, argument: str = "distribution") -> str:
    """The distribution, or InputError with the known ones."""
    return require_one_of(argument, distribution, COPY_DISTRIBUTIONS)


def require_separator(separator: str) -> str:
    """The separator, or InputError with the known ones."""
    return require_one_of("separator", separator, SEPARATORS)


def require_lengths(least: int, most: int) -> tuple[int, int]:
    """(least, most), or InputError unless 1 <= least <= most."""
    require_at_least("min_length", least, 1)
    return least, require_at_least("max_length", most, least)


def collate(examples: Sequence[Example]) -> Batch:
    """Examples as one batch, padded at the end with token 0; causal attention never looks there from an answer."""
    width = max(example.length for example in examples)
    tokens = np.zeros((len(examples), width), dtype=np.int64)
    targets = np.full((len(examples), width), IGNORED, dtype=np.int64)
    for row, example in enumerate(examples):
        tokens[row, : example.length] = np.concatenate([example.prompt, example.answer[:-1]])
        targets[row, len(example.prompt) - 1 : example.length] = example.answer
    return Batch(torch.from_numpy(tokens), torch.from_numpy(targets))


def step_seed(seed: int, step: int) -> int:
    """The seed of the batch of a step, 63 bits; steps and seeds do not collide in practice."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def micro_batches(
    source: Source, seed: int, step: int, size: int, parts: int, longest: int | None = None
) -> list[Batch]:
    """The batch of a step in `parts` micro-batches of similar lengths, so that little is padded.

    Raises:
        InputError: the size is no positive multiple of the parts.
    """
    require_at_least("accumulate", parts, 1)
    if size < 1 or size % parts:
        raise InputError("batch_size", size, f"a positive multiple of accumulate = {parts}")
    examples = sorted(source.examples(step_seed(seed, step), size, longest), key=lambda example: example.length)
    share = size // parts
    return [collate(examples[start : start + share]) for start in range(0, size, share)]


def equal_lengths(examples: Sequence[Example]) -> Iterator[list[Example]]:
    """The examples in groups of equal prompt and answer lengths, which need no padding."""
    groups: dict[tuple[int, int], list[Example]] = {}
    for example in examples:
        groups.setdefault((len(example.prompt), len(example.answer)), []).append(example)
    yield from groups.values()
