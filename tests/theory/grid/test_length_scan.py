"""The exact length bound: against a slow scan in high precision by separate code, at ties, near ties, and where it
must not guess.
"""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from theory import (
    BasePower,
    Frequency,
    GridFrequencies,
    GridScore,
    InputError,
    Radian,
    Turn,
    base_grid_frequencies,
    draw_grid_frequencies,
    exact_length,
    ideal_grid_score,
)
from theory.grid import columns_below, resonance_columns_exact, step_weights
from theory.numbers import ball, working_precision


def mp_turns(frequency: Frequency) -> mpmath.mpf:
    if isinstance(frequency, BasePower):
        exponent = mpmath.mpf(frequency.exponent.numerator) / frequency.exponent.denominator
        return mpmath.mpf(frequency.base.numerator) ** exponent / (2 * mpmath.pi)
    value = mpmath.mpf(frequency.value.numerator) / frequency.value.denominator
    return value if isinstance(frequency, Turn) else value / (2 * mpmath.pi)


def slow_length(frequencies: GridFrequencies, scale: Fraction, a: int, b: int, limit: int) -> int | None:
    """The least n whose worst step fails, minus 1, in 60 digits, adding up every term of the condition; None if
    above the limit.
    """
    mpmath.mp.dps = 60
    s = mpmath.mpf(scale.numerator) / scale.denominator
    columns, rows = [mp_turns(f) for f in frequencies.column], [mp_turns(f) for f in frequencies.row]

    def weight(row: int, column: int) -> mpmath.mpf:
        lost = sum(1 - mpmath.cospi(2 * t * row) for t in rows) + sum(1 - mpmath.cospi(2 * t * column) for t in columns)
        return mpmath.exp(-s * lost)

    before, after = [mpmath.mpf(0)], [mpmath.mpf(0)]
    for n in range(1, limit + 1):
        if any(before[i - 1] + after[n - i] >= 1 for i in range(1, n + 1)):
            return n - 1
        before.append(before[-1] + weight(0, -n) + weight(1, b - a - 1 - n))
        after.append(after[-1] + weight(0, n))
    return None


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.integers(0, 10**6),
    st.sampled_from([4, 8]),
    st.integers(1, 4),
    st.integers(2, 6),
    st.fractions(Fraction(1, 2), 40, max_denominator=50),
)
def test_exact_bound_agrees_with_a_slow_scan(seed: int, d: int, a: int, b: int, scale: Fraction) -> None:
    frequencies = draw_grid_frequencies(d, seed, 0, bits=64)
    expected = slow_length(frequencies, scale, a, b, 120)
    found = exact_length(ideal_grid_score(frequencies, scale, a, b), 120)
    assert found.status == "PROVED"
    assert found.length == expected if expected is not None else found.exceeds_limit


@pytest.mark.parametrize("frequencies", [
    GridFrequencies((Radian(Fraction(1)),), (Radian(Fraction(2)),)),
    GridFrequencies((Turn(Fraction(1, 7)),), (Turn(Fraction(3, 11)), Turn(Fraction(2, 5)))),
    base_grid_frequencies(Fraction(10000), 8),
    base_grid_frequencies(Fraction(3, 2), 4),
])  # fmt: skip
@pytest.mark.parametrize("scale", [Fraction(2), Fraction(37, 3)])
def test_every_unit_agrees_with_a_slow_scan(frequencies: GridFrequencies, scale: Fraction) -> None:
    expected = slow_length(frequencies, scale, 2, 3, 150)
    found = exact_length(ideal_grid_score(frequencies, scale, 2, 3), 150)
    assert found.length == expected if expected is not None else found.exceeds_limit


def test_a_longer_scan_agrees_at_two_frequencies() -> None:
    frequencies = draw_grid_frequencies(8, 7, 0)
    scale = Fraction(120)
    expected = slow_length(frequencies, scale, 2, 3, 1500)
    assert expected is not None and expected > 100
    assert exact_length(ideal_grid_score(frequencies, scale, 2, 3)).length == expected


