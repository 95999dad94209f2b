"""One-layer models to certify: trained in seconds, built, random, or close to the margin; and all their strings.

`brute_force` is the second route: the definition of the model in numpy's extended precision over every string, from
nothing but the stored tensors, the configuration and the template.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import torch

from engine import Transformer, TransformerConfig
from theory import CopyTask, GridFrequencies, Template, Turn, base_grid_frequencies, trained_task

BASE = 1000

Long = np.longdouble

#: A float64 of 2 pi would move margins by 1e-15.
TWO_PI = Long("6.28318530717958647692528676655900577")


@dataclass(frozen=True)
class Sample:
    """A model, its template, and its column frequencies in radians (rows have the same)."""

    model: Transformer
    template: Template
    frequencies: np.ndarray


def untrained(
    seed: int, width: int = 64, heads: int = 1, position: str = "grid", embedding: float = 0.1
) -> tuple[Transformer, CopyTask]:
    """A `provable-1layer` in small: RMSNorms, residual, no MLP, over the trained layout's vocabulary."""
    torch.manual_seed(seed)
    task = trained_task()
    head = width // heads
    config = TransformerConfig(
        vocabulary_size=5, model_width=width, layers=1, heads=heads, head_width=head, value_width=head, outputs=5,
        position=position, residual=True, pre_norm=True, sub_norm=False, final_norm=True, score_scale=head**-0.5,
    )  # fmt: skip
    model = Transformer(config, base_grid_frequencies(Fraction(BASE), head), task.newline)
    with torch.no_grad():
        model.embedding.weight.mul_(embedding)
    return model, task


def trained(
    seed: int, *, steps: int = 300, longest: int = 30, batch: int = 16, rate: float = 3e-3, width: int = 64,
    heads: int = 1, position: str = "grid",
) -> tuple[Transformer, CopyTask, float]:  # fmt: skip
    """AdamW on uniform strings; lengths uniform from 1 to a bound that grows from 10 to `longest` over the first half.

    The last loss is returned too.
    """
    model, task = untrained(seed, width, heads, position)
    generator = np.random.default_rng(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.01)
    loss = torch.zeros(())
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 20) * 0.5 * (1 + np.cos(np.pi * step / steps))
        bound = round(10 + (longest - 10) * min(1.0, 2 * step / steps))
        n = int(generator.integers(1, bound + 1))
        strings = generator.integers(0, 2, (batch, n), dtype=np.int64)
        logits = model(torch.from_numpy(task.sequences(strings)), task.query_index(n, 1))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(strings).flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.requires_grad_(False), task, float(loss.detach())


