"""No wrong verdict: the one-layer verifier against the exact truth, over models made to break it.

`python -m benchmarks.certify_hostile [--scale 0.01] [--first N --count N]` writes results/certify_hostile.jsonl, a line
a model, and goes on with it. Exit code 1 on any fault. A model is a function of the seed and its number alone. Kinds:
`random`; `copying` (cosines around the wanted key, votes apart); `repeated` (the same with tokens repeated up to 2000
times); `margin` (one vote solved so that N/D is about k units of roundoff of what it is a sum of, either side of 0, k
from 1 to 1000); `tie` (N exactly 0); `norm` (epsilons from 0 to 1000, zero embeddings). Matrices are scaled by powers
of two of their own. The truth is `_every_string`.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
import traceback

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flint import arb, fmpq

from benchmarks._campaign import Numbered, OutOfTimeError, within
from engine import ALiBi, Encoding, RoPE, Transformer, TransformerConfig
from proofs_check.certify import Subject, certify, write_certified
from proofs_check.verify import verify_file
from tests.models.every_string import Frequency, Judged, PlainModel, Row, UndefinedError, find, is_copied, judge
from theory import BasePower, CopyTask, GridFrequencies, InputError, Radian, Template, Turn

RESULTS = Path(__file__).parent / "results" / "certify_hostile.jsonl"
FOLDERS = ("theory", "engine", "proofs_check", "tests/models", "benchmarks/certify_hostile.py")
SEED = 0
MODELS = 3000

#: The kinds in turn, one a number.
KINDS = (
    "copying", "margin", "repeated", "random", "copying", "margin", "norm", "copying", "margin", "repeated",
    "tie", "copying", "margin", "random", "norm", "copying", "margin", "repeated", "copying", "random",
)  # fmt: skip

#: A verdict that takes longer is a fault, in seconds.
PATIENCE = 60

#: A model whose least |N/D| is below this many units of roundoff of what it is a sum of counts as near. The verifier's
#: bound is about 20 units plus one for each token.
NEAR_UNITS = 300
UNIT = 2.0**-53

#: Largest exponent of the powers of two that scale a matrix.
EXPONENTS = {torch.float64: 500, torch.float32: 40, torch.bfloat16: 40, torch.float16: 3}

EPSILONS = (0.0, 2.0**-1000, 1e-300, 2.0**-149, 2.0**-52, 2.0**-23, 1.0, 1000.0)

TENSORS = ("embedding", "query", "key", "value", "output", "readout", "pre_gain", "final_gain")


@dataclass(frozen=True)
class Hostile:
    """A model with its question.

    Attributes:
        number, kind: of the model.
        plain: the model; after `stored`, with the very numbers that the tensors hold.
        dtypes: of each tensor.
        criterion, longest: the question.
    """

    number: int
    kind: str
    plain: PlainModel
    dtypes: dict[str, torch.dtype]
    criterion: str
    longest: int


@dataclass(frozen=True)
class Answer:
    """What the verifier said.

    Attributes:
        status: PROVED, REFUTED or UNDECIDED; REFUSED (a part named in one line), BROKEN (anything else), UNFINISHED.
        difference: the margin as the exact rational that is told beside the float.
        string, step, competitor: of the step shown.
        accepted: did the checker accept the certificate? None without one.
        statement: of the checker, or its reason.
        reason: of a refusal, or a traceback.
    """

    status: str
    proved_to: int = 0
    fails_at: int | None = None
    margin: float = 0.0
    margin_below: float | None = None
    string: tuple[int, ...] = ()
    step: int = 0
    competitor: int = 0
    accepted: bool | None = None
    statement: str = ""
    reason: str = ""
    seconds: float = 0.0
    difference: Fraction | None = None


# --- models ---------------------------------------------------------------------------------------------------------


def hostile(number: int, seed: int = SEED) -> Hostile:
    """Model `number`; a function of the seed and the number alone."""
    g = np.random.default_rng([seed, number, 2026])
    kind = KINDS[number % len(KINDS)]
    made = {"random": _random, "tie": _tie, "margin": _margin, "repeated": _repeated, "norm": _norm}.get(kind, _copying)
    drawn = made(g)
    return replace(drawn, number=number, kind=kind)


def _dtypes(g: np.random.Generator) -> dict[str, torch.dtype]:
    names = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
    if g.random() < 0.12:
        return {name: names[int(g.integers(0, 4))] for name in TENSORS}
    return dict.fromkeys(TENSORS, names[int(g.choice(4, p=[0.6, 0.18, 0.14, 0.08]))])


def _frequencies(g: np.random.Generator, count: int) -> tuple[Frequency, ...]:
    kind = g.choice(["turn", "turn", "radian", "power"])
    if kind == "power":
        base = Fraction(int(g.choice([10, 100, 1000, 10000])))
        return tuple(("power", base, Fraction(-f, count)) for f in range(count))
    denominator = 2 ** int(g.choice([8, 40, 100]))
    return tuple(
        (str(kind), Fraction(int(g.integers(1, 256)) * denominator // 256 + f, denominator)) for f in range(count)
    )


def _copying(
    g: np.random.Generator,
    *,
    repeats: int = 0,
    exact: bool = False,
    normed: bool = False,
    still: float = 0.04,
    flat: float | None = None,
) -> Hostile:
    """Near a model that copies: each key is told by its place, each data token votes for its own output.

    Args:
        g: what everything is drawn from.
        repeats: how often one token around the string is repeated.
        exact: one head, and values in float64, so that a margin can be solved for.
        normed: norms nearly always, of any epsilon.
        still: the probability that nothing depends on places.
        flat: then nothing does, and data tokens have this score, all others 0.
    """
    encoding = str(g.choice(["grid", "one row", "rope", "alibi", "nope"], p=[0.8 - still, 0.06, 0.1, 0.04, still]))
    encoding = encoding if flat is None else "nope"
    a, b = int(g.integers(1, 4)), int(g.integers(2, 5))
    vocabulary = min(9, max(5, a + b + 2) + int(g.integers(0, 2)))
    order = [int(token) for token in g.permutation(vocabulary)]
    prefix, infix, data = tuple(order[2 : a + 2]), tuple(order[a + 2 : a + b + 2]), (order[0], order[1])
    if repeats and g.random() < 0.7:
        prefix = (prefix[0],) * repeats + prefix[1:]
    elif repeats:
        infix = (*infix[:1], *(infix[1],) * repeats, *infix[2:])
    elif g.random() < 0.15:
        # A token before the string occurs after it too.
        infix = (*infix[:-1], prefix[0])
    ends = frozenset({infix[0]}) if encoding == "grid" else frozenset()
    pairs = int(g.integers(1, 4)) + (1 if repeats else 0)
    heads = 2 if g.random() < 0.1 and not exact else 1
    row = _frequencies(g, pairs) if encoding in ("grid", "one row") else ()
    column = _frequencies(g, pairs if row else 2 * pairs) if encoding in ("grid", "one row", "rope") else ()
    wide, width = bool(g.random() < 0.6), vocabulary + 1
    strength = float(g.uniform(1.0, 6.0)) if g.random() < 0.93 else float(10 ** g.uniform(1, 3.3)) / pairs
    strength = strength if flat is None else flat
    embedding, readout = np.zeros((vocabulary, width)), np.zeros((vocabulary if wide else 2, width))
    embedding[:, 0], embedding[:, 1:] = 1.0, np.eye(vocabulary)
    parts: dict[str, list[np.ndarray]] = {name: [] for name in TENSORS[1:5]}
    distance = (-1, len(prefix) - (len(infix) - 2)) if ends else (0, -len(infix))
    for _ in range(heads):
        query, key, value, output = (
            np.zeros(s) for s in ((4 * pairs, width), (4 * pairs, width), (2, width), (width, 2))
        )
        if column:
            turns = [(f, distance[0]) for f in row] + [(f, distance[1]) for f in column]
            angles = np.array([_angle(f, r) for f, r in turns])
            query[0::2, 0], query[1::2, 0], key[0::2, 0] = np.cos(angles), np.sin(angles), strength
        else:
            query[0, 0], key[0, 1 + np.array(data)] = 1.0, strength
        for k in (0, 1):
            value[k, 1 + data[k]] = output[1 + data[k], k] = readout[data[k] if wide else k, 1 + data[k]] = 1.0
        for name, part in zip(parts, (query, key, value, output), strict=True):
            parts[name].append(part)
    dtypes = {**_dtypes(g), "value": torch.float64} if exact else _dtypes(g)
    residual, pre, final = (bool(g.random() < part) for part in (0.35, 0.9 if normed else 0.25, 0.9 if normed else 0.4))
    pre = pre and flat is None
    sub = str(g.choice(["mean", "unit"])) if heads == 1 and not residual and g.random() < 0.15 else ""
    whole = {name: np.concatenate(parts[name], int(name == "output")) for name in parts}
    plain = PlainModel(
        embedding, whole["query"], whole["key"], whole["value"], whole["output"], readout,
        np.ones(width) if pre else None, np.ones(width) if final else None,
        Fraction(float(g.choice(EPSILONS)) if normed or g.random() < 0.15 else 2.0**-23), sub, residual, heads,
        Fraction(1), _slopes(heads) if encoding == "alibi" else (), row, column, prefix, infix, data, ends,
    )  # fmt: skip
    noise = float(g.choice([0.0, 1e-3, 0.02, 0.1])) if flat is None else 0.0
    noisy = {name: getattr(plain, name) for name in TENSORS if getattr(plain, name) is not None}
    noisy = {name: entries + noise * g.standard_normal(entries.shape) for name, entries in noisy.items()}
    if pre:
        # The norm divides the embeddings by about this; scores stay as they were meant.
        noisy["query"], noisy["key"] = noisy["query"] * (width / 2) ** 0.5, noisy["key"] * (width / 2) ** 0.5
    plain = replace(plain, **noisy)
    half = heads == 1 and bool(g.random() < 0.25)
    plain = _rescaled(g, plain, dtypes, tame=half)
    longest = int(g.choice([1, 2, 3, 4, 5, 6], p=[0.1, 0.1, 0.15, 0.2, 0.2, 0.25]))
    if encoding != "grid":
        longest = min(longest, int(g.choice([1, 2, 3])))
    return stored(Hostile(0, "copying", plain, dtypes, "half" if half else "argmax", longest))


def _angle(frequency: Frequency, distance: int) -> float:
    if frequency[0] == "turn":
        return 2 * np.pi * float(frequency[1] * distance % 1)
    return float(float(frequency[1]) ** (float(frequency[2]) if len(frequency) == 3 else 1.0) * distance)


def _slopes(heads: int) -> tuple[Fraction, ...]:
    return tuple(Fraction(1, 2 ** (8 * h // heads)) for h in range(1, heads + 1))


def _rescaled(g: np.random.Generator, plain: PlainModel, dtypes: dict[str, torch.dtype], *, tame: bool) -> PlainModel:
    """Each matrix by a power of two of its own; scores stay as they are (but where a norm's epsilon comes in)."""
    if g.random() < 0.35:
        factor = 2.0 ** int(g.integers(0, 7)) if tame else 1.0
        return replace(plain, readout=plain.readout * factor)
    most = {name: EXPONENTS[dtypes[name]] for name in TENSORS}
    span = float(g.choice([0.1, 1.0]))
    e, q, k, v, o, r = (int(g.integers(-int(most[name] * span), int(most[name] * span) + 1)) for name in TENSORS[:6])
    if plain.pre_gain is not None and plain.epsilon and g.random() < 0.8:
        e = 0
    q, k = (q, k) if abs(q + k + (0 if plain.pre_gain is not None else 2 * e)) < 1000 else (0, 0)
    if plain.pre_gain is None and abs(q + k + 2 * e) >= 1000:
        e = 0
    scale = -(q + k) - (0 if plain.pre_gain is not None else 2 * e)
    if min(most.values()) == EXPONENTS[torch.float64] and g.random() < 0.3:
        # Votes that are subnormal, or that overflow.
        votes = int(g.integers(-1080, -990)) if g.random() < 0.6 else int(g.integers(990, 1040))
        own = e if plain.pre_gain is None else 0
        v, o = (votes - own) // 3, (votes - own) // 3
        r = votes - own - v - o
    if plain.residual:
        v = max(-most["value"], min(most["value"], (e if plain.pre_gain is not None else 0) - o))
    if tame:
        v, r = (v if plain.residual else -o), int(g.integers(0, 7)) - (0 if plain.final_gain is not None else e)
        v, r = max(-most["value"], min(most["value"], v)), max(-most["readout"], min(most["readout"], r))
    powers = {"embedding": e, "query": q, "key": k, "value": v, "output": o, "readout": r}
    scaled = {name: getattr(plain, name) * 2.0**power for name, power in powers.items()}
    return replace(plain, score_scale=plain.score_scale * Fraction(2) ** scale, **scaled)


def _repeated(g: np.random.Generator) -> Hostile:
    return _copying(g, repeats=_often(g))


def _often(g: np.random.Generator) -> int:
    return int(2 ** g.uniform(5, 10.9))


def _norm(g: np.random.Generator) -> Hostile:
    drawn = _copying(g, normed=True)
    if g.random() < 0.2:
        embedding = drawn.plain.embedding.copy()
        embedding[drawn.plain.prefix[0]] = 0.0
        epsilon = Fraction(0) if g.random() < 0.7 else drawn.plain.epsilon
        return stored(replace(drawn, plain=replace(drawn.plain, embedding=embedding, epsilon=epsilon)))
    return drawn


def _random(g: np.random.Generator) -> Hostile:
    """Any shape; tokens around the string in any order, data tokens among them at times."""
    drawn = _copying(g)
    plain, vocabulary = drawn.plain, len(drawn.plain.embedding)
    others = [token for token in range(vocabulary) if token not in plain.data or g.random() < 0.2]
    prefix, infix = (tuple(int(g.choice(others)) for _ in range(g.integers(1, 5))) for _ in range(2))
    size = float(g.choice([0.3, 1.0, 2.0]))
    weights = {
        name: np.ldexp(size * g.standard_normal(entries.shape), int(np.log2(np.abs(entries).max() or 1.0)))
        for name in TENSORS[:6]
        if (entries := getattr(plain, name)) is not None
    }
    return stored(replace(drawn, plain=replace(plain, prefix=prefix, infix=infix, **weights)))


def _tie(g: np.random.Generator) -> Hostile:
    """N exactly 0: all scores 0 and whole votes that cancel, or two outputs with the same read-out."""
    drawn = _copying(g, repeats=_often(g) if g.random() < 0.5 else 0)
    plain = drawn.plain
    if g.random() < 0.3:
        readout = plain.readout.copy()
        other = (
            next(t for t in range(len(readout)) if t not in (plain.target(0), plain.target(1)))
            if len(readout) > 2
            else 1
        )
        readout[other] = readout[plain.target(0)]
        return stored(replace(drawn, plain=replace(plain, readout=readout)))
    vocabulary, width = plain.embedding.shape
    counts = Counter((*plain.prefix, *plain.infix))
    votes = {token: int(g.integers(-3, 4)) for token in counts}
    around = sum(count * votes[token] for token, count in counts.items())
    votes[plain.data[0]], votes[plain.data[1]] = -around, -around - 1 - int(g.integers(0, 2))
    dtypes, power = dict.fromkeys(TENSORS, torch.float64), int(g.integers(-500, 501)) if g.random() < 0.5 else 0
    value, output, readout = np.zeros((2, width)), np.zeros((width, 2)), np.zeros((2, width))
    for token, vote in votes.items():
        value[0, 1 + token] = vote * 2.0**power
    output[0, 0], readout[0, 0] = 2.0**power, 2.0 ** -(power // 2)
    embedding = np.concatenate([np.ones((vocabulary, 1)), np.eye(vocabulary)], axis=1)
    zeros = np.zeros((2 * (len(plain.row) + len(plain.column)) or 4, width))
    plain = replace(
        plain, embedding=embedding, query=zeros, key=zeros, value=value, output=output, readout=readout, pre_gain=None,
        final_gain=None, sub_norm="", residual=False, heads=1, score_scale=Fraction(1), slopes=(),
    )  # fmt: skip
    return stored(replace(drawn, plain=plain, dtypes=dtypes, longest=1 if g.random() < 0.6 else 2))


def _margin(g: np.random.Generator) -> Hostile:
    """One vote solved in balls: the least N/D is k units of roundoff of what it is a sum of, on either side of 0."""
    for _ in range(6):
        repeats, flat = _often(g) if g.random() < 0.5 else 0, None
        if g.random() < 0.25:
            repeats, flat = _lossy(g)
        drawn = _copying(g, exact=True, repeats=repeats, flat=flat)
        drawn = replace(drawn, criterion="argmax", longest=min(drawn.longest, 4))
        units = float(2 ** g.uniform(0, 10)) * (1 if g.random() < 0.5 else -1)
        units = units if flat is None else float(g.uniform(-300, 20))
        solved = _solved(g, drawn, units)
        if solved is not None:
            return solved
    return drawn


def _lossy(g: np.random.Generator) -> tuple[int, float]:
    """How often to repeat a token, and a score above it, so that its equal weights lose much when added one by one."""
    repeats = int(g.integers(1000, 2000))
    scores = g.uniform(1e-3, 0.7, 100)
    weights = np.exp(-scores)
    lost = np.cumsum(np.tile(weights, (repeats, 1)), axis=0)[-1] / weights / repeats - 1
    return repeats, float(scores[lost.argmin()])


def _solved(g: np.random.Generator, drawn: Hostile, units: float) -> Hostile | None:
    """The weight of one token's value where the worst difference crosses 0, and a little to a side of that."""
    plain = drawn.plain
    token = int(g.choice([t for t in plain.tokens if t not in plain.data]))
    line = int(g.integers(0, len(plain.value)))
    size = float(np.abs(plain.value).max())

    def at(weight: float) -> Hostile:
        value = plain.value.copy()
        value[line, 1 + token] = weight
        return replace(drawn, plain=replace(plain, value=value))

    try:
        start, end = (judge(at(x).plain, drawn.longest, "argmax") for x in (0.0, size))
    except UndefinedError:
        return None
    best: tuple[arb, arb, arb] | None = None
    direction = 1 if g.random() < 0.5 else -1
    for one, two in zip(start, end, strict=True):
        for x, y in zip(one.rows, two.rows, strict=True):
            for here, there in zip(x.differences, y.differences, strict=True):
                if not here > 0:
                    return None
                slope = (there - here) * direction
                if slope < 0 and (best is None or here / -slope < best[0]):
                    best = (here / -slope, slope, x.size)
    if best is None:
        return None
    crossing, slope, bound = best
    weight = float(direction * size * (crossing + arb(units * UNIT) * bound / slope).mid())
    return at(weight) if isfinite(weight) and abs(weight) < 2.0**1000 else None


# --- the engine's model ---------------------------------------------------------------------------------------------


def engine_model(asked: Hostile) -> tuple[Transformer, Template]:
    """The torch model with those weights, each tensor in its own dtype, and its template."""
    plain = asked.plain
    encoding: GridFrequencies | Encoding = Encoding()
    if plain.row:
        encoding = GridFrequencies(tuple(map(_frequency, plain.row)), tuple(map(_frequency, plain.column)))
    elif plain.column:
        encoding = RoPE(tuple(map(_frequency, plain.column)))
    elif plain.slopes:
        encoding = ALiBi(plain.heads)
    shape: dict[str, Any] = {
        "vocabulary_size": plain.embedding.shape[0], "model_width": plain.embedding.shape[1], "layers": 1,
        "heads": plain.heads, "head_width": len(plain.query) // plain.heads,
        "value_width": len(plain.value) // plain.heads, "outputs": len(plain.readout),
        "position": "grid" if plain.row else "shift", "residual": plain.residual,
        "pre_norm": plain.pre_gain is not None, "final_norm": plain.final_gain is not None,
        "sub_norm": {"mean": True, "unit": "unit", "": False}[plain.sub_norm], "score_scale": float(plain.score_scale),
    }  # fmt: skip
    explicit = "norm_epsilon" in {field.name for field in fields(TransformerConfig)}
    if explicit:
        shape["norm_epsilon"] = float(plain.epsilon)
    model = Transformer(TransformerConfig(**shape), encoding, next(iter(plain.ends), None))
    for name, parameter in _parameters(model).items():
        parameter.data = torch.tensor(getattr(plain, name), dtype=torch.float64).to(asked.dtypes[name])
    if not explicit:
        for norm in (model.block(0).norm, model.norm):
            if isinstance(norm, torch.nn.RMSNorm):
                norm.eps = float(plain.epsilon)
    return model.requires_grad_(False), Template(plain.prefix, plain.infix, plain.data, plain.ends)


def _parameters(model: Transformer) -> dict[str, torch.nn.Parameter]:
    attention = model.block(0).attention
    found = {name: getattr(attention, name).weight for name in ("query", "key", "value", "output")}
    found |= {"embedding": model.embedding.weight, "readout": model.readout.weight}
    gains = {"pre_gain": model.block(0).norm, "final_gain": model.norm}
    return found | {name: norm.weight for name, norm in gains.items() if hasattr(norm, "weight")}


def _frequency(frequency: Frequency) -> Turn | Radian | BasePower:
    if frequency[0] == "power":
        return BasePower(*frequency[1:])
    return Turn(frequency[1]) if frequency[0] == "turn" else Radian(frequency[1])


def stored(asked: Hostile) -> Hostile:
    """The same with the numbers that the tensors hold once cast; entries beyond a dtype are cut to its range."""
    rounded: dict[str, Any] = {}
    for name in TENSORS:
        entries = getattr(asked.plain, name)
        if entries is not None:
            most = torch.finfo(asked.dtypes[name]).max
            cut = np.clip(entries, -most, most)
            rounded[name] = torch.tensor(cut).to(asked.dtypes[name]).double().numpy()
    scale = Fraction(float(asked.plain.score_scale))
    return replace(asked, plain=replace(asked.plain, score_scale=scale, **rounded))


# --- the verifier, and what is demanded of it -------------------------------------------------------------------------


def ask(asked: Hostile, *, certificate: bool = True) -> Answer:
    """The verifier's answer, and the checker's on its certificate."""
    start = time.perf_counter()
    try:
        with within(PATIENCE):
            found = _ask(asked, certificate)
    except InputError as error:
        found = Answer("REFUSED", reason=str(error), statement=error.argument)
    except OutOfTimeError:
        found = Answer("UNFINISHED")
    except Exception:
        found = Answer("BROKEN", reason=traceback.format_exc())
    return replace(found, seconds=round(time.perf_counter() - start, 3))


def _ask(asked: Hostile, certificate: bool) -> Answer:
    model, template = engine_model(asked)
    names = tuple(f"t{token}" for token in range(len(asked.plain.embedding)))
    subject = Subject(model, CopyTask(template.prefix, template.infix, model.newline, names), template, "hostile")
    outcome = certify(subject, asked.longest, asked.criterion)
    worst = outcome.worst
    found = Answer(
        outcome.status, outcome.proved_to, outcome.fails_at, float(outcome.margin), outcome.margin_below,
        tuple(map(int, worst.string)), worst.step, worst.case.competitor, difference=worst.difference,
    )  # fmt: skip
    if not certificate or found.status == "UNDECIDED":
        return found
    with tempfile.TemporaryDirectory() as folder:
        try:
            written = write_certified(Path(folder), outcome)
        except ArithmeticError as error:
            return replace(found, accepted=False, statement=" ".join(str(error).split()))
        if written.file is None:
            return replace(found, accepted=False, statement=f"no certificate was written: {written.reason}")
        verdict = verify_file(Path(folder) / written.file)
    return replace(found, accepted=verdict.accepted, statement=str(verdict.statement or verdict.reason))


def faults(asked: Hostile, answer: Answer, truth: list[Judged] | None) -> list[str]:
    """What is wrong with an answer, by kind; `truth` is None where the model says nothing."""
    if answer.status == "UNFINISHED":
        return ["unfinished"]
    if answer.status == "BROKEN":
        return ["traceback " + answer.reason.strip().splitlines()[-1].split(":")[0]]
    if answer.status == "REFUSED":
        return ["refusal of several lines"] if "\n" in answer.reason else []
    if truth is None:
        return [f"{answer.status} of an undefined model"]
    result = []
    for judged in truth[: answer.proved_to]:
        if judged.copied is False:
            result.append("false PROVED" if answer.status == "PROVED" else "false proved_to")
            break
    if answer.status == "PROVED" and answer.proved_to < asked.longest:
        result.append("PROVED short of the length")
    if answer.status == "REFUTED":
        result += _faults_of_witness(asked, answer, truth)
    result += _faults_of_margin(asked, answer, truth)
    if answer.status != "UNDECIDED" and answer.accepted is not None:
        said = answer.statement.replace(",", " ").replace(".", " ").split()
        named = asked.longest if answer.status == "PROVED" else len(answer.string)
        if not answer.accepted:
            result.append(f"{answer.status} without an accepted certificate: {_plain_reason(answer.statement)}")
        elif answer.status == "PROVED" and str(named) not in said:
            result.append("statement without the length")
    return result


def _plain_reason(statement: str) -> str:
    """A reason without file, names and numbers, so that equal ones are counted together."""
    text = re.sub(r"^hostile-[a-z]+\.json: ", "", statement)
    return re.sub(r"\b[0-9][0-9.e+-]*", "#", re.sub(r"'\w+'\.dtype", "a dtype", text))[:100]


def _shown(answer: Answer, truth: list[Judged]) -> Row | None:
    return find(truth, len(answer.string), answer.string, answer.step) if 0 < len(answer.string) <= len(truth) else None


def _faults_of_witness(asked: Hostile, answer: Answer, truth: list[Judged]) -> list[str]:
    row = _shown(answer, truth)
    if row is None or answer.fails_at is None or answer.fails_at != len(answer.string):
        return ["fails_at is not the witness's length"]
    result = []
    if is_copied(row, asked.criterion):
        result.append("false REFUTED")
    if truth[answer.fails_at - 1].copied:
        result.append("false fails_at")
    one_by_one = asked.plain.heads == 1 and asked.criterion == "argmax"
    if one_by_one and any(judged.copied is False for judged in truth[: answer.fails_at - 1]):
        result.append("a shorter length fails")
    return result


def _faults_of_margin(asked: Hostile, answer: Answer, truth: list[Judged]) -> list[str]:
    """The margin is that of the step shown, no sign against the truth, and no lower bound above the least."""
    row, result = _shown(answer, truth), []
    if row is None:
        return ["no step is shown"]
    true = row.differences[row.competitors.index(answer.competitor)]
    if not isfinite(answer.margin) and abs(true) < arb(2) ** 1000:
        result.append("margin is not finite")
    in_range = 2.0**-1022 <= abs(answer.margin) < 2.0**1023
    if in_range and not abs(arb(answer.margin) - true) <= row.size * 1e-9 + arb(2) ** -1074:
        result.append("margin off")
    if answer.difference is not None:
        exact = arb(fmpq(answer.difference.numerator, answer.difference.denominator))
        if not abs(exact - true) <= row.size * 1e-9:
            result.append("margin off")
        if (answer.difference > 0) is not (answer.margin > 0) or (answer.difference < 0) is not (answer.margin < 0):
            result.append("margin and its float have different signs")
    if (answer.margin > 0 and true < 0) or (answer.margin < 0 and true > 0):
        result.append("margin with the wrong sign")
    if answer.status == "PROVED" and not answer.margin > 0 and true > arb(2) ** -1022:
        result.append("PROVED with a margin of 0 or below")
    if answer.status == "REFUTED" and asked.criterion == "argmax" and answer.margin > 0 and not true > 0:
        result.append("REFUTED with a margin above 0")
    least = truth[0].least
    for judged in truth[1 : answer.fails_at or asked.longest]:
        least = least.min(judged.least)
    if answer.margin_below is not None and not arb(answer.margin_below) <= least and arb(answer.margin_below) > least:
        result.append("margin_below above the margin")
    if asked.plain.heads == 1 and asked.criterion == "argmax" and true > least + row.size * 1e-9 + arb(2) ** -1074:
        result.append("a smaller margin exists")
    return result


def rescaled_twin(asked: Hostile) -> Hostile | None:
    """The same with value, output and read-out times powers of two that change no sign; None where there is none."""
    plain = asked.plain
    if asked.criterion != "argmax" or plain.sub_norm or plain.final_gain is not None:
        return None
    v, r = (3, -2) if asked.number % 2 else (-4, 5)
    powers = {"value": v, "output": -v if plain.residual else 1, "readout": r}
    changed = {name: getattr(plain, name) * 2.0**power for name, power in powers.items()}
    twin = stored(replace(asked, plain=replace(plain, **changed)))
    same = all(np.array_equal(getattr(twin.plain, n) * 2.0**-p, getattr(plain, n)) for n, p in powers.items())
    return twin if same else None


def record(number: int, seed: int = SEED) -> dict[str, Any]:
    """The line of one model."""
    start = time.perf_counter()
    asked = hostile(number, seed)
    drawn = time.perf_counter() - start
    answer = ask(asked)
    start = time.perf_counter()
    truth: list[Judged] | None = None
    with suppress(UndefinedError):
        truth = judge(asked.plain, asked.longest, asked.criterion)
    judged_in = time.perf_counter() - start
    found = faults(asked, answer, truth)
    if number % 10 == 3 and answer.status in ("PROVED", "REFUTED", "UNDECIDED"):
        twin = rescaled_twin(asked)
        if twin is not None:
            other = ask(twin, certificate=False)
            same = (other.status, other.proved_to, other.fails_at) == (answer.status, answer.proved_to, answer.fails_at)
            found += [] if same else ["verdict changes with the scale"]
    below, above = _closest(truth or [])
    plain = asked.plain
    return {
        "number": number, "kind": asked.kind, "criterion": asked.criterion, "longest": asked.longest,
        "heads": plain.heads, "tokens": len(plain.prefix) + len(plain.infix),
        "dtypes": sorted({str(d).removeprefix("torch.") for d in asked.dtypes.values()}),
        "position": "grid" if plain.row else "rope" if plain.column else "alibi" if plain.slopes else "nope",
        "truth": "undefined" if truth is None else _word([judged.copied for judged in truth]),
        "status": answer.status, "proved_to": answer.proved_to, "fails_at": answer.fails_at, "margin": answer.margin,
        "margin_below": answer.margin_below, "accepted": answer.accepted, "units_below": below, "units_above": above,
        "faults": found,
        "reason": answer.reason or (answer.statement if answer.accepted is False else ""),
        "refused": answer.statement if answer.status == "REFUSED" else "",
        "seconds": answer.seconds, "drawn_in": round(drawn, 3), "judged_in": round(judged_in, 3),
    }  # fmt: skip


def _word(copied: list[bool | None]) -> str:
    return "fails" if False in copied else "untold" if None in copied else "copies"


def _closest(truth: list[Judged]) -> tuple[float | None, float | None]:
    """The worst differences nearest to 0 on each side, in units of roundoff of what they are sums of."""
    sides = list(zip(*(judged.units for judged in truth), strict=True)) or [(), ()]
    below, above = ([unit / UNIT for unit in side if unit is not None] for side in sides)
    return max(below, default=None), min(above, default=None)


def totals(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts over all models."""
    near = {"below": 0, "above": 0, "tied": 0}
    for line in lines:
        below, above, fails = line["units_below"], line["units_above"], line["truth"] == "fails"
        near["tied"] += below == 0.0
        near["below"] += fails and below is not None and -NEAR_UNITS - line["tokens"] <= below < 0
        near["above"] += not fails and above is not None and above <= NEAR_UNITS + line["tokens"]
    seeds: dict[str, int] = {}
    for line in lines:
        for fault in line["faults"]:
            seeds.setdefault(fault, line["number"])
    counted = Counter(fault for line in lines for fault in line["faults"])
    return {
        "models": len(lines),
        "status": dict(Counter(line["status"] for line in lines)),
        "truth": dict(Counter(line["truth"] for line in lines)),
        "refused": dict(Counter(line["refused"] for line in lines if line["refused"])),
        "near": near,
        "longest_seconds": max((line["seconds"] for line in lines), default=0.0),
        "faults": {fault: {"count": count, "first": seeds[fault]} for fault, count in counted.most_common()},
    }


def summary(found: dict[str, Any]) -> str:
    """The totals in one sentence, as the docs have it."""
    status, near = found["status"], found["near"]
    wrong = sum(fault["count"] for fault in found["faults"].values())
    return (
        f"{found['models']} models: {status['PROVED']} PROVED, {status['REFUTED']} REFUTED, {status['UNDECIDED']} "
        f"UNDECIDED, {status['REFUSED']} refused in one line (a zero embedding where epsilon is 0); {near['below']} "
        f"with a margin of some hundred units of roundoff below 0, {near['above']} above, {near['tied']} tied. Faults "
        "of any kind, a wrong verdict, a traceback, a model unfinished, a certificate not accepted among them: "
        f"{wrong}."
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the models that are missing; 1 on any fault."""
    torch.set_num_threads(1)
    campaign = Numbered(MODELS, SEED, "models", RESULTS, FOLDERS)
    return campaign.run(arguments, __doc__, record, totals)


if __name__ == "__main__":
    sys.exit(main())
