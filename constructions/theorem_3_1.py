"""Theorem 3.1's other side: a one-layer RoPE transformer that copies every binary string up to the threshold.

*Claim* (paper, appendix H). No one-layer transformer with a shift-invariant positional encoding copies all binary
strings of length n <= 5.

*What is built here* (new). For b >= 2 a one-layer, one-head RoPE transformer that copies every string of length <= 5,
with the tokens 0 and 1 voting for the same output. So the printed claim needs a condition: opposite votes (then 4 is
the largest length), or b = 1 (4 as well), or n <= 6 (then no condition at all). The paper's definitions (its equations
1 and 2, appendix G) are missing from the text that we have, so a condition that we cannot see may exclude this model.

*Construction.* A witness of the sign system gives exp(score) = w(c, x, r) > 0 for each query token c, key token x and
distance r, and a vote +1 or -1 of each token. RoPE with cosines alone reaches every such table:

- only 0, 1 and the last of B ever ask: three query tokens, and for each of them one copy of the same F frequencies;
- the query of c is 1 in the x coordinate of each pair of its own copy, 0 elsewhere; the key of x is a_f(c, x) in the x
  coordinate of pair f of copy c. Turned to their positions they meet with score `sum_f a_f(c, x) cos(beta_f r)`;
- `beta_f = pi f / (D+1)`, f = 0 .. F-1, D the largest distance. cos(beta_f r) is the Chebyshev polynomial T_f at
  cos(pi r / (D+1)), and these points are different for r = 0 .. D, so any values at up to F distances are met by some
  a_f. F is the largest number of distances at which one query token sees one key token. From length 3 on these are
  the data tokens, seen from 0 or 1 at the n - 1 distances of outputs and the 2n - 2 of sources, of which
  max(0, n - 2 - b) are shared. Frequency 0 turns nothing, so its pairs are the row pairs of the engine's 2D-RoPE;
- each token's value is its vote, read out to output 0 and its negative to output 1.

At length 5: F = 11 and RoPE dimension d = 2 * 3 * 11 = 66 for b = 2; F = 12 and d = 72 for b >= 3; whatever a is.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import log

import numpy as np
import torch
from flint import arb
from jaxtyping import Float64
from torch import Tensor

from constructions._exact_weights import exact_matrix, exact_product
from constructions._subspaces import Space, linear_map, rotary_pairs
from engine import Transformer, TransformerConfig
from theory import CopyTask, GridFrequencies, InputError, Turn, decide, theory_task
from theory.numbers import ball, rational_turns, working_precision
from theory.signs import Unknown, Witness, seen_by_steps

VOTE = "vote"

#: Bits of the ball arithmetic in which stored weights are judged.
PRECISION = 128


@dataclass(frozen=True)
class ShiftCopier:
    """A one-layer RoPE copier as a torch model, with the witness that it realises.

    Attributes:
        model: the transformer, one layer and one head, float64.
        task: the theory layout.
        witness: the exact table of weights and votes.
        frequencies: exact frequencies: those of the column pairs turn with the index, the row pairs are the zeros.
    """

    model: Transformer
    task: CopyTask
    witness: Witness
    frequencies: GridFrequencies

    @property
    def d(self) -> int:
        """The RoPE dimension: two coordinates for each pair."""
        return self.frequencies.head_width

    @property
    def distinct_frequencies(self) -> tuple[Fraction, ...]:
        """The frequencies of each query token's copy, in turns per position, 0 first."""
        return tuple(sorted({*rational_turns(self.frequencies.row), *rational_turns(self.frequencies.column)}))

    def margin(self) -> arb:
        """Least difference of the logits, right minus wrong, of the stored weights over all strings, a ball.

        It is about the real-arithmetic model with the stored binary weights and the exact frequencies, in units of the
        votes. A ball that is certainly positive proves that every string up to the witness's length is copied.

        Cost: a cosine and an exponential for each unknown, then a sum for each step.
        """
        with working_precision(PRECISION):
            weights, votes = self._weights_in_balls(), self._votes()
            differences = (
                _logit(seen, weights, votes) * (1 if string[step - 1] == "0" else -1)
                for string, step, seen in seen_by_steps(self.witness.layout, self.witness.length)
            )
            return reduce(lambda least, difference: least.min(difference), differences)

    def _weights_in_balls(self) -> dict[Unknown, arb]:
        attention = self.model.block(0).attention
        tokens = exact_matrix(self.model.embedding.weight)
        queries = [exact_product(attention.query.weight, token) for token in tokens]
        keys = [exact_product(attention.key.weight, token) for token in tokens]
        number = {name: token for token, name in enumerate(self.task.names)}
        return {
            unknown: self._score(queries[number[unknown.query]], keys[number[unknown.token]], *unknown.relation).exp()
            for unknown in self.witness.weights
        }

    def _score(self, query: list[Fraction], key: list[Fraction], distance: int) -> arb:
        """sum_f A cos(beta_f r) + B sin(beta_f r), the rotated key's product with the rotated query; pairs that do
        not turn first.
        """
        total = arb(0)
        for pair, frequency in enumerate((*self.frequencies.row, *self.frequencies.column)):
            (qx, qy), (kx, ky) = query[2 * pair : 2 * pair + 2], key[2 * pair : 2 * pair + 2]
            even, odd = qx * kx + qy * ky, qx * ky - qy * kx
            if even or odd:
                cosine, sine = frequency.cos_sin(distance)
                total += ball(even) * cosine + ball(odd) * sine
        return total

    def _votes(self) -> dict[str, Fraction]:
        attention = self.model.block(0).attention
        votes = {}
        for name, token in zip(self.task.names, exact_matrix(self.model.embedding.weight), strict=True):
            value = exact_product(attention.output.weight, exact_product(attention.value.weight, token))
            zero, one = exact_product(self.model.readout.weight, value)
            votes[name] = zero - one
        return votes


