"""The population loss: tables against forward passes, gradients against autograd, samples, bad input."""

import math
from collections.abc import Callable
from fractions import Fraction
from math import log1p

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from constructions import HeadParameters, build_coupled_model, build_minimiser_model, closed_form, head_of_model
from tests._rounding import excess_error, gamma, loss_error, weight_error
from theory import GridFrequencies, InputError, MinimiserSetting, Radian, draw_grid_frequencies, theory_task
from theory.minimisers import LONGEST_ENUMERATION, HeadWeights, PopulationLoss, sampled_strings
from theory.minimisers._population_loss import every_string, floor
from theory.task import all_strings

Logits = Callable[[torch.Tensor, int], torch.Tensor]


def random_head(d: int, a: int, scale: float, seed: int) -> HeadWeights:
    generator = np.random.default_rng(seed)
    tokens = 2 * a + 4
    return HeadWeights(*(generator.uniform(-scale, scale, shape) for shape in ((3, d), (tokens, d), (tokens,))))


def loss_by_forward_passes(model: Logits, a: int, length: int) -> torch.Tensor:
    """The definition: n uniform on 1..L, then the string, then the step; -log of the right symbol's probability."""
    task, per_length = theory_task(a, a + 2), []
    for n in range(1, length + 1):
        strings = all_strings(n)
        logits = model(torch.from_numpy(task.sequences(strings)), task.query_index(n, 1))
        per_length.append(torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(strings).flatten()))
    return torch.stack(per_length).mean()


@pytest.mark.parametrize(
    ("d", "a", "length", "scale"), [(4, 1, 1, 0.3), (8, 2, 4, 1.0), (16, 1, 6, 1.5), (4, 3, 5, 9.0)]
)
def test_the_loss_is_that_of_the_torch_model(d: int, a: int, length: int, scale: float) -> None:
    frequencies = draw_grid_frequencies(d, 1, 2)
    head = random_head(d, a, scale, 3)
    model = build_minimiser_model(head, frequencies, a)
    expected = float(loss_by_forward_passes(model, a, length))
    assert abs(PopulationLoss(frequencies, a, length).loss(head) - expected) <= loss_error(head) < 1e-8


def test_a_moved_weight_moves_the_loss() -> None:
    """The comparison above would notice."""
    frequencies, head = draw_grid_frequencies(8, 0, 0), random_head(8, 1, 1.0, 0)
    expected = float(loss_by_forward_passes(build_minimiser_model(head, frequencies, 1), 1, 4))
    head.keys[5, 3] += 1e-6
    assert abs(PopulationLoss(frequencies, 1, 4).loss(head) - expected) > loss_error(head)


def test_the_gradient_is_autograd_s() -> None:
    d, a, length = 8, 2, 4
    frequencies, head = draw_grid_frequencies(d, 5, 0), random_head(8, 2, 1.2, 1)
    model = build_minimiser_model(head, frequencies, a).requires_grad_(True)
    loss_by_forward_passes(model, a, length).backward()
    attention = model.block(0).attention
    _, gradient = PopulationLoss(frequencies, a, length).excess_and_gradient(head, 1.2)
    assert attention.query.weight.grad is not None and attention.key.weight.grad is not None
    assert attention.value.weight.grad is not None
    # An entry is a mean over steps of sigmoid(-z) sum_x w_x (v_x - z) times a turned query or key, by a value of
    # sigmoid(-z) w_x: at most 2 M R, here M = R = 1.2. A sigmoid is within the error of z, weights and z within theirs.
    size = 2 * 1.2 * 2 * 1.2
    error = 2 * size * (math.expm1(8 * weight_error(head)) * (1 + 1.2) + gamma(1000))
    assert error < 1e-9
    for mine, torchs in (
        (gradient.queries, attention.query.weight.grad.T[[0, 1, -1]]),
        (gradient.keys, attention.key.weight.grad.T),
        (gradient.values, attention.value.weight.grad[0]),
    ):
        assert np.abs(mine - torchs.numpy()).max() <= error


