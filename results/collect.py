"""Join what the benchmark recorded with what the sampler saw, over the same window.

Standard library and jpwr's core only, so that it runs on any login node.
"""

from __future__ import annotations

import argparse
import math
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from ioprof.errors import IoprofError
from jpwr.channel import ChannelInfo
from jpwr.energy import ChannelEnergy, EnergyEstimate, energy_of_passes
from jpwr.errors import JpwrError, NotEnoughSamples
from jpwr.process.device_ids import same_ids
from jpwr.trace.trace import Series, Trace
from jpwr.trace.writers import read_trace
from results.join.clocks import clocks_of
from results.join.reads import reads_of
from results.record.derived import JOULES_PER_WH, longest_s, of_node, windows_of
from results.record.records import RESULT_NAME, Record, RecordError, read_record, write_record
from results.record.values import is_accelerated

RECORD_NAME = "record.json"
TRACES = "power/*/trace.csv"
JOB_ERRORS = "job.err"
SCHEDULERS = ("slurm", "kubernetes")  # keys of what they say of a job
EXIT_JPWR_FAILED = 125
TELLING = re.compile("error|signal", re.IGNORECASE)  # the last line with such a word says most of why a job failed
# Of Python's and torchrun's, lines with such a word that tell nothing.
NOT_TELLING = re.compile(r'^File "|^error_file: |To enable traceback see')
# A launcher of ranks begins to say which of them failed.
OF_LAUNCHER = re.compile(r"^spawn: error: rank|\] failed \(exitcode: ")
# What a rank has not said itself; one that aborts has.
KILLED = re.compile(r"Signal [0-9]+ \(SIG(?!ABRT)|exit code -(?!6\b)")
# Components of an energy's interval; the first is the sum of the others.
UNCERTAINTIES = ("uncertainty_wh", "random_wh", "systematic_wh")
NOT_SAMPLED = "has too few samples inside the window: sample faster or run longer"
MOST_ELSEWHERE = 1.1  # times the power of the windows; on an H200 a warm-up or later steps took up to 1.005 times
PLACES = 8  # of a window's length, at which another time as long may begin
MIN_COVERED = 0.95  # of the window, by a channel's first to last reading
# Two channels are one sensor if so many changes, and such a share of all, are equal to a trace's last digit.
TWIN_CHANGES, TWIN_SHARE, READING_STEP = 10, 0.75, 2e-6
# What a benchmark's energy is taken from: the narrowest scope that was measured.
SCOPES = ("device", "module", "cpu", "node", "supply")
OF_PROCESSORS = ("cpu", "node", "supply", "module", "device")  # the same where they trained themselves
IDENTIFIED = SCOPES[:2]  # channels of these may have the ids of the devices that they measure
# Memory is beside its processor, not inside it.
ADDED_TO = {"cpu": "dram"}


class Reading(NamedTuple):
    """A channel's energy in the windows of its node, and its idle power."""

    info: ChannelInfo
    estimate: EnergyEstimate
    idle_power_w: float


class EnergyError(Exception):
    """The traces do not give the energy of a run."""


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
    for note in result.get("energy", {}).get("notes", []):
        print(f"collect: {note}", file=sys.stderr)
    if states := result.get("energy", {}).get("states"):
        off = f"all states (experimental) are {states['closing_percent']:+.1f} % off the window's energy"
        print(f"collect: {off}", file=sys.stderr)
    if result["status"] != "ok":
        print(f"collect: {result['error']}", file=sys.stderr)
        return 1
    return 0


def collect(folder: Path) -> Record:
    """Return the record with its energy; a run without one has failed, and says why."""
    result = read_record(folder / RECORD_NAME)
    _name_nodes(result)
    before = folder / RESULT_NAME
    if before.exists():
        _add_job(result, read_record(before))
    try:
        traces = read_traces(folder)
        result["energy"] = energy_of(result, traces, "measured")
        if any(window["kind"] == "effective" for window in result["windows"]):
            result["energy_effective"] = energy_of(result, traces, "effective")
        if result.get("states"):
            _add_states(result, traces, folder)
    except (EnergyError, JpwrError) as error:
        result["error"] = "; ".join(text for text in (result["error"], f"no energy: {error}") if text)
        result["status"] = "failed" if result["status"] == "ok" else result["status"]
    try:
        if (reads := reads_of(result, folder)) is not None:
            result["io"] = reads
    except IoprofError as error:  # a run is none the worse without
        print(f"collect: it is not told what was read: {error}", file=sys.stderr)
    return result


