"""Speed of the decision behind Theorem 3.1, with z3 on the same infeasible systems in the same run."""

from __future__ import annotations

from benchmarks.speed._rows import Row, median_seconds
from theory import decide, thresholds
from theory.signs import Layout, sign_system

#: Strings up to this length, signs of the votes of 0 and 1: both impossible.
INFEASIBLE = ((6, {}, "any"), (5, {"0": 1, "1": -1}, "opposite"))


def sign_system_rows() -> list[Row]:
    """Decisions with and without the search for the fewest cases, z3's answer, the default table."""
    rows = []
    for length, votes, signs in INFEASIBLE:
        _clear_caches()
        rows += [
            Row(f"decide shift, length {length}, {signs}", _decide(length, signs, True), "s", "< 2 s", 5),
            Row("... without the search for the fewest cases", _decide(length, signs, False), "s", "", 5),
            Row(f"... z3 {_z3_version()}, unsatisfiable, no multipliers", _z3(length, votes), "s", "", 3),
        ]
    table = median_seconds(lambda k: list(thresholds()), 1)
    return [*rows, Row("thresholds, default table", table, "s", "< 60 s", 1)]


def _decide(length: int, signs: str, smallest: bool) -> float:
    def task(_: int) -> None:
        _clear_caches()
        if decide("shift", 2, 3, length, signs, smallest=smallest).possible:
            raise ArithmeticError("possible")

    return median_seconds(task, 5)


def _clear_caches() -> None:
    from theory.signs import _decide as module

    module._system.cache_clear()


def _z3(length: int, votes: dict[str, int]) -> float:
    """z3 on the distinct inequalities of every query token, with the signs of the votes as bounds."""
    import z3

    def task(_: int) -> None:
        solver = z3.Solver()
        for block in sign_system(Layout("shift", 2, 3), length).blocks:
            unknowns = [z3.Real(f"h{tuple(unknown)}") for unknown in block.unknowns]
            for unknown, sign in zip(unknowns, block.signs(votes).tolist(), strict=True):
                if sign:
                    solver.add(sign * unknown > 0)
            matrix = block.coefficients
            for row in range(matrix.shape[0]):
                part = slice(matrix.indptr[row], matrix.indptr[row + 1])
                terms = zip(matrix.data[part].tolist(), matrix.indices[part].tolist(), strict=True)
                solver.add(z3.Sum([int(value) * unknowns[column] for value, column in terms]) > 0)
        if solver.check() != z3.unsat:
            raise ArithmeticError("z3 does not find it unsatisfiable")

    return median_seconds(task, 3)


def _z3_version() -> str:
    import z3

    return str(z3.get_version_string())
