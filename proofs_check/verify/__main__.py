"""`python -I -O -m proofs_check.verify [--json] FILE ...`: exit code 0 all accepted, 1 one rejected, 2 bad input."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from proofs_check.verify import UnreadableCertificateError, Verdict, verify_file

USAGE = "usage: python -m proofs_check.verify [--json] FILE ..."

ACCEPTED, REJECTED, BAD_INPUT = 0, 1, 2


def main(arguments: list[str]) -> int:
    """Check files and print a line for each, or one JSON object; returns the exit code.

    A file that cannot be read is told in one line on stderr and makes the exit code 2; the others are checked all
    the same.
    """
    options = {argument for argument in arguments if argument.startswith("-")}
    files = [argument for argument in arguments if not argument.startswith("-")]
    if options & {"-h", "--help"}:
        print(USAGE)
        return ACCEPTED
    if not files or options - {"--json"}:
        _complain(USAGE)
        return BAD_INPUT
    verdicts, code = [], ACCEPTED
    for file in files:
        verdict, code_of_file = _verdict(file)
        code = max(code, code_of_file)
        verdicts.append(verdict)
        if "--json" not in options and code_of_file != BAD_INPUT:
            outcome = f"accepted: {verdict.statement}" if verdict.accepted else f"rejected: {verdict.reason}"
            print(_one_line(f"{file}: {outcome}"), flush=True)
    if "--json" in options:
        print(json.dumps({"files": [asdict(verdict) for verdict in verdicts]}))
    return code


def _verdict(file: str) -> tuple[Verdict, int]:
    try:
        verdict = verify_file(file)
    except UnreadableCertificateError as error:
        _complain(f"{file}: {error}")
        return Verdict(file, False, None, str(error)), BAD_INPUT
    return verdict, ACCEPTED if verdict.accepted else REJECTED


def _complain(message: str) -> None:
    print(_one_line(message), file=sys.stderr)


def _one_line(text: str) -> str:
    """Printable ASCII whatever stands in a file name."""
    printable = "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
    return printable.encode("ascii", "backslashreplace").decode("ascii")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
