"""Power limits and clocks of NVIDIA GPUs, through NVML and nvidia-ml-py.

The NVML reference reserves power limits and locked clocks to root. It lets an administrator open application clocks to
all users (nvmlDeviceSetAPIRestriction), so these are the second choice for a clock. NVML cannot return locked clocks.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Callable, Mapping, TypeVar

from jpwr.backends import nvml as backend
from jpwr.errors import BackendUnavailable, JpwrError
from jpwr.limits.setting import CLOCK, POWER, NoRight, Setting

# nvmlClocksEventReasonApplicationsClocksSetting: application clocks or locked clocks limit the device.
BY_USER = 0x2
T = TypeVar("T")


def open_settings(stack: ExitStack, environ: Mapping[str, str] = os.environ) -> list[Setting]:
    """Return the settings of the job's GPUs; raise BackendUnavailable without a driver or a GPU."""
    channels = backend.open_channels(stack, environ)
    import pynvml

    found: list[Setting] = []
    for info in (channel.info for channel in channels if channel.info.mine):
        if not info.device_id:
            raise BackendUnavailable(f"{info.name} {info.lacks}")
        found += _settings(pynvml, info.name, info.device_id)
    return found


def _settings(nvml: Any, channel: str, uuid: str) -> list[Setting]:
    def call(name: str, *arguments: Any) -> Any:
        try:
            return getattr(nvml, name)(handle, *arguments)
        except nvml.NVMLError as error:
            kind = NoRight if error.value == nvml.NVML_ERROR_NO_PERMISSION else JpwrError
            raise kind(f"NVML: {error}") from error

    handle = nvml.nvmlDeviceGetHandleByIndex(int(channel.rpartition(":")[2]))
    why_not = ""
    with suppress(JpwrError):
        if call("nvmlDeviceGetMigMode")[0]:
            why_not = "it is divided by MIG, and the limit would also hold for others"
    found = []
    with suppress(JpwrError):  # not every GPU has a power limit
        least, most = call("nvmlDeviceGetPowerManagementLimitConstraints")

        def set_limit_w(limit: float | None) -> None:
            call("nvmlDeviceSetPowerManagementLimit", round(1000 * (limit or 0)))

        found.append(
            Setting(
                device_id=uuid,
                channel=channel,
                kind=POWER,
                means="NVML power limit",
                full=_watts(call, "nvmlDeviceGetPowerManagementDefaultLimit"),
                least=least / 1000,
                most=most / 1000,
                kept=partial(_watts, call, "nvmlDeviceGetPowerManagementLimit"),
                in_force=partial(_watts, call, "nvmlDeviceGetEnforcedPowerLimit"),
                write=set_limit_w,
                undo=set_limit_w,
                why_not=why_not,
            )
        )
    with suppress(JpwrError):
        found += _clocks(nvml, call, channel, uuid, why_not)
    return found


def _clocks(nvml: Any, call: Callable[..., Any], channel: str, uuid: str, why_not: str) -> list[Setting]:
    most = float(call("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM))
    memory_mhz = call("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM)
    steps = sorted(map(float, call("nvmlDeviceGetSupportedGraphicsClocks", memory_mhz)))

    def clock_mhz() -> float:
        return float(call("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM))

    def lock(mhz: float) -> None:
        call("nvmlDeviceSetGpuLockedClocks", int(mhz), int(mhz))

    def unlock(_: float | None) -> None:
        call("nvmlDeviceResetGpuLockedClocks")

    def application_mhz() -> float:
        return float(call("nvmlDeviceGetApplicationsClock", nvml.NVML_CLOCK_GRAPHICS))

    def set_application_mhz(mhz: float | None) -> None:
        call("nvmlDeviceSetApplicationsClocks", memory_mhz, int(mhz or 0))

    locked = Setting(
        device_id=uuid,
        channel=channel,
        kind=CLOCK,
        means="NVML locked clocks",
        full=most,
        least=steps[0] if steps else 0.0,
        most=most,
        kept=lambda: None,
        in_force=clock_mhz,
        write=lock,
        undo=unlock,
        steps=steps,
        why_not=why_not or _locked_by_others(call, application_mhz, most),
    )
    application = locked._replace(
        means="NVML application clocks",
        kept=application_mhz,
        write=set_application_mhz,
        undo=set_application_mhz,
        why_not=why_not,
    )
    with suppress(JpwrError):
        application_mhz()
        return [locked, application]
    return [locked]


def _locked_by_others(call: Callable[..., Any], application_mhz: Callable[[], float], most: float) -> str:
    """Return a reason if clocks are locked already, because NVML could not restore them; empty if not, or unknown."""
    with suppress(JpwrError):
        held = call("nvmlDeviceGetCurrentClocksThrottleReasons") & BY_USER
        if held and application_mhz() >= most:
            return "its clocks are locked already, and NVML could not restore that: unlock them with 'nvidia-smi -rgc'"
    return ""


def _watts(call: Callable[..., Any], name: str) -> float:
    return float(call(name)) / 1000  # NVML returns milliwatts
