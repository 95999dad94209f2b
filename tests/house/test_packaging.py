"""The house rules: import arrows, types, the wheel in an empty environment, one clear line for an old Python."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("theory", "engine", "constructions", "proofs_check", "copycert")

#: For each contract on imports a line that breaks it, and where it is planted.
VIOLATIONS = {
    "floors": ("theory/numbers/_balls.py", "import constructions"),
    "wings of theory": ("theory/grid/_score.py", "import theory.signs"),
    "wings of proofs_check": ("proofs_check/documents.py", "import proofs_check.claims"),
    "wings of the checker": ("proofs_check/verify/grid/_model.py", "import proofs_check.verify.signs"),
    "wings of the front": ("copycert/figures/_style.py", "import copycert.command"),
    "the checker imports none": ("proofs_check/verify/_verdict.py", "import numpy"),
    "theory is free of torch": ("theory/task/_template.py", "import torch"),
}


def run(*command: str | Path, cwd: Path = ROOT, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, cwd=cwd, **options
    )  # type: ignore[call-overload, no-any-return]


def copy_of_the_sources(target: Path) -> Path:
    for name in PACKAGES:
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "constraints.txt", "Makefile"):
        shutil.copy(ROOT / name, target / name)
    return target


def test_import_arrows_hold() -> None:
    done = run(Path(sys.executable).parent / "lint-imports", "--no-cache")
    assert done.returncode == 0, done.stdout


def test_every_contract_has_a_violation() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert len(contracts) == len(VIOLATIONS)
    assert all(any(contract["name"].startswith(name) for name in VIOLATIONS) for contract in contracts)


def test_imports_against_the_arrows_are_caught(tmp_path: Path) -> None:
    """All of them planted at once: every contract is broken, and by the line planted for it."""
    sources = copy_of_the_sources(tmp_path)
    for file, line in VIOLATIONS.values():
        with (sources / file).open("a") as planted:
            planted.write(f"\n{line}\n")
    environment = os.environ | {"PYTHONPATH": str(sources)}
    done = run(Path(sys.executable).parent / "lint-imports", "--no-cache", cwd=sources, env=environment)
    assert done.returncode == 1
    told = " ".join(done.stdout.split())
    assert f"0 kept, {len(VIOLATIONS)} broken" in told
    for file, line in VIOLATIONS.values():
        importer, imported = file.removesuffix(".py").replace("/", "."), line.split()[1]
        assert re.search(rf"{re.escape(importer)} -> {re.escape(imported)}", told), (importer, imported)


@pytest.mark.deep
def test_types_and_style_are_clean() -> None:
    assert run(sys.executable, "-m", "mypy").returncode == 0
    assert run(sys.executable, "-m", "ruff", "check", ".").returncode == 0


@pytest.mark.deep
def test_a_planted_type_error_is_caught(tmp_path: Path) -> None:
    sources = copy_of_the_sources(tmp_path)
    with (sources / "theory" / "grid" / "_ceiling.py").open("a") as file:
        file.write('\nPLANTED: int = dirichlet_ceiling(8, "1")\n')
    done = run(sys.executable, "-m", "mypy", cwd=sources)
    assert done.returncode == 1 and "_ceiling.py" in done.stdout


@pytest.mark.deep
def test_the_wheel_runs_the_main_job_in_an_empty_environment(tmp_path: Path) -> None:
    sources = copy_of_the_sources(tmp_path / "sources")
    built = run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path / "dist", cwd=sources)
    assert built.returncode == 0, built.stderr
    (wheel,) = (tmp_path / "dist").glob("copycert-*.whl")
    venv.create(tmp_path / "empty", with_pip=True)
    binaries = tmp_path / "empty" / "bin"
    installed = run(
        binaries / "python", "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel
    )
    assert installed.returncode == 0, installed.stderr
    done = run(
        binaries / "copycert", "check", "--rho", "20000", "--draws", "1", "--out", tmp_path / "out", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    certificates = sorted((tmp_path / "out" / "certificates").glob("*.json"))
    assert len(certificates) > 8
    assert run(binaries / "copycert", "verify", *certificates, cwd=tmp_path).returncode == 0
    # What only tests, notebooks or training need is not pulled in.
    present = run(binaries / "python", "-m", "pip", "list", "--format", "freeze").stdout.lower()
    for absent in ("pytest", "hypothesis", "matplotlib", "jupyter", "beartype"):
        assert f"{absent}==" not in present


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_an_old_python_gets_one_clear_line(tmp_path: Path) -> None:
    sources = copy_of_the_sources(tmp_path)
    old = tmp_path / "old-python"
    old.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = -c ] && exec {sys.executable} -c '
        "\"import sys; sys.version_info = (3, 9, 1); sys.version = '3.9.1 (old)'; $2\"\n"
        "exit 9\n"
    )
    old.chmod(0o755)
    done = run("make", "check", f"PYTHON={old}", cwd=sources)
    assert done.returncode != 0
    assert "copycert needs Python 3.11 or newer, this is 3.9.1" in done.stderr
    assert "Traceback" not in done.stderr and not (sources / ".venv").exists()
