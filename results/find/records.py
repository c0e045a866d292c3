"""Read, check and write the files of records."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from jpwr.messages import printable
from jpwr.process.whole_file import replacing
from record.checks import contradictions
from record.derivation import derive
from record.errors import RecordError as RecordError
from record.findings import Finding, finding
from record.model import SCHEMA_VERSION, Json, as_json
from record.model import Record as Record
from results.files.typed_files import LARGEST
from results.find.duplicates import content_of, copies, simultaneous
from results.find.folders import RESULT_NAME as RESULT_NAME
from results.find.folders import WORKPACKAGES, below, is_attempt, planned_runs
from results.find.in_parallel import all_stays, for_each
from results.find.marks import Mark, marks_above
from results.find.schema import violation
from results.find.todays import with_todays_figures, wrong_length

# A file beyond this limit, or with a number beyond LARGEST or 1 / LARGEST, is damaged: no table could show it.
DEEPEST = 30  # levels of lists and objects
CONTAINERS = (dict, list)
READ_BY_1_0 = (1, 2, 3)  # schema versions
FEWER = "fewer_than_planned"
# Every record has these from the moment when its job is planned.
NEEDED = {"benchmark": str, "system": str, "model": str, "work_unit": str, "status": str, "layout": dict}
NAMES = ("benchmark", "system", "model", "work_unit", "precision", "data", "sample")


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
        others = (one.path for one in self.skipped if one.finding.kind != FEWER)
        return any(path.is_relative_to(folder) for path in (*others, *(Path(one.file.path) for one in self.records)))

    def systems_below(self, folder: Path) -> tuple[str, ...]:
        """Return the systems of the records below a folder."""
        mine = (record for record in self.records if Path(record.file.path).is_relative_to(folder))
        return tuple(dict.fromkeys(record.system for record in mine))


def read_record(path: Path) -> Json:
    """Return a record as its file has it.

    Raises RecordError if it is missing, cut short, no record, or of another schema version. Needs the standard library
    alone, as it runs inside jobs. Only `find_records` checks every field.
    """
    try:
        return _parse(path.read_bytes(), path)
    except FileNotFoundError as error:
        raise RecordError(f"{path} does not exist: did the job start?") from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _parse(content: bytes, path: Path) -> Json:
    if not content.strip():
        raise RecordError(f"{path} is empty: leave it out or run the point again")
    try:
        record = json.loads(content, parse_constant=_refuse_constant)
        _check_values([record], DEEPEST + 1)
    except ValueError as error:
        raise _unreadable(path, error) from error
    except RecursionError as error:
        raise _unreadable(path, ValueError("its values are nested too deeply")) from error
    if not isinstance(record, dict) or "schema_version" not in record:
        raise RecordError(f"{path} is not a record of this suite: it has no schema_version")
    if (version := record["schema_version"]) != SCHEMA_VERSION:
        reader = "release 1.0" if version in READ_BY_1_0 else "the release that wrote it"
        raise RecordError(
            f"{path} has schema version {version}, and this release reads {SCHEMA_VERSION} alone: read it with {reader}"
        )
    for key, kind in NEEDED.items():
        if not isinstance(record.get(key), kind):
            raise RecordError(f"{path} has no usable '{key}': it is damaged, or not a record of this suite")
    for name in _names(record):
        if not name.isprintable():
            raise RecordError(f"{path} has the name {name!r}, which no table can print: it is damaged, or made up")
    if isinstance(record.get("error"), str):
        record["error"] = printable(record["error"])
    return record


def _names(record: Json) -> Iterator[str]:
    """Return the texts that fill cells of tables, where a line break would start another row."""
    variant = record.get("variant")
    values = [record.get(key) for key in NAMES]
    values += variant if isinstance(variant, list) else []
    return (value for value in values if isinstance(value, str))


def _unreadable(path: Path, error: Exception) -> RecordError:
    return RecordError(f"{path} cannot be read as a record ({error}): leave it out or run the point again")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _check_values(value: Any, levels: int) -> None:
    """Raise ValueError for a value in a list or object that JSON allows and a record does not."""
    if not levels:
        raise ValueError(f"its values are nested in more than {DEEPEST} levels")
    parts = list(chain.from_iterable(value.items())) if isinstance(value, dict) else value
    if set(map(type, parts)) <= {int, float}:  # a long list of numbers, such as times of steps
        parts = [size for size in map(abs, parts) if size]
        parts = [min(parts), max(parts)] if parts else []
    for one in parts:
        if isinstance(one, str):
            one.encode()  # raises UnicodeEncodeError for half of a surrogate pair, which cannot be printed
        elif isinstance(one, CONTAINERS):
            _check_values(one, levels - 1)
        elif one and not 1 / LARGEST < abs(one) < LARGEST:
            raise ValueError(f"a number in it is not between {1 / LARGEST:g} and {LARGEST:g}")


def write_record(record: Json | Record, path: Path) -> None:
    """Write a record so that a reader sees the old file or the new one, never half of one; raises OSError."""
    with replacing(path) as file:
        file.write(json.dumps(as_json(record), indent=1, sort_keys=True) + "\n")


def find_records(folders: Iterable[Path]) -> Found:
    """Return all records in some folders (or given as files), each checked against the schema.

    A run that is found twice counts once (see `copies`); one with inconsistent numbers, or a mark, does not count by
    another record of it either. Raises RecordError for a folder that does not exist, for two records of one run with
    different content, and for a benchmark with two units of work.
    """
    folders, found = list(folders), Found([], [])
    units: dict[str, Record] = {}
    paths = list(dict.fromkeys(path for folder in folders for path in _files_of(folder, found)))
    with all_stays():
        read = list(for_each(_consistent, paths, together=50))
    for record in read:
        if isinstance(record, Skipped):
            found.skipped.append(record)
            continue
        other = units.setdefault(record.benchmark, record)
        if other.work_unit != record.work_unit:
            raise RecordError(
                f"{other.file.path} counts {other.work_unit} and {record.file.path} counts {record.work_unit} for one "
                f"benchmark, {record.benchmark}: they cannot be in one table"
            )
        found.records.append(record)
    left_out = [skipped.record for skipped in found.skipped if skipped.record]
    for copy, first in list(copies([*left_out, *found.records])):
        if copy in left_out:
            continue
        if first not in left_out and content_of(first) != content_of(copy):
            raise RecordError(
                f"{first.file.path} and {copy.file.path} are records of one run with different content: "
                "remove the wrong one"
            )
        kind = "run_left_out" if first in left_out else "same_record"
        same = finding(kind, first=first.file.path, second=copy.file.path)
        found.skipped.append(Skipped(same, Path(copy.file.path)))
        found.records.remove(copy)
    together, of_files = simultaneous(found.records), {one.file.path: one.system for one in found.records}
    for both in together:
        why = finding("same_device", first=both[0], second=both[1])
        found.skipped.append(Skipped(why, Path(both[0]), tuple(dict.fromkeys(map(of_files.__getitem__, both)))))
    at_once = {path for both in together for path in both}
    found.records[:] = [record for record in found.records if record.file.path not in at_once]
    for index, one in enumerate(found.skipped):
        if one.systems == ():
            folder = next(folder for folder in folders if one.path.is_relative_to(folder))
            found.skipped[index] = one._replace(systems=found.systems_below(folder))
    return found


def _consistent(path: Path) -> Record | Skipped:
    """Return a record, or why its file does not count."""
    mark, record = mark_of(path), None
    try:
        record = derive(read_checked(path))
        wrong = [*contradictions(record), *wrong_length(record)]
        if not wrong and not mark:
            return with_todays_figures(record)
        why = finding("inconsistent", path=str(path), reasons="; ".join(wrong))
    except RecordError as error:
        why = finding("unusable", reason=str(error))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        why = finding("unusable", reason=f"{path} is not as a benchmark has written it: {error!r}")
    if mark:
        why = finding("marked", path=str(path), **vars(mark))
    return Skipped(why, path, named_in(path, "system"), record)


def mark_of(path: Path) -> Mark | None:
    """Return the mark of a record that a later version of the suite found wrong; None without one."""
    marks = marks_above(path)
    return next(map(marks.get, named_in(path, "run_id")), None) if marks else None


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
        if path.name.endswith(RESULT_NAME) and not is_attempt(path, folder):
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
    """Return a record with its file, after checking each field by the schema; raises RecordError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error
    record = _parse(content, path)
    if broken := violation(record):
        raise RecordError(f"{path} breaks the schema of records: {broken}; leave it out or run the point again")
    return Record.from_file(record, path=str(path), sha256=hashlib.sha256(content).hexdigest())
