"""Acceptance of Theorem 3.1: every entry's model run on every string, every impossibility checked; more heads."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._campaign import progress
from constructions import build_shift_copier, forced_answers, search_heads, table_of_witness
from theory import decide, thresholds
from theory.signs import check_certificate
from theory.task import all_strings

SEARCHED_TO = 8


def table_entries(scale: float) -> dict[str, Any]:
    """For each entry of the default table: strings of its torch model that are wrong, and certificates beyond it.

    For shift relations the RoPE transformer is run as well.
    """
    longest = SEARCHED_TO if scale >= 1 else 3
    counts = {"entries": 0, "strings_run": 0, "strings_wrong": 0, "certificates_checked": 0, "rope_strings_wrong": 0}
    rows = []
    for row in progress(list(thresholds(longest)), "entries of the table"):
        rows.append([row.relation, row.a, row.b, row.signs, row.largest, row.searched_to])
        counts["entries"] += 1
        if row.largest < row.searched_to:
            beyond = decide(row.relation, row.a, row.b, row.largest + 1, row.signs, smallest=False)
            for certificate in beyond.certificates:
                check_certificate(certificate)
            if not beyond.certificates:
                raise ArithmeticError(f"no certificate beyond {row}")
            counts["certificates_checked"] += len(beyond.certificates)
        if row.a is None or row.b is None or row.largest == 0:
            continue
        witness = decide(row.relation, row.a, row.b, row.largest, row.signs).witness
        if witness is None:
            raise ArithmeticError(f"no model for {row}")
        module = table_of_witness(witness).module()
        counts["strings_run"] += 2 ** (row.largest + 1) - 2
        counts["strings_wrong"] += _wrong(module, module.task, row.largest)
        if row.relation == "shift":
            copier = build_shift_copier(row.a, row.b, row.largest, row.signs)
            counts["rope_strings_wrong"] += _wrong(copier.model, copier.task, row.largest)
    return {**counts, "rows": rows}


def _wrong(model: Any, task: Any, length: int) -> int:
    return sum(
        int((forced_answers(model, task, strings) != strings).any(axis=1).sum())
        for strings in map(all_strings, range(1, length + 1))
    )


def several_heads(scale: float) -> dict[str, Any]:
    """How far a gradient search takes one, two and three heads at a = b = 2; lengths found, verified exactly."""
    longest, seeds, iterations = (9, range(16), 4000) if scale >= 1 else (3, range(2), 600)
    found: dict[str, Any] = {}
    for heads in (1, 2, 3):
        reached, margin = 0, None
        for length in progress(range(1, longest + 1), f"{heads} heads"):
            model = search_heads(2, 2, length, heads, seeds=seeds, iterations=iterations)
            if model is None:
                break
            reached, margin = length, float(model.margin(length))
        found[str(heads)] = {
            "copies_all_strings_up_to": reached,
            "exact_margin": np.format_float_positional(margin or 0.0, precision=4),
            "starts_tried_beyond": len(seeds),
        }
    return found
