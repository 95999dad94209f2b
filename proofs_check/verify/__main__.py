"""`python -I -O -m proofs_check.verify [--json] FILE|DIR ...`: 0 all accepted, 1 one rejected, 2 bad input."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from proofs_check.verify._verdict import Verdict, verify_paths

USAGE = "usage: python -m proofs_check.verify [--json] FILE|DIR ..."

ACCEPTED, REJECTED, BAD_INPUT = 0, 1, 2


def main(arguments: list[str]) -> int:
    """Check files and print a line for each, or one JSON object; returns the exit code.

    A file that cannot be read is told in one line on stderr and makes the exit code 2; the others are checked all
    the same. Of a folder, the certificates in it are checked and other JSON files named on stderr.
    """
    options = {argument for argument in arguments if argument.startswith("-")}
    files = [argument for argument in arguments if not argument.startswith("-")]
    if options & {"-h", "--help"}:
        print(USAGE)
        return ACCEPTED
    if not files or options - {"--json"}:
        _complain(USAGE)
        return BAD_INPUT
    verdicts, skipped, code = [], [], ACCEPTED
    for finding in verify_paths(files):
        if finding.skipped is not None:
            skipped.append({"file": finding.file, "reason": finding.skipped})
            _complain(f"{finding.file} {finding.skipped}: skipped")
            continue
        verdict = finding.verdict
        if verdict is None:
            code = BAD_INPUT
            verdict = Verdict(finding.file, False, None, finding.unreadable)
            _complain(f"{finding.file} {finding.unreadable}")
        else:
            code = max(code, ACCEPTED if verdict.accepted else REJECTED)
            outcome = f"accepted: {verdict.statement}" if verdict.accepted else f"rejected: {verdict.reason}"
            if "--json" not in options:
                print(_one_line(f"{verdict.file}: {outcome}"), flush=True)
        verdicts.append(verdict)
    if "--json" in options:
        print(json.dumps({"files": [asdict(verdict) for verdict in verdicts], "skipped": skipped}))
    return code


def _complain(message: str) -> None:
    print(_one_line(message), file=sys.stderr)


def _one_line(text: str) -> str:
    """Printable ASCII whatever stands in a file name."""
    printable = "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
    return printable.encode("ascii", "backslashreplace").decode("ascii")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
