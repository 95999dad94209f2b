"""`copycert`, the front: its names, what they answer, and what importing and starting it costs."""

import json
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
import torch

import copycert
from copycert.command import main
from copycert.command._main import COMMANDS, cli
from engine import AutoGridRoPE, Encoding, ModelConfig, RoPE, Transformer, build_model
from proofs_check.certify import Subject
from tests.models.small import Sample, copying_sample, random_sample

HEAVY = ("torch", "scipy", "sympy", "matplotlib", "lightning_fabric", "transformers", "pandas")

GOLDEN = Path(__file__).parents[1] / "house" / "golden"

#: No printed answer is longer.
LONGEST_REPR = 300


def loaded(code: str, *arguments: str) -> set[str]:
    """Which heavy packages a fresh interpreter has loaded at the end of some code."""
    ending = f"import sys; print('LOADED', *[n for n in {HEAVY!r} if n in sys.modules])"
    program = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\n{ending}"
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return set(done.stdout.rsplit("LOADED", 1)[1].split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["chekc"], ["verify", str(GOLDEN / "certificates" / "anchor-pair.json")]]
)
def test_starting_loads_nothing_heavy(arguments: list[str]) -> None:
    assert not loaded("from copycert.command import main; main(sys.argv[1:])", *arguments)


@pytest.mark.slow
def test_importing_the_front_loads_nothing_heavy_and_a_model_does() -> None:
    assert not loaded("import copycert; dir(copycert)")
    assert "torch" in loaded("from copycert import certify")


def test_every_name_of_the_front_is_there_and_documented() -> None:
    assert len(copycert.__all__) <= 30
    for name in copycert.__all__:
        assert getattr(copycert, name).__doc__ or name == "Frequency", name
    for name in ("certify", "load", "save", "verify", "bound", "decide", "check", "train", "evaluate"):
        assert name in copycert.__all__


def test_the_list_of_commands_is_what_the_commands_say() -> None:
    """The lines of `copycert --help` are kept apart from the commands, so that nothing is imported for them."""
    import click

    for name, (_, _, line) in COMMANDS.items():
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        assert command.name == name
        assert line.endswith((".", "?"))
        assert command.help


def short(answer: object) -> str:
    text = repr(answer)
    assert len(text) < LONGEST_REPR
    assert "\n" not in text
    return text


