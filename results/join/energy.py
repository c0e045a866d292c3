"""Energy and power of a run: its power traces over the windows of its throughput."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jpwr.channel import ChannelInfo
from jpwr.energy import ChannelEnergy, EnergyEstimate
from jpwr.energy.estimate import known
from jpwr.trace.trace import Trace
from jpwr.trace.writers import read_trace
from results.join.channels import EnergyError, choose, sensor, twins
from results.join.clocks import clocks_of
from results.join.limits import limits_of, limits_of_all
from results.record.derived import computed, of_energy, product, ratio, sum_of_all
from results.record.model import Channel, Energy, Numbers, Record, Window, changed
from results.record.parts import JOULES_PER_WH, of_node, total_s, windows_of
from results.record.values import is_accelerated

TRACES = "power/*/trace.csv"
# Components of an energy's interval; the first is the sum of the others.
UNCERTAINTIES = ("uncertainty_wh", "random_wh", "systematic_wh")
NOT_SAMPLED = "has too few samples inside the window: sample faster or run longer"
MOST_ELSEWHERE = 1.1  # power outside of the windows over that inside; on an H200, warm-up and later steps reach 1.005
PLACES = 8  # starts, per length of the windows, of the other times of that length
MIN_COVERED = 0.95  # of the window, between a channel's first and last reading


def read_traces(folder: Path) -> list[Trace]:
    """Return the power trace of every node."""
    return [read_trace(path) for path in sorted(folder.glob(TRACES))]


def energy_of(record: Record, traces: Sequence[Trace], kind: str) -> Energy:
    """Return energy and power of the devices that trained, over the windows of one kind: those of a throughput.

    Energy in watt-hours, power in watts, both summed over all devices. Raises EnergyError if a node has no trace of its
    window, or a device has no channel.
    """
    nodes = [Node(record, hostname, windows, traces) for hostname, windows in windows_of(record, kind).items()]
    if not nodes:
        raise EnergyError(f"the record has no {kind} window")
    _refuse_a_sensor_of_two_nodes(nodes)
    channels = [channel for node in nodes for channel in node.channels()]
    scope = _only_scope(nodes)
    energy_wh = _sum(channels, "energy_wh")
    _refuse_nothing(channels, energy_wh)
    duration_s = max(node.duration_s for node in nodes)
    is_estimated = any(channel.estimated for channel in channels)
    unit = record.work_unit
    measured = {**vars(record.metrics), **vars(record.layout), "energy_wh": energy_wh, "window_s": duration_s}
    derived = computed(of_energy(unit, kind), measured)
    # Errors of devices that are read at the same moments under the same load are correlated: their sum is linear.
    sums: dict[str, Any] = {name: _sum(channels, name) for name in ("energy_wh", *UNCERTAINTIES)}
    energy = Energy(
        **sums,
        **_accuracy(channels, energy_wh),
        idle_power_w=sum_of_all([channel.idle_power_w for channel in channels]),
        epoch_wh=ratio(record.metrics.number(f"{unit}_per_epoch") or None, derived[f"{unit}_per_wh"]),
        window_s=duration_s,
        power_kind="estimated" if is_estimated else "measured",
        power_scope=scope,
        power_source=f"{'ESTIMATED' if is_estimated else 'measured'}, {scope}",
        samples=sum(channel.samples or 0 for channel in channels),
        missing=sum(channel.missing or 0 for channel in channels),
        sampling_interval_s=traces[0].meta.get("interval_s"),
        jpwr_version=traces[0].meta.get("jpwr_version"),
        **limits_of_all(channels),
        channels=channels,
        notes=[words for node in nodes for note in NOTES for words in note(node)],
        sampled_by_scope=Numbers.of(_sampled_by_scope(nodes)),
    )
    # Only steps repeat the same work: what else a command does, such as a server's start, may take more power.
    busier = _busier_elsewhere(nodes, channels, duration_s) if record.step_times_s else {}
    return changed(energy, **derived, **busier)


class Node:
    """One node's windows and trace, with the channels that count."""

    def __init__(self, record: Record, hostname: str, windows: Sequence[Window], traces: Sequence[Trace]) -> None:
        trace = of_node(windows[0], traces, lambda one: one.meta)
        if trace is None:
            raise EnergyError(f"node {hostname} has no power trace of the boot that it trained under")
        self.hostname, self.trace = hostname, trace
        self.duration_s = total_s(windows)
        self.devices = [device for device in record.devices if device.hostname == hostname]
        self.device_ids = [device.device_id or "" for device in self.devices]
        self.is_accelerated = is_accelerated(record)
        self.twins = twins(trace)
        own = [info for info in trace.channels if info not in self.twins]
        self.chosen = choose(own, self.device_ids, self.is_accelerated)
        self.scope = "+".join(sorted({info.scope.value for info in self.chosen}))
        self._windows = windows
        self._all_windows = [window for window in record.windows if window.hostname == hostname]
        sums = trace.sums([(window.start_s, window.end_s) for window in windows])
        self.estimates = {info: one for info, one in zip(trace.channels, sums, strict=True) if info not in self.twins}

    def curves(self) -> list[tuple[ChannelInfo, ChannelEnergy]]:
        """Return the readings of the channels that count."""
        both = zip(self.trace.channels, self.trace.curves(), strict=True)
        return [(info, curve) for info, curve in both if info in self.chosen]

    def channels(self) -> Iterator[Channel]:
        """Yield the record's entry for each channel that counts; raises EnergyError for one without energy."""
        idle_w = dict(zip(self.trace.channels, map(self.trace.idle_power_w, self.trace.curves()), strict=True))
        for info in self.chosen:
            estimate, clocks = self.estimates[info], clocks_of(self.trace, info.name, self._windows)
            _refuse_too_little(info, estimate)
            channel = Channel(
                **info.described(),
                **estimate.in_wh(),
                hostname=self.hostname,
                limit_w=info.limit_w or None,
                counter_not_used=estimate.reason,
                idle_power_w=known(idle_w[info]),
                largest_gap_s=estimate.largest_gap_s,
                limits=limits_of(self.trace, info, self._windows),
            )
            yield changed(channel, clocks=clocks) if clocks else channel

    def busy_w(self) -> tuple[float, float]:
        """Return two mean powers in watts: from the first window to the last, and the highest over any equal time."""
        begin_s = min(window.start_s for window in self._all_windows)
        end_s = max(window.end_s for window in self._all_windows)
        started_s, ended_s = (self.trace.event_time_s(f"command_{word}") for word in ("started", "ended"))
        curves = [curve.power for _, curve in self.curves()]
        edges_s = [(one.times_s[0], one.times_s[-1]) for one in curves if len(one.times_s) > 1]
        if started_s is None or len(edges_s) < len(curves):
            return 0.0, 0.0
        least_s, most_s = max(edge[0] for edge in edges_s), min(edge[1] for edge in edges_s)
        if not least_s <= begin_s < end_s <= most_s:
            return 0.0, 0.0
        least_s, most_s = max(started_s, least_s), min(most_s, math.inf if ended_s is None else ended_s)
        length_s = end_s - begin_s
        places = math.floor(PLACES * (most_s - least_s - length_s) / length_s) + 1
        own_w, *others_w = (
            math.fsum(curve.until_j(from_s + length_s) - curve.until_j(from_s) for curve in curves) / length_s
            for from_s in (begin_s, *(least_s + place * length_s / PLACES for place in range(places)))
        )
        return own_w, max(others_w, default=own_w)


