"""The checker on one-layer models at the ends of numbers, and on files whose numbers were edited."""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from flint import arb

from engine import Encoding, RoPE, Transformer, TransformerConfig, save_weights
from proofs_check.certify import Question, Subject, one_layer_model, save_subject
from proofs_check.certify._certificate import write_in
from proofs_check.certify._file import _metadata, _tensors
from proofs_check.certify._outcome import of_head, of_heads
from proofs_check.documents import RejectedCertificateError, weights_input, write_certificate
from proofs_check.verify import verify_file
from proofs_check.verify.one_layer._copies import Checker, Undecided, _BallTable
from proofs_check.verify.one_layer._model import read_one_layer
from proofs_check.verify.reading import Rejected, limited, read_weights_file
from tests.models.small import copying_sample, opposed_sample
from theory import CertifiedHead, Radian, Template, Turn, certify_heads, certify_strings, trained_task

NEAR = Template((2,), (3,), (0, 1))


def simple(
    scores: list[float], votes: list[float], encoding: Encoding | None = None, *, pre_norm: bool = False,
    dtype: torch.dtype = torch.float64,
) -> Transformer:  # fmt: skip
    """Four tokens; every query scores a key by the key alone (times a cosine, with an encoding), and adds its vote."""
    config = TransformerConfig(4, 4, 1, 1, 2, 1, 2, "shift", False, pre_norm, False, False, 1.0, norm_epsilon=0.25)
    model = Transformer(config, encoding or Encoding(), None).double().requires_grad_(False)
    for parameter in model.parameters():
        parameter.zero_()
    model.embedding.weight.copy_(torch.eye(4))
    attention = model.block(0).attention
    attention.query.weight[0] = 1.0
    attention.key.weight[0] = torch.tensor(scores, dtype=torch.float64)
    attention.value.weight[0] = torch.tensor(votes, dtype=torch.float64)
    attention.output.weight[0, 0] = model.readout.weight[0, 0] = 1.0
    if pre_norm:
        model.block(0).norm.weight.fill_(1.0)
    return model.to(dtype)


def claimed(folder: Path, model: Transformer, template: Template, length: int, fails: int | None = None) -> str:
    """The statement of a claim; RejectedCertificateError if it is none."""
    inputs = weights_input("w.safetensors", save_subject(folder / "w.safetensors", model, template))
    claim = {"criterion": "argmax", "copies_up_to": length, "fails_at": fails}
    verdict = write_certificate(folder / "c.json", "one-layer-copies", inputs, {"thresholds": []}, claim)
    return str(verdict.statement)


def decided(model: Transformer, template: Template, length: int) -> CertifiedHead:
    return certify_strings(one_layer_model(model, template), length)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_dtype_is_read_exactly(dtype: torch.dtype, tmp_path: Path) -> None:
    model = simple([0.1, -0.3, -2.0, -3.0], [1.0, -1.0, 0.3, 0.1], dtype=dtype)
    inputs = weights_input("w.safetensors", save_subject(tmp_path / "w.safetensors", model, NEAR))
    stored = read_weights_file(tmp_path, inputs["weights"]).matrices["key"]
    assert [stored.rows[0].get(j, 0.0) for j in range(4)] == model.block(0).attention.key.weight[0].double().tolist()
    assert claimed(tmp_path, model, NEAR, 0)


@pytest.mark.parametrize("size", [1000.0, 10_000.0])
def test_scores_in_the_thousands_are_checked_in_balls(size: float, tmp_path: Path) -> None:
    """Both data tokens far below A and B, whose votes are nearly nothing: no integer of 128 bits sees them."""
    model = simple([-size, -size, 0.0, -size / 2], [1.0, -1.0, 0.0, 0.0])
    found = decided(model, NEAR, 1)
    assert found.status == "PROVED"
    assert found.balls
    assert found.worst.difference < Fraction(1, 2**1000)
    assert "from 1 to 1" in claimed(tmp_path, model, NEAR, 1)
    longer = decided(model, NEAR, 2)
    assert longer.status == "REFUTED"
    assert claimed(tmp_path, model, NEAR, longer.proved_to, longer.fails_at)
    with pytest.raises(RejectedCertificateError):
        claimed(tmp_path, model, NEAR, 2)
    worse = simple([-size, -size, 0.0, -size / 2], [1.0, -1.0, 0.0, -1.0])
    with pytest.raises(RejectedCertificateError):
        claimed(tmp_path, worse, NEAR, 1)


