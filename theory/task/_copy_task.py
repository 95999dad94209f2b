"""The copy task: prompts, the two kinds of positions, and the string distributions.

The prompt is `A_1..A_a s_1..s_n B_1..B_b`; then the model writes s. At step i (1-based) it sees the prompt and
`s_1..s_{i-1}`. The *query token* of a step is the last token seen. Indices and positions are 0-based, steps 1-based.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Int64

from theory.numbers import InputError, require_around, require_at_least, require_one_of

Tokens = Int64[np.ndarray, "*batch length"]
Strings = Int64[np.ndarray, "count n"]
Distribution = Literal["uniform", "imbalanced", "recursive-flip", "repeat-structure", "single-flip"]

ZERO, ONE = 0, 1

#: Probabilities of the first token in the imbalanced distribution (paper, section 3.1).
IMBALANCED_PROBABILITIES = (0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95)


#: Most symbols that are made at once, of all strings together: 2 GiB of them.
MOST_SYMBOLS = 2**28


def require_room(argument: str, length: int, count: int) -> None:
    """InputError unless `count` strings of this length are at most MOST_SYMBOLS symbols."""
    require_at_least(argument, length, 1)
    require_at_least("count", count, 1)
    if count > MOST_SYMBOLS:
        raise InputError("count", count, f"at most {MOST_SYMBOLS} (2^28 symbols in all)")
    if length * count > MOST_SYMBOLS:
        raise InputError(argument, length, f"at most {MOST_SYMBOLS // count} for {count} strings (2^28 symbols in all)")


@dataclass(frozen=True)
class CopyTask:
    """A copy task: the token lists A and B around the string, and which token is the newline.

    Attributes:
        prefix: the tokens A, at least one.
        infix: the tokens B, at least one.
        newline: the token that ends a row (any place, any number of times), or None.
        names: a printable name for each token of the vocabulary; tokens 0 and 1 are the data.
    """

    prefix: tuple[int, ...]
    infix: tuple[int, ...]
    newline: int | None
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        require_at_least("a", self.a, 1)
        require_at_least("b", self.b, 1)
        for token in (*self.prefix, *self.infix):
            if not 0 <= token < len(self.names):
                raise InputError("token", token, f"a token of the vocabulary, 0 to {len(self.names) - 1}")

    @property
    def a(self) -> int:
        """Number of tokens before the string."""
        return len(self.prefix)

    @property
    def b(self) -> int:
        """Number of tokens between the string and its copy."""
        return len(self.infix)

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens, the two data tokens among them."""
        return len(self.names)

    def prompts(self, strings: Strings) -> Int64[np.ndarray, "count {self.a}+n+{self.b}"]:
        """The prompts of a batch of strings (rows of 0 and 1)."""
        count = strings.shape[0]
        return np.concatenate([self._repeat(self.prefix, count), strings, self._repeat(self.infix, count)], axis=1)

    def sequences(self, strings: Strings) -> Int64[np.ndarray, "count {self.a}+2*n+{self.b}-1"]:
        """What the model has seen at the last step: the prompts and the copies without their last symbol (teacher
        forcing).
        """
        return np.concatenate([self.prompts(strings), strings[:, :-1]], axis=1)

    def query_index(self, n: int, step: int) -> int:
        """Index of the query token of a step in `sequences` of strings of length n."""
        if not 1 <= step <= n:
            raise InputError("step", step, f"a step from 1 to the length {n}")
        return self.a + n + self.b + step - 2

    @staticmethod
    def _repeat(tokens: tuple[int, ...], count: int) -> Int64[np.ndarray, "count k"]:
        return np.tile(np.array(tokens, dtype=np.int64), (count, 1))


def theory_task(a: int, b: int) -> CopyTask:
    """The theory layout: a+b+2 different tokens, B_1 the newline, no newline among A (paper, sections 3.4 and 4.5)."""
    require_around("a", a)
    require_around("b", b)
    names = ("0", "1", *(f"A_{k}" for k in range(1, a + 1)), "<n>", *(f"B_{k}" for k in range(2, b + 1)))
    return CopyTask(tuple(range(2, a + 2)), tuple(range(a + 2, a + b + 2)), newline=a + 2, names=names)


def trained_task(separator: str = "<n>") -> CopyTask:
    """The layout models are trained on: `<n> <I:> s <n> <I:> <O:> s`, a = 2, b = 3 (paper, section 3.4.2).

    With a separator other than `<n>` there is no newline, so the grid has one row (paper, appendix F).
    """
    return CopyTask(
        (2, 3),
        (2, 3, 4),
        newline=2 if separator == "<n>" else None,
        names=("0", "1", separator, "<I:>", "<O:>"),
    )


