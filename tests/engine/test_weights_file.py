"""Weights files: what is loaded is what is stored, and what does not fit is told by its name."""

import errno
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from constructions import build_grid_copier, load_grid_copier
from constructions._exact_weights import exact_matrix
from engine import load_run, load_weights, preset_run, save_run, save_weights, write_atomically
from engine.training._run_directory import DIGEST, load_digested, save_digested
from theory import InputError, draw_grid_frequencies

CONFIG = preset_run("provable-1layer", "rope2d", steps=1, max_length=8)
QUERY = "blocks.0.attention.query.weight"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    save_run(path, CONFIG, CONFIG.build())
    return path


def edit(path: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> Path:
    """The same run's file with tensors changed, and their digest."""
    tensors, metadata = load_digested(path)
    metadata.pop(DIGEST)
    change(tensors)
    save_digested(path, tensors, metadata)
    return path


def told(path: Path, load: Callable[[Path], Any] = load_run) -> str:
    with pytest.raises(InputError) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(path), "FILE")


def cast(tensors: dict[str, torch.Tensor], formats: dict[str, torch.dtype], rest: torch.dtype) -> None:
    for name in tensors:
        tensors[name] = tensors[name].to(formats.get(name, rest))


@pytest.mark.parametrize(
    ("embedding", "rest", "model"),
    [
        (torch.bfloat16, torch.float64, torch.float64),
        (torch.float16, torch.bfloat16, torch.float32),
        (torch.float32, torch.float64, torch.float64),
        (torch.bfloat16, torch.bfloat16, torch.bfloat16),
    ],
)
def test_every_stored_number_is_kept(file: Path, embedding: torch.dtype, rest: torch.dtype, model: torch.dtype) -> None:
    edit(file, lambda tensors: cast(tensors, {"embedding.weight": embedding}, rest))
    if rest == torch.float64:  # numbers that no narrower format holds
        edit(file, lambda tensors: tensors[QUERY].add_(1e-13))
    stored, _ = load_weights(file)
    _, loaded = load_run(file)
    for name, tensor in loaded.state_dict().items():
        assert tensor.dtype == model and torch.equal(tensor.double(), stored[name].double())


def test_a_construction_is_kept_as_stored(tmp_path: Path) -> None:
    copier = build_grid_copier(rho=6, d=8, a=2, b=3, frequencies=draw_grid_frequencies(8, seed=0, draw=0))
    tensors, metadata = dict(copier.model.state_dict()), copier.metadata()
    tensors["readout.weight"] = tensors["readout.weight"].bfloat16()
    name = next(name for name in tensors if "query" in name)
    assert not torch.equal(tensors[name].bfloat16().double(), tensors[name].double())
    save_weights(tmp_path / "copier.safetensors", tensors, metadata)
    loaded = load_grid_copier(tmp_path / "copier.safetensors").model.state_dict()
    assert all(torch.equal(loaded[name].double(), tensors[name].double()) for name in tensors)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64, torch.float8_e4m3fn])
def test_formats_that_are_no_plain_floats_are_refused_by_name(file: Path, dtype: torch.dtype) -> None:
    line = told(edit(file, lambda tensors: cast(tensors, {QUERY: dtype}, torch.float32)))
    assert f"of another format: {QUERY} {str(dtype).removeprefix('torch.')}, not float64" in line
    with pytest.raises(InputError, match="must be float64, float32, bfloat16 or float16"):
        exact_matrix(torch.zeros(2, 2).to(torch.int64))


def test_tensors_that_do_not_fit_are_all_named(file: Path) -> None:
    def spoil(tensors: dict[str, torch.Tensor]) -> None:
        del tensors["readout.weight"]
        tensors["mine"] = torch.zeros(3)
        tensors["embedding.weight"] = torch.zeros(2, 7)
        for number in range(9):
            tensors[f"more.{number}"] = torch.zeros(1)

    line = told(edit(file, spoil))
    assert "missing: readout.weight;" in line
    assert "unexpected: mine 3, more.0 1, more.1 1, more.2 1 and 6 more;" in line
    assert "of another shape: embedding.weight 2x7, not 5x128" in line


def test_a_file_without_digest_is_not_called_damaged(file: Path) -> None:
    save_weights(file, CONFIG.build().state_dict(), CONFIG.document())
    line = told(file)
    assert "engine.save_run(path, config, model) writes one" in line and "damaged" not in line


def truncated(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


def cut_header(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100])


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda file: torch.save({"x": torch.zeros(2)}, file), "(it is a zip archive, as torch.save writes)"),
        (lambda file: file.write_bytes(pickle.dumps({"x": 1})), "(it is a pickle, as old torch.save wrote)"),
        (lambda file: file.write_bytes(b""), "(it is empty)"),
        (lambda file: file.write_bytes(b"abc"), "(it is only 3 bytes long)"),
        (lambda file: file.write_bytes(b"hello world, no weights here"), "(it is of an unknown format)"),
        (lambda file: file.write_bytes(struct.pack("<Q", 9) + b'{"a": 3}\n'), "(its header does not list tensors)"),
        (cut_header, "(it is truncated: its header has"),
        (truncated, "(it is truncated: its tensors have"),
        (
            lambda file: save_file({"lm_head.weight": torch.zeros(2, 3)}, file, {"format": "pt"}),
            "with copycert metadata; this one, of another program, holds lm_head.weight 2x3",
        ),
        (lambda file: (file.unlink(), file.mkdir()), "(Is a directory)"),
    ],
)
def test_what_is_no_weights_file_is_told_by_what_it_is(file: Path, make: Callable[[Path], Any], line: str) -> None:
    make(file)
    assert line in told(file, load_weights)


def test_a_full_disk_names_the_file_and_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "deep" / "report.json"
    path.parent.mkdir()
    path.write_bytes(b"old")
    monkeypatch.setattr("os.fdopen", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomically(path, b"new")
    assert caught.value.filename == str(path) and caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == b"old" and list(path.parent.iterdir()) == [path]
