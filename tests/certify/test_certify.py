"""Exact verification of one-layer models: against all strings, near the margin, and where it must refuse."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import exp
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from flint import arb

from constructions import build_grid_copier
from engine import (
    ALiBi,
    AutoGridRoPE,
    AxisFrequencies,
    Encoding,
    RoPE,
    RunDirectory,
    Transformer,
    TransformerConfig,
    preset_run,
    train,
)
from proofs_check.certify import load, one_layer_model, replay_error, replay_step, save_subject
from proofs_check.certify._certificate import _threshold
from proofs_check.certify._exact_model import in_float64, template_of
from proofs_check.certify._words import described, number_of_strings, runs_of
from proofs_check.documents import RejectedCertificateError, weights_input, write_certificate
from proofs_check.verify import verify_file
from tests._commands import answered
from tests._rounding import ULPS, gamma, margin_error
from tests.models.small import (
    Sample,
    all_logits,
    blend,
    brute_force,
    copying_sample,
    differences,
    least_half,
    random_sample,
    sharpened,
    trained,
)
from theory import (
    CertifiedHead,
    InputError,
    OneLayerModel,
    Template,
    Turn,
    base_grid_frequencies,
    certify_half,
    certify_heads,
    certify_strings,
    draw_grid_frequencies,
    exact_length,
    theory_task,
    trained_task,
)
from theory.numbers import EXP_ERROR, exp_nonpositive, working_precision
from theory.numbers._float_exp import LEAST_ARGUMENT
from theory.one_layer import Axes, Head, PairScore
from theory.one_layer._one_head import Decider
from theory.one_layer._weights import BallKernels, FloatKernels, RoundedKernels, Span
from theory.one_layer._worst_case import BALLS, FLOATS, least_numerators
from theory.task import all_strings

ROOT = Path(__file__).parents[2]


def certify(sample: Sample, longest: int) -> CertifiedHead:
    return certify_strings(one_layer_model(sample.model, sample.template), longest)


def assert_equal_to_brute_force(sample: Sample, longest: int) -> CertifiedHead:
    """Verdict, first failing length, margin up to it, its lower bound, and the string shown."""
    found, least = certify(sample, longest), brute_force(sample, longest)
    fails = next((n for n, value in enumerate(least, 1) if value <= 0), None)
    margin = min(least[: fails or longest])
    error = margin_error(one_layer_model(sample.model, sample.template), longest)
    assert all(abs(value) > error for value in least)  # so that these signs are certain
    assert found.fails_at == fails
    assert found.status == ("PROVED" if fails is None else "REFUTED")
    assert abs(found.margin - margin) <= error
    assert found.margin_below is not None
    # Bounds from 2^-40 below the margin on are tried; a thousandth is what the loosest kernels need.
    assert margin - 1e-3 * max(1, abs(margin)) < found.margin_below <= margin + error
    shown = differences(sample, found.worst.length, sub_strings=found.worst.string[None])[0]
    assert abs(float(shown) - found.margin) <= error
    return found


# The parts, each against a slower route.


def test_the_exponential_keeps_its_bound_and_comes_near_it() -> None:
    x = -np.concatenate(
        [np.random.default_rng(0).random(3000) * 600, np.random.default_rng(1).random(500), [0.0, 600.0]]
    )
    y = exp_nonpositive(x.copy())
    with mpmath.workprec(160):
        off = max(abs(mpmath.mpf(float(b)) / mpmath.exp(mpmath.mpf(float(a))) - 1) for a, b in zip(x, y, strict=True))
    assert EXP_ERROR / 4 < off < EXP_ERROR
    assert exp_nonpositive(np.array([LEAST_ARGUMENT - 0.1, -1e9])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_weights_in_floats_are_within_their_bound_of_the_balls(seed: int) -> None:
    sample = copying_sample(seed, noise=0.1)
    model = one_layer_model(sample.model, sample.template)
    query, key, span = sample.template.data[0], sample.template.data[1], Span(-300, 400)
    for kind in (FloatKernels, RoundedKernels):
        kernels = kind(model.frequencies, model.heads[0], query, {(key, -1): span, (key, 0): span})
        with working_precision(256):
            balls = BallKernels(model.frequencies, model.heads[0]).scores(query, key, -1, span)
        highest = max(range(len(balls)), key=lambda k: float(balls[k].mid()))
        rounded = kernels.weights(key, -1, span).value
        with working_precision(256):
            off = [
                abs(float(arb(float(w)) / arb(float(rounded[highest])) / (b - balls[highest]).exp() - 1))
                for w, b in zip(rounded, balls, strict=True)
            ]
        assert 0 < max(off) < 2 * kernels.error
        assert max(off) > kernels.error / 1e4


@pytest.mark.parametrize("seed", [3, 4])
def test_least_numerators_in_floats_are_within_their_bound_of_the_balls(seed: int) -> None:
    sample = copying_sample(seed, noise=0.2)
    decider = Decider(one_layer_model(sample.model, sample.template).in_units(), 60)
    for view, case in decider.questions(60):
        votes = decider.zero[case]
        floats = least_numerators(view.family, case.symbol, votes, FLOATS)
        with working_precision(256):
            balls = least_numerators(view.balls(60, 256), case.symbol, decider.votes[case], BALLS)
        # Floats leave out a common factor; the first weight of the wanted key tells it.
        with working_precision(256):
            factor = view.balls(60, 256).target[case.symbol][0] / arb(float(view.family.target[case.symbol].value[0]))
            for one, other in zip(floats, balls, strict=True):
                off = [abs(float(exact / factor - arb(float(x)))) for x, exact in zip(one.value, other, strict=True)]
                assert max(off) <= 2 * one.error
                assert max(off) > 0


# Verdict and margin against all strings.


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_models_agree_with_all_strings(seed: int) -> None:
    assert_equal_to_brute_force(random_sample(seed), 4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_models_that_nearly_copy_agree_with_all_strings(seed: int) -> None:
    assert_equal_to_brute_force(copying_sample(seed, noise=(0.0, 0.01, 0.1)[seed % 3]), 6)


@pytest.mark.deep
def test_hundreds_of_models_agree_with_all_strings(tmp_path: Path) -> None:
    """The campaign in small, in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.certify_campaign",
        "--scale",
        "0.02",
        "--out",
        str(tmp_path / "c.jsonl"),
    ]
    counts = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)["all"]
    assert counts["models"] >= 150
    assert counts["near"] >= 30
    assert min(counts["proved_4"], counts["refuted"], counts["near_proved"]) >= 15
    assert [counts[name] for name in ("false_proved", "false_refuted", "other_length", "margin_off", "bound_off")] == [
        0
    ] * 5
    assert counts["undecided"] <= 2


