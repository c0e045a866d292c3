"""Power of Grace and Grace-Hopper modules, from the kernel's hwmon files.

https://docs.nvidia.com/grace-performance-tuning-guide: each socket has an ACPI power meter for the module, for Grace
with its memory, for the CPU's rail and for SysIO, named in power1_oem_info.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path

from jpwr.backends.files import open_reading, text_of
from jpwr.backends.parts import attempt, channel_of, unique, unless_all_are_lost
from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import BackendUnavailable

HWMON = Path("/sys/class/hwmon")
# "Grace Power" contains the rails "CPU Power" and "SysIO Power": only one of them may be in the sum of the scope CPU.
# The rails are left out, so that Grace's sum is whole; `device` is NVML's to tell.
SCOPES = {"Module": Scope.MODULE, "Grace": Scope.CPU}
MICROWATT = 1e-6


def open_channels(stack: ExitStack, hwmon: Path = HWMON) -> list[Channel]:
    channels: dict[str, Channel] = {}
    for meter in sorted(hwmon.glob("hwmon*/device/power1_oem_info")):
        label = text_of(meter)
        scope = SCOPES.get(label.split(" ")[0])
        if scope is None:
            continue
        interval_ms = text_of(meter.with_name("power1_average_interval"))
        info = ChannelInfo(
            unique(f"gh:{label}", channels),
            scope,
            "ACPI power meter by hwmon",
            averaging_s=int(interval_ms) / 1000 if interval_ms.isdigit() else 0.0,
        )
        power = attempt(partial(open_reading, stack, meter.with_name("power1_average"), MICROWATT))
        channels[info.name] = channel_of(info, power)
    if not channels:
        raise BackendUnavailable(f"no power meter of a Grace module is under {hwmon}: this is not a Grace-Hopper node")
    return unless_all_are_lost(list(channels.values()))
