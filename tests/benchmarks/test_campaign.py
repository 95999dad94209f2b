"""The file of rows: torn lines, batches, parts, other parameters, other folders; hashes of folders."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks import _campaign
from benchmarks._campaign import Results, read
from benchmarks._provenance import ROOT, is_of_present_folders, provenance
from benchmarks.results._tables import RESULTS


@pytest.fixture(autouse=True)
def trees(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The provenance of everything opened; a test may change it."""
    now: dict[str, Any] = {"trees": {"theory": "1" * 40}, "clean": True}
    monkeypatch.setattr(_campaign, "provenance", lambda folders: json.loads(json.dumps(now)))
    return now


def opened(path: Path, **options: Any) -> Results:
    return Results(path, {"seed": 0, "scale": 1.0}, ("theory",), **options)


def number(row: dict[str, Any]) -> int:
    return int(row["number"])


def test_a_head_line_and_a_short_line_a_row(tmp_path: Path) -> None:
    out = tmp_path / "new" / "r.jsonl"
    opened(out).add({"number": 0, "x": 0.1}, {"number": 1, "x": None})
    head = '{"trees":{"theory":"' + "1" * 40 + '"},"clean":true,"seed":0,"scale":1.0}'
    assert out.read_text() == head + '\n{"number":0,"x":0.1}\n{"number":1,"x":null}\n'


@pytest.mark.parametrize("cut", [1, 5, 20, 21, 25])
def test_a_torn_line_is_dropped_and_its_row_is_missing(cut: int, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    opened(out).add({"number": 0, "x": 0.1}, {"number": 1, "x": 0.2})
    whole = out.read_bytes()
    out.write_bytes(whole[:-cut])
    left = opened(out).missing(range(3), number)
    assert left == ([1, 2] if cut <= 21 else [0, 1, 2])
    results = opened(out)
    results.add(*({"number": n, "x": 0.1 * (n + 1)} for n in left if n < 2))
    assert out.read_bytes() == whole


def test_a_file_torn_within_its_head_is_begun_anew(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    opened(out)
    whole = out.read_bytes()
    out.write_bytes(whole[:10])
    assert opened(out).rows == [] and out.read_bytes() == whole


def test_a_torn_batch_is_dropped_whole(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    opened(out).add(*({"number": n // 3, "x": n} for n in range(6)))
    out.write_bytes(out.read_bytes()[:-3])
    results = opened(out)
    assert results.missing(range(2), number, each=3) == [1]
    assert read(out)[1] == results.rows == [{"number": 0, "x": n} for n in range(3)]


def test_other_parameters_are_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r.jsonl"
    opened(out).add({"number": 0})
    whole = out.read_bytes()
    for parameters in ({"seed": 0, "scale": 0.1}, {"seed": 0}, {"seed": 0, "scale": 1.0, "d": 4}):
        with pytest.raises(SystemExit) as stopped:
            Results(out, parameters, ("theory",))
        assert stopped.value.code == 2 and out.read_bytes() == whole
        assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(SystemExit):
        Results(out, {"seed": 0, "scale": 0.1}, ("theory",), parts=["a"])


@pytest.mark.parametrize("text", ['{\n "seed": 0\n}\n', "seed 0\n", '{"seed":0,"scale":1.0}\n{"nu\n{"number":1}\n'])
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    out.write_text(text)
    with pytest.raises(SystemExit):
        opened(out)
    assert out.read_text() == text


@pytest.mark.parametrize("change", [{"trees": {"theory": "2" * 40}}, {"clean": False}])
def test_results_of_other_folders_are_begun_anew(change: dict[str, Any], trees: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    opened(out).add({"number": 0})
    trees.update(change)
    assert opened(out).rows == []
    assert read(out)[0] == {**trees, "seed": 0, "scale": 1.0}


def test_only_the_parts_asked_for_are_begun_anew(trees: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    opened(out, parts=["a", "b"]).add({"part": "a", "x": 1}, {"part": "b", "x": 2})
    old = dict(trees)
    trees["trees"] = {"theory": "2" * 40}
    results = opened(out, parts=["b", "c"])
    assert results.rows == [{"part": "a", "x": 1}]
    results.add({"part": "b", "x": 3})
    assert read(out)[0]["parts"] == {"a": old, "b": trees, "c": trees}
    assert opened(out, parts=["b"]).missing(["b"], lambda row: str(row["part"])) == []


# Provenance.


def git(root: Path, *arguments: str) -> str:
    names = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    return subprocess.run(
        ["git", *names, *arguments], cwd=root, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("a/x.py", "a/deep/y.py", "b/x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


def test_hashes_are_those_of_the_folders(repository: Path) -> None:
    found = provenance(("a", "a/deep", "b/x.py"), repository)
    assert found["clean"] and found["trees"]["a/deep"] == git(repository, "rev-parse", "HEAD:a/deep")
    assert is_of_present_folders(found, ("a", "a/deep", "b/x.py"), repository)
    assert not is_of_present_folders(found, ("a",), repository)


def test_another_folder_s_commit_changes_nothing_and_the_own_does(repository: Path) -> None:
    found = provenance(("a",), repository)
    for name, present in (("b/x.py", True), ("a/deep/y.py", False)):
        (repository / name).write_text("other")
        assert is_of_present_folders(found, ("a",), repository) is present  # not clean is not present
        git(repository, "commit", "-qam", "two")
        assert is_of_present_folders(found, ("a",), repository) is present


def test_what_is_not_clean_is_never_present(repository: Path) -> None:
    (repository / "a" / "new.py").write_text("untracked")
    found = provenance(("a",), repository)
    assert not found["clean"]
    (repository / "a" / "new.py").unlink()
    assert not is_of_present_folders(found, ("a",), repository)
    assert provenance(("a",), repository)["clean"] and not provenance(("a", "nowhere"), repository)["clean"]


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_stored_results_name_folders_of_their_commit(path: Path) -> None:
    """As long as the commit is in the repository; a shallow copy has it not."""
    head, rows = read(path)
    assert rows and _campaign.text_of(head, rows) == path.read_bytes()
    for of in head["parts"].values() if "parts" in head else [head]:
        assert of["clean"] is True and all(len(tree) == 40 for tree in of["trees"].values())
        inside = subprocess.run(["git", "cat-file", "-e", of.get("commit", "HEAD")], cwd=ROOT, capture_output=True)
        if "commit" in of and inside.returncode == 0:
            for folder, tree in of["trees"].items():
                assert git(ROOT, "rev-parse", f"{of['commit']}:{folder}") == tree
