"""A statement names what it is about: every edit of a certificate's inputs or claim changes it, or is rejected."""

import copy
import json
import shutil
from collections.abc import Iterator
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from constructions import build_grid_copier
from copycert.command._main import main
from proofs_check.verify import verify_file
from proofs_check.verify._verdict import _CHECKS
from proofs_check.verify.reading import _work
from tests._commands import Report
from theory import draw_grid_frequencies

Document = dict[str, Any]

#: For each kind, how the names of its genuine certificates end.
GENUINE = {
    "weights-norm": ("draw-0000-paper-norm", "two-layer-rho-14401-a-2-b-3-paper-norm"),
    "grid-separation": ("draw-0000-paper-separation",),
    "grid-scan": ("tied-copies",),
    "grid-counterexample": ("free-counterexample", "many-flips"),
    "failure-probability": ("failure-probability-all-tokens-1-12", "failure-probability-three-tokens-7-20"),
    "failure-probability-at": ("bits-1024-failure-probability",),
    "cosine-lemma": ("cosine-lemma",),
    "cosine-step-counterexample": ("cosine-step-counterexample",),
    "dirichlet-ceiling": ("dirichlet-ceiling", "dirichlet-by-amplitude"),
    "sign-cancellation": ("theorem-3-1-opposite-signs", "theorem-3-1-b-1"),
    "sign-witness": ("theorem-3-1-printed",),
    "minimiser-gap": ("free-first-gap", "free-later-gap", "tied-gap", "gap-by-base"),
    "minimiser-limit-failure": ("free-limit-failure",),
    "minimiser-loss": ("free-loss", "tied-loss"),
    "two-layer-length": ("paper-length", "repeated-length"),
    "two-layer-counterexample": ("sharp-pairs-1-counterexample",),
    "two-layer-wrong-step": ("two-layer-repeated-anchors",),
    "anchor-curve-lemma": ("paper-lemma",),
    "anchor-curve-pair": ("anchor-pair",),
    "two-layer-all-budgets": ("two-layer-all-budgets",),
    "plane-curve-ceiling": ("plane-ceiling", "plane-by-scale"),
    "attention-share-ceiling": ("attention-share",),
    "one-layer-copies": ("copier-copies",),
    "one-layer-branching": ("copier-branching",),
    "one-layer-counterexample": ("copier-counterexample",),
}


