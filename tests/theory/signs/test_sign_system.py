"""Sign systems: rows against token sequences, decisions against brute force, certificates against any A, B."""

import functools
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import theory
from copycert.command._main import cli
from proofs_check.claims import decision_certificate
from theory import InputError, theory_task, thresholds
from theory.signs import Case, Certificate, Layout, Unknown, Witness, check_certificate, sign_system
from theory.signs._certificate import RejectedError, balance, check_witness
from theory.signs._system import Step, steps_up_to
from theory.task import ENCODED, RELATIONS, Position, Related, grid_positions
from theory.task._relations import HIROPE_WINDOW

#: Impossibilities written down, not computed; (string, step), multipliers 1.
SIX_ANY = (("000", 3), ("0101", 2), ("00100", 3), ("001101", 2))
FIVE_OPPOSITE = (("001", 3), ("100", 3), ("00011", 3), ("00110", 3))
FIVE_SINGLE_B = (("00", 2), ("01", 2), ("001", 3), ("100", 3), ("0101", 4), ("1100", 4), ("00011", 3), ("10100", 3))

#: Decisions are plain data that nothing changes: each is made once.
decide = functools.cache(theory.decide)


def certificate(cases, a, b, votes=()) -> Certificate:  # type: ignore[no-untyped-def]
    return Certificate(Layout("shift", a, b), votes, tuple(Case(*case, 1) for case in cases), False, False)


def relate_one_by_one(relation: str, tokens: list[int], newline: int, query: int, key: int) -> tuple:
    """The relations once more, from the token list alone."""
    row = [tokens[:t].count(newline) for t in range(len(tokens))]
    column = [next((t - 1 - m for m in range(t - 1, -1, -1) if tokens[m] == newline), t) for t in range(len(tokens))]
    rows, columns = row[query] - row[key], column[query] - column[key]
    table: dict[str, tuple] = {
        "shift": (query - key,),
        "nope": (),
        "absolute": (query, key),
        "grid": (rows, columns),
        "row-and-shift": (rows, query - key),
        "bipe": (rows, column[query], column[key]),
        "segatron": (0, rows, columns),
        "hirope": (query - key,) if query - key < HIROPE_WINDOW else (rows, columns),
    }
    return table[relation]


@pytest.mark.parametrize("relation", list(RELATIONS))
@pytest.mark.parametrize(("a", "b"), [(1, 1), (2, 3), (3, 2)])
def test_rows_count_the_tokens_of_the_sequence(relation: str, a: int, b: int) -> None:
    task = theory_task(a, b)
    assert task.newline is not None
    for string, step in steps_up_to(4):
        symbols = [int(symbol) for symbol in string]
        tokens = [*task.prefix, *symbols, *task.infix, *symbols[: step - 1]]
        last = len(tokens) - 1
        sign = 1 if symbols[step - 1] == 0 else -1
        expected: Counter[Unknown] = Counter()
        for key, token in enumerate(tokens):
            related = relate_one_by_one(relation, tokens, task.newline, last, key)
            expected[Unknown(task.names[tokens[-1]], task.names[token], related)] += sign
        assert Layout(relation, a, b).row(Step(string, step)) == dict(expected)


def test_systems_hold_each_inequality_once() -> None:
    system = sign_system(Layout("nope", 2, 3), 4)
    rows = {tuple(row) for block in system.blocks for row in block.coefficients.toarray().tolist()}
    assert system.rows < sum(1 for _ in steps_up_to(4)) == 98
    assert sum(len(block.steps) for block in system.blocks) == system.rows >= len(rows)
    for block in system.blocks:
        for step, row in zip(block.steps, block.coefficients.toarray(), strict=True):
            counted = Layout("nope", 2, 3).row(step)
            assert [counted.get(unknown, 0) for unknown in block.unknowns] == row.tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("a", "b", "opposite", "equal", "any_signs"),
    [(1, 1, 4, 4, 4), (3, 1, 4, 4, 4), (2, 2, 4, 5, 5), (2, 3, 4, 5, 5), (1, 4, 4, 5, 5), (None, None, 4, 5, 5)],
)
def test_shift_thresholds(a: int | None, b: int | None, opposite: int, equal: int, any_signs: int) -> None:
    for signs, largest in (("opposite", opposite), ("equal", equal), ("any", any_signs)):
        below, above = (decide("shift", a, b, n, signs, smallest=False) for n in (largest, largest + 1))
        assert below.possible and below.certificates == () and below.cases == ()
        assert not above.possible and above.witness is None and above.cases
    found = {row.signs: row.largest for row in thresholds(6, ["shift"], [(a, b)])}
    assert found == {"opposite": opposite, "equal": equal, "any": any_signs}


