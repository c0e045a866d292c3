"""Power of NVIDIA GPUs, through NVML."""

from __future__ import annotations

import ctypes
import os
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Callable, Container, Mapping, Union

from jpwr.backends.libnvml import CLOCK_MEM, CLOCK_SM, Device, FieldValue, Nvml, NvmlError
from jpwr.backends.parts import Lost, attempt, channel_of, in_time, seconds_of, unless_all_are_lost
from jpwr.backends.visible import visible
from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import BackendUnavailable, ReadError

VISIBLE = (("CUDA_VISIBLE_DEVICES",),)
# NVIDIA's documentation of nvmlDeviceGetPowerUsage: a one-second average on Ampere and later, but not on GA100.
AVERAGED_S = 1.0
POWER_INSTANT = 186  # NVML_FI_DEV_POWER_INSTANT
# Scopes of that field: the GPU alone, or with the NVIDIA CPU on its module (nvml.h, NVML_POWER_SCOPE_GPU and _MODULE).
OF_GPU, OF_MODULE = 0, 1
TEMPERATURE_GPU = 0  # NVML_TEMPERATURE_GPU
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
    nvml = Nvml(stack)
    if not nvml.count:
        raise BackendUnavailable("the NVIDIA driver lists no GPU: check 'nvidia-smi' and the job's allocation")
    opened = [in_time(partial(_channel, nvml, index), partial(_lost, index)) for index in range(nvml.count)]
    channels, ids = zip(*opened)
    mine = visible(environ, VISIBLE, ids)
    return unless_all_are_lost(
        [channel._replace(info=channel.info._replace(mine=index in mine)) for index, channel in enumerate(channels)]
    )


def devices_used_by(processes: Container[int]) -> list[str]:
    """Return the UUIDs of the GPUs on which one of the processes computes; empty if that is unknown.

    Inside a container, a driver may list the host's process numbers. A number that no process has here shows it.
    """
    found: dict[str, list[int]] = {}
    with ExitStack() as stack, suppress(BackendUnavailable):
        nvml = Nvml(stack)
        for index in range(nvml.count):
            with suppress(ReadError):
                device = nvml.device(index)
                found[device.text("nvmlDeviceGetUUID")] = device.processes()
    if not all(os.path.exists(f"/proc/{pid}") for listed in found.values() for pid in listed):  # noqa: PTH110
        return []
    return [uuid for uuid, listed in found.items() if any(pid in processes for pid in listed)]


def _info(index: int) -> ChannelInfo:
    return ChannelInfo(f"pynvml:{index}", Scope.DEVICE, "a GPU by NVML")


def _lost(index: int, why: Lost) -> tuple[Channel, list[str]]:
    return channel_of(_info(index), why), []


def _channel(nvml: Nvml, index: int) -> tuple[Channel, list[str]]:
    """Open one GPU; return its channel, and the ids by which a job may name it or a part of it.

    A GPU that cannot be opened is not read again, because it may hang.
    """
    try:
        device = nvml.device(index)
    except NvmlError as error:
        return _lost(index, Lost(str(error)))
    instant, averaged = attempt(partial(_instant_power, device, OF_GPU)), attempt(partial(_averaged_power, device))
    power, kind, averaging_s = instant, "instant power", 0.0
    if isinstance(instant, Lost):
        power, kind, averaging_s = averaged, "averaged power", AVERAGED_S
    if isinstance(power, Lost):
        kind, averaging_s = "energy", 0.0
    energy = attempt(partial(_energy, device))
    uuid, capability = device.text("nvmlDeviceGetUUID"), _compute_capability(device)
    name = device.text("nvmlDeviceGetName") or "NVIDIA GPU"
    divided = "; divided by MIG: all its instances together" if _is_divided(device) else ""
    # Before driver 470, an instance was named by its GPU's UUID.
    ids = [uuid, f"MIG-{uuid}", *_instances(device)] if divided else [uuid]
    info = _info(index)._replace(
        source=f"{name}, {kind} of {_part(device, power)} by NVML{divided}",
        device_id=uuid,
        averaging_s=averaging_s,
        counter_resolution_j=COUNTER_STEP_J,
        counter_refresh_s=REFRESH_S,
        held_s=REFRESH_S,
        accuracy=ACCURACY,
        accuracy_from="documentation" if capability and capability[0] <= DOCUMENTED_UNTIL else "assumed",
        seen_share=SEEN_SHARE if capability in SEEN_IN_PART else 1.0,
        limit_w=_limit_w(device),
    )
    return channel_of(info, power, energy, _status(device))._replace(counter_takes_s=seconds_of(energy)), ids


