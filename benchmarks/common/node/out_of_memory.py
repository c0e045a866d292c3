"""Detect errors that mean too little memory: only the frameworks' own allocators raise a specific type."""

from __future__ import annotations

import re
from collections.abc import Iterator

TYPES = ("MemoryError", "OutOfMemoryError", "ResourceExhaustedError")  # Python's, PyTorch's, TensorFlow's
# PyTorch's allocator of CPUs, CUDA and HIP, their mathematical libraries, NCCL and RCCL.
WORDS = re.compile(
    r"out[ _]of[ _]memory|(can't|cannot|failed to) allocate memory|_STATUS_ALLOC_FAILED|failed to (cuda|hip) [cm]alloc",
    re.IGNORECASE,
)


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error means too little memory, of the device or of the node."""
    return any(type(one).__name__ in TYPES or WORDS.search(str(one)) for one in _causes(error))


def short_message(error: Exception) -> str:
    """Return the first line of an error's message, with the line on memory, which can be further down or in a cause."""
    lines = [line.strip() for line in str(error).strip().splitlines()] or ["no message"]
    on_memory = next((line for one in _causes(error) for line in str(one).splitlines() if WORDS.search(line)), "")
    return lines[0] if not on_memory or WORDS.search(lines[0]) else f"{lines[0]} ({on_memory.strip()})"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
