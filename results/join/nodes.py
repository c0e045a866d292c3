"""Energy and power of each node: its power trace over the windows of its throughput, summed in one pass.

A trace is as large as a run is long, and its sums are small. So traces are read one at a time in each process, and only
sums leave it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from jpwr.channel import ChannelInfo
from jpwr.energy import ChannelEnergy, EnergyEstimate, energy_of_passes, means_w
from jpwr.energy.estimate import known
from jpwr.errors import JpwrError, NotEnoughSamples
from jpwr.trace.trace import Region, Trace
from jpwr.trace.writers import open_trace, read_trace
from record.checks.run import KINDS
from record.model import Channel, Record, Window, changed
from record.parts import of_node, total_s, windows_of
from record.values import is_accelerated
from results.find.in_parallel import for_each
from results.join.channels import EnergyError, choose, of_one_method, twins
from results.join.clocks import clocks_of
from results.join.limits import limits_of

TRACES = "power/*/trace.csv"
WINDOW = " window"  # in the name of the region that marks a window
NOT_SAMPLED = "has too few samples inside the window: sample faster or run longer"
PLACES = 8  # starts, per length of the windows, of the other times of that length
MOST_PARTS = 1000  # of the windows, of which percentiles of power are: the 99th is of the ten highest
MIN_COVERED = 0.95  # of the window, between a channel's first and last reading
Times = tuple[float, float]  # start and end in seconds


class RunSums(NamedTuple):
    """Energy of the whole command on one node, and its length and time before the windows in seconds."""

    energy_j: float
    run_s: float
    before_s: float


class NodeSums(NamedTuple):
    """Sums over one node's windows of one kind."""

    hostname: str
    duration_s: float
    scope: str
    chosen: list[ChannelInfo]  # channels that count
    channels: list[Channel]  # the record's entries for them
    by_scope_j: dict[str, list[float]]  # energies of all channels of one method, whether they count or not
    notes: list[str]
    busy_w: Times  # two mean powers: from the first window to the last, and the highest over any equal time
    parts_w: list[float]  # mean powers in equal parts of the windows
    run: RunSums | None


class FigureSums(NamedTuple):
    """Energies in the time of a node check's figure, by channel; or the reason why there are none."""

    estimates: dict[ChannelInfo, EnergyEstimate]
    duration_s: float
    missing: str = ""


class TraceSums(NamedTuple):
    """Sums and facts of one trace that a result needs."""

    meta: dict[str, Any]
    channels: list[ChannelInfo]
    marks: list[Region]  # of windows
    nodes: dict[tuple[str, str], NodeSums | Exception]  # by host name and kind of window
    figures: dict[Times, FigureSums]  # by their times

    def node(self, hostname: str, kind: str) -> NodeSums:
        """Return the sums of a node; raises EnergyError or JpwrError if its trace does not give them."""
        found = self.nodes[hostname, kind]
        if isinstance(found, Exception):
            raise found
        return found

    def of_kind(self, kind: str) -> list[NodeSums]:
        """Return the sums over the windows of one kind."""
        return [one for key, one in self.nodes.items() if key[1] == kind and isinstance(one, NodeSums)]


def read_sums(folder: Path, record: Record) -> list[TraceSums]:
    """Return the sums of every node's power trace in a job's folder over a record's windows.

    Each core reads one trace at a time. Raises TraceError.
    """
    paths = sorted(folder.glob(TRACES))
    nodes = _nodes(record, {window.kind for window in record.windows}, [_meta(path) for path in paths])
    every = list(zip(paths, nodes, strict=True))
    return list(for_each(lambda one: _sums(record, read_trace(one[0]), one[1]), every))


def sums_of(record: Record, traces: Sequence[Trace], kind: str) -> list[TraceSums]:
    """Return the sums of traces over a record's windows of one kind."""
    nodes = _nodes(record, {kind}, [trace.meta for trace in traces])
    return [_sums(record, trace, mine) for trace, mine in zip(traces, nodes, strict=True)]


def _meta(path: Path) -> dict[str, Any]:
    with open_trace(path) as reader:
        return reader.meta


def _nodes(record: Record, kinds: Iterable[str], metas: Sequence[Mapping[str, Any]]) -> list[list[tuple[str, str]]]:
    """Return the host names and kinds of windows that belong to each trace."""
    found: list[list[tuple[str, str]]] = [[] for _ in metas]
    numbered = list(enumerate(metas))
    for kind in kinds:
        for hostname, windows in windows_of(record, kind).items():
            trace = of_node(windows[0], numbered, lambda one: one[1])
            if trace is not None:
                found[trace[0]].append((hostname, kind))
    return found


