"""The independent checker on certificates of the two-layer copier: made by the library, tampered with, and by hand."""

import copy
import hashlib
import itertools
import json
import math
import random
import struct
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch

from constructions import ball_difference, build_two_layer_copier, load_two_layer_copier
from proofs_check.verify import verify_file
from theory import two_layer_length
from theory.two_layer import anchor_lemma, prove_length
from theory.two_layer._length import StepJudge

FORMS = {
    "paper": (300, {}),
    "sharp": (60, {"variant": "sharp", "pairs": 3}),
    "shared": (30, {"variant": "shared"}),
    "repeated": (100, {"variant": "repeated"}),
    "wide": (300, {"a": 4, "b": 2}),
    "huge": (10**12, {}),
}


class Bench:
    """A directory with copiers, and certificates about them."""

    def __init__(self, directory):
        self.directory = directory
        self.copiers, self.inputs, self.bounds, self.lengths, self.proofs = {}, {}, {}, {}, {}
        for name, (rho, options) in FORMS.items():
            copier = build_two_layer_copier(rho, beyond_theorem=True, **options)
            file = f"{name}.safetensors"
            self.copiers[name] = copier
            self.inputs[name] = {"weights": {"file": file, "sha256": copier.save(directory / file)}}
            scores, length = copier.scores(), copier.length
            # Beyond 10^9 the design length serves, without a search for a failing string.
            self.bounds[name] = two_layer_length(scores, length) if length < 10**9 else None
            length = length if self.bounds[name] is None else self.bounds[name].lower
            while (proof := prove_length(scores, length)) is None:
                length -= 1
            self.lengths[name], self.proofs[name] = length, proof

    def verdict(self, document, name="case.json"):
        path = self.directory / name
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return verify_file(path)

    def length(self, name, length=None, **evidence):
        length, proof = length or self.lengths[name], self.proofs[name]
        found = {"step_at_least": str(proof.least_step)}
        if proof.least_fall is not None:
            found["fall_at_least"] = str(proof.least_fall)
        return certificate("two-layer-length", self.inputs[name], {"length": str(length)}, {**found, **evidence})

    def saved(self, tensors, metadata, file="other.safetensors"):
        """`inputs` for tensors written anew."""
        (self.directory / file).write_bytes(data := safetensors(tensors, metadata))
        return {"weights": {"file": file, "sha256": hashlib.sha256(data).hexdigest()}}

    def stored(self, name):
        """The tensors and the metadata of a copier."""
        return read_safetensors((self.directory / f"{name}.safetensors").read_bytes())


def certificate(kind, inputs, claim, evidence=None):
    return {"schema": 1, "kind": kind, "inputs": inputs, "evidence": evidence or {}, "claim": claim}


