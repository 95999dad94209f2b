"""The command `copycert`."""

from __future__ import annotations

import os

# Products here are small: more OpenBLAS threads would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from types import FrameType
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from proofs_check._certificates import RejectedCertificateError
from proofs_check._check import CheckParameters, run_report
from proofs_check._claims import Claim, Status, exit_code, json_ready
from proofs_check._command_attention import attention_command
from proofs_check._command_certify import certify_command
from proofs_check._command_compare import compare_command
from proofs_check._command_evaluate import evaluate_command
from proofs_check._command_floats import floats_command
from proofs_check._command_minimize import minimize_command
from proofs_check._command_parts import Stopped, json_option, keeping, print_json, progress
from proofs_check._command_plot import plot
from proofs_check._command_train import train_command
from proofs_check._command_two_layer import describe_copier, require_precision, two_layer_bound
from proofs_check._kernel import KernelError
from proofs_check._results import output_directory
from proofs_check._theorem_3_1 import case_documents, decision_certificate
from proofs_check._theorem_4_1 import witness_document
from proofs_check.verify import Verdict, verify_paths
from theory import (
    RELATIONS,
    Decision,
    GridFrequencies,
    InputError,
    LengthBound,
    Threshold,
    Turn,
    UndecidedError,
    VacuousBallError,
    base_grid_frequencies,
    decide,
    exact_length,
    ideal_grid_score,
    parse_rational,
    read_grid_frequencies,
    thresholds,
)

EXIT_BAD_INPUT = 2

EXIT_UNDECIDED = 3

#: A shell's code for a program that wrote to a closed pipe.
EXIT_CLOSED_OUTPUT = 141

#: No longer string is written out: it stands in one line, and its position says all of it.
LONGEST_WITNESS = 10**7

#: What most commands keep when they are interrupted.
NOTHING_KEPT = "nothing is kept: the same command starts again"


