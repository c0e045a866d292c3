"""Darshan's logs, converted into profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ioprof.counts import SIZE_CLASSES, FileCounts, ProcessCounts, Profile, Stretch, Stretches
from jpwr.errors import JpwrError

DARSHAN = ".darshan"
STREAMS = ("<STDIN>", "<STDOUT>", "<STDERR>")


def from_darshan(path: Path) -> Profile:
    """Read a log of Darshan by PyDarshan: counters of the POSIX and STDIO modules, and times if DXT was on.

    A rank is a process; counters that Darshan has reduced over all ranks are process -1. Times in seconds are since the
    job's start. The size of a file is the largest offset that was read. `open_s` includes seeks, stats and the like.
    Raises JpwrError without PyDarshan, and for a missing or damaged file.
    """
    try:
        import darshan
    except ImportError as error:
        raise JpwrError(
            f"{path} is a log of Darshan, but PyDarshan is not installed: pip install darshan, or the extra 'darshan'"
        ) from error
    except RuntimeError as error:  # for some releases of Python, its package lacks the library
        raise JpwrError(
            f"{path} is a log of Darshan, but PyDarshan does not find its library libdarshan-util.so: install "
            "Darshan's utilities and add their folder to LD_LIBRARY_PATH, or use Python 3.12 or older"
        ) from error
    if not path.is_file():
        raise JpwrError(f"{path} does not exist: check the path of the log")
    try:
        report = darshan.DarshanReport(str(path), read_all=False)
        return _of_report(report)
    except (RuntimeError, OSError, ValueError, KeyError) as error:
        raise JpwrError(f"{path} cannot be read as a log of Darshan ({type(error).__name__}: {error})") from error


def _of_report(report: Any) -> Profile:
    job = report.metadata["job"]
    start_s = job["start_time_sec"] + 1e-9 * job.get("start_time_nsec", 0)
    files: dict[int, dict[int, list[FileCounts]]] = {}
    for module in ("POSIX", "STDIO"):
        if module not in report.modules:
            continue
        report.mod_read_all_records(module)
        tables = report.records[module].to_df()
        for counters, seconds in zip(tables["counters"].to_dict("records"), tables["fcounters"].to_dict("records")):
            record = int(counters["id"])
            name = report.name_records.get(record, f"file {record}")
            found = None if name in STREAMS else _counts(name, module, counters, seconds)
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


def _counts(name: str, module: str, counters: dict[str, Any], seconds: dict[str, Any]) -> FileCounts | None:
    """Return the reads of a file through one module; None without any. STDIO counts neither maps nor sizes of reads."""
    number = {key[6:]: max(0, int(value)) for key, value in counters.items() if key.startswith(f"{module}_")}
    maps = number.get("MMAPS", 0)
    if not (number["READS"] or maps):
        return None
    sizes = tuple(value for key, value in number.items() if key.startswith("SIZE_READ_"))
    times = (seconds[f"{module}_F_READ_TIME"], seconds[f"{module}_F_META_TIME"])
    largest = number["MAX_BYTE_READ"] + 1 if number["BYTES_READ"] else 0
    read = (number["OPENS"], number["READS"], number["BYTES_READ"], *times, number.get("CONSEC_READS", 0), maps, 0)
    return FileCounts(name, *read, largest, sizes or (0,) * len(SIZE_CLASSES))


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
