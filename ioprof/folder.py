"""Profiles on disk.

A profile is a folder: `profile.json` has the command and the coverage, `files.csv` a row for each process and file, and
`reads.csv.gz` a row for each stretch of reads. Darshan's logs are converted into the same form.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from ioprof.counts import SIZE_CLASSES, Coverage, FileCounts, ProcessCounts, Profile, Stretch, Stretches
from jpwr.errors import JpwrError
from jpwr.process.whole_file import replacing

FORMAT = 1
PROFILE, FILES, READS = "profile.json", "files.csv", "reads.csv.gz"
COUNTS = [name for name in FileCounts._fields if name not in ("path", "sizes")]
OF_PROCESS = [name for name in ProcessCounts._fields if name not in ("files", "stretches")]
FILE_COLUMNS = ["process", "path", *COUNTS, *(f"reads_{name}" for name in SIZE_CLASSES)]
READ_COLUMNS = ["process", *Stretch._fields]


def save(profile: Profile, folder: Path) -> None:
    """Write a profile to a folder, `profile.json` last as a sign that it is complete. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        (folder / PROFILE).unlink()
    with _text((folder / FILES).open("wb")) as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(FILE_COLUMNS)
        for number, process in enumerate(profile.processes):
            for one in process.files:
                rows.writerow([number, one.path, *(_written(getattr(one, name)) for name in COUNTS), *one.sizes])
    with _text(gzip.open(folder / READS, "wb", compresslevel=4)) as file:
        file.write(",".join(READ_COLUMNS) + "\n")
        for number, process in enumerate(profile.processes):
            for read in process.stretches:
                file.write(f"{number},{','.join(map(_written, read))}\n")
    about = {
        "format": FORMAT,
        **profile.about,
        "without_room": profile.without_room,
        "coverage": profile.coverage and profile.coverage._asdict(),
        "processes": [{name: getattr(process, name) for name in OF_PROCESS} for process in profile.processes],
    }
    with replacing(folder / PROFILE) as file:
        file.write(json.dumps(about, indent=1) + "\n")


def load(folder: Path) -> Profile:
    """Read a profile from a folder; raise JpwrError if it is missing or damaged."""
    path = folder / PROFILE
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        if about.pop("format") != FORMAT:
            raise JpwrError(f"{path} is not in format {FORMAT}: read it with the version of ioprof that wrote it")
        covered, without_room = about.pop("coverage"), int(about.pop("without_room"))
        of_processes = about.pop("processes")
        files: list[list[FileCounts]] = [[] for _ in of_processes]
        with _text((folder / FILES).open("rb")) as file:
            rows = csv.reader(file)
            _check_columns(next(rows, []), FILE_COLUMNS, folder / FILES)
            for number, name, *counts in rows:
                files[int(number)].append(_file(name, counts))
        stretches = [Stretches() for _ in of_processes]
        with _text(gzip.open(folder / READS, "rb")) as file:
            _check_columns(file.readline().rstrip("\n").split(","), READ_COLUMNS, folder / READS)
            for line in file:
                number, of_file, begin_s, end_s, reads, size, busy_s = line.split(",")
                stretches[int(number)].append(
                    Stretch(int(of_file), float(begin_s), float(end_s), int(reads), int(size), float(busy_s))
                )
        processes = [
            ProcessCounts(**{name: one[name] for name in OF_PROCESS}, files=own, stretches=read)
            for one, own, read in zip(of_processes, files, stretches)
        ]
        if any(read.file >= len(process.files) for process in processes for read in process.stretches):
            raise JpwrError(f"the profile in {folder} is damaged: {READS} has a read of a file that {FILES} lacks")
        if covered is not None:
            for name in ("missing", "notes"):
                covered[name] = tuple(covered[name])
            covered = Coverage(**covered)
        return Profile(about, processes, covered, without_room)
    except FileNotFoundError as error:
        raise JpwrError(
            f"{folder} has no profile, because {Path(error.filename).name} is missing: give the folder of --out"
        ) from error
    except OSError as error:
        raise JpwrError(f"the profile in {folder} cannot be read ({error.strerror or error})") from error
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError, csv.Error, zlib.error) as error:
        raise JpwrError(f"the profile in {folder} is damaged ({type(error).__name__}: {error})") from error


def _text(file: Any) -> io.TextIOWrapper:
    # File names are bytes: bytes that are not UTF-8 are written and read unchanged.
    stream: BinaryIO = file
    return io.TextIOWrapper(stream, encoding="utf-8", errors="surrogateescape", newline="")


def _written(value: float) -> str:
    return f"{value:.7f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _check_columns(found: list[str], wanted: list[str], path: Path) -> None:
    if found != wanted:
        raise JpwrError(
            f"{path} does not have the columns {','.join(wanted)}: read it with the version of ioprof that wrote it"
        )


def _file(name: str, counts: list[str]) -> FileCounts:
    own, sizes = counts[: len(COUNTS)], counts[len(COUNTS) :]
    if len(sizes) != len(SIZE_CLASSES):
        raise ValueError(f"a row of {FILES} has {len(counts) + 2} fields")
    values = {column: float(text) if column.endswith("_s") else int(text) for column, text in zip(COUNTS, own)}
    return FileCounts(path=name, **values, sizes=tuple(map(int, sizes)))  # type: ignore[arg-type]
