"""Energy of CPU packages and memory, from the kernel's RAPL counters.

https://docs.kernel.org/power/powercap/powercap.html: `energy_uj` counts microjoules and starts again at 0 after
`max_energy_range_uj`. AMD processors show their packages under the same name. Where the kernel has no RAPL registers of
the processor, it may still have those of its thermal device, as `intel-rapl-mmio`, which count the same package
(drivers/thermal/intel/int340x_thermal/processor_thermal_rapl.c).
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Callable

from jpwr.backends.files import open_reading, text_of
from jpwr.backends.parts import attempt, channel_of, unique, unless_all_are_lost
from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import BackendUnavailable
from jpwr.process.clock import Clock

POWERCAP = Path("/sys/class/powercap")
ZONES = ("intel-rapl:*", "intel-rapl-mmio:*")  # the first kind that a machine has
MICROJOULE = 1e-6
# Upper bound on a zone's power: this, or so many times the highest power seen.
LEAST_MOST_W = 1000.0
TIMES_AS_MUCH = 4.0
WRAP_S = 1.0  # tolerance in time of the tests for a wrapped or reset counter
# Intel's Software Developer's Manual, volume 3, section on RAPL: about every millisecond. It states no accuracy.
REFRESH_S = 0.001


def open_channels(stack: ExitStack, powercap: Path = POWERCAP, clock: Clock | None = None) -> list[Channel]:
    """Open a channel for each package, its memory and the platform; raise BackendUnavailable if none can be read."""
    channels: dict[str, Channel] = {}
    for zone in next(filter(None, (sorted(powercap.glob(pattern)) for pattern in ZONES)), []):
        scope = _scope(text_of(zone / "name"))
        if scope is None or (scope is Scope.NODE and Scope.NODE in {one.info.scope for one in channels.values()}):
            continue
        info = ChannelInfo(
            unique(_name(powercap, zone), channels),
            scope,
            f"RAPL counter {zone.name}",
            counter_resolution_j=MICROJOULE,
            counter_refresh_s=REFRESH_S,
        )
        channels[info.name] = channel_of(info, None, attempt(partial(_open, stack, zone, clock or Clock())))
    if not channels:
        others = [path.name for path in sorted(powercap.glob("*:*"))]
        why = f"its zones {', '.join(others)} are others" if others else "virtual machines usually have none"
        raise BackendUnavailable(f"{powercap} has no RAPL counter of a package, memory or platform: {why}")
    return unless_all_are_lost(list(channels.values()))


def _open(stack: ExitStack, zone: Path, clock: Clock) -> Callable[[], float]:
    counter_range = text_of(zone / "max_energy_range_uj")
    counter = open_reading(stack, zone / "energy_uj", 1)
    return _Counter(counter, int(counter_range) if counter_range.isdigit() else 0, clock).read_j


def _scope(zone_name: str) -> Scope | None:
    if zone_name.startswith("package"):
        return Scope.CPU
    # Each covers the whole platform, and is valid on one package of several (drivers/powercap/intel_rapl_common.c): the
    # first one counts, and "psys-1" would count the same again.
    if zone_name.startswith("psys"):
        return Scope.NODE
    # "core" and "uncore" are inside the package and are left out, so that a scope can be summed.
    return Scope.DRAM if zone_name == "dram" else None


def _name(powercap: Path, zone: Path) -> str:
    parent = text_of(powercap / zone.name.rsplit(":", 1)[0] / "name")
    return ":".join(["rapl", *([parent] if parent else []), text_of(zone / "name")])


class _Counter:
    """A RAPL counter that continues where the kernel's wraps to 0.

    After a reset, or a time in which it may have wrapped more than once, the energy is unknown: the counter then falls
    to 0.
    """

    def __init__(self, read_uj: Callable[[], float], counter_range_uj: int, clock: Clock) -> None:
        self._read_uj = read_uj
        self._range_uj = counter_range_uj
        self._clock = clock
        self._last_uj = int(read_uj())
        self._last_s = clock.now_s()
        self._total_uj = 0
        self._most_w = LEAST_MOST_W

    def read_j(self) -> float:
        now_uj, now_s = int(self._read_uj()), self._clock.now_s()
        step_uj, step_s = counter_step(self._last_uj, now_uj, self._range_uj), now_s - self._last_s
        most_uj_each_s = self._most_w / MICROJOULE
        is_reset = now_uj < self._last_uj and step_uj > most_uj_each_s * (step_s + WRAP_S)
        may_have_wrapped_again = 0 < self._range_uj < most_uj_each_s * (step_s - WRAP_S) - step_uj
        if is_reset or may_have_wrapped_again:
            self._total_uj = 0
        else:
            self._total_uj += step_uj
            if step_s > WRAP_S:
                self._most_w = max(self._most_w, TIMES_AS_MUCH * step_uj * MICROJOULE / step_s)
        self._last_uj, self._last_s = now_uj, now_s
        return self._total_uj * MICROJOULE


def counter_step(before: int, after: int, counter_range: int) -> int:
    """Return the increase of a counter that wraps to 0 at `counter_range`, in the counter's unit."""
    return after - before if after >= before else after - before + counter_range
