"""Theorem 4.1: one attention layer with 2D-RoPE copies. The weights, and the derivation beside them.

*Claim* (paper). For d >= 100 + 4a + 4b divisible by 4 and rho > d^2, random frequencies allow with probability >= 1 -
d/rho a one-layer model with parameter norm <= rho that copies every binary string of length <= rho^(d/12).

*Construction* (reconstructed from section 4.5.2). In the theory layout the symbol s_i stands at (0, a+i-1) and the
query of step i at (1, b+i-3): the wanted key is at the fixed relative position (-1, a+2-b).

- *residual space*: `asks and answers`, the same for every embedded token, and `symbol`, +1 for the token 0 and -1 for
  the token 1 (times a small weight). Nothing else.
- *query* of every embedded token: the unit vector of each rotary pair turned by beta * wanted; *key*: the unit vector
  unturned. Then the score at relative position r is `S sum_f cos(beta_f (r - wanted))`: largest exactly at the wanted
  key.
- *value*: reads `symbol`; the read-out gives it to output 0 and its negative to output 1.

With embedding weight alpha, query and key weight kappa, S = alpha^2 kappa^2 and the squared norm is V alpha^2 + d
kappa^2 + (symbol, value, output, read-out: below 2^-42 of rho^2). V alpha^2 = d kappa^2 = rho^2/2 maximises S =
rho^4/(4 V d).

*Budgets.* `paper`: all V = a+b+2 tokens are embedded. `three-tokens` (new): only 0, 1 and B_b ever ask and only 0 and 1
must be found; the other tokens have embedding 0, so score 0 and value 0: they take part of the attention and change no
sign. V = 3 makes S = rho^4/(12 d).

*Why it copies.* Output 0 minus output 1 has the sign of sum over data tokens seen of exp(score) * (+1 for 0, -1 for 1).
theory/grid/_length_scan.py turns this into the exact condition on the length.

*b = 1.* The newline itself asks at step 1, n columns away from s_1 in its own row: no fixed offset serves. `build`
refuses it unless told otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from constructions._exact_weights import exact_matrix, exact_product, exact_square_norm, require_buildable
from constructions._subspaces import Space, linear_map, rotary_pairs
from engine import Transformer, TransformerConfig, load_exactly, load_weights, save_weights
from theory import CopyTask, GridFrequencies, GridScore, InputError, theory_task
from theory.grid import Amplitude, Budget, embedded_tokens, require_two_after
from theory.numbers import (
    grid_frequencies_document,
    grid_frequencies_from_document,
    require_pair_dimension,
)

ASKS, SYMBOL = "asks and answers", "symbol"

#: The weights of the value path, relative to rho; a power of two, so that it scales logits exactly.
VALUE_WEIGHT = 2.0**-24

#: Part of the norm kept for the value path and for rounding.
RESERVE = 2.0**-40

WANTED_ROW = -1


def wanted_column(a: int, b: int) -> int:
    """Column of the wanted key relative to the query: a + 2 - b at every step."""
    return a + 2 - b


@dataclass(frozen=True)
class GridCopier:
    """The copier of Theorem 4.1 as a torch model, with what it was built from.

    Attributes:
        model: the transformer, one layer and one head.
        task: the layout.
        frequencies: exact frequencies.
        rho: the norm budget.
        budget: which tokens are embedded.
    """

    model: Transformer
    task: CopyTask
    frequencies: GridFrequencies
    rho: Fraction
    budget: Budget

    def square_norm(self) -> Fraction:
        """Sum of the squares of all stored parameters, exact."""
        return exact_square_norm(self.model.parameters())

    def score(self) -> GridScore:
        """The position-only score of the stored weights, exact rationals.

        Raises:
            InputError: the stored weights are not position-only.
        """
        queries, keys, votes = self._exact_heads()
        asking = {0, 1, self.task.infix[-1]}
        shared = len({tuple(queries[token]) for token in asking}) == 1 and keys[0] == keys[1]
        if not shared or not votes[0] > 0 or votes[0] != -votes[1] or any(votes[2:]):
            raise InputError(
                "weights",
                "these",
                "a position-only model: one query, one key, opposite values for 0 and 1, others 0",
            )
        amplitudes = [_amplitude(queries[0][i : i + 2], keys[0][i : i + 2]) for i in range(0, len(queries[0]), 2)]
        rows = len(self.frequencies.row)
        wanted = (WANTED_ROW, wanted_column(self.task.a, self.task.b))
        return GridScore(
            self.frequencies,
            tuple(amplitudes[:rows]),
            tuple(amplitudes[rows:]),
            wanted,
            self.task.a,
            self.task.b,
        )

    def _exact_heads(self) -> tuple[list[list[Fraction]], list[list[Fraction]], list[Fraction]]:
        """Query and key of each token, and the logit of 0 minus the logit of 1 that its value adds; exact."""
        attention = self.model.block(0).attention
        tokens = exact_matrix(self.model.embedding.weight)
        queries = [exact_product(attention.query.weight, token) for token in tokens]
        keys = [exact_product(attention.key.weight, token) for token in tokens]
        values = [
            exact_product(attention.output.weight, exact_product(attention.value.weight, token)) for token in tokens
        ]
        logits = [exact_product(self.model.readout.weight, value) for value in values]
        return queries, keys, [zero - one for zero, one in logits]

    def metadata(self) -> dict[str, Any]:
        """What the weights file says beside the tensors; see docs/certificates.md."""
        return {
            "construction": "grid-copier",
            "a": self.task.a,
            "b": self.task.b,
            "rho": str(self.rho),
            "budget": self.budget,
            "frequencies": grid_frequencies_document(self.frequencies),
            "config": self.model.config.document(),
        }

    def save(self, path: Path) -> str:
        """Save as safetensors with metadata; returns the file's SHA-256."""
        return save_weights(path, self.model.state_dict(), self.metadata())


