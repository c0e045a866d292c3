"""Results of a run, per channel and region."""

from __future__ import annotations

import math
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple, Sequence

from jpwr.channel import ChannelInfo
from jpwr.energy import EnergyEstimate
from jpwr.messages import short
from jpwr.report.notes import first_of, notes
from jpwr.trace.trace import Trace

JOULES_PER_WH = 3600.0
HEADER = ("channel", "samples", "missing", "avg W", "peak W", "Wh", "+- Wh", "counter Wh", "differs", "")
MANY = 20  # most regions in the table

Estimates = Sequence["EnergyEstimate | None"]  # for each channel; None with too few readings


class RegionSum(NamedTuple):
    """Sum over all windows of a region."""

    name: str
    times: int
    duration_s: float
    shortest_s: float
    estimates: Estimates
    at_once: bool = False  # whether some windows overlap


class Summary:
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
    def command(self) -> list[EnergyEstimate | None]:
        """Energy of each channel during the command, or during the whole trace without one."""
        started_s, ended_s = self.trace.event_time_s("command_started"), self.trace.event_time_s("command_ended")
        start_s = self.trace.start_s if started_s is None else started_s
        end_s = self.trace.end_s if ended_s is None else ended_s
        # A time at the end in which sensors no longer answered is included.
        return self.trace.known_energies(start_s, end_s, also_beyond=True)

    @property
    def cut_short(self) -> list[str]:
        """Missing events of the command: "started", "ended"."""
        if "command" not in self.trace.meta:
            return []
        return [word for word in ("started", "ended") if self.trace.event_time_s(f"command_{word}") is None]

    def notes(self) -> list[str]:
        """Return notes on the limits of the numbers, one sentence each."""
        return notes(self)

    @property
    def peak_power_w(self) -> list[float]:
        """Highest reading of each channel in watts; nan without any."""
        return [curve.power.peak_w for curve in self.trace.curves()]

    def to_dict(self) -> dict[str, Any]:
        """Return the summary for JSON: units in the keys, unknown values null."""
        return {
            "interval_s": self.interval_s,
            "random_phase": bool(self.trace.meta.get("random_phase")),
            "channels": [
                {
                    **_channel(info, estimate),
                    "peak_power_w": _known(peak_w),
                    "idle_power_w": _known(idle_w),
                    "largest_gap_s": None if estimate is None else estimate.largest_gap_s,
                }
                for info, estimate, peak_w, idle_w in zip(
                    self.infos, self.command, self.peak_power_w, self.trace.idle_power_w()
                )
            ],
            "regions": [
                {
                    "region": region.name,
                    "count": region.times,
                    "duration_s": region.duration_s,
                    "channels": [_channel(info, estimate) for info, estimate in zip(self.infos, region.estimates)],
                }
                for region in self.regions.values()
            ],
            "notes": self.notes(),
        }

    def lines(self) -> list[str]:
        """Return the lines of a table for a person."""
        rows: list[tuple[str, ...]] = [HEADER]
        for info, estimate, peak_w in zip(self.infos, self.command, self.peak_power_w):
            rows.append(_row(info.name, info, estimate, f"{peak_w:.1f}"))
        shown = list(self.regions.values())
        if len(shown) > MANY:
            shown = sorted(shown, key=lambda region: -region.duration_s)[:MANY]
        for region in shown:
            times = f" x {region.times}" if region.times > 1 else ""
            rows.append((f"region '{short(region.name)}'{times}, {region.duration_s:.3f} s", *[""] * (len(HEADER) - 1)))
            rows += [_row(f"  {info.name}", info, estimate, "") for info, estimate in zip(self.infos, region.estimates)]
        left = len(self.regions) - len(shown)
        # The title of a region may be longer than the column, because the rest of its row is empty.
        widths = [max(len(row[i]) for row in rows if i or not row[0].startswith("region")) for i in range(len(HEADER))]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
        lines += self._components()
        return lines + [f"and {left} shorter regions, which the summary as JSON has"] * bool(left)

    def _components(self) -> list[str]:
        """Components of the command's uncertainty in percent, one line for all channels of one accuracy."""
        groups: dict[tuple[float, str], list[tuple[ChannelInfo, EnergyEstimate]]] = {}
        for info, estimate in zip(self.infos, self.command):
            if estimate is not None and estimate.energy_j:
                groups.setdefault((info.accuracy, info.accuracy_from), []).append((info, estimate))
        lines = []
        for (accuracy, source), members in groups.items():
            random_percent = max(100 * one.random_j / abs(one.energy_j) for _, one in members)
            systematic_percent = max(100 * one.systematic_j / abs(one.energy_j) for _, one in members)
            sensor = f"±{100 * accuracy:.2g} % ({source})" if accuracy else "not stated"
            lines.append(
                f"{first_of([info for info, _ in members])}: +- by sampling: random ±{random_percent:.2g} %, "
                f"systematic ±{systematic_percent:.2g} %; accuracy of the sensor: {sensor}"
            )
        return lines


