"""Kind `one-layer-branching`: every string of every length up to 40, by splitting on single symbols.

*Why a tree proves a step.* Fix a length, a step, the query token and the symbol to write; the other symbols of the
string are free. A split on s_j covers all strings by those with s_j = 0 and those with s_j = 1. At a leaf some symbols
are fixed, and numbers tau are given, one for each ratio N/D: heads (arg-max: one competitor a tree), or competitors
(half: one head). N - tau D is a sum of functions of one symbol each, the source and the copy of a symbol together, so
its least value over the free symbols is a sum of minima; where it is certainly positive, the ratio exceeds tau. Then
`sum of tau + (what the query token adds) >= 0` makes the logit difference positive, and `sum of exp(-g tau) <= 1`, all
tau >= 0, puts the probability above one half; g is a lower bound of the final norm's factor for the leaf's strings.

A leaf without numbers stands for one string, all of its symbols fixed: it is looked at in balls, from its tokens.

*The factor.* It is `1/sqrt(|z|^2/width + epsilon)`, z the mean of one vector for each token. The share of a token lies
between `low/(low + the others' high)` and `high/(high + the others' low)`, low and high its weight if every free
symbol is another token, or is this one. So |z|^2, a quadratic form in the shares, which are not negative, is at most
the sum of its terms' largest values.

*Arithmetic.* Integers, as in `_one_layer_copies`: N - tau D is exact but for the weights and votes, whose error bound
is compared with it; in balls where that does not decide. tau is rounded up to the votes' unit, which claims more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flint import arb

from proofs_check.verify.one_layer._copies import (
    BALL_BITS,
    Case,
    Checker,
    Sums,
    Terms,
    Undecided,
    integer_votes,
    logit_difference,
    read_thresholds,
    sum_of_odds,
)
from proofs_check.verify.one_layer._model import MODEL_BITS, read_one_layer
from proofs_check.verify.reading import (
    Rejected,
    ball,
    product_units,
    require_choice,
    require_fields,
    require_integer,
    require_list,
    spend,
    total,
    working_precision,
)

LARGEST_LENGTH = 40

#: The numbers of a leaf are in units of 2^(unit - LEAF_BITS); `unit` stands in the evidence, 0 where it does not.
LEAF_BITS, LARGEST_UNIT = 44, 20_000

_MOST_NODES, _LARGEST_BOUND, _MOST_TREES = 200_000, 2**80, 2_000_000

#: Weights are kept in units of 2^-_WEIGHT_BITS: at single steps all of them may be small.
_WEIGHT_BITS = 240

#: Precision of odds.
_ODDS_BITS = 192


def check_one_layer_branching(directory: Path, inputs: object, evidence: object, claim: object) -> str:
    """The statement of a `one-layer-branching` certificate.

    Raises:
        Rejected: a tree does not cover all strings, a leaf does not bound its strings, or one is missing.
    Cost: about 20 microseconds for each node, ratio and length 40.
    """
    claimed = require_fields(claim, "claim", ("criterion", "copies_up_to"))
    criterion = require_choice(claimed["criterion"], "claim.criterion", ("argmax", "half"))
    copies = require_integer(claimed["copies_up_to"], "claim.copies_up_to", 1, LARGEST_LENGTH)
    fields = ("thresholds", "bounded_to", "trees")
    with_unit = isinstance(evidence, dict) and "unit" in evidence
    given = require_fields(evidence, "evidence", (*fields, "unit") if with_unit else fields)
    unit = require_integer(given["unit"], "evidence.unit", -LARGEST_UNIT, LARGEST_UNIT) if with_unit else 0
    bounded = min(copies, require_integer(given["bounded_to"], "evidence.bounded_to", 0, LARGEST_LENGTH))
    model = read_one_layer(directory, inputs)
    if criterion == "half" and len(model.heads) > 1:
        raise Rejected("claim.criterion: half is for one head")
    checker = Checker(model, read_thresholds(model, given["thresholds"]))
    if bounded:
        checker.require_copied(bounded, criterion)
    lengths = require_list(given["trees"], "evidence.trees", LARGEST_LENGTH)
    if len(lengths) < copies - bounded:
        raise Rejected("evidence.trees has not an entry for each length from bounded_to + 1 to copies_up_to")
    budget = _Budget()
    for length, trees in enumerate(lengths[: copies - bounded], bounded + 1):
        listed = iter(require_list(trees, "trees", _MOST_TREES))
        _require_length(checker, criterion, length, listed, budget, unit - LEAF_BITS)
    what = "every output but the right one has a smaller logit"
    if criterion == "half":
        what = "the right output has a probability above one half"
    return f"For {model.description}: at every step of every binary string of every length from 1 to {copies}, {what}."


@dataclass
class _Budget:
    """Nodes seen."""

    spent: int = 0

    def spend(self) -> None:
        self.spent += 1
        if self.spent > _MOST_NODES:
            raise Rejected(f"more than {_MOST_NODES} nodes")


def _require_length(
    checker: Checker, criterion: str, length: int, trees: Iterator[object], budget: _Budget, unit: int
) -> None:
    """Every step of one length, its trees in order: query tokens, symbols, competitors (arg-max), steps."""
    model = checker.model
    for sight in checker.sights_of(length):
        sums = [Sums(model, head, sight, length, _WEIGHT_BITS) for head in range(len(model.heads))]
        cases = checker.cases_of(sight)
        groups = [[case] for case in cases]
        if criterion == "half":
            groups = [[case for case in cases if case.symbol == symbol] for symbol in (0, 1)]
        for group in groups:
            with working_precision(MODEL_BITS):
                ratios = [(part, checker.plain_votes(head, case)) for case in group for head, part in enumerate(sums)]
            for step in [1] if sight.first else range(2, length + 1):
                tree = next(trees, None)
                nodes = iter(require_list(tree, "a tree", _MOST_NODES))
                _Step(checker, criterion, group, ratios, length, step, unit).require(nodes, {}, budget)
                if next(nodes, None) is not None:
                    raise Rejected("a tree has nodes that belong to nothing")
    if next(trees, None) is not None:
        raise Rejected("evidence.trees has a tree that belongs to nothing")


class _Step:
    """One step of one length, for one competitor, or for all of them."""

    def __init__(
        self,
        checker: Checker,
        criterion: str,
        group: list[Case],
        ratios: list[tuple[Sums, dict[int, arb]]],
        length: int,
        step: int,
        unit: int,
    ) -> None:
        self.model, self.criterion, self.length, self.step, self.unit = checker.model, criterion, length, step, unit
        self.symbol, self.query, self.competitor = group[0].symbol, group[0].query, group[0].competitor
        with working_precision(MODEL_BITS):
            self.direct = checker.direct(group[0]) if len(self.model.heads) > 1 else arb(0)
        self.numbers = [j for j in range(1, length + 1) if j not in (step - 1, step)]
        self.ratios = [_Ratio(sums, votes, self) for sums, votes in ratios]

    def require(self, nodes: Iterator[object], known: dict[int, int], budget: _Budget) -> None:
        """Rejected unless the nodes, in preorder, prove the step for all strings with the symbols known."""
        budget.spend()
        node = next(nodes, None)
        if isinstance(node, list):
            bounds = [require_integer(b, "a leaf's number", -_LARGEST_BOUND, _LARGEST_BOUND) for b in node]
            self._require_leaf(bounds, known)
            return
        if node is None:
            raise Rejected("a tree ends before it covers all strings")
        number = require_integer(node, "a split", 1, self.length)
        if number not in self.numbers or number in known:
            raise Rejected(f"a tree splits on symbol {number} of step {self.step}, which is not free")
        for symbol in (0, 1):
            self.require(nodes, {**known, number: symbol}, budget)

    def _require_leaf(self, bounds: list[int], known: dict[int, int]) -> None:
        if not bounds:
            self._require_string(known)
            return
        if len(bounds) != len(self.ratios):
            raise Rejected("a leaf has not one number for each ratio")
        spend(len(bounds) * (4 + len(self.numbers)) // 2)
        for ratio, bound in zip(self.ratios, bounds, strict=True):
            if not ratio.exceeds(bound, known):
                raise Rejected(f"a leaf of length {self.length}, step {self.step} does not bound all its strings")
        if not self._enough(bounds, known):
            raise Rejected(f"a leaf of length {self.length}, step {self.step} does not settle its strings")

    def _require_string(self, known: dict[int, int]) -> None:
        """A leaf without numbers: all symbols are known, and the string is right, in balls from its tokens."""
        if set(known) != set(self.numbers):
            raise Rejected("a leaf without numbers does not stand for one string")
        string = bytearray(self.length)
        string[self.step - 1] = self.symbol
        if self.step > 1:
            string[self.step - 2] = self.model.layout.data.index(self.query)
        for number, symbol in known.items():
            string[number - 1] = symbol
        for bits in (192, 768):
            with working_precision(bits):
                if self.criterion == "half":
                    right = bool(sum_of_odds(self.model, bytes(string), self.step) < 1)
                else:
                    right = bool(logit_difference(self.model, bytes(string), self.step, self.competitor) > 0)
            if right:
                return
        raise Rejected(f"a string of length {self.length} is not certainly right at step {self.step}")

    def _enough(self, bounds: list[int], known: dict[int, int]) -> bool:
        # For arg-max of as many bits as `direct` has: it may cancel but for the last of them.
        with working_precision(MODEL_BITS if self.criterion == "argmax" else _ODDS_BITS):
            taus = [ball(bound) * arb((1, self.unit)) for bound in bounds]
            if self.criterion == "argmax":
                return bool(self.direct + total(taus) >= 0)
            if min(bounds) < 0:
                return False
            factor = self._least_factor(known)
            return bool(total((-factor * tau).exp() for tau in taus) <= 1)

    def _least_factor(self, known: dict[int, int]) -> arb:
        """A lower bound of the final norm's factor over all strings with these symbols."""
        norm = self.model.norm
        if norm is None:
            return self.model.least_factor
        ratio = self.ratios[0]
        terms = ratio.sums.terms
        if terms is None:
            return self.model.least_factor
        low, high = dict(ratio.fixed), dict(ratio.fixed)
        for number, pair in zip(self.numbers, ratio.free, strict=True):
            for symbol, token in enumerate(terms.data):
                weight = pair[symbol]
                low[token] = low.get(token, 0) + (weight if known.get(number) == symbol else 0)
                high[token] = high.get(token, 0) + (weight if known.get(number, symbol) == symbol else 0)
        slack = terms.slack * terms.terms
        low = {token: max(0, weight - slack) for token, weight in low.items()}
        high = {token: weight + slack for token, weight in high.items()}
        shares = {}
        for token in low:
            others = (sum(w for x, w in side.items() if x != token) for side in (high, low))
            most, least = others
            down = ball(low[token]) / (low[token] + most) if low[token] + most else arb(0)
            up = ball(high[token]) / (high[token] + least)
            shares[token] = (down, up)
        square = total(
            (z * shares[x][1] * shares[y][1]).max(z * shares[x][0] * shares[y][0])
            for (x, y), z in norm.gram(self.query).items()
            if x in shares and y in shares
        )
        return (square / norm.width + norm.epsilon).rsqrt().lower().max(self.model.least_factor)


