"""Sums of a trace, per channel and region."""

from __future__ import annotations

import math
from operator import itemgetter
from typing import NamedTuple, Sequence

from jpwr.energy import EnergyEstimate, energy_of_passes
from jpwr.trace.trace import Trace


class RegionSum(NamedTuple):
    """Sum over all windows of a region."""

    name: str
    times: int
    duration_s: float
    shortest_s: float
    estimates: list[EnergyEstimate]  # for each channel
    at_once: bool = False  # whether some windows overlap


class Sums:
    """Energy and power of a complete trace, for each channel.

    `command` is the energy during the command, or during the whole trace without one. A time at the end in which
    sensors no longer answered is included.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.infos = trace.channels
        self.interval_s: float = trace.meta.get("interval_s", 0.0)
        self.outside: dict[str, int] = {}  # number of windows outside of the trace, by region
        windows: dict[str, list[tuple[float, float]]] = {}
        for name, start_s, end_s in trace.regions():
            if trace.covers(start_s, end_s):
                windows.setdefault(name, []).append((start_s, end_s))
            else:
                self.outside[name] = self.outside.get(name, 0) + 1
        self.regions = {name: _region(name, of_name) for name, of_name in windows.items()}
        passes = {name: _passes(of_name) for name, of_name in windows.items()}
        started_s, ended_s = (trace.event_time_s(f"command_{word}") for word in ("started", "ended"))
        command_s = trace.start_s if started_s is None else started_s, trace.end_s if ended_s is None else ended_s
        self.command: list[EnergyEstimate] = []
        self.peak_power_w: list[float] = []  # highest reading; nan without any
        self.idle_power_w: list[float] = []
        self.counter_faults: list[str] = []  # empty without one
        for curve in trace.curves():  # one at a time, as a trace may be long
            self.command.append(energy_of_passes(curve, [command_s]))
            self.peak_power_w.append(curve.power.peak_w)
            self.idle_power_w.append(trace.idle_power_w(curve))
            self.counter_faults.append(curve.counter.fault() if curve.counter else "")
            for name, region in self.regions.items():
                region.estimates.append(energy_of_passes(curve, passes[name]))

    @property
    def cut_short(self) -> list[str]:
        """Missing events of the command: "started", "ended"."""
        if "command" not in self.trace.meta:
            return []
        return [word for word in ("started", "ended") if self.trace.event_time_s(f"command_{word}") is None]


def _passes(windows: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the windows that add energy, which one of zero length does not, in the order of their ends."""
    return sorted([(start_s, end_s) for start_s, end_s in windows if end_s > start_s], key=itemgetter(1))


def _region(name: str, windows: Sequence[tuple[float, float]]) -> RegionSum:
    """Return a region without its energies yet."""
    durations_s = [end_s - start_s for start_s, end_s in windows]
    passes = _passes(windows)
    at_once = any(start_s < before_s for (_, before_s), (start_s, _) in zip(passes, passes[1:]))
    return RegionSum(name, len(windows), math.fsum(durations_s), min(durations_s), [], at_once)
