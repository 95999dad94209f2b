"""The truth about a one-layer model: every string, every step, every competitor, decided in balls.

This module shares nothing with the package. It takes arrays, tokens and rationals, and evaluates the definition: the
tokens of a prompt are walked along once for their rows and columns; the (normalised) embeddings give queries, keys and
values; a pair of coordinates is turned by its frequency times the position; attention is a softmax over all tokens up
to the query; the logits are `readout gain (x_q + output mean)` times the positive factor of the final norm.

*What is shared between strings.* The product of a query turned by `alpha t` and a key turned by `alpha s` depends on
`s - t` alone, so a weight `exp(score)` is computed once for a query token, a key token and a relative row and column.
The sum over a string's tokens is regrouped (the symbols one by one, the other tokens once a length, a step and a query
token). Each string still has sums and a sign of its own. `slow_differences` does none of this: it turns every query and
key at its own place and adds up the value vectors token by token.

*Certainty.* Stored weights are exact. A sign counts where its ball excludes 0, or is exactly 0 (products of exact zeros
stay exact, so equal votes and scores of 0 give exact ties). Where a length stays open the precision is raised; a length
open at the last precision is untold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb, arb_mat, ctx, fmpq

#: Precisions tried in turn, in bits.
LADDER = (160, 640, 2560)

#: ("turn", value): value turns a position; ("radian", value); ("power", base, exponent): base^exponent radians.
Frequency = tuple[str, Fraction] | tuple[str, Fraction, Fraction]


class UndefinedError(ValueError):
    """The model says nothing: a norm without epsilon divides a zero vector by 0."""


@dataclass(frozen=True)
class PlainModel:
    """A one-layer model and its prompt as plain data.

    Attributes:
        embedding, query, key, value, output, readout: float64 arrays with exact meaning, shaped as in torch.
        pre_gain, final_gain: of the norms before attention and before the read-out, or None.
        epsilon: of both norms.
        sub_norm: each head's output divided by its root mean square ("mean"), by its length ("unit"), or not ("").
        residual: is the query's embedding added?
        heads: number of heads.
        score_scale: factor on the scores.
        slopes: what scores lose a position, one a head; empty where they lose nothing.
        row, column: frequencies of the first pairs of coordinates, by rows, and of the rest, by columns.
        prefix, infix, data, ends: the tokens around the string, those of 0 and 1, and those that end a row.
    """

    embedding: np.ndarray
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    output: np.ndarray
    readout: np.ndarray
    pre_gain: np.ndarray | None
    final_gain: np.ndarray | None
    epsilon: Fraction
    sub_norm: str
    residual: bool
    heads: int
    score_scale: Fraction
    slopes: tuple[Fraction, ...]
    row: tuple[Frequency, ...]
    column: tuple[Frequency, ...]
    prefix: tuple[int, ...]
    infix: tuple[int, ...]
    data: tuple[int, int]
    ends: frozenset[int]

    def __post_init__(self) -> None:
        if set(self.data) & self.ends:
            raise UndefinedError("a data token ends a row: places would depend on the string")

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens that occur."""
        return tuple(sorted({*self.prefix, *self.data, *self.infix}))

    @property
    def outputs(self) -> int:
        """Number of logits."""
        return len(self.readout)

    def target(self, symbol: int) -> int:
        """The output that stands for a symbol."""
        return symbol if self.outputs == 2 else self.data[symbol]

    def competitors(self, symbol: int) -> list[int]:
        """The outputs that must stay below it."""
        return [other for other in range(self.outputs) if other != self.target(symbol)]


@dataclass(frozen=True)
class Row:
    """One step of one string.

    Attributes:
        length, step: of the string; the step is 1-based.
        string: bit j is symbol j + 1.
        differences: logit of the right output minus each competitor's, before the norms after attention.
        gap: 1 minus the sum of the competitors' odds, after all norms; None unless asked for.
        size: a bound of what the differences are sums of, `sum of weight |vote| / sum of weights`.
    """

    length: int
    step: int
    string: int
    competitors: tuple[int, ...]
    differences: tuple[arb, ...]
    gap: arb | None
    size: arb


