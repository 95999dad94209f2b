"""Sums in floats and their bounds, against rationals: many terms, terms that cancel, and every scale that is free."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import inf, nan

import numpy as np
import pytest
from flint import arb

from theory import (
    GridFrequencies,
    GridScore,
    InputError,
    TableModel,
    Template,
    Turn,
    VacuousBallError,
    certify_table,
    draw_grid_frequencies,
    exact_length,
    head_length,
    sample_strings,
)
from theory.grid import columns_below
from theory.grid._resonances import _Scan
from theory.minimisers import HeadWeights, PopulationLoss, population_excess_bounds
from theory.minimisers._log_programme import LogProgramme, least_log_sum
from theory.minimisers._loss_bound import undiluted_factor
from theory.numbers import require_width

#: Amplitudes of many pairs with sums known as rationals.
SERIES: dict[str, Callable[[int], Fraction]] = {
    "equal": lambda f: Fraction(1),
    "alternating": lambda f: Fraction((-1) ** (f // 4)),
    "geometric": lambda f: Fraction(1, 2 ** min(f, 300)),
    "unequal": lambda f: Fraction((-1) ** (f // 4), f % 50 + 1),
    "one large": lambda f: Fraction(10**30) if f == 0 else Fraction((-1) ** f, 3),
}

#: cos and sin of quarter turns.
QUARTERS = ((1, 0), (0, 1), (-1, 0), (0, -1))


def quarter_score(count: int, series: str, scale: Fraction = Fraction(1)) -> GridScore:
    """`count` pairs whose angles are quarter turns: pair f turns by f mod 4 quarters a column."""
    amplitude = SERIES[series]
    column = tuple((scale * amplitude(f), scale * amplitude(f + 1) / 2) for f in range(count))
    turns = tuple(Turn(Fraction(f % 4, 4)) for f in range(count))
    frequencies = GridFrequencies((Turn(Fraction(1, 3)),), turns)
    return GridScore(frequencies, ((scale, Fraction(0)),), column, (0, 0), 2, 3)


def exact_sums(score: GridScore) -> list[Fraction]:
    """`sum A cos + B sin` at a column, as a rational, by the column modulo 4."""
    return [_exact_sum(score, distance) for distance in range(4)]


def _exact_sum(score: GridScore, distance: int) -> Fraction:
    total = Fraction(0)
    for f, (a, b) in enumerate(score.column):
        cosine, sine = QUARTERS[f % 4 * distance % 4]
        total += a * cosine + b * sine
    return total


@pytest.mark.slow
@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("count", [1, 7, 100, 10_000])
def test_float_sums_are_within_their_bound_of_the_rationals(series: str, count: int) -> None:
    score = quarter_score(count, series)
    scan = _Scan(score, 0, offsets=3)
    weight = sum(abs(a) + abs(b) for a, b in score.column)
    # W is scaled by a power of two to a number from 1/4 to 1/2.
    unit = Fraction(1)
    while weight * unit > Fraction(1, 2):
        unit /= 2
    while weight * unit <= Fraction(1, 4):
        unit *= 2
    sums = exact_sums(score)
    for sign in (1, -1):
        found = scan._sums(range(1, 7, 3), sign)
        assert 0 < found.error < (4 * count + 11) * 2.0**-53
        for row, start in enumerate(range(1, 7, 3)):
            for offset in range(3):
                exact = sums[sign * (start + offset) % 4] * unit
                assert abs(Fraction(float(found.values[row, offset])) - exact) <= Fraction(found.error)


@pytest.mark.slow
@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("count", [1, 7, 1000])
@pytest.mark.parametrize("exponent", [-500, 0, 500])
def test_no_column_below_the_cut_is_left_out_at_any_scale(series: str, count: int, exponent: int) -> None:
    score = quarter_score(count, series, Fraction(2) ** exponent)
    sums = exact_sums(score)
    gaps = {sign * k: sums[0] - sums[sign * k % 4] for k in range(1, 6) for sign in (1, -1)}
    for cut in (0, 1, 50):
        listed = columns_below(score, cut, 6, 100)
        assert listed is not None
        assert {column for column, gap in gaps.items() if gap < cut} <= set(listed)
        weight = sum(abs(a) + abs(b) for a, b in score.column)
        clear = (8 * count + 40) * weight / 2**53
        assert not {column for column, gap in gaps.items() if gap > cut + clear} & set(listed)


@pytest.mark.parametrize("series", SERIES)
def test_the_scan_s_floats_do_not_depend_on_the_scale(series: str) -> None:
    plain = _Scan(quarter_score(60, series), 0, offsets=4)._sums(range(1, 9, 4), -1)
    for exponent in (-5000, -1080, -500, 500, 1080, 5000):
        scaled = _Scan(quarter_score(60, series, Fraction(2) ** exponent), 0, offsets=4)._sums(range(1, 9, 4), -1)
        assert np.array_equal(plain.values, scaled.values)
        assert plain.error == scaled.error


def test_a_sum_and_a_bound_about_different_terms_are_refused() -> None:
    scan = _Scan(quarter_score(8, "equal"), 0, offsets=4)
    scan.offsets = scan.offsets[:-2]
    with pytest.raises(ValueError, match="terms"):
        scan._sums(range(1, 5, 4), 1)


def test_sums_that_are_no_numbers_are_listed() -> None:
    scan = _Scan(quarter_score(8, "equal"), 0, offsets=4)
    scan.offsets = np.full_like(scan.offsets, nan)
    assert scan.block(1, 4) == [[1, 2, 3, 4], [-1, -2, -3, -4]]


def test_amplitudes_of_zero_leave_every_column_at_gap_zero() -> None:
    zero = (Fraction(0), Fraction(0))
    frequencies = GridFrequencies((Turn(Fraction(1, 3)),), (Turn(Fraction(1, 5)),))
    score = GridScore(frequencies, ((Fraction(1), Fraction(0)),), (zero,), (0, 0), 2, 3)
    assert columns_below(score, 1, 6, 100) is not None
    assert exact_length(score, 100).length == 1


SCALES = (-500, -40, 40, 500)


def small_head(d: int = 8, a: int = 1) -> HeadWeights:
    generator = np.random.default_rng(3)
    tokens = 2 * a + 4
    values = generator.uniform(-0.1, 0.1, tokens)
    values[:2] = 1.0, -1.0
    shared = generator.uniform(1, 2, d)
    keys = np.tile(shared, (tokens, 1)) + generator.uniform(-0.1, 0.1, (tokens, d))
    return HeadWeights(np.tile(shared, (3, 1)), keys, values)


@pytest.mark.parametrize("exponent", SCALES)
def test_the_length_of_a_head_does_not_depend_on_the_scale_of_its_values(exponent: int) -> None:
    frequencies, head = draw_grid_frequencies(8, 0, 0), small_head()
    plain = head_length(frequencies, 1, head, 30)
    factor = 2.0**exponent
    assert head_length(frequencies, 1, head._replace(values=head.values * factor), 30) == plain
    other = head._replace(queries=head.queries * factor, keys=head.keys / factor)
    assert head_length(frequencies, 1, other, 30) == plain


def copying_table(factor: Fraction, height: int = 8) -> TableModel:
    def score(query: int, key: int, q: tuple[int, int, int], k: tuple[int, int, int]) -> int:
        return height if q[0] - k[0] == 1 and k[1] == q[1] + 1 else 0

    values = {0: (factor, 0), 1: (0, factor), 2: (0, 0), 3: (0, 0), 4: (0, 0)}
    return TableModel(Template((2,), (3, 4), ends=frozenset({3})), score, values)


@pytest.mark.parametrize("exponent", [-5000, -1074, *SCALES])
@pytest.mark.parametrize("height", [0, 8])
def test_a_table_s_verdict_does_not_depend_on_the_scale_of_its_votes(exponent: int, height: int) -> None:
    plain = certify_table(copying_table(Fraction(1), height), 4)
    found = certify_table(copying_table(Fraction(2) ** exponent, height), 4)
    assert (found.status, found.proved_to, found.fails_at) == (plain.status, plain.proved_to, plain.fails_at)
    assert plain.status == ("PROVED" if height else "REFUTED")
    if found.status == "PROVED":
        assert found.margin > 0
        assert found.margin_below is None or found.margin_below >= 0
    else:
        assert found.margin <= 0


@pytest.mark.parametrize("wrong", [nan, inf, -inf])
def test_weights_that_are_not_finite_are_refused(wrong: float) -> None:
    frequencies, head = draw_grid_frequencies(8, 0, 0), small_head()
    loss = PopulationLoss(frequencies, 1, 3)
    for name in head._fields:
        part = np.array(getattr(head, name))
        part.flat[1] = wrong
        bad = head._replace(**{name: part})
        for attempt in (
            lambda bad=bad: head_length(frequencies, 1, bad, 10),
            lambda bad=bad: population_excess_bounds(frequencies, 1, 3, bad, Fraction(2)),
            lambda bad=bad: loss.loss(bad),
            lambda bad=bad: loss.excess(bad, 2.0),
            lambda bad=bad: loss.string_excesses(bad, 2.0),
        ):
            with pytest.raises(InputError, match=f"{name} = .*finite"):
                attempt()


@pytest.mark.parametrize("wrong", [nan, inf, -inf])
def test_numbers_that_are_not_finite_prove_nothing(wrong: float) -> None:
    with pytest.raises(VacuousBallError):
        require_width(arb(wrong), Fraction(10**9), "a ball")
    assert undiluted_factor(arb(nan), arb(1), arb(1)) == 0
    assert undiluted_factor(arb(1), arb(1), arb(nan)) == 0
    with pytest.raises(InputError, match="flip_probability"):
        sample_strings("repeat-structure", 8, 1, 0, flip_probability=wrong)
    for broken in (
        LogProgramme(np.array([[[wrong, 1.0]]]), np.zeros(1), np.ones((1, 2), dtype=bool)),
        LogProgramme(np.array([[[0.0, 1.0]]]), np.array([wrong]), np.ones((1, 2), dtype=bool)),
    ):
        with pytest.raises(InputError, match="finite"):
            least_log_sum(broken)
    table = copying_table(Fraction(1))
    with pytest.raises(InputError, match="finite"):
        certify_table(replace(table, values={**table.values, 0: (wrong, 0)}), 2)
