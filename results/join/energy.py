"""Energy and power of a run: the sums of its nodes' power traces over the windows of its throughput, joined."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from jpwr.energy.estimate import JOULES_PER_WH, known
from jpwr.errors import JpwrError
from jpwr.median import percentile
from jpwr.process.whole_file import replacing
from record.arithmetic import POWER_PERCENTILES, ratio, sum_of_all
from record.checks.windows import CHECKPOINT_WORDS
from record.model import Channel, Energy, Numbers, Record
from record.part import changed
from record.values import grouped
from results.join.channels import EnergyError, sensor
from results.join.nodes import NodeSums, TraceSums

ENERGIES_NAME = "energy.csv"
TENTHS = 10  # mean powers of the core phase in the power measurement methodology of the EEHPCWG
MOST_ELSEWHERE = 1.1  # power outside of the windows over that inside; on an H200, warm-up and later steps reach 1.005


def energy_of(record: Record, traces: Sequence[TraceSums], kind: str) -> Energy:
    """Return the energy of the devices that trained, over the windows of one kind, without the numbers of `derive`.

    Energy in watt-hours, power in watts, both summed over all devices. Raises EnergyError if a node has no trace of its
    window, or a device has no channel; raises the JpwrError of a trace that does not give its sums.
    """
    nodes, counted = list[NodeSums](), dict[tuple[str, str], str]()
    for hostname in record.windows_of(kind):
        trace = next((one for one in traces if (hostname, kind) in one.nodes), None)
        if trace is None:
            raise EnergyError(f"node {hostname} has no power trace of the boot that it trained under")
        node = trace.nodes[hostname, kind]
        if isinstance(node, JpwrError):
            raise node
        nodes.append(node)
        for channel in node.channels:
            other = counted.setdefault(sensor(trace.meta, channel), hostname)
            if other != hostname and not channel.estimated:
                raise EnergyError(f"channel {channel.name} is one sensor, but counts for {other} and for {hostname}")
    if not nodes:
        raise EnergyError(f"the record has no {kind} window")
    if len({node.scope for node in nodes}) > 1:
        scopes = ", ".join(f"{node.scope} on {node.channels[0].hostname}" for node in nodes)
        raise EnergyError(f"the nodes were measured at different scopes, whose energies must not be added: {scopes}")
    channels = [channel for node in nodes for channel in node.channels]
    for channel in channels:
        if not (channel.energy_wh and channel.energy_wh > 0):
            raise EnergyError(f"channel {channel.name} measured {channel.energy_wh:g}Wh, but every run uses energy")
    energy = Energy(
        energy_wh=math.fsum(channel.energy_wh or 0.0 for channel in channels),
        power_kind="measured",
        power_scope=nodes[0].scope,
        channels=channels,
        notes=[words for node in nodes for words in node.notes],
        sampled_by_scope=Numbers.of(_sampled_by_scope(nodes)),
    )
    duration_s = record.longest_s(kind)
    more: dict[str, Any] = _busier_elsewhere(nodes, channels, duration_s)
    if len({len(node.parts_w) for node in nodes}) == 1:  # their windows begin together
        parts = zip(*(node.parts_w for node in nodes), strict=True)
        more |= power_over_time([math.fsum(part) for part in parts], duration_s)
    runs = [node.run for node in nodes if node.run]
    if kind == "measured" and len(runs) == len(nodes):
        energies_j, run_s, before_s = zip(*runs, strict=True)
        more |= {"run_wh": math.fsum(energies_j) / JOULES_PER_WH, "run_s": max(run_s), "before_s": max(before_s)}
    return changed(energy, **more)


def energy_per_checkpoint(record: Record, traces: Sequence[TraceSums]) -> tuple[dict[str, float | None], list[str]]:
    """Return the energies of a record's checkpoints for its `energy`, and notes on those that are unknown."""
    energies, notes = dict[str, float | None](), []
    rounds = record.metrics.number("checkpoint_rounds")
    for kind, word in CHECKPOINT_WORDS.items() if rounds else ():
        try:
            channels = energy_of(record, traces, kind).channels
        except JpwrError as error:
            notes.append(f"the energy of a checkpoint's {word} is unknown: {error}")
            continue
        for name in ("", "uncertainty_"):
            each_wh = [channel.number(f"{name or 'energy_'}wh") for channel in channels]
            energies[f"checkpoint_{word}_{name}wh"] = ratio(sum_of_all(each_wh), rounds)
    return energies, notes


def _sampled_by_scope(nodes: Sequence[NodeSums]) -> dict[str, float | None]:
    """Return the energy of the channels of each scope, whether they count or not, in watt-hours.

    Scopes contain each other: their energies must not be added. A scope that some nodes lack has None.
    """
    energies = {}
    for scope in sorted({scope for node in nodes for scope in node.by_scope_j}):
        by_node = [node.by_scope_j[scope] for node in nodes if scope in node.by_scope_j]
        energies[f"{scope}_wh"] = known(math.fsum(by_node) / JOULES_PER_WH) if len(by_node) == len(nodes) else None
    return energies


def _busier_elsewhere(nodes: Sequence[NodeSums], channels: Sequence[Channel], duration_s: float) -> dict[str, float]:
    """Return the power inside and outside of the windows if that outside is clearly higher; else empty.

    An estimate is of the load of the whole machine, so that it rises with the work of others, too.
    """
    if any(channel.estimated for channel in channels):
        return {}
    windows_w, elsewhere_w = (math.fsum(powers_w) for powers_w in zip(*(node.busy_w for node in nodes), strict=True))
    half_width_wh = math.fsum(channel.uncertainty_wh or 0.0 for channel in channels)
    half_width_w = half_width_wh * JOULES_PER_WH / duration_s
    is_busier = elsewhere_w > MOST_ELSEWHERE * windows_w + half_width_w
    return {"windows_w": windows_w, "elsewhere_w": elsewhere_w} if is_busier else {}


def write_energies(run: Record, folder: Path) -> None:
    """Write the energy of the measured window, in Wh, as the original suite does: a row per node, a column per channel.

    `rank` is that of the node's sampler, of which there is one per node.
    """
    if not run.energy:
        (folder / ENERGIES_NAME).unlink(missing_ok=True)  # of an earlier attempt
        return
    names = list(dict.fromkeys(channel.name for channel in run.energy.channels))
    with replacing(folder / ENERGIES_NAME) as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["", "nodename", "rank", *names])
        nodes = grouped(run.energy.channels, lambda channel: channel.hostname)
        for rank, (hostname, channels) in enumerate(nodes.items()):
            energies = {channel.name: channel.energy_wh for channel in channels}
            rows.writerow([rank, hostname, rank, *(energies.get(name) for name in names)])


def power_over_time(parts_w: Sequence[float], time_s: float) -> dict[str, Any]:
    """Return percentiles over time of power, and its means in tenths, from the means in equal parts of a time."""
    number = len(parts_w)
    if number < TENTHS:
        return {}
    edges = [number * one // TENTHS for one in range(TENTHS + 1)]
    tenths = [math.fsum(parts_w[low:high]) / (high - low) for low, high in pairwise(edges)]
    percentiles = {f"p{one}_power_w": percentile(parts_w, one) for one in POWER_PERCENTILES}
    return {"part_s": time_s / number, "tenths": tenths, **percentiles}
