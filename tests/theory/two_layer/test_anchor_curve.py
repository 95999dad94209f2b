"""The anchor curve: slopes, lemma, lengths and ceilings, each by two routes and each seen to fail."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import cos, pi

import mpmath
import pytest
from flint import arb

from constructions import TwoLayerCopier, build_two_layer_copier
from constructions.theorem_3_2._copier import _built, _Pair, _Plan
from theory import InputError, Turn, paper_two_layer_length, theory_task, two_layer_length
from theory.numbers import working_precision
from theory.two_layer import (
    AnchorScores,
    _anchor_curve,
    all_budgets,
    anchor_lemma,
    curve_shape,
    falling_shape,
    log_attention_share,
    norm_scale,
    plane_curve_ceiling,
    prove_length,
)
from theory.two_layer._anchor_curve import Curve, least_slope_place, slope_is_at_least
from theory.two_layer._ceiling import plane_curve_fails
from theory.two_layer._length import StepJudge
from theory.two_layer._theorem_3_2 import anchor_product


def scores_of(**arguments: object) -> tuple[AnchorScores, int]:
    copier = build_two_layer_copier(beyond_theorem=True, **arguments)  # type: ignore[arg-type]
    return copier.scores(), copier.length


def angle_by_mpmath(scores: AnchorScores, j: int, *, after: bool = False) -> mpmath.mpf:
    """phi straight from the softmax of the scores, not from differences."""
    nearer, farther = (j - 1, j) if after else (j, j + 1)
    pairs = scores.after if after else scores.before

    def key(r: int) -> mpmath.mpf:
        angles = [2 * mpmath.pi * mpmath.mpf(f.value.numerator) / f.value.denominator * r for f in scores.frequencies]
        terms = (
            mpmath.mpf(e.numerator) / e.denominator * mpmath.cos(t)
            + mpmath.mpf(o.numerator) / o.denominator * mpmath.sin(t)
            for (e, o), t in zip(pairs, angles, strict=True)
        )
        return mpmath.fsum(terms)

    return mpmath.atan(
        mpmath.exp(key(nearer) - key(farther)) / mpmath.mpf(scores.ratio.numerator) * scores.ratio.denominator
    )


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "pairs"), [("paper", 1), ("sharp", 3), ("shared", 1), ("repeated", 1)])
def test_angles_agree_with_the_softmax_in_mpmath(variant: str, pairs: int) -> None:
    scores, length = scores_of(rho=2000, variant=variant, pairs=pairs)
    with working_precision(scores.precision), mpmath.workdps(120):
        sources, queries = scores.source_curve(), scores.query_curve()
        for j in (1, 2, length // 3, length):
            assert (
                abs(float(sources.angle(j).mid()) - float(angle_by_mpmath(scores, j))) <= 2.0**-52
            )  # two roundings below 2
            assert sources.angle(j).rad() < 1e-25
            if variant != "repeated":
                difference = angle_by_mpmath(scores, j, after=True) - angle_by_mpmath(scores, j)
                assert abs(difference) < mpmath.mpf(10) ** -18  # queries meet their source
                assert abs(float(queries.angle(j).mid()) - float(angle_by_mpmath(scores, j, after=True))) <= 2.0**-52


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "variant", "pairs"), [(1500, "paper", 1), (100, "sharp", 8)])
def test_slopes_bound_every_step_of_a_scan(rho: int, variant: str, pairs: int) -> None:
    scores, length = scores_of(rho=rho, variant=variant, pairs=pairs)
    with working_precision(scores.precision):
        curve = scores.source_curve()
        steps = [float((curve.angle(j + 1) - curve.angle(j)).mid()) for j in range(1, length)]
        least = Fraction(min(steps))
        assert slope_is_at_least(curve, Fraction(1), Fraction(length), least * Fraction(99, 100)) is True
        assert slope_is_at_least(curve, Fraction(1), Fraction(length), least * Fraction(101, 100)) is not True
        enclosure = curve.slope_on(Fraction(3), Fraction(4), curve.derivative_bound(9))
        assert enclosure.contains(curve.slope(Fraction(7, 2))) and enclosure.contains(curve.slope(Fraction(13, 4)))


@pytest.mark.slow
@pytest.mark.parametrize("rho", [10_001, 10**6, 10**8])
def test_all_strings_are_proved_up_to_the_length_of_the_paper(rho: int) -> None:
    """The certificate costs the same at every length; its timing stands in the benchmark."""
    scores, length = scores_of(rho=rho)
    proof = prove_length(scores, length)
    assert (
        proof is not None
        and proof.others < 1e-60
        and float(proof.least_step * length) == pytest.approx(0.18825, rel=1e-3)
    )
    assert prove_length(scores, 2 * length) is None
    with mpmath.workdps(40):
        assert length == int(mpmath.floor(mpmath.mpf(rho) ** 2 / (1000 * mpmath.log(rho))))


def test_a_claimed_step_that_is_too_large_proves_nothing() -> None:
    scores, length = scores_of(rho=10_001)
    proof = prove_length(scores, length)
    assert proof is not None
    assert prove_length(scores, length, proof.least_step * Fraction(99, 100)) is not None
    assert prove_length(scores, length, proof.least_step * Fraction(101, 100)) is None
    assert prove_length(scores, length, Fraction(0)) is None


@pytest.mark.parametrize(
    "change", [{"scale": Fraction(1)}, {"lift": Fraction(-10)}, {"frequencies": (Turn(Fraction(1, 5)),)}]
)
def test_scores_that_do_not_copy_are_not_proved(change: dict) -> None:
    scores, length = scores_of(rho=10_001)
    assert prove_length(replace(scores, **change), length) is None


def test_a_shared_plane_needs_its_marker() -> None:
    scores, length = scores_of(rho=2000, variant="shared")
    assert prove_length(scores, length) is not None
    assert prove_length(replace(scores, marker=Fraction(0)), length) is None


def test_queries_that_are_turned_the_wrong_way_are_not_proved() -> None:
    scores, length = scores_of(rho=10_001)
    turned = replace(scores, after=tuple((even, -odd) for even, odd in scores.after))
    assert prove_length(turned, length) is None


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "variant", "pairs"), [(2000, "sharp", 1), (10_001, "sharp", 8), (10_001, "shared", 1)])
def test_brackets_are_narrow(rho: int, variant: str, pairs: int) -> None:
    scores, length = scores_of(rho=rho, variant=variant, pairs=pairs)
    found = two_layer_length(scores, length)
    assert found.fails is not None
    assert length <= found.lower < found.fails.length <= 1.01 * found.lower
    judge = StepJudge(scores, found.fails.length)
    assert judge.wrong(found.fails.length, found.fails.step)
    assert not judge.wrong(found.fails.length // 2, found.fails.step // 2)


@pytest.mark.slow
def test_the_sharp_constants() -> None:
    """0.065 rho^2 with one pair, 0.15 rho^2 with 16, sqrt 2 times that in a shared plane; never above the ceiling."""
    rho = 10**6
    constants = {}
    for variant, pairs in (("sharp", 1), ("sharp", 16), ("shared", 1)):
        scores, length = scores_of(rho=rho, variant=variant, pairs=pairs)
        assert prove_length(scores, length) is not None
        constants[variant, pairs] = length / rho**2
        best = Fraction(rho) ** 4 / (64 if variant == "sharp" else 32)
        assert scores.scale <= best < scores.scale * Fraction(1001, 1000)
        assert length < plane_curve_ceiling(best)
    assert constants["sharp", 1] == pytest.approx(0.0652, rel=0.01)
    assert constants["sharp", 16] > 0.15
    assert constants["shared", 1] / constants["sharp", 1] == pytest.approx(2**0.5, rel=0.001)


@pytest.mark.slow
def test_shapes_improve_with_the_number_of_pairs_and_stay_below_the_quadrant() -> None:
    slopes = [curve_shape(pairs).slope for pairs in (1, 2, 4, 8)]
    assert slopes == sorted(slopes) and slopes[0] > 0.65 and slopes[-1] < pi / 2
    assert 0 < falling_shape().slope < slopes[0] * 1.001


# The lemma.


def planned(length: int, pair: _Pair) -> TwoLayerCopier:
    """The paper's weights but for the amplitude C or the frequency."""
    return _built(Fraction(10_001), theory_task(2, 3), "paper", length, _Plan((pair,), 64.0, 0.0, "separate"))


