"""Exact frequencies: parsing, drawing, units, and what they are refused for."""

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import mpmath
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from theory import (
    BasePower,
    GridFrequencies,
    InputError,
    Radian,
    Turn,
    base_grid_frequencies,
    certify_length,
    draw_grid_frequencies,
    exact_length,
    ideal_grid_score,
    read_grid_frequencies,
)
from theory.grid import furthest_length
from theory.numbers import (
    Frequency,
    VacuousBallError,
    fixed_point_turns,
    grid_frequencies_document,
    grid_frequencies_from_document,
    rational_turns,
    working_precision,
)
from theory.numbers._frequencies import parse_grid_frequencies


def test_a_json_number_is_the_decimal_that_it_spells() -> None:
    parsed = parse_grid_frequencies('{"row": [0.1, 1e-3], "column": ["1/3", "0.25", 2]}')
    assert parsed.row == (Radian(Fraction(1, 10)), Radian(Fraction(1, 1000)))
    assert parsed.column == (Radian(Fraction(1, 3)), Radian(Fraction(1, 4)), Radian(Fraction(2)))
    assert parse_grid_frequencies('{"unit": "turn", "row": [0.5], "column": [1]}').row == (Turn(Fraction(1, 2)),)


@pytest.mark.parametrize(
    "text",
    [
        '{"row": [NaN], "column": [1]}',
        '{"row": [Infinity], "column": [1]}',
        '{"row": ["nan"], "column": [1]}',
        '{"row": ["inf"], "column": [1]}',
        '{"row": ["1/0"], "column": [1]}',
        '{"row": [true], "column": [1]}',
        '{"row": [1e999999999], "column": [1]}',
        '{"row": [], "column": [1]}',
        '{"row": [1], "column": []}',
        '{"row": [1]}',
        '{"row": 1, "column": [1]}',
        '{"row": [1], "column": [1], "unit": "degree"}',
        '{"row": [1], "column": [1], "colour": 1}',
        '{"base": -1, "d": 8}',
        '{"base": 10, "d": 6}',
        '{"base": 10, "d": "1/2"}',
        '["row"]',
        '{"row": [1], "row": [2], "column": [1]}',
        '{"base": "2", "d": "1e5000"}',
        '{"row": [1',
        "",
    ],
)
def test_bad_frequencies_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_grid_frequencies(text)
    assert "frequencies" in str(caught.value) or "base" in str(caught.value) or "d =" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"frequencies = .*: must be a readable JSON file"):
        read_grid_frequencies(tmp_path / "missing.json")


@pytest.mark.slow
def test_draws_depend_on_seed_and_number_alone() -> None:
    draw = draw_grid_frequencies(8, seed=3, draw=2)
    code = "from theory import *; print(repr(draw_grid_frequencies(8, seed=3, draw=2)))"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert repr(draw) == there.strip()
    others = [draw_grid_frequencies(8, 3, 1), draw_grid_frequencies(8, 2, 2), draw_grid_frequencies(12, 3, 2)]
    values = {frequency for one in (draw, *others) for frequency in (*one.row, *one.column)}
    assert len(values) == 4 + 4 + 4 + 6


def test_draws_are_uniform_and_use_all_bits() -> None:
    values = [f.value for k in range(200) for f in draw_grid_frequencies(8, 0, k).column]
    assert all(0 <= value < 1 for value in values)
    assert abs(float(sum(values)) / len(values) - 0.5) < 0.05
    assert max(value.denominator for value in values) == 2**1024
    assert max(f.value.denominator for k in range(20) for f in draw_grid_frequencies(8, 0, k, bits=53).row) == 2**53


@pytest.mark.parametrize(
    "frequency",
    [
        Turn(Fraction(5, 7)),
        Radian(Fraction(22, 7)),
        BasePower(Fraction(10000), Fraction(-3, 8)),
        Turn(Fraction(0)),
    ],
)
def test_fixed_point_agrees_with_mpmath(frequency: Turn | Radian | BasePower) -> None:
    mpmath.mp.prec = 300
    if isinstance(frequency, Turn):
        turns = mpmath.mpf(frequency.value.numerator) / frequency.value.denominator
    elif isinstance(frequency, Radian):
        turns = mpmath.mpf(frequency.value.numerator) / frequency.value.denominator / (2 * mpmath.pi)
    else:
        turns = mpmath.mpf(10000) ** (mpmath.mpf(-3) / 8) / (2 * mpmath.pi)
    assert abs(fixed_point_turns(frequency, 200) - (turns - mpmath.floor(turns)) * 2**200) <= 1
    with working_precision(200):
        enclosure = frequency.turns()
        assert enclosure.contains(arb(str(turns))) or abs(enclosure - arb(str(turns))) < arb(2) ** -180
        assert enclosure.rad() < arb(2) ** -190


@pytest.mark.slow
@given(st.integers(1, 5), st.sampled_from(["radian", "turn"]), st.data())
def test_documents_round_trip(m: int, unit: str, data: st.DataObject) -> None:
    numbers = st.lists(st.fractions(), min_size=m, max_size=m).map(lambda values: [str(value) for value in values])
    document = {"unit": unit, "row": data.draw(numbers), "column": data.draw(numbers)}
    parsed = grid_frequencies_from_document(document)
    assert grid_frequencies_document(parsed) == document
    assert parse_grid_frequencies(json.dumps(document)) == parsed


