"""What a result depends on besides its settings, in its last digits: versions of the libraries, and threads."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from platform import machine, python_version
from typing import Any

import torch

#: Distributions whose versions are noted.
DISTRIBUTIONS = ("copycert", "python-flint", "torch", "numpy", "scipy")


def versions() -> dict[str, str | None]:
    """Versions of copycert, Python and the libraries that compute; None for one that is not installed as such."""
    found: dict[str, str | None] = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return {"python": python_version(), **found, "torch": str(torch.__version__)}


def environment() -> dict[str, Any]:
    """Versions, the kind of processor, and torch's threads, flat."""
    return {**versions(), "machine": machine(), "threads": torch.get_num_threads()}
