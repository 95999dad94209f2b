"""`copycert certify`: does a one-layer model copy all strings of all lengths? A proof, or a string that breaks it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from errno import EDQUOT, ENOSPC
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np
from flint import fmpz
from jaxtyping import Int64

from constructions import Replay, one_layer_model
from constructions.one_layer import replay_error, replay_step
from engine import make_directory, tensors_digest
from proofs_check._certificates import weights_input, write_certificate
from proofs_check._command_parts import json_option, print_json, progress_to
from proofs_check._one_layer_file import Subject, load_subject, save_subject
from proofs_check._results import claimed_directory, require_own
from theory import (
    Certified,
    CertifiedHalf,
    CertifiedHeads,
    InputError,
    Leaf,
    OneLayerModel,
    Place,
    StepCase,
    Tree,
    WorstStep,
    certify_half,
    certify_heads,
    certify_strings,
    require_at_least,
    spell,
    spelled,
    tree_size,
)

Status = Literal["PROVED", "REFUTED", "UNDECIDED"]

#: Strings are written out up to this length.
LONGEST_SPELLED = 100_000

#: A string with at most this many symbols unlike the others is described by them.
MOST_FLIPS = 50

#: Certificates are written up to these lengths; the checker takes about 0.1 ms a length.
LONGEST_CERTIFICATE, LONGEST_ONE_ROW_CERTIFICATE = 1_000_000, 300


#: A branching proof with more nodes is not written out; the checker takes about 0.5 ms a node.
MOST_NODES_WRITTEN = 100_000


@dataclass(frozen=True)
class Outcome:
    """What a run of the command found.

    Attributes:
        status: of the claim about all lengths up to max_length.
        worst: the counterexample, or the step with the least logit difference found.
        thresholds: by case, one logit difference a head, exact, for the certificate; empty where none are needed.
        bounded_to: lengths up to it are proved by the thresholds (or, with none, by the least sums themselves).
        trees: proofs by branching of the lengths from there to proved_to.
        unit: the numbers of the trees' leaves are in units of 2^(unit - 44).
        odds: the sum of the competitors' odds at the worst step, if that is what refutes `half`.
        search: what --find-limit found, if it was asked for.
        replay: of the string shown, if it is a counterexample.
        method: float+bound or ball.
    """

    status: Status
    worst: WorstStep
    margin: float
    margin_below: float | None
    fails_at: int | None
    proved_to: int
    thresholds: dict[StepCase, list[Fraction]]
    bounded_to: int
    trees: dict[Place, Tree]
    unit: int
    odds: float | None
    method: str
    remark: str = ""
    replay: Replay | None = None
    search: Outcome | None = None

    @property
    def limit(self) -> int | None:
        """The largest length up to which every string is copied, if --find-limit found it exactly."""
        return self.search.proved_to if self.search and self.search.fails_at == self.search.proved_to + 1 else None


@click.command("certify")
@click.argument("run_or_file", type=click.Path(path_type=Path))
@click.option("--max-length", type=int, required=True, help="Every string of every length up to it.")
@click.option("--criterion", default="argmax", show_default=True, help="argmax, or half: probability above 1/2.")
@click.option("--find-limit", is_flag=True, help="Find the largest length up to which every string is copied.")
@click.option("--cap", type=int, default=1_000_000, show_default=True, help="Largest length --find-limit looks at.")
@click.option("--out", type=click.Path(path_type=Path), default=None, help="Directory for certificate and weights.")
@json_option
@click.pass_context
def certify_command(
    ctx: click.Context,
    run_or_file: Path,
    max_length: int,
    criterion: str,
    find_limit: bool,
    cap: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Prove that the one-layer model in RUN_OR_FILE copies every string, or show one that it does not copy."""
    require_at_least("--max-length", max_length, 1)
    require_at_least("--cap", cap, 1)
    if criterion not in ("argmax", "half"):
        raise InputError("--criterion", criterion, "argmax or half")
    subject = load_subject(run_or_file)
    settings = {
        "model": tensors_digest(subject.model.state_dict()), "max_length": max_length, "criterion": criterion,
        "find_limit": find_limit, "cap": cap if find_limit else None,
    }  # fmt: skip
    names = tuple(f"{subject.name}-{part}" for part in ("copies.json", "counterexample.json", "weights.safetensors"))
    made = out is not None and _made(out, settings, names)
    start = time.perf_counter()
    with progress_to("query tokens", 0) as advance:
        done = 0

        def tick() -> None:
            nonlocal done
            done += 1
            advance(done)

        try:
            model = one_layer_model(subject.model, subject.template)
            outcome = decide(subject, model, max_length, criterion, cap if find_limit else None, tick)
        except InputError:
            if made and out is not None:
                out.rmdir()
            raise
    seconds = time.perf_counter() - start
    if not as_json:
        # Before anything is saved: a full disk must not cost the verdict.
        _print(subject, outcome, max_length, seconds)
    certificate, failed = None, None
    if out is not None:
        try:
            with claimed_directory(out, "certify", settings, names):
                certificate = write_outcome(out, subject, outcome, max_length, criterion)
        except (OSError, InputError) as error:
            failed = error
    if as_json:
        print_json(outcome_document(subject, outcome, max_length, criterion, seconds, certificate))
    elif certificate is not None:
        click.echo(f"Certificate: {certificate['file']}.")
    if failed is not None:
        raise failed
    ctx.exit(3 if outcome.status == "UNDECIDED" else 0)


