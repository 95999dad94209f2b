"""Branch and bound over the free symbols of one step of one length.

A *question* asks whether some function of several ratios `N_k/D_k`, falling or rising with each, keeps its side for all
strings: the sum over heads of a logit difference, or the sum of the competitors' odds. Each ratio has an exact least
value over the strings that agree with the symbols fixed so far (Dinkelbach; N and D are sums of functions of one symbol
each), and the least values together bound the function. Where that is not enough, a free symbol is fixed both ways.
With every symbol fixed the bound is the value itself, so only the budget, or a tie, ends a search undecided.

*Trees.* A proof is a tree: a `Split` names the symbol fixed, a `Leaf` holds numbers that the ratios exceed, in units of
2^-44, and these numbers must settle the question by themselves. A leaf with no numbers is a single string, every symbol
of it fixed, that balls have decided: so margins below the rounding of floats.

*Rounding* (float+bound). Dinkelbach's iteration only suggests a number tau: where one string has a much larger D than
another, the rounding of its ratio alone can hide the other. A number is claimed only if the least `N - tau D`, a sum of
`Rounded` terms that carry their own bound, exceeds that bound. Where the fixed weights add up to less than 2^-600
nothing is claimed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, inf, isfinite

import numpy as np
from flint import arb
from jaxtyping import Float64, Int64

from theory.numbers import Rounded, chosen, joined, minimum
from theory.one_layer._one_head import LEAST_DENOMINATOR, MOST_ROUNDS, View
from theory.one_layer._worst_case import float_votes

#: Leaves hold bounds in units of 2^-LEAF_BITS.
LEAF_BITS = 44

#: Most single flips in one local search.
MOST_FLIPS = 200

Choice = Int64[np.ndarray, " free"]

Numbers = Float64[np.ndarray, " _"]


@dataclass(frozen=True)
class Leaf:
    """Lower bounds of the ratios, in units of 2^-44; none if it is one string, decided in balls."""

    bounds: tuple[int, ...]


@dataclass(frozen=True)
class Split:
    """The symbol fixed (1-based number in the string), and the proofs for it being 0 and 1."""

    number: int
    zero: Tree
    one: Tree


Tree = Leaf | Split


def tree_size(tree: Tree) -> int:
    """Number of nodes."""
    return 1 if isinstance(tree, Leaf) else 1 + tree_size(tree.zero) + tree_size(tree.one)


class FoundError(Exception):
    """A string that fails was found.

    Attributes:
        choice: its free symbols.
    """

    def __init__(self, choice: Choice) -> None:
        super().__init__("a string fails")
        self.choice = choice


class StuckError(Exception):
    """The budget ended, or a step is a tie as far as floats and balls can tell."""


@dataclass
class Budget:
    """Nodes that may be spent, and those that were."""

    nodes: int
    spent: int = 0

    def spend(self) -> None:
        """One node. Raises StuckError if there is none left."""
        self.spent += 1
        if self.spent > self.nodes:
            raise StuckError("the budget of nodes ended")


class Ratio:
    """One ratio N/D at one step of one length, in float64.

    Attributes:
        free: weights of the free symbols, were they 0 and were they 1.
        weights: the same as plain numbers, [symbol, place].
        votes: of 0 and 1, plain numbers.
        fixed: by token, the weight of everything that stands there whatever the free symbols are: one entry.
        numerator, denominator: what the symbols and tokens that are fixed by the step add to N and D.
        relative: bound of the relative error of sums of weights, for what is not claimed and for shares.
        error: about what the ratio may be off by; infinite where floats say too little.
    """

    def __init__(self, view: View, symbol: int, votes: Mapping[int, arb], length: int, step: int) -> None:
        family = view.family
        before, after = max(0, step - 2), length - step
        zero, one = (joined([family.before[x][:before], family.after[x][:after]]).anew() for x in (0, 1))
        self.free = zero, one
        self.weights: Numbers = np.stack([zero.value, one.value])
        self._exact, self._data = votes, family.data
        rounded = float_votes(votes)
        self.votes = np.array([rounded[token].value for token in family.data])
        self.fixed = fixed_weights(view, symbol, length, step)
        self.denominator = sum(float(weight.value[0]) for weight in self.fixed.values())
        self.numerator = sum(float(weight.value[0]) * rounded[token].value for token, weight in self.fixed.items())
        sums = joined([zero, one, *self.fixed.values()]).total()
        self.relative = sums.relative
        largest = max(abs(vote.value) for vote in rounded.values())
        self.error = 4 * self.relative * largest + 2 * max(vote.radius for vote in rounded.values())
        if not (self.denominator > LEAST_DENOMINATOR and isfinite(sums.error)):
            self.error = inf

    def value(self, choice: Choice) -> float:
        """N/D of one string."""
        weights = self.weights[choice, np.arange(choice.size)]
        numerator = self.numerator + float((weights * self.votes[choice]).sum())
        return numerator / max(self.denominator + float(weights.sum()), LEAST_DENOMINATOR)

    def after_flips(self, choice: Choice) -> tuple[Numbers, Numbers]:
        """N and D after each single flip."""
        places = np.arange(choice.size)
        here, there = self.weights[choice, places], self.weights[1 - choice, places]
        worth = here * self.votes[choice]
        numerator = self.numerator + worth.sum() + there * self.votes[1 - choice] - worth
        # The difference may cancel; what is certainly left does not.
        least = max(self.denominator, LEAST_DENOMINATOR) + there
        return numerator, np.maximum(self.denominator + here.sum() + there - here, least)

    def least(self, fixed: Choice) -> tuple[float, Choice]:
        """The least ratio over the symbols not fixed (-1), by Dinkelbach, and where it is attained: a suggestion."""
        ratio = inf
        choice = best = np.where(fixed < 0, 0, fixed)
        for _ in range(MOST_ROUNDS if isfinite(self.error) else 0):
            value = self.value(choice)
            if not value < ratio:
                break
            ratio, best = value, choice
            zero, one = (self.weights[x] * (self.votes[x] - ratio) for x in (0, 1))
            choice = np.where(fixed < 0, (one < zero).astype(np.int64), fixed)
        return ratio, best

    def below(self, ratio: float, fixed: Choice) -> int | None:
        """A number, in units of 2^-44, that the ratios of all strings with these symbols exceed, near `ratio`; or None.

        `ratio` is what floats found as the least of them.
        """
        least = ratio - self.error
        if not isfinite(least):
            return None
        bound = floor(least * 2.0**LEAF_BITS) - 1
        return bound if self._exceeded(bound / 2**LEAF_BITS, fixed) else None

    def _exceeded(self, threshold: float, fixed: Choice) -> bool:
        """Is N - threshold D positive for all strings with these symbols, whatever rounding did?"""
        votes = float_votes(self._exact, threshold)
        zero, one = (weights * votes[token] for weights, token in zip(self.free, self._data, strict=True))
        free = minimum(zero, one)
        known = fixed >= 0
        free = chosen(known, free, chosen(fixed == 1, zero, one))
        least = joined([free, *(weight * votes[token] for token, weight in self.fixed.items())]).total()
        return bool(least.value[0] > least.error)


def fixed_weights(view: View, symbol: int, length: int, step: int) -> dict[int, Rounded]:
    """By token, the weight of everything that stands there whatever the free symbols are: one entry each."""
    family, geometry = view.family, view.geometry
    rest, index = length - step, step - geometry.least_step
    at = rest if geometry.reverse else 0
    parts = [(family.data[symbol], family.target[symbol][at : at + 1])]
    parts += [(token, along[index : index + 1]) for token, along in family.steps.items()]
    parts += [(token, along[rest : rest + 1]) for token, along in family.rests.items()]
    if family.previous is not None:
        parts.append((geometry.query, family.previous))
    result: dict[int, Rounded] = {}
    for token, weight in parts:
        weight = weight.anew()
        result[token] = result[token] + weight if token in result else weight
    return result


class Question(ABC):
    """One step of one length, and what is asked of its ratios.

    Attributes:
        ratios: at least one; all over the same free symbols.
        numbers: of the free symbols in the string, 1-based.
    """

    def __init__(self, view: View, symbol: int, ratios: list[Ratio], length: int, step: int) -> None:
        self.view, self.symbol, self.ratios, self.length, self.step = view, symbol, ratios, length, step
        before = np.arange(step - 2, 0, -1)
        after = np.arange(step + 1, length + 1)
        self.numbers = np.concatenate([before, after[::-1] if view.geometry.reverse else after]).astype(np.int64)

    @abstractmethod
    def enough(self, bounds: tuple[int, ...], fixed: Choice) -> bool:
        """Do these bounds of the ratios prove the step for all strings with these symbols?"""

    @abstractmethod
    def value(self, choice: Choice) -> float:
        """Positive iff the string is right, as floats see it; smaller is worse."""

    @abstractmethod
    def after_flips(self, choice: Choice) -> Float64[np.ndarray, " free"]:
        """`value` after each single flip."""

    @abstractmethod
    def judge(self, choice: Choice, *, surely: bool = False) -> bool | None:
        """Is the step right for this string? Decided in balls; strings remembered on the way.

        None if balls do not tell, or were not asked, as floats see the string on the right side; `surely` asks them.
        """

    def fails(self, choice: Choice) -> bool:
        """Is the step certainly wrong for this string?"""
        return self.judge(choice) is False

    def string(self, choice: Choice) -> Int64[np.ndarray, " n"]:
        """The string that a choice of the free symbols stands for."""
        string = np.empty(self.length, dtype=np.int64)
        string[self.step - 1] = self.symbol
        if self.step > 1:
            string[self.step - 2] = self.view.family.data.index(self.view.geometry.query)
        string[self.numbers - 1] = choice
        return string

    def prove(self, budget: Budget) -> Tree:
        """A proof that the step is right for all strings.

        Raises:
            FoundError: some string is wrong.
            StuckError: the budget ended, or rounding leaves a string open.
        """
        return self._prove(budget, np.full(self.numbers.size, -1, dtype=np.int64))

    def _prove(self, budget: Budget, fixed: Choice) -> Tree:
        budget.spend()
        found = [ratio.least(fixed) for ratio in self.ratios]
        bounds = [ratio.below(least, fixed) for ratio, (least, _) in zip(self.ratios, found, strict=True)]
        known = tuple(bound for bound in bounds if bound is not None)
        choices = [choice for _, choice in found]
        for choice in choices:
            if self.fails(choice):
                raise FoundError(choice)
        if len(known) == len(bounds) and self.enough(known, fixed):
            return Leaf(known)
        place = self._branch(fixed, choices)
        if place is None:
            if self.judge(fixed, surely=True):
                return Leaf(())
            raise StuckError("rounding leaves a string open")
        zero, one = fixed.copy(), fixed.copy()
        zero[place], one[place] = 0, 1
        return Split(int(self.numbers[place]), self._prove(budget, zero), self._prove(budget, one))

    def _branch(self, fixed: Choice, choices: list[Choice]) -> int | None:
        """The free symbol with the most weight, among those that the ratios disagree about if there are any."""
        disagree = np.zeros(fixed.size, dtype=bool)
        for choice in choices[1:]:
            disagree |= choice != choices[0]
        free = fixed < 0
        candidates = free & disagree if (free & disagree).any() else free
        if not candidates.any():
            return None
        # A ratio whose free weights have all underflowed to 0 has no say.
        sums = [float(ratio.weights.sum()) for ratio in self.ratios]
        shares = [ratio.weights.sum(0) / whole for ratio, whole in zip(self.ratios, sums, strict=True) if whole > 0]
        weight = sum(shares, np.zeros(fixed.size))
        return int(np.argmax(np.where(candidates, weight, -1.0)))

    def search(self, choice: Choice) -> Choice:
        """Flips single symbols as long as the value falls. Cost: O(ratios length) a flip."""
        value = self.value(choice)
        for _ in range(MOST_FLIPS):
            if not choice.size:
                break
            values = self.after_flips(choice)
            best = int(np.argmin(values))
            if not values[best] < value:
                break
            value, choice = float(values[best]), choice.copy()
            choice[best] = 1 - choice[best]
        return choice

    def search_all(self) -> Choice | None:
        """The free symbols of a string that certainly fails, looked for from each ratio's worst string on; or None."""
        nothing = np.full(self.numbers.size, -1, dtype=np.int64)
        for ratio in self.ratios:
            choice = self.search(ratio.least(nothing)[1])
            if self.fails(choice):
                return choice
        return None