@pytest.mark.parametrize("parametrisation", ["decoupled", "coupled"])
@pytest.mark.parametrize("queries", ["free", "tied"])
def test_the_gradient_by_theta_is_a_difference_quotient(parametrisation: str, queries: str) -> None:
    parameters = HeadParameters(parametrisation, queries, 8, 1)  # type: ignore[arg-type]
    loss = PopulationLoss(draw_grid_frequencies(8, 0, 3), 1, 4)
    generator = np.random.default_rng(0)
    theta, direction = generator.uniform(-0.7, 0.7, parameters.size), generator.normal(size=parameters.size)
    _, by_head = loss.excess_and_gradient(parameters.head(theta), 6.0)
    step = 1e-6
    change = [loss.excess(parameters.head(theta + sign * step * direction), 6.0) for sign in (1, -1)]
    expected = (change[0] - change[1]) / (2 * step)
    # The quotient itself is off by the step squared times a third derivative, for which 10^-6 is wide, and by two
    # losses' rounding over two steps.
    rounding = loss_error(parameters.head(theta)) / step
    assert rounding < 1e-4
    assert float(parameters.gradient(theta, by_head) @ direction) == pytest.approx(expected, rel=1e-6, abs=rounding)


def test_a_coupled_theta_is_the_torch_model_whose_weights_it_lists() -> None:
    parameters, frequencies = HeadParameters("coupled", "free", 8, 1), draw_grid_frequencies(8, 2, 2)
    theta = np.random.default_rng(4).uniform(-0.8, 0.8, parameters.size)
    model = build_coupled_model(parameters, theta, frequencies)
    expected = float(loss_by_forward_passes(model, 1, 4))
    head = parameters.head(theta)
    # An entry of the head is an inner product of parts of theta, whose entries are at most 0.8, over 8 coordinates.
    entry = 2 * gamma(10) * 8 * 0.8**2
    for mine, read in zip(head, head_of_model(model), strict=True):
        assert np.abs(mine - read).max() <= entry
    # The loss moves by at most twice the weights' and once the values' change: scores by `entry` times all entries.
    sizes = float(np.abs(head.queries).sum(1).max() + np.abs(head.keys).sum(1).max() + 1)
    moved = entry * (1 + 4 * sizes * float(np.abs(head.values).max()))
    assert abs(PopulationLoss(frequencies, 1, 4).loss(head) - expected) <= loss_error(head) + moved < 1e-9


def test_a_head_survives_the_way_through_the_torch_model_and_theta() -> None:
    head, frequencies = random_head(8, 2, 1.0, 7), draw_grid_frequencies(8, 0, 0)
    for again in (
        head_of_model(build_minimiser_model(head, frequencies, 2)),
        HeadParameters("decoupled", "free", 8, 2).head(HeadParameters("decoupled", "free", 8, 2).theta(head)),
    ):
        for before, after in zip(head, again, strict=True):
            np.testing.assert_array_equal(before, after)
    with pytest.raises(InputError, match="one vector"):
        HeadParameters("decoupled", "tied", 8, 2).theta(head)


@pytest.mark.slow
@given(seed=st.integers(0, 2**32), ceiling=st.floats(0.1, 6.0), length=st.integers(1, 5))
def test_the_excess_is_never_negative_and_adds_up_with_the_floor(seed: int, ceiling: float, length: int) -> None:
    loss, head = PopulationLoss(draw_grid_frequencies(4, 0, 0), 1, length), random_head(4, 1, ceiling, seed)
    excess = loss.excess(head, ceiling)
    assert excess >= 0
    # Both are floor and excess; the loss takes another ceiling. Floors and excesses are below 2 ceilings and 1.
    assert abs(floor(ceiling) + excess - loss.loss(head)) <= loss_error(head) + gamma(1000) * (2 * ceiling + 1)


def test_an_excess_far_below_the_floor_s_last_digit_keeps_its_relative_accuracy() -> None:
    """Against 150 decimal digits, at an excess near 1e-70 of a floor near 0.02."""
    import mpmath

    bound, frequencies = (
        4.0,
        GridFrequencies(row=(Radian(Fraction(2)),) * 4, column=(Radian(Fraction(1)), Radian(Fraction(3))) * 2),
    )
    head = closed_form(MinimiserSetting(frequencies, 2, Fraction(4)))
    excess = PopulationLoss(frequencies, 1, 2).excess(head, bound)
    assert 0 < excess < 1e-60
    with mpmath.workdps(150):
        error = excess_error(head, bound)
        assert error < 1e-8
        assert excess == pytest.approx(float(_excess_by_definition(head, frequencies, bound)), rel=error, abs=0)


