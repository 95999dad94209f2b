"""A row of the benchmark table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

REPEATS = 7


@dataclass(frozen=True)
class Row:
    """One line of the table; `value` in `unit`, the median of `runs` runs."""

    name: str
    value: float
    unit: str
    target: str
    runs: int


def median_seconds(task: Callable[[int], object], repeats: int = REPEATS) -> float:
    """Median time of `task(k)`, k = 0 .. repeats-1 (so that nothing is served from a cache)."""
    times = []
    for k in range(repeats):
        start = time.perf_counter()
        task(k)
        times.append(time.perf_counter() - start)
    return statistics.median(times)
