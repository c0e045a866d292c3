"""Keep records in one SQLite file, each once; traces stay where they are, with their checksums.

The file has a rollback journal, not a write-ahead log: several nodes of a cluster may share it over a file system.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from results.exchange.archive import unpacked
from results.history.series import SECONDS_PER_DAY, time_d
from results.join.serving import REQUESTS_NAME
from results.record.duplicates import content_of, names_of_run
from results.record.findings import finding
from results.record.migrate import migrate
from results.record.model import Json, as_json
from results.record.records import Found, Record, RecordError, Skipped, find_records
from results.record.restated import with_todays_figures

APPLICATION = 0x4352_4D4C  # "CRML", at a fixed place in the file's header (SQLite's database file format, 1.3)
MAGIC = b"SQLite format 3\0"
WAIT_S = 60.0  # for another process that adds
TRACES = ("power/*/trace.csv*", "record.trace.json", REQUESTS_NAME)  # of a run, in the folder of its result
OF_SCHEDULERS = ("slurm", "kubernetes")  # `caraml wait` adds them to a result
UNFINISHED = "unfinished"
EARLIEST = "2020-01-01"  # of a run: an older time is that of a clock that was never set
LATEST_D = 1.0  # days by which a run may be later than its adding: clocks and time zones differ
# Each brings a database from the version of its index to the next; never change one that was released.
MIGRATIONS = (
    """
    CREATE TABLE records (
        id INTEGER PRIMARY KEY, added TEXT NOT NULL, created TEXT NOT NULL,
        path TEXT NOT NULL, sha256 TEXT NOT NULL, record BLOB NOT NULL, record_sha256 TEXT NOT NULL
    );
    CREATE TABLE names (name TEXT PRIMARY KEY, id INTEGER NOT NULL REFERENCES records) WITHOUT ROWID;
    CREATE TABLE traces (id INTEGER NOT NULL REFERENCES records, path TEXT NOT NULL, sha256 TEXT NOT NULL);
    """,
)
STORED = "record, record_sha256, path"
SAME_RUN = f"SELECT {STORED} FROM records JOIN names USING (id) WHERE name IN (SELECT value FROM json_each(?))"


class Added(NamedTuple):
    """Outcome of adding: the number of new records, of those that were there, and a sentence on each other one."""

    new: int
    known: int
    refused: list[str]


def is_database(path: Path) -> bool:
    """Return whether a file begins as one of SQLite."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