def read_safetensors(data):
    """Tensors and metadata of a file of F64 tensors, by hand."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    metadata = json.loads(header.pop("__metadata__")["copycert"])
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = np.frombuffer(data[8 + size + begin : 8 + size + end], "<f8").reshape(entry["shape"]).copy()
    return tensors, metadata


def safetensors(tensors, metadata):
    header, body = {"__metadata__": {"copycert": json.dumps(metadata)}}, b""
    for name, rows in tensors.items():
        data = rows.astype("<f8").tobytes()
        header[name] = {"dtype": "F64", "shape": list(rows.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Bench(tmp_path_factory.mktemp("two-layer"))


# --- certificates of the library -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_lengths_proved_by_the_library_are_accepted_and_no_longer_ones_than_the_evidence_supports(bench, name):
    length = bench.lengths[name]
    accepted = bench.verdict(bench.length(name))
    assert accepted.accepted, accepted.reason
    assert f"every binary string of every length from 1 to {length} is copied" in accepted.statement
    # Double until rejected, then bisect: the last accepted length is the longest that this evidence supports.
    low, high = length, length + 1
    while bench.verdict(bench.length(name, high)).accepted:
        low, high = high, high + 2 * (high - length)
        assert high < 3 * length
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bench.verdict(bench.length(name, middle)).accepted else (low, middle)
    assert not bench.verdict(bench.length(name, low + 1)).accepted
    assert length <= low < 1.05 * length + 2
    # What is accepted is true by the library's scan too, where there is one.
    bound = bench.bounds[name]
    assert bound is None or bound.fails is None or low < bound.fails.length


@pytest.mark.slow
@pytest.mark.parametrize("name", ["paper", "sharp", "shared", "repeated"])
def test_every_shorter_length_is_accepted_with_the_same_evidence(bench, name):
    length = bench.lengths[name]
    for shorter in sorted({1, 2, 3, length // 2, 63, 64, 65, 66, length - 1} & set(range(1, length))):
        verdict = bench.verdict(bench.length(name, shorter))
        assert verdict.accepted, (shorter, verdict.reason)


@pytest.mark.slow
def test_an_accepted_length_is_copied_by_the_two_layers_run_in_balls(bench):
    copier = build_two_layer_copier(100, beyond_theorem=True)
    proof = prove_length(copier.scores(), 3)
    digest = copier.save(bench.directory / "small.safetensors")
    inputs = {"weights": {"file": "small.safetensors", "sha256": digest}}
    claim, evidence = {"length": 3}, {"step_at_least": str(proof.least_step)}
    assert bench.verdict(certificate("two-layer-length", inputs, claim, evidence)).accepted
    for n in range(1, 4):
        for string in itertools.product((0, 1), repeat=n):
            for step in range(1, n + 1):
                logits = plain_logits(*bench.stored("small"), string, step)
                assert logits[string[step - 1]] > logits[1 - string[step - 1]]
                text = {"string": "".join(map(str, string)), "step": step}
                assert not bench.verdict(certificate("two-layer-wrong-step", inputs, text)).accepted


@pytest.mark.slow
@pytest.mark.parametrize("name", ["paper", "sharp", "shared", "wide"])
def test_counterexamples_of_the_library_are_accepted_and_steps_that_are_right_are_not(bench, name):
    copier = bench.copiers[name]
    fails = bench.bounds[name].fails
    claim = {"length": fails.length, "background": fails.background, "step": fails.step}
    document = certificate("two-layer-counterexample", bench.inputs[name], claim)
    verdict = bench.verdict(document)
    assert verdict.accepted, verdict.reason
    assert f"the answer of step {fails.step} is not the symbol {1 - fails.background}" in verdict.statement
    judge = StepJudge(copier.scores(), fails.length)
    answers = set()
    for step in sorted(
        {*range(1, fails.length + 1, 1 + fails.length // 30), *range(fails.length - 5, fails.length + 1)}
    ):
        document["claim"] = {**claim, "step": step}
        accepted = bench.verdict(document).accepted
        answers.add(accepted)
        assert not accepted or judge.wrong(fails.length, step)
        assert accepted or not judge.wrong(fails.length, step)
    assert answers == {True, False}
    document["claim"] = {**claim, "length": bench.lengths[name], "step": min(fails.step, bench.lengths[name])}
    assert not bench.verdict(document).accepted


def test_a_counterexample_is_wrong_when_the_layers_are_run(bench):
    copier, fails = bench.copiers["shared"], bench.bounds["shared"].fails
    string = np.full(fails.length, fails.background)
    string[fails.step - 1] ^= 1
    assert ball_difference(copier, string, fails.step) < 0
    text = {"string": "".join(map(str, string)), "step": fails.step}
    assert bench.verdict(certificate("two-layer-wrong-step", bench.inputs["shared"], text)).accepted


@pytest.mark.slow
@pytest.mark.parametrize("name", ["paper", "wide"])
def test_the_lemma_and_its_counterexamples(bench, name):
    copier = bench.copiers[name]
    n = copier.length
    angles = anchor_angles(bench, name, range(-1, n + 2))
    least = min(later - earlier for earlier, later in itertools.pairwise(angles))
    denominator = math.ceil(1 / (1 - mpmath.cos(least)) * 1.3)
    result = anchor_lemma(copier.scores(), n, denominator)
    assert result.holds
    evidence = {"step_at_least": str(result.least_step)}
    accepted = certificate(
        "anchor-curve-lemma", bench.inputs[name], {"length": n, "denominator": denominator}, evidence
    )
    assert bench.verdict(accepted).accepted, bench.verdict(accepted).reason
    for claim in ({"length": n, "denominator": denominator + 1}, {"length": n - 1, "denominator": denominator}):
        assert bench.verdict({**accepted, "claim": claim}).accepted
    wrong = {"length": n, "denominator": math.floor(1 / (1 - mpmath.cos(least)) * 0.98)}
    for step in (result.least_step, result.least_step * 2, Fraction(float(least))):
        assert not bench.verdict({**accepted, "claim": wrong, "evidence": {"step_at_least": str(step)}}).accepted
    place = [later - earlier for earlier, later in itertools.pairwise(angles)].index(least) - 1
    for i, j in itertools.combinations(range(-1, 6), 2):
        product = mpmath.cos(angles[j + 1] - angles[i + 1])
        for q in (denominator, 3, 1000):
            pair = {"i": i, "j": j, "denominator": q}
            verdict = bench.verdict(certificate("anchor-curve-pair", bench.inputs[name], pair))
            assert verdict.accepted == (product > 1 - mpmath.mpf(1) / q)
    pair = {"i": place, "j": place + 1, "denominator": wrong["denominator"]}
    assert bench.verdict(certificate("anchor-curve-pair", bench.inputs[name], pair)).accepted


def anchor_angles(bench, name, places):
    """Angles of the h_i by mpmath, from the tensors alone."""
    tensors, metadata = bench.stored(name)
    a = metadata["a"]
    words, query, key = (
        tensors["embedding.weight"],
        *(tensors[f"blocks.0.attention.{part}.weight"] for part in ("query", "key")),
    )
    with mpmath.workdps(40):
        q, k = (matrix @ word for matrix, word in ((query, words[0]), (key, words[a + 1])))
        still = 2 * len(metadata["frequencies"]["row"])

        def turning(r):
            result = mpmath.mpf(0)
            for f, turns in enumerate(metadata["frequencies"]["column"]):
                beta = 2 * mpmath.pi * mpmath.mpf(Fraction(turns).numerator) / Fraction(turns).denominator
                qx, qy, kx, ky = (mpmath.mpf(float(x)) for v in (q, k) for x in v[still + 2 * f : still + 2 * f + 2])
                result += (qx * kx + qy * ky) * mpmath.cos(beta * r) + (qx * ky - qy * kx) * mpmath.sin(beta * r)
            return result

        first = {-1: mpmath.mpf(0), 0: mpmath.pi / 4}
        return [first[i] if i < 1 else mpmath.atan(mpmath.exp(turning(i) - turning(i + 1))) for i in places]


# --- tampering -------------------------------------------------------------------------------------------------


def documents(bench):
    """One certificate of each kind and form that is tampered with, with a judge of claims that is other code."""
    found = []
    for name in ("paper", "shared", "repeated"):
        found.append((bench.length(name), judge_length))
    for name in ("sharp", "shared"):
        fails = bench.bounds[name].fails
        claim = {"length": fails.length, "background": 0, "step": fails.step}
        found.append((certificate("two-layer-counterexample", bench.inputs[name], claim), judge_counterexample))
    found.append((certificate("two-layer-wrong-step", bench.inputs["shared"], WRONG), judge_step))
    lemma = anchor_lemma(bench.copiers["paper"].scores(), 15, 72 * 15**2)
    found.append(
        (
            certificate(
                "anchor-curve-lemma",
                bench.inputs["paper"],
                {"length": 15, "denominator": 72 * 15**2},
                {"step_at_least": str(lemma.least_step)},
            ),
            judge_lemma,
        )
    )
    pair = {"i": 3, "j": 4, "denominator": 2}
    found.append((certificate("anchor-curve-pair", bench.inputs["sharp"], pair), judge_pair))
    budgets = {"rho_above": 10000, "length_factor": "1/1000"}
    found.append((certificate("two-layer-all-budgets", budgets, {"denominator": 72}), judge_budgets))
    found.append((certificate("plane-curve-ceiling", {"rho": 30}, {"fails_at": 427}), judge_ceiling))
    found.append((certificate("plane-curve-ceiling", {"scale": "1000/3"}, {"fails_at": 27}), judge_ceiling))
    share = {"log_share": 607_500}
    found.append((certificate("attention-share-ceiling", {"rho": 30, "heads": 2}, share), judge_share))
    norm = {"norm_at_most": 300}
    found.append((certificate("weights-norm", bench.inputs["paper"], norm), judge_norm))
    return found


#: A step that the copier of the shared plane gets wrong: its string is too long for it.
WRONG = {"string": "0" * 40 + "1" + "0", "step": 41}


def copier_of(bench, document):
    return bench.copiers[document["inputs"]["weights"]["file"].split(".")[0]]


def judge_length(bench, document):
    return prove_length(copier_of(bench, document).scores(), int(document["claim"]["length"])) is not None


def judge_counterexample(bench, document):
    # What is wrong in a shorter string is wrong in a longer one; the library's judge wants lengths of 63 bits.
    n, step = min(int(document["claim"]["length"]), 2**60), int(document["claim"]["step"])
    judge = StepJudge(copier_of(bench, document).scores(), n)
    return int(document["claim"]["background"]) in (0, 1) and judge.wrong(n, step)


def judge_step(bench, document):
    claim = document["claim"]
    string = np.array([int(symbol) for symbol in claim["string"]])
    return bool(ball_difference(copier_of(bench, document), string, int(claim["step"])) <= 0)


def judge_lemma(bench, document):
    n, q = (int(document["claim"][key]) for key in ("length", "denominator"))
    angles = anchor_angles(bench, document["inputs"]["weights"]["file"].split(".")[0], range(-1, n + 2))
    return all(
        mpmath.cos(later - earlier) <= 1 - mpmath.mpf(1) / q for earlier, later in itertools.combinations(angles, 2)
    )


def judge_pair(bench, document):
    i, j, q = (int(document["claim"][key]) for key in ("i", "j", "denominator"))
    early, late = anchor_angles(bench, document["inputs"]["weights"]["file"].split(".")[0], (i, j))
    return mpmath.cos(late - early) > 1 - mpmath.mpf(1) / q


def judge_budgets(bench, document):
    """What is claimed, at some budgets above the least one, from the curve itself."""
    least, f = (Fraction(document["inputs"][key]) for key in ("rho_above", "length_factor"))
    q = int(document["claim"]["denominator"])
    with mpmath.workdps(250):
        for factor in (1 + Fraction(1, 10**9), Fraction(3, 2), 100, 10**9):
            rho = mpmath.mpf((least * factor).numerator) / (least * factor).denominator
            n = int(mpmath.floor(rho**2 * f.numerator / f.denominator / mpmath.log(rho)))
            beta, scale = mpmath.pi / (4 * n), (rho / 10) ** 4

            def angle(i, n=n, beta=beta):
                return mpmath.atan(mpmath.exp(2 * n * mpmath.sin(beta / 2) * mpmath.sin(beta * i)))

            # The slope falls away from x = 0, so that the last step is the least.
            step = angle(n + 1) - angle(n)
            weights = [mpmath.exp(-scale * (1 - mpmath.cos(step * k))) for k in range(1, 30)]
            others = 2 * sum(weights) + n * weights[-1] + n * mpmath.exp(-scale / 2)
            norm = 8 * (rho / 10) ** 2 + 14 * mpmath.sqrt(n) + 128
            if not (mpmath.cos(step) <= 1 - mpmath.mpf(1) / (q * n**2) and others < 1 and norm < rho**2):
                return False
    return least >= 1 and f > 0


def judge_ceiling(bench, document):
    inputs, n = document["inputs"], int(document["claim"]["fails_at"])
    scale = Fraction(inputs["scale"]) if "scale" in inputs else Fraction(inputs["rho"]) ** 4 / 8
    with mpmath.workdps(60):
        real = mpmath.mpf(scale.numerator) / scale.denominator
        return n >= 3 and scale > 0 and real * (1 - mpmath.cos(mpmath.pi / (2 * (n - 2)))) <= mpmath.log(2)


def judge_share(bench, document):
    rho, heads = Fraction(document["inputs"]["rho"]), int(document["inputs"]["heads"])
    return rho > 0 and heads >= 1 and 4 * Fraction(document["claim"]["log_share"]) >= (1 + heads) * rho**4


def judge_norm(bench, document):
    most = Fraction(document["claim"]["norm_at_most"])
    return most >= 0 and copier_of(bench, document).square_norm() <= most**2


def places(value, here=()):
    if here:
        yield here
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*here, key))


def changed(document, place, value):
    result = copy.deepcopy(document)
    inner = result
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return result


def edits(document):
    """Every field removed, doubled under another name, given values of other types, and every number moved."""
    for place in places(document):
        for value in (None, True, 1.5, [], {}, "", "nan", 0, 1, -1, 2, str(2**70), "1/0"):
            yield changed(document, place, value)
        removed = copy.deepcopy(document)
        inner = removed
        for key in place[:-1]:
            inner = inner[key]
        old = inner.pop(place[-1])
        yield removed
        inner["note"] = old
        yield removed
        inner[place[-1]] = old
        yield removed
        if isinstance(old, int | str) and not isinstance(old, bool):
            yield from (changed(document, place, value) for value in moved(old))


def moved(old):
    """A number up and down by little and by much; a text with one letter changed."""
    try:
        number = Fraction(old)
    except ValueError:
        yield from (old[:k] + letter + old[k + 1 :] for k in range(0, len(old), 9) for letter in "0A/")
        return
    whole = number.denominator == 1
    changes = [number - 1, number + 1, -number, number * 2, number * 10, number * Fraction(1, 2)]
    changes += [number * (1 + sign * Fraction(1, 2**power)) for power in (4, 20) for sign in (1, -1)]
    for change in changes:
        yield str(int(change)) if whole and change.denominator != 1 else str(change)


@pytest.mark.slow
def test_every_edit_that_is_accepted_leaves_a_claim_that_other_code_confirms(bench):
    outcomes = {}
    for document, judge in documents(bench):
        verdict = bench.verdict(document)
        assert verdict.accepted, (document["kind"], verdict.reason)
        assert judge(bench, document)
        for edit in edits(document):
            if edit == document:
                continue
            accepted = bench.verdict(edit).accepted
            kind = edit["kind"] if edit.get("kind") in tuple(KINDS) else "other"
            outcomes.setdefault(kind, []).append(accepted)
            if accepted:
                assert set(edit) == {"schema", "kind", "inputs", "evidence", "claim"}
                assert edit["kind"] == document["kind"]
                assert judge(bench, edit), edit
    assert set(outcomes) == {*KINDS, "other"}
    for kind, accepted in outcomes.items():
        # Weaker claims and weaker evidence that still suffices are among the edits of each kind; most edits are not.
        assert sum(accepted) < len(accepted) / 4
        assert kind == "other" or any(accepted), kind


KINDS = {
    "two-layer-length",
    "two-layer-counterexample",
    "two-layer-wrong-step",
    "anchor-curve-lemma",
    "anchor-curve-pair",
    "two-layer-all-budgets",
    "plane-curve-ceiling",
    "attention-share-ceiling",
    "weights-norm",
}


@pytest.mark.parametrize("name", ["paper", "shared", "repeated"])
def test_evidence_of_more_than_is_true_or_less_than_is_needed_is_rejected(bench, name):
    document = bench.length(name)
    step = Fraction(document["evidence"]["step_at_least"])
    for factor in (Fraction(1001, 1000), 2, 10**6, Fraction(1, 10), Fraction(1, 10**30)):
        assert not bench.verdict(bench.length(name, step_at_least=str(step * factor))).accepted
    if "fall_at_least" in document["evidence"]:
        fall = Fraction(document["evidence"]["fall_at_least"])
        for wrong in (fall * Fraction(1001, 1000), Fraction(99, 100), -fall, fall + 1):
            assert not bench.verdict(bench.length(name, fall_at_least=str(wrong))).accepted


def test_twice_the_same_key_is_rejected(bench):
    text = json.dumps(bench.length("paper"))
    assert bench.verdict(text).accepted
    for key in ("claim", "length", "step_at_least", "sha256"):
        at = text.index(f'"{key}"')
        assert "duplicate key" in bench.verdict(f'{text[:at]}"{key}": 1, {text[at:]}').reason


@pytest.mark.slow
@pytest.mark.parametrize("name", ["paper", "shared", "repeated"])
def test_a_moved_entry_is_refused_by_its_hash_and_judged_anew_with_a_new_one(bench, name):
    document = bench.length(name)
    tensors, metadata = bench.stored(name)
    generator = random.Random(name)
    moves = [(tensor, tuple(place)) for tensor in tensors for place in np.argwhere(tensors[tensor])]
    for tensor in tensors:
        moves += [(tensor, tuple(generator.randrange(size) for size in tensors[tensor].shape)) for _ in range(1)]
    accepted = 0
    for tensor, place in moves:
        edited = {key: value.copy() for key, value in tensors.items()}
        edited[tensor][place] += (edited[tensor][place] or 1.0) * 2.0**-12
        document["inputs"] = bench.saved(edited, metadata)
        verdict = bench.verdict(document)
        if verdict.accepted:
            accepted += 1
            scores = load_two_layer_copier(bench.directory / "other.safetensors").scores()
            assert prove_length(scores, bench.lengths[name]) is not None, (tensor, place)
    assert 0 < accepted < 0.75 * len(moves)
    document["inputs"] = copy.deepcopy(bench.inputs[name])
    data = bytearray((bench.directory / f"{name}.safetensors").read_bytes())
    data[-5] ^= 1
    (bench.directory / "flipped.safetensors").write_bytes(data)
    document["inputs"]["weights"]["file"] = "flipped.safetensors"
    assert "SHA-256" in bench.verdict(document).reason


def retold(**changes):
    return lambda tensors, metadata: metadata.update(changes)


def configured(**changes):
    return lambda tensors, metadata: metadata["config"].update(changes)


@pytest.mark.parametrize(
    "change",
    [
        retold(layout="trained"),
        retold(layout="grid"),
        retold(a=3),
        retold(b=4),
        retold(a=1, b=4),
        retold(construction="grid-copier"),
        retold(rho=None),
        retold(length="x"),
        retold(note="all strings are copied"),
        retold(variant=3),
        configured(sub_norm=True),
        configured(sub_norm=False),
        configured(residual=False),
        configured(layers=1),
        configured(layers=3),
        configured(heads=2),
        configured(score_scale=2),
        configured(position="grid"),
        configured(pre_norm=True),
        configured(final_norm=True),
        configured(mlp_width=4),
        configured(extra=0),
        lambda tensors, metadata: metadata.pop("variant"),
        lambda tensors, metadata: metadata["frequencies"].update(row=["1/7"]),
        lambda tensors, metadata: metadata["frequencies"].update(column=metadata["frequencies"]["column"] * 2),
        lambda tensors, metadata: metadata.update(frequencies={"base": 1000, "d": 8}),
        lambda tensors, metadata: tensors.pop("blocks.1.attention.key.weight"),
        lambda tensors, metadata: tensors.update(extra=np.ones((1, 1))),
        lambda tensors, metadata: tensors["embedding.weight"].fill(math.inf),
        lambda tensors, metadata: tensors["embedding.weight"].fill(0.0),
    ],
)
def test_other_models_are_rejected(bench, change):
    tensors, metadata = bench.stored("paper")
    change(tensors, metadata)
    document = bench.length("paper")
    document["inputs"] = bench.saved(tensors, metadata)
    assert not bench.verdict(document).accepted


def test_another_design_length_rho_or_variant_proves_nothing_and_spoils_nothing(bench):
    tensors, metadata = bench.stored("paper")
    metadata.update(rho="-1/3", variant="all strings", length="123456789012345678901234567890")
    document = bench.length("paper")
    document["inputs"] = bench.saved(tensors, metadata)
    verdict = bench.verdict(document)
    assert verdict.accepted
    assert "all strings" not in verdict.statement
    assert "123456789" not in verdict.statement.replace(hashlib.sha256(b"").hexdigest(), "")
    document["claim"]["length"] = 10**9
    assert not bench.verdict(document).accepted


# --- models of no form -----------------------------------------------------------------------------------------


def random_model(bench, name, seed):
    """Random weights for a layout, with a few pairs: the copier's tensors cut down and filled anew."""
    tensors, metadata = bench.stored(name)
    generator = np.random.default_rng(seed)
    sizes = {"model_width": 5, "head_width": 8, "value_width": 3}
    metadata["config"].update(sizes)
    turns = [str(Fraction(int(x), 64)) for x in generator.integers(-40, 40, 2)]
    metadata["frequencies"] = {"unit": "turn", "row": [0, 0], "column": turns}
    vocabulary = metadata["config"]["vocabulary_size"]
    for tensor in tensors:
        shape = {
            "embedding.weight": (vocabulary, 5),
            "readout.weight": (2, 5),
        }.get(tensor, {"query": (8, 5), "key": (8, 5), "value": (3, 5), "output": (5, 3)}.get(tensor.split(".")[-2]))
        tensors[tensor] = generator.standard_normal(shape)
    return tensors, metadata


