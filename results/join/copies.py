"""Copies of a point that ran at once, as one record: the slowest times their number, over the time common to all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jpwr.process.device_ids import same_ids
from record.asked import OF_ALL_COPIES
from record.derivation import derive
from record.model import Copy, Device, Fill, Record, Window
from record.part import changed
from results.find.duplicates import copies as twins
from results.find.records import RecordError
from results.join.channels import EnergyError
from results.join.nodes import TraceSums

# Windows end within 5 % of their length and a step; the rest is room for nodes whose wall clocks differ.
MIN_COMMON = 0.8  # of the longest window
FAILED = "copies/failed"  # number and exit code of the copy that failed first


def copy_folder(folder: Path, number: int) -> Path:
    """Return the folder of a copy of a run, counted from 1; for 0 that of the run."""
    return folder / f"copy_{number}" if number else folder


def run_of(folder: Path) -> Path:
    """Return the folder of the run of a copy; of another folder, the folder itself."""
    return folder.parent if folder.name.startswith("copy_") else folder


def copy_folders(folder: Path, planned: Record) -> list[Path]:
    """Return the folders of all copies that a run's result states; empty for an ordinary run."""
    copies = planned.fill.copies if planned.fill else 0
    return [copy_folder(folder, number + 1) for number in range(copies)]


def failed_copy(folder: Path) -> tuple[int, int]:
    """Return number and exit code of the copy of a run that failed first; zeros without one, or if it is not known."""
    try:
        number, exit_code = map(int, (folder / FAILED).read_text().split())
    except (OSError, ValueError):
        return 0, 0
    return number, exit_code


def of_copy(planned: Record, copy: Record, error: str) -> Record:
    """Return a copy's record as that of a run whose copies give no result, with the reason in `error`."""
    of_all = {key: vars(planned)[key] for key in ("layout", "fill") if key in vars(planned)}
    return changed(copy, error=error, **of_all)


def together(folder: Path, copies: Sequence[Record], planned: Record) -> Record:
    """Return the record of all copies, without energy; if they give none, a failed one with the reason in `error`.

    Raises RecordError for copies of different options.
    """
    for number, copy in enumerate(copies, 1):
        if not copy.is_good:
            return of_copy(planned, copy, f"copy {number}: {copy.error}")
    if any(_work_of(copy) != _work_of(copies[0]) for copy in copies):
        raise RecordError("the copies were started with different options: run the point again")
    try:
        # These are all copies of the run, each with a record of its own.
        names = {copy_folder(folder, number + 1).name for number in range(len(copies))}
        if others := sorted(path.name for path in folder.glob("copy_*") if path.is_dir() and path.name not in names):
            planned_words = f"{len(copies)} copies were planned, and the run has {', '.join(others)}, too"
            raise EnergyError(f"{planned_words}: count them all")
        for copy, twin in twins(copies):
            number, own = copies.index(copy) + 1, copies.index(twin) + 1
            raise EnergyError(f"copy {number} has the record of copy {own}: it was counted twice")
        run = _sum_of(copies)
        for name in ("num_nodes", "num_devices"):
            wanted, has = planned.layout.number(name), run.layout.number(name)
            if wanted not in (None, has):
                raise EnergyError(f"the copies ran with {name} {has}, but {wanted} was planned: run the point again")
    except EnergyError as error:
        return of_copy(planned, changed(copies[0], status="failed"), str(error))
    return run


def _work_of(copy: Record) -> Any:
    options = {name: group for name, group in copy.config.items() if name != "run"}
    return copy.benchmark, copy.model, vars(copy.layout), options


