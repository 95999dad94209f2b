"""`copycert evaluate`: accuracy of exact copying, beside that at the lengths the run was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from copycert.command._options import COUNT, Integers, json_option, print_json, progress_to, run_argument
from copycert.sampled import Verdict, share, verdict_on
from engine import Accuracy, RunConfig, Source, Transformer, accuracy_at, accuracy_within, load_run, require_finite


@click.command("evaluate")
@run_argument
@click.option("--distribution", required=True, help="Of the strings, or lists; a wrong name lists the known.")
@click.option("--lengths", type=Integers(), required=True, help="Lengths of the strings, or numbers of data points.")
@click.option("--samples", type=COUNT, default=10, show_default=True, help="Strings of each length.")
@click.option(
    "--seed", type=COUNT, default=0, show_default=True, help="Seed of the strings; never those of the training."
)
@click.option("--periods", type=Integers(), default=None, help="LEAST,LARGEST period of lists [default: as trained].")
@json_option
def evaluate_command(
    run: Path,
    distribution: str,
    lengths: tuple[int, ...],
    samples: int,
    seed: int,
    periods: tuple[int, ...] | None,
    as_json: bool,
) -> None:
    """How many strings of each length RUN copies exactly, by teacher forcing."""
    config, model = load_run(run)
    require_finite(model, run)
    data = config.data if periods is None else config.data.with_periods(*periods)
    source = data.source()
    trained = accuracy_within(model, config.data.source(), config.data.distribution, WITHIN_SAMPLES, seed)
    within = accuracy_within(model, source, distribution, WITHIN_SAMPLES, seed)
    beyond = _accuracies(model, source, distribution, lengths, samples, seed)
    verdict = verdict_on(trained, within, beyond)
    if as_json:
        print_json(evaluation_document(trained, within, beyond, verdict))
    else:
        _print(config, trained, within, beyond, verdict)


#: Strings tried at the lengths of the training range.
WITHIN_SAMPLES = 200


def _accuracies(
    model: Transformer, source: Source, distribution: str, lengths: tuple[int, ...], samples: int, seed: int
) -> list[Accuracy]:
    found = []
    with progress_to("lengths", len(lengths)) as tick:
        for length in lengths:
            found.append(accuracy_at(model, source, distribution, length, samples, seed))
            tick(len(found))
    return found


def evaluation_document(
    trained: Accuracy, within: Accuracy, beyond: list[Accuracy], verdict: Verdict
) -> dict[str, Any]:
    """The JSON object of the command. `within_training` and `on_training_distribution`: lengths up to the trained."""
    return {
        "results": [accuracy.document() for accuracy in beyond],
        "within_training": within.document(),
        "on_training_distribution": trained.document(),
        "verdict": verdict.name,
        "method": "sampled",
    }


def _print(config: RunConfig, trained: Accuracy, within: Accuracy, beyond: list[Accuracy], verdict: Verdict) -> None:
    table = Table(box=None)
    for column in ("distribution", "length", "exact", "accuracy", "95% (Wilson)"):
        table.add_column(column)
    rows = [(f"{config.data.min_length} to {a.length}, as trained", a) for a in dict.fromkeys((trained, within))]
    for length, accuracy in [*rows, *((str(a.length), a) for a in beyond)]:
        low, high = accuracy.interval()
        exact = f"{accuracy.exact} of {accuracy.samples}"
        table.add_row(accuracy.distribution, length, exact, share(accuracy), f"{low:.3f} to {high:.3f}")
    Console(highlight=False).print(table)
    click.echo(f"{config.encoding} on {within.distribution}: {verdict.sentence}")
    click.echo("Method: sampled; no proof. copycert certify decides one-layer models for all strings.")