@pytest.mark.slow
def test_a_model_for_all_exists_where_no_certificate_does() -> None:
    for relation, b in (("shift", 5), ("row-and-shift", 2)):
        assert decide(relation, None, None, 5).possible and decide(relation, 2, b, 5).possible


@pytest.mark.slow
def test_other_relations() -> None:
    table = {(row.relation, row.signs): row.largest for row in thresholds(6, list(RELATIONS), [(2, 2)])}
    for relation in ("grid", "bipe", "segatron"):
        assert [table[relation, signs] for signs in ("opposite", "equal", "any")] == [6, 6, 6]
    assert {table["nope", signs] for signs in ("opposite", "equal", "any")} == {1}
    assert [table["row-and-shift", signs] for signs in ("opposite", "equal", "any")] == [4, 5, 5]
    assert [table["absolute", signs] for signs in ("opposite", "equal", "any")] == [5, 6, 6]
    assert [table["hirope", signs] for signs in ("opposite", "equal", "any")] == [6, 1, 6]


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["absolute", "grid", "bipe", "hirope", "shift", "nope"])
def test_witnesses_copy_every_string_by_brute_force(relation: str) -> None:
    """Every step of every string, softmax and all, in rationals, from positions made here."""
    length = {"shift": 5, "nope": 1}.get(relation, 6)
    witness = decide(relation, 2, 3, length).witness
    assert witness is not None
    task, margins = theory_task(2, 3), []
    assert task.newline is not None
    for string in ("".join(symbols) for n in range(1, length + 1) for symbols in product("01", repeat=n)):
        tokens = task.sequences(np.array([[int(symbol) for symbol in string]]))[0].tolist()
        for step in range(1, len(string) + 1):
            query = task.query_index(len(string), step)
            weights = [
                witness.weights[
                    Unknown(
                        task.names[tokens[query]],
                        task.names[tokens[key]],
                        relate_one_by_one(relation, tokens[: query + 1], task.newline, query, key),
                    )
                ]
                for key in range(query + 1)
            ]
            votes = [witness.votes[task.names[token]] for token in tokens[: query + 1]]
            logit = Fraction(sum(w * v for w, v in zip(weights, votes, strict=True)), sum(weights))
            margins.append(logit if string[step - 1] == "0" else -logit)
            assert min(weights) > 0
    assert min(margins) == witness.margin > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signs", "expected"), [("opposite", {(1, -1)}), ("equal", {(1, 1), (-1, -1)}), ("any", {(1, 1), (-1, -1)})]
)
def test_witnesses_keep_the_signs_asked_for(signs: str, expected: set[tuple[int, int]]) -> None:
    witness = decide("shift", 2, 2, 4 if signs == "opposite" else 5, signs).witness
    assert witness is not None and (witness.votes["0"], witness.votes["1"]) in expected
    if signs != "opposite":
        assert len({witness.votes[token] for token in witness.layout.tokens}) == 2


@pytest.mark.slow
def test_decisions_agree_with_fourier_motzkin_on_small_systems() -> None:
    """An independent decision: eliminate the unknowns in rationals."""
    for relation, a, b in product(RELATIONS, (1, 2), (1, 2)):
        for length, signs in product((1, 2), ("opposite", "equal")):
            assert decide(relation, a, b, length, signs).possible == feasible_by_elimination(
                relation, a, b, length, signs
            )


def feasible_by_elimination(relation: str, a: int, b: int, length: int, signs: str) -> bool:
    system = sign_system(Layout(relation, a, b), length)
    data = {"opposite": [(1, -1)], "equal": [(1, 1), (-1, -1)]}[signs]
    others = system.layout.tokens[2:]
    for (zero, one), rest in product(data, product((1, -1), repeat=len(others))):
        votes = {"0": zero, "1": one, **dict(zip(others, rest, strict=True))}
        if all(block_feasible(block, votes) for block in system.blocks):
            return True
    return False


