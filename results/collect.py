"""Join what the benchmark recorded with what the sampler saw, over the same window.

Standard library and jpwr's core only, so that it runs on any login node.
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
import signal
import sys
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from jpwr.channel import ChannelInfo
from jpwr.energy import EnergyEstimate, add_estimates
from jpwr.errors import JpwrError, NotEnoughSamples
from jpwr.trace import Series, Trace
from jpwr.writers import read_trace
from results.records import RESULT_NAME, Record, RecordError, read_record, write_record

JOULES_PER_WH = 3600.0
RECORD_NAME = "record.json"
TRACES = "power/*/trace.csv"
JOB_ERRORS = "job.err"
EXIT_JPWR_FAILED = 125
TELLING = re.compile("error|signal", re.IGNORECASE)  # the last line with such a word says most of why a job failed
MIN_COVERED = 0.95  # of the window, by a channel's first to last reading
# What a benchmark's energy is taken from: the narrowest scope that was measured.
SCOPES = ("device", "module", "cpu", "node", "supply")
# Memory is beside its processor, not inside it.
ADDED_TO = {"cpu": "dram"}


class Reading(NamedTuple):
    """What a channel says of the windows of its node."""

    info: ChannelInfo
    estimate: EnergyEstimate
    idle_power_w: float
    largest_gap_s: float  # the longest time in a window without a finite sample


class EnergyError(Exception):
    """The energy of a run cannot be told from its traces."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; returns 0 when the point's result is good."""
    parser = argparse.ArgumentParser(
        prog="python -m results.collect",
        description=f"Join {RECORD_NAME} and the power traces of a job's folder into {RESULT_NAME}.",
    )
    parser.add_argument("folder", type=Path, help=f"the job's folder, with {RECORD_NAME} and {TRACES}")
    parser.add_argument("--exit-code", type=int, metavar="N", help="the job failed with this exit code")
    parser.add_argument("--reason", default="", help="why the job failed, where that is known")
    options = parser.parse_args(argv)
    try:
        if options.exit_code is None:
            result = collect(options.folder)
        else:
            result = failed_result(options.folder, options.exit_code, options.reason)
        write_record(result, options.folder / RESULT_NAME)
    except (RecordError, OSError) as error:
        print(f"collect: {error}", file=sys.stderr)
        return 1
    if result["status"] != "ok":
        print(f"collect: {result['error']}", file=sys.stderr)
        return 1
    return 0


def collect(folder: Path) -> Record:
    """The record with its energy; a run whose energy cannot be told has failed, and says why."""
    result = read_record(folder / RECORD_NAME)
    before = folder / RESULT_NAME
    if before.exists():  # what the scheduler said of the job
        result |= {key: value for key, value in read_record(before).items() if key == "slurm"}
    try:
        traces = read_traces(folder)
        result["energy"] = energy_of(result, traces, "measured")
        if any(window["kind"] == "effective" for window in result["windows"]):
            result["energy_effective"] = energy_of(result, traces, "effective")
    except (EnergyError, JpwrError) as error:
        result["error"] = "; ".join(text for text in (result["error"], f"no energy: {error}") if text)
        result["status"] = "failed" if result["status"] == "ok" else result["status"]
    return result


def read_traces(folder: Path) -> list[Trace]:
    """The trace of every node that sampled."""
    return [read_trace(path) for path in sorted(folder.glob(TRACES))]


def failed_result(folder: Path, exit_code: int, reason: str) -> Record:
    """A result that says why there is none, from what the job left behind."""
    try:
        result = read_record(folder / RECORD_NAME)
    except RecordError:
        result = read_record(folder / RESULT_NAME)
    if result["status"] in ("ok", "unfinished"):
        result["status"] = "failed"
        result["error"] = reason or _cause(exit_code, folder / JOB_ERRORS)
    return result


