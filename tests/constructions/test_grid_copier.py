"""Theorem 4.1's copier: the torch model does what the theory says of it, string by string."""

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions import (
    GridCopier,
    build_grid_copier,
    conclusive,
    greedy_copy,
    load_grid_copier,
    replay,
    score_error_bound,
)
from constructions._subspaces import Space, linear_map
from theory import (
    GridFrequencies,
    InputError,
    Turn,
    base_grid_frequencies,
    draw_grid_frequencies,
    exact_length,
    sample_strings,
)
from theory.grid import Budget, SingleFlip, first_step_failure, score_scale, step_weights
from theory.task import all_strings, single_flip_strings


def copier_for(d: int, scale: float, draw: int, a: int = 2, b: int = 3, seed: int = 0) -> GridCopier:
    """A three-token copier whose score scale is about `scale`."""
    rho = Fraction(round((scale * 12 * d) ** 0.25 * 1000), 1000)
    return build_grid_copier(rho, d, a, b, draw_grid_frequencies(d, seed, draw))


def wrong_strings(copier: GridCopier, strings: np.ndarray) -> np.ndarray:
    return (greedy_copy(copier, strings) != strings).any(axis=1)


def flipped(flip: SingleFlip) -> np.ndarray:
    string = np.full(flip.length, flip.background, dtype=np.int64)
    string[flip.flip_position - 1] ^= 1
    return string


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(1, 2), (2, 3), (2, 4), (3, 2), (1, 6)])
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_every_string_up_to_length_ten_agrees_with_the_theory(a: int, b: int, scale: float) -> None:
    copier = copier_for(8, scale, 1, a, b)
    exact = exact_length(copier.score(), 12)
    bound = 12 if exact.exceeds_limit else exact.length
    assert bound is not None
    for n in range(1, 11):
        assert bool(wrong_strings(copier, all_strings(n)).any()) == (n > bound)


def test_the_table_above_has_lengths_on_both_sides() -> None:
    lengths = {
        exact_length(copier_for(8, scale, 1, a, b).score(), 12).lower
        for scale in (0.3, 1.0, 3.0)
        for a, b in ((1, 2), (2, 3), (2, 4))
    }
    assert min(lengths) < 10 <= max(lengths) or len(lengths) > 2