@pytest.mark.slow
def test_margins_far_below_float64_are_decided_in_balls() -> None:
    """On the way from a model that copies to its negated queries the verdict changes at some place."""
    good = next(
        sample
        for sample in (copying_sample(2 * 10**5 + seed, noise=0.01, least=1.6, most=3.5) for seed in range(100))
        if certify(sample, 4).status == "PROVED"
    )
    bad = blend(good, good, 0.0)
    bad.model.block(0).attention.query.weight.data.mul_(-1.0)
    low, high = 0.0, 1.0
    assert certify(bad, 4).status == "REFUTED"
    used = []
    for _ in range(52):
        middle = (low + high) / 2
        found = certify(blend(good, bad, middle), 4)
        used.append(found.balls)
        low, high = (middle, high) if found.status == "PROVED" else (low, middle)
        assert found.status != "UNDECIDED"
    # Halving 52 times leaves weights that differ by roundings.
    assert abs(found.margin) < margin_error(one_layer_model(good.model, good.template), 4)
    assert not used[0]
    assert used[-1]


@pytest.mark.slow
def test_a_trained_model_agrees_with_all_strings() -> None:
    model, task, loss = trained(0, steps=250, longest=12, width=32)
    assert loss < 0.3
    frequencies = 1000.0 ** -(np.arange(8) / 8)
    found = assert_equal_to_brute_force(Sample(model, template_of(model, task), frequencies), 6)
    assert found.proved_to >= 1