@pytest.mark.parametrize(("query", "key"), [(1e200, 1e200), (-1e200, 1e200), (1e155, 1e155), (1e150, 1e150)])
def test_scores_that_no_float_holds_make_no_weight_zero(query: float, key: float, tmp_path: Path) -> None:
    """A and B have no vote, so that every string of length 1 is right, whatever the weights: none fails."""
    model = simple([key, key, -key, -key], [1.0, -1.0, 0.0, 0.0])
    model.block(0).attention.query.weight[0] = query
    with pytest.raises(RejectedCertificateError, match="not certain"):
        claimed(tmp_path, model, NEAR, 0, 1)
    if query > 0:
        assert claimed(tmp_path, model, NEAR, 1)


@pytest.mark.parametrize("shift", [arb("-inf"), arb("inf"), arb("nan")])
def test_a_weight_that_is_no_exponential_is_not_used(shift: arb) -> None:
    """The guard by itself, whatever made the shift what it is."""
    with pytest.raises(Undecided):
        _BallTable.__new__(_BallTable)._integers([arb(0), arb(1)], shift)


def test_enormous_frequencies_are_reduced(tmp_path: Path) -> None:
    """10^45 radians, and the same angle less its whole turns to 200 digits, decide alike; half a turn more does not."""
    for frequency in (Radian(Fraction(10) ** 45), Radian(Fraction(10) ** 45 + 1), Turn(Fraction(10**45 * 2 + 1, 4))):
        model = simple([2.0, 2.0, 0.5, 0.5], [1.0, -1.0, 0.2, -0.1], RoPE((frequency,)))
        found = decided(model, NEAR, 3)
        assert found.status != "UNDECIDED"
        assert claimed(tmp_path, model, NEAR, found.proved_to, found.fails_at)
        with pytest.raises(RejectedCertificateError):
            claimed(tmp_path, model, NEAR, found.proved_to + 1)


def test_thresholds_that_add_up_to_nothing_are_exact(tmp_path: Path) -> None:
    """1/3 and -1/3 in two heads: their balls leave the sign open, and their sum is 0."""
    sample = opposed_sample(2 * 10**5 + 5)
    assert not sample.model.config.residual
    inputs = weights_input("w.safetensors", save_subject(tmp_path / "w.safetensors", sample.model, sample.template))
    model = read_one_layer(tmp_path, inputs)
    for other, enough in (("-1/3", True), ("-0." + "3" * 200, True), ("-0." + "3" * 199 + "4", False)):
        heads = [Fraction(1, 3), Fraction(other)]
        checker = Checker(model, dict.fromkeys(Checker(model, {}).cases, heads))
        if enough:
            checker._require_thresholds("argmax")
        else:
            with pytest.raises(Rejected, match="add up"):
                checker._require_thresholds("argmax")


@pytest.mark.slow
def test_a_raised_threshold_is_not_exceeded(tmp_path: Path) -> None:
    sample = copying_sample(3, noise=0.0, heads=2, least=1.6, most=3.5)
    found = certify_heads(one_layer_model(sample.model, sample.template), 6)
    assert found.bounded_to == 6
    subject = Subject(sample.model, trained_task(), sample.template, "m")
    path = tmp_path / str(write_in(tmp_path, of_heads(Question(subject, 6), found)).file)
    document = json.loads(path.read_text())
    for threshold in document["evidence"]["thresholds"]:
        kept = threshold["heads"]
        for number in range(2):
            threshold["heads"] = [str(Fraction(value) + (i == number)) for i, value in enumerate(kept)]
            path.write_text(json.dumps(document))
            assert "certainly copied" in str(verify_file(path).reason)
        threshold["heads"] = kept
    path.write_text(json.dumps(document))
    assert verify_file(path).accepted


