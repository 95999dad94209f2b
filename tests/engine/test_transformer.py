"""The shared transformer: exact phases, blocks against one plain formula, causality, dtypes, norms."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import engine._transformer as transformer_module
from engine import ANGLE_ERROR, RotaryPhases, Transformer, TransformerConfig, rotate
from tests._rounding import DOUBLE, Bounded, agrees, gamma
from theory import GridFrequencies, InputError, Radian, Turn, base_grid_frequencies, draw_grid_frequencies

BASE = TransformerConfig(
    vocabulary_size=5,
    model_width=12,
    layers=2,
    heads=2,
    head_width=8,
    value_width=3,
    outputs=2,
    position="grid",
    residual=True,
    pre_norm=True,
    sub_norm=True,
    final_norm=True,
    score_scale=0.5,
)


def config(**changes: Any) -> TransformerConfig:
    return replace(BASE, **changes)


def plain_forward(model: Transformer, tokens: list[int], seen: list[np.ndarray]) -> Bounded:
    """The definition in float64 numpy, with the distance that the model's own run may keep; shares only the weights.

    Every layer after the first is given what that run gave it, `seen`, once that is found right.
    """
    c = model.config
    state = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}
    positions, row, column = [], 0, 0
    for index, token in enumerate(tokens):
        positions.append((row, column) if c.position == "grid" else (0, index))
        row, column = (row + 1, 0) if token == model.newline else (row, column + 1)

    def norm(x: Bounded, name: str, wanted: bool) -> Bounded:
        return x.normed(state[name], 2.0**-23) if wanted else x

    x = Bounded.exact(state["embedding.weight"][tokens], 2 * DOUBLE)
    for layer in range(c.layers):
        if layer:
            assert x.holds(seen[layer - 1])
            x = Bounded.exact(seen[layer - 1], x.unit)
        p, f = f"blocks.{layer}.attention.", model.frequencies[layer]
        h = norm(x, f"blocks.{layer}.norm.weight", c.pre_norm)
        betas = [[2 * math.pi * float(x.value) for x in axis] for axis in (f.row, f.column)]
        angles = np.array([[b * row for b in betas[0]] + [b * column for b in betas[1]] for row, column in positions])
        # The model's angles are within ANGLE_ERROR, these within three roundings.
        off = ANGLE_ERROR + gamma(3) * angles
        heads = []
        for head in range(c.heads):
            qk = slice(head * c.head_width, (head + 1) * c.head_width)
            vs = slice(head * c.value_width, (head + 1) * c.value_width)
            q, k = (h.times(state[f"{p}{name}.weight"][qk]).turned(angles, off) for name in ("query", "key"))
            _, out = q.attended(k, h.times(state[p + "value.weight"][vs]), c.score_scale)
            heads.append(out.normed(1.0, 0.0) if c.sub_norm else out)
        y = heads[0].joined(*heads[1:]).times(state[p + "output.weight"])
        x = x.plus(y) if c.residual else y
    return norm(x, "norm.weight", c.final_norm).times(state["readout.weight"])


def model_of(c: TransformerConfig, seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(c, draw_grid_frequencies(c.head_width, seed, 0), newline=2).double().requires_grad_(False)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [
    {}, {"residual": False}, {"pre_norm": False, "final_norm": False}, {"sub_norm": False}, {"position": "shift"},
    {"layers": 1, "heads": 1, "score_scale": 1.0}, {"layers": 3, "value_width": 1},
])  # fmt: skip
def test_blocks_agree_with_the_plain_definition(changes: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer_module, "QUERY_BLOCK", 4)
    monkeypatch.setattr(transformer_module, "KEY_BLOCK", 3)
    model = model_of(config(**changes))
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 5, (2, 17)))

    def right(run: Callable[[], torch.Tensor], rows: torch.Tensor = tokens) -> bool:
        return agrees(lambda row, seen: plain_forward(model, row, seen), model, rows, run)

    assert right(lambda: model(tokens))
    assert right(lambda: model(tokens, 9))
    assert right(lambda: model.last_logits(tokens[0])[None, None], tokens[:1])
    # The bound is tight enough to tell an attention layer's output in float32.
    model.block(model.config.layers - 1).attention.output.register_forward_hook(lambda _, x, y: y.float().double())
    assert not right(lambda: model(tokens))


def test_later_tokens_change_nothing_before_them() -> None:
    model = model_of(config())
    tokens = torch.randint(0, 5, (1, 12))
    changed = tokens.clone()
    changed[0, 8:] = (changed[0, 8:] + 1) % 5
    assert torch.equal(model(tokens)[:, :8], model(changed)[:, :8])
    assert not torch.equal(model(tokens)[:, 8:], model(changed)[:, 8:])


@settings(max_examples=60)
@given(st.integers(0, 2**31 - 1), st.fractions(0, 7, max_denominator=10**9), st.sampled_from([Turn, Radian]))
def test_angles_are_within_their_bound(position: int, value: Fraction, kind: type[Turn] | type[Radian]) -> None:
    mpmath.mp.prec = 200
    angle = RotaryPhases((kind(value),)).angles(torch.tensor([position]))[0, 0].item()
    exact = mpmath.mpf(value.numerator) / value.denominator * position * (2 * mpmath.pi if kind is Turn else 1)
    difference = (mpmath.mpf(angle) - exact) / (2 * mpmath.pi)
    assert abs(difference - mpmath.nint(difference)) * 2 * mpmath.pi <= ANGLE_ERROR
    assert -math.pi <= angle <= math.pi


def test_a_float_product_would_miss_the_bound() -> None:
    position, value = 2**31 - 1, Fraction(987654321, 10**9)
    naive = (position * float(value)) % 1.0 * 2 * math.pi
    exact = float((value * position) % 1) * 2 * math.pi
    assert abs(naive - exact) > ANGLE_ERROR


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_phases_survive_a_change_of_dtype(dtype: torch.dtype) -> None:
    model = model_of(config())
    positions = torch.tensor([0, 1, 1000, 123456])
    before = model.blocks[0].attention.encoding.column.angles(positions)
    model.to(dtype)
    after = model.blocks[0].attention.encoding.column.angles(positions)
    assert after.dtype == torch.float64 and torch.equal(before, after)
    assert model(torch.tensor([[0, 1, 2, 0]])).dtype == dtype


def test_models_with_different_bases_differ_in_one_process() -> None:
    angles = [
        RotaryPhases(base_grid_frequencies(Fraction(base), 16).row).angles(torch.tensor([5])) for base in (100, 1000)
    ]
    assert torch.equal(angles[0][:, 0], angles[1][:, 0]) and not torch.isclose(angles[0][:, 1:], angles[1][:, 1:]).any()


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(0, 300), st.integers(0, 300), st.integers(0, 10**6))
def test_rotated_products_depend_on_the_difference_alone(seed: int, q: int, k: int, shift: int) -> None:
    phases = RotaryPhases(draw_grid_frequencies(16, seed, 0).row)
    torch.manual_seed(seed)
    x, y = torch.randn(2, 8, dtype=torch.float64)

    def score(at: int, of: int) -> float:
        turned = [rotate(v[None], phases(torch.tensor([p]), torch.float64)) for v, p in ((x, at), (y, of))]
        return float((turned[0] * turned[1]).sum())

    # Each score is within this of the exact one, whatever the machine: `constructions.score_error_bound`.
    weight, unit = float((x.view(4, 2).norm(dim=1) * y.view(4, 2).norm(dim=1)).sum()), 2.0**-53
    error = weight * (2 * 2**0.5 * (ANGLE_ERROR + 2.0**-51 + 5 * unit) + 10 * unit) * (1 + 2.0**-10)
    assert abs(score(q, k) - score(q + shift, k + shift)) <= 2 * error


def test_sub_norm_keeps_zero_and_makes_the_rest_unit_mean_square() -> None:
    from engine._attention import _normalised

    out = _normalised(torch.tensor([[0.0, 0.0], [3.0, 4.0], [1e-300, 0.0]], dtype=torch.float64), True)
    assert out[0].tolist() == [0, 0]
    # Mean, root and product round once each, the square and mean here again.
    assert abs(out[1].square().mean().item() - 1) <= gamma(20)


@pytest.mark.parametrize(
    ("changes", "message"), [({"head_width": 10}, "head_width = 10"), ({"mlp_width": -1}, "mlp_width = -1")]
)
def test_misfits_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Transformer(config(**changes), draw_grid_frequencies(8, 0, 0), None)
    with pytest.raises(InputError, match="frequencies = 1 entries"):
        Transformer(config(), (draw_grid_frequencies(8, 0, 0),), None)
    with pytest.raises(InputError, match="row"):
        GridFrequencies((), (Turn(Fraction(1)),))
