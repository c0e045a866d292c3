"""Sums of a trace, per channel and region."""

from __future__ import annotations

import math
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple, Sequence

from jpwr.energy import EnergyEstimate
from jpwr.trace.trace import Trace


class RegionSum(NamedTuple):
    """Sum over all windows of a region."""

    name: str
    times: int
    duration_s: float
    shortest_s: float
    estimates: Sequence[EnergyEstimate]  # for each channel
    at_once: bool = False  # whether some windows overlap


class Sums:
    """Energy and power of a complete trace."""

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
        self.regions = {name: _region(trace, name, of_name) for name, of_name in windows.items()}

    @cached_property
    def command(self) -> list[EnergyEstimate]:
        """Energy of each channel during the command, or during the whole trace without one."""
        started_s, ended_s = self.trace.event_time_s("command_started"), self.trace.event_time_s("command_ended")
        start_s = self.trace.start_s if started_s is None else started_s
        end_s = self.trace.end_s if ended_s is None else ended_s
        # A time at the end in which sensors no longer answered is included.
        return self.trace.sums([(start_s, end_s)], also_beyond=True)

    @property
    def cut_short(self) -> list[str]:
        """Missing events of the command: "started", "ended"."""
        if "command" not in self.trace.meta:
            return []
        return [word for word in ("started", "ended") if self.trace.event_time_s(f"command_{word}") is None]

    @property
    def peak_power_w(self) -> list[float]:
        """Highest reading of each channel in watts; nan without any."""
        return [curve.power.peak_w for curve in self.trace.curves()]


def _region(trace: Trace, name: str, windows: Sequence[tuple[float, float]]) -> RegionSum:
    """Sum a region over all its windows; a window of zero length adds no energy."""
    durations_s = [end_s - start_s for start_s, end_s in windows]
    not_empty = sorted([(start_s, end_s) for start_s, end_s in windows if end_s > start_s], key=itemgetter(1))
    return RegionSum(
        name,
        len(windows),
        math.fsum(durations_s),
        min(durations_s),
        trace.sums(not_empty),
        any(start_s < before_s for (_, before_s), (start_s, _) in zip(not_empty, not_empty[1:])),
    )