def _sums(record: Record, trace: Trace, nodes: Sequence[tuple[str, str]]) -> TraceSums:
    curves = list(trace.curves()) if nodes else []
    repeated = twins(trace) if nodes else {}
    found: dict[tuple[str, str], NodeSums | Exception] = {}
    for hostname, kind in nodes:
        try:
            node = _Node(record, hostname, windows_of(record, kind)[hostname], trace, curves, repeated)
            found[hostname, kind] = node.sums()
        except (EnergyError, JpwrError) as error:  # of this node and kind: energy_of() raises it
            found[hostname, kind] = error
    hosts = {hostname for hostname, _ in nodes}
    ranks = {device.rank for device in record.devices if device.hostname in hosts}
    figures = [one for one in record.node_check.figures if one.rank in ranks]
    edges_s = {(one.number("start_s"), one.number("end_s")) for one in figures}
    times_s = [(start_s, end_s) for start_s, end_s in edges_s if start_s is not None and end_s is not None]
    return TraceSums(
        trace.meta,
        trace.channels,
        [region for region in trace.regions() if WINDOW in region.name],
        found,
        {one: _figure(trace, curves, one) for one in times_s},
    )


def _figure(trace: Trace, curves: Sequence[ChannelEnergy], times_s: Times) -> FigureSums:
    try:
        trace.check_covered(*times_s)
    except NotEnoughSamples as error:
        return FigureSums({}, 0.0, str(error))
    estimates = {curve.info: energy_of_passes(curve, [times_s]) for curve in curves}
    return FigureSums(estimates, times_s[1] - times_s[0])


class _Node:
    """One node's windows and trace, with the channels that count."""

    def __init__(
        self,
        record: Record,
        hostname: str,
        windows: Sequence[Window],
        trace: Trace,
        curves: Sequence[ChannelEnergy],
        repeated: dict[ChannelInfo, ChannelInfo],
    ) -> None:
        self.hostname, self.trace, self.twins = hostname, trace, repeated
        self.duration_s = total_s(windows)
        self.devices = [device for device in record.devices if device.hostname == hostname]
        self.device_ids = [device.device_id or "" for device in self.devices]
        self.is_accelerated = is_accelerated(record)
        own = [info for info in trace.channels if info not in self.twins]
        self.chosen = choose(own, self.device_ids, self.is_accelerated)
        self.scope = "+".join(sorted({info.scope.value for info in self.chosen}))
        self._windows = windows
        # Steps repeat the same work, and not what precedes or follows them, such as checkpoints.
        self._of_steps = [one for kind in KINDS for one in windows_of(record, kind).get(hostname, [])]
        self._has_steps = bool(record.step_times_s)
        edges = sorted(((window.start_s, window.end_s) for window in windows), key=itemgetter(1))
        for edge in edges:
            trace.check_covered(*edge)
        counted = [curve for curve in curves if curve.info not in self.twins]
        self.estimates = {curve.info: energy_of_passes(curve, edges) for curve in counted}
        self._curves = [curve for curve in counted if curve.info in self.chosen]
        self._error_s = max(window.number("clock_error_s") or 0.0 for window in windows)
        self._offs_j = {curve.info: self._off_j(curve, edges) for curve in self._curves}

    def sums(self) -> NodeSums:
        """Return what a result has of the node; raises EnergyError for a channel without energy."""
        return NodeSums(
            self.hostname,
            self.duration_s,
            self.scope,
            list(self.chosen),
            list(self._channels()),
            self._by_scope_j(),
            [words for note in NOTES for words in note(self)],
            # Only steps repeat the same work: what else a command does, such as a server's start, may take more power.
            self._busy_w() if self._has_steps else (0.0, 0.0),
            self._parts_w(),
            self._run(),
        )

    def _by_scope_j(self) -> dict[str, list[float]]:
        """Return the energies of the channels of each scope, those of one method where several read the same."""
        known_j = {info: one.energy_j for info, one in self.estimates.items() if not one.unknown}
        found = dict[str, list[float]]()
        for scope in dict.fromkeys(info.scope for info in known_j):
            mine = [info for info in known_j if info.scope is scope]
            counted = [info for info in mine if info in self.chosen]
            same = dict.fromkeys(counted + of_one_method(mine, *counted[:1]))
            found[scope.value] = [known_j[info] for info in same]
        return found

    def _off_j(self, curve: ChannelEnergy, edges: Sequence[Times]) -> float:
        """Return by how much an energy changes at most if the windows are off by the clocks' error.

        What a window gains at one edge it loses at the other: at most the difference of powers nearby, over that error.
        """
        off_j = 0.0
        for start_s, end_s in edges if self._error_s and curve.power.times_s else ():
            self.trace.check_covered(start_s - self._error_s, end_s + self._error_s)
            near = [curve.power.near_w(one - self._error_s, one + self._error_s) for one in (start_s, end_s)]
            off_j += self._error_s * (max(high_w for _, high_w in near) - min(low_w for low_w, _ in near))
        return off_j

    def _parts_w(self) -> list[float]:
        """Return the mean powers in parts of the windows that are as short as a reading, up to MOST_PARTS of them."""
        if any(len(curve.power.times_s) < 2 for curve in self._curves):
            return []
        interval_s = self.trace.meta.get("interval_s") or self.duration_s / MOST_PARTS
        part_s = max(interval_s, self.duration_s / MOST_PARTS)
        found: list[float] = []
        for window in self._windows:
            number = max(1, round(window.duration_s / part_s))
            edges_s = [window.start_s + window.duration_s * one / number for one in range(number + 1)]
            channels_w = (means_w(curve.power, edges_s) for curve in self._curves)
            found += map(math.fsum, zip(*channels_w, strict=True))
        return found

    def _run(self) -> RunSums | None:
        """Return the sums of the whole command; None if the trace does not cover it."""
        start_s, end_s = (self.trace.event_time_s(f"command_{word}") for word in ("started", "ended"))
        if start_s is None or end_s is None:
            return None
        estimates = [curve.between(start_s, end_s) for curve in self._curves]
        if any(one.unknown or one.covered_s < MIN_COVERED * one.duration_s for one in estimates):
            return None
        energy_j = math.fsum(one.energy_j for one in estimates)
        return RunSums(energy_j, end_s - start_s, min(one.start_s for one in self._windows) - start_s)

    def _channels(self) -> Iterator[Channel]:
        """Yield the record's entry for each channel that counts; raises EnergyError for one without energy."""
        idle_w = {curve.info: self.trace.idle_power_w(curve) for curve in self._curves}
        for info in self.chosen:
            estimate, clocks = self.estimates[info], clocks_of(self.trace, info.name, self._windows)
            _refuse_too_little(info, estimate)
            off_j = self._offs_j[info]
            wider = {f"{name}_j": getattr(estimate, f"{name}_j") + off_j for name in ("uncertainty", "systematic")}
            estimate = estimate._replace(**wider) if off_j else estimate
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

    def _busy_w(self) -> Times:
        """Return two mean powers in watts: from the first window to the last, and the highest over any equal time."""
        begin_s = min(window.start_s for window in self._of_steps)
        end_s = max(window.end_s for window in self._of_steps)
        started_s, ended_s = (self.trace.event_time_s(f"command_{word}") for word in ("started", "ended"))
        curves = [curve.power for curve in self._curves]
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


