"""The task: prompts, positions, distributions."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory import CopyTask, InputError, sample_strings, theory_task, trained_task
from theory.task import all_strings, grid_positions, single_flip_strings
from theory.task._copy_task import shift_positions


def grid_positions_one_by_one(tokens: list[int], newline: int | None) -> list[tuple[int, int]]:
    """The definition, token by token."""
    positions, row, column = [], 0, 0
    for token in tokens:
        positions.append((row, column))
        row, column = (row + 1, 0) if token == newline else (row, column + 1)
    return positions


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=7, max_size=7), min_size=1, max_size=4),
    st.sampled_from([None, 0, 3]),
)
def test_grid_positions_agree_with_the_definition(batch: list[list[int]], newline: int | None) -> None:
    rows, columns = grid_positions(np.array(batch, dtype=np.int64), newline)
    for tokens, row, column in zip(batch, rows.tolist(), columns.tolist(), strict=True):
        assert list(zip(row, column, strict=True)) == grid_positions_one_by_one(tokens, newline)


@pytest.mark.slow
@given(st.integers(1, 5), st.integers(2, 6), st.integers(1, 9), st.data())
def test_wanted_key_is_one_row_up_at_a_fixed_column(a: int, b: int, n: int, data: st.DataObject) -> None:
    task = theory_task(a, b)
    string = np.array([data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))], dtype=np.int64)
    rows, columns = grid_positions(task.sequences(string), task.newline)
    for step in range(1, n + 1):
        query, key = task.query_index(n, step), a + step - 1
        assert (rows[0, key] - rows[0, query], columns[0, key] - columns[0, query]) == (-1, a + 2 - b)
        assert task.sequences(string)[0, query] == (string[0, step - 2] if step > 1 else task.infix[-1])


def test_with_one_token_after_the_first_query_is_the_newline_in_the_same_row() -> None:
    task = theory_task(2, 1)
    tokens = task.sequences(np.array([[0, 1, 1, 0]], dtype=np.int64))
    rows, columns = grid_positions(tokens, task.newline)
    query = task.query_index(4, 1)
    assert tokens[0, query] == task.newline
    assert (rows[0, query], columns[0, query]) == (0, 2 + 4)


def test_trained_layout_stands_at_equal_columns() -> None:
    task = trained_task()
    tokens = task.sequences(np.array([[0, 1, 1]], dtype=np.int64))
    rows, columns = grid_positions(tokens, task.newline)
    for step in (1, 2, 3):
        source, query = 1 + step, task.query_index(3, step)
        assert (rows[0, source], columns[0, source]) == (1, step)
        assert (rows[0, query], columns[0, query]) == (2, step)
    assert trained_task("*").newline is None


def test_token_lists_may_hold_newlines_and_data_anywhere() -> None:
    task = CopyTask((2, 0, 2), (1, 2, 2), newline=2, names=("0", "1", "<n>"))
    tokens = task.sequences(np.array([[1, 0]], dtype=np.int64))
    assert tokens.tolist() == [[2, 0, 2, 1, 0, 1, 2, 2, 1]]
    rows, columns = grid_positions(tokens, task.newline)
    assert list(zip(rows[0].tolist(), columns[0].tolist(), strict=True)) == grid_positions_one_by_one(
        tokens[0].tolist(), 2
    )
    assert shift_positions(tokens).tolist() == [list(range(9))]


@pytest.mark.deep
@pytest.mark.parametrize("distribution", ["uniform", "imbalanced", "recursive-flip", "repeat-structure", "single-flip"])
def test_distributions_are_seeded_across_processes(distribution: str) -> None:
    here = sample_strings(distribution, 23, 3, seed=5)
    code = f"from theory import sample_strings; print(sample_strings({distribution!r}, 23, 3, seed=5).tolist())"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert here.tolist() == eval(there)
    assert here.shape == (3, 23)
    assert set(np.unique(here)) <= {0, 1}
    assert not np.array_equal(here, sample_strings(distribution, 23, 3, seed=6))


def test_recursive_flip_has_its_structure() -> None:
    for string in sample_strings("recursive-flip", 31, 20, seed=1):
        for level in (1, 3, 7, 15):
            assert np.array_equal(string[:level], string[level + 1 : 2 * level + 1])


def test_imbalanced_frequencies_come_from_the_seven_values() -> None:
    zeros = 1 - sample_strings("imbalanced", 4000, 200, seed=0).mean(axis=1)
    distance = np.abs(zeros[:, None] - np.array([0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95])).min(axis=1)
    assert distance.max() < 0.04
    assert zeros.min() < 0.1 < 0.9 < zeros.max()


def test_repeat_structure_repeats_and_flips() -> None:
    pure = sample_strings("repeat-structure", 40, 5, seed=2, base_length=5, flip_probability=0.0)
    assert np.array_equal(pure[:, 5:], pure[:, :-5])
    noisy = sample_strings("repeat-structure", 4000, 5, seed=2, base_length=5, flip_probability=0.2)
    differing = (noisy[:, 5:] != noisy[:, :-5]).mean()
    assert 0.28 < differing < 0.36  # 2 * 0.2 * 0.8 = 0.32


def test_exhaustive_strings() -> None:
    assert len(np.unique(all_strings(6), axis=0)) == 64
    assert single_flip_strings(3, 1).tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory_task(0, 3), "a = 0: must be an integer >= 1"),
        (lambda: theory_task(1, 0), "b = 0: must be an integer >= 1"),
        (lambda: sample_strings("zigzag", 3, 1, 0), "distribution = zigzag: must be one of uniform"),
        (lambda: sample_strings("uniform", 0, 1, 0), "n = 0: must be an integer >= 1"),
        (lambda: sample_strings("repeat-structure", 3, 1, 0, flip_probability=2.0), "flip_probability = 2.0"),
        (lambda: CopyTask((9,), (0,), None, ("0", "1")), "token = 9"),
        (lambda: theory_task(2, 3).query_index(3, 4), "step = 4"),
        (lambda: all_strings(21), "n = 21"),
    ],
)
def test_bad_input_is_one_line_with_argument_value_and_what_is_allowed(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
