"""Where floats end: repeated tokens, subnormal and overflowing votes, epsilons, dtypes, scores beyond any float."""

from dataclasses import replace
from fractions import Fraction
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, ctx
from torch import nn

from copycert.command._certify import _print
from copycert.command._main import main
from engine import (
    Encoding,
    ModelConfig,
    RunDirectory,
    Transformer,
    TransformerConfig,
    preset_run,
    stored_epsilon,
    train,
)
from proofs_check.certify import Question, Subject, one_layer_model, replay_error, replay_step, save_subject
from proofs_check.certify._certificate import write_in
from proofs_check.certify._outcome import of_half, of_head
from proofs_check.documents import RejectedCertificateError, weights_input, write_certificate
from tests.models.small import copying_sample
from theory import (
    CertifiedHead,
    InputError,
    OneLayerModel,
    Template,
    certify_half,
    certify_heads,
    certify_strings,
    trained_task,
)
from theory.numbers import exact_middle, spelled_at_least, spelled_at_most
from theory.one_layer import Axes, Head, PairScore, WorstStep
from theory.one_layer._one_head import Decider

UNIT = 2.0**-53

#: String and copy in one row, and in two.
NEAR, FAR = Template((2,), (3,), (0, 1)), Template((2,), (3,), (0, 1), frozenset({3}))


def built(
    matrices: dict[str, np.ndarray], *, heads: int = 1, norms: tuple[bool, bool] = (False, False), epsilon: float = 1.0,
    dtype: torch.dtype = torch.float64,
) -> Transformer:  # fmt: skip
    """A model without positions, with given weights and no residual."""
    vocabulary, width = matrices["embedding"].shape
    config = TransformerConfig(
        vocabulary, width, 1, heads, len(matrices["query"]) // heads, len(matrices["value"]) // heads,
        len(matrices["readout"]), "grid", False, norms[0], False, norms[1], 1.0, norm_epsilon=epsilon,
    )  # fmt: skip
    model = Transformer(config, Encoding(), None).to(dtype).requires_grad_(False)
    model.embedding.weight.copy_(torch.from_numpy(matrices["embedding"]))
    model.readout.weight.copy_(torch.from_numpy(matrices["readout"]))
    for part in ("query", "key", "value", "output"):
        getattr(model.block(0).attention, part).weight.copy_(torch.from_numpy(matrices[part]))
    return model


def voting(votes: list[float], scores: list[float], scale: float = 1.0) -> dict[str, np.ndarray]:
    """Each token has a score, whoever asks, and adds its vote to the first of two outputs, times scale^2."""
    size = len(votes)
    query, key = np.zeros((2, size)), np.zeros((2, size))
    query[0], key[0] = 1.0, scores
    output, readout = np.zeros((size, 1)), np.zeros((2, size))
    output[0, 0], readout[0, 0] = scale, scale
    return {
        "embedding": np.eye(size), "query": query, "key": key, "value": np.array([votes]), "output": output,
        "readout": readout,
    }  # fmt: skip


def of_votes(votes: list[float], scores: list[float], template: Template, scale: float = 1.0) -> OneLayerModel:
    return one_layer_model(built(voting(votes, scores, scale)), template)


# A bound derived from another quantity than what is computed.


def lost(score: float, count: int) -> Fraction:
    """What the float sum of that many equal weights loses, relatively."""
    weight = exp(score)
    total = weight
    for _ in range(count - 1):
        total += weight
    return total / (Fraction(weight) * count) - 1


@pytest.mark.slow
@pytest.mark.parametrize("count", [300, 1500, 2000])
def test_a_repeated_token_is_counted_as_often_as_it_stands_there(count: int) -> None:
    """N between -250 and 250 units of roundoff, where the float sum of the repeated token's weights loses most."""
    template = Template((2,) * count, (3,), (0, 1))
    score = min(np.random.default_rng(0).uniform(-0.7, -1e-3, 200).tolist(), key=lambda x: lost(x, count))
    assert -lost(score, count) / Fraction(UNIT) > 30
    for units in (20, 40, 90, 150, 250):
        for sign in (1, -1):
            against = -(1 + sign * units * UNIT) / (count * exp(score))
            with ctx.workprec(300):
                truth = 1 + arb(against) * count * arb(score).exp()
            model = of_votes([1.0, -1.0, against, 0.0], [0.0, 0.0, score, 0.0], template)
            found = certify_strings(model, 1)
            assert found.status == ("PROVED" if truth > 0 else "REFUTED")
            assert (found.worst.difference > 0) is bool(truth > 0)


