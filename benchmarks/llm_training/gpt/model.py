"""GPT model from megatron-core's parts."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.extensions.transformer_engine import TENorm
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import (
    get_gpt_layer_local_spec,
    get_gpt_layer_with_transformer_engine_spec,
)
from megatron.core.transformer.module import MegatronModule
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules, get_num_layers_to_build
from megatron.core.transformer.transformer_config import TransformerConfig
from torch import Tensor

from benchmarks.llm_training.config import INIT_STD, Layout, ModelSize
from benchmarks.llm_training.gpt.kernels import PLAIN, Kernels


class CoreAttention(MegatronModule):
    """Causal attention by PyTorch's scaled_dot_product_attention, which chooses the device's fastest kernel."""

    def __init__(self, config: TransformerConfig, **_: Any) -> None:
        super().__init__(config=config)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> Tensor:
        """Return the output of attention, of shape [tokens, sequences, hidden of this device]."""
        # T tokens, B sequences, H heads of this device, K = D // H
        q_BHTK, k_BHTK, v_BHTK = (tensor_TBHK.permute(1, 2, 0, 3) for tensor_TBHK in (query, key, value))
        out_BHTK = torch.nn.functional.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTK, is_causal=True)
        out_TBHK = out_BHTK.permute(2, 0, 1, 3)
        return out_TBHK.reshape(*out_TBHK.shape[:2], -1)


class Norm(torch.nn.LayerNorm):
    """PyTorch's LayerNorm for megatron-core, whose own refuses sequence parallelism.

    With sequence parallelism each rank has a part of the sequence; the weights are marked, so that megatron-core sums
    their gradients.
    """

    def __init__(self, config: TransformerConfig, hidden_size: int, eps: float = 1e-5, **_: Any) -> None:
        # GPUs normalise only in the weights' own precision.
        super().__init__(hidden_size, eps, device=torch.cuda.current_device(), dtype=config.params_dtype)
        for parameter in self.parameters():
            parameter.sequence_parallel = config.sequence_parallel  # type: ignore[attr-defined]


def transformer_config(
    shape: ModelSize,
    layout: Layout,
    dtype: torch.dtype,
    on_gpu: bool,
    sequence_parallel: bool = False,
    recompute: str = "none",
    kernels: Kernels = PLAIN,
    fp8: bool = False,
) -> TransformerConfig:
    """Return megatron-core's configuration of the model: GPT-2's layers, without dropout."""
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
        ffn_hidden_size=shape.ffn_hidden_size,
        tensor_model_parallel_size=layout.tensor_parallel_size,
        pipeline_model_parallel_size=layout.pipeline_parallel_size,
        sequence_parallel=sequence_parallel,
        **recomputation[recompute],
        pipeline_dtype=dtype,
        params_dtype=dtype,
        bf16=dtype is torch.bfloat16,
        fp16=dtype is torch.float16,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        init_method=_leave_as_is,  # initialise_weights follows
        output_layer_init_method=_leave_as_is,
        use_cpu_initialization=not on_gpu,
        gradient_accumulation_fusion=kernels.fused_gradients,
        masked_softmax_fusion=False,  # the attention with it is not used
        bias_dropout_fusion=fused,
        bias_activation_fusion=fused,
        cross_entropy_loss_fusion=fused and dtype is torch.bfloat16,  # its gradients have this type only
        apply_rope_fusion=kernels.layers == "transformer-engine",
        fp8="hybrid" if fp8 else None,
    )


def _leave_as_is(weight: Tensor) -> Tensor:
    return weight


def build_model(
    config: TransformerConfig, shape: ModelSize, sequence_length: int, seed: int, kernels: Kernels = PLAIN
) -> GPTModel:
    """Return this rank's part of the model, on the CPU or the current GPU, with its weights initialised."""
    norm: type = Norm
    if kernels.layers == "transformer-engine":
        spec, norm = get_gpt_layer_with_transformer_engine_spec(), TENorm
    else:
        spec = get_gpt_layer_local_spec()
        spec.submodules.self_attention.submodules.core_attention = CoreAttention
        spec.submodules.input_layernorm = spec.submodules.pre_mlp_layernorm = Norm
    model = GPTModel(
        config=config,
        transformer_layer_spec=TransformerBlockSubmodules([spec] * get_num_layers_to_build(config), norm),
        vocab_size=shape.padded_vocab_size,
        max_sequence_length=sequence_length,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=True,
        position_embedding_type="rope",
    )
    initialise_weights(model, shape, seed)
    if kernels.compile == "layers":
        for layer in model.decoder.layers:
            layer.compile()
    return model


@torch.no_grad()
def initialise_weights(model: GPTModel, shape: ModelSize, seed: int) -> None:
    """Initialise the weights as GPT-2, identically for every layout: each weight has its own random stream.

    Normal with deviation 0.02, divided by sqrt(2 x layers) if a block writes to the residual stream (Radford
    et al. 2019, section 2.3); biases 0, norms 1.
    """
    tensor_rank = parallel_state.get_tensor_model_parallel_rank()
    tensor_size = parallel_state.get_tensor_model_parallel_world_size()
    first_layer = model.decoder.layers[0].layer_number - 1 if model.decoder.layers else 0
    for name, weight in model.named_parameters():
        if weight.dim() == 1:
            weight.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
            continue
        generator = torch.Generator(weight.device)
        generator.manual_seed(_stream(seed, _global_name(name, first_layer)))
        whole_shape = list(weight.shape)
        split_dim = weight.partition_dim if getattr(weight, "tensor_model_parallel", False) else None
        if split_dim is not None:
            whole_shape[split_dim] *= tensor_size
        writes_residual = name.endswith(("linear_proj.weight", "linear_fc2.weight"))
        std = INIT_STD / math.sqrt(2 * shape.num_layers) if writes_residual else INIT_STD
        whole = torch.empty(whole_shape, device=weight.device).normal_(0.0, std, generator=generator)
        weight.copy_(whole if split_dim is None else whole.chunk(tensor_size, dim=split_dim)[tensor_rank])


def _global_name(name: str, first_layer: int) -> str:
    """Return a parameter's name in the whole model; the pipeline stage has the layers from `first_layer` on."""
    parts = name.split(".")
    if "layers" in parts:
        at = parts.index("layers") + 1
        parts[at] = str(int(parts[at]) + first_layer)
    if parts[0] == "output_layer":  # on the last stage the tied embedding has this name
        return "embedding.word_embeddings.weight"
    return ".".join(parts)


def _stream(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:7], "big")


def positions(micro_batch_size: int, sequence_length: int, device: torch.device) -> Tensor:
    """Return the position of each token in its sequence, of shape [micro_batch_size, sequence_length]."""
    return torch.arange(sequence_length, device=device).expand(micro_batch_size, -1)
