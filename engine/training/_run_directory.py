"""Run directories: `config.json`, `environment.json`, `metrics.jsonl`, `checkpoint.safetensors` while training,
`model.safetensors` at the end.

Every file but the metrics is written under a temporary name and renamed. Weights files carry a digest of their tensors,
so that a damaged one is noticed even where its length still fits. A directory that holds another configuration, or
anything else, is refused before the first write.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import Tensor

from engine._transformer import Transformer
from engine._weights_file import load_exactly, load_weights, make_directory, naming, save_weights, write_atomically
from engine.training._environment import environment
from engine.training._run_config import RunConfig
from theory import InputError

CONFIG, METRICS, CHECKPOINT, MODEL = "config.json", "metrics.jsonl", "checkpoint.safetensors", "model.safetensors"

#: Versions and threads that the steps were made with: a result depends on them in its last digits, and no more, so that
#: they are no part of the configuration.
ENVIRONMENT = "environment.json"

#: What the training took on the clock; no result, since it differs from run to run.
TIMING = "timing.json"

#: Held while a process trains; removed with the end of the run.
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
    if DIGEST not in metadata:
        allowed = "a run's weights, with a digest of its tensors: engine.save_run(path, config, model) writes one"
        raise InputError("weights", str(path), allowed)
    if metadata[DIGEST] != tensors_digest(tensors):
        raise InputError("weights", str(path), "undamaged: its tensors do not match their digest")
    return tensors, metadata


def save_run(path: Path, config: RunConfig, model: Transformer) -> str:
    """The weights file of a run, which `load_run` and the commands take; returns the SHA-256 of the file.

    Args:
        path: the file, written whole or not at all.
        config: of the model; it stands in the metadata.
        model: as built by `config.build()`, in any floating dtype.
    """
    return save_digested(path, model.state_dict(), config.document())


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

        The lock file goes when the run is finished, not before: who gets the lock of a file that is being removed finds
        the run finished and has nothing to write.

        Raises:
            InputError: it holds another configuration or other files, or is in use; nothing is touched then.
            OSError: it cannot be written.
        """
        if (self.path / CONFIG).exists():
            self._require_same(config)
        elif self.path.exists() and (not self.path.is_dir() or any(file.name != LOCK for file in self.path.iterdir())):
            raise InputError("out", str(self.path), "new, empty, or the directory of a run")
        if self.finished:
            yield
            return
        make_directory(self.path, "out")
        lock = FileLock(self.path / LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout as error:
            raise InputError("out", str(self.path), "a directory that no other run is using now") from error
        try:
            if not (self.path / CONFIG).exists():
                write_atomically(self.path / CONFIG, (json.dumps(config, indent=1) + "\n").encode())
            yield
        finally:
            lock.release()
            if self.model.exists():
                (self.path / LOCK).unlink(missing_ok=True)

    def environments(self) -> list[dict[str, Any]]:
        """Versions and threads of each part of the training, with the step it began at; none for runs of old."""
        try:
            parts = json.loads((self.path / ENVIRONMENT).read_bytes())["parts"]
            return [dict(part) for part in parts]
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError) as error:
            raise InputError("out", str(self.path / ENVIRONMENT), "as copycert train wrote it, or absent") from error

    def note_environment(self, step: int) -> str | None:
        """Note with what the steps from `step` on are made; what differs from the last part, in words, or None."""
        kept = [part for part in self.environments() if step and part["from_step"] < step]
        ours = environment()
        theirs = dict(kept[-1]) if kept else ours
        theirs.pop("from_step", None)
        changed = [
            f"{key} {theirs.get(key)}, now {ours.get(key)}"
            for key in dict.fromkeys((*theirs, *ours))
            if theirs.get(key) != ours.get(key)
        ]
        if changed or not kept:
            document = {"parts": [*kept, {"from_step": step, **ours}]}
            write_atomically(self.path / ENVIRONMENT, (json.dumps(document, indent=1) + "\n").encode())
        return ", ".join(changed) or None

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
        differs = difference(_as_read(self.config()), json.loads(json.dumps(config)))
        if differs:
            raise InputError("out", str(self.path), f"new, or a run of the same configuration ({differs})")

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
        with naming(self.path / METRICS), (self.path / METRICS).open("a") as file:
            file.write(json.dumps(line) + "\n")


def difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str | None:
    """The first field in which two JSON objects differ, in words, or None."""
    there, here = dict(_leaves(theirs)), dict(_leaves(ours))
    for key in (*here, *there):
        if here.get(key) != there.get(key):
            return f"there {key} is {there.get(key)}, not {here.get(key)}"
    return None


def _leaves(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _as_read(document: dict[str, Any]) -> dict[str, Any]:
    """A configuration with the fields that were not there yet when it was written: they have a documented meaning."""
    with suppress(InputError):
        document = RunConfig.from_document(document).document()
    result: dict[str, Any] = json.loads(json.dumps(document))
    return result


def load_run(path: Path) -> tuple[RunConfig, Transformer]:
    """Configuration and trained model of a finished run: of its directory, or of its weights file alone.

    The model holds the stored numbers exactly, in the narrowest dtype that holds them all.

    Raises:
        InputError: no run, not finished yet, damaged, tensors that do not fit (all named), or a configuration that its
            own directory contradicts.
    """
    run = RunDirectory(path if path.is_dir() else path.parent)
    file = run.model if path.is_dir() else path
    if not file.exists():
        allowed = "a finished run; copycert train with the same options goes on" if path.is_dir() else "there"
        raise InputError("RUN", str(path), allowed)
    tensors, metadata = load_digested(file)
    metadata.pop(DIGEST)
    if path.is_dir() and _as_read(metadata) != _as_read(run.config()):
        raise InputError("RUN", str(path), f"a run whose {CONFIG} is that of its weights")
    config = RunConfig.from_document(metadata)
    model = config.build().requires_grad_(False)
    load_exactly(model, tensors, file)
    return config, model.eval()
