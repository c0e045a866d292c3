"""Records on disk: read, checked, and written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from jpwr.messages import printable
from results.record.checks import contradictions

SCHEMA_VERSION = 3
SCHEMA = Path(__file__).with_name("record.schema.json")
RESULT_NAME = "result.json"
ATTEMPTS = "attempts"  # a folder of what failed, and was run again with success or not
# A file with more is damaged: tables and plots could not use it.
DEEPEST = 30  # levels of lists and objects
FEWEST_TIMES = 3  # that differ, by which a run is known again
LARGEST = 1e30  # of a number; 1 / LARGEST the smallest above 0
# What a record has from the moment its job is planned; the rest comes when it is known.
NEEDED = {"benchmark": str, "system": str, "model": str, "work_unit": str, "status": str, "layout": dict}
NAMES = ("benchmark", "system", "model", "work_unit", "precision", "data", "sample")

Record = dict[str, Any]


class RecordError(Exception):
    """A file is not a record that can be used: one sentence with what was found and what to do."""


class Skipped(str):
    """Why a file does not count, in a sentence."""

    path: Path
    systems: tuple[str, ...] | None  # that it may be a run of, () for any; None if no run is missing without it

    def __new__(cls, words: str, path: Path, systems: tuple[str, ...] | None = None) -> Skipped:
        """Keep the file and its systems with the sentence."""
        self = super().__new__(cls, words)
        self.path, self.systems = path, systems
        return self

    def may_be_of(self, system: str) -> bool:
        """Return whether a run of the system may be missing."""
        return self.systems is not None and (system in self.systems or not self.systems)


class Found(NamedTuple):
    """Records below some folders."""

    records: list[Record]  # each with its file: {"path", "sha256"}
    skipped: list[Skipped]

    def systems_below(self, folder: Path) -> tuple[str, ...]:
        """Return the systems of the records below a folder."""
        mine = (record for record in self.records if Path(record["file"]["path"]).is_relative_to(folder))
        return tuple(dict.fromkeys(record["system"] for record in mine))


def read_record(path: Path) -> Record:
    """One record, brought to this schema version; raises RecordError when it is missing, cut short or something else.

    Standard library only: what a node of a machine needs. `find_records` looks at every field.
    """
    try:
        return _parse(path.read_bytes(), path)
    except FileNotFoundError as error:
        raise RecordError(f"there is no record {path}: did the job start?") from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _parse(content: bytes, path: Path) -> Record:
    if not content.strip():
        raise RecordError(f"{path} is empty: leave it out or run the point again")
    try:
        record = json.loads(content, parse_constant=_refuse_constant)
        _check_values(record, DEEPEST)
    except ValueError as error:
        raise _unreadable(path, error) from error
    except RecursionError as error:
        raise _unreadable(path, ValueError("its values are nested too deeply")) from error
    if not isinstance(record, dict) or "schema_version" not in record:
        raise RecordError(f"{path} is not a record of this suite: it has no schema_version")
    version = record["schema_version"]
    while isinstance(version, int) and version in MIGRATIONS:
        MIGRATIONS[version](record)
        version += 1
    if version != SCHEMA_VERSION:
        raise RecordError(
            f"{path} has schema version {version}, this version reads up to {SCHEMA_VERSION}: "
            "read it with the version that wrote it"
        )
    record["schema_version"] = version
    for key, kind in NEEDED.items():
        if not isinstance(record.get(key), kind):
            raise RecordError(f"{path} has no usable '{key}': it is damaged, or not a record of this suite")
    for name in _names(record):
        if not name.isprintable():
            raise RecordError(f"{path} has the name {name!r}, which no table can show: it is damaged, or made up")
    if isinstance(record.get("error"), str):
        record["error"] = printable(record["error"])
    return record


def _names(record: Record) -> Iterator[str]:
    """Return the texts that tables show in cells of their own, where a line break would start another row."""
    variant, choices = record.get("variant"), record.get("choices")
    values = [record.get(key) for key in NAMES]
    values += variant if isinstance(variant, list) else []
    for both in choices.items() if isinstance(choices, dict) else ():
        values += both
    return (value for value in values if isinstance(value, str))


def _unreadable(path: Path, error: Exception) -> RecordError:
    return RecordError(f"{path} cannot be read as a record ({error}): leave it out or run the point again")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _check_values(value: Any, levels: int) -> None:
    """Raise ValueError for what JSON can hold and a record cannot."""
    if isinstance(value, dict | list):
        if not levels:
            raise ValueError(f"its values are nested in more than {DEEPEST} levels")
        for one in value:
            _check_values(one, levels - 1)
            if isinstance(value, dict):
                _check_values(value[one], levels - 1)
    elif isinstance(value, str):
        value.encode()  # half of a surrogate pair cannot be printed
    elif isinstance(value, int | float) and value and not 1 / LARGEST < abs(value) < LARGEST:
        raise ValueError(f"a number in it is not between {1 / LARGEST:g} and {LARGEST:g}")


def _from_version_1(record: Record) -> None:
    """Before there were windows of several kinds."""
    windows = record.get("windows")
    for window in windows if isinstance(windows, list) else []:
        if isinstance(window, dict):
            window.setdefault("kind", "measured")


def _from_version_2(record: Record) -> None:
    """Before records said by themselves what they are repeats of, when there were two workloads."""
    layout = record.get("layout")
    if not isinstance(layout, dict):
        return

    def option(path: str) -> str:
        group, _, name = path.partition(".")
        config = record.get("config")
        options = config.get(group) if isinstance(config, dict) else None
        value = options.get(name) if isinstance(options, dict) else None
        return "" if value is None else str(value)

    if record.get("benchmark") == "llm_training" and isinstance(record.get("config"), dict):
        record["config"].setdefault("turns", {"effective": False, "rounds": 6, "cold_cache": False})
        if isinstance(record.get("provenance"), dict):
            record["provenance"].pop("config_hash", None)  # of the options without these
    tokens, pixels = layout.get("sequence_length"), layout.get("image_size")
    record["precision"] = option("model.precision") or option("compute.precision")
    record["data"] = option("data.data")
    record["sample"] = f"{pixels} pixels" if pixels else f"{tokens} tokens" if tokens else ""
    if tokens or record.get("work_unit") == "images":
        layout["work_per_sample"] = tokens or 1
    chosen = [(title, option(path), unusual) for title, path, unusual in CHOICES_OF_VERSION_2]
    record["choices"] = {title: value for title, value, _ in chosen if value}
    record["variant"] = [unusual[value] for _, value, unusual in chosen if value in unusual]


CHOICES_OF_VERSION_2: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("recomputation", "parallel.recompute", {"selective": "selective recomputation", "full": "full recomputation"}),
    ("layers of", "kernels.layers", {"transformer-engine": "TransformerEngine"}),
    ("compiled", "kernels.compile", {"layers": "compiled layers"}),
    (
        "attention",
        "kernels.attention",
        {"cudnn": "cuDNN attention", "efficient": "efficient attention", "math": "plain attention"},
    ),
    ("CUDA graph", "kernels.cuda_graph", {"True": "CUDA graph"}),
    ("XLA", "compute.xla", {"on": "XLA"}),
)
# From a version to the next, in place.
MIGRATIONS: dict[Any, Callable[[Record], None]] = {1: _from_version_1, 2: _from_version_2}


def write_record(record: Record, path: Path) -> None:
    """Store a record so that a reader sees the old one or the new one, never half of one."""
    with whole_file(path) as part:
        part.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield the path of a file to write, which takes the place of another one when the block has ended well."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def find_records(folders: Iterable[Path]) -> Found:
    """All records below some folders (or given as files), each checked against the schema.

    A run that is found twice counts once (see `copies`), and one whose numbers contradict each other not at all. Raises
    RecordError for a folder that does not exist, for two records of one run with different content, and for a benchmark
    with two units of work.
    """
    folders, found = list(folders), Found([], [])
    units: dict[str, Record] = {}
    for path in dict.fromkeys(_result_files(folders)):
        try:
            record = read_checked(path)
        except RecordError as error:
            found.skipped.append(Skipped(str(error), path, _system_of(path)))
            continue
        wrong = contradictions(record)
        if wrong:
            words = f"{path} contradicts itself, and is left out: {'; '.join(wrong)}"
            found.skipped.append(Skipped(words, path, (record["system"],)))
            continue
        other = units.setdefault(record["benchmark"], record)
        if other["work_unit"] != record["work_unit"]:
            raise RecordError(
                f"{other['file']['path']} counts {other['work_unit']} and {path} counts {record['work_unit']} for one "
                f"benchmark, {record['benchmark']}: they cannot be in one table"
            )
        found.records.append(record)
    for copy, first in list(copies(found.records)):
        files = f"{first['file']['path']} and {copy['file']['path']}"
        if _content(first) != _content(copy):
            raise RecordError(f"{files} are records of one run with different content: give only the right one")
        found.skipped.append(Skipped(f"{files} are the same record: it counts once", Path(copy["file"]["path"])))
        found.records.remove(copy)
    for both in _at_once(found.records):
        words = f"{' and '.join(both)} were measured on one device at the same time: both are left out"
        systems = tuple(dict.fromkeys(record["system"] for record in found.records if record["file"]["path"] in both))
        found.skipped.append(Skipped(words, Path(both[0]), systems))
        found.records[:] = [record for record in found.records if record["file"]["path"] not in both]
    for index, one in enumerate(found.skipped):
        if one.systems == ():
            folder = next(folder for folder in folders if one.path.is_relative_to(folder))
            found.skipped[index] = Skipped(one, one.path, found.systems_below(folder))
    return found


def _system_of(path: Path) -> tuple[str, ...]:
    """Return the system that a damaged record names; empty if it names none."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return ()
    system = content.get("system") if isinstance(content, dict) else None
    return (printable(system),) if isinstance(system, str) else ()


