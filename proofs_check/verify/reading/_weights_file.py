"""Weights files in safetensors format, read by hand: sparse matrices with exact entries, and the metadata."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import Any

from proofs_check.verify.reading._document import (
    Rejected,
    parse_json,
    read_regular_file,
    require_choice,
    require_fields,
    require_integer,
    require_list,
    require_text,
    shown,
)

LARGEST_FILE = 2**28
LARGEST_HEADER = 2**24

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}", re.ASCII)

METADATA = "__metadata__"

_ITEM_BYTES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2}

#: Most entries of all tensors together, and most rows: 8 bytes an entry, and up to 300 a row.
MOST_ENTRIES, MOST_ROWS = 2**25, 2**21

Vector = dict[int, Fraction]


class _DenseRow(Mapping[int, float]):
    """The nonzero entries of a row by column, of which there are many: 8 bytes an entry, some ten times less."""

    def __init__(self, numbers: Sequence[float]) -> None:
        self._numbers = array("d", numbers)

    def get(self, column: int, default: Any = None) -> Any:
        return self._numbers[column] or default

    def __getitem__(self, column: int) -> float:
        if not (0 <= column < len(self._numbers) and self._numbers[column]):
            raise KeyError(column)
        return self._numbers[column]

    def __iter__(self) -> Iterator[int]:
        return (column for column, x in enumerate(self._numbers) if x)

    def __len__(self) -> int:
        return sum(1 for x in self._numbers if x)


@dataclass(frozen=True)
class Matrix:
    """A matrix of finite binary floating-point numbers, of which only the nonzero entries are kept.

    Attributes:
        height, width: the shape.
        rows: for each row its nonzero entries by column; a float is the exact number that was stored.
    """

    height: int
    width: int
    rows: tuple[Mapping[int, float], ...]

    def row(self, index: int) -> Vector:
        """A row as exact rationals."""
        return {column: Fraction(entry) for column, entry in self.rows[index].items()}

    def times(self, vector: Vector) -> Vector:
        """Matrix times vector, exact, without zeros. Cost: nonzero entries in common."""
        result: Vector = {}
        for index, row in enumerate(self.rows):
            entry = sum((Fraction(row[j]) * x for j, x in vector.items() if j in row), Fraction(0))
            if entry:
                result[index] = entry
        return result

    def row_times(self, vector: Vector) -> Vector:
        """Row vector times matrix, exact, without zeros. Cost: nonzero entries of the rows picked."""
        result: Vector = {}
        for index, x in vector.items():
            for column, entry in self.rows[index].items():
                result[column] = result.get(column, Fraction(0)) + x * Fraction(entry)
        return {column: entry for column, entry in result.items() if entry}

    def square_norm(self) -> Fraction:
        """Sum of the squares of all entries, exact. Cost: nonzero entries; denominators are collected first."""
        by_denominator: dict[int, int] = {}
        for row in self.rows:
            for entry in row.values():
                numerator, denominator = entry.as_integer_ratio()
                by_denominator[denominator] = by_denominator.get(denominator, 0) + numerator**2
        return sum((Fraction(n, d**2) for d, n in by_denominator.items()), Fraction(0))


@dataclass(frozen=True)
class WeightsFile:
    """What a weights file contains.

    Attributes:
        name: its file name.
        digest: SHA-256 of the whole file, in hexadecimal.
        metadata: the parsed text of the metadata field "copycert".
        matrices: the tensors by name, all two-dimensional.
    """

    name: str
    digest: str
    metadata: Any
    matrices: Mapping[str, Matrix]


def read_weights_file(directory: Path, reference: object) -> WeightsFile:
    """The weights file that `inputs.weights` refers to, beside the certificate.

    Raises:
        Rejected: no such file, another hash, or not a safetensors file of two-dimensional F64, F32, BF16 or F16 tensors
            with finite entries and the metadata field "copycert" and no other.
    Cost: linear in the file.
    """
    fields = require_fields(reference, "inputs.weights", ("file", "sha256"))
    name = _plain_name(fields["file"])
    expected = require_text(fields["sha256"], "inputs.weights.sha256")
    try:
        data = read_regular_file(directory / name, LARGEST_FILE)
    except OSError as error:
        raise Rejected(f"the weights file {name} cannot be read: {error.strerror or error}") from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != expected:
        raise Rejected(f"the weights file {name} has SHA-256 {digest}, not {shown(expected)}")
    header, body = _split(data)
    metadata = require_fields(header.pop(METADATA, None), f"{name}: {METADATA}", ("copycert",))
    return WeightsFile(name, digest, _parse_metadata(metadata["copycert"]), _matrices(header, body))


def _plain_name(value: object) -> str:
    """A file name of letters, digits, dot, underscore and hyphen: it stands in the statement and must not read as
    one.
    """
    name = require_text(value, "inputs.weights.file")
    if not _PLAIN_NAME.fullmatch(name):
        raise Rejected(f"inputs.weights.file is {shown(name)}, not a file name of letters, digits, . _ -")
    return name


def _split(data: bytes) -> tuple[dict[str, Any], memoryview]:
    """Header object and tensor data."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(LARGEST_HEADER, len(data) - 8):
        raise Rejected("weights file: the header length does not fit the file")
    header = _parse(data[8 : 8 + length], "weights header")
    if not isinstance(header, dict):
        raise Rejected(f"weights header is {shown(header)}, not an object")
    return header, memoryview(data)[8 + length :]


