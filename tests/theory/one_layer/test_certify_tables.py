"""Score tables of any relation: verdict, margin and string against all strings, near ties included."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import arb, ctx

from tests._rounding import ULPS, gamma
from theory import CertifiedHead, InputError, TableModel, Template, certify_table, relation_named
from theory.numbers import exact_middle
from theory.one_layer import _tables as tables
from theory.task import Position

RELATIONS = ("bipe", "segatron", "absolute", "hirope", "any")


@dataclass(frozen=True)
class Drawn:
    """A table model, the lengths it is asked for, and how its scores can be had again."""

    model: TableModel
    least: int
    most: int


def drawn(relation: str, seed: int, *, outputs: int = 3, most: int = 8) -> Drawn:
    """Random rational scores by (query, key, relation), the wanted key raised; votes near +1 and -1, random elsewhere.

    Under `absolute` the wanted key is known for one length only, and that length is asked for.
    """
    g = np.random.default_rng([seed, RELATIONS.index(relation)])
    a, b = int(g.integers(1, 4)), int(g.integers(2, 5))
    order = [int(token) for token in g.permutation(a + b + 2)]
    template = Template(tuple(order[2 : a + 2]), tuple(order[a + 2 :]), (order[0], order[1]), frozenset({order[a + 2]}))
    longest = int(g.integers(3, most + 1))
    known: dict[Any, Fraction] = {}
    rise, spread = Fraction(int(g.integers(0, 60)), 10), int(g.integers(1, 30))

    def score(query: int, key: int, q: Position, k: Position) -> Fraction:
        related = (q, k) if relation == "any" else relation_named(relation).relate(q, k)
        place = (query, key, related)
        if place not in known:
            known[place] = Fraction(int(g.integers(-spread, spread + 1)), 10)
        if relation in ("any", "bipe", "segatron", "hirope"):
            wanted = q[0] - k[0] == 1 and k[1] == q[1] + a + 2 - b
        else:
            wanted = q[2] - k[2] == longest + b - 1
        return known[place] + rise * wanted

    values = {x: tuple(Fraction(int(v), 20) for v in g.integers(-6, 7, outputs)) for x in template.tokens}
    for symbol, token in enumerate(template.data):
        logits = list(values[token])
        logits[symbol] += 1
        values[token] = tuple(logits)
    direct = {x: tuple(Fraction(int(v), 40) for v in g.integers(-6, 7, outputs)) for x in template.tokens}
    least = longest if relation == "absolute" else 1
    return Drawn(TableModel(template, score, values, direct), least, longest)


def places(template: Template, length: int) -> list[Position]:
    """(row, column, index) of every token, walking along the prompt and the copy."""
    tokens = [*template.prefix, *[None] * length, *template.infix, *[None] * (length - 1)]
    result, row, column = [], 0, 0
    for index, token in enumerate(tokens):
        result.append((row, column, index))
        row, column = (row + 1, 0) if token in template.ends else (row, column + 1)
    return result


def differences(model: TableModel, length: int) -> np.ndarray:
    """Logit of the right output minus the largest other [string, step], every string, extended precision."""
    template, at = model.template, places(model.template, length)
    strings = np.array(list(product((0, 1), repeat=length)))
    data = np.array(template.data)[strings]
    around = (np.tile(tokens, (len(strings), 1)) for tokens in (template.prefix, template.infix))
    tokens = np.concatenate([part for pair in zip(around, (data, data), strict=True) for part in pair], axis=1)
    values = {x: np.array([_long(v) for v in model.values[x]]) for x in template.tokens}
    result = np.empty((len(strings), length), dtype=np.longdouble)
    for step in range(1, length + 1):
        here = len(template.prefix) + length + len(template.infix) + step - 2
        logits = np.zeros((len(strings), model.outputs), dtype=np.longdouble)
        weight = np.zeros((len(strings), 1), dtype=np.longdouble)
        for query in np.unique(tokens[:, here]).tolist():
            rows = tokens[:, here] == query
            for index in range(here + 1):
                for key in np.unique(tokens[rows, index]).tolist():
                    share = np.exp(_long(model.score(query, key, at[here], at[index])))
                    mine = rows & (tokens[:, index] == key)
                    logits[mine] += share * values[key]
                    weight[mine] += share
            logits[rows] /= weight[rows]
            if query in model.direct:
                logits[rows] += np.array([_long(v) for v in model.direct[query]])
        right = np.array(model.targets)[strings[:, step - 1]][:, None]
        wanted = np.take_along_axis(logits, right, 1)[:, 0]
        np.put_along_axis(logits, right, -np.inf, 1)
        result[:, step - 1] = wanted - logits.max(1)
    return result


def _long(value: Any) -> np.longdouble:
    fraction = Fraction(value)
    return np.longdouble(fraction.numerator) / np.longdouble(fraction.denominator)


def table_error(model: TableModel, length: int) -> float:
    """How far a difference of logits in float64 may be off: weights by their scores' roundings and exp's ulps.

    Long doubles count as float64: on some machines they are.
    """
    scores, count = 9, len(places(model.template, length))  # `drawn` makes none above 2.9 + 5.9
    sizes = [abs(Fraction(v)) for rows in (model.values, model.direct) for row in rows.values() for v in row]
    return 4 * float(max(sizes)) * gamma(2 * scores + 4 * ULPS + 2 * count + 10)


def sure_differences(model: TableModel, length: int, error: float) -> np.ndarray:
    """`differences`, those whose sign is not certain, and the least, in 50 digits."""
    table = differences(model, length)
    with mpmath.workdps(50):
        least = np.unravel_index(table.argmin(), table.shape)
        for row, step in [*np.argwhere(np.abs(table) <= error), least]:
            string = tuple(int(symbol) for symbol in f"{row:0{length}b}")
            table[row, step] = float(exact_difference(model, string, int(step) + 1))
    return table


def assert_equal_to_brute_force(case: Drawn) -> CertifiedHead:
    """Verdict, first failing length, margin up to it, its lower bound, and the string shown."""
    found = certify_table(case.model, case.most, case.least)
    error = table_error(case.model, case.most)
    by_length = {n: sure_differences(case.model, n, error) for n in range(case.least, case.most + 1)}
    fails = next((n for n, found in by_length.items() if found.min() <= 0), None)
    last = fails or case.most
    margin = float(min(table.min() for n, table in by_length.items() if n <= last))
    assert found.fails_at == fails
    assert found.status == ("PROVED" if fails is None else "REFUTED")
    assert found.proved_to == (case.most if fails is None else fails - 1)
    assert abs(found.margin - margin) <= 2 * error
    assert found.margin_below is not None
    # Bounds from 2^-40 below the margin on are tried.
    assert margin - 1e-9 * max(1, abs(margin)) < found.margin_below < margin
    worst = found.worst
    row = int("".join(map(str, worst.string.tolist())), 2)
    shown = by_length[worst.length][row, worst.step - 1]
    assert abs(float(shown) - found.margin) <= 2 * error
    return found


def nearly_tied(case: Drawn, distance: float) -> Drawn | None:
    """At the largest length alone, the third output raised until the least difference is that; None if others fail."""
    shift = Fraction(100)
    for _ in range(7):
        direct = {x: (zero, one, Fraction(two) + shift) for x, (zero, one, two) in case.model.direct.items()}
        moved = Drawn(replace(case.model, direct=direct), case.most, case.most)
        margin = certify_table(moved.model, case.most, case.most).margin
        if abs(margin - distance) <= 1e-3 * abs(distance):
            return moved
        shift += Fraction(margin) - Fraction(distance)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
def test_tables_agree_with_all_strings(relation: str) -> None:
    seen = [assert_equal_to_brute_force(drawn(relation, seed, most=8 if seed % 6 == 0 else 6)) for seed in range(48)]
    assert min(sum(found.status == status for found in seen) for status in ("PROVED", "REFUTED")) >= 8
    assert max(found.proved_to for found in seen) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("distance", [*(pytest.param(x, marks=pytest.mark.deep) for x in (1e-9, -1e-9)), 1e-15, -1e-15])
@pytest.mark.parametrize("relation", RELATIONS)
def test_near_ties_agree_with_all_strings(relation: str, distance: float) -> None:
    tied = 0
    for seed in range(16):
        case = nearly_tied(drawn(relation, seed, most=5), distance)
        if case is not None:
            tied += 1
            found = assert_equal_to_brute_force(case)
            assert (found.status == "PROVED") is (distance > 0)
            assert found.margin == pytest.approx(distance, rel=1e-3)  # as `nearly_tied` made it, by the same call
    assert tied >= 2


@pytest.mark.slow
@pytest.mark.parametrize("distance", [1e-30, -1e-30, 1e-60, -1e-60])
def test_ties_far_below_floats_agree_with_mpmath(distance: float) -> None:
    """The least difference over all strings of length 3 in 100 digits."""
    tied = 0
    for seed in range(16):
        case = nearly_tied(drawn("bipe", seed, most=3), distance)
        if case is None:
            continue
        tied += 1
        found = certify_table(case.model, 3, 3)
        with mpmath.workdps(100):
            least = min(exact_difference(case.model, string, step) for string in product((0, 1), repeat=3)
                        for step in (1, 2, 3))  # fmt: skip
            assert (found.status == "PROVED") is bool(least > 0)
            # From balls of the first precision, 128 bits or twice that, whose ball leaves 0 out; then one float.
            off = 2.0 ** (-120 if abs(distance) > 1e-32 else -248)
            assert abs(least - found.margin) <= abs(least) * gamma(2) + off
    assert tied >= 2


def exact_difference(model: TableModel, string: tuple[int, ...], step: int) -> Any:
    """Right logit minus the largest other, mpmath."""
    template = model.template
    data = [template.data[symbol] for symbol in string]
    tokens = [*template.prefix, *data, *template.infix, *data[: step - 1]]
    at = places(template, len(string))[: len(tokens)]
    shares = [mpmath.exp(_mpf(model.score(tokens[-1], x, at[-1], k))) for x, k in zip(tokens, at, strict=True)]
    logits = [
        mpmath.fdot(shares, [_mpf(model.values[x][y]) for x in tokens]) / mpmath.fsum(shares)
        + _mpf(model.direct[tokens[-1]][y])
        for y in range(model.outputs)
    ]
    return logits[string[step - 1]] - max(logits[y] for y in range(model.outputs) if y != string[step - 1])


def _mpf(value: Any) -> Any:
    fraction = Fraction(value)
    return mpmath.mpf(fraction.numerator) / fraction.denominator


@pytest.mark.slow
def test_a_source_without_its_copy_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting the copies out changes the minimum: the comparison must notice."""

    def alone(template: Template, length: int, step: int) -> Any:
        source = len(template.prefix)
        for j in range(length):
            yield (source + j,)

    # Only a worst step above 2 sees the copy of a free symbol.
    cases = [case for case in (drawn("bipe", seed, most=6) for seed in range(30))
             if assert_equal_to_brute_force(case).worst.step > 2]  # fmt: skip
    assert len(cases) >= 5
    monkeypatch.setattr(tables, "occurrences", alone)
    for case in cases:
        with pytest.raises(AssertionError):
            assert_equal_to_brute_force(case)


