"""Position or content: the best model whose frequency pairs each either ignore the data token or tell 0 from 1.

*Family* (new). Free queries. In a *position* pair the keys of 0 and 1 are equal, k_0 = k_1 = (M, M), and so are their
queries; in a *content* pair k_1 = -k_0 and q_1 = -q_0. In units of 2 M^2 let R be the point (A, B) of (q_c, k_c) and W
that of (q_c, k_other): W = R in a position pair, W = -R in a content pair, the same for c = 0 and 1, and R is any point
of the diamond. B_b has a query of its own, with any point V in position pairs; in a content pair its scores of 0 and 1
are opposite, so that its mean gap there is 0, and it takes V = 0.

These are the corners of the hull of means (W, R) over which `_minimiser_bound` bounds the loss; a mean of both in one
pair is no model. Every gap of a model of the family is the mean gap of its term, so its linear loss `sum omega exp(-g)`
is exactly what the programme says, and what it lacks against the bound's optimum is what the hull adds.

*Search.* For given kinds the programme is convex. The kinds are chosen by branch and bound over the pairs, with the
hull of both kinds where a pair is open, up to MOST_NODES programmes: floats, a proposal for searches and no evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from jaxtyping import Bool, Float64, Int64

from theory.minimisers._log_programme import LogOptimum, LogProgramme, least_log_sum
from theory.minimisers._loss_bound import LossTerms, Term
from theory.minimisers._setting import WANTED, MinimiserSetting
from theory.numbers import InputError

#: Convex programmes solved at most.
MOST_NODES = 80

#: The search ends where the logarithm of the loss can fall by no more than this; programmes are solved to GAP.
ENOUGH, GAP = 0.01, 1e-4

#: The corners of the diamond as (A, B), and of (R, W, V) in position and in content pairs.
CORNERS = np.array([(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)])
POSITION = np.array([(r, r, v) for r in CORNERS for v in CORNERS])
CONTENT = np.array([(r, -r, 0 * r) for r in CORNERS])

_Kinds = Int64[np.ndarray, " pairs"]


@dataclass(frozen=True)
class ContentSolution:
    """The best model of the family that was found; amplitudes (A, B) in units of 2 M^2, row pairs first.

    Attributes:
        content: which pairs are content pairs.
        own: R, of each token's query with its own key.
        last: V, of B_b's query with either key.
        log_loss: logarithm of its linear loss.
        log_least: no model of the family has less (floats; of both kinds' hull where the search was cut short).
    """

    content: tuple[bool, ...]
    own: Float64[np.ndarray, "pairs 2"]
    last: Float64[np.ndarray, "pairs 2"]
    log_loss: float
    log_least: float


def content_solution(setting: MinimiserSetting) -> ContentSolution:
    """The best model of the family (floats).

    Raises:
        InputError: tied queries (one query cannot ask for the other token), or L < 2.
    Cost: up to MOST_NODES convex programmes, some 30 ms each.
    """
    if setting.queries != "free":
        raise InputError("queries", setting.queries, "free, for queries that tell tokens apart")
    if setting.length < 2:
        raise InputError("L", setting.length, "at least 2, so that other tokens are seen")
    problem = LossTerms(setting)
    gaps = np.stack([_corner_gaps(problem, term) for term in problem.terms])
    logs = np.log([float(problem.weights[term]) for term in problem.terms])
    kinds, found, least = _branch_and_bound(gaps, logs)
    own, _, last = np.einsum("fv,vkc->kfc", found.weights, np.concatenate([POSITION, CONTENT]))
    return ContentSolution(tuple(bool(kind) for kind in kinds), own, last, found.upper, least)


def _corner_gaps(problem: LossTerms, term: Term) -> Float64[np.ndarray, "pairs 20"]:
    """The gap of a term that each pair adds at the corners of both kinds."""
    wanted, there = problem.float_waves(WANTED), problem.float_waves(term[2])
    rates = np.zeros((3, len(wanted), 2))
    if term[1] == "mean":
        rates[2] = wanted - there
    else:
        right, wrong = (1, 0) if term[1] == "other" else (0, 1)
        rates[right], rates[wrong] = wanted, -there
    corners = np.concatenate([POSITION, CONTENT])
    return np.asarray(float(problem.setting.scale) * np.einsum("kfc,vkc->fv", rates, corners))


def _branch_and_bound(
    gaps: Float64[np.ndarray, "terms pairs 20"], logs: Float64[np.ndarray, " terms"]
) -> tuple[Bool[np.ndarray, " pairs"], LogOptimum, float]:
    """The best kinds found, their optimum, and a lower bound over all kinds. Open pairs have kind -1."""
    solved = 0

    def solve(kinds: _Kinds) -> LogOptimum:
        nonlocal solved
        solved += 1
        position = np.repeat((kinds != 1)[:, None], len(POSITION), axis=1)
        content = np.repeat((kinds != 0)[:, None], len(CONTENT), axis=1)
        return least_log_sum(LogProgramme(gaps, logs, np.concatenate([position, content], axis=1)), GAP)

    kinds = np.full(gaps.shape[1], -1)
    found = solve(kinds)
    best_kinds = _rounded(kinds, found)
    best = solve(best_kinds)
    queue = [(found.lower, solved, kinds, found)]
    while queue and solved < MOST_NODES and queue[0][0] < best.upper - ENOUGH:
        _, _, kinds, found = heappop(queue)
        pair = _most_mixed(kinds, found)
        for kind in (0, 1):
            child = np.where(np.arange(len(kinds)) == pair, kind, kinds)
            below = solve(child)
            if below.lower >= best.upper - ENOUGH:
                continue
            nearest = _rounded(child, below)
            candidate = solve(nearest)
            if candidate.upper < best.upper:
                best_kinds, best = nearest, candidate
            if (child < 0).any():
                heappush(queue, (below.lower, solved, child, below))
    return best_kinds == 1, best, min([best.upper - ENOUGH, *(entry[0] for entry in queue)])


def _content_share(found: LogOptimum) -> Float64[np.ndarray, " pairs"]:
    return np.asarray(found.weights[:, len(POSITION) :].sum(axis=1))


def _rounded(kinds: _Kinds, found: LogOptimum) -> _Kinds:
    """Open pairs to the kind that has more of the weight."""
    return np.where(kinds < 0, _content_share(found) > 0.5, kinds)


def _most_mixed(kinds: _Kinds, found: LogOptimum) -> int:
    """The open pair in which both kinds have most weight."""
    share = _content_share(found)
    return int(np.argmax(np.where(kinds < 0, np.minimum(share, 1 - share), -1.0)))
