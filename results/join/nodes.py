"""Energy and power of each node: its power trace over the windows of its throughput, summed in one pass.

A trace is as large as a run is long, and its sums are small. So traces are read one at a time in each process, and only
sums leave it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jpwr.channel import ChannelInfo
from jpwr.energy import ChannelEnergy, EnergyEstimate, energy_of_passes, means_w
from jpwr.energy.estimate import known
from jpwr.energy.power import PowerCurve
from jpwr.errors import JpwrError
from jpwr.trace.trace import Region, Trace
from jpwr.trace.writers import open_trace, read_trace
from record.derivation import KINDS
from record.model import Channel, Record, Window, total_s
from record.part import changed
from record.values import grouped, is_accelerated
from results.find.in_parallel import for_each
from results.join.channels import EnergyError, choose, of_one_method, twins
from results.join.clocks import clocks_of, limits_of

TRACES = "power/*/trace.csv"
WINDOW = " window"  # in the name of the region that marks a window
PLACES = 8  # starts, per length of the windows, of the other times of that length
MOST_PARTS = 1000  # of the windows, of which percentiles of power are: the 99th is of the ten highest
MIN_COVERED = 0.95  # of the window, between a channel's first and last reading


class NodeSums(NamedTuple):
    """Sums over one node's windows of one kind."""

    channels: list[Channel]  # the record's entries for the channels that count
    by_scope_j: dict[str, float]  # energy of all channels of one method, whether they count or not
    notes: list[str]
    busy_w: tuple[float, float]  # mean powers: from the first window to the last, and the highest over any equal time
    parts_w: list[float]  # mean powers in equal parts of the windows
    run: tuple[float, float, float] | None  # of the whole command: joules, seconds, seconds before the windows

    @property
    def scope(self) -> str:
        """The scope of the channels that count, and that of memory next to it."""
        return "+".join(sorted({channel.scope for channel in self.channels}))


class TraceSums(NamedTuple):
    """Sums and facts of one trace that a result needs."""

    meta: dict[str, Any]
    channels: list[ChannelInfo]
    marks: list[Region]  # of windows
    nodes: dict[tuple[str, str], NodeSums | JpwrError]  # by host name and kind of window; or why there are none


def read_sums(folder: Path, record: Record) -> list[TraceSums]:
    """Return the sums of every node's power trace in a job's folder over a record's windows.

    Each core reads one trace at a time. Raises TraceError.
    """
    paths = sorted(folder.glob(TRACES))
    nodes = _nodes_of_traces(record, [header_of(path).meta for path in paths])
    work = list(zip(paths, nodes, strict=True))
    return list(for_each(lambda one: _sums(record, read_trace(one[0]), one[1]), work))


def sums_of(record: Record, traces: Sequence[Trace]) -> list[TraceSums]:
    """Return the sums of traces over a record's windows."""
    nodes = _nodes_of_traces(record, [trace.meta for trace in traces])
    return [_sums(record, trace, own) for trace, own in zip(traces, nodes, strict=True)]


def header_of(path: Path) -> open_trace:
    """Return a trace with its facts and channels, and without its rows."""
    with open_trace(path) as reader:
        return reader


def _nodes_of_traces(record: Record, metas: Sequence[Mapping[str, Any]]) -> list[list[tuple[str, str]]]:
    """Return the host names and kinds of windows that belong to each trace."""
    nodes: list[list[tuple[str, str]]] = [[] for _ in metas]
    for node, window in {(one.hostname, one.kind): one for one in reversed(record.windows)}.items():
        if (trace := of_node(window, metas)) is not None:
            nodes[trace].append(node)
    return nodes


