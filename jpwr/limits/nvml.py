"""Power limits and clocks of NVIDIA GPUs, through NVML and nvidia-ml-py.

The NVML reference reserves power limits and locked clocks to root. It lets an administrator open application clocks to
all users (nvmlDeviceSetAPIRestriction). NVML cannot return locked clocks.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Mapping

from jpwr.backends import nvml as backend
from jpwr.errors import BackendUnavailable, JpwrError
from jpwr.limits.setting import CLOCK, POWER, Setting

BY_USER = 0x2  # nvmlClocksEventReasonApplicationsClocksSetting: application or locked clocks limit the device
LOCKED = "its clocks are locked already, and NVML could not restore that: unlock them with 'nvidia-smi -rgc'"
# CUDA C++ Programming Guide, environment variables: without CUDA_DEVICE_ORDER=PCI_BUS_ID, the fastest GPU is number 0.
UNORDERED = (
    "this node's GPUs are unlike, and CUDA numbers them by speed: set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the job's "
    "GPUs by their UUIDs in CUDA_VISIBLE_DEVICES"
)
DIVIDED = ("nvmlDeviceGetMigMode", "nvmlDeviceGetVirtualizationMode", "NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU")


def open_settings(stack: ExitStack, environ: Mapping[str, str] = os.environ) -> list[Setting]:
    """Return the settings of the job's GPUs; raise BackendUnavailable without a driver or a GPU, and JpwrError if it is
    uncertain which GPUs are the job's.
    """
    infos = [channel.info for channel in backend.open_channels(stack, environ)]
    by_number = re.search(r"(^|,)\s*\d", environ.get("CUDA_VISIBLE_DEVICES", ""))
    is_in_order = environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({info.source for info in infos}) == 1
    if by_number and not is_in_order and not all(info.mine for info in infos):
        raise JpwrError(UNORDERED)
    package, _ = backend.opened(stack)
    if lacking := next((info for info in infos if info.mine and not info.device_id), None):
        raise BackendUnavailable(f"{lacking.name} {lacking.lacks}")
    return [one for info in infos if info.mine for one in _settings(package, info.name, info.device_id)]


def _settings(nvml: Any, channel: str, uuid: str) -> list[Setting]:
    handle, device = nvml.nvmlDeviceGetHandleByIndex(int(channel.rpartition(":")[2])), partial(Setting, uuid, channel)

    def call(name: str, *arguments: Any) -> Any:
        try:
            return getattr(nvml, f"nvmlDevice{name}")(handle, *arguments)
        except nvml.NVMLError as error:
            raise JpwrError(f"NVML: {error}") from error
        except AttributeError as error:
            raise JpwrError(backend.missing_name(nvml, f"nvmlDevice{name}")) from error

    def watts(name: str) -> float:
        return float(call(name)) / 1000  # NVML returns milliwatts

    def set_w(limit_w: float | None) -> None:
        call("SetPowerManagementLimit", round(1000 * (limit_w or 0)))

    def clock_mhz() -> float:
        return float(call("GetClockInfo", nvml.NVML_CLOCK_SM))

    def lock(mhz: float) -> None:  # only the highest clock, so that an idle device still lowers its own
        call("SetGpuLockedClocks", int(steps[0] if steps else 0), int(mhz))

    def unlock(_: float | None) -> None:
        call("ResetGpuLockedClocks")

    def application_mhz() -> float:
        return float(call("GetApplicationsClock", nvml.NVML_CLOCK_GRAPHICS))

    def set_application_mhz(mhz: float | None) -> None:
        call("SetApplicationsClocks", call("GetApplicationsClock", nvml.NVML_CLOCK_MEM), int(mhz or 0))

    # If the package does not report how the GPU is divided, the limit could also apply to other users.
    shared, found = backend.missing_name(nvml, *DIVIDED), []
    with suppress(JpwrError):
        if call("GetMigMode")[0]:
            shared = "it is divided by MIG, and the limit would also hold for others"
    with suppress(JpwrError):
        if call("GetVirtualizationMode") == nvml.NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU:
            shared = "it is divided among virtual machines, and the limit would also hold for others"
    with suppress(JpwrError):  # not every GPU has a power limit
        full_w = watts("GetPowerManagementDefaultLimit")
        least_w, most_w = (limit / 1000 for limit in call("GetPowerManagementLimitConstraints"))
        readings = (lambda: watts("GetPowerManagementLimit"), lambda: watts("GetEnforcedPowerLimit"))
        power = (POWER, "NVML power limit", full_w, least_w, most_w, *readings, set_w, set_w, (), shared)
        found.append(device(*power))
    with suppress(JpwrError):
        most, most_memory = (float(call("GetMaxClockInfo", one)) for one in (nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM))
        steps = sorted(map(float, call("GetSupportedGraphicsClocks", int(most_memory))))
        span = (most, steps[0] if steps else 0.0, most)
        is_locked = False
        with suppress(JpwrError):
            is_locked = call("GetCurrentClocksThrottleReasons") & BY_USER
            is_locked = is_locked and application_mhz() >= most  # not every GPU has application clocks
        why_not = shared or (LOCKED if is_locked else "")
        locked = (CLOCK, "NVML locked clocks", *span, lambda: None, clock_mhz, lock, unlock, steps, why_not)
        found.append(device(*locked))
        application_mhz()
        application = (CLOCK, "NVML application clocks", *span, application_mhz, clock_mhz)
        found.append(device(*application, set_application_mhz, set_application_mhz, steps, shared))
    return found
