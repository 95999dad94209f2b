"""What users keep and call stays: certificates, fields of JSON objects, options and Python names.

`golden/` holds it as an earlier version wrote it; new fields, options and names are free. `python
tests/house/test_golden.py` writes its four lists anew, for additions: what a change of a list takes away, a reader of
copycert loses. Certificates, weights and the training run there are never made anew. The two-layer copiers among them
have the width 16, not Theorem 3.2's 150, to be small; the rest of the file is as `copycert check` writes it.
"""

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import reduce
from importlib import import_module
from operator import getitem
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import click
import pytest
from click.testing import CliRunner

from copycert.command._main import cli
from proofs_check.verify import verify_file, verify_paths
from tests._commands import Report, make_report

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
CERTIFICATES = GOLDEN / "certificates"

PACKAGES = ("theory", "engine", "constructions", "proofs_check", "copycert")

#: Modules that the pages name for their contents.
PUBLIC_MODULES = ("proofs_check.verify", "proofs_check.testing")

#: A cheap call of every command with --json but `plot bounds`, which takes 15 s, and `check`, which has a report.
CALLS = {
    "verify": "verify GOLDEN GOLDEN/run",
    "bound grid": "bound grid --base 10000 --d 8 --scale 50 --a 2 --b 3 --full-witness",
    "bound two-layer": "bound two-layer --rho 100 --variant sharp --pairs 1 --beyond-theorem --dtype float64",
    "decide, impossible": "decide --relation shift --a 2 --b 3 --length 6 --out OUT/decide",
    "decide, possible": "decide --relation shift --a 2 --b 3 --length 2 --out OUT/decide",
    "thresholds": "thresholds --max-length 1",
    "floats": "floats --dtypes bfloat16",
    "minimize": "minimize --M 1 --L 2 --d 4 --starts 1 --out OUT/minimize",
    "train": "train --preset provable-1layer --encoding rope2d --steps 1 --max-length 4 --out OUT/train",
    "certify, refuted": "certify GOLDEN/run --max-length 6 --out OUT/refuted",
    "certify, proved": "certify GOLDEN/certificates/copier.safetensors --max-length 9 --find-limit --cap 50 --out OUT",
    "certify half": "certify GOLDEN/certificates/copier.safetensors --max-length 6 --criterion half --out OUT/half",
    "evaluate": "evaluate GOLDEN/run --distribution uniform --lengths 5,9 --samples 2",
    "attention": "attention GOLDEN/run --length 5 --no-plots --out OUT/attention",
    "compare": "compare --encodings rope2d --preset provable-1layer --seeds 1 --steps 1 --processes 1 --lengths 9 "
    "--samples 1 --distributions uniform --train-distributions uniform --no-plots --out OUT/compare",
}


def stored(name: str) -> Any:
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