def test_the_lemma_holds_with_the_constants_of_the_paper_and_not_with_much_better_ones() -> None:
    scores, length = scores_of(rho=10_001)
    assert anchor_lemma(scores, length, 72 * length**2).holds is True
    assert anchor_lemma(scores, length, 57 * length**2).holds is True
    too_strong = anchor_lemma(scores, length, 56 * length**2)
    assert too_strong.holds is False and too_strong.pair is not None


@pytest.mark.parametrize(
    "pair",
    [
        lambda n: _Pair(Fraction(1, 8 * n), n * 0.8, 0.0),  # c too small
        lambda n: _Pair(Fraction(1, 3 * n), float(n), 0.0),  # beta_2 too large: the curve turns back
        lambda n: _Pair(Fraction(1, 4 * n), float(n), 0.0),
    ],
)
def test_the_lemma_is_refuted_with_a_pair_when_it_is_false(pair: Callable[[int], _Pair]) -> None:
    length = 10_859
    scores = planned(length, pair(length)).scores()
    found = anchor_lemma(scores, length, 72 * length**2)
    assert found.holds is False and found.pair is not None
    i, j = found.pair
    assert -1 <= i < j <= length + 1
    with mpmath.workdps(60):
        product = mpmath.cos(angle_by_mpmath(scores, j) - angle_by_mpmath(scores, i))
        assert product > 1 - mpmath.mpf(1) / (72 * length**2)


