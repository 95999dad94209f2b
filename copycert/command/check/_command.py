"""`copycert check`: every claim for norm budgets, with certificates that the independent checker accepts."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from copycert.command._options import COUNT, NOTHING_KEPT, Rational, json_option, keeping, print_json, progress
from copycert.command.check._table import STYLES, table
from proofs_check.claims import CheckParameters, Claim, claim_list, exit_code, reported_parameters, run_report
from theory import InputError


class ManyCommand(click.Command):
    """A command whose repeated options take several values in a row: `--rho 20000 40000`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the option before each of the values that follow it."""
        known = {name for parameter in self.params for name in parameter.opts}
        repeated = {name for p in self.params if isinstance(p, click.Option) and p.multiple for name in p.opts}
        spread: list[str] = []
        growing = None
        for before, argument in zip([None, *args], args, strict=False):
            if argument.startswith("--") or argument in known:
                growing = argument if argument in repeated else None
            elif growing is not None and before != growing:
                spread.append(growing)
            spread.append(argument)
        return super().parse_args(ctx, spread)


@click.command("check", cls=ManyCommand)
@click.option("--rho", type=Rational(), multiple=True, help="Norm budget; several may follow one --rho.  [required]")
@click.option("--a", type=COUNT, default=2, show_default=True, help="Tokens before the string.")
@click.option(
    "--b", type=COUNT, default=3, show_default=True, help="Tokens between the string and its copy, at least 2."
)
@click.option("--d", type=COUNT, default=None, help="RoPE dimension [default: least multiple of 4 >= 100 + 4a + 4b].")
@click.option("--draws", type=COUNT, default=20, show_default=True, help="Frequency draws for each norm budget.")
@click.option("--seed", type=COUNT, default=0, show_default=True, help="Seed of the draws.")
@click.option(
    "--bits", type=COUNT, default=1024, show_default=True, help="Bits of the drawn frequencies, fractions of a turn."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=None,
    help="Directory for certificates, weights and check.json; reused when resumed.",
)
@click.option(
    "--beyond-theorem",
    is_flag=True,
    help="Run outside the theorem's hypotheses too, and label the claims so.",
)
@click.option("--kernel", is_flag=True, help="Let Coq check Theorem 3.1's proofs now (needs coqc; about 30 s).")
@click.option(
    "--only",
    metavar="ID",
    multiple=True,
    help="Make these claims only: an id, or how ids begin, such as 3.2; several may follow one --only.",
)
@click.option("--list", "listing", is_flag=True, help="Print the ids of the claims, and decide none.")
@click.option(
    "--rerun",
    type=click.Path(path_type=Path),
    default=None,
    metavar="FILE",
    help="Make the report in this file again: all parameters are taken from it.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print full statements, figures and witnesses too.")
@json_option
@click.pass_context
def check_command(
    ctx: click.Context,
    rho: tuple[Fraction, ...],
    a: int,
    b: int,
    d: int | None,
    draws: int,
    seed: int,
    bits: int,
    out: Path | None,
    beyond_theorem: bool,
    kernel: bool,
    only: tuple[str, ...],
    listing: bool,
    rerun: Path | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Decide every claim for norm budgets RHO, with certificates that the independent checker accepts."""
    if rerun is not None:
        _require_nothing_beside_rerun(ctx)
        parameters = reported_parameters(rerun)
    elif listing:
        _print_list(only, as_json=as_json)
        return
    elif not rho:
        raise click.UsageError("Missing option '--rho'.")
    else:
        parameters = CheckParameters(rho, a, b, d, draws, seed, bits, beyond_theorem, kernel, only)
    kept = NOTHING_KEPT if out is None else "finished certificates are kept, and the same command goes on from there"
    with keeping(kept), progress("draws", parameters.ticks) as tick:
        claims, document = run_report(parameters, out, tick)
    if as_json:
        print_json(document)
    else:
        _print_claims(claims, out, verbose=verbose)
    ctx.exit(exit_code(claims))


