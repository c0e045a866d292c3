"""GPT model from megatron-core's parts."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.extensions.transformer_engine import TEColumnParallelLinear, TENorm
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import (
    get_gpt_layer_local_spec,
    get_gpt_layer_with_transformer_engine_spec,
)
from megatron.core.tensor_parallel.mappings import gather_from_sequence_parallel_region
from megatron.core.transformer.module import MegatronModule
from megatron.core.transformer.moe import moe_utils
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules, get_num_layers_to_build
from megatron.core.transformer.transformer_config import TransformerConfig
from megatron.core.transformer.transformer_layer import TransformerLayerSubmodules
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right

from benchmarks.llm_training.config import INIT_STD, Layout
from benchmarks.llm_training.gpt import fp8, lora
from benchmarks.llm_training.gpt.kernels import FP8_BY_TORCH, PLAIN, RECIPES, Kernels
from benchmarks.llm_training.sizes import ModelSize

BALANCE = 0.01  # weight of the loss that balances experts: Fedus et al. 2021, arXiv:2101.03961, section 2.2
GATED: dict[str, Any] = {
    "normalization": "RMSNorm",
    "gated_linear_unit": True,
    "activation_func": functional.silu,
    "add_bias_linear": False,
}
WRITES_RESIDUAL = r"(linear_proj|linear_fc2)\.weight\d*$"


class CoreAttention(MegatronModule):
    """Causal attention by PyTorch's scaled_dot_product_attention, which chooses the device's fastest kernel.

    With context parallelism each of C devices has two parts of the sequence, the r-th from either end, and gathers
    the keys and values of all others (Grattafiori et al. 2024, arXiv:2407.21783, section 3.3.2).
    """

    def __init__(self, config: TransformerConfig, **_: Any) -> None:
        super().__init__(config=config)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> Tensor:
        """Return the output of attention, of shape [tokens, sequences, hidden of this device]."""
        # T tokens, B sequences, H heads of this device, K = D // H
        attend = partial(functional.scaled_dot_product_attention, enable_gqa=query.shape[2] != key.shape[2])
        size = self.config.context_parallel_size
        if size == 1:
            q_BHTK, k_BHTK, v_BHTK = (tensor_TBHK.permute(1, 2, 0, 3) for tensor_TBHK in (query, key, value))
            out_TBHK = attend(q_BHTK, k_BHTK, v_BHTK, is_causal=True).permute(2, 0, 1, 3)
            return out_TBHK.reshape(*out_TBHK.shape[:2], -1)
        group = parallel_state.get_context_parallel_group()
        k_TBHK, v_TBHK = (
            in_order(gather_from_sequence_parallel_region(own, group=group).chunk(size)) for own in (key, value)
        )
        rank, part = parallel_state.get_context_parallel_rank(), len(query) // 2
        out = []
        for number, q_TBHK in zip((rank, 2 * size - 1 - rank), query.chunk(2), strict=True):
            seen = part * (number + 1)
            q_BHTK, k_BHTK, v_BHTK = (t.permute(1, 2, 0, 3) for t in (q_TBHK, k_TBHK[:seen], v_TBHK[:seen]))
            out_BHTK = attend(q_BHTK, k_BHTK, v_BHTK, causal_lower_right(part, seen))
            out.append(out_BHTK.permute(2, 0, 1, 3))
        out_TBHK = torch.cat(out)
        return out_TBHK.reshape(*out_TBHK.shape[:2], -1)


def in_order(parts: Sequence[Tensor]) -> Tensor:
    """Return a sequence whose parts each have the r-th half from the beginning and the r-th from the end."""
    halves = [part.chunk(2) for part in parts]
    return torch.cat([first for first, _ in halves] + [second for _, second in reversed(halves)])


def own_tokens(tokens_BT: Tensor, rank: int, size: int) -> Tensor:
    """Return the two parts of each sequence, along its last dimension, that a rank has of `size` ranks."""
    parts = tokens_BT.chunk(2 * size, dim=-1)
    return torch.cat([parts[rank], parts[2 * size - 1 - rank]], dim=-1)


class Norm:
    """PyTorch's norm for megatron-core, whose own LayerNorm refuses sequence parallelism.

    With sequence parallelism each rank has a part of the sequence; the weights are marked, so that megatron-core sums
    their gradients.
    """

    def __new__(cls, config: TransformerConfig, hidden_size: int, eps: float = 1e-5, **_: Any) -> torch.nn.Module:  # type: ignore[misc]
        """Return RMSNorm or LayerNorm, in the weights' own precision: GPUs normalise in no other."""
        kind = torch.nn.RMSNorm if config.normalization == "RMSNorm" else torch.nn.LayerNorm
        norm: torch.nn.Module = kind(hidden_size, eps, device=torch.cuda.current_device(), dtype=config.params_dtype)
        for parameter in norm.parameters():
            parameter.sequence_parallel = config.sequence_parallel  # type: ignore[attr-defined]
        return norm