def block_feasible(block, votes: dict[str, int]) -> bool:  # type: ignore[no-untyped-def]
    """Strict rows over g > 0: eliminate one unknown after the other (Fourier-Motzkin)."""
    signs = [votes[unknown.token] for unknown in block.unknowns]
    rows = {tuple(int(v) * s for v, s in zip(row, signs, strict=True)) for row in block.coefficients.toarray()}
    rows |= {tuple(int(i == j) for j in range(len(signs))) for i in range(len(signs))}
    for column in range(len(signs)):
        up = [row for row in rows if row[column] > 0]
        down = [row for row in rows if row[column] < 0]
        rows = {row for row in rows if row[column] == 0}
        rows |= {combine(p, d, column) for p in up for d in down}
        if any(not any(row) for row in rows):
            return False
    return True


def combine(up: tuple[int, ...], down: tuple[int, ...], column: int) -> tuple[int, ...]:
    row = [-down[column] * p + up[column] * q for p, q in zip(up, down, strict=True)]
    common = int(np.gcd.reduce(row)) or 1
    return tuple(value // common for value in row)


@pytest.mark.slow
def test_every_proper_subset_of_a_certificate_can_be_satisfied() -> None:
    for decision in (decide("shift", 1, 1, 5), decide("shift", 2, 2, 5, "opposite"), decide("absolute", 1, 1, 6)):
        for found in decision.certificates:
            check_certificate(found)
            assert found.irreducible
            for left_out in found.cases:
                rest = replace(found, cases=tuple(case for case in found.cases if case != left_out))
                with pytest.raises(RejectedError, match="is left"):
                    check_certificate(rest)


@pytest.mark.slow
def test_equal_signs_need_a_certificate_for_either_sign() -> None:
    decision = decide("shift", 2, 3, 6, "equal")
    assert {found.votes for found in decision.certificates} == {
        (("0", 1), ("1", 1)),
        (("0", -1), ("1", -1)),
    }


@pytest.mark.slow
def test_small_supports() -> None:
    assert [len(decide("shift", a, b, 6).cases) for a, b in ((2, 2), (2, 3), (None, None))] == [4, 4, 4]
    assert len(decide("shift", None, None, 5, "opposite").cases) == 4
    assert len(decide("shift", None, 1, 5).cases) == 8


def balance_by_hand(cases, prefix: list[int], infix: list[int]) -> dict:  # type: ignore[no-untyped-def]
    """The sum over shift relations, coded apart from the package."""
    left: dict = {}
    for text, step in cases:
        sequence = prefix + [int(c) for c in text] + infix + [int(c) for c in text[: step - 1]]
        for place, token in enumerate(sequence):
            key = (sequence[-1], token, len(sequence) - 1 - place)
            left[key] = left.get(key, 0) + (-1 if text[step - 1] == "1" else 1)
    return {key: value for key, value in left.items() if value}


def random_lists(count: int, infix_lengths: list[int]) -> list[tuple[list[int], list[int]]]:
    generator = random.Random(0)
    return [
        (
            [generator.randrange(6) for _ in range(generator.randrange(10))],
            [generator.randrange(6) for _ in range(generator.choice(infix_lengths))],
        )
        for _ in range(count)
    ]


@pytest.mark.slow
def test_all_lists_certificates_cancel_for_random_lists() -> None:
    """Lists of 0 to 9 tokens that hold 0 and 1 too: the sum vanishes, or leaves what opposite signs make negative."""
    found = [(case.string, case.step) for case in decide("shift", None, None, 6).cases]
    for prefix, infix in random_lists(200, list(range(10))):
        for cases in (SIX_ANY, found):
            assert balance_by_hand(cases, prefix, infix) == {}
            assert balance([Case(*case, 1) for case in cases], "shift", prefix, infix, None) == {}
        left = balance_by_hand(FIVE_OPPOSITE, prefix, infix)
        assert left == {(0, 1, 1): 1, (0, 0, 1): -1}
        assert balance([Case(*case, 1) for case in FIVE_OPPOSITE], "shift", prefix, infix, None) == {
            (0, 1, (1,)): 1,
            (0, 0, (1,)): -1,
        }


def test_single_token_certificate_cancels_for_any_prefix_and_one_token_after_only() -> None:
    single = [(case.string, case.step) for case in decide("shift", None, 1, 5).cases]
    for prefix, infix in random_lists(100, [1]):
        assert balance_by_hand(FIVE_SINGLE_B, prefix, infix) == {} == balance_by_hand(single, prefix, infix)
    for prefix, infix in random_lists(100, [2, 3, 4, 5]):
        assert balance_by_hand(FIVE_SINGLE_B, prefix, infix) and balance_by_hand(single, prefix, infix)


def test_written_certificates_are_accepted_where_they_hold() -> None:
    for a, b in ((None, None), (1, 1), (2, 2), (2, 3), (4, 7)):
        check_certificate(certificate(SIX_ANY, a, b))
        check_certificate(certificate(FIVE_OPPOSITE, a, b, (("0", 1), ("1", -1))))
    check_certificate(certificate(FIVE_SINGLE_B, None, 1))
    check_certificate(certificate(FIVE_SINGLE_B, 3, 1))
    for a, b in ((2, 2), (1, 2), (None, 2), (None, None)):
        with pytest.raises(RejectedError, match="is left"):
            check_certificate(certificate(FIVE_SINGLE_B, a, b))
    for votes in ((), (("0", 1), ("1", 1)), (("0", -1), ("1", 1)), (("0", 1),)):
        with pytest.raises(RejectedError, match="is left"):
            check_certificate(certificate(FIVE_OPPOSITE, 2, 2, votes))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tamper", "reason"),
    [
        (lambda cases: (replace(cases[0], multiplier=2), *cases[1:]), "is left"),
        (lambda cases: (replace(cases[0], multiplier=-1), *cases[1:]), "multiplier"),
        (lambda cases: (replace(cases[0], multiplier=0), *cases[1:]), "multiplier"),
        (lambda cases: (replace(cases[0], step=cases[0].step - 1), *cases[1:]), "is left"),
        (lambda cases: (replace(cases[0], step=9), *cases[1:]), "one of its steps"),
        (lambda cases: (replace(cases[0], string="2" + cases[0].string[1:]), *cases[1:]), "binary"),
        (lambda cases: cases[1:], "is left"),
        (lambda cases: (), "no cases"),
        (lambda cases: (*cases, Case("01", 1, 1)), "is left"),
    ],
)
def test_tampered_certificates_are_rejected(tamper: Callable, reason: str) -> None:
    for a, b in ((2, 3), (None, None)):
        sound = decide("shift", a, b, 6).certificates[0]
        with pytest.raises(RejectedError, match=reason):
            check_certificate(replace(sound, cases=tamper(sound.cases)))