def lost(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What was there before and is gone or another today; what is new does not count."""
    gone = [f"{key} is gone" for key in before if key not in now]
    changed = [key for key in before if key in now and before[key] != now[key]]
    return gone + [f"{key} was {before[key]}, is {now[key]}" for key in changed]


def test_what_is_lost_is_told() -> None:
    before = {"a": 1, "b": 2, "c": 3}
    assert lost(before, {**before, "d": 4}) == []
    assert lost(before, {"a": 1, "b": 5}) == ["c is gone", "b was 2, is 5"]


# --- certificates ------------------------------------------------------------------------------------------------


def verdicts(folder: Path) -> dict[str, Any]:
    """Kind, verdict and statement of every certificate in a folder."""
    found = {}
    for finding in verify_paths([folder]):
        assert finding.verdict is not None, finding
        path = Path(finding.file)
        kind = json.loads(path.read_text(encoding="utf-8"))["kind"]
        found[path.name] = {"kind": kind, "accepted": finding.verdict.accepted, "statement": finding.verdict.statement}
    return found


@pytest.mark.slow
def test_certificates_prove_what_they_proved() -> None:
    assert lost(stored("statements.json"), verdicts(CERTIFICATES)) == []


def test_there_is_a_certificate_of_every_kind() -> None:
    page = (ROOT / "docs" / "certificates.md").read_text(encoding="utf-8")
    specified = set(re.findall(r"^### `([\w-]+)`", page, re.MULTILINE))
    pinned = {entry["kind"] for entry in stored("statements.json").values() if entry["accepted"]}
    assert len(specified) >= 25 and specified == pinned
    assert {path.name for path in CERTIFICATES.glob("*.json")} == set(stored("statements.json"))


@pytest.mark.slow
def test_the_checker_s_own_command_proves_the_same() -> None:
    command = [sys.executable, "-m", "proofs_check.verify"]
    done = subprocess.run([*command, str(CERTIFICATES)], capture_output=True, text=True, check=False, cwd=ROOT)
    said = {Path(file).name: said for file, said in (line.split(": ", 1) for line in done.stdout.splitlines())}
    assert done.returncode == 0, done.stderr
    expected = {name: f"accepted: {entry['statement']}" for name, entry in stored("statements.json").items()}
    assert lost(expected, said) == []


@pytest.mark.slow
def test_the_checker_s_own_command_prints_the_same_json() -> None:
    command = [sys.executable, "-m", "proofs_check.verify", "--json", str(GOLDEN), str(GOLDEN / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    before = {path: types for path, types in stored("json_fields.json")["verify"].items() if "provenance" not in path}
    assert lost(before, spelled(done.returncode, done.stdout)) == []


@pytest.mark.parametrize("weights", sorted(CERTIFICATES.glob("*.safetensors")), ids=lambda path: path.name)
def test_one_byte_edited_in_a_weights_file_rejects_its_certificates(weights: Path, tmp_path: Path) -> None:
    of_it = [path for path in CERTIFICATES.glob("*.json") if f'"{weights.name}"' in path.read_text(encoding="utf-8")]
    assert of_it
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    (tmp_path / weights.name).write_bytes(content)
    for path in of_it:
        shutil.copy(path, tmp_path)
        assert not verify_file(tmp_path / path.name).accepted
        assert len(lost(stored("statements.json"), verdicts(tmp_path))) == len(stored("statements.json"))


def numbers(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of the numbers in a document, whether spelled as numbers or as strings."""
    if isinstance(value, dict | list):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(entry, (*here, key))
    elif re.fullmatch(r"-?\d+(/\d+)?", str(value)):
        yield here


def other_numbers(value: int | str) -> Iterator[int | str]:
    """A number a little larger and smaller, ten times larger, and negative, spelled as this one is."""
    number = Fraction(value)
    for other in (number + 1, number - 1, 10 * number + 7, -number - 1):
        yield type(value)(other)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(CERTIFICATES.glob("*.json")), ids=lambda path: path.name)
def test_one_number_edited_in_a_certificate_is_rejected(path: Path, tmp_path: Path) -> None:
    shutil.copytree(CERTIFICATES, tmp_path, dirs_exist_ok=True)
    text = path.read_text(encoding="utf-8")
    statement, rejected = stored("statements.json")[path.name]["statement"], 0
    for place in list(numbers({part: json.loads(text)[part] for part in ("claim", "inputs", "evidence")}))[:15]:
        for other in other_numbers(reduce(getitem, place, json.loads(text))):
            document = json.loads(text)
            reduce(getitem, place[:-1], document)[place[-1]] = other
            (tmp_path / path.name).write_text(json.dumps(document), encoding="utf-8")
            verdict = verify_file(tmp_path / path.name)
            rejected += not verdict.accepted
            # An edit of the evidence may leave a proof of the same statement, one of the rest never does.
            assert place[0] == "evidence" or verdict.statement != statement
    assert rejected


# --- fields of JSON objects ---------------------------------------------------------------------------------------

_TYPES = {bool: "bool", int: "int", float: "float", str: "str", type(None): "null", dict: "object", list: "list"}


def fields(value: Any, path: str = "") -> dict[str, set[str]]:
    """The types at every path of a JSON value: keys, `[]` for the entries of a list, `[ID]` for those with an id."""
    found = {path: {_TYPES[type(value)]}}
    entries: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        entries = ((f"{path}.{key}", entry) for key, entry in value.items())
    elif isinstance(value, list):
        names = (str(entry.get("id", "")) if isinstance(entry, dict) else "" for entry in value)
        entries = ((f"{path}[{name}]", entry) for name, entry in zip(names, value, strict=True))
    for where, entry in entries:
        for inner, types in fields(entry, where).items():
            found.setdefault(inner, set()).update(types)
    return found