def _cause(exit_code: int, errors: Path) -> str:
    if 128 < exit_code < 128 + 65:
        number = exit_code - 128
        name = signal.Signals(number).name if number in signal.Signals.__members__.values() else "unknown"
        cause = f"ended by signal {number} ({name})"
    else:
        cause = f"ended with exit code {exit_code}"
    lines = _lines(errors)
    if exit_code != EXIT_JPWR_FAILED:  # else jpwr's last words are a summary, and not the reason
        lines = [line for line in lines if not line.startswith(("jpwr: ", "job.sh: "))]
    telling = [line for line in lines if TELLING.search(line)] or lines
    return f"{cause}: {telling[-1]}" if telling else cause


def _lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return []


def energy_of(record: Record, traces: Sequence[Trace], kind: str) -> dict[str, Any]:
    """Energy and power of the devices that trained, over the windows of one kind: those of a throughput.

    Energy in watt-hours, power in watts, both summed over all devices. Raises EnergyError when a node has no trace
    of its window, or a device no channel.
    """
    nodes: dict[str, list[dict[str, Any]]] = {}
    for window in record["windows"]:
        if window["kind"] == kind:
            nodes.setdefault(window["hostname"], []).append(window)
    if not nodes:
        raise EnergyError(f"the record has no {kind} window")
    channels = []
    by_scope_wh: dict[str, float] = {}
    for hostname, windows in nodes.items():
        trace = _trace_of(windows[0], traces)
        device_ids = [device["device_id"] for device in record["devices"] if device["hostname"] == hostname]
        of_windows = [trace.energies(window["start_s"], window["end_s"]) for window in windows]
        estimates = [reduce(add_estimates, of_channel) for of_channel in zip(*of_windows, strict=True)]
        readings = [
            Reading(*reading)
            for reading in zip(
                trace.channels, estimates, _idle_power_w(trace), _largest_gaps_s(trace, windows), strict=True
            )
        ]
        for reading in readings:
            scope = reading.info.scope.value
            by_scope_wh[scope] = by_scope_wh.get(scope, 0.0) + reading.estimate.energy_j / JOULES_PER_WH
        channels += [_describe(reading, hostname) for reading in _choose(readings, device_ids)]
    duration_s = max(sum(window["end_s"] - window["start_s"] for window in windows) for windows in nodes.values())
    num_devices = record["layout"]["num_devices"]
    energy_wh = math.fsum(channel["energy_wh"] for channel in channels)
    scopes = sorted({channel["scope"] for channel in channels})
    estimated = any(channel["estimated"] for channel in channels)
    unit = record["work_unit"]
    work_per_wh = record["metrics"][f"{kind}_{unit}"] / energy_wh
    epoch = record["metrics"].get(f"{unit}_per_epoch")
    return {
        "energy_wh": energy_wh,
        "energy_wh_per_device": energy_wh / num_devices,
        "avg_power_w": energy_wh * JOULES_PER_WH / duration_s,
        "uncertainty_wh": math.sqrt(math.fsum(channel["uncertainty_wh"] ** 2 for channel in channels)),
        "idle_power_w": _sum_or_none([channel["idle_power_w"] for channel in channels]),
        f"{unit}_per_wh": work_per_wh,
        "epoch_wh": epoch / work_per_wh if epoch else None,
        "window_s": duration_s,
        "power_kind": "estimated" if estimated else "measured",
        "power_scope": "+".join(scopes),
        "power_source": f"{'ESTIMATED' if estimated else 'measured'}, {'+'.join(scopes)}",
        "samples": sum(channel["samples"] for channel in channels),
        "missing": sum(channel["missing"] for channel in channels),
        "sampling_interval_s": traces[0].meta.get("interval_s"),
        "jpwr_version": traces[0].meta.get("jpwr_version"),
        "channels": channels,
        # Of all that was sampled, used or not; scopes contain each other and are not to be added up.
        "sampled_by_scope": {f"{scope}_wh": _none_if_nan(energy) for scope, energy in sorted(by_scope_wh.items())},
    }


