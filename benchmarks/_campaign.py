"""What benchmarks with stored results have in common: their options, and the file of rows, which a run goes on with.

A results file is JSON Lines: a head line, then a line a row. The head holds the parameters and where the rows came from
(`_provenance`); where parts of a file were made at different times, that stands under `parts`, by the name in the rows'
field `part`. A row is appended whole when it is known. A last line without its end is what a killed run left: dropped.

Results of other parameters are refused, since nobody who asks for a hundredth of a campaign wants to lose the whole.
Results of the same parameters but of other folders are begun anew. A head that is not clean is gone on with as long as
the hashes are the same; `is_of_present_folders` never holds of it.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from rich.console import Console
from rich.progress import track

from benchmarks._provenance import provenance
from engine import write_atomically

Record = dict[str, Any]
Wanted = TypeVar("Wanted")

#: What a head says beside the parameters: where the rows came from, on what they ran, and how many seeds (a later run
#: may ask for more).
NOT_PARAMETERS = ("commit", "clean", "trees", "parts", "python", "torch", "seeds")


def option_parser(description: str | None, results: Path, *, scale: str | None = None) -> argparse.ArgumentParser:
    """Options of a benchmark: `--out`, and `--scale` with its help."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=results, help="results file")
    if scale is not None:
        parser.add_argument("--scale", type=float, default=1.0, help=scale)
    return parser


def refuse(message: str) -> NoReturn:
    """One line, exit code 2."""
    print(message, file=sys.stderr)
    raise SystemExit(2)


def read(path: Path) -> tuple[Record, list[Record]]:
    """Head and rows of a results file; nothing where there is none. A torn last line is dropped."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    try:
        whole = [json.loads(line) for line in lines if line.endswith(b"\n")]
    except ValueError:
        refuse(f"{path}: not a results file; name another with --out, or delete it")
    return (whole[0], whole[1:]) if whole else ({}, [])


def text_of(head: Record, rows: Iterable[Record]) -> bytes:
    """The whole file."""
    return "".join(line(one) for one in (head, *rows)).encode()


def line(row: Record) -> str:
    """One line, as short as JSON has it."""
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n"


class Results:
    """The rows of a benchmark and their file."""

    def __init__(
        self, path: Path, parameters: Record, folders: Sequence[str], *, parts: Sequence[str] | None = None
    ) -> None:
        """Go on with what `path` holds; of `parts` (those asked for) each by itself. Refuses other parameters."""
        self.path = path
        now, parameters = provenance(folders), json.loads(json.dumps(parameters))
        head, rows = read(path)
        _refuse_others(path, head, parameters)
        if parts is None:
            self.head = {**now, **parameters}
            self.rows = rows if {key: head.get(key) for key in now} == now else []
        else:
            known: dict[str, Record] = head.get("parts", {})
            stale = {part for part in parts if {key: known.get(part, {}).get(key) for key in now} != now}
            self.head = {**parameters, "parts": known | dict.fromkeys(stale, now)}
            self.rows = [row for row in rows if row["part"] not in stale]
        self._write()

    def add(self, *rows: Record) -> None:
        """Append rows, all in one go."""
        with self.path.open("ab") as file:
            file.write("".join(map(line, rows)).encode())
        self.rows += rows

    def missing(
        self, wanted: Iterable[Wanted], key: Callable[[Record], Wanted | None], *, each: int = 1
    ) -> list[Wanted]:
        """Those of `wanted` that are the key of fewer than `each` rows; such rows, of a torn batch, are dropped."""
        count = Counter(key(row) for row in self.rows)
        torn = {name for name, number in count.items() if name is not None and number < each}
        if torn:
            self.rows = [row for row in self.rows if key(row) not in torn]
            self._write()
        return [name for name in wanted if count[name] < each]

    def _write(self) -> None:
        data = text_of(self.head, self.rows)
        if not self.path.exists() or self.path.read_bytes() != data:
            write_atomically(self.path, data)


def _refuse_others(path: Path, head: Record, parameters: Record) -> None:
    stored = {key: value for key, value in head.items() if key not in NOT_PARAMETERS}
    if head and stored != parameters:
        names = [name for name in stored | parameters if stored.get(name) != parameters.get(name)]
        other = ", ".join(f"{name} {stored.get(name)}, asked for {parameters.get(name)}" for name in names)
        refuse(f"{path}: results of other parameters ({other}); name another file with --out, or delete it")


def progress(wanted: Sequence[Wanted], name: str) -> Iterator[Wanted]:
    """`wanted` with a progress bar, on the error stream: what is printed at the end can be read by a program."""
    yield from track(wanted, name, console=Console(stderr=True))


def write_fresh(path: Path, head: Record, folders: Sequence[str], rows: Iterable[Record]) -> None:
    """The file of a benchmark that is measured in one go."""
    write_atomically(path, text_of({**provenance(folders), **head}, rows))


def show(found: Any) -> None:
    """Print what a run came to."""
    print(json.dumps(found, indent=1))


@dataclass(frozen=True)
class Numbered:
    """A campaign of numbered cases, each a function of the seed and its number.

    Attributes:
        cases: how many there are.
        seed: of the stored rows.
        what: what they are, in the plural.
        results: the results file.
        folders: what the rows depend on.
    """

    cases: int
    seed: int
    what: str
    results: Path
    folders: tuple[str, ...]

    def run(
        self,
        arguments: list[str] | None,
        description: str | None,
        record: Callable[[int, int], Record],
        totals: Callable[[list[Record]], Record],
    ) -> int:
        """Make the rows that are missing, `record(number, seed)`, and show the totals; 1 where these name faults."""
        parser = option_parser(description, self.results, scale=f"fraction of the {self.what}")
        parser.add_argument("--first", type=int, default=0)
        parser.add_argument("--count", type=int, default=None)
        parser.add_argument("--seed", type=int, default=self.seed)
        options = parser.parse_args(arguments)
        count = max(1, round(self.cases * options.scale)) if options.count is None else options.count
        results = Results(options.out, {"seed": options.seed}, self.folders)
        wanted = range(options.first, options.first + count)
        for number in progress(results.missing(wanted, lambda row: row["number"]), self.what):
            results.add(record(number, options.seed))
        found = totals(results.rows)
        show(found)
        return 1 if found["faults"] else 0


class OutOfTimeError(BaseException):
    """Not an Exception: the checker turns every Exception into a rejection."""


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """OutOfTimeError after so many seconds."""

    def stop(*_: object) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
