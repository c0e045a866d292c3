"""Records that cannot both count: of one run, or of two runs on one device at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jpwr.process.device_ids import same_ids
from record.model import Json, Record, as_json
from record.parts import windows_of
from record.values import cpus_in, is_accelerated

PROCESSORS = "processors"
SHARED = "no"  # of a job that states that others use its node: quotas may keep them apart
FEWEST_TIMES = 3  # different ones, by which a run is recognized
LATENCIES = ("ttft_", "tpot_", "e2e_")  # beginnings of the names of a server's times, whose requests are its steps


def simultaneous(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Return the files of each pair of runs whose windows overlap on one device: of one id, or the same processors."""
    windows: dict[tuple[str, str], list[tuple[float, float, str]]] = {}
    cpus: dict[str, set[int]] = {}
    for record in records:
        ids: dict[str, set[str]] = {}
        for device in record.devices:
            ids.setdefault(device.hostname, set()).update(same_ids(device.device_id or ""))
        if is_accelerated(record) is False and record.provenance.exclusive != SHARED:
            cpus[record.file.path] = {one for device in record.devices for one in cpus_in(device.cpus)}
            ids = {device.hostname: {PROCESSORS} for device in record.devices}
        for one in record.windows:
            for device_id in ids.get(one.hostname, ()) if one.boot_id else ():
                edges = (one.start_s, one.end_s, record.file.path)
                windows.setdefault((one.boot_id, device_id), []).append(edges)
    pairs: dict[tuple[str, str], None] = {}
    for (_, device_id), of_device in windows.items():
        running: list[tuple[float, str]] = []
        for start_s, end_s, path in sorted(of_device):
            running = [one for one in running if one[0] > start_s]
            others = (other for _, other in running if other != path)
            pairs |= {(one, path): None for one in others if device_id != PROCESSORS or cpus[one] & cpus[path]}
            running.append((end_s, path))
    return list(pairs)


def copies(records: Sequence[Record]) -> Iterator[tuple[Record, Record]]:
    """Pair each record with an earlier one of the same run.

    A run has one name, and its windows begin at one time. Step times do not repeat in another run, nor losses with
    another seed: two records are of one run if more than half of the steps of the shorter are in both, to the last
    digit. Values that occur twice in one run do not count: they are too coarse to identify it.
    """
    named: dict[Any, Record] = {}
    timed, lost = Repeated(lambda record: record.step_times_s), Repeated(lambda record: record.losses)
    for record in records:
        names = names_of_run(record)
        twin = next((named[name] for name in names if name in named), None) or timed.twin(record)
        if twin is None and (other := lost.twin(record)) and seed_of(other) != seed_of(record):
            twin = other
        if twin is not None:
            yield record, twin
        named |= {name: record for name in names if name not in named}


class Repeated:
    """Values of the steps of runs, by which a run is found again."""

    def __init__(self, values: Callable[[Record], Sequence[float | None]]) -> None:
        self._values = values
        self._known: dict[float, Record] = {}

    def twin(self, record: Record) -> Record | None:
        """Return an earlier run with more than half of a run's values; None without one."""
        values = self._values(record)
        once = [value for value, times in Counter(values).items() if times == 1 and value is not None]
        found = Counter(self._known[one] for one in once if one in self._known).most_common(1)
        self._known |= {one: record for one in once if one not in self._known}
        for other, shared in found:
            if shared > max(FEWEST_TIMES - 1, min(len(values), len(self._values(other))) / 2):
                return other
        return None


def seed_of(record: Record) -> Any:
    """Return the seed of a training, with that of its data: with equal ones a machine may learn the same again."""
    return record.option("training.seed"), record.option("training.data_seed")


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