def of_node(window: Window, metas: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the place of the trace or profile of a window's node among the facts of several; None without one.

    A node's name can differ in and outside of a container; its kernel's boot id cannot.
    """
    same_boot = [place for place, meta in enumerate(metas) if meta.get("boot_id") == window.boot_id]
    same_name = [place for place in same_boot if metas[place].get("hostname") == window.hostname]
    return next(iter(same_name or (same_boot if window.boot_id else [])), None)


def _sums(record: Record, trace: Trace, nodes: Sequence[tuple[str, str]]) -> TraceSums:
    repeated = twins(trace) if nodes else set()
    curves = [curve for curve in trace.curves() if curve.info not in repeated] if nodes else []
    sums: dict[tuple[str, str], NodeSums | JpwrError] = {}
    for hostname, kind in nodes:
        try:
            sums[hostname, kind] = _node_sums(record, hostname, kind, trace, curves)
        except JpwrError as error:  # of this node and kind: energy_of() raises it
            sums[hostname, kind] = error
    return TraceSums(trace.meta, trace.channels, [one for one in trace.regions() if WINDOW in one.name], sums)


def _node_sums(record: Record, hostname: str, kind: str, trace: Trace, curves: Sequence[ChannelEnergy]) -> NodeSums:
    windows = sorted(record.windows_of(kind)[hostname], key=lambda window: window.end_s)
    device_ids = [device.device_id or "" for device in record.devices if device.hostname == hostname]
    chosen = choose([curve.info for curve in curves], device_ids, is_accelerated(record))
    edges = [(window.start_s, window.end_s) for window in windows]
    for edge in edges:
        trace.check_covered(*edge)
    estimates = {curve.info: energy_of_passes(curve, edges) for curve in curves}
    by_info = {curve.info: curve for curve in curves}
    counted = [by_info[info] for info in chosen]
    powers = [curve.power for curve in counted]
    command_s = trace.event_time_s("command_started"), trace.event_time_s("command_ended")
    # Steps repeat the same work, and not what precedes or follows them, such as checkpoints or a server's start.
    of_steps = [one for steps in KINDS for one in record.windows_of(steps).get(hostname, [])]
    return NodeSums(
        [_channel(trace, windows, curve, estimates[curve.info]) for curve in counted],
        _by_scope_j(estimates, chosen),
        list(_notes(record, hostname, trace, chosen, device_ids)),
        _busy_w(powers, of_steps, *command_s) if record.step_times_s else (0.0, 0.0),
        _parts_w(powers, windows, trace.meta.get("interval_s")),
        _run(counted, windows, *command_s),
    )


def _channel(trace: Trace, windows: Sequence[Window], curve: ChannelEnergy, estimate: EnergyEstimate) -> Channel:
    """Return the record's entry for a channel that counts; raises EnergyError for one without energy."""
    info, clocks = curve.info, clocks_of(trace, curve.info.name, windows)
    if estimate.unknown:
        raise EnergyError(": ".join(filter(None, [f"channel {info.name} {estimate.unknown}", info.lacks])))
    if estimate.samples < 1:
        raise EnergyError(f"channel {info.name} has too few samples inside the window: sample faster or run longer")
    if estimate.covered_s < MIN_COVERED * estimate.duration_s:
        raise EnergyError(
            f"the samples of channel {info.name} cover {estimate.covered_s:.1f} s of the window's "
            f"{estimate.duration_s:.1f} s: its other readings failed"
        )
    off_j = _off_j(trace, windows, curve)
    wider = {f"{name}_j": getattr(estimate, f"{name}_j") + off_j for name in ("uncertainty", "systematic")}
    channel = Channel(
        **info.described(),
        **estimate._replace(**wider).in_wh(),
        hostname=windows[0].hostname,
        limit_w=info.limit_w or None,
        counter_not_used=estimate.reason,
        idle_power_w=known(trace.idle_power_w(curve)),
        largest_gap_s=estimate.largest_gap_s,
        limits=limits_of(trace, info, windows),
    )
    return changed(channel, clocks=clocks) if clocks else channel


def _off_j(trace: Trace, windows: Sequence[Window], curve: ChannelEnergy) -> float:
    """Return by how much an energy changes at most if the windows are off by the clocks' error.

    What a window gains at one edge it loses at the other: at most the difference of powers nearby, over that error.
    """
    off_j, error_s = 0.0, max(window.number("clock_error_s") or 0.0 for window in windows)
    for window in windows if error_s else ():
        trace.check_covered(window.start_s - error_s, window.end_s + error_s)
        near = [curve.power.near_w(one - error_s, one + error_s) for one in (window.start_s, window.end_s)]
        off_j += error_s * (max(high_w for _, high_w in near) - min(low_w for low_w, _ in near))
    return off_j


def _by_scope_j(estimates: Mapping[ChannelInfo, EnergyEstimate], chosen: Mapping[ChannelInfo, int]) -> dict[str, float]:
    """Return the energy of the channels of each scope, those of one method where several read the same."""
    known_j = {info: one.energy_j for info, one in estimates.items() if not one.unknown}
    energies = dict[str, float]()
    for scope, infos in grouped(known_j, lambda info: info.scope.value).items():
        counted = [info for info in infos if info in chosen]
        of_scope = dict.fromkeys(counted + of_one_method(infos, *counted[:1]))
        energies[scope] = math.fsum(known_j[info] for info in of_scope)
    return energies


def _notes(
    record: Record, hostname: str, trace: Trace, chosen: Mapping[ChannelInfo, int], device_ids: Sequence[str]
) -> Iterator[str]:
    """Yield a sentence on each channel that counts, or does not, otherwise than a reader expects."""
    scopes = {info.scope for info in chosen}
    if is_accelerated(record) is False and {scope.value for scope in scopes} == {"device"}:
        yield f"node {hostname}: processors trained, but only the power of devices was measured: it is counted"
    for info, trained in chosen.items():
        if trained < info.num_devices and any(device_ids):
            words = f"measures {info.num_devices} devices, of which {trained} trained: the energy of all is counted"
            unknown = "has no id of a device that trained: its energy is counted nevertheless"
            yield f"channel {info.name} of node {hostname} {words if trained else unknown}"
    others = [info for info in trace.channels if info.mine and info.scope in scopes and info not in chosen]
    if others and not any(chosen.values()):  # those that count were not found by their ids
        names = ", ".join(info.name for info in others)
        yield f"{names} of node {hostname} show what others show, by another method or once more: not counted"


def _parts_w(powers: Sequence[PowerCurve], windows: Sequence[Window], interval_s: float | None) -> list[float]:
    """Return the mean powers in parts of the windows that are as short as a reading, up to MOST_PARTS of them."""
    if any(len(power.times_s) < 2 for power in powers):
        return []
    part_s = max(interval_s or 0.0, total_s(windows) / MOST_PARTS)
    parts_w: list[float] = []
    for window in windows:
        number = max(1, round(window.duration_s / part_s))
        edges_s = [window.start_s + window.duration_s * one / number for one in range(number + 1)]
        parts_w += map(math.fsum, zip(*(means_w(power, edges_s) for power in powers), strict=True))
    return parts_w


def _run(
    counted: Sequence[ChannelEnergy], windows: Sequence[Window], start_s: float | None, end_s: float | None
) -> tuple[float, float, float] | None:
    """Return the sums of the whole command; None if the trace does not cover it."""
    if start_s is None or end_s is None:
        return None
    estimates = [curve.between(start_s, end_s) for curve in counted]
    if any(one.unknown or one.covered_s < MIN_COVERED * one.duration_s for one in estimates):
        return None
    energy_j = math.fsum(one.energy_j for one in estimates)
    return energy_j, end_s - start_s, min(window.start_s for window in windows) - start_s


def _busy_w(
    powers: Sequence[PowerCurve], windows: Sequence[Window], started_s: float | None, ended_s: float | None
) -> tuple[float, float]:
    """Return two mean powers in watts: from the first window to the last, and the highest over any equal time."""
    begin_s, end_s = min(one.start_s for one in windows), max(one.end_s for one in windows)
    if started_s is None or any(len(one.times_s) < 2 for one in powers):
        return 0.0, 0.0
    least_s, most_s = max(one.times_s[0] for one in powers), min(one.times_s[-1] for one in powers)
    if not least_s <= begin_s < end_s <= most_s:
        return 0.0, 0.0
    least_s, most_s = max(started_s, least_s), min(most_s, math.inf if ended_s is None else ended_s)
    length_s = end_s - begin_s
    places = math.floor(PLACES * (most_s - least_s - length_s) / length_s) + 1
    own_w, *others_w = (
        math.fsum(power.until_j(from_s + length_s) - power.until_j(from_s) for power in powers) / length_s
        for from_s in (begin_s, *(least_s + place * length_s / PLACES for place in range(places)))
    )
    return own_w, max(others_w, default=own_w)
