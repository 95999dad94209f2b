"""Training data: layouts, distributions, padding, list conversion, and the same batches in every process."""

import hashlib
import subprocess
import sys
from collections import Counter
from math import isclose
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import IGNORED, LIST_DISTRIBUTIONS, Accuracy, CopySource, ListSource, collate, micro_batches
from theory import InputError
from theory.task import Strings


def reference_batch(source: CopySource | ListSource, seed: int, step: int) -> str:
    batches = micro_batches(source, seed, step, 8, 2)
    text = b"".join(part.numpy().tobytes() for batch in batches for part in (batch.tokens, batch.targets))
    return hashlib.sha256(text).hexdigest()


@pytest.mark.deep
@pytest.mark.parametrize("task", ["CopySource", "ListSource"])
def test_batches_are_the_same_in_another_process(task: str) -> None:
    program = (
        f"import tests.engine.test_data as t, engine; source = engine.{task}();"
        "print(*(t.reference_batch(source, seed, step) for seed, step in ((7, 3), (7, 4), (8, 3))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    source = CopySource() if task == "CopySource" else ListSource()
    here = [reference_batch(source, 7, 3), reference_batch(source, 7, 4), reference_batch(source, 8, 3)]
    assert done.stdout.split() == here
    assert len(set(here)) == 3


@pytest.mark.parametrize(("separator", "newline"), [("<n>", 2), ("*", None)])
def test_the_trained_layout(separator: str, newline: int | None) -> None:
    source = CopySource(separator=separator)
    (example,) = source.examples_of_length("uniform", 5, 0, 1)
    named = [source.names[token] for token in example.prompt]
    symbols = [source.names[token] for token in example.answer]
    assert named == [separator, "<I:>", *symbols, separator, "<I:>", "<O:>"]
    assert source.newline == newline and len(symbols) == 5 and set(symbols) <= {"0", "1"}


@given(seed=st.integers(0, 2**40), step=st.integers(0, 10**6), parts=st.sampled_from([1, 2, 4]))
def test_targets_are_the_answers_and_nothing_else(seed: int, step: int, parts: int) -> None:
    source = CopySource("recursive-flip", max_length=30)
    for batch in micro_batches(source, seed, step, 8, parts):
        for tokens, targets in zip(batch.tokens.numpy(), batch.targets.numpy(), strict=True):
            first = int(np.argmax(targets != IGNORED))
            n = int((targets != IGNORED).sum())
            string = tokens[2 : 2 + n]
            assert (targets[first : first + n] == string).all() and (targets[first + n :] == IGNORED).all()
            assert first == n + 4 and (tokens[first + 1 : first + n] == string[:-1]).all()
            assert (tokens[first + n :] == 0).all()


def test_lengths_are_uniform_and_micro_batches_are_sorted() -> None:
    source = CopySource(min_length=3, max_length=12)
    counts = Counter(len(example.answer) for example in source.examples(1, 10_000))
    assert sorted(counts) == list(range(3, 13))
    assert all(abs(count - 1000) < 5 * 30 for count in counts.values())  # 5 standard deviations of a binomial
    widths = [batch.tokens.shape[1] for batch in micro_batches(source, 1, 0, 32, 4)]
    assert widths == sorted(widths)


@pytest.mark.slow
def test_cut_strings_keep_their_distribution() -> None:
    """Imbalanced strings: whatever the length, the mean share of zeros is the mean of the seven probabilities."""
    strings = [example.answer for example in CopySource("imbalanced", max_length=40).examples(3, 8000)]
    for short in (True, False):
        shares = [1 - string.mean() for string in strings if (len(string) <= 20) == short]
        assert abs(np.mean(shares) - 0.5) < 5 * 0.35 / len(shares) ** 0.5


def test_recursive_flip_strings_of_a_batch_are_made_of_their_halves() -> None:
    strings = CopySource("recursive-flip").examples(5, 64)
    for example in strings:
        n = len(example.answer)
        block = 1
        while 2 * block + 1 <= n:
            assert (example.answer[block + 1 : 2 * block + 1] == example.answer[:block]).all()
            block = 2 * block + 1


@pytest.mark.parametrize("distribution", LIST_DISTRIBUTIONS)
def test_lists_are_what_they_say(distribution: str) -> None:
    source = ListSource(distribution, min_length=50, max_length=60)
    for example in source.examples(2, 20):
        text = source.decode(example.prompt[2:-3])
        assert source.decode(example.answer) == f"[{text}]"
        values = eval(f"[{text}]")
        assert 50 <= len(values) <= 60 and all(isinstance(value, float) and abs(value) <= 9.5 for value in values)
        assert "-0.0" not in text
        assert [source.names[token] for token in example.prompt[[0, 1, -3, -2, -1]]] == [
            "<n>", "<I:>", "<n>", "<I:>", "<O:>",
        ]  # fmt: skip


def test_lists_repeat_with_the_period_but_for_reading_errors() -> None:
    source = ListSource("piecewise", periods=(4, 4))
    shares = []
    for example in source.examples_of_length("piecewise", 200, 1, 20):
        values = np.array(source.decode(example.prompt[2:-3]).split(","))
        shares.append((values[4:] == values[:-4]).mean())
    # Two readings are equal if neither is off: 0.95^2; the exact sawtooth may round differently at two phases.
    assert 0.8 < float(np.mean(shares)) < 0.97
    longer = ListSource("piecewise", periods=(9, 9)).examples_of_length("piecewise", 200, 1, 5)
    for example in longer:
        values = np.array(source.decode(example.prompt[2:-3]).split(","))
        assert (values[9:] == values[:-9]).mean() > (values[4:] == values[:-4]).mean()


def test_every_signal_stays_in_its_range() -> None:
    from engine.training._list_conversion import FAMILIES

    u = np.linspace(0, 1, 1001)
    signals = [signal for family in FAMILIES.values() for signal in family.values()]
    assert len(FAMILIES) == 3 and len(signals) == 9
    for signal in signals:
        values = signal(2 * np.pi * u, u % 1)
        assert np.abs(values).max() <= 1 and np.ptp(values) > 0.5


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"distribution": "single-flip"}, "distribution"),
        ({"distribution": "smooth"}, "distribution"),
        ({"separator": "|"}, "separator"),
        ({"min_length": 0}, "min_length"),
        ({"min_length": 5, "max_length": 4}, "max_length"),
    ],
)
def test_bad_copy_data_is_refused(arguments: dict[str, object], argument: str) -> None:
    with pytest.raises(InputError) as caught:
        CopySource(**arguments)  # type: ignore[arg-type]
    assert caught.value.argument == argument


