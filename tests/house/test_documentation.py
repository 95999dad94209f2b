"""Documentation is executed and compared with the code."""

import json
import re
from pathlib import Path

import click
import pytest

from copycert.command._main import cli
from tests._commands import Report
from theory.numbers._closed_forms import closed_forms_page

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_run(page: Path) -> None:
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, page.name, "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_exist(page: Path) -> None:
    names = re.findall(
        r"`((?:theory|engine|constructions|proofs_check|copycert|docs|tests|benchmarks)/[\w./-]*)`",
        page.read_text(encoding="utf-8"),
    )
    assert names
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_closed_forms_page_is_the_code_s_own() -> None:
    assert (ROOT / "docs" / "closed-forms.md").read_text(encoding="utf-8") == closed_forms_page()


def test_commands_and_options_in_the_readme_exist() -> None:
    for line in re.findall(r"^copycert (.*?)(?:\s+#.*)?$", README, re.MULTILINE):
        command: click.Command = cli
        words = line.split()
        while words and isinstance(command, click.Group):
            command = command.get_command(click.Context(command), words.pop(0))
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known


def test_make_targets_in_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make ([\w-]+)`", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_every_claim_of_a_report_is_in_the_readme_s_table_by_its_certificate(report: Report) -> None:
    kinds = {json.loads(path.read_text())["kind"] for path in (report.out / "certificates").glob("*.json")}
    assert kinds and all(f"`{kind}`" in README for kind in kinds)
    page = (ROOT / "docs" / "certificates.md").read_text(encoding="utf-8")
    assert all(f"### `{kind}`" in page for kind in kinds)
