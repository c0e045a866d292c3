"""Join the record of a benchmark with the traces of the sampler, over the same windows.

Standard library and jpwr's core only, so that it runs on any login node.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from jpwr.errors import JpwrError
from record.causes import cause
from record.derivation import derive
from record.model import Device, Json, Record, Window, as_json, changed
from results.find.jube_row import point_of, write_row
from results.find.records import RESULT_NAME, RecordError, read_record, write_record
from results.join.channels import EnergyError
from results.join.checkpoints import energy_per_checkpoint
from results.join.copies import check_copies, copy_folder, copy_folders, failed_copy, of_copy, together, with_energies
from results.join.energy import energy_of
from results.join.figures import with_power
from results.join.hosts import energy_of_roles, with_hosts
from results.join.nodes import TRACES, TraceSums, read_sums
from results.join.reads import reads_of

RECORD_NAME = "record.json"
JOB_ERRORS = "job.err"
Placed = TypeVar("Placed", Window, Device)
SCHEDULERS = ("slurm", "kubernetes")  # keys under which they describe a job


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; return 0 if the point's result is good."""
    parser = argparse.ArgumentParser(
        prog="python -m results.collect",
        description=f"Join {RECORD_NAME} and the power traces of a job's folder into {RESULT_NAME}.",
    )
    parser.add_argument("folder", type=Path, help=f"the job's folder, with {RECORD_NAME} and {TRACES}")
    parser.add_argument("--exit-code", type=int, metavar="N", help="the job failed with this exit code")
    parser.add_argument("--reason", default="", help="why the job failed, if known")
    options = parser.parse_args(argv)
    try:
        if options.exit_code is None:
            result = collect(options.folder)
        else:
            result = failed_result(options.folder, options.exit_code, options.reason)
        write_record(result, options.folder / RESULT_NAME)
        write_row(point_of(options.folder))
    except (RecordError, OSError) as error:
        print(f"collect: {error}", file=sys.stderr)
        return 1
    for note in (result.get("energy") or {}).get("notes", []):
        print(f"collect: {note}", file=sys.stderr)
    if result["status"] != "ok":
        print(f"collect: {result['error']}", file=sys.stderr)
        return 1
    return 0


def collect(folder: Path, read: Callable[[Path, Record], list[TraceSums]] = read_sums) -> Json:
    """Return a result as its file has it: the record with its energy and reads.

    A run without energy has failed, with the reason in `error`.
    """
    result: Json = as_json(_joined(folder, read))
    return result


def _joined(folder: Path, read: Callable[[Path, Record], list[TraceSums]]) -> Record:
    planned = Record.of(read_record(folder / RESULT_NAME)) if (folder / RESULT_NAME).exists() else None
    copies = [_recorded(one) for one in copy_folders(folder, planned)]
    bad = next((number for number, copy in enumerate(copies, 1) if not copy.is_good), 0)
    if bad:
        return of_copy(bad, copies[bad - 1], planned)
    try:
        run = together(copies) if copies else _recorded(folder)
        check_copies(folder, copies, planned, run)
    except EnergyError as error:
        first = changed(copies[0] if copies else run, status="failed", error=str(error))
        return of_copy(1, first, planned)
    run = _of_job(_with_numbered_nodes(run), planned)
    if (elsewhere := run.serving.elsewhere) and not run.option("run.hosts"):
        print(
            f"collect: no energy: the server runs on {elsewhere}, and this node's sensors do not see it: give --hosts",
            file=sys.stderr,
        )
        return run
    try:
        if elsewhere:
            run = with_hosts(run, sorted(folder.glob(TRACES)))
        run = _with_energy(run, copies, read(folder, run), planned)
    except (EnergyError, JpwrError) as error:
        reason = "; ".join(filter(None, [run.error, f"no energy: {error}"]))
        run = changed(run, error=reason, status="failed" if run.is_good else run.status)
    try:
        if (reads := reads_of(run, folder)) is not None:
            run = changed(run, io=reads)
    except JpwrError as error:  # a run is complete without its reads
        print(f"collect: the result has no reads of files: {error}", file=sys.stderr)
    return run


def _recorded(folder: Path) -> Record:
    return derive(Record.of(read_record(folder / RECORD_NAME)))


def _with_energy(run: Record, copies: Sequence[Record], traces: Sequence[TraceSums], planned: Record | None) -> Record:
    """Return a run with its energies; raises EnergyError or JpwrError if the traces do not give them."""
    energy, notes = energy_of(run, traces, "measured"), list[str]()
    if "effective" in {window.kind for window in run.windows}:
        run = changed(run, energy_effective=energy_of(run, traces, "effective"))
    per_checkpoint, notes = energy_per_checkpoint(run, traces)
    more = per_checkpoint | (energy_of_roles(run, energy) if run.serving else {})
    if planned is not None and "site" in vars(planned):
        more["site"] = vars(planned)["site"]
    run = changed(run, energy=changed(energy, notes=[*energy.notes, *notes], **more))
    if run.node_check:
        run = with_power(run, traces)
    return derive(with_energies(run, copies, traces)) if copies else run


def _with_numbered_nodes(record: Record) -> Record:
    """Number the nodes that share a host name: their kernels' boot ids differ, and ranks are counted by node."""
    boots: dict[str, list[str]] = {}
    for window in record.windows:
        if window.boot_id not in (boot_ids := boots.setdefault(window.hostname, [])):
            boot_ids.append(window.boot_id)
    windows = [_numbered(one, boots[one.hostname].index(one.boot_id)) for one in record.windows]
    devices = {id(one): one for one in record.devices}
    for hostname, boot_ids in boots.items():
        own = sorted((one for one in record.devices if one.hostname == hostname), key=lambda device: device.rank)
        for index, device in enumerate(own):
            devices[id(device)] = _numbered(device, index * len(boot_ids) // len(own))
    return changed(record, windows=windows, devices=list(devices.values()))


def _numbered(part: Placed, number: int) -> Placed:
    return changed(part, hostname=f"{part.hostname}#{number + 1}") if number else part


def _of_job(run: Record, planned: Record | None) -> Record:
    """Return a run with its scheduler's facts about the job; only the scheduler may know the image's digest."""
    facts = {key: value for key, value in vars(planned or Record.of({})).items() if key in SCHEDULERS}
    run = changed(run, **facts)
    digest = facts.get("kubernetes", {}).get("image_digest")
    if not digest or not run.provenance:
        return run
    missing = [name for name in vars(run.provenance).get("missing", []) if name != "container_digest"]
    return changed(run, provenance=changed(run.provenance, container_digest=digest, missing=missing))


def failed_result(folder: Path, exit_code: int, reason: str) -> Json:
    """Return the result of a failed job, with the reason in `error`, from the files that it left."""
    copy, its_code = failed_copy(folder)
    where = copy_folder(folder, copy)
    if copy:
        exit_code, reason = its_code, ""
    planned = Record.of(read_record(folder / RESULT_NAME))
    try:
        result = Record.of(read_record(where / RECORD_NAME))
    except RecordError:
        result = planned
    if result.status in ("ok", "unfinished"):
        result = changed(result, status="failed", error=reason or cause(exit_code, where / JOB_ERRORS))
    found: Json = as_json(of_copy(copy, result, planned) if copy else result)
    return found


if __name__ == "__main__":
    sys.exit(main())
