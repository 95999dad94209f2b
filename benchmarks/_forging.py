"""Certificates forged without the verifier: random one-layer models, what is true of them, and documents about them.

*Models.* Near one that copies, so that some length is copied and some longer one is not. A margin is *solved*: an entry
of the read-out, of a value or of a key is moved until the least difference over all strings crosses 0, and what one
float cannot do is done by further entries, each 2^50 times smaller, so that the margin lies where it is wanted, however
near to 0. All strings up to length 6 are gone through in balls of BITS bits by `tests/models/every_string`, which
shares nothing with the package.

*Unit.* The checker keeps votes in units of 2^-96 of a power of two above the largest of their case, each off by less
than 2, and a difference is a mean of votes (docs/certificates.md). So its rounding bound is at least 2^-95 of that
power, for each head: the unit that margins are told in. Its weights are off by 2^-128 of the largest, its balls by
2^-192 and 2^-768: margins are solved to be of those sizes too.

*Documents.* Written from docs/certificates.md alone. Where a claim is false, its evidence is made as good as it can be:
either everything in it is true but does not reach, or what does not reach is raised by no more than it takes.

*Truth.* A certificate is true if its claim and every statement of its evidence is, by brute force, of the weights file
that it pins; nothing of a model settles what is true of another file's digest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import inf, isfinite, nextafter
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq
from scipy.optimize import brentq

from tests.models.every_string import Frequency, PlainModel, Row, _Sight

#: Precisions of the truth, and of the search for a margin's place.
BITS, FEW_BITS = 1024, 96

#: Strings up to this length are gone through.
LONGEST = 6

#: A leaf's number is in units of 2^(unit - 44).
LEAF_BITS = 44

#: How far an entry is moved, in the largest of its tensor.
FURTHEST = 6.0

#: Models drawn before a kind of margin is given up.
MOST_DRAWS = 20

#: What a model is asked about.
KINDS = ("one head", "heads", "half")

#: What a margin is solved by; nothing, or an exact tie, beside them.
SOLVED = ("value", "readout", "score")

Case = tuple[int, bool, int, int]
Document = dict[str, Any]


# --- what is true ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One step of one string, in balls.

    Attributes:
        length, step, string: bit j of the string is symbol j + 1; the step is 1-based.
        query, symbol: the query token and the symbol to write.
        competitors: the outputs that must stay below.
        ratios: for each competitor N/D of every head; of a single head with what the query token adds.
        differences: logit differences.
        gap: 1 minus the sum of the competitors' odds, if that is asked for.
    """

    length: int
    step: int
    string: int
    query: int
    symbol: int
    competitors: tuple[int, ...]
    ratios: tuple[tuple[arb, ...], ...]
    differences: tuple[arb, ...]
    gap: arb | None

    @property
    def worth(self) -> arb:
        """What must be positive: the gap, else the least difference."""
        return _least(self.differences) if self.gap is None else self.gap