@dataclass(frozen=True)
class Judged:
    """What is true of one length.

    Attributes:
        copied: is every string copied? None where it is untold.
        least: a ball that holds the least logit difference over all strings, steps and competitors.
        units: the differences that are closest to 0 in proportion to what they are sums of, below and above 0, that
            proportion as floats; None where there is none.
        rows: all steps of all strings.
    """

    length: int
    copied: bool | None
    least: arb
    units: tuple[float | None, float | None]
    rows: tuple[Row, ...]


def judge(model: PlainModel, longest: int, criterion: str) -> list[Judged]:
    """What is true of each length from 1 to `longest` by `argmax` or `half`.

    Raises:
        UndefinedError: a zero vector is to be divided by its norm without an epsilon.

    Cost: about 2^longest rows of balls at each precision that is needed; exponentials of all relative positions.
    """
    result: dict[int, Judged] = {}
    for bits in LADDER:
        with ctx.workprec(bits):
            sight = _Sight(model, criterion == "half")
            for length in range(1, longest + 1):
                if length not in result or result[length].copied is None:
                    result[length] = _judged(length, sight.rows(length), criterion)
        if all(judged.copied is not None for judged in result.values()):
            break
    return [result[length] for length in range(1, longest + 1)]


def is_copied(row: Row, criterion: str) -> bool | None:
    """Is this step right? None where the balls leave it open."""
    if criterion == "half" and row.gap is not None:
        return _positive(row.gap)
    signs = [_positive(value) for value in row.differences]
    return False if False in signs else (None if None in signs else True)


def _positive(value: arb) -> bool | None:
    if value > 0:
        return True
    return False if value <= 0 else None


def _judged(length: int, rows: list[Row], criterion: str) -> Judged:
    verdicts = [is_copied(row, criterion) for row in rows]
    copied = False if False in verdicts else (None if None in verdicts else True)
    least = rows[0].differences[0]
    below, above = None, None
    for row in rows:
        for value in row.differences:
            least = least.min(value)
        if row.size > 0:
            part = row.differences[0]
            for value in row.differences[1:]:
                part = part.min(value)
            unit = float((part / row.size).mid())
            if unit <= 0:
                below = unit if below is None else max(below, unit)
            else:
                above = unit if above is None else min(above, unit)
    return Judged(length, copied, least, (below, above), tuple(rows))


def find(judged: Sequence[Judged], length: int, string: Iterable[int], step: int) -> Row:
    """The row of a step of a string."""
    number = sum(int(symbol) << j for j, symbol in enumerate(string))
    return next(row for row in judged[length - 1].rows if row.string == number and row.step == step)


def places(model: PlainModel, tokens: Iterable[int]) -> list[tuple[int, int]]:
    """Row and column of each token: a token that ends a row still stands in it."""
    result, row, column = [], 0, 0
    for token in tokens:
        result.append((row, column))
        row, column = (row + 1, 0) if token in model.ends else (row, column + 1)
    return result


def _matrix(entries: np.ndarray) -> arb_mat:
    return arb_mat([[arb(float(entry)) for entry in line] for line in np.asarray(entries)])


def _lines(matrix: arb_mat) -> list[list[arb]]:
    return [list(line) for line in matrix.table()]


def _rational(value: Fraction) -> arb:
    return arb(fmpq(value.numerator, value.denominator))


def _turning(frequency: Frequency, distance: int) -> tuple[arb, arb]:
    """Cosine and sine of a frequency's angle over a distance."""
    if frequency[0] == "turn":
        angle = 2 * ((frequency[1] * distance) % 1)
        sine, cosine = arb.sin_cos_pi_fmpq(fmpq(angle.numerator, angle.denominator))
        return cosine, sine
    radians = _rational(frequency[1])
    if len(frequency) == 3:
        radians = radians ** _rational(frequency[2])
    radians *= distance
    return radians.cos(), radians.sin()