@contextmanager
def _opened(path: Path, to_add: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a database in a transaction; one to add to is made or migrated where needed.

    Raises RecordError where it cannot be used; nothing of a transaction that failed stays in the file.
    """
    if not (to_add or path.exists()):
        raise RecordError(f"history {path} does not exist: 'caraml history add' makes it, --db names another")
    try:
        with closing(sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE" if to_add else "BEGIN")
            _check(connection, path, to_add)
            yield connection
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise RecordError(_why(error, path, to_add)) from error


def _why(error: sqlite3.Error, path: Path, to_add: bool) -> str:
    if isinstance(error, sqlite3.OperationalError):  # full, locked for WAIT_S, without permission, a missing folder
        return f"history {path} cannot be {'used, and nothing was added' if to_add else 'read'}: {error}"
    return f"history {path} is damaged ({error}): restore a copy, or move it away and add the results again"


def _check(connection: sqlite3.Connection, path: Path, to_add: bool) -> None:
    [version] = connection.execute("PRAGMA user_version").fetchone()
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION and tables:
        raise RecordError(f"{path} is a database of another program: name a history by --db")
    if version > len(MIGRATIONS):
        raise RecordError(
            f"history {path} has schema version {version}, this version reads up to {len(MIGRATIONS)}: "
            "use the version of the suite that wrote it"
        )
    [found] = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(found)
    if version < len(MIGRATIONS):
        if not to_add:
            raise RecordError(f"history {path} has schema version {version}: 'caraml history add' converts it")
        for script in MIGRATIONS[version:]:
            for statement in script.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")


def add(path: Path, records: Iterable[Record], archive: Path | None = None) -> Added:
    """Add the records that are not there yet, all or none; archive: the one that they are unpacked from.

    A run has several names (see `names_of_run`): one that is known is a copy. A run without a time has that of its
    file; in an archive, none. Raises RecordError.
    """
    new, known, refused = 0, 0, []
    path.parent.mkdir(parents=True, exist_ok=True)
    with _opened(path, to_add=True) as connection:
        for record in records:
            file = Path(record.file.path)
            if record.status == UNFINISHED:
                refused.append(f"{file} is not finished: add it when its job has ended")
                continue
            created = record.provenance.created
            created = created or ("" if archive else _time(file.stat().st_mtime))
            if why := _impossible(created, time.time()):
                refused.append(f"{file} {why}: set the clock of its node and run the point again")
                continue
            # Runs that fail early leave the same content each time, and no name.
            names = [_digest(name) for name in names_of_run(record) or [[created, content_of(record)]]]
            if twin := connection.execute(SAME_RUN, [json.dumps(names)]).fetchone():
                known += 1
                if _measured(Record.of(_whole(*twin))) != _measured(record):
                    refused.append(f"{file} and {twin[2]} are records of one run with different content")
                continue
            new += 1
            text = json.dumps(as_json(record)).encode()
            row = (_time(time.time()), created, str(archive or file.absolute()), record.file.sha256, text)
            stored = (*row, hashlib.sha256(text).hexdigest())
            number = connection.execute("INSERT INTO records VALUES (NULL, ?, ?, ?, ?, ?, ?)", stored).lastrowid
            connection.executemany("INSERT INTO names VALUES (?, ?)", [(name, number) for name in dict.fromkeys(names)])
            traces = [(number, str(archive or trace), digest) for trace, digest in _traces(file)]
            connection.executemany("INSERT INTO traces VALUES (?, ?, ?)", traces)
    return Added(new, known, refused)


def _time(epoch_s: float) -> str:
    return datetime.fromtimestamp(epoch_s, timezone.utc).isoformat(timespec="seconds")


def _impossible(created: str, added_s: float) -> str:
    """Return why a run cannot be of a time, given when it was added; empty if it can, or states none."""
    day = time_d(created) if created else math.nan
    if created and math.isnan(day):
        return f"is of '{created}', which is no time"
    if day > added_s / SECONDS_PER_DAY + LATEST_D:
        return f"is of {created[:10]}, after it was added"
    return f"is of {created[:10]}, before this suite" if day < time_d(EARLIEST) else ""


def _whole(text: bytes, digest: str, path: str) -> Json:
    """Return a stored record; raises DatabaseError if it has changed, which SQLite itself does not notice."""
    if not isinstance(text, bytes) or hashlib.sha256(text).hexdigest() != digest:
        raise sqlite3.DatabaseError(f"the record of {path} has changed")
    record: Json = json.loads(text)
    return record


def _measured(record: Record) -> Json:
    return {key: value for key, value in content_of(record).items() if key not in OF_SCHEDULERS}


def _digest(name: Any) -> str:
    return hashlib.sha256(json.dumps(name, sort_keys=True, default=sorted).encode()).hexdigest()


def _traces(result: Path) -> Iterator[tuple[Path, str]]:
    """Yield each trace of a run with its SHA-256."""
    for path in sorted(path for pattern in TRACES for path in result.parent.glob(pattern)):
        yield path.absolute(), hashlib.sha256(path.read_bytes()).hexdigest()


def add_archive(path: Path, archive: Path, most_gb: float) -> tuple[Added, list[Skipped]]:
    """Add the runs of an archive of `caraml archive`; raises RecordError if any of its files has changed."""
    with unpacked(archive, most_gb) as folder:
        found = find_records([folder])
        return add(path, found.records, archive.absolute()), found.skipped


def read(paths: Sequence[Path]) -> Found:
    """Return all records of some databases, in the order of their creation; raises RecordError without any.

    One of an impossible time has none, and is among those that were skipped: no series has it.
    """
    found = Found([], [])
    for path in paths:
        with _opened(path) as connection:
            for added, created, digest, *stored in connection.execute(
                f"SELECT added, created, sha256, {STORED} FROM records ORDER BY created, id"
            ):
                record = _whole(*stored)
                if why := _impossible(created, SECONDS_PER_DAY * time_d(added)):
                    reason = finding("unusable", reason=f"{stored[2]} {why}")
                    found.skipped.append(Skipped(reason, path, (str(record.get("system")),)))
                    created = ""
                if not migrate(record):
                    raise RecordError(f"history {path} has records of a newer version of the suite: use that version")
                found.records.append(
                    with_todays_figures(Record.from_file(record, path=stored[2], sha256=digest, created=created))
                )
    if not found.records:
        raise RecordError(f"no record in {', '.join(map(str, paths))}: add some with 'caraml history add'")
    return found