def test_scores_known_up_to_an_error() -> None:
    """A margin above what the error can do is decided with the truth inside; one below it stays undecided."""
    case = next(found for seed in range(40) if (found := nearly_tied(drawn("any", seed, most=4), 1e-4)) is not None)
    exact = certify_table(case.model, case.most, case.most)
    assert exact.status == "PROVED"
    statuses = []
    for error in (Fraction(1, 10**7), Fraction(1, 10)):
        shifted = replace(case.model, score=moved_by(case.model.score, error), score_error=error)
        found = certify_table(shifted, case.most, case.most)
        statuses.append(found.status)
        if found.margin_below is not None:
            assert found.margin_below < exact.margin
    assert statuses == ["PROVED", "UNDECIDED"]
    balls = replace(case.model, score=lambda *place: arb(float(case.model.score(*place)), 1e-7))
    assert certify_table(balls, case.most, case.most).status == "PROVED"
    votes = replace(case.model, value_error=Fraction(1, 100))
    assert certify_table(votes, case.most, case.most).status == "UNDECIDED"


def moved_by(score: Callable[..., Any], error: Fraction) -> Callable[..., Any]:
    return lambda query, key, q, k: score(query, key, q, k) + error * (-1) ** (q[2] + k[2] + key)


def test_scores_too_large_for_floats() -> None:
    """Scores of +-10^6: the weights' ratio is e^(10^6), which only balls carry."""
    model = copying_table(10**6)
    found = certify_table(model, 6)
    assert found.status == "PROVED"
    assert found.margin == 1.0  # all but e^(-10^6) of it
    assert certify_table(copying_table(-(10**6)), 6).fails_at == 2


