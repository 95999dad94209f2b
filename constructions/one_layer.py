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
scale of the values), and outputs that are neither 0 and 1 nor the vocabulary.
"""

from __future__ import annotations

from copy import deepcopy
from fractions import Fraction

import torch
from flint import arb, arb_mat
from torch import Tensor, nn

from engine import Transformer
from theory import (
    MODEL_PRECISION,
    CopyTask,
    Head,
    InputError,
    OneLayerModel,
    PairScore,
    Template,
    grid_template,
    require_width,
    shift_template,
    working_precision,
)

#: Relative to the largest entry, no entry of the tables may be wider.
WIDTH = Fraction(1, 2**200)


def one_layer_model(model: Transformer, task: CopyTask | Template) -> OneLayerModel:
    """The scores and votes of a one-layer model in a layout.

    Args:
        model: any one-layer transformer of the engine, in the dtype it is stored in.
        task: the layout, or a template with its own rule of positions.

    Raises:
        InputError: a part that the verification does not cover, named.

    Cost: O(vocabulary d^2) ball operations.
    """
    require_covered(model)
    template = task if isinstance(task, Template) else _template(model, task)
    if max(template.tokens) >= model.config.vocabulary_size:
        raise InputError("task", max(template.tokens), f"made of tokens below {model.config.vocabulary_size}")
    with working_precision(MODEL_PRECISION):
        return _Extraction(model, template).model()


def require_covered(model: Transformer) -> None:
    """InputError, naming the part, unless the model is one that the verification covers."""
    config = model.config
    for name, value, wrong, allowed in (
        ("layers", config.layers, config.layers != 1, "1: a second layer reads what the first one wrote"),
        ("mlp_width", config.mlp_width, config.mlp_width != 0, "0: an MLP after attention is not covered"),
        (
            "sub_norm",
            config.sub_norm,
            config.sub_norm and (config.residual or config.heads > 1),
            "false with a residual or several heads: the norm then changes the proportion of the parts",
        ),
        (
            "outputs",
            config.outputs,
            config.outputs not in (2, config.vocabulary_size),
            f"2, or the vocabulary's {config.vocabulary_size}",
        ),
    ):
        if wrong:
            raise InputError(name, value, allowed)
    for name, _ in model.named_parameters():
        if name.endswith("bias"):
            raise InputError("weights", name, "without biases: a bias after the final norm is not covered")
    if not all(bool(torch.isfinite(tensor).all()) for tensor in model.state_dict().values()):
        raise InputError("weights", "nan or inf", "finite numbers")


def _template(model: Transformer, task: CopyTask) -> Template:
    return grid_template(task) if model.config.position == "grid" else shift_template(task)


class _Extraction:
    """Ball matrices of one model, rows being tokens."""

    def __init__(self, model: Transformer, template: Template) -> None:
        self.source, self.template = model, template
        block = model.block(0)
        self.embedding = _matrix(model.embedding.weight)
        inputs = self.embedding
        if isinstance(block.norm, nn.RMSNorm):
            inputs = _normalised(inputs, block.norm)
        attention = block.attention
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
            frequencies=self.source.frequencies[0],
            heads=tuple(self._head(number) for number in range(config.heads)),
            direct=direct,
            targets=(zero, one),
            outputs=config.outputs,
            least_scale=self._least_scale(),
        )

    def _head(self, number: int) -> Head:
        config = self.source.config
        queries, keys = (_columns(m, number, config.head_width) for m in (self.queries, self.keys))
        tokens = self.template.tokens
        scores = {
            (query, key): self._pair(queries[query], keys[key])
            for query in {*self.template.data, self.template.infix[-1]}
            for key in tokens
        }
        width = config.value_width
        values = arb_mat([list(row) for row in _columns(self.values, number, width)])
        output = arb_mat(_rows_as_lists(self.outputs)[number * width : (number + 1) * width])
        logits = _rows(values * output * self.readout)
        return Head(scores, {token: logits[token] for token in tokens})

    def _pair(self, query: tuple[arb, ...], key: tuple[arb, ...]) -> PairScore:
        scale = arb(self.source.config.score_scale)
        waves = []
        for i in range(0, len(query), 2):
            (qx, qy), (kx, ky) = query[i : i + 2], key[i : i + 2]
            waves.append((scale * (qx * kx + qy * ky), scale * (qy * kx - qx * ky)))
        _require_narrow([part for wave in waves for part in wave], "score")
        rows = len(self.source.frequencies[0].row)
        return PairScore(tuple(waves[:rows]), tuple(waves[rows:]))

    def _least_scale(self) -> arb:
        """A lower bound of the factor that the norms after attention put on all logits.

        The head's output is a weighted mean of its values, so its norm is at most the largest; with a residual the
        same holds of the sum. Several heads: the largest norms add up.
        """
        config = self.source.config
        scale = arb(1)
        largest = self._largest_square(self.values, config.value_width * config.heads)
        if config.sub_norm:
            scale = 1 / (largest / config.value_width).sqrt() if largest > 0 else arb(0)
        if not isinstance(self.source.norm, nn.RMSNorm):
            return scale.lower()
        if config.sub_norm:
            # A head output of mean square 1 leaves the output map with a norm at most its Frobenius norm times
            # sqrt(width). entries = [e * e for row in _rows(self.outputs) for e in row]
            square = sum(entries, arb(0)) * config.value_width
            factor = 1 / (square / config.model_width + _epsilon(self.source.norm)).sqrt()
            return (scale * factor).lower()
        return (1 / (self._largest_output() / config.model_width + _epsilon(self.source.norm)).sqrt()).lower()

    def _largest_square(self, matrix: arb_mat, width: int) -> arb:
        rows = _rows(matrix)
        squares = [sum((x * x for x in rows[token][:width]), arb(0)) for token in self.template.tokens]
        return _largest(squares)

    def _largest_output(self) -> arb:
        """Upper bound of |x_q + sum_h O_h v|^2 over query tokens and weighted means v of each head's values."""
        config, tokens = self.source.config, self.template.tokens
        width = config.value_width
        parts = []
        for number in range(config.heads):
            values = arb_mat([list(row) for row in _columns(self.values, number, width)])
            output = arb_mat(_rows_as_lists(self.outputs)[number * width : (number + 1) * width])
            parts.append(_rows(values * output))
        embedding = _rows(self.embedding)
        queries = {*self.template.data, self.template.infix[-1]}
        zero = (arb(0),) * config.model_width
        starts = [embedding[q] for q in queries] if config.residual else [zero]
        if config.heads == 1:
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


def _epsilon(norm: nn.RMSNorm) -> arb:
    """The epsilon of a norm: its own, or that of the dtype its gain is stored in, which is torch's default."""
    return arb(torch.finfo(norm.weight.dtype).eps if norm.eps is None else norm.eps)


def _normalised(rows: arb_mat, norm: nn.RMSNorm) -> arb_mat:
    gain = [arb(x) for x in norm.weight.detach().double().tolist()]
    epsilon = _epsilon(norm)
    result = []
    for row in _rows(rows):
        factor = (_square(row) / len(row) + epsilon).rsqrt()
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
    largest = max([1.0, *(abs(float(entry.mid())) for entry in entries)])
    for entry in entries:
        require_width(entry, WIDTH * Fraction(largest), what)


def in_float64(model: Transformer) -> Transformer:
    """A copy that computes in float64 what the stored weights say: the epsilon of the norms is kept."""
    copy = deepcopy(model)
    for module in copy.modules():
        if isinstance(module, nn.RMSNorm) and module.eps is None:
            module.eps = torch.finfo(module.weight.dtype).eps
    return copy.to(torch.float64)