@pytest.mark.slow
@pytest.mark.parametrize("name", ["paper", "wide", "repeated"])
@pytest.mark.parametrize("seed", range(3))
def test_steps_of_any_weights_are_wrong_exactly_where_the_layers_run_elsewhere_say_so(bench, name, seed):
    tensors, metadata = random_model(bench, name, seed)
    inputs = bench.saved(tensors, metadata)
    generator = random.Random(seed)
    answers = set()
    for _ in range(12):
        n = generator.randrange(1, 7)
        string = [generator.randrange(2) for _ in range(n)]
        step = generator.randrange(1, n + 1)
        verdict = bench.verdict(
            certificate("two-layer-wrong-step", inputs, {"string": "".join(map(str, string)), "step": step})
        )
        zero, one = plain_logits(tensors, metadata, string, step)
        assert abs(zero - one) > 1e-9  # far from a tie: the floats of a model this small are off by some 10^-13
        assert verdict.accepted == ((zero < one) if string[step - 1] == 0 else (one < zero)), verdict.reason
        answers.add(verdict.accepted)
        document = certificate("two-layer-length", inputs, {"length": 1}, bench.length(name)["evidence"])
        assert "not of the two-layer copier's form" in bench.verdict(document).reason
    assert answers == {True, False}


def plain_logits(tensors, metadata, string, step):
    """The two layers in float64, token by token, written down from docs/certificates.md."""
    a, b = metadata["a"], metadata["b"]
    before, after = list(range(2, a + 2)), list(range(a + 2, a + b + 2))
    if metadata["layout"] == "trained":
        before, after = [2, 3], [2, 3, 4]
    tokens = [*before, *string, *after, *string[: step - 1]]
    assert len(tokens) - 1 == a + len(string) + b + step - 2
    states = [tensors["embedding.weight"][token] for token in tokens]
    turns = [float(Fraction(x)) for x in metadata["frequencies"]["column"]]
    still = 2 * len(metadata["frequencies"]["row"])

    def turned(vector, t):
        result = vector.copy()
        for f, beta in enumerate(turns):
            pair = complex(*vector[still + 2 * f : still + 2 * f + 2]) * np.exp(2j * np.pi * beta * t)
            result[still + 2 * f : still + 2 * f + 2] = pair.real, pair.imag
        return result

    for layer in (0, 1):
        query, key, value, output = (
            tensors[f"blocks.{layer}.attention.{part}.weight"] for part in ("query", "key", "value", "output")
        )
        queries = [turned(query @ x, t) for t, x in enumerate(states)]
        keys = [turned(key @ x, t) for t, x in enumerate(states)]
        new = []
        for t, x in enumerate(states):
            scores = np.array([queries[t] @ keys[s] for s in range(t + 1)])
            weights = np.exp(scores - scores.max())
            mean = sum(w * (value @ y) for w, y in zip(weights / weights.sum(), states, strict=False))
            new.append(x + output @ (mean / (np.linalg.norm(mean) or 1.0)))
        states = new
    return tensors["readout.weight"] @ states[-1]