def _name_nodes(record: Record) -> None:
    """Give nodes of one host name a name each: their kernels' boot ids differ, and ranks are counted node by node."""
    boots: dict[str, list[str]] = {}
    for window in record["windows"]:
        of_host = boots.setdefault(window["hostname"], [])
        if window["boot_id"] not in of_host:
            of_host.append(window["boot_id"])
        if number := of_host.index(window["boot_id"]):
            window["hostname"] += f"#{number + 1}"
    for hostname, of_host in boots.items():
        devices = [device for device in record["devices"] if device["hostname"] == hostname]
        for index, device in enumerate(sorted(devices, key=lambda device: device["rank"])):
            if number := index * len(of_host) // len(devices):
                device["hostname"] += f"#{number + 1}"


def _add_job(result: Record, before: Record) -> None:
    """Copy the scheduler's facts about the job to the result; only the scheduler may know the image's digest."""
    result |= {key: value for key, value in before.items() if key in SCHEDULERS}
    digest, origin = result.get("kubernetes", {}).get("image_digest"), result.get("provenance")
    if digest and origin:
        origin["container_digest"] = digest
        origin["missing"] = [name for name in origin.get("missing", []) if name != "container_digest"]


def _add_states(record: Record, traces: Sequence[Trace], folder: Path) -> None:
    """Add the energy of a step's states (experimental), where it was asked for; a run without it is as good."""
    try:
        from results.join.state_energy import OfRank, energy_of_states

        if record["energy"]["power_kind"] != "measured":
            raise EnergyError("power was estimated, and not measured")
        channels = [OfRank(*one) for one in _of_ranks(record, traces)]
        record["energy"]["states"] = energy_of_states(record, channels, folder)
    except ImportError as error:
        record["energy"]["notes"].append(f"no energy of states: {error.name} is not installed where jobs are collected")
    except (EnergyError, JpwrError) as error:
        record["energy"]["notes"].append(f"no energy of states: {error}")


def _of_ranks(record: Record, traces: Sequence[Trace]) -> Iterator[tuple[int, str, ChannelEnergy, bool]]:
    """The channels of the energy: rank, name, readings, and whether its counter was used.

    Raises EnergyError for one that measures several ranks' devices.
    """
    methods = {(one["hostname"], one["name"]): one["method"] for one in record["energy"]["channels"]}
    for hostname, windows in windows_of(record, "measured").items():
        node = _Node(record, hostname, windows, traces)
        for info, curve in node.curves():
            ids = set(same_ids(info.device_id))
            own = {device["rank"] for device in node.devices if ids & set(same_ids(device["device_id"]))}
            ranks = own or {device["rank"] for device in node.devices}
            if len(ranks) > 1:
                raise EnergyError(f"channel {info.name} measures {len(ranks)} processes, each with steps of its own")
            yield ranks.pop(), info.name, curve, methods.get((hostname, info.name)) == "counter"


def read_traces(folder: Path) -> list[Trace]:
    """Return the trace of every node that sampled."""
    return [read_trace(path) for path in sorted(folder.glob(TRACES))]


def failed_result(folder: Path, exit_code: int, reason: str) -> Record:
    """Return a result that says why there is none, from what the job left behind."""
    try:
        result = read_record(folder / RECORD_NAME)
    except RecordError:
        result = read_record(folder / RESULT_NAME)
    if result["status"] in ("ok", "unfinished"):
        result["status"] = "failed"
        result["error"] = reason or cause(exit_code, folder / JOB_ERRORS)
    return result


def cause(exit_code: int, errors: Path) -> str:
    """Return why a program failed, from its exit code and the last telling line that it wrote to a file."""
    if 128 < exit_code < 128 + 65:
        number = exit_code - 128
        name = signal.Signals(number).name if number in signal.Signals.__members__.values() else "unknown"
        cause = f"ended by signal {number} ({name})"
    else:
        cause = f"ended with exit code {exit_code}"
    lines = _lines(errors)
    if exit_code != EXIT_JPWR_FAILED:  # else jpwr's last words are a summary, and not the reason
        lines = [line for line in lines if not line.startswith(("ioprof: ", "jpwr: ", "job.sh: "))]
    reason = _reason(lines)
    return f"{cause}: {reason}" if reason else cause


