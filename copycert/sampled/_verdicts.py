"""What sampled accuracies let one say. A failure beyond the trained lengths counts only where the model copies within.

* NOT CONVERGED: below 99% at the trained lengths, on the training distribution or on the one tested. Nothing is said of
  how it generalises then.
* copies: every string tried was exact, at every length.
* fails: at every length tested from FAR on none was, of at least LEAST_SAMPLES.
* in part: anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine import Accuracy

#: Accuracy at the trained lengths from which on a model has converged.
CONVERGED = 0.99

#: Lengths from which on "fails" is measured, and the least number of strings at each.
FAR, LEAST_SAMPLES = 250, 10

Name = Literal["NOT CONVERGED", "copies", "fails", "in part"]


@dataclass(frozen=True)
class Verdict:
    """A verdict and the accuracies at the trained lengths that stand beside it.

    Attributes:
        name: the verdict.
        trained: accuracy at the trained lengths on the training distribution.
        within: the same on the distribution tested.
        longest: longest tested length up to which every string of every tested length was exact; 0 for none.
        furthest: longest length tested.
    """

    name: Name
    trained: Accuracy
    within: Accuracy
    longest: int
    furthest: int

    @property
    def beside(self) -> str:
        """The accuracies at the trained lengths in words."""
        text = f"{share(self.within)} exact at lengths <= {self.within.length}"
        if self.trained.distribution != self.within.distribution:
            text += f" ({share(self.trained)} on {self.trained.distribution}, as trained)"
        return text

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, the accuracy at the trained lengths beside it."""
        if self.name == "NOT CONVERGED":
            return f"NOT CONVERGED, {self.beside}; its failures on longer strings say nothing about generalisation."
        if self.name == "copies":
            return f"copies every string tried up to length {self.furthest}; {self.beside}."
        if self.name == "fails":
            return f"fails at every length tested from {FAR} on, not one string exact; {self.beside}."
        return f"copies in part, every string tried up to length {self.longest or 'none'}; {self.beside}."


def verdict_on(trained: Accuracy, within: Accuracy, beyond: Sequence[Accuracy]) -> Verdict:
    """The verdict on one run and one distribution."""
    longest = 0
    for accuracy in sorted(beyond, key=lambda accuracy: accuracy.length):
        if accuracy.exact < accuracy.samples:
            break
        longest = accuracy.length
    far = [accuracy for accuracy in beyond if accuracy.length >= FAR]
    name: Name = "in part"
    if min(trained.accuracy, within.accuracy) < CONVERGED:
        name = "NOT CONVERGED"
    elif beyond and all(accuracy.exact == accuracy.samples for accuracy in beyond):
        name = "copies"
    elif far and all(accuracy.exact == 0 and accuracy.samples >= LEAST_SAMPLES for accuracy in far):
        name = "fails"
    return Verdict(name, trained, within, longest, max((accuracy.length for accuracy in beyond), default=0))


def share(accuracy: Accuracy) -> str:
    """An accuracy in per cent, rounded so that 100% and 0% mean all and none."""
    percent = 100 * accuracy.accuracy
    if 0 < percent < 1:
        return "< 1%"
    if 99 < percent < 100:
        return "> 99%"
    return f"{percent:.0f}%"