@pytest.mark.slow
def test_every_change_of_one_symbol_is_judged_by_the_sum() -> None:
    """An edit is accepted exactly if the edited cases still cancel by the code above."""
    sound = decide("shift", 2, 2, 6).certificates[0]
    task, accepted = theory_task(2, 2), 0
    for number, case in enumerate(sound.cases):
        for place in range(len(case.string)):
            flipped = case.string[:place] + "10"[int(case.string[place])] + case.string[place + 1 :]
            cases = tuple(replace(c, string=flipped) if index == number else c for index, c in enumerate(sound.cases))
            by_hand = balance_by_hand([(c.string, c.step) for c in cases], list(task.prefix), list(task.infix))
            try:
                check_certificate(replace(sound, cases=cases))
            except RejectedError:
                assert by_hand
            else:
                assert not by_hand
                accepted += 1
    assert accepted < sum(len(case.string) for case in sound.cases)


@pytest.mark.slow
def test_tampered_witnesses_are_rejected() -> None:
    witness = decide("shift", 2, 2, 5).witness
    assert witness is not None and check_witness(witness) == witness.margin
    key = Unknown("0", "0", (4,))

    def changed(weight: int | None) -> Witness:
        weights = dict(witness.weights)
        del weights[key]
        return replace(witness, weights=weights if weight is None else {**weights, key: weight})

    for weight, reason in ((None, "no weight"), (0, "not positive"), (-1, "not positive"), (10**6, "is wrong")):
        with pytest.raises(RejectedError, match=reason):
            check_witness(changed(weight))
    with pytest.raises(RejectedError, match="is wrong"):
        check_witness(replace(witness, votes={**witness.votes, "0": -witness.votes["0"]}))
    with pytest.raises(RejectedError, match="votes"):
        check_witness(replace(witness, votes={"0": 1, "1": -1}))
    with pytest.raises(RejectedError, match=r"no weight|is wrong"):
        check_witness(replace(witness, length=6))


@pytest.mark.slow
def test_thresholds_do_not_depend_on_how_far_is_searched() -> None:
    for relation in ("shift", "nope"):
        far, near = (list(thresholds(length, [relation], [(1, 1), (2, 2)])) for length in (6, 4))
        for long, short in zip(far, near, strict=True):
            assert short.largest == min(long.largest, 4) and short.searched_to == 4


