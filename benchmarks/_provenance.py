"""Where a result came from: the commit, whether the tree was clean, and the seed; and what is kept from it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def provenance(seed: int) -> dict[str, Any]:
    """Commit and seed, for the head of a results file."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    changed = git(
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        "theory",
        "engine",
        "constructions",
        "proofs_check",
        "benchmarks/*.py",
    )
    return {"commit": git("rev-parse", "HEAD"), "clean": not changed, "seed": seed}


def kept_under(path: Path, head: dict[str, Any]) -> dict[str, Any]:
    """The results file at `path` if its head is this one, so that its parts can be used again; else nothing."""
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return known if {key: known.get(key) for key in head} == head else {}
