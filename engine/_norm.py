"""RMSNorm with a gain, as torch's, with a gradient in few passes over memory."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


class RMSNorm(nn.RMSNorm):
    """`x / sqrt(mean(x^2) + eps) * gain`, eps the machine epsilon of x; torch's RMSNorm, with its own gradient.

    On a CPU torch differentiates RMSNorm step by step, which takes longer than the attention layer's products.
    """

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """The normalised vectors."""
        if not x.requires_grad or x.dtype != self.weight.dtype:
            return super().forward(x)
        result: Tensor = _RMSNorm.apply(x, self.weight)  # type: ignore[no-untyped-call]
        return result


class _RMSNorm(torch.autograd.Function):
    """With `r = (mean(x^2) + eps)^(-1/2)`, `y = r g x`: `dx = r g dy - x r^3 (dy . g x) / width`, `dg = sum r x dy`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor) -> Tensor:
        mean_square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1])
        scale = mean_square.add_(torch.finfo(x.dtype).eps).rsqrt_()
        ctx.save_for_backward(x, gain, scale)
        y: Tensor = (x * scale).mul_(gain)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, gain, scale = ctx.saved_tensors
        product = gradient * x
        # Mixed precision would round the sums over a whole batch to bfloat16.
        with torch.autocast(x.device.type, enabled=False):
            gain_gradient = scale.reshape(-1) @ product.reshape(-1, x.shape[-1])
            inner = (product @ gain).unsqueeze(-1)
        return (gradient * gain).mul_(scale).addcmul_(x, scale.pow(3) * inner / -x.shape[-1]), gain_gradient
