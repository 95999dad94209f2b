"""Certificates of proofs by branching: several heads, and the criterion half; edited trees are rejected."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from math import exp
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from flint import arb, ctx

from proofs_check.certify import Certified, Question, Subject, Written, one_layer_model, save_subject
from proofs_check.certify._certificate import trees_document, write_in
from proofs_check.certify._outcome import of_half, of_heads
from proofs_check.documents import RejectedCertificateError
from proofs_check.verify import verify_file
from tests.models.small import (
    Sample,
    blend,
    brute_force,
    copying_sample,
    least_half,
    nearly_half,
    opposed_sample,
    random_sample,
    sharpened,
)
from theory import OneLayerModel, Template, Turn, certify_half, certify_heads, certify_strings, trained_task
from theory.one_layer import Axes, CertifiedHeads, Head, Leaf, PairScore, Place, Tree, tree_size
from theory.one_layer._branching import Budget, Split
from theory.one_layer._half import _Odds
from theory.one_layer._half import _Search as _HalfSearch
from theory.one_layer._model import FinalNorm

LONGEST = 6


@cache
def half_sample() -> Sample:
    """Three outputs and more, a final norm, logits just large enough for probabilities above one half."""
    for seed in range(200):
        sample = copying_sample(2 * 10**5 + seed, noise=0.02, least=1.6, most=3.5)
        if sample.model.config.outputs == 2 or not sample.model.config.final_norm:
            continue
        if min(brute_force(sample, LONGEST)) > 0 and (tied := nearly_half(sample, LONGEST)) is not None:
            return sharpened(tied, 1.0001)
    raise AssertionError("no model of the kind wanted")


def all_half(sample: Sample) -> float:
    return min(least_half(sample, n) for n in range(1, LONGEST + 1))


def subject(sample: Sample) -> Subject:
    return Subject(sample.model, trained_task(), sample.template, "m")


@pytest.fixture(scope="module", params=["heads", "half"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sample, Certified]:
    """A certificate by branching, beside its weights."""
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "heads":
        sample = opposed_sample(2 * 10**5 + 5)
        found = certify_heads(one_layer_model(sample.model, sample.template), LONGEST)
        outcome = of_heads(Question(subject(sample), LONGEST), found)
    else:
        sample = half_sample()
        half = certify_half(one_layer_model(sample.model, sample.template), LONGEST)
        outcome = of_half(Question(subject(sample), LONGEST, "half"), half)
    assert outcome.status == "PROVED"
    assert any(isinstance(tree, Split) for tree in outcome.trees.values())
    certificate = write_in(directory, outcome)
    assert f"every length from 1 to {LONGEST}" in str(certificate.statement)
    return directory / str(certificate.file), sample, outcome


def edited(path: Path, change: Callable[[dict[str, Any]], None]) -> str | None:
    """Why the certificate is rejected after a change; None if it is accepted."""
    document = json.loads(path.read_text())
    change(document)
    other = path.with_name("edited.json")
    other.write_text(json.dumps(document))
    verdict = verify_file(other)
    return None if verdict.accepted else verdict.reason


def branched(document: dict[str, Any]) -> list[Any]:
    """The first tree with a split."""
    trees = (tree for length in document["evidence"]["trees"] for tree in length)
    return next(tree for tree in trees if len(tree) > 1)


def leaf_of(tree: list[Any]) -> list[int]:
    return next(node for node in tree if isinstance(node, list))


@pytest.mark.slow
def test_the_proof_is_of_the_kind_and_has_every_place(written: tuple[Path, Sample, Certified]) -> None:
    path, _, outcome = written
    document = json.loads(path.read_text())
    assert document["kind"] == "one-layer-branching"
    assert document["evidence"]["bounded_to"] == outcome.bounded_to < LONGEST
    assert len(document["evidence"]["trees"]) == LONGEST - outcome.bounded_to
    count = sum(len(tree) for length in document["evidence"]["trees"] for tree in length)
    assert count == sum(map(tree_size, outcome.trees.values()))


@pytest.mark.slow
def test_edited_trees_are_rejected(written: tuple[Path, Sample, Certified]) -> None:
    path, _, _ = written
    changes: dict[str, Callable[[dict[str, Any]], Any]] = {
        "ends before it covers": lambda d: branched(d).pop(),
        "belong to nothing": lambda d: branched(d).append(leaf_of(branched(d))),
        "does not bound all its strings": lambda d: leaf_of(branched(d)).__setitem__(0, 2**50),
        "does not settle its strings": lambda d: leaf_of(branched(d)).__setitem__(0, -(2**50)),
        "not one number for each ratio": lambda d: leaf_of(branched(d)).pop(),
        "which is not free": lambda d: branched(d).__setitem__(0, fixed_symbol(d)),
        "not a list": lambda d: d["evidence"]["trees"][-1].pop(),
        "has a tree that belongs to nothing": lambda d: d["evidence"]["trees"][-1].append([[0]]),
        "not an entry for each length": lambda d: d["evidence"]["trees"].pop(),
        "does not stand for one string": lambda d: d["evidence"]["trees"][-1].__setitem__(-1, [[]]),
        "a split is below 1": lambda d: branched(d).__setitem__(0, 0),
        "a split is above": lambda d: branched(d).__setitem__(0, LONGEST + 1),
    }
    for reason, change in changes.items():
        assert reason in (edited(path, change) or "accepted"), reason


def fixed_symbol(document: dict[str, Any]) -> int:
    """A symbol that the first tree with a split splits on already: put in its place, the tree splits on it twice."""
    tree = branched(document)
    number: int = tree[0]
    tree.insert(0, number)
    return number


@pytest.mark.slow
def test_a_leaf_raised_by_little_does_not_bound(written: tuple[Path, Sample, Certified]) -> None:
    """The numbers are sharp to about 2^-40: every leaf of the tree is read, and each of its numbers."""
    path, _, _ = written
    document = json.loads(path.read_text())
    places = [
        (number, node)
        for number, tree in enumerate(document["evidence"]["trees"][-1])
        for node, entry in enumerate(tree)
        if isinstance(entry, list)
    ]
    for number, node in places[:: max(1, len(places) // 12)]:

        def change(d: dict[str, Any], number: int = number, node: int = node) -> None:
            d["evidence"]["trees"][-1][number][node][-1] += 2**10

        assert "does not bound" in (edited(path, change) or "accepted")


def test_claims_that_are_too_strong_are_rejected(written: tuple[Path, Sample, Certified]) -> None:
    path, _, outcome = written
    for field, value, accepted in (
        ("copies_up_to", LONGEST - 1, True),
        ("copies_up_to", 1, True),
        ("copies_up_to", LONGEST + 1, False),
        ("copies_up_to", 41, False),
        ("copies_up_to", 0, False),
        ("criterion", "most", False),
    ):
        reason = edited(path, lambda d, f=field, v=value: d["claim"].__setitem__(f, v))
        assert (reason is None) is accepted, (field, value, reason)
    assert edited(path, lambda d: d["claim"].__setitem__("fails_at", None))
    assert edited(path, lambda d: d["evidence"].__setitem__("bounded_to", outcome.bounded_to + 1))
    assert edited(path, lambda d: d["evidence"].__setitem__("more", []))
    assert edited(path, lambda d: d["inputs"]["weights"].__setitem__("sha256", "0" * 64))
    other = {"argmax": "half", "half": "argmax"}
    assert edited(path, lambda d: d["claim"].__setitem__("criterion", other[d["claim"]["criterion"]]))


def test_moved_weights_are_derived_anew(written: tuple[Path, Sample, Certified], tmp_path: Path) -> None:
    """Under the hash of weights moved a little, the same trees are judged by those weights, and do not bound them."""
    path, sample, _ = written
    moved = blend(sample, sample, 0.0)
    moved.model.block(0).attention.query.weight.data.mul_(0.97)
    document = json.loads(path.read_text())
    file = document["inputs"]["weights"]["file"]
    digest = save_subject(tmp_path / file, moved.model, moved.template)
    (tmp_path / "c.json").write_text(json.dumps(document))
    assert "SHA-256" in (verify_file(tmp_path / "c.json").reason or "")
    document["inputs"]["weights"]["sha256"] = digest
    (tmp_path / "d.json").write_text(json.dumps(document))
    assert not verify_file(tmp_path / "d.json").accepted


def test_a_proof_that_is_none_is_not_written(written: tuple[Path, Sample, Certified], tmp_path: Path) -> None:
    """Weights that do not copy, with the trees of those that do."""
    _, sample, outcome = written
    weak = blend(sample, sample, 0.0)
    weak.model.block(0).attention.query.weight.data.mul_(0.3)
    criterion = "argmax" if sample.model.config.heads == 2 else "half"
    assert (min(brute_force(weak, LONGEST)) if criterion == "argmax" else all_half(weak)) <= 0
    with pytest.raises(RejectedCertificateError):
        write_in(tmp_path, replace(outcome, question=replace(outcome.question, subject=subject(weak))))


def test_too_large_a_proof_is_not_written(
    written: tuple[Path, Sample, Certified], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, outcome = written
    monkeypatch.setattr("proofs_check.certify._certificate.MOST_NODES_WRITTEN", 10)
    refused = write_in(tmp_path, outcome)
    assert refused == Written(None, None, refused.reason)
    assert "more than 10" in refused.reason
    assert not list(tmp_path.iterdir())


@pytest.mark.deep
def test_heads_with_attention_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proofs of every length by trees, without the bound: accepted, but not with the two heads' numbers swapped."""
    monkeypatch.setattr("theory.one_layer._heads._Search.bound_all", lambda self, last, tick: 0)
    checked = 0
    for seed in range(60):
        sample = copying_sample(seed, noise=0.2, heads=2, least=1.6, most=3.0)
        found = certify_heads(one_layer_model(sample.model, sample.template), 4)
        if found.status != "PROVED":
            continue
        assert found.bounded_to == 0
        assert "every length from 1 to 4" in written_statement(tmp_path, sample, found)

        def swap(d: dict[str, Any]) -> None:
            d["evidence"]["trees"][-1][-1][-1].reverse()

        assert "does not bound" in (edited(tmp_path / "m-copies.json", swap) or "accepted")
        checked += 1
    assert checked >= 3


