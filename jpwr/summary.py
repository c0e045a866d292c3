"""What came out of a run, per channel and region."""

from __future__ import annotations

import math
from functools import cached_property
from operator import eq, itemgetter
from typing import Any, NamedTuple, Sequence

from jpwr.channel import ChannelInfo
from jpwr.energy import EnergyEstimate
from jpwr.say import short
from jpwr.trace import Trace

JOULES_PER_WH = 3600.0
HEADER = ("channel", "samples", "missing", "avg W", "peak W", "Wh", "+- Wh", "counter Wh", "differs", "")
WIDE = 1.0  # times the energy: an interval that does not speak for itself
LATE_END_S = 2.0  # a command's end is this long after the last reading at most, unless readings came seldom
# Half-width of the integral, as a share, up to which it finds a counter that is a fifth off: with 5 % for the sensor's
# accuracy, an E_n test allows sqrt(0.07^2 + 0.05^2) = 0.09, and twice that is below a fifth.
CHECKED = 0.07
REPEATED = 0.5  # share of samples that repeat the one before: more of them show a sensor that holds its values
MANY = 20  # regions, or names in a note: a person reads no more


Estimates = Sequence["EnergyEstimate | None"]  # for each channel; None where it saw too little


class RegionSum(NamedTuple):
    """All the times that a region was gone through."""

    name: str
    times: int
    duration_s: float
    shortest_s: float
    estimates: Estimates
    at_once: bool = False  # whether some overlap