def test_the_bound_in_floats_covers_what_repeated_tokens_lose() -> None:
    """The error that comes with the least sums is at least what they are off by."""
    count = 1500
    template = Template((2,) * count, (3,), (0, 1))
    score = min(np.random.default_rng(0).uniform(-0.7, -1e-3, 200).tolist(), key=lambda x: lost(x, count))
    model = of_votes([1.0, -1.0, -1 / (count * exp(score)), 0.0], [0.0, 0.0, score, 0.0], template).in_units()
    decider = Decider(model, 1)
    view, case = next((v, c) for v, c in decider.questions(1) if c.first and c.symbol == 0)
    sums = view.least_sums(0, decider.zero[case])
    with ctx.workprec(300):
        weights = arb(1) * decider.votes[case][0] + count * arb(score).exp() * decider.votes[case][2]
        off = abs(arb(sums.least(1)[0]) - (weights + decider.votes[case][3]))
    assert 20 * UNIT < float(off) < sums.error


# The model of floats holds in the normal range only.


@pytest.mark.parametrize("exponent", [-537, -536, -530, -500, -100, 0, 100, 500])
@pytest.mark.parametrize("score", [log(0.04), log(0.4)])
def test_a_verdict_does_not_depend_on_the_scale(exponent: int, score: float) -> None:
    """Ten tokens vote against 0: the true ratio is (1 - 11 w)/(1 + 11 w), w = exp(score), at every scale."""
    template = Template(tuple(range(2, 12)), (12,), (0, 1))
    votes = [1.0, -1.0, *[-1.0] * 11]
    found = certify_strings(of_votes(votes, [0.0, 0.0, *[score] * 11], template, 2.0**exponent), 1)
    ratio = (1 - 11 * exp(score)) / (1 + 11 * exp(score))
    assert found.status == ("PROVED" if ratio > 0 else "REFUTED")
    assert float(found.worst.difference / Fraction(2) ** (2 * exponent)) == pytest.approx(ratio, rel=1e-12)
    if found.margin_below is None:
        # No float is between 0 and the margin.
        assert 0 < found.worst.difference < Fraction(1, 2**1074)
    else:
        assert found.margin_below <= found.worst.difference
    assert (found.margin > 0) is (ratio > 0)


@pytest.mark.slow
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("exponent", [-500, pytest.param(0, marks=pytest.mark.deep), 480])
def test_half_and_heads_do_not_depend_on_the_scale_of_votes(heads: int, exponent: int) -> None:
    """Values times 2^k and the read-out times 2^-k: the same logits, the same words."""
    seen = set()
    for seed in range(6):
        sample = copying_sample(2 * 10**5 + seed, noise=0.02, least=1.6, most=3.5, heads=heads)
        changed = replace(sample)
        attention = changed.model.block(0).attention
        certify = certify_heads if heads > 1 else certify_half
        usual = certify(one_layer_model(sample.model, sample.template), 3)
        if not (sample.model.config.residual or sample.model.config.final_norm):
            attention.output.weight.mul_(2.0**exponent)
            changed.model.readout.weight.mul_(2.0**-exponent)
        moved = certify(one_layer_model(changed.model, sample.template), 3)
        assert (usual.status, usual.fails_at, usual.proved_to) == (moved.status, moved.fails_at, moved.proved_to)
        seen.add(usual.status)
    assert len(seen) > 1


@pytest.mark.parametrize("scale", [2.0**515, 2.0**-515, 1.0])
def test_votes_that_overflow_are_decided(scale: float) -> None:
    template = Template((2,), (3,), (0, 1))
    found = certify_strings(of_votes([1.0, -1.0, 0.5, 0.25], [0.0, 0.0, -1.0, -2.0], template, scale), 3)
    assert found.status == "REFUTED"
    assert found.worst.difference < 0