@pytest.fixture(scope="module")
def genuine(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with certificates of every kind."""
    folder = tmp_path_factory.mktemp("genuine")
    for file in report.certificates("14401"):
        shutil.copy(file, folder)
    copier = build_grid_copier(6, 8, 2, 3, draw_grid_frequencies(8, 0, 0))
    digest = copier.save(folder / "copier.safetensors")
    for longest in ("20", "40"):
        out = ("--out", str(folder / longest))
        with pytest.raises(SystemExit):
            main(["certify", str(folder / "copier.safetensors"), "--max-length", longest, *out])
        for file in (folder / longest).glob("copier-[cw]*"):
            file.replace(folder / file.name)
    copies = read(folder / "copier-copies.json")
    leaves = {"thresholds": [], "bounded_to": 0, "trees": [[[[0]]] * 2, [[[0]]] * 6]}
    claim = {"criterion": "argmax", "copies_up_to": 2}
    write(folder / "copier-branching.json", "one-layer-branching", copies["inputs"], leaves, claim)
    weights = {"weights": {"file": "copier.safetensors", "sha256": digest}}
    claim = {"length": 500, "background": 0, "flips": list(range(1, 500, 20)), "step": 1}
    write(folder / "many-flips.json", "grid-counterexample", weights, {}, claim)
    lemma = read(folder / "two-layer-rho-14401-a-2-b-3-paper-lemma.json")
    claim = {"i": 3, "j": 4, "denominator": 100}
    write(folder / "anchor-pair.json", "anchor-curve-pair", lemma["inputs"], {}, claim)
    write(folder / "plane-by-scale.json", "plane-curve-ceiling", {"scale": "7/3"}, {}, {"fails_at": 10})
    amplitude = {"d": 8, "column_amplitude": "7/3"}
    write(folder / "dirichlet-by-amplitude.json", "dirichlet-ceiling", amplitude, {"q": 9}, {"fails_at": 163})
    by_base = {"frequencies": {"base": 100, "d": 8}, "length": 2, "asker": "last"}
    half = {"row": [[1, 0]] * 2, "column": [[1, 0]] * 2, "multipliers": [[-1, 1, 1]]}
    write(folder / "gap-by-base.json", "minimiser-gap", by_base, half, {"at_least": 0, "at_most": 4})
    return folder


def write(path: Path, kind: str, inputs: Document, evidence: Document, claim: Document) -> None:
    document = {"schema": 1, "kind": kind, "inputs": inputs, "evidence": evidence, "claim": claim}
    path.write_text(json.dumps(document))


def read(path: Path) -> Document:
    document: Document = json.loads(path.read_text())
    return document


def of_kind(folder: Path, kind: str) -> list[Path]:
    """The certificates of a kind that the table names; every name must be there, and of the kind."""
    found = []
    for ending in GENUINE[kind]:
        path = next(path for path in sorted(folder.glob(f"*{ending}.json")))
        assert read(path)["kind"] == kind
        found.append(path)
    return found


def edits(value: Any) -> Iterator[Any]:
    """Other values in the place of this one: each leaf changed, each list shortened and put in another order."""
    if isinstance(value, dict):
        for key in value:
            yield from ({**value, key: other} for other in edits(value[key]))
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from ([*value[:index], other, *value[index + 1 :]] for other in edits(entry))
            yield [*value[:index], *value[index + 1 :]]
            if value[index + 1 :] and value[index + 1] != entry:
                yield [*value[:index], value[index + 1], entry, *value[index + 2 :]]
    elif value is None or isinstance(value, bool):
        yield from (0, 1, 2, not value)
    elif isinstance(value, int):
        yield from (value + 1, value - 1, 2 * value + 1)
    else:
        yield from words(value)


def words(text: str) -> Iterator[Any]:
    """Other strings: numbers a little and much larger, one of the words that some field may hold, a changed letter."""
    try:
        number = Fraction(text)
    except ValueError:
        number = None
    if number is not None and len(text) < 64:
        for other in (number + 1, number * Fraction(101, 100), number + Fraction(1, 10**40), -number):
            yield str(other)
    elif number is not None:
        yield str(number + Fraction(1, 2**1100))
        yield str(number + Fraction(1, 7))
    for other in ("any", "opposite", "equal", "last", "data", "free", "tied", "paper", "three-tokens", "turn", "radian",
                  "shift", "nope", "absolute", "grid", "bipe", "argmax", "half"):  # fmt: skip
        if other != text:
            yield other
    yield text[:-1] + ("0" if text[-1:] != "0" else "1")


def test_the_table_names_every_kind() -> None:
    assert set(GENUINE) == set(_CHECKS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(_CHECKS))
def test_every_edit_of_the_inputs_or_the_claim_is_another_statement_or_rejected(genuine: Path, kind: str) -> None:
    for path in of_kind(genuine, kind):
        document = read(path)
        statement = verify_file(path).statement
        assert statement, verify_file(path).reason
        count = 0
        for part in ("inputs", "claim"):
            for other in edits(document[part]):
                changed = copy.deepcopy(document)
                changed[part] = other
                (genuine / "edited.certificate").write_text(json.dumps(changed))
                verdict = verify_file(genuine / "edited.certificate")
                assert verdict.statement != statement, (part, other)
                count += 1
        assert count > 1


def test_the_same_frequencies_have_one_name_however_they_are_spelled(genuine: Path) -> None:
    for ending, spelled in (
        ("gap-by-base", {"base": "200/2", "d": "8"}),
        ("gap-by-base", {"base": "100.0", "d": 8}),
    ):
        path = next(iter(genuine.glob(f"*{ending}.json")))
        document = read(path)
        document["inputs"]["frequencies"] = spelled
        (genuine / "edited.certificate").write_text(json.dumps(document))
        assert verify_file(genuine / "edited.certificate").statement == verify_file(path).statement


def test_a_digest_is_of_the_text_that_the_documentation_specifies(genuine: Path) -> None:
    path = next(iter(genuine.glob("*free-first-gap.json")))
    frequencies = read(path)["inputs"]["frequencies"]
    lowest = {name: [str(Fraction(x)) for x in frequencies[name]] for name in ("row", "column")}
    text = json.dumps({"unit": frequencies["unit"], **lowest}).replace(" ", "")
    assert f"SHA-256 {sha256(text.encode()).hexdigest()[:16]}..." in (verify_file(path).statement or "")


#: Values that some check of a field might not expect.
GARBAGE: tuple[Any, ...] = (
    None, True, 0, -1, 2**53, 1.5, "nan", "1/0", "9" * 19_999, "-" + "9" * 19_999, "1/" + "9" * 19_990,
    "0." + "0" * 9000 + "1", [], {}, "", "x", [[]], [[[]]], {"a": 1}, "1e400", str(10**30), "1/3", "-1/2",
    {"base": "9" * 9000, "d": 4096}, {"unit": "turn", "row": ["1/2"] * 300, "column": ["1/3"] * 300},
)  # fmt: skip


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all values in a document; of a long list the first and the last entries."""
    yield here
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*here, key))
    elif isinstance(value, list):
        for index in sorted({0, 1, len(value) - 1} & set(range(len(value)))):
            yield from places(value[index], (*here, index))


@pytest.mark.deep
@pytest.mark.parametrize("kind", sorted(_CHECKS))
def test_garbage_in_any_place_is_no_accident(genuine: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Genuine certificates take a hundredth of the limit; garbage may take all of it.
    monkeypatch.setattr(_work, "MOST_UNITS", _work.MOST_UNITS // 60)
    document = read(of_kind(genuine, kind)[0])
    for path in places(document):
        if not path:
            continue
        for garbage in GARBAGE:
            changed = copy.deepcopy({"": document})
            place: Any = changed
            for key in ("", *path)[:-1]:
                place = place[key]
            place[("", *path)[-1]] = garbage
            (genuine / "edited.certificate").write_text(json.dumps(changed[""]))
            verdict = verify_file(genuine / "edited.certificate")
            assert verdict.accepted or "broke off" not in (verdict.reason or ""), (path, garbage, verdict)
