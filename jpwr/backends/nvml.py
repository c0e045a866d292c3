"""Power of NVIDIA GPUs, through NVML and nvidia-ml-py."""

from __future__ import annotations

import ctypes
import os
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Callable, Mapping, Union

from jpwr.backends.parts import Lost, attempt, channel_of, in_time, seconds_of, unless_all_are_lost
from jpwr.backends.visible import visible
from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import BackendUnavailable, ReadError

VISIBLE = (("CUDA_VISIBLE_DEVICES",),)
# NVIDIA's documentation of nvmlDeviceGetPowerUsage: a one-second average on Ampere and later, but not on GA100.
AVERAGED_S = 1.0
COUNTER_STEP_J = 0.001  # the counter is in millijoules
_Number = Union[ctypes.c_uint, ctypes.c_ulonglong]
# Yang et al. 2023 (arXiv:2312.02741): the longest refresh interval that they observed. On the chips GA100 and GH100,
# known by their compute capabilities, a value is the average over 25 ms of each 100 ms.
REFRESH_S = 0.1
SEEN_SHARE = 0.25
SEEN_IN_PART = ((8, 0), (9, 0))
# The NVML reference (nvmlDeviceGetPowerUsage) states +-5 % for Fermi and Kepler boards (compute capability 2, 3), and
# nothing for newer ones.
ACCURACY, DOCUMENTED_UNTIL = 0.05, 3


def open_channels(stack: ExitStack, environ: Mapping[str, str] = os.environ) -> list[Channel]:
    """Open a channel for each GPU; raise BackendUnavailable without a driver, a GPU or a readable sensor."""
    try:
        import pynvml
    except ImportError as error:
        raise BackendUnavailable("Python has no module pynvml: pip install nvidia-ml-py") from error
    try:
        pynvml.nvmlInit()
        stack.callback(pynvml.nvmlShutdown)
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        raise BackendUnavailable(f"NVML cannot be used ({error}): is this a node with an NVIDIA driver?") from error
    if not count:
        raise BackendUnavailable("the NVIDIA driver lists no GPU: check 'nvidia-smi' and the job's allocation")
    opened = [in_time(partial(_channel, pynvml, index), partial(_lost, index)) for index in range(count)]
    channels, ids = zip(*opened)
    mine = visible(environ, VISIBLE, ids)
    return unless_all_are_lost(
        [channel._replace(info=channel.info._replace(mine=index in mine)) for index, channel in enumerate(channels)]
    )


def _info(index: int) -> ChannelInfo:
    return ChannelInfo(f"pynvml:{index}", Scope.DEVICE, "a GPU by NVML")


def _lost(index: int, why: Lost) -> tuple[Channel, list[str]]:
    return channel_of(_info(index), why), []


def _channel(nvml: Any, index: int) -> tuple[Channel, list[str]]:
    """Open one GPU; return its channel, and the ids by which a job may name it or a part of it.

    A GPU that cannot be opened is not read again, because it may hang.
    """
    try:
        device = _Device(nvml, nvml.nvmlDeviceGetHandleByIndex(index))
    except nvml.NVMLError as error:
        return _lost(index, Lost(f"NVML: {error}"))
    instant, averaged = attempt(device.instant_power), attempt(device.averaged_power)
    power, kind, averaging_s = instant, "instant power", 0.0
    if isinstance(instant, Lost):
        power, kind, averaging_s = averaged, "averaged power", AVERAGED_S
    if isinstance(power, Lost):
        kind, averaging_s = "energy", 0.0
    energy = attempt(device.energy)
    uuid, capability = device.text("nvmlDeviceGetUUID"), device.compute_capability()
    name = device.text("nvmlDeviceGetName") or "NVIDIA GPU"
    divided = "; divided by MIG: all its instances together" if device.is_divided() else ""
    # Before driver 470, an instance was named by its GPU's UUID.
    ids = [uuid, f"MIG-{uuid}", *device.instances()] if divided else [uuid]
    info = _info(index)._replace(
        source=f"{name}, {kind} of the board by NVML{divided}",
        device_id=uuid,
        averaging_s=averaging_s,
        counter_resolution_j=COUNTER_STEP_J,
        counter_refresh_s=REFRESH_S,
        held_s=REFRESH_S,
        accuracy=ACCURACY,
        accuracy_from="documentation" if capability and capability[0] <= DOCUMENTED_UNTIL else "assumed",
        seen_share=SEEN_SHARE if capability in SEEN_IN_PART else 1.0,
        limit_w=device.limit_w(),
    )
    return channel_of(info, power, energy, device.status())._replace(counter_takes_s=seconds_of(energy)), ids