def _sum_of(copies: Sequence[Record]) -> Record:
    """Return the record of all copies.

    Its rate is that of the slowest copy times their number, and its window the time common to all. Its work and steps
    follow from both. All else, such as the times of steps, is that of the slowest copy. Raises EnergyError if their
    windows have less than MIN_COMMON in common.
    """
    unit, number = copies[0].work_unit, len(copies)
    rates = [copy.metrics.number(f"{unit}_per_s") or 0.0 for copy in copies]
    slowest = copies[rates.index(min(rates))]
    windows, common_s = _common(copies)
    layout = {key: number * value for key, value in vars(slowest.layout).items() if key in OF_ALL_COPIES}
    read = {key: number * value for key, value in vars(slowest.metrics).items() if key == f"epcc_{unit}"}
    devices = [device for copy in copies for device in copy.devices]
    nodes = {node.hostname: node for copy in copies for node in copy.provenance.nodes}
    per_copy = [
        Copy(copy=index, rate=rate, windows=copy.windows)
        for index, (copy, rate) in enumerate(zip(copies, rates, strict=True), 1)
    ]
    run = changed(
        slowest,
        layout=changed(slowest.layout, num_nodes=len(windows), **layout),
        metrics=changed(slowest.metrics, **read),
        windows=windows,
        devices=[changed(device, rank=rank) for rank, device in enumerate(devices)],
        provenance=changed(slowest.provenance, nodes=list(nodes.values())),
        variant=[*slowest.variant, f"filled: slowest copy x {number}"],
        fill=Fill(
            copies=number, devices_per_copy=slowest.layout.num_devices or 0, common_s=common_s, per_copy=per_copy
        ),
    )
    return derive(run)


def refuse_idle(devices: Sequence[Device], traces: Sequence[TraceSums]) -> None:
    """Raise EnergyError if the traces have a device of the job that no copy used."""
    ids = {one for device in devices for one in same_ids(device.device_id or "")}
    if not ids or any(one.startswith("MIG-") for one in ids):
        return
    for trace in traces:
        own = (info for info in trace.channels if info.scope.value == "device" and info.mine)
        idle = [info.name for info in own if (its := same_ids(info.device_id)) and ids.isdisjoint(its)]
        if idle:
            host = trace.meta.get("hostname")
            raise EnergyError(f"no copy used {', '.join(idle)} of node {host}: run copies on all of its devices")


def _common(copies: Sequence[Record]) -> tuple[list[Window], float]:
    """Return the window common to all copies on each node, and its length in seconds.

    The windows of one node are compared on its monotonic clock, those of several by their wall clocks.
    """
    windows = [window for copy in copies for window in copy.windows if window.kind == "measured"]
    first: dict[tuple[str, str], Window] = {}
    for window in windows:
        first.setdefault((window.hostname, window.boot_id), window)
    wall_s = {node: (window.start_epoch_s or 0.0) - window.start_s for node, window in first.items()}
    zero_s = next(iter(wall_s.values()), 0.0)
    ahead_s = {node: offset_s - zero_s for node, offset_s in wall_s.items()}  # the first node's clock is ahead
    begin_s = max(one.start_s + ahead_s[one.hostname, one.boot_id] for one in windows)
    end_s = min(one.end_s + ahead_s[one.hostname, one.boot_id] for one in windows)
    longest_s = max(window.duration_s for window in windows)
    if end_s - begin_s < MIN_COMMON * longest_s:
        raise EnergyError(
            f"the windows of the {len(copies)} copies have {max(0.0, end_s - begin_s):.1f} s in common, at least "
            f"{MIN_COMMON:.0%} of the longest one's {longest_s:.1f} s wanted: measure longer, and check that the "
            "clocks of the nodes agree"
        )
    common = []
    for node, window in first.items():
        edges_s = {"start": begin_s - ahead_s[node], "end": end_s - ahead_s[node]}
        times_s = {f"{name}_s": edge_s for name, edge_s in edges_s.items()}
        if window.start_epoch_s:
            times_s |= {f"{name}_epoch_s": edge_s + wall_s[node] for name, edge_s in edges_s.items()}
        common.append(changed(window, **times_s))
    return common, end_s - begin_s
