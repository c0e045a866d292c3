"""Started by a test: parameters of a size's model, and the FLOPs of its passes, as PyTorch counts them."""

from __future__ import annotations

import json
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.common.launch import Launch
from benchmarks.common.options import ComputeOptions
from benchmarks.llm_training.config import Layout
from benchmarks.llm_training.gpt import model, parallel
from benchmarks.llm_training.sizes import SIZES
from benchmarks.on_pytorch.target import choose_target

LENGTH = 64


def main() -> None:
    shape, layout = SIZES[sys.argv[1]], Layout(1, 1, 1)
    target = choose_target(ComputeOptions("cpu", "fp32", threads=1), Launch())
    with parallel.parallel_groups(target, layout, 1):
        config = model.transformer_config(shape, layout, target.dtype, on_gpu=False)
        gpt = model.build_model(config, shape, LENGTH, seed=1)
        tokens_BT = torch.randint(shape.vocab_size, (2, LENGTH))
        # The counter knows plain products, and not the CPU's own attention kernel.
        with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
            gpt(tokens_BT, model.positions(2, LENGTH, target.device), None, labels=tokens_BT).mean().backward()
        parameters = sum(parameter.numel() for parameter in gpt.parameters())
        flops = counter.get_total_flops() / tokens_BT.numel()
        print(json.dumps({"parameters": parameters, "flops_per_token": flops, "length": LENGTH}))


if __name__ == "__main__":
    main()
