"""Energy of runs from the file of a meter in the supply line: timestamps and watts, of one node or several."""

from __future__ import annotations

import csv
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from jpwr.channel import NO_POWER_W, ChannelInfo, Scope, bounds_w
from jpwr.energy.power import usual_step_s
from jpwr.errors import JpwrError
from jpwr.trace.trace import Trace
from record.checks.energy import scope_conflict
from record.derivation import ENERGIES as KINDS
from record.derivation import derived_energy
from record.model import Energy, Numbers, Record, Window, changed
from results.files.systems import system_of
from results.files.workloads import short_batch_text
from results.find.records import RecordError
from results.join.channels import EnergyError
from results.join.energy import energy_of
from results.join.nodes import sums_of

TIME, POWER, NODE = "timestamp", "watts", "node"
MARGIN_S = 60.0  # before and after a window, in which readings count, too
CLOCK_S = 1.0  # largest difference of the meter's clock from the node's
ONLY_NODE = ""
LATEST_S = 1e11  # seconds since 1970, in the year 5138: larger numbers have another unit
UNITS = {"milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
METER = "meter"  # name of the channel


class Meter(NamedTuple):
    """Readings by node in the order of time: seconds since 1970 and watts."""

    path: Path
    times_s: dict[str, list[float]]
    power_w: dict[str, list[float]]

    def node_of(self, hostname: str) -> str | None:
        """Return the name under which a node's readings are stored, None if there are none."""
        names = (hostname, hostname.partition(".")[0], ONLY_NODE)
        return next((name for name in names if name in self.times_s), None)


def read_meter(path: Path) -> Meter:
    """Read a CSV file with the columns `timestamp` (seconds since 1970, or ISO 8601 with its zone) and `watts`.

    Readings of several nodes need the column `node`. Raises RecordError for any other file.
    """
    readings: dict[str, list[tuple[float, float]]] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for node, time_s, power_w in _rows(file, path):
                readings.setdefault(node, []).append((time_s, power_w))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RecordError(f"{path} cannot be read as a meter's readings: {error}") from error
    if not readings:
        raise RecordError(f"{path} has no reading below its header")
    for node, values in readings.items():
        values.sort()
        twice_s = next((before[0] for before, after in pairwise(values) if before[0] == after[0]), None)
        if twice_s is not None:
            words = f" of node {node}" if node else ""
            raise RecordError(
                f"{path} has two readings{words} of {_moment(twice_s)}: "
                "add up the supplies of a node, one reading for each time"
            )
    return Meter(
        path,
        {node: [time_s for time_s, _ in values] for node, values in readings.items()},
        {node: [power_w for _, power_w in values] for node, values in readings.items()},
    )


def _rows(file: Any, path: Path) -> Iterator[tuple[str, float, float]]:
    header = file.readline()
    delimiter = ";" if ";" in header else ","
    titles = [title.strip().lower() for title in next(csv.reader([header], delimiter=delimiter), [])]
    if TIME not in titles or POWER not in titles:
        raise RecordError(f"{path}: its first line is {header.strip()!r}, but it needs the columns {TIME} and {POWER}")
    if twice := next((title for title in (TIME, POWER, NODE) if titles.count(title) > 1), None):
        raise RecordError(f"{path}: its first line has the column {twice} twice")
    for number, fields in enumerate(csv.reader(file, delimiter=delimiter), 2):
        row = dict(zip(titles, (field.strip() for field in fields), strict=False))
        if not any(row.values()):
            continue
        if len(fields) > len(titles):
            raise RecordError(
                f"{path}, line {number}: {delimiter.join(fields)!r} has {len(fields)} fields below {len(titles)} "
                "titles: write decimals with a point"
            )
        try:
            time_s, power_w = _seconds(row[TIME]), float(row[POWER])
        except (KeyError, ValueError) as error:
            raise RecordError(f"{path}, line {number}: {delimiter.join(fields)!r} is not a reading: {error}") from error
        if not (math.isfinite(time_s) and math.isfinite(power_w) and power_w >= 0):
            raise RecordError(f"{path}, line {number}: {power_w:g} W at {time_s:g} s is not a reading")
        yield row.get(NODE, ONLY_NODE), time_s, power_w


def _seconds(text: str) -> float:
    try:
        time_s = float(text)
    except ValueError:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        if moment.tzinfo is None:
            raise ValueError("its time has no zone: add one, such as +01:00 or Z") from None
        return moment.timestamp()
    if abs(time_s) >= LATEST_S:
        raise ValueError(f"its time is in {_unit(abs(time_s))}: give seconds since 1970, or ISO 8601 with its zone")
    return time_s


def _unit(time_s: float) -> str:
    """Return the unit of a time that is too large for seconds."""
    return next((unit for unit, each in UNITS.items() if time_s / each < LATEST_S), "no unit")


def with_meter(records: Sequence[Record], meter: Meter) -> tuple[list[Record], list[str]]:
    """Return the records with the meter's energy, of scope `supply`, for each run that it covers.

    The energies by the run's own sensors stay in `sampled_by_scope`, and the devices' limits and clocks in
    `sensor_channels`. Also returns a sentence on each run that the meter does not cover. Raises RecordError if it
    covers none, and for a run whose energy is from another meter's file.
    """
    found, notes = list(records), []
    good = [(place, record) for place, record in enumerate(records) if record.is_good and record.windows]
    for place, record in good:
        try:
            traces = _traces(record, meter)
            energies = {
                energy: _with_clock(record, traces, kind)
                for energy, kind in KINDS.items()
                if kind == "measured" or record.energy_of(energy)
            }
            for energy, values in energies.items():
                own = record.energy_of(energy)
                if own and (other := _other_meter(own)):
                    raise RecordError(
                        f"{meter.path} and {other} both measure {_name(record)}: give one file of each node's meter"
                    )
                sampled = (vars(own.sampled_by_scope) if own else {}) | vars(values.sampled_by_scope)
                sensors = own.channels if own else None
                metered = changed(values, sampled_by_scope=Numbers.of(sampled), sensor_channels=sensors)
                energies[energy] = derived_energy(record, metered, KINDS[energy])
                if conflict := scope_conflict(energies[energy]):
                    raise EnergyError(f"its energy is {conflict}: check that its readings are in watts")
            found[place] = changed(record, **energies)
        except (EnergyError, JpwrError) as error:
            notes.append(f"{meter.path} does not measure {_name(record)}: {error}")
    if good and len(notes) == len(good):
        every = [time_s for times_s in meter.times_s.values() for time_s in (times_s[0], times_s[-1])]
        span = f"{_moment(min(every))} to {_moment(max(every))}"
        raise RecordError(f"{notes[0]}; nor any other run: its readings are from {span}")
    return found, notes


def _other_meter(energy: Energy) -> str | None:
    """Return the name of the meter's file that an energy is from; None for the run's own sensors."""
    return next((channel.source for channel in energy.channels if channel.name == METER), None)


def _moment(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def _name(record: Record) -> str:
    batch = short_batch_text(record.benchmark, record.layout.global_batch_size or 0)
    return f"{record.system}, {record.model}, {batch}"


def _traces(record: Record, meter: Meter) -> list[Trace]:
    """Return the meter's readings of each node as a trace on that node's clock; raises EnergyError without any."""
    hosts = {window.hostname for window in record.windows}
    traces = []
    for hostname in sorted(hosts):
        node = meter.node_of(hostname)
        if node is None:
            raise EnergyError(f"it has no readings of node {hostname}")
        if node == ONLY_NODE and len(hosts) > 1:
            raise EnergyError(f"the run had {len(hosts)} nodes, but the column '{NODE}' is missing")
        mine = [window for window in record.windows if window.hostname == hostname]
        if any(window.start_epoch_s is None for window in mine):
            raise EnergyError("the record has no start of its windows by the wall clock")
        offset_s, *later_s = (
            epoch_s - edge_s
            for window in mine
            for epoch_s, edge_s in ((window.start_epoch_s, window.start_s), (window.end_epoch_s, window.end_s))
            if epoch_s is not None
        )
        moved_s = max((abs(one - offset_s) for one in later_s), default=0.0)
        if moved_s > CLOCK_S:
            raise EnergyError(f"the wall clock of node {hostname} was set by {moved_s:.1f} s while it ran")
        run_s = _run_of(record, mine)
        edges_s = [edge_s for window in mine for edge_s in (window.start_s, window.end_s)] + list(run_s)
        first, last = min(edges_s) + offset_s - MARGIN_S, max(edges_s) + offset_s + MARGIN_S
        times_s = meter.times_s[node]
        part = slice(bisect_left(times_s, first), bisect_right(times_s, last))
        if not times_s[part]:
            raise EnergyError(f"it has no reading from {_moment(first + MARGIN_S)} to {_moment(last - MARGIN_S)}")
        least_w, most_w = bounds_w(ChannelInfo(METER, Scope.SUPPLY, ""))
        power_w = [
            one if least_w <= one <= most_w and one not in NO_POWER_W else math.nan for one in meter.power_w[node][part]
        ]
        lacks = "reported 0 W, or a mark for a missing power, all the time" if all(map(math.isnan, power_w)) else ""
        info = ChannelInfo(METER, Scope.SUPPLY, f"a meter in the supply line: {meter.path.name}", lacks=lacks)
        info = _with_facts(info, record, usual_step_s(times_s[part]))
        trace = Trace([info], {"hostname": hostname, "boot_id": mine[0].boot_id})
        for time_s, one_w in zip(times_s[part], power_w, strict=True):
            trace.append(time_s - offset_s, [one_w], [None])
        for word, time_s in zip(("started", "ended"), run_s, strict=False):
            trace.event(f"command_{word}", time_s)
        traces.append(trace)
    return traces


def _with_facts(info: ChannelInfo, record: Record, step_s: float) -> ChannelInfo:
    """Add what the system's block states about its meter; by default, readings are means over their interval."""
    block = system_of(record.system)
    return info._replace(
        averaging_s=(block and block.meter_averaging_s) or step_s,
        held_s=(block and block.meter_refresh_s) or step_s,
        resolution_w=(block and block.meter_resolution_w) or 0.0,
    )


def _run_of(record: Record, windows: Sequence[Window]) -> Sequence[float]:
    """Return start and end of the command on a node's clock, as its own sensors' trace has them; empty if unknown."""
    known = [record.energy.number(name) if record.energy else None for name in ("before_s", "run_s")]
    if known[0] is None or known[1] is None:
        return ()
    start_s = min(window.start_s for window in windows) - known[0]
    return start_s, start_s + known[1]


def _with_clock(record: Record, traces: Sequence[Trace], kind: str) -> Energy:
    """Return the energy over the windows, with an uncertainty that includes an error of the meter's clock."""
    windows = [
        changed(window, clock_error_s=CLOCK_S + (window.number("clock_error_s") or 0.0)) for window in record.windows
    ]
    timed = changed(record, windows=windows)
    energy = energy_of(timed, sums_of(timed, traces, kind), kind)
    notes = [*energy.notes, f"the meter's clock is assumed to be within {CLOCK_S:g} s of the nodes'"]
    if not ((block := system_of(record.system)) and block.meter_averaging_s):
        averaging_s = max(info.averaging_s for trace in traces for info in trace.channels)
        assumed = f"of {averaging_s:.3g} s: state the meter's as meter_averaging_s in the system's block"
        notes.append(f"the meter's readings are assumed to be means over their interval {assumed}")
    return changed(energy, notes=notes)
