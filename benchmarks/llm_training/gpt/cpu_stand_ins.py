"""Let megatron-core train on a machine without a GPU.

megatron-core calls PyTorch's CUDA module for the current device, its random state and to synchronise. This module
replaces these functions on a CPU. It refuses to do so on a machine with a GPU.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch


def install() -> None:
    """Let megatron-core's calls to CUDA use the CPU; raises RuntimeError on a machine with a GPU."""
    if torch.cuda.is_available():
        raise RuntimeError("the CPU stand-ins for CUDA must not be installed on a machine with a GPU")
    from megatron.core.models.common.embeddings import rope_utils
    from megatron.core.pipeline_parallel import schedules
    from megatron.core.tensor_parallel import random
    from megatron.core.transformer.moe import token_dispatcher

    cpu = torch.device("cpu")
    torch.cuda.current_device = lambda: cpu  # type: ignore[assignment,return-value]
    torch.cuda.synchronize = lambda device=None: None
    torch.cuda.Stream = _Stream  # type: ignore[assignment,misc]  # of experts' dispatchers
    torch.cuda.stream = lambda stream: nullcontext()  # type: ignore[assignment,return-value]
    torch.cuda.current_stream = lambda device=None: _Stream()  # type: ignore[assignment,return-value]
    torch.Tensor.cuda = lambda tensor, *args, **options: tensor  # type: ignore[method-assign]
    schedules.torch = rope_utils.torch = _TorchOnCpu()
    token_dispatcher.maybe_move_tensor_to_cpu = _numbers
    torch.cuda.get_rng_state = torch.cuda.random.get_rng_state = lambda device=None: torch.get_rng_state()
    random._set_cuda_rng_state = lambda *args, **options: None  # the CPU's state is restored separately


def _numbers(tensor: Any, as_numpy: bool = False, record_stream: bool = False) -> Any:
    return tensor.numpy() if as_numpy and torch.is_tensor(tensor) else tensor


class _Stream:
    """A stream whose work is done when it is asked for."""

    def wait_stream(self, other: _Stream) -> None: ...
    def synchronize(self) -> None: ...
    def record_event(self) -> _Stream:
        return self


class _TorchOnCpu:
    """The module torch for modules that make tensors on "cuda", or in pinned memory: theirs are on the CPU."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def zeros(*size: Any, device: Any = None, **options: Any) -> torch.Tensor:
        return torch.zeros(*size, device="cpu" if device == "cuda" else device, **options)

    @staticmethod
    def tensor(data: Any, pin_memory: bool = False, **options: Any) -> torch.Tensor:
        return torch.tensor(data, **options)