def build_grid_copier(
    rho: Fraction | int,
    d: int,
    a: int,
    b: int,
    frequencies: GridFrequencies,
    budget: Budget = "three-tokens",
    *,
    allow_single_b: bool = False,
) -> GridCopier:
    """The copier for parameter norm at most rho, float64.

    Args:
        rho: norm budget over all parameters, > 0.
        d: RoPE dimension and width of the residual stream, a multiple of 4.
        a, b: numbers of tokens before and after the string.
        frequencies: d/4 row and d/4 column frequencies.
        budget: "paper" embeds all tokens, "three-tokens" only 0, 1 and B_b.
        allow_single_b: build for b = 1 as well, where the construction fails at step 1 (to show how).

    Postcondition: `square_norm() <= rho^2`, checked in exact arithmetic.

    Raises:
        InputError: rho <= 0, d no multiple of 4, frequencies that do not fit d, b < 2 (unless allowed), unknown budget.
    """
    require_pair_dimension(d)
    if not allow_single_b:
        require_two_after(b)
    if frequencies.head_width != d:
        raise InputError("frequencies", f"{len(frequencies.row)} + {len(frequencies.column)}", f"d/2 = {d // 2} in all")
    require_buildable("d", d, d)
    rho = Fraction(rho)
    embedded = embedded_tokens(budget, a, b)
    _require_representable(rho)
    task = theory_task(a, b)
    model = Transformer(_config(task, d), frequencies, task.newline).to(torch.float64).requires_grad_(False)
    alpha = float(rho) * (1 - RESERVE) / (2 * embedded) ** 0.5
    kappa = float(rho) * (1 - RESERVE) / (2 * d) ** 0.5
    _load(model, _weights(task, d, frequencies, budget, alpha, kappa, value_weight(rho)))
    copier = GridCopier(model, task, frequencies, rho, budget)
    if copier.square_norm() > rho**2:
        raise ArithmeticError(f"the norm exceeds rho = {rho}; the reserve is too small")
    return copier


def value_weight(rho: Fraction) -> float:
    """The weight of the value path: a power of two near 2^-24 rho."""
    return VALUE_WEIGHT * 2.0 ** (rho.numerator.bit_length() - rho.denominator.bit_length())


