"""Power of NVIDIA GPUs, through NVML and nvidia-ml-py."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any, Callable

from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import BackendUnavailable, ReadError


def open_channels(stack: ExitStack) -> list[Channel]:
    try:
        import pynvml
    except ImportError as error:
        raise BackendUnavailable("Python has no module pynvml: pip install nvidia-ml-py") from error
    try:
        pynvml.nvmlInit()
        stack.callback(pynvml.nvmlShutdown)
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        channels = [_channel(pynvml, index, handle) for index, handle in enumerate(handles)]
    except pynvml.NVMLError as error:
        raise BackendUnavailable(f"NVML cannot be used ({error}): is this a node with an NVIDIA driver?") from error
    if not channels:
        raise BackendUnavailable("the NVIDIA driver is there, but it shows no GPU")
    return channels


def _channel(pynvml: Any, index: int, handle: Any) -> Channel:
    def read(function: Callable[[Any], int]) -> float:
        try:
            return function(handle) / 1000  # NVML reports milliwatts and millijoules
        except pynvml.NVMLError as error:
            raise ReadError(f"NVML: {error}") from error

    read_energy_j = partial(read, pynvml.nvmlDeviceGetTotalEnergyConsumption)
    try:
        read_energy_j()
        has_counter = True
    except ReadError:  # before Volta there is none
        has_counter = False
    info = ChannelInfo(
        name=f"pynvml:{index}",
        scope=Scope.DEVICE,
        source=f"{_text(pynvml.nvmlDeviceGetName(handle))}, board power by NVML",
        device_id=_text(pynvml.nvmlDeviceGetUUID(handle)),
        has_counter=has_counter,
    )
    return Channel(info, partial(read, pynvml.nvmlDeviceGetPowerUsage), read_energy_j if has_counter else None)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)  # bytes before nvidia-ml-py 11.510