def test_bounds_answer_in_one_vocabulary() -> None:
    grid = copycert.bound("grid", base=10_000, d=8, scale=50, a=2, b=3)
    assert grid.status == "PROVED"
    assert grid.exact and grid.witness is not None
    assert grid.fails_at == grid.proved_to + 1 == grid.witness.length
    assert "PROVED" in short(grid)
    capped = copycert.bound_grid(base="10000", d=8, scale=Fraction(50), a=2, b=3, limit=5)
    assert (capped.status, capped.proved_to, capped.fails_at, capped.exact) == ("PROVED", 5, None, False)
    two = copycert.bound("two-layer", rho=20_000)
    assert two.status == "PROVED" and two.proved_to > 0
    assert two.document()["proved_to"] == two.proved_to
    short(two)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"base": 2, "scale": 1, "a": 1, "b": 2}, "frequencies = base: must be"),
        ({"scale": 1, "a": 1, "b": 2}, "frequencies = none"),
        ({"base": 2, "d": 8, "scale": "x", "a": 1, "b": 2}, "scale = x"),
        ({"base": 2, "d": 8, "scale": 1, "a": 0, "b": 2}, "a = 0"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(copycert.InputError, match=named):
        copycert.bound_grid(**arguments)  # type: ignore[arg-type]
    with pytest.raises(copycert.InputError, match="copier = spiral"):
        copycert.bound("spiral")  # type: ignore[arg-type]


@pytest.mark.slow
def test_decisions_are_checked_and_kept(tmp_path: Path) -> None:
    decision = copycert.decide("shift", 2, 3, 6, "opposite", out=tmp_path)
    assert not decision.possible
    assert "impossible" in short(decision)
    (file,) = tmp_path.iterdir()
    found = copycert.verify(file)
    assert found.accepted and len(found.statements) == 1
    short(found)
    document = json.loads(file.read_text())
    document["kind"] = "no such kind"
    file.write_text(json.dumps(document))
    assert not copycert.verify(tmp_path).accepted
    assert copycert.verify(tmp_path).exit_code == 1
    assert copycert.verify(tmp_path / "nothing.json").exit_code == 2
    assert not copycert.verify().accepted


@pytest.mark.slow
def test_a_relation_of_ones_own_is_decided(tmp_path: Path) -> None:
    """Rows and columns as a grid sees them: the same answer, and no certificate, as the checker knows none."""

    def rows_and_columns(query: tuple[int, int, int], key: tuple[int, int, int]) -> tuple[int, ...]:
        return query[0] - key[0], query[1] - key[1]

    mine, known = copycert.decide(rows_and_columns, 2, 3, 4), copycert.decide("grid", 2, 3, 4)
    assert mine.possible is known.possible is True
    assert "rows_and_columns" in short(mine)
    with pytest.raises(copycert.InputError, match="rows_and_columns"):
        copycert.decide(rows_and_columns, 2, 3, 4, out=tmp_path / "out")


def same(left: Transformer, right: Transformer) -> bool:
    mine, theirs = left.state_dict(), right.state_dict()
    return mine.keys() == theirs.keys() and all(
        torch.equal(mine[name].double(), theirs[name].double()) for name in mine
    )


@pytest.mark.slow
def test_what_is_saved_is_loaded_again(tmp_path: Path) -> None:
    """Encodings of all kinds, several heads, norms and layouts: the same numbers, prompt and verdict."""
    for seed in range(40):
        sample = random_sample(seed, heads=1 + seed % 2)
        path = tmp_path / f"{seed}.safetensors"
        digest = copycert.save(sample.model, path, sample.template)
        loaded_again = copycert.load(path)
        assert same(sample.model, loaded_again.model)
        assert loaded_again.template == sample.template
        first = copycert.certify(copycert.load(sample.model, sample.template), 3)
        again = copycert.certify(loaded_again, 3)
        assert (first.status, first.proved_to, first.fails_at, first.worst.difference) == (
            again.status, again.proved_to, again.fails_at, again.worst.difference,
        )  # fmt: skip
        assert copycert.save(loaded_again, tmp_path / "again.safetensors") == digest
        short(loaded_again)
        short(again)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["nope", "alibi", "rope", "rope2d", "auto2d"])
def test_every_encoding_is_saved_and_loaded(encoding: str, tmp_path: Path) -> None:
    model = build_model(ModelConfig(encoding, model_width=8, heads=2), 0).requires_grad_(False)
    placed = model.block(0).attention.encoding
    if isinstance(placed, AutoGridRoPE):
        # All gates at 1: one row.
        placed.gate.weight.zero_()
        placed.gate.bias.fill_(8.0)
    first = copycert.load(model)
    copycert.save(first, tmp_path / "w.safetensors")
    again = copycert.load(tmp_path / "w.safetensors")
    assert type(again.model.block(0).attention.encoding) is type(placed)
    assert again.model.block(0).attention.encoding.slopes == placed.slopes
    assert same(model, again.model)
    tokens = torch.tensor([2, 0, 1, 2, 4, 2, 0])
    assert torch.equal(model.last_logits(tokens), again.model.last_logits(tokens))
    found, later = copycert.certify(first, 2), copycert.certify(again, 2)
    assert (found.status, found.worst.difference) == (later.status, later.worst.difference)


@pytest.mark.slow
def test_the_file_of_a_certificate_is_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = next(s for s in samples() if copycert.certify(subject(s), 6).status == "PROVED")
    found = copycert.certify(subject(sample), max_length=6, find_limit=True, cap=50)
    path = found.write(tmp_path / "proof")
    assert path is not None
    assert copycert.verify(tmp_path / "proof").accepted
    weights = next((tmp_path / "proof").glob("*.safetensors"))
    with pytest.raises(SystemExit) as ended:
        main(["certify", str(weights), "--max-length", "6", "--json"])
    assert ended.value.code == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["status"], document["proved_to"]) == ("PROVED", 6)
    assert document["margin"] == pytest.approx(found.margin)
    with pytest.raises(copycert.InputError, match="max_length is 6, not 5"):
        copycert.certify(subject(sample), 5).write(tmp_path / "proof")


