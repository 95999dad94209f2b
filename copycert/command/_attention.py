"""`copycert attention`: attention maps of a run, with measured shares of stripes and diagonals."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from copycert.command._options import COUNT, json_option, print_json, run_argument, said_of_itself
from copycert.figures import plot_attention, require_plots
from engine import (
    AttentionShares,
    CopySource,
    Example,
    RunDirectory,
    Transformer,
    attention_shares,
    load_run,
    require_finite,
    write_atomically,
)
from proofs_check._results import claimed_directory
from theory import InputError
from theory.numbers import require_at_least

#: Longest string to draw; a map holds the square of twice the length for every head.
LONGEST = 2000


@click.command("attention")
@run_argument
@click.option("--distribution", default="imbalanced", show_default=True, help="Of the string.")
@click.option("--length", type=COUNT, default=100, show_default=True, help=f"Of the string, up to {LONGEST}.")
@click.option("--seed", type=COUNT, default=0, show_default=True, help="Seed of the string.")
@click.option("--plots/--no-plots", default=True, help="Write the maps, which needs the extra plots.")
@click.option("--out", type=click.Path(path_type=Path), default=None, help="Directory for maps and shares.")
@json_option
def attention_command(
    run: Path, distribution: str, length: int, seed: int, plots: bool, out: Path | None, as_json: bool
) -> None:
    """What each head of RUN attends to while it copies one string: delimiters, a fixed distance, the right source."""
    if not 1 <= length <= LONGEST:
        raise InputError("length", length, f"from 1 to {LONGEST}")
    require_at_least("seed", seed, 0)
    if plots and out is not None:
        require_plots()
    config, model = load_run(run)
    require_finite(model, run)
    source = config.data.source()
    if not isinstance(source, CopySource):
        raise InputError("RUN", str(run), "a run of the copy task")
    (example,) = source.examples_of_length(distribution, length, seed, 1)
    settings: dict[str, Any] = {}
    if out is not None:
        weights = RunDirectory(run).model if run.is_dir() else run
        digest = hashlib.sha256(weights.read_bytes()).hexdigest()
        settings = {"weights_sha256": digest, "distribution": distribution, "length": length, "seed": seed}
    with claimed_directory(out, "attention", settings, ("attention.json", "attention-maps.pdf")):
        maps = head_maps(model, example)
        shares = measured(maps, example, source)
        document = said_of_itself(
            {
                "distribution": distribution,
                "length": length,
                "copied": copied(model, example),
                "heads": [share.document() for share in shares],
                "method": "sampled",
            }
        )
        if out is not None:
            _save(document, maps, shares, source, example, out, plots)
    if as_json:
        print_json(document)
    else:
        _print(document, shares, out)


def head_maps(model: Transformer, example: Example) -> list[tuple[int, int, Any]]:
    """(layer, head, weights) of every head on an example."""
    tokens = torch.from_numpy(np.concatenate([example.prompt, example.answer[:-1]]))[None]
    layers = model.attention_maps(tokens)
    return [
        (layer, head, weights.numpy())
        for layer, heads in enumerate(layers)
        for head, weights in enumerate(heads[0].detach())
    ]


def measured(maps: list[tuple[int, int, Any]], example: Example, source: CopySource) -> list[AttentionShares]:
    """The shares of every head."""
    sources = np.arange(len(example.answer)) + source.task.a
    delimiters = frozenset((*source.task.prefix, *source.task.infix))
    return [attention_shares(weights, example, sources, delimiters, layer, head) for layer, head, weights in maps]


def copied(model: Transformer, example: Example) -> bool:
    """Whether the model writes the answer."""
    written = model.generate(torch.from_numpy(example.prompt)[None], len(example.answer))
    return bool((written[0].numpy() == example.answer).all())


def _title(share: AttentionShares) -> str:
    return (
        f"layer {share.layer}, head {share.head}: stripes {share.stripe:.0%},\n"
        f"{share.distance} back {share.diagonal:.0%}, source {share.source:.0%}, near it {share.near:.0%}"
    )


def _save(
    document: dict[str, Any],
    maps: list[tuple[int, int, Any]],
    shares: list[AttentionShares],
    source: CopySource,
    example: Example,
    out: Path,
    plots: bool,
) -> None:
    write_atomically(out / "attention.json", (json.dumps(document, indent=1) + "\n").encode())
    if plots:
        names = [source.names[token] for token in (*example.prompt, *example.answer[:-1])]
        plot_attention([weights for _, _, weights in maps], [_title(s) for s in shares], names, out / "attention-maps")


def _print(document: dict[str, Any], shares: list[AttentionShares], out: Path | None) -> None:
    table = Table(box=None)
    for column in ("layer", "head", "stripes", "diagonal", "at distance", "source", "near it"):
        table.add_column(column, justify="right")
    for s in shares:
        parts = (f"{s.stripe:.1%}", f"{s.diagonal:.1%}", str(s.distance), f"{s.source:.1%}", f"{s.near:.1%}")
        table.add_row(str(s.layer), str(s.head), *parts)
    Console(highlight=False).print(table)
    outcome = "copied" if document["copied"] else "NOT copied"
    click.echo(f"One {document['distribution']} string of length {document['length']}, {outcome}. Method: sampled.")
    click.echo(f"Saved: {out}" if out else "--out DIR keeps the maps.")