def _parse(data: bytes, what: str) -> Any:
    try:
        return parse_json(data.decode("utf-8"), what)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise Rejected(f"{what} is not JSON") from error


def _parse_metadata(value: object) -> Any:
    text = require_text(value, "weights metadata copycert")
    return _parse(text.encode("utf-8", "surrogatepass"), "weights metadata copycert")


def _matrices(header: dict[str, Any], body: memoryview) -> dict[str, Matrix]:
    """The tensors; their offsets must cover the data exactly, without gap or overlap."""
    entries = {name: _entry(name, value) for name, value in header.items()}
    position = 0
    matrices: dict[str, Matrix] = {}
    if sum(shape[0] * shape[1] for _, shape, _, _ in entries.values()) > MOST_ENTRIES:
        raise Rejected(f"weights: more than {MOST_ENTRIES} entries")
    if sum(shape[0] for _, shape, _, _ in entries.values()) > MOST_ROWS:
        raise Rejected(f"weights: more than {MOST_ROWS} rows")
    for name, (dtype, shape, begin, end) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if begin != position or end > len(body) or end - begin != shape[0] * shape[1] * _ITEM_BYTES[dtype]:
            raise Rejected(f"weights: the offsets of {shown(name)} do not fit its shape, or leave a gap")
        matrices[name] = _matrix(name, dtype, body[begin:end], shape)
        position = end
    if position != len(body):
        raise Rejected("weights: there are bytes after the last tensor")
    return matrices


def _entry(name: str, value: object) -> tuple[str, tuple[int, int], int, int]:
    """Data type, shape, and where the data begin and end."""
    what = f"weights: {shown(name)}"
    fields = require_fields(value, what, ("dtype", "shape", "data_offsets"))
    dtype = require_choice(fields["dtype"], f"{what}.dtype", tuple(_ITEM_BYTES))
    shape = [_json_integer(entry, what) for entry in require_list(fields["shape"], f"{what}.shape", 2)]
    offsets = [_json_integer(entry, what) for entry in require_list(fields["data_offsets"], f"{what}.data_offsets", 2)]
    if len(shape) != 2 or len(offsets) != 2 or 0 in shape:
        raise Rejected(f"{what} is not a matrix with a begin and an end")
    return dtype, (shape[0], shape[1]), offsets[0], offsets[1]


def _json_integer(value: object, what: str) -> int:
    if isinstance(value, str):
        raise Rejected(f"{what}: sizes and offsets are JSON integers")
    return require_integer(value, f"{what}: a size or offset", 0, LARGEST_FILE)


def _numbers(dtype: str, data: memoryview) -> tuple[float, ...]:
    """The stored numbers, exact as Python floats: every F32, BF16 and F16 number is also a binary64 number."""
    count = len(data) // _ITEM_BYTES[dtype]
    if dtype == "BF16":
        # A BF16 number is the upper half of the F32 number with a zero lower half.
        widened = bytearray(4 * count)
        widened[2::4], widened[3::4] = data[0::2], data[1::2]
        return struct.unpack(f"<{count}f", widened)
    return struct.unpack(f"<{count}{ {'F64': 'd', 'F32': 'f', 'F16': 'e'}[dtype] }", data)


def _matrix(name: str, dtype: str, data: memoryview, shape: tuple[int, int]) -> Matrix:
    height, width = shape
    size = width * _ITEM_BYTES[dtype]
    rows: list[Mapping[int, float]] = []
    for start in range(0, height * size, size):
        numbers = _numbers(dtype, data[start : start + size])
        row = {column: x for column, x in enumerate(numbers) if x}
        if not all(isfinite(x) for x in row.values()):
            raise Rejected(f"weights: {shown(name)} has an entry that is not finite")
        rows.append(row if 8 * len(row) <= width else _DenseRow(numbers))
    return Matrix(height, width, tuple(rows))
