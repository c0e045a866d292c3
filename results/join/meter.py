"""Energy of runs from the file of a meter in the supply line: timestamps and watts, of one node or several."""

from __future__ import annotations

import csv
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from jpwr.channel import NO_POWER_W, ChannelInfo, Scope, bounds_w
from jpwr.energy.power import usual_step_s
from jpwr.errors import JpwrError
from jpwr.trace.trace import Trace
from record.checks.energy import scope_conflict
from record.derivation import ENERGIES, derived_energy
from record.model import Energy, Numbers, Record, Window
from record.part import changed
from record.values import grouped
from results.files.systems import system_of
from results.files.workloads import facts_about
from results.find.records import RecordError
from results.join.channels import EnergyError
from results.join.energy import energy_of
from results.join.nodes import sums_of

TIME, POWER, NODE = "timestamp", "watts", "node"
MARGIN_S = 60.0  # before and after a window, in which readings count, too
CLOCK_S = 1.0  # largest difference of the meter's clock from the node's
ONLY_NODE = ""
LATEST_S = 1e11  # seconds since 1970, in the year 5138: larger numbers have another unit
METER = "meter"  # name of the channel


class Meter(NamedTuple):
    """Readings by node in the order of time: seconds since 1970 and watts."""

    path: Path
    readings: dict[str, list[tuple[float, float]]]


def read_meter(path: Path) -> Meter:
    """Read a CSV file with the columns `timestamp` (seconds since 1970, or ISO 8601 with its zone) and `watts`.

    Readings of several nodes need the column `node`. Raises RecordError for any other file.
    """
    by_time: dict[str, dict[float, float]] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for node, time_s, power_w in _readings(file):
                if time_s in by_time.setdefault(node, {}):
                    words = f"two readings{f' of node {node}' if node else ''} of {_moment(time_s)}"
                    raise ValueError(f"it has {words}: add up the supplies of a node, one reading for each time")
                by_time[node][time_s] = power_w
    except (OSError, ValueError, csv.Error) as error:
        raise RecordError(f"{path} cannot be read as a meter's readings: {error}") from error
    if not by_time:
        raise RecordError(f"{path} has no reading below its header")
    return Meter(path, {node: sorted(readings.items()) for node, readings in by_time.items()})


def _readings(file: Any) -> Iterator[tuple[str, float, float]]:
    """Yield node, seconds since 1970 and watts of each line; raises ValueError for one that is no reading."""
    rows = csv.DictReader(file)
    rows.fieldnames = titles = [title.strip().lower() for title in rows.fieldnames or ()]
    if titles.count(TIME) != 1 or titles.count(POWER) != 1 or titles.count(NODE) > 1:
        raise ValueError(f"its first line is {','.join(titles)!r}, but it needs the columns {TIME} and {POWER}, once")
    for row in rows:
        try:
            time_s, power_w = _seconds(row[TIME]), float(row[POWER])
            if None in row:
                raise ValueError("it has more fields than the first line: write decimals with a point")
            if not (abs(time_s) < LATEST_S and 0 <= power_w < math.inf):
                raise ValueError("give watts, and seconds since 1970, or ISO 8601 with its zone")
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"line {rows.line_num}, {','.join(map(str, row.values()))!r}, is no reading: {error}"
            ) from error
        yield (row.get(NODE) or ONLY_NODE).strip(), time_s, power_w


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        if moment.tzinfo is None:
            raise ValueError("its time has no zone: add one, such as +01:00 or Z") from None
        return moment.timestamp()


def with_meter(records: Sequence[Record], meter: Meter) -> tuple[list[Record], list[str]]:
    """Return the records with the meter's energy, of scope `supply`, for each run that it covers.

    The energies by the run's own sensors stay in `sampled_by_scope`, and the devices' limits and clocks in
    `sensor_channels`. Also returns a sentence on each run that the meter does not cover. Raises RecordError if it
    covers none, and for a run whose energy is from another meter's file.
    """
    metered, notes = list(records), []
    good = [place for place, record in enumerate(records) if record.is_good and record.windows]
    for place in good:
        try:
            metered[place] = _metered(records[place], meter)
        except JpwrError as error:
            notes.append(f"{meter.path} does not measure {_name(records[place])}: {error}")
    if good and len(notes) == len(good):
        times_s = [time_s for readings in meter.readings.values() for time_s, _ in readings]
        span = f"{_moment(min(times_s))} to {_moment(max(times_s))}"
        raise RecordError(f"{notes[0]}; nor any other run: its readings are from {span}")
    return metered, notes


