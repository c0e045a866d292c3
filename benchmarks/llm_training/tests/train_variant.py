"""Started by a test: a few steps on the CPU with kernels of a GPU, which run there or have a stand-in.

train_variant.py plain|fp8-by-torch|parts|layers [FLAG...]
"""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import replace
from typing import Any

import torch

from benchmarks.common.launch import Launch
from benchmarks.common.options import ComputeOptions
from benchmarks.common.session import parse_options
from benchmarks.llm_training.gpt import kernels, parallel
from benchmarks.llm_training.train import Gpt
from benchmarks.on_pytorch.target import choose_target
from jpwr.regions import RegionTimer

STEPS = 4
FLAGS = ["--device", "cpu", "--sequence-length", "64", "--global-batch-size", "8", "--learning-rate", "1e-3"]


def scaled_product(a: torch.Tensor, b: torch.Tensor, scale_a: Any, scale_b: Any, out_dtype: Any) -> torch.Tensor:
    """Return the product of fp8 numbers, which the CPU's own function takes seconds for."""
    return ((a.float() @ b.float()) * scale_a * scale_b).to(out_dtype)


def main() -> None:
    warnings.filterwarnings("ignore", module=r"megatron\.")
    variant, config = sys.argv[1], parse_options(Gpt, [*FLAGS, *sys.argv[2:]])
    run = Gpt(config, Launch())
    run.regions = RegionTimer()
    precision = "bf16" if variant in ("fp8-by-torch", "parts") else "fp32"
    target = choose_target(ComputeOptions("cpu", precision, threads=2), run.launch)
    run.kernels, run.sequence_parallel, run.overlap = kernels.PLAIN, False, False
    if variant == "fp8-by-torch":
        torch._scaled_mm = scaled_product
        run.kernels = replace(run.kernels, fp8=kernels.FP8_BY_TORCH)
    elif variant != "plain":
        asked = replace(config, kernels=replace(config.kernels, compile=variant))
        run.kernels = kernels.choose_kernels(asked, target, run.shares)
    with parallel.parallel_groups(target, run.shares, config.training.seed):
        trainer: Any = run.build(target)
        before = {name: weight.clone() for name, weight in trainer._model.module.named_parameters()}
        for _ in range(STEPS):
            trainer.data.call()
        trained = [name for name, now in trainer._model.module.named_parameters() if (now != before[name]).any()]
        optimized = sum(weight.numel() for weight in trainer._optimizer._weights)
        frames = torch._dynamo.utils.counters
        found = {"graphs": frames["stats"]["unique_graphs"], "graph_breaks": len(frames["graph_break"])}
        print(json.dumps({"losses": trainer.losses(), "trained": trained, "optimized": optimized, **found}))


if __name__ == "__main__":
    main()
