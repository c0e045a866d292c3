"""Power and energy of whatever the kernel shows under hwmon, such as AMD and Intel GPUs and AMD processors.

https://docs.kernel.org/hwmon/sysfs-interface.html: power*_average and power*_input are in microwatts, energy*_input in
microjoules, power*_label and energy*_label name them; power*_cap is the most that the device is allowed. How often the
chip has new readings is in update_interval, and over which time an average is taken in power*_average_interval, both in
milliseconds. The drivers of `KNOWN` state no accuracy.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

from jpwr.backends.files import reading_of, seconds_of_file, text_of
from jpwr.backends.parts import channel_of, one_at_least, unique, unless_all_are_lost
from jpwr.backends.rocm import has_cpu
from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import BackendUnavailable

HWMON = Path("/sys/class/hwmon")
MICRO = 1e-6
# What is counted of each kind of chip, by its labels: a chip's other sensors are inside of the counted one, and a chip
# that is not in this table cannot be put into a sum. Of the drivers of processors, the first that is there is taken.
KNOWN = {
    "amdgpu": (Scope.DEVICE, r"PPT|slowPPT|"),
    "i915": (Scope.DEVICE, r"card|"),
    "xe": (Scope.DEVICE, r"card|"),
    "amd_energy": (Scope.CPU, r"Esocket\d+"),
    "zenpower": (Scope.CPU, r"SVI2_P_SoC|SVI2_P_Core"),
    "fam15h_power": (Scope.CPU, r""),
}


def open_channels(stack: ExitStack, hwmon: Path = HWMON) -> list[Channel]:
    channels: dict[str, Channel] = {}
    others = []
    chips = {chip: text_of(chip / "name") for chip in sorted(hwmon.glob("hwmon*"), key=_number)}
    # Several drivers may show the same processors.
    of_processors = next((name for name in KNOWN if KNOWN[name][0] is Scope.CPU and name in chips.values()), None)
    for chip, chip_name in chips.items():
        if (chip / "device" / "power1_oem_info").exists():
            continue  # a Grace module's power meters are those of the method gh
        for sensor, label in _sensors(chip):
            scope, labels = KNOWN.get(chip_name, (None, ""))
            is_twice = scope is Scope.CPU and chip_name != of_processors
            if scope is None or is_twice or not re.fullmatch(labels, label):
                others.append(f"{chip_name} {label or sensor}".strip())
                continue
            if scope is Scope.DEVICE and has_cpu("", _pci_id(chip)):
                scope = Scope.MODULE
            name = unique(":".join(["hwmon", chip_name, label or sensor]), channels)
            channels[name] = _channel(stack, chip, chip_name, sensor, name, scope)
    if not channels:
        seen = f"; its other sensors ({', '.join(others)}) cannot be put into a sum" if others else ""
        raise BackendUnavailable(f"no power of a known kind of device is under {hwmon}{seen}")
    return unless_all_are_lost(list(channels.values()))


def _number(chip: Path) -> int:
    digits = re.sub(r"\D", "", chip.name)
    return int(digits) if digits else 0


def _pci_id(chip: Path) -> int:
    try:
        return int(text_of(chip / "device" / "device"), 16)
    except ValueError:
        return 0


def _sensors(chip: Path) -> list[tuple[str, str]]:
    """Numbers and labels of a chip's sensors; power and energy of one number are the same sensor's."""
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
    is_average = power and power_path == average
    bus_id = (chip / "device").resolve().name if (chip / "device").exists() else ""
    info = ChannelInfo(
        name,
        scope,
        f"{chip_name} by hwmon, {power_path.name if power else energy_path.name}",
        device_id=bus_id,
        counter_resolution_j=MICRO,
        averaging_s=seconds_of_file(chip / f"power{number}_average_interval") if is_average else 0.0,
        period_s=update_s,
        held_s=update_s,
        limit_w=int(cap_uw) * MICRO if cap_uw.isdigit() else 0.0,
    )
    return channel_of(info, power, energy)