@pytest.mark.slow
def test_one_row_and_several_heads(tmp_path: Path) -> None:
    """String and copy in one row: no bound for all lengths, every length by trees; equal to brute force."""
    proved = 0
    for seed in range(400):
        sample = random_sample(seed, heads=2)
        copies_one = sample.model.config.position == "shift" and brute_force(sample, 1)[0] > 0
        if sample.model.config.position != "shift" or (seed > 40 and not copies_one):
            continue
        model, least = one_layer_model(sample.model, sample.template), brute_force(sample, 3)
        fails = next((n for n, value in enumerate(least, 1) if value <= 0), None)
        found = certify_heads(model, 3)
        assert found.status == ("PROVED" if fails is None else "REFUTED")
        assert found.fails_at == fails
        last = 3 if fails is None else fails - 1
        if last:
            proof = certify_heads(model, last)
            assert proof.bounded_to == 0
            certificate = write_in(tmp_path, of_heads(Question(subject(sample), last), proof))
            assert f"every length from 1 to {last}" in str(certificate.statement)
            proved += 1
    assert proved


def test_a_ratio_that_hides_another_proves_nothing() -> None:
    """With s_2 = 0 one weight is e^50 times all others, so that floats find the ratio of that string alone: 0.1.

    With s_2 = 1 it is -1.9, and the second head adds 1 at most: string 01 is not copied.
    """

    def score(constant: int, slope: int = 0) -> PairScore:
        return PairScore(constant=arb(constant), slope=Fraction(slope))

    mine = {(3, 0): score(110, 60), (3, 1): score(50, 60), (3, 2): score(-50), (3, 3): score(0)}
    other = {(3, 0): score(0, -50), (3, 1): score(0, -50), (3, 2): score(-100), (3, 3): score(-100)}
    for c, x in product((0, 1), range(4)):
        mine[c, x] = score(50 if x < 2 else 0)
        other[c, x] = score((0 if x == c else 30) if x < 2 else -100)
    votes = ({0: 0.1, 1: 0.1, 2: -2.0, 3: -2.0}, {0: 1.0, 1: -1.0, 2: 0.0, 3: 0.0})
    heads = tuple(
        Head(scores, {x: (arb(vote), arb(0)) for x, vote in own.items()})
        for scores, own in zip((mine, other), votes, strict=True)
    )
    model = OneLayerModel(Template((2,), (3,)), Axes(), heads, {}, (0, 1), 2, arb(1))
    tokens = (2, 0, 1, 3)
    with mpmath.workdps(60):
        difference = mpmath.mpf(0)
        for scores, own in zip((mine, other), votes, strict=True):
            weights = [
                mpmath.exp(int(scores[3, x].constant.mid().unique_fmpz()) + int(scores[3, x].slope) * (k - 3))
                for k, x in enumerate(tokens)
            ]
            difference += mpmath.fdot(weights, [own[x] for x in tokens]) / mpmath.fsum(weights)
        assert difference < -0.9
    found = certify_heads(model, 2)
    assert (found.status, found.proved_to, found.fails_at) == ("REFUTED", 1, 2)
    assert found.worst.string.tolist() == [0, 1]
    assert found.worst.ratio == pytest.approx(float(difference))