def test_bad_list_data_and_bad_batches_are_refused() -> None:
    with pytest.raises(InputError, match="one of smooth, piecewise, pulse, mixed"):
        ListSource("uniform")
    with pytest.raises(InputError, match="max_period"):
        ListSource(periods=(8, 2))
    with pytest.raises(InputError, match="batch_size = 6: must be a positive multiple of accumulate = 4"):
        micro_batches(CopySource(), 0, 0, 6, 4)


def test_collate_pads_at_the_end() -> None:
    source = CopySource()
    short, long = (source.examples_of_length("uniform", n, 0, 1)[0] for n in (2, 6))
    batch = collate([long, short])
    assert batch.tokens.shape == (2, long.length) and batch.answers == 8
    assert (batch.targets[1, short.length :] == IGNORED).all()


@given(trials=st.integers(1, 5000), data=st.data())
def test_the_interval_is_wilson_s_closed_form(trials: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, trials))
    low, high = Accuracy("uniform", 9, successes, trials).interval()
    z = NormalDist().inv_cdf(0.975)
    share, spread = successes / trials, z * z / trials
    middle = (share + spread / 2) / (1 + spread)
    half = z * (share * (1 - share) / trials + spread / trials / 4) ** 0.5 / (1 + spread)
    assert isclose(low, middle - half, abs_tol=1e-12) and isclose(high, middle + half, abs_tol=1e-12)
    assert 0 <= low <= share <= high <= 1
    # At the ends the interval touches 0 or 1 exactly.
    assert (successes > 0 or low == 0) and (successes < trials or high == 1)


def test_the_interval_solves_its_own_equation() -> None:
    """Independent of any closed form: at the ends the score is exactly z standard deviations off."""
    z = 1.959963984540054
    for successes, trials in ((0, 10), (1, 10), (3, 10), (10, 10), (77, 80)):
        for end in Accuracy("uniform", 9, successes, trials).interval():
            spread = (end * (1 - end) / trials) ** 0.5
            assert isclose(abs(successes / trials - end), z * spread, rel_tol=1e-9, abs_tol=1e-12)


def test_strings_are_the_theory_s() -> None:
    source = CopySource("uniform")
    strings: Strings = np.stack([example.answer for example in source.examples_of_length("single-flip", 9, 0, 6)])
    assert all(min(string.sum(), 9 - string.sum()) == 1 for string in strings)
