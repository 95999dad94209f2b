"""Theorem 3.2: two attention layers with RoPE copy. The weights, and the derivation beside them.

*Claim* (paper, appendix I). For a, b >= 2 and rho > 10^4 a two-layer transformer of width d = 10a + 10b + 100 and
parameter norm <= rho copies every binary string of length <= L0 = rho^2/(1000 ln rho). The constants alpha = rho/10,
beta_1 = 0, beta_2 = pi/(4 L0) and the lemma are in the text; the architecture and the weights are not, so what follows
is reconstructed. Here L0 is rounded down, which claims the same lengths and makes beta_2 a rational part of a turn.

*Layer 1* turns indices into directions. Every token that matters asks the same question; only the anchors A_{a-1}, A_a,
B_{b-1}, B_b, which must be four different tokens, have a value, each a direction of its own (y1, y2, y3, y4).

- The query stands at the angle chi of a pair with frequency beta, the A keys at +beta/2, the B keys at -beta/2. At
  distance r the scores are `K_A(r) = C cos(beta r - beta/2 + chi)` and `K_B(r) = C cos(beta r + beta/2 + chi)`.
- s_j sees A_{a-1} and A_a at the distances j+1 and j, the query of step i sees B_{b-1} and B_b at i and i-1. Both
  differences of scores are the same function: `D(x) = K_A(x+1) - K_A(x) = K_B(x) - K_B(x-1) = -2 C sin(beta/2)
  sin(beta x + chi)`, at x = j and at x = i. The half steps +-beta/2 make this exact in stored weights, for every b.
- The B anchors score higher by a constant, the lift, so that queries see the A anchors almost not at all.
- The head output, divided by its Euclidean norm ("unit" sub-norm), is `h = (p, 1-p)/|(p, 1-p)|` in the plane (y1, y2)
  for sources, (y3, y4) for queries, with p/(1-p) = exp(D): a point at the angle phi = arctan exp(-D) of a quadrant.

*Layer 2* compares directions: queries read (y3, y4), keys (y1, y2), into a pair that does not turn; the score is
S <h_i, h_j>, S = o^2 q k. Value: +1 for the token 0 and -1 for 1, 0 for the rest, whose normalised sum is +-1.

*Norm.* Layer 2 costs 4 o^2 + 2 q^2 + 2 k^2 for S = o^2 q k, so S = rho^4/64 at best, for o = q = k. Layer 1 with sum of
|C| about rho^2 costs only O(rho): n e_q^2 + 4 e_k^2 for the embeddings (n tokens ask) and 2 sqrt 2 C/(e_q e_k) for
query and keys, least at (e_q e_k)^2 = C/sqrt(2 n). The value paths are scale-free and cost 2^-20 rho^2 or so. Nothing
depends on a or b.

*Variants.*
- `paper`: C = L0, chi = 0, o = q = k = alpha, S = alpha^4 (S is not in the text, it fits), lift 64
  (for b <= 2 L0, where all scores fall with the distance; else 64 + 2C).
- `sharp` (new): S as large as the budget allows, and D the sum of several pairs around chi_f = -beta_f L/2, shaped by
  `theory/two_layer/_curve_shape.py` so that the smallest angle between neighbours is as large as possible.
- `shared` (new): as `sharp`, but both anchor pairs share the plane (y1, y2), and the B anchors' values have a small
  part of a third direction, the marker, that nobody reads. It shortens output keys (and queries) in the plane by a
  factor, which is enough to keep output keys below the source. O has two coordinates instead of four: S = rho^4/32.
- `repeated` (new): the trained layout `<n> <I:> s <n> <I:> <O:> s`, whose anchors before and after the string are the
  same two tokens. They keep one key at angle 0 and share a plane; `<O:>` is the marker. Query i stands at the distances
  i+1 and i from the nearer `<n>` and `<I:>`, exactly as s_i does, so the half steps are not needed. The farther pair is
  kept out by the distance: one pair with chi = pi/4 makes K fall by s > 10 a position, so the farther pair weighs at
  most exp(-3s) as much. That slope is nearly constant, and the ratio exp(mean slope) of the two anchors' values takes
  it out of D again.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import cos, exp, log, pi, sin, sqrt
from pathlib import Path
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor

from constructions._exact_weights import exact_matrix, exact_product, exact_square_norm, require_buildable
from constructions._subspaces import Space, linear_map, rotary_pairs
from engine import Transformer, TransformerConfig, load_exactly, load_weights, save_weights
from theory import CopyTask, GridFrequencies, InputError, Turn, paper_two_layer_length, theory_task, trained_task
from theory.grid import Amplitude
from theory.numbers import grid_frequencies_document, grid_frequencies_from_document, require_at_least, require_one_of
from theory.two_layer import CRITICAL_GAP, AnchorScores, CurveShape, Form, curve_shape, falling_shape

Variant = Literal["paper", "sharp", "shared", "repeated"]

#: rho must exceed this in Theorem 3.2.
LEAST_RHO = 10**4

#: The lift of the paper's variant; where angles go further than half a turn, the amplitudes are added.
LIFT = 64.0

#: Weights of the value paths relative to rho; a power of two near it is used.
VALUE_WEIGHT = 2.0**-12

#: Part of the norm kept for rounding.
RESERVE = 2.0**-40

#: Part of the length that the design gives up, so that the proof with its sampled slope goes through.
LENGTH_SLACK = 2.0**-10

#: The `shared` variant's output keys must stay this many nats below the source, twice over.
MARKER_GAP = 256.0

ASKS, BEFORE, AFTER, SYMBOL, ANSWER = "asks", "A anchor", "B anchor", "symbol", "answer"
VALUES = ("v1", "v2", "v3", "v4")
PLACES = ("y1", "y2", "y3", "y4")


def theorem_width(a: int, b: int) -> int:
    """d = 10a + 10b + 100 (Theorem 3.2)."""
    return 10 * a + 10 * b + 100


@dataclass(frozen=True)
class _Pair:
    """One turning pair of the first layer: frequency in turns, amplitude C (signed) and the query's angle chi."""

    turns: Fraction
    amplitude: float
    phase: float


