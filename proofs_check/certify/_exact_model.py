"""Any one-layer model, trained or built, as the scores and votes that decide its answers.

With h_t the (normalised) embedding of the token at t, a head's output at the query q is `sum_j p_j V h_j`, p_j
proportional to exp(score). The logits are `W G (x_q + O sum_j p_j V h_j)`, the residual term x_q present or not, G the
gain of the final norm, up to the positive factor that the final norm puts on all of them. So token x adds `W G O V
h_x` to the logits, times its weight, and the query token `W G x_q` by itself: both depend on the token alone. The
inner product of the two turned rotary pairs (q_x, q_y), (k_x, k_y) at relative position r is `A cos(beta r) + B
sin(beta r)`, `A = q_x k_x + q_y k_y`, `B = q_y k_x - q_x k_y`.

*Rounding.* Stored weights are binary rationals, exact as balls of radius 0. Sums and products of them and the square
roots of the norms are balls at 384 bits; `require_width` looks at what comes out. So the balls enclose the
real-arithmetic model with the stored weights, the norms' epsilon included, whatever dtype they are stored in.

Refused by name: several layers, an MLP, biases, sub-LN together with a residual (the residual is then no longer on the
scale of the values), outputs that are neither 0 and 1 nor the vocabulary, weights in integers or 8 bits, and a token
whose embedding is zero where a norm's epsilon is 0, as its norm is no number then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from fractions import Fraction
from math import isfinite
from typing import cast

import numpy as np
import torch
from flint import arb, arb_mat
from jaxtyping import Int64
from torch import Tensor, nn

from constructions import Replay
from constructions.theorem_4_1 import LONGEST_REPLAY
from engine import Transformer, stored_epsilon
from theory import CopyTask, InputError, OneLayerModel, Template
from theory.numbers import ball, exact_middle, spelled, total, working_precision
from theory.one_layer import MODEL_PRECISION, Axes, FinalNorm, Head, PairScore

#: Relative to the largest entry, no entry of the tables may be wider.
WIDTH = Fraction(1, 2**200)

#: Dtypes of which every number is a float64 too.
EXACT_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def one_layer_model(model: Transformer, task: CopyTask | Template) -> OneLayerModel:
    """The scores and votes of a one-layer model in a layout.

    Args:
        model: any one-layer transformer of the engine, in the dtype it is stored in.
        task: the layout; a template stands for itself, whatever the model makes of its tokens.

    Raises:
        InputError: a part that the verification does not cover, named.

    Cost: O(vocabulary d^2) ball operations.
    """
    require_covered(model)
    template = task if isinstance(task, Template) else template_of(model, task)
    if max(template.tokens) >= model.config.vocabulary_size:
        raise InputError("task", max(template.tokens), f"made of tokens below {model.config.vocabulary_size}")
    with working_precision(MODEL_PRECISION):
        return _Extraction(model, template).model()


def require_covered(model: Transformer) -> None:
    """InputError, naming the part, unless the model is one that the verification covers."""
    config = model.config
    heads = config.layer(0)[0]
    proportions = "the norm then changes the proportion of the parts"
    for name, value, wrong, allowed in (
        ("layers", config.layers, config.layers != 1, "1: a second layer reads what the first one wrote"),
        ("mlp_width", config.mlp_width, config.mlp_width != 0, "0: an MLP after attention is not covered"),
        ("sub_norm", True, config.sub_norm and config.residual, f"false with a residual: {proportions}"),
        ("sub_norm", True, config.sub_norm and heads > 1, f"false with several heads: {proportions}"),
        ("outputs", config.outputs, config.outputs not in (2, config.vocabulary_size), "2 or the vocabulary's size"),
    ):
        if wrong:
            raise InputError(name, value, allowed)
    for name, tensor in model.state_dict().items():
        if name.endswith("bias") and ".encoding.gate." not in name:
            raise InputError("weights", name, "without biases: a bias after the final norm is not covered")
        if tensor.dtype not in EXACT_DTYPES:
            raise InputError("weights", f"{name} in {tensor.dtype}", "in float64, float32, bfloat16 or float16")
        if not bool(torch.isfinite(tensor).all()):
            raise InputError("weights", name, "made of finite numbers")
    if not isfinite(model.block(0).attention.score_scale):
        raise InputError("score_scale", model.block(0).attention.score_scale, "a finite number")
    row, column = model.block(0).attention.encoding.axes()
    if 2 * (len(row) + len(column)) not in (0, config.layer(0)[1]):
        raise InputError("encoding", f"{len(row) + len(column)} frequencies", f"{config.layer(0)[1] // 2}, or none")


def template_of(model: Transformer, task: CopyTask) -> Template:
    """The tokens of a task with the positions that the model gives them.

    Raises:
        InputError: a gate of Auto-2D-RoPE that is not certainly saturated, so that positions are not whole numbers; or
            a data token that starts a row.
    """
    encoding = model.block(0).attention.encoding
    starts: frozenset[int] = frozenset()
    if encoding.learned:
        tokens = {0, 1, *task.prefix, *task.infix}
        with working_precision(MODEL_PRECISION):
            inputs = _rows(_inputs(model, tokens))
            starts = encoding.row_starts({token: inputs[token] for token in tokens}, task.names)
    ends = encoding.row_ends(model.newline)
    return Template(task.prefix, task.infix, ends=ends, starts=starts, first_column=encoding.first_column)


def _inputs(model: Transformer, tokens: Iterable[int]) -> arb_mat:
    """What attention reads of some tokens: the embedding, normalised where there is a norm; 0 in the other rows."""
    norm = model.block(0).norm
    embedding = _matrix(model.embedding.weight)
    epsilon = stored_epsilon(norm)
    return (
        embedding if epsilon is None else _normalised(embedding, cast(Tensor, norm.weight), ball(epsilon), set(tokens))
    )


class _Extraction:
    """Ball matrices of one model, rows being tokens."""

    def __init__(self, model: Transformer, template: Template) -> None:
        self.source, self.template = model, template
        self.embedding, inputs = _matrix(model.embedding.weight), _inputs(model, template.tokens)
        self.axes = Axes(*model.block(0).attention.encoding.axes())
        self.heads, self.head_width, self.value_width = model.config.layer(0)
        attention = model.block(0).attention
        self.queries = inputs * _matrix(attention.query.weight).transpose()
        self.keys = inputs * _matrix(attention.key.weight).transpose()
        self.values = inputs * _matrix(attention.value.weight).transpose()
        self.outputs = _matrix(attention.output.weight).transpose()
        self.readout = _matrix(model.readout.weight).transpose()
        if isinstance(model.norm, nn.RMSNorm):
            self.readout = _diagonal(model.norm.weight) * self.readout

    def model(self) -> OneLayerModel:
        config = self.source.config
        direct: dict[int, tuple[arb, ...]] = {}
        if config.residual:
            logits = _rows(self.embedding * self.readout)
            direct = {token: logits[token] for token in (*self.template.data, self.template.infix[-1])}
        zero, one = (0, 1) if config.outputs == 2 else self.template.data
        return OneLayerModel(
            template=self.template,
            frequencies=self.axes,
            heads=tuple(self._head(number) for number in range(self.heads)),
            direct=direct,
            targets=(zero, one),
            outputs=config.outputs,
            least_scale=self._least_scale(),
            norm=self._final_norm(),
        )

    def _head(self, number: int) -> Head:
        queries, keys = (_columns(m, number, self.head_width) for m in (self.queries, self.keys))
        tokens = self.template.tokens
        scores = {
            (query, key): self._pair(number, queries[query], keys[key])
            for query in {*self.template.data, self.template.infix[-1]}
            for key in tokens
        }
        width = self.value_width
        values = arb_mat([list(row) for row in _columns(self.values, number, width)])
        output = arb_mat(_rows_as_lists(self.outputs)[number * width : (number + 1) * width])
        logits = _rows(values * output * self.readout)
        return Head(scores, {token: logits[token] for token in tokens})

    def _pair(self, head: int, query: tuple[arb, ...], key: tuple[arb, ...]) -> PairScore:
        attention = self.source.block(0).attention
        scale = arb(attention.score_scale)
        slopes = attention.encoding.slopes
        slope = Fraction(slopes[head]) if slopes else Fraction(0)
        if not self.axes.row and not self.axes.column:
            product = sum((q * k for q, k in zip(query, key, strict=True)), arb(0))
            return PairScore(constant=scale * product, slope=slope)
        waves = []
        for i in range(0, len(query), 2):
            (qx, qy), (kx, ky) = query[i : i + 2], key[i : i + 2]
            waves.append((scale * (qx * kx + qy * ky), scale * (qy * kx - qx * ky)))
        _require_narrow([part for wave in waves for part in wave], "score")
        rows = len(self.axes.row)
        return PairScore(tuple(waves[:rows]), tuple(waves[rows:]), slope=slope)

    def _least_scale(self) -> arb:
        """A lower bound of the factor that the norms after attention put on all logits.

        The head's output is a weighted mean of its values, so its norm is at most the largest; with a residual the
        same holds of the sum. Several heads: the largest norms add up. Sub-LN: no bound is given, 0.
        """
        config = self.source.config
        if config.sub_norm:
            return arb(0)
        epsilon = stored_epsilon(self.source.norm)
        if epsilon is None:
            return arb(1)
        square = self._largest_output() / config.model_width + ball(epsilon)
        # All outputs 0 and epsilon 0: the logits are 0, or no numbers, and no bound is given.
        return square.rsqrt().lower() if square > 0 else arb(0)

    def _final_norm(self) -> FinalNorm | None:
        """The final norm's factor as a function of the shares of attention, where it is the only one."""
        config, epsilon = self.source.config, stored_epsilon(self.source.norm)
        if config.sub_norm or self.heads > 1 or epsilon is None:
            return None
        reached, embedding = _rows(self.values * self.outputs), _rows(self.embedding)
        gram = {}
        for query in {*self.template.data, self.template.infix[-1]}:
            vectors = {x: reached[x] for x in self.template.tokens}
            if config.residual:
                vectors = {
                    x: tuple(a + b for a, b in zip(vector, embedding[query], strict=True))
                    for x, vector in vectors.items()
                }
            gram[query] = {
                (x, y): sum((a * b for a, b in zip(u, v, strict=True)), arb(0))
                for x, u in vectors.items()
                for y, v in vectors.items()
            }
        return FinalNorm(config.model_width, ball(epsilon), gram)

    def _largest_output(self) -> arb:
        """Upper bound of |x_q + sum_h O_h v|^2 over query tokens and weighted means v of each head's values."""
        config, tokens = self.source.config, self.template.tokens
        width = self.value_width
        parts = []
        for number in range(self.heads):
            values = arb_mat([list(row) for row in _columns(self.values, number, width)])
            output = arb_mat(_rows_as_lists(self.outputs)[number * width : (number + 1) * width])
            parts.append(_rows(values * output))
        embedding = _rows(self.embedding)
        queries = {*self.template.data, self.template.infix[-1]}
        zero = (arb(0),) * config.model_width
        starts = [embedding[q] for q in queries] if config.residual else [zero]
        if self.heads == 1:
            return _largest(
                [_square([a + b for a, b in zip(s, parts[0][x], strict=True)]) for s in starts for x in tokens]
            )
        norms = [_largest([_square(s) for s in starts])] + [_largest([_square(p[x]) for x in tokens]) for p in parts]
        return sum((norm.sqrt() for norm in norms), arb(0)) ** 2