def test_weights_that_underflow_are_decided() -> None:
    """Scores of 0, and of -1000 and less at the step asked: no denominator in floats."""
    template = Template((2,), (3,), (0, 1))
    scores = {(3, 0): 0, (3, 1): -3000, (3, 2): -1000, (3, 3): -2000}
    pairs = {place: PairScore(constant=arb(value)) for place, value in scores.items()}
    pairs |= {(query, key): PairScore(constant=arb(-10_000)) for query in (0, 1) for key in range(4)}
    ballot = {0: (1, 0), 1: (0, 1), 2: (0, 0), 3: (1, 0)}
    values = {token: (arb(zero), arb(one)) for token, (zero, one) in ballot.items()}
    model = OneLayerModel(template, Axes(), (Head(pairs, values),), {}, (0, 1), 2, arb(1))
    found = certify_strings(model, 2)
    assert found.status == "REFUTED"
    assert found.worst.string.tolist() == [1]
    assert found.worst.difference < 0
    better = {**pairs, (3, 1): PairScore(constant=arb(-10)), (3, 0): PairScore(constant=arb(0))}
    copies = OneLayerModel(template, Axes(), (Head(better, values),), {}, (0, 1), 2, arb(1))
    assert certify_strings(copies, 1).status == "PROVED"


@pytest.mark.parametrize("size", [1e60, 1e200])
def test_scores_beyond_the_balls_are_refused_and_large_ones_decided(size: float) -> None:
    template = Template((2,), (3,), (0, 1))
    matrices = voting([1.0, -1.0, 0.0, 0.0], [1.0, 1.0, 0.5, 0.25])
    model = built(matrices)
    model.block(0).attention.query.weight.mul_(size)
    scores = one_layer_model(model, template)
    if size < 1e100:
        assert certify_strings(scores, 3).status in ("REFUTED", "UNDECIDED")
        return
    for certify in (certify_strings, certify_heads):
        try:
            found = certify(scores, 3)
        except InputError as error:
            assert error.argument == "scores"
        else:
            assert found.status != "PROVED" or found.worst.difference > 0


# Epsilons and dtypes.


def test_a_zero_embedding_without_epsilon_is_refused_by_name() -> None:
    matrices = voting([1.0, -1.0, 0.0, 0.0], [0.0] * 4)
    matrices["embedding"][2] = 0.0
    model = built(matrices, norms=(True, False), epsilon=0.0)
    with pytest.raises(InputError, match="0 at token 2"):
        one_layer_model(model, Template((2,), (3,), (0, 1)))
    # A token that the prompt does not have does not matter.
    assert certify_strings(one_layer_model(model, Template((3,), (3,), (0, 1))), 1).status == "PROVED"
    assert one_layer_model(built(matrices, norms=(True, False), epsilon=1e-30), Template((2,), (3,), (0, 1)))


def test_an_epsilon_that_is_not_stored_is_refused() -> None:
    with pytest.raises(InputError, match="norm_epsilon = none"):
        stored_epsilon(nn.RMSNorm(3))
    with pytest.raises(InputError, match="norm_epsilon"):
        ModelConfig("nope", norm_epsilon=float("nan"))
    with pytest.raises(InputError, match=r"at most 4,000,000,000 parameters"):
        ModelConfig("nope", layers=10**6)
    with pytest.raises(InputError, match="rotary_layout"):
        ModelConfig("nope", rotary_layout="half-split")


def test_a_document_without_epsilon_means_float32s() -> None:
    """As runs were written before there was the field; with it, it is kept, and so is the scale of the scores."""
    config = ModelConfig("rope2d", norm_epsilon=1e-5)
    document = config.document()
    assert document["norm_epsilon"] == 1e-5
    assert document["score_scale"] == [64**-0.5]
    assert ModelConfig.from_document(document) == config
    for name in ("norm_epsilon", "score_scale", "rotary_layout"):
        del document[name]
    old = ModelConfig.from_document(document)
    assert old.norm_epsilon == 2.0**-23
    assert old.shape().scale(0) == 64**-0.5
    assert replace(old, heads=1).shape().scale(0) == 128**-0.5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_epsilon_does_not_depend_on_the_dtype(dtype: torch.dtype) -> None:
    """Small embeddings, so that an epsilon of bfloat16's would change what the norm gives by a factor."""
    sample = copying_sample(2 * 10**5, noise=0.0, least=3.0, most=3.5)
    matrices = voting([1.0, -1.0, 0.1, 0.1], [0.0, 0.0, -2.0, -2.0])
    matrices["embedding"] *= 0.03125
    model = built(matrices, norms=(True, True), epsilon=2.0**-23, dtype=dtype)
    stored = one_layer_model(model, Template((2,), (3,), (0, 1)))
    score = float(stored.heads[0].scores[3, 2].constant.mid())
    size = 0.03125**2 / 4
    assert score == pytest.approx(-2.0 * (0.03125 / (size + 2.0**-23) ** 0.5) ** 2, rel=1e-9)
    assert sample.model.config.norm_epsilon == 2.0**-23


