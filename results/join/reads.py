"""File reads of a run: the profiles of its nodes, joined with its windows and with the host's activity in them.

Standard library, ioprof's and jpwr's core only, as it runs where jobs are collected.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ioprof.counts import SIZE_CLASSES, Profile
from ioprof.folder import load
from ioprof.summary import Sum, by_file, by_folder, most, over_time, reading_s, stretches, total
from jpwr.errors import JpwrError
from record.model import Window
from record.parts import of_node, windows_of
from results.find.records import Record

PROFILES = "io/*/profile.json"
TIMES_NAME = "record.regions.json"
KINDS = ("measured", "effective")
WAITING = "IO"  # the region in which a step waits for its input
KEPT = 20  # files, and folders, with the most bytes
DIGITS = 6  # decimals of the times of parts
Sizes = defaultdict[str, float]


@dataclass
class WindowSums:
    """Reads in the windows of one kind, over all nodes."""

    bytes: float = 0.0
    reads: float = 0.0
    read_s: float = 0.0  # over all threads
    reading_s: float = 0.0  # in which any thread read, on the node where that took longest
    by_region: Sizes = field(default_factory=lambda: defaultdict(float))  # bytes read while the host was in the region
    files: Sizes = field(default_factory=lambda: defaultdict(float))
    files_waited_for: Sizes = field(default_factory=lambda: defaultdict(float))  # bytes read while a step waited


class Times:
    """Named periods of time, which do not overlap."""

    def __init__(self, pieces: Iterable[tuple[float, float, str]]) -> None:
        self._pieces = sorted(pieces)
        self._begins_s = [piece[0] for piece in self._pieces]

    def shares(self, begin_s: float, end_s: float) -> Iterator[tuple[str, float, float, float]]:
        """Yield the name, begin, end and share of the time of each period between two moments, in seconds."""
        at = max(0, bisect_right(self._begins_s, begin_s) - 1)
        while at < len(self._pieces) and self._pieces[at][0] <= end_s:
            first_s, last_s, name = self._pieces[at]
            first_s, last_s = max(first_s, begin_s), min(last_s, end_s)
            if begin_s == end_s:
                if first_s <= last_s:
                    yield name, first_s, last_s, 1.0
                    return
            elif last_s > first_s:
                yield name, first_s, last_s, (last_s - first_s) / (end_s - begin_s)
            at += 1


class Rank(NamedTuple):
    """Activity of one process's host, by kind of window."""

    hostname: str
    boot_id: str
    times: dict[str, Times]


def reads_of(record: Record, folder: Path) -> dict[str, Any] | None:
    """Return the record's `io`, from a job's folder; None if no reads were counted. Raises JpwrError."""
    profiles = [load(path.parent) for path in sorted(folder.glob(PROFILES))]
    if not profiles:
        return None
    by_kind = {kind: _of_windows(windows_of(record, kind), kind, profiles, _ranks(folder)) for kind in KINDS}
    files = by_file(*profiles)
    in_windows = {path for reads in by_kind.values() for path in reads.files}
    return {
        "source": profiles[0].about.get("source"),
        **_coverage(profiles),
        "job": _dict(total(files.values())),
        "data": _dict(total(files[path] for path in in_windows)),  # of the files that windows read
        "windows": {kind: _window(one) for kind, one in by_kind.items() if windows_of(record, kind)},
        "files": _most_read(files, by_kind["effective"] if by_kind["effective"].reads else by_kind["measured"]),
        "folders": [{"path": _printable(path), **_dict(one)} for path, one in most(by_folder(files), KEPT)],
        "over_time": [_over_time(profile) for profile in profiles],
    }


def _of_windows(
    nodes: Mapping[str, Sequence[Window]], kind: str, profiles: Sequence[Profile], ranks: Sequence[Rank]
) -> WindowSums:
    window_reads = WindowSums()
    for hostname, windows in nodes.items():
        if profile := of_node(windows[0], profiles, lambda one: one.about):
            edges = Times((window.start_s, window.end_s, kind) for window in windows)
            node = (hostname, windows[0].boot_id)
            _add_node(
                window_reads, edges, profile, [one.times[kind] for one in ranks if (one.hostname, one.boot_id) == node]
            )
    return window_reads