def _note_twins(node: Node) -> Iterator[str]:
    for info, twin in node.twins.items():
        if twin in node.chosen:
            words = f"shows the same readings as {twin.name}: one sensor, counted once"
            yield f"{info.name} of node {node.hostname} {words}"


def _note_devices_of_processors(node: Node) -> Iterator[str]:
    if node.is_accelerated is False and node.scope == "device":
        yield f"node {node.hostname}: processors trained, but only the power of devices was measured: it is counted"


def _note_untrained_devices(node: Node) -> Iterator[str]:
    for info, trained in node.chosen.items():
        if trained < info.num_devices and any(node.device_ids):
            words = f"measures {info.num_devices} devices, of which {trained} trained: the energy of all is counted"
            unknown = "has no id of a device that trained: its energy is counted nevertheless"
            yield f"channel {info.name} of node {node.hostname} {words if trained else unknown}"


def _note_other_methods(node: Node) -> Iterator[str]:
    """Note the channels of a counted scope that do not count; none if those that count were found by their ids."""
    scopes = {info.scope for info in node.chosen}
    own = [info for info in node.trace.channels if info.mine and info.scope in scopes and info not in node.twins]
    others = [info.name for info in own if info not in node.chosen]
    if others and not any(node.chosen.values()):
        yield f"{', '.join(others)} of node {node.hostname} measure the same by another method: not counted"