@pytest.mark.slow
def test_margins_below_the_rounding_of_floats_are_leaves_without_numbers(tmp_path: Path) -> None:
    """Differences of 1e-25 at some strings, whose sign balls tell; the checker looks at these strings one by one."""
    sample = opposed_sample(5 * 10**5 + 57)
    assert 0 < min(brute_force(sample, 4)) < 1e-20
    found = certify_heads(one_layer_model(sample.model, sample.template), 4)
    assert found.status == "PROVED"
    assert "every length from 1 to 4" in written_statement(tmp_path, sample, found)
    document = json.loads((tmp_path / "m-copies.json").read_text())
    assert any([] in tree for length in document["evidence"]["trees"] for tree in length)
    wrong = blend(sample, sample, 0.0)
    wrong.model.readout.weight.neg_()
    with pytest.raises(RejectedCertificateError):
        written_statement(tmp_path, wrong, found)


def written_statement(directory: Path, sample: Sample, found: CertifiedHeads) -> str:
    return str(write_in(directory, of_heads(Question(subject(sample), 4), found)).statement)


def test_probabilities_of_one_half_and_less_have_certificates(tmp_path: Path) -> None:
    """A counterexample to half that arg-max passes, with no competitor named; at other steps it is none."""
    sample = sharpened(half_sample(), 0.99)
    found = certify_half(one_layer_model(sample.model, sample.template), LONGEST)
    assert found.odds is not None
    assert found.argmax.status == "PROVED"
    certificate = write_in(tmp_path, of_half(Question(subject(sample), LONGEST, "half"), found))
    assert "a probability of at most one half" in str(certificate.statement)
    path = tmp_path / str(certificate.file)
    template = sample.template
    data = (0, 1) if sample.model.config.outputs == 2 else template.data
    for step in range(1, found.worst.length + 1):
        tokens = torch.from_numpy(template.sequence(found.worst.string, step))
        shares = sample.model.last_logits(tokens).softmax(0)
        wrong = bool(shares[data[found.worst.string[step - 1]]] <= 0.5)
        assert (edited(path, lambda d, step=step: d["claim"].__setitem__("step", step)) is None) is wrong
    assert edited(path, lambda d: d["claim"].__setitem__("competitor", found.worst.case.competitor))
    flipped = int(1 - found.worst.string[0])
    assert edited(path, lambda d: d["claim"].__setitem__("first_symbol", flipped))