def test_grid_and_segatron_are_the_same_system() -> None:
    for step in steps_up_to(4):
        grid, segatron = (Layout(relation, 2, 3).row(step) for relation in ("grid", "segatron"))
        assert {(u.query, u.token, (0, *u.relation)): v for u, v in grid.items()} == {
            tuple(u): v for u, v in segatron.items()
        }


def test_relations_are_functions_of_rows_columns_and_indices() -> None:
    tokens = np.array([3, 9, 0, 1, 9, 9, 1], dtype=np.int64)
    rows, columns = grid_positions(tokens, 9)
    positions = list(zip(rows.tolist(), columns.tolist(), range(7), strict=True))
    for name, relation in RELATIONS.items():
        for query, key in ((6, 0), (6, 3), (4, 4), (5, 1)):
            expected = relate_one_by_one(name, tokens.tolist(), 9, query, key)
            assert relation.relate(positions[query], positions[key]) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("rotary", 2, 2, 4),
            "relation = rotary: must be one of shift, nope, absolute, grid, row-and-shift, bipe, segatron, hirope",
        ),
        (("shift", 2, 2, 4, "mixed"), "signs = mixed: must be one of any, opposite, equal"),
        (("shift", 0, 2, 4), "a = 0: must be an integer >= 1"),
        (("shift", 2, 0, 4), "b = 0: must be an integer >= 1"),
        (("shift", 2, 2, 0), "length = 0: must be an integer >= 1"),
        (("shift", 2, None, 4), "b = all: must be a number where a is one"),
        (("grid", None, None, 4), "a = all: must be a number for grid; all at once for shift, nope, row-and-shift"),
        (("nope", None, 2, 4), "b = 2: must be all"),
        (
            ("shift", 2, 2, 14),
            r"length = 14: must be at most 12 here: the system has \d+ coefficients, the limit is 2000000",
        ),
        (
            ("shift", 2, 2, 10**6),
            r"length = 1000000: must be at most 12 here: the system has over \d+ coefficients, the limit is 2000000",
        ),
    ],
)
def test_bad_input(arguments: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        decide(*arguments)
    assert "\n" not in str(caught.value)


def test_thresholds_refuse_an_unknown_relation() -> None:
    with pytest.raises(InputError, match="relation = rotary"):
        list(thresholds(3, ["rotary"]))


def distance(query: Position, key: Position) -> Related:
    return (query[2] - key[2],)


@pytest.mark.slow
@pytest.mark.parametrize("length", [4, 6])
def test_a_function_is_decided_as_the_relation_that_it_is(length: int) -> None:
    named, given = decide("shift", 2, 3, length), decide(distance, 2, 3, length)
    assert (given.possible, given.rows) == (named.possible, named.rows)
    assert [c.cases for c in given.certificates] == [c.cases for c in named.certificates]
    assert given.layout.relation == "custom:distance" and given.layout != named.layout
    assert [row.largest for row in thresholds(5, [distance], [(2, 2), (None, None)])] == [4, 5, 5]


def test_functions_of_one_name_are_told_apart_and_bad_values_refused() -> None:
    def relation(query: Position, key: Position) -> Related:
        return ()

    nothing = relation

    def relation(query: Position, key: Position) -> Related:
        return query[2] - key[2], key[1]

    assert [decide(function, 2, 2, 3).possible for function in (nothing, relation)] == [False, True]
    with pytest.raises(InputError, match="tuples of integers"):
        decide(lambda query, key: "near", 2, 2, 3)
    with pytest.raises(InputError, match="another name"):
        Layout("shift", 2, 2, nothing)
    with pytest.raises(InputError, match="a = all"):
        decide(nothing, None, None, 3)


def test_the_checker_knows_no_function(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="custom:distance: must be for a certificate one that the checker knows"):
        decision_certificate(tmp_path, "decision.json", decide(distance, 2, 3, 2))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("encoding", list(ENCODED))
def test_encodings_are_their_relation(encoding: str) -> None:
    assert decide(encoding, 2, 3, 4).layout == Layout("shift", 2, 3)
    command = ["decide", "--relation", encoding, "--a", "2", "--b", "3", "--length", "2"]
    told = CliRunner().invoke(cli, command).output
    assert f"{encoding} is a shift relation" in told and "(shift, a = 2" in told
    assert json.loads(CliRunner().invoke(cli, [*command, "--json"]).output)["relation"] == "shift"