def test_weights_in_integers_or_eight_bits_are_refused() -> None:
    model = built(voting([1.0, -1.0, 0.0, 0.0], [0.0] * 4))
    for dtype in (torch.int8, torch.float8_e4m3fn):
        model.embedding.weight = nn.Parameter(torch.zeros(4, 4).to(dtype), requires_grad=False)
        with pytest.raises(InputError, match="float64, float32, bfloat16 or float16"):
            one_layer_model(model, Template((2,), (3,), (0, 1)))


# The replay.


def replayed(model: Transformer, template: Template, found: CertifiedHead) -> Any:
    worst = found.worst
    error = replay_error(one_layer_model(model, template), 2 * worst.length)
    return replay_step(model, template, worst.string, worst.step, worst.difference, error)


def test_the_replay_runs_the_model_as_stored_and_in_float64() -> None:
    template = Template((2,), (3,), (0, 1))
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        model = built(voting([1.0, -1.0, 0.5, 0.25], [0.0, 0.0, -1.0, -2.0]), dtype=dtype)
        replay = replayed(model, template, certify_strings(one_layer_model(model, template), 3))
        assert replay.ran
        assert replay.wrong
        assert replay.stored_wrong
        assert replay.stored_dtype == str(dtype).removeprefix("torch.")


def test_a_run_that_overflows_decides_nothing() -> None:
    template = Template((2,), (3,), (0, 1))
    model = built(voting([1.0, -1.0, 0.5, 0.25], [0.0, 0.0, -1.0, -2.0], 2.0**515))
    replay = replayed(model, template, certify_strings(one_layer_model(model, template), 3))
    assert not replay.ran
    assert replay.wrong is None
    assert "overflow" in replay.reason
    assert replay.stored_wrong is None


# A verdict that contradicts itself.


def test_a_verdict_that_contradicts_the_step_shown_cannot_be_made() -> None:
    template = Template((2,), (3,), (0, 1))
    found = certify_strings(of_votes([1.0, -1.0, 0.5, 0.25], [0.0, 0.0, -1.0, -2.0], template), 3)
    assert found.status == "REFUTED"
    right = replace(found.worst, difference=Fraction(1))
    for worst, fails_at, proved_to in (
        (right, found.fails_at, found.proved_to),
        (replace(found.worst, length=2), 1, 0),
        (found.worst, None, 3),
        (replace(found.worst, difference=Fraction(0)), None, 3),
    ):
        assert isinstance(worst, WorstStep)
        with pytest.raises(ArithmeticError):
            replace(found, worst=worst, fails_at=fails_at, proved_to=proved_to)


# The command.


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("edges") / "run"
    train(preset_run("provable-1layer", "rope2d", 0, steps=2, max_length=4), RunDirectory(path))
    return path


def certify_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["certify", *arguments])
    told = capsys.readouterr()
    return int(ended.value.code or 0), told.out, told.err


