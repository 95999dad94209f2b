"""No false PROVED: `certify_strings` against all strings, over thousands of small models.

`python -m benchmarks.certify_campaign [--scale 0.01]` writes results/certify_campaign.jsonl, a line a chunk, and goes
on with it. Kinds of models: `random` (any shape, vocabulary and template), `copying` (near one that copies), `strong`
(the same with larger amplitudes), `long` (larger still, all strings up to length 12), `margin` (on the line between one
that copies and one that does not, within about 1e-6 of the place where the margin changes its sign). The other side is
`brute_force`: extended precision, every string, from the stored tensors alone. Where its margin is below 1e-16 it
cannot tell the sign; such models are counted apart, and a verdict on them is not compared.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._campaign import Results, option_parser, progress, show
from proofs_check.certify import one_layer_model
from tests.models.small import Sample, blend, brute_force, copying_sample, random_sample
from theory import CertifiedHead, certify_strings

RESULTS = Path(__file__).parent / "results" / "certify_campaign.jsonl"
FOLDERS = ("theory", "engine", "proofs_check/certify", "tests/models", "benchmarks/certify_campaign.py")
SEED = 0

#: Models of each kind, and the longest strings.
KINDS = {"random": (1500, 4), "copying": (2000, 5), "strong": (4000, 5), "margin": (3000, 5), "long": (300, 12)}

#: Models near one place where the margin changes its sign.
AROUND = 10

CHUNK = 100

#: Below this the extended precision of the brute force does not tell a sign.
UNTOLD = 1e-16


def samples(kind: str, first: int, count: int) -> Iterator[Sample]:
    """Models number `first` .. of a kind; a function of the seed and the number alone."""
    for number in range(first, first + count):
        seed = SEED * 10**6 + number
        if kind == "random":
            yield random_sample(seed)
        elif kind == "copying":
            yield copying_sample(10**5 + seed, noise=(0.0, 0.01, 0.1, 0.3)[number % 4])
        elif kind == "strong":
            yield copying_sample(2 * 10**5 + seed, noise=(0.0, 0.01, 0.05, 0.1)[number % 4], least=1.6, most=3.5)
        elif kind == "long":
            yield copying_sample(4 * 10**5 + seed, noise=(0.0, 0.01, 0.05, 0.1)[number % 4], least=2.5, most=4.5)
        elif number % AROUND == 0:
            yield from near_margin(seed)


def near_margin(seed: int) -> Iterator[Sample]:
    """Models around the place where the margin changes its sign, from one that copies to its negated queries."""
    start = 3 * 10**5 + seed
    while True:
        good = copying_sample(start, noise=0.05, least=1.6, most=3.5)
        if verdict(good, KINDS["margin"][1]).status == "PROVED":
            break
        start += 10**6
    bad = blend(good, good, 0.0)
    with torch.no_grad():
        bad.model.block(0).attention.query.weight.mul_(-1.0)
    low, high = 0.0, 1.0
    for _ in range(46):
        middle = (low + high) / 2
        if verdict(blend(good, bad, middle), KINDS["margin"][1]).status == "PROVED":
            low = middle
        else:
            high = middle
    for step in np.geomspace(1e-13, 1e-7, AROUND // 2):
        yield blend(good, bad, low - step)
        yield blend(good, bad, high + step)


def verdict(sample: Sample, longest: int) -> CertifiedHead:
    return certify_strings(one_layer_model(sample.model, sample.template), longest)


def chunk(kind: str, first: int, count: int) -> dict[str, Any]:
    """Counts over some models of a kind."""
    longest = KINDS[kind][1]
    names = ("models", "proved", "proved_4", "refuted", "undecided", "near", "near_proved", "untold", "by_balls")
    counts = dict.fromkeys((*names, "false_proved", "false_refuted", "other_length", "margin_off", "bound_off"), 0)
    for sample in samples(kind, first, count):
        found, least = verdict(sample, longest), brute_force(sample, longest)
        fails = next((n for n, value in enumerate(least, 1) if value <= 0), None)
        margin = min(least[: fails or longest])
        counts["models"] += 1
        counts[found.status.lower()] += 1
        counts["proved_4"] += found.proved_to >= 4
        counts["by_balls"] += found.balls
        near = abs(min(least, key=abs)) < 1e-6
        counts["near"] += near
        counts["near_proved"] += near and found.status == "PROVED"
        if min(map(abs, least)) < UNTOLD:
            counts["untold"] += 1
            continue
        counts["false_proved"] += found.status == "PROVED" and fails is not None
        counts["false_refuted"] += found.status == "REFUTED" and fails is None
        counts["other_length"] += found.status != "UNDECIDED" and found.fails_at != fails
        counts["margin_off"] += abs(found.margin - margin) > 1e-12 * max(1.0, abs(margin))
        counts["bound_off"] += found.margin_below is not None and found.margin_below > margin
    return counts


def main(arguments: list[str] | None = None) -> None:
    """Run the chunks that are missing."""
    options = option_parser(__doc__, RESULTS, scale="fraction of the models").parse_args(arguments)
    torch.set_num_threads(1)
    results = Results(options.out, {"seed": SEED, "scale": options.scale}, FOLDERS)
    plan = []
    for kind, (count, _) in KINDS.items():
        wanted = max(AROUND, round(count * options.scale / AROUND) * AROUND)
        plan += [(kind, first, min(CHUNK, wanted - first)) for first in range(0, wanted, CHUNK)]
    left = results.missing(plan, lambda row: (row["kind"], row["first"], row["count"]))
    for kind, first, count in progress(left, "chunks of models"):
        results.add({"kind": kind, "first": first, "count": count, **chunk(kind, first, count)})
    show(totals(results.rows))


def totals(rows: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Sums by kind, and of all."""
    result: dict[str, dict[str, int]] = {}
    for row in rows:
        counts = {key: value for key, value in row.items() if key not in ("kind", "first", "count")}
        for kind in (row["kind"], "all"):
            into = result.setdefault(kind, dict.fromkeys(counts, 0))
            for key, value in counts.items():
                into[key] += value
    return result


if __name__ == "__main__":
    main()
