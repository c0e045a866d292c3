"""Started by a test: a model of two small layers is trained once for each seed, with a fault if one is named.

train_small.py FIRST_SEED LAST_SEED [fp8] [wrong-scale]
"""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import replace
from typing import Any

import torch

from benchmarks.common.launch import read_launch
from benchmarks.common.options import ComputeOptions
from benchmarks.common.session import parse_options
from benchmarks.llm_training.gpt import fp8, kernels, parallel
from benchmarks.llm_training.sizes import SIZES
from benchmarks.llm_training.tests.train_variant import scaled_product
from benchmarks.llm_training.train import Gpt
from benchmarks.on_pytorch.target import choose_target
from jpwr.regions import RegionTimer

STEPS, BATCH, LENGTH = 64, 8, 64
FLAGS = ["--device", "cpu", "--sequence-length", str(LENGTH), "--global-batch-size", str(BATCH), "--data-seed", "1"]


def scaled_for_another_format(tensor: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a tensor in fp8, with its largest number at that of the wider format: most is cut off."""
    scale = tensor.abs().amax().float() / torch.finfo(torch.float8_e5m2).max
    largest = torch.finfo(dtype).max
    return (tensor / scale).clamp(-largest, largest).to(dtype), scale


def train(seed: int, words: set[str]) -> list[float]:
    config = parse_options(Gpt, [*FLAGS, "--learning-rate", "1e-3", "--seed", str(seed)])
    run = Gpt(config, read_launch())
    run.regions = RegionTimer()
    target = choose_target(ComputeOptions("cpu", "bf16" if "fp8" in words else "fp32", threads=1), run.launch)
    run.kernels, run.sequence_parallel, run.overlap = kernels.PLAIN, False, False
    if "fp8" in words:
        torch._scaled_mm = scaled_product
        run.kernels = replace(run.kernels, fp8=kernels.FP8_BY_TORCH)
    if "wrong-scale" in words:
        fp8.scaled = scaled_for_another_format
    with parallel.parallel_groups(target, run.shares, seed):
        trainer: Any = run.build(target)
        for _ in range(STEPS):
            trainer.data.call()
        losses: list[float] = trainer.losses()
        return losses


def main() -> None:
    warnings.filterwarnings("ignore")
    first, last, words = int(sys.argv[1]), int(sys.argv[2]), {*sys.argv[3:]}
    SIZES["tiny"] = replace(
        SIZES["tiny"], num_layers=2, hidden_size=64, num_heads=4, ffn_hidden_size=256, vocab_size=512
    )
    losses = [train(seed, words) for seed in range(first, last + 1)]
    if read_launch().rank == 0:
        print(json.dumps(losses))


if __name__ == "__main__":
    main()
