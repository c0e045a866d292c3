"""Started by a test: a model of two small layers is trained once for each seed, with a fault if one is named.

train_small.py FIRST_SEED LAST_SEED [fp8] [wrong-scale|no-bias-correction|read-twice] [FLAG...]
"""

from __future__ import annotations

import itertools
import json
import sys
import warnings
from collections.abc import Iterator
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
MANY = 1e6  # steps after which AdamW's correction of its bias is 1


def scaled_for_another_format(tensor: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a tensor in fp8, with its largest number at that of the wider format: most is cut off."""
    scale = tensor.abs().amax().float() / torch.finfo(torch.float8_e5m2).max
    largest = torch.finfo(dtype).max
    return (tensor / scale).clamp(-largest, largest).to(dtype), scale


def without_bias_correction(adam: torch.optim.Optimizer) -> None:
    for weight in (one for group in adam.param_groups for one in group["params"]):
        zeros = {name: torch.zeros_like(weight) for name in ("exp_avg", "exp_avg_sq")}
        adam.state[weight] = {"step": torch.tensor(MANY), **zeros}


def read_twice(passes: Iterator[Any], in_a_step: int) -> Iterator[Any]:
    """Yield the first half of the steps' data, and then the same again."""
    half = list(itertools.islice(passes, in_a_step * STEPS // 2))
    return itertools.cycle(half)


def train(seed: int, words: set[str], flags: list[str]) -> list[float]:
    config = parse_options(Gpt, [*FLAGS, "--learning-rate", "1e-3", "--seed", str(seed), *flags])
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
        if "no-bias-correction" in words:
            without_bias_correction(trainer._optimizer._adam)
        if "read-twice" in words:
            trainer.taken._batches = read_twice(trainer.taken._batches, trainer._passes)
        for _ in range(STEPS):
            trainer.data.call()
        losses: list[float] = trainer.losses()
        return losses


def main() -> None:
    warnings.filterwarnings("ignore")
    words = {word for word in sys.argv[3:] if not word.startswith("--")}
    first, last = map(int, sys.argv[1:3])
    SIZES["tiny"] = replace(
        SIZES["tiny"], num_layers=2, hidden_size=64, num_heads=4, ffn_hidden_size=256, vocab_size=512
    )
    flags = ["--tensor-parallel-size", "2"] if "--shared" in sys.argv else []
    losses = [train(seed, words, flags) for seed in range(first, last + 1)]
    if read_launch().rank == 0:
        print(json.dumps(losses))


if __name__ == "__main__":
    main()
