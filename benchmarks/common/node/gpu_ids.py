"""Ids of the GPUs of this process, from the driver, and binding to the CPUs near a GPU.

Not every framework reports ids. Binding matters on a node of several NUMA domains, as memory of another one is slower.
"""

from __future__ import annotations

import ctypes
import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.common.launch import Launch

ADDRESS_BYTES = 32
PCI_DEVICES = Path("/sys/bus/pci/devices")


def gpu_ids() -> list[str]:
    """Return the ids of each GPU, separated by spaces, in the order in which CUDA or HIP number them here.

    Empty without a driver, or if the driver does not report them.
    """
    for ids in (_cuda_ids, _hip_ids):
        with suppress(OSError, AttributeError):  # no driver, or one that lacks a function
            if found := list(ids()):
                return found
    return []


def _cuda_ids() -> Iterator[str]:
    """Yield UUID and PCI address of each GPU, also for an instance of it (CUDA driver API, device management)."""
    cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return
    for index in range(count.value):
        device, raw = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        if cuda.cuDeviceGet(ctypes.byref(device), index):
            raise OSError(f"the driver does not report GPU {index}")
        ids = [] if cuda.cuDeviceGetUuid(raw, device) else [f"GPU-{uuid.UUID(bytes=bytes(raw))}"]
        yield " ".join([*ids, *_address(cuda.cuDeviceGetPCIBusId, device)])


def _hip_ids() -> Iterator[str]:
    """Yield the PCI address of each GPU (HIP runtime API, device management)."""
    hip, count = ctypes.CDLL("libamdhip64.so"), ctypes.c_int()
    if not hip.hipGetDeviceCount(ctypes.byref(count)):
        for index in range(count.value):
            yield " ".join(_address(hip.hipDeviceGetPCIBusId, index))


def _address(function: Any, device: Any) -> list[str]:
    """Return the PCI address of a device by a function of its driver; empty if it fails."""
    address = ctypes.create_string_buffer(ADDRESS_BYTES)
    return [] if function(address, ADDRESS_BYTES, device) else [address.value.decode()]


def bind(launch: Launch) -> None:
    """Bind this process and its future threads and children to the CPUs near the GPU of its local rank.

    A binding by the launcher is narrowed and never widened. Nothing happens if the GPU's NUMA domain is not known, or
    if this process may use none of its CPUs. Existing threads keep their binding.
    """
    ids = gpu_ids()[launch.local_rank : launch.local_rank + 1]
    if ids and (bound := _near(ids[0]) & os.sched_getaffinity(0)):
        os.sched_setaffinity(0, bound)


def _near(ids: str) -> set[int]:
    """Return the CPUs near a GPU, from the PCI address among its ids; empty if the kernel does not list them."""
    for address in ids.split():
        try:
            return _cpus((PCI_DEVICES / address.lower() / "local_cpulist").read_text())
        except (OSError, ValueError):
            continue
    return set()


def _cpus(listed: str) -> set[int]:
    """Return the CPUs of a list as the kernel writes it, such as 0-3,8."""
    found: set[int] = set()
    for part in filter(None, listed.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
