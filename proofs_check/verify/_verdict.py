"""From a file to a verdict: the envelope, and which check a kind calls for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from proofs_check.verify.grid import (
    GridModel,
    check_cosine_lemma,
    check_cosine_step_counterexample,
    check_dirichlet_ceiling,
    check_failure_probability,
    check_failure_probability_at,
    check_grid_counterexample,
    check_grid_scan,
    check_grid_separation,
    grid_model,
    read_grid_model,
)
from proofs_check.verify.minimisers import check_minimiser_gap, check_minimiser_limit_failure, check_minimiser_loss
from proofs_check.verify.one_layer import (
    MOST_UNITS,
    check_one_layer_branching,
    check_one_layer_copies,
    check_one_layer_counterexample,
)
from proofs_check.verify.reading import (
    Rejected,
    UnreadableCertificateError,
    limited,
    one_line,
    read_certificate,
    read_weights_file,
    require_fields,
    require_rational,
    require_text,
    select,
    shown,
    spell,
)
from proofs_check.verify.signs import check_sign_cancellation, check_sign_witness
from proofs_check.verify.two_layer import (
    CONSTRUCTION,
    TwoLayerModel,
    check_all_budgets,
    check_anchor_lemma,
    check_anchor_pair,
    check_attention_share_ceiling,
    check_plane_curve_ceiling,
    check_two_layer_counterexample,
    check_two_layer_length,
    check_two_layer_wrong_step,
    read_two_layer_model,
    two_layer_model,
)

ENVELOPE = ("schema", "kind", "inputs", "evidence", "claim")


@dataclass(frozen=True)
class Verdict:
    """What the checker says about one file.

    Attributes:
        file: the path as given.
        accepted: is the claim proved?
        statement: what was proved, derived by the checker; None if rejected.
        reason: why the certificate was rejected; None if accepted.
    """

    file: str
    accepted: bool
    statement: str | None
    reason: str | None


def verify_file(path: Path | str) -> Verdict:
    """Check one certificate; the weights file that it names is looked for beside it.

    Postcondition: `accepted` only if the statement is proved by exact arithmetic and ball comparisons of this call.

    Raises:
        UnreadableCertificateError: the file cannot be read, is not JSON in UTF-8 without a byte order mark, or is a
            report, weights, or another file that is no certificate. The message is a predicate: "is not JSON: ...".
    """
    file = Path(path)
    try:
        with limited():
            statement = _statement(file.parent, read_certificate(file))
    except Rejected as rejection:
        return Verdict(str(path), False, None, one_line(str(rejection)))
    except UnreadableCertificateError:
        raise
    except Exception as error:  # what no rule has thought of proves nothing, so it rejects
        return Verdict(str(path), False, None, f"the check broke off: {type(error).__name__} {shown(str(error))}")
    return Verdict(str(path), True, statement, None)


@dataclass(frozen=True)
class Finding:
    """What became of one file: exactly one of the last three is not None.

    Attributes:
        file: its path.
        verdict: what the checker says about it.
        unreadable: why it could not be checked, a predicate such as "cannot be read: no such file".
        skipped: what it is instead of a certificate, having been found in a folder; a predicate too.
    """

    file: str
    verdict: Verdict | None = None
    unreadable: str | None = None
    skipped: str | None = None


def verify_paths(paths: Iterable[Path | str]) -> Iterator[Finding]:
    """Check files, and the certificates in folders, one after the other; see `certificates_in` for folders."""
    for path in paths:
        try:
            selection = select(Path(path))
        except UnreadableCertificateError as error:
            yield Finding(str(path), unreadable=str(error))
            continue
        yield from (Finding(str(file), skipped=what) for file, what in selection.skipped)
        for file in selection.certificates:
            try:
                yield Finding(str(file), verify_file(file))
            except UnreadableCertificateError as error:
                yield Finding(str(file), unreadable=str(error))


def _statement(directory: Path, document: object) -> str:
    """The statement that a certificate proves.

    Raises:
        Rejected: it proves none.
    """
    envelope = require_fields(document, "the certificate", ENVELOPE)
    if type(envelope["schema"]) is not int or envelope["schema"] != 1:
        raise Rejected(f"schema is {shown(envelope['schema'])}, not 1")
    kind = require_text(envelope["kind"], "kind")
    check = _CHECKS.get(kind)
    if check is None:
        raise Rejected(f"unknown kind {shown(kind)}")
    return check(directory, envelope["inputs"], envelope["evidence"], envelope["claim"])


_Check = Callable[[Path, object, object, object], str]


def _of_model(check: Callable[[GridModel, object], str]) -> _Check:
    """A check of a model and a claim without evidence."""

    def checked(directory: Path, inputs: object, evidence: object, claim: object) -> str:
        require_fields(evidence, "evidence", ())
        return check(read_grid_model(directory, inputs), claim)

    return checked


def _long(check: _Check) -> _Check:
    """A check of one-layer models, which may take more work than the others: proofs of 10^6 symbols."""

    def checked(directory: Path, inputs: object, evidence: object, claim: object) -> str:
        with limited(MOST_UNITS):
            return check(directory, inputs, evidence, claim)

    return checked


def _of_inputs(check: Callable[[object, object], str]) -> _Check:
    """A check of inputs and a claim without evidence or files."""

    def checked(_directory: Path, inputs: object, evidence: object, claim: object) -> str:
        require_fields(evidence, "evidence", ())
        return check(inputs, claim)

    return checked


def _separation(directory: Path, inputs: object, evidence: object, claim: object) -> str:
    return check_grid_separation(read_grid_model(directory, inputs), evidence, claim)


def _without_files(check: Callable[[object, object, object], str]) -> _Check:
    """A check of inputs, evidence and a claim."""

    def checked(_directory: Path, inputs: object, evidence: object, claim: object) -> str:
        return check(inputs, evidence, claim)

    return checked


def _of_two_layer_model(check: Callable[[TwoLayerModel, object], str]) -> _Check:
    """A check of a two-layer model and a claim without evidence."""

    def checked(directory: Path, inputs: object, evidence: object, claim: object) -> str:
        require_fields(evidence, "evidence", ())
        return check(read_two_layer_model(directory, inputs), claim)

    return checked


def _with_evidence(check: Callable[[TwoLayerModel, object, object], str]) -> _Check:
    """A check of a two-layer model, evidence and a claim."""

    def checked(directory: Path, inputs: object, evidence: object, claim: object) -> str:
        return check(read_two_layer_model(directory, inputs), evidence, claim)

    return checked


def _norm(directory: Path, inputs: object, evidence: object, claim: object) -> str:
    require_fields(evidence, "evidence", ())
    file = read_weights_file(directory, require_fields(inputs, "inputs", ("weights",))["weights"])
    two_layers = isinstance(file.metadata, dict) and file.metadata.get("construction") == CONSTRUCTION
    return _check_norm(two_layer_model(file) if two_layers else grid_model(file), claim)


def _check_norm(model: GridModel | TwoLayerModel, claim: object) -> str:
    """The statement of a `weights-norm` certificate; exact. Cost: linear in the nonzero parameters."""
    most = require_rational(require_fields(claim, "claim", ("norm_at_most",))["norm_at_most"], "claim.norm_at_most")
    if most < 0 or model.square_norm() > most**2:
        raise Rejected("the norm of the stored parameters is larger than claim.norm_at_most")
    return f"For {model.description}: the norm of all parameters (root of the sum of squares) is at most {spell(most)}."


_CHECKS: dict[str, _Check] = {
    "weights-norm": _norm,
    "grid-separation": _separation,
    "grid-scan": _of_model(check_grid_scan),
    "grid-counterexample": _of_model(check_grid_counterexample),
    "failure-probability": _of_inputs(check_failure_probability),
    "failure-probability-at": _of_inputs(check_failure_probability_at),
    "cosine-lemma": _of_inputs(check_cosine_lemma),
    "cosine-step-counterexample": _of_inputs(check_cosine_step_counterexample),
    "dirichlet-ceiling": _without_files(check_dirichlet_ceiling),
    "sign-cancellation": _without_files(check_sign_cancellation),
    "one-layer-branching": _long(check_one_layer_branching),
    "one-layer-copies": _long(check_one_layer_copies),
    "one-layer-counterexample": _long(check_one_layer_counterexample),
    "sign-witness": _without_files(check_sign_witness),
    "minimiser-gap": _without_files(check_minimiser_gap),
    "minimiser-limit-failure": _without_files(check_minimiser_limit_failure),
    "minimiser-loss": _without_files(check_minimiser_loss),
    "two-layer-length": _with_evidence(check_two_layer_length),
    "two-layer-counterexample": _of_two_layer_model(check_two_layer_counterexample),
    "two-layer-wrong-step": _of_two_layer_model(check_two_layer_wrong_step),
    "anchor-curve-lemma": _with_evidence(check_anchor_lemma),
    "anchor-curve-pair": _of_two_layer_model(check_anchor_pair),
    "two-layer-all-budgets": _of_inputs(check_all_budgets),
    "plane-curve-ceiling": _of_inputs(check_plane_curve_ceiling),
    "attention-share-ceiling": _of_inputs(check_attention_share_ceiling),
}