class _Parts:
    """What each token asks, answers and says, at the working precision."""

    def __init__(self, model: PlainModel) -> None:
        self.model, used = model, list(model.tokens)
        embedding = np.asarray(model.embedding, dtype=np.float64)[used]
        self.embedding = _matrix(embedding)
        # Factors of the norm are kept apart, so that exact zeros of what they multiply stay exact.
        self.factors = [arb(1)] * len(used)
        inputs = self.embedding
        if model.pre_gain is not None:
            inputs = _scaled(inputs, model.pre_gain)
            self.factors = [self._factor(line) for line in _lines(self.embedding)]
        queries, keys, values = (
            inputs * _matrix(weights).transpose() for weights in (model.query, model.key, model.value)
        )
        self.place = {token: index for index, token in enumerate(used)}
        self.queries, self.keys = self._by_head(queries, factors=True), self._by_head(keys, factors=True)
        self.values = self._by_head(values, factors=False)
        outputs = _lines(_matrix(model.output).transpose())
        width = len(outputs) // model.heads
        self.outputs = [arb_mat(outputs[head * width : (head + 1) * width]) for head in range(model.heads)]
        readout = _matrix(model.readout)
        self.readout = readout if model.final_gain is None else _scaled(readout, model.final_gain)

    def _factor(self, line: list[arb]) -> arb:
        square = sum((x * x for x in line), arb(0)) / len(line) + _rational(self.model.epsilon)
        if square == 0:
            raise UndefinedError("a zero embedding, and a norm without epsilon")
        return square.rsqrt()

    def _by_head(self, matrix: arb_mat, *, factors: bool) -> list[list[list[arb]]]:
        """[head][token][coordinate]."""
        lines = _lines(matrix)
        if factors:
            lines = [[x * factor for x in line] for line, factor in zip(lines, self.factors, strict=True)]
        width = len(lines[0]) // self.model.heads
        return [[line[head * width : (head + 1) * width] for line in lines] for head in range(self.model.heads)]

    def reading(self, symbol: int) -> arb_mat:
        """[coordinate, competitor]: read-out of the right output minus the competitor's."""
        lines, right = _lines(self.readout), self.model.target(symbol)
        rows = [
            [x - y for x, y in zip(lines[right], lines[other], strict=True)] for other in self.model.competitors(symbol)
        ]
        return arb_mat(rows).transpose()

    def votes(self, head: int, symbol: int) -> list[list[arb]]:
        """[token][competitor]: what a head's value adds to each difference."""
        lines = _lines(arb_mat(self.values[head]) * (self.outputs[head] * self.reading(symbol)))
        return [[x * factor for x in line] for line, factor in zip(lines, self.factors, strict=True)]

    def direct(self, token: int, symbol: int) -> list[arb]:
        """What the query token's own embedding adds to each difference; zeros without a residual."""
        if not self.model.residual:
            return [arb(0)] * len(self.model.competitors(symbol))
        line = arb_mat([_lines(self.embedding)[self.place[token]]])
        return _lines(line * self.reading(symbol))[0]


def _scaled(matrix: arb_mat, gain: np.ndarray) -> arb_mat:
    return arb_mat([[x * arb(float(g)) for x, g in zip(line, gain, strict=True)] for line in _lines(matrix)])


