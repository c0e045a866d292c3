"""Let megatron-core train on a machine without a GPU.

megatron-core asks PyTorch's CUDA module by name for the current device, its random state and to synchronise. On a CPU
these names are answered here, and nowhere else. On a machine with a GPU nothing here can become active.
"""

from __future__ import annotations

from typing import Any

import torch


def install() -> None:
    """Answer megatron-core's calls to CUDA with the CPU; raises RuntimeError where there is a GPU."""
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
    random._set_cuda_rng_state = lambda *args, **options: None  # that of the CPU is kept beside


class _TorchOnCpu:
    """The module torch, as the pipeline schedules see it: what they make on "cuda" is made on the CPU."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def zeros(*size: Any, device: Any = None, **options: Any) -> torch.Tensor:
        return torch.zeros(*size, device="cpu" if device == "cuda" else device, **options)
