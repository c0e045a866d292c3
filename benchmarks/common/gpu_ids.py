"""The ids of the GPUs that this process sees, from the driver itself: not every framework tells them."""

from __future__ import annotations

import ctypes
import uuid

ADDRESS_BYTES = 32


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
