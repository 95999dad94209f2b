"""Separation by lattices: enclosures tight enough, never above the truth, and useless where they should be."""

from fractions import Fraction
from itertools import pairwise

import pytest
from flint import arb, fmpz_mat
from hypothesis import given, settings
from hypothesis import strategies as st

from theory import (
    GridFrequencies,
    GridScore,
    InputError,
    Radian,
    Turn,
    certify_length,
    draw_grid_frequencies,
    exact_length,
    ideal_grid_score,
)
from theory.grid import SeparationCertifier, furthest_length
from theory.grid._separation import min_gram_schmidt_square, reduce_separation_lattice, separation_generators
from theory.numbers import working_precision


def exact_min_gram_schmidt_square(basis: list[list[int]]) -> Fraction:
    """By determinants of leading Gram minors: the square of b_i* is D_i / D_(i-1)."""
    matrix = fmpz_mat(basis)
    gram = (matrix * matrix.transpose()).tolist()
    minors = [1] + [int(fmpz_mat([row[:i] for row in gram[:i]]).det()) for i in range(1, len(basis) + 1)]
    return min(Fraction(after, before) for before, after in pairwise(minors))


@settings(max_examples=40)
@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(st.lists(st.integers(-50, 50), min_size=n, max_size=n), min_size=n, max_size=n)
    )
)
def test_gram_schmidt_bound_is_below_and_tight(basis: list[list[int]]) -> None:
    with working_precision(256):
        bound = min_gram_schmidt_square(tuple(tuple(row) for row in basis))
    if fmpz_mat(basis).det() == 0:
        assert not bound > arb(2) ** -100
        return
    exact = exact_min_gram_schmidt_square(basis)
    with working_precision(400):
        assert bound <= arb(exact.numerator) / exact.denominator
        assert bound > arb(exact.numerator) / exact.denominator * (1 - arb(2) ** -100)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([4, 8, 12]), st.integers(20, 400))
def test_separation_is_below_the_least_cost(seed: int, d: int, reach: int) -> None:
    score = ideal_grid_score(draw_grid_frequencies(d, seed, 0), Fraction(1), 2, 3)
    lattice = reduce_separation_lattice(score.frequencies.column, 60, max(1, 2**60 // (10 * reach)))
    with working_precision(128):
        least = min((score.column_gap(k) for k in range(1, reach + 1)), key=lambda c: c.lower())
        assert lattice.separation(reach) <= least


def test_separation_is_not_vacuous() -> None:
    # At 30 frequencies and 10^43 columns the least C is near (10^-43)^(2/30): the certified value must be of that
    # order.
    lattice = certify_length(ideal_grid_score(draw_grid_frequencies(120, 0, 0), Fraction(10**14), 2, 3), 10**43)
    assert lattice is not None
    assert lattice.separation(10**43) > arb("1e-3")


def test_lattice_holds_its_generators_and_reduction_keeps_it() -> None:
    column = draw_grid_frequencies(24, 5, 0).column
    generators = fmpz_mat(separation_generators(column, 80, 12345))
    lattice = reduce_separation_lattice(column, 80, 12345)
    basis = fmpz_mat([list(row) for row in lattice.basis])
    assert abs(int(basis.det())) == 12345 * 2 ** (80 * 6) == abs(int(generators.det()))
    assert all(entry.q == 1 for entry in (basis.transpose().solve(generators.transpose())).entries())


@pytest.mark.slow
@pytest.mark.parametrize("k", range(4))
def test_certified_length_never_exceeds_the_exact_one(k: int) -> None:
    for d, scale in ((8, Fraction(40)), (12, Fraction(15)), (12, Fraction(60))):
        score = ideal_grid_score(draw_grid_frequencies(d, 3, k), scale, 2, 3)
        exact = exact_length(score)
        reached, _ = furthest_length(score)
        assert exact.length is not None
        assert reached <= exact.length
        assert certify_length(score, exact.length + 1) is None


def test_certificates_are_useful_at_small_sizes_too() -> None:
    scores = [ideal_grid_score(draw_grid_frequencies(12, 3, k), Fraction(1000), 2, 3) for k in range(6)]
    reached = [furthest_length(score)[0] for score in scores]
    assert min(reached) > 500


def test_largest_length_is_certified_and_a_tenth_more_is_not() -> None:
    score = ideal_grid_score(draw_grid_frequencies(16, 0, 0), Fraction(10**6), 2, 3)
    length, lattice = furthest_length(score)
    assert lattice is not None
    certifier = SeparationCertifier(score, lattice)
    assert certifier.certifies(length) and not certifier.certifies(length + length // 10)


@pytest.mark.slow
def test_a_full_circle_within_reach_is_never_certified() -> None:
    column = tuple(Turn(Fraction(k, 2**20)) for k in (3, 5, 7, 11))
    score = ideal_grid_score(GridFrequencies(column, column), Fraction(10**12), 2, 3)
    assert certify_length(score, 2**19) is not None
    assert certify_length(score, 2**20 + 1) is None
    assert exact_length(score, 2 * 2**20).length == 2**20


def test_a_draw_of_53_bits_is_the_periodic_number_that_it_is() -> None:
    """At 120 dimensions fractions of 53 bits certify lengths below their period 2^53, and none at or above it."""
    score = ideal_grid_score(draw_grid_frequencies(120, 0, 0, bits=53), Fraction(10**14), 2, 3)
    length, lattice = furthest_length(score)
    assert lattice is not None and certify_length(score, 10**13) is not None
    assert length <= 2**53
    assert certify_length(score, 2**53 + 1) is None
    with working_precision(128):
        assert score.column_gap(2**53) == 0 and score.column_gap(2**53 - 1) > 0
    assert certify_length(ideal_grid_score(draw_grid_frequencies(120, 0, 0), Fraction(10**14), 2, 3), 2**60) is not None


def test_rounded_weights_with_sine_parts_are_certified_through_their_slope() -> None:
    frequencies = draw_grid_frequencies(40, 0, 0)
    scale = Fraction(10**9)
    for tilt, expected in ((scale / 10**12, True), (scale / 10, False)):
        score = GridScore(frequencies, ((scale, Fraction(0)),) * 10, ((scale, tilt),) * 10, (0, 0), 2, 3)
        assert (certify_length(score, 10**12) is not None) is expected


def test_radians_work_like_turns() -> None:
    column = tuple(Radian(Fraction(k)) for k in ("1.41421356237", "2.2360679775", "0.7320508076"))
    score = ideal_grid_score(GridFrequencies(column, column), Fraction(10**6), 2, 3)
    length, lattice = furthest_length(score)
    assert lattice is not None and length > 1000


def test_bad_length() -> None:
    with pytest.raises(InputError, match="length = 0"):
        certify_length(ideal_grid_score(draw_grid_frequencies(8, 0, 0), Fraction(1), 2, 3), 0)