class _Device:
    """One GPU.

    Each sample calls the library that nvidia-ml-py has opened, but not through its wrappers: these allocate memory for
    each result, which takes about as long as the call. A partial in place of the direct call takes a tenth of it.
    """

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle

    def averaged_power(self) -> Callable[[], float]:
        """Return a function that reads watts; this and the next two raise ReadError if the reading is unavailable."""
        return self._number("nvmlDeviceGetPowerUsage", per_unit=1000)  # of milliwatts

    def energy(self) -> Callable[[], float]:
        """Return a function that reads the energy counter, in joules."""
        return self._number("nvmlDeviceGetTotalEnergyConsumption", kind=ctypes.c_ulonglong, per_unit=1000)

    def instant_power(self) -> Callable[[], float]:
        """Return a function that reads instantaneous watts, which newer drivers have as a field."""
        try:
            field = self._nvml.c_nvmlFieldValue_t(fieldId=self._nvml.NVML_FI_DEV_POWER_INSTANT)
        except AttributeError as error:
            raise ReadError("this nvidia-ml-py has no field for instant power") from error
        take, handle, into = self._function("nvmlDeviceGetFieldValues"), self._handle, ctypes.byref(field)
        milliwatts = ctypes.c_uint.from_buffer(field, type(field).value.offset)

        def read() -> float:
            failed = take(handle, 1, into) or field.nvmlReturn
            if failed:
                raise self._error(failed)
            return milliwatts.value / 1000

        read()
        return read

    def compute_capability(self) -> tuple[int, int] | None:
        """Return the major and the minor number of the compute capability, or None if unknown."""
        try:
            major, minor = self._nvml.nvmlDeviceGetCudaComputeCapability(self._handle)
        except (self._nvml.NVMLError, AttributeError):
            return None
        return major, minor

    def limit_w(self) -> float:
        """Return the power limit in watts, or 0 if unknown."""
        found: float | Lost = attempt(lambda: self._number("nvmlDeviceGetEnforcedPowerLimit", per_unit=1000)())
        return 0.0 if isinstance(found, Lost) else found

    def status(self) -> Callable[[], dict[str, Any]] | None:
        """Return a function that reads clocks in MHz, power limit in W, temperature in °C and throttle reasons."""
        nvml = self._nvml
        asked: list[tuple[str, str, tuple[int, ...], type[_Number], Callable[[int], Any]]] = [
            ("sm_clock_mhz", "nvmlDeviceGetClockInfo", (nvml.NVML_CLOCK_SM,), ctypes.c_uint, int),
            ("memory_clock_mhz", "nvmlDeviceGetClockInfo", (nvml.NVML_CLOCK_MEM,), ctypes.c_uint, int),
            ("temperature_c", "nvmlDeviceGetTemperature", (nvml.NVML_TEMPERATURE_GPU,), ctypes.c_uint, int),
            ("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit", (), ctypes.c_uint, lambda mw: mw / 1000),
            ("throttle_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", (), ctypes.c_ulonglong, "0x{:x}".format),
        ]
        known = []
        for key, name, arguments, kind, form in asked:
            with suppress(ReadError):
                number = kind()
                take = partial(self._function(name), self._handle, *arguments, ctypes.byref(number))
                if not take():
                    known.append((key, take, number, form))

        def read_status() -> dict[str, Any]:
            return {key: form(number.value) for key, take, number, form in known if not take()}

        return read_status if known else None

    def instances(self) -> list[str]:
        """Return the UUIDs of the GPU's MIG instances."""
        nvml = self._nvml
        found = []
        with suppress(nvml.NVMLError, AttributeError):
            for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(self._handle)):
                with suppress(nvml.NVMLError):  # there may be fewer than the maximum
                    instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(self._handle, number)
                    found.append(_Device(nvml, instance).text("nvmlDeviceGetUUID"))
        return found

    def text(self, name: str) -> str:
        """Return the text from nvidia-ml-py's function of that name; empty if the function fails."""
        try:
            value = getattr(self._nvml, name)(self._handle)
        except (self._nvml.NVMLError, UnicodeError):
            return ""
        # Bytes before nvidia-ml-py 11.510.
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def is_divided(self) -> bool:
        """Whether the GPU is divided by MIG."""
        try:
            return bool(self._nvml.nvmlDeviceGetMigMode(self._handle)[0])
        except (self._nvml.NVMLError, AttributeError):  # an older driver, an older nvidia-ml-py
            return False

    def _number(self, name: str, per_unit: int, kind: type[Any] = ctypes.c_uint) -> Callable[[], Any]:
        """Return a function that reads one number, after a first read; raise ReadError if that read fails."""
        number = kind()
        take, handle, into = self._function(name), self._handle, ctypes.byref(number)

        def read() -> Any:
            code = take(handle, into)
            if code:
                raise self._error(code)
            return number.value / per_unit

        read()
        return read

    def _function(self, name: str) -> Callable[..., int]:
        """Return a function of the library, which returns an error code; raise ReadError if the library lacks it."""
        try:
            found: Callable[..., int] = self._nvml.nvmlLib[name]
            return found
        except AttributeError as error:
            raise ReadError(f"this driver's NVML has no {name}") from error

    def _error(self, code: int) -> ReadError:
        return ReadError(f"NVML: {self._nvml.NVMLError(code)}")