def answered(name: str, out: Path) -> dict[str, str]:
    """The fields of what a call prints, with its exit code."""
    arguments = [word.replace("GOLDEN", str(GOLDEN)).replace("OUT", str(out)) for word in CALLS[name].split()]
    result = CliRunner().invoke(cli, [*arguments, "--json"], catch_exceptions=False)
    return spelled(result.exit_code, result.stdout)


def spelled(code: int, output: str) -> dict[str, str]:
    """The fields of a JSON object, each type or types in words, with the exit code that came with it."""
    said = {path or "(all)": " or ".join(sorted(types)) for path, types in fields(json.loads(output)).items()}
    return {"(exit code)": str(code), **said}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_json_objects_keep_their_fields(name: str, tmp_path: Path) -> None:
    assert lost(stored("json_fields.json")[name], answered(name, tmp_path)) == []


def test_a_report_keeps_its_fields(report: Report) -> None:
    assert lost(stored("json_fields.json")["check"], spelled(report.exit_code, report.printed)) == []


def test_a_lost_or_changed_field_is_told() -> None:
    before = fields({"rows": [{"n": 1}, {"n": None, "id": "x"}], "kept": "a"})
    assert before == {
        "": {"object"}, ".rows": {"list"}, ".rows[]": {"object"}, ".rows[].n": {"int"}, ".rows[x]": {"object"},
        ".rows[x].n": {"null"}, ".rows[x].id": {"str"}, ".kept": {"str"},
    }  # fmt: skip
    assert lost(before, fields({"rows": [{"n": 1}], "kept": "a"})) == [
        f".rows[x]{end} is gone" for end in ("", ".n", ".id")
    ]
    assert lost(before, fields({"rows": [{"n": 1.0}, {"n": None, "id": "x"}], "kept": "a", "new": 1})) == [
        ".rows[].n was {'int'}, is {'float'}"
    ]


def test_every_command_with_json_is_called_but_two() -> None:
    with_json = {words for words, command in commands() if any("--json" in p.opts for p in command.params)}
    called = {words for words in with_json if any(f"{call} ".startswith(f"{words} ") for call in CALLS.values())}
    assert with_json - called == {"plot bounds", "check"}
    assert {*CALLS, "check"} == set(stored("json_fields.json"))


# --- options -----------------------------------------------------------------------------------------------------