def _reason(lines: Sequence[str]) -> str:
    """Return the most informative line: that of the rank that failed first, else its launcher's line about it."""
    launcher = next((index for index, line in enumerate(lines) if OF_LAUNCHER.search(line)), len(lines))
    ranks, of_launcher = lines[:launcher], list(_of_first(lines[launcher:]))
    killed = [line for line in of_launcher if KILLED.search(line)]
    telling, told_of = ([line for line in said if _is_telling(line)] for said in (ranks, of_launcher))
    exit_codes = [line for line in of_launcher if line.startswith("exitcode")]
    return next((said[-1] for said in (killed, telling, told_of, ranks, exit_codes) if said), "")


def _of_first(lines: Sequence[str]) -> Iterator[str]:
    """Return a launcher's lines about the rank that failed first: spawn's one line, or torchrun's last block."""
    begin = next((index for index, line in enumerate(lines) if line.startswith("Root Cause")), None)
    if begin is None:
        return iter(lines[:1])
    return takewhile(lambda line: not line.startswith("==="), lines[begin + 1 :])


def _is_telling(line: str) -> bool:
    return bool(TELLING.search(line)) and not NOT_TELLING.search(line)


def _lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return []


def energy_of(record: Record, traces: Sequence[Trace], kind: str) -> dict[str, Any]:
    """Return energy and power of the devices that trained, over the windows of one kind: those of a throughput.

    Energy in watt-hours, power in watts, both summed over all devices. Raises EnergyError when a node has no trace
    of its window, or a device no channel.
    """
    nodes = [_Node(record, hostname, windows, traces) for hostname, windows in windows_of(record, kind).items()]
    if not nodes:
        raise EnergyError(f"the record has no {kind} window")
    _refuse_a_sensor_of_two_nodes(nodes)
    channels = [channel for node in nodes for channel in node.channels()]
    scope = _only_scope(nodes)
    energy_wh = math.fsum(channel["energy_wh"] for channel in channels)
    _refuse_nothing(channels, energy_wh)
    duration_s = max(node.duration_s for node in nodes)
    power_kind = "estimated" if any(channel["estimated"] for channel in channels) else "measured"
    unit = record["work_unit"]
    work_per_wh = record["metrics"][f"{kind}_{unit}"] / energy_wh
    epoch = record["metrics"].get(f"{unit}_per_epoch")
    return {
        "energy_wh": energy_wh,
        "energy_wh_per_device": energy_wh / record["layout"]["num_devices"],
        "avg_power_w": energy_wh * JOULES_PER_WH / duration_s,
        # Devices that are read at the same moments under the same load err in the same direction: sums are linear.
        **{name: math.fsum(channel[name] for channel in channels) for name in UNCERTAINTIES},
        **_accuracy(channels, energy_wh),
        "idle_power_w": _sum_or_none([channel["idle_power_w"] for channel in channels]),
        f"{unit}_per_wh": work_per_wh,
        "epoch_wh": epoch / work_per_wh if epoch else None,
        "window_s": duration_s,
        "power_kind": power_kind,
        "power_scope": scope,
        "power_source": f"{'ESTIMATED' if power_kind == 'estimated' else power_kind}, {scope}",
        "samples": sum(channel["samples"] for channel in channels),
        "missing": sum(channel["missing"] for channel in channels),
        "sampling_interval_s": traces[0].meta.get("interval_s"),
        "jpwr_version": traces[0].meta.get("jpwr_version"),
        "channels": channels,
        "notes": [words for node in nodes for note in NOTES for words in note(node)],
        "sampled_by_scope": _sampled_by_scope(nodes),
        **_busier_elsewhere(nodes, channels, duration_s),
    }