def _square(vector: list[arb] | tuple[arb, ...]) -> arb:
    return sum((x * x for x in vector), arb(0))


def _largest(values: list[arb]) -> arb:
    result = values[0]
    for value in values[1:]:
        result = result.max(value)
    return result


def _matrix(weights: Tensor) -> arb_mat:
    """Stored weights, exact."""
    return arb_mat([[arb(entry) for entry in row] for row in weights.detach().double().tolist()])


def _diagonal(weights: Tensor) -> arb_mat:
    entries = weights.detach().double().tolist()
    return arb_mat([[arb(x) if i == j else arb(0) for j in range(len(entries))] for i, x in enumerate(entries)])


def _normalised(rows: arb_mat, weight: Tensor, epsilon: arb, tokens: set[int]) -> arb_mat:
    gain = [arb(x) for x in weight.detach().double().tolist()]
    result = []
    for token, row in enumerate(_rows(rows)):
        if token not in tokens:
            result.append([arb(0)] * len(row))
            continue
        square = _square(row) / len(row) + epsilon
        if not square > 0:
            raise InputError("embedding", f"0 at token {token}", "nonzero where the norm's epsilon is 0")
        factor = square.rsqrt()
        result.append([x * g * factor for x, g in zip(row, gain, strict=True)])
    return arb_mat(result)


