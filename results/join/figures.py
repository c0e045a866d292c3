"""Power of each figure of a node check, and its rate by that power."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from jpwr.channel import ChannelInfo
from jpwr.process.device_ids import same_ids
from record.model import Json, Record
from record.parts import windows_of
from results.join.energy import trace_of
from results.join.nodes import NOT_SAMPLED, FigureSums, TraceSums

UNITS = {"TFLOP/s": "tflops", "GB/s": "gb_per_s"}  # in names of metrics


def add_power(record: Json, traces: Sequence[TraceSums]) -> None:
    """Add its power in watts to each figure of a device, and the rate by it, or the reason for which they are missing.

    A device with a sensor of its own has that power. Others share their node's sensor: the rate is then that of all its
    devices. The interval has two independent components, of the rate and of the energy. Raises EnergyError if a node
    has no trace.
    """
    run = Record.of(record)
    nodes = {host: trace_of(host, windows, traces) for host, windows in windows_of(run, "measured").items()}
    hosts = {device["rank"]: device for device in record["devices"]}
    figures = record["node_check"]["figures"]
    per_w: dict[str, list[float]] = {}
    for figure in figures:
        if figure["value"] is None or figure.get("start_s") is None:
            continue
        device = hosts[figure["rank"]]
        trace, ids = nodes[device["hostname"]], set(same_ids(device["device_id"]))
        chosen = trace.node(device["hostname"], "measured").chosen
        own = [info for info in chosen if ids & set(same_ids(info.device_id)) and info.num_devices == 1]
        together = [one for one in figures if one["name"] == figure["name"] and one["value"] is not None]
        on_node = [one for one in together if hosts[one["rank"]]["hostname"] == device["hostname"]]
        sharers = [figure] if own else on_node
        figure |= _by_power(figure, sharers, own or chosen, trace.figures[figure["start_s"], figure["end_s"]])
        if figure.get("per_w") is not None:
            per_w.setdefault(f"{figure['name']}_{UNITS[figure['unit']]}_per_w", []).append(figure["per_w"])
    record["metrics"] |= {name: statistics.median(values) for name, values in per_w.items()}


def _by_power(
    figure: dict[str, Any], sharers: Sequence[dict[str, Any]], channels: Sequence[ChannelInfo], sums: FigureSums
) -> dict[str, Any]:
    if sums.missing:
        return {"no_power": sums.missing}
    energies = [sums.estimates[info] for info in channels if not sums.estimates[info].unknown]
    energy_j = math.fsum(one.energy_j for one in energies)
    if len(energies) < len(channels) or not energy_j > 0:
        return {"no_power": f"a channel {NOT_SAMPLED}"}
    duration_s = figure["end_s"] - figure["start_s"]
    rate = math.fsum(one["value"] for one in sharers)
    of_rate = math.fsum((one["high"] - one["low"]) / 2 for one in sharers) / rate
    of_energy = math.fsum(one.uncertainty_j for one in energies) / energy_j
    power_w = energy_j / duration_s
    return {
        "power_w": power_w,
        "power_half_width_w": of_energy * power_w,
        "power_kind": "estimated" if any(info.estimated for info in channels) else "measured",
        "power_scope": "+".join(sorted({info.scope.value for info in channels})),
        "per_w": rate / power_w,
        "per_w_half_width": math.hypot(of_rate, of_energy) * rate / power_w,
    }
