"""Exact verification of one-layer models: against all strings, near the margin, and where it must refuse."""

import pytest

from benchmarks._small_models import (
    Sample,
    brute_force,
    copying_sample,
    differences,
    random_sample,
)
from constructions import one_layer_model
from theory import (
    Certified,
    certify_strings,
)


def certify(sample: Sample, longest: int) -> Certified:
    return certify_strings(one_layer_model(sample.model, sample.template), longest)


def assert_equal_to_brute_force(sample: Sample, longest: int) -> Certified:
    """Verdict, first failing length, and margin up to it."""
    found = certify(sample, longest)
    least = brute_force(sample, longest)
    fails = next((n for n, value in enumerate(least, 1) if value <= 0), None)
    margin = float(min(least[: fails or longest]))
    assert found.fails_at == fails
    assert found.status == ("PROVED" if fails is None else "REFUTED")
    assert found.margin == pytest.approx(margin, rel=1e-12, abs=1e-12)
    assert found.margin_below is not None
    assert margin - 1e-4 * max(1, abs(margin)) < found.margin_below <= margin
    assert_worst(sample, found)
    return found


def assert_worst(sample: Sample, found: Certified) -> None:
    """The string shown has the margin shown."""
    string = found.worst.string
    assert float(differences(sample, len(string), sub_strings=string[None])[0]) == pytest.approx(
        found.margin, rel=1e-12, abs=1e-12
    )


@pytest.mark.parametrize("seed", range(0, 120, 10))
def test_random_models_agree_with_all_strings(seed: int) -> None:
    for k in range(10):
        assert_equal_to_brute_force(random_sample(seed + k), 4)


@pytest.mark.parametrize("seed", range(0, 160, 10))
def test_models_that_nearly_copy_agree_with_all_strings(seed: int) -> None:
    for k in range(10):
        assert_equal_to_brute_force(copying_sample(seed + k, noise=(0.0, 0.01, 0.1, 0.3)[k % 4]), 6)


def test_the_models_above_are_of_both_kinds() -> None:
    limits = [certify(copying_sample(k, noise=0.01), 6).proved_to for k in range(60)]
    assert {0, 1, 6} < set(limits)
    assert sum(limit >= 4 for limit in limits) >= 10