class _Node:
    """One node's windows and trace, with the channels that count."""

    def __init__(
        self, record: Record, hostname: str, windows: Sequence[dict[str, Any]], traces: Sequence[Trace]
    ) -> None:
        trace = of_node(windows[0], traces, lambda one: one.meta)
        if trace is None:
            raise EnergyError(f"node {hostname} has no power trace of the boot that it trained under")
        self.hostname, self.trace = hostname, trace
        self.duration_s = longest_s({hostname: list(windows)})
        self.devices = [device for device in record["devices"] if device["hostname"] == hostname]
        self.device_ids = [device["device_id"] for device in self.devices]
        self.is_accelerated = is_accelerated(record)
        self.twins = _twins(trace)
        own = [info for info in trace.channels if info not in self.twins]
        self.chosen = _choose(own, self.device_ids, self.is_accelerated)
        self.scope = "+".join(sorted({info.scope.value for info in self.chosen}))
        self._windows, self._edges_s = windows, [(window["start_s"], window["end_s"]) for window in windows]
        self._all_windows = [window for window in record["windows"] if window["hostname"] == hostname]
        # A channel that is lost in a window has no energy, and takes no other's along.
        self.heard = {
            info: Reading(info, estimate, idle_w)
            for info, estimate, idle_w in zip(
                trace.channels, trace.known_sums(self._edges_s), trace.idle_power_w(), strict=True
            )
            if estimate is not None and info not in self.twins
        }

    def curves(self) -> list[tuple[ChannelInfo, ChannelEnergy]]:
        """Return the readings of the channels that count."""
        both = zip(self.trace.channels, self.trace.curves(), strict=True)
        return [(info, curve) for info, curve in both if info in self.chosen]

    def channels(self) -> Iterator[dict[str, Any]]:
        """Yield what the record has of each channel that counts; raises EnergyError for one without an energy."""
        for info in self.chosen:
            if info not in self.heard:
                raise EnergyError(f"channel {info.name} {info.lacks or self._why_unknown(info)}")
            clocks = clocks_of(self.trace, info.name, self._windows)
            yield _describe(self.heard[info], self.hostname) | ({"clocks": clocks} if clocks else {})

    def _why_unknown(self, info: ChannelInfo) -> str:
        try:
            energy_of_passes(dict(self.curves())[info], self._edges_s)
        except NotEnoughSamples as error:
            return str(error).removeprefix(f"{info.name} ")
        return NOT_SAMPLED

    def busy_w(self) -> tuple[float, float]:
        """Return the mean power in watts from the first window to the last, and the highest over as long a time."""
        begin_s = min(window["start_s"] for window in self._all_windows)
        end_s = max(window["end_s"] for window in self._all_windows)
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


def _note_twins(node: _Node) -> Iterator[str]:
    for info, twin in node.twins.items():
        if twin in node.chosen:
            words = f"shows the same readings as {twin.name}: one sensor, counted once"
            yield f"{info.name} of node {node.hostname} {words}"


def _note_devices_of_processors(node: _Node) -> Iterator[str]:
    if node.is_accelerated is False and node.scope == "device":
        yield f"node {node.hostname}: processors trained, and only the power of devices was measured: that is counted"


def _note_untrained_devices(node: _Node) -> Iterator[str]:
    for info, trained in node.chosen.items():
        if trained < info.num_devices and any(node.device_ids):
            words = f"measures {info.num_devices} devices, of which {trained} trained: the energy of all is counted"
            unknown = "has no id of a device that trained: its energy is counted all the same"
            yield f"channel {info.name} of node {node.hostname} {words if trained else unknown}"


def _note_other_methods(node: _Node) -> Iterator[str]:
    """Channels of the scopes that count, unless those that count were found by their ids."""
    scopes = {info.scope for info in node.chosen}
    own = [info for info in node.trace.channels if info.mine and info.scope in scopes and info not in node.twins]
    others = [info.name for info in own if info not in node.chosen]
    if others and not any(node.chosen.values()):
        yield f"{', '.join(others)} of node {node.hostname} show the same by another method: not counted"


NOTES = (_note_twins, _note_devices_of_processors, _note_untrained_devices, _note_other_methods)


def _refuse_a_sensor_of_two_nodes(nodes: Sequence[_Node]) -> None:
    counted: dict[tuple[str, str], str] = {}
    for node in nodes:
        for info in node.chosen:
            other = counted.setdefault(_sensor(node.trace, info), node.hostname)
            if other != node.hostname and not info.estimated:
                raise EnergyError(
                    f"channel {info.name} is one sensor, and is counted for {other} and for {node.hostname}"
                )