class Summary:
    """Energy and power of a trace that has come to its end."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.infos = trace.channels
        self.interval_s: float = trace.meta.get("interval_s", 0.0)
        self.outside: dict[str, int] = {}  # regions that lie outside of the trace, and how often
        windows: dict[str, list[tuple[float, float]]] = {}
        for name, start_s, end_s in trace.regions():
            if trace.covers(start_s, end_s):
                windows.setdefault(name, []).append((start_s, end_s))
            else:
                self.outside[name] = self.outside.get(name, 0) + 1
        self.regions = {name: _region(trace, name, of_name) for name, of_name in windows.items()}

    @cached_property
    def command(self) -> list[EnergyEstimate | None]:
        """The energy of each channel while the command ran, or over everything seen where none did."""
        started_s, ended_s = self.trace.event_time_s("command_started"), self.trace.event_time_s("command_ended")
        start_s = self.trace.start_s if started_s is None else started_s
        end_s = self.trace.end_s if ended_s is None else ended_s
        # Where sensors no longer answered, their time without readings is a part of it.
        return self.trace.known_energies(start_s, end_s, also_beyond=True)

    @property
    def cut_short(self) -> list[str]:
        """What the trace of a command does not tell of it: its start, its end."""
        if "command" not in self.trace.meta:
            return []
        return [word for word in ("started", "ended") if self.trace.event_time_s(f"command_{word}") is None]

    @property
    def _beyond_s(self) -> float:
        """How long after the last reading the command ended, in seconds."""
        ended_s = self.trace.event_time_s("command_ended")
        return 0.0 if ended_s is None else ended_s - self.trace.end_s

    def notes(self) -> list[str]:
        """Sentences on what limits the numbers, one for each kind: counters not used or not there, regions lost."""
        found = [
            f"{info.name}: {estimate.reason}; the integral is used"
            for info, estimate in zip(self.infos, self.command)
            if estimate is not None and estimate.reason
        ]
        found += [
            f"{info.name}: the counter {fault}, and there is no power to integrate: there is no energy"
            for info, estimate, curve in zip(self.infos, self.command, self.trace.curves())
            if estimate is None and curve.counter is not None and (fault := curve.counter.fault)
        ]
        counted = [
            (info, estimate)
            for info, estimate in zip(self.infos, self.command)
            if estimate is not None and estimate.method == "counter"
        ]
        unchecked = {
            info: share
            for info, estimate in counted
            if estimate.integral_j
            and not info.from_counter
            and info.seen_share >= 1
            and (share := estimate.integral_uncertainty_j / abs(estimate.integral_j)) > CHECKED
        }
        if unchecked:
            found.append(
                f"{_first(list(unchecked))}: the integral of power is known to ±{100 * max(unchecked.values()):.2g} %, "
                "too little to check the counter: sample faster or run longer"
            )
        if partly := [info for info, _ in counted if info.seen_share < 1]:
            found.append(
                f"{_first(partly)}: the power sensor sees {partly[0].seen_share:.0%} of the time, and nothing else "
                "checks the counter"
            )
        for info, estimate, series in zip(self.infos, self.command, self.trace.series()):
            repeats = _repeated_share(series.power_w)
            if estimate is not None and estimate.method != "counter" and not info.held_s and repeats > REPEATED:
                found.append(
                    f"{info.name}: {repeats:.0%} of its samples repeat the one before: if the sensor holds its values, "
                    "the interval is too narrow"
                )
        wide = {
            info: estimate
            for info, estimate in zip(self.infos, self.command)
            if estimate is not None
            and not estimate.reason
            and estimate.uncertainty_j > WIDE * abs(estimate.energy_j) > 0
        }
        if wide:
            info, estimate = max(wide.items(), key=lambda item: item[1].uncertainty_j / abs(item[1].energy_j))
            share = estimate.uncertainty_j / abs(estimate.energy_j)
            found.append(
                f"{_first([info, *(other for other in wide if other is not info)])}: the energy is known only to ±"
                f"{100 * share:.0f} %, by {estimate.samples} samples"
                + (f", and {estimate.missing} are missing" if estimate.missing else ": sample faster or run longer")
            )
        if slopes := [info for info in self.infos if info.from_counter]:
            found.append(f"{_first(slopes)}: power is the counter's own slope, and nothing checks it")
        for info in self.infos:
            resolves_s = max(info.period_s, info.averaging_s, self.interval_s)
            brief = [region for region in self.regions.values() if region.shortest_s < resolves_s]
            if brief:
                shortest = min(brief, key=lambda region: region.shortest_s)
                others = f"; so did {_others(len(brief) - 1, ' region')}" if len(brief) > 1 else ""
                found.append(
                    f"region '{short(shortest.name)}' lasted {shortest.shortest_s:.3f} s, "
                    f"less than {info.name} can resolve ({resolves_s:g} s){others}"
                )
        if "started" in self.cut_short:
            found.append("the trace does not tell when the command started: energies are of all that was sampled")
        elif (beyond_s := self._beyond_s) > max(
            LATE_END_S, 2 * max((info.period_s for info in self.infos), default=0.0)
        ):
            found.append(f"the command ended {beyond_s:.4g} s after the last reading: of that time nothing is known")
        elif "ended" in self.cut_short:
            found.append(
                "the trace does not tell when the command ended: it still runs, or the sampler was killed, or its disk "
                "was full; energies are of what was sampled until then"
            )
        alone = [(info, known) for info, known in zip(self.infos, self.command) if not info.has_counter]
        if blind := [info for info, known in alone if known and info.held_s and info.seen_share >= 1]:
            found.append(
                f"{_first(blind)}: without a counter, a load that keeps step with the sensor's own "
                f"{blind[0].held_s:g} s is not seen"
            )
        if partly := [info for info, _ in alone if info.seen_share < 1]:
            found.append(
                f"{_first(partly)}: the sensor sees {partly[0].seen_share:.0%} of the time, and there is no counter: "
                "in the rest, power may have been anywhere between none and its limit"
            )
        for fault, names in self.trace.faulty_marks().items():
            found.append(f"{_counted(names)} {fault}: there is no energy of that")
        if at_once := [region for region in self.regions.values() if region.at_once]:
            more = len(at_once) - 1
            others = f"; so {'were' if more > 1 else 'was'} {_others(more, ' region')}" if more else ""
            found.append(
                f"region '{short(at_once[0].name)}' was gone through several times at once{others}: the energy of that "
                "time is in its sum as often"
            )
        if self.outside:
            found.append(f"{_counted(self.outside)} lies outside of what was sampled: there is no energy of that")
        return found

    @property
    def peak_power_w(self) -> list[float]:
        """The highest power that was read of each channel, `nan` without any."""
        return [curve.power.peak_w for curve in self.trace.curves()]

    def to_dict(self) -> dict[str, Any]:
        """For JSON: units in the keys; what is not known is null."""
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
        """A table that a person reads at a glance."""
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
        # A region's title may be longer than a channel's name, and nothing stands next to it.
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
                f"{_first([info for info, _ in members])}: +- is of sampling, random ±{random_percent:.2g} %, "
                f"systematic ±{systematic_percent:.2g} %; accuracy of the sensor: {sensor}"
            )
        return lines


def _repeated_share(values: Sequence[float]) -> float:
    """Share of values that repeat the one before."""
    return sum(map(bool, map(eq, values[1:], values))) / max(1, len(values) - 1)


def _region(trace: Trace, name: str, windows: Sequence[tuple[float, float]]) -> RegionSum:
    """Of all its times; one of no time used nothing."""
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


def _counted(names: dict[str, int]) -> str:
    """Names with how often each was met, cut where there are many."""
    shown = [f"'{short(name)}'" + (f" ({times} times)" if times > 1 else "") for name, times in list(names.items())[:3]]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"region {', '.join(shown)}{more}"


def _first(infos: list[ChannelInfo]) -> str:
    others = f" and {_others(len(infos) - 1)}" if len(infos) > 1 else ""
    return f"{infos[0].name}{others}"


def _others(number: int, what: str = "") -> str:
    """ "1 other" or "2 others", "1 other region" or "2 other regions"."""
    return f"{number} other{what}" + "s" * (number > 1)


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
