"""Where a result came from: git's hashes of the folders and files that it depends on, and whether they were clean.

A commit says less: it changes with every word of the docs. A hash of a folder (`git rev-parse HEAD:folder`) is the same
as long as the folder is.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def provenance(folders: Iterable[str], root: Path = ROOT) -> dict[str, Any]:
    """`trees`, the hash of each folder (or file) at HEAD, and `clean`: nothing there differs from it."""
    trees = {folder: _git(root, "rev-parse", "--verify", f"HEAD:{folder}") for folder in folders}
    clean = all(trees.values()) and not _git(root, "status", "--porcelain", "--", *trees)
    return {"trees": trees, "clean": clean}


def is_of_present_folders(stored: Mapping[str, Any], folders: Iterable[str], root: Path = ROOT) -> bool:
    """Whether a stored result is of the folders as they are now: same hashes, then and now without changes."""
    now = provenance(folders, root)
    return bool(now["clean"] and stored.get("clean")) and stored.get("trees") == now["trees"]


def _git(root: Path, *arguments: str) -> str:
    """What git prints; nothing where there is no repository, or no such folder in it."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
