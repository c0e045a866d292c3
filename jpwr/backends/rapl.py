"""Energy of CPU packages and memory, from the kernel's RAPL counters.

https://docs.kernel.org/power/powercap/powercap.html: `energy_uj` counts microjoules and starts again at 0 after
`max_energy_range_uj`. AMD processors show their packages under the same name.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.energy import counter_step
from jpwr.errors import BackendUnavailable, ReadError

POWERCAP = Path("/sys/class/powercap")


def open_channels(stack: ExitStack, powercap: Path = POWERCAP) -> list[Channel]:
    channels = []
    for zone in sorted(powercap.glob("intel-rapl:*")):
        scope = _scope((zone / "name").read_text().strip())
        if scope is None:
            continue
        try:
            file = stack.enter_context(open(zone / "energy_uj"))
        except PermissionError as error:
            raise BackendUnavailable(
                f"{zone}/energy_uj may be read by root only: have your administrator run 'chmod a+r' on it"
            ) from error
        counter = _Counter(file, int((zone / "max_energy_range_uj").read_text()))
        info = ChannelInfo(_name(powercap, zone), scope, f"RAPL counter {zone.name}", has_counter=True)
        channels.append(Channel(info, read_energy_j=counter.read_j))
    if not channels:
        raise BackendUnavailable(f"no RAPL counter is under {powercap}: a virtual machine has none as a rule")
    return channels


def _scope(zone_name: str) -> Scope | None:
    if zone_name.startswith("package"):
        return Scope.CPU
    # "core" and "uncore" are inside the package and are left out, so that a scope can be summed.
    return {"dram": Scope.DRAM, "psys": Scope.NODE}.get(zone_name)


def _name(powercap: Path, zone: Path) -> str:
    name = (zone / "name").read_text().strip()
    parent = zone.name.rsplit(":", 1)[0]
    if (powercap / parent / "name").exists():
        return f"rapl:{(powercap / parent / 'name').read_text().strip()}:{name}"
    return f"rapl:{name}"


class _Counter:
    """A RAPL counter that goes on where the kernel's starts again at 0."""

    def __init__(self, file: TextIO, counter_range_uj: int) -> None:
        self._file = file
        self._range_uj = counter_range_uj
        self._last_uj = self._read_uj()
        self._total_uj = 0

    def _read_uj(self) -> int:
        try:
            self._file.seek(0)  # sysfs makes a new value at each read from the start
            return int(self._file.read())
        except (OSError, ValueError) as error:
            raise ReadError(f"{self._file.name}: {error}") from error

    def read_j(self) -> float:
        now_uj = self._read_uj()
        self._total_uj += counter_step(self._last_uj, now_uj, self._range_uj)
        self._last_uj = now_uj
        return self._total_uj * 1e-6