class _Ratio:
    """One ratio N/D of a step: a head's, or a competitor's.

    Attributes:
        sums: weights, as integers where those carry them, and as balls.
        fixed, free: integer weights of what is fixed by the step, by token, and of the free symbols, were they 0 or 1.
    """

    def __init__(self, sums: Sums, votes: dict[int, arb], step: _Step) -> None:
        self.sums, self.votes, self.step = sums, votes, step
        self.integers = None
        with suppress(Undecided), working_precision(MODEL_BITS):
            self.integers = integer_votes(votes)
        if sums.terms is not None:
            self.fixed, self.free = self._weights(sums.terms)
            self.met = sum(self.fixed.values()) + sum(map(sum, self.free))

    def _weights(self, terms: Terms) -> tuple[dict[int, int], list[tuple[int, int]]]:
        fixed = terms.fixed_weights(self.step.symbol, self.step.length, self.step.step)
        free = []
        for number in self.step.numbers:
            sides, at = terms.place_of(number, self.step.length, self.step.step)
            free.append((sides[0][at], sides[1][at]))
        return fixed, free

    def exceeds(self, bound: int, known: dict[int, int]) -> bool:
        """Is N - tau D certainly positive for all strings with these symbols, tau the bound in the leaves' unit?"""
        if self.sums.terms is not None and self.integers is not None:
            places = self.step.unit - self.integers.unit
            shift = bound << places if places >= 0 else -(-bound >> -places)
            votes = {token: vote - shift for token, vote in self.integers.values.items()}
            least = self._least(self.sums.terms, votes, known, self.fixed, self.free, min)
            if least > self.sums.terms.error(self.integers.largest + abs(shift), self.met):
                return True
        return any(self._exceeds_in_balls(bound, known, bits) for bits in BALL_BITS)

    def _exceeds_in_balls(self, bound: int, known: dict[int, int], bits: int) -> bool:
        terms = self.sums.balls(bits)
        with working_precision(bits):
            spend(30 + len(self.step.numbers) * product_units())
            tau = ball(bound) * arb((1, self.step.unit))
            votes = {token: vote - tau for token, vote in self.votes.items()}
            return bool(self._least(terms, votes, known, *self._weights(terms), arb.min) > 0)

    def _least(self, terms: Terms, votes: Any, known: dict[int, int], fixed: Any, free: Any, smaller: Any) -> Any:
        """The least N - tau D over the symbols that are not known."""
        zero, one = (votes[token] for token in terms.data)
        least = sum((weight * votes[token] for token, weight in fixed.items()), 0 * zero)
        for number, pair in zip(self.step.numbers, free, strict=True):
            left, right = pair[0] * zero, pair[1] * one
            least += (right if known[number] else left) if number in known else smaller(left, right)
        return least
