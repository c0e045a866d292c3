"""Darshan's logs and DFTracer's traces, converted into profiles."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any, Iterable, Iterator, Sequence

from ioprof.counts import SIZE_CLASSES, FileCounts, ProcessCounts, Profile, Stretch, Stretches
from ioprof.errors import IoprofError

US = 1e-6
DARSHAN, DFTRACER = ".darshan", (".pfw", ".pfw.gz")
# Upper bounds of the size classes in bytes, as in preload.c; the last class has none.
UP_TO = (100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30)
STREAMS = ("<STDIN>", "<STDOUT>", "<STDERR>")
OPENS = {"open", "open64", "openat", "openat64", "fopen", "fopen64"}
READS = {"read", "pread", "pread64", "readv", "preadv", "fread"}
SEEKS = {"lseek", "lseek64", "fseek", "rewind"}


def read_other(paths: Sequence[Path]) -> Profile | None:
    """Return a profile of another tool's files; None by other file names. Raises IoprofError for damaged files."""
    if all(path.name.endswith(DFTRACER) for path in paths):
        return from_dftracer(paths)
    if len(paths) == 1 and paths[0].name.endswith(DARSHAN):
        return from_darshan(paths[0])
    return None


def from_darshan(path: Path) -> Profile:
    """Read a log of Darshan by PyDarshan: counters of the POSIX and STDIO modules, and times if DXT was on.

    A rank is a process; counters that Darshan has reduced over all ranks are process -1. Times in seconds are since the
    job's start. The size of a file is the largest offset that was read. `open_s` includes seeks, stats and the like.
    Raises IoprofError without PyDarshan, and for a missing or damaged file.
    """
    try:
        import darshan
    except ImportError as error:
        raise IoprofError(
            f"{path} is a log of Darshan, but PyDarshan is not installed: pip install darshan, or the extra 'darshan'"
        ) from error
    except RuntimeError as error:  # for some releases of Python, its package lacks the library
        raise IoprofError(
            f"{path} is a log of Darshan, but PyDarshan does not find its library libdarshan-util.so: install "
            "Darshan's utilities and add their folder to LD_LIBRARY_PATH, or use Python 3.12 or older"
        ) from error
    if not path.is_file():
        raise IoprofError(f"{path} does not exist: check the path of the log")
    try:
        report = darshan.DarshanReport(str(path), read_all=False)
        return _of_report(report)
    except (RuntimeError, OSError, ValueError, KeyError) as error:
        raise IoprofError(f"{path} cannot be read as a log of Darshan ({type(error).__name__}: {error})") from error


def _of_report(report: Any) -> Profile:
    job = report.metadata["job"]
    start_s = job["start_time_sec"] + 1e-9 * job.get("start_time_nsec", 0)
    files: dict[int, dict[int, list[FileCounts]]] = {}
    for module, of_row in (("POSIX", _posix), ("STDIO", _stdio)):
        if module not in report.modules:
            continue
        report.mod_read_all_records(module)
        tables = report.records[module].to_df()
        for counters, seconds in zip(tables["counters"].to_dict("records"), tables["fcounters"].to_dict("records")):
            record = int(counters["id"])
            name = report.name_records.get(record, f"file {record}")
            found = None if name in STREAMS else of_row(name, counters, seconds)
            if found is not None:
                files.setdefault(int(counters["rank"]), {}).setdefault(record, []).append(found)
    times = _dxt(report)
    processes = []
    for rank in sorted(files.keys() | times.keys()):
        of_rank = files.get(rank, {})
        for record in times.get(rank, {}).keys() - of_rank.keys():  # files whose counters are reduced over all ranks
            of_rank[record] = []
        every: list[FileCounts] = []
        stretches = Stretches()
        for record, parts in of_rank.items():
            reads = times.get(rank, {}).get(record, [])
            for begin_s, end_s, size in reads:
                stretches.append(Stretch(len(every), begin_s, end_s, 1, size, end_s - begin_s))
            every.append(_added(report.name_records.get(record, f"file {record}"), parts))
        processes.append(ProcessCounts(rank, 0, 0.0, report.metadata["exe"], 0, 0, 0, 0.0, 0, 0, every, stretches))
    about = {
        "source": f"Darshan {job.get('metadata', {}).get('lib_ver', '')}".strip(),
        "command": report.metadata["exe"].split(),
        "exit_code": None,
        "hostname": "",
        "boot_id": "",
        "epoch_offset_s": start_s,
        "begin_s": 0.0,
        "end_s": float(job.get("run_time", 0.0)),
    }
    return Profile(about, processes, None)