class Rational(click.ParamType[Fraction]):
    """A command-line argument that is an exact rational number."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Fraction:
        """The rational number spelled by the argument."""
        return value if isinstance(value, Fraction) else parse_rational(value, param.opts[0] if param else "number")


class ManyCommand(click.Command):
    """A command whose option --rho takes several values in a row: `--rho 20000 40000`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat --rho before each of the values that follow it."""
        spread: list[str] = []
        previous_is_value = False
        for position, argument in enumerate(args):
            follows_value = previous_is_value and not argument.startswith("--")
            previous_is_value = follows_value or (position > 0 and args[position - 1] == "--rho")
            spread += ["--rho", argument] if follows_value else [argument]
        return super().parse_args(ctx, spread)


@click.group(context_settings={"max_content_width": 110})
@click.version_option(package_name="copycert")
def cli() -> None:
    """Weights, certificates and counterexamples for the theorems on exact copying with RoPE and 2D-RoPE.

    Exit codes: 0 decided as expected, or accepted; 1 decided otherwise, or rejected; 2 bad input; 3 unexpectedly
    undecided.
    """


@cli.command(cls=ManyCommand)
@click.option("--rho", type=Rational(), multiple=True, required=True, help="Norm budget; several may follow one --rho.")
@click.option("--a", default=2, show_default=True, help="Tokens before the string.")
@click.option("--b", default=3, show_default=True, help="Tokens between the string and its copy, at least 2.")
@click.option("--d", type=int, default=None, help="RoPE dimension [default: least multiple of 4 >= 100 + 4a + 4b].")
@click.option("--draws", default=20, show_default=True, help="Frequency draws for each norm budget.")
@click.option("--seed", default=0, show_default=True, help="Seed of the draws.")
@click.option("--bits", default=1024, show_default=True, help="Bits of the drawn frequencies, fractions of a turn.")
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
@json_option
@click.pass_context
def check(
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
    as_json: bool,
) -> None:
    """Decide every claim for norm budgets RHO, with certificates that the independent checker accepts."""
    parameters = CheckParameters(rho, a, b, d, draws, seed, bits, beyond_theorem, kernel)
    kept = NOTHING_KEPT if out is None else "finished certificates are kept, and the same command goes on from there"
    with keeping(kept), progress("draws", parameters.ticks) as tick:
        claims, document = run_report(parameters, out, tick)
    if as_json:
        print_json(document)
    else:
        _print_claims(claims, out)
    ctx.exit(exit_code(claims))


full_witness_option = click.option(
    "--full-witness",
    is_flag=True,
    help=f"Write the failing string out in the JSON object, up to {LONGEST_WITNESS} symbols.",
)


@cli.group()
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
@click.option("--d", type=int, default=None, help="RoPE dimension, with --base.")
@click.option("--scale", type=Rational(), required=True, help="Score scale S.")
@click.option("--a", type=int, required=True, help="Tokens before the string.")
@click.option("--b", type=int, required=True, help="Tokens between the string and its copy, at least 2.")
@click.option("--limit", default=1_000_000, show_default=True, help="Largest length looked at.")
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
    frequencies = _chosen_frequencies(file, base, d)
    found = exact_length(ideal_grid_score(frequencies, scale, a, b), limit)
    if as_json:
        print_json(bound_document(found, found.status, full_witness=full_witness))
    else:
        unit = "base powers, radians" if base is not None else _unit(frequencies)
        click.echo(
            f"{len(frequencies.column)} column frequencies ({unit} per position), S = {scale}, a = {a}, b = {b}."
        )
        _print_bound(found)
    ctx.exit(0 if found.status == "PROVED" else 3)


@bound.command("two-layer")
@click.option("--rho", type=Rational(), required=True, help="Norm budget.")
@click.option(
    "--variant", default="paper", show_default=True, help="Weights: paper, sharp, shared (a plane) or trained-layout."
)
@click.option("--a", default=2, show_default=True, help="Tokens before the string, at least 2.")
@click.option("--b", default=3, show_default=True, help="Tokens between the string and its copy, at least 2.")
@click.option(
    "--pairs", type=int, default=None, help="Turning pairs of the sharp variants [default: 32 for rho > 10^4]."
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
    copier, found = two_layer_bound(rho, variant, a, b, pairs, beyond_theorem)
    trial = (
        None if dtype is None else require_precision(copier, min(copier.length, found.lower), dtype, beyond_precision)
    )
    # What is not looked for above the proved length is no part of the question.
    status: Status = "PROVED" if found.lower else found.status
    if as_json:
        run = {} if trial is None else {"torch_run": {"dtype": dtype, **asdict(trial)}}
        print_json({**bound_document(found, status, full_witness=full_witness), **run})
    else:
        click.echo(describe_copier(copier))
        _print_bracket(found, copier.rho, status)
        if trial is not None:
            click.echo(f"In {dtype}: {trial.wrong} of {trial.steps} steps of worst strings wrong. Method: sampled.")
    ctx.exit(0 if status == "PROVED" else 3)


@cli.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE|DIR...")
@json_option
@click.pass_context
def verify(ctx: click.Context, files: tuple[Path, ...], as_json: bool) -> None:
    """Check certificates with the independent checker, and print the statements that it derives itself.

    Of a folder, such as that of check --out, all certificates in it and in its folder certificates.
    """
    checked: list[Verdict] = []
    verdicts, skipped, code = [], [], 0
    for finding in verify_paths(files):
        if finding.skipped is not None:
            skipped.append({"file": finding.file, "reason": finding.skipped})
            click.echo(f"skipped   {finding.file}: it {finding.skipped}", err=True)
        elif finding.verdict is None:
            code = EXIT_BAD_INPUT
            checked.append(Verdict(finding.file, False, None, finding.unreadable))
            # The whole path: of a folder with many files its end is what tells them apart.
            name = " ".join(finding.file.split())
            click.echo(f"copycert: FILE = {name}: must be a certificate; it {finding.unreadable}", err=True)
        else:
            code = max(code, 0 if finding.verdict.accepted else 1)
            checked.append(finding.verdict)
            verdicts.append(finding.verdict)
            if not as_json:
                _print_verdict(finding.verdict)
    if as_json:
        print_json({"files": [asdict(verdict) for verdict in checked], "skipped": skipped})
    elif verdicts:
        accepted = sum(verdict.accepted for verdict in verdicts)
        click.echo(f"{accepted} accepted, {len(verdicts) - accepted} rejected.")
    ctx.exit(code)


def _print_verdict(verdict: Verdict) -> None:
    click.echo(f"{'accepted' if verdict.accepted else 'REJECTED'}  {verdict.file}")
    _echo_wrapped((verdict.statement if verdict.accepted else verdict.reason) or "")


@cli.command("decide")
@click.option("--relation", required=True, help="Positional relation: " + ", ".join(RELATIONS) + ".")
@click.option("--a", type=int, required=True, help="Tokens before the string.")
@click.option("--b", type=int, required=True, help="Tokens between the string and its copy.")
@click.option("--length", type=int, required=True, help="Longest string.")
@click.option("--signs", default="any", show_default=True, help="Votes of 0 and 1: any, opposite or equal.")
@click.option("--out", type=click.Path(path_type=Path), default=None, help="Directory for the certificate.")
@json_option
@click.pass_context
def decide_command(
    ctx: click.Context, relation: str, a: int, b: int, length: int, signs: str, out: Path | None, as_json: bool
) -> None:
    """Can any one-layer, one-head model copy all strings up to a length? A model, or a few strings that cancel."""
    decision = decide(relation, a, b, length, signs)
    with output_directory(out) as directory:
        name = f"decide-{relation}-a-{a}-b-{b}-length-{length}-{signs}.json"
        decision_certificate(directory, name, decision)
    document = decision_document(decision, None if out is None else str(out / name))
    if as_json:
        print_json(document)
    else:
        _print_decision(decision, out, name)
    ctx.exit(0)


@cli.command("thresholds")
@click.option("--max-length", default=8, show_default=True, help="Longest strings looked at.")
@json_option
@click.pass_context
def thresholds_command(ctx: click.Context, max_length: int, as_json: bool) -> None:
    """The largest length that one layer can copy, for every positional relation, some (a, b) and signs of the votes."""
    rows = []
    with progress("rows", 0) as tick:
        for row in thresholds(max_length):
            rows.append(row)
            tick()
    if as_json:
        print_json({"rows": [asdict(row) for row in rows]})
    else:
        _print_thresholds(rows)
    ctx.exit(0)


def decision_document(decision: Decision, file: str | None) -> dict[str, Any]:
    """A decision as one JSON object; `file` is its certificate or witness, if it was kept."""
    return {
        "relation": decision.layout.relation,
        "a": decision.layout.a,
        "b": decision.layout.b,
        "length": decision.length,
        "signs": decision.signs,
        "possible": decision.possible,
        "witness" if decision.possible else "certificate": file,
        "cases": case_documents(decision.cases),
    }


def _echo_wrapped(text: str) -> None:
    indent = " " * 10
    width = max(40, min(120, get_terminal_size().columns))
    click.echo("\n".join(wrap(text, width, initial_indent=indent, subsequent_indent=indent)))


def bound_document(found: LengthBound, status: Status, *, full_witness: bool = False) -> dict[str, Any]:
    """A length bound as one JSON object: what is proved up to `proved_to`, and false at `fails_at`."""
    longest = LONGEST_WITNESS if full_witness else 0
    document = {
        "status": status,
        "length": found.length,
        "length_lower": found.lower,
        "length_upper": found.upper,
        "limit": found.limit,
        "exceeds_limit": found.exceeds_limit,
        "proved_to": found.lower,
        "fails_at": None if found.fails is None else found.fails.length,
        "exact": found.length is not None,
        "witness": None if found.fails is None else witness_document(found.fails, longest),
    }
    ready: dict[str, Any] = json_ready(document)
    return ready


def _unit(frequencies: GridFrequencies) -> str:
    return "turns" if isinstance(frequencies.column[0], Turn) else "radians"


def _chosen_frequencies(file: Path | None, base: Fraction | None, d: int | None) -> GridFrequencies:
    if file is not None and base is None and d is None:
        return read_grid_frequencies(file)
    if file is None and base is not None and d is not None:
        return base_grid_frequencies(base, d)
    given = [name for name, value in (("--frequencies", file), ("--base", base), ("--d", d)) if value is not None]
    allowed = "--frequencies FILE alone, or else both --base B and --d D"
    raise InputError("options", " and ".join(given) or "none of frequencies", allowed)


_STYLES = {"PROVED": "green", "REFUTED": "magenta", "UNDECIDED": "yellow", "NOT_APPLICABLE": "dim"}


def _print_claims(claims: list[Claim], out: Path | None) -> None:
    console = Console(highlight=False)
    for claim in claims:
        surprise = "" if claim.as_expected else f"  (!) expected {claim.expected or 'a decision'}"
        head = Text.assemble(
            (f"{claim.status:<9}", _STYLES[claim.status]),
            f"  {claim.id}  ",
            (f"[{claim.label}, {claim.method}]", "dim"),
        )
        console.print(head.append(surprise, "bold red"), soft_wrap=True)
        for line in (claim.statement, *_highlights(claim)):
            console.print(Padding(Text(line), (0, 0, 0, 11)))
    console.print(f"{_tally(claims)}, {sum(claim.seconds for claim in claims):.1f} s.")
    if out:
        console.print(
            f"Report: {out}/check.json. Verify the certificates with: copycert verify {out}",
            soft_wrap=True,
        )
    else:
        console.print("The independent checker accepted every certificate; --out DIR keeps them.")


def _tally(claims: list[Claim]) -> str:
    """How many claims had which status, and whether any surprised."""
    counts = ", ".join(
        f"{count} {status}" for status in _STYLES if (count := sum(claim.status == status for claim in claims))
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


def _print_decision(decision: Decision, out: Path | None, name: str) -> None:
    what = f"every binary string of length <= {decision.length} ({decision.layout.relation}, a = {decision.layout.a}, "
    what += f"b = {decision.layout.b}, signs {decision.signs})"
    if decision.possible:
        click.echo(f"POSSIBLE: a one-layer, one-head model copies {what}.")
    else:
        click.echo(f"IMPOSSIBLE: no one-layer, one-head model copies {what}.")
        _print_cases(decision)
    click.echo("Label: new. Method: exact; accepted by the independent checker.")
    click.echo(f"Saved: {out / name}" if out else "--out DIR keeps the certificate.")


def _print_cases(decision: Decision) -> None:
    part = decision.certificates[0]
    assumed = ", ".join(f"{token} votes for {0 if vote > 0 else 1}" for token, vote in part.votes)
    click.echo(f"These steps cannot all be right{f' if {assumed}' if assumed else ''}:")
    for case in part.cases:
        n, i = len(case.string), case.step
        seen = f"after {case.string[: i - 1]}" if i > 1 else "at the start"
        times = f", counted {case.multiplier} times" if case.multiplier > 1 else ""
        click.echo(f"  string {case.string} (length {n}), step {i}: {seen}, write {case.string[i - 1]}{times}")
    click.echo(
        "At each step the votes of all tokens seen, weighted by attention, must add up to the side of the symbol to "
        "write. Write each sum with + for 0 and - for 1: added up, every contribution cancels or has the wrong sign."
    )
    if len(decision.certificates) > 1:
        click.echo(f"{len(decision.certificates) - 1} more such lists cover the other signs of the votes.")


def _print_thresholds(rows: list[Threshold]) -> None:
    table = Table(box=None)
    for column in ("relation", "a", "b", "signs", "largest length"):
        table.add_column(column)
    for row in rows:
        reached = f">= {row.largest}" if row.largest == row.searched_to else str(row.largest)
        table.add_row(row.relation, _all_or(row.a), _all_or(row.b), row.signs, reached)
    Console().print(table)
    click.echo("Label: new. Method: exact. One layer, one head, two outputs, linear read-out.")


def _all_or(number: int | None) -> str:
    return "all" if number is None else str(number)


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


cli.add_command(plot)
cli.add_command(floats_command)
cli.add_command(train_command)
cli.add_command(certify_command)
cli.add_command(evaluate_command)
cli.add_command(compare_command)
cli.add_command(attention_command)
cli.add_command(minimize_command)


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Bad input, and files that cannot be read or written, become one line on stderr and exit code 2.

    Numbers that no precision tried tells apart become one line and exit code 3.
    """
    try:
        with _terminating():
            code = _run(arguments)
        sys.stdout.flush()
    except InputError as error:
        _fail(str(error), EXIT_BAD_INPUT)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(EXIT_BAD_INPUT)
    except click.ClickException as error:
        _fail(error.format_message().replace("\n", " "), EXIT_BAD_INPUT)
    except (VacuousBallError, UndecidedError) as error:
        _fail(f"UNDECIDED: {' '.join(str(error).split())}", EXIT_UNDECIDED)
    except KernelError as error:
        _fail(f"Coq does not accept the proofs: {error}", 1)
    except RejectedCertificateError as error:
        _fail(f"a certificate just made was rejected: {error}", 1)
    except BrokenPipeError:
        _drop_output()
        sys.exit(EXIT_CLOSED_OUTPUT)
    except OSError as error:
        _drop_output()
        _fail(_system_error(error), EXIT_BAD_INPUT)
    except (click.Abort, KeyboardInterrupt) as error:
        cause = error.__cause__ if isinstance(error, click.Abort) else error
        kept = cause.kept if isinstance(cause, Stopped) else NOTHING_KEPT
        _fail(f"interrupted; {kept}", 128 + getattr(cause, "number", signal.SIGINT))
    sys.exit(code)


def _run(arguments: list[str] | None) -> int:
    """The exit code of the command."""
    try:
        code = cli.main(arguments, prog_name="copycert", standalone_mode=False)
    except SystemExit as error:
        # So click ends where nobody reads its output any more.
        raise BrokenPipeError from error
    return code if isinstance(code, int) else 0


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does: with its temporary files removed."""

    number = signal.SIGTERM


@contextmanager
def _terminating() -> Iterator[None]:
    """SIGTERM as an exception; only the main thread can take signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(number: int, frame: FrameType | None) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


def _system_error(error: OSError) -> str:
    """One line on a file, or standard output, that could not be read or written."""
    reason = error.strerror or " ".join(str(error).split()) or type(error).__name__
    if error.filename is not None:
        return str(InputError("file", os.fsdecode(error.filename), f"one that can be read or written here ({reason})"))
    return str(InputError("output", "standard output", f"one that can be written ({reason})"))


def _drop_output() -> None:
    """Let what is still to be written to standard output vanish, if it cannot be written."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int) -> NoReturn:
    with suppress(OSError):
        click.echo(f"copycert: {message}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