def build_shift_copier(a: int, b: int, length: int = 5, signs: str = "any") -> ShiftCopier:
    """The RoPE copier of all strings of length <= `length`, for a and b tokens around the string; float64.

    Postcondition: the stored weights copy every string, in ball arithmetic.

    Raises:
        InputError: no such model exists (length above the threshold: 5 for b >= 2, else 4), or as in `decide`.

    Cost: one decision, about a second at length 5.
    """
    decision = decide("shift", a, b, length, signs)
    if decision.witness is None:
        cases = ", ".join(f"step {case.step} of {case.string}" for case in decision.cases)
        raise InputError("length", length, f"a length that one layer can copy; these contradict each other: {cases}")
    copier = _realise(decision.witness, theory_task(a, b))
    margin = copier.margin()
    if not margin > 0:
        raise ArithmeticError(f"the stored weights miss the witness: margin {margin}")
    return copier


def _realise(witness: Witness, task: CopyTask) -> ShiftCopier:
    asking = ("0", "1", task.names[task.infix[-1]])
    frequencies = _frequencies(witness, len(asking))
    model = Transformer(_config(task, frequencies), frequencies, task.newline).to(torch.float64).requires_grad_(False)
    model.load_state_dict(_weights(witness, task, asking, frequencies), strict=True)
    return ShiftCopier(model, task, witness, frequencies)


def _frequencies(witness: Witness, copies: int) -> GridFrequencies:
    """F - 1 nonzero frequencies for each query token, copy by copy, and a row pair of frequency 0 for each."""
    count = max(2, *(len(targets) for targets in _targets(witness).values()))  # the engine wants a column pair
    largest = max(unknown.relation[0] for unknown in witness.weights)
    one_copy = tuple(Turn(Fraction(f, 2 * (largest + 1))) for f in range(1, count))
    return GridFrequencies(row=(Turn(Fraction(0)),) * copies, column=one_copy * copies)


def _targets(witness: Witness) -> dict[tuple[str, str], dict[int, float]]:
    """log of the weight at each distance, for each query token and key token."""
    targets: dict[tuple[str, str], dict[int, float]] = {}
    for unknown, weight in witness.weights.items():
        targets.setdefault((unknown.query, unknown.token), {})[unknown.relation[0]] = log(weight)
    return targets


def _config(task: CopyTask, frequencies: GridFrequencies) -> TransformerConfig:
    width = frequencies.head_width
    return TransformerConfig(
        vocabulary_size=task.vocabulary_size, model_width=max(width, task.vocabulary_size + 1), layers=1, heads=1,
        head_width=width, value_width=1, outputs=2, position="shift", residual=False, pre_norm=False, sub_norm=False,
        final_norm=False,
    )  # fmt: skip


def _weights(
    witness: Witness, task: CopyTask, asking: tuple[str, ...], frequencies: GridFrequencies
) -> dict[str, Tensor]:
    residual = Space((*task.names, VOTE), max(frequencies.head_width, task.vocabulary_size + 1))
    head = rotary_pairs(len(frequencies.row), len(frequencies.column))
    value, logits = Space((VOTE,), 1), Space(("0", "1"), 2)
    pairs = {query: _pairs_of(copy, len(asking), frequencies) for copy, query in enumerate(asking)}
    keys: dict[str, dict[str, float]] = {}
    for (query, token), targets in _targets(witness).items():
        amplitudes = _amplitudes(targets, frequencies, len(asking))
        keys.setdefault(token, {}).update(zip(pairs[query], amplitudes, strict=True))
    return {
        "embedding.weight": torch.stack([residual.vector({name: 1.0}) for name in task.names]),
        "blocks.0.attention.query.weight": linear_map(
            residual, head, {query: dict.fromkeys(names, 1.0) for query, names in pairs.items()}
        ),
        "blocks.0.attention.key.weight": linear_map(residual, head, keys),
        "blocks.0.attention.value.weight": linear_map(
            residual, value, {name: {VOTE: float(witness.votes[name])} for name in task.names}
        ),
        "blocks.0.attention.output.weight": linear_map(value, residual, {VOTE: {VOTE: 1.0}}),
        "readout.weight": linear_map(residual, logits, {VOTE: {"0": 0.5, "1": -0.5}}),
    }


def _pairs_of(copy: int, copies: int, frequencies: GridFrequencies) -> list[str]:
    """The x coordinates of the pairs of one query token's copy, frequency 0 first."""
    each = len(frequencies.column) // copies
    return [f"row {copy} x", *(f"column {copy * each + f} x" for f in range(each))]


def _amplitudes(targets: dict[int, float], frequencies: GridFrequencies, copies: int) -> list[float]:
    """The smallest a_f with `sum_f a_f cos(beta_f r)` equal to the target at each distance r."""
    each = len(frequencies.column) // copies
    turns = [Fraction(0), *rational_turns(frequencies.column[:each])]
    angles = np.array([[2 * np.pi * float(turn * distance % 1) for turn in turns] for distance in targets])
    solution: Float64[np.ndarray, " frequencies"] = np.linalg.lstsq(np.cos(angles), list(targets.values()))[0]
    return [float(amplitude) for amplitude in solution]


def _logit(seen: list[Unknown], weights: dict[Unknown, arb], votes: dict[str, Fraction]) -> arb:
    numerator, denominator = arb(0), arb(0)
    for unknown in seen:
        numerator += weights[unknown] * ball(votes[unknown.token])
        denominator += weights[unknown]
    return numerator / denominator
