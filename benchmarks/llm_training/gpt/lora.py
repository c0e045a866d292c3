"""LoRA: a frozen model, whose linear layers have adapters of two narrow matrices (Hu et al. 2021, arXiv:2106.09685)."""

from __future__ import annotations

from typing import Any

import torch
from megatron.core.models.gpt import GPTModel
from megatron.core.tensor_parallel import mappings
from megatron.core.tensor_parallel.layers import set_tensor_model_parallel_attributes
from megatron.core.transformer.transformer_config import TransformerConfig
from torch import Tensor
from torch.nn import functional

from benchmarks.llm_training.sizes import LORA_RANK

ALPHA, DROPOUT = 32, 0.1  # as in MLPerf Training's LoRA since round 4.0


class Adapter(torch.nn.Module):
    """Product with the matrices A and B, added to the output of a linear layer.

    With tensor parallelism A is split as the layer's input and B as its output. One of them is whole on each device,
    and with sequence parallelism sees a part of the sequence: it is marked, so that megatron-core sums its gradients.
    The devices of a layer have one random state, so that a whole input has the same dropout on each.
    """

    def __init__(self, config: TransformerConfig, weight: Tensor, splits_output: bool) -> None:
        super().__init__()
        outputs, inputs = weight.shape  # on this device
        self.a_RI, self.b_OR = (
            torch.nn.Parameter(torch.empty(size, device=weight.device, dtype=config.params_dtype))
            for size in ((LORA_RANK, inputs), (outputs, LORA_RANK))
        )
        split, whole, dim = (self.b_OR, self.a_RI, 0) if splits_output else (self.a_RI, self.b_OR, 1)
        set_tensor_model_parallel_attributes(split, is_parallel=True, dim=dim, stride=1)
        whole.sequence_parallel = config.sequence_parallel  # type: ignore[attr-defined]
        self._across_devices = {
            (True, False): mappings.copy_to_tensor_model_parallel_region,
            (True, True): mappings.gather_from_sequence_parallel_region,
            (False, False): mappings.reduce_from_tensor_model_parallel_region,
            (False, True): mappings.reduce_scatter_to_sequence_parallel_region,
        }[splits_output, config.sequence_parallel]

    def forward(self, x_TBI: Tensor) -> Tensor:
        """Return what is added to the layer's output, of shape [tokens, sequences, outputs]."""
        inner_TBR = functional.linear(functional.dropout(x_TBI, DROPOUT), self.a_RI)
        return functional.linear(self._across_devices(inner_TBR) * (ALPHA / LORA_RANK), self.b_OR)


def adapt(model: GPTModel, names: tuple[str, ...]) -> None:
    """Freeze all weights, and add an adapter to each linear layer of these names; its weights are not initialised.

    The embedding's output has a gradient, as recomputation needs an input with one.
    """
    model.requires_grad_(False)
    if model.pre_process:
        model.embedding.register_forward_hook(lambda _, __, x_TBD: x_TBD.requires_grad_())
    for layer in model.decoder.layers:
        for name, linear in list(layer.named_modules()):
            kind = name.rpartition(".")[2]
            if kind in names:
                linear.adapter = Adapter(model.config, linear.weight, kind in ("linear_qkv", "linear_fc1"))
                linear.register_forward_hook(_with_adapter)


def _with_adapter(linear: torch.nn.Module, inputs: tuple[Tensor], outputs: tuple[Tensor, Any]) -> tuple[Tensor, Any]:
    adapter: Any = linear.adapter
    return outputs[0] + adapter(*inputs), outputs[1]
