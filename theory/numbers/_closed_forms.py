"""Every closed-form bound, written once, with its label and source.

Ball values, plots and the LaTeX of the docs derive from these expressions. Balls come from an interpreter of the sympy
tree that refuses every node it does not know; sympy's own numerics are not evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import add, mul
from typing import Literal

import sympy
from flint import arb

from theory.numbers._balls import ball

Label = Literal["paper", "reconstructed", "new"]
Method = Literal["kernel", "exact", "ball", "float+bound", "sampled"]

RHO, D, M, V, SCALE, LENGTH, DELTA, A, B, Q, AMPLITUDE = SYMBOLS = sympy.symbols(
    "rho d m V S L delta a b Q W", positive=True
)


@dataclass(frozen=True)
class ClosedForm:
    """A bound in closed form.

    Attributes:
        name: how the product calls it.
        expression: a sympy expression in the symbols of this module.
        label: paper, reconstructed or new.
        source: theorem, section or publication.
        meaning: one sentence.
    """

    name: str
    expression: sympy.Expr
    label: Label
    source: str
    meaning: str

    def ball(self, **values: Fraction | int | arb) -> arb:
        """Enclosure of the value at the working precision; symbols by name (rho, d, m, V, S, L, delta, a, b, Q, W).

        Raises:
            KeyError: a symbol without a value. NotImplementedError: a node that the interpreter does not know.
        """
        return evaluate_in_balls(
            self.expression, {name: v if isinstance(v, arb) else ball(v) for name, v in values.items()}
        )

    def latex(self) -> str:
        """The expression as LaTeX."""
        text: str = sympy.latex(self.expression)
        return text


def evaluate_in_balls(expression: sympy.Basic, values: Mapping[str, arb]) -> arb:
    """Enclosure of a sympy tree of sums, products, powers, exp, log, gamma, rationals and pi at the working precision.

    Raises:
        NotImplementedError: any other node. KeyError: a symbol without a value.
    """
    if isinstance(expression, sympy.Symbol):
        return values[expression.name]
    if isinstance(expression, sympy.Rational):
        return ball(Fraction(int(expression.p), int(expression.q)))
    if expression is sympy.pi:
        return arb.pi()
    arguments = [evaluate_in_balls(argument, values) for argument in expression.args]
    if isinstance(expression, sympy.Add):
        return reduce(add, arguments)
    if isinstance(expression, sympy.Mul):
        return reduce(mul, arguments)
    if isinstance(expression, sympy.Pow):
        return _power(expression, arguments)
    functions = {sympy.exp: arb.exp, sympy.log: arb.log, sympy.gamma: arb.gamma}
    if expression.func in functions:
        result: arb = functions[expression.func](*arguments)
        return result
    raise NotImplementedError(f"no ball rule for {expression.func} in {expression}")


def exact_value(form: ClosedForm, **values: Fraction | int) -> Fraction:
    """The rational value of a form at rational arguments.

    Raises:
        ValueError: the value is not rational.
    """
    substituted = form.expression.subs(
        {symbol: sympy.Rational(*_ratio(values[symbol.name])) for symbol in form.expression.free_symbols}
    )
    if not isinstance(substituted, sympy.Rational):
        raise ValueError(f"{form.name} = {substituted} is not rational")
    return Fraction(int(substituted.p), int(substituted.q))


def _ratio(value: Fraction | int) -> tuple[int, int]:
    return Fraction(value).as_integer_ratio()


def _power(expression: sympy.Pow, arguments: list[arb]) -> arb:
    base, exponent = arguments
    if expression.exp.is_Integer:
        return base ** int(expression.exp)
    result: arb = base**exponent
    return result


def _form(name: str, expression: sympy.Expr, label: Label, source: str, meaning: str) -> ClosedForm:
    return ClosedForm(name, sympy.sympify(expression), label, source, meaning)


SCORE_SCALE = _form(
    "score scale", RHO**4 / (4 * V * D), "reconstructed", "Theorem 4.1, design of J.2",
    "Largest score scale S of the fixed-offset copier with V embedded tokens under parameter norm rho.",
)  # fmt: skip
PAPER_LENGTH = _form(
    "paper length", RHO ** (D / 12), "paper", "Theorem 4.1", "Length up to which all strings are copied."
)
PAPER_FAILURE = _form(
    "paper failure probability", D / RHO, "paper", "Theorem 4.1", "Probability with which a draw may fail."
)
NEEDED_SEPARATION = _form(
    "needed separation", sympy.log(LENGTH + 1) / SCALE, "new", "certificates.md, failure-probability",
    "Enough: C_column(k) at least this for all k in range and C_row(1) at least this.",
)  # fmt: skip
BALL_VOLUME = _form(
    "resonance probability", sympy.pi ** (M / 2) / sympy.gamma(M / 2 + 1) * (DELTA / 8) ** (M / 2),
    "new", "volume of a ball",
    "Bound of P(sum of m terms 1 - cos <= delta), independent uniform angles, by 1 - cos(2 pi x) >= 8 dist(x, Z)^2.",
)  # fmt: skip
PAPER_RESONANCE = _form(
    "resonance probability of the paper",
    DELTA ** (M / 2),
    "paper",
    "section J.2",
    "The paper's bound of the same, for delta < 0.1.",
)
UNION_BOUND = _form(
    "failure probability", (LENGTH + A + B + 1) * BALL_VOLUME.expression.subs(DELTA, NEEDED_SEPARATION.expression),
    "new", "union bound over columns and the row",
    "Bound of the probability that a draw fails at length L; L + a + b + 1 bounds the number of resonances to avoid.",
)  # fmt: skip
TYPICAL_LENGTH = _form(
    "typical length",
    (2 * sympy.pi * SCALE) ** (D / 8),
    "new",
    "1 / E exp(-S C)",
    "Typical size of n*, the reciprocal of the mean weight of a wrong column; sampled, not proved.",
)
DIRICHLET_Q = _form(
    "resonance distance",
    sympy.sqrt(2 * sympy.pi**2 * AMPLITUDE / sympy.log(2)),
    "new",
    "Dirichlet's approximation theorem",
    "An integer Q at least this makes two resonances outweigh the wanted key.",
)
CEILING = _form(
    "ceiling",
    2 * Q**M + 1,
    "new",
    "Dirichlet's approximation theorem",
    "A length at which every choice of frequencies fails.",
)
AMPLITUDE_CEILING = _form(
    "amplitude ceiling",
    RHO**4 / 8,
    "new",
    "Cauchy-Schwarz and two means",
    "No parameter norm rho affords a larger total column amplitude W.",
)

CLOSED_FORMS = (
    SCORE_SCALE, PAPER_LENGTH, PAPER_FAILURE, NEEDED_SEPARATION, BALL_VOLUME, PAPER_RESONANCE,
    UNION_BOUND, TYPICAL_LENGTH, DIRICHLET_Q, CEILING, AMPLITUDE_CEILING,
)  # fmt: skip


def closed_forms_page() -> str:
    """The page of the docs that lists every closed form, in Markdown with LaTeX."""
    rows = [f"| {f.name} | $ {f.latex()} $ | {f.label} | {f.source} | {f.meaning} |" for f in CLOSED_FORMS]
    head = ["# Closed forms", "", "Made from `theory/numbers/_closed_forms.py`; a test compares this page with it.", ""]
    return "\n".join([*head, "| name | value | label | source | meaning |", "|---|---|---|---|---|", *rows, ""])
