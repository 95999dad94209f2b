"""Kind `grid-counterexample`: a model gets one step of one string wrong, position-only or not.

The step is right iff `N = sum over tokens seen of exp(score) u_token` is positive for s_i = 0, negative for s_i
= 1. N is divided by exp(score) of the key s_i in the prompt, the wanted one, which keeps its sign.

Tokens with the same score for a reason that can be seen exactly (same coefficients, positions that differ by
whole turns of every frequency that counts) are summed as rational numbers first. If nothing is left, N = 0,
which is wrong. Among many tokens, those with a score certainly more than T below the wanted one are not
evaluated: they change the quotient by at most `exp(-T)` times the sum of their |u|.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from flint import arb

from proofs_check.verify.grid._model import GridModel, Score
from proofs_check.verify.grid._scan import ATTEMPTS, LARGEST_LENGTH
from proofs_check.verify.grid._waves import MOST_EVALUATIONS, WaveSum, exact_period, precision_for
from proofs_check.verify.reading import (
    Rejected,
    ball,
    digest,
    function_units,
    require_fields,
    require_integer,
    require_list,
    spend,
    total,
    working_precision,
)

#: All tokens are evaluated where at most this many evaluations of waves are needed.
EVALUATED_WITHOUT_CUT = 100_000

#: Most tokens with a value that reaches the read-out.
MOST_VOTERS = 256


@dataclass(frozen=True)
class _Case:
    """A step of a string: what is seen, from where.

    Attributes:
        symbols: the string.
        step: 1-based.
        query: the query token, with its row and column.
    """

    symbols: bytes
    step: int
    query: int
    query_row: int
    query_column: int


@dataclass(frozen=True)
class _Run:
    """Consecutive data tokens of one row: position relative to the query of the first one, and the tokens."""

    row: int
    column: int
    symbols: bytes


@dataclass(frozen=True)
class _Seen:
    """One token seen, at a position relative to the query."""

    token: int
    row: int
    column: int


@dataclass(frozen=True)
class _Head:
    """The scores of one key token for the query token, prepared at a precision; `kind` tells equal scores."""

    kind: int
    row: WaveSum
    column: WaveSum

    def value(self, row: int, column: int) -> arb:
        return self.row.value(row) + self.column.value(column)


def check_grid_counterexample(model: GridModel, claim: object) -> str:
    """The statement of a `grid-counterexample` certificate.

    Raises:
        Rejected: the step is right, or balls do not decide it.
    Cost: a fraction of a microsecond for each token and microseconds for each token evaluated.
    """
    fields = require_fields(claim, "claim", ("length", "background", "flips", "step"))
    n = require_integer(fields["length"], "claim.length", 1, LARGEST_LENGTH)
    background = require_integer(fields["background"], "claim.background", 0, 1)
    flips = [
        require_integer(flip, "an entry of claim.flips", 1, n)
        for flip in require_list(fields["flips"], "claim.flips", n)
    ]
    if any(later <= earlier for earlier, later in pairwise(flips)):
        raise Rejected("claim.flips is not increasing")
    step = require_integer(fields["step"], "claim.step", 1, n)
    symbols = bytearray([background]) * n
    for flip in flips:
        symbols[flip - 1] ^= 1
    _require_wrong(model, _case(model, bytes(symbols), step))
    but = f" but at {_listed(flips)}" if flips else ""
    return (
        f"For {model.description}: in the string of length {n} that is {background} everywhere{but}, the answer of "
        f"step {step} is not the symbol {symbols[step - 1]} that stands there, so this string is not copied."
    )


def _listed(flips: Sequence[int]) -> str:
    """The positions, by a digest of all of them (in decimal, a comma between two) where they are many."""
    text = ", ".join(str(flip) for flip in flips[:20])
    if len(flips) <= 20:
        return text
    return f"{text}, ... ({len(flips)} positions of {digest(','.join(map(str, flips)))})"


def _case(model: GridModel, symbols: bytes, step: int) -> _Case:
    """Query token and position: s_{i-1} of the output, or at step 1 the last B, which ends row 0 if b = 1."""
    if step > 1:
        return _Case(symbols, step, symbols[step - 2], 1, model.b + step - 3)
    if model.b >= 2:
        return _Case(symbols, step, model.last_token, 1, model.b - 2)
    return _Case(symbols, step, model.last_token, 0, model.a + len(symbols))


def _data_runs(model: GridModel, case: _Case) -> list[_Run]:
    """The prompt's string in row 0 from column a on, and the outputs seen in row 1 from column b-1 on."""
    runs = [_Run(-case.query_row, model.a - case.query_column, case.symbols)]
    if case.step > 1:
        runs.append(_Run(1 - case.query_row, model.b - 1 - case.query_column, case.symbols[: case.step - 1]))
    return runs