def test_equal_logits_are_wrong_and_unread_layers_do_not_matter(bench):
    tensors, metadata = random_model(bench, "paper", 7)
    tensors["readout.weight"][1] = tensors["readout.weight"][0] = 0.0
    claim = {"string": "01", "step": 2}
    assert bench.verdict(certificate("two-layer-wrong-step", bench.saved(tensors, metadata), claim)).accepted


@pytest.mark.parametrize(
    "claim",
    [
        {"string": "", "step": 1},
        {"string": "0" * 65, "step": 1},
        {"string": "012", "step": 1},
        {"string": "01", "step": 0},
        {"string": "01", "step": 3},
        {"string": 1, "step": 1},
        {"string": "01"},
    ],
)
def test_bad_steps_are_rejected(bench, claim):
    assert not bench.verdict(certificate("two-layer-wrong-step", bench.inputs["paper"], claim)).accepted


# --- statements without weights --------------------------------------------------------------------------------


def ideal_leak(length, b, lift):
    """Logarithm of the largest weight of an A anchor over a B anchor in the ideal copier of this length, by mpmath."""
    beta = mpmath.pi / (4 * length)
    before = [length * mpmath.cos(beta * (r - 0.5)) for r in range(length + b, 2 * length + b + 1)]
    after = [length * mpmath.cos(beta * (r + 0.5)) for r in range(length + 1)]
    return max(before) - min(after) - lift


