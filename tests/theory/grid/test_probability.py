"""The probability of Theorem 4.1, its lemma, the closed forms, and Dirichlet's ceiling."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from theory import (
    GridFrequencies,
    GridScore,
    InputError,
    Turn,
    draw_grid_frequencies,
    exact_length,
    ideal_grid_score,
    prove_failure_probability,
)
from theory.grid import (
    Budget,
    cosine_constant,
    cosine_step_excess,
    dirichlet_ceiling,
    failure_bound,
    length_with_failure,
    norm_ceiling,
    paper_length,
    score_scale,
)
from theory.grid._probability import corner_signs, needed_separation, resonance_bound, single_value
from theory.numbers import TYPICAL_LENGTH, working_precision
from theory.numbers._closed_forms import CLOSED_FORMS, evaluate_in_balls

SAMPLES = 400_000


def sampled_resonances(m: int, delta: float) -> int:
    angles = np.random.default_rng(m).random((SAMPLES, m)) * 2 * np.pi
    return int(((1 - np.cos(angles)).sum(axis=1) <= delta).sum())


@pytest.mark.parametrize(("m", "delta"), [(1, 0.02), (2, 0.05), (3, 0.2), (4, 0.5)])
def test_ball_volume_is_two_sided_right(m: int, delta: float) -> None:
    """Above the truth, by no more than the curvature of the cosine and the cube's corners allow; half the exponent
    is rejected.
    """
    exact = Fraction(delta).limit_denominator(1000)
    bound = float(resonance_bound(m, exact))
    interval = binomtest(sampled_resonances(m, delta), SAMPLES).proportion_ci(confidence_level=0.9999, method="exact")
    # 1 - cos(2 pi x) >= 8 x^2 is lossy by pi^2/4 near 0, so the probability is the bound over (pi/2)^m, a little more.
    truth = bound / (np.pi / 2) ** m
    assert interval.low <= truth * (1 + delta) and truth * (1 - 0.01) <= interval.high
    assert interval.high <= bound
    halved = float(resonance_bound(m, exact)) ** 0.5 / (np.pi / 2) ** m
    assert not interval.low <= halved * (1 + delta) or not halved <= interval.high


@settings(max_examples=60)
@given(
    st.integers(28, 400),
    st.fractions(Fraction(1, 100), 60),
    st.sampled_from(["paper", "three-tokens"]),
    st.integers(1, 10),
    st.integers(2, 10),
)
def test_the_inequality_chain_holds_point_by_point(m: int, above: Fraction, budget: str, a: int, b: int) -> None:
    """The universal claim, evaluated without the chain at single points: d/rho is never exceeded."""
    a, b = min(a, max(1, m - 27)), 2 if m < 40 else b
    d = 4 * m
    if d < 100 + 4 * a + 4 * b:
        return
    rho = Fraction(d**2) * (1 + above)
    exponent = {"paper": Fraction(1, 3), "three-tokens": Fraction(7, 20)}[budget]
    with working_precision(256):
        assert (
            failure_bound(paper_length(rho, d, exponent), rho, d, a, b, budget)
            < arb(d) / arb(rho.numerator) * rho.denominator
        )


@pytest.mark.parametrize(
    ("budget", "exponent"), [("paper", Fraction(1, 12)), ("paper", Fraction(1, 3)), ("three-tokens", Fraction(7, 20))]
)
def test_the_universal_claims_are_proved_with_narrow_balls(budget: Budget, exponent: Fraction) -> None:
    proof = prove_failure_probability(exponent, budget)
    assert proof is not None
    signs = (proof.corner.slope_in_rho, proof.corner.slope_in_d, proof.corner.value, proof.largest_single)
    assert all(sign is None or (sign < 0 and sign.rad() < 1e-50) for sign in signs)
    # Far out too, where the corner has to decide alone.
    assert prove_failure_probability(exponent, budget, 4000) is not None


def test_larger_exponents_are_not_proved_and_one_half_is_out_of_reach() -> None:
    for budget, exponent in (("paper", Fraction(3, 8)), ("three-tokens", Fraction(7, 16)), ("paper", Fraction(1, 2))):
        assert prove_failure_probability(exponent, budget) is None
        assert not corner_signs(exponent, budget, 4000).proved
    # At exponent 1/2 the union bound itself exceeds 1 at the corner, so no sharper chain would save it.
    with working_precision(256):
        rho = Fraction(112**2 + 1)
        assert failure_bound(paper_length(rho, 112, Fraction(1, 2)), rho, 112, 1, 2, "paper") > 1


@pytest.mark.parametrize("budget", ["paper", "three-tokens"])
@pytest.mark.parametrize("m", [28, 40, 74])
def test_the_single_value_is_above_the_union_bound(budget: Budget, m: int) -> None:
    """H(m) against the union bound evaluated directly at the corner rho = d^2, at the largest V and at V = 3."""
    exponent, d, rho = Fraction(1, 3), 4 * m, Fraction((4 * m) ** 2)
    a = m - 27
    with working_precision(256):
        direct = (failure_bound(paper_length(rho, d, exponent), rho, d, a, 2, budget) * int(rho) / d).log()
        assert direct < single_value(exponent, budget, m) < direct + m


def test_needed_separation_is_enough() -> None:
    """L/(L+1) + (L-1)/(L+1)^2 < 1 with every weight at its largest: the sum over wrong keys is below 1."""
    for length in (1, 2, 3, 10, 10**6):
        weight = Fraction(1, length + 1)
        worst = (length - 1) * weight + (length - 1) * weight * weight + weight
        assert worst < 1
        with working_precision(128):
            assert abs((-needed_separation(length, Fraction(7)) * 7).exp() * (length + 1) - 1) < arb(2) ** -100


def test_length_with_failure_brackets_the_probability() -> None:
    probability = Fraction(120, 20000)
    length = length_with_failure(probability, Fraction(20000), 120, 2, 3, "three-tokens")
    assert len(str(length)) - 1 == 187
    assert failure_bound(length, Fraction(20000), 120, 2, 3, "three-tokens") <= arb(0.006)
    assert failure_bound(length + length // 50, Fraction(20000), 120, 2, 3, "three-tokens") > arb(0.006)


@pytest.mark.slow
def test_failure_bound_is_above_the_sampled_frequency_of_failures() -> None:
    """A small case with many draws: exact n* of 1200 draws against the union bound; one with twice the exponent is
    exceeded.
    """
    rho, d, length, draws = Fraction(12), 8, 60, 1200
    scale = score_scale(rho, d, 2, 3, "three-tokens")
    scores = (ideal_grid_score(draw_grid_frequencies(d, 0, k, 64), scale, 2, 3) for k in range(draws))
    failures = sum(not exact_length(score, length).exceeds_limit for score in scores)
    bound = float(failure_bound(length, rho, d, 2, 3, "three-tokens"))
    events = length + 2 + 3 + 1
    low = binomtest(failures, draws).proportion_ci(confidence_level=0.999, method="exact").low
    assert bound < 1
    assert low <= bound
    assert not low <= events * (bound / events) ** 2


@pytest.mark.slow
def test_typical_length_is_near_the_median() -> None:
    """A sampled statement: median n* over (2 pi S)^(d/8) stays within a factor of two."""
    for d, scale in ((4, Fraction(900)), (8, Fraction(60)), (12, Fraction(20))):
        lengths = sorted(
            exact_length(ideal_grid_score(draw_grid_frequencies(d, 1, k, 128), scale, 2, 3)).lower for k in range(21)
        )
        typical = float(TYPICAL_LENGTH.ball(S=scale, d=d))
        assert 0.5 < lengths[10] / typical < 2


@pytest.mark.parametrize(
    ("rho", "d", "expected"), [(20000, 120, 1024 * 10**40), (27, 4, 3), (26, 4, 2), (10, 12, 10), (2, 4, 1)]
)
def test_paper_length_is_an_exact_floor(rho: int, d: int, expected: int) -> None:
    assert paper_length(Fraction(rho), d) == expected


def test_cosine_lemma() -> None:
    constant = cosine_constant(Fraction(1, 10))
    mpmath.mp.dps = 40
    expected = mpmath.acos(mpmath.mpf("0.9")) / mpmath.pi / mpmath.sqrt(mpmath.mpf("0.1"))
    with working_precision(128):
        assert abs(constant - arb(str(expected))) < 1e-30
    assert constant < arb("0.454") and constant.rad() < 1e-30
    assert not cosine_constant(Fraction(2)) < arb("0.7071")  # sharp: 1/sqrt 2 at delta = 2
    assert cosine_step_excess(Fraction(1, 20)) > 0
    for bad in (Fraction(0), Fraction(3)):
        with pytest.raises(InputError):
            cosine_constant(bad)


@settings(max_examples=50)
@given(st.sampled_from(CLOSED_FORMS), st.integers(1, 40), st.integers(1, 40))
def test_closed_forms_agree_with_mpmath(form, p: int, q: int) -> None:  # type: ignore[no-untyped-def]
    mpmath.mp.prec = 200
    values = {symbol.name: Fraction(p + k, q) for k, symbol in enumerate(sorted(form.expression.free_symbols, key=str))}
    with working_precision(128):
        enclosure = form.ball(**values)
    function = sympy.lambdify(list(form.expression.free_symbols), form.expression, "mpmath")
    exact = function(
        *(mpmath.mpf(values[s.name].numerator) / values[s.name].denominator for s in form.expression.free_symbols)
    )
    with working_precision(200):
        assert abs(enclosure - arb(str(exact))) <= abs(enclosure) * arb(2) ** -110
    assert form.latex() and form.label in ("paper", "reconstructed", "new")


def test_the_interpreter_refuses_what_it_does_not_know() -> None:
    x = sympy.Symbol("x")
    for tree in (sympy.sin(x), sympy.Float(0.5) * x, sympy.Abs(x), sympy.E * x, sympy.Integral(x, (x, 0, 1))):
        with pytest.raises(NotImplementedError, match="no ball rule"):
            evaluate_in_balls(tree, {"x": arb(1)})
    with pytest.raises(KeyError):
        evaluate_in_balls(x + 1, {})


@pytest.mark.slow
@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([4, 8]), st.integers(1, 30), st.booleans())
def test_every_draw_fails_by_dirichlets_ceiling(seed: int, d: int, scale: int, tilted: bool) -> None:
    m = d // 4
    tilt = Fraction(scale, 3) if tilted else Fraction(0)
    frequencies = draw_grid_frequencies(d, seed, 0)
    score = GridScore(frequencies, ((Fraction(scale), Fraction(0)),) * m, ((Fraction(scale), tilt),) * m, (0, 0), 2, 3)
    amplitude = m * Fraction(scale) + (m * tilt if tilted else 0)
    ceiling = dirichlet_ceiling(d, amplitude)
    found = exact_length(score, ceiling.fails_at)
    assert found.fails is not None and found.fails.length <= ceiling.fails_at


def test_the_ceiling_would_notice_a_bound_made_too_large() -> None:
    """With badly approximable frequencies the ceiling is right to a constant factor, so a much lower one is refuted
    by a draw.
    """
    golden = GridFrequencies((Turn(Fraction(1, 2)),), (Turn(Fraction(832040, 1346269)),))
    scale = Fraction(1000)
    ceiling = dirichlet_ceiling(4, scale)
    exact = exact_length(ideal_grid_score(golden, scale, 2, 3)).length
    assert exact is not None and ceiling.fails_at / 12 < exact < ceiling.fails_at


def test_norm_ceiling_and_its_inputs() -> None:
    assert norm_ceiling(120, Fraction(20000)) == dirichlet_ceiling(120, Fraction(20000) ** 4 / 8)
    assert norm_ceiling(120, Fraction(20000)).q ** 2 > 2 * np.pi**2 * 20000**4 / 8 / np.log(2)
    for call in (
        lambda: norm_ceiling(120, Fraction(0)),
        lambda: dirichlet_ceiling(6, Fraction(1)),
        lambda: dirichlet_ceiling(8, Fraction(-1)),
    ):
        with pytest.raises(InputError):
            call()
