"""What several commands share: the option --json, progress on a terminal, interrupts, lists of numbers and names."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import Any

import click

from theory.numbers import InputError, parse_rational

#: Digits, with single _ between them, perhaps decimals, and an exponent of at most three digits.
_COUNT = re.compile(r"[+-]?[0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?(?:[eE][+]?[0-9]{1,3})?", re.ASCII)

_WITH_COMMAS = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+", re.ASCII)

#: Exit codes beside 0, decided as expected or accepted, and 1, decided otherwise or rejected.
EXIT_BAD_INPUT, EXIT_UNDECIDED = 2, 3

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on stdout; everything else goes to stderr."
)

run_argument = click.argument("run", type=click.Path(path_type=Path))


def print_json(document: dict[str, Any]) -> None:
    """One JSON object on stdout, with its provenance."""
    click.echo(json.dumps(without_nan(said_of_itself(document)), allow_nan=False))


def without_nan(value: Any) -> Any:
    """The same with null for what JSON has no number for, as the loss of a run that diverged."""
    if isinstance(value, dict):
        return {key: without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def said_of_itself(document: dict[str, Any]) -> dict[str, Any]:
    """The answer of the command that runs now, with what it is of, unless it says so already."""
    context = click.get_current_context(silent=True)
    if context is None or "provenance" in document:
        return document
    from proofs_check._results import provenance

    parameters = {name: value for name, value in context.params.items() if name not in ("as_json", "out")}
    return {**document, "provenance": provenance(command_name(context), parameters)}


def command_name(context: click.Context) -> str:
    """`bound grid`: the words after the program's name."""
    names: list[str] = []
    walk: click.Context | None = context
    while walk is not None and walk.parent is not None:
        names.insert(0, walk.command.name or "")
        walk = walk.parent
    return " ".join(names)


#: What most commands keep when they are interrupted.
NOTHING_KEPT = "nothing is kept: the same command starts again"


class Stopped(KeyboardInterrupt):
    """An interrupt, with what is kept of the work done.

    Attributes:
        kept: the end of the sentence that begins with `interrupted; `.
        number: of the signal.
    """

    def __init__(self, kept: str, number: int = signal.SIGINT) -> None:
        self.kept, self.number = kept, number
        super().__init__(kept, number)


@contextmanager
def keeping(kept: str) -> Iterator[None]:
    """A block that an interrupt ends with these words on what is kept."""
    try:
        yield
    except Stopped:
        raise
    except KeyboardInterrupt as error:
        raise Stopped(kept, getattr(error, "number", signal.SIGINT)) from error


@contextmanager
def progress_to(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, shown on a terminal only; the function given takes the steps done so far."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total or None)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def progress(what: str, steps: int) -> Iterator[Callable[[], None]]:
    """A progress bar as in `progress_to`; the function given advances it by one step."""
    done = 0

    with progress_to(what, steps) as update:

        def advance() -> None:
            nonlocal done
            done += 1
            update(done)

        yield advance


class Rational(click.ParamType[Fraction]):
    """A command-line argument that is an exact rational number."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Fraction:
        """The rational number spelled by the argument."""
        return value if isinstance(value, Fraction) else parse_rational(value, param.opts[0] if param else "number")


class Count(click.ParamType[int]):
    """A whole number: 1000000, 1_000_000 or 1e6. Which ones are allowed is for the function called to say."""

    name = "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number that the argument spells."""
        return value if isinstance(value, int) else count_of(str(value), param.opts[0] if param else "number")


def count_of(text: str, argument: str) -> int:
    """The whole number that a text spells.

    Raises:
        InputError: it spells none.
    """
    plain = text.strip()
    exact = Fraction(plain.replace("_", "")) if _COUNT.fullmatch(plain) else None
    if exact is None or exact.denominator != 1:
        hint = f"; without commas: {plain.replace(',', '_')}" if _WITH_COMMAS.fullmatch(plain) else ""
        raise InputError(argument, text, f"a whole number, such as 1000000, 1_000_000 or 1e6{hint}")
    return int(exact)


COUNT = Count()


class Choice(click.Choice[str]):
    """One of several words; case, and - for _, are forgiven."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word as it is listed."""
        wanted = str(value).strip().lower().replace("_", "-")
        for choice in self.choices:
            if str(choice).lower().replace("_", "-") == wanted:
                return str(choice)
        raise InputError(param.opts[0] if param else "choice", value, "one of " + ", ".join(map(str, self.choices)))


class Integers(click.ParamType[tuple[int, ...]]):
    """Integers separated by commas, `100,1000,10000`."""

    name = "N,N,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """The integers that the argument spells, each at least 1."""
        if isinstance(value, tuple):
            return value
        argument = param.opts[0] if param else "numbers"
        try:
            numbers = tuple(count_of(part, argument) for part in str(value).split(","))
        except InputError as error:
            raise InputError(argument, value, "integers separated by commas") from error
        if min(numbers) < 1:
            raise InputError(argument, value, "integers >= 1")
        return numbers


class Names(click.ParamType[tuple[str, ...]]):
    """Names separated by commas or spaces, each one of those known."""

    name = "NAME,NAME,..."

    def __init__(self, known: tuple[str, ...]) -> None:
        self.known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The names that the argument lists."""
        if isinstance(value, tuple):
            return value
        names = tuple(str(value).replace(",", " ").split())
        argument = param.opts[0] if param else "names"
        if not names or len(set(names)) < len(names):
            raise InputError(argument, value, "one name or several different ones of " + ", ".join(self.known))
        for name in names:
            if name not in self.known:
                raise InputError(argument, name, "one of " + ", ".join(self.known))
        return names


class ManyValues(click.Command):
    """A command whose list options take several words, `--encodings rope alibi`, as well as `rope,alibi`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Join the words that follow a list option with commas."""
        listed = {o for p in self.params if isinstance(p.type, Names | Integers) for o in p.opts}
        joined: list[str] = []
        growing = False
        for position, argument in enumerate(args):
            follows = growing and not argument.startswith("--")
            first = position > 0 and args[position - 1] in listed
            if follows and not first:
                joined[-1] += f",{argument}"
            else:
                joined.append(argument)
            growing = follows or argument in listed
        return super().parse_args(ctx, joined)
