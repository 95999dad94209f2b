"""No false certificate is accepted: the independent checker against certificates forged without the verifier.

`python -m benchmarks.certify_forged [--scale 0.01] [--first N --count N]` writes results/certify_forged.jsonl, a line a
certificate, and goes on with it. Exit code 1 on any fault: a false certificate accepted, a traceback, a check that
takes longer than a minute, a false verdict of `certify` on the same model. A true certificate that is rejected is no
fault and is counted. A certificate is a function of the seed and its number alone. Models and truth: `_forging`.

Forgeries: `none` (as good as the model allows, or as near to that as it gets); `length` (one symbol too many); `fails`
(a length called failing that is not); `witness` (a right step called wrong); `threshold` (a threshold, the margin
claimed of a head, or a leaf raised above the truth); `ulp` (one entry of the weights moved by a unit in the last place
or two); `digest` (of the weights beside it that differ in one such place); `token` (two tokens of the prompt swapped);
`other` (evidence and claim of another model).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tempfile
import time
import traceback

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._campaign import Numbered, OutOfTimeError, within
from benchmarks._forging import (
    KINDS,
    SOLVED,
    Certificate,
    Model,
    Step,
    Truth,
    claim_is_true,
    drawn,
    is_true,
    moved,
    plain_certificate,
    solved,
    tied,
    units,
    with_thresholds,
    with_trees,
    witness,
    witnessed,
)
from benchmarks.certify_hostile import PATIENCE, TENSORS, Hostile, ask, engine_model, faults
from proofs_check.certify import save
from proofs_check.verify import verify_file
from tests.models.every_string import PlainModel, judge

RESULTS = Path(__file__).parent / "results" / "certify_forged.jsonl"
FOLDERS = (
    "theory", "engine", "proofs_check", "tests/models", "benchmarks/_forging.py", "benchmarks/certify_hostile.py",
    "benchmarks/certify_forged.py",
)  # fmt: skip
SEED = 0
CERTIFICATES = 3000

#: A margin of at most so many units, either side of 0, counts as near.
NEAR_UNITS = 10

#: Forgeries of a model whose margin is solved, with the side of 0 on which it then lies, and how often.
NEAR = {
    ("length", -1): 0.34, ("none", 1): 0.22, ("fails", 1): 0.16, ("witness", 1): 0.03, ("threshold", 1): 0.1,
    ("none", -1): 0.05, ("digest", 1): 0.03, ("ulp", 0): 0.07,
}  # fmt: skip

#: Forgeries of any model.
FAR = {
    "none": 0.2, "length": 0.2, "fails": 0.1, "witness": 0.1, "threshold": 0.1, "digest": 0.1, "token": 0.1,
    "other": 0.1,
}  # fmt: skip

FORGERIES = ("none", "length", "fails", "witness", "threshold", "ulp", "digest", "token", "other")

#: Other models, or prompts, that are tried until the certificate is false of one.
MOST_CHANGES = 5

#: How far below the largest vote a margin is solved to lie, as powers of two: about the error of votes as the checker
#: rounds them, of weights, and of balls at its two precisions.
DEPTHS = ((92.0, 102.0), (125.0, 136.0), (185.0, 205.0), (755.0, 785.0))
HOW_OFTEN = (0.6, 0.27, 0.1, 0.03)


@dataclass(frozen=True)
class Forged:
    """A certificate with the weights that it pins, and what is true.

    Attributes:
        number, kind, forgery: of the certificate; `solved` as in `_forging`.
        plain: the model in the weights file; `neighbour` the one whose digest is told, if that is another.
        criterion, longest: what `certify` is asked.
        certificate: the document but for its inputs.
        true, claim: is everything in it true, and is its claim, of the weights that it lies beside? None where open.
        copied: by length, is every string copied?
        units: the margin that the claim is about.
        evidence: plain, thresholds, trees, or a witness.
    """

    number: int
    kind: str
    forgery: str
    solved: str
    plain: PlainModel
    neighbour: PlainModel | None
    criterion: str
    longest: int
    certificate: Certificate
    true: bool | None
    claim: bool | None
    copied: tuple[bool | None, ...]
    units: float
    evidence: str


@dataclass(frozen=True)
class Checked:
    """What the checker said: accepted or not, None where it said nothing; why, in words that files share."""

    accepted: bool | None
    reason: str
    statement: str = ""
    digest: str = ""
    seconds: float = 0.0


# --- forging --------------------------------------------------------------------------------------------------------


def forged(number: int, seed: int = SEED) -> Forged:
    """Certificate `number`; a function of the seed and the number alone."""
    g = np.random.default_rng([seed, number, 1127])
    kind = str(g.choice(KINDS, p=[0.45, 0.25, 0.3]))
    forgery, model = _model(g, kind)
    plain, criterion = model.plain, model.criterion
    reach = model.longest if model.solved else _reach(plain)
    truth = Truth(plain, reach, criterion)
    forgery = _possible(forgery, truth)
    certificate, evidence = _certificate(g, forgery, truth, model)
    neighbour = None
    if forgery == "digest":
        neighbour = moved(plain, _any_entry(g, plain), 1)
    elif forgery in ("ulp", "token", "other"):
        for _ in range(1 if forgery == "ulp" else MOST_CHANGES):
            plain = _changed(g, forgery, model)
            truth = Truth(plain, reach, criterion)
            if is_true(truth, certificate) is False:
                break
    true = is_true(truth, certificate) if neighbour is None else False
    copied, margin = (truth.copied(n) for n in range(1, reach + 1)), units(truth, _spoken_of(truth, certificate))
    return Forged(
        number, kind, forgery, model.solved, plain, neighbour, criterion, reach, certificate, true,
        claim_is_true(truth, certificate), tuple(copied), margin, evidence,
    )  # fmt: skip


def _model(g: np.random.Generator, kind: str) -> tuple[str, Model]:
    """A forgery, and a model for it."""
    if g.random() < 0.7:
        forgery, sign = list(NEAR)[int(g.choice(len(NEAR), p=[*NEAR.values()]))]
        level = int(g.choice(len(DEPTHS), p=HOW_OFTEN))
        by = "value" if level == 3 else str(g.choice(SOLVED, p=[0.35, 0.2, 0.45]))
        longest = min(int(g.choice([1, 2, 3, 4], p=[0.2, 0.35, 0.3, 0.15])), 4 if kind == "one head" else 3)
        model = solved(g, kind, longest, by, sign, float(g.uniform(*DEPTHS[level])))
        if model is not None:
            return forgery, model
    elif g.random() < 0.08:
        model = tied(g, kind, int(g.choice([1, 2, 3])))
        if model is not None:
            return "length", model
    return str(g.choice(list(FAR), p=[*FAR.values()])), drawn(g, kind)


def _reach(plain: PlainModel) -> int:
    """How long strings are gone through."""
    if not plain.ends:
        return 3
    return {1: 6, 2: 5, 3: 4}[plain.heads] if plain.outputs == 2 else 4


def _is_simple(truth: Truth) -> bool:
    """One head by arg-max, which needs no evidence."""
    return truth.plain.heads == 1 and truth.criterion == "argmax"


def _possible(forgery: str, truth: Truth) -> str:
    """The forgery, or the next one that this model leaves room for."""
    if forgery == "fails" and not _is_simple(truth):
        forgery = "witness"
    if forgery in ("fails", "witness", "threshold") and not truth.limit:
        forgery = "length"
    if forgery == "length" and truth.limit == truth.longest:
        forgery = "threshold"
    return forgery


def _certificate(g: np.random.Generator, forgery: str, truth: Truth, model: Model) -> tuple[Certificate, str]:
    """The certificate, before weights are changed, and its kind of evidence."""
    limit, reach, simple = truth.limit, truth.longest, _is_simple(truth)
    if forgery == "witness":
        return _wrong_witness(g, truth), "witness"
    if forgery != "length" and limit < reach and (not limit or (forgery == "none" and g.random() < 0.5)):
        return _right_witness(truth), "witness"
    if forgery == "fails":
        fails = truth.worst(limit).length if model.solved else int(g.integers(1, limit + 1))
        return plain_certificate("argmax", int(g.integers(0, fails + 1)), fails), "plain"
    copies = limit + (forgery == "length")
    if forgery == "none" and simple and limit < reach and g.random() < 0.5:
        return plain_certificate("argmax", copies, limit + 1), "plain"
    raised, final = forgery == "threshold", truth.plain.final_gain is not None
    trees = copies <= (4 if simple else 3) and not (truth.criterion == "half" and final)
    shares = {"plain": 0.9 * (simple and not raised), "thresholds": 0.3, "trees": 0.3 * trees}
    total = sum(shares.values())
    evidence = str(g.choice(list(shares), p=[share / total for share in shares.values()]))
    if evidence == "plain":
        return plain_certificate(truth.criterion, copies), evidence
    made = with_thresholds if evidence == "thresholds" else with_trees
    return made(g, truth, copies, raised=raised), evidence


def _wrong_witness(g: np.random.Generator, truth: Truth) -> Certificate:
    """The step nearest to being wrong, or any, among those that are right."""
    right = [step for step in truth.steps if step.length <= truth.limit]
    step = truth.worst(truth.limit) if g.random() < 0.7 else right[int(g.integers(0, len(right)))]
    return witness(step, _competitor(truth, step))


def _right_witness(truth: Truth) -> Certificate:
    """The step that fails worst at the first length that fails."""
    step = truth.worst(truth.limit + 1, truth.limit + 1)
    return witness(step, _competitor(truth, step))


def _competitor(truth: Truth, step: Step) -> int | None:
    """The competitor that comes nearest; None, all together, for `half`."""
    if truth.criterion == "half" and truth.plain.outputs > 2:
        return None
    values = [float(value.mid()) for value in step.differences]
    return step.competitors[values.index(min(values))]


def _spoken_of(truth: Truth, certificate: Certificate) -> Step:
    """The step that decides a claim."""
    claim = certificate.claim
    if certificate.kind == "one-layer-counterexample":
        return witnessed(truth, claim)
    if claim.get("fails_at") is not None:
        return truth.worst(claim["fails_at"], claim["fails_at"])
    return truth.worst(max(1, claim["copies_up_to"]))


def _any_entry(g: np.random.Generator, plain: PlainModel) -> tuple[str, tuple[int, int]]:
    name = TENSORS[int(g.integers(0, 6))]
    places = np.argwhere(getattr(plain, name))
    row, column = places[int(g.integers(0, len(places)))]
    return name, (int(row), int(column))


def _changed(g: np.random.Generator, forgery: str, model: Model) -> PlainModel:
    """The model that is pinned in the place of the one that the certificate was made for."""
    plain = model.plain
    if forgery == "ulp" and model.entry is not None:
        side = 1 if model.down is (g.random() < 0.2) else -1
        return moved(plain, model.entry, side * int(g.integers(1, 3)))
    if forgery == "token":
        if g.random() < 0.4:
            return replace(plain, data=plain.data[::-1])
        place = int(g.integers(0, len(plain.infix) - 1)) + 1
        infix = [*plain.infix]
        infix[place], prefix = plain.prefix[0], (infix[place], *plain.prefix[1:])
        return replace(plain, prefix=prefix, infix=tuple(infix))
    name = str(g.choice(["key", "readout", "value"]))
    weights = getattr(plain, name)
    if g.random() < 0.5:
        return replace(plain, **{name: weights * float(g.choice([0.25, 0.5, 0.9, 2.0]))})
    return replace(plain, **{name: weights + 0.3 * np.abs(weights).max() * g.standard_normal(weights.shape)})


# --- the checker ----------------------------------------------------------------------------------------------------


def check(one: Forged) -> Checked:
    """The checker on the certificate, beside its weights."""
    with tempfile.TemporaryDirectory() as folder:
        digest = write(one, Path(folder))
        return replace(checked(Path(folder) / "forged.json"), digest=digest)


def write(one: Forged, folder: Path) -> str:
    """Weights and certificate; returns the digest of the weights that the certificate speaks of."""
    digests = {}
    for name, plain in {"weights": one.plain, "neighbour": one.neighbour}.items():
        if plain is not None:
            path = folder / f"{name}.safetensors"
            model, template = engine_model(_asked(one, plain))
            save(model, path, template)
            digests[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    told = digests.get("neighbour", digests["weights"])
    document = {
        "schema": 1, "kind": one.certificate.kind,
        "inputs": {"weights": {"file": "weights.safetensors", "sha256": told}},
        "evidence": one.certificate.evidence, "claim": one.certificate.claim,
    }  # fmt: skip
    (folder / "forged.json").write_text(json.dumps(document))
    return told


def checked(path: Path) -> Checked:
    """The checker on a file."""
    start = time.perf_counter()
    try:
        with within(PATIENCE):
            verdict = verify_file(path)
        found = Checked(
            verdict.accepted, "" if verdict.accepted else category(str(verdict.reason)), str(verdict.statement)
        )
    except OutOfTimeError:
        found = Checked(None, "unfinished")
    except Exception:
        found = Checked(None, "traceback " + traceback.format_exc().strip().splitlines()[-1].split(":")[0])
    return replace(found, seconds=round(time.perf_counter() - start, 3))


def category(reason: str) -> str:
    """A reason without numbers and digests, so that equal ones are counted together."""
    return re.sub(r"-?\b[0-9]+\b", "#", re.sub(r"\b[0-9a-f]{20,}\b", "#", reason))[:90]


def faults_of(one: Forged, found: Checked) -> list[str]:
    """What is wrong with what the checker said."""
    if found.accepted is None:
        return [found.reason]
    if found.reason.startswith("the check broke off"):
        return ["traceback within the check"]
    if not found.accepted:
        return []
    result = ["a false certificate accepted"] if one.true is False else []
    if found.digest[:16] not in found.statement:
        result.append("a statement about other weights")
    return result


def _asked(one: Forged, plain: PlainModel) -> Hostile:
    return Hostile(one.number, "forged", plain, dict.fromkeys(TENSORS, torch.float64), one.criterion, one.longest)


def record(number: int, seed: int = SEED) -> dict[str, Any]:
    """The line of one certificate."""
    start = time.perf_counter()
    one = forged(number, seed)
    forged_in = time.perf_counter() - start
    found = check(one)
    asked = _asked(one, one.plain)
    answer = ask(asked, certificate=False)
    wrong = faults(asked, answer, judge(one.plain, one.longest, one.criterion))
    plain = one.plain
    return {
        "number": number, "kind": one.kind, "solved": one.solved, "forgery": one.forgery,
        "certificate": one.certificate.kind, "evidence": one.evidence, "criterion": one.criterion,
        "longest": one.longest, "heads": plain.heads, "outputs": plain.outputs,
        "position": "grid" if plain.ends else "one row" if plain.row else "rope" if plain.column else
        "alibi" if plain.slopes else "nope",
        "true": one.true, "claim": one.claim,
        "model": "fails" if False in one.copied else "untold" if None in one.copied else "copies",
        "units": one.units, "accepted": found.accepted, "reason": found.reason, "status": answer.status,
        "faults": faults_of(one, found) + [f"certify: {fault}" for fault in wrong],
        "seconds": found.seconds, "certify_seconds": answer.seconds, "forged_in": round(forged_in, 3),
    }  # fmt: skip


# --- the campaign ---------------------------------------------------------------------------------------------------


def is_near(row: dict[str, Any]) -> bool:
    """Does the margin that the claim is about lie within some units of 0, a tie not counted?"""
    return 0 < abs(row["units"]) <= NEAR_UNITS


def totals(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts over all certificates."""
    near = [row for row in rows if is_near(row)]
    first: dict[str, int] = {}
    for row in rows:
        for fault in row["faults"]:
            first.setdefault(fault, row["number"])
    counted = Counter(fault for row in rows for fault in row["faults"])

    def accepted(chosen: list[dict[str, Any]]) -> dict[str, int]:
        return {
            "certificates": len(chosen), "true": sum(row["true"] is True for row in chosen),
            "false": sum(row["true"] is False for row in chosen),
            "true_accepted": sum(row["true"] is True and row["accepted"] is True for row in chosen),
            "false_accepted": sum(row["true"] is False and row["accepted"] is True for row in chosen),
        }  # fmt: skip

    return {
        **accepted(rows),
        "forgeries": {name: accepted([row for row in rows if row["forgery"] == name]) for name in FORGERIES},
        "near": {
            "below": sum(row["units"] < 0 for row in near), "above": sum(row["units"] > 0 for row in near),
            "tied": sum(row["units"] == 0 for row in rows),
            **{kind: accepted([row for row in near if row["kind"] == kind]) for kind in KINDS}, **accepted(near),
        },
        "untold": sum(row["true"] is None for row in rows),
        "false_claims": sum(row["claim"] is False for row in rows),
        "rejected_units": max(
            (abs(row["units"]) for row in rows if row["true"] and row["accepted"] is False), default=0.0
        ),
        "status": dict(Counter(row["status"] for row in rows)),
        "reasons": dict(Counter(row["reason"] for row in rows if row["reason"]).most_common()),
        "longest_seconds": max((row["seconds"] for row in rows), default=0.0),
        "seconds": round(sum(row["seconds"] + row["certify_seconds"] + row["forged_in"] for row in rows)),
        "faults": {fault: {"count": count, "first": first[fault]} for fault, count in counted.most_common()},
    }  # fmt: skip


