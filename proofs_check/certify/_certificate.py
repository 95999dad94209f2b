"""The certificate of a certified model, and the weights file that it pins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from engine import tensors_digest
from proofs_check._results import claimed_directory
from proofs_check.certify._file import save_subject
from proofs_check.certify._outcome import Certified, Question
from proofs_check.certify._subject import Subject
from proofs_check.certify._words import runs_of
from proofs_check.documents import weights_input, write_certificate
from theory.one_layer import Leaf, Place, StepCase, Tree, tree_size

#: Certificates are written up to these lengths; the checker takes about 0.1 ms a length.
LONGEST_CERTIFICATE, LONGEST_ONE_ROW_CERTIFICATE = 1_000_000, 300

#: A branching proof with more nodes is not written out; the checker takes about 0.5 ms a node.
MOST_NODES_WRITTEN = 100_000


@dataclass(frozen=True)
class Written:
    """A certificate's file and the statement that the checker derived from it, or why there is none."""

    file: str | None
    statement: str | None
    reason: str = ""


def settings_of(question: Question, cap: int | None) -> dict[str, Any]:
    """What a directory of results belongs to."""
    return {
        "model": tensors_digest(question.subject.model.state_dict()), "max_length": question.max_length,
        "criterion": question.criterion, "find_limit": cap is not None, "cap": cap,
    }  # fmt: skip


def files_of(subject: Subject) -> tuple[str, ...]:
    """Names of what may be written for a model."""
    return tuple(f"{subject.name}-{part}" for part in ("copies.json", "counterexample.json", "weights.safetensors"))


def write_certified(directory: Path, found: Certified, settings: Mapping[str, Any] | None = None) -> Written:
    """Write the certificate, which the checker accepts, and the weights that it pins.

    `settings` are what the directory belongs to, those of the question if None.

    Raises:
        InputError: the directory holds results of another model or question, or cannot be made.
        RejectedCertificateError: the checker does not accept it.
    """
    question = found.question
    if settings is None:
        settings = settings_of(question, None if found.search is None else found.search.question.max_length)
    with claimed_directory(directory, "certify", settings, files_of(question.subject)):
        return write_in(directory, found)


def write_in(directory: Path, found: Certified) -> Written:
    """The same in a directory that is claimed already."""
    subject, max_length = found.question.subject, found.question.max_length
    if found.status == "UNDECIDED":
        return Written(None, None, "undecided")
    longest, length = LONGEST_CERTIFICATE, max_length
    if found.status == "REFUTED":
        length = found.worst.length
    elif not subject.template.placement.separate:
        longest = LONGEST_ONE_ROW_CERTIFICATE
    if length > longest:
        return Written(None, None, f"the length {length} is above {longest}")
    nodes = sum(map(tree_size, found.trees.values())) if found.status == "PROVED" else 0
    if nodes > MOST_NODES_WRITTEN:
        return Written(None, None, f"the proof has {nodes} nodes, more than {MOST_NODES_WRITTEN}")
    file = f"{subject.name}-weights.safetensors"
    inputs = weights_input(file, save_subject(directory / file, subject.model, subject.template))
    name, kind, evidence, claim = _parts(found)
    verdict = write_certificate(directory / name, kind, inputs, evidence, claim)
    return Written(name, verdict.statement)


def _parts(found: Certified) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    """File name, kind, evidence and claim."""
    name, max_length, criterion = found.question.subject.name, found.question.max_length, found.question.criterion
    if found.status == "REFUTED":
        first, runs = runs_of(found.worst.string)
        claim: dict[str, Any] = {"first_symbol": first, "runs": runs, "step": found.worst.step}
        claim["competitor"] = found.worst.case.competitor if found.odds is None else None
        return f"{name}-counterexample.json", "one-layer-counterexample", {}, claim
    evidence: dict[str, Any] = {"thresholds": [_threshold(*item) for item in found.thresholds.items()]}
    claim = {"criterion": criterion, "copies_up_to": max_length}
    if found.bounded_to == max_length:
        exact = found.limit == max_length and criterion == "argmax" and not found.thresholds
        claim["fails_at"] = max_length + 1 if exact else None
        return f"{name}-copies.json", "one-layer-copies", evidence, claim
    evidence |= {"bounded_to": found.bounded_to, "trees": trees_document(found.trees), "unit": found.unit}
    return f"{name}-copies.json", "one-layer-branching", evidence, claim


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