def _region(trace: Trace, name: str, windows: Sequence[tuple[float, float]]) -> RegionSum:
    """Sum a region over all its windows; a window of zero length adds no energy."""
    durations_s = [end_s - start_s for start_s, end_s in windows]
    not_empty = sorted([(start_s, end_s) for start_s, end_s in windows if end_s > start_s], key=itemgetter(1))
    return RegionSum(
        name,
        len(windows),
        math.fsum(durations_s),
        min(durations_s),
        trace.known_sums(not_empty) if not_empty else [None] * len(trace.channels),
        any(start_s < before_s for (_, before_s), (start_s, _) in zip(not_empty, not_empty[1:])),
    )


def _row(title: str, info: ChannelInfo, estimate: EnergyEstimate | None, peak: str) -> tuple[str, ...]:
    remarks = [word for word, applies in (("ESTIMATED", info.estimated), ("not mine", not info.mine)) if applies]
    if estimate is None:
        return (title, *["-"] * 8, ", ".join(["too few samples", *remarks]))
    known = not math.isnan(estimate.difference)
    return (
        title,
        str(estimate.samples),
        str(estimate.missing),
        f"{estimate.avg_power_w:.1f}",
        peak,
        f"{estimate.energy_j / JOULES_PER_WH:.4g}",
        f"{estimate.uncertainty_j / JOULES_PER_WH:.2g}",
        "-" if math.isnan(estimate.counter_j) else f"{estimate.counter_j / JOULES_PER_WH:.4g}",
        f"{100 * estimate.difference:+.1f} %" if known else "-",
        ", ".join([f"by {estimate.method}", *remarks]),
    )


def _channel(info: ChannelInfo, estimate: EnergyEstimate | None) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": info.name,
        "scope": info.scope.value,
        "source": info.source,
        "estimated": info.estimated,
        "mine": info.mine,
        "device_id": info.device_id,
        "num_devices": info.num_devices,
        "accuracy": info.accuracy or None,
        "accuracy_from": info.accuracy_from,
    }
    if estimate is None:
        return dict(described, energy_wh=None)
    return dict(
        described,
        energy_wh=estimate.energy_j / JOULES_PER_WH,
        uncertainty_wh=estimate.uncertainty_j / JOULES_PER_WH,
        random_wh=estimate.random_j / JOULES_PER_WH,
        systematic_wh=estimate.systematic_j / JOULES_PER_WH,
        method=estimate.method,
        reason=estimate.reason,
        avg_power_w=estimate.avg_power_w,
        samples=estimate.samples,
        missing=estimate.missing,
        integral_wh=estimate.integral_j / JOULES_PER_WH,
        integral_uncertainty_wh=estimate.integral_uncertainty_j / JOULES_PER_WH,
        counter_wh=_known(estimate.counter_j / JOULES_PER_WH),
        integral_vs_counter=_known(estimate.difference),
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
