"""What bound, branching and search decide: the criterion half, and several heads, against all strings.

`python -m benchmarks.certify_branching [--scale 0.1]` writes results/certify_branching.jsonl, a line a kind, and goes
on with it. Kinds: `half` (models with 5 outputs and more, logits times 1 to 6, lengths up to 5), `half near` (sharpened
so that the least probability is one half, times 1 +- 1e-2, 1e-4, 1e-6, lengths up to 4), `heads` (two heads, near
copying models, lengths up to 5), `opposed` (two heads of which one takes half of the other's votes back). The other
side is `least_half` or `brute_force`: extended precision, every string.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks._campaign import Results, option_parser, progress, show
from proofs_check.certify import one_layer_model
from tests.models.small import Sample, brute_force, copying_sample, least_half, nearly_half, opposed_sample, sharpened
from theory import certify_half, certify_heads, certify_strings
from theory.one_layer import CertifiedHalf, CertifiedHeads

RESULTS = Path(__file__).parent / "results" / "certify_branching.jsonl"
FOLDERS = ("theory", "engine", "proofs_check/certify", "tests/models", "benchmarks/certify_branching.py")
SEED = 0

#: Draws of each kind, and the longest strings.
KINDS = {"half": (400, 5), "half near": (600, 4), "heads": (400, 5), "opposed": (200, 5)}


def samples(kind: str, number: int, longest: int) -> Iterator[Sample]:
    """The models of one draw; a function of the seed and the number alone."""
    seed = SEED * 10**6 + 5 * 10**5 + number
    if kind == "heads":
        yield copying_sample(seed, noise=(0.0, 0.05, 0.2, 0.4)[number % 4], heads=2, least=1.2, most=3.0)
        return
    if kind == "opposed":
        yield opposed_sample(seed)
        return
    noise = 0.02 if kind == "half" else (0.02, 0.1, 0.3)[number % 3]
    sample = copying_sample(seed, noise=noise, least=1.6, most=3.5)
    if sample.model.config.outputs == 2:
        return
    if kind == "half":
        yield from (sharpened(sample, factor) for factor in (1.0, 2.0, 4.0, 6.0))
        return
    if certify_strings(one_layer_model(sample.model, sample.template), longest).status == "PROVED":
        tied = nearly_half(sample, longest)
        if tied is not None:
            yield from (sharpened(tied, 1 + d) for d in (1e-2, -1e-2, 1e-4, -1e-4, 1e-6, -1e-6))


def decided(kind: str, sample: Sample, longest: int) -> tuple[CertifiedHalf | CertifiedHeads, list[float]]:
    """The verdict, and for each length a number that is positive iff all of its strings are right."""
    model = one_layer_model(sample.model, sample.template)
    if kind.startswith("half"):
        return certify_half(model, longest), [least_half(sample, n) for n in range(1, longest + 1)]
    return certify_heads(model, longest), brute_force(sample, longest)


def counts(kind: str, scale: float) -> dict[str, float]:
    """Counts over the models of a kind."""
    count, longest = KINDS[kind]
    names = ("models", "proved", "refuted", "undecided", "proved_by_bound", "proved_by_branching", "found_by_search")
    result: Counter[str] = Counter(dict.fromkeys((*names, "false_proved", "false_refuted", "other_length"), 0))
    start = time.process_time()
    for number in progress(range(max(4, round(count * scale))), kind):
        for sample in samples(kind, number, longest):
            found, least = decided(kind, sample, longest)
            fails = next((n for n, value in enumerate(least, 1) if value <= 0), None)
            result["models"] += 1
            result[found.status.lower()] += 1
            result["proved_by_bound"] += found.status == "PROVED" and found.bounded_to == longest
            result["proved_by_branching"] += found.status == "PROVED" and found.bounded_to < longest
            result["found_by_search"] += found.remark.startswith("a string")
            result["false_proved"] += found.proved_to >= (fails or longest + 1)
            result["false_refuted"] += found.status == "REFUTED" and fails is None
            result["other_length"] += found.status == "REFUTED" and found.fails_at != fails
    return {**result, "cpu_seconds": round(time.process_time() - start, 1)}


def main(arguments: list[str] | None = None) -> None:
    """Run the kinds that are missing."""
    options = option_parser(__doc__, RESULTS, scale="fraction of the draws").parse_args(arguments)
    torch.set_num_threads(1)
    results = Results(options.out, {"seed": SEED, "scale": options.scale}, FOLDERS)
    for kind in results.missing(KINDS, lambda row: row["kind"]):
        results.add({"kind": kind, **counts(kind, options.scale)})
    show(results.rows)


if __name__ == "__main__":
    main()
