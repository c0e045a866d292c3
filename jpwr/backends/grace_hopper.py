"""Power of Grace and Grace-Hopper modules, from the kernel's hwmon files.

https://docs.nvidia.com/grace-performance-tuning-guide: each socket has an ACPI power meter for the module, for Grace
with its memory, for the CPU's rail and for SysIO, named in power1_oem_info.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path

from jpwr.backends.files import open_reading, seconds_of_file, text_of
from jpwr.backends.parts import attempt, channel_of, unique, unless_all_are_lost
from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import BackendUnavailable

HWMON = Path("/sys/class/hwmon")
# "Grace Power" contains the rails "CPU Power" and "SysIO Power", which are left out so that nothing is counted twice in
# the scope CPU. The scope DEVICE is NVML's.
METERS = {
    "Module": (Scope.MODULE, "the module: CPU, GPU and memory"),
    "Grace": (Scope.CPU, "the processor and its memory"),
}
MICROWATT = 1e-6
# power1_accuracy is the firmware's value in ACPI's _PMC (section 10.4), such as "97.5%", where 100 % is exact. A lower
# value is implausible and counts as not stated.
LEAST_ACCURATE = 0.5


def open_channels(stack: ExitStack, hwmon: Path = HWMON) -> list[Channel]:
    """Open a channel for each module and each Grace processor; raise BackendUnavailable if none can be read."""
    channels: dict[str, Channel] = {}
    for meter in sorted(hwmon.glob("hwmon*/device/power1_oem_info")):
        label = text_of(meter)
        scope, part = METERS.get(label.split(" ")[0], (None, ""))
        if scope is None:
            continue
        interval_s = seconds_of_file(meter.with_name("power1_average_interval"))
        accuracy = _accuracy(text_of(meter.with_name("power1_accuracy")))
        info = ChannelInfo(
            unique(f"gh:{label}", channels),
            scope,
            f"ACPI power meter by hwmon, of {part}",
            averaging_s=interval_s,
            # The kernel reads the meter again after its sampling time, which is not exported
            # (drivers/hwmon/acpi_power_meter.c) and is at most the averaging time.
            held_s=interval_s,
            accuracy=accuracy,
            accuracy_from="documentation" if accuracy else "",
        )
        power = attempt(partial(open_reading, stack, meter.with_name("power1_average"), MICROWATT))
        channels[info.name] = channel_of(info, power)
    if not channels:
        raise BackendUnavailable(f"{hwmon} has no power meter of a Grace module: this is not a Grace-Hopper node")
    return unless_all_are_lost(list(channels.values()))


def _accuracy(text: str) -> float:
    """Return the bound on a meter's error as a share of the reading; 0 if it states none."""
    try:
        exact = float(text.rstrip("%")) / 100
    except ValueError:
        return 0.0
    return round(1 - exact, 6) if LEAST_ACCURATE <= exact < 1 else 0.0