def _trace_of(window: dict[str, Any], traces: Sequence[Trace]) -> Trace:
    # A node's name can differ in and outside of a container; its kernel's boot id cannot.
    same_boot = [trace for trace in traces if trace.meta.get("boot_id") == window["boot_id"]]
    same_name = [trace for trace in same_boot if trace.meta.get("hostname") == window["hostname"]]
    if same_name or (same_boot and window["boot_id"]):
        return (same_name or same_boot)[0]
    raise EnergyError(f"node {window['hostname']} has no power trace of the boot that it trained under")


def _choose(found: Sequence[Reading], device_ids: Sequence[str]) -> list[Reading]:
    """The channels of one node that count: one scope, and of devices only those that trained."""
    for scope in SCOPES:
        chosen = [reading for reading in found if reading.info.scope.value == scope and reading.info.mine]
        if not chosen:
            continue
        if scope == "device" and any(device_ids):
            by_id = {reading.info.device_id: reading for reading in chosen}
            unknown = [device_id for device_id in device_ids if device_id not in by_id]
            if unknown:
                raise EnergyError(f"device {unknown[0]} trained, but no power channel has its id")
            return [by_id[device_id] for device_id in dict.fromkeys(device_ids)]
        return chosen + [reading for reading in found if reading.info.scope.value == ADDED_TO.get(scope)]
    raise EnergyError("the trace has no channel")


def _idle_power_w(trace: Trace) -> list[float]:
    """Average power of each channel before the command started; `nan` where there was no such time."""
    started_s = trace.event_time_s("command_started")
    try:
        return [one.avg_power_w for one in trace.energies(trace.start_s, math.nan if started_s is None else started_s)]
    except NotEnoughSamples:
        return [math.nan] * len(trace.channels)


def _largest_gaps_s(trace: Trace, windows: Sequence[dict[str, Any]]) -> list[float]:
    """Of each channel, over all windows."""
    of_windows = [
        [_largest_gap_s(series, window["start_s"], window["end_s"]) for series in trace.series()] for window in windows
    ]
    return [max(of_channel) for of_channel in zip(*of_windows, strict=True)]


def _largest_gap_s(series: Series, start_s: float, end_s: float) -> float:
    read_s = [time_s for time_s, power_w in zip(series.times_s, series.power_w, strict=True) if not math.isnan(power_w)]
    inside_s = [start_s, *(time_s for time_s in read_s if start_s < time_s < end_s), end_s]
    return max(after - before for before, after in itertools.pairwise(inside_s))


def _describe(reading: Reading, hostname: str) -> dict[str, Any]:
    info, estimate = reading.info, reading.estimate
    if estimate.samples < 1:
        raise EnergyError(f"channel {info.name} has no sample inside the window: sample faster or run longer")
    if estimate.covered_s < MIN_COVERED * estimate.duration_s:
        raise EnergyError(
            f"the samples of channel {info.name} cover {estimate.covered_s:.1f} s of the window's "
            f"{estimate.duration_s:.1f} s: its other readings failed"
        )
    return {
        "name": info.name,
        "hostname": hostname,
        "scope": info.scope.value,
        "source": info.source,
        "estimated": info.estimated,
        "device_id": info.device_id,
        "num_devices": info.num_devices,
        "method": estimate.method,
        "counter_not_used": estimate.reason,
        "energy_wh": estimate.energy_j / JOULES_PER_WH,
        "uncertainty_wh": estimate.uncertainty_j / JOULES_PER_WH,
        "integral_wh": estimate.integral_j / JOULES_PER_WH,
        "integral_uncertainty_wh": estimate.integral_uncertainty_j / JOULES_PER_WH,
        "counter_wh": _none_if_nan(estimate.counter_j / JOULES_PER_WH),
        "integral_vs_counter": _none_if_nan(estimate.difference),
        "idle_power_w": _none_if_nan(reading.idle_power_w),
        "largest_gap_s": reading.largest_gap_s,
        "samples": estimate.samples,
        "missing": estimate.missing,
    }


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def _sum_or_none(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if len(known) == len(values) else None


if __name__ == "__main__":
    sys.exit(main())