@pytest.mark.slow
def test_all_budgets_say_which_lift_they_need(bench):
    document = certificate(
        "two-layer-all-budgets", {"rho_above": 10000, "length_factor": "1/1000"}, {"denominator": 72}
    )
    statement = bench.verdict(document).statement
    assert "the lift being 64 for b <= 2N and 64 + 2N elsewhere" in statement
    length = 400
    for b in (2, 3, 100, 2 * length):
        assert ideal_leak(length, b, 64) <= -64
    # With b about 8 N the A anchors have come round again, and a lift of 64 does not keep them out.
    assert ideal_leak(length, 7 * length, 64) > 0
    for b in (2 * length + 1, 5 * length, 7 * length, 8 * length):
        assert ideal_leak(length, b, 64 + 2 * length) <= -64
    for inputs, denominator in (
        ({"rho_above": 99, "length_factor": "1/10"}, 72),
        ({"rho_above": 10000, "length_factor": "1/1000"}, 10),
        ({"rho_above": 10000, "length_factor": "1/100"}, 72),
        ({"rho_above": 100, "length_factor": "1/1000"}, 72),
        ({"rho_above": 10000, "length_factor": 0}, 72),
    ):
        assert not bench.verdict(certificate(document["kind"], inputs, {"denominator": denominator})).accepted


