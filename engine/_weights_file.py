"""Weights files: safetensors with one JSON text of metadata, written under a temporary name and renamed.

What is loaded is what is stored: `load_exactly` gives a model a dtype that holds every stored number, or refuses. What
cannot be a weights file is told by what it is instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from theory import InputError

METADATA_KEY = "copycert"

#: Formats of weights that a model can be loaded in; 8-bit floats have no arithmetic of their own.
FLOATING = (torch.float64, torch.float32, torch.bfloat16, torch.float16)

#: First bytes of files that are taken for weights files, and what they are.
_FOREIGN = (
    (b"PK\x03\x04", "a zip archive, as torch.save writes"),
    (b"\x80", "a pickle, as old torch.save wrote"),
    (b"GGUF", "a GGUF file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"version https://git-lfs", "a Git LFS pointer: fetch the file itself"),
)

#: Names listed in a message before it says how many more there are.
_NAMES_TOLD = 4


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError of the block, as one that names `path`: a full disk names no file, a temporary file means nothing."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def make_directory(path: Path, argument: str) -> None:
    """The directory, made if missing, with those that it lies in.

    Raises:
        InputError: it is something else or cannot be made, naming the argument.
    """
    if path.exists() and not path.is_dir():
        raise InputError(argument, str(path), "a directory")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        # Above a link that leads nowhere the system only says that something is there.
        links = [link for link in (path, *path.parents) if link.is_symlink() and not link.exists()]
        reason = f"{links[0]} is a link that leads nowhere" if links else error.strerror
        raise InputError(argument, str(path), f"a directory that can be made ({reason})") from error


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all; an OSError names `path`."""
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def save_weights(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> str:
    """Save tensors with metadata; returns the SHA-256 of the file in hexadecimal."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    data = to_bytes(contiguous, {METADATA_KEY: json.dumps(metadata, sort_keys=True)})
    write_atomically(path, data)
    return hashlib.sha256(data).hexdigest()


def load_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and metadata of a weights file.

    Raises:
        InputError: unreadable, of another format (named), truncated, or without copycert metadata.
    """
    try:
        _require_safetensors(path)
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(METADATA_KEY)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
        if text is None:
            held = f"this one, of another program, holds {_listed(tensors)}"
            raise InputError("weights", str(path), f"a safetensors file with copycert metadata; {held}")
        metadata = json.loads(text)
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        reason = (error.strerror if isinstance(error, OSError) else None) or " ".join(str(error).split())
        raise InputError("weights", str(path), f"a readable safetensors file ({reason})") from error
    if not isinstance(metadata, dict):
        raise InputError("weights", str(path), "a safetensors file whose copycert metadata is a JSON object")
    return tensors, metadata


def _require_safetensors(path: Path) -> None:
    """ValueError that says what the file is, unless it begins as a whole safetensors file does."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(64)
        for magic, what in _FOREIGN:
            # A header length may begin with any byte; a header after it settles the matter.
            if start.startswith(magic) and start[8:9] != b"{":
                raise ValueError(f"it is {what}")
        if len(start) < 8:
            raise ValueError(f"it is {'empty' if not size else f'only {size} bytes long'}")
        length = int.from_bytes(start[:8], "little")
        if len(start) > 8 and start[8:9] != b"{":
            raise ValueError("it is of an unknown format")
        if length > size - 8:
            raise ValueError(f"it is truncated: its header has {length} bytes, and {size - 8} are there")
        file.seek(8)
        header = json.loads(file.read(length))
    try:
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        body = max(ends, default=0)
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise ValueError("its header does not list tensors") from error
    if body > size - 8 - length:
        raise ValueError(f"it is truncated: its tensors have {body} bytes, and {size - 8 - length} are there")


def load_exactly(model: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Give a model the stored numbers, every one of them exactly.

    Its dtype becomes the narrowest that holds all stored ones (bfloat16 and float16 together: float32).

    Args:
        model: parameters and persistent buffers of any floating dtype; changed in place.
        tensors: by name, of the shapes of the model's.
        path: where they come from, for messages.

    Raises:
        InputError: tensors that are missing, unexpected, of another shape, or not of a format of FLOATING, all named.
    """
    require_fitting(model, tensors, path)
    model.to(reduce(torch.promote_types, (tensor.dtype for tensor in tensors.values())))
    model.load_state_dict(dict(tensors), strict=True)
    for name, held in model.state_dict().items():
        if not _same_numbers(held, tensors[name]):
            raise ArithmeticError(f"{path}: {name} was rounded when it was loaded")


def require_fitting(model: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """InputError that names every tensor that does not fit the model; nothing is changed."""
    wanted = model.state_dict()
    wrong = [
        ("missing", [name for name in wanted if name not in tensors]),
        ("unexpected", [f"{name} {_shape(tensor)}" for name, tensor in tensors.items() if name not in wanted]),
        (
            "of another shape",
            [
                f"{name} {_shape(tensors[name])}, not {_shape(tensor)}"
                for name, tensor in wanted.items()
                if name in tensors and tensors[name].shape != tensor.shape
            ],
        ),
        (
            "of another format",
            [
                f"{name} {str(tensor.dtype).removeprefix('torch.')}, not float64, float32, bfloat16 or float16"
                for name, tensor in tensors.items()
                if name in wanted and tensor.dtype not in FLOATING
            ],
        ),
    ]
    told = "; ".join(f"{what}: {_some(names)}" for what, names in wrong if names)
    if told:
        raise InputError("weights", str(path), f"weights of their own configuration ({told})")


def require_finite(model: nn.Module, path: Path) -> None:
    """InputError that names every tensor of the model with an entry that is infinite or no number."""
    bad = [name for name, tensor in model.state_dict().items() if not bool(torch.isfinite(tensor).all())]
    if bad:
        raise InputError("weights", str(path), f"made of finite numbers, which these are not: {_some(bad)}")


def _same_numbers(held: Tensor, stored: Tensor) -> bool:
    """Do two tensors hold the same numbers? Both are widened to float64, which is exact for FLOATING."""
    first, second = held.detach().double(), stored.double()
    return bool(((first == second) | (first.isnan() & second.isnan())).all())


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "of one number"


def _listed(tensors: Mapping[str, Tensor]) -> str:
    return _some([f"{name} {_shape(tensor)}" for name, tensor in tensors.items()]) or "no tensor"


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - _NAMES_TOLD
    return ", ".join(listed[:_NAMES_TOLD]) + (f" and {more} more" if more > 0 else "")
