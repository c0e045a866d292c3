"""Power of NVIDIA GPUs, through NVML and nvidia-ml-py."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from typing import Any, Callable, Mapping

from jpwr.backends.visible import is_visible
from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import BackendUnavailable, ReadError

# NVIDIA's documentation of nvmlDeviceGetPowerUsage: a one-second average on Ampere and later, but not on GA100.
AVERAGED_S = 1.0
COUNTER_STEP_J = 0.001  # it counts millijoules
REFRESH_S = 0.1  # the longest that Yang et al. 2023 (arXiv:2312.02741) saw between two values of the sensor


def open_channels(stack: ExitStack, environ: Mapping[str, str] = os.environ) -> list[Channel]:
    try:
        import pynvml
    except ImportError as error:
        raise BackendUnavailable("Python has no module pynvml: pip install nvidia-ml-py") from error
    try:
        pynvml.nvmlInit()
        stack.callback(pynvml.nvmlShutdown)
        devices = [_Device(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        raise BackendUnavailable(f"NVML cannot be used ({error}): is this a node with an NVIDIA driver?") from error
    if not devices:
        raise BackendUnavailable("the NVIDIA driver is there, but it shows no GPU")
    return [device.channel(environ) for device in devices]


class _Device:
    """One GPU, and what its driver can tell."""

    def __init__(self, pynvml: Any, index: int) -> None:
        self._nvml = pynvml
        self._index = index
        self._handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        self._has_instant = self._try(self._read_instant_w) is not None
        self._has_counter = self._try(self._read_energy_j) is not None

    def channel(self, environ: Mapping[str, str]) -> Channel:
        uuid = _text(self._nvml.nvmlDeviceGetUUID(self._handle))
        kind = "instant power" if self._has_instant else "averaged power"
        source = f"{_text(self._nvml.nvmlDeviceGetName(self._handle))}, {kind} of the board by NVML"
        mig = self._try(partial(self._call, self._nvml.nvmlDeviceGetMigMode))
        if mig and mig[0]:
            source += "; divided by MIG: all its instances together"
        info = ChannelInfo(
            name=f"pynvml:{self._index}",
            scope=Scope.DEVICE,
            source=source,
            device_id=uuid,
            has_counter=self._has_counter,
            mine=is_visible(environ, ("CUDA_VISIBLE_DEVICES",), self._index, uuid),
            averaging_s=0.0 if self._has_instant else AVERAGED_S,
            counter_resolution_j=COUNTER_STEP_J if self._has_counter else 0.0,
            counter_refresh_s=REFRESH_S if self._has_counter else 0.0,
            held_s=REFRESH_S,
        )
        read_power_w = self._read_instant_w if self._has_instant else self._read_averaged_w
        return Channel(info, read_power_w, self._read_energy_j if self._has_counter else None, self._read_status)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(self._handle, *arguments)
        except self._nvml.NVMLError as error:
            raise ReadError(f"NVML: {error}") from error

    def _try(self, read: Callable[[], Any]) -> Any:
        """What `read` gives, None where driver or device cannot tell."""
        try:
            return read()
        except (ReadError, AttributeError):  # an older nvidia-ml-py lacks a function
            return None

    def _read_averaged_w(self) -> float:
        return float(self._call(self._nvml.nvmlDeviceGetPowerUsage)) / 1000  # NVML reports milliwatts

    def _read_instant_w(self) -> float:
        [field] = self._call(self._nvml.nvmlDeviceGetFieldValues, [self._nvml.NVML_FI_DEV_POWER_INSTANT])
        if field.nvmlReturn != self._nvml.NVML_SUCCESS:
            raise ReadError(f"NVML: {self._nvml.NVMLError(field.nvmlReturn)}")
        return int(field.value.uiVal) / 1000

    def _read_energy_j(self) -> float:
        return float(self._call(self._nvml.nvmlDeviceGetTotalEnergyConsumption)) / 1000  # and millijoules

    def _read_status(self) -> dict[str, Any]:
        """Clocks in MHz, limit in W, temperature in degrees Celsius, and why clocks are held back; what is known."""
        nvml = self._nvml
        limit_mw = self._try(partial(self._call, nvml.nvmlDeviceGetEnforcedPowerLimit))
        throttle = self._try(partial(self._call, nvml.nvmlDeviceGetCurrentClocksThrottleReasons))
        status = {
            "sm_clock_mhz": self._try(partial(self._call, nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM)),
            "memory_clock_mhz": self._try(partial(self._call, nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM)),
            "temperature_c": self._try(partial(self._call, nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU)),
            "power_limit_w": None if limit_mw is None else limit_mw / 1000,
            "throttle_reasons": None if throttle is None else f"0x{throttle:x}",
        }
        return {key: value for key, value in status.items() if value is not None}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)  # bytes before nvidia-ml-py 11.510