def transformer_config(
    shape: ModelSize,
    layout: Layout,
    dtype: torch.dtype,
    on_gpu: bool,
    sequence_parallel: bool = False,
    recompute: str = "none",
    kernels: Kernels = PLAIN,
) -> TransformerConfig:
    """Return megatron-core's configuration of the model, without dropout."""
    fused = kernels.compile != "off"
    recomputation: dict[str, dict[str, Any]] = {
        "none": {},
        "selective": {"recompute_granularity": "selective", "recompute_modules": ["core_attn"]},
        "full": {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1},
    }
    return TransformerConfig(
        num_layers=shape.num_layers,
        hidden_size=shape.hidden_size,
        num_attention_heads=shape.num_heads,
        num_query_groups=shape.groups,
        kv_channels=shape.head_width,
        ffn_hidden_size=shape.ffn_hidden_size,
        **GATED if shape.gated else {},
        **_experts(shape, layout, kernels) if shape.experts else {},
        tensor_model_parallel_size=layout.tensor_parallel_size,
        pipeline_model_parallel_size=layout.pipeline_parallel_size,
        context_parallel_size=layout.context_parallel_size,
        sequence_parallel=sequence_parallel,
        **recomputation[recompute],
        pipeline_dtype=dtype,
        params_dtype=dtype,
        bf16=dtype is torch.bfloat16,
        fp16=dtype is torch.float16,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        init_method=lambda weight: weight,  # initialise_weights follows
        output_layer_init_method=lambda weight: weight,
        use_cpu_initialization=not on_gpu,
        gradient_accumulation_fusion=kernels.fused_gradients,
        masked_softmax_fusion=False,  # the attention with it is not used
        bias_dropout_fusion=fused,
        bias_activation_fusion=fused,
        cross_entropy_loss_fusion=fused and dtype is torch.bfloat16,  # its gradients have this type only
        apply_rope_fusion=kernels.layers == "transformer-engine",
        **RECIPES[kernels.recipe].settings if kernels.recipe else {},
    )


def _experts(shape: ModelSize, layout: Layout, kernels: Kernels) -> dict[str, Any]:
    return {
        "num_moe_experts": shape.experts,
        "moe_ffn_hidden_size": shape.ffn_hidden_size,
        "moe_router_topk": shape.top_k,
        "moe_shared_expert_intermediate_size": shape.shared_ffn_size or None,
        "moe_aux_loss_coeff": BALANCE,
        "moe_token_dispatcher_type": "alltoall",  # no token is dropped
        "moe_grouped_gemm": kernels.layers == "transformer-engine",
        "expert_model_parallel_size": layout.expert_parallel_size,
        "expert_tensor_parallel_size": 1,
    }


def build_model(
    config: TransformerConfig, shape: ModelSize, sequence_length: int, seed: int, kernels: Kernels = PLAIN
) -> GPTModel:
    """Return this rank's part of the model, on the CPU or the current GPU, with its weights initialised."""
    norm: type = Norm
    experts = shape.experts or None
    if not hasattr(moe_utils, "te_general_gemm"):  # without TransformerEngine 0.16.1 uses this name all the same
        moe_utils.te_general_gemm = None
    if kernels.layers == "transformer-engine":
        norm = TENorm
        spec = get_gpt_layer_with_transformer_engine_spec(num_experts=experts, moe_grouped_gemm=bool(experts))
        _split_norms(spec.submodules, shape.adapted)
    else:
        spec = get_gpt_layer_local_spec(num_experts=experts, normalization=config.normalization)
        spec.submodules.self_attention.submodules.core_attention = CoreAttention
        spec.submodules.input_layernorm = spec.submodules.pre_mlp_layernorm = Norm
    model = GPTModel(
        config=config,
        transformer_layer_spec=TransformerBlockSubmodules([spec] * get_num_layers_to_build(config), norm),
        vocab_size=shape.padded_vocab_size,
        max_sequence_length=sequence_length,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=shape.embeddings == 1,
        position_embedding_type="rope",
        rotary_base=shape.rotary_base,
    )
    if shape.adapted:
        lora.adapt(model, shape.adapted)
    initialise_weights(model, shape, seed)
    if kernels.fp8 == FP8_BY_TORCH:
        fp8.use_in(model)
    if kernels.compile == "layers":
        for layer in model.decoder.layers:
            layer.compile()
    return model


