"""Positional encodings in the shared transformer, each against a plain definition with loops, and their symmetries."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

import engine._transformer as transformer_module
from engine import (
    ENCODINGS,
    AutoGridRoPE,
    GridRoPE,
    ModelConfig,
    Places,
    RoPE,
    Transformer,
    affine_scan,
    alibi_slopes,
    build_model,
    exact_match,
    places_of,
    rotate,
)
from engine._norm import RMSNorm
from tests._rounding import DOUBLE, SINGLE, ULPS, Bounded, agrees, gamma, inputs_seen
from theory import GridFrequencies, InputError, Radian, base_grid_frequencies
from theory.task import grid_positions

NEWLINE = 2
SMALL = ModelConfig("rope", vocabulary_size=5, model_width=16, layers=2, heads=2, newline=NEWLINE)


def small_model(seed: int = 0, **changes: Any) -> Transformer:
    """A float64 model with large random weights, so that every part of it matters."""
    model = build_model(replace(SMALL, **changes), seed).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.4 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model


def random_tokens(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 5, shape, generator=torch.Generator().manual_seed(seed))


# The plain definition: one query and one key at a time, in numpy; it shares only the weights with the product.


def plain_slope(head: int, heads: int) -> float:
    """The slope of a head, counted from 0: the first 2^k heads are evenly spaced in the exponent, the others between
    them.
    """
    power = 2 ** math.floor(math.log2(heads))
    exponent = 8 * (head + 1) / power if head < power else 8 * (head - power + 0.5) / power
    return 2.0**-exponent


def plain_places(kind: str, tokens: list[int], h: Bounded, gate: tuple[np.ndarray, float] | None) -> Bounded:
    """Row and column of each token; both runs count newlines exactly."""
    if kind != "auto2d":
        rows, columns = grid_positions(np.array([tokens]), NEWLINE)
        return Bounded.exact(np.stack([rows[0], columns[0]], axis=1).astype(np.float64), h.unit)
    assert gate is not None
    logits = h.joined(Bounded.exact(np.ones((len(tokens), 1)), h.unit)).times(np.array([[*gate[0], gate[1]]]))
    gates = np.clip(logits.value[:, 0] / 6 + 0.5, 0, 1)
    errors = logits.error[:, 0] / 6 + logits.gamma(4) * (logits.size[:, 0] / 6 + 0.5)
    places, row, column, off = [], 0.0, 0.0, np.zeros(2)
    for t, (g, e) in enumerate(zip(gates, errors, strict=True)):
        row, column = row + (1 - g), g * (column + 1)
        # Values are below t + 1; a scan rounds each of its terms at most 3 (t + 1) times.
        off = off + e * (1 + np.array([0.0, column + 1 + off[1]]))
        places.append((row, column, *(off + 2 * gamma(3 * (t + 3)) * (t + 2))))
    found = np.array(places)
    return h.of(found[:, :2], found[:, 2:])


def plain_angles(kind: str, width: int, places: Bounded, config: ModelConfig) -> tuple[np.ndarray, np.ndarray]:
    """Angles [token, pair], and how far another run's may be from them: places and angles are float64 in all models."""
    pairs, count = width // 2, len(places.value)
    if kind == "rope":
        at, off, steps = np.arange(count)[:, None], np.zeros((count, 1)), np.arange(pairs)
        betas = config.base ** (-steps / pairs)
    elif kind in ("rope2d", "auto2d"):
        at, off, steps = (*(x.repeat(pairs // 2, axis=1) for x in (places.value, places.error)), np.arange(pairs // 2))
        betas = np.tile(config.grid_base ** (-steps / (pairs // 2)), 2)
    else:
        return np.zeros((count, pairs)), np.zeros((count, pairs))
    # A power within its ulps, a product; and the product and reduction of `RotaryPhases`, 4 pi units of 1 + position.
    return at * betas, off * betas + gamma(2 * (2 * ULPS + 4)) * at * betas + gamma(30) * (1 + at)


def plain_run(
    config: ModelConfig, model: Transformer, tokens: list[int], seen: list[np.ndarray], unit: float = DOUBLE
) -> tuple[Bounded, list[list[Bounded]]]:
    """Logits [length, vocabulary], and for each layer and head the attention weights [length, length].

    Each with how far a run of a model whose unit roundoff is `unit` may be from them. Every layer after the first is
    given what that run gave it, `seen`, once that is found right; so errors do not pile up over layers.
    """
    state = {name: value.detach().double().numpy() for name, value in model.state_dict().items()}
    x, maps = Bounded.exact(state["embedding.weight"][tokens], unit + DOUBLE), []
    kinds = {"rnope": ("rope", "nope"), "hrope": ("rope", "rope2d")}.get(config.encoding, (config.encoding,))
    for layer in range(config.layers):
        if layer:
            assert x.holds(seen[layer - 1])
            x = Bounded.exact(seen[layer - 1].astype(np.float64), x.unit)
        kind = kinds[layer % len(kinds)]
        heads = config.heads if isinstance(config.heads, int) else config.heads[layer]
        width, p = config.model_width // heads, f"blocks.{layer}."
        h = x.normed(state[p + "norm.weight"], 2.0**-23)
        gate = None
        if kind == "auto2d":
            e = p + "attention.encoding.gate."
            gate = (state[e + "weight"][0], float(state[e + "bias"][0]))
        angles = plain_angles(kind, width, plain_places(kind, tokens, h, gate), config)
        weights, outputs = [], []
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            q, k, v = (h.times(state[f"{p}attention.{name}.weight"][part]) for name in ("query", "key", "value"))
            if kind not in ("nope", "alibi"):
                q, k = q.turned(*angles), k.turned(*angles)
            slope = plain_slope(head, heads) if kind == "alibi" else 0.0
            given, out = q.attended(k, v, 1 / math.sqrt(width), slope)
            weights.append(given)
            outputs.append(out)
        x = x.plus(outputs[0].joined(*outputs[1:]).times(state[p + "attention.output.weight"]))
        if config.mlp_width:
            hidden = x.normed(state[p + "mlp_norm.weight"], 2.0**-23).times(state[p + "mlp.input.weight"])
            x = x.plus(hidden.gelu().times(state[p + "mlp.output.weight"]))
        maps.append(weights)
    return x.normed(state["norm.weight"], 2.0**-23).times(state["readout.weight"]), maps


def is_plain(config: ModelConfig, model: Transformer, tokens: Tensor, run: Callable[[], Tensor]) -> bool:
    """Are the logits of the last tokens that `run` gives, [batch, queries, vocabulary], within the bound?"""
    return agrees(lambda row, seen: plain_run(config, model, row, seen)[0], model, tokens, run)


def check_against_plain(config: ModelConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model(**{name: getattr(config, name) for name in ("encoding", "layers", "heads", "mlp_width")})
    tokens = random_tokens(2, 19)
    assert model(tokens).requires_grad and is_plain(config, model, tokens, lambda: model(tokens))
    monkeypatch.setattr(transformer_module, "QUERY_BLOCK", 4)
    monkeypatch.setattr(transformer_module, "KEY_BLOCK", 3)
    with torch.no_grad():
        assert is_plain(config, model, tokens, lambda: model(tokens))
        assert is_plain(config, model, tokens, lambda: model(tokens, 9))
        assert is_plain(config, model, tokens[1:], lambda: model.last_logits(tokens[1])[None, None])
        maps, seen = inputs_seen(model, lambda: model.attention_maps(tokens), 19)
    for b, row in enumerate(tokens):
        _, plain = plain_run(config, model, row.tolist(), [x[b] for x in seen])
        assert all(
            mine.holds(maps[layer][b, head].numpy())
            for layer, heads in enumerate(plain)
            for head, mine in enumerate(heads)
        )
    # The bound is tight enough to tell an attention layer's output in float32.
    model.block(config.layers - 1).attention.output.register_forward_hook(lambda _, x, y: y.float().double())
    assert not is_plain(config, model, tokens, lambda: model(tokens))


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_fused_blocked_and_mapped_attention_agree_with_the_definition(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_against_plain(replace(SMALL, encoding=encoding), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [
    {"mlp_width": 24}, {"heads": (2, 1)}, {"heads": (1, 4), "mlp_width": 8, "encoding": "hrope"},
    {"layers": 1, "encoding": "auto2d"}, {"layers": 1, "encoding": "alibi", "heads": 4},
])  # fmt: skip
def test_mlps_and_heads_per_layer_agree_with_the_definition(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    check_against_plain(replace(SMALL, **changes), monkeypatch)


# Symmetries.


def logits_at(model: Transformer, tokens: Tensor, places: Places) -> Tensor:
    x = model.embedding(tokens)
    for number in range(model.config.layers):
        x = model.block(number)(x, places)
    return model.readout(model.norm(x))


def test_two_axes_of_which_one_is_constant_are_rope() -> None:
    grid = small_model(encoding="rope2d")
    frequencies = base_grid_frequencies(Fraction(1000), 8)
    still = (Radian(Fraction(0)),) * 2
    for tokens, axis in (
        (random_tokens(2, 15) % 2, RoPE(still + frequencies.column)),
        (torch.full((2, 15), NEWLINE), RoPE(frequencies.row + still)),
    ):
        line = Transformer(grid.config, (axis, axis), NEWLINE).double()
        line.load_state_dict(grid.state_dict())
        for model in (grid, line):
            run = partial(model, tokens)
            assert is_plain(replace(SMALL, encoding="rope2d"), model, tokens, run)
        both = random_tokens(2, 15)
        assert (grid(both) - line(both)).abs().max() > 1e-3


@pytest.mark.parametrize(("rows", "columns"), [(7, 0), (0, 1000), (123456, 2345678)])
def test_shifted_rows_and_columns_change_no_logit(rows: int, columns: int) -> None:
    model, tokens = small_model(encoding="rope2d"), random_tokens(2, 15)
    places = places_of(tokens, NEWLINE)
    shifted = Places(0, places.rows + rows, places.columns + columns)
    assert torch.equal(logits_at(model, tokens, places), model(tokens))
    # Whole places are reduced in integers: an angle's error does not grow with them.
    assert is_plain(replace(SMALL, encoding="rope2d"), model, tokens, lambda: logits_at(model, tokens, shifted))
    stretched = Places(0, places.rows, 2 * places.columns)
    assert (logits_at(model, tokens, stretched) - model(tokens)).abs().max() > 1e-3


def test_half_split_heads_are_interleaved_heads_permuted() -> None:
    """Coordinates (2f, 2f+1) of the interleaved layout are (f, f + pairs) of the half-split layout."""
    width, pairs = 12, 6
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(3, 5, width, dtype=torch.float64, generator=generator)
    angles = torch.randn(5, pairs, dtype=torch.float64, generator=generator)
    order = torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])
    first, second = vectors[..., order].chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    half_split = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
    interleaved = rotate(vectors, torch.complex(cos, sin))
    # Two products and a sum, fused or not, are off by two units roundoff of the products' sizes, in each of two runs.
    sizes = torch.cat([first.abs() + second.abs()] * 2, dim=-1)
    assert ((interleaved[..., order] - half_split).abs() <= 5 * 2.0**-53 * sizes).all()
    assert (interleaved - half_split).abs().max() > 0.1


def test_models_of_different_bases_differ_in_one_process() -> None:
    tokens = random_tokens(1, 12)
    for encoding, name in (("rope", "base"), ("rope2d", "grid_base"), ("hrope", "base"), ("hrope", "grid_base")):
        models = [small_model(encoding=encoding, **{name: base}) for base in (100.0, 1000.0, 100.0)]
        runs = [model(tokens) for model in models]
        assert torch.equal(runs[0], runs[2])
        assert (runs[0] - runs[1]).abs().max() > 1e-3
        for model, base in zip(models, (100.0, 1000.0, 100.0), strict=True):
            config = replace(SMALL, encoding=encoding, **{name: base})
            assert is_plain(config, model, tokens, partial(model, tokens))


def test_bfloat16_leaves_the_phases_intact() -> None:
    places = Places(99_996, torch.tensor([[0, 1, 77, 5000]]), torch.tensor([[0, 3, 900, 99999]]))
    for encoding in ("rope", "rope2d", "auto2d", "alibi"):
        part = small_model(encoding=encoding).float().block(0).attention.encoding
        before, slopes = part.turns(places, torch.bfloat16), part.slopes
        part.to(torch.bfloat16)
        after = part.turns(places, torch.bfloat16)
        assert part.slopes == slopes
        assert (before is None) == (after is None) == (encoding == "alibi")
        if before is not None and after is not None:
            assert after.dtype == torch.complex64 and torch.equal(before, after)
    # What rounding a frequency to bfloat16 would do at these places:
    rounded = torch.tensor(1000**-0.5).bfloat16().double() * 99999
    assert abs(rounded - 1000**-0.5 * 99999) > 1


def test_turned_vectors_of_bfloat16_are_rounded_once() -> None:
    vectors = torch.randn(1, 4, 8).bfloat16()
    places = places_of(torch.zeros(1, 4, dtype=torch.int64), None)
    turns = RoPE(base_grid_frequencies(Fraction(1000), 16).row).turns(places, torch.bfloat16)
    assert turns is not None
    exact = rotate(vectors.double(), turns.to(torch.complex128))
    np.testing.assert_array_equal(rotate(vectors, turns).float(), exact.float().bfloat16().float())


# ALiBi.


def test_slopes_of_published_head_counts() -> None:
    assert alibi_slopes(8) == tuple(2.0**-k for k in range(1, 9))
    # Press et al.: 12 heads take the slopes of 8, and every other slope of 16.
    assert alibi_slopes(12) == (*alibi_slopes(8), 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5)


@given(st.integers(1, 70))
def test_slopes_are_the_plain_ones_and_differ(heads: int) -> None:
    slopes = alibi_slopes(heads)
    assert slopes == tuple(plain_slope(head, heads) for head in range(heads))
    assert len(set(slopes)) == heads and all(2**-8 <= slope < 1 for slope in slopes)


# Auto-2D-RoPE.


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(0, 10**6), st.floats(0, 1))
def test_scan_and_its_gradient_equal_the_loop(length: int, seed: int, saturated: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    factors = torch.rand(3, length, generator=generator, dtype=torch.float64)
    chosen = torch.rand(3, length, generator=generator) < saturated
    factors = torch.where(chosen, factors.round(), factors).requires_grad_()
    offsets = torch.randn(3, length, generator=generator, dtype=torch.float64, requires_grad=True)
    cotangent = torch.randn(3, length, generator=generator, dtype=torch.float64)
    value, steps = torch.zeros(3, dtype=torch.float64), []
    for t in range(length):
        value = factors[:, t] * value + offsets[:, t]
        steps.append(value)
    looped = torch.stack(steps, dim=1)
    scanned = affine_scan(factors, offsets)
    # A value is a sum of offsets times factors. However a scan brackets it, no term takes part in more than 3 n
    # roundings, so it is off by at most gamma(3 n) times the sum of the terms' sizes; so is the value of the loop.
    rounding = 2 * 3 * (length + 2) * 2.0**-53 * (1 + 2.0**-20)
    sizes = sizes_of_terms(factors, offsets)
    assert ((scanned - looped).abs() <= rounding * sizes).all()
    # By offsets: the same sum from behind over the cotangent. By factors: that sum times the value before.
    later = torch.cat([factors[:, 1:], torch.zeros(3, 1, dtype=torch.float64)], dim=1)
    behind = sizes_of_terms(later.flip(1), cotangent.flip(1)).flip(1)
    before = torch.cat([torch.zeros(3, 1, dtype=torch.float64), sizes[:, :-1]], dim=1)
    got = torch.autograd.grad(scanned, (factors, offsets), cotangent)
    wanted = torch.autograd.grad(looped, (factors, offsets), cotangent)
    assert ((got[0] - wanted[0]).abs() <= 2 * rounding * behind * before).all()
    assert ((got[1] - wanted[1]).abs() <= rounding * behind).all()


def sizes_of_terms(factors: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """The recurrence of the offsets' absolute values, for factors >= 0, a thousandth more for its own roundings."""
    value, steps = torch.zeros(3, dtype=torch.float64), []
    for t in range(factors.shape[1]):
        value = factors[:, t].detach() * value + offsets[:, t].detach().abs()
        steps.append(value)
    return torch.stack(steps, dim=1) * 1.001


def auto_layer(model_width: int = 8) -> AutoGridRoPE:
    torch.manual_seed(0)
    return AutoGridRoPE(base_grid_frequencies(Fraction(1000), 8), model_width).double()


def test_gradients_of_gates_equal_those_of_a_sequential_loop() -> None:
    layer = auto_layer()
    x = torch.randn(2, 23, 8, dtype=torch.float64, requires_grad=True)
    given_places = Places(0, *torch.zeros(2, 2, 23, dtype=torch.int64))
    rows, columns, row, column = [], [], torch.zeros(2).double(), torch.zeros(2).double()
    for t in range(23):
        logit = x[:, t] @ layer.gate.weight[0] + layer.gate.bias
        g = (logit / 6 + 0.5).clamp(0, 1)
        row, column = row + (1 - g), g * (column + 1)
        rows.append(row)
        columns.append(column)
    located = layer.locate(x, given_places, None)
    inputs = [x, layer.gate.weight, layer.gate.bias]
    weight, bias = layer.gate.weight[0].detach().numpy(), layer.gate.bias.item()
    for b in range(2):
        plain = plain_places("auto2d", [0] * 23, Bounded.exact(x[b].detach().numpy(), 2 * DOUBLE), (weight, bias))
        for mine in (located.rows, located.columns), (torch.stack(rows, 1), torch.stack(columns, 1)):
            assert plain.holds(torch.stack([part[b] for part in mine], dim=1).detach().numpy())
    # `off` is for a gate in both runs. A gradient by a gate is a sum from behind, at most the cotangents' sum, times a
    # column of at most n: n terms, each off by n times `off` and by 3 n roundings, in either factor.
    size = (np.abs(x.detach().numpy()) @ np.abs(weight) + abs(bias)).max()
    off, n = 2 * gamma(16) * (size + 1), 23
    logits = (x @ layer.gate.weight[0] + layer.gate.bias).detach()
    assert ((logits.abs() - 3).abs() > 6 * off).all()  # no gate is near a corner of the clamp
    for got, wanted in ((located.rows, torch.stack(rows, 1)), (located.columns, torch.stack(columns, 1))):
        cotangent = torch.randn(2, 23, dtype=torch.float64)
        by_gate = 2 * n * (n + 1) * (off + 2 * gamma(3 * n + 20)) * float(cotangent.abs().sum(1).max())
        # By the logit a sixth; then times the weight, or summed over all tokens of both sequences.
        sizes = [np.abs(weight).max() / 6, float(x.detach().abs().sum((0, 1)).max()) / 6, 2 * n / 6]
        for a, b, factor in zip(
            torch.autograd.grad(got, inputs, cotangent, retain_graph=True),
            torch.autograd.grad(wanted, inputs, cotangent, retain_graph=True),
            sizes,
            strict=True,
        ):
            assert (a - b).abs().max() <= by_gate * factor < 1e-8 * b.abs().max()


def test_gradients_through_turns_equal_finite_differences() -> None:
    layer = auto_layer()
    vectors = torch.randn(1, 6, 8, dtype=torch.float64)

    def turned(x: Tensor) -> Tensor:
        turns = layer.turns(layer.locate(x, Places(0, *torch.zeros(2, 1, 6, dtype=torch.int64)), None), x.dtype)
        assert turns is not None
        return rotate(vectors, turns)

    assert torch.autograd.gradcheck(turned, (torch.randn(1, 6, 8, dtype=torch.float64, requires_grad=True),))


def saturated_layer() -> AutoGridRoPE:
    """Gate 0 on inputs e_0, gate 1 on inputs e_1."""
    layer = auto_layer(2)
    with torch.no_grad():
        layer.gate.weight.copy_(torch.tensor([[-9.0, 9.0]]))
        layer.gate.bias.zero_()
    return layer


def test_saturated_gates_give_exact_whole_places_at_great_length() -> None:
    length = 200_000
    starts = np.random.default_rng(0).random(length) < 1e-4
    starts[150_000:] = False
    x = torch.nn.functional.one_hot(torch.from_numpy(1 - starts.astype(np.int64)), 2).double()[None]
    layer = saturated_layer()
    expected_rows, expected_columns, row, column = [], [], 0, 0
    for start in starts.tolist():
        row, column = (row + 1, 0) if start else (row, column + 1)
        expected_rows.append(row)
        expected_columns.append(column)
    located = layer.locate(x, Places(0, *torch.zeros(2, 1, length, dtype=torch.int64)), None)
    assert located.rows[0].tolist() == expected_rows
    assert located.columns[0].tolist() == expected_columns
    assert max(expected_columns) >= 50_000


@settings(max_examples=20)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=8), st.integers(0, 100))
def test_places_in_blocks_continue_those_before(sizes: list[int], seed: int) -> None:
    length = sum(sizes)
    layer, tokens = auto_layer(), random_tokens(2, length, seed=seed)
    x = torch.randn(2, length, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    zeros = Places(0, *torch.zeros(2, 2, length, dtype=torch.int64))
    learned, newline = layer.locate(x, zeros, None), places_of(tokens, NEWLINE)
    gate = (layer.gate.weight[0].detach().numpy(), layer.gate.bias.item())
    plain = [plain_places("auto2d", [0] * length, Bounded.exact(row.numpy(), 2 * DOUBLE), gate) for row in x]
    rows, columns = grid_positions(tokens.numpy(), NEWLINE)
    assert newline.rows.tolist() == rows.tolist() and newline.columns.tolist() == columns.tolist()
    before, first, start = None, None, 0
    for size in sizes:
        part = slice(start, start + size)
        before = layer.locate(x[:, part], zeros.part(part), before)
        for places in (before, learned.part(part)):
            both = torch.stack([places.rows, places.columns], dim=-1).detach().numpy()
            assert all(mine[part].holds(found) for mine, found in zip(plain, both, strict=True))
        block = places_of(tokens[:, part], NEWLINE, first)
        assert torch.equal(block.rows, newline.rows[:, part]) and torch.equal(block.columns, newline.columns[:, part])
        first = transformer_module.place_after(tokens[:, part], NEWLINE, block)
        start += size


# Generation and exact match.


def greedy(model: Transformer, prompt: Tensor, steps: int) -> Tensor:
    """Generation without a cache: the whole sequence again for every token."""
    tokens = prompt
    for _ in range(steps):
        tokens = torch.cat([tokens, model(tokens)[:, -1:].argmax(-1)], dim=1)
    return tokens[:, prompt.shape[1] :]


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_generation_with_a_cache_equals_generation_without(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer_module, "QUERY_BLOCK", 4)
    monkeypatch.setattr(transformer_module, "KEY_BLOCK", 3)
    model, prompt = small_model(encoding=encoding, mlp_width=8), random_tokens(3, 9)
    written = model.generate(prompt, 12)
    assert torch.equal(written, greedy(model, prompt, 12))
    tokens = torch.cat([prompt, written], dim=1)
    assert exact_match(model, tokens, slice(9, None), 5).all()
    # Each token of the answer counts, and only those.
    for index in (9, 14, 20):
        wrong = tokens.clone()
        wrong[1, index] = (wrong[1, index] + 1) % 5
        assert exact_match(model, wrong, slice(9, None), 5).tolist() == [True, False, True]
    assert exact_match(model, tokens, slice(9, 15)).all()


def test_nothing_is_generated_from_nothing() -> None:
    with pytest.raises(InputError, match="prompt length = 0"):
        small_model().generate(random_tokens(1, 0), 3)
    with pytest.raises(InputError, match="steps = 0"):
        small_model().generate(random_tokens(1, 4), 0)


@pytest.mark.parametrize("answer", [slice(0, 3), slice(4, 4), slice(1, 9, 2), slice(12, 15)])
def test_answers_that_are_none_are_refused(answer: slice) -> None:
    with pytest.raises(InputError, match="answer"):
        exact_match(small_model(), random_tokens(1, 12), answer)


#: VmHWM starts anew with the program; ru_maxrss also counts the memory of the process that started it, however large.
def most_memory(model: Transformer, n: int) -> int:
    """The most bytes that torch held at once while it decided an exact match of n symbols, by its own account.

    The process's own peak would also count what the processor's libraries and the allocator of the system keep.
    """
    tokens = torch.zeros(1, 2 * n + 5, dtype=torch.int64)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        assert exact_match(model, tokens, slice(n + 5, None)).all()
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    return max(accumulate(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())))


@pytest.mark.slow
def test_memory_of_exact_match_is_that_of_the_keys_and_values() -> None:
    """At 12,005 tokens one row of score blocks over all keys would take 49 MB and all scores 1.2 GB."""
    model = build_model(ModelConfig("rope2d", model_width=64), 0).requires_grad_(False)
    model.readout.weight.zero_()  # every answer is token 0, so that nothing stops early
    short, long = most_memory(model, 1500), most_memory(model, 6000)
    keys_values = 2 * 64 * 4  # bytes a token: one layer, float32
    assert 0 < long - short < 2 * keys_values * 9000
    # So 100,000 symbols of the paper's one-layer model, width 1024, need less than 4 GB: the short run and twice its
    # keys and values.
    assert short + 2 * (2 * 1024 * 4) * 200_005 < 4e9


# Padding, within the forward error bound of the whole model in float32.


@pytest.mark.parametrize("encoding", ["rope", "nope", "alibi", "rope2d"])
@pytest.mark.parametrize("padding", [1, 13, 60])
def test_padding_changes_no_logit_beyond_the_rounding_bound(encoding: str, padding: int) -> None:
    config = replace(SMALL, encoding=encoding, layers=1)
    model = small_model(encoding=encoding, layers=1).float()
    tokens = random_tokens(1, 24)
    pad = random_tokens(1, padding, seed=1)
    bounded, _ = plain_run(config, model, tokens[0].tolist(), [], SINGLE)
    assert bounded.error.max() < np.abs(bounded.value).max() / 20  # the bound is not vacuous
    runs = [model(tokens), model(torch.cat([tokens, pad], dim=1))[:, :24]]
    with torch.no_grad():
        runs += [model(tokens), model(torch.cat([tokens, pad], dim=1))[:, :24]]
    for run in runs:
        assert bounded.holds(run[0].detach().numpy())
    # So any two runs differ by at most twice the bound; padding on the other side does far more.
    left = model(torch.cat([pad, tokens], dim=1))[0, padding:].detach().double().numpy()
    assert (np.abs(left - bounded.value) > 2 * bounded.error).any()


# The parts around: norm, parameter groups, seeds, configurations.


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("epsilon", [0.0, 2.0**-23, 1e-5, 1.0])
def test_the_norm_has_one_answer(dtype: torch.dtype, epsilon: float) -> None:
    """With a gradient and without, in every dtype, the epsilon is the one that was given; a cast leaves it alone."""
    norm = RMSNorm(4, epsilon).to(dtype)
    x = torch.full((1, 4), 0.03125, dtype=dtype)
    wanted = 0.03125 / math.sqrt(0.03125**2 + epsilon)
    unit = torch.finfo(dtype).eps
    for answer in (norm(x), norm(x.clone().requires_grad_())):
        # Squares, their mean, a root and two products: each rounds once, in float32 at least; then the dtype does.
        assert abs(answer.double() - wanted).max() <= wanted * 16 * max(unit, 2.0**-23)
    assert norm.to(torch.float64).eps == epsilon
    with pytest.raises(InputError, match="norm_epsilon"):
        RMSNorm(4, -1.0)


def test_the_norm_and_its_gradient_are_torchs() -> None:
    torch.manual_seed(0)
    norm = RMSNorm(7).double()
    with torch.no_grad():
        norm.weight.copy_(torch.randn(7))
    x = torch.randn(2, 3, 7, dtype=torch.float64, requires_grad=True)
    reference = torch.nn.functional.rms_norm(x, (7,), norm.weight, 2.0**-23)
    gain, values = norm.weight.detach().numpy(), x.detach().numpy()
    plain = Bounded.exact(values, 2 * DOUBLE).normed(gain, 2.0**-23)
    assert plain.holds(norm(x).detach().numpy()) and plain.holds(reference.detach().numpy())
    cotangent = torch.randn(2, 3, 7, dtype=torch.float64)
    # dx = r g dy - x r^3 (dy . g x) / 7 and dg = sum r x dy: sums of products of fewer than 60 roundings each.
    r = 1 / np.sqrt((values**2).mean(-1, keepdims=True) + 2.0**-23)
    dy = np.abs(cotangent.numpy())
    inner = (dy * np.abs(gain * values)).sum(-1, keepdims=True)
    sizes = (r * dy * np.abs(gain) + np.abs(values) * r**3 * inner / 7, (r * np.abs(values) * dy).sum((0, 1)))
    for got, wanted, size in zip(
        torch.autograd.grad(norm(x), (x, norm.weight), cotangent),
        torch.autograd.grad(reference, (x, norm.weight), cotangent),
        sizes,
        strict=True,
    ):
        assert (np.abs((got - wanted).numpy()) <= 2 * gamma(60) * size).all()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_parameter_has_one_group_and_a_gradient(encoding: str) -> None:
    model = small_model(encoding=encoding, mlp_width=8)
    groups = model.parameter_groups(0.01, 0.1)
    grouped = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(grouped) == sorted(map(id, model.parameters()))
    for name, parameter in model.named_parameters():
        (group,) = (g for g in groups if any(parameter is p for p in g["params"]))
        assert group["lr"] == 0.01 * (3 if "gate" in name else 1)
        assert group["weight_decay"] == (0 if "gate" in name or "norm" in name else 0.1)
    model(random_tokens(2, 9)).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())


def test_the_seed_alone_decides_the_start() -> None:
    config = replace(SMALL, encoding="auto2d")
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = build_model(config, 1).state_dict()
    assert torch.equal(torch.rand(3), expected)
    second, other = build_model(config, 1).state_dict(), build_model(config, 2).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["embedding.weight"], other["embedding.weight"])
    assert first["blocks.1.attention.encoding.gate.bias"].item() == AutoGridRoPE.BIAS  # 1.5, a float32


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_mixed_precision_trains_and_stays_near(encoding: str) -> None:
    model, tokens = build_model(replace(SMALL, encoding=encoding, mlp_width=8), 0), random_tokens(2, 20)
    exact = model(tokens)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = model(tokens)
        loss = torch.nn.functional.cross_entropy(mixed[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())
    loss.backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())
    # No rounding bound: some ten steps each round to 2^-9, which is 2%; a tenth would be a wrong formula's.
    assert (mixed.float() - exact).abs().max() < 0.1 * exact.abs().max()


@pytest.mark.parametrize("config", [
    SMALL, replace(SMALL, heads=(2, 1)), replace(SMALL, encoding="hrope", newline=None, base=500.5, mlp_width=3),
])  # fmt: skip
def test_configurations_survive_their_documents(config: ModelConfig) -> None:
    import json

    assert ModelConfig.from_document(json.loads(json.dumps(config.document()))) == config
    shape = config.shape()
    assert type(shape).from_document(json.loads(json.dumps(shape.document()))) == shape


@pytest.mark.parametrize(("changes", "message"), [
    ({"encoding": "sine"}, "encoding = sine: must be one of rope, nope, alibi, rnope, rope2d, hrope, auto2d"),
    ({"encoding": "rnope", "layers": 3}, "layers = 3: must be even: rnope takes rope and nope layers in turn"),
    ({"encoding": "hrope", "layers": 1}, "layers = 1: must be even: hrope takes rope and rope2d layers in turn"),
    ({"model_width": 18}, r"model_width = 18: must be a multiple of 2 for each of 2 heads \(rope\)"),
    ({"encoding": "rope2d", "model_width": 12}, r"a multiple of 4 for each of 2 heads \(rope2d\)"),
    ({"encoding": "nope", "heads": 3}, r"model_width = 16: must be a multiple of 1 for each of 3 heads \(nope\)"),
    ({"heads": (2, 1, 1)}, r"heads = \(2, 1, 1\): must be one number, or one for each of the 2 layers"),
    ({"heads": 0}, "heads = 0: must be an integer >= 1"),
    ({"layers": 0}, "layers = 0"), ({"vocabulary_size": 1}, "vocabulary_size = 1"), ({"mlp_width": -1}, "mlp_width"),
    ({"newline": 5}, "newline = 5: must be a token, 0 to 4, or None"),
    ({"base": float("nan")}, "base = nan"), ({"grid_base": 0.5}, "grid_base = 0.5"),
])  # fmt: skip
def test_bad_configurations_are_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        replace(SMALL, **changes)
    assert "\n" not in str(caught.value)


def test_documents_of_other_things_are_refused() -> None:
    document = SMALL.document()
    for wrong in ({**document, "sky": 1}, {k: v for k, v in document.items() if k != "encoding"}, {"heads": [1]}):
        with pytest.raises(InputError, match="model configuration"):
            ModelConfig.from_document(wrong)


def test_frequencies_of_both_axes_are_the_grid_bases() -> None:
    encoding = small_model(encoding="rope2d").block(0).attention.encoding
    assert isinstance(encoding, GridRoPE)
    expected: GridFrequencies = base_grid_frequencies(Fraction(1000), 8)
    assert (encoding.row.frequencies, encoding.column.frequencies) == (expected.row, expected.column)