class Truth:
    """All steps of all strings up to a length."""

    def __init__(self, plain: PlainModel, longest: int, criterion: str) -> None:
        self.plain, self.longest, self.criterion = plain, longest, criterion
        with ctx.workprec(BITS):
            self._sight = _Sight(plain, criterion == "half")
            heads = [self._sight]
            if plain.heads > 1:
                heads = [_Sight(_alone(plain, head), False) for head in range(plain.heads)]
            self.steps = [
                _step(plain, whole, [part.differences for part in parts])
                for n in range(1, longest + 1)
                for whole, *parts in zip(self._sight.rows(n), *(sight.rows(n) for sight in heads), strict=True)
            ]

    @property
    def cases(self) -> list[Case]:
        """Query token, of step 1 or not, symbol and competitor."""
        plain = self.plain
        queries = [(plain.infix[-1], True), (plain.data[0], False), (plain.data[1], False)]
        return [(q, first, s, y) for q, first in queries for s in (0, 1) for y in plain.competitors(s)]

    def of_case(self, case: Case, longest: int) -> list[tuple[arb, ...]]:
        """The ratios of a case's steps, by head, at lengths up to `longest`."""
        query, first, symbol, competitor = case
        return [
            step.ratios[step.competitors.index(competitor)]
            for step in self.steps
            if step.length <= longest and (step.step == 1) is first and (step.query, step.symbol) == (query, symbol)
        ]

    def direct(self, case: Case) -> arb:
        """What the query token adds by itself; with one head it is in the ratio."""
        query, _, symbol, competitor = case
        if self.plain.heads == 1:
            return arb(0)
        return self._sight.parts.direct(query, symbol)[self.plain.competitors(symbol).index(competitor)]

    def size(self, case: Case) -> Fraction:
        """A power of two above the largest vote of a case, added up over the heads."""
        query, _, symbol, competitor = case
        at, result = self.plain.competitors(symbol).index(competitor), Fraction(0)
        own = self._sight.parts.direct(query, symbol)[at] if self.plain.heads == 1 else arb(0)
        for head in range(self.plain.heads):
            most = arb(0)
            for votes in self._sight.votes[head, symbol]:
                most = most.max(abs(votes[at] + own))
            result += _power_above(most)
        return result

    def unit(self, step: Step) -> Fraction:
        """The rounding bound of a step's worst difference, at least."""
        worst = min(range(len(step.competitors)), key=lambda at: float(step.differences[at].mid()))
        case = (step.query, step.step == 1, step.symbol, step.competitors[worst])
        # Where no vote of the case is anything, the model's largest stands in.
        return (self.size(case) or max(map(self.size, self.cases)) or Fraction(1)) / 2**95

    def copied(self, length: int) -> bool | None:
        """Is every string of a length copied?"""
        return _all(_positive(step.worth) for step in self.steps if step.length == length)

    def fails(self, length: int) -> bool | None:
        """Does the arg-max fail some string of a length?"""
        right = _all(_positive(_least(step.differences)) for step in self.steps if step.length == length)
        return None if right is None else not right

    @property
    def limit(self) -> int:
        """Every string up to it is copied."""
        return next((n - 1 for n in range(1, self.longest + 1) if self.copied(n) is not True), self.longest)

    def worst(self, longest: int, least: int = 1) -> Step:
        """The step with the least worth at lengths from `least` to `longest`."""
        chosen = [step for step in self.steps if least <= step.length <= longest]
        return min(chosen, key=lambda step: _exact(step.worth))

    @property
    def factor(self) -> arb:
        """A lower bound of the final norm's factor, one head: it divides by at most the longest possible vector."""
        plain, sight = self.plain, self._sight
        if plain.final_gain is None:
            return arb(1)
        with ctx.workprec(BITS):
            longest, width = arb(0), plain.embedding.shape[1]
            for query in (plain.infix[-1], *plain.data):
                own = [arb(float(x)) if plain.residual else arb(0) for x in plain.embedding[query]]
                for said in sight._spoken[1].table():
                    longest = longest.max(sum(((a + b) ** 2 for a, b in zip(own, said, strict=True)), arb(0)))
            return (longest / width + _ball(plain.epsilon)).rsqrt()


def _alone(plain: PlainModel, head: int) -> PlainModel:
    """One head of several by itself, without what the query token adds."""

    def part(weights: np.ndarray) -> np.ndarray:
        width = len(weights) // plain.heads
        return weights[head * width : (head + 1) * width]

    slopes = plain.slopes[head : head + 1]
    return replace(
        plain, query=part(plain.query), key=part(plain.key), value=part(plain.value), output=part(plain.output.T).T,
        heads=1, slopes=slopes, residual=False,
    )  # fmt: skip


def _step(plain: PlainModel, whole: Row, parts: list[tuple[arb, ...]]) -> Step:
    query = plain.infix[-1] if whole.step == 1 else plain.data[(whole.string >> (whole.step - 2)) & 1]
    symbol = (whole.string >> (whole.step - 1)) & 1
    ratios = tuple(zip(*parts, strict=True))
    return Step(
        whole.length, whole.step, whole.string, query, symbol, whole.competitors, ratios, whole.differences, whole.gap
    )


def _least(values: Sequence[arb]) -> arb:
    result = values[0]
    for value in values[1:]:
        result = result.min(value)
    return result


def _positive(value: arb) -> bool | None:
    if value > 0:
        return True
    return False if value <= 0 else None


def _all(answers: Iterator[bool | None]) -> bool | None:
    """All of them? False as soon as one is not, None if that is open."""
    known = list(answers)
    return False if False in known else None if None in known else True


def _ball(value: Fraction) -> arb:
    return arb(fmpq(value.numerator, value.denominator))


def _exact(value: arb) -> Fraction:
    """The middle of a ball."""
    mantissa, exponent = value.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def _power_above(value: arb) -> Fraction:
    mantissa, exponent = value.upper().man_exp()
    return Fraction(2) ** (int(exponent) + int(mantissa).bit_length()) if mantissa else Fraction(0)


# --- models ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Model:
    """A model with what it is asked, and how its margin was solved.

    Attributes:
        plain, criterion: the model and by what it is judged.
        longest: strings up to it are asked about.
        solved: by what the margin was solved, or nothing, or "tie".
        entry: the entry that was moved, tensor and place, where one unit in the last place of it makes the margin fail.
        down: is that unit towards minus infinity?
    """

    plain: PlainModel
    criterion: str
    longest: int
    solved: str = ""
    entry: tuple[str, tuple[int, int]] | None = None
    down: bool = False