@pytest.mark.slow
def test_the_verdict_is_told_before_anything_is_saved(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device", "w")

    monkeypatch.setattr("proofs_check._results.write_atomically", full)
    for option in ((), ("--json",)):
        code, out, err = certify_command(capsys, str(run), "--max-length", "3", "--out", str(tmp_path / "o"), *option)
        assert code == 2
        assert "REFUTED" in out
        assert "No space left on device" in err
        assert err.count("\n") == 1


@pytest.mark.slow
def test_certificates_of_other_settings_are_not_overwritten(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = ("--out", str(tmp_path))
    decided = certify_command(capsys, str(run), "--max-length", "3", *there)[0]
    assert decided in (0, 1)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    code, out, err = certify_command(capsys, str(run), "--max-length", "4", *there)
    assert (code, out) == (2, "")
    assert "max_length is 3, not 4" in err
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
    assert certify_command(capsys, str(run), "--max-length", "3", *there)[0] == decided


def test_a_certificate_at_any_scale_is_accepted(tmp_path: Path) -> None:
    """PROVED is worth a certificate: subnormal and enormous votes, float16, 2000 tokens, frequencies of 10^45."""
    near = Template(tuple(range(2, 6)), (6,), (0, 1))
    votes, scores = [1.0, -1.0, *[-0.2] * 5], [0.0, 0.0, *[-2.0] * 5]
    models = [
        (built(voting(votes, scores, scale), dtype=dtype), near)
        for scale, dtype in ((1.0, torch.float16), (2.0**-500, torch.float64), (2.0**511, torch.float64))
    ]
    long = Template((2,) * 2000, (3,), (0, 1))
    models.append((built(voting([1.0, -1.0, -0.25, 0.1], [0.0, 0.0, -9.0, -9.0])), long))
    for number, (model, template) in enumerate(models):
        found = certify_strings(one_layer_model(model, template), 1)
        assert found.status == "PROVED"
        digest = save_subject(tmp_path / f"{number}.safetensors", model, template)
        inputs = weights_input(f"{number}.safetensors", digest)
        for copies, accepted in ((1, True), (2, False)):
            claim = {"criterion": "argmax", "copies_up_to": copies, "fails_at": None}
            path = tmp_path / f"{number}-{copies}.json"
            if accepted:
                write_certificate(path, "one-layer-copies", inputs, {"thresholds": []}, claim)
            else:
                with pytest.raises(RejectedCertificateError):
                    write_certificate(path, "one-layer-copies", inputs, {"thresholds": []}, claim)


# What is proved to be exceeded where margins are near 0, or beyond the floats.


def barely(score: float, other: float | None = None) -> OneLayerModel:
    """0 and 1 vote for themselves, at scores so far below A's and B's that little is left of it."""
    return of_votes([1.0, -1.0, 0.0, 0.0], [score, score if other is None else other, 0.0, 0.0], NEAR)


def share(score: float) -> Fraction:
    """The least difference of `barely` at length 1: w/(w + 2), w = exp(score)."""
    with ctx.workprec(200):
        return exact_middle(arb(score).exp() / (arb(score).exp() + 2))


@pytest.mark.parametrize("score", [-3.0, -40.0, -400.0, -700.0, -4000.0])
def test_half_with_two_outputs_has_a_certificate_at_any_margin(score: float, tmp_path: Path) -> None:
    """No threshold is below 0: the checker asks that they are not."""
    model = built(voting([1.0, -1.0, 0.0, 0.0], [score, score, 0.0, 0.0]))
    found = certify_half(one_layer_model(model, NEAR), 1)
    assert found.status == "PROVED"
    assert min(found.thresholds.values()) >= 0
    question = Question(Subject(model, trained_task(), NEAR, "m"), 1, "half")
    assert write_in(tmp_path, of_half(question, found)).statement


@pytest.mark.parametrize("below", [None, float("-inf"), float("inf"), float("nan"), -1e308, 1e308, 5e-324])
def test_a_threshold_is_a_number_from_0_on(below: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the margin is said to exceed; in units of 2^1100 or 2^-1100."""
    for exponent in (-1100, 1100):
        votes = {0: (1, 0), 1: (0, 1), 2: (1, 0), 3: (0, 0)}
        pairs = {(query, key): PairScore() for query in range(4) for key in range(4)}
        unit = arb((1, exponent))
        head = Head(pairs, {x: (zero * unit, one * unit) for x, (zero, one) in votes.items()})
        model = OneLayerModel(NEAR, Axes(), (head,), {}, (0, 1), 2, arb(1)).in_units()
        decider = Decider(model, 1)
        case = decider.cases[0]
        assert 0 < decider.threshold(case, certify_strings(model, 2), 1) < 1
        with monkeypatch.context() as patch:
            patch.setattr(Decider, "_all_above", lambda *_: False)
            found = replace(certify_strings(model, 2), margin_below=below)
            threshold = decider.threshold(case, found, 1)
        assert 0 <= threshold < float("inf")


def test_a_margin_beyond_the_floats_is_bounded_by_none() -> None:
    """Votes of 2^1100: what all differences exceed is no float, and is not minus infinity either."""
    pairs = {(query, key): PairScore() for query in range(4) for key in range(4)}
    unit = arb((1, 1100))
    head = Head(pairs, {0: (unit, arb(0)), 1: (arb(0), unit), 2: (unit, arb(0)), 3: (unit, arb(0))})
    found = certify_strings(OneLayerModel(NEAR, Axes(), (head,), {}, (0, 1), 2, arb(1)), 2)
    assert found.status == "REFUTED"
    assert found.worst.difference < -(2**1024)
    assert found.margin_below is None


@pytest.mark.parametrize("horizon", [512, 0])
@pytest.mark.parametrize("score", [-3.0, -20.0, -40.0, -400.0, -700.0])
def test_proved_comes_with_a_margin_above_0(score: float, horizon: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Close below the least difference, or, where balls are not asked, a tenth of it at least."""
    monkeypatch.setattr("theory.one_layer._one_head.LARGEST_MARGIN_HORIZON", horizon)
    found = certify_strings(barely(score), 1)
    assert found.status == "PROVED"
    assert found.margin_below is not None
    least = share(score)
    assert least * (1 - Fraction(1, 10**5) if horizon else Fraction(1, 10)) < found.margin_below < least


def test_a_margin_that_no_float_is_below_has_no_bound() -> None:
    found = certify_strings(barely(-4000.0), 1)
    assert found.status == "PROVED"
    assert found.margin_below is None
    assert 0 < found.worst.difference < Fraction(1, 2**5000)


def test_several_heads_proved_come_with_a_margin_above_0() -> None:
    """The sum of the heads' bounds is a little above 0: it is told, and is below the difference."""
    pairs = {(query, key): PairScore() for query in range(4) for key in range(4)}
    head = Head(pairs, {0: (arb(1), arb(0)), 1: (arb(0), arb(1)), 2: (arb(0), arb(0)), 3: (arb(0), arb(0))})
    found = certify_heads(OneLayerModel(FAR, Axes(), (head, head), {}, (0, 1), 2, arb(1)), 1)
    assert found.status == "PROVED"
    assert found.margin_below is not None
    assert 0 < found.margin_below <= found.worst.difference
    with pytest.raises(ArithmeticError, match="bounded by 0"):
        replace(found, margin_below=0.0)


def test_a_loose_bound_makes_balls_look_for_a_smaller_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that stops at e^-20, where floats prove -4e-6 only: the least is e^-40, and balls find it."""
    honest = Decider._least_ratio

    def stuck(self: Decider, last: int, only: Any) -> Any:
        return honest(self, last, next(case for case in self.cases if case.symbol == 0) if only is None else only)

    monkeypatch.setattr(Decider, "_least_ratio", stuck)
    found = certify_strings(barely(-20.0, -40.0), 1)
    assert found.status == "PROVED"
    assert found.worst.case.symbol == 1
    assert float(found.worst.difference) == pytest.approx(float(share(-40.0)))
    assert found.margin_below is not None
    assert found.margin_below < share(-40.0)


def test_proved_with_a_bound_of_0_cannot_be_made() -> None:
    found = certify_strings(barely(-1.0), 1)
    assert replace(found, margin_below=None).status == "PROVED"
    for below in (0.0, -1.0, float("nan")):
        with pytest.raises(ArithmeticError, match="bounded by"):
            replace(found, margin_below=below)


def test_bounds_are_printed_on_their_own_side(capsys: pytest.CaptureFixture[str]) -> None:
    """Six digits of a lower bound are not above it."""
    for value in (0.1234567, 2 / 3, 1e-300 / 3, 5e-324, 123456.7, 1 - 2.0**-53, 0.25, 1e308):
        assert Fraction(spelled_at_most(value)) <= Fraction(value) <= Fraction(spelled_at_least(value))
        assert float(spelled_at_least(value, 3)) == pytest.approx(value, rel=1e-2)
    assert (spelled_at_most(0.25), spelled_at_least(0.25), spelled_at_most(-0.1234567)) == ("0.25", "0.25", "-0.123457")
    found = certify_strings(barely(log(2 * 0.66666699 / (1 - 0.66666699))), 1)
    assert found.margin_below is not None
    assert float(f"{found.margin_below:.6g}") > found.worst.difference
    model = built(voting([1.0, -1.0, 0.0, 0.0], [0.0] * 4))
    _print(of_head(Question(Subject(model, trained_task(), NEAR, "m"), 1), found))
    printed = capsys.readouterr().out.split("proved: above ")[1].split(")")[0]
    assert 0.66666 < Fraction(printed) <= Fraction(found.margin_below)
