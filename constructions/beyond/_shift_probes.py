"""One-layer, one-head models with shift-invariant positions and free parameters: what Theorem 3.1 says cannot copy.

A probe's score is a function of the query token c, the key token x and the distance r of their indices,

    nope    content(c, x)                                   section 3.2
    alibi   content(c, x) - slope r                         Press et al. 2022, one head, its slope free
    t5      content(c, x) + bias(bucket(r))                 Raffel et al. 2020: 32 buckets, 16 of one distance each
    rope    sum_f A_f cos(omega_f r) + B_f sin(omega_f r)   Su et al. 2021; q_c and k_x free, A_f = <q, k>, B_f = q x k
    table   any table                                       every shift relation there is

and the logits are the attention-weighted values, free for each token. Scores are computed in float64 with an error
bound, so that "copied" can be told from "not shown to be copied".

Label: new (a test of the theorem on models, which it does not rest on). Method: float+bound for one model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float64, Int64
from torch import Tensor, nn

from constructions.theorem_3_1 import build_shift_copier
from theory import CopyTask, InputError, decide, theory_task
from theory.numbers import rational_turns, require_at_least, require_one_of
from theory.signs import THEOREM_3_1, Case
from theory.task import all_strings

ShiftEncoding = Literal["nope", "alibi", "t5", "rope", "table"]

#: The shift-invariant encodings that are probed.
SHIFT_ENCODINGS: tuple[ShiftEncoding, ...] = get_args(ShiftEncoding)

#: Distances that a probe knows: strings of length 6 in layouts with a + b <= 20.
DISTANCES = 32

#: RoPE frequencies of a probe that is not built from Theorem 3.1's copier.
ROPE_FREQUENCIES = 16

UNIT_ROUNDOFF = 2.0**-53

#: Steepness of the loss, as in `two_heads`.
STEEPNESS = 3.0

LEARNING_RATE = 0.05


class ShiftProbe(nn.Module):
    """Softmax attention with shift-invariant scores and a linear read-out of two logits, float64, one head.

    Parameters depend on the encoding: `content` [query token, key token], `slope` [], `bias` [bucket], `table`
    [query token, key token, distance], `queries` and `keys` [token, 2 frequencies] with pairs (2f, 2f+1); and `values`
    [token, 2].

    Args:
        encoding: one of `SHIFT_ENCODINGS`.
        a, b: numbers of tokens of the theory layout, a + b <= 20.
        seed: of the normal start.

    Raises:
        InputError: unknown encoding, a or b out of range.
    """

    omega: Tensor

    def __init__(self, encoding: str, a: int, b: int, seed: int = 0) -> None:
        super().__init__()
        require_one_of("encoding", encoding, SHIFT_ENCODINGS)
        self.task = theory_task(a, b)
        if a + b > DISTANCES - 12:
            raise InputError("a + b", a + b, f"at most {DISTANCES - 12}")
        self.encoding = encoding
        size = self.task.vocabulary_size
        shapes: dict[str, tuple[int, ...]] = {
            "nope": (size, size),
            "alibi": (size, size),
            "t5": (size, size),
            "table": (size, size, DISTANCES),
            "rope": (size, 2 * ROPE_FREQUENCIES),
        }
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64))

        shape = shapes[encoding]
        if encoding == "rope":
            self.queries, self.keys = normal(*shape), normal(*shape)
        elif encoding == "table":
            self.table = normal(*shape)
        else:
            self.content = normal(*shape)
        if encoding == "alibi":
            self.slope = normal()
        if encoding == "t5":
            self.bias = normal(T5_BUCKETS)
        self.register_buffer("omega", torch.pi * 2.0 ** -torch.arange(ROPE_FREQUENCIES, dtype=torch.float64))
        self.values = normal(size, 2)

    def scores(self) -> Float64[Tensor, "queries keys distances"]:
        """The score of every query token, key token and distance."""
        distance = torch.arange(DISTANCES)
        if self.encoding == "table":
            return self.table
        if self.encoding == "rope":
            return self._rotary_scores(distance)
        scores = self.content[:, :, None].expand(-1, -1, DISTANCES)
        if self.encoding == "alibi":
            return scores - self.slope * distance
        return scores + self.bias[t5_bucket(distance)] if self.encoding == "t5" else scores

    def _rotary_scores(self, distance: Int64[Tensor, " distances"]) -> Float64[Tensor, "queries keys distances"]:
        q, k = (x.reshape(x.shape[0], -1, 2) for x in (self.queries, self.keys))
        parallel = torch.einsum("qfc,kfc->qkf", q, k)
        crossed = torch.einsum("qf,kf->qkf", q[..., 0], k[..., 1]) - torch.einsum("qf,kf->qkf", q[..., 1], k[..., 0])
        phase = self.omega[:, None] * distance
        return parallel @ phase.cos() + crossed @ phase.sin()

    def forward(
        self, tokens: Int64[Tensor, "batch length"], first_query: int = 0
    ) -> Float64[Tensor, "batch queries outputs"]:
        """Logits of 0 and 1 at the tokens from index `first_query` on; each sees the tokens up to itself."""
        length = tokens.shape[1]
        distance = torch.arange(first_query, length)[:, None] - torch.arange(length)[None, :]
        scores = self.scores()[tokens[:, first_query:, None], tokens[:, None, :], distance.clamp(min=0)]
        attention = scores.masked_fill(distance < 0, -torch.inf).softmax(-1)
        return attention @ self.values[tokens]

    def logit_error(self) -> float:
        """How far a difference of logits can be from that of the real model with the stored parameters.

        A score is a sum of at most 4f+2 products, each good to a few roundings; a cosine is taken as good to two units
        in the last place of 1 and its angle to one rounding. If every score is within delta, the weights exp(score -
        largest) are within a factor 1 +- eps, eps = 2 delta + (range + 8) u, and a mean of the values with such weights
        is within 2 eps/(1 - eps) + (2 DISTANCES + 8) u times their largest modulus.

        Returns infinity where eps >= 1/2. Cost: O(tokens^2 distances).
        """
        with torch.inference_mode():
            scores = self.scores()
            if self.encoding == "rope":
                frequencies = self.omega.numel()
                roundings = 4 * frequencies + 16 + float(self.omega.abs().max()) * DISTANCES
                size = float((self.queries.abs().sum(1).max() * self.keys.abs().sum(1).max()) * 2)
                delta = roundings * size * UNIT_ROUNDOFF
            else:
                delta = 4 * float(scores.abs().max() + self._distance_part()) * UNIT_ROUNDOFF
            epsilon = 2 * delta + (2 * float(scores.abs().max()) + 8) * UNIT_ROUNDOFF
            if not epsilon < 0.5:
                return float("inf")
            relative = 2 * epsilon / (1 - epsilon) + (2 * DISTANCES + 8) * UNIT_ROUNDOFF
            # Twice for the two logits, and once more for the roundings of this bound itself.
            return 4 * relative * float(self.values.abs().max())

    def _distance_part(self) -> float:
        if self.encoding == "alibi":
            return float(self.slope.abs()) * DISTANCES
        return float(self.bias.abs().max()) if self.encoding == "t5" else 0.0


#: T5's relative position buckets for causal attention, and the distance from which on all share the last.
T5_BUCKETS, T5_LARGEST = 32, 128


def t5_bucket(distance: Int64[Tensor, " distances"]) -> Int64[Tensor, " distances"]:
    """T5's bucket of each distance >= 0: its own below 16, then logarithmic up to 128 (Raffel et al. 2020)."""
    exact = T5_BUCKETS // 2
    scale = (T5_BUCKETS - exact) / torch.log(torch.tensor(T5_LARGEST / exact, dtype=torch.float64))
    far = exact + (torch.log(distance.double().clamp(min=1) / exact) * scale).floor().long()
    return torch.where(distance < exact, distance, far.clamp(max=T5_BUCKETS - 1))


