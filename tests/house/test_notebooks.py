"""Notebooks run as plain scripts in their quick mode, and what they print is right."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))


def run(notebook: Path, directory: Path) -> str:
    environment = {**os.environ, "COPYCERT_QUICK": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(notebook)], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_notebooks_in_percent_format() -> None:
    assert [notebook.name for notebook in NOTEBOOKS] == ["length_bounds.py"]
    for notebook in NOTEBOOKS:
        text = notebook.read_text(encoding="utf-8")
        assert "format_name: percent" in text and text.count("# %% [markdown]") >= 3


@pytest.mark.slow
def test_length_bounds(tmp_path: Path) -> None:
    printed = run(ROOT / "notebooks" / "length_bounds.py", tmp_path)
    assert "n* = 35" in printed and "copied: True" in printed and "wrong: True" in printed
    powers = [float(x) for x in re.findall(r"10\^([\d.]+)", printed)]
    assert powers == sorted(powers) and len(powers) == 4
    lengths = [int(x) for x in re.findall(r"every string up to (\d+)", printed)]
    printed_lengths = [int(x) for x in re.findall(r": printed (\d+)", printed)]
    assert all(length > printed_lengths[k // 2] for k, length in enumerate(lengths)) and len(lengths) == 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_broken_notebook_is_noticed(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(
        (ROOT / "notebooks" / "length_bounds.py").read_text().replace("copier.score()", "copier.scor()", 1)
    )
    with pytest.raises(AssertionError, match="scor"):
        run(broken, tmp_path)