def _metered(record: Record, meter: Meter) -> Record:
    """Return a record with the meter's energies, whose uncertainty includes an error of the meter's clock."""
    nodes = sorted(grouped(record.windows, lambda window: window.hostname).items())
    traces = [_trace(record, windows, meter) for _, windows in nodes]
    clock_s = [CLOCK_S + (window.number("clock_error_s") or 0.0) for window in record.windows]
    windows = [changed(window, clock_error_s=off_s) for window, off_s in zip(record.windows, clock_s, strict=True)]
    timed = changed(record, windows=windows)
    sums = sums_of(timed, traces)
    notes = [f"the meter's clock is assumed to be within {CLOCK_S:g} s of the nodes'"]
    if not ((block := system_of(record.system)) and block.meter_averaging_s):
        averaging_s = max(info.averaging_s for trace in traces for info in trace.channels)
        assumed = f"of {averaging_s:.3g} s: state the meter's as meter_averaging_s in the system's block"
        notes.append(f"the meter's readings are assumed to be means over their interval {assumed}")
    energies: dict[str, Energy] = {}
    for key, kind in ENERGIES.items():
        own = record.energies.get(key)
        if not own and kind != "measured":
            continue
        if own and (other := next((one.source for one in own.channels if one.name == METER), None)):
            raise RecordError(
                f"{meter.path} and {other} both measure {_name(record)}: give one file of each node's meter"
            )
        energy = energy_of(timed, sums, kind)
        sampled = (vars(own.sampled_by_scope) if own else {}) | vars(energy.sampled_by_scope)
        energy = changed(
            energy,
            notes=[*energy.notes, *notes],
            sampled_by_scope=Numbers.of(sampled),
            sensor_channels=own.channels if own else None,
        )
        energies[key] = derived_energy(record, energy, kind)
        if conflict := scope_conflict(energies[key]):
            raise EnergyError(f"its energy is {conflict}: check that its readings are in watts")
    return changed(record, **energies)


def _moment(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def _name(record: Record) -> str:
    batch = facts_about(record.benchmark).batch.format(record.layout.global_batch_size or 0)
    return f"{record.system}, {record.model}, {batch.removeprefix('global ')}"


def _trace(record: Record, windows: Sequence[Window], meter: Meter) -> Trace:
    """Return the meter's readings of a node as a trace on that node's clock; raises EnergyError without any."""
    hostname, offset_s = windows[0].hostname, _offset_s(windows)
    names = (hostname, hostname.partition(".")[0], ONLY_NODE)
    node = next((name for name in names if name in meter.readings), None)
    if node is None:
        raise EnergyError(f"it has no readings of node {hostname}")
    hosts = {window.hostname for window in record.windows}
    if node == ONLY_NODE and len(hosts) > 1:
        raise EnergyError(f"the run had {len(hosts)} nodes, but the column '{NODE}' is missing")
    # Start and end of the command on the node's clock, if its own sensors' trace had them.
    before_s, run_s = (record.energy.number(name) if record.energy else None for name in ("before_s", "run_s"))
    command_s: list[float] = []
    if before_s is not None and run_s is not None:
        start_s = min(window.start_s for window in windows) - before_s
        command_s = [start_s, start_s + run_s]
    edges_s = [edge_s for window in windows for edge_s in (window.start_s, window.end_s)] + command_s
    first_s, last_s = min(edges_s) + offset_s, max(edges_s) + offset_s
    every = meter.readings[node]
    begin, end = bisect_left(every, (first_s - MARGIN_S,)), bisect_right(every, (last_s + MARGIN_S, math.inf))
    if not (readings := every[begin:end]):
        raise EnergyError(f"it has no reading from {_moment(first_s)} to {_moment(last_s)}")
    least_w, most_w = bounds_w(ChannelInfo(METER, Scope.SUPPLY, ""))
    power_w = [watts if least_w <= watts <= most_w and watts not in NO_POWER_W else math.nan for _, watts in readings]
    lacks = "reported 0 W, or a mark for a missing power, all the time" if all(map(math.isnan, power_w)) else ""
    block, step_s = system_of(record.system), usual_step_s([time_s for time_s, _ in readings])
    info = ChannelInfo(
        METER,
        Scope.SUPPLY,
        f"a meter in the supply line: {meter.path.name}",
        lacks=lacks,
        # Without the system's statements, readings are means over their interval.
        averaging_s=(block and block.meter_averaging_s) or step_s,
        held_s=(block and block.meter_refresh_s) or step_s,
        resolution_w=(block and block.meter_resolution_w) or 0.0,
    )
    trace = Trace([info], {"hostname": hostname, "boot_id": windows[0].boot_id})
    for (time_s, _), watts in zip(readings, power_w, strict=True):
        trace.append(time_s - offset_s, [watts], [None])
    for word, time_s in zip(("started", "ended"), command_s, strict=False):
        trace.event(f"command_{word}", time_s)
    return trace


def _offset_s(windows: Sequence[Window]) -> float:
    """Return the wall clock of a node less its monotonic one; raises EnergyError if it was set between the windows."""
    starts = [(window.start_epoch_s, window.start_s) for window in windows]
    ends = [(window.end_epoch_s, window.end_s) for window in windows]
    offsets_s = [wall_s - own_s for wall_s, own_s in starts + ends if wall_s is not None]
    if not offsets_s:
        raise EnergyError("the record has no start of its windows by the wall clock")
    moved_s = max(abs(offset_s - offsets_s[0]) for offset_s in offsets_s)
    if moved_s > CLOCK_S:
        raise EnergyError(f"the wall clock of node {windows[0].hostname} was set by {moved_s:.1f} s while it ran")
    return offsets_s[0]
