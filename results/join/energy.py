"""Energy and power of a run: the sums of its nodes' power traces over the windows of its throughput, joined."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from jpwr.energy.estimate import known
from record.derived import TO_LOSS, computed, of_energy, power_over_time, product, ratio, sum_of_all
from record.model import Channel, Energy, Numbers, Record, Window, changed
from record.parts import JOULES_PER_WH, of_node, windows_of
from results.join.channels import EnergyError, sensor
from results.join.limits import limits_of_all
from results.join.nodes import NodeSums, TraceSums

# Components of an energy's interval; the first is the sum of the others.
UNCERTAINTIES = ("uncertainty_wh", "random_wh", "systematic_wh")
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
    scope = _only_scope(nodes)
    energy_wh = _sum(channels, "energy_wh")
    _refuse_nothing(channels, energy_wh)
    duration_s = max(node.duration_s for node in nodes)
    is_estimated = any(channel.estimated for channel in channels)
    unit = record.work_unit
    measured = {**vars(record.metrics), **vars(record.layout), "energy_wh": energy_wh, "window_s": duration_s}
    is_to_loss = record.metrics.target_loss is not None
    derived = computed((*of_energy(unit, kind), *[TO_LOSS] * is_to_loss), measured)
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
        notes=[words for node in nodes for words in node.notes],
        sampled_by_scope=Numbers.of(_sampled_by_scope(nodes)),
    )
    more = _busier_elsewhere(nodes, channels, duration_s) | _over_time(nodes, duration_s)
    more |= _of_runs(nodes) if kind == "measured" else {}
    return changed(energy, **derived, **more)


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


def _only_scope(nodes: Sequence[NodeSums]) -> str:
    if len({node.scope for node in nodes}) > 1:
        known = ", ".join(f"{node.scope} on {node.hostname}" for node in nodes)
        raise EnergyError(f"the nodes were measured at different scopes, whose energies must not be added: {known}")
    return nodes[0].scope


def _refuse_nothing(channels: Sequence[Channel], energy_wh: float) -> None:
    every = [("its channels", energy_wh), *((f"channel {one.name}", one.energy_wh) for one in channels)]
    for name, measured_wh in every:
        if not (measured_wh and measured_wh > 0):
            raise EnergyError(f"{name} measured {measured_wh:g}Wh, but every run uses energy")


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


def _accuracy(channels: Sequence[Channel], energy_wh: float) -> dict[str, Any]:
    """Return the relative accuracy of the sum and its source; None if that of one sensor is not stated."""
    bound_wh = sum_of_all([product(channel.accuracy, channel.energy_wh) for channel in channels])
    if bound_wh is None:
        return {"accuracy": None, "accuracy_from": ""}
    sources = dict.fromkeys(channel.accuracy_from or "" for channel in channels)
    return {"accuracy": bound_wh / energy_wh, "accuracy_from": " and ".join(sources)}


def _sum(channels: Sequence[Channel], name: str) -> float:
    return math.fsum(channel.number(name) or 0.0 for channel in channels)
