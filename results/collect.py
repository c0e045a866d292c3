"""Join the record of a benchmark with the traces of the sampler, over the same windows.

Standard library and jpwr's core only, so that it runs on any login node.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from jpwr.errors import JpwrError
from record.derivation import derive
from record.model import Json, Record
from record.part import as_json, changed
from results.find.records import RESULT_NAME, RecordError, read_record, write_record
from results.join.causes import cause
from results.join.channels import EnergyError
from results.join.copies import copy_folder, copy_folders, failed_copy, of_copy, refuse_idle, together
from results.join.energy import energy_of, energy_per_checkpoint, write_energies
from results.join.hosts import energy_of_roles, with_hosts
from results.join.nodes import TRACES, TraceSums, read_sums
from results.join.reads import reads_of
from results.points.jube_row import folder_of_point, write_row

RECORD_NAME = "record.json"
JOB_ERRORS = "job.err"
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
            run, _ = joined(options.folder)
        else:
            run = Record.of(failed_result(options.folder, options.exit_code, options.reason))
        write_record(run, options.folder / RESULT_NAME)
        write_energies(run, options.folder)
        write_row(folder_of_point(options.folder))
    except (RecordError, OSError) as error:
        print(f"collect: {error}", file=sys.stderr)
        return 1
    for note in run.energy.notes if run.energy else [run.error] if run.error else []:
        print(f"collect: {note}", file=sys.stderr)
    return 0 if run.is_good else 1


def collect(folder: Path) -> Json:
    """Return a result as its file has it."""
    result: Json = as_json(joined(folder)[0])
    return result


def joined(folder: Path) -> tuple[Record, list[TraceSums]]:
    """Return the record of a run with its energy and reads, and the sums of the traces that its energy needed.

    A run that failed has neither. A run without energy has failed, with the reason in `error`.
    """
    traces: list[TraceSums] = []
    planned = Record.of(read_record(folder / RESULT_NAME)) if (folder / RESULT_NAME).exists() else Record.of({})
    copies = [derive(Record.of(read_record(copy / RECORD_NAME))) for copy in copy_folders(folder, planned)]
    run = together(folder, copies, planned) if copies else derive(Record.of(read_record(folder / RECORD_NAME)))
    run = _of_job(run, planned)
    if not run.is_good:
        return run, traces
    if (elsewhere := run.serving.elsewhere) and not run.option("run.hosts"):
        print(
            f"collect: no energy: the server runs on {elsewhere}, and this node's sensors do not see it: give --hosts",
            file=sys.stderr,
        )
        return run, traces
    try:
        boots = {window.hostname: window.boot_id for window in run.windows}
        if odd := [window.hostname for window in run.windows if window.boot_id != boots[window.hostname]]:
            raise EnergyError(f"two nodes are called {odd[0]}: give each node a host name of its own")
        if elsewhere:
            run = with_hosts(run, sorted(folder.glob(TRACES)))
        traces = read_sums(folder, run)
        if copies:
            refuse_idle(run.devices, traces)
        run = derive(_with_energy(run, traces, planned))
    except JpwrError as error:
        run = changed(run, status="failed", error=f"no energy: {error}")
    try:
        if reads := reads_of(run, folder):
            run = changed(run, io=reads)
    except JpwrError as error:  # a run is complete without its reads
        print(f"collect: the result has no reads of files: {error}", file=sys.stderr)
    return run, traces


def _with_energy(run: Record, traces: Sequence[TraceSums], planned: Record) -> Record:
    """Return a run with its energies; raises JpwrError if the traces do not give them."""
    energy = energy_of(run, traces, "measured")
    if run.windows_of("effective"):
        run = changed(run, energy_effective=energy_of(run, traces, "effective"))
    per_checkpoint, notes = energy_per_checkpoint(run, traces)
    of_roles = energy_of_roles(run, energy) if run.serving else {}
    site = {"site": vars(planned)["site"]} if "site" in vars(planned) else {}
    return changed(run, energy=changed(energy, notes=[*energy.notes, *notes], **per_checkpoint, **of_roles, **site))


def _of_job(run: Record, planned: Record) -> Record:
    """Return a run with its scheduler's facts about the job; only the scheduler may know the image's digest."""
    facts = {key: vars(planned)[key] for key in SCHEDULERS if key in vars(planned)}
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
        run = Record.of(read_record(where / RECORD_NAME))
    except RecordError:
        run = planned
    if run.status in ("ok", "unfinished"):
        run = changed(run, status="failed", error=reason or cause(exit_code, where / JOB_ERRORS))
    result: Json = as_json(of_copy(planned, run, f"copy {copy}: {run.error}") if copy else run)
    return result


if __name__ == "__main__":
    sys.exit(main())