def refuting_cases(b: int, *, opposite: bool = False) -> tuple[Case, ...]:
    """The few strings of Theorem 3.1 that no one-layer, one-head model with shift-invariant positions copies together.

    Args:
        b: number of tokens between the string and its copy.
        opposite: does 0 vote for 0 and 1 for 1? Then length 5 is enough for every b.
    """
    require_at_least("b", b, 1)
    name = "opposite-signs" if opposite else "b-1" if b == 1 else "any-signs"
    return THEOREM_3_1[name].cases


def failing_case(model: nn.Module, task: CopyTask, cases: Iterable[Case], tolerance: float = 0.0) -> Case | None:
    """The first of the cases at which the model is not shown to be right, or None if it copies them all.

    Args:
        model: any module that maps tokens [batch, length] and `first_query` to the logits of 0 and 1.
        task: the layout that its tokens stand in.
        cases: steps of strings.
        tolerance: what the right logit must exceed the other by; a bound on the rounding error of their difference
            makes "right" a statement about the real-arithmetic model.
    """
    for case in cases:
        symbols = torch.tensor([[int(symbol) for symbol in case.string]])
        query = task.query_index(len(case.string), case.step)
        tokens = torch.from_numpy(task.sequences(symbols.numpy()))[:, : query + 1]
        with torch.inference_mode():
            zero, one = model(tokens, query)[0, 0].tolist()
        lead = zero - one if case.string[case.step - 1] == "0" else one - zero
        if not lead > tolerance:
            return case
    return None