def _only_scope(nodes: Sequence[_Node]) -> str:
    if len({node.scope for node in nodes}) > 1:
        known = ", ".join(f"{node.scope} on {node.hostname}" for node in nodes)
        raise EnergyError(f"the nodes were measured at different places, whose sum means nothing: {known}")
    return nodes[0].scope


def _refuse_nothing(channels: Sequence[dict[str, Any]], energy_wh: float) -> None:
    every = [("its channels", energy_wh), *((f"channel {one['name']}", one["energy_wh"]) for one in channels)]
    for name, measured_wh in every:
        if not measured_wh > 0:
            raise EnergyError(f"{name} measured {measured_wh:g} Wh, and no run uses none")


def _sampled_by_scope(nodes: Sequence[_Node]) -> dict[str, float | None]:
    """Energy of all that was sampled, used or not: scopes contain each other and are not to be added up.

    A scope that some nodes lack has no sum that others could be compared with.
    """
    found = {}
    for scope in sorted({info.scope.value for node in nodes for info in node.heard}):
        of_nodes = [[one.estimate for info, one in node.heard.items() if info.scope.value == scope] for node in nodes]
        joules = math.fsum(estimate.energy_j for of_node in of_nodes for estimate in of_node)
        found[f"{scope}_wh"] = _none_if_nan(joules / JOULES_PER_WH) if all(of_nodes) else None
    return found


def _busier_elsewhere(
    nodes: Sequence[_Node], channels: Sequence[dict[str, Any]], duration_s: float
) -> dict[str, float]:
    """Return both powers where the run took clearly more power outside of its windows."""
    windows_w, elsewhere_w = (math.fsum(of_nodes) for of_nodes in zip(*(node.busy_w() for node in nodes), strict=True))
    unsure_w = math.fsum(channel["uncertainty_wh"] for channel in channels) * JOULES_PER_WH / duration_s
    is_busier = elsewhere_w > MOST_ELSEWHERE * windows_w + unsure_w
    return {"windows_w": windows_w, "elsewhere_w": elsewhere_w} if is_busier else {}


def _twins(trace: Trace) -> dict[ChannelInfo, ChannelInfo]:
    """Return the channels that show an earlier channel's sensor once more, each with that channel.

    Some kernels have a RAPL zone for each die, and show its package's counter in all of them.
    """
    found: dict[ChannelInfo, ChannelInfo] = {}
    for earlier, later in combinations(trace.series(), 2):
        if earlier.info not in found and _same_readings(earlier, later):
            found.setdefault(later.info, earlier.info)
    return found


def _same_readings(one: Series, other: Series) -> bool:
    """Check by value: two sensors of a scope are one if they change alike, but for readings with a refresh between."""
    infos = one.info, other.info
    if (
        one.info.scope is not other.info.scope
        or all(info.device_id for info in infos)
        or _method(one.info) != _method(other.info)
        or one.info.estimated
    ):
        return False
    columns = [found.power_w if found.energy_j is None else found.energy_j for found in (one, other)]
    steps = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(zip(*columns, strict=False))]
    moved = [abs(first - second) <= READING_STEP for first, second in steps if abs(first) + abs(second) > READING_STEP]
    return len(moved) >= TWIN_CHANGES and sum(moved) >= TWIN_SHARE * len(moved)


def _choose(
    found: Sequence[ChannelInfo], device_ids: Sequence[str], accelerated: bool | None
) -> dict[ChannelInfo, int]:
    """The channels of one node that count, and how many of the devices in each are known to have trained.

    They are of one scope, and of devices with ids only those that trained, whatever the job's environment shows.
    Without ids they are of one method, as another one shows the same once more. A processor's power is none of an
    accelerator's work, and an accelerator's is that of a processor's only where nothing else was measured.
    """
    scopes = list(SCOPES if accelerated is not False else OF_PROCESSORS)
    if accelerated:
        scopes.remove("cpu")
    without_id = ""
    if any(same_ids(text) for text in device_ids):
        of_scopes = [_of_devices(found, scope, device_ids) for scope in IDENTIFIED]
        best = min(of_scopes, key=lambda chosen: chosen.count(None))
        chosen = [info for info in best if info is not None]
        if len(chosen) == len(best):
            return Counter(chosen)
        without_id = f"device {device_ids[best.index(None)]} trained, but no power channel has its id"
        if any(info.scope.value in IDENTIFIED and info.device_id for info in found):
            raise EnergyError(without_id)
        scopes.remove("device")  # it is not told which of them trained
    for scope in scopes:
        chosen = _of_one_method([info for info in found if info.scope.value == scope and info.mine])
        if chosen:
            beside = _of_one_method([info for info in found if info.scope.value == ADDED_TO.get(scope)], chosen[0])
            return dict.fromkeys(chosen + beside, 0)
    seen = {info.scope.value for info in found}
    if without_id and "device" in seen:
        raise EnergyError(without_id)
    of_what = f" of an accelerator, which trained, but of {' and '.join(sorted(seen))}"
    raise EnergyError(f"the trace has no channel{of_what if seen and accelerated else ''}")


