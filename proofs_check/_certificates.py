"""Certificates written: the envelope of docs/certificates.md around what each kind needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine import write_atomically
from proofs_check._claims import json_ready
from proofs_check.verify import Verdict, verify_file

SCHEMA = 1


class RejectedCertificateError(ArithmeticError):
    """The independent checker rejected a certificate that was just made."""


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
