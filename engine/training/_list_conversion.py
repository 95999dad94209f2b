"""Python-list conversion: readings of a periodic signal, `1.2,-0.3,0.8`, to be written as `[1.2,-0.3,0.8]`.

The paper names the task, nine experiments in three families (smooth, piecewise or reset-driven, nonlinear or
pulse-like), the sizes (50 to 150 points, periods 2 to 8) and the test beyond them (sections 3.1, 4.4 and 5.4). Its
formulas are not in the text that we work from: the signals below are **reconstructed**, and so are the one decimal, the
amplitudes, and the reading errors that keep a list from being continued by heart.

A reading at sample t of period P (samples, an integer) has the angle `w = 2 pi (t/P + phase)` and the fraction of the
period `u = frac(t/P + phase)`; amplitudes are 1 to 9.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi

import numpy as np
from jaxtyping import Float64, Int64

from engine.training._data import Example, require_lengths, require_separator
from theory.numbers import require_at_least, require_one_of

Samples = Float64[np.ndarray, " points"]

#: Signals of (w, u), each within [-1, 1], by family.
FAMILIES: dict[str, dict[str, Callable[[Samples, Samples], Samples]]] = {
    "smooth": {
        "spring": lambda w, u: np.cos(w),
        "beats": lambda w, u: np.cos(w) * (2 + np.cos(w / 3)) / 3,
        "two harmonics": lambda w, u: 0.7 * np.sin(w) + 0.3 * np.sin(2 * w),
    },
    "piecewise": {
        "switch": lambda w, u: np.where(u < 0.5, 1.0, -1.0),
        "sawtooth": lambda w, u: 2 * u - 1,
        "capacitor": lambda w, u: 1 - np.exp(-3 * u),
    },
    "pulse": {
        "rectifier": lambda w, u: np.maximum(np.sin(w), 0.0),
        "pulse train": lambda w, u: np.exp(-((u - 0.5) ** 2) / 0.02),
        "saturating amplifier": lambda w, u: np.tanh(3 * np.sin(w)),
    },
}

#: Distributions of lists: one family, or all nine signals.
LIST_DISTRIBUTIONS = (*FAMILIES, "mixed")

#: Share of the readings that are off by 0.1 to 0.5.
READING_ERRORS = 0.05

INPUT, OUTPUT = "<I:>", "<O:>"
CHARACTERS = "0123456789.,-[]"


class ListSource:
    """Lists in the layout `<n> <I:> s <n> <I:> <O:> [s]`, one token a character.

    Args:
        distribution: a family, or "mixed".
        separator: `<n>`, or `*`, which starts no row.
        min_length, max_length: numbers of data points.
        periods: least and largest period in samples.

    Raises:
        InputError: unknown distribution or separator, lengths or periods that are no ranges.
    """

    def __init__(
        self,
        distribution: str = "mixed",
        separator: str = "<n>",
        min_length: int = 50,
        max_length: int = 150,
        periods: tuple[int, int] = (2, 8),
    ) -> None:
        self.distribution = _require_list_distribution(distribution)
        self.min_length, self.max_length = require_lengths(min_length, max_length)
        self.periods = require_periods(*periods)
        self.names = (*CHARACTERS, require_separator(separator), INPUT, OUTPUT)
        self._token = {name: token for token, name in enumerate(self.names)}
        self._separator = self._token[separator]
        self.newline = self._separator if separator == "<n>" else None

    def examples(self, seed: int, count: int, longest: int | None = None) -> list[Example]:
        """`count` examples, numbers of points uniform on min_length..longest, by default max_length."""
        generator = np.random.default_rng(seed)
        lengths = generator.integers(self.min_length, (longest or self.max_length) + 1, count)
        return [self._example(self.readings(generator, self.distribution, int(n))) for n in lengths]

    def examples_of_length(self, distribution: str, length: int, seed: int, count: int) -> list[Example]:
        """`count` lists of `length` points."""
        _require_list_distribution(distribution)
        require_at_least("length", length, 1)
        generator = np.random.default_rng([seed, length])
        return [self._example(self.readings(generator, distribution, length)) for _ in range(count)]

    def readings(self, generator: np.random.Generator, distribution: str, points: int) -> str:
        """One list as the user would give it, `1.2,-0.3,...`."""
        families = FAMILIES.values() if distribution == "mixed" else (FAMILIES[distribution],)
        signals = [signal for family in families for signal in family.values()]
        signal = signals[generator.integers(len(signals))]
        period = generator.integers(self.periods[0], self.periods[1] + 1)
        turns = np.arange(points) / period + generator.random()
        values = generator.uniform(1, 9) * signal(2 * pi * turns, turns % 1)
        errors = generator.choice((-1, 1), points) * generator.integers(1, 6, points) / 10
        values = values + np.where(generator.random(points) < READING_ERRORS, errors, 0)
        # Adding 0 turns a rounded -0.0 into 0.0.
        return ",".join(f"{value:.1f}" for value in np.round(values, 1) + 0.0)

    def document(self) -> dict[str, object]:
        """Vocabulary and layout as a JSON object."""
        return {"task": "list", "vocabulary": list(self.names), "newline": self.newline}

    def _example(self, text: str) -> Example:
        before, between = (self._separator, self._token[INPUT]), (self._separator, self._token[INPUT])
        prompt = [*before, *self.encode(text), *between, self._token[OUTPUT]]
        return Example(np.array(prompt, dtype=np.int64), self.encode(f"[{text}]"))

    def encode(self, text: str) -> Int64[np.ndarray, " characters"]:
        """The tokens of a text, one a character."""
        return np.array([self._token[character] for character in text], dtype=np.int64)

    def decode(self, tokens: Int64[np.ndarray, " characters"]) -> str:
        """The text of tokens."""
        return "".join(self.names[token] for token in tokens)


def _require_list_distribution(distribution: str) -> str:
    return require_one_of("distribution", distribution, LIST_DISTRIBUTIONS)


def require_periods(least: int, most: int) -> tuple[int, int]:
    """(least, most), or InputError unless 2 <= least <= most."""
    require_at_least("min_period", least, 2)
    return least, require_at_least("max_period", most, least)