@dataclass(frozen=True)
class _Plan:
    """What the first layer is to do.

    Attributes:
        pairs: the turning pairs.
        lift, floor: constants of the B anchors over the A anchors, and of the A anchors.
        form: how the values lie.
        ratio: first anchor's value relative to the second's.
        mark: marker relative to the B anchors' values (`repeated`: to the second anchor's).
    """

    pairs: tuple[_Pair, ...]
    lift: float
    floor: float
    form: Form
    ratio: float = 1.0
    mark: float = 0.0

    @property
    def amplitude(self) -> float:
        return sum(abs(pair.amplitude) for pair in self.pairs)


@dataclass(frozen=True)
class TwoLayerCopier:
    """The copier of Theorem 3.2 as a torch model, with what it was built from.

    Attributes:
        model: the transformer, two layers of one head.
        task: the layout.
        frequencies: exact; the row pairs do not turn, the column pairs turn with the index.
        rho: the norm budget.
        variant: which weights.
        length: the length that it was designed for.
    """

    model: Transformer
    task: CopyTask
    frequencies: GridFrequencies
    rho: Fraction
    variant: Variant
    length: int

    def square_norm(self) -> Fraction:
        """Sum of the squares of all stored parameters, exact."""
        return exact_square_norm(self.model.parameters())

    def scores(self) -> AnchorScores:
        """What copying depends on, of the stored weights, exact.

        Raises:
            InputError: the stored weights are not of the form that the derivation needs, so nothing is claimed of them.
        """
        return _Reader(self).scores()

    def metadata(self) -> dict[str, Any]:
        """What the weights file says beside the tensors; see docs/certificates.md."""
        return {
            "construction": "two-layer-copier",
            "layout": "trained" if self.task == trained_task() else "theory",
            "a": self.task.a,
            "b": self.task.b,
            "rho": str(self.rho),
            "variant": self.variant,
            "length": self.length if self.length <= 2**53 else str(self.length),
            "frequencies": grid_frequencies_document(self.frequencies),
            "config": self.model.config.document(),
        }

    def save(self, path: Path) -> str:
        """Save as safetensors with metadata; returns the file's SHA-256."""
        return save_weights(path, self.model.state_dict(), self.metadata())


