"""Copies of a point that ran at once, as one record: the slowest times their number, over the time common to all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from jpwr.process.device_ids import same_ids
from record.derivation import derive
from record.model import COPY_VARIABLE, Channel, Copy, Device, Fill, Json, Record, Window, as_json, changed
from record.parts import JOULES_PER_WH, OF_ALL_COPIES
from results.find.duplicates import copies as twins
from results.find.records import RecordError
from results.join.channels import IDENTIFIED, EnergyError
from results.join.nodes import TraceSums

# Windows end within 5 % of their length and a step; the rest is room for nodes whose wall clocks differ.
MIN_COMMON = 0.8  # of the longest window
VISIBLE = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")  # of a copy's environment
WORK = ("benchmark", "model", "data", "sample", "precision", "layout")  # what all copies share
FAILED = "copies/failed"  # number and exit code of the copy that failed first


def copy_folder(folder: Path, number: int) -> Path:
    """Return the folder of a copy of a run, counted from 1; for 0 that of the run."""
    return folder / f"copy_{number}" if number else folder


def run_of(folder: Path) -> Path:
    """Return the folder of the run of a copy; of another folder, the folder itself."""
    return folder.parent if folder.name.startswith("copy_") else folder


def copy_folders(folder: Path, planned: Record | None) -> list[Path]:
    """Return the folders of all copies that a run's result states; empty for an ordinary run."""
    copies = planned.fill.copies if planned and planned.fill else 0
    return [copy_folder(folder, number + 1) for number in range(copies)]


def failed_copy(folder: Path) -> tuple[int, int]:
    """Return number and exit code of the copy of a run that failed first; zeros without one, or if it is not known."""
    try:
        number, exit_code = map(int, (folder / FAILED).read_text().split())
    except (OSError, ValueError):
        return 0, 0
    return number, exit_code


def check_copies(folder: Path, copies: Sequence[Record], planned: Record | None, run: Record) -> None:
    """Raise EnergyError unless these are all copies of a run, each counted once, on as many nodes as planned."""
    names = {copy_folder(folder, number + 1).name for number in range(len(copies))}
    if others := sorted(path.name for path in folder.glob("copy_*") if path.is_dir() and path.name not in names):
        raise EnergyError(
            f"{len(copies)} copies were planned, and the run has {', '.join(others)}, too: count them all"
        )
    owners: dict[tuple[Any, ...], int] = {}
    twin_of = {copies.index(one) + 1: copies.index(twin) + 1 for one, twin in twins(copies)}
    for number, copy in enumerate(copies, 1):
        environment, device = copy.provenance.environment or {}, copy.devices[0]
        own = str(twin_of.get(number, environment.get(COPY_VARIABLE, number)))
        if own != str(number):
            raise EnergyError(f"copy {number} has the record of copy {own}: it was counted twice")
        given = tuple(environment[name] for name in VISIBLE if environment.get(name))
        if given and device.device_id and (had := owners.setdefault((device.hostname, *given), number)) != number:
            raise EnergyError(f"copies {had} and {number} were given the same devices, {given[0]}: run the point again")
    for name in ("num_nodes", "num_devices") if copies and planned else ():
        wanted, has = (vars(one.layout).get(name) for one in (planned or run, run))
        if wanted not in (None, has):
            raise EnergyError(f"the copies ran with {name} {has}, but {wanted} was planned: run the point again")


def together(copies: Sequence[Record]) -> Record:
    """Return the record of all copies, without energy.

    Its rate is that of the slowest copy times their number, and its window the time common to all. Its work and steps
    follow from both. All else, such as the times of steps, is that of the slowest copy. Raises RecordError for copies
    of different options, and EnergyError if their windows have less than MIN_COMMON in common.
    """
    if any(_work_of(copy) != _work_of(copies[0]) for copy in copies):
        raise RecordError("the copies were started with different options: run the point again")
    unit, number = copies[0].work_unit, len(copies)
    rates = [copy.metrics.number(f"{unit}_per_s") or 0.0 for copy in copies]
    slowest = copies[rates.index(min(rates))]
    windows, common_s = _common(copies)
    layout, metrics = vars(slowest.layout), vars(slowest.metrics)
    of_all = {key: number * layout[key] for key in OF_ALL_COPIES if key in layout}
    epcc = {key: number * metrics[key] for key in (f"epcc_{unit}", f"epcc_{unit}_per_s") if key in metrics}
    devices = [device for copy in copies for device in copy.devices]
    nodes = {str(vars(node).get("hostname")): node for copy in copies for node in copy.provenance.nodes}
    per_copy = [
        Copy(copy=index, rate=rate, windows=copy.windows)
        for index, (copy, rate) in enumerate(zip(copies, rates, strict=True), 1)
    ]
    devices_per_copy = slowest.layout.num_devices or 0
    together = changed(
        slowest,
        layout=changed(slowest.layout, num_nodes=len(windows), **of_all),
        metrics=changed(slowest.metrics, **epcc),
        windows=windows,
        devices=[changed(device, rank=rank) for rank, device in enumerate(devices)],
        provenance=changed(slowest.provenance, nodes=list(nodes.values())),
        variant=[*slowest.variant, f"filled: slowest copy x {number}"],
        fill=Fill(copies=number, devices_per_copy=devices_per_copy, common_s=common_s, per_copy=per_copy),
    )
    return derive(together)