@pytest.mark.slow
@pytest.mark.parametrize("draw", range(6))
@pytest.mark.parametrize(("a", "b"), [(2, 3), (1, 2), (3, 5)])
def test_the_built_copiers_exact_length_is_found_again(draw: int, a: int, b: int) -> None:
    copier = build_grid_copier(Fraction(11, 2), 8, a, b, draw_grid_frequencies(8, 5, draw))
    exact = exact_length(copier.score())
    found = certify_strings(one_layer_model(copier.model, theory_task(a, b)), 2000)
    assert exact.fails is not None
    assert (found.limit, found.fails_at) == (exact.length, exact.fails.length)
    flips = np.flatnonzero(found.worst.string != found.worst.string.sum() * 2 // len(found.worst.string))
    assert found.worst.length == exact.fails.length
    assert len(flips) == 1 or len(found.worst.string) == 1


def test_names_of_tokens_do_not_matter() -> None:
    sample = copying_sample(41, noise=0.05)
    size = sample.model.config.vocabulary_size
    order = torch.randperm(size, generator=torch.Generator().manual_seed(0))
    moved = blend(sample, sample, 0.0)
    moved.model.embedding.weight.data[order] = sample.model.embedding.weight.data
    if sample.model.config.outputs == size:
        moved.model.readout.weight.data[order] = sample.model.readout.weight.data
    named = {token: int(order[token]) for token in range(size)}
    template = sample.template
    renamed = Template(
        tuple(named[t] for t in template.prefix),
        tuple(named[t] for t in template.infix),
        (named[template.data[0]], named[template.data[1]]),
        frozenset(named[t] for t in template.ends),
    )
    assert certify(replace(moved, template=renamed), 30).margin == certify(sample, 30).margin


def test_softmax_of_scores_far_apart() -> None:
    """Scores of the wanted key from -40 to 0 against others from -41 to -30: the weights are what they are."""
    scores = {(3, 0): -40, (3, 1): 0, (3, 2): -41, (3, 3): -30}
    pairs = {place: PairScore(constant=arb(value)) for place, value in scores.items()}
    pairs |= {(query, key): PairScore() for query in (0, 1) for key in range(4)}
    ballot = {0: (1, 0), 1: (0, 1), 2: (0, 0), 3: (0, 1)}
    values = {token: (arb(zero), arb(one)) for token, (zero, one) in ballot.items()}
    template = Template((2,), (3,))
    model = OneLayerModel(template, Axes(), (Head(pairs, values),), {}, (0, 1), 2, arb(1))
    found = certify_strings(model, 1)
    assert found.status == "REFUTED"
    assert found.worst.string.tolist() == [0]
    # Three operations on exponentials within their ulps, of which the greatest terms are exact.
    assert found.margin == pytest.approx((exp(-10) - 1) / (exp(-10) + 1 + exp(-11)), rel=gamma(4 * ULPS + 6), abs=0)
    weaker = {**pairs, (3, 3): PairScore(constant=arb(-41))}
    copies = OneLayerModel(template, Axes(), (Head(weaker, values),), {}, (0, 1), 2, arb(1))
    assert certify_strings(copies, 1).status == "PROVED"
    assert certify_strings(copies, 1).margin == pytest.approx(
        (1 - exp(-1)) / (1 + 2 * exp(-1)), rel=gamma(4 * ULPS + 6), abs=0
    )


# Other positional encodings, against the torch model itself.


def encoded(encoding: Encoding, seed: int, heads: int = 1) -> Transformer:
    torch.manual_seed(seed)
    config = TransformerConfig(5, 8, 1, heads, 8, 8, 5, "given", True, True, False, False, None)
    model = Transformer(config, encoding, 2).double().requires_grad_(False)
    for parameter in model.parameters():
        parameter.mul_(1.5)
    return model


def torch_margins(model: Transformer, longest: int) -> list[float]:
    task, result = trained_task(), []
    for n in range(1, longest + 1):
        strings = all_strings(n)
        logits = in_float64(model)(torch.from_numpy(task.sequences(strings)), task.query_index(n, 1))
        targets = torch.from_numpy(strings)[..., None]
        gaps = logits.gather(2, targets) - logits
        result.append(float(gaps.scatter(2, targets, torch.inf).min()))
    return result


def saturated(seed: int) -> Transformer:
    """Gates exactly 1 on 0, 1 and <I:>, exactly 0 on <n> and <O:>."""
    model = encoded(AutoGridRoPE(base_grid_frequencies(Fraction(1000), 8), 8), seed)
    block = model.block(0)
    inputs = block.norm(model.embedding.weight)
    wanted = torch.tensor([9.0, 9.0, -9.0, 9.0, -9.0], dtype=torch.float64)
    encoding = block.attention.encoding
    encoding.gate.bias.zero_()
    encoding.gate.weight.copy_(torch.linalg.lstsq(inputs, wanted[:, None]).solution.T)
    return model


class Sloped(RoPE):
    """An encoding of nobody's but this test's: RoPE whose scores also fall with the distance."""

    slopes = (0.25,)

    def axes(self) -> AxisFrequencies:
        return (), self.phases.frequencies


class Silent(RoPE):
    """It may turn by something else than what RoPE says, and says nothing."""


ENCODINGS: dict[str, Callable[[int], Transformer]] = {
    "sloped": lambda seed: encoded(Sloped(base_grid_frequencies(Fraction(50), 16).row), seed),
    "alibi": lambda seed: encoded(ALiBi(1), seed),
    "nope": lambda seed: encoded(Encoding(), seed),
    "rope": lambda seed: encoded(RoPE(base_grid_frequencies(Fraction(50), 16).row), seed),
    "auto2d": saturated,
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ENCODINGS)
def test_other_encodings_agree_with_the_torch_model(name: str, seed: int) -> None:
    model = ENCODINGS[name](seed)
    found = certify_strings(one_layer_model(model, trained_task()), 4)
    least = torch_margins(model, 4)
    fails = next((n for n, value in enumerate(least, 1) if value <= 0), None)
    error = margin_error(one_layer_model(model, trained_task()), 4)
    assert all(abs(value) > error for value in least)
    assert found.fails_at == fails
    assert abs(found.margin - min(least[: fails or 4])) <= error


@pytest.mark.parametrize("seed", range(4))
def test_a_head_normalised_without_a_residual_agrees_with_the_torch_model(seed: int) -> None:
    """Sub-LN puts one positive factor on all logits: the verdict is that of the torch model, the margin before it."""
    torch.manual_seed(seed)
    config = TransformerConfig(5, 8, 1, 1, 8, 8, 5, "grid", False, True, True, bool(seed % 2), None)
    model = Transformer(config, base_grid_frequencies(Fraction(1000), 8), 2).double().requires_grad_(False)
    found = certify_strings(one_layer_model(model, trained_task()), 4)
    fails = next((n for n, value in enumerate(torch_margins(model, 4), 1) if value <= 0), None)
    assert found.fails_at == fails


def test_an_encoding_that_does_not_say_its_axes_is_refused_by_name() -> None:
    model = encoded(Silent(base_grid_frequencies(Fraction(50), 16).row), 0)
    assert model(torch.tensor([[0, 1, 2]])).shape == (1, 3, 5)
    with pytest.raises(InputError, match=r"encoding = Silent: must be nope, .*, or a class that says its own axes"):
        load(model, template_of(encoded(Encoding(), 0), trained_task()))
    few = encoded(Sloped(base_grid_frequencies(Fraction(50), 16).row), 0)
    few.block(0).attention.encoding.phases.frequencies = ()
    assert one_layer_model(few, trained_task()).frequencies.column == ()
    few.block(0).attention.encoding.phases.frequencies = (Turn(Fraction(1, 3)),)
    with pytest.raises(InputError, match="encoding = 1 frequencies: must be 4, or none"):
        one_layer_model(few, trained_task())


def test_a_gate_that_is_not_saturated_is_refused() -> None:
    model = saturated(0)
    model.block(0).attention.encoding.gate.weight.mul_(0.3)
    with pytest.raises(InputError, match="only then are positions whole numbers"):
        one_layer_model(model, trained_task())
    flipped = saturated(0)
    flipped.block(0).attention.encoding.gate.weight.mul_(-1)
    with pytest.raises(InputError, match="break no row"):
        one_layer_model(flipped, trained_task())


# The criterion half, and several heads.


@pytest.mark.slow
def test_length_one_has_no_later_steps() -> None:
    for seed in range(20):
        sample = copying_sample(2 * 10**5 + seed, noise=0.02, least=1.6, most=3.5, heads=1 + seed % 2)
        model = one_layer_model(sample.model, sample.template)
        margin = brute_force(sample, 1)[0]
        if seed % 2:
            assert certify_heads(model, 1).status == ("PROVED" if margin > 0 else "REFUTED")
        else:
            assert certify_half(model, 1).status == ("PROVED" if least_half(sample, 1) > 0 else "REFUTED")


@pytest.mark.slow
def test_half_counts_the_final_norm_in() -> None:
    """The norm scales logits down: what half proves holds of the torch model's own probabilities."""
    proved = 0
    for seed in range(30):
        sample = sharpened(copying_sample(2 * 10**5 + seed, noise=0.02, least=1.6, most=3.5), 4.0)
        if not sample.model.config.final_norm or sample.model.config.outputs == 2 or seed % 2:
            continue
        if certify_half(one_layer_model(sample.model, sample.template), 3).status == "PROVED":
            proved += 1
            template = sample.template
            for string in all_strings(3):
                for step in (1, 2, 3):
                    logits = sample.model.last_logits(torch.from_numpy(template.sequence(string, step)))
                    assert float(logits.softmax(0)[template.data[string[step - 1]]]) > 0.5
    assert proved


@pytest.mark.slow
def test_several_heads_agree_with_all_strings() -> None:
    remarks = set()
    for seed in range(24):
        sample = copying_sample(seed, noise=(0.0, 0.05, 0.2, 0.4)[seed % 4], heads=2, least=1.2)
        found = certify_heads(one_layer_model(sample.model, sample.template), 5)
        margin = min(brute_force(sample, 5))
        assert found.status == ("PROVED" if margin > 0 else "REFUTED")
        worst = found.worst
        logits = all_logits(sample, worst.string[None])[0, worst.step - 1]
        data = (0, 1) if sample.model.config.outputs == 2 else sample.template.data
        shown = float(logits[data[worst.case.symbol]] - logits[worst.case.competitor])
        error = margin_error(one_layer_model(sample.model, sample.template), 5)
        assert abs(margin) > error and abs(shown - worst.ratio) <= error
        assert shown >= margin - error
        if found.margin_below is not None:
            assert found.margin_below <= margin + error
        remarks.add(found.remark[:9])
    assert {"the sum o", "a string "} <= remarks


def opposed_heads() -> OneLayerModel:
    """A head that copies, and the same again with half the votes reversed: the least sum is half of the first's least
    ratio, but the sum of the least ratios takes the first's largest one off.
    """
    for seed in range(100):
        sample = copying_sample(2 * 10**5 + seed, noise=0.0, least=1.6, most=3.5)
        if not sample.model.config.residual and certify(sample, 5).status == "PROVED":
            break
    one = one_layer_model(sample.model, sample.template)
    reversed_votes = {x: tuple(-value / 2 for value in logits) for x, logits in one.heads[0].values.items()}
    return replace(one, heads=(one.heads[0], Head(one.heads[0].scores, reversed_votes)))


@pytest.mark.slow
def test_a_budget_of_nodes_ends_undecided() -> None:
    model = opposed_heads()
    found = certify_heads(model, 5)
    assert found.status == "PROVED"
    assert found.remark.startswith("branching")
    assert certify_heads(model, 5, nodes=20).status == "UNDECIDED"


# Counterexamples in the torch model, and bad input.


@pytest.mark.slow
def test_counterexamples_are_wrong_in_the_torch_model() -> None:
    ran, skipped = 0, 0
    for seed in range(40):
        sample = copying_sample(seed, noise=(0.01, 0.1)[seed % 2])
        model = one_layer_model(sample.model, sample.template)
        found = certify_strings(model, 20)
        if found.status != "REFUTED":
            continue
        worst = found.worst
        error = replay_error(model, 2 * worst.length)
        replay = replay_step(sample.model, sample.template, worst.string, worst.step, worst.difference, error)
        ran, skipped = ran + replay.ran, skipped + (not replay.ran)
        assert replay.wrong is (True if replay.ran else None)
    assert ran >= 20
    assert skipped <= 0.05 * ran


def changed(**fields: Any) -> Transformer:
    config = replace(random_sample(0).model.config, position="grid", head_width=8, **fields)
    return Transformer(config, base_grid_frequencies(Fraction(1000), 8), 2)


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"layers": 2}, "layers = 2"),
        ({"mlp_width": 8}, "mlp_width = 8"),
        ({"sub_norm": True, "residual": True}, "sub_norm = True: must be false with a residual"),
        ({"sub_norm": True, "residual": False, "heads": 2}, "sub_norm = True: must be false with several heads"),
        ({"outputs": 3}, "outputs = 3"),
    ],
)
def test_parts_that_are_not_covered_are_named(fields: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError, match=part):
        one_layer_model(changed(**fields), trained_task())


