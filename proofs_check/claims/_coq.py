"""Theorem 3.1's impossibility in Coq: run the proofs on this machine, and say that they speak of the same cases.

A claim is labelled `kernel` only in a run that compiled the proofs itself; elsewhere it is `exact`, kernel-checked in
CI.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from theory import InputError
from theory.signs import THEOREM_3_1, Case

COQ = Path(__file__).parents[1] / "coq"

#: The list of cases in Cases.v for each certificate.
DEFINITIONS = {"opposite-signs": "cases_opposite", "any-signs": "cases_any", "b-1": "cases_one_token"}


class KernelError(RuntimeError):
    """Coq does not accept the proofs, or they speak of other cases than the certificates; one line."""


def run_kernel(directory: Path = COQ) -> str:
    """Compile every proof from scratch with Coq; returns Coq's version line.

    Args:
        directory: where the .v files and check.sh are.

    Raises:
        InputError: no coqc on this machine.
        KernelError: a proof fails, rests on more than the axioms of Coq's reals, or has other cases.

    Cost: 20 to 60 s, about 1 GB of memory.
    """
    if shutil.which("coqc") is None:
        raise InputError("--kernel", "no coqc", "used where Coq 8.16 is installed (Debian: apt-get install coq)")
    for name, definition in DEFINITIONS.items():
        if cases_in_coq(definition, directory) != THEOREM_3_1[name].cases:
            raise KernelError(f"{definition} in Cases.v has other cases than the certificate {name}")
    done = subprocess.run(["sh", str(directory / "check.sh")], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        raise KernelError(lines[-1])
    return done.stdout.splitlines()[0]


def cases_in_coq(definition: str, directory: Path = COQ) -> tuple[Case, ...]:
    """The cases of a `Definition name : ... := [...]` of Cases.v, () if there is none."""
    text = (directory / "Cases.v").read_text(encoding="utf-8")
    body = re.search(rf"Definition {definition} [^\[]*:=\s*\[(.*?)\]\.", text, re.DOTALL)
    triples = re.findall(r'\(bits "([01]+)", (\d+), (\d+)\)', body[1]) if body else []
    return tuple(Case(string, int(step), int(multiplier)) for string, step, multiplier in triples)
