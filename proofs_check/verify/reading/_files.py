"""What a path leads to: a certificate, something else that copycert writes, or a folder with certificates in it.

Nothing here decides what is proved. A file that is called something else is not checked and never counts as accepted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proofs_check.verify.reading._document import Rejected, UnreadableCertificateError, parse_json, read_regular_file

LARGEST_CERTIFICATE = 2**24

#: The folder of certificates that `copycert check --out` makes.
CERTIFICATES = "certificates"

#: Reports by fields that they have; none of them has `evidence` or `claim`.
_REPORTS = (
    (("rho", "claims"), "the report of `copycert check`"),
    (("complete", "runs", "summary"), "the report of `copycert compare`"),
    (("rows", "labels"), "the report of `copycert floats`"),
    (("best_loss", "lower_bound"), "the report of `copycert minimize`"),
    (("distribution", "heads", "copied"), "the report of `copycert attention`"),
    (("on_training_distribution", "verdict"), "the report of `copycert evaluate`"),
    (("asked", "answers"), "the answers of a run that `copycert compare` asked"),
    (("preset", "encoding", "training"), "the configuration of a training run"),
    (("row", "column"), "a file of frequencies"),
    (("files",), "the report of `copycert verify`"),
)

#: How files begin that are no JSON text in UTF-8 without a byte order mark.
_BEGINNINGS = (
    (b"\xef\xbb\xbf", "begins with a byte order mark; save it as UTF-8 without one"),
    (b"\xff\xfe", "is UTF-16 with a byte order mark; save it as UTF-8 without one"),
    (b"\xfe\xff", "is UTF-16 with a byte order mark; save it as UTF-8 without one"),
    (b"PK\x03\x04", "is a zip archive, not a certificate"),
    (b"%PDF", "is a PDF file, not a certificate"),
    (b"\x89PNG", "is a picture, not a certificate"),
)

_LONGEST_BEGINNING = 16


@dataclass(frozen=True)
class Selection:
    """What there is to check.

    Attributes:
        certificates: the files to check, in order.
        skipped: files found in a folder that are no certificates, and what they are.
    """

    certificates: tuple[Path, ...]
    skipped: tuple[tuple[Path, str], ...]


def certificates_in(folder: Path) -> Selection:
    """The certificates in a folder: `*.json` in it, by name, then those in its folder `certificates` at any depth.

    A folder that is itself called `certificates` is searched at any depth. JSON files without the fields of a
    certificate are skipped and named; what cannot be read as JSON is kept, so that a damaged certificate is reported.

    Raises:
        UnreadableCertificateError: the folder cannot be read, or there is no certificate in it.
    """
    deep = folder if folder.resolve().name == CERTIFICATES else folder / CERTIFICATES
    try:
        paths = dict.fromkeys((*sorted(folder.glob("*.json")), *sorted(deep.rglob("*.json"))))
    except OSError as error:
        raise UnreadableCertificateError(f"cannot be read: {error.strerror or error}") from error
    kept, skipped = [], []
    for path in paths:
        other = _other(path)
        if other is None:
            kept.append(path)
        else:
            skipped.append((path, other))
    if not kept:
        raise UnreadableCertificateError("is a folder without a certificate, in it or in its folder certificates")
    return Selection(tuple(kept), tuple(skipped))


def select(path: Path) -> Selection:
    """What a path on the command line stands for: itself, or the certificates in the folder.

    Raises:
        UnreadableCertificateError: a folder without certificates.
    """
    return certificates_in(path) if _is_folder(path) else Selection((path,), ())


def read_certificate(path: Path) -> Any:
    """The JSON value in a file that may be a certificate.

    Raises:
        UnreadableCertificateError: it cannot be read, is not JSON, or is something else that copycert reads or writes.
        Rejected: too large, or JSON with something in it that no certificate contains.
    """
    text = _text(path)
    try:
        value = parse_json(text, "the certificate")
    except json.JSONDecodeError as error:
        raise UnreadableCertificateError(f"is not JSON: {error.msg} at line {error.lineno}") from error
    except Rejected:
        _require_no_other(_leniently(text))
        raise
    _require_no_other(value)
    return value


def _require_no_other(value: object) -> None:
    """That this is no certificate is the first thing to say, before what a certificate would have to be like."""
    report = _report(value)
    if report is not None:
        raise UnreadableCertificateError(f"is {report}, not a certificate")
    if isinstance(value, dict) and "evidence" not in value and "claim" not in value:
        raise Rejected("it is no certificate: it has neither the field evidence nor the field claim")


def _text(path: Path) -> str:
    """The text of a file.

    Raises:
        UnreadableCertificateError: it cannot be read, or begins as no JSON text in UTF-8 does. Rejected: too large.
    """
    try:
        other = _by_beginning(path)
        if other is not None:
            raise UnreadableCertificateError(other)
        return read_regular_file(path, LARGEST_CERTIFICATE).decode("utf-8")
    except UnreadableCertificateError:
        raise
    except UnicodeDecodeError as error:
        raise UnreadableCertificateError("is not JSON: it is not UTF-8 text") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise UnreadableCertificateError(f"cannot be read: {reason or error}") from error


def _by_beginning(path: Path) -> str | None:
    """What a regular file is if its first bytes tell that it is no JSON text."""
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        beginning = stream.read(_LONGEST_BEGINNING)
    # A safetensors file begins with the length of its header, eight bytes of which the upper four are 0.
    if beginning[4:9] == b"\0\0\0\0{":
        return "is a weights file (safetensors), not a certificate; certificates name it"
    return next((what for start, what in _BEGINNINGS if beginning.startswith(start)), None)


def _leniently(text: str) -> object:
    """A JSON text by the standard library's rules, None if it breaks them too."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _report(value: object) -> str | None:
    """What a JSON value is that has neither evidence nor a claim, if it is something that copycert knows."""
    if not isinstance(value, dict) or "evidence" in value or "claim" in value:
        return None
    return next((what for names, what in _REPORTS if all(name in value for name in names)), None)


def _other(path: Path) -> str | None:
    """What a JSON file in a folder is that is to be skipped; None if it may be a certificate, damaged or not."""
    try:
        value = _leniently(_text(path))
    except (UnreadableCertificateError, Rejected):
        return None
    if value is None or (isinstance(value, dict) and ("evidence" in value or "claim" in value)):
        return None
    return f"is {_report(value) or 'a JSON file'}, not a certificate"


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
