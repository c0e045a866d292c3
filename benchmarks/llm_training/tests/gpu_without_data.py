"""Started by a test: the path of a GPU, on tensors that have shape, type and device, but no data.

gpu_without_data.py LIBRARY CASES trains two steps of each case, each in a process of its own, and prints what each
holds. LIBRARY is gpu_without_data.cpp, compiled; CASES are JSON: each is a rank, the number of GPUs it is one of, and
flags. Shapes, types, devices and megatron-core's own checks are those of a GPU; kernels, communication and random
numbers are not there.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

LIBRARY, CASES = sys.argv[1], json.loads(sys.argv[2])
os.environ["TORCHDYNAMO_DISABLE"] = "1"  # compiled functions run as they are written
ctypes.CDLL(LIBRARY)  # before PyTorch asks whether there is a GPU

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

from benchmarks.common.launch import Launch  # noqa: E402
from benchmarks.common.record import RunRecord  # noqa: E402
from benchmarks.common.session import parse_options  # noqa: E402
from benchmarks.llm_training import data  # noqa: E402
from benchmarks.llm_training.gpt import kernels, parallel  # noqa: E402
from benchmarks.llm_training.train import Gpt  # noqa: E402
from jpwr.regions import RegionTimer  # noqa: E402

GPU = torch.device("cuda", 0)
WITHOUT_DATA = FakeTensorMode(allow_non_fake_inputs=True)


class Nothing:
    """Takes every call, and is every context."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *_: object) -> None: ...


class Together(Nothing):
    """Collectives that are started and waited for as one."""

    works = (Nothing(),)


class FusedAttention(torch.autograd.Function):
    """Attention by a fused kernel, whose gradients have the shapes of its inputs."""

    @staticmethod
    def forward(ctx: Any, *qkv: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*qkv)
        return torch.empty_like(qkv[0])

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(map(torch.empty_like, ctx.saved_tensors))


def stand_in_for_a_gpu() -> None:
    """What PyTorch would ask the driver."""
    cuda = torch.cuda
    cuda.is_available = cuda.is_bf16_supported = lambda *_, **__: True
    cuda.device_count = lambda: 8
    cuda.current_device = lambda: GPU
    cuda.get_device_capability = lambda *_: (9, 0)
    cuda.get_device_name = lambda *_: "a GPU without data"
    cuda.set_device = cuda.synchronize = cuda.manual_seed = lambda *_: None
    cuda.Stream = cuda.Event = Nothing
    cuda.stream = cuda.current_stream = Nothing
    cuda.get_rng_state = cuda.random.get_rng_state = lambda *_, **__: torch.zeros(16, dtype=torch.uint8)
    torch.Generator = Nothing
    torch.Tensor.normal_ = lambda tensor, *_, **__: tensor
    torch._fused_sdp_choice = lambda *_, **__: 1
    torch.nn.functional.scaled_dot_product_attention = lambda q, k, v, **_: FusedAttention.apply(q, k, v)
    kernels._missing_compiler = lambda target: ""
    from megatron.core.tensor_parallel import random

    random._set_cuda_rng_state = lambda *_, **__: None
    random._get_cuda_rng_state = cuda.get_rng_state


def stand_in_for_data(flags: list[str]) -> None:
    """What a step asks of values: a gradient that is clipped, or, in fp16, that did not overflow."""
    known, made = torch.Tensor.item, torch.tensor

    def item(tensor: torch.Tensor) -> Any:
        if tensor.is_cuda:
            return 0.0 if "fp16" in flags else 4.0
        try:
            return known(tensor)
        except Exception:
            return 1.0

    def first(data: Any) -> Any:
        return first(data[0]) if isinstance(data, list) and data else data

    def shape(data: Any) -> tuple[int, ...]:
        return (len(data), *(shape(data[0]) if data else ())) if isinstance(data, list) else ()

    def tensor(data: Any, *, device: Any = None, **options: Any) -> torch.Tensor:
        if device is None and not isinstance(first(data), torch.Tensor):
            return made(data, **options)
        return torch.empty(shape(data), device=device, **options)

    torch.Tensor.item = torch.Tensor.__float__ = item
    torch.tensor = tensor
    torch.cuda.FloatTensor = lambda data: torch.empty(len(data), device=GPU)
    torch.Tensor.pin_memory = lambda tensor: WITHOUT_DATA.from_tensor(tensor)
    data.ahead = lambda batches: batches  # FakeTensorMode may not be used by two threads at once


def stand_in_for_communication() -> None:
    """Collectives that change nothing."""
    from megatron.core.distributed import param_and_grad_buffer

    def all_gather_object(values: list[Any], value: Any, group: Any = None) -> None:
        values[:] = [value] * len(values)

    dist.all_gather_object = all_gather_object
    for name in ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "broadcast"):
        setattr(dist, name, Nothing)
    param_and_grad_buffer._coalescing_manager = Together
    param_and_grad_buffer.dist_all_gather_func = param_and_grad_buffer.dist_reduce_scatter_func = Nothing

    @contextmanager
    def process_group(target: Any) -> Iterator[None]:
        assert target.on_gpu
        launch = target.launch
        dist.init_process_group("fake", store=FakeStore(), rank=launch.rank, world_size=launch.world_size)
        yield

    parallel.process_group = process_group


def train_case(rank: int, world_size: int, flags: list[str]) -> dict[str, Any]:
    """Two steps; returns what it holds."""
    warnings.filterwarnings("ignore")
    stand_in_for_a_gpu()
    stand_in_for_data(flags)
    stand_in_for_communication()
    config = parse_options(Gpt, flags)
    run = Gpt(config, Launch(rank=rank, world_size=world_size, local_world_size=world_size))
    run.regions = RegionTimer()
    record = RunRecord(Gpt.name, "made up", Gpt.model(config), "tokens", asdict(config))
    with WITHOUT_DATA, run.open(record) as target:
        run.regions.record_event = target.record_event
        trainer: Any = run.build(target)
        for _ in range(2):
            trainer.data.call()
    model = trainer._model
    [inner] = trainer._optimizer._optimizer.chained_optimizers
    return {
        "losses": [[str(loss.dtype), str(loss.device)] for loss in trainer._losses],
        "weights": sorted({str(weight.dtype) for weight in model.parameters()}),
        "devices": sorted({str(weight.device) for weight in model.parameters()}),
        "fused": all(group.get("fused") for group in inner.optimizer.param_groups),
        "overlap": [model.ddp_config.overlap_grad_reduce, model.ddp_config.overlap_param_gather],
        "regions": sorted({key for key, *_ in run.regions._marks}),
        "lanes": sorted({lane for _, lane, *_ in run.regions._added}),
    }


def held_by(case: tuple[int, int, list[str]]) -> dict[str, Any] | str:
    """Return the result of a case, or its traceback."""
    try:
        return train_case(*case)
    except BaseException:
        return traceback.format_exc()


def main() -> None:
    """Print what each case holds; each is in a process of its own, of which as many are at work as there are cores."""
    with multiprocessing.get_context("fork").Pool(maxtasksperchild=1) as pool:
        print(json.dumps(pool.map(held_by, CASES, chunksize=1)), flush=True)


if __name__ == "__main__":
    main()