def _made(out: Path, settings: dict[str, Any], names: tuple[str, ...]) -> bool:
    """Make the directory for what will be saved, before the work; was it not there before?

    A full disk is no reason yet: the verdict is told first.

    Raises:
        InputError: it holds results of other settings, or is none and cannot be one.
    """
    require_own(out, "certify", settings, names)
    there = out.exists()
    try:
        make_directory(out, "--out")
    except InputError as error:
        if getattr(error.__cause__, "errno", None) not in (ENOSPC, EDQUOT):
            raise
    return not there and out.exists()


def decide(
    subject: Subject, model: OneLayerModel, max_length: int, criterion: str, cap: int | None, tick: Callable[[], None]
) -> Outcome:
    """Everything that the command decides."""
    if criterion == "half" and len(model.heads) > 1:
        raise InputError("--criterion", "half", "argmax for models with several heads")
    found = _replayed(subject, model, _decided(model, max_length, criterion, tick))
    if cap is None:
        return found
    # A shorter failure, or a proof that stops short of the length asked for, is the limit already.
    if cap <= max_length or found.status != "PROVED":
        return replace(found, search=found)
    return replace(found, search=_replayed(subject, model, _decided(model, cap, criterion, tick)))


def _decided(model: OneLayerModel, max_length: int, criterion: str, tick: Callable[[], None]) -> Outcome:
    if len(model.heads) > 1:
        return _of_heads(certify_heads(model, max_length, tick))
    if criterion == "half":
        return _of_half(certify_half(model, max_length, tick))
    found = certify_strings(model, max_length, tick)
    return Outcome(
        found.status, found.worst, found.margin, found.margin_below, found.fails_at, found.proved_to, {},
        found.proved_to, {}, 0, None, _method(found),
    )  # fmt: skip


def _of_half(found: CertifiedHalf) -> Outcome:
    thresholds = {case: [value] for case, value in found.thresholds.items()}
    remark = found.remark
    if found.competing is not None:
        remark += f"; up to length {found.bounded_to} that is at most {found.competing:.3g}"
    if found.odds is not None:
        remark += f"; the right output's probability there is {1 / (1 + found.odds):.6g}"
    below = found.argmax.margin_below if found.status == "PROVED" else None
    return Outcome(
        found.status, found.worst, found.worst.ratio, below, found.fails_at, found.proved_to, thresholds,
        found.bounded_to, found.trees, found.unit, found.odds, _method(found.argmax), remark,
    )  # fmt: skip


def _of_heads(found: CertifiedHeads) -> Outcome:
    thresholds = {case: list(values) for case, values in found.thresholds.items()}
    return Outcome(
        found.status, found.worst, found.worst.ratio, found.margin_below, found.fails_at, found.proved_to, thresholds,
        found.bounded_to, found.trees, found.unit, None, "float+bound", found.remark,
    )  # fmt: skip


def _replayed(subject: Subject, model: OneLayerModel, found: Outcome) -> Outcome:
    """The same with its counterexample run in torch, if it has one."""
    if found.status != "REFUTED":
        return found
    worst, error = found.worst, replay_error(model, 2 * found.worst.length)
    replay = replay_step(subject.model, subject.template, worst.string, worst.step, worst.difference, error, found.odds)
    return replace(found, replay=replay)


def _method(found: Certified) -> str:
    return "float+bound, ball" if found.balls else "float+bound"