def _require_nothing_beside_rerun(ctx: click.Context) -> None:
    """InputError for an option beside --rerun that is not about where or how the report is written."""
    for parameter in ctx.command.params:
        free = parameter.name in ("rerun", "out", "verbose", "as_json")
        given = ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if given and not free:
            allowed = "--rerun FILE without parameters, which the file names (only --out, --verbose and --json)"
            raise InputError("options", f"--rerun and {parameter.opts[-1]}", allowed)


def _print_list(only: tuple[str, ...], *, as_json: bool) -> None:
    tasks = claim_list(only)
    if as_json:
        print_json({"claims": [{"id": task.id, "theorem": task.theorem, "about": task.about} for task in tasks]})
        return
    width = max(len(task.id) for task in tasks)
    for task in tasks:
        click.echo(f"{task.id:<{width}}  Theorem {task.theorem}: {task.about}")


def _print_claims(claims: list[Claim], out: Path | None, *, verbose: bool) -> None:
    console = Console(highlight=False)
    for claim in claims if verbose else ():
        _print_in_full(console, claim)
    for line in table(claims):
        console.print(line, soft_wrap=True)
    console.print(f"{_tally(claims)}, {sum(claim.seconds for claim in claims):.1f} s.", soft_wrap=True)
    if out:
        console.print(
            f"Report: {out}/check.json. Verify the certificates with: copycert verify {out}",
            soft_wrap=True,
        )
    else:
        console.print("The independent checker accepted every certificate; --out DIR keeps them.")


def _print_in_full(console: Console, claim: Claim) -> None:
    surprise = "" if claim.as_expected else f"  (!) expected {claim.expected or 'a decision'}"
    head = Text.assemble(
        (f"{claim.status:<9}", STYLES[claim.status]),
        f"  {claim.id}  ",
        (f"[{claim.label}, {claim.method}]", "dim"),
    )
    console.print(head.append(surprise, "bold red"), soft_wrap=True)
    for line in (claim.statement, *_highlights(claim)):
        console.print(Padding(Text(line), (0, 0, 0, 11)))


def _tally(claims: list[Claim]) -> str:
    """How many claims had which status, and whether any surprised."""
    counts = ", ".join(
        f"{count} {status}" for status in STYLES if (count := sum(claim.status == status for claim in claims))
    )
    surprises = sum(not claim.as_expected for claim in claims)
    return f"{len(claims)} claims: {counts}; {f'{surprises} not' if surprises else 'all'} as expected"


def _highlights(claim: Claim) -> Iterator[str]:
    """The figures that a reader of the table should see."""
    figures = claim.figures
    if "least_length_certified" in figures:
        yield (
            f"Certified per draw: length {figures['least_length_certified']} to {figures['largest_length_certified']}. "
            "Typical n*, (2 pi S)^(d/8), sampled at d = 4, 8, 12 only: "
            f"10^{figures['log10_of_typical_length']['value']}."
        )
    if "failure_bound_at_paper_length" in figures:
        yield f"At length rho^(d/12) the failure probability is at most {figures['failure_bound_at_paper_length']}."
    if "reason" in figures and claim.status == "NOT_APPLICABLE":
        yield f"Reason: {figures['reason']}."
    if "strings_tried" in figures:
        yield f"Strings tried: {figures['strings_tried']}, wrong: {figures['strings_wrong']}."
    witnesses = [figures, *(draw for draw in figures.get("draws", ()) if "witness" in draw)]
    for place in witnesses[:4]:
        if isinstance(place.get("witness"), dict):
            yield f"Witness: {_one_line(place['witness'])}"
        if isinstance(place.get("replay"), dict):
            yield f"Replayed in torch: {_replayed(place['replay'])}"


def _replayed(replay: dict[str, Any]) -> str:
    if not replay["ran"]:
        return f"not run, {replay['reason']}."
    return f"the model gets that step {'wrong' if replay['torch_model_wrong'] else 'right'}."


def _one_line(fields: dict[str, Any]) -> str:
    text = ", ".join(f"{name} {value}" for name, value in fields.items() if value not in ("", None))
    return text if len(text) <= 200 else text[:197] + "..."