def test_bad_weights_and_lengths_are_refused() -> None:
    model = changed()
    model.readout.bias = torch.nn.Parameter(torch.zeros(model.config.outputs))
    with pytest.raises(InputError, match=r"readout\.bias"):
        one_layer_model(model, trained_task())
    broken = changed()
    broken.embedding.weight.data[0, 0] = torch.nan
    with pytest.raises(InputError, match="finite"):
        one_layer_model(broken, trained_task())
    with pytest.raises(InputError, match="tokens below"):
        one_layer_model(changed(), Template((2,), (17,)))
    fine = one_layer_model(changed(), trained_task())
    for length in (0, 10**8):
        with pytest.raises(InputError, match="max_length"):
            certify_strings(fine, length)
    with pytest.raises(InputError, match="data"):
        Template((2,), (3,), (0, 0))
    with pytest.raises(InputError, match="break no row"):
        Template((2,), (3,), ends=frozenset({1}))


# The command, certificates, and the independent checker.


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Short runs of the preset: 2D-RoPE that copies at least a few symbols, and RoPE."""
    result = {}
    for encoding, steps in (("rope2d", 60), ("rope", 2)):
        path = tmp_path_factory.mktemp(encoding) / "run"
        train(preset_run("provable-1layer", encoding, 0, steps=steps, max_length=12), RunDirectory(path))
        result[encoding] = path
    return result


@pytest.mark.slow
def test_the_command_proves_a_run_and_the_checker_agrees(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("certify", str(runs["rope2d"]), "--max-length", "12", "--find-limit", "--cap", "300", "--json")
    code, out, _ = answered(capsys, *arguments, "--out", str(tmp_path))
    document = json.loads(out)
    assert code == 0
    assert document["status"] == "PROVED"
    assert document["strings"] == str(2**13 - 2)
    assert document["margin"] > document["margin_below"] > 0
    assert document["limit_proved_to"] >= 12
    assert len(document["worst"]["string"]) == document["worst"]["length"]
    verdict = verify_file(tmp_path / document["certificate"])
    assert verdict.accepted
    assert "every length from 1 to 12" in (verdict.statement or "")


@pytest.mark.slow
def test_the_command_shows_a_counterexample_for_rope(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = answered(capsys, "certify", str(runs["rope"]), "--max-length", "30", "--out", str(tmp_path))
    assert code == 1
    assert "REFUTED" in out
    assert "the model gets that step wrong" in out
    assert verify_file(tmp_path / "run-counterexample.json").accepted


def test_bad_arguments_are_one_line(runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(runs["rope2d"])
    for arguments in (
        (run, "--max-length", "0"),
        (run, "--max-length", "5", "--criterion", "most"),
        (str(tmp_path / "none"), "--max-length", "5"),
    ):
        code, out, err = answered(capsys, "certify", *arguments)
        assert code == 2
        assert not out
        assert err.startswith("copycert: ")
        assert err.count("\n") == 1


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sample, dict[str, Any], int]:
    """A directory with weights and a certificate of a model that copies up to some length and not beyond."""
    directory = tmp_path_factory.mktemp("certificate")
    for seed in range(100):
        sample = copying_sample(seed, noise=0.05)
        found = certify(sample, 100)
        if found.limit and 3 <= found.limit <= 60:
            break
    limit = found.proved_to
    inputs = weights_input("w.safetensors", save_subject(directory / "w.safetensors", sample.model, sample.template))
    claim = {"criterion": "argmax", "copies_up_to": limit, "fails_at": limit + 1}
    write_certificate(directory / "c.json", "one-layer-copies", inputs, {"thresholds": []}, claim)
    first, lengths = runs_of(found.worst.string)
    claim = {"first_symbol": first, "runs": lengths, "step": found.worst.step}
    claim["competitor"] = found.worst.case.competitor
    write_certificate(directory / "x.json", "one-layer-counterexample", inputs, {}, claim)
    return directory, sample, inputs, limit


def edited(path: Path, change: Callable[[dict[str, Any]], None]) -> bool:
    """Is the certificate accepted after a change?"""
    document = json.loads(path.read_text())
    change(document)
    other = path.with_name("edited.json")
    other.write_text(json.dumps(document))
    return verify_file(other).accepted


def test_claims_that_are_too_strong_are_rejected(certified: tuple[Path, Sample, dict[str, Any], int]) -> None:
    directory, _, _, limit = certified
    path = directory / "c.json"
    for field, value, accepted in (
        ("copies_up_to", limit - 1, True),
        ("copies_up_to", 0, True),
        ("copies_up_to", limit + 1, False),
        ("fails_at", limit, False),
        ("fails_at", 1, False),
        ("fails_at", None, True),
        ("fails_at", 0, False),
        ("criterion", "most", False),
        ("copies_up_to", 10**9, False),
        ("copies_up_to", -1, False),
    ):
        assert edited(path, lambda d, f=field, v=value: d["claim"].__setitem__(f, v)) is accepted, (field, value)
    assert not edited(path, lambda d: d["claim"].__setitem__("more", 1))
    assert not edited(path, lambda d: d["evidence"].__setitem__("more", 1))
    assert not edited(path, lambda d: d["inputs"]["weights"].__setitem__("sha256", "0" * 64))
    assert not edited(path, lambda d: d["claim"].__setitem__("criterion", "half"))


def test_counterexamples_that_are_none_are_rejected(certified: tuple[Path, Sample, dict[str, Any], int]) -> None:
    directory, sample, _, _ = certified
    path = directory / "x.json"
    claim = json.loads(path.read_text())["claim"]
    steps = sum(claim["runs"])
    string = np.concatenate([np.full(run, (claim["first_symbol"] + k) % 2) for k, run in enumerate(claim["runs"])])
    logits = all_logits(sample, string[None])[0]
    data = (0, 1) if sample.model.config.outputs == 2 else sample.template.data
    for step in range(1, steps + 1):
        target = data[string[step - 1]]
        for competitor in range(sample.model.config.outputs):
            wrong = competitor != target and bool(logits[step - 1, competitor] >= logits[step - 1, target])

            def change(d: dict[str, Any], step: int = step, competitor: int = competitor) -> None:
                d["claim"] |= {"step": step, "competitor": competitor}

            assert edited(path, change) is wrong
    assert not edited(path, lambda d: d["claim"].__setitem__("runs", [0, *d["claim"]["runs"]]))
    assert not edited(path, lambda d: d["claim"].__setitem__("runs", []))
    assert not edited(path, lambda d: d["claim"].__setitem__("step", steps + 1))


def test_moved_weights_are_derived_anew(certified: tuple[Path, Sample, dict[str, Any], int], tmp_path: Path) -> None:
    """A file with other weights has another hash; under its own hash the claim is judged by the moved weights."""
    directory, sample, inputs, limit = certified
    weak = blend(sample, sample, 0.0)
    weak.model.block(0).attention.query.weight.data.mul_(0.2)
    digest = save_subject(tmp_path / "w.safetensors", weak.model, weak.template)
    document = json.loads((directory / "c.json").read_text())
    (tmp_path / "c.json").write_text(json.dumps(document))
    assert "SHA-256" in (verify_file(tmp_path / "c.json").reason or "")
    assert certify(weak, limit).status == "REFUTED"
    claim = {"criterion": "argmax", "copies_up_to": limit, "fails_at": None}
    with pytest.raises(RejectedCertificateError):
        write_certificate(
            tmp_path / "d.json", "one-layer-copies", weights_input("w.safetensors", digest), {"thresholds": []}, claim
        )
    assert inputs["weights"]["sha256"] != digest


@pytest.mark.slow
def test_thresholds_are_checked(tmp_path: Path) -> None:
    """Half and several heads rest on thresholds; raised ones, and too low ones, are rejected."""
    for seed in range(100):
        sample = sharpened(copying_sample(2 * 10**5 + seed, noise=0.02, least=1.6, most=3.5), 6.0)
        model = one_layer_model(sample.model, sample.template)
        half = certify_half(model, 3)
        if half.status == "PROVED" and model.outputs > 2:
            break
    digest = save_subject(tmp_path / "w.safetensors", sample.model, sample.template)
    inputs = weights_input("w.safetensors", digest)

    def entries(shift: float) -> list[dict[str, Any]]:
        return [
            {
                "query": case.query,
                "first": case.first,
                "symbol": case.symbol,
                "competitor": case.competitor,
                "heads": [f"{int((value + shift) * 2**20)}/{2**20}"],
            }
            for case, value in half.thresholds.items()
        ]

    claim = {"criterion": "half", "copies_up_to": 3, "fails_at": None}
    write_certificate(tmp_path / "c.json", "one-layer-copies", inputs, {"thresholds": entries(-1e-5)}, claim)
    for evidence in (entries(0.1), [{**e, "heads": ["0"]} for e in entries(0)], entries(-1e-5)[1:]):
        with pytest.raises(RejectedCertificateError):
            write_certificate(tmp_path / "d.json", "one-layer-copies", inputs, {"thresholds": evidence}, claim)


@pytest.mark.slow
def test_several_heads_have_certificates(tmp_path: Path) -> None:
    """The sum of the heads' bounds: accepted as it is, rejected with one threshold raised or lowered by a lot."""
    sample, found = next(
        (sample, found)
        for sample in (copying_sample(seed, noise=0.05, heads=2, least=1.6, most=3.0) for seed in range(100))
        if (found := certify_heads(one_layer_model(sample.model, sample.template), 8)).bounded_to == 8
    )
    digest = save_subject(tmp_path / "w.safetensors", sample.model, sample.template)
    inputs = weights_input("w.safetensors", digest)
    claim = {"criterion": "argmax", "copies_up_to": 8, "fails_at": None}

    def evidence(shift: float) -> dict[str, Any]:
        entries = [_threshold(case, list(values)) for case, values in found.thresholds.items()]
        number, unit = entries[0]["heads"][0].split("/")
        entries[0]["heads"][0] = f"{int(number) + int(shift * 2**50)}/{unit}"
        return {"thresholds": entries}

    write_certificate(tmp_path / "c.json", "one-layer-copies", inputs, evidence(0), claim)
    for shift in (1.0, -50.0):
        with pytest.raises(RejectedCertificateError):
            write_certificate(tmp_path / "d.json", "one-layer-copies", inputs, evidence(shift), claim)
    with pytest.raises(RejectedCertificateError):
        write_certificate(tmp_path / "d.json", "one-layer-copies", inputs, {"thresholds": []}, claim)
    claim = {**claim, "fails_at": 9}
    with pytest.raises(RejectedCertificateError):
        write_certificate(tmp_path / "d.json", "one-layer-copies", inputs, evidence(0), claim)