def test_trees_are_written_in_preorder() -> None:
    tree: Tree = Split(3, Leaf((1, 2)), Split(1, Leaf((3, 4)), Leaf((5, 2**60))))
    document = trees_document({Place(2, 1, 0, 0, 1): tree, Place(3, 1, 0, 0, 1): Leaf((7,))})
    assert document == [[[3, [1, 2], 1, [3, 4], [5, 2**60]]], [[[7]]]]


def waved(heads: int, near: float) -> OneLayerModel:
    """The wanted key has a score of 3000, any other place of 0 and 1 at most 2122, token 2 `near`.

    0 and 1 vote for themselves and as much for a third output, token 2 against that one: the least difference is what
    token 2 adds, less what the others take. With two heads the other one has no votes.
    """
    with ctx.workprec(384):
        wave = (3000 * (arb(1) / 4).cos_pi(), 3000 * (arb(1) / 4).sin_pi())

    def score(key: int) -> PairScore:
        if key < 2:
            return PairScore(column=(wave,))
        constant = arb(near if key == 2 else -3000)
        return PairScore(column=((arb(0), arb(0)),), constant=constant)

    pairs = {(query, key): score(key) for query in range(5) for key in range(5)}
    votes = {0: (1, 0, 1), 1: (0, 1, 1), 2: (0, 0, -1), 3: (0, 0, 0), 4: (0, 0, 0)}
    parts = [
        Head(pairs, {x: tuple(map(arb, row)) for x, row in votes.items()}),
        Head(pairs, dict.fromkeys(votes, (arb(0),) * 3)),
    ]
    template = Template((2,), (3, 4), (0, 1), frozenset({3}))
    axes = Axes(column=(Turn(Fraction(1, 8)),))
    return OneLayerModel(template, axes, tuple(parts[:heads]), {}, (0, 1), 3, arb(1))


