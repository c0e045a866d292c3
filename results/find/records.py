"""Read, check and write the files of records; figures of older ones follow the tables of today."""

from __future__ import annotations

import hashlib
import json
import math
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from jpwr.messages import printable
from jpwr.process.whole_file import replacing
from record.asked import PEAK
from record.checks import contradictions
from record.derivation import derive
from record.files import RecordError as RecordError
from record.findings import Finding, finding
from record.model import SCHEMA_VERSION, Json
from record.model import Record as Record
from record.part import as_json, changed, with_known
from results.files.systems import peak_of
from results.files.typed_files import Date, Text, read_file, stated
from results.files.workloads import Facts, facts_about
from results.find.duplicates import copies, simultaneous
from results.find.folders import RESULT_NAME as RESULT_NAME
from results.find.folders import WORKPACKAGES, below, is_attempt, planned_runs
from results.find.in_parallel import for_each

READ_BY_1_0 = (1, 2, 3)  # schema versions
REMEDY = "leave it out or run the point again"
FEWER = "fewer_than_planned"
NO_NAME = {"run_id": ""}  # a run may be stored by two names
MARKS = "wrong_records.yaml"
CLOSE = 1e-6  # relative difference of equal figures
OF_GOOD_RUN = ("metrics", "windows")
OF_ITS_LAYOUT = ("num_devices", "num_nodes", "global_batch_size")


@dataclass(frozen=True)
class Mark:
    """Why a run is wrong, and the day and version of the suite that found it."""

    reason: Text
    date: Date
    version: Text


class Skipped(NamedTuple):
    """File that does not count, and why."""

    finding: Finding
    path: Path
    systems: tuple[str, ...] | None = None  # it may be a run of these; () for any; None if no run is missing
    record: Record | None = None  # if it can be read

    def __str__(self) -> str:
        return str(self.finding)

    def may_be_of(self, system: str) -> bool:
        """Return whether a run of the system may be missing without the file."""
        return self.systems is not None and (system in self.systems or not self.systems)


class Found(NamedTuple):
    """Records in some folders, and the files that were skipped."""

    records: list[Record]
    skipped: list[Skipped]

    def has_any(self, folder: Path) -> bool:
        """Return whether a folder has a result, or what may be one."""
        paths = [Path(record.file.path) for record in self.records]
        paths += [file.path for file in self.skipped if file.finding.kind != FEWER]
        return any(path.is_relative_to(folder) for path in paths)


def read_record(path: Path) -> Json:
    """Return a record as its file has it, with unprintable characters of its own texts escaped.

    Raises RecordError if it is missing, cut short, no record, or of another schema version. Needs the standard library
    alone, as it runs inside jobs. The record of a good run may still lack what its job adds.
    """
    return _read(path)[0]


def _read(path: Path) -> tuple[Json, bytes]:
    """Return a record and the content of its file."""
    try:
        content = path.read_bytes()
        if not content.strip():
            raise RecordError(f"{path} is empty: {REMEDY}")
        record = json.loads(content.decode(), parse_constant=_refuse_constant)
        if b"\\ud" in content.lower():  # half of a surrogate pair cannot be printed
            json.dumps(record, ensure_ascii=False).encode()
    except FileNotFoundError as error:
        raise RecordError(f"{path} does not exist: did the job start?") from error
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{path} cannot be read as a record ({error}): {REMEDY}") from error
    if not isinstance(record, dict) or "schema_version" not in record:
        raise RecordError(f"{path} is not a record of this suite: it has no schema_version")
    if (version := record["schema_version"]) != SCHEMA_VERSION:
        reader = "release 1.0" if version in READ_BY_1_0 else "the release that wrote it"
        raise RecordError(
            f"{path} has schema version {version}, and this release reads {SCHEMA_VERSION} alone: read it with {reader}"
        )
    try:
        stated(Record, record, str(path))
    except RecordError as error:
        raise RecordError(f"{error}; {REMEDY}") from error
    if "config" in record:
        record["config"] = {group: _printable(options) for group, options in record["config"].items()}
    return _printable(record), content


def _printable(values: Json) -> Json:
    """Return values with unprintable characters escaped: in a cell of a table, a line break would start another row."""
    return {key: printable(value) if isinstance(value, str) else value for key, value in values.items()}


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def write_record(record: Json | Record, path: Path) -> None:
    """Write a record so that a reader sees the old file or the new one, never half of one; raises OSError."""
    with replacing(path) as file:
        file.write(json.dumps(as_json(record), indent=1, sort_keys=True) + "\n")


