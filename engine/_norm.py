"""RMSNorm with a gain, as torch's, with a gradient in few passes over memory."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from theory import InputError

#: The epsilon of every norm where none is given: a number, not a default that depends on a dtype. It is float32's
#: machine epsilon, with which torch computes in float32, bfloat16 and float16 where it is given none.
NORM_EPSILON = 2.0**-23


def require_epsilon(value: float) -> float:
    """`value` as a float, or InputError if it is no epsilon of a norm."""
    if not 0 <= value < inf:
        raise InputError("norm_epsilon", value, "a finite number >= 0")
    return float(value)


def stored_epsilon(norm: nn.Module) -> Fraction | None:
    """The epsilon that a norm is stored with, exact; None where the module is no norm.

    Raises:
        InputError: none, or not a number >= 0: torch would take one that depends on the dtype of its input.
    """
    if not isinstance(norm, nn.RMSNorm):
        return None
    if norm.eps is None:
        raise InputError("norm_epsilon", "none", "a finite number >= 0, stored")
    return Fraction(require_epsilon(norm.eps))


class RMSNorm(nn.RMSNorm):
    """`x / sqrt(mean(x^2) + eps) * gain`; torch's RMSNorm with an explicit epsilon, and with its own gradient.

    On a CPU torch differentiates RMSNorm step by step, which takes longer than the attention layer's products. In
    bfloat16 and float16 torch's own is used with and without a gradient: it computes in float32.

    Args:
        width: number of coordinates.
        eps: a finite number >= 0, the same whatever dtype the module is cast to.

    Raises:
        InputError: another epsilon.
    """

    def __init__(self, width: int, eps: float = NORM_EPSILON) -> None:
        super().__init__(width, eps=require_epsilon(eps))

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """The normalised vectors."""
        own = x.dtype == self.weight.dtype and x.dtype in (torch.float32, torch.float64)
        if not (own and x.requires_grad):
            return super().forward(x)
        result: Tensor = _RMSNorm.apply(x, self.weight, self.eps)  # type: ignore[no-untyped-call]
        return result


class _RMSNorm(torch.autograd.Function):
    """With `r = (mean(x^2) + eps)^(-1/2)`, `y = r g x`: `dx = r g dy - x r^3 (dy . g x) / width`, `dg = sum r x dy`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, eps: float) -> Tensor:
        mean_square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1])
        scale = mean_square.add_(eps).rsqrt_()
        ctx.save_for_backward(x, gain, scale)
        y: Tensor = (x * scale).mul_(gain)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, gain, scale = ctx.saved_tensors
        product = gradient * x
        # Mixed precision would round the sums over a whole batch to bfloat16.
        with torch.autocast(x.device.type, enabled=False):
            gain_gradient = scale.reshape(-1) @ product.reshape(-1, x.shape[-1])
            inner = (product @ gain).unsqueeze(-1)
        return (gradient * gain).mul_(scale).addcmul_(x, scale.pow(3) * inner / -x.shape[-1]), gain_gradient, None
