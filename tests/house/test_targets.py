"""`make quick`, `make test` and `make test-all`: each test has its place, and the README gives the same commands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")

#: What a test can be marked with.
MARKS = [(), ("slow",), ("deep",), ("slow", "deep")]


def recipe(target: str) -> tuple[list[str], str]:
    """What a target needs, and its one line."""
    found = re.search(rf"^{target}:(.*)\n\t(.*)$", MAKEFILE, re.MULTILINE)
    assert found is not None
    return found[1].split(), found[2]


def selects(target: str, marks: tuple[str, ...]) -> bool:
    """Does the target's expression select a test with these marks?"""
    expression = re.search(r'-m "?([^"]+)"?$', recipe(target)[1])
    assert expression is not None
    return bool(eval(expression[1], {}, {name: name in marks for name in ("slow", "deep")}))


@pytest.mark.parametrize("marks", MARKS)
def test_every_test_runs_once_in_test_all(marks: tuple[str, ...]) -> None:
    assert recipe("test-all")[0] == ["test"]
    assert selects("test", marks) != selects("test-all", marks)
    assert selects("quick", marks) == (not marks)


def test_continuous_integration_runs_all_of_it() -> None:
    lines = [line.split(" #")[0].strip() for line in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()]
    assert {"make coq", "make test-all"} <= set(lines)


def test_the_readme_s_commands_are_the_makefile_s() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    runner = re.search(r"^PYTEST := (.*)$", MAKEFILE, re.MULTILINE)
    assert runner is not None
    for target in ("quick", "test", "test-all"):
        command = recipe(target)[1].replace("$(PYTEST)", runner[1]).replace("$(BIN)", ".venv/bin")
        assert re.search(rf"^\| `make {target}` \|.*`{re.escape(command)}`", readme, re.MULTILINE), command
