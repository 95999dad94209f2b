"""The one vocabulary of answers to "how far?": a status, `proved_to`, `fails_at`, `exact`."""

from __future__ import annotations

from typing import Literal, Protocol

#: PROVED (for a length: up to `proved_to`), REFUTED (with a witness) or UNDECIDED (a search that found nothing).
Status = Literal["PROVED", "REFUTED", "UNDECIDED"]


class LengthAnswer(Protocol):
    """What every answer to a question of length tells."""

    @property
    def status(self) -> Status:
        """Of what was asked."""
        ...

    @property
    def proved_to(self) -> int:
        """Every string of every length up to it is copied, proved (0: nothing proved)."""
        ...

    @property
    def fails_at(self) -> int | None:
        """A length of which some string is proved not to be copied; None if none was found."""
        ...

    @property
    def exact(self) -> bool:
        """Is `proved_to` the largest length up to which every string is copied?"""
        ...
