"""`copycert certify`: does a one-layer model copy all strings of all lengths? A proof, or a string that breaks it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np
from flint import fmpz
from jaxtyping import Int64

from constructions import Replay, one_layer_model
from constructions.one_layer import replay_error, replay_step
from proofs_check._certificates import weights_input, write_certificate
from proofs_check._check import output_directory
from proofs_check._command_parts import json_option, print_json, progress_to
from proofs_check._one_layer_file import Subject, load_subject, save_subject
from theory import (
    Certified,
    CertifiedHeads,
    InputError,
    OneLayerModel,
    StepCase,
    WorstStep,
    certify_half,
    certify_heads,
    certify_strings,
    require_at_least,
    spell,
)

Status = Literal["PROVED", "REFUTED", "UNDECIDED"]

#: Strings are written out up to this length.
LONGEST_SPELLED = 100_000

#: A string with at most this many symbols unlike the others is described by them.
MOST_FLIPS = 50

#: Certificates are written up to these lengths; the checker takes about 0.1 ms a length.
LONGEST_CERTIFICATE, LONGEST_ONE_ROW_CERTIFICATE = 1_000_000, 300


@dataclass(frozen=True)
class Outcome:
    """What a run of the command found.

    Attributes:
        status: of the claim about all lengths up to max_length.
        argmax: the decision by arg-max.
        thresholds: by case, one logit difference a head, for the certificate; empty where none are needed.
        limit: the exact largest length, if it was asked for and lies within the cap.
        limit_reached: a length up to which all strings are proved to be copied.
        replay: of the string shown, if it is a counterexample.
        method: float+bound or ball.
    """

    status: Status
    worst: WorstStep
    margin: float
    margin_below: float | None
    fails_at: int | None
    proved_to: int
    thresholds: dict[StepCase, list[float]]
    limit: int | None
    limit_reached: int | None
    replay: Replay | None
    method: str
    remark: str = ""


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
    start = time.perf_counter()
    with progress_to("query tokens", 0) as advance:
        done = 0

        def tick() -> None:
            nonlocal done
            done += 1
            advance(done)

        model = one_layer_model(subject.model, subject.template)
        outcome = decide(subject, model, max_length, criterion, cap if find_limit else None, tick)
    seconds = time.perf_counter() - start
    certificate = None
    if out is not None:
        with output_directory(out) as directory:
            certificate = write_outcome(directory, subject, outcome, max_length, criterion)
    document = outcome_document(subject, outcome, max_length, criterion, seconds, certificate)
    if as_json:
        print_json(document)
    else:
        _print(subject, outcome, document)
    ctx.exit(3 if outcome.status == "UNDECIDED" else 0)


def decide(
    subject: Subject, model: OneLayerModel, max_length: int, criterion: str, cap: int | None, tick: Callable[[], None]
) -> Outcome:
    """Everything that the command decides."""
    if len(model.heads) > 1:
        if cap is not None:
            raise InputError("--find-limit", "several heads", "asked for models with one head")
        if criterion == "half":
            raise InputError("--criterion", "half", "argmax for models with several heads")
        return _of_heads(subject, model, certify_heads(model, max_length, tick))
    thresholds: dict[StepCase, list[float]] = {}
    if criterion == "half":
        half = certify_half(model, max_length, tick)
        found, status = half.argmax, half.status
        thresholds = {case: [value] for case, value in half.thresholds.items()}
        remark = "" if half.competing is None else f"sum of the competitors' odds at most {half.competing:.3g}"
    else:
        found = certify_strings(model, max_length, tick)
        status, remark = found.status, ""
    limit, reached = None, None
    if cap is not None:
        if criterion == "half" and model.outputs > 2:
            raise InputError("--find-limit", "with --criterion half", "asked for with argmax")
        furthest = found if cap <= max_length or found.fails_at is not None else certify_strings(model, cap, tick)
        limit, reached = furthest.limit, furthest.proved_to
    replay = _replayed(subject, model, found.worst) if found.fails_at is not None else None
    return Outcome(
        status, found.worst, found.margin, found.margin_below, found.fails_at, found.proved_to, thresholds,
        limit, reached, replay, _method(found), remark,
    )  # fmt: skip


def _of_heads(subject: Subject, model: OneLayerModel, found: CertifiedHeads) -> Outcome:
    replay = _replayed(subject, model, found.worst) if found.status == "REFUTED" else None
    thresholds = {case: list(values) for case, values in found.thresholds.items()}
    return Outcome(
        found.status, found.worst, found.worst.ratio, found.margin_below, found.fails_at, found.proved_to, thresholds,
        None, None, replay, "float+bound", found.remark,
    )  # fmt: skip


def _replayed(subject: Subject, model: OneLayerModel, worst: WorstStep) -> Replay:
    error = replay_error(model, 2 * worst.length)
    return replay_step(subject.model, subject.template, worst.string, worst.step, worst.ratio, error)


def _method(found: Certified) -> str:
    return "float+bound, ball" if found.balls else "float+bound"


def write_outcome(
    directory: Path, subject: Subject, outcome: Outcome, max_length: int, criterion: str
) -> dict[str, Any] | None:
    """Write the certificate and the weights that it pins; None where there is nothing that the checker can prove."""
    file = f"{subject.name}-weights.safetensors"
    one_row = not subject.template.placement.separate
    longest = LONGEST_ONE_ROW_CERTIFICATE if one_row else LONGEST_CERTIFICATE
    by_branching = subject.model.config.layer(0)[0] > 1 and not outcome.thresholds
    if outcome.status == "UNDECIDED" or (outcome.status == "PROVED" and (by_branching or max_length > longest)):
        return None
    if outcome.status == "REFUTED" and outcome.worst.length > LONGEST_CERTIFICATE:
        return None
    inputs = weights_input(file, save_subject(directory / file, subject.model, subject.template))
    if outcome.status == "PROVED":
        name, kind = f"{subject.name}-copies.json", "one-layer-copies"
        evidence: dict[str, Any] = {"thresholds": [_threshold(*item) for item in outcome.thresholds.items()]}
        claim: dict[str, Any] = {"criterion": criterion, "copies_up_to": max_length, "fails_at": None}
        if outcome.limit is not None and max_length == outcome.limit and criterion == "argmax":
            claim["fails_at"] = outcome.limit + 1
    else:
        name, kind, evidence = f"{subject.name}-counterexample.json", "one-layer-counterexample", {}
        first, runs = runs_of(outcome.worst.string)
        claim = {"first_symbol": first, "runs": runs, "step": outcome.worst.step}
        claim["competitor"] = outcome.worst.case.competitor
    verdict = write_certificate(directory / name, kind, inputs, evidence, claim)
    return {"file": name, "statement": verdict.statement}


def _threshold(case: StepCase, values: list[float]) -> dict[str, Any]:
    """A threshold, rounded down to a multiple of 2^-50."""
    return {
        "query": case.query,
        "first": case.first,
        "symbol": case.symbol,
        "competitor": case.competitor,
        "heads": [f"{int(np.floor(value * 2.0**50))}/{2**50}" for value in values],
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
    replay = outcome.replay
    return {
        "status": outcome.status,
        "max_length": max_length,
        "criterion": criterion,
        "strings": number_of_strings(max_length),
        "margin": outcome.margin,
        "margin_below": outcome.margin_below,
        "worst": worst_document(subject, outcome.worst),
        "proved_to": outcome.proved_to,
        "fails_at": outcome.fails_at,
        "limit": outcome.limit,
        "limit_proved_to": outcome.limit_reached,
        "replay": None if replay is None else {"ran": replay.ran, "wrong": replay.wrong, "reason": replay.reason},
        "label": "new",
        "method": outcome.method,
        "remark": outcome.remark,
        "certificate": None if certificate is None else certificate["file"],
        "seconds": round(seconds, 3),
    }


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


def _print(subject: Subject, outcome: Outcome, document: dict[str, Any]) -> None:
    count = document["strings"] if len(document["strings"]) <= 30 else f"2^{document['max_length'] + 1} - 2"
    everything = f"every one of the {count} binary strings of length 1 to {document['max_length']}"
    worst = document["worst"]
    where = f"step {worst['step']} of length {worst['length']} (query {worst['query']}, {worst['symbol']} against "
    where += f"{worst['competitor']})"
    if outcome.status == "PROVED":
        click.echo(f"PROVED: {everything} is copied.")
        click.echo(f"Least logit difference {outcome.margin:.6g}, at {where}.")
    elif outcome.status == "REFUTED":
        click.echo(f"REFUTED: not {everything} is copied; every one of length <= {outcome.proved_to} is.")
        click.echo(f"Counterexample: {worst['description']}; logit difference {outcome.margin:.6g} at {where}.")
        if outcome.replay is not None:
            answer = "the model gets that step " + ("wrong" if outcome.replay.wrong else "right")
            click.echo(f"Replayed in torch, float64: {answer if outcome.replay.ran else outcome.replay.reason}.")
    else:
        click.echo(f"UNDECIDED whether {everything} is copied; every one of length <= {outcome.proved_to} is.")
    if outcome.limit is not None:
        click.echo(f"Limit: {outcome.limit}. Some string of length {outcome.limit + 1} is not copied.")
    elif outcome.limit_reached is not None:
        click.echo(f"No limit found: every string of length <= {outcome.limit_reached} is copied.")
    if outcome.remark:
        click.echo(f"Remark: {outcome.remark}.")
    kept = f" Certificate: {document['certificate']}." if document["certificate"] else ""
    click.echo(f"Label: new. Method: {outcome.method}. {document['seconds']} s.{kept}")