def test_the_lemma_pair_by_pair_at_a_small_budget() -> None:
    scores, length = scores_of(rho=300)
    denominator = 72 * length**2
    assert anchor_lemma(scores, length, denominator).holds is True
    with working_precision(scores.precision):
        curve = scores.source_curve()
        products = [anchor_product(curve, i, j) for j in range(length + 2) for i in range(-1, j)]
        assert all(product <= 1 - arb(1) / denominator for product in products)
        largest = max(products, key=lambda product: float(product.mid()))
        beyond = int(float((1 / (1 - largest)).mid())) - 1
    assert anchor_lemma(scores, length, beyond).holds is False


# All budgets, ceilings.


def test_all_budgets_at_once_and_where_the_constants_break() -> None:
    assert all_budgets().holds(72)
    assert all_budgets().holds(57) and not all_budgets().holds(56)
    assert all_budgets(Fraction(10**4), Fraction(1, 350)).holds(72)
    assert not all_budgets(Fraction(10**4), Fraction(1, 200)).holds(72)
    assert all_budgets(Fraction(500)).holds(72)
    with pytest.raises(InputError, match="rho_above = 99"):
        all_budgets(Fraction(99))
    with pytest.raises(InputError, match="length_factor = 0"):
        all_budgets(factor=Fraction(0))


@pytest.mark.parametrize(("a", "b"), [(2, 2), (9, 30), (2, 30_000)])
def test_single_budgets_agree_with_the_statement_about_all(a: int, b: int) -> None:
    for rho in (10_001, 10**7):
        if b > 100:
            scores, length = _scores_for_large_b(rho, b)
        else:
            scores, length = scores_of(rho=rho, a=a, b=b)
        assert prove_length(scores, length) is not None
        assert length >= all_budgets().least_length


def _scores_for_large_b(rho: int, b: int) -> tuple[AnchorScores, int]:
    """Models with so many tokens are not built; their scores are those for b = 3, with the larger lift."""
    scores, length = scores_of(rho=rho)
    far = replace(scores, b=b)
    if b > 2 * length:
        assert prove_length(far, length) is None
        far = replace(far, lift=far.lift + 2 * length + 1)
    return far, length


