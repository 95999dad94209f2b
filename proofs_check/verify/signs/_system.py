"""Kinds `sign-cancellation` and `sign-witness`: can any one-layer, one-head model copy all strings up to a length?

A model of a positional relation gives the key token x, seen from the query token c at relation r, the contribution
`h(c, x, r) = exp(score) v_x` to (logit of 0) - (logit of 1), so of the sign of the vote v_x. Step i of the string s is
right iff the sum of h over the tokens seen is positive for s_i = 0 and negative for s_i = 1.

*Impossible.* If positive multiples of such inequalities, each brought to the form "> 0", add up to a left side that is
0, or whose remaining terms have a sign opposite to their token's vote, all of them cannot hold. A part does this for
the votes that it assumes; the parts together have to cover every choice of signs that `signs` leaves open. A vote of 0
makes the terms of its token vanish and is covered with either sign.

*Possible.* Positive weights exp(score) and votes are given for everything that occurs, and every step of every string
is added up in integers.

*For all (a, b) at once* (a and b null). The A tokens contribute an unknown f(c, n+i) and the B tokens an unknown g(c,
i), of any sign, under `shift`; constants of c under `nope`. Sources and outputs are told apart, since b is not known:
that only takes away cancellations. The query of step 1 is called B. With b given and a null, `shift` only, a source at
place j has the distance n+i-j+b-1 and an output i-1-j, so that they can coincide.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from proofs_check.verify.reading import (
    Rejected,
    digest,
    require_choice,
    require_fields,
    require_integer,
    require_list,
    require_text,
    shown,
    spell,
    spend,
)

RELATIONS = ("shift", "nope", "absolute", "grid", "row-and-shift", "bipe", "segatron", "hirope")
SIGNS = ("any", "opposite", "equal")

#: Relations that have a system for all (a, b) at once here.
FOR_ALL = ("shift", "nope")

LONGEST, MOST_TOKENS, MOST_PARTS, MOST_CASES, MOST_OPEN_VOTES = 12, 64, 4096, 4096, 14

_HIROPE_WINDOW = 3

#: Units of work for a token seen at a step.
_UNITS_A_TOKEN = 4

Key = tuple[str, str, tuple[int, ...]]


@dataclass(frozen=True)
class _Setting:
    """Relation, layout and signs of a certificate."""

    relation: str
    a: int | None
    b: int | None
    signs: str

    def describe(self) -> str:
        """The setting in words."""
        where = f"a = {self.a}, b = {self.b}"
        if self.a is None:
            where = "every a and every b" if self.b is None else f"every a and b = {self.b}"
            where += ", whatever tokens stand there"
        signs = {
            "any": "whatever 0 and 1 vote for",
            "opposite": "0 voting for 0 and 1 for 1",
            "equal": "0 and 1 voting for the same output",
        }
        return f"the positional relation {self.relation}, {where}, {signs[self.signs]}"

    def names(self) -> list[str]:
        """All tokens whose vote has a sign of its own."""
        if self.a is None or self.b is None:
            return ["0", "1"]
        return ["0", "1", *_prefix(self.a), *_infix(self.b)]


def check_sign_cancellation(inputs: object, evidence: object, claim: object) -> str:
    """The statement of a `sign-cancellation` certificate; exact. Cost: linear in the cases' tokens, 2^(votes assumed).

    Raises:
        Rejected: a part does not cancel, or the parts do not cover all signs.
    """
    setting = _read_setting(inputs)
    length = require_integer(require_fields(claim, "claim", ("length",))["length"], "claim.length", 1, 10**6)
    parts = require_list(require_fields(evidence, "evidence", ("parts",))["parts"], "evidence.parts", MOST_PARTS)
    assumed = [_check_part(setting, part, length) for part in parts]
    _check_cover(setting, assumed)
    return (
        f"No one-layer, one-head model with two outputs and a linear read-out copies every binary string of length <= "
        f"{length}, for {setting.describe()}."
    )


def check_sign_witness(inputs: object, evidence: object, claim: object) -> str:
    """The statement of a `sign-witness` certificate; exact. Cost: length^2 2^length look-ups.

    Raises:
        Rejected: a weight is missing or not positive, or a step is wrong.
    """
    setting = _read_setting(inputs)
    if setting.a is None or setting.b is None:
        raise Rejected("a witness needs a and b")
    length = require_integer(require_fields(claim, "claim", ("length",))["length"], "claim.length", 1, LONGEST)
    fields = require_fields(evidence, "evidence", ("votes", "weights"))
    votes = _read_votes(fields["votes"], setting)
    if set(votes) != set(setting.names()):
        raise Rejected("evidence.votes does not give a vote for every token")
    if not all(sign in _allowed(setting.signs) for sign in [(votes["0"], votes["1"])]):
        raise Rejected(f"the votes of 0 and 1 are not as signs = {setting.signs} wants them")
    weights = _read_weights(fields["weights"])
    for size in range(1, length + 1):
        for symbols in product("01", repeat=size):
            for step in range(1, size + 1):
                _check_step(setting, "".join(symbols), step, votes, weights)
    return (
        f"Some one-layer, one-head model with two outputs copies every binary string of length <= {length}, for "
        f"{setting.describe()}; its votes and weights are those of the certificate, of {_digest(votes, weights)}."
    )


def _digest(votes: dict[str, int], weights: dict[Key, int]) -> str:
    """Of JSON without blanks: [token, vote] by token, then [query, key, relation, weight] in order."""
    rows = [
        [query, key, list(relation), spell(weights[query, key, relation])] for query, key, relation in sorted(weights)
    ]
    return digest(json.dumps([sorted(votes.items()), rows], separators=(",", ":")))


def _check_step(setting: _Setting, string: str, step: int, votes: dict[str, int], weights: dict[Key, int]) -> None:
    terms = []
    for key in _seen(setting, string, step):
        if key not in weights:
            raise Rejected(f"no weight for query {key[0]}, key {key[1]} at relation {list(key[2])}")
        terms.append(votes[key[1]] * weights[key])
    right = 1 if string[step - 1] == "0" else -1
    if right * sum(terms) <= 0:
        raise Rejected(f"step {step} of {string} is wrong")


def _read_setting(inputs: object) -> _Setting:
    fields = require_fields(inputs, "inputs", ("relation", "a", "b", "signs"))
    relation = require_choice(fields["relation"], "inputs.relation", RELATIONS)
    signs = require_choice(fields["signs"], "inputs.signs", SIGNS)
    a, b = (
        None if fields[name] is None else require_integer(fields[name], f"inputs.{name}", 1, MOST_TOKENS)
        for name in ("a", "b")
    )
    if a is None and (relation not in FOR_ALL or (b is not None and relation != "shift")):
        raise Rejected(f"{relation} has no system for all a at once")
    if a is not None and b is None:
        raise Rejected("b is null but a is not")
    return _Setting(relation, a, b, signs)


def _read_votes(value: object, setting: _Setting) -> dict[str, int]:
    if not isinstance(value, dict):
        raise Rejected("votes is not an object")
    votes = {name: require_integer(vote, f"votes.{name}", -1, 1) for name, vote in value.items()}
    if 0 in votes.values() or not set(votes) <= set(setting.names()):
        raise Rejected("votes are 1 or -1 for tokens of the layout")
    return votes


def _read_weights(value: object) -> dict[Key, int]:
    weights: dict[Key, int] = {}
    for entry in require_list(value, "evidence.weights", 200_000):
        fields = require_fields(entry, "a weight", ("query", "key", "relation", "weight"))
        relation = tuple(require_integer(part, "relation") for part in require_list(fields["relation"], "relation", 4))
        key = (require_text(fields["query"], "query"), require_text(fields["key"], "key"), relation)
        if key in weights:
            raise Rejected(f"two weights for query {shown(key[0])}, key {shown(key[1])} at one relation")
        weights[key] = require_integer(fields["weight"], "weight", 1)
    return weights


def _check_part(setting: _Setting, value: object, length: int) -> dict[str, int]:
    """The votes that a part assumes, once its cases cancel under them."""
    fields = require_fields(value, "a part", ("votes", "cases"))
    votes = _read_votes(fields["votes"], setting)
    total: Counter[Key] = Counter()
    cases = require_list(fields["cases"], "cases", MOST_CASES)
    if not cases:
        raise Rejected("a part without cases")
    for case in cases:
        string, step, multiplier = _read_case(case, length)
        for key in _seen(setting, string, step):
            total[key] += multiplier if string[step - 1] == "0" else -multiplier
    for key, coefficient in total.items():
        if coefficient and votes.get(key[1], 0) * coefficient >= 0:
            raise Rejected(f"{shown(coefficient)} h{key} is left, which does not have to be negative")
    return votes


def _read_case(case: object, length: int) -> tuple[str, int, int]:
    fields = require_fields(case, "a case", ("string", "step", "multiplier"))
    string = require_text(fields["string"], "string")
    if not 1 <= len(string) <= length or set(string) - {"0", "1"}:
        raise Rejected("a case's string is not a binary string of the claimed length or less")
    step = require_integer(fields["step"], "step", 1, len(string))
    return string, step, require_integer(fields["multiplier"], "multiplier", 1)


def _allowed(signs: str) -> list[tuple[int, int]]:
    """The votes of 0 and 1 that `signs` allows."""
    if signs == "opposite":
        return [(1, -1)]
    equal = [(1, 1), (-1, -1)]
    return equal if signs == "equal" else [*equal, (1, -1), (-1, 1)]


def _check_cover(setting: _Setting, assumed: list[dict[str, int]]) -> None:
    """Does every allowed choice of signs agree with the votes of some part?"""
    others = sorted({name for votes in assumed for name in votes} - {"0", "1"})
    if len(others) > MOST_OPEN_VOTES:
        raise Rejected(f"votes of more than {MOST_OPEN_VOTES} tokens beside 0 and 1 are assumed")
    spend(len(_allowed(setting.signs)) * 2 ** len(others) * (2 + len(assumed)))
    for (zero, one), rest in product(_allowed(setting.signs), product((1, -1), repeat=len(others))):
        signs = {"0": zero, "1": one, **dict(zip(others, rest, strict=True))}
        if not any(votes.items() <= signs.items() for votes in assumed):
            raise Rejected(f"no part covers the votes {signs}")


def _prefix(a: int) -> list[str]:
    return [f"A_{k}" for k in range(1, a + 1)]


def _infix(b: int) -> list[str]:
    return ["<n>", *(f"B_{k}" for k in range(2, b + 1))]


def _seen(setting: _Setting, string: str, step: int) -> Iterator[Key]:
    """(query token, key token, relation) of every token seen at a step."""
    around = 2 if setting.a is None else setting.a + (setting.b or 1)
    spend(_UNITS_A_TOKEN * (around + len(string) + step))
    if setting.a is None:
        yield from _seen_for_all(setting, string, step)
        return
    tokens = [*_prefix(setting.a), *string, *_infix(setting.b or 1), *string[: step - 1]]
    newline = setting.a + len(string)
    query = len(tokens) - 1
    for index, token in enumerate(tokens):
        yield tokens[-1], token, _related(setting.relation, _place(query, newline), _place(index, newline))


def _place(index: int, newline: int) -> tuple[int, int, int]:
    """Row, column and index of a token; the token at `newline` ends row 0."""
    return (0, index, index) if index <= newline else (1, index - newline - 1, index)


def _related(relation: str, query: tuple[int, int, int], key: tuple[int, int, int]) -> tuple[int, ...]:
    rows, columns, indices = (q - k for q, k in zip(query, key, strict=True))
    if relation == "hirope":
        return (indices,) if indices < _HIROPE_WINDOW else (rows, columns)
    return {
        "shift": (indices,),
        "nope": (),
        "absolute": (query[2], key[2]),
        "grid": (rows, columns),
        "row-and-shift": (rows, indices),
        "bipe": (rows, query[1], key[1]),
        "segatron": (0, rows, columns),
    }[relation]


def _seen_for_all(setting: _Setting, string: str, step: int) -> Iterator[Key]:
    """The same with arbitrary A (and B): their contributions as unknowns of any sign, named A and B."""
    query = string[step - 2] if step > 1 else "B"
    end = len(string) + step
    nope = setting.relation == "nope"
    yield query, "A", () if nope else (end,)
    yield query, "B", () if nope else (step,)
    for place, token in enumerate(string, 1):
        distance = (end - place,) if setting.b is None else (end - place + setting.b - 1,)
        yield query, token, () if nope else ((1, *distance) if setting.b is None else distance)
    for place, token in enumerate(string[: step - 1], 1):
        distance = (step - 1 - place,)
        yield query, token, () if nope else ((0, *distance) if setting.b is None else distance)
