"""Products of layers in fp8 by PyTorch alone, with one scale for each tensor.

Formats are those of Micikevicius et al. 2022 (arXiv:2209.05433): E4M3 for weights and activations, E5M2 for gradients.
The scale is that of the tensor's own largest number. Without compilation it costs more time than fp8 saves.
"""

from __future__ import annotations

from typing import Any

import torch
from megatron.core.models.gpt import GPTModel
from megatron.core.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear
from torch import Tensor

MULTIPLE = 16  # that torch._scaled_mm needs the sizes of a product to be
SMALLEST = 1e-12  # largest number of a tensor of zeros


def scaled(tensor: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return a tensor in fp8, with its largest number at the largest of the format, and the scale that undoes it."""
    largest = torch.finfo(dtype).max
    scale = tensor.abs().amax().float().clamp(min=SMALLEST) / largest
    return (tensor / scale).clamp(-largest, largest).to(dtype), scale


def product(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor], dtype: torch.dtype) -> Tensor:
    """Return the product of a, of shape [N, K], and the transpose of b, of shape [M, K]."""
    return torch._scaled_mm(a[0].contiguous(), b[0].contiguous().t(), scale_a=a[1], scale_b=b[1], out_dtype=dtype)


class Fp8Linear(torch.autograd.Function):
    """Product with a weight, of shape [M, K], forward and backward in fp8."""

    @staticmethod
    def forward(ctx: Any, x_NK: Tensor, weight_MK: Tensor) -> Tensor:
        """Return the product, of shape [N, M], in the precision of the input."""
        x, weight = scaled(x_NK, torch.float8_e4m3fn), scaled(weight_MK, torch.float8_e4m3fn)
        ctx.save_for_backward(*x, *weight)
        return product(x, weight, x_NK.dtype)

    @staticmethod
    def backward(ctx: Any, gradient_NM: Tensor) -> tuple[Tensor, Tensor | None]:  # type: ignore[override]
        """Return the gradients of input and weight; a frozen weight has none."""
        x8_NK, x_scale, weight8_MK, weight_scale = ctx.saved_tensors
        gradient8_NM, scale = scaled(gradient_NM, torch.float8_e5m2)
        of_input = product((gradient8_NM, scale), (weight8_MK.t(), weight_scale), gradient_NM.dtype)
        if not ctx.needs_input_grad[1]:
            return of_input, None
        of_weight = product((gradient8_NM.t(), scale), (x8_NK.t(), x_scale), gradient_NM.dtype)
        return of_input, of_weight


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, **_: Any) -> Tensor:
    """Return the product of a layer, of shape [tokens, sequences, M], as megatron-core's linear layers call it."""
    out: Tensor = Fp8Linear.apply(input.flatten(0, 1), weight).view(*input.shape[:2], -1)
    return out if bias is None else out + bias


def use_in(model: GPTModel) -> None:
    """Let all linear layers in the model's layers multiply in fp8; embedding and output stay as they are."""
    for module in model.decoder.layers.modules():
        if isinstance(module, ColumnParallelLinear | RowParallelLinear):
            module._forward_impl = linear