def test_more_is_claimed_than_holds(tmp_path: Path) -> None:
    """A proof of two heads by branching: with a moved weight or a raised leaf it is none."""
    sample = opposed_sample(2 * 10**5 + 5)
    subject = Subject(sample.model, trained_task(), sample.template, "m")
    found = certify_heads(one_layer_model(sample.model, sample.template), 4)
    path = tmp_path / str(write_in(tmp_path, of_heads(Question(subject, 4), found)).file)
    original = path.read_text()

    def reason(change: Callable[[dict[str, Any]], None]) -> str | None:
        document = json.loads(original)
        change(document)
        path.write_text(json.dumps(document))
        return verify_file(path).reason

    def raised_leaf(document: dict[str, Any]) -> None:
        leaf = next(node for trees in document["evidence"]["trees"] for tree in trees for node in tree if node)
        leaf[0] = str(int(leaf[0]) + 2**40)

    def moved_weight(document: dict[str, Any]) -> None:
        weights = tmp_path / document["inputs"]["weights"]["file"]
        sample.model.block(0).attention.output.weight.neg_()
        digest = save_subject(weights, sample.model, sample.template)
        document["inputs"] = weights_input(weights.name, digest)

    assert reason(lambda document: None) is None
    assert "does not bound all its strings" in str(reason(raised_leaf))
    assert reason(moved_weight) is not None
    assert "SHA-256" in str(reason(lambda document: None))


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [-600, 0, 600])
def test_two_thousand_tokens_before_the_string_at_any_size(exponent: int, tmp_path: Path) -> None:
    """All scores 0: the right token votes for its symbol with 1, A's with 1000 (w - 1/2) for symbol 0 together."""
    template = Template((2, 4) * 1000, (3,), (0, 1))
    config = TransformerConfig(5, 5, 1, 1, 2, 1, 2, "shift", False, False, False, False, 1.0)
    model = Transformer(config, Encoding(), None).double().requires_grad_(False)
    for parameter in model.parameters():
        parameter.zero_()
    model.embedding.weight.copy_(torch.eye(5))
    attention = model.block(0).attention
    attention.output.weight[0, 0] = 1.0
    model.readout.weight[:, 0] = torch.tensor([1.0, -1.0])
    for number, wrong in enumerate((0.498, 0.4995, 0.5, 0.5015)):
        attention.value.weight[0] = torch.tensor([1.0, -1.0, wrong, 0.0, -0.5], dtype=torch.float64)
        right = abs(1000 * (Fraction(wrong) - Fraction(1, 2))) < 1
        assert right is (number in (1, 2))
        attention.value.weight.mul_(2.0**exponent)
        if right:
            assert claimed(tmp_path, model, template, 1)
            with pytest.raises(RejectedCertificateError):
                claimed(tmp_path, model, template, 0, 1)
        else:
            assert claimed(tmp_path, model, template, 0, 1)
            with pytest.raises(RejectedCertificateError):
                claimed(tmp_path, model, template, 1)


@pytest.mark.slow
def test_tokens_outside_the_prompt_cost_nothing(tmp_path: Path) -> None:
    """A vocabulary of 2^14 with as many outputs: all logits of all tokens would be 2^28 balls."""
    size = 2**14
    shapes = {"embedding": (size, 1), "query": (2, 1), "key": (2, 1), "value": (1, 1), "output": (1, 1)}
    shapes["readout"] = (size, 1)
    tensors = {name: torch.ones(shape, dtype=torch.float64) for name, shape in shapes.items()}
    metadata = _metadata(simple([0.0] * 4, [0.0] * 4), NEAR) | {"head_width": 2, "outputs": size, "residual": False}
    inputs = weights_input("w.safetensors", save_weights(tmp_path / "w.safetensors", tensors, metadata))
    with limited(10**6):
        model = read_one_layer(tmp_path, inputs)
    assert sorted(model.heads[0][1]) == [0, 1, 2, 3]
    wide = metadata | {"prefix": list(range(2, 2**11 + 2))}
    inputs = weights_input("w.safetensors", save_weights(tmp_path / "w.safetensors", tensors, wide))
    with pytest.raises(Rejected, match="the tables of this model"):
        read_one_layer(tmp_path, inputs)


