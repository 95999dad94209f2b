"""Shapes are enforced while tests run, and a kind of arguments once accepted is not gone over again."""

import numpy as np
import pytest
from beartype import beartype
from jaxtyping import Float64, TypeCheckError

from tests._signatures import _sparing, kind_of, modules_with_shapes
from theory.numbers._float_exp import exp_nonpositive


def added(left: Float64[np.ndarray, " n"], right: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    CALLS.append(left.shape)
    return left + right if len(left) < 5 else left[1:]


CALLS: list[tuple[int, ...]] = []


def test_a_wrong_shape_is_caught_before_and_after_right_ones() -> None:
    checked = _sparing(typechecker=beartype)(added)
    for _ in range(2):
        with pytest.raises(TypeCheckError):
            checked(np.zeros(2), np.zeros(3))
        with pytest.raises(TypeCheckError):
            checked(np.zeros(2), right=np.zeros((2, 1)))
        with pytest.raises(TypeCheckError):
            checked(np.zeros(2, dtype=np.float32), np.zeros(2, dtype=np.float32))
        with pytest.raises(TypeCheckError):  # what is returned
            checked(np.zeros(5), np.zeros(5))
        assert checked(np.zeros(2), np.ones(2)).tolist() == [1, 1]
    assert CALLS.count((2,)) == 2 and CALLS.count((5,)) == 2


def test_kinds_are_told_apart() -> None:
    values = (1, 1.0, True, None, np.zeros(2), np.zeros(3), np.zeros((2, 1)), np.zeros(2, dtype=int), [1], (1,), [1, 2])
    assert len({kind_of(value) for value in values}) == len(values)
    assert kind_of(np.zeros(2)) == kind_of(np.ones(2)) and kind_of([]) == kind_of([])


def test_the_product_s_signatures_are_enforced() -> None:
    with pytest.raises(TypeCheckError):
        exp_nonpositive(np.zeros(2, dtype=np.float32))
    assert exp_nonpositive(np.zeros(2)).tolist() == [1, 1]
    assert {"theory.task._template", "engine._attention", "proofs_check.certify._words"} <= set(modules_with_shapes())
    assert "theory.numbers._balls" not in modules_with_shapes()