@dataclass(frozen=True)
class OptimisedProbe:
    """A probe after a search for copying, and how far it came.

    Attributes:
        probe: the model.
        target: the length that it was optimised for.
        length: the length up to which it copies every string, from 0 to `target`.
    """

    probe: ShiftProbe
    target: int
    length: int


def optimise_probe(probe: ShiftProbe, target: int, iterations: int = 300) -> OptimisedProbe:
    """Optimise every parameter, in place, with Adam for copying all strings of length <= `target`, as far as it gets.

    Cost: a forward and a backward pass over 2^(target+1) strings for each iteration.
    """
    require_at_least("length", target, 1)
    require_at_least("iterations", iterations, 0)
    optimiser = torch.optim.Adam(probe.parameters(), lr=LEARNING_RATE)
    for _ in range(iterations):
        margins = torch.cat([probe_margins(probe, n) for n in range(1, target + 1)])
        if bool(margins.min() > 0.1):
            break
        optimiser.zero_grad()
        (-STEEPNESS * margins).logsumexp(0).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return OptimisedProbe(probe, target, copied_length(probe, target))


def probe_margins(probe: ShiftProbe, n: int) -> Float64[Tensor, " steps"]:
    """Right minus wrong logit at every step of every string of length n."""
    strings = all_strings(n)
    tokens = torch.from_numpy(probe.task.sequences(strings))
    logits = probe(tokens, probe.task.query_index(n, 1))
    right = torch.from_numpy(1 - 2 * strings)
    margins: Tensor = (logits[..., 0] - logits[..., 1]) * right
    return margins.flatten()


def copied_length(probe: ShiftProbe, longest: int) -> int:
    """The largest length <= `longest` up to which every string's margin exceeds the rounding error."""
    error = probe.logit_error()
    with torch.inference_mode():
        lengths = (n - 1 for n in range(1, longest + 1) if not bool(probe_margins(probe, n).min() > error))
        return next(lengths, longest)


def strongest_probe(encoding: str, a: int, b: int) -> OptimisedProbe:
    """The model of the linear programme that copies up to the threshold, as a probe: `rope` or `table`.

    It copies every string of length <= 5 for b >= 2, and of length <= 4 for b = 1.

    Raises:
        InputError: another encoding.
    """
    length = 4 if b == 1 else 5
    probe = ShiftProbe(encoding, a, b)
    if encoding == "rope":
        _load_rope(probe, a, b, length)
    elif encoding == "table":
        _load_table(probe, a, b, length)
    else:
        raise InputError("encoding", encoding, "rope or table")
    return OptimisedProbe(probe, length, copied_length(probe, length))


def _load_rope(probe: ShiftProbe, a: int, b: int, length: int) -> None:
    copier = build_shift_copier(a, b, length)
    attention = copier.model.block(0).attention
    embedding = copier.model.embedding.weight.double()
    # With shift positions every row is 0, so that the row pairs do not turn.
    turns = [0.0] * len(copier.frequencies.row) + [float(t) for t in rational_turns(copier.frequencies.column)]
    probe.queries = nn.Parameter(embedding @ attention.query.weight.double().T)
    probe.keys = nn.Parameter(embedding @ attention.key.weight.double().T)
    probe.omega = 2 * torch.pi * torch.tensor(turns, dtype=torch.float64)
    probe.values = nn.Parameter(_votes(probe.task, copier.witness.votes))


def _load_table(probe: ShiftProbe, a: int, b: int, length: int) -> None:
    witness = decide("shift", a, b, length).witness
    if witness is None:
        raise ArithmeticError("no model at the threshold")
    number = {name: token for token, name in enumerate(probe.task.names)}
    table = torch.zeros_like(probe.table)
    for unknown, weight in witness.weights.items():
        table[number[unknown.query], number[unknown.token], unknown.relation[0]] = torch.tensor(float(weight)).log()
    probe.table = nn.Parameter(table)
    probe.values = nn.Parameter(_votes(probe.task, witness.votes))


def _votes(task: CopyTask, votes: Mapping[str, int]) -> Float64[Tensor, "tokens 2"]:
    half = torch.tensor([votes[name] / 2 for name in task.names], dtype=torch.float64)
    return torch.stack((half, -half), dim=1)