@pytest.mark.parametrize("seed", range(4))
def test_no_plane_curve_copies_beyond_the_ceiling(bench, seed):
    """Random vectors on the quarter circle, random queries: some step lets two neighbours weigh as much."""
    generator = np.random.default_rng(seed)
    scale = float(generator.uniform(1, 200))
    n = next(
        n
        for n in range(3, 200)
        if bench.verdict(certificate("plane-curve-ceiling", {"scale": str(Fraction(scale))}, {"fails_at": n})).accepted
    )
    for trial in range(50):
        angles = np.sort(generator.uniform(0, np.pi / 2, n))
        if trial % 2:
            angles = np.linspace(0, np.pi / 2, n)
        sources = np.stack([np.cos(angles), np.sin(angles)])
        best = scale * sources.T @ sources
        weights = np.exp(best - np.diag(best)[:, None])
        assert max(weights.sum(axis=1) - 1) >= 1
    if n > 3:
        shorter = certificate("plane-curve-ceiling", {"scale": str(Fraction(scale))}, {"fails_at": n - 1})
        assert not bench.verdict(shorter).accepted


# --- the program -----------------------------------------------------------------------------------------------


def test_the_checker_runs_isolated_and_optimised(bench):
    files = []
    for index, (document, _) in enumerate(documents(bench)):
        files.append(bench.directory / f"isolated-{index}.json")
        files[-1].write_text(json.dumps(document))
    wrong = bench.directory / "isolated-wrong.json"
    wrong.write_text(json.dumps(bench.length("paper", 10**6)))
    done = run(*files)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.count("accepted: ") == len(files)
    done = run(*files, wrong)
    assert done.returncode == 1
    assert "isolated-wrong.json: rejected: " in done.stdout


