"""The table that a check ends with: a line for each claim, none wider than 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from proofs_check.claims import Claim

WIDTH, GAP = 80, "  "

STYLES = {"PROVED": "green", "REFUTED": "magenta", "UNDECIDED": "yellow", "NOT_APPLICABLE": "dim"}

#: Marks a claim that was not decided as expected.
SURPRISE = " (!)"

#: Columns in the order in which they give way where a line is too long: position, and the least width.
_GIVE_WAY = ((0, 20), (3, 14), (4, 14), (1, 6))

#: Widest that a column is: the claim, its norm budget, its status, what the paper prints, what we have.
_WIDEST = (26, 10, 18, 19, 30)


def table(claims: Sequence[Claim]) -> Iterator[Text]:
    """The lines of the table: a head, the claims, and what was expected of those that surprise.

    Norm budgets are named if there are several.
    """
    several = len({claim.rho for claim in claims if claim.rho is not None}) > 1
    head = ("claim", "rho" if several else "", "status", "the paper prints", "we have")
    rows = [_cells(claim, several=several) for claim in claims]
    widths = _widths([head, *rows])
    yield Text(_line(head, widths), "bold")
    for claim, row in zip(claims, rows, strict=True):
        line = Text(_line(row, widths))
        line.highlight_words([claim.status], STYLES[claim.status])
        line.highlight_words([SURPRISE], "bold red")
        yield line
    yield from (_explained(claim, several=several) for claim in claims if not claim.as_expected)


def _cells(claim: Claim, *, several: bool) -> tuple[str, ...]:
    rho = (claim.rho or "all") if several else ""
    return claim.id, rho, claim.status + SURPRISE * (not claim.as_expected), claim.printed, claim.ours


def _explained(claim: Claim, *, several: bool) -> Text:
    where = f" at rho = {claim.rho}" if several and claim.rho is not None else ""
    expected = claim.expected or "a decision"
    return Text(shortened(f"(!) {claim.id}{where}: {claim.status}, expected {expected}", WIDTH), "bold red")


def _widths(rows: Sequence[tuple[str, ...]]) -> list[int]:
    """How wide each column is; 0 for one that is empty."""
    widths = [
        min(widest, max(map(len, column))) for widest, column in zip(_WIDEST, zip(*rows, strict=True), strict=True)
    ]
    for position, least in _GIVE_WAY:
        excess = sum(widths) + len(GAP) * (sum(width > 0 for width in widths) - 1) - WIDTH
        if excess > 0 and widths[position]:
            widths[position] = max(min(widths[position], least), widths[position] - excess)
    return widths


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    *names, printed, ours = zip(cells, widths, strict=True)
    shown = [*(shortened(*name) for name in names), cut(*printed), cut(*ours)]
    return GAP.join(cell.ljust(width) for cell, width in zip(shown, widths, strict=True) if width).rstrip()


def shortened(text: str, width: int) -> str:
    """The text, with its middle left out if it is too long: names differ at their ends."""
    if len(text) <= width:
        return text
    if width <= 3:
        return text[:width]
    end = (width - 3) // 2
    return f"{text[: width - 3 - end]}...{text[len(text) - end :]}"


def cut(text: str, width: int) -> str:
    """The text, with its end left out if it is too long, so that no number looks whole that is not."""
    return text if len(text) <= width else f"{text[: width - 3].rstrip()}..."
