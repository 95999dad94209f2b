"""Theorem 3.2's copier: the torch model does what the theory says of it, string by string, and its stored weights obey
the norm."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from constructions import (
    TwoLayerCopier,
    ball_difference,
    build_two_layer_copier,
    forced_answers,
    load_two_layer_copier,
    replay_two_layer,
)
from constructions.theorem_3_2._copier import theorem_width
from theory import CopyTask, InputError, sample_strings, trained_task, two_layer_length
from theory.task import all_strings, single_flip_strings
from theory.two_layer import all_budgets, prove_length
from theory.two_layer._length import StepJudge


def wrong_strings(copier: TwoLayerCopier, strings: np.ndarray) -> int:
    answers = forced_answers(copier.model, copier.task, strings)
    return int((answers != strings).any(axis=1).sum())


def flipped(length: int, step: int) -> np.ndarray:
    return single_flip_strings(length)[step - 1]


@pytest.fixture(scope="module")
def paper() -> TwoLayerCopier:
    return build_two_layer_copier(10_001)


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(a, b) for a in (2, 3, 4) for b in (2, 3, 4, 5)])
def test_every_layout_is_proved_up_to_the_length_of_the_paper_and_copies_short_strings(a: int, b: int) -> None:
    copier = build_two_layer_copier(10_001, a, b)
    assert copier.length == 10_859  # rho^2/(1000 ln rho), rounded down
    assert copier.model.config.model_width == theorem_width(a, b) == 10 * a + 10 * b + 100
    assert copier.square_norm() <= 10_001**2
    proof = prove_length(copier.scores(), copier.length)
    assert proof is not None and proof.others < 1e-60
    for n in (1, 2, 5):
        assert wrong_strings(copier, all_strings(n)) == 0


@pytest.mark.slow
def test_every_string_up_to_length_ten_is_copied(paper: TwoLayerCopier) -> None:
    for n in range(1, 11):
        assert wrong_strings(paper, all_strings(n)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["sharp", "shared", "repeated"])
def test_the_new_variants_copy_every_short_string_too(variant: str) -> None:
    copier = build_two_layer_copier(1000, variant=variant, beyond_theorem=True)
    assert copier.square_norm() <= 1000**2
    assert copier.square_norm() > 1000**2 * (1 - Fraction(1, 10**6))
    for n in (1, 2, 3, 5, 8):
        assert wrong_strings(copier, all_strings(n)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["uniform", "recursive-flip", "single-flip", "constant"])
def test_strings_of_a_thousand_symbols_in_float64(paper: TwoLayerCopier, kind: str) -> None:
    """The same at length L0 = 10859 takes half a minute a string and stands in the acceptance run."""
    strings = np.zeros((1, 1000), dtype=np.int64) if kind == "constant" else sample_strings(kind, 1000, 1, seed=4)
    assert wrong_strings(paper, strings) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rho", "variant", "pairs"), [(40, "sharp", 1), (60, "sharp", 4), (50, "shared", 1), (60, "shared", 2)]
)
def test_the_torch_model_fails_exactly_beyond_the_predicted_length(rho: int, variant: str, pairs: int) -> None:
    copier = build_two_layer_copier(rho, variant=variant, pairs=pairs, beyond_theorem=True)
    found = two_layer_length(copier.scores(), copier.length)
    assert found.length is not None and found.fails is not None and found.length >= copier.length >= 2
    places = sorted({*range(0, found.length, 1 + found.length // 6), *range(max(0, found.length - 4), found.length)})
    assert wrong_strings(copier, single_flip_strings(found.length)[places]) == 0
    assert wrong_strings(copier, 1 - single_flip_strings(found.length)[places]) == 0
    assert replay_two_layer(copier, flipped(found.fails.length, found.fails.step), found.fails.step).wrong is True


def test_the_weights_of_the_paper_are_bracketed_at_small_budgets() -> None:
    copier = build_two_layer_copier(300, beyond_theorem=True)
    found = two_layer_length(copier.scores(), copier.length)
    assert found.lower >= copier.length == 15
    assert found.fails is not None and found.fails.length <= 2 * found.lower
    assert wrong_strings(copier, single_flip_strings(found.lower)) == 0
    assert replay_two_layer(copier, flipped(found.fails.length, found.fails.step), found.fails.step).wrong is True


@pytest.mark.slow
def test_balls_from_the_stored_weights_agree_with_the_theory_at_every_step() -> None:
    """A second route: the two layers as defined, in balls, against the anchor curve."""
    copier = build_two_layer_copier(20, variant="shared", length=6, beyond_theorem=True)
    judge = StepJudge(copier.scores(), 12)
    seen = set()
    for n in (4, 8, 9, 10, 11):
        for step in range(1, n + 1):
            difference = ball_difference(copier, flipped(n, step), step)
            right = judge.right(n, step)
            assert right != judge.wrong(n, step)
            assert (difference > 0) if right else (difference < 0)
            seen.add(right)
    assert seen == {True, False}


@pytest.mark.slow
def test_any_string_is_no_worse_than_the_single_flip_in_balls() -> None:
    copier = build_two_layer_copier(20, variant="shared", length=6, beyond_theorem=True)
    found = two_layer_length(copier.scores(), 6)
    assert found.length is not None
    for n in range(1, min(found.length, 4) + 1):
        for string in all_strings(n):
            assert all(ball_difference(copier, string, step) > 0 for step in range(1, n + 1))


MATRICES = [
    "embedding.weight",
    "readout.weight",
    *(f"blocks.{layer}.attention.{part}.weight" for layer in (0, 1) for part in ("query", "key", "value", "output")),
]


@pytest.mark.slow
def test_a_moved_entry_is_refused_whenever_the_torch_model_errs() -> None:
    """Each nonzero entry is moved, and some zeros: the moved model is either refused, or judged as it is then."""
    length, strings = 12, single_flip_strings(12)[::2]
    copier = build_two_layer_copier(60, variant="sharp", length=length, beyond_theorem=True)
    assert wrong_strings(copier, strings) == 0
    generator = np.random.default_rng(0)
    refused, judged, erred = 0, 0, 0
    for name in MATRICES:
        weights = dict(copier.model.named_parameters())[name].data
        places = weights.nonzero().tolist()[:4] + [
            [int(generator.integers(size)) for size in weights.shape] for _ in range(1)
        ]
        for row, column in places:
            for moved in (-0.4, 3.0):
                before = weights[row, column].item()
                weights[row, column] = before * moved if before else weights.abs().max() * moved
                wrong = wrong_strings(copier, strings) > 0
                erred += wrong
                try:
                    proof = prove_length(copier.scores(), length)
                    judged += 1
                    assert proof is None or not wrong
                except InputError:
                    refused += 1
                weights[row, column] = before
    assert refused > 10 and judged > 5 and erred > 10
    assert wrong_strings(copier, strings) == 0


def test_a_moved_weight_passes_only_as_what_it_has_become() -> None:
    copier = build_two_layer_copier(10_001)
    length = copier.length
    weights = copier.model.block(1).attention.query.weight.data
    places = weights.nonzero().tolist()
    before = copier.scores().scale
    for row, column in places:
        weights[row, column] *= 0.5
    assert copier.scores().scale == before / 2
    assert prove_length(copier.scores(), length) is not None
    for row, column in places:
        weights[row, column] *= 2.0**-9
    assert prove_length(copier.scores(), length) is None
    found = two_layer_length(copier.scores(), length)
    assert found.fails is not None and found.fails.length <= length


def test_the_construction_refuses_repeated_anchors_and_a_repaired_one_copies_them() -> None:
    with pytest.raises(InputError, match=r"anchors = <n> <I:> <I:> <O:>: must be four different tokens"):
        build_two_layer_copier(10_001, task=trained_task())
    broken = build_two_layer_copier(10_001, task=trained_task(), allow_repeated_anchors=True)
    witness = np.array([0, 1])
    assert replay_two_layer(broken, witness, 2).wrong is True
    assert ball_difference(broken, witness, 2) < 0
    with pytest.raises(InputError, match="of the two-layer copier's form"):
        broken.scores()
    repaired = build_two_layer_copier(1000, variant="repeated", beyond_theorem=True)
    assert repaired.task == trained_task()
    assert prove_length(repaired.scores(), repaired.length) is not None
    strings = np.concatenate([sample_strings(kind, 200, 3, 1) for kind in ("uniform", "recursive-flip", "single-flip")])
    assert wrong_strings(repaired, strings) == 0
    assert ball_difference(repaired, witness, 2) > 0


def test_other_layouts_with_four_different_anchors_are_welcome() -> None:
    names = ("0", "1", "x", "y", "z", "w")
    task = CopyTask((2, 3), (3, 4, 5), newline=None, names=names)
    copier = build_two_layer_copier(10_001, task=task)
    for n in range(1, 6):
        assert wrong_strings(copier, all_strings(n)) == 0
    assert prove_length(copier.scores(), copier.length) is not None


@pytest.mark.parametrize("variant", ["paper", "shared", "repeated"])
def test_saved_weights_come_back_with_their_scores(variant: str, tmp_path: Path) -> None:
    copier = build_two_layer_copier(Fraction(20_001, 2), variant=variant)
    path = tmp_path / "copier.safetensors"
    digest = copier.save(path)
    loaded = load_two_layer_copier(path)
    assert loaded.scores() == copier.scores() and loaded.rho == copier.rho and loaded.variant == variant
    assert loaded.square_norm() == copier.square_norm() and loaded.length == copier.length
    assert loaded.save(tmp_path / "again.safetensors") == digest
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InputError, match="must be a readable safetensors file"):
        load_two_layer_copier(path)


def test_weights_of_another_construction_are_refused(tmp_path: Path) -> None:
    from constructions import build_grid_copier
    from theory import draw_grid_frequencies

    path = tmp_path / "grid.safetensors"
    build_grid_copier(5, 8, 2, 3, draw_grid_frequencies(8, 0, 0)).save(path)
    with pytest.raises(InputError, match="a weights file of the two-layer copier"):
        load_two_layer_copier(path)


def test_a_changed_configuration_is_refused() -> None:
    copier = build_two_layer_copier(10_001)
    copier.model.config = replace(copier.model.config, sub_norm=True)
    with pytest.raises(InputError, match="unit sub-norm"):
        copier.scores()


def test_float32_weights_are_read_exactly() -> None:
    copier = build_two_layer_copier(300, length=10, beyond_theorem=True)
    rounded = replace(copier, model=copier.model.to(torch.float32))
    assert prove_length(rounded.scores(), 10) is not None
    assert wrong_strings(rounded, all_strings(8)) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rho": 10_000}, r"rho = 10000: must be greater than 10\^4 \(Theorem 3.2\)"),
        ({"rho": 0, "beyond_theorem": True}, "rho = 0: must be a number from 1 to 1e20"),
        ({"rho": 20, "beyond_theorem": True}, "there is nothing to copy"),
        ({"rho": 3, "variant": "sharp", "beyond_theorem": True}, "affords no length"),
        ({"rho": 10_001, "a": 1}, "a = 1: must be an integer >= 2"),
        ({"rho": 10_001, "b": 1}, "b = 1: must be an integer >= 2"),
        ({"rho": 10_001, "variant": "best"}, "variant = best: must be one of paper, sharp, shared, repeated"),
        ({"rho": 10_001, "variant": "sharp", "pairs": 49}, "pairs = 49: must be at most 48"),
        ({"rho": 10_001, "variant": "sharp", "pairs": 0}, "pairs = 0"),
        ({"rho": 10_001, "length": 0}, "length = 0"),
        ({"rho": 10_001, "variant": "repeated", "b": 4}, "the trained layout only"),
    ],
)
def test_bad_input(arguments: dict, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        build_two_layer_copier(**arguments)
    assert "\n" not in str(caught.value)


def test_data_tokens_are_no_anchors() -> None:
    task = CopyTask((2, 0), (3, 4), newline=None, names=("0", "1", "x", "y", "z"))
    with pytest.raises(InputError, match="tokens other than the data"):
        build_two_layer_copier(10_001, task=task)


def test_astronomical_budgets_are_decided() -> None:
    """Places beyond 2^63, and a corner at which 1 - cos would cancel."""
    copier = build_two_layer_copier(Fraction(10**12))
    bound = two_layer_length(copier.scores(), copier.length)
    assert bound.fails is not None and copier.length <= bound.lower < bound.fails.length <= 1.01 * bound.lower
    assert all_budgets(Fraction(2**70)).curvature > 1 / 72
