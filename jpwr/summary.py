"""What came out of a run, per channel and region, in constant memory while it goes on."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Sequence

from jpwr.channel import ChannelInfo
from jpwr.energy import Accumulator, EnergyEstimate, Totals, add_estimates, estimate_energy
from jpwr.errors import NotEnoughSamples

JOULES_PER_WH = 3600.0
HEADER = ("channel", "samples", "missing", "avg W", "peak W", "Wh", "+- Wh", "counter Wh", "differs", "")


class RegionSum(NamedTuple):
    """All the times that a region was gone through, for each channel: None where it saw too little of it."""

    name: str
    times: int
    duration_s: float
    shortest_s: float
    estimates: list[EnergyEstimate | None]


class Summary:
    """A sink that keeps running totals."""

    def __init__(self, infos: Sequence[ChannelInfo], interval_s: float, random_phase: bool) -> None:
        self.infos = list(infos)
        self.interval_s = interval_s
        self.random_phase = random_phase
        self.accumulators = [Accumulator() for _ in self.infos]
        self.regions: dict[str, RegionSum] = {}
        self.started: list[Totals] | None = None  # when the command started
        self.ended: list[Totals] | None = None
        self._open: dict[str, list[list[Totals]]] = {}

    def append(self, time_s: float, power_w: Sequence[float | None], energy_j: Sequence[float | None]) -> None:
        for accumulator, power, counter in zip(self.accumulators, power_w, energy_j):
            if power is not None:
                accumulator.add(time_s, power, math.nan if counter is None else counter)

    def event(self, name: str, time_s: float, /, **details: Any) -> None:
        if name == "command_started":
            self.started = self._at(time_s)
        elif name == "command_ended":
            self.ended = self._at(time_s)
        elif name == "region_begin":
            self._open.setdefault(details["region"], []).append(self._at(time_s))
        elif name == "region_end" and self._open.get(details["region"]):
            self._close(details["region"], self._open[details["region"]].pop(), self._at(time_s))

    def _at(self, time_s: float) -> list[Totals]:
        return [accumulator.at(time_s)._replace(time_s=time_s) for accumulator in self.accumulators]

    def _close(self, name: str, start: list[Totals], end: list[Totals]) -> None:
        duration_s = end[0].time_s - start[0].time_s if start else 0.0
        estimates = self._estimates(start, end)
        before = self.regions.get(name)
        if before is not None:
            estimates = [
                None if a is None or b is None else add_estimates(a, b) for a, b in zip(before.estimates, estimates)
            ]
            self.regions[name] = RegionSum(
                name, before.times + 1, before.duration_s + duration_s, min(before.shortest_s, duration_s), estimates
            )
        else:
            self.regions[name] = RegionSum(name, 1, duration_s, duration_s, estimates)

    def _estimates(self, start: list[Totals], end: list[Totals]) -> list[EnergyEstimate | None]:
        found: list[EnergyEstimate | None] = []
        for info, accumulator, first, last in zip(self.infos, self.accumulators, start, end):
            try:
                found.append(estimate_energy(first, last, accumulator.last, info, self.random_phase))
            except NotEnoughSamples:
                found.append(None)
        return found

    def command(self) -> list[EnergyEstimate | None]:
        """The energy of each channel while the command ran, or over everything seen where none did."""
        start = self.started or [accumulator.first for accumulator in self.accumulators]
        end = self.ended or [accumulator.last for accumulator in self.accumulators]
        return self._estimates(start, end)

    def idle_power_w(self) -> list[float]:
        """Average power of each channel before the command started, `nan` where there was no such time."""
        idle_w = []
        for accumulator, started in zip(self.accumulators, self.started or []):
            covered_s = started.covered_s - accumulator.first.covered_s
            idle_w.append(started.energy_j / covered_s if covered_s > 0 and started.samples > 2 else math.nan)
        return idle_w or [math.nan] * len(self.infos)

    def notes(self) -> list[str]:
        """Sentences on what limits the numbers: counters not used, regions too short."""
        found = [
            f"{info.name}: {estimate.reason}; the integral is used"
            for info, estimate in zip(self.infos, self.command())
            if estimate is not None and estimate.reason
        ]
        for region in self.regions.values():
            for info in self.infos:
                resolves_s = max(info.period_s, info.averaging_s, self.interval_s)
                if region.shortest_s < resolves_s:
                    found.append(
                        f"region '{region.name}' lasted {region.shortest_s:.3f} s, "
                        f"less than {info.name} can resolve ({resolves_s:g} s)"
                    )
        return found

    def to_dict(self) -> dict[str, Any]:
        """For JSON: units in the keys; what is not known is null."""
        return {
            "interval_s": self.interval_s,
            "random_phase": self.random_phase,
            "channels": [
                {
                    **_channel(info, estimate),
                    "peak_power_w": _known(accumulator.peak_power_w),
                    "idle_power_w": _known(idle_w),
                    "largest_gap_s": accumulator.largest_gap_s,
                }
                for info, estimate, accumulator, idle_w in zip(
                    self.infos, self.command(), self.accumulators, self.idle_power_w()
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
        """A table that a person reads at a glance."""
        rows: list[tuple[str, ...]] = [HEADER]
        for info, estimate, accumulator in zip(self.infos, self.command(), self.accumulators):
            rows.append(_row(info.name, info, estimate, f"{accumulator.peak_power_w:.1f}"))
        for region in self.regions.values():
            times = f" x {region.times}" if region.times > 1 else ""
            rows.append((f"region '{region.name}'{times}, {region.duration_s:.3f} s", *[""] * (len(HEADER) - 1)))
            rows += [_row(f"  {info.name}", info, estimate, "") for info, estimate in zip(self.infos, region.estimates)]
        # A region's title may be longer than a channel's name, and has nothing beside it.
        widths = [max(len(row[i]) for row in rows if i or not row[0].startswith("region")) for i in range(len(HEADER))]
        return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]


def _row(title: str, info: ChannelInfo, estimate: EnergyEstimate | None, peak: str) -> tuple[str, ...]:
    remarks = [word for word, said in (("ESTIMATED", info.estimated), ("not mine", not info.mine)) if said]
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
        f"{estimate.counter_j / JOULES_PER_WH:.4g}" if known else "-",
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
    }
    if estimate is None:
        return dict(described, energy_wh=None)
    return dict(
        described,
        energy_wh=estimate.energy_j / JOULES_PER_WH,
        uncertainty_wh=estimate.uncertainty_j / JOULES_PER_WH,
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