def commands(group: click.Group = cli, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command with the words that call it."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        yield before + name, command
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")


def options(command: click.Command) -> dict[str, list[str]]:
    """What a command accepts, options with a value as `--name=`, and what it requires."""
    accepted, required = [], []
    for parameter in command.params:
        names = [*parameter.opts, *parameter.secondary_opts]
        if isinstance(parameter, click.Option):
            spelled = [name + "=" * (not parameter.is_flag) for name in names]
        else:
            spelled = [f"{name.upper()}{' ...' * (parameter.nargs == -1)}" for name in names]
        accepted += spelled
        required += spelled[:1] if parameter.required else []
    return {"accepts": accepted, "requires": required}


def narrowed(before: Mapping[str, Any], today: Mapping[str, click.Command]) -> list[str]:
    """Calls that a command took before and does not take today."""
    found = [f"{words} is gone" for words in before if words not in today]
    for words in before.keys() & today.keys():
        now = options(today[words])
        found += [f"{words} {name} is gone" for name in before[words]["accepts"] if name not in now["accepts"]]
        found += [f"{words} needs {name}" for name in now["requires"] if name not in before[words]["requires"]]
    return found


def test_commands_keep_their_options() -> None:
    assert narrowed(stored("options.json"), dict(commands())) == []


def test_options_are_seen_with_their_values_and_needs() -> None:
    @click.command()
    @click.argument("files", nargs=-1, required=True)
    @click.option("--size", required=True)
    @click.option("--plots/--no-plots")
    def command() -> None:
        pass

    accepts, requires = ["FILES ...", "--size=", "--plots", "--no-plots"], ["FILES ...", "--size="]
    assert options(command) == {"accepts": accepts, "requires": requires}
    assert narrowed({"it": {"accepts": accepts[1:], "requires": requires}}, {"it": command, "new": command}) == []
    assert narrowed({"it": {"accepts": ["--size", "--plots"], "requires": ["FILES ..."]}}, {"it": command}) == [
        "it --size is gone",
        "it needs --size=",
    ]
    assert narrowed({"it": {}}, {"new": command}) == ["it is gone"]


# --- Python names ------------------------------------------------------------------------------------------------


def pages() -> dict[str, tuple[str, list[str]]]:
    """The text and the Python code of README, docs and notebooks; of pyproject.toml its text."""
    found: dict[str, tuple[str, list[str]]] = {}
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = path.read_text(encoding="utf-8")
        found[path.name] = (text, re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    for path in sorted((ROOT / "notebooks").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        found[path.name] = (text, [text])
    found["pyproject.toml"] = ((ROOT / "pyproject.toml").read_text(encoding="utf-8"), [])
    return found


def imported(code: str) -> Iterator[str]:
    """The names of our packages that a program imports."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in PACKAGES:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in PACKAGES)


def spoken_of(text: str, code: list[str]) -> set[str]:
    """The Python names that a page imports, spells with their package, or quotes bare where a package has them."""
    names = {name for block in code for name in imported(block)}
    names |= set(re.findall(rf"\b((?:{'|'.join(PACKAGES)})(?:\.[A-Za-z]\w*)+)", text))
    for bare in set(re.findall(r"`([A-Za-z]\w*)(?:\([^`]*\))?`", text)):
        for package in map(import_module, PACKAGES):
            # Asked for, since a face loads its names on demand; a submodule is there only once imported.
            if not isinstance(getattr(package, bare, package), ModuleType):
                names.add(f"{package.__name__}.{bare}")
    return names


def there(name: str) -> bool:
    """Is this dotted name a module, or an attribute of one?"""
    *ahead, last = name.split(".")
    try:
        import_module(name)
    except ModuleNotFoundError:
        try:
            return hasattr(import_module(".".join(ahead)), last)
        except ModuleNotFoundError:
            return False
    return True


def names_of_pages() -> list[str]:
    """All of them, with what the public modules hold."""
    names = set().union(*(spoken_of(*page) for page in pages().values()))
    for module in PUBLIC_MODULES:
        for name, value in vars(import_module(module)).items():
            if not name.startswith("_") and getattr(value, "__module__", "").startswith(module):
                names.add(f"{module}.{name}")
    return sorted(names)


@pytest.mark.parametrize("name", stored("names.json"))
def test_names_in_the_pages_are_there(name: str) -> None:
    assert there(name)


def test_names_are_found_in_pages() -> None:
    text = "Call `theory.certify_table(...)` of `exact_length(score)`, not `theory/numbers/_balls.py` or `length`. End."
    code = ["from theory import (\n    decide,\n    spell as s,\n)\nimport proofs_check.verify\nimport json\n"]
    assert spoken_of(text, code) == {
        "theory.certify_table", "theory.exact_length", "theory.decide", "theory.spell", "proofs_check.verify",
    }  # fmt: skip
    assert not there("theory.no_such_name") and not there("theory.no_such.name") and there("theory.decide")


def test_the_list_of_names_is_that_of_the_pages() -> None:
    assert set(names_of_pages()) - set(stored("names.json")) == set()


# --- writing the lists -------------------------------------------------------------------------------------------


def write(name: str, content: Any) -> None:
    (GOLDEN / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    write("statements.json", verdicts(CERTIFICATES))
    write("options.json", {words: options(command) for words, command in commands()})
    write("names.json", names_of_pages())
    with TemporaryDirectory() as out:
        report = make_report(Path(out) / "check")
        calls = {name: answered(name, Path(out) / name) for name in CALLS}
        write("json_fields.json", {"check": spelled(report.exit_code, report.printed), **calls})


if __name__ == "__main__":
    main()