def _averaged_power(device: Device) -> Callable[[], float]:
    """Return a function that reads watts; this and the next two raise ReadError if the reading is unavailable."""
    return _reading(device, "nvmlDeviceGetPowerUsage", ctypes.c_uint())


def _energy(device: Device) -> Callable[[], float]:
    """Return a function that reads the energy counter, in joules."""
    return _reading(device, "nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong())


def _reading(device: Device, name: str, number: _Number) -> Callable[[], float]:
    """Return a function that reads a number, a thousandth of which is in watts or joules, after a first read.

    A reading allocates no memory for its result, which takes about as long as the call.
    """
    take = device.function(name, ctypes.byref(number))

    def read() -> float:
        code = take()
        if code:
            device.check(code)
        return number.value / 1000

    read()
    return read


def _part(device: Device, power: Callable[[], float] | Lost) -> str:
    """Return the part of the hardware that power and counter cover, as far as NVML states it.

    nvml.h states no scope of the counter. On a GH200, it counts the module (ml-energy/zeus, pull request 172).
    """
    with suppress(ReadError):
        # A driver that knows no scopes returns the GPU's power for both.
        if not isinstance(power, Lost) and _instant_power(device, OF_MODULE)() > power():
            return "the GPU without its module's CPU, which the counter may include,"
    return "the board"


def _instant_power(device: Device, scope: int) -> Callable[[], float]:
    """Return a function that reads instantaneous watts, which newer drivers have as a field."""
    field = FieldValue(POWER_INSTANT, scope)
    take = device.function("nvmlDeviceGetFieldValues", 1, ctypes.byref(field))
    milliwatts = ctypes.c_uint.from_buffer(field, FieldValue.value.offset)

    def read() -> float:
        code = take() or field.code
        if code:
            device.check(code)
        return milliwatts.value / 1000

    read()
    return read


def _compute_capability(device: Device) -> tuple[int, int] | None:
    """Return the major and the minor number of the compute capability, or None if unknown."""
    with suppress(ReadError):
        return device.two_numbers("nvmlDeviceGetCudaComputeCapability")
    return None


def _limit_w(device: Device) -> float:
    """Return the power limit in watts, or 0 if unknown."""
    with suppress(ReadError):
        return device.number("nvmlDeviceGetEnforcedPowerLimit") / 1000
    return 0.0


def _status(device: Device) -> Callable[[], dict[str, Any]] | None:
    """Return a function that reads clocks in MHz, power limit in W, temperature in °C and throttle reasons."""
    asked: list[tuple[str, str, tuple[int, ...], _Number, Callable[[int], Any]]] = [
        ("sm_clock_mhz", "nvmlDeviceGetClockInfo", (CLOCK_SM,), ctypes.c_uint(), int),
        ("memory_clock_mhz", "nvmlDeviceGetClockInfo", (CLOCK_MEM,), ctypes.c_uint(), int),
        ("temperature_c", "nvmlDeviceGetTemperature", (TEMPERATURE_GPU,), ctypes.c_uint(), int),
        ("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit", (), ctypes.c_uint(), lambda mw: mw / 1000),
        ("throttle_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", (), ctypes.c_ulonglong(), "0x{:x}".format),
    ]
    known = []
    for key, name, arguments, number, form in asked:
        with suppress(ReadError):
            take = device.function(name, *arguments, ctypes.byref(number))
            if not take():
                known.append((key, take, number, form))

    def read_status() -> dict[str, Any]:
        return {key: form(number.value) for key, take, number, form in known if not take()}

    return read_status if known else None


def _instances(device: Device) -> list[str]:
    """Return the UUIDs of the GPU's MIG instances."""
    found = []
    with suppress(ReadError):
        for index in range(device.number("nvmlDeviceGetMaxMigDeviceCount")):
            with suppress(NvmlError):  # there may be fewer than the maximum
                found.append(device.instance(index).text("nvmlDeviceGetUUID"))
    return found


def _is_divided(device: Device) -> bool:
    """Whether the GPU is divided by MIG."""
    with suppress(ReadError):  # an older driver
        return bool(device.two_numbers("nvmlDeviceGetMigMode")[0])
    return False
