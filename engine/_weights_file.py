"""Weights files: safetensors with one JSON text of metadata, written under a temporary name and renamed."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from theory import InputError

METADATA_KEY = "copycert"


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
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
        InputError: unreadable, truncated, or without copycert metadata.
    """
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(METADATA_KEY)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
        if text is None:
            raise InputError("weights", str(path), "a safetensors file with copycert metadata")
        return tensors, json.loads(text)
    except (OSError, SafetensorError, json.JSONDecodeError) as error:
        raise InputError("weights", str(path), f"a readable safetensors file ({error})") from error