def _coverage(profiles: Sequence[Profile]) -> dict[str, Any]:
    processes = [process for profile in profiles for process in profile.processes]
    covered = [profile.coverage for profile in profiles if profile.coverage]
    kernel_bytes, seen_bytes = sum(one.kernel_bytes for one in covered), sum(one.seen_bytes for one in covered)
    return {
        "coverage_percent": min(100.0, 100 * seen_bytes / kernel_bytes) if kernel_bytes else None,
        "missing": [_printable(text) for one in covered for text in one.missing],
        "notes": [_printable(text) for one in covered for text in one.notes],
        "lost_opens": sum(process.lost_files for process in processes) + sum(one.without_room for one in profiles),
        "lost_stretches": sum(process.lost_stretches for process in processes),
    }


def _most_read(files: dict[str, Sum], window_reads: WindowSums) -> list[dict[str, Any]]:
    first = sorted(files, key=lambda path: (-window_reads.files.get(path, 0.0), -files[path].bytes, path))[:KEPT]
    return [
        {
            "path": _printable(path),
            **_dict(files[path]),
            "window_bytes": round(window_reads.files.get(path, 0.0)),
            "waited_for_bytes": round(window_reads.files_waited_for.get(path, 0.0)),
        }
        for path in first
    ]


def _add_node(window_reads: WindowSums, windows: Times, profile: Profile, ranks: Sequence[Times]) -> None:
    """Add the reads of one node in windows of one kind, by the regions that its ranks were in meanwhile."""
    parts = []
    for process in profile.processes:
        for one in process.stretches:
            path = process.files[one.file].path
            for _, begin_s, end_s, share in windows.shares(one.begin_s, one.end_s):
                size = one.bytes * share
                parts.append(one._replace(begin_s=begin_s, end_s=end_s, busy_s=one.busy_s * share))
                window_reads.bytes += size
                window_reads.reads += one.reads * share
                window_reads.read_s += one.busy_s * share
                window_reads.files[path] += size
                for rank in ranks:
                    for name, _, _, part_share in rank.shares(begin_s, end_s):
                        window_reads.by_region[name] += size * part_share / len(ranks)
                        if name == WAITING:
                            window_reads.files_waited_for[path] += size * part_share / len(ranks)
    window_reads.reading_s = max(window_reads.reading_s, reading_s(parts))


def _ranks(folder: Path) -> list[Rank]:
    """Return the activity of each rank's host in the windows; empty without its file.

    Raises JpwrError if the file cannot be read.
    """
    path = folder / TIMES_NAME
    try:
        return [
            Rank(one["hostname"], one["boot_id"], {kind: _times(one["windows"], kind) for kind in KINDS})
            for one in json.loads(path.read_text())
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise JpwrError(f"{path} cannot be read ({type(error).__name__}: {error})") from error


def _times(windows: Sequence[dict[str, Any]], kind: str) -> Times:
    return Times(
        (float(begin_s), float(end_s), str(window["names"][which]))
        for window in windows
        if window["kind"] == kind
        for which, begin_s, end_s in zip(window["which"], window["edges_s"], window["edges_s"][1:], strict=False)
    )


def _window(one: WindowSums) -> dict[str, Any]:
    return {
        "files": len(one.files),
        "bytes": round(one.bytes),
        "reads": round(one.reads),
        "read_s": one.read_s,
        "reading_s": one.reading_s,
        "by_region": {name: round(size) for name, size in sorted(one.by_region.items())},
    }


def _dict(one: Sum) -> dict[str, Any]:
    numbers = {name: value for name, value in vars(one).items() if name != "sizes"}
    return {
        **numbers,
        "reads_by_size": {name: count for name, count in zip(SIZE_CLASSES, one.sizes, strict=True) if count},
    }


def _over_time(profile: Profile) -> dict[str, Any]:
    begin_s, end_s = profile.about.get("begin_s", 0.0), profile.about.get("end_s", 0.0)
    part_s, parts = over_time(stretches(profile), begin_s, end_s)
    return {
        "hostname": profile.about.get("hostname", ""),
        "boot_id": profile.about.get("boot_id", ""),
        "begin_s": round(begin_s, DIGITS),
        "part_s": round(part_s, DIGITS),
        "bytes": [round(size) for size in parts],
    }


def _printable(text: str) -> str:
    """Return a file name with bytes that are not UTF-8 escaped."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
