"""Hypothesis strategies for one's own tests (extra `testing`): one-layer models for Theorem 3.1, and its few strings.

    from hypothesis import given
    from proofs_check.testing import Probe, shift_probes

    @given(shift_probes(encodings=("rope", "alibi")))
    def test_one_head_never_copies(probe: Probe) -> None:
        assert probe.failing_case() is not None

A model of one's own is put to the same strings by `constructions.failing_case(model, task, refuting_cases(b))`. Half of
the probes start from models that were optimised to copy length 4 or 5, the strongest that the linear programme finds
among them, and are then moved by a random amount.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch

from constructions import (
    SHIFT_ENCODINGS,
    OptimisedProbe,
    ShiftProbe,
    failing_case,
    optimise_probe,
    refuting_cases,
    strongest_probe,
)
from theory import InputError
from theory.signs import Case

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as error:
    raise ImportError(
        "proofs_check.testing needs Hypothesis: pip install 'copycert[testing]'", name=error.name
    ) from error

#: Standard deviations by which an optimised model is moved.
MOVES = (0.0, 1e-6, 1e-3, 0.1, 1.0)

#: Random models are scaled by this: from nearly uniform attention to nearly hard attention.
SCALES = (0.01, 0.3, 1.0, 3.0, 30.0)


@dataclass(frozen=True)
class Probe:
    """A one-layer, one-head model with shift-invariant positions, as plain data; `model` builds it.

    Attributes:
        encoding: one of `constructions.SHIFT_ENCODINGS`.
        a, b: numbers of tokens of the theory layout.
        seed: of the random model, or of the move.
        size: the random model's parameters are scaled by this, an optimised one's are moved by as much.
        target: the length that the start was optimised for, or None for a random model.
        start: which of the optimised models it started from.
    """

    encoding: str
    a: int
    b: int
    seed: int
    size: float
    target: int | None = None
    start: int = 0

    @cached_property
    def model(self) -> ShiftProbe:
        """The torch model, float64."""
        if self.target is None:
            return _scaled(ShiftProbe(self.encoding, self.a, self.b, seed=self.seed), self.size)
        start = optimised_start(self.encoding, self.a, self.b, self.target, self.start)
        return _moved(deepcopy(start.probe), self.size, self.seed)

    def failing_case(self) -> Case | None:
        """The first of the certificate's strings that the real-arithmetic model is not shown to copy, or None."""
        return failing_case(self.model, self.model.task, refuting_cases(self.b), self.model.logit_error())


@lru_cache(maxsize=64)
def optimised_start(encoding: str, a: int, b: int, target: int, seed: int) -> OptimisedProbe:
    """A model optimised to copy length `target`, as far as its encoding gets; for length 5, seed 0 of `rope` and
    `table` is the linear programme's. Kept for the process, so do not change it. Cost: about a second.
    """
    if target == 5 and seed == 0 and encoding in ("rope", "table"):
        return strongest_probe(encoding, a, b)
    return optimise_probe(ShiftProbe(encoding, a, b, seed), target)


def shift_probes(
    encodings: Sequence[str] = SHIFT_ENCODINGS,
    layouts: Sequence[tuple[int, int]] = ((1, 1), (2, 2), (2, 3)),
    starts: int = 2,
) -> st.SearchStrategy[Probe]:
    """One-layer models with shift-invariant positions, half of them optimised for copying.

    Args:
        encodings: which of `constructions.SHIFT_ENCODINGS`.
        layouts: numbers of tokens (a, b) to choose from.
        starts: optimised starts for each encoding, layout and target length (4 or 5).

    Raises:
        InputError: an unknown encoding, or nothing to choose from.
    """
    for encoding in encodings:
        if encoding not in SHIFT_ENCODINGS:
            raise InputError("encodings", encoding, "some of " + ", ".join(SHIFT_ENCODINGS))
    for name, choices in (("encodings", encodings), ("layouts", layouts), ("starts", range(starts))):
        if not choices:
            raise InputError(name, "none", "at least one")
    seeds = st.integers(0, 2**31 - 1)
    targets: st.SearchStrategy[int | None] = st.none() | st.sampled_from((4, 5))
    return st.tuples(
        st.sampled_from(list(encodings)), st.sampled_from(list(layouts)), seeds, targets, st.integers(0, starts - 1)
    ).flatmap(_sized)


def _sized(chosen: tuple[str, tuple[int, int], int, int | None, int]) -> st.SearchStrategy[Probe]:
    encoding, (a, b), seed, target, start = chosen
    sizes = st.sampled_from(SCALES if target is None else MOVES)
    return sizes.map(lambda size: Probe(encoding, a, b, seed, size, target, start))


@torch.no_grad()
def _scaled(model: ShiftProbe, size: float) -> ShiftProbe:
    for parameter in model.parameters():
        parameter.mul_(size)
    return model


@torch.no_grad()
def _moved(model: ShiftProbe, size: float, seed: int) -> ShiftProbe:
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64), alpha=size)
    return model
