"""One-layer models as what decides their answers: scores by tokens and relative position, and votes.

A key token x at relative position r = (row, column) of the key minus that of the query has, for the query token c, the
score

    score(c, x, r) = constant + sum_f A_f cos(beta_f r) + B_f sin(beta_f r) + slope * r_column

(row pairs turn with r_row, column pairs with r_column), and adds exp(score) times its values to the logits. A head's
output is that sum divided by the sum of the weights. With a residual the query token adds logits of its own, its
*direct* ones.

Everything is a ball of `MODEL_PRECISION` bits around the numbers that the stored weights define.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from flint import arb

from theory.numbers import Frequency, InputError, working_precision
from theory.task import Template

#: Working precision at which models are described.
MODEL_PRECISION = 384

#: (A, B) of one rotary pair.
Wave = tuple[arb, arb]


@dataclass(frozen=True)
class Axes:
    """Frequencies of the pairs that turn with the row and with the column; either may be none."""

    row: tuple[Frequency, ...] = ()
    column: tuple[Frequency, ...] = ()


@dataclass(frozen=True)
class PairScore:
    """The score of a key token for a query token: (A, B) of each row pair and column pair, and what does not rotate."""

    row: tuple[Wave, ...] = ()
    column: tuple[Wave, ...] = ()
    constant: arb = field(default_factory=lambda: arb(0))
    slope: Fraction = Fraction(0)


@dataclass(frozen=True)
class Head:
    """One head: scores by (query token, key token), and the logits that a key token's value adds, one an output."""

    scores: Mapping[tuple[int, int], PairScore]
    values: Mapping[int, tuple[arb, ...]]


@dataclass(frozen=True)
class FinalNorm:
    """The factor `1 / sqrt(|z|^2 / width + epsilon)` of a final RMSNorm, one head.

    z is a weighted mean of vectors, one for each key token, what the query token adds by itself included, so |z|^2 is a
    quadratic form in the shares of attention.

    Attributes:
        width: number of coordinates.
        epsilon: of the norm.
        gram: by query token, then by two key tokens, the inner product of their vectors.
        unit: the factor is meant for logits in units of 2^unit.
    """

    width: int
    epsilon: arb
    gram: Mapping[int, Mapping[tuple[int, int], arb]]
    unit: int = 0

    def factor(self, query: int, shares: Mapping[int, arb]) -> arb:
        """The factor for shares of attention by key token; a ball at the working precision."""
        square = sum((shares[x] * shares[y] * z for (x, y), z in self.gram[query].items()), arb(0))
        return self.of_square(square)

    def of_square(self, square: arb) -> arb:
        """The factor for a given |z|^2."""
        return (square / self.width + self.epsilon).rsqrt() * arb((1, self.unit))


@dataclass(frozen=True)
class OneLayerModel:
    """A one-layer model.

    Attributes:
        template: the tokens around the string and the rule of positions.
        frequencies: row and column frequencies, shared by the heads.
        heads: the heads; their outputs add up.
        direct: logits that each query token adds by itself (a residual), one an output; missing: zeros.
        targets: the outputs that stand for 0 and 1.
        outputs: number of logits.
        least_scale: a lower bound of the positive factor that the final norms put on all logits alike; 1 without norms.
        norm: that factor itself, where there is a final norm and no other after attention, and one head.
        unit: logits (values, direct) are in units of 2^unit, and the norms' factors include it.
    """

    template: Template
    frequencies: Axes
    heads: tuple[Head, ...]
    direct: Mapping[int, tuple[arb, ...]]
    targets: tuple[int, int]
    outputs: int
    least_scale: arb
    norm: FinalNorm | None = None
    unit: int = 0

    def __post_init__(self) -> None:
        if not self.heads:
            raise InputError("heads", 0, "at least one head")

    def in_units(self) -> OneLayerModel:
        """The same model with its logits in units of a power of two, in which the largest vote is below 8 and near 1.

        A verdict does not depend on the scale of the logits; floats have a range. Ratios N/D are then in the same unit.
        """
        largest = arb(0)
        for logits in (*(row for head in self.heads for row in head.values.values()), *self.direct.values()):
            for logit in logits:
                largest = largest.max(abs(logit).upper())
        if not largest.is_finite():
            raise InputError("logits", "not finite", "finite numbers")
        if largest == 0:
            return self
        mantissa, exponent = largest.upper().man_exp()
        unit = int(exponent) + int(mantissa).bit_length()
        factor = arb((1, -unit))

        def scaled(table: Mapping[int, tuple[arb, ...]]) -> dict[int, tuple[arb, ...]]:
            return {token: tuple(logit * factor for logit in logits) for token, logits in table.items()}

        with working_precision(MODEL_PRECISION):
            return replace(
                self,
                heads=tuple(Head(head.scores, scaled(head.values)) for head in self.heads),
                direct=scaled(self.direct),
                least_scale=self.least_scale * arb((1, unit)),
                norm=None if self.norm is None else replace(self.norm, unit=self.norm.unit + unit),
                unit=self.unit + unit,
            )

    def cases(self) -> list[StepCase]:
        """Every combination of query token, symbol to write and competitor."""
        last = self.template.infix[-1]
        queries = [(last, True), *((token, False) for token in self.template.data)]
        return [
            StepCase(query, first, symbol, other)
            for query, first in queries
            for symbol in (0, 1)
            for other in range(self.outputs)
            if other != self.targets[symbol]
        ]

    def votes(self, head: int, case: StepCase) -> dict[int, arb]:
        """By key token, what the head's values add to the logit of the symbol to write minus the competitor's."""
        target = self.targets[case.symbol]
        with working_precision(MODEL_PRECISION):
            return {x: logits[target] - logits[case.competitor] for x, logits in self.heads[head].values.items()}

    def direct_vote(self, case: StepCase) -> arb:
        """What the query token adds by itself to that difference."""
        logits = self.direct.get(case.query)
        if logits is None:
            return arb(0)
        with working_precision(MODEL_PRECISION):
            return logits[self.targets[case.symbol]] - logits[case.competitor]

    def single_votes(self, case: StepCase) -> dict[int, arb]:
        """Votes of a model with one head, what the query token adds included: the weights of a head add up to 1."""
        direct = self.direct_vote(case)
        with working_precision(MODEL_PRECISION):
            return {token: vote + direct for token, vote in self.votes(0, case).items()}


@dataclass(frozen=True)
class StepCase:
    """What a step asks: the query token, the symbol to write, and the output that must stay below it.

    Attributes:
        query: the query token: B_b at step 1, the symbol written last at later steps.
        first: is it step 1?
        symbol: 0 or 1.
        competitor: an output other than the symbol's.
    """

    query: int
    first: bool
    symbol: int
    competitor: int
