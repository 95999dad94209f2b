"""The criterion half against all strings: 3 outputs and more, and models where the largest sum of odds is nearly 1."""

from collections import Counter
from dataclasses import replace
from functools import cache
from math import expm1

import numpy as np
import pytest
import torch

from proofs_check.certify import one_layer_model
from tests._rounding import gamma, margin_error
from tests.models.small import Sample, all_logits, copying_sample, least_half, nearly_half, sharpened
from theory import certify_half, certify_strings
from theory.one_layer import CertifiedHalf
from theory.one_layer._branching import Question, Ratio

pytestmark = pytest.mark.slow

LONGEST = 4


def certify(sample: Sample, longest: int = LONGEST) -> CertifiedHalf:
    return certify_half(one_layer_model(sample.model, sample.template), longest)


def wide_samples(first: int, count: int) -> list[Sample]:
    """Models with 5 outputs and more."""
    drawn = [
        copying_sample(2 * 10**5 + seed, noise=(0.02, 0.1, 0.3)[seed % 3], least=1.6, most=3.5)
        for seed in range(first, first + count)
    ]
    return [sample for sample in drawn if sample.model.config.outputs > 2]


def assert_equal_to_brute_force(sample: Sample, longest: int = LONGEST) -> CertifiedHalf:
    """Verdict and first failing length, and the odds of the string shown."""
    found = certify(sample, longest)
    least = [least_half(sample, n) for n in range(1, longest + 1)]
    fails = next((n for n, value in enumerate(least, 1) if value <= 0), None)
    assert found.status == ("PROVED" if fails is None else "REFUTED")
    assert found.fails_at == fails
    assert found.proved_to == (longest if fails is None else fails - 1)
    assert found.limit == (None if fails is None else fails - 1)
    if found.odds is not None:
        relative = odds_error(sample, found)
        assert 1 <= found.odds <= (1 - least[found.worst.length - 1]) * (1 + relative)
        assert torch_probability(sample, found) == pytest.approx(1 / (1 + found.odds), rel=relative, abs=0)
    return found


def odds_error(sample: Sample, found: CertifiedHalf) -> float:
    """Relative error of the odds at the string shown, and so of a probability: e^(2 x error) - 1 of its logits.

    A final norm multiplies a logit and its error, and is off itself by the error of what it divides by.
    """
    error = margin_error(one_layer_model(sample.model, sample.template), found.worst.length)
    plain, scaled = (all_logits(sample, found.worst.string[None], scaled=scaled) for scaled in (False, True))
    factor = float((np.abs(scaled) / np.maximum(np.abs(plain), 1e-300)).max())
    relative = expm1(2 * error * factor * (1 + float(np.abs(scaled).max()))) + gamma(100)
    assert relative < 1e-6  # it still tells float32
    return relative


def torch_probability(sample: Sample, found: CertifiedHalf) -> float:
    """Of the right output at the step shown."""
    worst, template = found.worst, sample.template
    tokens = torch.from_numpy(template.sequence(worst.string, worst.step))
    data = (0, 1) if sample.model.config.outputs == 2 else template.data
    return float(sample.model.last_logits(tokens).softmax(0)[data[worst.case.symbol]])


@pytest.mark.parametrize("factor", [1.0, 2.0, 4.0, 6.0])
def test_half_agrees_with_all_strings(factor: float) -> None:
    seen = Counter(assert_equal_to_brute_force(sharpened(sample, factor)).status for sample in wide_samples(0, 40))
    assert seen["REFUTED"] >= 8
    assert factor < 4 or seen["PROVED"] >= 3


@cache
def tied_samples() -> list[Sample]:
    """Sharpened just so that the least probability over all strings is one half, where a factor does that."""
    copying = [
        sample
        for sample in wide_samples(0, 80)
        if certify_strings(one_layer_model(sample.model, sample.template), LONGEST).status == "PROVED"
    ]
    return [tied for sample in copying if (tied := nearly_half(sample, LONGEST)) is not None]


@pytest.mark.deep
def test_probabilities_near_one_half_are_decided() -> None:
    """Both sides, all logits by factors of 1 + 10^-2 to 1 +- 10^-6: the bound does not do there, branching does."""
    how: Counter[str] = Counter()
    assert len(tied_samples()) >= 5
    for tied in tied_samples():
        for distance in (1e-2, -1e-3, 1e-4, -1e-6, 1e-6):
            found = assert_equal_to_brute_force(sharpened(tied, 1 + distance))
            assert found.status == ("PROVED" if distance > 0 else "REFUTED")
            how[found.remark.split()[0] + found.remark.split()[1]] += 1
    assert how["branchingon"] >= 5
    assert how["astring"] >= 10


def test_without_branching_or_search_models_stay_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound alone leaves some of them open; and a search that finds nothing is not a proof."""
    models = [one_layer_model(sharpened(sample, 1 - 1e-4).model, sample.template) for sample in tied_samples()[:6]]
    assert models
    monkeypatch.setattr(Question, "search_all", lambda self: None)
    for model in models:
        assert certify_half(model, LONGEST, nodes=0).status == "UNDECIDED"


def test_a_bound_made_too_large_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ratios claimed to be larger than they are, and no string looked at: wrong models are called PROVED."""
    wrong = [sharpened(sample, 1 - 1e-4) for sample in tied_samples()]
    honest = Ratio.below
    monkeypatch.setattr(Ratio, "below", lambda self, ratio, fixed: (honest(self, ratio, fixed) or 0) + 2**42)
    monkeypatch.setattr(Question, "fails", lambda self, choice: False)
    assert any(certify(sample).status == "PROVED" for sample in wrong)


@pytest.mark.parametrize(("seed", "factor"), [(36, 0.6), (18, 0.8)])
def test_half_fails_at_lengths_where_branching_does_not_reach(seed: int, factor: float) -> None:
    """Above length 40 the bound proves, and strings are looked for: a bracket, right at both ends."""
    sample = sharpened(copying_sample(4 * 10**5 + seed, noise=0.01, least=2.5, most=4.5), factor)
    model = one_layer_model(sample.model, sample.template)
    found = certify_half(model, 400)
    assert found.fails_at is not None
    assert 40 <= found.proved_to < found.fails_at < 400
    assert found.odds is not None
    assert found.odds > 1
    assert torch_probability(sample, found) == pytest.approx(1 / (1 + found.odds), rel=odds_error(sample, found), abs=0)
    assert certify_half(model, found.proved_to).status == "PROVED"


def test_the_norms_factor_is_used_where_it_is_known() -> None:
    """Without it only its bound is left, and no string counts as a counterexample."""
    checked = 0
    for tied in (sample for sample in tied_samples() if sample.model.config.final_norm):
        for factor, status in ((1 + 1e-4, "PROVED"), (1 - 1e-4, "REFUTED")):
            near = sharpened(tied, factor)
            model = one_layer_model(near.model, near.template)
            assert certify_half(model, LONGEST).status == status
            assert certify_half(replace(model, norm=None), LONGEST).status == "UNDECIDED"
        checked += 1
    assert checked >= 2