def write_outcome(
    directory: Path, subject: Subject, outcome: Outcome, max_length: int, criterion: str
) -> dict[str, Any] | None:
    """Write the certificate and the weights that it pins; None where there is nothing that the checker can prove."""
    longest = LONGEST_CERTIFICATE if subject.template.placement.separate else LONGEST_ONE_ROW_CERTIFICATE
    too_long = outcome.worst.length if outcome.status == "REFUTED" else max_length
    nodes = sum(map(tree_size, outcome.trees.values())) if outcome.status == "PROVED" else 0
    if outcome.status == "UNDECIDED" or too_long > (LONGEST_CERTIFICATE if outcome.status == "REFUTED" else longest):
        return None
    if nodes > MOST_NODES_WRITTEN:
        click.echo(f"No certificate: the proof has {nodes} nodes, more than {MOST_NODES_WRITTEN}.", err=True)
        return None
    file = f"{subject.name}-weights.safetensors"
    inputs = weights_input(file, save_subject(directory / file, subject.model, subject.template))
    evidence: dict[str, Any] = {}
    if outcome.status == "REFUTED":
        name, kind = f"{subject.name}-counterexample.json", "one-layer-counterexample"
        first, runs = runs_of(outcome.worst.string)
        claim: dict[str, Any] = {"first_symbol": first, "runs": runs, "step": outcome.worst.step}
        claim["competitor"] = outcome.worst.case.competitor if outcome.odds is None else None
    else:
        name, kind = f"{subject.name}-copies.json", "one-layer-copies"
        evidence = {"thresholds": [_threshold(*item) for item in outcome.thresholds.items()]}
        claim = {"criterion": criterion, "copies_up_to": max_length}
        if outcome.bounded_to == max_length:
            exact = outcome.limit == max_length and criterion == "argmax" and not outcome.thresholds
            claim["fails_at"] = max_length + 1 if exact else None
        else:
            kind = "one-layer-branching"
            evidence |= {"bounded_to": outcome.bounded_to, "trees": trees_document(outcome.trees)}
            evidence["unit"] = outcome.unit
    verdict = write_certificate(directory / name, kind, inputs, evidence, claim)
    return {"file": name, "statement": verdict.statement}


def trees_document(trees: dict[Place, Tree]) -> list[list[list[Any]]]:
    """Length by length the trees in the order in which they were made; each in preorder, splits before what they split.

    A split is the number of its symbol, a leaf a list of numbers in units of 2^-44.
    """
    lengths: dict[int, list[list[Any]]] = {}
    for place, tree in trees.items():
        lengths.setdefault(place.length, []).append([*_preorder(tree)])
    return [lengths[length] for length in sorted(lengths)]


def _preorder(tree: Tree) -> Iterator[Any]:
    if isinstance(tree, Leaf):
        yield list(tree.bounds)
        return
    yield tree.number
    yield from _preorder(tree.zero)
    yield from _preorder(tree.one)


def _threshold(case: StepCase, values: list[Fraction]) -> dict[str, Any]:
    """A threshold, exact."""
    return {
        "query": case.query,
        "first": case.first,
        "symbol": case.symbol,
        "competitor": case.competitor,
        "heads": [f"{value.numerator}/{value.denominator}" for value in values],
    }


def runs_of(string: Int64[np.ndarray, " n"]) -> tuple[int, list[int]]:
    """The first symbol, and the lengths of the runs of equal symbols."""
    changes = np.flatnonzero(np.diff(string)) + 1
    return int(string[0]), np.diff(np.concatenate([[0], changes, [len(string)]])).tolist()


def outcome_document(
    subject: Subject,
    outcome: Outcome,
    max_length: int,
    criterion: str,
    seconds: float,
    certificate: dict[str, Any] | None,
) -> dict[str, Any]:
    """The JSON object of the command."""
    search = outcome.search
    return {
        "status": outcome.status,
        "max_length": max_length,
        "criterion": criterion,
        "strings": number_of_strings(max_length),
        "margin": number(outcome.worst.difference),
        "margin_below": _finite(outcome.margin_below),
        "worst": worst_document(subject, outcome.worst),
        "proved_to": outcome.proved_to,
        "fails_at": outcome.fails_at,
        "limit": outcome.limit,
        "limit_proved_to": None if search is None else search.proved_to,
        "limit_fails_at": None if search is None else search.fails_at,
        "limit_counterexample": None if search is None else _counterexample(subject, search),
        "odds": outcome.odds,
        "replay": _replay_document(outcome.replay),
        "label": "new",
        "method": outcome.method,
        "remark": outcome.remark,
        "certificate": None if certificate is None else certificate["file"],
        "seconds": round(seconds, 3),
    }


def _counterexample(subject: Subject, found: Outcome) -> dict[str, Any] | None:
    if found.status != "REFUTED":
        return None
    worst = worst_document(subject, found.worst)
    return {
        **worst,
        "difference": number(found.worst.difference),
        "odds": found.odds,
        "replay": _replay_document(found.replay),
    }


