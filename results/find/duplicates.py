"""Records that cannot both count: of one run, or of two runs on one device at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from jpwr.process.device_ids import same_ids
from record.model import Record
from record.values import is_accelerated

PROCESSORS = "processors"
SHARED = "no"  # of a job that states that others use its node: quotas may keep them apart
FEWEST_TIMES = 3  # different ones, by which a run is recognized
MOST_CPUS = 1 << 16  # of a node; a longer list is damaged
LATENCIES = ("ttft_", "tpot_", "e2e_")  # beginnings of the names of a server's times, whose requests are its steps


def simultaneous(records: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Return each pair of runs whose windows overlap on one device: of one id, or the same processors."""
    windows: dict[tuple[str, str], list[tuple[float, float, Record]]] = {}
    for record in records:
        for window in record.windows:
            for device_id in _devices_on(record, window.hostname) if window.boot_id else ():
                of_device = windows.setdefault((window.boot_id, device_id), [])
                of_device.append((window.start_s, window.end_s, record))
    pairs: dict[tuple[Record, Record], None] = {}
    for (_, device_id), of_device in windows.items():
        running: list[tuple[float, Record]] = []
        for start_s, end_s, record in sorted(of_device, key=lambda window: window[:2]):
            running = [(other_end_s, other) for other_end_s, other in running if other_end_s > start_s]
            for _, other in running:
                if other is not record and (device_id != PROCESSORS or _cpus_of(other) & _cpus_of(record)):
                    pairs[other, record] = None
            running.append((end_s, record))
    return list(pairs)


def _devices_on(record: Record, hostname: str) -> set[str]:
    if is_accelerated(record) is False and record.provenance.exclusive != SHARED:
        return {PROCESSORS}
    devices = (device for device in record.devices if device.hostname == hostname)
    return {device_id for device in devices for device_id in same_ids(device.device_id or "")}


def _cpus_of(record: Record) -> set[int]:
    return {cpu for device in record.devices for cpu in cpus_in(device.cpus)}


def copies(records: Sequence[Record]) -> Iterator[tuple[Record, Record]]:
    """Pair each record with an earlier one of the same run.

    A run has one name, and its windows begin at one time. Step times do not repeat in another run: two records are of
    one run if more than half of the steps of the shorter are in both, to the last digit.
    """
    named: dict[Any, Record] = {}
    timed = Repeated(lambda record: record.step_times_s)
    for record in records:
        names = _names_of_run(record)
        twin = next((named[name] for name in names if name in named), None) or timed.twin(record)
        if twin is not None:
            yield record, twin
        named |= {name: record for name in names if name not in named}


class Repeated:
    """Values of the steps of runs, by which a run is found again."""

    def __init__(self, values: Callable[[Record], Sequence[float | None]]) -> None:
        self._values = values
        self._known: dict[float, Record] = {}

    def twin(self, record: Record) -> Record | None:
        """Return an earlier run with more than half of a run's values; None without one.

        Values that occur twice in one run do not count: they are too coarse to identify it.
        """
        values = self._values(record)
        once = [value for value, times in Counter(values).items() if times == 1 and value is not None]
        known = Counter(self._known[value] for value in once if value in self._known).most_common(1)
        self._known |= {value: record for value in once if value not in self._known}
        for other, shared in known:
            if shared > max(FEWEST_TIMES - 1, min(len(values), len(self._values(other))) / 2):
                return other
        return None


def _names_of_run(record: Record) -> list[Any]:
    """Return what identifies a run: its name, when its windows begin, and the latencies of a server."""
    names: list[Any] = [record.run_id] if record.run_id else []
    for kind in ("measured", "effective"):
        windows = (window for window in record.windows if window.kind == kind)
        if began := {(window.boot_id or window.hostname, window.start_s) for window in windows}:
            names.append((record.benchmark, kind, frozenset(began)))
    latencies = [value for name, value in sorted(vars(record.metrics).items()) if name.startswith(LATENCIES)]
    return [*names, tuple(latencies)] if len(set(latencies)) >= FEWEST_TIMES else names


@lru_cache(maxsize=1000)  # records repeat a few lists
def cpus_in(text: str | None) -> set[int]:
    """Return the CPUs of a list such as 0-3,8; none of what is no such list."""
    ends = [part.partition("-")[::2] for part in (text or "").split(",")]
    try:
        spans = [range(int(first), int(last or first) + 1) for first, last in ends]
    except ValueError:
        return set()
    return {cpu for span in spans for cpu in span[:MOST_CPUS]}