NOTES = (_note_twins, _note_devices_of_processors, _note_untrained_devices, _note_other_methods)


def _refuse_a_sensor_of_two_nodes(nodes: Sequence[Node]) -> None:
    counted: dict[tuple[str, str], str] = {}
    for node in nodes:
        for info in node.chosen:
            other = counted.setdefault(sensor(node.trace, info), node.hostname)
            if other != node.hostname and not info.estimated:
                raise EnergyError(f"channel {info.name} is one sensor, but counts for {other} and for {node.hostname}")


def _only_scope(nodes: Sequence[Node]) -> str:
    if len({node.scope for node in nodes}) > 1:
        known = ", ".join(f"{node.scope} on {node.hostname}" for node in nodes)
        raise EnergyError(f"the nodes were measured at different scopes, whose energies must not be added: {known}")
    return nodes[0].scope


def _refuse_too_little(info: ChannelInfo, estimate: EnergyEstimate) -> None:
    if estimate.unknown:
        raise EnergyError(f"channel {info.name} {info.lacks or estimate.unknown}")
    if estimate.samples < 1:
        raise EnergyError(f"channel {info.name} {NOT_SAMPLED}")
    if estimate.covered_s < MIN_COVERED * estimate.duration_s:
        raise EnergyError(
            f"the samples of channel {info.name} cover {estimate.covered_s:.1f} s of the window's "
            f"{estimate.duration_s:.1f} s: its other readings failed"
        )


def _refuse_nothing(channels: Sequence[Channel], energy_wh: float) -> None:
    every = [("its channels", energy_wh), *((f"channel {one.name}", one.energy_wh) for one in channels)]
    for name, measured_wh in every:
        if not (measured_wh and measured_wh > 0):
            raise EnergyError(f"{name} measured {measured_wh:g}Wh, but every run uses energy")


def _sampled_by_scope(nodes: Sequence[Node]) -> dict[str, float | None]:
    """Return the energy of all channels by scope, whether they count or not, in watt-hours.

    Scopes contain each other: their energies must not be added. A scope that some nodes lack has None.
    """
    energies = {}
    measured = [{info: one for info, one in node.estimates.items() if not one.unknown} for node in nodes]
    for scope in sorted({info.scope.value for estimates in measured for info in estimates}):
        by_node = [[one for info, one in estimates.items() if info.scope.value == scope] for estimates in measured]
        joules = math.fsum(estimate.energy_j for estimates in by_node for estimate in estimates)
        energies[f"{scope}_wh"] = known(joules / JOULES_PER_WH) if all(by_node) else None
    return energies


def _busier_elsewhere(nodes: Sequence[Node], channels: Sequence[Channel], duration_s: float) -> dict[str, float]:
    """Return the power inside and outside of the windows if that outside is clearly higher; else empty."""
    windows_w, elsewhere_w = (math.fsum(powers_w) for powers_w in zip(*(node.busy_w() for node in nodes), strict=True))
    half_width_w = _sum(channels, "uncertainty_wh") * JOULES_PER_WH / duration_s
    is_busier = elsewhere_w > MOST_ELSEWHERE * windows_w + half_width_w
    return {"windows_w": windows_w, "elsewhere_w": elsewhere_w} if is_busier else {}


def _accuracy(channels: Sequence[Channel], energy_wh: float) -> dict[str, Any]:
    """Return the relative accuracy of the sum and its source; None if that of one sensor is not stated."""
    bound_wh = sum_of_all([product(channel.accuracy, channel.energy_wh) for channel in channels])
    if bound_wh is None:
        return {"accuracy": None, "accuracy_from": ""}
    sources = dict.fromkeys(channel.accuracy_from or "" for channel in channels)
    return {"accuracy": bound_wh / energy_wh, "accuracy_from": " and ".join(sources)}


def _sum(channels: Sequence[Channel], name: str) -> float:
    return math.fsum(channel.number(name) or 0.0 for channel in channels)