def _frequencies(g: np.random.Generator, count: int) -> tuple[Frequency, ...]:
    if g.random() < 0.25:
        base = Fraction(int(g.choice([10, 100, 10000])))
        return tuple(("power", base, Fraction(-f, count)) for f in range(count))
    kind, denominator = str(g.choice(["turn", "radian"])), 2 ** int(g.choice([8, 40]))
    return tuple((kind, Fraction(int(g.integers(1, denominator)), denominator)) for _ in range(count))


def _angle(frequency: Frequency, distance: int) -> float:
    if frequency[0] == "turn":
        return 2 * np.pi * float(frequency[1] * distance % 1)
    return float(float(frequency[1]) ** (float(frequency[2]) if len(frequency) == 3 else 1.0) * distance)


def _draw(g: np.random.Generator, kind: str, spare: int = 0, tails: int = 0) -> tuple[PlainModel, int]:
    """A model near one that copies, and its number of pairs (of coordinates, without those of the tails).

    Each head has `spare` channels of its values, and `tails` pairs of its keys, that hold nothing yet.
    """
    encoding = str(g.choice(["grid", "row", "rope", "alibi", "nope"], p=[0.74, 0.1, 0.1, 0.03, 0.03]))
    a, b = int(g.integers(1, 4)), int(g.integers(2, 5))
    vocabulary = a + b + 2
    order = [int(token) for token in g.permutation(vocabulary)]
    data, prefix, infix = (order[0], order[1]), tuple(order[2 : a + 2]), tuple(order[a + 2 :])
    ends = frozenset({infix[0]}) if encoding == "grid" else frozenset()
    heads = int(g.choice([2, 2, 3])) if kind == "heads" else 1
    half, wide = int(g.integers(1, 4)), kind == "half" or bool(g.random() < 0.6)
    row = _frequencies(g, half) if encoding in ("grid", "row") else ()
    column = _frequencies(g, half if row else 2 * half) if encoding in ("grid", "row", "rope") else ()
    pairs = len(row) + len(column) or 2 * half
    # Tails turn slowly, so that no cosine there is nearly 0.
    column += tuple(("turn", Fraction(int(g.integers(1, 7)), 256)) for _ in range(tails)) if column else ()
    width, channels = vocabulary + 1, 2 + spare
    distance = (-1, len(prefix) - (len(infix) - 2)) if ends else (0, -len(infix))
    embedding = np.concatenate([np.ones((vocabulary, 1)), np.eye(vocabulary)], axis=1)
    readout = np.zeros((vocabulary if wide else 2, width))
    strength, alike = float(g.uniform(1.0, 5.0)), g.random() < 0.5
    noise = float(g.choice([0.0, 1e-3, 0.02], p=[0.6, 0.2, 0.2]))

    def noisy(entries: np.ndarray) -> np.ndarray:
        return entries + noise * g.standard_normal(entries.shape)

    queries, keys, values, outputs = [], [], [], []
    for head in range(heads):
        query, key, value, output = (
            np.zeros(s) for s in ((2 * pairs, width), (2 * pairs, width), (2, width), (width, channels))
        )
        if column:
            turns = [(f, distance[0]) for f in row] + [(f, distance[1]) for f in column[: len(column) - tails]]
            angles = np.array([_angle(f, r) for f, r in turns])
            query[0::2, 0], query[1::2, 0], key[0::2, 0] = np.cos(angles), np.sin(angles), strength
        else:
            query[0, 0], key[0, 1 + np.array(data)] = 1.0, strength
        votes = 1.0 if head == 0 else float(g.choice([1.0, 0.5, -0.25]))
        for k in (0, 1):
            value[k, 1 + data[k]], output[1 + data[k], k] = votes, 1.0
            readout[data[k] if wide else k, 1 + data[k]] = 1.0
        output[1 + data[0], 2:] = 1.0
        empty = np.zeros((2 * tails, width))
        asks = empty.copy()
        asks[0::2, 0] = 1.0
        queries.append(np.concatenate([noisy(query), asks]))
        keys.append(np.concatenate([noisy(key), empty]))
        values.append(np.concatenate([noisy(value), np.zeros((spare, width))]))
        outputs.append(noisy(output))
        strength = strength if alike else float(g.uniform(1.0, 5.0))
    residual, pre, final = (bool(g.random() < part) for part in (0.3, 0.2, 0.25 if kind != "half" else 0.15))
    pre_gain, final_gain = (np.ones(width) if part else None for part in (pre, final))
    sub = "mean" if kind == "one head" and not residual and g.random() < 0.08 else ""
    slopes = alibi_slopes_of(heads) if encoding == "alibi" else ()
    scale = 2.0 ** int(g.integers(-60, 61)) if kind != "half" and g.random() < 0.3 else 1.0
    if pre:
        # The norm divides embeddings by about this; scores stay as they were meant.
        queries = [query * (width / 2) ** 0.5 for query in queries]
        keys = [key * (width / 2) ** 0.5 for key in keys]
    plain = PlainModel(
        noisy(embedding), np.concatenate(queries), np.concatenate(keys), np.concatenate(values),
        np.concatenate(outputs, 1), noisy(readout) * scale, pre_gain, final_gain,
        Fraction(float(g.choice([2.0**-23, 0.5]))), sub, residual, heads, Fraction(1), slopes, row, column, prefix,
        infix, data, ends,
    )  # fmt: skip
    return plain, pairs


