"""`certify`: does a one-layer model copy all strings of all lengths? A proof, or a string that breaks it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from proofs_check.certify._exact_model import one_layer_model, replay_error, replay_step
from proofs_check.certify._outcome import Certified, Criterion, Question, of_half, of_head, of_heads
from proofs_check.certify._subject import Subject
from theory import InputError, OneLayerModel, certify_half, certify_heads, certify_strings
from theory.numbers import require_at_least

#: Largest length that a limit is looked for at, unless told otherwise.
CAP = 1_000_000


def certify(
    subject: Subject,
    max_length: int,
    criterion: Criterion = "argmax",
    *,
    find_limit: bool = False,
    cap: int = CAP,
    tick: Callable[[], None] = lambda: None,
) -> Certified:
    """Prove that a one-layer model copies every string of every length up to `max_length`, or find one it does not.

    Args:
        subject: what `load` returns.
        max_length: at least 1.
        criterion: argmax, or half: the right output's probability is above 1/2.
        find_limit: also find the largest length up to which every string is copied, looking no further than `cap`.
        cap: at least 1.
        tick: called as each query token is done.

    Raises:
        InputError: a length below 1, an unknown criterion, `half` for several heads, or a part that is not covered.

    Cost: O(max_length) for one head by arg-max, seconds for a million; more heads and `half` branch above that.
    Label: new. Method: float+bound, and ball where floats do not decide.
    """
    require_at_least("max_length", max_length, 1)
    require_at_least("cap", cap, 1)
    if criterion not in ("argmax", "half"):
        raise InputError("criterion", criterion, "argmax or half")
    start = time.perf_counter()
    model = one_layer_model(subject.model, subject.template)
    found = decided(Question(subject, max_length, criterion), model, cap if find_limit else None, tick)
    return replace(found, seconds=time.perf_counter() - start)


def decided(question: Question, model: OneLayerModel, cap: int | None, tick: Callable[[], None]) -> Certified:
    """The answer for a model whose exact numbers are there already; with a cap, what is found up to it too."""
    if question.criterion == "half" and len(model.heads) > 1:
        raise InputError("criterion", "half", "argmax for models with several heads")
    found = _replayed(model, _answer(question, model, tick))
    if cap is None:
        return found
    # A shorter failure, or a proof that stops short of the length asked for, is the limit already.
    if cap <= question.max_length or found.status != "PROVED":
        return replace(found, search=found)
    return replace(found, search=_replayed(model, _answer(replace(question, max_length=cap), model, tick)))


def _answer(question: Question, model: OneLayerModel, tick: Callable[[], None]) -> Certified:
    if len(model.heads) > 1:
        return of_heads(question, certify_heads(model, question.max_length, tick))
    if question.criterion == "half":
        return of_half(question, certify_half(model, question.max_length, tick))
    return of_head(question, certify_strings(model, question.max_length, tick))


def _replayed(model: OneLayerModel, found: Certified) -> Certified:
    """The same with its counterexample run in torch, if it has one."""
    if found.status != "REFUTED":
        return found
    worst, error, subject = found.worst, replay_error(model, 2 * found.worst.length), found.question.subject
    replay = replay_step(subject.model, subject.template, worst.string, worst.step, worst.difference, error, found.odds)
    return replace(found, replay=replay)