def run(*files):
    root = Path(__file__).parents[2]
    program = (
        f"import sys; sys.path.insert(0, {str(root)!r}); import runpy; "
        "sys.argv[0] = 'verify'; runpy.run_module('proofs_check.verify', run_name='__main__')"
    )
    return subprocess.run(
        [sys.executable, "-I", "-O", "-c", program, *map(str, files)], capture_output=True, text=True, check=False
    )


def test_hostile_evidence_costs_little(bench):
    """Steps a hair off the least slope, tiny ones, and lengths beyond reach end in a rejection, soon."""
    document = bench.length("sharp")
    for step in ("1/1" + "0" * 9000, "1" + "0" * 400, f"{2**60 - 1}/{2**62}"):
        assert not bench.verdict(bench.length("sharp", step_at_least=step)).accepted
    document["claim"]["length"] = str(10**60 + 1)
    assert "above" in bench.verdict(document).reason
    document["claim"]["length"] = str(10**60)
    assert not bench.verdict(document).accepted
    assert torch.get_num_threads() == 1


def test_frequencies_in_radians_and_with_whole_turns_added(bench):
    """The same copier with its frequency in radians, and with whole turns added, which no index can tell."""
    document = bench.length("paper")
    for unit, whole, accepted in (("turn", 5, True), ("turn", -3, True), ("radian", 0, True), ("radian", 1, False)):
        tensors, metadata = bench.stored("paper")
        first, *rest = metadata["frequencies"]["column"]
        value = (Fraction(first) if unit == "turn" else 2 * Fraction(math.pi) * Fraction(first)) + whole
        metadata["frequencies"].update(unit=unit, column=[str(value), *rest])
        document["inputs"] = bench.saved(tensors, metadata)
        assert bench.verdict(document).accepted == accepted, (unit, whole)