def _replay_document(replay: Replay | None) -> dict[str, Any] | None:
    if replay is None:
        return None
    stored = {"dtype": replay.stored_dtype, "wrong": replay.stored_wrong} if replay.stored_dtype else None
    return {"ran": replay.ran, "wrong": replay.wrong, "reason": replay.reason, "as_stored": stored}


def _finite(bound: float | None) -> float | None:
    """A bound below the range of floats says nothing."""
    return bound if bound is not None and isfinite(bound) else None


def number(value: Fraction) -> float | str:
    """A rational as a JSON number, or as text where a float has not the range: it is never 0 unless the rational is."""
    return float(value) if value == 0 or 2.0**-1022 <= abs(value) < 2.0**1023 else spelled(value, 12)


def number_of_strings(max_length: int) -> str:
    """How many binary strings have a length from 1 to `max_length`: 2^(max_length+1) - 2, in full."""
    return str(fmpz(2) ** (max_length + 1) - 2)


def worst_document(subject: Subject, worst: WorstStep) -> dict[str, Any]:
    """The worst step as a JSON object: the string itself up to length 10^5, and what it is if that is short to say."""
    case = worst.case
    return {
        "length": worst.length,
        "step": worst.step,
        "query": subject.token(case.query),
        "symbol": case.symbol,
        "competitor": subject.output(case.competitor),
        "string": spell(worst.string) if worst.length <= LONGEST_SPELLED else None,
        "description": described(worst.string),
    }


def described(string: Int64[np.ndarray, " n"]) -> str:
    """The string in words: its most frequent symbol, and where the others stand."""
    common = int(2 * int(string.sum()) > len(string))
    flips = (np.flatnonzero(string != common) + 1).tolist()
    if not flips:
        return f"{len(string)} symbols, all {common}"
    if len(flips) <= MOST_FLIPS:
        return f"{len(string)} symbols, all {common} but {1 - common} at {', '.join(map(str, flips))}"
    return f"{len(string)} symbols in {len(runs_of(string)[1])} runs"


def _print(subject: Subject, outcome: Outcome, max_length: int, seconds: float) -> None:
    count = number_of_strings(max_length) if max_length < 90 else f"2^{max_length + 1} - 2"
    everything = f"every one of the {count} binary strings of length 1 to {max_length}"
    worst = worst_document(subject, outcome.worst)
    where = f"step {worst['step']} of length {worst['length']} (query {worst['query']}, {worst['symbol']} against "
    where += f"{worst['competitor']})"
    if outcome.status == "PROVED":
        click.echo(f"PROVED: {everything} is copied.")
        below = _finite(outcome.margin_below)
        proved = f" (proved: above {below:.6g})" if below else ""
        click.echo(f"Least logit difference found: {spelled(outcome.worst.difference)}{proved}, at {where}.")
    elif outcome.status == "REFUTED":
        click.echo(f"REFUTED: not {everything} is copied; every one of length <= {outcome.proved_to} is.")
        click.echo(
            f"Counterexample: {worst['description']}; logit difference {spelled(outcome.worst.difference)} at {where}."
        )
        _print_replay(outcome)
    else:
        click.echo(f"UNDECIDED whether {everything} is copied; every one of length <= {outcome.proved_to} is.")
    if outcome.search is not None:
        _print_limit(outcome.search)
        if outcome.search is not outcome:
            _print_replay(outcome.search)
    if outcome.remark:
        click.echo(f"Remark: {outcome.remark}.")
    click.echo(f"Label: new. Method: {outcome.method}. {seconds:.3f} s.")


def _print_limit(search: Outcome) -> None:
    proved, fails = search.proved_to, search.fails_at
    if fails is None:
        click.echo(f"No limit found: every string of length <= {proved} is copied.")
    elif fails == proved + 1:
        click.echo(f"Limit: {proved}. Some string of length {fails} is not copied.")
    else:
        between = f"every string of length <= {proved} is copied, some string of length {fails} is not"
        click.echo(f"Limit between {proved} and {fails - 1}: {between}; in between it is undecided.")


def _print_replay(outcome: Outcome) -> None:
    replay = outcome.replay
    if replay is None:
        return
    answers = {True: "the model gets that step wrong", False: "the model gets that step right", None: "no numbers"}
    if replay.stored_dtype:
        click.echo(f"Replayed in torch, as stored ({replay.stored_dtype}): {answers[replay.stored_wrong]}.")
    click.echo(f"Replayed in torch, float64: {answers[replay.wrong] if replay.ran else replay.reason}.")
    if replay.ran and replay.stored_dtype and replay.wrong != replay.stored_wrong:
        click.echo("The two differ: the verdict is about real arithmetic with the stored weights, not about that run.")