def test_free_symbols_whose_weights_are_all_zero_in_floats_are_split_on() -> None:
    """All of them are below e^-877, and token 2 decides with e^-650; with e^-1000 the others do."""
    found = certify_heads(waved(2, 2350), 2)
    assert (found.status, found.proved_to) == ("PROVED", 2)
    assert any(isinstance(tree, Split) for tree in found.trees.values())
    assert float(found.worst.difference) == pytest.approx(exp(-650), rel=1e-9)
    found = certify_heads(waved(2, 2000), 2)
    assert (found.status, found.proved_to, found.fails_at) == ("REFUTED", 1, 2)
    assert -Fraction(1, 2**1200) < found.worst.difference < 0


@pytest.mark.parametrize("slope", [3000, -3000, 600, -600])
def test_steps_at_which_all_weights_underflow_are_decided(slope: int) -> None:
    """What no string has there sets the scale of the floats. With two symbols the heavier place wins."""
    pairs = {(query, key): PairScore(slope=Fraction(slope)) for query in range(4) for key in range(4)}
    head = Head(pairs, {x: (arb(vote), arb(0)) for x, vote in {0: 1, 1: -1, 2: 0, 3: 0}.items()})
    model = OneLayerModel(Template((2,), (3,)), Axes(), (head, head), {}, (0, 1), 2, arb(1))
    found = certify_heads(model, 4)
    assert (found.status, found.proved_to, found.fails_at) == ("REFUTED", 1, 2)
    assert found.worst.difference < 0


def test_the_factor_of_small_weights_is_a_number() -> None:
    """All weights below e^-399, whose squares no float holds, or all 0: no odds are nan. Token 3 outweighs all."""
    pairs = {(query, key): PairScore(slope=Fraction(400)) for query in range(5) for key in range(5)}
    votes = {0: (1, 0, 1), 1: (0, 1, 1), 2: (0, 0, 0), 3: (1, 1, 0), 4: (0, 0, 0)}
    values = {x: tuple(map(arb, row)) for x, row in votes.items()}
    gram = {(x, y): arb(sum(a * b for a, b in zip(votes[x], votes[y], strict=True))) for x in votes for y in votes}
    norm = FinalNorm(3, arb(0.25), dict.fromkeys(range(5), gram))
    template = Template((2,), (3, 4), (0, 1), frozenset({3}))
    model = OneLayerModel(template, Axes(), (Head(pairs, values),), {}, (0, 1), 3, arb(1), norm)
    search = _HalfSearch(model.in_units(), 3, certify_strings(model, 1), Budget(10), lambda: None)
    sizes = set()
    for geometry, view in search._geometries(3):
        for (query, first, symbol), cases in search.groups.items():
            if (query, first) != (geometry.query, geometry.first):
                continue
            question = _Odds(search, view, cases, 3, 1 if first else 2)
            sizes.add(question.ratios[0].denominator + float(question.ratios[0].weights.max()))
            choice = np.full(question.numbers.size, symbol, dtype=np.int64)
            assert np.isfinite(question.value(choice))
            assert np.isfinite(question.after_flips(choice)).all()
            if first:
                assert question.value(choice) == pytest.approx(-exp(-((2 / 3 + 0.25) ** -0.5)), rel=1e-9)
    assert 0 in sizes
    assert 0 < max(sizes) < 2.0**-540
