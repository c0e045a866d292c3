"""Power of each figure of a node check, and its rate by that power."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from jpwr.channel import ChannelInfo
from jpwr.process.device_ids import same_ids
from record.model import Figure, Record, changed
from record.parts import windows_of
from results.join.energy import trace_of
from results.join.nodes import NOT_SAMPLED, FigureSums, TraceSums

UNITS = {"TFLOP/s": "tflops", "GB/s": "gb_per_s"}  # in names of metrics


def with_power(run: Record, traces: Sequence[TraceSums]) -> Record:
    """Return a run with the power in watts of each figure of a device and the rate by it, or why they are missing.

    A device with a sensor of its own has that power. Others share their node's sensor: the rate is then that of all its
    devices. The interval has two independent components, of the rate and of the energy. Raises EnergyError if a node
    has no trace.
    """
    nodes = {host: trace_of(host, windows, traces) for host, windows in windows_of(run, "measured").items()}
    devices = {device.rank: device for device in run.devices}
    figures, per_w = list[Figure](), dict[str, list[float]]()
    for figure in run.node_check.figures:
        start_s, end_s = figure.number("start_s"), figure.number("end_s")
        if figure.value is not None and start_s is not None and end_s is not None:
            device = devices[figure.rank]
            trace, ids = nodes[device.hostname], set(same_ids(device.device_id or ""))
            chosen = trace.node(device.hostname, "measured").chosen
            own = [info for info in chosen if ids & set(same_ids(info.device_id)) and info.num_devices == 1]
            on_node = [
                one
                for one in run.node_check.figures
                if (one.name, devices[one.rank].hostname) == (figure.name, device.hostname) and one.value is not None
            ]
            sums = trace.figures[start_s, end_s]
            figure = changed(figure, **_by_power([figure] if own else on_node, own or chosen, sums))
        if figure.per_w is not None:
            per_w.setdefault(f"{figure.name}_{UNITS[figure.unit]}_per_w", []).append(figure.per_w)
        figures.append(figure)
    medians = {name: statistics.median(values) for name, values in per_w.items()}
    return changed(run, node_check=changed(run.node_check, figures=figures), metrics=changed(run.metrics, **medians))


def _by_power(sharers: Sequence[Figure], channels: Sequence[ChannelInfo], sums: FigureSums) -> dict[str, Any]:
    if sums.missing:
        return {"no_power": sums.missing}
    energies = [sums.estimates[info] for info in channels if not sums.estimates[info].unknown]
    energy_j = math.fsum(one.energy_j for one in energies)
    if len(energies) < len(channels) or not energy_j > 0:
        return {"no_power": f"a channel {NOT_SAMPLED}"}
    rate = math.fsum(one.value or 0.0 for one in sharers)
    of_rate = math.fsum(((one.high or 0.0) - (one.low or 0.0)) / 2 for one in sharers) / rate
    of_energy = math.fsum(one.uncertainty_j for one in energies) / energy_j
    power_w = energy_j / sums.duration_s
    return {
        "power_w": power_w,
        "power_half_width_w": of_energy * power_w,
        "power_kind": "estimated" if any(info.estimated for info in channels) else "measured",
        "power_scope": "+".join(sorted({info.scope.value for info in channels})),
        "per_w": rate / power_w,
        "per_w_half_width": math.hypot(of_rate, of_energy) * rate / power_w,
    }
