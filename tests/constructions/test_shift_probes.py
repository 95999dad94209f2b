"""Theorem 3.1 on models: every one-layer probe fails on one of the certificate's strings, and a probe can fail to."""

import subprocess
import sys
from collections.abc import Callable
from math import exp

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from constructions import (
    SHIFT_ENCODINGS,
    ShiftProbe,
    failing_case,
    optimise_probe,
    refuting_cases,
    search_heads,
    strongest_probe,
)
from constructions.beyond._shift_probes import copied_length, probe_margins, t5_bucket
from proofs_check.testing import Probe, optimised_start, shift_probes
from tests._rounding import gamma
from theory import CopyTask, InputError
from theory.signs import Case


@pytest.mark.deep
@settings(max_examples=400)
@given(shift_probes(starts=1))
def test_every_one_layer_probe_fails_on_one_of_the_strings(probe: Probe) -> None:
    error = probe.model.logit_error()
    assert probe.failing_case() is not None
    # The bound is not what makes it fail: far below the values, or the scores are so large that floats say nothing.
    assert error < 1e-6 or float(probe.model.scores().detach().abs().max()) > 10


@pytest.mark.deep
@pytest.mark.parametrize("encoding", SHIFT_ENCODINGS)
@settings(max_examples=25)
@given(data=st.data())
def test_each_encoding_is_probed_by_itself(encoding: str, data: st.DataObject) -> None:
    probe = data.draw(shift_probes((encoding,), starts=1))
    assert probe.model.encoding == encoding
    assert probe.failing_case() is not None


def test_half_of_the_probes_start_from_optimised_models() -> None:
    starts = []

    @settings(max_examples=200)
    @given(shift_probes())
    def collect(probe: Probe) -> None:
        starts.append(probe.target)

    collect()
    assert 0.3 < np.mean([start is not None for start in starts]) < 0.7


@pytest.mark.slow
def test_the_strongest_models_copy_length_5_and_fail_at_6() -> None:
    """The starts are as strong as one layer gets: beyond them the strings of the certificate are what stops it."""
    for encoding in ("rope", "table"):
        assert optimised_start(encoding, 2, 3, 5, 0).length == 5
        assert optimised_start(encoding, 1, 1, 5, 0).length == 4
    assert optimise_probe(ShiftProbe("table", 2, 3, 0), 4).length == 4
    case = failing_case(*_model_and_task(strongest_probe("table", 2, 3).probe), refuting_cases(3))
    assert case is not None and len(case.string) == 6


def _model_and_task(probe: ShiftProbe) -> tuple[ShiftProbe, CopyTask]:
    return probe, probe.task


@pytest.mark.slow
def test_the_same_harness_reports_success_on_two_heads() -> None:
    for b in (2, 3):
        table = search_heads(2, b, 6)
        assert table is not None
        module = table.module()
        # Any tolerance above rounding does: leads of at least 10^-9 are some 10^6 roundings of votes of size 1.
        assert failing_case(module, module.task, refuting_cases(b), tolerance=1e-9) is None
    with torch.no_grad():
        module.votes *= -1
    assert failing_case(module, module.task, refuting_cases(3)) is not None


@pytest.mark.slow
def test_a_case_of_the_certificate_is_needed() -> None:
    """Without one of the four strings a model gets the rest right: the harness does not always say that it fails."""
    cases = refuting_cases(3)
    shorter = [case for case in cases if len(case.string) <= 5]
    model = strongest_probe("table", 2, 3).probe
    assert len(shorter) == 3
    assert failing_case(model, model.task, shorter, model.logit_error()) is None


@pytest.mark.slow
def test_opposite_votes_fail_at_length_5() -> None:
    probe = strongest_probe("table", 2, 3).probe
    cases = refuting_cases(3, opposite=True)
    assert failing_case(probe, probe.task, cases, probe.logit_error()) is None  # its votes are equal
    with torch.no_grad():
        probe.values[1] = probe.values[0].flip(0)
    assert probe.values[0, 0] > probe.values[0, 1] or probe.values[1, 0] > probe.values[1, 1]
    assert failing_case(probe, probe.task, cases, probe.logit_error()) is not None


def by_hand(probe: ShiftProbe, string: str, step: int) -> mpf:
    """Logit of 0 minus logit of 1, from the parameters, in 50 digits."""
    task = probe.task
    symbols = np.array([[int(c) for c in string]], dtype=np.int64)
    tokens = task.sequences(symbols)[0, : task.query_index(len(string), step) + 1].tolist()
    weights = [mp.exp(score_by_hand(probe, tokens[-1], x, len(tokens) - 1 - t)) for t, x in enumerate(tokens)]
    votes = [mpf(float(probe.values[x, 0])) - mpf(float(probe.values[x, 1])) for x in tokens]
    return sum(w * v for w, v in zip(weights, votes, strict=True)) / sum(weights)


