"""Bisection: how far a statement holds that, once false, stays false.

What the predicate says at the ends is taken for granted and not asked. Where it is not monotone after all, the answer
still is a number at which it holds, or the lower end.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

#: A number that can be halved.
Halved = TypeVar("Halved", float, Fraction)


def last_true(holds: Callable[[int], bool], low: int, high: int, digits: int | None = None) -> int:
    """The last integer from `low` to below `high` at which it holds, where it holds at `low` and not at `high`.

    With `digits` it stops once low and high are less than high/digits apart. Cost: log2(high - low) questions.
    """
    while high - low > 1 and (digits is None or (high - low) * digits > high):
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def furthest(
    holds: Callable[[int], bool], most: int, *, first: int = 1, growth: int = 2, digits: int | None = None
) -> int:
    """The largest integer up to `most` at which it holds; 0 if none.

    `first` is asked first, then each time `growth` times as much, then those between as in `last_true`.
    """
    low, high = 0, min(first, most)
    while low < most and holds(high):
        low, high = high, min(growth * high, most)
    return low if low >= most else last_true(holds, low, high, digits)


def halved(
    holds: Callable[[Halved], bool],
    low: Halved,
    high: Halved,
    steps: int,
    middle: Callable[[Halved, Halved], Halved] | None = None,
) -> tuple[Halved, Halved]:
    """(low, high), brought closer `steps` times, where it holds at `low` and not at `high`.

    Each time the mean of the two is asked, or what `middle` makes of them.
    """
    for _ in range(steps):
        between = (low + high) / 2 if middle is None else middle(low, high)
        low, high = (between, high) if holds(between) else (low, between)
    return low, high