def _posix(name: str, counters: dict[str, Any], seconds: dict[str, Any]) -> FileCounts | None:
    number = {key[6:]: max(0, int(value)) for key, value in counters.items() if key.startswith("POSIX_")}
    if not (number["READS"] or number["MMAPS"]):
        return None
    sizes = tuple(value for key, value in number.items() if key.startswith("SIZE_READ_"))
    times = (seconds["POSIX_F_READ_TIME"], seconds["POSIX_F_META_TIME"])
    consecutive = number["CONSEC_READS"]
    largest = number["MAX_BYTE_READ"] + 1 if number["BYTES_READ"] else 0
    counts = (number["OPENS"], number["READS"], number["BYTES_READ"], *times, consecutive, number["MMAPS"], 0, largest)
    return FileCounts(name, *counts, sizes)


def _stdio(name: str, counters: dict[str, Any], seconds: dict[str, Any]) -> FileCounts | None:
    number = {key[6:]: max(0, int(value)) for key, value in counters.items() if key.startswith("STDIO_")}
    if not number["READS"]:
        return None
    times = (seconds["STDIO_F_READ_TIME"], seconds["STDIO_F_META_TIME"])
    largest = number["MAX_BYTE_READ"] + 1 if number["BYTES_READ"] else 0
    counts = (number["OPENS"], number["READS"], number["BYTES_READ"], *times, 0, 0, 0, largest)
    return FileCounts(name, *counts, (0,) * len(SIZE_CLASSES))


def _dxt(report: Any) -> dict[int, dict[int, list[tuple[float, float, int]]]]:
    """Return begin and end in seconds and bytes of each read, by rank and file."""
    found: dict[int, dict[int, list[tuple[float, float, int]]]] = {}
    if "DXT_POSIX" not in report.modules:
        return found
    report.mod_read_all_dxt_records("DXT_POSIX")
    for one in report.records["DXT_POSIX"].to_df():
        reads = one["read_segments"]
        if len(reads):
            rows = zip(reads["start_time"], reads["end_time"], reads["length"])
            of_file = found.setdefault(int(one["rank"]), {}).setdefault(int(one["id"]), [])
            of_file += [(float(begin_s), float(end_s), int(size)) for begin_s, end_s, size in rows]
    return found


def _added(name: str, parts: list[FileCounts]) -> FileCounts:
    """Return the sum of the reads of one file through several modules."""
    whole = FileCounts(name, 0, 0, 0, 0.0, 0.0, 0, 0, 0, 0, (0,) * len(SIZE_CLASSES))
    for one in parts:
        sums = {key: getattr(whole, key) + getattr(one, key) for key in FileCounts._fields[1:-2]}
        sizes = tuple(ours + theirs for ours, theirs in zip(whole.sizes, one.sizes))
        whole = whole._replace(**sums, size_bytes=max(whole.size_bytes, one.size_bytes), sizes=sizes)
    return whole


class _Reads:
    """Reads of one file by one process, added event by event."""

    def __init__(self) -> None:
        self.opens = self.reads = self.bytes = self.sequential = self.largest = 0
        self.read_s = self.open_s = 0.0
        self.sizes = [0] * len(SIZE_CLASSES)
        self.expected: int | None = 0  # offset of a sequential read; None after a seek

    def read(self, size: int, offset: int | None, busy_s: float) -> None:
        """Add a read of `size` bytes, at an offset or, if it is None, where the previous one ended."""
        at = self.expected if offset is None else offset
        self.sequential += at is not None and at == self.expected
        self.expected = (at or 0) + size
        self.largest = max(self.largest, self.expected)
        self.reads += 1
        self.bytes += size
        self.read_s += busy_s
        self.sizes[sum(size > most for most in UP_TO)] += 1

    def counts(self, path: str) -> FileCounts:
        """Return the sums for a path."""
        numbers = (self.opens, self.reads, self.bytes, self.read_s, self.open_s, self.sequential, 0, 0, self.largest)
        return FileCounts(path, *numbers, tuple(self.sizes))