class _Sight:
    """Everything about one model at one precision."""

    def __init__(self, model: PlainModel, half: bool) -> None:
        self.model, self.half, self.parts = model, half, _Parts(model)
        self._turns: dict[tuple[Frequency, int], tuple[arb, arb]] = {}
        self._weights: dict[tuple[int, int, int, int, int], arb] = {}
        self._waves: dict[tuple[int, int, int], list[tuple[arb, arb]]] = {}
        heads = range(model.heads)
        self.votes = {(head, symbol): self.parts.votes(head, symbol) for head in heads for symbol in (0, 1)}

    def weight(self, head: int, asking: int, token: int, rows: int, columns: int) -> arb:
        """exp(score) of a key token seen from a query token, at the key's place minus the query's."""
        name = (head, asking, token, rows, columns)
        known = self._weights.get(name)
        if known is None:
            known = self._weights[name] = self._score(head, asking, token, rows, columns).exp()
        return known

    def _score(self, head: int, asking: int, token: int, rows: int, columns: int) -> arb:
        model, parts = self.model, self.parts
        waves = self._waves.get((head, asking, token))
        if waves is None:
            q, k = parts.queries[head][parts.place[asking]], parts.keys[head][parts.place[token]]
            waves = [
                (q[f] * k[f] + q[f + 1] * k[f + 1], q[f + 1] * k[f] - q[f] * k[f + 1]) for f in range(0, len(q), 2)
            ]
            self._waves[head, asking, token] = waves
        turns = [(f, rows) for f in model.row] + [(f, columns) for f in model.column]
        total = arb(0)
        if not turns:
            total = sum((real for real, _ in waves), total)
        for (real, other), turn in zip(waves, turns, strict=False):
            cosine, sine = self._turn(turn)
            total += real * cosine + other * sine
        total *= _rational(model.score_scale)
        if model.slopes:
            total += _rational(model.slopes[head] * columns)
        return total

    def _turn(self, turn: tuple[Frequency, int]) -> tuple[arb, arb]:
        known = self._turns.get(turn)
        if known is None:
            known = self._turns[turn] = _turning(*turn)
        return known

    def rows(self, length: int) -> list[Row]:
        """Every step of every string of a length."""
        model = self.model
        # Data tokens end no row, so the places of all strings of a length are those of zeros.
        zeros = (model.data[0],) * length
        where = places(model, (*model.prefix, *zeros, *model.infix, *zeros[1:]))
        result: list[Row] = []
        for step in range(1, length + 1):
            for previous in (None,) if step == 1 else (0, 1):
                result += self._step(length, step, previous, where)
        return result

    def _step(self, length: int, step: int, previous: int | None, where: list[tuple[int, int]]) -> list[Row]:
        model = self.model
        asking = model.infix[-1] if previous is None else model.data[previous]
        first = len(model.prefix)
        copied = first + length + len(model.infix)
        here = where[copied + step - 2]
        totals = [self._totals(head, asking, length, step, where, here) for head in range(model.heads)]
        numbers = [s for s in range(2**length) if previous is None or (s >> (step - 2)) & 1 == previous]
        rows: list[Row] = []
        for symbol in (0, 1):
            chosen = [s for s in numbers if (s >> (step - 1)) & 1 == symbol]
            rows += self._decided(length, step, asking, symbol, chosen, totals)
        return rows

    def _totals(
        self, head: int, asking: int, length: int, step: int, where: list[tuple[int, int]], here: tuple[int, int]
    ) -> list[list[arb]]:
        """[string][token]: sums of weights."""
        model, place = self.model, self.parts.place

        def weight(token: int, index: int) -> arb:
            row, column = where[index]
            return self.weight(head, asking, token, row - here[0], column - here[1])

        first = len(model.prefix)
        fixed = [arb(0)] * len(place)
        for index, token in enumerate(model.prefix):
            fixed[place[token]] += weight(token, index)
        for index, token in enumerate(model.infix, first + length):
            fixed[place[token]] += weight(token, index)
        copied = first + length + len(model.infix)
        sums = [fixed]
        for j in range(length):
            longer = []
            for symbol in (0, 1):
                token = model.data[symbol]
                amount = weight(token, first + j)
                if j + 1 < step:
                    amount = amount + weight(token, copied + j)
                for known in sums:
                    line = list(known)
                    line[place[token]] = line[place[token]] + amount
                    longer.append(line)
            sums = longer
        return sums

    def _decided(
        self, length: int, step: int, asking: int, symbol: int, chosen: list[int], totals: list[list[list[arb]]]
    ) -> list[Row]:
        model, competitors = self.model, tuple(self.model.competitors(symbol))
        direct = self.parts.direct(asking, symbol)
        denominators = [[sum(by_string[s], arb(0)) for s in chosen] for by_string in totals]
        if model.heads == 1:
            # What the query adds by itself joins the votes first: a vote that it cancels is then exactly 0.
            votes = [[x + d for x, d in zip(line, direct, strict=True)] for line in self.votes[0, symbol]]
            numerators = _lines(arb_mat([totals[0][s] for s in chosen]) * arb_mat(votes))
            sizes = _lines(arb_mat([totals[0][s] for s in chosen]) * arb_mat([[_largest(line)] for line in votes]))
            differences = [[n / d for n in line] for line, d in zip(numerators, denominators[0], strict=True)]
            bounds = [line[0] / d for line, d in zip(sizes, denominators[0], strict=True)]
        else:
            differences = [list(direct) for _ in chosen]
            bounds = [_largest(direct) for _ in chosen]
            for head in range(model.heads):
                votes = self.votes[head, symbol]
                weights = arb_mat([totals[head][s] for s in chosen])
                numerators, sizes = (
                    _lines(weights * arb_mat(votes)),
                    _lines(weights * arb_mat([[_largest(v)] for v in votes])),
                )
                for index, d in enumerate(denominators[head]):
                    differences[index] = [x + n / d for x, n in zip(differences[index], numerators[index], strict=True)]
                    bounds[index] += sizes[index][0] / d
        gaps: list[arb | None] = [None] * len(chosen)
        if self.half:
            gaps = [
                self._gap(asking, [w / d for w in totals[0][s]], line)
                for s, d, line in zip(chosen, denominators[0], differences, strict=True)
            ]
        return [
            Row(length, step, s, competitors, tuple(line), gap, bound)
            for s, line, gap, bound in zip(chosen, differences, gaps, bounds, strict=True)
        ]

    def _gap(self, asking: int, shares: list[arb], differences: list[arb]) -> arb:
        """1 minus the competitors' odds; -1 or the difference itself where its sign says as much."""
        if self.model.outputs == 2:
            return differences[0]
        if any(value <= 0 for value in differences):
            return arb(-1)
        factor = self._last_factor(asking, shares)
        return 1 - sum(((-value * factor).exp() for value in differences), arb(0))

    @cached_property
    def _spoken(self) -> tuple[arb_mat, arb_mat]:
        """By token the value, and the value after the output map; the first head's."""
        parts = self.parts
        values = arb_mat([[x * f for x in line] for line, f in zip(parts.values[0], parts.factors, strict=True)])
        return values, values * parts.outputs[0]

    def _last_factor(self, asking: int, shares: list[arb]) -> arb:
        """The factor of sub-norm and final norm on the logits of one head."""
        model, mean = self.model, arb_mat([shares])
        values, reached = self._spoken
        factor, out = arb(1), _lines(mean * reached)[0]
        if model.sub_norm:
            said = _lines(mean * values)[0]
            square = sum((x * x for x in said), arb(0))
            if square != 0:
                factor = (square / len(said) if model.sub_norm == "mean" else square).rsqrt()
            out = [x * factor for x in out]
        if model.residual:
            own = _lines(self.parts.embedding)[self.parts.place[asking]]
            out = [x + y for x, y in zip(out, own, strict=True)]
        if model.final_gain is not None:
            factor *= (sum((x * x for x in out), arb(0)) / len(out) + _rational(model.epsilon)).rsqrt()
        return factor


