"""Energy and power of a run: the sums of its nodes' power traces over the windows of its throughput, joined."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from jpwr.energy.estimate import known
from record.derivation import derived_energy
from record.derived import power_over_time
from record.model import Channel, Energy, Numbers, Record, Window, changed
from record.parts import JOULES_PER_WH, of_node, windows_of
from results.join.channels import EnergyError, sensor
from results.join.nodes import NodeSums, TraceSums

MOST_ELSEWHERE = 1.1  # power outside of the windows over that inside; on an H200, warm-up and later steps reach 1.005


def energy_of(record: Record, traces: Sequence[TraceSums], kind: str) -> Energy:
    """Return energy and power of the devices that trained, over the windows of one kind: those of a throughput.

    Energy in watt-hours, power in watts, both summed over all devices. Raises EnergyError if a node has no trace of its
    window, or a device has no channel.
    """
    of_nodes = [trace_of(hostname, windows, traces) for hostname, windows in windows_of(record, kind).items()]
    nodes = [trace.node(hostname, kind) for hostname, trace in zip(windows_of(record, kind), of_nodes, strict=True)]
    if not nodes:
        raise EnergyError(f"the record has no {kind} window")
    _refuse_a_sensor_of_two_nodes(zip(nodes, of_nodes, strict=True))
    channels = [channel for node in nodes for channel in node.channels]
    _only_scope(nodes)
    _refuse_nothing(channels)
    duration_s = max(node.duration_s for node in nodes)
    # Errors of devices that are read at the same moments under the same load are correlated: their sum is linear.
    energy = Energy(
        energy_wh=_sum(channels, "energy_wh"),
        power_kind="measured",
        power_scope="",
        window_s=duration_s,
        sampling_interval_s=traces[0].meta.get("interval_s"),
        jpwr_version=traces[0].meta.get("jpwr_version"),
        channels=channels,
        notes=[words for node in nodes for words in node.notes],
        sampled_by_scope=Numbers.of(_sampled_by_scope(nodes)),
    )
    more = _busier_elsewhere(nodes, channels, duration_s) | _over_time(nodes, duration_s)
    more |= _of_runs(nodes) if kind == "measured" else {}
    return derived_energy(record, changed(energy, **more), kind)


def _over_time(nodes: Sequence[NodeSums], duration_s: float) -> dict[str, Any]:
    """Return percentiles and tenths of the power of all nodes, by parts of their windows, which begin together."""
    parts = [node.parts_w for node in nodes]
    if len(set(map(len, parts))) > 1:
        return {}
    return power_over_time([math.fsum(part) for part in zip(*parts, strict=True)], duration_s)


def _of_runs(nodes: Sequence[NodeSums]) -> dict[str, Any]:
    """Return the sums of the command on all nodes; empty if the trace of one does not cover it."""
    runs = [node.run for node in nodes if node.run]
    if len(runs) < len(nodes):
        return {}
    energy_wh = math.fsum(one.energy_j for one in runs) / JOULES_PER_WH
    run_s, before_s = (max(lengths_s) for lengths_s in zip(*((one.run_s, one.before_s) for one in runs), strict=True))
    return {"run_wh": energy_wh, "run_s": run_s, "before_s": before_s}


def trace_of(hostname: str, windows: Sequence[Window], traces: Sequence[TraceSums]) -> TraceSums:
    """Return the sums of the trace of a node's windows; raises EnergyError without any."""
    trace = of_node(windows[0], traces, lambda one: one.meta)
    if trace is None:
        raise EnergyError(f"node {hostname} has no power trace of the boot that it trained under")
    return trace


def _refuse_a_sensor_of_two_nodes(nodes: Iterable[tuple[NodeSums, TraceSums]]) -> None:
    counted: dict[tuple[str, str], str] = {}
    for node, trace in nodes:
        for info in node.chosen:
            other = counted.setdefault(sensor(trace.meta, node.hostname, info), node.hostname)
            if other != node.hostname and not info.estimated:
                raise EnergyError(f"channel {info.name} is one sensor, but counts for {other} and for {node.hostname}")


def _only_scope(nodes: Sequence[NodeSums]) -> None:
    if len({node.scope for node in nodes}) > 1:
        known = ", ".join(f"{node.scope} on {node.hostname}" for node in nodes)
        raise EnergyError(f"the nodes were measured at different scopes, whose energies must not be added: {known}")


def _refuse_nothing(channels: Sequence[Channel]) -> None:
    for channel in channels:
        if not (channel.energy_wh and channel.energy_wh > 0):
            raise EnergyError(f"channel {channel.name} measured {channel.energy_wh:g}Wh, but every run uses energy")


def _sampled_by_scope(nodes: Sequence[NodeSums]) -> dict[str, float | None]:
    """Return the energy of the channels of each scope, whether they count or not, in watt-hours.

    Scopes contain each other: their energies must not be added. A scope that some nodes lack has None.
    """
    energies = {}
    for scope in sorted({scope for node in nodes for scope in node.by_scope_j}):
        by_node = [node.by_scope_j.get(scope, []) for node in nodes]
        joules = math.fsum(energy_j for energies_j in by_node for energy_j in energies_j)
        energies[f"{scope}_wh"] = known(joules / JOULES_PER_WH) if all(by_node) else None
    return energies


def _busier_elsewhere(nodes: Sequence[NodeSums], channels: Sequence[Channel], duration_s: float) -> dict[str, float]:
    """Return the power inside and outside of the windows if that outside is clearly higher; else empty.

    An estimate is of the load of the whole machine, so that it rises with the work of others, too.
    """
    if any(channel.estimated for channel in channels):
        return {}
    windows_w, elsewhere_w = (math.fsum(powers_w) for powers_w in zip(*(node.busy_w for node in nodes), strict=True))
    half_width_w = _sum(channels, "uncertainty_wh") * JOULES_PER_WH / duration_s
    is_busier = elsewhere_w > MOST_ELSEWHERE * windows_w + half_width_w
    return {"windows_w": windows_w, "elsewhere_w": elsewhere_w} if is_busier else {}


def _sum(channels: Sequence[Channel], name: str) -> float:
    return math.fsum(channel.number(name) or 0.0 for channel in channels)
