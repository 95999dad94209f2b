"""`copycert bound`: how far a copier copies every string."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

import click

import copycert._bound as front
from constructions import Trial, TwoLayerCopier
from copycert._bound import LONGEST_WITNESS
from copycert.command._options import COUNT, Rational, json_option, print_json
from theory import GridFrequencies, InputError, LengthBound, read_grid_frequencies
from theory.task import Status

full_witness_option = click.option(
    "--full-witness",
    is_flag=True,
    help=f"Write the failing string out in the JSON object, up to {LONGEST_WITNESS} symbols.",
)


@click.group()
def bound() -> None:
    """How far a copier copies."""


@bound.command("grid")
@click.option(
    "--frequencies",
    "file",
    type=click.Path(path_type=Path),
    default=None,
    help="JSON file of row and column frequencies.",
)
@click.option("--base", type=Rational(), default=None, help="Base B of frequencies B^(-f/(D/4)) radians per position.")
@click.option("--d", type=COUNT, default=None, help="RoPE dimension, with --base.")
@click.option("--scale", type=Rational(), required=True, help="Score scale S.")
@click.option("--a", type=COUNT, required=True, help="Tokens before the string.")
@click.option("--b", type=COUNT, required=True, help="Tokens between the string and its copy, at least 2.")
@click.option("--limit", type=COUNT, default=1_000_000, show_default=True, help="Largest length looked at.")
@full_witness_option
@json_option
@click.pass_context
def bound_grid(
    ctx: click.Context,
    file: Path | None,
    base: Fraction | None,
    d: int | None,
    scale: Fraction,
    a: int,
    b: int,
    limit: int,
    full_witness: bool,
    as_json: bool,
) -> None:
    """The exact length up to which the ideal 2D-RoPE copier with these frequencies and score scale copies every
    string.
    """
    given = [name for name, value in (("--frequencies", file), ("--base", base), ("--d", d)) if value is not None]
    if given not in (["--frequencies"], ["--base", "--d"]):
        allowed = "--frequencies FILE alone, or else both --base B and --d D"
        raise InputError("options", " and ".join(given) or "none of frequencies", allowed)
    frequencies = None if file is None else read_grid_frequencies(file)
    answer = front.bound_grid(frequencies, base=base, d=d, scale=scale, a=a, b=b, limit=limit)
    if as_json:
        print_json(answer.document(full_witness=full_witness))
    else:
        unit, count = ("base powers, radians", (d or 0) // 4)
        if frequencies is not None:
            unit, count = _unit(frequencies), len(frequencies.column)
        click.echo(f"{count} column frequencies ({unit} per position), S = {scale}, a = {a}, b = {b}.")
        _print_bound(answer.found)
    ctx.exit(0 if answer.status == "PROVED" else 3)


@bound.command("two-layer")
@click.option("--rho", type=Rational(), required=True, help="Norm budget.")
@click.option(
    "--variant", default="paper", show_default=True, help="Weights: paper, sharp, shared (a plane) or trained-layout."
)
@click.option("--a", type=COUNT, default=2, show_default=True, help="Tokens before the string, at least 2.")
@click.option(
    "--b", type=COUNT, default=3, show_default=True, help="Tokens between the string and its copy, at least 2."
)
@click.option(
    "--pairs", type=COUNT, default=None, help="Turning pairs of the sharp variants [default: 32 for rho > 10^4]."
)
@click.option("--beyond-theorem", is_flag=True, help="Allow rho <= 10^4.")
@click.option("--dtype", default=None, help="Run the torch model in this format too: float64, float32 or bfloat16.")
@click.option("--beyond-precision", is_flag=True, help="Go on if that run gets a step wrong.")
@full_witness_option
@json_option
@click.pass_context
def bound_two_layer(
    ctx: click.Context,
    rho: Fraction,
    variant: str,
    a: int,
    b: int,
    pairs: int | None,
    beyond_theorem: bool,
    dtype: str | None,
    beyond_precision: bool,
    full_witness: bool,
    as_json: bool,
) -> None:
    """The length up to which the two-layer RoPE copier of a norm budget copies every string, of its stored weights."""
    answer = front.bound_two_layer(rho, variant, a=a, b=b, pairs=pairs, beyond_theorem=beyond_theorem)
    copier = answer.model
    assert copier is not None
    trial = None if dtype is None else _trial(copier, answer.proved_to, dtype, beyond_precision)
    if as_json:
        run = {} if trial is None else {"torch_run": {"dtype": dtype, **asdict(trial)}}
        print_json({**answer.document(full_witness=full_witness), **run})
    else:
        click.echo(_described(copier))
        _print_bracket(answer.found, copier.rho, answer.status)
        if trial is not None:
            click.echo(f"In {dtype}: {trial.wrong} of {trial.steps} steps of worst strings wrong. Method: sampled.")
    ctx.exit(0 if answer.status == "PROVED" else 3)


def _trial(copier: TwoLayerCopier, proved_to: int, dtype: str, beyond_precision: bool) -> Trial:
    try:
        return front.require_precision(copier, min(copier.length, proved_to), dtype, beyond_precision)
    except InputError as error:
        # The function names its arguments, the command its options.
        raise InputError("--dtype", dtype, error.allowed.replace("beyond_precision", "--beyond-precision")) from error


def _described(copier: TwoLayerCopier) -> str:
    """One line on what was built."""
    size, pairs = float(copier.square_norm() / copier.rho**2), len(copier.frequencies.column)
    return (
        f"Two-layer copier, {copier.variant}, {pairs} turning pairs, rho = {copier.rho}, a = {copier.task.a}, b = "
        f"{copier.task.b}, d = {copier.model.config.model_width}; square norm {size:.4f} rho^2 (exact, stored weights)."
    )


def _unit(frequencies: GridFrequencies) -> str:
    return f"{frequencies.column[0].unit}s"


def _print_bound(found: LengthBound) -> None:
    if found.exceeds_limit:
        click.echo(f"PROVED: every string of every length <= {found.limit} is copied (the scan's --limit).")
    elif found.fails is not None:
        between = "" if found.length is not None else f"; the exact bound is between {found.lower} and {found.upper}"
        click.echo(
            f"{found.status}: every string of every length <= {found.lower} is copied, and not every string of length "
            f"{found.fails.length}{between}."
        )
    else:
        click.echo(
            f"UNDECIDED: every string of every length <= {found.lower} is copied; length {found.lower + 1} is not "
            "decided."
        )
    if found.fails is not None:
        click.echo(
            f"Witness: {found.fails.length} symbols, all {found.fails.background} but symbol "
            f"{found.fails.flip_position}; step {found.fails.step} is wrong."
        )
    click.echo("Label: new. Method: float+bound for the columns skipped, ball for those that count.")


def _print_bracket(found: LengthBound, rho: Fraction, status: Status) -> None:
    """A length bound, which is a bracket where no scan is possible."""
    constant = float(found.lower / rho**2)
    click.echo(f"{status}: every string of every length <= {found.lower} is copied ({constant:.4g} rho^2).")
    if found.fails is None:
        click.echo("No failing string was looked for or found.")
    else:
        click.echo(
            f"PROVED: not every string of length {found.fails.length} is. Witness: all 0 but symbol "
            f"{found.fails.flip_position}; step {found.fails.step} is wrong."
        )
    click.echo("Label: new; reconstructed for the paper's weights. Method: ball.")