def test_the_checker_reads_every_encoding(tmp_path: Path) -> None:
    for name, make in ENCODINGS.items():
        model = make(1)
        template = template_of(model, trained_task())
        found = certify_strings(one_layer_model(model, trained_task()), 4)
        digest = save_subject(tmp_path / f"{name}.safetensors", model, template)
        inputs = weights_input(f"{name}.safetensors", digest)
        first, lengths = runs_of(found.worst.string)
        claim = {"first_symbol": first, "runs": lengths, "step": found.worst.step}
        claim["competitor"] = found.worst.case.competitor
        write_certificate(tmp_path / f"{name}.json", "one-layer-counterexample", inputs, {}, claim)
        exact = {"criterion": "argmax", "copies_up_to": found.proved_to, "fails_at": found.fails_at}
        write_certificate(tmp_path / f"{name}-2.json", "one-layer-copies", inputs, {"thresholds": []}, exact)


def test_subjects_are_read_from_constructions_too(tmp_path: Path) -> None:
    copier = build_grid_copier(6, 8, 2, 3, draw_grid_frequencies(8, 0, 0))
    copier.save(tmp_path / "w.safetensors")
    subject = load(tmp_path / "w.safetensors")
    found = certify_strings(one_layer_model(subject.model, subject.template), 100)
    assert (found.proved_to, found.fails_at) == (35, 36)
    (tmp_path / "v.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError):
        load(tmp_path / "v.safetensors")


def test_words_for_strings() -> None:
    assert described(np.array([0, 0, 1, 0])) == "4 symbols, all 0 but 1 at 3"
    assert described(np.ones(5, dtype=np.int64)) == "5 symbols, all 1"
    assert runs_of(np.array([1, 1, 0, 1])) == (1, [2, 1, 1])
    assert number_of_strings(3) == "14"
