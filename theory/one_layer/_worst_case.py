"""The worst string of a one-layer model for every step of every length at once, where rows separate string and copy.

*Statement* (new). Let the query token c, the symbol to write x* and the competitor be given (a `StepCase`), and a_x the
vote of
token x: what its value adds to the logit of x* minus the competitor's. Step i > 1 of a string s of length n is right
against this competitor iff `N = sum over tokens seen of exp(score) a_token > 0`. With delta = j - i, source j stands
at a relative position that depends on delta alone, output k = i-1-t at one that depends on t alone, and both carry the
same symbol for j = k; s_{i-1} = c and s_i = x* are fixed, every other symbol is free and occurs in one term only. Hence

    min over s of N  =  P(i) + H(n-i),

    P(i) = source(0, x*) a_x* + (source(-1, c) + output(0, c)) a_c + sum_{t=1}^{i-2} min_x (source(-t-1, x) + output(t,
    x)) a_x
           + the terms of the A and B tokens that stand at fixed columns,
    H(m) = sum_{delta=1}^{m} min_x source(delta, x) a_x  +  the terms of the B tokens at columns that grow with n.

At step 1 the query token is B_b, at a fixed place: P is one number. (Where B_b stands in the row of the string, all
distances count from the end; then the free terms are a prefix sum over d = n-j, and the wanted key moves with n.) So
all lengths n <= N and steps take O(N) kernel entries and O(N) work.

Where no row break separates string and copy (shift positions), the same holds for each length by itself, with relative
positions
that shift with n: O(N) kernel entries and O(N^2) work.

*Ratios.* The logit difference itself is N/D, D the sum of the weights. `N/D > tau` for all strings iff the minimum of
`N - tau D`
is positive: the same with a_x - tau for a_x. Dinkelbach's iteration tau <- N/D at the minimiser finds the least ratio.

*Rounding* (float+bound). Weights, their products with votes, and all sums are `Rounded`: numbers that carry the bound
of what they are off by through the very operations that form them, a token that occurs many times in A or B included.
A vote is known to a radius, a weight to a relative error (`_kernels`). Logits are in units of a power of two near the
largest vote (`OneLayerModel.in_units`), so that nothing overflows and a verdict does not depend on the scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb
from jaxtyping import Int64, Shaped

from theory.numbers import Rounded, Vote, minimum, prefix_sums, rounded_vote, working_precision
from theory.one_layer._model import MODEL_PRECISION, StepCase
from theory.one_layer._weights import Span
from theory.task import Place, Template

#: Balls along distances, steps or lengths: an array of objects.
Balls = Shaped[np.ndarray, " _"]

#: Numbers along distances, steps or lengths: `Rounded` or `Balls`, of one kind in a family; both know `*`, `+`, slices.
Series = Any

#: Weights of a key token in a row (of relative positions) along a span of columns, in increasing order.
Weights = Callable[[int, int, Span], Series]


@dataclass(frozen=True)
class Moving:
    """A token of A or B, at relative row `row` and column `column + sign k`; k is the step, or the rest n - i."""

    token: int
    row: int
    column: int
    sign: int

    def span(self, first: int, last: int) -> Span:
        """Its columns for k = first .. last."""
        ends = (self.column + self.sign * first, self.column + self.sign * last)
        return Span(min(ends), max(ends))


@dataclass(frozen=True)
class Geometry:
    """Where one query token sees everything, relative to itself.

    Attributes:
        query: the query token.
        first: is it the query of step 1?
        source_row: row of the string.
        target_column: column of the wanted key; in reverse the column of s_n.
        by_step: tokens of A and B whose column depends on the step (or on nothing).
        by_rest: tokens of A and B whose column depends on n - i.
        reverse: step 1 asked from the row of the string: s_{n-d} stands d columns before s_n.
    """

    query: int
    first: bool
    source_row: int
    target_column: int
    by_step: tuple[Moving, ...]
    by_rest: tuple[Moving, ...]
    reverse: bool = False

    @property
    def least_step(self) -> int:
        """The first step at which this query asks."""
        return 1 if self.first else 2


def later_steps(template: Template, query: int, length: int = 0) -> Geometry:
    """What the query of a step i > 1 sees; `length` counts only where string and copy stand in one row."""
    placed = template.placement
    # The query of step i stands at column `column + i`.
    row, column = placed.output.row, placed.output.column - 2 + placed.output.slope * length
    fixed = [*zip(template.prefix, placed.prefix, strict=True)]
    moving = []
    for token, place in zip(template.infix, placed.infix, strict=True):
        if placed.separate and place.slope:
            moving.append(Moving(token, place.row - row, place.column - column, 1))
        else:
            fixed.append((token, Place(place.row, place.column + place.slope * length)))
    by_step = tuple(Moving(token, place.row - row, place.column - column, -1) for token, place in fixed)
    target = placed.source.column - 1 - column
    return Geometry(query, False, placed.source.row - row, target, by_step, tuple(moving))


def first_step(template: Template) -> Geometry:
    """What the query of step 1 sees. With m = n - 1, a token that moves stands at `column + sign m`."""
    placed = template.placement
    here = placed.first_query
    everything = [*zip(template.prefix, placed.prefix, strict=True), *zip(template.infix, placed.infix, strict=True)]
    tokens = [
        Moving(t, p.row - here.row, p.column - here.column + p.slope - here.slope, p.slope - here.slope)
        for t, p in everything
    ]
    return Geometry(
        template.infix[-1],
        True,
        placed.source.row - here.row,
        placed.source.column - here.column - here.slope,
        by_step=tuple(token for token in tokens if token.sign == 0),
        by_rest=tuple(token for token in tokens if token.sign != 0),
        reverse=here.slope == 1,
    )


def needed_spans(geometry: Geometry, data: tuple[int, int], horizon: int) -> dict[tuple[int, int], Span]:
    """All columns that lengths up to `horizon` ask for, by (key token, row)."""
    target, wide = geometry.target_column, horizon
    needed: dict[tuple[int, int], Span] = {}

    def need(key: int, row: int, span: Span) -> None:
        known = needed.get((key, row))
        needed[key, row] = span if known is None else known.join(span)

    for token in data:
        if geometry.first:
            ends = (target - wide, target) if geometry.reverse else (target, target + wide)
            need(token, geometry.source_row, Span(*ends))
        else:
            need(token, geometry.source_row, Span(target - wide, target + wide))
            need(token, 0, Span(-wide, 0))
    for moving in geometry.by_step:
        need(moving.token, moving.row, moving.span(geometry.least_step, max(horizon, geometry.least_step)))
    for moving in geometry.by_rest:
        need(moving.token, moving.row, moving.span(0, horizon))
    return needed


@dataclass(frozen=True)
class Family:
    """All weights that one query token meets, for lengths up to `horizon`.

    Attributes:
        geometry: where things stand.
        data: the tokens that stand for 0 and 1.
        horizon: largest length.
        before: by symbol, weights of s_{i-1-t} (source and output together), t = 1, 2, ..
        previous: weight of s_{i-1} (both occurrences), one entry, or None at step 1.
        after: by symbol, weights of s_{i+delta}, delta = 1, 2, ..; in reverse of s_{n-d}, d = 0, 1, ..
        target: by symbol, weights of s_i: one number; in reverse one for each n.
        steps: weights of A and B tokens, by step (one number at step 1), by token.
        rests: weights of A and B tokens, by n - i = 0, 1, .., by token.
    """

    geometry: Geometry
    data: tuple[int, int]
    horizon: int
    before: tuple[Series, Series]
    previous: Series | None
    after: tuple[Series, Series]
    target: tuple[Series, Series]
    steps: dict[int, Series]
    rests: dict[int, Series]


def assemble(geometry: Geometry, data: tuple[int, int], horizon: int, weights: Weights) -> Family:
    """The family of a query token from its kernels. Precondition: horizon >= 2 unless it is step 1.

    Cost: `needed_spans` columns.
    """
    target, row = geometry.target_column, geometry.source_row
    free = horizon - geometry.least_step

    def source(token: int, first: int, last: int) -> Series:
        return weights(token, row, Span(target + first, target + last))

    before = tuple(source(x, 0, -1) for x in data)
    previous = None
    if geometry.reverse:
        after = tuple(source(x, 1 - free, 0)[::-1] for x in data)
        wanted = tuple(source(x, -free, 0)[::-1] for x in data)
    else:
        after = tuple(source(x, 1, free) for x in data)
        wanted = tuple(source(x, 0, 0) for x in data)
    if not geometry.first:
        before = tuple((source(x, -1 - free, -2) + weights(x, 0, Span(-free, -1)))[::-1] for x in data)
        previous = source(geometry.query, -1, -1) + weights(geometry.query, 0, Span(0, 0))
    last_step = geometry.least_step if geometry.first else horizon
    steps = _moving(geometry.by_step, geometry.least_step, last_step, weights)
    rests = _moving(geometry.by_rest, 0, free, weights)
    return Family(geometry, data, horizon, _pair(before), previous, _pair(after), _pair(wanted), steps, rests)


def _pair(series: tuple[Series, ...]) -> tuple[Series, Series]:
    zero, one = series
    return zero, one


def _moving(tokens: tuple[Moving, ...], first: int, last: int, weights: Weights) -> dict[int, Series]:
    result: dict[int, Series] = {}
    for moving in tokens:
        values = weights(moving.token, moving.row, moving.span(first, last))
        if moving.sign == 0:
            values = values[:1]
        values = values[::-1] if moving.sign < 0 else values
        known = result.get(moving.token)
        result[moving.token] = values if known is None else known + values
    return result


@dataclass(frozen=True)
class Arithmetic:
    """Minimum and prefix sums (starting with 0) of series, in floats with their bound or in balls."""

    minimum: Callable[[Any, Any], Any]
    prefix_sums: Callable[[Any], Any]


def least_numerators(
    family: Family, symbol: int, votes: Mapping[int, Any], arithmetic: Arithmetic
) -> tuple[Series, Series]:
    """P by step (from the least one on) and H by m = n - i, whose sum is the least N of length i + m at step i.

    Cost: O(horizon).
    """
    zero, one = (votes[token] for token in family.data)
    before: Any = arithmetic.prefix_sums(arithmetic.minimum(family.before[0] * zero, family.before[1] * one))
    after: Any = arithmetic.prefix_sums(arithmetic.minimum(family.after[0] * zero, family.after[1] * one))
    target: Any = family.target[symbol] * votes[family.data[symbol]]
    for token, weights in family.steps.items():
        before = before + weights * votes[token]
    for token, weights in family.rests.items():
        after = after + weights * votes[token]
    if family.previous is not None:
        before = before + family.previous * votes[family.geometry.query]
    return (before, after + target) if family.geometry.reverse else (before + target, after)


def plain(numbers: Any) -> Any:
    """The numbers without their bounds."""
    return numbers.value if isinstance(numbers, Rounded | Vote) else numbers


def worst_string(
    family: Family, case: StepCase, votes: Mapping[int, Any], length: int, step: int
) -> Int64[np.ndarray, " n"]:
    """The string of that length that minimises N at that step, as far as floats tell terms apart.

    Of balls, each symbol takes the choice with the smaller upper end: the string's own N is certainly at most 0 if the
    least N is.
    """
    zero, one = (plain(votes[token]) for token in family.data)
    before, after = (
        (_upper(plain(pair[1])[:count] * one) < _upper(plain(pair[0])[:count] * zero)).astype(np.int64)
        for pair, count in ((family.before, max(0, step - 2)), (family.after, length - step))
    )
    string = np.empty(length, dtype=np.int64)
    string[step - 1] = case.symbol
    string[step:] = after[::-1] if family.geometry.reverse else after
    if step > 1:
        string[step - 2] = family.data.index(case.query)
        string[: step - 2] = before[::-1]
    return string


_upper_ends = np.frompyfunc(arb.upper, 1, 1)


def _upper(terms: Any) -> Any:
    return _upper_ends(terms) if terms.dtype == object else terms


def total_weight(family: Family, string: Int64[np.ndarray, " n"], step: int) -> float:
    """The sum of all weights at a step of a string, float64, no bound; the attention's denominator."""
    length = len(string)
    m, index = length - step, step - family.geometry.least_step
    after = string[step:][::-1] if family.geometry.reverse else string[step:]
    before = string[: max(0, step - 2)][::-1]
    result = 0.0
    for pair, symbols in ((family.after, after), (family.before, before)):
        zero, one = (plain(weights)[: symbols.size] for weights in pair)
        result += float(np.where(symbols == 1, one, zero).sum())
    result += float(plain(family.target[string[step - 1]])[m if family.geometry.reverse else 0])
    result += sum(float(plain(weights)[index]) for weights in family.steps.values())
    result += sum(float(plain(weights)[m]) for weights in family.rests.values())
    return result + (0.0 if family.previous is None else float(plain(family.previous)[0]))


FLOATS = Arithmetic(minimum, prefix_sums)


def _ball_prefix_sums(terms: Balls) -> Balls:
    return np.add.accumulate(np.concatenate([np.array([arb(0)], dtype=object), terms.astype(object)]))


def _arb_min(left: arb, right: arb) -> arb:
    return left.min(right)


_minimum_of_balls = np.frompyfunc(_arb_min, 2, 1)

BALLS = Arithmetic(_minimum_of_balls, _ball_prefix_sums)


def float_votes(votes: Mapping[int, arb], threshold: float = 0.0) -> dict[int, Vote]:
    """Votes minus a threshold, rounded, with what they are off by.

    Precondition: all in units in which they are below 2^1000 in absolute value.
    """
    with working_precision(MODEL_PRECISION):
        return {token: rounded_vote(vote - arb(threshold)) for token, vote in votes.items()}
