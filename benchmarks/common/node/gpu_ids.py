"""The GPUs that this process sees, from the driver itself, as not every framework tells their ids.

On a node of several NUMA domains, memory of another one is further away: a process is bound to the CPUs near its GPU.
"""

from __future__ import annotations

import ctypes
import os
import uuid
from pathlib import Path

from benchmarks.common.launch import Launch

ADDRESS_BYTES = 32
PCI_DEVICES = Path("/sys/bus/pci/devices")


def gpu_ids() -> list[str]:
    """For each GPU, in the order in which CUDA or HIP number them here, its ids separated by spaces.

    Empty where there is no driver, or it does not say.
    """
    return _cuda_ids() or _hip_ids()


def _cuda_ids() -> list[str]:
    """UUID and PCI address; of an instance of a divided GPU those of the GPU (CUDA driver API, device management)."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        count = ctypes.c_int()
        if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
            return []
        found = []
        for index in range(count.value):
            device, raw = ctypes.c_int(), (ctypes.c_ubyte * 16)()
            if cuda.cuDeviceGet(ctypes.byref(device), index):
                return []
            ids = [] if cuda.cuDeviceGetUuid(raw, device) else [f"GPU-{uuid.UUID(bytes=bytes(raw))}"]
            address = ctypes.create_string_buffer(ADDRESS_BYTES)
            if not cuda.cuDeviceGetPCIBusId(address, ADDRESS_BYTES, device):
                ids.append(address.value.decode())
            found.append(" ".join(ids))
    except (OSError, AttributeError):  # no driver, or one that lacks a function
        return []
    return found


def _hip_ids() -> list[str]:
    """PCI addresses (HIP runtime API, device management)."""
    try:
        hip = ctypes.CDLL("libamdhip64.so")
        count = ctypes.c_int()
        if hip.hipGetDeviceCount(ctypes.byref(count)):
            return []
        found = []
        for index in range(count.value):
            address = ctypes.create_string_buffer(ADDRESS_BYTES)
            failed = hip.hipDeviceGetPCIBusId(address, ADDRESS_BYTES, index)
            found.append("" if failed else address.value.decode())
    except (OSError, AttributeError):
        return []
    return found


def bind(launch: Launch, devices_per_process: int = 1) -> None:
    """Bind this process, and all that it starts, to the CPUs near the GPUs of its local rank, as the kernel lists them.

    What a launcher has bound is narrowed and never widened. Nothing happens where no GPU tells where it is, or where
    none of the CPUs near it may be used. Threads that are there already stay where they are.
    """
    first = launch.local_rank * devices_per_process
    near: set[int] = set()
    for ids in gpu_ids()[first : first + devices_per_process]:
        near |= _near(ids)
    if near and (bound := near & os.sched_getaffinity(0)):
        os.sched_setaffinity(0, bound)


def _near(ids: str) -> set[int]:
    """The CPUs near a GPU, from its PCI address among its ids; empty where the kernel does not say."""
    for address in ids.split():
        try:
            return _cpus((PCI_DEVICES / address.lower() / "local_cpulist").read_text())
        except (OSError, ValueError):
            continue
    return set()


def _cpus(listed: str) -> set[int]:
    """CPUs of a list as the kernel writes it, such as 0-3,8."""
    found: set[int] = set()
    for part in filter(None, listed.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