def _largest(values: Sequence[arb]) -> arb:
    result = abs(values[0])
    for value in values[1:]:
        result = result.max(abs(value))
    return result


def slow_differences(model: PlainModel, string: Sequence[int], step: int, bits: int = LADDER[0]) -> list[arb]:
    """Logit differences of one step, before the norms after attention, from the definition without any sharing.

    Cost: O(tokens width) ball operations.
    """
    with ctx.workprec(bits):
        parts = _Parts(model)
        seen = [*model.prefix, *(model.data[s] for s in string), *model.infix]
        seen += [model.data[s] for s in string[: step - 1]]
        where, symbol = places(model, seen), string[step - 1]
        differences = parts.direct(seen[-1], symbol)
        for head in range(model.heads):
            turned = _turned(model, parts.queries[head][parts.place[seen[-1]]], where[-1])
            width = len(parts.values[head][0])
            total, said = arb(0), [arb(0)] * width
            for token, place in zip(seen, where, strict=True):
                key = _turned(model, parts.keys[head][parts.place[token]], place)
                score = sum((x * y for x, y in zip(turned, key, strict=True)), arb(0)) * _rational(model.score_scale)
                if model.slopes:
                    score -= _rational(model.slopes[head] * (where[-1][1] - place[1]))
                weight = score.exp()
                total += weight
                factor = parts.factors[parts.place[token]] * weight
                said = [x + factor * y for x, y in zip(said, parts.values[head][parts.place[token]], strict=True)]
            line = arb_mat([[x / total for x in said]]) * parts.outputs[head] * parts.reading(symbol)
            differences = [x + y for x, y in zip(differences, _lines(line)[0], strict=True)]
        return differences


def _turned(model: PlainModel, vector: list[arb], place: tuple[int, int]) -> list[arb]:
    turns = [(f, place[0]) for f in model.row] + [(f, place[1]) for f in model.column]
    result = list(vector)
    for pair, (frequency, distance) in enumerate(turns):
        cosine, sine = _turning(frequency, distance)
        x, y = vector[2 * pair : 2 * pair + 2]
        result[2 * pair], result[2 * pair + 1] = x * cosine - y * sine, x * sine + y * cosine
    return result
