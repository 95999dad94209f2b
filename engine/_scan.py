"""First-order linear recurrences over a sequence, in O(log length) parallel steps, forwards and for gradients."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


def affine_scan(
    factors: Float[Tensor, "*batch length"], offsets: Float[Tensor, "*batch length"]
) -> Float[Tensor, "*batch length"]:
    """`y_t = factors_t y_{t-1} + offsets_t` with `y_{-1} = 0`, differentiable once in both arguments.

    The maps `y -> a y + b` are composed over spans of 1, 2, 4, ... tokens (Hillis and Steele's scan). Whole numbers
    and factors 0 and 1 stay exact up to 2^53 in float64, 2^24 in float32. The gradient is the same scan run backwards:
    with `r_t = grad_t + factors_{t+1} r_{t+1}`, offsets get r_t and factors get `r_t y_{t-1}`.
    Cost: O(length log length) work, O(length) memory.
    """
    result: Tensor = _AffineScan.apply(factors, offsets)  # type: ignore[no-untyped-call]
    return result


class _AffineScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, factors: Tensor, offsets: Tensor) -> Tensor:
        values = _scan(factors, offsets)
        ctx.save_for_backward(factors, values)
        return values

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        factors, values = ctx.saved_tensors
        following = torch.cat([factors[..., 1:], torch.zeros_like(factors[..., :1])], dim=-1)
        reverse = _scan(following.flip(-1), gradient.flip(-1)).flip(-1)
        before = torch.cat([torch.zeros_like(values[..., :1]), values[..., :-1]], dim=-1)
        return reverse * before, reverse


def _scan(factors: Tensor, offsets: Tensor) -> Tensor:
    span = 1
    while span < factors.shape[-1]:
        head, tail = offsets[..., :span], offsets[..., span:] + factors[..., span:] * offsets[..., :-span]
        factors = torch.cat([factors[..., :span], factors[..., span:] * factors[..., :-span]], dim=-1)
        offsets = torch.cat([head, tail], dim=-1)
        span *= 2
    return offsets
