"""The feasible side of the sign systems as torch models: every string is run, stored weights are judged exactly."""

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import cos, exp, log, pi

import numpy as np
import pytest
import torch

from constructions import (
    ScoreTable,
    ShiftCopier,
    TableModel,
    build_shift_copier,
    forced_answers,
    search_heads,
    table_of_witness,
)
from tests._rounding import ULPS, gamma
from theory import CopyTask, InputError, decide, theory_task
from theory.signs import Layout, Unknown
from theory.signs._system import Step, steps_up_to
from theory.task import RELATIONS, all_strings


def wrong_strings(model: torch.nn.Module, task: CopyTask, length: int) -> list[str]:
    """The strings of that length that the torch model does not copy."""
    strings = all_strings(length)
    wrong = (forced_answers(model, task, strings) != strings).any(axis=1)
    return ["".join(map(str, row)) for row in strings[wrong].tolist()]


def wrong_up_to(model: torch.nn.Module, task: CopyTask, length: int) -> list[str]:
    return [string for n in range(1, length + 1) for string in wrong_strings(model, task, n)]


LAYOUTS = [(2, 2, 5, "equal"), (2, 3, 5, "equal"), (1, 2, 5, "any"), (3, 5, 5, "any"), (2, 2, 4, "opposite"),
           (1, 1, 4, "any"), (2, 1, 4, "equal"), (2, 2, 1, "any")]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b", "length", "signs"), LAYOUTS)
def test_the_rope_model_copies_every_string_and_fails_beyond_the_threshold(
    a: int, b: int, length: int, signs: str
) -> None:
    copier = build_shift_copier(a, b, length, signs)
    assert wrong_up_to(copier.model, copier.task, length) == []
    assert copier.model.config.position == "shift"
    assert (copier.model.config.layers, copier.model.config.heads) == (1, 1)
    margin = copier.margin()
    assert margin > 0 and margin.rad() < 1e-12
    # The model's stored weights are the witness's up to rounding; of what size is not claimed, and 10^-6 is plenty.
    assert abs(float(margin) / float(copier.witness.margin) - 1) < 1e-6
    beyond = 5 if b == 1 else 6
    assert wrong_strings(copier.model, copier.task, beyond) or wrong_strings(copier.model, copier.task, 5)


@pytest.mark.slow
def test_dimension_and_frequencies_are_what_the_derivation_says() -> None:
    copier = build_shift_copier(2, 2, 5, "equal")
    assert (copier.d, len(copier.distinct_frequencies)) == (66, 11)
    assert copier.distinct_frequencies == tuple(Fraction(f, 26) for f in range(11))
    for a, b, frequencies in ((1, 2, 11), (2, 3, 12), (2, 7, 12)):
        assert len(build_shift_copier(a, b).distinct_frequencies) == frequencies
    assert copier.witness.votes["0"] == copier.witness.votes["1"]
    assert len(set(copier.witness.votes.values())) == 2


def test_the_votes_cannot_all_have_one_sign() -> None:
    """With every token voting for 0 no step that wants 1 can be right; the witness shows both signs are used."""
    for a, b in ((1, 2), (2, 2), (2, 3)):
        witness = decide("shift", a, b, 5, "equal").witness
        assert witness is not None
        data = witness.votes["0"]
        assert any(vote == -data for token, vote in witness.votes.items() if token not in "01")


def test_the_model_agrees_with_attention_written_out() -> None:
    """Cosine scores and softmax, token by token, from the stored matrices."""
    copier = build_shift_copier(2, 2, 5, "equal")
    attention = copier.model.block(0).attention
    query, key = attention.query.weight.double().numpy(), attention.key.weight.double().numpy()
    embedding = copier.model.embedding.weight.numpy()
    turns = [float(f.value) for f in (*copier.frequencies.row, *copier.frequencies.column)]  # type: ignore[union-attr]
    for string, step in (("00110", 3), ("10110", 5), ("0", 1), ("0101", 2)):
        symbols = np.array([[int(c) for c in string]], dtype=np.int64)
        tokens = copier.task.sequences(symbols)[0, : copier.task.query_index(len(string), step) + 1]
        last = len(tokens) - 1
        q = query @ embedding[tokens[last]]
        weights, votes, size = [], [], 0.0
        for place, token in enumerate(tokens):
            k = key @ embedding[token]
            pairs = list(zip(turns, q[0::2] * k[0::2], strict=True))
            size = max(size, sum(abs(product_) * (1 + abs(turn) * len(tokens)) for turn, product_ in pairs))
            weights.append(exp(sum(product_ * cos(2 * pi * turn * (last - place)) for turn, product_ in pairs)))
            votes.append(copier.witness.votes[copier.task.names[token]])
        logit = sum(w * v for w, v in zip(weights, votes, strict=True)) / sum(weights)
        zero, one = copier.model.last_logits(torch.from_numpy(tokens)).tolist()
        # A score's products take fewer than 60 roundings each, its angles seven turns' worth each; weights are within
        # a factor of e to the scores' error and exp's ulps, in either run.
        error = 8 * max(map(abs, votes)) * gamma(size * (len(embedding[0]) + 60) + 4 * ULPS + 2 * len(tokens) + 20)
        assert abs(zero - one - logit) <= error < 1e-8
        assert (logit > 0) == (string[step - 1] == "0")


def test_a_moved_weight_shows_in_the_margin() -> None:
    copier = build_shift_copier(2, 2, 5, "equal")
    weight = copier.model.block(0).attention.key.weight
    row, column = torch.nonzero(weight.abs() == weight.abs().max())[0].tolist()
    weight.data[row, column] *= 1.01
    assert copier.margin() < 0
    assert wrong_up_to(copier.model, copier.task, 5)