def build_two_layer_copier(
    rho: Fraction | int,
    a: int = 2,
    b: int = 3,
    variant: str = "paper",
    *,
    task: CopyTask | None = None,
    pairs: int = 1,
    length: int | None = None,
    beyond_theorem: bool = False,
    allow_repeated_anchors: bool = False,
) -> TwoLayerCopier:
    """The copier for parameter norm at most rho, float64.

    Args:
        rho: norm budget over all parameters, > 10^4 unless `beyond_theorem`.
        a, b: numbers of tokens before and after the string, at least 2.
        variant: "paper", "sharp", "shared" or "repeated".
        task: a layout other than the theory layout for these a and b. Its last two tokens of A and of B, the anchors,
            must be four different tokens that are not data. The variant "repeated" has the trained layout.
        pairs: turning pairs of the sharp variants' curve.
        length: design length; by default L0 for "paper", else the longest that the budget affords.
        beyond_theorem: build for smaller rho too.
        allow_repeated_anchors: build on repeated anchors by giving a token both roles (to show how it fails).

    Postcondition: `square_norm() <= rho^2`, checked in exact arithmetic.

    Raises:
        InputError: as said above, or rho so small that no length is left.
    """
    rho = Fraction(rho)
    if variant == "repeated":
        _require_trained(a, b, task)
        task = trained_task()
    elif task is None:
        task = theory_task(require_at_least("a", a, 2), require_at_least("b", b, 2))
    _require(rho, task, variant, beyond_theorem, allow_repeated_anchors or variant == "repeated")
    kind = cast(Variant, variant)
    if kind == "paper":
        design = paper_two_layer_length(rho) if length is None else require_at_least("length", length, 1)
        if design < 1:
            raise InputError("rho", str(rho), "larger: rho^2/(1000 ln rho) is below 1, so there is nothing to copy")
        return _built(rho, task, kind, design, _paper_plan(design, task.b))
    shape = falling_shape() if kind == "repeated" else curve_shape(pairs)
    design = _affordable_length(rho, task, kind, shape) if length is None else require_at_least("length", length, 1)
    if design < 1:
        raise InputError("rho", str(rho), "larger: this budget affords no length")
    return _built(rho, task, kind, design, _settled_plan(rho, task, kind, shape, design)[0])


def _require_trained(a: int, b: int, task: CopyTask | None) -> None:
    if (a, b) != (2, 3) or (task is not None and task != trained_task()):
        raise InputError("variant", "repeated", "used with the trained layout only, a = 2 and b = 3")


def _require(rho: Fraction, task: CopyTask, variant: str, beyond_theorem: bool, repeated: bool) -> None:
    require_one_of("variant", variant, get_args(Variant))
    if not Fraction(1) <= rho <= 10**20:
        raise InputError("rho", str(rho), "a number from 1 to 1e20")
    if rho <= LEAST_RHO and not beyond_theorem:
        raise InputError("rho", str(rho), "greater than 10^4 (Theorem 3.2); --beyond-theorem builds it anyway")
    require_at_least("a", task.a, 2)
    require_at_least("b", task.b, 2)
    require_buildable("a" if task.a >= task.b else "b", max(task.a, task.b), theorem_width(task.a, task.b))
    anchors = anchor_tokens(task)
    if {0, 1} & set(anchors):
        raise InputError("anchors", _named(task, anchors), "tokens other than the data 0 and 1")
    if len(set(anchors)) < 4 and not repeated:
        raise InputError(
            "anchors",
            _named(task, anchors),
            "four different tokens: the construction gives each of A_{a-1}, A_a, B_{b-1}, B_b a direction of its own",
        )


