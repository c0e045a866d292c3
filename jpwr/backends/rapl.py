"""Energy of CPU packages and memory, from the kernel's RAPL counters.

https://docs.kernel.org/power/powercap/powercap.html: `energy_uj` counts microjoules and starts again at 0 after
`max_energy_range_uj`. AMD processors show their packages under the same name.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Callable

from jpwr.backends.files import NumberFile, text_of
from jpwr.backends.parts import attempt, channel_of, unless_all_are_lost
from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.energy import counter_step
from jpwr.errors import BackendUnavailable

POWERCAP = Path("/sys/class/powercap")
MICROJOULE = 1e-6
REFRESH_S = 0.001  # Intel's Software Developer's Manual, volume 3, section on RAPL: about every millisecond


def open_channels(stack: ExitStack, powercap: Path = POWERCAP) -> list[Channel]:
    channels = []
    for zone in sorted(powercap.glob("intel-rapl:*")):
        scope = _scope(text_of(zone / "name"))
        if scope is None:
            continue
        info = ChannelInfo(
            _name(powercap, zone),
            scope,
            f"RAPL counter {zone.name}",
            counter_resolution_j=MICROJOULE,
            counter_refresh_s=REFRESH_S,
        )
        channels.append(channel_of(info, None, attempt(partial(_open, stack, zone))))
    if not channels:
        raise BackendUnavailable(f"no RAPL counter is under {powercap}: a virtual machine has none as a rule")
    return unless_all_are_lost(channels)


def _open(stack: ExitStack, zone: Path) -> Callable[[], float]:
    counter_range = text_of(zone / "max_energy_range_uj")
    counter = NumberFile(stack, zone / "energy_uj", 1)
    return _Counter(counter, int(counter_range) if counter_range.isdigit() else 0).read_j


def _scope(zone_name: str) -> Scope | None:
    if zone_name.startswith("package"):
        return Scope.CPU
    # "core" and "uncore" are inside the package and are left out, so that a scope can be summed.
    return {"dram": Scope.DRAM, "psys": Scope.NODE}.get(zone_name)


def _name(powercap: Path, zone: Path) -> str:
    parent = text_of(powercap / zone.name.rsplit(":", 1)[0] / "name")
    return ":".join(["rapl", *([parent] if parent else []), text_of(zone / "name")])


class _Counter:
    """A RAPL counter that goes on where the kernel's starts again at 0."""

    def __init__(self, file: NumberFile, counter_range_uj: int) -> None:
        self._file = file
        self._range_uj = counter_range_uj
        self._last_uj = int(file.read())
        self._total_uj = 0

    def read_j(self) -> float:
        now_uj = int(self._file.read())
        self._total_uj += counter_step(self._last_uj, now_uj, self._range_uj)
        self._last_uj = now_uj
        return self._total_uj * MICROJOULE