def _require_representable(rho: Fraction) -> None:
    if not Fraction(1, 10**6) <= rho <= 10**60:
        raise InputError("rho", str(rho), "a number from 1e-6 to 1e60, so that weights and scores are float64 numbers")


def _config(task: CopyTask, d: int) -> TransformerConfig:
    position: Literal["grid"] = "grid"
    return TransformerConfig(
        vocabulary_size=task.vocabulary_size, model_width=d, layers=1, heads=1, head_width=d, value_width=1, outputs=2,
        position=position, residual=False, pre_norm=False, sub_norm=False, final_norm=False,
    )  # fmt: skip


def _weights(
    task: CopyTask,
    d: int,
    frequencies: GridFrequencies,
    budget: Budget,
    alpha: float,
    kappa: float,
    small: float,
) -> dict[str, Tensor]:
    residual = Space((ASKS, SYMBOL), d)
    head = rotary_pairs(len(frequencies.row), len(frequencies.column))
    value, logits = Space(("vote",), 1), Space(("0", "1"), 2)
    everyone = range(task.vocabulary_size) if budget == "paper" else (0, 1, task.infix[-1])
    symbols = {0: small, 1: -small}
    embedding = [
        residual.vector({ASKS: alpha if token in everyone else 0.0, SYMBOL: symbols.get(token, 0.0)})
        for token in range(task.vocabulary_size)
    ]
    return {
        "embedding.weight": torch.stack(embedding),
        "blocks.0.attention.query.weight": linear_map(residual, head, {ASKS: _turned_units(frequencies, task, kappa)}),
        "blocks.0.attention.key.weight": linear_map(residual, head, {ASKS: dict.fromkeys(head.names[0::2], kappa)}),
        "blocks.0.attention.value.weight": linear_map(residual, value, {SYMBOL: {"vote": small}}),
        "blocks.0.attention.output.weight": linear_map(value, residual, {"vote": {SYMBOL: small}}),
        "readout.weight": linear_map(residual, logits, {SYMBOL: {"0": small, "1": -small}}),
    }


def _turned_units(frequencies: GridFrequencies, task: CopyTask, kappa: float) -> dict[str, float]:
    """The query: each pair's unit vector turned by beta * wanted, so that it meets the key at the wanted position
    unturned.
    """
    turned: dict[str, float] = {}
    axes = (
        ("row", frequencies.row, WANTED_ROW),
        ("column", frequencies.column, wanted_column(task.a, task.b)),
    )
    for axis, values, wanted in axes:
        for number, frequency in enumerate(values):
            cosine, sine = frequency.float_cos_sin(wanted)
            turned |= {f"{axis} {number} x": kappa * cosine, f"{axis} {number} y": kappa * sine}
    return turned


def _amplitude(query: list[Fraction], key: list[Fraction]) -> Amplitude:
    (qx, qy), (kx, ky) = query, key
    return qx * kx + qy * ky, qy * kx - qx * ky


def _load(model: Transformer, weights: dict[str, Tensor]) -> None:
    model.load_state_dict(weights, strict=True)


def load_grid_copier(path: Path) -> GridCopier:
    """A copier from its weights file, every stored number exactly.

    Raises:
        InputError: unreadable, truncated, or no weights of this construction.
    """
    tensors, metadata = load_weights(path)
    try:
        task = theory_task(metadata["a"], metadata["b"])
        frequencies = grid_frequencies_from_document(metadata["frequencies"])
        config = TransformerConfig.from_document(metadata["config"])
        model = Transformer(config, frequencies, task.newline).requires_grad_(False)
        load_exactly(model, tensors, path)
        return GridCopier(model, task, frequencies, Fraction(metadata["rho"]), metadata["budget"])
    except InputError:
        raise
    except (KeyError, TypeError, RuntimeError, ValueError) as error:
        raise InputError(
            "weights", str(path), f"a weights file of the grid copier ({str(error).splitlines()[0]})"
        ) from error