def anchor_tokens(task: CopyTask) -> tuple[int, int, int, int]:
    """The anchors A_{a-1}, A_a, B_{b-1}, B_b of a layout."""
    return (*task.prefix[-2:], *task.infix[-2:])  # type: ignore[return-value]


def _named(task: CopyTask, tokens: tuple[int, ...]) -> str:
    return " ".join(task.names[token] for token in tokens)


def _asking(task: CopyTask) -> tuple[int, ...]:
    """The tokens that ask in the first layer: data, anchors, and B_1, so that the lemma's boundary indices exist."""
    return tuple(dict.fromkeys((0, 1, *anchor_tokens(task), task.infix[0])))


def _paper_plan(length: int, b: int) -> _Plan:
    """Beyond b = 2 L0 the A anchors come round again, and the lift has to outweigh their scores."""
    lift = LIFT if b <= 2 * length else LIFT + 2 * length * (1 + 2.0**-20)
    return _Plan((_Pair(Fraction(1, 8 * length), float(length), 0.0),), lift, 0.0, "separate")


def _sharp_plan(shape: CurveShape, length: int, variant: Variant, scale: float) -> _Plan:
    """The curve at a design length, and the marker for a second layer of this scale."""
    pairs = tuple(
        _Pair(half / length, amplitude / (2 * sin(pi * float(half / length))), phase)
        for half, amplitude, phase in zip(shape.half_turns, shape.amplitudes, shape.phases, strict=True)
    )
    if variant == "repeated":
        # The marker's key is the second anchor's, one position nearer, and exp(-fall) is a position's loss.
        fall = shape.amplitudes[0] * sin(shape.phases[0])
        mark = marker(scale) * 2 * (shape.ratio * exp(-fall) + 1) * exp(-fall)
        return _Plan(pairs, 0.0, 0.0, "repeated", shape.ratio, mark)
    total = sum(abs(pair.amplitude) for pair in pairs)
    lift = 2 * total * (1 + 2.0**-20) + LIFT
    return _Plan(pairs, lift, total, "shared" if variant == "shared" else "separate", 1.0, marker(scale))


def _settled_plan(
    rho: Fraction, task: CopyTask, variant: Variant, shape: CurveShape, length: int
) -> tuple[_Plan, float]:
    """The plan for a design length with the marker that the remaining norm calls for, and the scale that is left."""
    plan = _sharp_plan(shape, length, variant, float(rho) ** 4 / 64)
    scale = _scale(_second_layer_weights(rho, variant, _first_layer_square(rho, task, plan)))
    return _sharp_plan(shape, length, variant, max(scale, 1.0)), scale


def _affordable_length(rho: Fraction, task: CopyTask, variant: Variant, shape: CurveShape) -> int:
    """The design length: S (tau/L)^2/2 = the critical gap, with the scale that is left after the first layer."""
    length = 1
    for _ in range(4):
        plan, scale = _settled_plan(rho, task, variant, shape, length)
        part = 1 / (1 + _longest_marker(plan) ** 2)
        length = int(shape.slope * sqrt(scale * part / (2 * CRITICAL_GAP)) * (1 - LENGTH_SLACK))
        if length < 1:
            return 0
    return length


def _longest_marker(plan: _Plan) -> float:
    """Upper estimate of the marker's length relative to a query's part in the plane."""
    if plan.form == "separate":
        return 0.0
    if plan.form == "shared":
        return sqrt(2) * plan.mark
    return plan.mark * exp(plan.amplitude * 2 * sin(pi * float(plan.pairs[0].turns)))


def marker(scale: float) -> float:
    """The least length, a power of two, of a marker that keeps output keys MARKER_GAP nats below the source."""
    if not 2.0**-100 < scale < 2.0**1000:  # else the power below might never come down to what is wanted
        raise InputError("scale", scale, "a number from 2^-100 to 2^1000")
    wanted = sqrt(2 * (MARKER_GAP + 8 * log(max(scale, 2.0))) / scale)
    power = 1.0
    while power / 2 >= wanted:
        power /= 2
    return power


