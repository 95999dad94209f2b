"""Floats that carry their bound: against exact rationals, where the true sign is known, and at every scale."""

from collections.abc import Callable
from fractions import Fraction
from math import inf

import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from theory.numbers import (
    UNIT_ROUNDOFF,
    Rounded,
    Vote,
    chosen,
    exact_middle,
    float_at_most,
    joined,
    minimum,
    nearest_float,
    prefix_sums,
    rounded_vote,
    running_minimum,
    spelled,
)
from theory.numbers._rounded import LARGEST_RELATIVE

COUNTS = (1, 2, 3, 10, 100, 1000, 10_000)

SERIES: dict[str, Callable[[int], np.ndarray]] = {
    "equal": lambda count: np.full(count, 0.1),
    "alternating": lambda count: np.where(np.arange(count) % 2 == 0, 1 / 3, 0.3),
    "geometric": lambda count: 0.99 ** np.arange(count),
    "one large": lambda count: np.where(np.arange(count) == count // 2, 1.0, 2.0**-54),
}


def known(values: np.ndarray) -> Rounded:
    """Numbers that are exactly what they are."""
    return Rounded.known(values, 0.0, 0.0)


def one_by_one(values: np.ndarray) -> Rounded:
    """The sum of the entries, each added as a series of its own: what repeated tokens do."""
    result = known(values[:1])
    for k in range(1, values.size):
        result = result + known(values[k : k + 1])
    return result


def exact_sum(values: np.ndarray) -> Fraction:
    return sum(map(Fraction, values.tolist()), Fraction(0))


ROUTES: dict[str, Callable[[np.ndarray], Rounded]] = {
    "one by one": one_by_one,
    "total": lambda values: known(values).total(),
    "prefix sums": lambda values: prefix_sums(known(values)),
}


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("route", ROUTES)
def test_sums_are_within_their_bound(route: str, series: str, count: int) -> None:
    values = SERIES[series](count)
    found = ROUTES[route](values)
    assert abs(Fraction(float(found.value[-1])) - exact_sum(values)) <= Fraction(found.error)
    assert found.error < 2.0**-38 * values.sum()


@pytest.mark.slow
def test_a_bound_that_counts_too_few_additions_is_exceeded() -> None:
    """The bound is needed: 10^4 equal terms added one by one are off by more than a depth of 16 would allow."""
    worst = 0.0
    for number in range(20):
        values = np.full(10_000, 0.1 + number / 97)
        found = one_by_one(values)
        off = abs(Fraction(float(found.value[-1])) - exact_sum(values))
        assert off <= Fraction(found.error)
        worst = max(worst, float(off) / (16 * UNIT_ROUNDOFF * found.each))
    assert worst > 1


@pytest.mark.slow
@pytest.mark.parametrize("units", [-1000, -100, -10, -1, 1, 10, 100, 1000])
@pytest.mark.parametrize("series", SERIES)
def test_a_sign_is_only_told_where_it_is_known(series: str, units: int) -> None:
    """Weights times a vote, against their exact sum: N is off 0 by so many units of roundoff."""
    values = SERIES[series](10_000)
    weight = exact_sum(values)
    against = -nearest_float(weight * (1 + units * Fraction(UNIT_ROUNDOFF)))
    terms = prefix_sums(known(values) * Vote(1.0, 0.0)) + known(np.array([1.0])) * Vote(against, 0.0)
    truth = weight + Fraction(against)
    told = float(terms.value[-1])
    assert abs(Fraction(told) - truth) <= Fraction(terms.error)
    assert not (told > terms.error and truth <= 0)
    assert not (told < -terms.error and truth >= 0)


@pytest.mark.parametrize("exponent", [-1074, -1022, -900, -537, 0, 500, 900, 1000])
def test_scaled_products_are_within_their_bound_or_have_none(exponent: int) -> None:
    values = SERIES["geometric"](1000)
    scale = nearest_float(Fraction(2) ** exponent)
    vote = Vote(scale, 0.0)
    found = (known(values) * vote).total()
    truth = sum((Fraction(v) * Fraction(scale) for v in values.tolist()), Fraction(0))
    assert found.error == inf or abs(Fraction(float(found.value[0])) - truth) <= Fraction(found.error)
    assert (found.error == inf) is (exponent == 1000)


def test_radii_and_errors_of_weights_are_carried() -> None:
    """What weights and votes are known to enters: the worst case of all of them comes near the bound, not above."""
    values, relative, off = SERIES["alternating"](100), 1e-9, 1e-12
    weights, vote = Rounded.known(values, relative, off), Vote(-0.75, 1e-10)
    found = (weights * vote).total()
    truth = sum(
        ((Fraction(v) * (1 - Fraction(relative)) - Fraction(off)) * (Fraction(-0.75) + Fraction(1e-10)))
        for v in values.tolist()
    )
    distance = abs(Fraction(float(found.value[0])) - truth)
    assert Fraction(found.error) / 2 < distance <= Fraction(found.error)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=40), st.floats(-4, 4), st.floats(-4, 4)
)
def test_minima_and_choices_are_within_their_bound(pairs: list[tuple[float, float]], a: float, b: float) -> None:
    zero, one = (known(np.array(side)) for side in zip(*pairs, strict=True))
    least = prefix_sums(minimum(zero * Vote(a, 0.0), one * Vote(b, 0.0)))
    exact = [min(Fraction(x) * Fraction(a), Fraction(y) * Fraction(b)) for x, y in pairs]
    for k, value in enumerate(least.value.tolist()):
        assert abs(Fraction(value) - sum(exact[:k], Fraction(0))) <= Fraction(least.error)
    which = np.arange(len(pairs)) % 2 == 0
    picked = joined([chosen(which, zero, one), zero]).total()
    truth = sum((Fraction(y if k % 2 == 0 else x) + Fraction(x) for k, (x, y) in enumerate(pairs)), Fraction(0))
    assert abs(Fraction(float(picked.value[0])) - truth) <= Fraction(picked.error)
    running = running_minimum(least)
    assert running.value.tolist() == [min(least.value[: k + 1].tolist()) for k in range(len(least))]


