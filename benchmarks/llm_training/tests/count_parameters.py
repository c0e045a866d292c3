"""Started by a test, alone or with torchrun: what each rank's model really holds, and what its passes really cost.

count_parameters.py SIZE TENSOR_PARALLEL_SIZE PIPELINE_PARALLEL_SIZE [EXPERT_PARALLEL_SIZE|flops]
"""

from __future__ import annotations

import json
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.common.launch import read_launch
from benchmarks.common.options import ComputeOptions
from benchmarks.llm_training.config import Layout
from benchmarks.llm_training.gpt import model, parallel
from benchmarks.llm_training.sizes import SIZES
from benchmarks.on_pytorch.target import choose_target


def main() -> None:
    size, tensor, pipeline, *rest = sys.argv[1:]
    launch, shape = read_launch(), SIZES[size]
    experts = int(rest[0]) if rest and rest[0] != "flops" else 1
    layout = Layout(launch.world_size, int(tensor), int(pipeline), expert_parallel_size=experts)
    target = choose_target(ComputeOptions("cpu", "fp32", threads=1), launch)
    with parallel.parallel_groups(target, layout, 1):
        config = model.transformer_config(shape, layout, target.dtype, on_gpu=False, sequence_parallel=experts > 1)
        length = 64
        gpt = model.build_model(config, shape, length, seed=1)
        counts = target.gather(sum(parameter.numel() for parameter in gpt.parameters()))
        flops = 0
        if rest == ["flops"]:
            tokens_BT = torch.randint(shape.vocab_size, (2, length))
            # The counter knows plain products, and not the CPU's own attention kernel.
            with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
                gpt(tokens_BT, model.positions(2, length, target.device), None, labels=tokens_BT).mean().backward()
            flops = counter.get_total_flops() / tokens_BT.numel()
        if launch.rank == 0:
            print(json.dumps({"parameters": counts, "flops_per_token": flops, "length": length}))


if __name__ == "__main__":
    main()
