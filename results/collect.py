"""Join the record of a benchmark with the traces of the sampler, over the same windows.

Standard library and jpwr's core only, so that it runs on any login node.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ioprof.errors import IoprofError
from jpwr.errors import JpwrError
from record.causes import cause
from record.model import Json, Record, as_json
from results.find.jube_row import point_of, write_row
from results.find.records import RESULT_NAME, RecordError, read_record, write_record
from results.join.channels import EnergyError
from results.join.checkpoints import energy_per_checkpoint
from results.join.copies import add_energy, check_copies, copy_folder, copy_folders, failed_copy, of_copy, together
from results.join.energy import energy_of
from results.join.figures import add_power
from results.join.hosts import add_hosts, energy_of_roles
from results.join.nodes import TRACES, TraceSums, read_sums
from results.join.reads import reads_of
from results.join.serving import energy_per_token

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
    """Return the record with its energy and reads; a run without energy has failed, with the reason in `error`."""
    before = read_record(folder / RESULT_NAME) if (folder / RESULT_NAME).exists() else {}
    copies = [read_record(one / RECORD_NAME) for one in copy_folders(folder, before)]
    bad = next((number for number, copy in enumerate(copies, 1) if copy["status"] != "ok"), 0)
    if bad:
        return of_copy(bad, copies[bad - 1], before)
    try:
        result = together(copies) if copies else read_record(folder / RECORD_NAME)
        check_copies(folder, copies, before, result)
    except EnergyError as error:
        return of_copy(1, copies[0] if copies else result, before) | {"status": "failed", "error": str(error)}
    _name_nodes(result)
    _add_job(result, before)
    elsewhere = (result.get("serving") or {}).get("elsewhere")
    hosts = result.get("config", {}).get("run", {}).get("hosts") if elsewhere else ""
    if elsewhere and not hosts:
        print(
            f"collect: no energy: the server runs on {elsewhere}, and this node's sensors do not see it: give --hosts",
            file=sys.stderr,
        )
        return result
    try:
        if hosts:
            add_hosts(result, sorted(folder.glob(TRACES)))
        record = Record.of(result)
        traces = read(folder, record)
        stated = {key: before[key] for key in ("site",) if key in before}
        result["energy"] = as_json(energy_of(record, traces, "measured")) | stated
        if any(window["kind"] == "effective" for window in result["windows"]):
            result["energy_effective"] = as_json(energy_of(record, traces, "effective"))
        per_checkpoint = energy_per_checkpoint(record, traces)
        result["energy"]["notes"] += per_checkpoint.pop("notes")
        result["energy"] |= per_checkpoint
        if result.get("serving"):
            result["energy"] |= energy_per_token(result)
            result["energy"] |= energy_of_roles(result, hosts or "")
        if result.get("node_check"):
            add_power(result, traces)
        if copies:
            add_energy(result, copies, traces)
    except (EnergyError, JpwrError) as error:
        result["error"] = "; ".join(text for text in (result["error"], f"no energy: {error}") if text)
        result["status"] = "failed" if result["status"] == "ok" else result["status"]
    try:
        if (reads := reads_of(Record.of(result), folder)) is not None:
            result["io"] = reads
    except IoprofError as error:  # a run is complete without its reads
        print(f"collect: the result has no reads of files: {error}", file=sys.stderr)
    return result


def _name_nodes(record: Json) -> None:
    """Number the nodes that share a host name: their kernels' boot ids differ, and ranks are counted by node."""
    boots: dict[str, list[str]] = {}
    for window in record["windows"]:
        boot_ids = boots.setdefault(window["hostname"], [])
        if window["boot_id"] not in boot_ids:
            boot_ids.append(window["boot_id"])
        if number := boot_ids.index(window["boot_id"]):
            window["hostname"] += f"#{number + 1}"
    for hostname, boot_ids in boots.items():
        devices = [device for device in record["devices"] if device["hostname"] == hostname]
        for index, device in enumerate(sorted(devices, key=lambda device: device["rank"])):
            if number := index * len(boot_ids) // len(devices):
                device["hostname"] += f"#{number + 1}"


def _add_job(result: Json, before: Json) -> None:
    """Copy the scheduler's facts about the job to the result; only the scheduler may know the image's digest."""
    result |= {key: value for key, value in before.items() if key in SCHEDULERS}
    digest, origin = result.get("kubernetes", {}).get("image_digest"), result.get("provenance")
    if digest and origin:
        origin["container_digest"] = digest
        origin["missing"] = [name for name in origin.get("missing", []) if name != "container_digest"]


def failed_result(folder: Path, exit_code: int, reason: str) -> Json:
    """Return the result of a failed job, with the reason in `error`, from the files that it left."""
    copy, its_code = failed_copy(folder)
    where = copy_folder(folder, copy)
    if copy:
        exit_code, reason = its_code, ""
    try:
        result = read_record(where / RECORD_NAME)
    except RecordError:
        result = read_record(folder / RESULT_NAME)
    if result["status"] in ("ok", "unfinished"):
        result["status"] = "failed"
        result["error"] = reason or cause(exit_code, where / JOB_ERRORS)
    return of_copy(copy, result, read_record(folder / RESULT_NAME)) if copy else result


if __name__ == "__main__":
    sys.exit(main())
