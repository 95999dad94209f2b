"""A one-layer model of any kind in a weights file: its layout, positions, score waves and votes, as balls.

With h = embedding / sqrt(mean of squares + epsilon) * gain where there is an attention gain, else the embedding
itself, a head has queries Q h, keys K h and values V h. Pair f of a head is the coordinates (2f, 2f+1); the first
pairs turn with the row, the others with the column. The score of a key at relative position r = key - query is

    scale * (sum over pairs of A cos(beta r) + B sin(beta r)) + slope * r_column,
    A = q_x k_x + q_y k_y,  B = q_y k_x - q_x k_y

(without pairs: scale * q.k + slope * r_column). The logits are readout * G (w_c + sum over heads of O (weighted mean
of V h)), up to a positive factor of the final norm; w_c, the query token's embedding, only with a residual; G the
final gain, if any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from flint import arb, arb_mat

from proofs_check.verify.reading import (
    MOST_FREQUENCIES,
    Frequency,
    Radians,
    Rejected,
    Turns,
    WeightsFile,
    ball,
    read_weights_file,
    require_choice,
    require_fields,
    require_integer,
    require_list,
    require_rational,
    shown,
    spend,
    total,
    working_precision,
)

#: Working precision of tables.
MODEL_BITS = 320

_FIELDS = (
    "construction", "prefix", "infix", "data", "row_ends", "gated", "heads", "head_width", "value_width", "outputs",
    "residual", "sub_norm", "score_scale", "slopes", "row", "column",
)  # fmt: skip

#: How norms are given: one epsilon for both, as in older files, or each by itself, and how coordinates are paired.
_NORMS = ("attention_epsilon", "final_epsilon", "sub_norm_epsilon", "rotary_layout")
_OLD_NORMS = ("epsilon",)

#: A digest of the tensors, for readers; certificates name that of the whole file.
_DIGEST = "tensors_sha256"

_LARGEST_SIZE, _MOST_TOKENS, _MOST_HEADS = 2**20, 4096, 64

#: Most balls that the tables of a model hold together: each takes some hundred bytes.
MOST_BALLS = 2**24

Row = list[arb]


@dataclass(frozen=True)
class Place:
    """A row, and a column `column + slope n`, n the length of the string."""

    row: int
    column: int
    slope: int


@dataclass(frozen=True)
class Layout:
    """The tokens around the string and where everything stands; `output` is the place of the first symbol written."""

    prefix: tuple[int, ...]
    infix: tuple[int, ...]
    data: tuple[int, int]
    prefix_places: tuple[Place, ...]
    source: Place
    infix_places: tuple[Place, ...]
    output: Place

    @property
    def tokens(self) -> list[int]:
        """All tokens, each once."""
        return sorted({*self.prefix, *self.infix, *self.data})


@dataclass(frozen=True)
class Wave:
    """Coefficients of one score: (A, B) by row pair and column pair, what does not turn, and the slope."""

    row: tuple[tuple[arb, arb], ...]
    column: tuple[tuple[arb, arb], ...]
    constant: arb
    slope: Fraction


@dataclass(frozen=True)
class FinalNorm:
    """The factor `1/sqrt(|z|^2/width + epsilon)`; z the mean, by attention, of one vector for each token.

    `vectors` holds them by query token and token; what the query token adds is in each of them.
    """

    width: int
    epsilon: arb
    vectors: dict[int, dict[int, Row]]
    _grams: dict[int, dict[tuple[int, int], arb]] = field(default_factory=dict, init=False, repr=False)

    def factor(self, query: int, shares: dict[int, arb]) -> arb:
        """The factor where each token has that share of the attention."""
        vectors = self.vectors[query]
        mean = [total(shares[x] * vectors[x][j] for x in shares) for j in range(self.width)]
        return (_square(mean) / self.width + self.epsilon).rsqrt()

    def gram(self, query: int) -> dict[tuple[int, int], arb]:
        """Inner products of the vectors, by pairs of tokens.

        Raises:
            Rejected: they are too many.
        """
        vectors = self.vectors[query]
        if query not in self._grams:
            if len(vectors) ** 2 > MOST_BALLS // 4:
                raise Rejected("undecided: the prompt has too many different tokens for the norm of their means")
            spend(len(vectors) ** 2 * self.width)
            with working_precision(MODEL_BITS):
                self._grams[query] = {
                    (x, y): total(a * b for a, b in zip(left, right, strict=True))
                    for x, left in vectors.items()
                    for y, right in vectors.items()
                }
        return self._grams[query]


@dataclass(frozen=True)
class OneLayer:
    """A one-layer model as stored.

    Attributes:
        file: the weights file.
        layout: tokens and places.
        row, column: frequencies.
        heads: for each head, waves by (query token, key token) and logits by key token.
        direct: logits that a query token adds by itself.
        outputs: number of logits.
        targets: the outputs of 0 and 1.
        least_factor: a lower bound of the factor that the norms after attention put on all logits.
        norm: that factor, where a final norm is the only one after attention and there is one head.
    """

    file: WeightsFile
    layout: Layout
    row: tuple[Frequency, ...]
    column: tuple[Frequency, ...]
    heads: tuple[tuple[dict[tuple[int, int], Wave], dict[int, Row]], ...]
    direct: dict[int, Row]
    outputs: int
    targets: tuple[int, int]
    least_factor: arb
    norm: FinalNorm | None

    @property
    def description(self) -> str:
        """How statements name the model."""
        return (
            f"the one-layer model in {self.file.name} (SHA-256 {self.file.digest[:16]}..., prompt "
            f"{_listed(self.layout.prefix)} string {_listed(self.layout.infix)}, 0 and 1 being tokens "
            f"{self.layout.data[0]} and {self.layout.data[1]}; real-arithmetic model with the stored binary weights)"
        )


def _listed(tokens: Sequence[int]) -> str:
    return "[" + " ".join(map(str, tokens)) + "]"


def read_one_layer(directory: Path, inputs: object) -> OneLayer:
    """The model that `inputs`, which is `{"weights": {...}}`, refers to.

    Raises:
        Rejected: the file, its metadata or its tensors are not those of a one-layer model, or a gate is not saturated.
    """
    fields = require_fields(inputs, "inputs", ("weights",))
    file = read_weights_file(directory, fields["weights"])
    old = isinstance(file.metadata, dict) and "epsilon" in file.metadata
    digested = (_DIGEST,) if isinstance(file.metadata, dict) and _DIGEST in file.metadata else ()
    metadata = require_fields(file.metadata, "metadata", (*_FIELDS, *(_OLD_NORMS if old else _NORMS), *digested))
    require_choice(metadata["construction"], "metadata.construction", ("one-layer",))
    with working_precision(MODEL_BITS):
        return _Reading(file, metadata).model()


class _Reading:
    """The tensors as ball matrices, rows being tokens, and the numbers of the metadata."""

    def __init__(self, file: WeightsFile, metadata: dict[str, Any]) -> None:
        self.file, self.metadata = file, metadata
        self.heads = self._integer("heads", _MOST_HEADS)
        self.head_width = self._integer("head_width", _LARGEST_SIZE)
        self.value_width = self._integer("value_width", _LARGEST_SIZE)
        self.outputs = self._integer("outputs", _LARGEST_SIZE)
        self.residual, self.gated = self._flag("residual"), self._flag("gated")
        # Division by a root mean square or by a Euclidean norm: a positive factor on all logits either way.
        self.sub_norm = metadata["sub_norm"] == "unit" or self._flag("sub_norm")
        if self.sub_norm and (self.residual or self.heads > 1):
            raise Rejected("sub-LN together with a residual or several heads is not covered")
        self.attention_epsilon, self.final_epsilon = self._epsilons()
        self.scale = require_rational(metadata["score_scale"], "metadata.score_scale")
        self.row, self.column = (self._frequencies(name) for name in ("row", "column"))
        pairs = len(self.row) + len(self.column)
        if pairs and 2 * pairs != self.head_width:
            raise Rejected("metadata.head_width is not twice the number of frequencies")
        self.slopes = [
            require_rational(slope, "a slope")
            for slope in require_list(metadata["slopes"], "metadata.slopes", _MOST_HEADS)
        ]
        if self.slopes and len(self.slopes) != self.heads:
            raise Rejected("metadata.slopes has not one entry for each head")
        self._require_shapes()
        self.tokens = sorted({token for name in ("prefix", "infix", "data") for token in self._tokens(name)})
        self._require_room()
        self.embedding = self._matrix("embedding", self.tokens)
        self.inputs = self._inputs()

    def _epsilons(self) -> tuple[Fraction, Fraction]:
        """The epsilon of the norm before attention and of the final one; 0 where there is no such norm."""
        if "epsilon" in self.metadata:
            epsilon = self._epsilon("epsilon")
            return epsilon, epsilon
        require_choice(self.metadata["rotary_layout"], "metadata.rotary_layout", ("interleaved",))
        if self._epsilon("sub_norm_epsilon") != 0:
            raise Rejected("metadata.sub_norm_epsilon is not 0")
        names = ("attention", "final")
        for name in names:
            if (self.metadata[f"{name}_epsilon"] is None) is (f"{name}_gain" in self.file.matrices):
                raise Rejected(f"metadata.{name}_epsilon and the tensor {name}_gain do not belong together")
        attention, final = (self._epsilon(f"{name}_epsilon") for name in names)
        return attention, final

    def _epsilon(self, name: str) -> Fraction:
        value = self.metadata[name]
        epsilon = Fraction(0) if value is None else require_rational(value, f"metadata.{name}")
        if epsilon < 0:
            raise Rejected(f"metadata.{name} is negative")
        return epsilon

    def _integer(self, name: str, most: int) -> int:
        return require_integer(self.metadata[name], f"metadata.{name}", 1, most)

    def _flag(self, name: str) -> bool:
        value = self.metadata[name]
        if not isinstance(value, bool):
            raise Rejected(f"metadata.{name} is {shown(value)}, not true or false")
        return value

    def _frequencies(self, name: str) -> tuple[Frequency, ...]:
        entries = require_list(self.metadata[name], f"metadata.{name}", MOST_FREQUENCIES)
        return tuple(_frequency(entry, f"metadata.{name}[{i}]") for i, entry in enumerate(entries))

    def _tokens(self, name: str) -> tuple[int, ...]:
        most = self.file.matrices["embedding"].height - 1
        entries = require_list(self.metadata[name], f"metadata.{name}", _MOST_TOKENS)
        return tuple(require_integer(entry, f"an entry of metadata.{name}", 0, most) for entry in entries)

    def _require_shapes(self) -> None:
        matrices = self.file.matrices
        if "embedding" not in matrices:
            raise Rejected(f"{self.file.name} has no tensor embedding")
        self.width = matrices["embedding"].width
        keys, values = self.heads * self.head_width, self.heads * self.value_width
        shapes = {
            "embedding": (matrices["embedding"].height, self.width),
            "readout": (self.outputs, self.width),
            "query": (keys, self.width),
            "key": (keys, self.width),
            "value": (values, self.width),
            "output": (self.width, values),
        }
        optional = {"attention_gain": (1, self.width), "final_gain": (1, self.width)}
        shapes |= {name: shape for name, shape in optional.items() if name in matrices}
        if self.gated:
            shapes |= {"gate": (1, self.width), "gate_bias": (1, 1)}
        if set(matrices) != set(shapes):
            raise Rejected(f"{self.file.name} does not hold exactly the tensors of a one-layer model")
        for name, shape in shapes.items():
            if (matrices[name].height, matrices[name].width) != shape:
                raise Rejected(f"{name} has not the shape {shape[0]} x {shape[1]}")
        if self.outputs not in (2, matrices["embedding"].height):
            raise Rejected("the number of outputs is neither 2 nor the vocabulary's size")

    def _require_room(self) -> None:
        """Rejected where the tables would take more memory, or more work, than the checker gives to one model."""
        count, matrices = len(self.tokens), self.file.matrices
        wide = self.heads * (2 * self.head_width + 2 * self.value_width) + self.outputs
        stored = sum(m.height * m.width for name, m in matrices.items() if name != "embedding") + count * self.width
        # Waves of three query tokens, and for each head what a token adds to the vector and to the logits.
        derived = count * (3 * self.heads * self.head_width + (self.heads + 4) * self.width + self.heads * self.outputs)
        if stored + count * wide + derived > MOST_BALLS:
            raise Rejected(f"undecided: the tables of this model would hold more than {MOST_BALLS} numbers")
        spend(stored + count * self.width * wide // 8)

    def _matrix(self, name: str, rows: Sequence[int] | None = None) -> arb_mat:
        """Stored numbers, exact; the rows named, or all of them."""
        matrix = self.file.matrices[name]
        chosen = matrix.rows if rows is None else [matrix.rows[i] for i in rows]
        return arb_mat([[arb(row.get(j, 0.0)) for j in range(matrix.width)] for row in chosen])

    def _by_token(self, matrix: arb_mat) -> dict[int, Row]:
        """The rows of a matrix that has one for each token of the prompt."""
        return dict(zip(self.tokens, _rows(matrix), strict=True))

    def _inputs(self) -> arb_mat:
        if "attention_gain" not in self.file.matrices:
            return self.embedding
        gain = self._matrix("attention_gain").entries()
        rows = []
        for token, row in self._by_token(self.embedding).items():
            square = _square(row) / self.width + ball(self.attention_epsilon)
            if not square > 0:
                raise Rejected(f"the embedding of token {token} is 0, and the norm's epsilon: its norm is no number")
            factor = square.rsqrt()
            rows.append([x * g * factor for x, g in zip(row, gain, strict=True)])
        return arb_mat(rows)

    def model(self) -> OneLayer:
        """Everything, derived, for the tokens of the prompt: those of a large vocabulary would fill the memory."""
        layout = self._layout()
        queries = {*layout.data, layout.infix[-1]}
        turned = [self._by_token(self.inputs * self._matrix(part).transpose()) for part in ("query", "key", "value")]
        output = _rows(self._matrix("output").transpose())
        readout = self._matrix("readout").transpose()
        if "final_gain" in self.file.matrices:
            gain = self._matrix("final_gain").entries()
            readout = arb_mat([[x * g for x in row] for row, g in zip(_rows(readout), gain, strict=True)])
        heads, reached = [], []
        for number in range(self.heads):
            part = slice(number * self.head_width, (number + 1) * self.head_width)
            worth = slice(number * self.value_width, (number + 1) * self.value_width)
            values = arb_mat([row[worth] for row in turned[2].values()]) * arb_mat(output[worth])
            waves = {
                (c, x): self._wave(turned[0][c][part], turned[1][x][part], number)
                for c in queries
                for x in layout.tokens
            }
            heads.append((waves, self._by_token(values * readout)))
            reached.append(self._by_token(values))
        embedding = self._by_token(self.embedding)
        zero, one = (0, 1) if self.outputs == 2 else layout.data
        return OneLayer(
            self.file, layout, self.row, self.column, tuple(heads),
            {c: self._direct(embedding[c], readout) for c in queries},
            self.outputs, (zero, one), self._least_factor(layout, queries, reached),
            self._final_norm(queries, reached[0]),
        )  # fmt: skip

    def _direct(self, embedding: Row, readout: arb_mat) -> Row:
        return (arb_mat([embedding]) * readout).entries() if self.residual else [arb(0)] * self.outputs

    def _final_norm(self, queries: set[int], reached: dict[int, Row]) -> FinalNorm | None:
        """The factor as a function of the shares of attention."""
        if self.sub_norm or self.heads > 1 or "final_gain" not in self.file.matrices:
            return None
        embedding, vectors = self._by_token(self.embedding), {}
        for c in queries:
            start = embedding[c] if self.residual else [arb(0)] * self.width
            vectors[c] = {x: [a + b for a, b in zip(start, reached[x], strict=True)] for x in self.tokens}
        return FinalNorm(self.width, ball(self.final_epsilon), vectors)

    def _wave(self, query: Row, key: Row, head: int) -> Wave:
        scale = ball(self.scale)
        slope = self.slopes[head] if self.slopes else Fraction(0)
        if not self.row and not self.column:
            return Wave((), (), scale * total(q * k for q, k in zip(query, key, strict=True)), slope)
        pairs = []
        for x in range(0, len(query), 2):
            q, r, k, m = query[x], query[x + 1], key[x], key[x + 1]
            pairs.append((scale * (q * k + r * m), scale * (r * k - q * m)))
        return Wave(tuple(pairs[: len(self.row)]), tuple(pairs[len(self.row) :]), arb(0), slope)

    def _least_factor(self, layout: Layout, queries: set[int], reached: list[dict[int, Row]]) -> arb:
        """The final norm divides by sqrt(mean square + epsilon) of a vector no longer than the longest possible.

        That is w_c plus, for each head, a mean of its O V h, whose norm is at most the largest of them.
        """
        if self.sub_norm:
            return arb(0)
        if "final_gain" not in self.file.matrices:
            return arb(1)
        embedding = self._by_token(self.embedding)
        longest = arb(0)
        for c in queries:
            start = embedding[c] if self.residual else [arb(0)] * self.width
            if self.heads == 1:
                sums = ([a + b for a, b in zip(start, reached[0][x], strict=True)] for x in layout.tokens)
                ends = [_square(vector).sqrt() for vector in sums]
                longest = longest.max(_largest(ends))
            else:
                parts = [_largest([_square(head[x]).sqrt() for x in layout.tokens]) for head in reached]
                longest = longest.max(_square(start).sqrt() + total(parts))
        square = longest * longest / self.width + ball(self.final_epsilon)
        return square.rsqrt() if square > 0 else arb(0)

    def _layout(self) -> Layout:
        prefix, infix, data, ends = (self._tokens(name) for name in ("prefix", "infix", "data", "row_ends"))
        if not prefix or not infix or len(data) != 2 or data[0] == data[1]:
            raise Rejected("metadata: prefix and infix must not be empty, and data two different tokens")
        starts = self._starts()
        if self.gated and ends:
            raise Rejected("metadata.row_ends must be empty where gates place the tokens")
        if set(data) & {*starts, *ends}:
            raise Rejected("a data token breaks a row: positions depend on the string")
        here = Place(0, 1 if self.gated else 0, 0)
        places: list[Place] = []
        source = None
        for token in (*prefix, None, *infix):
            if token is None:
                source, here = here, Place(here.row, here.column, 1)
                continue
            if token in starts:
                here = Place(here.row + 1, 0, 0)
            places.append(here)
            here = Place(here.row + 1, 0, 0) if token in ends else Place(here.row, here.column + 1, here.slope)
        if source is None:
            raise Rejected("no place for the string")
        a = len(prefix)
        return Layout(prefix, infix, (data[0], data[1]), tuple(places[:a]), source, tuple(places[a:]), here)

    def _starts(self) -> set[int]:
        """Tokens whose gate is exactly 0: w . h + bias <= -3; the others' must be >= 3."""
        if not self.gated:
            return set()
        bias = self._matrix("gate_bias").entries()[0]
        heights = (self.inputs * self._matrix("gate").transpose()).entries()
        starts = set()
        for token, level in zip(self.tokens, heights, strict=True):
            height = level + bias
            if height <= -3:
                starts.add(token)
            elif not height >= 3:
                raise Rejected(f"the gate of token {token} is not certainly saturated")
        return starts


def _frequency(entry: object, what: str) -> Frequency:
    if isinstance(entry, dict) and set(entry) == {"base", "exponent"}:
        base, exponent = (require_rational(entry[name], f"{what}.{name}") for name in ("base", "exponent"))
        if base <= 0 or not -1 < exponent <= 0:
            raise Rejected(f"{what}: base must be positive and the exponent above -1, at most 0")
        return Radians(base, exponent)
    if isinstance(entry, dict) and set(entry) == {"turn"}:
        return Turns(require_rational(entry["turn"], what))
    fields = require_fields(entry, what, ("radian",))
    return Radians(require_rational(fields["radian"], what))


def _rows(matrix: arb_mat) -> list[Row]:
    entries, width = matrix.entries(), matrix.ncols()
    return [entries[i : i + width] for i in range(0, len(entries), width)]


def _square(vector: Row) -> arb:
    return total(x * x for x in vector)


def _largest(values: list[arb]) -> arb:
    result = values[0]
    for value in values[1:]:
        result = result.max(value)
    return result
