"""Choose a run's kernels, from the options and the installed software."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import warnings
from dataclasses import dataclass

import torch
from megatron.core.extensions.transformer_engine import HAVE_TE
from megatron.core.tensor_parallel.layers import _grad_accum_fusion_available
from torch.nn.attention import SDPBackend

from benchmarks.common.options import ConfigError
from benchmarks.llm_training.config import Config, Layout
from benchmarks.llm_training.gpt import fp8
from benchmarks.on_pytorch.target import Target

FP8_CAPABILITY = (9, 4) if torch.version.hip else (8, 9)  # of the first GPUs with fp8, of AMD or NVIDIA
OWN_ENCODINGS = (9, 5)  # AMD's GPUs below have fp8 with encodings of their own, which fp8.py does not use
FP8_BY_TORCH = "torch._scaled_mm, per tensor"
GRAPH_WARMUP_STEPS = 2  # one without capture, one to capture


@dataclass(frozen=True)
class Kernels:
    """Kernels chosen for a run, as the record stores them."""

    layers: str  # "megatron" or "transformer-engine"
    compile: str  # "off", "parts" or "layers"
    attention: str
    cuda_graph: bool
    fused_gradients: bool  # the matrix product accumulates weight gradients
    fp8: str = ""  # source of products in fp8: "torch._scaled_mm, per tensor", "transformer-engine", or empty


PLAIN = Kernels("megatron", "off", "auto", cuda_graph=False, fused_gradients=False)


def choose_kernels(config: Config, target: Target, layout: Layout) -> Kernels:
    """Return the kernels for this device; raises ConfigError if a requested one is unavailable."""
    asked = config.kernels
    layers = asked.layers
    if layers == "auto":
        layers = "transformer-engine" if HAVE_TE and target.on_gpu else "megatron"
    elif layers == "transformer-engine" and not HAVE_TE:
        raise ConfigError("--layers transformer-engine was asked for, but TransformerEngine is not installed")
    if target.precision == "fp8":
        _check_fp8(layers, config, layout, config.parallel.micro_batch_size or config.model.shape.micro_batch_size)
    fp8_source = "" if target.precision != "fp8" else layers if layers == "transformer-engine" else FP8_BY_TORCH
    return Kernels(
        layers,
        _choose_compile(asked.compile, layers, target),
        _choose_attention(config, layers, target, layout),
        _choose_cuda_graph(config, target),
        target.on_gpu and _grad_accum_fusion_available and fp8_source != FP8_BY_TORCH,
        fp8_source,
    )


def _check_fp8(layers: str, config: Config, layout: Layout, micro_batch_size: int) -> None:
    if torch.cuda.get_device_capability() < FP8_CAPABILITY:
        raise ConfigError(
            f"--precision fp8 was asked for, but {torch.cuda.get_device_name()} has none: use bf16, or fp16"
        )
    if layers == "transformer-engine":
        return
    tokens = config.model.tokens_per_sample // layout.context_parallel_size * micro_batch_size
    has_own = bool(torch.version.hip) and torch.cuda.get_device_capability() < OWN_ENCODINGS
    for why, is_so in (
        ("tensor parallelism", layout.tensor_parallel_size > 1),
        ("experts", config.model.shape.experts > 0),
        ("this GPU's encodings", has_own),
        (
            f"micro batches of {tokens} tokens on a device, which {fp8.MULTIPLE} does not divide,",
            tokens % fp8.MULTIPLE > 0,
        ),
    ):
        if is_so:
            raise ConfigError(f"--precision fp8 with {why} needs the layers of TransformerEngine: use bf16")


def _choose_compile(asked: str, layers: str, target: Target) -> str:
    if asked == "off":
        return asked
    if asked == "layers" and layers == "transformer-engine":
        raise ConfigError(
            "--compile layers needs --layers megatron, as TransformerEngine's layers are compiled already"
        )
    missing = _missing_compiler(target)
    if asked == "auto":
        return "parts" if target.on_gpu and not missing else "off"
    if missing:
        raise ConfigError(f"--compile {asked} needs {missing}, which is not installed: add it, or use --compile off")
    if asked == "layers":
        # A warning inside a layer would split its graph.
        torch._dynamo.config.ignore_logger_methods.add(warnings.warn)
        # PyTorch 2.11 cannot count that in its own statistics, and logs a traceback for each layer.
        logging.getLogger("torch._dynamo.metrics_context").setLevel(logging.CRITICAL)
    return asked


def _missing_compiler(target: Target) -> str:
    """Return the name of what torch.compile lacks on this machine, or an empty string."""
    if target.on_gpu and importlib.util.find_spec("triton") is None:
        return "Triton"
    compilers = ("cc", "gcc", "clang") if target.on_gpu else ("c++", "g++", "clang++")
    named = os.environ.get("CC" if target.on_gpu else "CXX")
    if not any(map(shutil.which, (named,) if named else compilers)):
        return "a C compiler" if target.on_gpu else "a C++ compiler"
    return ""


def _choose_attention(config: Config, layers: str, target: Target, layout: Layout) -> str:
    """Select the kernel of PyTorch's attention, and return its name; TransformerEngine has its own."""
    asked, shape = config.kernels.attention, config.model.shape
    if layers == "transformer-engine":
        if asked != "auto":
            raise ConfigError("--attention needs --layers megatron, as TransformerEngine chooses its own: leave it out")
        return layers
    kernels = {
        "math": (SDPBackend.MATH, torch.backends.cuda.enable_math_sdp),
        "flash": (SDPBackend.FLASH_ATTENTION, torch.backends.cuda.enable_flash_sdp),
        "efficient": (SDPBackend.EFFICIENT_ATTENTION, torch.backends.cuda.enable_mem_efficient_sdp),
        "cudnn": (SDPBackend.CUDNN_ATTENTION, torch.backends.cuda.enable_cudnn_sdp),
    }
    if asked != "auto":
        for name, (_, enable) in kernels.items():
            enable(asked == name)
    q_BHTK, k_BHTK = (
        torch.empty(
            (1, heads // layout.tensor_parallel_size, config.model.tokens_per_sample, shape.head_width),
            dtype=target.dtype,
            device=target.device,
            requires_grad=True,
        )
        for heads in (shape.num_heads, shape.groups)
    )
    try:
        chosen = torch._fused_sdp_choice(
            q_BHTK, k_BHTK, k_BHTK, is_causal=True, enable_gqa=shape.groups < shape.num_heads
        )
    except RuntimeError as error:
        raise ConfigError(
            f"--attention {asked} was asked for, but PyTorch has no such kernel here for heads of "
            f"{shape.head_width} in {target.precision}: use --attention auto"
        ) from error
    return next((name for name, (backend, _) in kernels.items() if backend.value == chosen), "other")


def _choose_cuda_graph(config: Config, target: Target) -> bool:
    if config.kernels.cuda_graph == "off":
        return False
    if not target.on_gpu:
        raise ConfigError("--cuda-graph on needs a GPU: use --cuda-graph off")
    if target.precision not in ("bf16", "fp32"):
        raise ConfigError(f"--cuda-graph on is for bf16 and fp32: {target.precision} changes its scales between steps")
    if config.parallel.recompute != "none":
        raise ConfigError(
            f"--cuda-graph on does not work with --recompute {config.parallel.recompute}: use --recompute none"
        )
    if config.model.shape.experts:
        raise ConfigError("--cuda-graph on does not work with experts, whose tokens differ between steps: leave it out")
    if config.window.warmup_steps < GRAPH_WARMUP_STEPS:
        raise ConfigError(
            f"--cuda-graph on needs --warmup-steps {GRAPH_WARMUP_STEPS} or more: the second step captures the graph"
        )
    return True
