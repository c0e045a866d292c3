"""Runs with their files as an RO-Crate, whose metadata state what made which file (Process Run Crate 0.5).

An action is one run. It begins when the benchmark started and ends with the last window: when the process ended is not
recorded. A run that failed, or counts nowhere, is a failed action with the reason. No person is named.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from jpwr.process.whole_file import write_whole
from results.exchange.archive import WORKFLOW, files_of
from results.record.model import Json
from results.record.parts import end_epoch_s
from results.record.records import RESULT_NAME, Record, RecordError, find_records, read_record

RO_CRATE, PROFILE = "https://w3id.org/ro/crate/1.1", "https://w3id.org/ro/wfrun/process/0.5"
METADATA = "ro-crate-metadata.json"
INPUTS = ("job.sh", "node.sh")


def write_crate(folders: Sequence[Path], workflow: Path, crate: Path, licence: str) -> int:
    """Copy the files of runs and their workflow into a new folder with metadata; return the number of runs.

    Raises RecordError as `files_of` does, and for a folder that has files.
    """
    if crate.exists() and (not crate.is_dir() or any(crate.iterdir())):
        raise RecordError(f"--out {crate} was to become an RO-Crate, but it has content: name a new folder")
    files, runs = files_of(folders, workflow)
    graph = {"@context": f"{RO_CRATE}/context", "@graph": list(_entities(files, licence, _wrong(folders)))}
    for name, path in files.items():
        (crate / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, crate / name)
    write_whole(crate / METADATA, json.dumps(graph, indent=1) + "\n")
    return runs


def _wrong(folders: Sequence[Path]) -> dict[Path, str]:
    """Return why records count nowhere, such as one that was found wrong; a copy of a record is none."""
    return {one.path: str(one) for one in find_records(folders).skipped if one.finding.kind != "same_record"}


def _entities(files: Mapping[str, Path], licence: str, wrong: Mapping[Path, str]) -> Iterator[Json]:
    results = {PurePosixPath(name).parent: path for name, path in files.items() if path.name == RESULT_NAME}
    read = {
        folder: Record.of(read_record(path) | ({"status": "failed", "error": wrong[path]} if path in wrong else {}))
        for folder, path in results.items()
    }
    runs = {folder: record for folder, record in read.items() if record.status != "unfinished"}
    yield _entity(METADATA, "CreativeWork", conformsTo=_refer(RO_CRATE), about=_refer("./"))
    yield _entity(
        *("./", "Dataset"),
        name=f"Runs of the benchmark suite CARAML on {', '.join(sorted({one.system for one in read.values()}))}",
        description="Records, logs and power traces of runs, with the workflow that started them",
        datePublished=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        license=_refer(licence),
        conformsTo=_refer(PROFILE),
        hasPart=[_refer(quote(name)) for name in files],
        mentions=[_refer(f"#{quote(str(folder))}") for folder in runs],
    )
    yield _entity(licence, "CreativeWork", name="Licence of the data")
    yield _entity(PROFILE, "CreativeWork", name="Process Run Crate", version="0.5")
    for name, path in files.items():
        yield _entity(quote(name), "File", name=path.name, contentSize=str(path.stat().st_size))
    for suite in {_suite(one) for one in runs.values()}:
        yield _entity(suite, "SoftwareApplication", name="CARAML benchmark suite", softwareVersion=suite[1:])
    for folder, record in runs.items():
        # The folder of a run that was run again has those of its failed attempts within.
        own = [
            name for name in files if next((one for one in PurePosixPath(name).parents if one in read), "") == folder
        ]
        used = [name for name in own if files[name].name in INPUTS]
        yield _action(folder, record, [*used, *(name for name in files if name.startswith(f"{WORKFLOW}/"))], own)


def _action(folder: PurePosixPath, record: Record, used: Sequence[str], own: Sequence[str]) -> Json:
    end_s, status = end_epoch_s(record), "Completed" if record.is_good else "Failed"
    return _entity(
        *(f"#{quote(str(folder))}", "CreateAction"),
        name=f"{record.benchmark}, {record.model}, on {record.system}",
        instrument=_refer(_suite(record)),
        object=[_refer(quote(name)) for name in used],
        result=[_refer(quote(name)) for name in own if name not in used],
        startTime=record.provenance.created,
        endTime=end_s and datetime.fromtimestamp(end_s, timezone.utc).isoformat(timespec="seconds"),
        actionStatus=f"http://schema.org/{status}ActionStatus",
        error=None if record.is_good else record.error or record.status,
    )


def _suite(record: Record) -> str:
    return f"#{record.provenance.git_commit or 'unknown'}"


def _entity(identity: str, kind: str, **values: Any) -> Json:
    return {"@id": identity, "@type": kind} | {key: value for key, value in values.items() if value}


def _refer(identity: str) -> Json:
    return {"@id": identity}
