"""Power and energy of devices under the kernel's hwmon, such as AMD and Intel GPUs and AMD processors.

https://docs.kernel.org/hwmon/sysfs-interface.html: power*_average and power*_input are in microwatts, energy*_input in
microjoules, power*_label and energy*_label name them; power*_cap is the power limit. The refresh interval is in
update_interval and the averaging time in power*_average_interval, both in milliseconds. The drivers of `KNOWN` state no
accuracy.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

from jpwr.backends.files import pci_id_of, reading_of, seconds_of_file, text_of
from jpwr.backends.parts import channel_of, one_at_least, unique, unless_all_are_lost
from jpwr.backends.rocm import has_cpu
from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import BackendUnavailable

HWMON = Path("/sys/class/hwmon")
MICRO = 1e-6
AVERAGED_S = 1.0  # of power*_average without an interval: drivers state none, and a longer one is not known
# Labels of the sensor that covers a whole chip, by driver: a chip's other sensors measure parts of it, and other chips
# belong to no scope. If several drivers list the processors, the first one of this table is used.
KNOWN = {
    "amdgpu": (Scope.DEVICE, r"PPT|slowPPT|"),
    "i915": (Scope.DEVICE, r"card|"),
    "xe": (Scope.DEVICE, r"card|"),
    "amd_energy": (Scope.CPU, r"Esocket\d+"),
    "zenpower": (Scope.CPU, r"SVI2_P_SoC|SVI2_P_Core"),
    "fam15h_power": (Scope.CPU, r""),
}


def open_channels(stack: ExitStack, hwmon: Path = HWMON) -> list[Channel]:
    """Open a channel for each device of a known driver; raise BackendUnavailable if none can be read."""
    channels: dict[str, Channel] = {}
    others = []
    in_order = sorted(hwmon.glob("hwmon*"), key=lambda chip: int(re.sub(r"\D", "", chip.name) or 0))
    chips = {chip: text_of(chip / "name") for chip in in_order}
    cpu_driver = next((name for name in KNOWN if KNOWN[name][0] is Scope.CPU and name in chips.values()), None)
    for chip, chip_name in chips.items():
        if (chip / "device" / "power1_oem_info").exists():
            continue  # a Grace module's power meters belong to the method gh
        for sensor, label in _sensors(chip):
            scope, labels = KNOWN.get(chip_name, (None, ""))
            is_duplicate = scope is Scope.CPU and chip_name != cpu_driver
            if scope is None or is_duplicate or not re.fullmatch(labels, label):
                others.append(f"{chip_name} {label or sensor}".strip())
                continue
            if scope is Scope.DEVICE and (has_cpu("", pci_id_of(chip / "device")) or _is_apu(chip / "device")):
                scope = Scope.MODULE
            name = unique(":".join(["hwmon", chip_name, label or sensor]), channels)
            channels[name] = _channel(stack, chip, chip_name, sensor, name, scope)
    if not channels:
        seen = f"; its other sensors ({', '.join(others)}) cover no whole device" if others else ""
        raise BackendUnavailable(f"{hwmon} has no power sensor of a known driver{seen}")
    return unless_all_are_lost(list(channels.values()))


def _is_apu(device: Path) -> bool:
    """Whether amdgpu gives the metrics of a GPU with a processor, whose power "on APUs includes the CPU" (amdgpu_pm.c).

    The third byte of gpu_metrics is the format: 1 for GPUs alone, 2 and 3 for APUs (kgd_pp_interface.h).
    """
    try:
        return (device / "gpu_metrics").read_bytes()[2:3] in (b"\2", b"\3")
    except OSError:
        return False


def _sensors(chip: Path) -> list[tuple[str, str]]:
    """Return the numbers and labels of a chip's sensors; power and energy of one number are of the same sensor."""
    found: dict[str, str] = {}
    for path in sorted(chip.glob("*_*")):
        match = re.fullmatch(r"(power|energy)(\d+)_(average|input)", path.name)
        if match:
            labels = (text_of(chip / f"{kind}{match[2]}_label") for kind in ("power", "energy"))
            found[match[2]] = next(filter(None, labels), "")
    return sorted(found.items(), key=lambda item: int(item[0]))


def _channel(stack: ExitStack, chip: Path, chip_name: str, number: str, name: str, scope: Scope) -> Channel:
    average, instant = chip / f"power{number}_average", chip / f"power{number}_input"
    power_path = instant if instant.exists() else average
    energy_path = chip / f"energy{number}_input"
    power, energy = one_at_least(reading_of(stack, power_path, MICRO), reading_of(stack, energy_path, MICRO))
    cap_uw = text_of(chip / f"power{number}_cap")
    update_s = seconds_of_file(chip / "update_interval")
    averaging_s = seconds_of_file(chip / f"power{number}_average_interval") or AVERAGED_S
    bus_id = (chip / "device").resolve().name if (chip / "device").exists() else ""
    info = ChannelInfo(
        name,
        scope,
        f"{chip_name} by hwmon, {power_path.name if power else energy_path.name}",
        device_id=bus_id,
        counter_resolution_j=MICRO,
        averaging_s=averaging_s if power and power_path == average else 0.0,
        period_s=update_s,
        held_s=update_s,
        limit_w=int(cap_uw) * MICRO if cap_uw.isdigit() else 0.0,
    )
    return channel_of(info, power, energy)
