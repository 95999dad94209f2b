"""The setting of Theorem 4.2, reconstructed: what is minimised, over what, and which distances each query token meets.

The paper's definitions (its section J.1, Assumptions J.3 to J.5) are missing from the text we work from. This is a
reading under which its statement makes sense; everything here carries the label *reconstructed*.

*Model.* One 2D-RoPE head over one-hot tokens, decoupled: each token x has a query q_x, a key k_x in [-M, M]^d and one
value v_x in [-M, M], the logit of 0 minus the logit of 1. The output at a step is `sum_j p_j v_{x_j}` with attention
weights p; there is no residual, no norm and no 1/sqrt(d).

*Task.* b = a+2 and B_1 the newline (section 4.5.2), so that the wanted key stands straight above the query, at relative
position (-1, 0) (key minus query, row and column). Each token of A and B is a token of its own.

*Loss.* n uniform on 1 .. L, then s uniform on {0, 1}^n, then the step i uniform on 1 .. n: the mean of -ln
probability of s_i, that is of `ln(1 + exp(-y m))` with m the output and y = 1 for s_i = 0, -1 for s_i = 1.

*Two readings of the queries.* `free`: every query token has its own query; 0, 1 and B_b ask. `tied`: one query vector
for all tokens (or, what comes to the same in the limit, step 1 is left out). Which one the paper means is not known to
us, and it matters: with free queries the query of B_b, which sees sources on one side only, has no reason to be even.

*One frequency pair.* With A = q_x k_x + q_y k_y and B = q_y k_x - q_x k_y the pair adds `A cos(beta r) + B sin(beta r)`
to a score. Over the box exactly the (A, B) with |A| + |B| <= 2 M^2 occur: |A| + |B| is convex in q and in k, so largest
at corners, where it is 2 M^2; and k = (M, M) gives A + B = 2 M q_y, A - B = 2 M q_x, which fill the diamond for any
number of queries at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Literal

from flint import arb

from theory.numbers import (
    GridFrequencies,
    InputError,
    integer_floor,
    require_around,
    require_at_least,
    require_pair_dimension,
    working_precision,
)
from theory.task import CopyTask, theory_task

Queries = Literal["free", "tied"]

#: Who asks: B_b at step 1; the data token written last at later steps; anyone, where queries are tied.
Asker = Literal["last", "data", "any"]

#: (row, column) of a key minus that of the query.
GridRelation = tuple[int, int]

#: Where the wanted key stands, since b = a+2.
WANTED: GridRelation = (-1, 0)

#: Largest training length; the bounds go through every length and step.
LARGEST_TRAINING_LENGTH = 128


@dataclass(frozen=True)
class MinimiserStep:
    """Step `step` (1-based) of strings of length n, seen from its query: where the data tokens stand.

    Attributes:
        n, step: length and step.
        free: relations of the data tokens whose symbols are independent of the query token and of s_i: sources j other
            than i and i-1, outputs j <= i-2. Source j and output j carry the same symbol.
        repeats: relations of the data tokens that are copies of the query token s_{i-1}: source i-1 at (-1, -1) and the
            query itself at (0, 0). Empty at step 1.
    """

    n: int
    step: int
    free: tuple[GridRelation, ...]
    repeats: tuple[GridRelation, ...]


@dataclass(frozen=True)
class MinimiserSetting:
    """A minimisation problem of Theorem 4.2.

    Attributes:
        frequencies: d/4 row and d/4 column frequencies, equally many.
        length: L, the training length.
        bound: M, the bound of every parameter.
        a: tokens before the string; b = a+2.
        queries: the reading, "free" or "tied".

    Raises:
        InputError: L < 1 (or too large), M <= 0, a < 1, unequal numbers of row and column frequencies, unknown reading.
    """

    frequencies: GridFrequencies
    length: int
    bound: Fraction
    a: int = 1
    queries: Queries = "free"

    def __post_init__(self) -> None:
        require_at_least("L", self.length, 1)
        if self.length > LARGEST_TRAINING_LENGTH:
            raise InputError("L", self.length, f"at most {LARGEST_TRAINING_LENGTH}")
        require_around("a", self.a)
        require_around("a+2", self.b)
        if self.bound <= 0:
            raise InputError("M", str(self.bound), "a number > 0")
        if self.queries not in ("free", "tied"):
            raise InputError("queries", self.queries, "free or tied")
        rows, columns = len(self.frequencies.row), len(self.frequencies.column)
        if rows != columns:
            raise InputError("frequencies", f"{rows} row and {columns} column", "as many row as column frequencies")
        require_pair_dimension(self.d)

    @property
    def d(self) -> int:
        """RoPE dimension, two coordinates for each frequency."""
        return self.frequencies.head_width

    @property
    def b(self) -> int:
        """Tokens after the string."""
        return self.a + 2

    @property
    def task(self) -> CopyTask:
        """The theory layout, in which B_1 is the newline."""
        return theory_task(self.a, self.b)

    @property
    def scale(self) -> Fraction:
        """2 M^2, the largest |A| + |B| of a frequency pair."""
        return 2 * self.bound**2

    @property
    def askers(self) -> tuple[Asker, ...]:
        """Queries that can be chosen independently of each other (0 and 1 share their distances)."""
        return ("any",) if self.queries == "tied" else ("last", "data")

    @property
    def paper_length(self) -> int:
        """floor(L^(sqrt(d)/2)), up to which Theorem 4.2 says that minimisers copy."""
        return minimiser_paper_length(self.length, self.d)

    def asker(self, step: int) -> Asker:
        """Who asks at a step (1-based)."""
        if self.queries == "tied":
            return "any"
        return "last" if step == 1 else "data"

    def steps(self) -> Iterator[MinimiserStep]:
        """Every (n, step) with 1 <= step <= n <= L."""
        return (minimiser_step(n, i) for n in range(1, self.length + 1) for i in range(1, n + 1))

    def sources(self, asker: Asker) -> tuple[GridRelation, ...]:
        """Relations at which a source other than the wanted one occurs for this asker, sorted.

        B_b sees the columns 1 .. L-1, on one side only; 0 and 1 see 1-L .. L-2: L-1 occurs on one side only.
        """
        last, first = self.length - 1, 1 - self.length
        columns = {"last": range(1, last + 1), "data": range(first, last), "any": range(first, last + 1)}[asker]
        return tuple((-1, k) for k in columns if k != 0)

    def outputs(self, asker: Asker) -> tuple[GridRelation, ...]:
        """Relations at which an output token (the query itself among them) occurs: (0, 2-L) .. (0, 0), none for B_b."""
        return () if asker == "last" else tuple((0, k) for k in range(2 - self.length, 1))

    def relations(self, asker: Asker) -> tuple[GridRelation, ...]:
        """Relations of all data tokens other than the wanted one."""
        return self.sources(asker) + self.outputs(asker)


def minimiser_step(n: int, step: int) -> MinimiserStep:
    """Where the data tokens stand at a step, relative to its query at (1, a+step-1)."""
    sources = [(-1, j - step) for j in range(1, n + 1) if j not in (step, step - 1)]
    outputs = [(0, j - step + 1) for j in range(1, step - 1)]
    repeats: tuple[GridRelation, ...] = ((-1, -1), (0, 0)) if step > 1 else ()
    return MinimiserStep(n, step, tuple(sources + outputs), repeats)


def minimiser_paper_length(length: int, d: int) -> int:
    """floor(L^(sqrt(d)/2)), exact: an integer power where d is a square, else a ball that excludes integers.

    Raises:
        InputError: L < 1, or d not a positive multiple of 4.
    """
    require_at_least("L", length, 1)
    require_pair_dimension(d)
    root = isqrt(d)
    if length == 1:
        return 1
    if root * root == d:
        power: int = length ** (root // 2)
        return power
    precision = 128 + d * length.bit_length()
    with working_precision(precision):
        # L^(sqrt(d)/2) is transcendental (Gelfond and Schneider), so some precision separates it from integers.
        value = (arb(length).log() * arb(d).sqrt() / 2).exp()
        below = integer_floor(value)
        if not value < below + 1:
            raise ArithmeticError(f"L^(sqrt(d)/2) is not separated from an integer at {precision} bits")
        return below
