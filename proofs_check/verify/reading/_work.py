"""A limit of work for every check, counted and not timed: a verdict must not depend on the machine.

A unit is about a microsecond. Loops whose length a certificate chooses spend what a turn of them costs, so that no
certificate keeps the checker busy without end, whatever the numbers in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from flint import ctx

from proofs_check.verify.reading._document import Rejected

#: Units that the check of one certificate may take, about a minute.
MOST_UNITS = 60_000_000

_left: ContextVar[list[int] | None] = ContextVar("_left", default=None)


@contextmanager
def limited(most: int | None = None) -> Iterator[None]:
    """Everything inside may spend `most` units, `MOST_UNITS` if None, in all."""
    token = _left.set([MOST_UNITS if most is None else most])
    try:
        yield
    finally:
        _left.reset(token)


def spend(units: int) -> None:
    """Count work; nothing is counted outside of `limited`.

    Raises:
        Rejected: more than there was left.
    """
    left = _left.get()
    if left is not None:
        left[0] -= units
        if left[0] < 0:
            raise Rejected("undecided: the check takes more work than its limit")


def function_units(bits: int | None = None) -> int:
    """What an elementary function of a ball costs at a precision, that in force for None."""
    bits = int(ctx.prec) if bits is None else bits
    return 1 + bits // 70 + (bits // 1024) ** 2 // 2


def product_units() -> int:
    """What a product of two balls costs at the working precision in force."""
    return 1 + int(ctx.prec) // 2000
