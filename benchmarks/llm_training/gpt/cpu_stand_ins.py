"""Let megatron-core train on a machine without a GPU.

megatron-core calls PyTorch's CUDA module for the current device, its random state and to synchronise. This module
replaces these functions on a CPU. It refuses to do so on a machine with a GPU.
"""

from __future__ import annotations

from typing import Any

import torch


def install() -> None:
    """Let megatron-core's calls to CUDA use the CPU; raises RuntimeError on a machine with a GPU."""
    if torch.cuda.is_available():
        raise RuntimeError("the CPU stand-ins for CUDA must not be installed on a machine with a GPU")
    from megatron.core.pipeline_parallel import schedules
    from megatron.core.tensor_parallel import random

    cpu = torch.device("cpu")
    torch.cuda.current_device = lambda: cpu  # type: ignore[assignment,return-value]
    torch.cuda.synchronize = lambda device=None: None
    torch.cuda.current_stream = lambda device=None: None  # type: ignore[assignment,return-value]  # from 0.19 on
    torch.Tensor.cuda = lambda tensor, *args, **options: tensor  # type: ignore[method-assign]
    schedules.torch = _TorchOnCpu()
    torch.cuda.get_rng_state = torch.cuda.random.get_rng_state = lambda device=None: torch.get_rng_state()
    random._set_cuda_rng_state = lambda *args, **options: None  # the CPU's state is restored separately


class _TorchOnCpu:
    """The module torch for the pipeline schedules: their tensors on "cuda" are made on the CPU."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def zeros(*size: Any, device: Any = None, **options: Any) -> torch.Tensor:
        return torch.zeros(*size, device="cpu" if device == "cuda" else device, **options)