def copying_table(height: int) -> TableModel:
    def score(query: int, key: int, q: Position, k: Position) -> int:
        return height if q[0] - k[0] == 1 and k[1] == q[1] + 1 else 0

    values = {0: (1, 0), 1: (0, 1), 2: (0, 0), 3: (0, 0), 4: (0, 0)}
    return TableModel(Template((2,), (3, 4), ends=frozenset({3})), score, values)


@pytest.mark.parametrize("height", [100, 800, 3000])
def test_one_symbol_outweighs_all_others(height: int) -> None:
    """Weights that differ by more than a float, or 128 bits, can hold: a ratio hides all but the largest one."""

    def score(query: int, key: int, q: Position, k: Position) -> int:
        return height if key == 0 and k[2] == 2 else 0

    # With s_2 = 0 the mean is close to that of token 0, which is the least only as long as nothing else is looked at.
    values = {0: (1, 0), 1: (0, 1), 2: (Fraction(-7, 2), 0), 3: (Fraction(-5, 2), 0)}
    direct = {token: (Fraction(1, 3), 0) for token in values}
    model = TableModel(Template((2,), (3,)), score, values, direct)
    for length in (1, 2, 3):
        found = certify_table(model, length, length)
        with mpmath.workdps(2000):
            least = min(
                exact_difference(model, string, step)
                for string in product((0, 1), repeat=length)
                for step in range(1, length + 1)
            )
            assert least < 0
            assert found.status == "REFUTED"
            assert abs(least - found.margin) <= abs(least) * gamma(2)  # from balls, rounded to a float
            assert found.margin_below is not None
            assert least - 1e-9 < found.margin_below < least