def summary(found: dict[str, Any]) -> str:
    """The totals in some sentences, as the docs have them."""
    near, status, untold = found["near"], found["status"], found["untold"]
    wrong = sum(fault["count"] for fault in found["faults"].values())
    shares = ", ".join(f"{kind} {near[kind]['false']} false and {near[kind]['true']} true" for kind in KINDS)
    accepted = f"{100 * near['true_accepted'] / near['true']:.1f}%"
    said = ", ".join(f"{status.get(word, 0)} {word}" for word in ("PROVED", "REFUTED", "UNDECIDED"))
    return (
        f"{found['certificates']} certificates, {found['false']} of them false ({found['false_claims']} by their claim)"
        f" and {found['true']} true{f', {untold} untold' if untold else ''}. Accepted: "
        f"{found['false_accepted']} of the false ones and {found['true_accepted']} of the true ones. In "
        f"{near['certificates']} the margin that the claim is about lies within {NEAR_UNITS} rounding bounds of 0, "
        f"{near['below']} times below and {near['above']} times above ({shares}); of the {near['true']} true ones "
        f"among them the checker accepts {accepted}. What it rejects although it is true has a margin of at most "
        f"{found['rejected_units']:.1g} rounding bounds. `certify` on the same models: {said}. The longest check took "
        f"{found['longest_seconds']:.2f} s. Faults of any kind, a false certificate accepted, a false verdict, a "
        f"traceback, a check unfinished among them: {wrong}."
    )


def forgery_lines(found: dict[str, Any]) -> list[list[str]]:
    """A line a forgery: false ones with those accepted, true ones with those accepted."""
    names = {
        "none": "none: all that the model allows", "length": "a length one symbol too long",
        "fails": "a length called failing that is not", "witness": "a right step called wrong",
        "threshold": "a threshold (a head's margin) or a leaf raised",
        "ulp": "an entry of the weights moved by one or two units in the last place",
        "digest": "the digest of neighbouring weights", "token": "tokens of the prompt swapped",
        "other": "evidence and claim of another model",
    }  # fmt: skip
    fields = ("false", "false_accepted", "true", "true_accepted")
    return [[names[name], *(str(one[field]) for field in fields)] for name, one in found["forgeries"].items()]


def main(arguments: list[str] | None = None) -> int:
    """Forge the certificates that are missing; 1 on any fault."""
    torch.set_num_threads(1)
    campaign = Numbered(CERTIFICATES, SEED, "certificates", RESULTS, FOLDERS)
    return campaign.run(arguments, __doc__, record, totals)


if __name__ == "__main__":
    sys.exit(main())