def score_by_hand(probe: ShiftProbe, c: int, x: int, r: int) -> mpf:
    if probe.encoding == "table":
        return mpf(float(probe.table[c, x, r]))
    if probe.encoding != "rope":
        content = mpf(float(probe.content[c, x]))
        if probe.encoding == "alibi":
            return content - mpf(float(probe.slope)) * r
        bucket = r if r < 16 else min(31, 16 + int(mp.floor(mp.log(mpf(r) / 16) / mp.log(8) * 16)))
        return content + (mpf(float(probe.bias[bucket])) if probe.encoding == "t5" else 0)
    total = mpf(0)
    for f, omega in enumerate(probe.omega.tolist()):
        q = mp.mpc(*probe.queries[c, 2 * f : 2 * f + 2].tolist())
        k = mp.mpc(*probe.keys[x, 2 * f : 2 * f + 2].tolist())
        total += (q * mp.conj(k) * mp.expj(mpf(omega) * r)).real
    return total


@pytest.mark.parametrize("encoding", SHIFT_ENCODINGS)
def test_logits_against_fifty_digits_and_within_the_stated_error(encoding: str) -> None:
    with mp.workdps(50):
        for seed in range(3):
            probe = ShiftProbe(encoding, 2, 2, seed).requires_grad_(False)
            for string, step in (("001101", 2), ("00100", 3), ("10", 1), ("011010", 6)):
                tokens = probe.task.sequences(np.array([[int(c) for c in string]], dtype=np.int64))
                query = probe.task.query_index(len(string), step)
                zero, one = probe(torch.from_numpy(tokens[:, : query + 1]), query)[0, 0].tolist()
                difference = abs(mpf(zero) - mpf(one) - by_hand(probe, string, step))
                assert difference <= probe.logit_error() < 1e-7


def test_margins_are_those_of_single_steps() -> None:
    probe = ShiftProbe("t5", 1, 2, 5).requires_grad_(False)
    steps = iter(probe_margins(probe, 3).tolist())
    for number in range(8):
        string = f"{number:03b}"
        for step in (1, 2, 3):
            expected = float(by_hand(probe, string, step)) * (1 if string[step - 1] == "0" else -1)
            assert next(steps) == pytest.approx(expected, rel=0, abs=probe.logit_error() + gamma(1))


@pytest.mark.slow
def test_a_spoiled_model_copies_less() -> None:
    probe = strongest_probe("rope", 2, 2).probe
    assert copied_length(probe, 5) == 5
    with torch.no_grad():
        probe.values[0] = probe.values[0].flip(0)
    assert copied_length(probe, 5) < 5


def test_huge_scores_leave_the_float_run_without_a_say() -> None:
    probe = ShiftProbe("table", 2, 3, 0)
    with torch.no_grad():
        probe.table *= 1e17
    assert probe.logit_error() == float("inf")
    assert copied_length(probe, 2) == 0


def test_t5_buckets_are_those_of_the_publication() -> None:
    distance = torch.arange(200)
    buckets = t5_bucket(distance).tolist()
    assert buckets[:16] == list(range(16)) and buckets[128:] == [31] * 72
    # Each edge of the logarithmic part by its own formula.
    for r in range(16, 128):
        k = buckets[r]
        assert 16 * exp((k - 16) / 16 * np.log(8)) <= r * (1 + gamma(40))  # arguments up to 3, exp within its ulps
        assert r < 16 * exp((k - 15) / 16 * np.log(8)) * (1 + gamma(40))


@pytest.mark.deep
def test_same_seed_same_model_in_a_new_process() -> None:
    code = (
        "from constructions import *; o = optimise_probe(ShiftProbe('t5', 2, 3, 7), 4, 40);"
        "print(o.length, repr(float(o.probe.values.sum())))"
    )
    runs = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout for _ in "ab"
    }
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ShiftProbe("sinusoidal", 2, 3), "encoding = sinusoidal: must be one of nope, alibi, t5, rope, table"),
        (lambda: ShiftProbe("rope", 0, 3), "a = 0: "),
        (lambda: ShiftProbe("rope", 12, 12), r"a \+ b = 24: must be at most 20"),
        (lambda: strongest_probe("alibi", 2, 3), "encoding = alibi: must be rope or table"),
        (lambda: optimise_probe(ShiftProbe("nope", 1, 1), 0), "length = 0"),
        (lambda: refuting_cases(0), "b = 0"),
        (lambda: shift_probes(("rope", "grid")), "encodings = grid: must be some of"),
        (lambda: shift_probes(()), "encodings = none: must be at least one"),
        (lambda: shift_probes(starts=0), "starts = none"),
        (lambda: failing_case(*_model_and_task(ShiftProbe("nope", 1, 1)), [Case("01", 3, 1)]), "step = 3"),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.deep
def test_without_hypothesis_one_line_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "try:\n import proofs_check.testing\nexcept ImportError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "proofs_check.testing needs Hypothesis: pip install 'copycert[testing]'\n"
