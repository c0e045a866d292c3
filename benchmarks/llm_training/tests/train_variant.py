"""Started by a test: a few steps on the CPU with kernels that a GPU would have, through stand-ins where there are none.

train_variant.py plain|transformer-engine|fp8|fp8-by-torch|cuda-graph|parts|layers
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from benchmarks.llm_training.tests import transformer_engine_stand_in

VARIANT = sys.argv[1]
if VARIANT in ("transformer-engine", "fp8"):
    transformer_engine_stand_in.install()  # before megatron-core looks for it

import torch  # noqa: E402

from benchmarks.common.launch import Launch  # noqa: E402
from benchmarks.common.options import ComputeOptions  # noqa: E402
from benchmarks.common.session import parse_options  # noqa: E402
from benchmarks.llm_training.gpt import kernels, parallel  # noqa: E402
from benchmarks.llm_training.train import Gpt  # noqa: E402
from benchmarks.on_pytorch.target import choose_target  # noqa: E402
from jpwr.regions import RegionTimer  # noqa: E402

STEPS = 4
FLAGS = ["--device", "cpu", "--sequence-length", "64", "--global-batch-size", "8", "--learning-rate", "1e-3"]


class ReplayedGraph:
    """A CUDA graph whose replay runs again what was captured, on the same buffers."""

    replays = 0

    def replay(self) -> None:
        type(self).replays += 1
        with torch.enable_grad():
            self.captured()

    def register_generator_state(self, state: Any) -> None:
        raise AssertionError("there is no random state on a CPU")


def stand_in_for_graphs() -> None:
    """Let megatron-core's wrapper capture and replay on a CPU."""
    from megatron.core import full_cuda_graph

    class Wrapper(full_cuda_graph.FullCudaGraphWrapper):
        """Tells the graph what is captured: the passes over the static buffers."""

        def __call__(self, *args: Any, **options: Any) -> Any:
            run = self.forward_backward_func

            def remember(**captured: Any) -> Any:
                result = run(**captured)
                if ReplayedGraph.capturing is not None:
                    buffers = full_cuda_graph.StaticBufferLoader.static_buffers["training"]
                    results = full_cuda_graph.FullCudaGraphWrapper.result

                    def again() -> None:
                        results["training"] = run(**captured | {"data_iterator": [iter(buffers)]})

                    ReplayedGraph.capturing.captured = again
                    # A capture computes nothing.
                    options["model"][0].zero_grad_buffer()
                return result

            self.forward_backward_func = remember
            try:
                return super().__call__(*args, **options)
            finally:
                self.forward_backward_func = run

    @contextmanager
    def capture(graph: ReplayedGraph, **_: Any) -> Iterator[None]:
        ReplayedGraph.capturing = graph
        yield
        ReplayedGraph.capturing = None

    class Stream:
        def wait_stream(self, other: Any) -> None: ...

    ReplayedGraph.capturing = None
    full_cuda_graph.FullCudaGraphWrapper = Wrapper
    full_cuda_graph.get_all_rng_states = dict
    torch.cuda.CUDAGraph, torch.cuda.graph = ReplayedGraph, capture
    torch.cuda.Stream = torch.cuda.current_stream = Stream
    torch.cuda.stream = lambda stream: nullcontext()


def scaled_product(a: torch.Tensor, b: torch.Tensor, scale_a: Any, scale_b: Any, out_dtype: Any) -> torch.Tensor:
    """Return the product of fp8 numbers, which the CPU's own function takes seconds for."""
    return ((a.float() @ b.float()) * scale_a * scale_b).to(out_dtype)


def main() -> None:
    warnings.filterwarnings("ignore", module=r"megatron\.")
    config = parse_options(Gpt, FLAGS)
    run = Gpt(config, Launch())
    run.regions = RegionTimer()
    precision = "bf16" if VARIANT in ("fp8", "fp8-by-torch", "parts") else "fp32"
    target = choose_target(ComputeOptions("cpu", precision, threads=2), run.launch)
    run.kernels, run.sequence_parallel, run.overlap = kernels.PLAIN, False, False
    if VARIANT in ("transformer-engine", "fp8"):
        fp8 = "transformer-engine" if VARIANT == "fp8" else ""
        run.kernels = replace(run.kernels, layers="transformer-engine", fp8=fp8)
        target = replace(target, precision="fp8" if fp8 else "fp32")
    elif VARIANT == "fp8-by-torch":
        torch._scaled_mm = scaled_product
        run.kernels = replace(run.kernels, fp8=kernels.FP8_BY_TORCH)
    elif VARIANT in ("parts", "layers"):
        asked = replace(config, kernels=replace(config.kernels, compile=VARIANT))
        run.kernels = kernels.choose_kernels(asked, target, run.shares)
    elif VARIANT == "cuda-graph":
        run.kernels = replace(run.kernels, cuda_graph=True)
    with parallel.parallel_groups(target, run.shares, config.training.seed):
        if VARIANT == "cuda-graph":
            stand_in_for_graphs()
        trainer: Any = run.build(target)
        for _ in range(STEPS):
            trainer.data.call()
        frames = torch._dynamo.utils.counters
        print(
            json.dumps(
                {
                    "tokens": trainer.taken.tokens,
                    "losses": [float(loss) for loss in trainer._losses],
                    "fp8_passes": transformer_engine_stand_in.fp8_passes,
                    "replays": ReplayedGraph.replays,
                    "graphs": frames["stats"]["unique_graphs"],
                    "graph_breaks": len(frames["graph_break"]),
                }
            )
        )


if __name__ == "__main__":
    main()