@pytest.mark.slow
def test_the_witness_fails_and_the_length_before_it_does_not() -> None:
    for k in range(10):
        score = ideal_grid_score(draw_grid_frequencies(8, 11, k), Fraction(9), 2, 3)
        found = exact_length(score)
        assert found.fails is not None and found.length == found.fails.length - 1
        string = np.zeros(found.fails.length, dtype=np.int64)
        string[found.fails.flip_position - 1] = 1
        weights = step_weights(score, string, found.fails.step)
        assert weights.wrong >= weights.right
        for step in range(1, found.length + 1, max(1, found.length // 7)):
            flip = np.zeros(found.length, dtype=np.int64)
            flip[step - 1] = 1
            weights = step_weights(score, flip, step)
            assert weights.wrong < weights.right


def test_an_exact_tie_counts_as_failing() -> None:
    # All column angles are whole turns: every wrong source weighs exactly 1, so length 2 ties at step 1 (one wrong
    # source, no output yet).
    whole = GridFrequencies((Turn(Fraction(1, 2)),), (Turn(Fraction(0)),))
    found = exact_length(ideal_grid_score(whole, Fraction(5), 2, 3), 100)
    assert (found.length, found.status) == (1, "PROVED")
    assert found.fails is not None and found.fails.length == 2


def test_a_53_bit_fraction_is_periodic_and_said_to_be() -> None:
    # As the number it is, 3/2^5 turns comes full circle after 32 columns, whatever the scale.
    periodic = GridFrequencies((Turn(Fraction(1, 3)),), (Turn(Fraction(3, 2**5)), Turn(Fraction(5, 2**5))))
    assert exact_length(ideal_grid_score(periodic, Fraction(10**9), 2, 3), 1000).length == 32
    irrational = GridFrequencies((Turn(Fraction(1, 3)),), (Radian(Fraction(3, 5)), Radian(Fraction(5, 7))))
    assert exact_length(ideal_grid_score(irrational, Fraction(10**9), 2, 3), 1000).exceeds_limit


TIE = GridFrequencies((Turn(Fraction(1, 2)),), (Turn(Fraction(2, 5)),))


def near_tie_scale(digits: int) -> tuple[Fraction, Fraction]:
    """Scales just below and above the one at which length 3 ties at step 3, its worst: (e(1) + e(2)) (1 + exp(-2S))
    = 1 for TIE, a = 2, b = 3.
    """
    mpmath.mp.dps = digits + 30
    costs = [1 - mpmath.cospi(2 * mp_turns(TIE.column[0]) * k) for k in (1, 2)]
    s = mpmath.findroot(lambda s: sum(mpmath.exp(-s * cost) for cost in costs) * (1 + mpmath.exp(-2 * s)) - 1, 1)
    below = Fraction(int(mpmath.floor(s * mpmath.mpf(10) ** digits)), 10**digits)
    return below, below + Fraction(1, 10**digits)


@pytest.mark.parametrize("digits", [10, 40, 200])
def test_near_ties_are_decided_on_the_right_side(digits: int) -> None:
    below, above = (exact_length(ideal_grid_score(TIE, scale, 2, 3), 3) for scale in near_tie_scale(digits))
    assert (below.status, below.length) == ("PROVED", 2)
    assert (above.status, above.exceeds_limit) == ("PROVED", True)


def test_a_tie_beyond_the_precision_is_undecided_not_guessed() -> None:
    for scale in near_tie_scale(2000):
        found = exact_length(ideal_grid_score(TIE, scale, 2, 3), 3)
        assert found.status == "UNDECIDED"
        assert found.lower == 2 and found.length is None and not found.exceeds_limit


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([4, 8, 12]), st.integers(-5, 6), st.integers(1, 40), st.booleans())
def test_the_float_scan_misses_no_resonance(seed: int, d: int, magnitude: int, cut: int, tilted: bool) -> None:
    frequencies = draw_grid_frequencies(d, seed, 0)
    scale = Fraction(10) ** magnitude
    tilt = scale / 7 if tilted else Fraction(0)
    m = d // 4
    score = GridScore(
        frequencies, ((scale, Fraction(0)),) * m, ((scale, tilt),) * m, (-1, 2) if tilted else (0, 0), 2, 3
    )
    listed = columns_below(score, cut, 401, 10**6)
    assert listed is not None and len(set(listed)) == len(listed)
    # Nothing below the cut is missed, and little above it is listed.
    assert set(resonance_columns_exact(score, Fraction(cut), 400).tolist()) <= set(listed)
    with working_precision(128):
        slack = ball(scale) * m * arb(2) ** -40
        assert all(score.column_gap(k) < cut + slack for k in listed)


def test_the_float_scan_would_notice_a_bound_made_too_small() -> None:
    # The same table with a cut lowered by more than the margin misses resonances, so the test above can fail.
    score = ideal_grid_score(draw_grid_frequencies(8, 1, 0), Fraction(3), 2, 3)
    wanted = set(resonance_columns_exact(score, Fraction(4), 400).tolist())
    assert wanted - set(columns_below(score, 3, 400, 10**6) or [])


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["1e-300", "1e300", "1e400", "1e5000"])
def test_no_scale_leaves_the_range_of_the_float_scan(scale: str) -> None:
    """1/8193 turns come full circle at a column that begins a block, where the float angle is not exactly 0."""
    frequencies = GridFrequencies((Turn(Fraction(1, 7)),), (Turn(Fraction(1, 8193)),))
    found = exact_length(ideal_grid_score(frequencies, Fraction(scale), 2, 3), 10_000)
    assert found.length == (8193 if "-" not in scale else 1)


def test_large_frequencies_of_every_unit_are_reduced_before_they_are_rounded() -> None:
    third = GridFrequencies((Turn(Fraction(1, 7)),), (Turn(10**60 + Fraction(1, 3)),))
    assert exact_length(ideal_grid_score(third, Fraction(100), 2, 3)).length == 3
    powers = base_grid_frequencies(Fraction("1e-400"), 8)
    found = exact_length(ideal_grid_score(powers, Fraction(40), 2, 3), 1500)
    assert found.fails is not None and found.fails.length <= 108


def test_bad_input() -> None:
    frequencies = draw_grid_frequencies(4, 0, 0)
    with pytest.raises(InputError, match="b = 1: must be at least 2"):
        ideal_grid_score(frequencies, Fraction(1), 2, 1)
    with pytest.raises(InputError, match="scale = 0"):
        ideal_grid_score(frequencies, Fraction(0), 2, 3)
    with pytest.raises(InputError, match="limit = 0"):
        exact_length(ideal_grid_score(frequencies, Fraction(1), 2, 3), 0)
    with pytest.raises(InputError, match="amplitudes = "):
        GridScore(frequencies, (), ((Fraction(1), Fraction(0)),), (0, 0), 2, 3)