def test_what_is_too_coarse_or_too_large_has_no_bound() -> None:
    assert Rounded.known(np.ones(3), LARGEST_RELATIVE, 0.0).error == inf
    with np.errstate(over="ignore"):
        assert (known(np.full(2, 2.0**900)) * Vote(2.0**200, 0.0)).error == inf
        assert (known(np.ones(2)) * Vote(inf, 0.0)).error == inf
    assert not float("nan") > (known(np.ones(2)) * Vote(float("nan"), 0.0)).error


def test_rationals_as_floats_keep_their_sign() -> None:
    tiny, huge = Fraction(1, 2**4000), Fraction(2) ** 4000
    assert 0 < nearest_float(tiny) < 1e-300
    assert nearest_float(-tiny) < 0
    assert 1e308 < nearest_float(huge) < inf
    assert nearest_float(Fraction(0)) == 0
    assert float_at_most(tiny) == 0
    assert Fraction(float_at_most(Fraction(1, 3))) <= Fraction(1, 3) < Fraction(np.nextafter(1 / 3, 1))
    assert spelled(tiny, 3) == "7.59e-1205"
    assert spelled(Fraction(1, 4)) == "0.25"
    assert exact_middle(arb((3, 10**5))) == 3 * Fraction(2) ** 10**5
    assert exact_middle(arb((-1, -(10**9)))) == -(Fraction(1, 2) ** 10**6)
    vote = rounded_vote(arb(1) / 3)
    assert abs(Fraction(vote.value) - Fraction(1, 3)) <= Fraction(vote.radius) < Fraction(1, 2**52)
