"""Theorem 3.1 and its corrected forms: the few steps that cancel for every a and b, the same ones that Coq checks.

*Printed theorem* (paper): no one-layer transformer with shift-invariant positions copies all binary strings of length
<= 5. Under our reading this needs a condition: for b >= 2 a model whose tokens 0 and 1 vote for the same output does
copy them (`constructions/theorem_3_1.py`). What holds for every a, b and all token lists A and B:

- `opposite-signs` (paper, as corrected): length 5 is impossible if 0 votes for 0 and 1 for 1;
- `any-signs` (new): length 6 is impossible, even if exp(score) is replaced by arbitrary reals;
- `b-1` (new): length 5 is impossible for b = 1, whatever the tokens vote for.

`proofs_check/coq/Cases.v` has the same lists; a test compares them. `decide` finds such lists by itself, not always
these.
"""

from __future__ import annotations

from theory.signs._certificate import Case, Certificate
from theory.signs._system import Layout


def _cases(*steps: tuple[str, int]) -> tuple[Case, ...]:
    return tuple(Case(string, step, 1) for string, step in steps)


#: Certificates by name; each is checked in integers before it is shown.
THEOREM_3_1: dict[str, Certificate] = {
    "opposite-signs": Certificate(
        Layout("shift", None, None),
        (("0", 1), ("1", -1)),
        _cases(("001", 3), ("100", 3), ("00011", 3), ("00110", 3)),
        irreducible=True,
        smallest=True,
    ),
    "any-signs": Certificate(
        Layout("shift", None, None),
        (),
        _cases(("000", 3), ("0101", 2), ("00100", 3), ("001101", 2)),
        irreducible=True,
        smallest=True,
    ),
    "b-1": Certificate(
        Layout("shift", None, 1),
        (),
        _cases(
            ("00", 2), ("01", 2), ("001", 3), ("100", 3), ("0101", 4), ("1100", 4), ("00011", 3), ("10100", 3)
        ),
        irreducible=True,
        smallest=True,
    ),
}  # fmt: skip
