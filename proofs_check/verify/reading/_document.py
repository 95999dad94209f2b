"""Strict reading of JSON: what a certificate may contain, and how a reason for rejection is told."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

from flint import fmpz

#: Integers beyond this are not JSON numbers but decimal strings.
LARGEST_JSON_INTEGER = 2**53

#: Longest text of one number; longer ones are refused unread.
LONGEST_NUMBER = 20_000

#: Longest reason for a rejection.
LONGEST_REASON = 300

_INTEGER = re.compile(r"-?[0-9]+")
_RATIONAL = re.compile(r"(-?[0-9]+)(?:/([0-9]+)|\.([0-9]+))?")


class Rejected(Exception):
    """A check failed; the message is the reason, in one line."""


class UnreadableCertificateError(ValueError):
    """The file cannot be read, or is not JSON."""


def read_regular_file(path: Path, largest: int) -> bytes:
    """The bytes of a regular file of at most `largest` bytes.

    Raises:
        OSError: no such file, not a regular one, or not permitted. Rejected: too large.
    """
    if not path.is_file():
        raise OSError("no such file" if not path.exists() else "not a regular file")
    with path.open("rb") as stream:
        data = stream.read(largest + 1)
    if len(data) > largest:
        raise Rejected(f"{path.name} is larger than {largest} bytes")
    return data


def parse_json(text: str, what: str) -> Any:
    """A JSON text without duplicate keys, floating-point numbers, NaN, infinities or large integers.

    Raises:
        json.JSONDecodeError: not JSON. Rejected: JSON, but with one of those in it, or nested too deeply.
    """

    def unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                raise Rejected(f"{what}: duplicate key {shown(key)}")
            result[key] = value
        return result

    def small(spelled: str) -> int:
        if len(spelled) > 17 or abs(int(spelled)) > LARGEST_JSON_INTEGER:
            raise Rejected(f"{what}: an integer beyond 2^53 must be a decimal string")
        return int(spelled)

    def refuse(spelled: str) -> Any:
        raise Rejected(f"{what}: {shown(spelled)} is not an integer; write a rational as a string")

    try:
        return json.loads(text, object_pairs_hook=unique, parse_int=small, parse_float=refuse, parse_constant=refuse)
    except RecursionError as error:
        raise Rejected(f"{what}: nested too deeply") from error


def shown(value: object) -> str:
    """A value as a short piece of one ASCII line. Containers are only named, whatever is in them."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool):
        # `ascii` refuses integers of more than 4300 digits.
        text = str(fmpz(value))
    else:
        text = ascii(value[:80]) if isinstance(value, str) else ascii(value)
    return text if len(text) <= 64 else text[:60] + "..."


def one_line(text: str) -> str:
    """A reason as one ASCII line of at most 300 characters: it may quote what a certificate says."""
    line = " ".join(text.encode("ascii", "backslashreplace").decode("ascii").split())
    line = "".join(character if character.isprintable() else "?" for character in line)
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 3] + "..."


def require_fields(value: object, what: str, names: Sequence[str]) -> dict[str, Any]:
    """`value` as an object with exactly the fields `names`.

    Raises:
        Rejected: anything else.
    """
    if not isinstance(value, dict):
        raise Rejected(f"{what} is {shown(value)}, not an object")
    for name in names:
        if name not in value:
            raise Rejected(f"{what} lacks the field {name}")
    for name in value:
        if name not in names:
            raise Rejected(f"{what} has an unknown field {shown(name)}")
    return value


def require_list(value: object, what: str, most: int) -> list[Any]:
    """`value` as a list of at most `most` entries."""
    if not isinstance(value, list):
        raise Rejected(f"{what} is {shown(value)}, not a list")
    if len(value) > most:
        raise Rejected(f"{what} has {len(value)} entries; at most {most} are allowed")
    return value


def require_text(value: object, what: str) -> str:
    """`value` as a string."""
    if not isinstance(value, str):
        raise Rejected(f"{what} is {shown(value)}, not a string")
    return value


def require_choice(value: object, what: str, options: Sequence[str]) -> str:
    """`value` as one of the strings `options`."""
    if not isinstance(value, str) or value not in options:
        raise Rejected(f"{what} is {shown(value)}, not {' or '.join(options)}")
    return value


def require_integer(value: object, what: str, least: int | None = None, most: int | None = None) -> int:
    """`value`, a JSON integer or a decimal string, as an integer within the bounds given."""
    if isinstance(value, str) and len(value) <= LONGEST_NUMBER and _INTEGER.fullmatch(value):
        number = int(fmpz(value))
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    else:
        raise Rejected(f"{what} is {shown(value)}, not an integer of at most {LONGEST_NUMBER} digits")
    if least is not None and number < least:
        raise Rejected(f"{what} is below {least}")
    if most is not None and number > most:
        raise Rejected(f"{what} is above {most}")
    return number


def require_rational(value: object, what: str) -> Fraction:
    """`value`, an integer or a string `p`, `p/q` with q > 0, or a plain decimal, as a rational number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    match = None
    if isinstance(value, str) and len(value) <= LONGEST_NUMBER:
        match = _RATIONAL.fullmatch(value)
    if match is None:
        raise Rejected(f"{what} is {shown(value)}, not an integer, p/q or a plain decimal")
    whole, below, decimals = match.groups()
    if decimals is not None:
        return Fraction(int(fmpz(whole + decimals)), 10 ** len(decimals))
    denominator = 1 if below is None else int(fmpz(below))
    if denominator == 0:
        raise Rejected(f"{what} is {shown(value)}: the denominator is 0")
    return Fraction(int(fmpz(whole)), denominator)


def spell(number: Fraction | int) -> str:
    """A number in full, whatever its length (`str` refuses integers of more than 4300 digits)."""
    numerator, denominator = number.as_integer_ratio()
    return str(fmpz(numerator)) if denominator == 1 else f"{fmpz(numerator)}/{fmpz(denominator)}"


def digest(text: str) -> str:
    """How statements name what is too long to spell out: the first 16 hexadecimal digits of the text's SHA-256."""
    return f"SHA-256 {sha256(text.encode()).hexdigest()[:16]}..."
