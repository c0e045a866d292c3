"""TransformerEngine's modules in plain PyTorch, with the names and arguments by which megatron-core knows them.

Written from TransformerEngine's documentation of version 2.6. It computes in the weights' precision, and counts in
`fp8_passes` the products that would have been made in fp8.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

fp8_passes = 0
_in_fp8 = False


def _parallel(weight: nn.Parameter, split_dim: int | None) -> nn.Parameter:
    """Marked as TransformerEngine marks the weights that tensor parallelism shares out."""
    weight.tensor_model_parallel = split_dim is not None  # type: ignore[attr-defined]
    weight.partition_dim = -1 if split_dim is None else split_dim  # type: ignore[attr-defined]
    weight.partition_stride = 1  # type: ignore[attr-defined]
    return weight


class Linear(nn.Module):
    """Of one device: `parallel_mode` "column" splits the outputs, "row" the inputs."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        sequence_parallel: bool,
        fuse_wgrad_accumulation: bool,
        tp_group: Any,
        tp_size: int,
        get_rng_state_tracker: Any,
        init_method: Callable[[Tensor], Any],
        bias: bool,
        return_bias: bool,
        parallel_mode: str | None,
        params_dtype: torch.dtype,
        device: Any = None,
        rng_tracker_name: str | None = None,
        ub_name: str | None = None,
    ) -> None:
        super().__init__()
        assert tp_size == 1, "the stand-in is one device's"
        split_dim = {"column": 0, "row": 1, None: None}[parallel_mode]
        made = {"dtype": params_dtype, "device": device}
        self.weight = _parallel(nn.Parameter(torch.empty(out_features, in_features, **made)), split_dim)
        self.bias = _parallel(
            nn.Parameter(torch.zeros(out_features if bias else 0, **made)), 0 if parallel_mode == "column" else None
        )
        self.return_bias = return_bias

    def forward(self, x: Tensor, is_first_microbatch: bool | None = None) -> Any:
        global fp8_passes
        fp8_passes += _in_fp8
        if self.return_bias:
            return functional.linear(x, self.weight), self.bias
        return functional.linear(x, self.weight, self.bias if len(self.bias) else None)


class LayerNormLinear(Linear):
    """A norm and a product, whose result alone is returned."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        eps: float,
        return_layernorm_output: bool,
        zero_centered_gamma: bool,
        normalization: str,
        **options: Any,
    ) -> None:
        assert normalization == "LayerNorm" and not (return_layernorm_output or zero_centered_gamma)
        super().__init__(in_features, out_features, **options)
        made = {"dtype": options["params_dtype"], "device": options.get("device")}
        self.eps = eps
        self.layer_norm_weight = nn.Parameter(torch.ones(in_features, **made))
        self.layer_norm_bias = nn.Parameter(torch.zeros(in_features, **made))

    def forward(self, x: Tensor, is_first_microbatch: bool | None = None) -> Any:
        normed = functional.layer_norm(x, x.shape[-1:], self.layer_norm_weight, self.layer_norm_bias, self.eps)
        return super().forward(normed, is_first_microbatch)


class LayerNorm(nn.LayerNorm):
    def __init__(
        self,
        hidden_size: int,
        eps: float,
        sequence_parallel: bool,
        zero_centered_gamma: bool,
        params_dtype: torch.dtype,
        device: Any = None,
    ) -> None:
        super().__init__(hidden_size, eps, dtype=params_dtype, device=device)


class DotProductAttention(nn.Module):
    """Causal attention; queries, keys and values of shape [tokens, batch, heads, head size]."""

    def __init__(self, num_attention_heads: int, kv_channels: int, *, attn_mask_type: str, **options: Any) -> None:
        super().__init__()
        assert attn_mask_type == "causal"

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: None, *, attn_mask_type: str) -> Tensor:
        assert attn_mask_type == "causal"
        q, k, v = (tensor.permute(1, 2, 0, 3) for tensor in (query, key, value))
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True).permute(2, 0, 1, 3)
        return out.reshape(*out.shape[:2], -1)


def apply_rotary_pos_emb(
    t: Tensor, freqs: Tensor, tensor_format: str, interleaved: bool = False, fused: bool = False
) -> Tensor:
    """Rotary positions; `t` of shape [tokens, batch, heads, head size]."""
    assert tensor_format == "sbhd" and fused and not interleaved
    angle = freqs[: len(t)]
    first, second = t.chunk(2, dim=-1)
    return (t * angle.cos() + torch.cat([-second, first], dim=-1) * angle.sin()).to(t.dtype)


@contextmanager
def fp8_autocast(
    enabled: bool = True, fp8_recipe: Any = None, fp8_group: Any = None, calibrating: bool = False
) -> Iterator[None]:
    """Products within are made in fp8."""
    global _in_fp8
    before, _in_fp8 = _in_fp8, enabled
    try:
        yield
    finally:
        _in_fp8 = before


class FP8GlobalStateManager:
    @staticmethod
    def is_fp8_enabled() -> bool:
        return _in_fp8


class DelayedScaling:
    """The recipe: which formats, and over how many steps the largest values are looked at."""

    def __init__(
        self, *, margin: int, fp8_format: Any, amax_compute_algo: str, amax_history_len: int, **_: Any
    ) -> None:
        self.fp8_format, self.amax_history_len = fp8_format, amax_history_len


class Unused:
    """A base for classes of megatron-core that are not used here."""


def install() -> None:
    """Make `import transformer_engine` find the stand-in."""

    def module(name: str, **members: Any) -> ModuleType:
        made = ModuleType(name)
        made.__path__ = []  # a package
        vars(made).update(members)
        sys.modules[name] = made
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, made)
        return made

    module("transformer_engine", __version__="2.6.0")
    module("transformer_engine.common")
    formats = type("Format", (), {"E4M3": "e4m3", "HYBRID": "hybrid"})
    module("transformer_engine.common.recipe", DelayedScaling=DelayedScaling, Format=formats)
    module(
        "transformer_engine.pytorch",
        Linear=Linear,
        LayerNormLinear=LayerNormLinear,
        LayerNorm=LayerNorm,
        RMSNorm=Unused,
        DotProductAttention=DotProductAttention,
        GroupedLinear=Unused,
        fp8_autocast=fp8_autocast,
    )
    module(
        "transformer_engine.pytorch.fp8",
        FP8GlobalStateManager=FP8GlobalStateManager,
        fp8_autocast=fp8_autocast,
        fp8_model_init=nullcontext,
    )
    module(
        "transformer_engine.pytorch.distributed",
        CudaRNGStatesTracker=Unused,
        activation_recompute_forward=Unused,
        checkpoint=Unused,
    )
    module("transformer_engine.pytorch.ops", Sequential=Unused, FusibleOperation=Unused)
    module("transformer_engine.pytorch.tensor", QuantizedTensor=Unused)
    module("transformer_engine.pytorch.tensor.utils", replace_raw_data=Unused, cast_master_weights_to_fp8=Unused)
    module("transformer_engine.pytorch.tensor.float8_tensor", Float8Tensor=Unused)
    module("transformer_engine.pytorch.attention")
    module("transformer_engine.pytorch.attention.rope", apply_rotary_pos_emb=apply_rotary_pos_emb)
