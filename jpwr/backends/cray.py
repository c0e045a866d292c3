"""Power of an HPE Cray EX or XC node, from the kernel's pm_counters.

Each file holds "VALUE UNIT TIMESTAMP us" and is refreshed ten times a second: watts in `power`, joules in `energy`, and
the same for accelerators, CPU and memory as accelN_power, cpu_power, memory_power and so on. An accelerator that is a
processor with its GPU, such as MI300A, is a module.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

from jpwr.backends.files import pci_id_of, reading_of
from jpwr.backends.parts import channel_of, one_at_least, unless_all_are_lost
from jpwr.backends.rocm import has_cpu
from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import BackendUnavailable

PM_COUNTERS = Path("/sys/cray/pm_counters")
PCI_DEVICES = Path("/sys/bus/pci/devices")
# 10 Hz (Martin and Kappel, Cray XC30 power monitoring and management, CUG 2014). HPE's "User access to compute node
# power data" describes power as an instantaneous value, and states no accuracy.
PERIOD_S = 0.1
COUNTER_STEP_J = 1.0  # whole joules
WATTS = {"W": 1.0, "mW": 1e-3, "kW": 1e3}
JOULES = {"J": 1.0, "mJ": 1e-3, "kJ": 1e3}
PARTS = re.compile(r"(?:(accel\d+|cpu\d*|memory\d*)_)?power")


def open_channels(stack: ExitStack, pm_counters: Path = PM_COUNTERS, pci: Path = PCI_DEVICES) -> list[Channel]:
    """Open a channel for the node and each part of it; raise BackendUnavailable if none can be read."""
    channels = []
    paths = {found[1] or "node": path for path in pm_counters.glob("*power") if (found := PARTS.fullmatch(path.name))}
    for part, path in sorted(paths.items()):
        if re.sub(r"\d+$", "", part) in paths.keys() - {part}:
            continue  # another file has the sum of all parts of this kind
        energy_path = path.with_name(path.name[: -len("power")] + "energy")
        readings = one_at_least(reading_of(stack, path, 1.0, WATTS), reading_of(stack, energy_path, 1.0, JOULES))
        scope = _scope(part, pci)
        info = ChannelInfo(
            f"cray:{part}",
            scope,
            f"HPE Cray pm_counters{', power of the socket, CPU and GPU' if scope is Scope.MODULE else ''}",
            period_s=PERIOD_S,
            counter_resolution_j=COUNTER_STEP_J,
            counter_refresh_s=PERIOD_S,
            held_s=PERIOD_S,
        )
        channels.append(channel_of(info, *readings))
    if not channels:
        raise BackendUnavailable(f"{pm_counters}/power does not exist: this is not an HPE Cray node")
    return unless_all_are_lost(channels)


def _scope(part: str, pci: Path) -> Scope:
    if part.startswith("accel"):
        return Scope.MODULE if any(has_cpu("", pci_id_of(device)) for device in pci.glob("*")) else Scope.DEVICE
    if part.startswith("cpu"):
        return Scope.CPU
    return Scope.DRAM if part.startswith("memory") else Scope.NODE