@pytest.mark.slow
@pytest.mark.parametrize("d", [4, *(pytest.param(x, marks=pytest.mark.deep) for x in (8, 12))])
def test_the_model_fails_exactly_beyond_the_predicted_length(d: int) -> None:
    """70 draws for each d, 210 in all: the witness is wrong, single-flip strings (all up to 200) and samples of
    length n* are right.
    """
    scale = {4: 300.0, 8: 12.0, 12: 6.0}[d]
    skipped = 0
    for draw in range(70):
        copier = copier_for(d, scale, draw, seed=5)
        found = exact_length(copier.score())
        assert found.status == "PROVED" and found.fails is not None and found.length == found.fails.length - 1
        outcome = replay(copier, flipped(found.fails), found.fails.step)
        if outcome.ran:
            assert outcome.wrong
        else:
            skipped += 1
        if found.length >= 1:
            strings = (
                single_flip_strings(found.length)
                if found.length <= 200
                else single_flip_strings(found.length)[:: found.length // 8]
            )
            strings = np.concatenate(
                [
                    strings,
                    sample_strings("uniform", found.length, 4, draw),
                    sample_strings("recursive-flip", found.length, 4, draw),
                ]
            )
            if not margin_is_too_small(copier, found.length):
                assert not wrong_strings(copier, strings).any()
    assert skipped < 0.05 * 70


def margin_is_too_small(copier: GridCopier, length: int) -> bool:
    """Is some step's margin at this length within the float error? (Checked at the worst place, next to the
    failure.)
    """
    found = exact_length(copier.score())
    assert found.fails is not None
    step = min(found.fails.step, length)
    weights = step_weights(copier.score(), flipped(SingleFlip(length, step)), step)
    return not conclusive(weights, score_error_bound(copier.score(), torch.float64), 2 * length + 10, torch.float64)


@pytest.mark.slow
@settings(max_examples=25)
@given(
    st.integers(0, 10**6),
    st.sampled_from([4, 8, 12]),
    st.integers(1, 5),
    st.integers(2, 7),
    st.floats(0.2, 8),
    st.sampled_from(["paper", "three-tokens"]),
)
def test_theory_and_model_agree_for_any_draw_layout_and_scale(
    seed: int, d: int, a: int, b: int, scale: float, budget: Budget
) -> None:
    tokens = a + b + 2 if budget == "paper" else 3
    rho = Fraction(round((scale * 4 * tokens * d) ** 0.25 * 1000), 1000)
    copier = build_grid_copier(rho, d, a, b, draw_grid_frequencies(d, seed, 0), budget)
    assert copier.square_norm() <= rho**2
    assert copier.square_norm() > rho**2 * (1 - Fraction(1, 10**9))
    found = exact_length(copier.score(), 64)
    if found.fails is not None:
        assert replay(copier, flipped(found.fails), found.fails.step).wrong is not False
    if found.lower and not (found.fails and margin_is_too_small(copier, found.lower)):
        assert not wrong_strings(copier, single_flip_strings(found.lower)).any()


@pytest.mark.parametrize("budget", ["paper", "three-tokens"])
def test_the_scale_is_what_the_budget_affords(budget: Budget) -> None:
    copier = build_grid_copier(20000, 120, 2, 3, draw_grid_frequencies(120, 0, 0), budget)
    scale = score_scale(Fraction(20000), 120, 2, 3, budget)
    centred = copier.score().centred_column_amplitudes()
    assert all(abs(float(a) / float(scale) - 1) < 1e-11 and abs(float(b)) < float(scale) * 1e-15 for a, b in centred)


def test_embedded_tokens_change_no_sign() -> None:
    frequencies = draw_grid_frequencies(8, 2, 0)
    three, everyone = (
        build_grid_copier(Fraction(4), 8, 2, 3, frequencies, budget) for budget in ("three-tokens", "paper")
    )
    assert np.count_nonzero(three.model.embedding.weight.abs().sum(1)) == 3
    assert np.count_nonzero(everyone.model.embedding.weight.abs().sum(1)) == 7


@pytest.mark.deep
@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/status is Linux's")
def test_twenty_thousand_symbols_take_less_than_two_gigabytes() -> None:
    # Not ru_maxrss: it also counts the memory of the process that started this one.
    code = """
import re
from pathlib import Path
import numpy as np, torch
from constructions import build_grid_copier, greedy_copy
from theory import draw_grid_frequencies, sample_strings
torch.set_num_threads(1)
copier = build_grid_copier(20000, 120, 2, 3, draw_grid_frequencies(120, 0, 0))
strings = sample_strings("uniform", 20_000, 1, seed=1)
right = np.array_equal(greedy_copy(copier, strings), strings)
print(right, re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""
    right, kilobytes = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert right == "True"
    assert int(kilobytes) < 2 * 10**9 / 1024


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["recursive-flip", "single-flip"])
def test_twenty_thousand_symbols_in_float64(kind: str) -> None:
    copier = build_grid_copier(20000, 120, 2, 3, draw_grid_frequencies(120, 0, 0))
    strings = sample_strings(kind, 20_000, 1, seed=1)
    assert np.array_equal(greedy_copy(copier, strings), strings)


def test_with_one_token_after_the_string_the_first_step_fails() -> None:
    copier = build_grid_copier(20000, 112, 2, 1, draw_grid_frequencies(112, 0, 0), allow_single_b=True)
    flip = first_step_failure(copier.score())
    assert flip is not None and flip.step == 1
    assert replay(copier, flipped(flip), 1).wrong is True
    for shorter in range(1, flip.length):
        assert replay(copier, flipped(SingleFlip(shorter, 1)), 1).wrong is False


def test_saved_weights_come_back_with_their_score(tmp_path: Path) -> None:
    copier = copier_for(8, 2.0, 0)
    path = tmp_path / "copier.safetensors"
    digest = copier.save(path)
    loaded = load_grid_copier(path)
    assert (
        loaded.score() == copier.score() and loaded.rho == copier.rho and loaded.square_norm() == copier.square_norm()
    )
    assert loaded.save(tmp_path / "again.safetensors") == digest
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.safetensors", "copier.safetensors"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:100],
        lambda data: data[: len(data) - 8],
        lambda data: b"not safetensors" + data,
        lambda data: b"",
    ],
)
def test_truncated_or_foreign_files_are_refused(damage, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "copier.safetensors"
    copier_for(4, 2.0, 0).save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=r"weights = .*: must be a readable safetensors file") as caught:
        load_grid_copier(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError):
        load_grid_copier(tmp_path / "missing.safetensors")


def test_float32_weights_are_read_exactly_and_still_copy() -> None:
    copier = copier_for(8, 3.0, 4)
    rounded = GridCopier(copier.model.to(torch.float32), copier.task, copier.frequencies, copier.rho, copier.budget)
    found = exact_length(rounded.score())
    assert found.length is not None and found.length > 3
    assert not wrong_strings(rounded, single_flip_strings(found.length - 1)).any()


@pytest.mark.parametrize("name", ["blocks.0.attention.query.weight", "blocks.0.attention.key.weight"])
def test_a_moved_weight_moves_the_predicted_length_with_the_model(name: str) -> None:
    """The theory reads the stored weights, so a damaged model is predicted as it is, not as it was meant."""
    copier = copier_for(8, 12.0, 3)
    before = exact_length(copier.score()).length
    dict(copier.model.named_parameters())[name].data[4, 0] *= -0.3
    found = exact_length(copier.score())
    assert found.fails is not None and found.length != before
    assert replay(copier, flipped(found.fails), found.fails.step).wrong is True
    if found.length:
        assert not wrong_strings(copier, single_flip_strings(found.length)).any()


def test_models_that_are_not_position_only_are_refused() -> None:
    copier = copier_for(8, 2.0, 0)
    copier.model.embedding.weight.data[1, 0] *= 1.5
    with pytest.raises(InputError, match="position-only"):
        copier.score()


def test_named_subspaces() -> None:
    source, target = Space(("p", "q"), 3), Space(("x", "y", "z"), 3)
    matrix = linear_map(source, target, {"q": {"z": 2.0, "x": -1.0}})
    assert matrix.tolist() == [[0, -1, 0], [0, 0, 0], [0, 2, 0]]
    with pytest.raises(ValueError, match="do not fit"):
        Space(("p", "p"), 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 8, 2, 3), "rho = 0"),
        ((Fraction(1, 10**9), 8, 2, 3), "rho = 1/1000000000"),
        ((5, 6, 2, 3), "d = 6: must be a positive multiple of 4"),
        ((5, 8, 0, 3), "a = 0"),
        ((5, 8, 2, 1), "b = 1: must be at least 2: with b = 1 the newline itself asks"),
        ((5, 12, 2, 3), r"frequencies = 2 \+ 2"),
    ],
)
def test_bad_input(arguments: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_grid_copier(*arguments, draw_grid_frequencies(8, 0, 0))


def test_frequencies_of_rope_and_a_period_are_predicted_too() -> None:
    for frequencies in (
        base_grid_frequencies(Fraction(100), 8),
        GridFrequencies((Turn(Fraction(1, 3)),) * 2, (Turn(Fraction(3, 16)), Turn(Fraction(5, 16)))),
    ):
        copier = build_grid_copier(Fraction(9), 8, 2, 3, frequencies)
        found = exact_length(copier.score())
        assert found.fails is not None and found.length
        if "Turn" in repr(frequencies):
            assert found.length <= 16
        assert not wrong_strings(copier, single_flip_strings(found.length)[:: max(1, found.length // 50)]).any()