def _rows(matrix: arb_mat) -> list[tuple[arb, ...]]:
    entries, width = matrix.entries(), matrix.ncols()
    return [tuple(entries[i : i + width]) for i in range(0, len(entries), width)]


def _rows_as_lists(matrix: arb_mat) -> list[list[arb]]:
    return [list(row) for row in _rows(matrix)]


def _columns(matrix: arb_mat, number: int, width: int) -> list[tuple[arb, ...]]:
    """The columns of head `number`, row by row."""
    return [row[number * width : (number + 1) * width] for row in _rows(matrix)]


def _require_narrow(entries: list[arb], what: str) -> None:
    largest = _largest([arb(1), *(abs(entry).upper() for entry in entries)])
    widest = largest * ball(WIDTH)
    for entry in entries:
        if not (entry.is_finite() and entry.rad() <= widest):
            raise InputError("weights", f"a {what} of {entry.str(3)}", "such that 384-bit balls enclose it tightly")


def in_float64(model: Transformer) -> Transformer:
    """A copy that computes in float64 what the stored weights say, norms with their stored epsilon."""
    return deepcopy(model).to(torch.float64)


def replay_error(model: OneLayerModel, tokens: int) -> Fraction:
    """About what a logit difference of the float64 torch run can be off by, before a final norm.

    Queries and keys are sums over the width, scores sums over the pairs; phases are off by a few units. Used only to
    decide
    whether a replay can be conclusive, and generous: 2^-53 times 256 (W + 8) plus 4 for each block of tokens, times
    the largest vote, W the largest sum of a score's amplitudes.
    """
    with working_precision(64):
        scores = (score for head in model.heads for score in head.scores.values())
        amplitudes = [total(abs(a) + abs(b) for a, b in (*s.row, *s.column)) + abs(s.constant) for s in scores]
        heads, cases = range(len(model.heads)), model.cases()
        votes = [abs(vote) for head in heads for case in cases for vote in model.votes(head, case).values()]
        error = (256 * (_largest(amplitudes) + 8) + arb(4 * tokens**0.5)) * _largest(votes) * arb((1, -53))
        return exact_middle(error.upper())


