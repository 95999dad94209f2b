"""One step of one string under a position-only score, straight from the token positions: the route that assumes
nothing about worst cases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb
from jaxtyping import Int64

from theory.grid._length_scan import SingleFlip
from theory.grid._score import GridScore, require_two_after
from theory.numbers import total, working_precision
from theory.task import grid_positions, theory_task

PRECISION = 256

#: The failure at b = 1 is looked for up to this length; a draw that survives it has probability below 1/1000!.
LONGEST_FIRST_STEP = 1000


@dataclass(frozen=True)
class StepWeights:
    """Attention weights at one step, against 1 at the wanted position: those of tokens equal to s_i, and of the other
    data tokens.

    The step is right iff right > wrong, wrong iff right <= wrong.
    """

    right: arb
    wrong: arb


def step_weights(score: GridScore, string: Int64[np.ndarray, " n"], step: int) -> StepWeights:
    """The two sums of a step (1-based) for one string, balls at 256 bits. Cost: O(tokens m) ball operations.

    Raises:
        InputError: step outside 1 .. n.
    """
    task = theory_task(score.a, score.b)
    query = task.query_index(len(string), step)
    tokens = task.sequences(string[None])[0, : query + 1]
    rows, columns = grid_positions(tokens, task.newline)
    # Where the wanted key stands relative to the query; the score may be given around it.
    wanted_row, wanted_column = -1, score.a + 2 - score.b
    sums: dict[bool, list[arb]] = {True: [], False: []}
    with working_precision(PRECISION):
        row_gaps = {row: score.row_gap(row) for row in {int(r) - int(rows[query]) - wanted_row for r in rows}}
        for token, row, column in zip(tokens.tolist(), rows.tolist(), columns.tolist(), strict=True):
            if token in (0, 1):
                row_distance = row - int(rows[query]) - wanted_row
                gap = row_gaps[row_distance] + score.column_gap(column - int(columns[query]) - wanted_column)
                sums[token == string[step - 1]].append((-gap).exp())
        return StepWeights(right=total(sums[True]), wrong=total(sums[False]))


def first_step_failure(score: GridScore) -> SingleFlip | None:
    """For b = 1: the shortest string 1 0..0 whose first step certainly fails, or None if none up to length 1000 does.

    The newline asks from (0, a+n), where the offset finds nothing; s_j stands n+1-j columns to its left. The step fails
    iff the weight at distance n is at most the
    sum of the weights at the distances below n, so soon for almost every draw: the weights have no reason to grow that
    fast.
    """
    if score.b != 1:
        require_two_after(score.b)
        raise ValueError("first_step_failure is about b = 1")
    with working_precision(PRECISION):
        nearer = arb(0)
        for length in range(1, LONGEST_FIRST_STEP + 1):
            weight = (-score.column_gap(-length - (score.a + 1))).exp()
            if weight <= nearer:
                return SingleFlip(length=length, step=1)
            nearer += weight
    return None