def test_ceilings() -> None:
    scale = Fraction(10_001) ** 4 / 64
    ceiling = plane_curve_ceiling(scale)
    assert plane_curve_fails(scale, ceiling) and not plane_curve_fails(scale, ceiling - 1)
    assert ceiling / 10_001**2 == pytest.approx(0.1668, rel=0.001)
    with mpmath.workdps(50):
        value = mpmath.mpf(scale.numerator) / scale.denominator * (1 - mpmath.cos(mpmath.pi / (2 * (ceiling - 2))))
        assert value <= mpmath.log(2) < value * (1 + mpmath.mpf(10) ** -6)
    assert norm_scale(Fraction(10)) == 1250 and log_attention_share(Fraction(10)) == 5000
    for call in (lambda: plane_curve_ceiling(Fraction(0)), lambda: log_attention_share(Fraction(0))):
        with pytest.raises(InputError):
            call()


def test_the_plane_ceiling_against_the_best_curve_that_a_search_finds() -> None:
    """Equal steps in a quadrant, queries on their sources: no n points copy at the ceiling, and half as many do."""

    def copies(scale: float, n: int) -> bool:
        step = (pi / 2) / (n - 1)
        for i in range(n):
            others = sum(float(mpmath.exp(-scale * (1 - cos(step * (j - i))))) for j in range(n) if j != i)
            if others >= 1:
                return False
        return True

    scale = 400.0
    ceiling = plane_curve_ceiling(Fraction(400))
    assert not copies(scale, ceiling)
    assert copies(scale, int(0.9 * ceiling))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: prove_length(s, 0), "length = 0"),
        (lambda s: prove_length(s, 10**61), r"must be at most 10\^60"),
        (lambda s: anchor_lemma(s, 5, 0), "denominator = 0"),
        (lambda s: StepJudge(s, 5).wrong(5, 6), "step = 6"),
        (lambda s: replace(s, a=1), "a = 1"),
        (lambda s: replace(s, scale=Fraction(0)), "scale = 0"),
        (lambda s: replace(s, before=()), "amplitudes"),
        (lambda s: curve_shape(49), "pairs = 49"),
        (lambda s: paper_two_layer_length(Fraction(1)), "rho = 1"),
    ],
)
def test_bad_input(call: Callable[[AnchorScores], object], message: str) -> None:
    scores, _ = scores_of(rho=10_001)
    with pytest.raises(InputError, match=message):
        call(scores)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["paper", "sharp", "shared"])
def test_floats_leave_the_place_of_least_slope_to_balls(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same place as balls alone choose, far fewer of them asked."""
    scores = build_two_layer_copier(Fraction(20000), 2, 3, variant, pairs=1 if variant == "paper" else 8).scores()
    asked: list[Fraction | int] = []
    slope = Curve.slope
    monkeypatch.setattr(Curve, "slope", lambda self, x: (asked.append(x), slope(self, x))[1])
    with working_precision(scores.precision):
        curve = scores.source_curve()
        for length in (60, 10**4, 10**6, 10**7):
            asked.clear()
            found = least_slope_place(curve, Fraction(1), Fraction(length))
            counted = len(asked)
            with monkeypatch.context() as patch:
                patch.setattr(_anchor_curve, "MOST_PHASE", 0.0)
                alone = least_slope_place(curve, Fraction(1), Fraction(length))
            assert found[0] == alone[0] and found[1].overlaps(alone[1])
            assert len(asked) - counted > 500 and (counted < 100 or length < 100)


@pytest.mark.parametrize("exponent", [4, 50, 400])
def test_curves_beyond_the_floats_are_sampled_by_balls(exponent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference of 10^400 is no float; one of 10^4 is known too roughly."""
    scores = build_two_layer_copier(Fraction(20000), 2, 3).scores()
    monkeypatch.setattr(_anchor_curve, "_rough_slopes", lambda *_: pytest.fail("asked of floats"))
    with working_precision(scores.precision):
        curve = scores.source_curve()
        large = replace(curve, coefficients=tuple((u * 10**exponent, v * 10**exponent) for u, v in curve.coefficients))
        place, slope = least_slope_place(large, Fraction(1), Fraction(10**4))
        assert 1 <= place <= 10**4 and slope.overlaps(large.slope(place))
        assert 1 <= least_slope_place(curve, Fraction(1), Fraction(10**400))[0] <= 10**400