def find_records(folders: Iterable[Path]) -> Found:
    """Return all records in some folders (or given as files), each checked by the types of the model.

    A run that is found twice counts once (see `copies`); one with inconsistent numbers, or a mark, does not count by
    another record of it either. Raises RecordError for a folder that does not exist, for two records of one run with
    different content, and for a benchmark with two units of work.
    """
    folders, found = list(folders), Found([], [])
    paths = list(dict.fromkeys(path for folder in folders for path in _files_of(folder, found)))
    read = list(for_each(_consistent, paths, together=50))
    found.records.extend(record for record in read if isinstance(record, Record))
    found.skipped.extend(record for record in read if isinstance(record, Skipped))
    _check_units(found.records)
    _skip_copies(found)
    _skip_simultaneous(found)
    for index, file in enumerate(found.skipped):
        if file.systems == ():
            folder = next(folder for folder in folders if file.path.is_relative_to(folder))
            inside = (record for record in found.records if Path(record.file.path).is_relative_to(folder))
            found.skipped[index] = file._replace(systems=tuple(dict.fromkeys(record.system for record in inside)))
    return found


def _check_units(records: Iterable[Record]) -> None:
    first: dict[str, Record] = {}
    for record in records:
        other = first.setdefault(record.benchmark, record)
        if other.work_unit != record.work_unit:
            raise RecordError(
                f"{other.file.path} counts {other.work_unit} and {record.file.path} counts {record.work_unit} for one "
                f"benchmark, {record.benchmark}: they cannot be in one table"
            )


def _skip_copies(found: Found) -> None:
    left_out = [skipped.record for skipped in found.skipped if skipped.record]
    for copy, first in list(copies([*left_out, *found.records])):
        if copy in left_out:
            continue
        if first not in left_out and as_json(first) | NO_NAME != as_json(copy) | NO_NAME:
            raise RecordError(
                f"{first.file.path} and {copy.file.path} are records of one run with different content: "
                "remove the wrong one"
            )
        kind = "run_left_out" if first in left_out else "same_record"
        same = finding(kind, first=first.file.path, second=copy.file.path)
        found.skipped.append(Skipped(same, Path(copy.file.path)))
        found.records.remove(copy)


def _skip_simultaneous(found: Found) -> None:
    at_once: set[Record] = set()
    for first, second in simultaneous(found.records):
        why = finding("same_device", first=first.file.path, second=second.file.path)
        systems = tuple(dict.fromkeys([first.system, second.system]))
        found.skipped.append(Skipped(why, Path(first.file.path), systems))
        at_once |= {first, second}
    found.records[:] = [record for record in found.records if record not in at_once]


def _consistent(path: Path) -> Record | Skipped:
    """Return a record, or why its file does not count."""
    mark, record = mark_of(path), None
    try:
        record = derive(read_checked(path))
        wrong = [*contradictions(record), *wrong_length(record)]
        if not wrong and not mark:
            return _small(with_todays_figures(record))
        why = finding("inconsistent", path=str(path), reasons="; ".join(wrong))
    except RecordError as error:
        why = finding("unusable", reason=str(error))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        why = finding("unusable", reason=f"{path} is not as a benchmark has written it: {error!r}")
    if mark:
        why = finding("marked", path=str(path), **vars(mark))
    return Skipped(why, path, named_in(path, "system"), record)


def _small(record: Record) -> Record:
    """Return a record with the times of its steps as an array, a quarter as large as a list: most of its memory."""
    times_s = record.step_times_s
    return changed(record, step_times_s=array("d", times_s)) if times_s and None not in times_s else record


def mark_of(path: Path) -> Mark | None:
    """Return the mark of a record that a later version of the suite found wrong; None without one."""
    marks = marks_above(path)
    return next(map(marks.get, named_in(path, "run_id")), None) if marks else None


def marks_above(path: Path) -> dict[str, Mark]:
    """Return the marks, by run_id, in files of all folders above a file; raises RecordError for a mistake in one."""
    folders = str(path.absolute()).split("/")[:-1]
    files = ("/".join([*folders[:depth], MARKS]) for depth in range(1, len(folders) + 1))
    found = [Path(file) for file in files if os.path.isfile(file)]  # noqa: PTH113 - for each record; a Path is slow
    return {run: mark for file in found for run, mark in _marks_in(file, file.stat().st_mtime_ns).items()}


@lru_cache(maxsize=8)
def _marks_in(file: Path, _: int) -> dict[str, Mark]:
    marks: dict[str, Mark] = read_file(Mapping[str, Mark], file, "run")
    return marks