def replay_step(
    model: Transformer,
    template: Template,
    string: Int64[np.ndarray, " n"],
    step: int,
    difference: Fraction,
    error: Fraction,
    odds: float | None = None,
) -> Replay:
    """One step of a string (1-based) through the torch model: as it is stored, in its own dtype, and in float64.

    Args:
        model: as stored.
        template: the tokens around the string.
        string, step: what to run.
        difference: the logit difference expected.
        error: what the float64 run may be off by; see `replay_error`.
        odds: the sum of the competitors' odds expected, where a probability of at most one half is what is wrong; the
            final norm may then enlarge the error (by at most 2^12 with the epsilon of float32).

    Cost: O(tokens d), twice. Inputs above 10^7 tokens are not run; margins within the error of float64 are run as
    stored only, and decide nothing.
    """
    tokens = template.sequence(string, step)
    if len(tokens) > LONGEST_REPLAY:
        return Replay(False, None, f"{len(tokens)} tokens: above {LONGEST_REPLAY} tokens nothing is replayed")
    data: Sequence[int] = (0, 1) if model.config.outputs == 2 else template.data
    target = data[int(string[step - 1])]

    def wrong(model: Transformer) -> bool | None:
        """None where the logits are no numbers."""
        with torch.inference_mode():
            logits = model.last_logits(torch.from_numpy(tokens))
        if not bool(torch.isfinite(logits).all()):
            return None
        if odds is not None:
            return not bool(logits.double().softmax(0)[target] > 0.5)
        others = torch.cat([logits[:target], logits[target + 1 :]])
        return not bool(logits[target] > others.max())

    # A model whose tensors differ in dtype is no model that torch runs: it is stored in their common dtype first.
    dtypes = {str(tensor.dtype).removeprefix("torch.") for tensor in model.parameters()}
    stored = dtypes.pop() if len(dtypes) == 1 else ""
    as_stored = wrong(model) if stored else None
    reason = ""
    if odds is not None and abs(odds - 1) <= 2**14 * error:
        reason = f"the odds 1 + {odds - 1:.3g} are within the rounding error of float64"
    if odds is None and abs(difference) <= error:
        margin, limit = spelled(difference), spelled(error)
        reason = f"the margin {margin} is within the rounding error of float64, {limit}"
    if reason:
        return Replay(False, None, reason, stored, as_stored)
    answer = wrong(in_float64(model))
    if answer is None:
        return Replay(False, None, "the logits overflow, or are no numbers, in float64", stored, as_stored)
    return Replay(True, answer, "", stored, as_stored)