def _excess_by_definition(head: HeadWeights, frequencies: GridFrequencies, bound: float):  # type: ignore[no-untyped-def]
    import mpmath

    from theory.task import grid_positions

    task, total = theory_task(1, 3), mpmath.mpf(0)
    angular = [frequency.value for frequency in (*frequencies.row, *frequencies.column)]  # type: ignore[union-attr]
    for n in (1, 2):
        for string in all_strings(n):
            tokens = task.sequences(string[None])
            rows, columns = (array[0].tolist() for array in grid_positions(tokens, task.newline))
            for step in range(1, n + 1):
                at = task.query_index(n, step)
                query = head.queries[{0: 0, 1: 1}.get(int(tokens[0, at]), 2)]
                weights, votes = [], []
                for place in range(at + 1):
                    key, score = head.keys[tokens[0, place]], mpmath.mpf(0)
                    turn = [rows[place] - rows[at]] * 4 + [columns[place] - columns[at]] * 4
                    for pair, (beta, distance) in enumerate(zip(angular, turn, strict=True)):
                        q = mpmath.mpc(*query[2 * pair : 2 * pair + 2])
                        k = mpmath.mpc(*key[2 * pair : 2 * pair + 2])
                        phase = mpmath.expj(-mpmath.mpf(beta.numerator) * distance)
                        score += (q * mpmath.conj(k) * phase).real
                    weights.append(mpmath.exp(score))
                    votes.append(mpmath.mpf(head.values[tokens[0, place]]))
                z = mpmath.fsum(w * v for w, v in zip(weights, votes, strict=True)) / mpmath.fsum(weights)
                z = z if string[step - 1] == 0 else -z
                total += (mpmath.log1p(mpmath.exp(-z)) - mpmath.log1p(mpmath.exp(-bound))) / (
                    2 * len(all_strings(n)) * n
                )
    return total


def test_the_closed_form_stays_in_its_bound_and_beats_chance() -> None:
    for draw in range(5):
        frequencies = draw_grid_frequencies(16, 0, draw)
        head = closed_form(MinimiserSetting(frequencies, 5, Fraction(3, 2), a=2))
        assert all(np.abs(part).max() <= 1.5 for part in head)
        assert PopulationLoss(frequencies, 2, 5).loss(head) < floor(1.5) + 0.1 < log1p(1)


def test_a_step_whose_weights_all_underflow_counts_as_wrong() -> None:
    frequencies = GridFrequencies(row=(Radian(Fraction(0)),), column=(Radian(Fraction(3)),))
    head = HeadWeights(np.full((3, 4), 40.0), np.full((6, 4), 40.0), np.array([1.0, -1, 0, 0, 0, 0]))
    value, gradient = PopulationLoss(frequencies, 1, 3).excess_and_gradient(head, 1.0)
    assert np.isfinite(value) and all(np.isfinite(part).all() for part in gradient)


def test_a_sample_is_unbiased_and_seeded() -> None:
    frequencies, head, length = draw_grid_frequencies(8, 0, 0), random_head(8, 1, 1.0, 0), 9
    exact = PopulationLoss(frequencies, 1, length).loss(head)
    values = [PopulationLoss(frequencies, 1, length, sampled_strings(length, 8, seed)).loss(head) for seed in range(40)]
    assert abs(np.mean(values) - exact) < 4 * np.std(values, ddof=1) / 40**0.5
    first, second, other = (sampled_strings(30, 3, seed) for seed in (1, 1, 2))
    assert (first.symbols == second.symbols).all() and (first.symbols != other.symbols).any()
    assert abs(float(first.lengths @ first.step_weights) - 1) <= gamma(len(first.lengths) + 5)


def test_the_weights_of_every_string_add_up() -> None:
    strings = every_string(6)
    assert len(strings.lengths) == 2**7 - 2
    assert abs(float(strings.lengths @ strings.step_weights) - 1) <= gamma(len(strings.lengths) + 5)


@pytest.mark.parametrize("length", [0, -1, LONGEST_ENUMERATION + 1])
def test_a_length_out_of_range_is_one_clear_line(length: int) -> None:
    with pytest.raises(InputError, match="L = "):
        PopulationLoss(draw_grid_frequencies(4, 0, 0), 1, length)


def test_amplitudes_outside_the_diamond_are_refused() -> None:
    outside = [np.full((2, 2), 0.6)] * 3
    with pytest.raises(InputError, match="diamond"):
        closed_form(MinimiserSetting(draw_grid_frequencies(8, 0, 0), 4, Fraction(1)), outside)
