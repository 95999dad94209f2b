"""Where a result came from: the commit, whether the tree was clean, and the seed."""

from __future__ import annotations

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