def _scale(weights: tuple[float, float]) -> float:
    return weights[0] ** 2 * weights[1] ** 2


def _second_layer_weights(rho: Fraction, variant: Variant, spent: Fraction) -> tuple[float, float]:
    """o and q = k: alpha for the paper's variant, else what is left of the norm."""
    if variant == "paper":
        return float(rho / 10), float(rho / 10)
    left = float(max(rho**2 - spent, Fraction(0))) * (1 - RESERVE)
    if variant == "sharp":
        return sqrt(left / 8), sqrt(left / 8)
    return sqrt(left / 4), sqrt(left / 8)


def _first_layer_square(rho: Fraction, task: CopyTask, plan: _Plan) -> Fraction:
    """Square norm of everything but the second layer's map of directions, exact."""
    return exact_square_norm(_weights(rho, task, plan, (0.0, 0.0)).values())


def _built(rho: Fraction, task: CopyTask, variant: Variant, length: int, plan: _Plan) -> TwoLayerCopier:
    width = theorem_width(task.a, task.b)
    if len(plan.pairs) >= width // 2:
        raise InputError("pairs", len(plan.pairs), f"at most {width // 2 - 1}, so that d = {width} holds them")
    column = tuple(Turn(pair.turns) for pair in plan.pairs)
    frequencies = GridFrequencies(row=(Turn(Fraction(0)),) * (width // 2 - len(column)), column=column)
    model = Transformer(_config(task, width, plan), frequencies, task.newline).to(torch.float64).requires_grad_(False)
    second = _second_layer_weights(rho, variant, _first_layer_square(rho, task, plan))
    model.load_state_dict(_weights(rho, task, plan, second), strict=True)
    copier = TwoLayerCopier(model, task, frequencies, rho, variant, length)
    if copier.square_norm() > rho**2:
        raise InputError("rho", str(rho), "larger: the construction's norm exceeds it")
    return copier


def _config(task: CopyTask, width: int, plan: _Plan) -> TransformerConfig:
    return TransformerConfig(
        vocabulary_size=task.vocabulary_size, model_width=width, layers=2, heads=1, head_width=width,
        value_width=4 if plan.form == "separate" else 3, outputs=2, position="shift", residual=True, pre_norm=False,
        sub_norm="unit", final_norm=False,
    )  # fmt: skip


def _weights(rho: Fraction, task: CopyTask, plan: _Plan, second: tuple[float, float]) -> dict[str, Tensor]:
    width = theorem_width(task.a, task.b)
    separate = plan.form == "separate"
    residual = Space((ASKS, BEFORE, AFTER, SYMBOL, *VALUES, *PLACES, ANSWER), width)
    head = rotary_pairs(width // 2 - len(plan.pairs), len(plan.pairs))
    values = Space(VALUES, 4) if separate else Space(VALUES[:3], 3)
    logits = Space(("0", "1"), 2)
    small = VALUE_WEIGHT * 2.0 ** (rho.numerator.bit_length() - rho.denominator.bit_length())
    embedding, product = _embedding(task, plan, residual, small)
    queries, before, after = _first_layer(plan, product)
    o, q = second
    # In a shared plane queries and keys read the same two directions, and the marker (v3) goes nowhere.
    written = {value: {place: o} for value, place in zip(VALUES[: 4 if separate else 2], PLACES, strict=False)}
    asked = PLACES[2:] if separate else PLACES[:2]
    still = ("row 0 x", "row 0 y")
    first, other = "blocks.0.attention", "blocks.1.attention"
    return {
        "embedding.weight": embedding,
        f"{first}.query.weight": linear_map(residual, head, {ASKS: queries}),
        f"{first}.key.weight": linear_map(residual, head, {BEFORE: before, AFTER: after}),
        f"{first}.value.weight": linear_map(residual, values, {name: {name: small} for name in values.names}),
        f"{first}.output.weight": linear_map(values, residual, written),
        f"{other}.query.weight": linear_map(residual, head, {y: {c: q} for y, c in zip(asked, still, strict=True)}),
        f"{other}.key.weight": linear_map(residual, head, {y: {c: q} for y, c in zip(PLACES, still, strict=False)}),
        f"{other}.value.weight": linear_map(residual, values, {SYMBOL: {"v1": small}}),
        f"{other}.output.weight": linear_map(values, residual, {"v1": {ANSWER: small}}),
        "readout.weight": linear_map(residual, logits, {ANSWER: {"0": small, "1": -small}}),
    }


def _embedding(task: CopyTask, plan: _Plan, residual: Space, small: float) -> tuple[Tensor, float]:
    """The embedding, and e_q e_k: the factor of first-layer scores that it contributes."""
    asking = _asking(task)
    product = sqrt(max(plan.amplitude, 1.0) / sqrt(2 * len(asking)))
    # n e_q^2 = 4 e_k^2
    asks, answers = sqrt(product * 2 / sqrt(len(asking))), sqrt(product * sqrt(len(asking)) / 2)
    rows: list[dict[str, float]] = [{} for _ in range(task.vocabulary_size)]
    for token in asking:
        rows[token][ASKS] = asks
    for token, values in _anchor_values(task, plan, small):
        rows[token] |= {name: rows[token].get(name, 0.0) + value for name, value in values.items()}
    for number, token in enumerate(anchor_tokens(task)):
        rows[token][BEFORE if number < 2 or plan.form == "repeated" else AFTER] = answers
    rows[0][SYMBOL], rows[1][SYMBOL] = small, -small
    return torch.stack([residual.vector(row) for row in rows]), asks * answers


def _anchor_values(task: CopyTask, plan: _Plan, small: float) -> list[tuple[int, dict[str, float]]]:
    """What each anchor writes in the first layer."""
    a1, a2, b1, b2 = anchor_tokens(task)
    if plan.form == "repeated":
        second = small / plan.ratio
        return [(a1, {"v1": small}), (a2, {"v2": second}), (b2, {"v3": second * plan.mark})]
    if plan.form == "shared":
        mark = {"v3": small * plan.mark}
        return [(a1, {"v1": small}), (a2, {"v2": small}), (b1, {"v1": small} | mark), (b2, {"v2": small} | mark)]
    return [(token, {value: small}) for token, value in zip((a1, a2, b1, b2), VALUES, strict=True)]


def _first_layer(plan: _Plan, product: float) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Query, key of the A anchors and key of the B anchors, by coordinates of the head."""
    queries: dict[str, float] = {}
    before: dict[str, float] = {}
    after: dict[str, float] = {}
    for number, pair in enumerate(plan.pairs):
        size = sqrt(abs(pair.amplitude) / product)
        query, key = size * 2**0.25, size / 2**0.25 * (1 if pair.amplitude >= 0 else -1)
        half_step = 0.0 if plan.form == "repeated" else pi * float(pair.turns)
        x, y = f"column {number} x", f"column {number} y"
        queries |= {x: query * cos(pair.phase), y: query * sin(pair.phase)}
        before |= {x: key * cos(half_step), y: key * sin(half_step)}
        after |= {x: key * cos(half_step), y: -key * sin(half_step)}
    if plan.form == "repeated":
        return queries, before, {}
    # A constant for the A anchors keeps their weights above those of tokens without a value, the lift comes on top.
    top = plan.floor + plan.lift
    asked = sqrt(top / product)
    queries["row 0 x"] = asked
    before["row 0 x"], after["row 0 x"] = plan.floor / product / asked, top / product / asked
    return queries, before, after


class _Reader:
    """Reads a two-layer copier's exact scores from its stored weights, and refuses any other form."""

    def __init__(self, copier: TwoLayerCopier) -> None:
        self.copier, self.task, self.config = copier, copier.task, copier.model.config
        self.tokens = exact_matrix(copier.model.embedding.weight)
        self.attentions = [copier.model.block(layer).attention for layer in (0, 1)]

    def scores(self) -> AnchorScores:
        self._check_config()
        form = self._form()
        before, after, lift = self._first_layer(form)
        ratio, marker = self._values(form)
        scale = self._second_layer(form)
        self._answers()
        turning = self.copier.frequencies.column
        return AnchorScores(form, turning, before, after, lift, scale, marker, ratio, self.task.a, self.task.b)

    def _check_config(self) -> None:
        config = self.config
        form = (config.layers, config.heads, config.outputs, config.position, config.residual, config.sub_norm)
        plain = not (config.pre_norm or config.final_norm or config.mlp_width) and config.score_scale == 1
        _must(
            form == (2, 1, 2, "shift", True, "unit") and plain, "two layers of one head, shift positions, unit sub-norm"
        )
        still = all(frequency == Turn(Fraction(0)) for frequency in self.copier.frequencies.row)
        _must(still and config.value_width in (3, 4), "row pairs of frequency 0 and three or four values")

    def _form(self) -> Form:
        if self.task == trained_task() and self.config.value_width == 3:
            return "repeated"
        _must(len(set(anchor_tokens(self.task))) == 4, "four different anchors")
        return "separate" if self.config.value_width == 4 else "shared"

    def _first_layer(self, form: Form) -> tuple[tuple[Amplitude, ...], tuple[Amplitude, ...], Fraction]:
        attention = self.attentions[0]
        asks = [exact_product(attention.query.weight, self.tokens[token]) for token in (0, 1, self.task.infix[-1])]
        keys = [exact_product(attention.key.weight, self.tokens[token]) for token in anchor_tokens(self.task)]
        _must(asks[0] == asks[1] == asks[2], "one first-layer query for 0, 1 and B_b")
        _must(keys[0] == keys[1] and keys[2] == keys[3], "one key for both A anchors and one for both B anchors")
        _must(form != "repeated" or keys[0] == keys[2], "one key for all anchors that are repeated")
        still = 2 * len(self.copier.frequencies.row)
        turning = range(still, len(asks[0]), 2)
        before, after = (
            tuple(_amplitude(asks[0][i : i + 2], key[i : i + 2]) for i in turning) for key in (keys[0], keys[2])
        )
        return before, after, _dot(asks[0][:still], keys[2][:still]) - _dot(asks[0][:still], keys[0][:still])

    def _values(self, form: Form) -> tuple[Fraction, Fraction]:
        """Ratio and marker; every token but the anchors must have value 0."""
        values = [exact_product(self.attentions[0].value.weight, token) for token in self.tokens]
        anchors = anchor_tokens(self.task)
        _must(
            not any(any(value) for token, value in enumerate(values) if token not in anchors),
            "first-layer values of the anchors only",
        )
        a1, a2, b1, b2 = (values[token] for token in anchors)
        size, zero = a1[0], Fraction(0)
        _must(size > 0, "anchor values > 0")
        if form == "repeated":
            _must(a2[1] > 0 and b2[2] > 0, "anchor values > 0")
            wanted = [[size, zero, zero], [zero, a2[1], zero], [zero, a2[1], zero], [zero, zero, b2[2]]]
            _must([a1, a2, b1, b2] == wanted, "values of the two anchors and the marker along three axes")
            return size / a2[1], b2[2] / a2[1]
        if form == "separate":
            wanted = [[size if i == j else zero for j in range(4)] for i in range(4)]
            _must([a1, a2, b1, b2] == wanted, "anchor values along four axes, of one size")
            return Fraction(1), zero
        _must(b1[2] != 0, "a marker")
        wanted = [[size, zero, zero], [zero, size, zero], [size, zero, b1[2]], [zero, size, b1[2]]]
        _must([a1, a2, b1, b2] == wanted, "anchor values in a shared plane, with one marker")
        return Fraction(1), abs(b1[2] / size)

    def _second_layer(self, form: Form) -> Fraction:
        second, output = self.attentions[1], self.attentions[0].output.weight
        for token in (0, 1, self.task.infix[-1]):
            _must(not any(exact_product(second.query.weight, self.tokens[token])), "second-layer queries from layer 1")
        for token in (0, 1):
            _must(not any(exact_product(second.key.weight, self.tokens[token])), "second-layer keys from layer 1")
        width = len(self.attentions[0].value.weight)
        columns = list(zip(*exact_matrix(output), strict=True))
        asked = [exact_product(second.query.weight, list(column)) for column in columns]
        keys = [exact_product(second.key.weight, list(column)) for column in columns]
        still = 2 * len(self.copier.frequencies.row)
        _must(not any(any(query[still:]) for query in asked), "second-layer queries in pairs that do not turn")
        product = [[_dot(query, key) for key in keys] for query in asked]
        first = 2 if form == "separate" else 0
        scale = product[first][0]
        places = ((first, 0), (first + 1, 1))
        wanted = [[scale if (i, j) in places else Fraction(0) for j in range(width)] for i in range(width)]
        _must(product == wanted and scale > 0, "second-layer scores S <h_i, h_j>")
        return scale

    def _answers(self) -> None:
        second, readout = self.attentions[1], self.copier.model.readout.weight
        difference = [zero - one for zero, one in zip(*exact_matrix(readout), strict=True)]
        for column in zip(*exact_matrix(self.attentions[0].output.weight), strict=True):
            _must(not any(exact_product(second.value.weight, list(column))), "second-layer values from the embedding")
            _must(_dot(difference, list(column)) == 0, "a read-out of the second layer only")
        for token in (0, 1, self.task.infix[-1]):
            _must(_dot(difference, self.tokens[token]) == 0, "a read-out of the second layer only")
        values = [exact_product(second.value.weight, token) for token in self.tokens]
        opposite = values[0] == [-x for x in values[1]] and not any(any(value) for value in values[2:])
        vote = _dot(difference, exact_product(second.output.weight, values[0]))
        _must(opposite and vote > 0, "opposite second-layer values of 0 and 1 that vote for them, others 0")


def _must(holds: bool, form: str) -> None:
    if not holds:
        raise InputError("weights", "these", f"of the two-layer copier's form: {form}")


def _dot(left: list[Fraction], right: list[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(left, right, strict=True) if x and y), Fraction(0))


def _amplitude(query: list[Fraction], key: list[Fraction]) -> tuple[Fraction, Fraction]:
    """(even, odd) of `even cos(beta r) + odd sin(beta r)` with r = query index - key index."""
    (qx, qy), (kx, ky) = query, key
    return qx * kx + qy * ky, qx * ky - qy * kx


def _task_of(metadata: dict[str, Any]) -> CopyTask:
    if metadata["layout"] == "trained":
        return trained_task()
    if metadata["layout"] != "theory":
        raise ValueError(f"layout {metadata['layout']}")
    return theory_task(metadata["a"], metadata["b"])


def load_two_layer_copier(path: Path) -> TwoLayerCopier:
    """A copier from its weights file, every stored number exactly.

    Raises:
        InputError: unreadable, truncated, or no weights of this construction.
    """
    tensors, metadata = load_weights(path)
    try:
        task = _task_of(metadata)
        frequencies = grid_frequencies_from_document(metadata["frequencies"])
        config = TransformerConfig.from_document(metadata["config"])
        model = Transformer(config, frequencies, task.newline).requires_grad_(False)
        load_exactly(model, tensors, path)
        if metadata["construction"] != "two-layer-copier":
            raise ValueError(f"it holds a {metadata['construction']}")
        rho, variant, length = Fraction(metadata["rho"]), metadata["variant"], int(metadata["length"])
        return TwoLayerCopier(model, task, frequencies, rho, variant, length)
    except InputError:
        raise
    except (KeyError, TypeError, RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError("weights", str(path), f"a weights file of the two-layer copier ({reason})") from error