def random_sample(seed: int, *, heads: int = 1) -> Sample:
    """A random small model of any covered shape, vocabulary and template, in float32 or float64."""
    g = np.random.default_rng([seed, 7])
    torch.manual_seed(seed)
    vocabulary, width, head = int(g.integers(5, 8)), int(g.choice([4, 8])), 4 * int(g.integers(1, 3))
    grid = bool(g.random() < 0.7)
    config = TransformerConfig(
        vocabulary_size=vocabulary, model_width=width, layers=1, heads=heads, head_width=head, value_width=width,
        outputs=2 if g.random() < 0.3 else vocabulary, position="grid" if grid else "shift",
        residual=bool(g.random() < 0.5), pre_norm=bool(g.random() < 0.5), sub_norm=False,
        final_norm=bool(g.random() < 0.5), score_scale=float(g.choice([0.3, 1.0, 3.0])),
    )  # fmt: skip
    template = random_template(g, vocabulary, grid)
    model = Transformer(config, base_grid_frequencies(Fraction(BASE), head), next(iter(template.ends), None))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(float(g.choice([0.5, 1.0, 2.0])))
    return Sample(
        (model.double() if g.random() < 0.5 else model).requires_grad_(False),
        template,
        Long(BASE) ** -(np.arange(head // 4).astype(Long) / (head // 4)),
    )


def random_template(g: np.random.Generator, vocabulary: int, grid: bool) -> Template:
    """Any tokens around the string, the data tokens anywhere in the vocabulary."""
    order = [int(token) for token in g.permutation(vocabulary)]
    others = order[2:]
    prefix, infix = (tuple(int(g.choice(others)) for _ in range(g.integers(1, 4))) for _ in range(2))
    ends = frozenset(others[:1]) if grid else frozenset()
    return Template(prefix, infix, (order[0], order[1]), ends)


def copying_sample(seed: int, *, noise: float, heads: int = 1, least: float = 0.7, most: float = 2.5) -> Sample:
    """A model near one that copies, perturbed: all tokens ask alike, cosines around the wanted key, votes +1 and -1.

    The amplitude and the frequencies are drawn, so that it copies strings up to a few symbols, or up to hundreds.
    """
    g = np.random.default_rng([seed, 11])
    a, b, pairs = int(g.integers(1, 4)), int(g.integers(2, 5)), int(g.integers(1, 4))
    vocabulary = a + b + 2
    order = [int(token) for token in g.permutation(vocabulary)]
    template = Template(tuple(order[2 : a + 2]), tuple(order[a + 2 :]), (order[0], order[1]), frozenset({order[a + 2]}))
    turns = [Fraction(int(g.integers(1, 2**40)), 2**40) for _ in range(2 * pairs)]
    frequencies = GridFrequencies(tuple(map(Turn, turns[:pairs])), tuple(map(Turn, turns[pairs:])))
    width = 4 * pairs
    wide = bool(g.random() < 0.5)
    config = TransformerConfig(
        vocabulary_size=vocabulary, model_width=width + 2, layers=1, heads=heads, head_width=width, value_width=2,
        outputs=vocabulary if wide else 2, position="grid", residual=bool(g.random() < 0.5),
        pre_norm=bool(g.random() < 0.3), sub_norm=False, final_norm=bool(g.random() < 0.5),
    )  # fmt: skip
    model = Transformer(config, frequencies, order[a + 2]).double().requires_grad_(False)
    amplitude = float(g.uniform(least, most))
    with torch.no_grad():
        for parameter in (*model.embedding.parameters(), *model.block(0).attention.parameters(), model.readout.weight):
            parameter.zero_()
        attention = model.block(0).attention
        model.embedding.weight[:, 0] = 1.0
        model.embedding.weight[order[0], width], model.embedding.weight[order[1], width + 1] = 1.0, 1.0
        wanted = [-1] * pairs + [a + 2 - b] * pairs
        angles = [2 * np.pi * float(turn) * r for turn, r in zip(turns, wanted, strict=True)]
        for head in range(heads):
            strength = amplitude * float(g.uniform(0.5, 1.2)) if head else amplitude
            part = slice(head * width, (head + 1) * width)
            query, key = attention.query.weight[part], attention.key.weight[part]
            query[0::2, 0] = torch.tensor(np.cos(angles)) * strength
            query[1::2, 0] = torch.tensor(np.sin(angles)) * strength
            key[0::2, 0] = strength
            for k in range(2):
                attention.value.weight[2 * head + k, width + k] = 1.0
                attention.output.weight[width + k, 2 * head + k] = 1.0
        for k in range(2):
            model.readout.weight[order[k] if wide else k, width + k] = 1.0
        for parameter in model.parameters():
            parameter += noise * torch.randn(parameter.shape, dtype=torch.float64, generator=_generator(seed))
    return Sample(model, template, TWO_PI * np.array([float(turn) for turn in turns]).astype(Long))


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def blend(first: Sample, second: Sample, part: float) -> Sample:
    """The model whose weights lie at `part` of the way from the first to the second; of one shape and template."""
    model = _copy(first.model)
    with torch.no_grad():
        pairs = zip(model.parameters(), second.model.parameters(), strict=True)
        for mine, other in pairs:
            mine.copy_(mine + part * (other - mine))
    return replace(first, model=model)


def opposed_sample(seed: int) -> Sample:
    """Two heads with the same attention, the second one with half the votes reversed.

    The least sum is half of the first head's least ratio, but the sum of the heads' least ratios takes its largest one
    off: the bound is loose, and branching has work.
    """
    sample = copying_sample(seed, noise=0.0, heads=2, least=1.6, most=3.5)
    attention, config = sample.model.block(0).attention, sample.model.config
    for weights, width in (
        (attention.query.weight, config.head_width),
        (attention.key.weight, config.head_width),
        (attention.value.weight, config.value_width),
    ):
        weights[width:] = weights[:width].clone()
    width = config.value_width
    attention.output.weight[:, width:] = -attention.output.weight[:, :width] / 2
    return sample


def nearly_half(sample: Sample, longest: int) -> Sample | None:
    """Sharpened so that the least probability of the right output is just above one half over all strings.

    Strings up to a length. None if no factor from 0.01 to 100 does that, as where the arg-max fails.
    """

    def least(factor: float) -> float:
        return min(least_half(sharpened(sample, factor), n) for n in range(1, longest + 1))

    low, high = 1e-2, 1e2
    if not least(low) < 0 < least(high):
        return None
    for _ in range(26):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if least(middle) > 0 else (middle, high)
    return sharpened(sample, high)


def sharpened(sample: Sample, factor: float) -> Sample:
    """The same model with its read-out multiplied: all logits are, and no arg-max changes."""
    changed = blend(sample, sample, 0.0)
    changed.model.readout.weight.data.mul_(factor)
    return changed


def _copy(model: Transformer) -> Transformer:
    copy = Transformer(model.config, model.frequencies, model.newline).to(model.readout.weight.dtype)
    copy.load_state_dict(model.state_dict())
    return copy.requires_grad_(False)


def brute_force(sample: Sample, longest: int) -> list[float]:
    """For each length up to `longest` the least logit difference (right minus other) over all steps and strings.

    Extended precision throughout. Before a final norm's positive factor. Several heads are told apart by the shapes.
    """
    return [float(differences(sample, length).min()) for length in range(1, longest + 1)]


def differences(sample: Sample, n: int, *, sub_strings: np.ndarray | None = None) -> np.ndarray:
    """Least logit difference over steps and competitors of every string of length n, extended precision."""
    model, template = sample.model, sample.template
    config = model.config
    strings = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 if sub_strings is None else sub_strings
    logits, data = all_logits(sample, strings), np.array(template.data)
    targets = strings if config.outputs == 2 else data[strings]
    right = np.take_along_axis(logits, targets[:, :, None], axis=2)
    gaps = right - logits
    np.put_along_axis(gaps, targets[:, :, None], np.inf, axis=2)
    return gaps.min(axis=(1, 2))


def least_half(sample: Sample, n: int) -> float:
    """1 minus the largest sum of the competitors' odds over all strings of length n and their steps.

    Positive iff the right output's probability is always above one half. A final norm's factor counts.
    """
    strings = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    logits = all_logits(sample, strings, scaled=True)
    targets = strings if sample.model.config.outputs == 2 else np.array(sample.template.data)[strings]
    odds = np.exp(logits - np.take_along_axis(logits, targets[:, :, None], axis=2)).sum(2) - 1
    return float(1 - odds.max())


def all_logits(sample: Sample, strings: np.ndarray, *, scaled: bool = False) -> np.ndarray:
    """Logits [string, step, output] under teacher forcing, extended precision.

    Before a final norm's factor, or with it if `scaled`.
    """
    model, template = sample.model, sample.template
    config = model.config
    w = {name: tensor.double().numpy().astype(Long) for name, tensor in model.state_dict().items()}
    embedding = w["embedding.weight"]
    inputs = embedding
    if config.pre_norm:
        epsilon = config.norm_epsilon
        inputs = embedding / np.sqrt((embedding**2).mean(1, keepdims=True) + Long(epsilon)) * w["blocks.0.norm.weight"]
    prefix = "blocks.0.attention."
    queries, keys, values = (inputs @ w[f"{prefix}{part}.weight"].T for part in ("query", "key", "value"))
    readout = w["readout.weight"] * (w["norm.weight"] if config.final_norm else Long(1))
    count, n = strings.shape
    data = np.array(template.data)[strings]
    around = (np.tile(tokens, (count, 1)) for tokens in (template.prefix, template.infix))
    tokens = np.concatenate([part for pair in zip(around, (data, data), strict=True) for part in pair], axis=1)
    turns = _angles(sample, tokens[0])
    queries, keys, values = queries[tokens], keys[tokens], values[tokens]
    first = len(template.prefix) + n + len(template.infix) - 1
    result = np.empty((count, n, config.outputs), dtype=Long)
    for step in range(n):
        here = first + step
        output = np.zeros((count, config.model_width), dtype=Long)
        for head in range(config.heads):
            part = slice(head * config.head_width, (head + 1) * config.head_width)
            worth = slice(head * config.value_width, (head + 1) * config.value_width)
            query = _turn(queries[:, here, part], turns[here])
            scores = (query[:, None] * _turn(keys[:, : here + 1, part], turns[: here + 1])).sum(-1)
            scores = scores * Long(config.score_scale)
            weights = np.exp(scores - scores.max(1, keepdims=True))
            weights /= weights.sum(1, keepdims=True)
            mean = (weights[:, :, None] * values[:, : here + 1, worth]).sum(1)
            output += mean @ w[f"{prefix}output.weight"][:, worth].T
        if config.residual:
            output += embedding[tokens[:, here]]
        if scaled and config.final_norm:
            epsilon = config.norm_epsilon
            output /= np.sqrt((output**2).mean(1, keepdims=True) + Long(epsilon))
        result[:, step] = output @ readout.T
    return result


def _angles(sample: Sample, tokens: np.ndarray) -> np.ndarray:
    """Angles [index, pair] by walking along the tokens once."""
    template, grid = sample.template, sample.model.config.position == "grid"
    places, row, column = [], 0, template.first_column
    for token in tokens.tolist():
        if token in template.starts:
            row, column = row + 1, 0
        places.append((row, column))
        row, column = (row + 1, 0) if token in template.ends else (row, column + 1)
    rows, columns = np.array(places, dtype=Long).T
    pairs = len(sample.model.frequencies[0].row)
    frequencies = sample.frequencies.astype(Long)
    row_frequencies, column_frequencies = (
        (frequencies[:pairs], frequencies[pairs:]) if frequencies.size > pairs else (frequencies, frequencies)
    )
    if not grid:
        rows = np.zeros_like(rows)
    return np.concatenate([rows[:, None] * row_frequencies, columns[:, None] * column_frequencies], axis=1)


def _turn(x: np.ndarray, angles: np.ndarray) -> np.ndarray:
    result = np.empty_like(x)
    cosines, sines = np.cos(angles), np.sin(angles)
    result[..., 0::2] = x[..., 0::2] * cosines - x[..., 1::2] * sines
    result[..., 1::2] = x[..., 0::2] * sines + x[..., 1::2] * cosines
    return result