def _of_one_method(found: Sequence[ChannelInfo], beside: ChannelInfo | None = None) -> list[ChannelInfo]:
    """The channels of that one's method, else of the first that measures, else of the first."""
    methods = [_method(info) for info in sorted(found, key=lambda info: info.estimated)]
    if beside is not None and _method(beside) in methods:
        methods = [_method(beside)]
    return [info for info in found if _method(info) == methods[0]]


def _method(info: ChannelInfo) -> str:
    """Return the name of the method that reads a channel; empty if the channel's name has none."""
    method, colon, _ = info.name.partition(":")
    return method if colon else ""


def _sensor(trace: Trace, info: ChannelInfo) -> tuple[str, str]:
    """Return a key that two traces of the same sensor share.

    A host name belongs to a container, a device address to a node; hence the node's boot ID.
    """
    if info.scope.value == "supply" and info.device_id:
        return "", info.device_id
    return trace.meta.get("boot_id") or str(id(trace)), info.device_id or info.name


def _of_devices(found: Sequence[ChannelInfo], scope: str, device_ids: Sequence[str]) -> list[ChannelInfo | None]:
    """For each device the first channel of a scope that has one of its ids."""
    by_id: dict[str, ChannelInfo] = {}
    for info in reversed(found):
        if info.scope.value == scope:
            by_id.update(dict.fromkeys(same_ids(info.device_id), info))
    return [next((by_id[one] for one in same_ids(text) if one in by_id), None) for text in device_ids]


def _describe(reading: Reading, hostname: str) -> dict[str, Any]:
    info, estimate = reading.info, reading.estimate
    if estimate.samples < 1:
        raise EnergyError(f"channel {info.name} {NOT_SAMPLED}")
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
        "limit_w": info.limit_w or None,
        "estimated": info.estimated,
        "device_id": info.device_id,
        "num_devices": info.num_devices,
        "method": estimate.method,
        "counter_not_used": estimate.reason,
        "energy_wh": estimate.energy_j / JOULES_PER_WH,
        "uncertainty_wh": estimate.uncertainty_j / JOULES_PER_WH,
        "random_wh": estimate.random_j / JOULES_PER_WH,
        "systematic_wh": estimate.systematic_j / JOULES_PER_WH,
        "accuracy": info.accuracy or None,
        "accuracy_from": info.accuracy_from,
        "integral_wh": estimate.integral_j / JOULES_PER_WH,
        "integral_uncertainty_wh": estimate.integral_uncertainty_j / JOULES_PER_WH,
        "counter_wh": _none_if_nan(estimate.counter_j / JOULES_PER_WH),
        "integral_vs_counter": _none_if_nan(estimate.difference),
        "idle_power_w": _none_if_nan(reading.idle_power_w),
        "largest_gap_s": estimate.largest_gap_s,
        "samples": estimate.samples,
        "missing": estimate.missing,
    }


def _accuracy(channels: Sequence[dict[str, Any]], energy_wh: float) -> dict[str, Any]:
    """Accuracy of a sum, a share of it, and where it is from; null if that of one sensor is not stated."""
    if not all(channel["accuracy"] for channel in channels):
        return {"accuracy": None, "accuracy_from": ""}
    bound_wh = math.fsum(channel["accuracy"] * channel["energy_wh"] for channel in channels)
    sources = dict.fromkeys(channel["accuracy_from"] for channel in channels)
    return {"accuracy": bound_wh / energy_wh, "accuracy_from": " and ".join(sources)}


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def _sum_or_none(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if len(known) == len(values) else None


if __name__ == "__main__":
    sys.exit(main())
