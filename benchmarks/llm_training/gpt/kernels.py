"""Choose a run's kernels, from the options and the installed software."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import shutil
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from megatron.core.extensions.transformer_engine import HAVE_TE
from megatron.core.tensor_parallel.layers import _grad_accum_fusion_available
from megatron.core.utils import get_te_version
from torch.nn.attention import SDPBackend

from benchmarks.common.options import NARROW, ConfigError
from benchmarks.llm_training.config import Config, Layout
from benchmarks.llm_training.gpt import fp8
from benchmarks.on_pytorch.target import Target

FP8_CAPABILITY = (9, 4) if torch.version.hip else (8, 9)  # of the first GPUs with fp8, of AMD or NVIDIA
OWN_ENCODINGS = (9, 5)  # AMD's GPUs below have fp8 with encodings of their own, which fp8.py does not use
FP8_BY_TORCH = "torch._scaled_mm, per tensor"
TRANSFORMER_ENGINE = "transformer-engine"
GRAPH_WARMUP_STEPS = 2  # one without capture, one to capture


class Recipe(NamedTuple):
    """Numbers and scales of narrow products by TransformerEngine."""

    settings: dict[str, Any]  # of megatron-core
    name: str  # of the class in transformer_engine.common.recipe
    check: str  # function in transformer_engine.pytorch.fp8 that returns whether this GPU has it, and why not


# Settings are those of Megatron-Bridge (training/mixed_precision.py), with weights in bf16 and no layer left out.
RECIPES = {
    "tensorwise": Recipe({"fp8": "hybrid", "fp8_recipe": "tensorwise"}, "Float8CurrentScaling", "check_fp8_support"),
    "delayed": Recipe(
        {
            "fp8": "hybrid",
            "fp8_recipe": "delayed",
            "fp8_amax_history_len": 1024,
            "fp8_amax_compute_algo": "max",
        },
        "DelayedScaling",
        "check_fp8_support",
    ),
    "blockwise": Recipe(
        {"fp8": "hybrid", "fp8_recipe": "blockwise"}, "Float8BlockScaling", "check_fp8_block_scaling_support"
    ),
    "mxfp8": Recipe({"fp8": "e4m3", "fp8_recipe": "mxfp8"}, "MXFP8BlockScaling", "check_mxfp8_support"),
    "nvfp4": Recipe({"fp4": "e2m1", "fp4_recipe": "nvfp4"}, "NVFP4BlockScaling", "check_nvfp4_support"),
}


@dataclass(frozen=True)
class Kernels:
    """Kernels chosen for a run, as the record stores them."""

    layers: str  # "megatron" or "transformer-engine"
    compile: str  # "off", "parts" or "layers"
    attention: str
    cuda_graph: bool
    fused_gradients: bool  # the matrix product accumulates weight gradients
    fp8: str = ""  # source of narrow products: "torch._scaled_mm, per tensor", "transformer-engine", or empty
    recipe: str | None = None  # of TransformerEngine's narrow products, one of RECIPES


PLAIN = Kernels("megatron", "off", "auto", cuda_graph=False, fused_gradients=False)


def choose_kernels(config: Config, target: Target, layout: Layout) -> Kernels:
    """Return the kernels for this device; raises ConfigError if a requested one is unavailable."""
    asked, precision = config.kernels, target.precision
    layers, source, recipe = _choose_layers(asked.layers, target), "", None
    if asked.fp8_recipe != "tensorwise" and (precision, layers) != ("fp8", TRANSFORMER_ENGINE):
        raise ConfigError(f"--fp8-recipe {asked.fp8_recipe} needs --precision fp8 and TransformerEngine's layers")
    if precision in NARROW and layers == TRANSFORMER_ENGINE:
        source, recipe = layers, asked.fp8_recipe if precision == "fp8" else precision
        _check_recipe(precision, recipe)
    elif precision == "fp8":
        source = FP8_BY_TORCH
        _check_fp8(config, layout, config.parallel.micro_batch_size or config.model.shape.micro_batch_size)
    elif precision in NARROW:
        raise ConfigError(f"--precision {precision} needs the layers of TransformerEngine: use bf16, or fp8")
    return Kernels(
        layers,
        _choose_compile(asked.compile, layers, target),
        _choose_attention(config, layers, target, layout),
        _choose_cuda_graph(config, target),
        target.on_gpu and _grad_accum_fusion_available and source != FP8_BY_TORCH,
        source,
        recipe,
    )


def _choose_layers(asked: str, target: Target) -> str:
    if asked == "megatron" or (asked == "auto" and not target.on_gpu):
        return "megatron"
    if HAVE_TE:
        return TRANSFORMER_ENGINE
    if importlib.util.find_spec("transformer_engine") is None:
        if asked == "auto":
            return "megatron"
        raise ConfigError("--layers transformer-engine was asked for, but TransformerEngine is not installed")
    try:  # as megatron-core does, which goes on without it
        importlib.import_module("transformer_engine.pytorch.fp8")
        why = "it is too new or too old"
    except Exception as error:  # a library that fails to load may raise anything
        why = " ".join(str(error).split())
    raise ConfigError(f"megatron-core cannot import the installed TransformerEngine ({why}): use --layers megatron")


def _check_recipe(precision: str, recipe: str) -> None:
    """Raise ConfigError unless the installed TransformerEngine has a recipe, and this GPU can run it."""
    _, name, check = RECIPES[recipe]
    if hasattr(importlib.import_module("transformer_engine.common.recipe"), name):
        has_it, why = getattr(importlib.import_module("transformer_engine.pytorch.fp8"), check)()
    else:
        has_it, why = False, f"TransformerEngine {get_te_version()} has no {name}"
    if not has_it:
        asked = f"{precision} with --fp8-recipe {recipe}" if precision == "fp8" else precision
        raise ConfigError(f"--precision {asked} was asked for, but {why.rstrip('.')}: use bf16, or another precision")


def _check_fp8(config: Config, layout: Layout, micro_batch_size: int) -> None:
    if torch.cuda.get_device_capability() < FP8_CAPABILITY:
        raise ConfigError(
            f"--precision fp8 was asked for, but {torch.cuda.get_device_name()} has none: use bf16, or fp16"
        )
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
    if asked == "layers" and layers == TRANSFORMER_ENGINE:
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
    if layers == TRANSFORMER_ENGINE:
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