def _note_twins(node: _Node) -> Iterator[str]:
    for info, twin in node.twins.items():
        if twin in node.chosen:
            words = f"shows the same readings as {twin.name}: one sensor, counted once"
            yield f"{info.name} of node {node.hostname} {words}"


def _note_devices_of_processors(node: _Node) -> Iterator[str]:
    if node.is_accelerated is False and node.scope == "device":
        yield f"node {node.hostname}: processors trained, but only the power of devices was measured: it is counted"


def _note_untrained_devices(node: _Node) -> Iterator[str]:
    for info, trained in node.chosen.items():
        if trained < info.num_devices and any(node.device_ids):
            words = f"measures {info.num_devices} devices, of which {trained} trained: the energy of all is counted"
            unknown = "has no id of a device that trained: its energy is counted nevertheless"
            yield f"channel {info.name} of node {node.hostname} {words if trained else unknown}"


def _note_other_methods(node: _Node) -> Iterator[str]:
    """Note the channels of a counted scope that do not count; none if those that count were found by their ids."""
    scopes = {info.scope for info in node.chosen}
    own = [info for info in node.trace.channels if info.mine and info.scope in scopes and info not in node.twins]
    others = [info.name for info in own if info not in node.chosen]
    if others and not any(node.chosen.values()):
        yield f"{', '.join(others)} of node {node.hostname} measure the same by another method: not counted"


NOTES = (_note_twins, _note_devices_of_processors, _note_untrained_devices, _note_other_methods)


def _refuse_too_little(info: ChannelInfo, estimate: EnergyEstimate) -> None:
    if estimate.unknown:
        raise EnergyError(": ".join(filter(None, [f"channel {info.name} {estimate.unknown}", info.lacks])))
    if estimate.samples < 1:
        raise EnergyError(f"channel {info.name} {NOT_SAMPLED}")
    if estimate.covered_s < MIN_COVERED * estimate.duration_s:
        raise EnergyError(
            f"the samples of channel {info.name} cover {estimate.covered_s:.1f} s of the window's "
            f"{estimate.duration_s:.1f} s: its other readings failed"
        )
