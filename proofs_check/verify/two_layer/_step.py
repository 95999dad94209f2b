"""Kind `two-layer-wrong-step`: a two-layer model, of any weights, gets a step of a short string wrong.

Both layers are run on the tokens seen, in balls. Softmax weights are taken without their common denominator, which
the normalisation of the heads' outputs takes out anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

from flint import arb

from proofs_check.verify.reading import (
    Rejected,
    Vector,
    ball,
    function_units,
    require_fields,
    require_integer,
    require_text,
    spend,
    total,
    working_precision,
)
from proofs_check.verify.two_layer._anchor_curve import bits_of, fraction_of_turn
from proofs_check.verify.two_layer._form import columns_of
from proofs_check.verify.two_layer._model import EMBEDDING, READOUT, TwoLayerModel, frequency_bits

LONGEST_STRING = 64

#: Limits of what is run: tokens seen, values of a head, nonzero weights, and turned pairs of coordinates.
MOST_TOKENS, MOST_VALUES, MOST_WEIGHTS, MOST_TURNED = 512, 64, 200_000, 10_000_000

#: Bits that scores may have before the point, and the bits behind it that are tried in turn.
MOST_SCORE_BITS, PRECISIONS = 4096, (128, 512, 2048)

_READERS = ("query", "key", "value")

Balls = dict[int, arb]


def check_two_layer_wrong_step(model: TwoLayerModel, claim: object) -> str:
    """The statement of a `two-layer-wrong-step` certificate.

    Raises:
        Rejected: the step is right, balls do not decide it, or there is too much to run.
    Cost: a microsecond or more for each pair of tokens seen and turning pair; a minute at the limits.
    """
    fields = require_fields(claim, "claim", ("string", "step"))
    string = require_text(fields["string"], "claim.string")
    if not 1 <= len(string) <= LONGEST_STRING or set(string) - {"0", "1"}:
        raise Rejected(f"claim.string is not a binary string of 1 to {LONGEST_STRING} symbols")
    step = require_integer(fields["step"], "claim.step", 1, len(string))
    symbols = [int(symbol) for symbol in string]
    _require_wrong(model, [*model.before, *symbols, *model.after, *symbols[: step - 1]], symbols[step - 1])
    return (
        f"For {model.description}: the answer of step {step} of the string {string} is not the symbol "
        f"{symbols[step - 1]} that stands there, so this string is not copied."
    )


def _require_wrong(model: TwoLayerModel, seen: Sequence[int], right: int) -> None:
    _require_affordable(model, len(seen))
    run = _Run(model, seen)
    for bits in PRECISIONS:
        with working_precision(bits + _score_bits(model)):
            logits = run.logits()
            if logits is None:
                continue
            if logits[right] <= logits[1 - right]:
                return
            if logits[right] > logits[1 - right]:
                raise Rejected("the step of the claim is right")
    raise Rejected("undecided whether the step of the claim is wrong")


def _require_affordable(model: TwoLayerModel, tokens: int) -> None:
    weights = sum(len(row) for matrix in model.file.matrices.values() for row in matrix.rows)
    if (
        tokens > MOST_TOKENS
        or model.part(0, "value").height > MOST_VALUES
        or weights > MOST_WEIGHTS
        or tokens**2 * len(model.frequencies) > MOST_TURNED
    ):
        raise Rejected("undecided: too many tokens or weights for running the layers")


def _score_bits(model: TwoLayerModel) -> int:
    """Bits of scores before the point, from |Q| |K| (|E| + |O|)^2, and of the whole turns of frequencies."""
    inside = model.matrix(EMBEDDING).square_norm() + model.part(0, "output").square_norm()
    bits = 8 + max(
        bits_of(inside) + bits_of(model.part(layer, "query").square_norm() + model.part(layer, "key").square_norm())
        for layer in (0, 1)
    )
    bits += max(frequency_bits(frequency) for frequency in model.frequencies)
    if bits > MOST_SCORE_BITS:
        raise Rejected(f"undecided: scores may have more than {MOST_SCORE_BITS} bits before the point")
    return bits


class _Turns:
    """Cosines and sines of the turning pairs at integer distances, at the working precision."""

    def __init__(self, model: TwoLayerModel) -> None:
        self._turns = [fraction_of_turn(frequency) for frequency in model.frequencies]
        self._known: dict[tuple[int, int], tuple[arb, arb]] = {}

    def value(self, f: int, even: arb, odd: arb, distance: int) -> arb:
        """`even cos + odd sin` of pair f at this distance."""
        spend(4)
        if (f, distance) not in self._known:
            spend(function_units())
            self._known[f, distance] = (2 * self._turns[f] * distance).sin_cos_pi()
        sine, cosine = self._known[f, distance]
        return even * cosine + odd * sine


class _Run:
    """The model on the tokens seen; products of matrices with embeddings are exact, and kept between precisions."""

    def __init__(self, model: TwoLayerModel, seen: Sequence[int]) -> None:
        self._model, self._seen = model, seen
        tokens = {token: model.word(token) for token in set(seen)}
        self._first, self._second = (
            {name: {t: model.part(layer, name).times(w) for t, w in tokens.items()} for name in _READERS}
            for layer in (0, 1)
        )
        columns = columns_of(model.part(0, "output"))
        self._inner = {name: [model.part(1, name).times(column) for column in columns] for name in _READERS}
        readout = model.matrix(READOUT)
        self._plain = readout.times(tokens[seen[-1]])
        self._read_first = [readout.times(column) for column in columns]
        self._read_second = [readout.times(column) for column in columns_of(model.part(1, "output"))]

    def logits(self) -> list[arb] | None:
        """Both logits at the working precision; None if a normalised vector may or may not be 0."""
        turns = _Turns(self._model)
        heads = self._first_layer(turns)
        last = None if heads is None else self._second_layer(heads, turns)
        if heads is None or last is None:
            return None
        result: Balls = {0: arb(0), 1: arb(0)}
        _add(result, self._plain, arb(1))
        for columns, head in ((self._read_first, heads[-1]), (self._read_second, last)):
            for index, x in head.items():
                _add(result, columns[index], x)
        return [result[0], result[1]]

    def _first_layer(self, turns: _Turns) -> list[Balls] | None:
        """The normalised head outputs at all tokens."""
        scores: dict[tuple[int, int, int], arb] = {}
        heads = []
        for t, query in enumerate(self._seen):
            summed: Balls = {}
            for s, key in enumerate(self._seen[: t + 1]):
                if self._first["value"][key]:
                    place = (query, key, t - s)
                    if place not in scores:
                        scores[place] = self._first_weight(query, key, t - s, turns)
                    _add(summed, self._first["value"][key], scores[place])
            unit = _unit(summed)
            if unit is None:
                return None
            heads.append(unit)
        return heads

    def _first_weight(self, query: int, key: int, distance: int, turns: _Turns) -> arb:
        """exp of layer 1's score."""
        q, k = self._first["query"][query], self._first["key"][key]
        turning = enumerate(self._model.turning(q, k))
        moved = (turns.value(f, ball(w.even), ball(w.odd), distance) for f, w in turning if w.square)
        return (ball(self._model.still_product(q, k)) + total(moved)).exp()

    def _second_layer(self, heads: Sequence[Balls], turns: _Turns) -> Balls | None:
        """The normalised head output at the last token."""
        last = len(self._seen) - 1
        query = self._at("query", last, heads)
        summed: Balls = {}
        for s in range(len(self._seen)):
            value = self._at("value", s, heads)
            if value:
                weight = self._second_weight(query, self._at("key", s, heads), last - s, turns)
                for index, x in value.items():
                    summed[index] = summed.get(index, arb(0)) + x * weight
        return _unit(summed)

    def _at(self, name: str, s: int, heads: Sequence[Balls]) -> Balls:
        """Query, key or value of layer 2 at the token of index s."""
        result: Balls = {}
        _add(result, self._second[name][self._seen[s]], arb(1))
        spend(self._model.still + 2 * len(self._model.frequencies) + len(heads[s]))
        for index, x in heads[s].items():
            _add(result, self._inner[name][index], x)
        return result

    def _second_weight(self, query: Balls, key: Balls, distance: int, turns: _Turns) -> arb:
        """exp of layer 2's score."""
        still, zero = self._model.still, arb(0)
        result = total(x * key[index] for index, x in query.items() if index < still and index in key)
        for f in sorted({(index - still) // 2 for index in query if index >= still}):
            x = still + 2 * f
            q_x, q_y, k_x, k_y = query.get(x, zero), query.get(x + 1, zero), key.get(x, zero), key.get(x + 1, zero)
            result += turns.value(f, q_x * k_x + q_y * k_y, q_x * k_y - q_y * k_x, distance)
        return result.exp()


def _add(result: Balls, vector: Vector, factor: arb) -> None:
    for index, entry in vector.items():
        result[index] = result.get(index, arb(0)) + ball(entry) * factor


def _unit(vector: Balls) -> Balls | None:
    """vector/|vector|, nothing for 0; None if balls do not tell whether it is 0."""
    if all(x.is_zero() for x in vector.values()):
        return {}
    length = total(x * x for x in vector.values()).sqrt()
    return {index: x / length for index, x in vector.items()} if length > 0 else None
