"""Run directories: `config.json`, `metrics.jsonl`, `checkpoint.safetensors` while training, `model.safetensors` at the
end.

Every file but the metrics is written under a temporary name and renamed. Weights files carry a digest of their tensors,
so that a damaged one is noticed even where its length still fits. A directory that holds another configuration, or
anything else, is refused before the first write.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine._run_config import RunConfig
from engine._transformer import Transformer
from engine._weights_file import load_weights, save_weights, write_atomically
from theory import InputError

CONFIG, METRICS, CHECKPOINT, MODEL = "config.json", "metrics.jsonl", "checkpoint.safetensors", "model.safetensors"

#: What the training took on the clock; no result, since it differs from run to run.
TIMING = "timing.json"

LOCK = ".lock"

#: Key of the metadata of a weights file under which the digest of its tensors stands.
DIGEST = "tensors_sha256"


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, dtypes, shapes and bytes of the tensors, in hexadecimal."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def save_digested(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> str:
    """Save tensors with metadata and their digest; returns the SHA-256 of the file."""
    return save_weights(path, tensors, {**metadata, DIGEST: tensors_digest(tensors)})


def load_digested(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and metadata of a weights file, digest checked.

    Raises:
        InputError: unreadable, truncated, without digest, or with tensors that do not match it.
    """
    tensors, metadata = load_weights(path)
    if not isinstance(metadata, dict) or metadata.get(DIGEST) != tensors_digest(tensors):
        raise InputError("weights", str(path), "undamaged: its tensors do not match their digest")
    return tensors, metadata


@dataclass(frozen=True)
class RunDirectory:
    """A directory that holds one training run."""

    path: Path

    @property
    def checkpoint(self) -> Path:
        """Training state, there only while the run is not finished."""
        return self.path / CHECKPOINT

    @property
    def model(self) -> Path:
        """Weights and metadata of the finished run."""
        return self.path / MODEL

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end."""
        return self.model.exists()

    @contextmanager
    def claimed(self, config: Mapping[str, Any]) -> Iterator[None]:
        """The directory as this configuration's own, held against a second process that would train in it.

        Raises:
            InputError: it holds another configuration or other files, or is in use; nothing is touched then.
        """
        if (self.path / CONFIG).exists():
            self._require_same(config)
        elif self.path.exists() and (not self.path.is_dir() or any(file.name != LOCK for file in self.path.iterdir())):
            raise InputError("out", str(self.path), "new, empty, or the directory of a run")
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / LOCK).open("a") as file:
            try:
                flock(file, LOCK_EX | LOCK_NB)
            except OSError as error:
                raise InputError("out", str(self.path), "a directory that no other run is using now") from error
            if not (self.path / CONFIG).exists():
                write_atomically(self.path / CONFIG, (json.dumps(config, indent=1) + "\n").encode())
            yield

    def config(self) -> dict[str, Any]:
        """The configuration of the run.

        Raises:
            InputError: no readable config.json.
        """
        try:
            config = json.loads((self.path / CONFIG).read_bytes())
            if not isinstance(config, dict):
                raise ValueError("no object")
        except (OSError, ValueError) as error:
            raise InputError("RUN", str(self.path), f"a run directory with a readable {CONFIG} ({error})") from error
        return config

    def _require_same(self, config: Mapping[str, Any]) -> None:
        theirs, ours = (dict(_leaves(c)) for c in (self.config(), json.loads(json.dumps(config))))
        for key in (*ours, *theirs):
            if ours.get(key) != theirs.get(key):
                there = f"there {key} is {theirs.get(key)}, not {ours.get(key)}"
                raise InputError("out", str(self.path), f"new, or a run of the same configuration ({there})")

    def seconds(self) -> float | None:
        """Wall time of the finished training, summed over its parts; None where it was not noted."""
        file = self.path / TIMING
        return float(json.loads(file.read_text())["seconds"]) if file.exists() else None

    def note_seconds(self, seconds: float) -> None:
        """Note the wall time."""
        write_atomically(self.path / TIMING, json.dumps({"seconds": round(seconds, 3)}).encode())

    def metrics(self) -> list[dict[str, Any]]:
        """The metrics of the steps so far; a last line that a kill cut short is left out."""
        lines = []
        if (self.path / METRICS).exists():
            for line in (self.path / METRICS).read_text().splitlines():
                try:
                    lines.append(json.loads(line))
                except ValueError:
                    break
        return lines

    def cut_metrics(self, step: int) -> None:
        """Drop the metrics of steps from `step` on, which will be made again."""
        kept = [line for line in self.metrics() if line["step"] < step]
        write_atomically(self.path / METRICS, "".join(json.dumps(line) + "\n" for line in kept).encode())

    def add_metrics(self, line: Mapping[str, Any]) -> None:
        """Append one line, flushed."""
        with (self.path / METRICS).open("a") as file:
            file.write(json.dumps(line) + "\n")


def _leaves(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def load_run(path: Path) -> tuple[RunConfig, Transformer]:
    """Configuration and trained model of a finished run: of its directory, or of its weights file alone.

    Raises:
        InputError: no run, not finished yet, damaged, or a configuration that its own directory contradicts.
    """
    run = RunDirectory(path if path.is_dir() else path.parent)
    file = run.model if path.is_dir() else path
    if not file.exists():
        allowed = "a finished run; copycert train with the same options goes on" if path.is_dir() else "there"
        raise InputError("RUN", str(path), allowed)
    tensors, metadata = load_digested(file)
    metadata.pop(DIGEST)
    if path.is_dir() and metadata != run.config():
        raise InputError("RUN", str(path), f"a run whose {CONFIG} is that of its weights")
    config = RunConfig.from_document(metadata)
    dtype = tensors["embedding.weight"].dtype if "embedding.weight" in tensors else torch.float32
    model = config.build().to(dtype).requires_grad_(False)
    try:
        model.load_state_dict(tensors, strict=True)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise InputError("weights", str(file), f"weights of their own configuration ({reason})") from error
    return config, model.eval()
