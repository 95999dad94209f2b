"""The command `copycert`: commands are loaded when they are run, so that help and a typo cost nothing."""

from __future__ import annotations

import os

# Products here are small: more OpenBLAS threads would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from types import FrameType
from typing import NoReturn

import click

EXIT_BAD_INPUT, EXIT_UNDECIDED = 2, 3

#: A shell's code for a program that wrote to a closed pipe.
EXIT_CLOSED_OUTPUT = 141

#: Each command: the module and the name of it there, and what the list of commands says of it.
COMMANDS = {
    "attention": ("_attention", "attention_command", "Attention maps of a run, and what each head looks at."),
    "bound": ("_bound", "bound", "How far a copier copies."),
    "certify": (
        "_certify",
        "certify_command",
        "Prove that a one-layer model copies every string, or show one it does not.",
    ),
    "check": ("check", "check_command", "Decide every claim for norm budgets, with certificates."),
    "compare": ("_compare", "compare_command", "Train encodings with several seeds and compare how far they copy."),
    "decide": ("_decide", "decide_command", "Can any one-layer model copy all strings up to a length?"),
    "evaluate": ("_evaluate", "evaluate_command", "How many strings of each length a run copies exactly."),
    "floats": ("_floats", "floats_command", "Where float64, float32 and bfloat16 break what is right on paper."),
    "minimize": ("_minimize", "minimize_command", "Theorem 4.2's minimisers, searched, and bounded from below."),
    "plot": ("_plot", "plot", "Figures."),
    "thresholds": (
        "_decide",
        "thresholds_command",
        "The largest length that one layer copies, by relation.",
    ),
    "train": ("_train", "train_command", "Train a model from scratch on the copy task."),
    "verify": ("_verify", "verify_command", "Check certificates with the independent checker."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in alphabetical order."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command itself; None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, name, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(f"copycert.command.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"max_content_width": 110})
@click.version_option(package_name="copycert")
def cli() -> None:
    """Weights, certificates and counterexamples for the theorems on exact copying with RoPE and 2D-RoPE.

    Exit codes: 0 decided as expected, or accepted; 1 decided otherwise, or rejected; 2 bad input; 3 unexpectedly
    undecided.
    """


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Bad input, and files that cannot be read or written, become one line on stderr and exit code 2.

    Numbers that no precision tried tells apart become one line and exit code 3.
    """
    try:
        with _terminating():
            code = _run(arguments)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(EXIT_BAD_INPUT)
    except click.ClickException as error:
        _fail(error.format_message().replace("\n", " "), EXIT_BAD_INPUT)
    except BrokenPipeError:
        _drop_output()
        sys.exit(EXIT_CLOSED_OUTPUT)
    except OSError as error:
        _drop_output()
        _fail(_system_error(error), EXIT_BAD_INPUT)
    except (click.Abort, KeyboardInterrupt) as error:
        from copycert.command._options import NOTHING_KEPT, Stopped

        cause = error.__cause__ if isinstance(error, click.Abort) else error
        kept = cause.kept if isinstance(cause, Stopped) else NOTHING_KEPT
        _fail(f"interrupted; {kept}", 128 + getattr(cause, "number", signal.SIGINT))
    except Exception as error:
        # What these are is known only once something has been computed, and costs much to import.
        message, code = _explained(error)
        _fail(message, code)
    sys.exit(code)


#: Exceptions of ours: where they are defined, what the line begins with, and the exit code.
_EXPLAINED = (
    ("theory.numbers._errors", "InputError", "", EXIT_BAD_INPUT),
    ("theory.numbers._balls", "VacuousBallError", "UNDECIDED: ", EXIT_UNDECIDED),
    ("theory.signs._farkas", "UndecidedError", "UNDECIDED: ", EXIT_UNDECIDED),
    ("proofs_check.claims._coq", "KernelError", "Coq does not accept the proofs: ", 1),
    ("proofs_check.documents", "RejectedCertificateError", "a certificate just made was rejected: ", 1),
)


def _explained(error: Exception) -> tuple[str, int]:
    """The line and the exit code for an exception of ours; any other is raised again."""
    for module, name, beginning, code in _EXPLAINED:
        # What was raised is loaded: nothing is imported to tell.
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(error, getattr(loaded, name)):
            return beginning + " ".join(str(error).split()), code
    raise error


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
    from theory.numbers import InputError

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