def test_base_frequencies_round_trip_and_start_at_one_radian() -> None:
    frequencies = base_grid_frequencies(Fraction(10000), 16)
    assert grid_frequencies_from_document(grid_frequencies_document(frequencies)) == frequencies
    with working_precision(100):
        radians = [f.turns() * 2 * arb.pi() for f in frequencies.row]
        assert [bool(abs(r - 10 ** arb(-k)) < 1e-25) for k, r in enumerate(radians)] == [True] * 4


def test_whole_turns_are_seen_exactly() -> None:
    assert Turn(Fraction(3, 2**53)).whole_turns(2**53)
    assert not Turn(Fraction(3, 2**53)).whole_turns(2**52)
    assert not Radian(Fraction(3)).whole_turns(10**30)
    assert Radian(Fraction(0)).whole_turns(7)
    assert not BasePower(Fraction(10), Fraction(0)).whole_turns(44)


@pytest.mark.parametrize("whole_turns", [2**60, 2**110, 10**300])
def test_frequencies_of_many_whole_turns_lose_no_precision(whole_turns: int) -> None:
    """A third of a turn, up to 10^-400, on top of any number of whole ones: columns 3, 6, .. come full circle."""
    mpmath.mp.prec = 3000
    radians = 2 * mpmath.pi * (whole_turns + mpmath.mpf(1) / 3)
    frequency = Radian(Fraction(int(mpmath.floor(radians * mpmath.mpf(10) ** 400)), 10**400))
    assert abs(fixed_point_turns(frequency, 100) - 2**100 // 3) <= 1
    with working_precision(128):
        assert abs(frequency.turns() * 3 - 1) < arb(2) ** -120
    score = ideal_grid_score(GridFrequencies((Radian(Fraction(1)),), (frequency,)), Fraction(1000), 2, 3)
    assert exact_length(score).length == 3
    assert certify_length(score, 50) is None and furthest_length(score)[0] <= 3


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_files_of_any_editor_are_read(encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    file.write_bytes('{"unit": "radian", "row": [0.5], "column": [1.0, 0.3]}'.encode(encoding))
    assert len(read_grid_frequencies(file).column) == 2


def test_what_is_no_frequencies_file_is_named_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "f.csv"
    for text in ("0.5,1.0", '{"rope_theta": 1}', ""):
        file.write_text(text)
        with pytest.raises(InputError, match=r"must be a file with"):
            read_grid_frequencies(file)


KINDS = (Turn(Fraction(3, 7)), Turn(Fraction(1, 2**1000 + 1)), Radian(Fraction(22, 7)), Radian(Fraction(0)),
         Radian(Fraction(10**30, 3)), BasePower(Fraction(10_000), Fraction(-3, 8)))  # fmt: skip


@pytest.mark.parametrize("frequency", KINDS, ids=repr)
@pytest.mark.parametrize("distance", [0, 1, -5, 12_345, 10**45 + 1, -(10**45), Fraction(5, 3)])
def test_cosine_and_sine_at_any_distance(frequency: Frequency, distance: int | Fraction) -> None:
    with mpmath.workprec(1200), working_precision(96):
        match frequency:
            case Turn(value):
                turns = mpmath.mpf(value.numerator) / value.denominator
            case Radian(value):
                turns = mpmath.mpf(value.numerator) / value.denominator / (2 * mpmath.pi)
            case BasePower(base, exponent):
                power = mpmath.mpf(exponent.numerator) / exponent.denominator
                turns = mpmath.mpf(base.numerator) ** power / (2 * mpmath.pi)
        # A frequency counts modulo one turn per position, which shows where positions are not whole.
        angle = (turns - mpmath.floor(turns)) * distance.numerator / distance.denominator
        true = mpmath.cospi(2 * angle), mpmath.sinpi(2 * angle)
        for part, told in zip(frequency.cos_sin(distance), true, strict=True):
            assert part.rad() <= arb(2) ** -90
            assert abs(part - arb(mpmath.nstr(told, 60))) <= arb(2) ** -90


def test_whole_turns_are_exact_and_a_wide_ball_is_refused() -> None:
    for cosine, sine in (Turn(Fraction(3, 7)).cos_sin(7 * 10**60), Radian(Fraction(0)).cos_sin(9)):
        assert cosine == 1 and sine == 0
    assert all(frequency.whole_turns(0) for frequency in KINDS)
    assert [frequency.whole_turns(7) for frequency in KINDS] == [True, False, False, True, False, False]
    assert rational_turns(KINDS) == [Fraction(3, 7), Fraction(1, 2**1000 + 1), 0]
    with working_precision(64), pytest.raises(VacuousBallError):
        KINDS[-1].cos_sin(1, Fraction(1, 2**80))


@pytest.mark.parametrize("frequency", KINDS, ids=repr)
def test_float_cosines_do_not_depend_on_the_precision_in_force(frequency: Frequency) -> None:
    with working_precision(30):
        coarse = frequency.float_cos_sin(10**6)
    with working_precision(500):
        fine = frequency.cos_sin(10**6)
    assert coarse == tuple(float(part.mid()) for part in fine)