def named_in(path: Path, key: str) -> tuple[str, ...]:
    """Return the text that a record, which may be damaged, has at a key; empty if it has none."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return ()
    text = content.get(key) if isinstance(content, dict) else None
    return (printable(text),) if isinstance(text, str) else ()


def _files_of(folder: Path, found: Found) -> Iterator[Path]:
    """Yield the results below a folder, and add to what was skipped what cannot be entered and what a plan has more."""
    if not folder.exists():
        raise RecordError(f"{folder} does not exist: give a folder of results, such as jube/llm_run/000000")
    if folder.is_file():
        yield folder
        return
    files, closed = below(folder)
    for path in files:
        if path.name == RESULT_NAME and not is_attempt(path, folder):
            yield path
        elif path.name == WORKPACKAGES and (fewer := _fewer(path, closed)):
            found.skipped.append(Skipped(fewer, path.parent, ()))
    for path, reason in closed.items():
        found.skipped.append(Skipped(finding("closed", path=str(path), reason=reason), path, ()))


def _fewer(plan: Path, closed: dict[Path, str]) -> Finding | None:
    """Return what a sweep's plan has more than its folder; a plan that cannot be read is added to what is closed."""
    try:
        found, planned = planned_runs(plan.parent)
    except OSError as error:
        closed[plan] = error.strerror or str(error)
        return None
    return finding(FEWER, run=str(plan.parent), found=found, planned=planned) if found < planned else None


def read_checked(path: Path) -> Record:
    """Return a record with its file, in which a good run lacks nothing; raises RecordError."""
    record, content = _read(path)
    if record["status"] == "ok":
        names = OF_GOOD_RUN if (record.get("serving") or {}).get("elsewhere") else (*OF_GOOD_RUN, "energy")
        lacking = [name for name in names if record.get(name) is None]
        lacking += [f"layout.{name}" for name in OF_ITS_LAYOUT if record["layout"].get(name) is None]
        if lacking:
            raise RecordError(f"{path} lacks {', '.join(lacking)}; {REMEDY}")
    return Record.from_file(record, path=str(path), sha256=hashlib.sha256(content).hexdigest())


def wrong_length(record: Record) -> Iterator[str]:
    """Yield a sentence if samples have another length than the model's own, and no option asked for it."""
    facts = _facts(record)
    default = next(iter(facts.flops.get(record.model, ())), None)
    length = record.layout.sequence_length
    is_own = bool(length) and record.config.get("model", {}).get("sequence_length", length) is None
    if record.model in facts.flops_per_length and is_own and record.sample != default:
        yield f"sample is stored as {record.sample!r}, but its model has {default!r}"


def with_todays_figures(record: Record) -> Record:
    """Return a record with the FLOPs, the peak and the parameters of today's tables, and what follows from them.

    A corrected table must not discard a measurement, and runs before and after it stay comparable. `corrected` of the
    record has a finding for each difference; a record without one is returned as it is.
    """
    metrics, corrected = record.metrics, []
    figures: dict[str, float] = {}
    facts = _facts(record)
    if facts.comparable and record.is_good:
        is_comparable = record.sample == facts.comparable
        record = changed(record, metrics=with_known(metrics, {"comparable": is_comparable}))
    for figure, name, value in (
        ("FLOPs per unit of work", f"model_flops_per_{record.work_unit[:-1]}", _flops(record, facts)),
        ("peak TFLOP/s per device", PEAK, peak_of(record.system, record.precision)),
        ("parameters", "num_parameters", facts.num_parameters.get(record.model)),
    ):
        recorded = metrics.number(name)
        if value and recorded and not math.isclose(recorded, value, rel_tol=CLOSE):
            corrected.append(finding("corrected", figure=figure, recorded=recorded, table=value))
            figures[name] = value
    return changed(derive(record, figures), corrected=tuple(corrected)) if figures else record


def _flops(record: Record, facts: Facts) -> float | None:
    known: Mapping[str, float] = facts.flops.get(record.model) or {}
    length = record.layout.sequence_length or 0
    per_length = facts.flops_per_length.get(record.model)
    if per_length is None or not length:
        return known.get(record.sample)
    default_sample, flops = next(iter(known.items()))
    return flops + per_length * (length - int(default_sample.split()[0]))


def _facts(record: Record) -> Facts:
    """Return the facts about a record's workload; those of an unknown one, if the record counts other work."""
    facts = facts_about(record.benchmark)
    return facts if facts.work_unit == record.work_unit else facts_about("")
