"""Records that cannot both count: of one run, or of two runs on one device at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from jpwr.process.device_ids import same_ids
from results.record.model import Json, Record, as_json
from results.record.parts import windows_of

FEWEST_TIMES = 3  # different ones, by which a run is recognized
LATENCIES = ("ttft_", "tpot_", "e2e_")  # beginnings of the names of a server's times, whose requests are its steps


def simultaneous(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Return the files of each pair of runs whose windows overlap on one device, identified by its id."""
    windows: dict[tuple[str, str], list[tuple[float, float, str]]] = {}
    for record in records:
        ids: dict[str, set[str]] = {}
        for device in record.devices:
            ids.setdefault(device.hostname, set()).update(same_ids(device.device_id or ""))
        for one in record.windows:
            for device_id in ids.get(one.hostname, ()) if one.boot_id else ():
                edges = (one.start_s, one.end_s, record.file.path)
                windows.setdefault((one.boot_id, device_id), []).append(edges)
    pairs = [pair for of_device in windows.values() for pair in pairwise(sorted(of_device))]
    return list(
        dict.fromkeys(
            (before[2], after[2]) for before, after in pairs if after[0] < before[1] and before[2] != after[2]
        )
    )


def copies(records: Sequence[Record]) -> Iterator[tuple[Record, Record]]:
    """Pair each record with an earlier one of the same run.

    A run has one name, and its windows begin at one time. Step times do not repeat in another run: two records are of
    one run if more than half of the steps of the shorter are in both, to the last digit. Times that occur twice in one
    run do not count: its clock is too coarse to identify it.
    """
    named: dict[Any, Record] = {}
    timed: dict[float, int] = {}
    for number, record in enumerate(records):
        names, times_s = names_of_run(record), record.step_times_s
        once = [time_s for time_s, times in Counter(times_s).items() if times == 1 and time_s is not None]
        twin = next((named[name] for name in names if name in named), None)
        for other, shared in Counter(timed[one] for one in once if one in timed).most_common(1):
            if shared > max(FEWEST_TIMES - 1, min(len(times_s), len(records[other].step_times_s)) / 2):
                twin = twin or records[other]
        if twin is not None:
            yield record, twin
        named |= {name: record for name in names if name not in named}
        timed |= {one: number for one in once if one not in timed}


def names_of_run(record: Record) -> list[Any]:
    """Return what identifies a run: its name, when its windows begin, and the times of its steps or requests."""
    names: list[Any] = [record.run_id] if record.run_id else []
    for kind in ("measured", "effective"):
        of_nodes = windows_of(record, kind).values()
        if began := {(one.boot_id or one.hostname, one.start_s) for windows in of_nodes for one in windows}:
            names.append((record.benchmark, kind, frozenset(began)))
    of_requests = [value for name, value in sorted(vars(record.metrics).items()) if name.startswith(LATENCIES)]
    times_s = tuple(record.step_times_s or of_requests)
    return [*names, times_s] if len(set(times_s)) >= FEWEST_TIMES else names


def content_of(record: Record) -> Json:
    """Return a record without its name and its file."""
    return {key: value for key, value in as_json(record).items() if key != "run_id"}