def test_rows_of_many_entries_and_of_few_are_read_alike(tmp_path: Path) -> None:
    """Kept sparse or dense, what is read is what was stored."""
    full = torch.arange(-40, 40, dtype=torch.float64).reshape(2, 40)
    sparse = torch.zeros(2, 40, dtype=torch.float64)
    sparse[1, 7] = -0.5
    digest = save_weights(tmp_path / "w.safetensors", {"full": full, "sparse": sparse}, {})
    matrices = read_weights_file(tmp_path, weights_input("w.safetensors", digest)["weights"]).matrices
    for name, stored in (("full", full), ("sparse", sparse)):
        rows = matrices[name].rows
        assert [[row.get(j, 0.0) for j in range(40)] for row in rows] == stored.tolist()
        assert [dict(row) for row in rows] == [{j: x for j, x in enumerate(row) if x} for row in stored.tolist()]
        assert [len(row) for row in rows] == [int((row != 0).sum()) for row in stored]
        assert [7 in row for row in rows] == [bool(row[7]) for row in stored]


def test_frequencies_of_any_length_are_written(tmp_path: Path) -> None:
    """5000 digits, more than Python writes of an integer."""
    frequency = Radian(Fraction(10) ** 4999 + Fraction(1, 3))
    model = simple([2.0, 2.0, 0.5, 0.5], [1.0, -1.0, 0.2, -0.1], RoPE((frequency,)))
    found = decided(model, NEAR, 2)
    assert claimed(tmp_path, model, NEAR, found.proved_to, found.fails_at)


def edited_metadata(folder: Path, model: Transformer, change: Callable[[dict[str, Any]], Any]) -> str | None:
    """Why a claim about a file with other metadata is rejected, or None; the file's hash is its own."""
    metadata = _metadata(model, NEAR)
    change(metadata)
    digest = save_weights(folder / "w.safetensors", _tensors(model), metadata)
    claim = {"criterion": "argmax", "copies_up_to": 1, "fails_at": None}
    document = {"schema": 1, "kind": "one-layer-copies", "inputs": weights_input("w.safetensors", digest)}
    (folder / "c.json").write_text(json.dumps({**document, "evidence": {"thresholds": []}, "claim": claim}))
    return verify_file(folder / "c.json").reason


def test_epsilon_and_layout_stand_in_the_file_and_count(tmp_path: Path) -> None:
    """With epsilon 1/4 the score of B is small enough; with an epsilon of 0 all vectors are twice as long."""
    model = simple([0.0, 0.0, -2.0, 1.0], [1.0, -1.0, 0.0, -0.05], pre_norm=True)
    assert decided(model, NEAR, 1).status == "PROVED"

    def old(epsilon: str) -> Callable[[dict[str, Any]], Any]:
        def change(metadata: dict[str, Any]) -> None:
            for name in ("attention_epsilon", "final_epsilon", "sub_norm_epsilon", "rotary_layout"):
                del metadata[name]
            metadata["epsilon"] = epsilon

        return change

    assert edited_metadata(tmp_path, model, lambda m: None) is None
    assert edited_metadata(tmp_path, model, old("1/4")) is None
    for epsilon in ("0", "1/1000000"):
        assert "certainly copied" in str(edited_metadata(tmp_path, model, old(epsilon)))
        assert "certainly copied" in str(
            edited_metadata(tmp_path, model, lambda m, e=epsilon: m.__setitem__("attention_epsilon", e))
        )
    for name, value, reason in (
        ("rotary_layout", "half-split", "rotary_layout"),
        ("attention_epsilon", None, "do not belong together"),
        ("attention_epsilon", "-1", "negative"),
        ("final_epsilon", "1", "do not belong together"),
        ("sub_norm_epsilon", "1", "not 0"),
        ("epsilon", "1/4", "unknown field"),
    ):
        assert reason in str(edited_metadata(tmp_path, model, lambda m, n=name, v=value: m.__setitem__(n, v)))


