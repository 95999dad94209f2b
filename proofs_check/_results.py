"""Directories of results: made or refused before anything is computed, and what a result says of its own making.

A directory holds the results of one set of settings for each command. `COMMAND-settings.json` is written first, so that
an interrupted command goes on only with what it was begun with.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from engine import difference, make_directory, versions, write_atomically
from theory import InputError


def provenance(command: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What a result is of, as a JSON object: the command, its parameters, versions, torch's threads, and when (UTC)."""
    return {
        "command": command,
        "parameters": plain(parameters),
        "versions": versions(),
        "threads": torch.get_num_threads(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as they come back from JSON: rationals and paths are strings, tuples lists."""
    ready: dict[str, Any] = json.loads(json.dumps(dict(parameters), default=str))
    return ready


@contextmanager
def output_directory(out: Path | None) -> Iterator[Path]:
    """`out`, made if missing, or a temporary directory for None.

    Raises:
        InputError: it is not a directory or cannot be made.
    """
    if out is None:
        with TemporaryDirectory(prefix="copycert-") as temporary:
            yield Path(temporary)
        return
    make_directory(out, "--out")
    yield out


@contextmanager
def claimed_directory(
    out: Path | None, command: str, settings: Mapping[str, Any], results: tuple[str, ...]
) -> Iterator[None]:
    """A block in which `out` is the directory of a command's results with these settings; nothing for None.

    Bad input or a full disk that ends the block before it has written anything leaves nothing behind.

    Args:
        out: made if missing.
        command: its name.
        settings: everything that the results depend on; JSON-ready, or rationals, paths, tuples.
        results: names of the files and directories that the command writes there.

    Raises:
        InputError: it holds results of other or of unknown settings, which are left as they are; or it cannot be made.
    """
    if out is None:
        yield
        return
    there = out.exists()
    claimed = _claim(out, command, settings, results)
    try:
        yield
    except (InputError, OSError):
        if claimed is not None and list(out.iterdir()) == [claimed]:
            claimed.unlink()
            if not there:
                out.rmdir()
        raise


def _claim(out: Path, command: str, settings: Mapping[str, Any], results: tuple[str, ...]) -> Path | None:
    """The file of settings if it had to be written."""
    file, there = require_own(out, command, settings, results)
    if there:
        return None
    make_directory(out, "--out")
    write_atomically(file, (json.dumps(plain(settings), indent=1) + "\n").encode())
    return file


def require_own(out: Path, command: str, settings: Mapping[str, Any], results: tuple[str, ...]) -> tuple[Path, bool]:
    """The file of settings, and whether it is there already; nothing is written.

    Raises:
        InputError: `out` holds results of other or of unknown settings.
    """
    file, ours = out / f"{command}-settings.json", plain(settings)
    if file.exists():
        try:
            theirs = json.loads(file.read_bytes())
            differs = difference(theirs, ours)
        except (ValueError, AttributeError) as error:
            raise InputError("--out", str(out), f"a directory whose {file.name} is as copycert wrote it") from error
        if differs:
            raise InputError("--out", str(out), f"new, or results of the same settings ({differs})")
        return file, True
    for name in results:
        if (out / name).exists():
            allowed = f"new, or results of the same settings (there is a {name}, and no {file.name} to say of which)"
            raise InputError("--out", str(out), allowed)
    return file, False