def _other_tokens(model: GridModel, case: _Case) -> Iterator[_Seen]:
    """A_1 .. A_a in row 0, the newline B_1 at its end, B_2 .. B_b in row 1."""
    for k in range(model.a):
        yield _Seen(2 + k, -case.query_row, k - case.query_column)
    newline = model.a + 2
    yield _Seen(newline, -case.query_row, model.a + len(case.symbols) - case.query_column)
    for j in range(model.b - 1):
        yield _Seen(newline + 1 + j, 1 - case.query_row, j - case.query_column)


def _require_wrong(model: GridModel, case: _Case) -> None:
    votes = model.votes
    tokens = {token for token, vote in enumerate(votes) if vote} | {case.symbols[case.step - 1]}
    if len(tokens) > MOST_VOTERS:
        raise Rejected(f"{len(tokens)} tokens have a vote; at most {MOST_VOTERS} are supported")
    scores = {token: model.score(case.query, token) for token in tokens}
    everything = [term for score in scores.values() for term in (*score.row, *score.column)]
    cut_free = _all_affordable(model, case, scores)
    for extra, bits in ATTEMPTS:
        precision = precision_for(everything, bits)
        cut = None if cut_free else len(case.symbols).bit_length() + 2 + extra
        with working_precision(precision):
            wrong = _attempt(model, case, _heads(scores, precision), cut)
        if wrong is False:
            raise Rejected(f"step {case.step} is right")
        if wrong:
            return
    raise Rejected(f"undecided whether step {case.step} is wrong")


def _all_affordable(model: GridModel, case: _Case, scores: dict[int, Score]) -> bool:
    """Can all different scores be evaluated? They are few if the string is short or the columns come full circle."""
    evaluations = 0
    for token in (0, 1):
        if token in scores:
            period = exact_period(scores[token].column) or len(case.symbols)
            evaluations += 2 * min(period, len(case.symbols)) * len(scores[token].column)
    return evaluations <= EVALUATED_WITHOUT_CUT


def _heads(scores: dict[int, Score], precision: int) -> dict[int, _Head]:
    """Prepared scores by key token; tokens with equal scores share one."""
    prepared: dict[Score, _Head] = {}
    for score in scores.values():
        if score not in prepared:
            prepared[score] = _Head(len(prepared), WaveSum(score.row, precision), WaveSum(score.column, precision))
    return {token: prepared[score] for token, score in scores.items()}


def _attempt(model: GridModel, case: _Case, heads: dict[int, _Head], cut: int | None) -> bool | None:
    """Is the step wrong? Under the working precision; cut None evaluates every token."""
    answer = case.symbols[case.step - 1]
    wanted = heads[answer].value(-case.query_row, model.a + case.step - 1 - case.query_column)
    groups: dict[tuple[int, int, int], Fraction] = {}
    evaluated: dict[int, _Head] = {head.kind: head for head in heads.values()}
    unlisted = arb(0)
    spend(len(case.symbols))
    for run in _data_runs(model, case):
        for token in (0, 1):
            vote = model.votes[token]
            if vote:
                columns, bound = _columns(heads[token], run, token, wanted, cut)
                unlisted += bound * ball(abs(vote))
                _collect(groups, heads[token], run.row, columns, vote)
    for seen in _other_tokens(model, case):
        if model.votes[seen.token]:
            _collect(groups, heads[seen.token], seen.row, [seen.column], model.votes[seen.token])
    left = [(key, vote) for key, vote in groups.items() if vote]
    spend(len(left) * 2 * function_units())
    if len(left) * max(1, len(model.column)) > 4 * MOST_EVALUATIONS:
        raise Rejected("undecided: too many keys have to be evaluated")
    numerator = total(
        ball(vote) * (evaluated[kind].value(row, column) - wanted).exp() for (kind, row, column), vote in left
    )
    right = numerator if answer == 0 else -numerator
    if right + unlisted <= 0:
        return True
    return False if right - unlisted > 0 else None


def _columns(head: _Head, run: _Run, token: int, wanted: arb, cut: int | None) -> tuple[Sequence[int], arb]:
    """Columns where `token` stands in the run and counts, and a bound of the weight of the others."""
    if cut is None:
        return [run.column + j for j, symbol in enumerate(run.symbols) if symbol == token], arb(0)
    threshold = wanted - cut - head.row.value(run.row)
    listed = head.column.at_least(threshold, run.column, run.column + len(run.symbols) - 1)
    chosen = [column for column in listed if run.symbols[column - run.column] == token]
    return chosen, (run.symbols.count(token) - len(chosen)) * (-arb(cut)).exp()


def _collect(
    groups: dict[tuple[int, int, int], Fraction], head: _Head, row: int, columns: Sequence[int], vote: Fraction
) -> None:
    """Add votes to groups of exactly equal scores."""
    row = row if head.row.period is None else row % head.row.period
    period = head.column.period
    spend(2 * len(columns))
    for column in columns:
        key = (head.kind, row, column if period is None else column % period)
        groups[key] = groups.get(key, Fraction(0)) + vote