def test_a_zero_vector_without_epsilon_is_rejected_where_it_is_used(tmp_path: Path) -> None:
    model = simple([0.0, 0.0, -2.0, -1.0], [1.0, -1.0, 0.0, 0.0], pre_norm=True)
    model.embedding.weight[2] = 0.0
    assert "token 2" in str(edited_metadata(tmp_path, model, lambda m: m.__setitem__("attention_epsilon", "0")))

    def elsewhere(metadata: dict[str, Any]) -> None:
        metadata |= {"attention_epsilon": "0", "prefix": [3]}

    assert "token 2" not in str(edited_metadata(tmp_path, model, elsewhere))


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [0, -300, 300])
def test_leaves_have_a_unit(exponent: int, tmp_path: Path) -> None:
    """Votes of any size: the proof by branching is accepted in its own unit, and in no larger one."""
    sample = opposed_sample(2 * 10**5 + 5)
    if sample.model.config.residual or sample.model.config.final_norm:
        exponent = 0
    sample.model.readout.weight.mul_(2.0**exponent)
    found = certify_heads(one_layer_model(sample.model, sample.template), 4)
    assert found.status == "PROVED"
    subject = Subject(sample.model, trained_task(), sample.template, "m")
    path = tmp_path / str(write_in(tmp_path, of_heads(Question(subject, 4), found)).file)
    document = json.loads(path.read_text())
    assert document["kind"] == "one-layer-branching"
    unit = int(document["evidence"]["unit"])
    for other, accepted in ((unit, True), (unit + 8, False), (unit - 8, False), (10**9, False), ("x", False)):
        document["evidence"]["unit"] = other
        path.write_text(json.dumps(document))
        assert verify_file(path).accepted is accepted, other


def test_a_long_string_is_named_by_its_digest(tmp_path: Path) -> None:
    """Two counterexamples with the same beginning and as many runs have different statements."""
    model = simple([0.0, 0.0, -9.0, -9.0], [1.0, -1.0, -9e5, -9e5])
    inputs = weights_input("w.safetensors", save_subject(tmp_path / "w.safetensors", model, NEAR))
    statements = set()
    for runs in ([70, 50, 1], [70, 49, 2]):
        claim = {"first_symbol": 0, "runs": runs, "step": 1, "competitor": 1}
        verdict = write_certificate(tmp_path / "x.json", "one-layer-counterexample", inputs, {}, claim)
        statements.add(verdict.statement)
    assert len(statements) == 2


@pytest.mark.slow
def test_the_verdicts_of_samples_are_accepted_at_both_ends(tmp_path: Path) -> None:
    seen = 0
    for seed in range(12):
        sample = copying_sample(seed, noise=0.05)
        found = decided(sample.model, sample.template, 30)
        assert claimed(tmp_path, sample.model, sample.template, found.proved_to, found.fails_at)
        if found.fails_at is not None:
            seen += 1
            with pytest.raises(RejectedCertificateError):
                claimed(tmp_path, sample.model, sample.template, found.fails_at)
    assert seen > 3


def with_own(heads: list[tuple[list[float], list[list[float]]]], own: list[float], outputs: int = 2) -> Transformer:
    """Four tokens. A head is the tokens' scores, and by output the votes that they have; own: what every query adds.

    Scores and votes depend on the key alone; all tokens have a coordinate 1 in common, which the read-out sees.
    """
    count, wide = len(heads), 4 + len(heads) * outputs + 1
    size = max(4, outputs) if outputs > 2 else 4
    config = TransformerConfig(size, wide, 1, count, 2, outputs, outputs, "shift", True, False, False, False, 1.0)
    model = Transformer(config, Encoding(), None).double().requires_grad_(False)
    for parameter in model.parameters():
        parameter.zero_()
    model.embedding.weight[:4, :4] = torch.eye(4)
    model.embedding.weight[:, -1] = 1.0
    attention = model.block(0).attention
    attention.query.weight[::2, -1] = 1.0
    for number, (scores, votes) in enumerate(heads):
        attention.key.weight[2 * number, :4] = torch.tensor(scores, dtype=torch.float64)
        for output, row in enumerate(votes):
            at = number * outputs + output
            attention.value.weight[at, :4] = torch.tensor(row, dtype=torch.float64)
            attention.output.weight[4 + at, at] = model.readout.weight[output, 4 + at] = 1.0
    model.readout.weight[:, -1] = torch.tensor(own, dtype=torch.float64)
    return model


