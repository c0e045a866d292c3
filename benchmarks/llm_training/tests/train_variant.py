"""Started by a test: a few steps on the CPU with kernels of a GPU, which run there or have a stand-in, or with a fault.

train_variant.py plain|counted|fp8-by-torch|wrong-scale|parts|layers STEPS FIRST_SEED LAST_SEED [FLAG...]

trains once for each seed; many steps are those of a model of two small layers. `counted`: as plain, with its FLOPs.
"""

from __future__ import annotations

import json
import sys
import warnings
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.common.launch import read_launch
from benchmarks.common.options import ComputeOptions
from benchmarks.common.session import parse_options
from benchmarks.llm_training.gpt import fp8, kernels, parallel
from benchmarks.llm_training.sizes import SIZES
from benchmarks.llm_training.train import Gpt
from benchmarks.on_pytorch.target import choose_target
from jpwr.regions import RegionTimer

FLAGS = ["--device", "cpu", "--sequence-length", "64", "--global-batch-size", "8", "--learning-rate", "1e-3"]
MANY_STEPS = 64


def scaled_product(a: torch.Tensor, b: torch.Tensor, scale_a: Any, scale_b: Any, out_dtype: Any) -> torch.Tensor:
    """Return the product of fp8 numbers, which the CPU's own function takes seconds for."""
    return ((a.float() @ b.float()) * scale_a * scale_b).to(out_dtype)


def scaled_for_another_format(tensor: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a tensor in fp8, with its largest number at that of the wider format: most is cut off."""
    scale = tensor.abs().amax().float() / torch.finfo(torch.float8_e5m2).max
    largest = torch.finfo(dtype).max
    return (tensor / scale).clamp(-largest, largest).to(dtype), scale


def train(variant: str, steps: int, seed: int, flags: list[str]) -> dict[str, Any]:
    config = parse_options(Gpt, [*FLAGS, "--seed", str(seed), "--data-seed", "1", *flags])
    run = Gpt(config, read_launch())
    run.regions = RegionTimer()
    is_fp8 = variant in ("fp8-by-torch", "wrong-scale")
    target = choose_target(ComputeOptions("cpu", "bf16" if is_fp8 or variant == "parts" else "fp32", 1), run.launch)
    run.kernels, run.sequence_parallel, run.overlap = kernels.PLAIN, False, False
    if is_fp8:
        torch._scaled_mm = scaled_product
        run.kernels = replace(run.kernels, fp8=kernels.FP8_BY_TORCH)
    elif variant in ("parts", "layers"):
        asked = replace(config, kernels=replace(config.kernels, compile=variant))
        run.kernels = kernels.choose_kernels(asked, target, run.shares)
    if variant == "wrong-scale":
        fp8.scaled = scaled_for_another_format
    with parallel.parallel_groups(target, run.shares, seed):
        trainer: Any = run.build(target)
        before = {name: weight.clone() for name, weight in trainer._model.module.named_parameters()}
        counter = FlopCounterMode(display=False)
        with ExitStack() as stack:
            if variant == "counted":  # the counter knows plain products, and not the CPU's own attention kernel
                stack.enter_context(counter)
                stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            for _ in range(steps):
                trainer.data.call()
        trained = [name for name, now in trainer._model.module.named_parameters() if (now != before[name]).any()]
        frames = torch._dynamo.utils.counters
        return {
            "losses": trainer.losses(),
            "trained": trained,
            "parameters": sum(weight.numel() for weight in trainer._model.parameters()),
            "optimized": sum(weight.numel() for weight in trainer._optimizer._weights),
            "flops": counter.get_total_flops(),
            "graphs": frames["stats"]["unique_graphs"],
            "graph_breaks": len(frames["graph_break"]),
        }


def main() -> None:
    warnings.filterwarnings("ignore")
    variant, steps, first, last, *flags = sys.argv[1:]
    if int(steps) == MANY_STEPS:
        small = {"num_layers": 2, "hidden_size": 64, "num_heads": 4, "ffn_hidden_size": 256, "vocab_size": 512}
        SIZES["tiny"] = replace(SIZES["tiny"], **small)
    trained = [train(variant, int(steps), seed, flags) for seed in range(int(first), int(last) + 1)]
    if read_launch().rank == 0:
        print(json.dumps(trained))


if __name__ == "__main__":
    main()
