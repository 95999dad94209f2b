"""What is not finite or too large is refused in one line, or answered as undecided: no loop rests on an assumption."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import inf, ulp
from pathlib import Path

import numpy as np
import pytest
from flint import arb

from constructions import MinimiserProblem, build_grid_copier, build_two_layer_copier, search_minimisers
from constructions.theorem_3_2._copier import marker
from copycert.command._main import main
from theory import (
    InputError,
    MinimiserSetting,
    Turn,
    VacuousBallError,
    draw_grid_frequencies,
    exact_length,
    head_length,
    ideal_grid_score,
    limit_failure,
    loss_lower_bound,
    paper_two_layer_length,
    sample_strings,
    theory_task,
    thresholds,
)
from theory.grid import length_with_failure, separation_lattice_for
from theory.grid._probability import LONGEST
from theory.grid._separation import LARGEST_LATTICE, reduce_separation_lattice
from theory.minimisers import HeadWeights, energy_loss_bound, population_excess_bounds, sampled_strings
from theory.numbers import float_above, float_below, integer_floor, lower_fraction, upper_fraction
from theory.signs import Layout, UndecidedError, sign_system
from theory.signs import _decide as decide_module
from theory.signs._farkas import _satisfies, find_weights
from theory.task import single_flip_strings
from theory.task._copy_task import MOST_SYMBOLS
from theory.two_layer import AnchorScores

#: Every test here is over within so many seconds, or it fails.
LONGEST_TEST = 100


@pytest.fixture(autouse=True)
def _ends() -> Iterator[None]:
    def too_long(number: int, frame: object) -> None:
        raise TimeoutError(f"no end within {LONGEST_TEST} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LONGEST_TEST)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


BALL_ENDS: tuple[Callable[[arb], object], ...] = (
    float_below,
    float_above,
    integer_floor,
    lower_fraction,
    upper_fraction,
)
ENDLESS = {
    "nan": arb("nan"),
    "inf": arb(inf),
    "-inf": arb(-inf),
    "infinite radius": arb(0, inf),
    "nan times 0": arb("nan") * 0,
}


@pytest.mark.parametrize("end", BALL_ENDS, ids=lambda end: end.__name__)
@pytest.mark.parametrize("value", ENDLESS.values(), ids=ENDLESS)
def test_a_ball_that_is_not_finite_has_no_end(end: Callable[[arb], object], value: arb) -> None:
    with pytest.raises(VacuousBallError, match="not finite"):
        end(value)


@pytest.mark.parametrize(
    "exponent", [-(10**12), -5000, -1100, -1075, -1074, -1022, -500, 0, 500, 1023, 1024, 5000, 10**12]
)
@pytest.mark.parametrize("mantissa", [1, -1, 3, -3, 2**53 + 1, -(2**53) - 1, 2**200 - 1])
def test_ends_in_floats_hold_at_every_scale(mantissa: int, exponent: int) -> None:
    value = arb(mantissa) * arb(2) ** exponent
    below, above = float_below(value), float_above(value)
    assert arb(below) <= value.lower() <= value.upper() <= arb(above)
    if exponent + mantissa.bit_length() - 54 >= -1022 and exponent + mantissa.bit_length() <= 1024:
        assert above - below <= 4 * ulp(above)  # the ball's ends are themselves rounded outwards


def test_an_end_of_too_many_places_is_refused() -> None:
    assert lower_fraction(arb(3) * arb(2) ** -1500) == Fraction(3, 2**1500)
    assert upper_fraction(arb(3) * arb(2) ** 1500) == 3 * 2**1500
    for end in (integer_floor, lower_fraction, upper_fraction):
        for exponent in (10**12, -(10**12)):
            with pytest.raises(VacuousBallError, match="binary places"):
                end(arb(2) ** exponent)


HUGE = (10**6, 10**9, 10**18, 10**400)


@pytest.mark.parametrize("count", HUGE, ids=lambda count: f"10^{len(str(count)) - 1}")
def test_numbers_of_tokens_around_the_string_have_a_limit(count: int) -> None:
    frequencies = draw_grid_frequencies(8, 0, 0)
    pair = ((Fraction(1), Fraction(0)),)
    attempts: tuple[Callable[[], object], ...] = (
        lambda: exact_length(ideal_grid_score(frequencies, Fraction(50), count, 3)),
        lambda: exact_length(ideal_grid_score(frequencies, Fraction(50), 2, count)),
        lambda: theory_task(count, 3),
        lambda: theory_task(2, count),
        lambda: MinimiserSetting(frequencies, 3, Fraction(2), count),
        lambda: length_with_failure(Fraction(1, 2), Fraction(20000), 120, count, 3, "paper"),
        lambda: Layout("shift", count, 3),
        lambda: Layout("shift", 2, count),
        lambda: AnchorScores(
            "separate",
            (Turn(Fraction(1, 9)),),
            pair,
            pair,
            Fraction(1),
            Fraction(1),
            Fraction(0),
            Fraction(1),
            count,
            2,
        ),
    )
    for attempt in attempts:
        with pytest.raises(InputError, match="at most"):
            attempt()


@pytest.mark.parametrize("count", HUGE[1:], ids=lambda count: f"10^{len(str(count)) - 1}")
def test_strings_are_not_made_beyond_the_memory(count: int) -> None:
    for attempt in (
        lambda: sample_strings("recursive-flip", count, 1, 0),
        lambda: sample_strings("uniform", 1, count, 0),
        lambda: sample_strings("uniform", 10**5, count, 0),
        lambda: sample_strings("repeat-structure", 8, 1, 0, base_length=count),
        lambda: single_flip_strings(count),
        lambda: draw_grid_frequencies(8, 0, 0, bits=count),
    ):
        with pytest.raises(InputError, match="at most"):
            attempt()
    with pytest.raises(InputError, match="n = "):
        sample_strings("uniform", MOST_SYMBOLS // 2 + 1, 2, 0)


def test_branching_on_votes_ends_as_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide_module, "MOST_PROGRAMMES", 3)
    with pytest.raises(UndecidedError, match="3 linear programmes"):
        decide_module.decide("grid", 2, 3, 4)


@pytest.mark.slow
def test_as_many_tokens_as_allowed_are_decided() -> None:
    decision = decide_module.decide("shift", 100, 100, 4, smallest=False)
    assert decision.witness is not None


def test_lattices_have_a_limit() -> None:
    wide = tuple(Turn(Fraction(k, 4096)) for k in range(LARGEST_LATTICE + 1))
    with pytest.raises(InputError, match=f"at most {LARGEST_LATTICE}"):
        reduce_separation_lattice(wide, 64, 1)
    with pytest.raises(InputError, match="at most 10\\^4000"):
        separation_lattice_for(ideal_grid_score(draw_grid_frequencies(8, 0, 0), Fraction(50), 2, 3), 10**4001)


@pytest.mark.slow
def test_the_search_for_a_length_of_given_failure_ends() -> None:
    assert length_with_failure(Fraction(1, 2), Fraction(10) ** 400, 16_384, 2, 3, "three-tokens") == LONGEST
    assert length_with_failure(Fraction(1, 2), Fraction(10) ** -400, 120, 2, 3, "three-tokens") == 0


@pytest.mark.parametrize("rho", [Fraction(10) ** 5000, Fraction(10) ** 5000 / 7, 1 + Fraction(1, 10**400)])
def test_the_papers_length_is_an_integer_at_every_budget(rho: Fraction) -> None:
    length = paper_two_layer_length(rho)
    # ln rho by its bits: within a factor of 2, and rho - 1 <= 2 ln rho <= 2 (rho - 1) near 1.
    logarithm = Fraction(rho.numerator.bit_length() - rho.denominator.bit_length()) if rho > 2 else rho - 1
    assert rho**2 / (2000 * logarithm) <= length + 1
    assert length <= 2 * rho**2 / (1000 * logarithm)


def test_scales_far_outside_the_floats_are_answered() -> None:
    frequencies = draw_grid_frequencies(8, 0, 0)
    tiny = exact_length(ideal_grid_score(frequencies, Fraction(1, 10**400), 2, 3), limit=1000)
    assert tiny.status == "PROVED"
    assert tiny.length == 1
    huge = exact_length(ideal_grid_score(frequencies, Fraction(10) ** 400, 2, 3), limit=1000)
    assert huge.exceeds_limit


def test_searches_over_lengths_have_a_limit() -> None:
    frequencies = draw_grid_frequencies(8, 0, 0)
    head = HeadWeights(np.zeros((3, 8)), np.zeros((6, 8)), np.array([1.0, -1.0, 0, 0, 0, 0]))
    free = MinimiserSetting(frequencies, 3, Fraction(2))
    for count in HUGE[2:]:
        attempts: tuple[Callable[[], object], ...] = (
            lambda count=count: head_length(frequencies, 1, head, count),
            lambda count=count: population_excess_bounds(frequencies, 1, count, head, Fraction(1)),
            lambda count=count: energy_loss_bound(count, "free", Fraction(1)),
            lambda count=count: sampled_strings(count, 1, 0),
            lambda count=count: limit_failure(free, count),
            lambda count=count: list(thresholds(count, relations=("shift",))),
        )
        for attempt in attempts:
            with pytest.raises(InputError, match="at most"):
                attempt()
    with pytest.raises(InputError, match="max_length = "):
        list(thresholds(10**9, relations=("shift",)))


def test_a_bound_that_is_proposed_in_floats_refuses_what_no_float_holds() -> None:
    with pytest.raises(InputError, match=r"M = .*at most 2"):
        loss_lower_bound(MinimiserSetting(draw_grid_frequencies(8, 0, 0), 3, Fraction(10) ** 400))


def test_the_energy_bound_is_finite_at_every_radius() -> None:
    for square in (Fraction(1, 10**400), Fraction(1), Fraction(10) ** 400):
        assert energy_loss_bound(3, "free", square).is_finite()


def test_models_too_wide_to_build_are_refused() -> None:
    with pytest.raises(InputError, match=r"a = 1000: .*width"):
        build_two_layer_copier(20_000, 1000, 3)
    with pytest.raises(InputError, match=r"d = 16384: .*width"):
        build_grid_copier(6, 16_384, 2, 3, draw_grid_frequencies(16_384, 0, 0, bits=8))
    with pytest.raises(InputError, match="d = 1000"):
        MinimiserProblem(MinimiserSetting(draw_grid_frequencies(1000, 0, 0), 3, Fraction(2)))


def test_more_starts_than_a_day_has_room_for_are_refused(tmp_path: Path) -> None:
    problem = MinimiserProblem(MinimiserSetting(draw_grid_frequencies(8, 0, 0), 3, Fraction(2)))
    with pytest.raises(InputError, match="starts = 1000000: must be at most"):
        search_minimisers(problem, 10**6, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("scale", [0.0, inf, float("nan"), -1.0])
def test_a_marker_needs_a_scale(scale: float) -> None:
    with pytest.raises(InputError, match="scale"):
        marker(scale)


def test_integer_weights_whose_sums_may_wrap_are_not_accepted() -> None:
    (block, *_) = sign_system(Layout("shift", 2, 3), 2).blocks
    weights = find_weights(block, {})
    assert weights is not None
    signs = block.signs({})
    assert _satisfies(block, signs, weights)
    assert not _satisfies(block, signs, np.full_like(weights, np.iinfo(np.int64).min))
    assert not _satisfies(block, signs, weights * 2**61)


def test_what_no_precision_decides_is_one_line_and_undecided(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for error in (VacuousBallError("a ball\nwider than allowed"), UndecidedError("no weights found")):

        def undecided(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        monkeypatch.setattr("copycert._bound.exact_length", undecided)
        with pytest.raises(SystemExit) as ended:
            main(["bound", "grid", "--base", "1000", "--d", "8", "--scale", "3", "--a", "2", "--b", "3"])
        told = capsys.readouterr()
        assert ended.value.code == 3
        assert told.err.startswith("copycert: UNDECIDED: ")
        assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("minimize", "--M", "2", "--L", "3", "--d", "8", "--limit", "1000000000"), "limit = 1000000000"),
        (("check", "--rho", "20000", "--draws", "1000000"), "draws = 1000000"),
        (
            ("train", "--preset", "laptop", "--encoding", "rope2d", "--max-length", "1000000000"),
            "max_length = 1000000000",
        ),
        (("train", "--preset", "laptop", "--encoding", "rope2d", "--layers", "1000000"), "layers = 1000000"),
    ],
)
def test_limits_are_looked_at_before_the_work(
    arguments: tuple[str, ...], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--out", str(tmp_path / "out")])
    assert ended.value.code == 2
    assert named in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