def _split_norms(layer: TransformerLayerSubmodules, adapted: tuple[str, ...]) -> None:
    """Take the norm out of TransformerEngine's adapted layers: an adapter has the input after the norm."""
    if "linear_qkv" in adapted:
        layer.input_layernorm, layer.self_attention.submodules.linear_qkv = TENorm, TEColumnParallelLinear
    if "linear_fc1" in adapted:
        layer.pre_mlp_layernorm, layer.mlp.submodules.linear_fc1 = TENorm, TEColumnParallelLinear


@torch.no_grad()
def initialise_weights(model: GPTModel, shape: ModelSize, seed: int) -> None:
    """Initialise the weights as GPT-2, identically for every layout: each weight has its own random stream.

    Normal with deviation 0.02, divided by sqrt(2 x layers) if a block writes to the residual stream (Radford
    et al. 2019, section 2.3); biases 0, norms 1, and the second matrix of an adapter 0.
    """
    tensor_rank = parallel_state.get_tensor_model_parallel_rank()
    tensor_size = parallel_state.get_tensor_model_parallel_world_size()
    first_layer = model.decoder.layers[0].layer_number - 1 if model.decoder.layers else 0
    first_expert = (
        shape.experts // model.config.expert_model_parallel_size * parallel_state.get_expert_model_parallel_rank()
    )
    tied = shape.embeddings == 1
    for name, weight in model.named_parameters():
        if weight.dim() == 1 or name.endswith("adapter.b_OR"):
            weight.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
            continue
        generator = torch.Generator(weight.device)
        generator.manual_seed(_stream(seed, global_name(name, first_layer, first_expert, tied)))
        is_split = getattr(weight, "tensor_model_parallel", False) and getattr(weight, "allreduce", True)
        size, rank = (tensor_size, tensor_rank) if is_split else (1, 0)
        whole_shape = list(weight.shape)
        split_dim = weight.partition_dim if is_split else 0
        whole_shape[split_dim] *= size
        std = INIT_STD / math.sqrt(2 * shape.num_layers) if re.search(WRITES_RESIDUAL, name) else INIT_STD
        whole = torch.empty(whole_shape, device=weight.device).normal_(0.0, std, generator=generator)
        # Each device of a gated network has a part of the gate, and then one of what it gates.
        halves = whole.chunk(2) if shape.gated and "linear_fc1" in name else [whole]
        weight.copy_(torch.cat([half.chunk(size, dim=split_dim)[rank] for half in halves]))


def global_name(name: str, first_layer: int, first_expert: int, tied: bool) -> str:
    """Return a parameter's name in the whole model; this rank has layers and experts from the first given ones on."""
    name = re.sub(r"(?<=layers\.)\d+", lambda layer: str(int(layer[0]) + first_layer), name)
    name = re.sub(r"linear_(fc\d)\.weight(\d+)$", r"local_experts.\2.linear_\1.weight", name)
    name = re.sub(r"(?<=local_experts\.)\d+", lambda expert: str(int(expert[0]) + first_expert), name)
    if tied and name.startswith("output_layer"):  # on the last stage the tied embedding has this name
        return "embedding.word_embeddings.weight"
    return name


def _stream(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:7], "big")


def positions(micro_batch_size: int, sequence_length: int, device: torch.device) -> Tensor:
    """Return the position of each token in its sequence, of shape [micro_batch_size, sequence_length]."""
    return torch.arange(sequence_length, device=device).expand(micro_batch_size, -1)