def test_bad_tables_are_refused() -> None:
    model = copying_table(3)
    for lengths in ((0, 1), (3, 4), (2001, 1), (5, 0)):
        with pytest.raises(InputError, match="length"):
            certify_table(model, *lengths)
    with pytest.raises(InputError, match="none for token 4"):
        replace(model, values=dict.fromkeys(range(4), (1, 0)))
    with pytest.raises(InputError, match="as many logits"):
        replace(model, direct={0: (1, 0, 0)})
    with pytest.raises(InputError, match="two different outputs"):
        replace(model, targets=(1, 1))
    with pytest.raises(InputError, match="at least 0"):
        replace(model, score_error=Fraction(-1))
    for bad in (float("nan"), arb("inf")):
        with pytest.raises(InputError, match="finite"):
            certify_table(replace(model, score=lambda *place, bad=bad: bad), 2)
        with pytest.raises(InputError, match="finite"):
            certify_table(replace(model, values=model.values | {3: (bad, 0)}), 2)


def roughly(known: float, votes: dict[int, int], seen: int = 2) -> TableModel:
    """All scores are 0, that of one token only up to an error; all votes are for 0, or against it."""

    def score(query: int, key: int, q: Position, k: Position) -> arb:
        return arb(0, known) if key == seen else arb(0)

    return TableModel(Template((2,), (3,)), score, {x: (vote, 0) for x, vote in votes.items()})


@pytest.mark.parametrize("known", [50.0, 200.0, 1000.0])
def test_a_sum_of_weights_whose_ball_reaches_below_0(known: float) -> None:
    """Token 2 has no vote, and a weight from e^-known to e^known: ratios keep their sign, and are as near to 0."""
    assert not arb(0, known).exp() > 0
    for sign in (1, -1):
        model = roughly(known, {0: sign, 1: -sign, 2: 0, 3: 0})
        found = certify_table(model, 1)
        assert found.status == ("PROVED" if sign > 0 else "REFUTED")
        assert (found.worst.difference > 0) is (sign > 0)
        # Nearer to 0 than at any weight that is possible: 1/(2 + w), w up to e^known.
        with ctx.workprec(64):
            least = exact_middle(arb(-known).exp())
        assert 0 < abs(found.worst.difference) <= 2 * least
        if sign > 0 and known < 700:
            assert found.margin_below is not None
            assert 0 < found.margin_below <= least
        else:
            assert found.margin_below is None


def test_weights_that_are_hardly_known_decide_nothing() -> None:
    """Every weight from e^-60 to e^60, the wanted token's against the others': a step is shown, and no verdict."""
    for error in (Fraction(60), Fraction(10**6)):
        model = replace(copying_table(3), score_error=error)
        found = certify_table(model, 2)
        assert (found.status, found.proved_to, found.margin_below) == ("UNDECIDED", 0, None)
    against = replace(roughly(0.0, {0: 1, 1: -1, 2: -1, 3: 0}), score_error=Fraction(60))
    assert certify_table(against, 2).status == "UNDECIDED"


@pytest.mark.parametrize("distance", [1e-15, 1e-60])
def test_a_proved_table_has_a_margin_above_0(distance: float) -> None:
    """And close below the least difference, however small that is."""
    tied = 0
    for seed in range(8):
        case = nearly_tied(drawn("bipe", seed, most=3), distance)
        if case is not None:
            found = certify_table(case.model, case.most, case.most)
            assert found.margin_below is not None
            assert 0.99 * found.worst.difference < found.margin_below < found.worst.difference
            tied += 1
    assert tied >= 2