def alibi_slopes_of(heads: int) -> tuple[Fraction, ...]:
    """The slopes of ALiBi as published: 2^(-8h/n) for a power of two n; else those of the power below, then others of
    the power above, every second one.
    """
    power = 2 ** (heads.bit_length() - 1)
    slopes = [Fraction(1, 2 ** (8 * h // power)) for h in range(1, power + 1)]
    above = [Fraction(1, 2 ** (8 * h // (2 * power))) for h in range(1, 2 * power, 2)]
    return tuple((slopes + above)[:heads])


def _worth(plain: PlainModel, longest: int, criterion: str, bits: int) -> tuple[arb, Row]:
    """The least worth at lengths up to `longest`, and its row."""
    with ctx.workprec(bits):
        sight = _Sight(plain, criterion == "half")
        rows = [(_row_worth(row), row) for n in range(1, longest + 1) for row in sight.rows(n)]
    return min(rows, key=lambda pair: _exact(pair[0]))


def _row_worth(row: Row) -> arb:
    return _least(row.differences) if row.gap is None else row.gap


def with_entry(plain: PlainModel, name: str, place: tuple[int, int], entry: float) -> PlainModel:
    """The same with one entry of a tensor set."""
    entries = getattr(plain, name).copy()
    entries[place] = entry
    return replace(plain, **{name: entries})


def copier(
    g: np.random.Generator, kind: str, longest: int, spare: int = 0, tails: int = 0
) -> tuple[PlainModel, int, int] | None:
    """A model that copies every string up to a length (2 at most in one row), with its pairs and that length.

    None where none of some that are drawn does.
    """
    criterion = "half" if kind == "half" else "argmax"
    for _ in range(MOST_DRAWS):
        plain, pairs = _draw(g, kind, spare, tails)
        reach = longest if plain.ends else min(longest, 2)
        for _ in range(7 if kind == "half" else 1):
            if _worth(plain, reach, criterion, FEW_BITS)[0] > 0:
                return plain, pairs, reach
            plain = replace(plain, readout=2 * plain.readout)
    return None


def solved(g: np.random.Generator, kind: str, longest: int, by: str, aim: float, depth: float) -> Model | None:
    """A model whose least worth is about `aim` 2^-depth of its largest vote; for an aim of 0, of one float's size."""
    for _ in range(MOST_DRAWS):
        found = _solved(g, kind, longest, by, aim, depth)
        if found is not None:
            return found
    return None


def _solved(g: np.random.Generator, kind: str, longest: int, by: str, aim: float, depth: float) -> Model | None:
    count = 2 + int(depth) // 45 if aim else 0
    of_keys, criterion = by == "score", "half" if kind == "half" else "argmax"
    found = copier(g, kind, longest, 0 if of_keys else count, count if of_keys else 0)
    if found is None:
        return None
    plain, pairs, longest = found
    around = sorted({*plain.prefix, *plain.infix})
    token = int(g.choice(around if by == "value" and kind != "half" else plain.data))
    if by == "value":
        name, place = "value", (int(g.integers(0, 2)), 1 + token)
    elif by == "readout":
        name, place = "readout", (int(g.integers(0, plain.outputs)), 1 + token)
    else:
        name, place = "key", (2 * int(g.integers(0, pairs)) if plain.column else 0, 1 + token)
    start = _crossing(g, plain, name, place, longest, criterion)
    if start is None:
        return None
    plain = with_entry(plain, name, place, start)
    if aim:
        _, row = _worth(plain, longest, criterion, 2 * FEW_BITS)
        truth = Truth(plain, row.length, criterion)
        critical = next(s for s in truth.steps if (s.length, s.step, s.string) == (row.length, row.step, row.string))
        with ctx.workprec(BITS):
            wanted = _ball(truth.unit(critical) * 2**95 * Fraction(aim * 2.0**-depth))
        for tail in range(count):
            name, line = ("key", 2 * pairs + 2 * tail) if of_keys else ("value", 2 + tail)
            corrected = _corrected(plain, name, (line, 1 + token), row, criterion, wanted, int(depth) + 200)
            if corrected is None:
                return None
            plain = corrected
        return Model(plain, criterion, longest, by)
    return _last_right(Model(plain, criterion, longest, by, (name, place)))


def _last_right(model: Model) -> Model | None:
    """The last float at which the margin is above 0, near the one at which it crosses 0."""

    if model.entry is None:
        return None
    entry = model.entry

    @cache
    def right(ulps: int) -> bool:
        plain = moved(model.plain, entry, ulps)
        return bool(_worth(plain, model.longest, model.criterion, 2 * FEW_BITS)[0] > 0)

    for ulps in (0, *(side * reach for reach in range(1, 6) for side in (1, -1))):
        for side in (-1, 1):
            if right(ulps) and not right(ulps + side):
                return replace(model, plain=moved(model.plain, entry, ulps), down=side < 0)
    return None


def _crossing(
    g: np.random.Generator, plain: PlainModel, name: str, place: tuple[int, int], longest: int, criterion: str
) -> float | None:
    """The entry at which the least worth crosses 0, as far as one float tells.

    Differences are straight lines in an entry of a value or of the read-out.
    """
    entries = getattr(plain, name)
    old, size, direction = float(entries[place]), float(np.abs(entries).max()), 1 if g.random() < 0.5 else -1

    if criterion == "argmax" and name != "key":
        start, end = (
            [
                float(value.mid())
                for row in _rows(with_entry(plain, name, place, x), longest)
                for value in row.differences
            ]
            for x in (old, old + size)
        )
        slopes = [(there - here) * direction for here, there in zip(start, end, strict=True)]
        for side in (1, -1):
            ways = [-here / (slope * side) for here, slope in zip(start, slopes, strict=True) if slope * side < 0]
            if ways and min(ways) < FURTHEST:
                return old + side * direction * size * min(ways)
        return None

    def worth(entry: float) -> float:
        return float(_worth(with_entry(plain, name, place, entry), longest, criterion, FEW_BITS)[0].mid())

    for side in (direction, -direction):
        for reach in (1.5, FURTHEST):
            end = old + side * reach * size
            if worth(end) < 0:
                return float(brentq(worth, old, end, xtol=size * 2.0**-60, rtol=2.0**-50, maxiter=60))
    return None


def _rows(plain: PlainModel, longest: int) -> list[Row]:
    with ctx.workprec(FEW_BITS):
        sight = _Sight(plain, False)
        return [row for n in range(1, longest + 1) for row in sight.rows(n)]


def _corrected(
    plain: PlainModel, name: str, place: tuple[int, int], row: Row, criterion: str, aim: arb, bits: int
) -> PlainModel | None:
    """The entry set so that the row's worth is what is aimed at, to first order, as far as one float tells."""

    def worth(entry: float) -> arb:
        with ctx.workprec(bits):
            sight = _Sight(with_entry(plain, name, place, entry), criterion == "half")
            rows = sight.rows(row.length)
            return _row_worth(next(one for one in rows if (one.step, one.string) == (row.step, row.string)))

    nudge = 2.0**-70
    with ctx.workprec(bits):
        here = worth(0.0)
        slope = (worth(nudge) - here) / arb(nudge)
        if slope.contains(0):
            return None
        entry = float(((aim - here) / slope).mid())
    return with_entry(plain, name, place, entry) if isfinite(entry) and abs(entry) < 16 else None


def tied(g: np.random.Generator, kind: str, longest: int) -> Model | None:
    """Two outputs with the same read-out: an exact tie, which is a failure."""
    found = copier(g, kind, longest)
    if found is None:
        return None
    plain, _, longest = found
    readout = plain.readout.copy()
    others = [t for t in range(len(readout)) if t not in (plain.target(0), plain.target(1))] or [plain.target(1)]
    readout[int(g.choice(others))] = readout[plain.target(0)]
    criterion = "half" if kind == "half" else "argmax"
    return Model(replace(plain, readout=readout), criterion, longest, "tie")


def drawn(g: np.random.Generator, kind: str) -> Model:
    """Any model: some copy up to the longest strings, some fail at once."""
    plain, _ = _draw(g, kind)
    if kind == "half":
        plain = replace(plain, readout=plain.readout * 2.0 ** int(g.integers(0, 5)))
    longest = LONGEST if plain.ends and plain.heads == 1 else 4 if plain.ends else 3
    return Model(plain, "half" if kind == "half" else "argmax", min(longest, 5 if kind == "half" else LONGEST))


def moved(plain: PlainModel, entry: tuple[str, tuple[int, int]], ulps: int) -> PlainModel:
    """One entry moved by some units in the last place."""
    name, place = entry
    value = float(getattr(plain, name)[place])
    for _ in range(abs(ulps)):
        value = nextafter(value, inf if ulps > 0 else -inf)
    return with_entry(plain, name, place, value)


# --- documents ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Certificate:
    """Kind, evidence and claim; `inputs` come with the file."""

    kind: str
    evidence: Document
    claim: Document


def spelled(value: Fraction) -> str:
    """A rational as certificates have it."""
    return f"{value.numerator}/{value.denominator}"


def plain_certificate(criterion: str, copies: int, fails: int | None = None) -> Certificate:
    """A claim about all strings, without evidence."""
    claim = {"criterion": criterion, "copies_up_to": copies, "fails_at": fails}
    return Certificate("one-layer-copies", {"thresholds": []}, claim)


def witness(step: Step, competitor: int | None) -> Certificate:
    """A claim that a step is wrong."""
    symbols = [(step.string >> j) & 1 for j in range(step.length)]
    runs = [1]
    for one, two in pairwise(symbols):
        runs = [*runs[:-1], runs[-1] + 1] if one == two else [*runs, 1]
    claim = {"first_symbol": symbols[0], "runs": runs, "step": step.step, "competitor": competitor}
    return Certificate("one-layer-counterexample", {}, claim)


def with_thresholds(g: np.random.Generator, truth: Truth, copies: int, *, raised: bool) -> Certificate:
    """A claim with the thresholds that prove it, or nearly do; with `raised`, one of them is above its least ratio."""
    with ctx.workprec(BITS):
        lie = bool(g.random() < 0.7)
        found = _half_thresholds(truth, copies, lie) if truth.criterion == "half" else _thresholds(truth, copies, lie)
        if raised:
            case = [case for case in found if truth.of_case(case, copies)]
            chosen = case[int(g.integers(0, len(case)))]
            head = int(g.integers(0, truth.plain.heads))
            least = _least([ratios[head] for ratios in truth.of_case(chosen, copies)])
            above = Fraction(float(2 ** g.uniform(-3, 3.3))) * truth.size(chosen) / 2**95
            found[chosen][head] = max(_exact(least) + above, found[chosen][head])
    entries = [
        {"query": q, "first": first, "symbol": s, "competitor": y, "heads": [spelled(value) for value in values]}
        for (q, first, s, y), values in found.items()
    ]
    claim = {"criterion": truth.criterion, "copies_up_to": copies, "fails_at": None}
    return Certificate("one-layer-copies", {"thresholds": entries}, claim)


def _rounded(value: arb) -> Fraction:
    """A rational of some 600 bits."""
    with ctx.workprec(600):
        return _exact(+value)


def _thresholds(truth: Truth, copies: int, lie: bool) -> dict[Case, list[Fraction]]:
    result = {}
    for case in truth.cases:
        rows, direct, size = truth.of_case(case, copies), truth.direct(case), truth.size(case)
        heads = truth.plain.heads
        if not rows:
            result[case] = [size + _power_above(abs(direct))] * heads
            continue
        least = [_least([row[head] for row in rows]) for head in range(heads)]
        total = sum(least, direct)
        if total > 0:
            result[case] = [_rounded(value - total / (2 * heads)) for value in least]
        elif lie:
            lift = -total + _ball(size) / arb(2) ** 300
            result[case] = [_rounded(value + (lift if head == 0 else 0)) for head, value in enumerate(least)]
        else:
            below = abs(total) / (4 * heads) + _ball(size) / arb(2) ** 110
            result[case] = [_rounded(value - below) for value in least]
    return result


def _half_thresholds(truth: Truth, copies: int, lie: bool) -> dict[Case, list[Fraction]]:
    result, factor = {}, truth.factor
    groups: dict[tuple[int, bool, int], list[Case]] = {}
    for case in truth.cases:
        groups.setdefault(case[:3], []).append(case)
    for group in groups.values():
        rows = [truth.of_case(case, copies) for case in group]
        if not rows[0]:
            result |= {case: [_rounded(2 * truth.longest + 1000 / factor)] for case in group}
            continue
        least = [_least([row[0] for row in of_case]) for of_case in rows]
        excess = sum(((-factor * value).exp() for value in least), arb(0)).log() / factor
        if excess < 0 or not lie:
            lift = excess / 2 if excess < 0 else -abs(excess) / 4 - _ball(truth.size(group[0])) / arb(2) ** 110
        else:
            lift = excess + _ball(truth.size(group[0])) / arb(2) ** 300
        result |= {case: [_rounded(value + lift)] for case, value in zip(group, least, strict=True)}
    return result


class _Trees:
    """Trees that cover all strings of all lengths up to one."""

    def __init__(self, g: np.random.Generator, truth: Truth, lengths: range) -> None:
        self.g, self.truth, self.lengths = g, truth, lengths
        largest = max(truth.size(case) for case in truth.cases)
        self.unit = largest.numerator.bit_length() - largest.denominator.bit_length() - 70 + LEAF_BITS
        self.grain = Fraction(2) ** (self.unit - LEAF_BITS)
        self.leaves: list[tuple[list[Any], int, list[int]]] = []

    def document(self) -> list[list[list[Any]]]:
        result = []
        for n in self.lengths:
            trees = []
            for case, steps in tree_places(self.truth, n):
                for step in steps:
                    nodes: list[Any] = []
                    numbers = [j for j in range(1, n + 1) if j not in (step - 1, step)]
                    self._grow(nodes, case, rows_of(self.truth, n, step, case), numbers)
                    trees.append(nodes)
            result.append(trees)
        return result

    def _grow(self, nodes: list[Any], case: Case, rows: list[Step], free: list[int]) -> None:
        values = [bounded(self.truth, case, row) for row in rows]
        floors = [_floor(_least(column), self.grain) for column in zip(*values, strict=True)]
        bounds = [floor - 1 for floor in floors]
        enough = settles(self.truth, case, bounds, self.grain) is True
        if free and not (enough and self.g.random() < 0.7):
            number = int(self.g.choice(free))
            nodes.append(number)
            for symbol in (0, 1):
                chosen = [row for row in rows if (row.string >> (number - 1)) & 1 == symbol]
                self._grow(nodes, case, chosen, [j for j in free if j != number])
            return
        if not enough and self._right(case, rows[0]) is not True and self.g.random() < 0.6:
            # The string is wrong: numbers that would settle it, or true ones that do not.
            if self.g.random() < 0.7:
                while settles(self.truth, case, bounds, self.grain) is not True:
                    bounds = [bound + max(1, abs(bound) // 2) for bound in bounds]
        elif not enough:
            bounds = []
        if bounds:
            self.leaves.append((nodes, len(nodes), floors))
        nodes.append(bounds)

    def _right(self, case: Case, row: Step) -> bool | None:
        return is_right(self.truth, case, row)

    def raise_one(self) -> None:
        """One number of a leaf above the least ratio of its strings."""
        if self.leaves:
            nodes, at, floors = self.leaves[int(self.g.integers(0, len(self.leaves)))]
            place = int(self.g.integers(0, len(floors)))
            nodes[at] = [*nodes[at]]
            nodes[at][place] = max(nodes[at][place], floors[place] + 1 + int(self.g.integers(0, 4)))


def with_trees(g: np.random.Generator, truth: Truth, copies: int, *, raised: bool) -> Certificate:
    """A claim with trees; with `raised`, one leaf claims more than is true."""
    with ctx.workprec(BITS):
        bounded_to = int(g.integers(1, copies)) if copies > 1 and g.random() < 0.3 else 0
        trees = _Trees(g, truth, range(bounded_to + 1, copies + 1))
        listed = trees.document()
        if raised:
            trees.raise_one()
    listed = [[[_spelled_node(node) for node in nodes] for nodes in of_length] for of_length in listed]
    thresholds = []
    if bounded_to and not (truth.plain.heads == 1 and truth.criterion == "argmax"):
        thresholds = with_thresholds(g, truth, bounded_to, raised=False).evidence["thresholds"]
    evidence = {"thresholds": thresholds, "bounded_to": bounded_to, "trees": listed, "unit": trees.unit}
    return Certificate("one-layer-branching", evidence, {"criterion": truth.criterion, "copies_up_to": copies})


def _spelled_node(node: Any) -> Any:
    return [str(bound) for bound in node] if isinstance(node, list) else node


def tree_places(truth: Truth, length: int) -> Iterator[tuple[Case, Sequence[int]]]:
    """The cases, in the order of trees, and their steps; for `half` one case stands for all competitors."""
    seen = set()
    for case in truth.cases:
        query, first, symbol, _ = case
        place = (query, first, symbol)
        if (length == 1 and not first) or (truth.criterion == "half" and place in seen):
            continue
        seen.add(place)
        yield case, [1] if first else range(2, length + 1)


def rows_of(truth: Truth, length: int, step: int, case: Case) -> list[Step]:
    """The strings of a tree."""
    return [
        row for row in truth.steps if (row.length, row.step, row.query, row.symbol) == (length, step, case[0], case[2])
    ]


def bounded(truth: Truth, case: Case, row: Step) -> tuple[arb, ...]:
    """What a leaf's numbers stay below: heads, or competitors."""
    return row.differences if truth.criterion == "half" else row.ratios[row.competitors.index(case[3])]


def is_right(truth: Truth, case: Case, row: Step) -> bool | None:
    """Is a step right, against the case's competitor?"""
    return _positive(row.worth if truth.criterion == "half" else row.differences[row.competitors.index(case[3])])


def settles(truth: Truth, case: Case, bounds: Sequence[int], grain: Fraction) -> bool | None:
    """Do the numbers of a leaf settle its strings?"""
    taus = [_ball(bound * grain) for bound in bounds]
    if truth.criterion == "half":
        if min(bounds) < 0:
            return False
        odds = sum(((-truth.factor * tau).exp() for tau in taus), arb(0))
        return True if odds <= 1 else False if odds > 1 else None
    total = sum(taus, truth.direct(case))
    return True if total >= 0 else False if total < 0 else None


def _floor(value: arb, grain: Fraction) -> int:
    return int(_exact(value) / grain // 1)


# --- is a certificate true? -----------------------------------------------------------------------------------------


def is_true(truth: Truth, certificate: Certificate) -> bool | None:
    """Is everything that a certificate says true of the model? None where balls leave it open."""
    with ctx.workprec(BITS):
        judges: dict[str, Callable[[Truth, Document, Document], bool | None]] = {
            "one-layer-copies": _copies_true, "one-layer-branching": _trees_true,
            "one-layer-counterexample": _witness_true,
        }  # fmt: skip
        return judges[certificate.kind](truth, certificate.evidence, certificate.claim)


def claim_is_true(truth: Truth, certificate: Certificate) -> bool | None:
    """Is what a certificate claims true, whatever its evidence?"""
    with ctx.workprec(BITS):
        if certificate.kind == "one-layer-counterexample":
            return _witness_true(truth, certificate.evidence, certificate.claim)
        return _claim_true(truth, certificate.claim)


def _claim_true(truth: Truth, claim: Document) -> bool | None:
    answers = [truth.copied(n) for n in range(1, claim["copies_up_to"] + 1)]
    if claim.get("fails_at") is not None:
        answers.append(truth.fails(claim["fails_at"]))
    return _all(iter(answers))


def _copies_true(truth: Truth, evidence: Document, claim: Document) -> bool | None:
    return _all(iter([_claim_true(truth, claim), _thresholds_true(truth, evidence, claim["copies_up_to"])]))


def _thresholds_true(truth: Truth, evidence: Document, copies: int) -> bool | None:
    entries = {
        (e["query"], e["first"], e["symbol"], e["competitor"]): [Fraction(value) for value in e["heads"]]
        for e in evidence["thresholds"]
    }
    if not entries:
        return True
    if set(entries) != set(truth.cases):
        return False
    answers: list[bool | None] = []
    odds: dict[tuple[int, bool, int], arb] = {}
    for case, taus in entries.items():
        for ratios in truth.of_case(case, copies):
            answers += [_positive(ratio - _ball(tau)) for ratio, tau in zip(ratios, taus, strict=True)]
        total = sum(map(_ball, taus), truth.direct(case))
        direct = truth.direct(case)
        answers.append(sum(taus) >= 0 if direct == 0 else True if total >= 0 else False if total < 0 else None)
        odds[case[:3]] = odds.get(case[:3], arb(0)) + (-truth.factor * total).exp()
    if truth.criterion == "half" and truth.plain.outputs > 2:
        answers += [True if value <= 1 else False if value > 1 else None for value in odds.values()]
    return _all(iter(answers))


def _trees_true(truth: Truth, evidence: Document, claim: Document) -> bool | None:
    grain, answers = Fraction(2) ** (evidence["unit"] - LEAF_BITS), [_claim_true(truth, claim)]
    bounded_to = evidence["bounded_to"]
    answers.append(_thresholds_true(truth, evidence, bounded_to))
    for n, trees in enumerate(evidence["trees"], bounded_to + 1):
        listed = iter(trees)
        for case, steps in tree_places(truth, n):
            for step in steps:
                answers += _leaves_true(truth, case, iter(next(listed)), rows_of(truth, n, step, case), grain)
    return _all(iter(answers))


def _leaves_true(
    truth: Truth, case: Case, nodes: Iterator[Any], rows: list[Step], grain: Fraction
) -> Iterator[bool | None]:
    node = next(nodes)
    if not isinstance(node, list):
        for symbol in (0, 1):
            chosen = [row for row in rows if (row.string >> (node - 1)) & 1 == symbol]
            yield from _leaves_true(truth, case, nodes, chosen, grain)
        return
    bounds = [int(bound) for bound in node]
    if bounds:
        yield settles(truth, case, bounds, grain)
    for row in rows:
        yield is_right(truth, case, row)
        if bounds:
            values = bounded(truth, case, row)
            yield from (_positive(value - _ball(b * grain)) for value, b in zip(values, bounds, strict=True))


def _witness_true(truth: Truth, _evidence: Document, claim: Document) -> bool | None:
    row = witnessed(truth, claim)
    if claim["competitor"] is None:
        right = _positive(row.worth)
    else:
        right = _positive(row.differences[row.competitors.index(claim["competitor"])])
    return None if right is None else not right


def witnessed(truth: Truth, claim: Document) -> Step:
    """The step that a counterexample speaks of."""
    symbol, symbols = claim["first_symbol"], []
    for run in claim["runs"]:
        symbols += [symbol] * run
        symbol ^= 1
    string = sum(s << j for j, s in enumerate(symbols))
    return next(
        row for row in truth.steps if (row.length, row.step, row.string) == (len(symbols), claim["step"], string)
    )


def units(truth: Truth, step: Step) -> float:
    """A step's worth in units; its least difference where that alone fails `half`."""
    least = _least(step.differences)
    worth = step.worth if _positive(least) is True else least
    return float(_exact(worth) / truth.unit(step))