def from_dftracer(paths: Iterable[Path]) -> Profile:
    """Read the traces of one run of DFTracer with DFTRACER_INC_METADATA=1; raise IoprofError.

    Times in seconds are since the first event.
    """
    names: dict[str, str] = {}
    files: dict[int, dict[str, _Reads]] = {}
    reads: dict[int, list[tuple[str, float, float, int]]] = {}
    commands: dict[int, str] = {}
    nameless = 0
    first_s, last_s = float("inf"), 0.0
    for path in paths:
        for event in _events(path):
            arguments = event.get("args") or {}
            if event.get("name") in ("FH", "SH"):
                names[str(arguments.get("value"))] = str(arguments.get("name"))
                continue
            if not isinstance(event.get("ts"), int):
                continue
            pid, begin_s, busy_s = int(event["pid"]), event["ts"] * US, int(event.get("dur", 0)) * US
            first_s, last_s = min(first_s, begin_s), max(last_s, begin_s + busy_s)
            if event["name"] == "start":
                commands[pid] = str(arguments.get("cmd_hash", ""))
            if event.get("cat") not in ("POSIX", "STDIO") or event["name"] not in OPENS | READS | SEEKS:
                continue
            if "fhash" not in arguments:
                nameless += 1
                continue
            of_file = files.setdefault(pid, {}).setdefault(str(arguments["fhash"]), _Reads())
            size = arguments.get("ret")
            if event["name"] in OPENS:
                of_file.opens += 1
                of_file.open_s += busy_s
                of_file.expected = 0
            elif event["name"] in SEEKS:
                of_file.expected = None
            elif isinstance(size, int) and size >= 0:
                of_file.read(size, arguments.get("offset"), busy_s)
                reads.setdefault(pid, []).append((str(arguments["fhash"]), begin_s, begin_s + busy_s, size))
    if nameless and not files:
        raise IoprofError("the trace has no file names: trace again with DFTRACER_INC_METADATA=1")
    processes = []
    for pid, of_process in files.items():
        places, stretches = {name: at for at, name in enumerate(of_process)}, Stretches()
        for name, begin_s, end_s, size in reads.get(pid, []):
            stretches.append(Stretch(places[name], begin_s - first_s, end_s - first_s, 1, size, end_s - begin_s))
        counts = [one.counts(names.get(name, name)) for name, one in of_process.items()]
        command = names.get(commands.get(pid, ""), "").replace(";", " ")
        processes.append(ProcessCounts(pid, 0, 0.0, command, 0, 0, 0, 0.0, 0, 0, counts, stretches))
    about: dict[str, Any] = {
        "source": "DFTracer",
        "command": [],
        "exit_code": None,
        "hostname": "",
        "boot_id": "",
        "epoch_offset_s": 0.0 if first_s > last_s else first_s,
        "begin_s": 0.0,
        "end_s": max(0.0, last_s - first_s),
    }
    return Profile(about, processes, None)


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a file; a truncated last line, as of a killed process, is ignored. Raises IoprofError."""
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                text = line.strip().rstrip(",")
                if not text.startswith("{"):
                    continue
                try:
                    event = json.loads(text)
                except ValueError as error:
                    if not line.endswith("\n"):
                        return
                    raise IoprofError(f"{path}, line {number}, is not an event of DFTracer ({error})") from error
                yield event
    except EOFError:
        return
    except (OSError, UnicodeDecodeError, zlib.error) as error:
        raise IoprofError(f"{path} cannot be read as a trace of DFTracer ({error})") from error