def step_claimed(folder: Path, model: Transformer, symbol: int, competitor: int | None) -> str:
    """The statement that step 1 of the string of that one symbol is wrong."""
    inputs = weights_input("w.safetensors", save_subject(folder / "w.safetensors", model, NEAR))
    claim = {"first_symbol": symbol, "runs": [1], "step": 1, "competitor": competitor}
    return str(write_certificate(folder / "c.json", "one-layer-counterexample", inputs, {}, claim).statement)


def other_vote(heads: int, zero: float, one: float = 0.0) -> Transformer:
    """Votes and what the query token adds cancel, but for what 0 and 1 have, which weigh about e^-3000."""
    first = -0.3 if heads == 1 else -0.7
    parts = [([-3000.0, -3000.0, 0.25, -0.5], [[first + zero, first + one, first, first], [0.0] * 4])]
    if heads == 2:
        parts.append(([0.5, 0.0, 0.25, -0.5], [[0.4] * 4, [0.0] * 4]))
    # 0.7 - 0.4 is exact in floats.
    return with_own(parts, [-first - (0.4 if heads == 2 else 0.0), 0.0])


@pytest.mark.parametrize("heads", [1, 2])
def test_votes_that_cancel_exactly_are_a_tie(heads: int, tmp_path: Path) -> None:
    """The logits of 0 and 1 are the same: 0 is not copied. A vote more or less, times e^-3000, decides otherwise."""
    assert "it is not copied" in step_claimed(tmp_path, other_vote(heads, 0.0), 0, 1)
    assert "it is not copied" in step_claimed(tmp_path, other_vote(heads, -0.25), 0, 1)
    with pytest.raises(RejectedCertificateError, match="is above output 1"):
        step_claimed(tmp_path, other_vote(heads, 0.25), 0, 1)


@pytest.mark.parametrize("heads", [1, 2])
def test_what_is_decided_about_votes_that_cancel_is_accepted(heads: int, tmp_path: Path) -> None:
    """The right output is above by e^-3000 / 4, or as far below, or not at all."""
    for vote, status in ((0.25, "PROVED"), (0.0, "REFUTED"), (-0.25, "REFUTED")):
        model = other_vote(heads, vote, -vote)
        question = Question(Subject(model, trained_task(), NEAR, "m"), 1)
        exact = one_layer_model(model, NEAR)
        outcome = (
            of_heads(question, certify_heads(exact, 1)) if heads > 1 else of_head(question, certify_strings(exact, 1))
        )
        assert outcome.status == status
        assert write_in(tmp_path, outcome).statement


def test_odds_of_votes_that_cancel_exactly_are_one(tmp_path: Path) -> None:
    """One competitor, and its logit is the same: its odds are 1, and a half is not exceeded."""
    assert "at most one half" in step_claimed(tmp_path, other_vote(1, 0.0), 0, None)
    with pytest.raises(RejectedCertificateError):
        step_claimed(tmp_path, other_vote(1, 0.25), 0, None)


def test_a_sum_of_weights_that_no_ball_holds_is_positive(tmp_path: Path) -> None:
    """A's weight, e^(10^616), is in the denominator only: the numerator has the sign, and leaves nothing open."""
    for vote in (1.0, -1.0):
        model = simple([0.0, 0.0, 1e308, 0.0], [vote, -vote, 0.0, 0.0])
        model.block(0).attention.query.weight[0] = 1e308
        if vote < 0:
            assert "it is not copied" in step_claimed(tmp_path, model, 0, 1)
        else:
            with pytest.raises(RejectedCertificateError, match="is above output 1"):
                step_claimed(tmp_path, model, 0, 1)
    # With a vote of its own it decides, by more than balls hold.
    model = simple([0.0, 0.0, 1e308, 0.0], [1.0, -1.0, -1.0, 0.0])
    model.block(0).attention.query.weight[0] = 1e308
    with pytest.raises(RejectedCertificateError, match="undecided"):
        step_claimed(tmp_path, model, 0, 1)