def _work_of(copy: Record) -> Json:
    options = {name: group for name, group in copy.config.items() if name != "run"}
    return {name: as_json(vars(copy).get(name)) for name in WORK} | {"options": options}


def of_copy(number: int, copy: Record, planned: Record | None) -> Record:
    """Return a copy's record as that of a run whose copies give no result, with the reason in `error`."""
    known = vars(planned) if planned else {}
    of_all = {key: known[key] for key in ("layout", "fill") if key in known}
    return changed(copy, error=f"copy {number}: {copy.error}", **of_all)


def with_energies(run: Record, copies: Sequence[Record], traces: Sequence[TraceSums]) -> Record:
    """Return a run with the energy of each of its copies whose devices have sensors of their own.

    Raises EnergyError if the traces have a device of the job that no copy used.
    """
    _refuse_idle(run.devices, traces)
    if run.fill is None or run.energy is None:
        return run
    devices, channels = iter(run.devices), run.energy.channels
    per_copy = [
        changed(described, energy_J=_energy_j(channels, list(islice(devices, len(copy.devices)))))
        for described, copy in zip(run.fill.per_copy, copies, strict=True)
    ]
    return changed(run, fill=changed(run.fill, per_copy=per_copy))


def _refuse_idle(devices: Sequence[Device], traces: Sequence[TraceSums]) -> None:
    ids = [one for device in devices for one in same_ids(device.device_id or "")]
    if not ids or any(one.startswith("MIG-") for one in ids):
        return
    for trace in traces:
        own = (info for info in trace.channels if info.scope.value == "device" and info.mine)
        idle = [info.name for info in own if (its := same_ids(info.device_id)) and set(its).isdisjoint(ids)]
        if idle:
            host = trace.meta.get("hostname")
            raise EnergyError(f"no copy used {', '.join(idle)} of node {host}: run copies on all of its devices")


def _energy_j(channels: Sequence[Channel], devices: Sequence[Device]) -> float | None:
    """Return the energy of devices in joules; None unless each has a sensor that measures it alone."""
    ids = {(device.hostname, one) for device in devices for one in same_ids(device.device_id or "")}
    own = [
        channel
        for channel in channels
        if channel.scope in IDENTIFIED and ids & {(channel.hostname, one) for one in same_ids(channel.device_id or "")}
    ]
    if len(own) != len(devices) or any(one.num_devices > 1 for one in own):
        return None
    return JOULES_PER_WH * math.fsum(one.energy_wh or 0.0 for one in own)


def _common(copies: Sequence[Record]) -> tuple[list[Window], float]:
    """Return the window common to all copies on each node, and its length in seconds.

    The windows of one node are compared on its monotonic clock, those of several by their wall clocks.
    """
    windows = [window for copy in copies for window in copy.windows if window.kind == "measured"]
    first: dict[tuple[str, str], Window] = {}
    for window in windows:
        first.setdefault((window.hostname, window.boot_id), window)
    wall_s = {node: (one.start_epoch_s or 0.0) - one.start_s for node, one in first.items()}
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
    found = []
    for node, one in first.items():
        start_s, stop_s = begin_s - ahead_s[node], end_s - ahead_s[node]
        common = changed(one, start_s=start_s, end_s=stop_s)
        if one.start_epoch_s:
            common = changed(common, start_epoch_s=start_s + wall_s[node], end_epoch_s=stop_s + wall_s[node])
        found.append(common)
    return found, end_s - begin_s
