"""Bisection: how far a statement holds that, once false, stays false."""

from fractions import Fraction
from math import sqrt

from hypothesis import given
from hypothesis import strategies as st

from theory.numbers import furthest, halved, last_true

WHOLE = st.integers(0, 10**6)


@given(WHOLE, WHOLE, WHOLE)
def test_the_last_integer_is_found(low: int, more: int, beyond: int) -> None:
    last, asked = low + more, []

    def holds(n: int) -> bool:
        asked.append(n)
        return n <= last

    assert last_true(holds, low, last + 1 + beyond) == last
    # Neither end is asked, and no more than bisection has to.
    assert all(low < n < last + 1 + beyond for n in asked) and len(asked) <= (more + 1 + beyond).bit_length()


@given(st.integers(0, 3000), st.integers(1, 2000), st.integers(1, 5000), st.integers(2, 16))
def test_the_furthest_is_found_whatever_the_first_guess(last: int, most: int, first: int, growth: int) -> None:
    asked: list[int] = []
    assert furthest(lambda n: not asked.append(n) and n <= last, most, first=first, growth=growth) == min(last, most)
    assert all(1 <= n <= most for n in asked) and len(asked) == len(set(asked))


@given(st.integers(1, 10**12), st.integers(2, 1000))
def test_with_digits_it_stops_near_the_last_one(last: int, digits: int) -> None:
    found = furthest(lambda n: n <= last, 10**15, growth=16, digits=digits)
    assert found <= last and (last - found) * digits <= max(digits, 2 * last)


def test_halving_encloses_the_root_in_fractions_and_in_geometric_means() -> None:
    low, high = halved(lambda x: x * x < 2, Fraction(1), Fraction(2), 30)
    assert low * low < 2 <= high * high and high - low == Fraction(1, 2**30)
    low, high = halved(lambda x: x**3 < 1e9, 1.0, 1e12, 60, lambda low, high: sqrt(low * high))
    assert low <= 1000 <= high and high / low < 1 + 1e-12
