"""Power caps and clocks of AMD GPUs, through amdsmi, which writes to sysfs: only root may.

A clock is limited by the performance level "determinism" (ROCm SMI: --setperfdeterminism), whose highest clock amdsmi
returns as that of the range, and which the level "auto" ends.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Mapping

from jpwr.backends import rocm as backend
from jpwr.backends.visible import visible
from jpwr.errors import BackendUnavailable, JpwrError
from jpwr.limits.setting import CLOCK, POWER, Setting

NO_READING = (JpwrError, KeyError, ValueError)  # the last two by the versions of amdsmi that return "N/A"
SHARED = "other devices of its card are not this job's, and the limit would also hold for them"


def open_settings(stack: ExitStack, environ: Mapping[str, str] = os.environ) -> list[Setting]:
    """Return the settings of the job's GPUs; raise BackendUnavailable without amdsmi or a GPU.

    The two dies of a card have one power cap and a clock each.
    """
    channels = backend.open_channels(stack, environ)
    try:
        import amdsmi
    except Exception as error:  # without libamd_smi.so, the import raises KeyError or others, by its version
        raise BackendUnavailable("limits need amdsmi, and Python cannot import it: pip install amdsmi") from error
    handles = amdsmi.amdsmi_get_processor_handles()
    ids = [backend.open_device(amdsmi, handle).device_id for handle in handles]
    mine = visible(environ, backend.VISIBLE, [[device_id] for device_id in ids])
    found: list[Setting] = []
    for info in (channel.info for channel in channels if channel.info.mine):
        on_card = [index for index, device_id in enumerate(ids) if device_id in info.device_id.split()]
        shared = "" if {*on_card} <= {*mine} else SHARED
        for index in on_card:
            found += _settings(amdsmi, info.name, ids[index], handles[index], shared)
    return found


def _settings(amdsmi: Any, channel: str, device_id: str, handle: Any, shared: str) -> list[Setting]:
    def call(name: str, *arguments: Any) -> Any:
        try:
            return getattr(amdsmi, f"amdsmi_{name}")(handle, *arguments)
        except amdsmi.AmdSmiException as error:
            raise JpwrError(f"amdsmi: {' '.join(str(error).split())}") from error
        except AttributeError as error:
            raise JpwrError(f"this amdsmi has no amdsmi_{name}") from error

    def cap_w(name: str = "power_cap") -> float:
        return float(call("get_power_cap_info")[name]) * backend.MICRO

    def set_cap_w(cap: float | None) -> None:
        call("set_power_cap", 0, round((cap or 0) / backend.MICRO))

    def mhz(name: str = "max_clk") -> float:
        return float(call("get_clock_info", amdsmi.AmdSmiClkType.GFX)[name])

    def set_mhz(mhz: float) -> None:
        call("set_gpu_perf_determinism_mode", int(mhz))

    def set_auto(_: float | None) -> None:
        call("set_gpu_perf_level", amdsmi.AmdSmiDevPerfLevel.AUTO)

    found, device = [], partial(Setting, device_id, channel)
    with suppress(*NO_READING):  # the second die of a card has no cap
        least_w, most_w, full_w = map(cap_w, ("min_power_cap", "max_power_cap", "default_power_cap"))
        if 0 < most_w < backend.NO_POWER_W:
            span = (full_w or most_w, least_w, most_w)
            found.append(device(POWER, "AMD power cap", *span, cap_w, cap_w, set_cap_w, set_cap_w, why_not=shared))
    with suppress(*NO_READING):
        level, span = call("get_gpu_perf_level"), (mhz(), mhz("min_clk"), mhz())
        words = f"its performance level is {level}, not auto: an administrator can reset it with 'amd-smi reset'"
        why_not = shared or ("" if level == "AMDSMI_DEV_PERF_LEVEL_AUTO" else words)
        found.append(device(CLOCK, "AMD performance determinism", *span, mhz, mhz, set_mhz, set_auto, why_not=why_not))
    return found