def shift_positions(tokens: Tokens) -> Tokens:
    """Shift positions: the index of each token. Shape of `tokens`, int64."""
    return np.broadcast_to(np.arange(tokens.shape[-1], dtype=np.int64), tokens.shape).copy()


def grid_positions(tokens: Tokens, newline: int | None) -> tuple[Tokens, Tokens]:
    """Rows and columns of each token, int64, shapes of `tokens`; vectorised, O(size).

    `row(t)` counts the newlines strictly before t; `column(t) = t - 1 - (index of the last newline before t, or -1)`. A
    newline so ends its own row (paper, section 4.2, in the reading that its b = a+2 forces).
    """
    index = shift_positions(tokens)
    ends = np.zeros_like(tokens, dtype=bool) if newline is None else tokens == newline
    rows = np.cumsum(ends, axis=-1) - ends
    last = np.maximum.accumulate(np.where(ends, index, -1), axis=-1)
    before = np.concatenate([np.full_like(last[..., :1], -1), last[..., :-1]], axis=-1)
    return rows.astype(np.int64), index - 1 - before


def all_strings(n: int) -> Strings:
    """Every binary string of length n, one a row, 2^n rows. Raises InputError beyond n = 20."""
    if not 1 <= n <= 20:
        raise InputError("n", n, "a length from 1 to 20 (2^n strings are made)")
    return (np.arange(2**n, dtype=np.int64)[:, None] >> np.arange(n - 1, -1, -1)) & 1


def single_flip_strings(n: int, background: int = 0) -> Strings:
    """The n strings that are `background` but for one symbol; string k differs at symbol k+1. InputError above 2^14."""
    require_room("n", n, n)
    return np.full((n, n), background, dtype=np.int64) ^ np.eye(n, dtype=np.int64)


def sample_strings(
    distribution: str,
    n: int,
    count: int,
    seed: int,
    *,
    base_length: int = 8,
    flip_probability: float = 0.05,
) -> Strings:
    """`count` strings of length n from one of the paper's distributions (section 3.1), vectorised, O(n count).

    uniform: independent fair symbols. imbalanced: each string draws p from seven values, symbols are 0 with probability
    p. recursive-flip: `s <- s c s` with a random c until long enough, then cut. repeat-structure: a random string of
    `base_length` repeated, each symbol flipped with `flip_probability`. single-flip: a constant string with one symbol
    flipped. The same arguments give the same strings in any process.

    Raises:
        InputError: unknown distribution, n, count or base_length < 1, more than 2^28 symbols, a negative
            seed, flip_probability outside [0, 1].
    """
    require_room("n", n, count)
    require_room("base_length", base_length, count)
    require_at_least("seed", seed, 0)
    if not 0 <= flip_probability <= 1:
        raise InputError("flip_probability", flip_probability, "a number from 0 to 1")
    require_one_of("distribution", distribution, get_args(Distribution))
    generator = np.random.default_rng(np.random.SeedSequence([seed, get_args(Distribution).index(distribution)]))
    if distribution == "uniform":
        return generator.integers(0, 2, (count, n), dtype=np.int64)
    if distribution == "imbalanced":
        zero_probability = generator.choice(IMBALANCED_PROBABILITIES, (count, 1))
        return (generator.random((count, n)) >= zero_probability).astype(np.int64)
    if distribution == "recursive-flip":
        return _recursive_flip(generator, n, count)
    if distribution == "single-flip":
        strings = np.repeat(generator.integers(0, 2, (count, 1), dtype=np.int64), n, axis=1)
        strings[np.arange(count), generator.integers(0, n, count)] ^= 1
        return strings
    base = generator.integers(0, 2, (count, base_length), dtype=np.int64)
    flips = (generator.random((count, n)) < flip_probability).astype(np.int64)
    return np.tile(base, (1, n // base_length + 1))[:, :n] ^ flips


def _recursive_flip(generator: np.random.Generator, n: int, count: int) -> Strings:
    strings = generator.integers(0, 2, (count, 1), dtype=np.int64)
    while strings.shape[1] < n:
        middle = generator.integers(0, 2, (count, 1), dtype=np.int64)
        strings = np.concatenate([strings, middle, strings], axis=1)
    return strings[:, :n].copy()


def spell(symbols: Sequence[int] | Int64[np.ndarray, " n"]) -> str:
    """A string of symbols as text, `0110`."""
    return "".join(str(int(symbol)) for symbol in symbols)