@pytest.mark.slow
@pytest.mark.parametrize("relation", list(RELATIONS))
@pytest.mark.parametrize(("a", "b"), [(1, 1), (2, 3)])
def test_score_tables_copy_every_string(relation: str, a: int, b: int) -> None:
    known = {"nope": 1, "shift": 4 if b == 1 else 5, "row-and-shift": 5, "absolute": 5 if b == 1 else 6}
    length = known.get(relation, 6)
    witness = decide(relation, a, b, length).witness
    assert witness is not None
    table = table_of_witness(witness)
    module = table.module()
    assert table.margin(length) == witness.margin > 0
    assert wrong_up_to(module, module.task, length) == []


def test_the_torch_table_has_the_exact_logits() -> None:
    witness = decide("grid", 2, 3, 4).witness
    assert witness is not None
    assert_logits(table_of_witness(witness), 4)
    found = search_heads(2, 3, 4)
    assert found is not None
    assert_logits(found, 4)


def assert_logits(table: TableModel, length: int) -> None:
    weights = [weight for head in table.heads for weight in head.weights.values()]
    scores = max(abs(log(weight)) for weight in weights if weight)
    votes = sum(float(max(map(abs, head.votes.values()))) for head in table.heads)
    module, task = table.module(), theory_task(table.layout.a or 0, table.layout.b or 0)
    for string, step in steps_up_to(length):
        tokens = task.sequences(np.array([[int(c) for c in string]], dtype=np.int64))
        query = task.query_index(len(string), step)
        logits = module(torch.from_numpy(tokens[:, : query + 1]), query)[0, 0]
        seen = table.layout.row(Step(string, step))
        unknowns = [unknown for unknown, count in seen.items() for _ in range(abs(count))]
        # Scores are given; weights are off by the roundings of their differences and exp's ulps.
        error = 8 * votes * gamma(4 * scores + 4 * ULPS + 2 * len(unknowns) + 20)
        assert abs(float(logits[0] - logits[1]) - float(table.logit(unknowns))) <= error < 1e-9


@pytest.mark.slow
def test_two_heads_copy_what_one_head_cannot() -> None:
    """All 64 strings of length 6, and every shorter one: run in torch, verified in rationals by code of the test."""
    assert not decide("shift", 2, 2, 6).possible
    model = search_heads(2, 2, 6)
    assert model is not None and len(model.heads) == 2
    assert model.margin(6) == margin_by_hand(model, 2, 2, 6) > 0
    module = model.module()
    assert wrong_up_to(module, module.task, 6) == []


def margin_by_hand(model: TableModel, a: int, b: int, length: int) -> Fraction:
    task, margins = theory_task(a, b), []
    for string in (symbols for n in range(1, length + 1) for symbols in product((0, 1), repeat=n)):
        for step in range(1, len(string) + 1):
            tokens = [task.names[t] for t in (*task.prefix, *string, *task.infix, *string[: step - 1])]
            last, logit = len(tokens) - 1, Fraction(0)
            for head in model.heads:
                weights = [head.weights[Unknown(tokens[-1], x, (last - t,))] for t, x in enumerate(tokens)]
                assert min(weights) > 0
                total = sum(w * head.votes[x] for w, x in zip(weights, tokens, strict=True))
                logit += total / sum(weights)
            margins.append(-logit if string[step - 1] else logit)
    return min(margins)


@pytest.mark.slow
def test_the_search_is_seeded_and_may_fail() -> None:
    first, second = (search_heads(1, 2, 3, seeds=range(2), iterations=600) for _ in range(2))
    assert first is not None and first == second
    assert search_heads(2, 2, 6, heads=1, seeds=range(2), iterations=200) is None
    assert search_heads(1, 2, 3, relation="rope", seeds=range(2), iterations=600) == first  # rope is shift


def test_an_unknown_relation_has_score_zero() -> None:
    witness = decide("shift", 2, 2, 3).witness
    assert witness is not None
    module = table_of_witness(witness).module()
    assert isinstance(module, ScoreTable)
    logits = module(torch.from_numpy(module.task.sequences(all_strings(8)[:2])), module.task.query_index(8, 1))
    assert logits.shape == (2, 8, 2) and bool(logits.isfinite().all())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: build_shift_copier(2, 2, 6), "length = 6: must be a length that one layer can copy; these contradict"),
        (lambda: build_shift_copier(2, 1, 5), "length = 5: must be a length that one layer can copy"),
        (lambda: build_shift_copier(2, 2, 5, "opposite"), "length = 5: .*step 3 of"),
        (lambda: build_shift_copier(0, 2), "a = 0: must be an integer >= 1"),
        (lambda: build_shift_copier(2, 2, 4, "both"), "signs = both: must be one of any, opposite, equal"),
        (lambda: search_heads(2, 2, 3, 0), "heads = 0: must be an integer >= 1"),
        (lambda: search_heads(2, 2, 3, seeds=range(0)), "seeds = .*at least one"),
        (lambda: search_heads(2, 2, 3, relation="ropes"), "relation = ropes: must be one of"),
        (lambda: TableModel(Layout("shift", None, None), ()).module(), "a = all: "),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_copiers_are_plain_data() -> None:
    copier = build_shift_copier(1, 2, 2)
    assert isinstance(copier, ShiftCopier) and copier.task == theory_task(1, 2)
    assert sum(parameter.requires_grad for parameter in copier.model.parameters()) == 0
