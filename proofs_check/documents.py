"""Certificates written: the envelope of docs/certificates.md around what each kind needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine import write_atomically
from proofs_check.verify import Verdict, verify_file

SCHEMA = 1

#: JSON integers beyond this are written as decimal strings.
LARGEST_JSON_INTEGER = 2**53


class RejectedCertificateError(ArithmeticError):
    """The independent checker rejected a certificate that was just made."""


def json_ready(value: Any) -> Any:
    """`value` with integers beyond 2^53 as decimal strings, all the way down."""
    if isinstance(value, dict):
        return {key: json_ready(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(entry) for entry in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST_JSON_INTEGER:
        return str(value)
    return value


def write_certificate(
    path: Path, kind: str, inputs: dict[str, Any], evidence: dict[str, Any], claim: dict[str, Any]
) -> Verdict:
    """Write a certificate and have the independent checker accept it.

    Raises:
        RejectedCertificateError: it does not; the claim must then not be called proved.
    """
    document = {"schema": SCHEMA, "kind": kind, "inputs": inputs, "evidence": evidence, "claim": claim}
    write_atomically(path, (json.dumps(json_ready(document), indent=1) + "\n").encode())
    verdict = verify_file(path)
    if not verdict.accepted:
        raise RejectedCertificateError(f"{path.name}: {verdict.reason}")
    return verdict


def read_claim(path: Path, kind: str, inputs: dict[str, Any]) -> dict[str, Any] | None:
    """The claim of an existing certificate of this kind for these inputs, if the checker accepts it; else None."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        matches = document["kind"] == kind and document["inputs"] == json_ready(inputs)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    if not matches or not verify_file(path).accepted:
        return None
    claim: dict[str, Any] = document["claim"]
    return claim


def weights_input(file: str, digest: str) -> dict[str, Any]:
    """The `inputs` of a certificate about a weights file beside it."""
    return {"weights": {"file": file, "sha256": digest}}