def _at_once(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Files of two runs each whose windows overlap on a device, which is known by its id."""
    windows: dict[tuple[str, str], list[tuple[float, float, str]]] = {}
    for record in records:
        ids: dict[str, set[str]] = {}
        for device in record.get("devices") or []:
            if device["device_id"]:
                ids.setdefault(device["hostname"], set()).add(device["device_id"])
        for one in record.get("windows") or []:
            for device_id in ids.get(one["hostname"], ()) if one["boot_id"] else ():
                edges = (one["start_s"], one["end_s"], record["file"]["path"])
                windows.setdefault((one["boot_id"], device_id), []).append(edges)
    pairs = [pair for of_device in windows.values() for pair in pairwise(sorted(of_device))]
    return list(
        dict.fromkeys(
            (before[2], after[2]) for before, after in pairs if after[0] < before[1] and before[2] != after[2]
        )
    )


def copies(records: Sequence[Record]) -> Iterator[tuple[Record, Record]]:
    """Pair each record with an earlier one of the same run.

    One run has one name and one time of its windows. Its step times never repeat in another one: two records are of one
    run where more than half of the steps of the shorter are in both, to the last digit. Times that a run itself has
    twice do not count: with them the clock is too coarse to tell runs apart.
    """
    named: dict[Any, Record] = {}
    timed: dict[float, int] = {}
    for number, record in enumerate(records):
        names, times_s = _names_of_run(record), record.get("step_times_s") or []
        once = [time_s for time_s, times in Counter(times_s).items() if times == 1 and time_s is not None]
        twin = next((named[name] for name in names if name in named), None)
        for other, shared in Counter(timed[one] for one in once if one in timed).most_common(1):
            if shared > max(FEWEST_TIMES - 1, min(len(times_s), len(records[other]["step_times_s"])) / 2):
                twin = twin or records[other]
        if twin is not None:
            yield record, twin
        named |= {name: record for name in names if name not in named}
        timed |= {one: number for one in once if one not in timed}


def _names_of_run(record: Record) -> list[Any]:
    """By what two records are known to be of one run: its own name, when its windows began on their nodes, and how
    long its steps took, which no clock measures twice alike.
    """
    names: list[Any] = [record["run_id"]] if record.get("run_id") else []
    for kind in ("measured", "effective"):
        began = {
            (window["boot_id"] or window["hostname"], window["start_s"])
            for window in record.get("windows") or []
            if window["kind"] == kind
        }
        if began:
            names.append((record["benchmark"], kind, frozenset(began)))
    times_s = tuple(record.get("step_times_s") or [])
    return [*names, times_s] if len(set(times_s)) >= FEWEST_TIMES else names


def _content(record: Record) -> Record:
    """All of a record but its name and its file."""
    return {key: value for key, value in record.items() if key not in ("run_id", "file")}


def _result_files(folders: Iterable[Path]) -> Iterable[Path]:
    for folder in folders:
        if not folder.exists():
            raise RecordError(f"{folder} does not exist: give a folder of results, such as jube/llm_run/000000")
        yield from [folder] if folder.is_file() else results_below(folder, f"*{RESULT_NAME}")


def results_below(folder: Path, pattern: str = RESULT_NAME) -> list[Path]:
    """The results of a folder's runs, in order; what was run again is no run of its own any more."""
    return sorted(path for path in folder.rglob(pattern) if ATTEMPTS not in path.relative_to(folder).parts)


def read_checked(path: Path) -> Record:
    """One record with its file, each field of which is as the schema has it; raises RecordError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error
    record = _parse(content, path)
    validate, violation = _validator()
    try:
        validate(record)
    except violation as error:
        raise RecordError(
            f"{path} breaks the schema of records: {error}; leave it out or run the point again"
        ) from error
    record["file"] = {"path": str(path), "sha256": hashlib.sha256(content).hexdigest()}
    return record


@cache
def _validator() -> tuple[Callable[[Record], Any], type[Exception]]:
    import fastjsonschema

    return (
        fastjsonschema.compile(_without_references(json.loads(SCHEMA.read_text(encoding="utf-8"))), use_default=False),
        fastjsonschema.JsonSchemaValueException,
    )


def _without_references(schema: Any) -> Any:
    """With each definition in the place where it is meant.

    A reference costs a call and a name for every item of a list, most of the time of reading records of many steps.
    """
    definitions = schema.pop("definitions")

    def put_in(part: Any) -> Any:
        if isinstance(part, list):
            return [put_in(one) for one in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return put_in(definitions[part["$ref"].removeprefix("#/definitions/")])
        return {key: put_in(one) for key, one in part.items()}

    return put_in(schema)