def subject(sample: Sample) -> Subject:
    return copycert.load(sample.model, sample.template)


def samples() -> Iterator[Sample]:
    return (copying_sample(seed, noise=0.05) for seed in range(50))


def test_damage_is_told_from_other_weights(tmp_path: Path) -> None:
    sample = random_sample(1)
    path = tmp_path / "w.safetensors"
    copycert.save(sample.model, path, sample.template)
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(copycert.InputError, match="do not match their digest"):
        copycert.load(path)


def test_exit_codes_of_certify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 proved, 1 refuted; with --find-limit 0 where the limit is decided, refuted or not."""
    sample = next(s for s in samples() if copycert.certify(subject(s), 12).status == "REFUTED")
    path = tmp_path / "w.safetensors"
    copycert.save(sample.model, path, sample.template)
    found = copycert.certify(copycert.load(path), 12)
    assert found.witness is not None and found.exact
    for arguments, code in (
        (["--max-length", "12"], 1),
        (["--max-length", "12", "--find-limit"], 0),
        *(((["--max-length", str(found.proved_to)], 0),) if found.proved_to else ()),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["certify", str(path), *arguments])
        assert ended.value.code == code
    told = capsys.readouterr().out
    assert "REFUTED" in told


@pytest.mark.parametrize(
    ("text", "value"),
    [("1000000", 10**6), ("1_000_000", 10**6), ("1e6", 10**6), ("1.5e1", 15), ("0", 0), ("-3", -3), ("1E2", 100)],
)
def test_counts_are_spelled_as_people_spell_them(text: str, value: int) -> None:
    from copycert.command._options import count_of

    assert count_of(text, "n") == value


@pytest.mark.parametrize("text", ["1.5", "1e-3", "1__0", "_1", "", "x", "1,000", "0x10", "1e9999", "٣"])
def test_what_is_no_count_is_one_line(text: str) -> None:
    from copycert.command._options import count_of

    with pytest.raises(copycert.InputError, match="whole number") as raised:
        count_of(text, "--n")
    assert "\n" not in str(raised.value)
    if text == "1,000":
        assert "1_000" in str(raised.value)


def test_json_has_no_nan() -> None:
    """A run that diverged has a loss of nan, which is no JSON."""
    from copycert.command._options import without_nan

    document = {"loss": float("nan"), "more": [1, 2.5, float("inf"), {"x": -float("inf")}], "text": "NaN"}
    assert without_nan(document) == {"loss": None, "more": [1, 2.5, None, {"x": None}], "text": "NaN"}


def test_choices_forgive_case_and_hyphens(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["decide", "--relation", "shift", "--a", "2", "--b", "3", "--length", "3", "--signs", "OPPOSITE"])
    assert ended.value.code == 0
    with pytest.raises(SystemExit) as ended:
        main(["decide", "--relation", "shift", "--a", "2", "--b", "3", "--length", "3", "--signs", "odd"])
    assert ended.value.code == 2
    assert "--signs = odd: must be one of any, opposite, equal" in capsys.readouterr().err


def test_a_model_of_the_engine_is_taken_as_it_stands(tmp_path: Path) -> None:
    """Also one with an encoding that turns nothing, and one whose tokens have no names."""
    sample = random_sample(3)
    loaded_model = copycert.load(sample.model, sample.template)
    assert loaded_model.model is sample.model
    assert loaded_model.token(sample.template.data[1]) == "1"
    assert loaded_model.token(max(sample.template.tokens)).startswith(("token", "0", "1"))
    assert isinstance(sample.model.block(0).attention.encoding, Encoding | RoPE)


@pytest.mark.slow
def test_reports_and_evaluations_print_short(tmp_path: Path) -> None:
    run = copycert.train("provable-1layer", "rope2d", tmp_path / "run", steps=2, max_length=8, accelerator="cpu")
    short(run)
    found = copycert.evaluate(tmp_path / "run", [5, 6], "uniform", samples=2)
    assert "NOT CONVERGED" in short(found)
    assert found.document()["method"] == "sampled"
