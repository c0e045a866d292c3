"""File reads of a run: the profiles of its nodes, joined with its windows and with the host's activity in them.

Standard library, ioprof's and jpwr's core only, as it runs where jobs are collected.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ioprof.counts import SIZE_CLASSES, Profile
from ioprof.folder import load
from ioprof.summary import Sum, by_file, over_time, reading_s, stretches, total
from jpwr.errors import JpwrError
from record.checks.run import KINDS
from record.model import FileReads, JobReads, Reads, ReadsOverTime, Record, WindowReads
from record.part import changed
from record.parts import of_node, windows_of

PROFILES = "io/*/profile.json"
TIMES_NAME = "record.regions.json"
WAITING = "IO"  # the region in which a step waits for its input
KEPT = 20  # files with the most bytes
DIGITS = 6  # decimals of the times of parts
Sizes = defaultdict[str, float]
Times = list[tuple[float, float, str]]  # begin, end and name of periods that do not overlap, in the order of time


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

    def add(self, windows: Times, profile: Profile, ranks: Sequence[Times]) -> None:
        """Add the reads of one node in its windows, by the regions that its ranks were in meanwhile."""
        parts = []
        for process in profile.processes:
            for stretch in process.stretches:
                path = process.files[stretch.file].path
                for _, begin_s, end_s, share in shares(windows, stretch.begin_s, stretch.end_s):
                    size = stretch.bytes * share
                    parts.append(stretch._replace(begin_s=begin_s, end_s=end_s, busy_s=stretch.busy_s * share))
                    self.bytes += size
                    self.reads += stretch.reads * share
                    self.read_s += stretch.busy_s * share
                    self.files[path] += size
                    for name, _, _, part_share in (one for rank in ranks for one in shares(rank, begin_s, end_s)):
                        self.by_region[name] += size * part_share / len(ranks)
                        if name == WAITING:
                            self.files_waited_for[path] += size * part_share / len(ranks)
        self.reading_s = max(self.reading_s, reading_s(parts))


def shares(times: Times, begin_s: float, end_s: float) -> Iterator[tuple[str, float, float, float]]:
    """Yield the name, begin, end and share of the time of each period between two moments, in seconds."""
    for at in range(max(0, bisect_right(times, (begin_s, math.inf, "")) - 1), len(times)):
        first_s, last_s, name = times[at]
        if first_s > end_s:
            return
        first_s, last_s = max(first_s, begin_s), min(last_s, end_s)
        if last_s > first_s:
            yield name, first_s, last_s, (last_s - first_s) / (end_s - begin_s)
        elif begin_s == end_s and first_s == last_s:
            yield name, first_s, last_s, 1.0
            return


def reads_of(record: Record, folder: Path) -> JobReads | None:
    """Return the record's `io`, from a job's folder; None if no reads were counted. Raises JpwrError."""
    profiles = [load(path.parent) for path in sorted(folder.glob(PROFILES))]
    if not profiles:
        return None
    ranks = _ranks(folder)
    by_kind = {kind: _in_windows(record, kind, profiles, ranks) for kind in KINDS if windows_of(record, kind)}
    files = by_file(*profiles)
    in_windows = {path for sums in by_kind.values() for path in sums.files}
    ranked = next((sums for kind in reversed(KINDS) if (sums := by_kind.get(kind)) and sums.reads), WindowSums())
    first = sorted(files, key=lambda path: (-ranked.files.get(path, 0.0), -files[path].bytes, path))[:KEPT]
    kept = [
        FileReads(
            path=_printable(path),
            **_counts(files[path]),
            window_bytes=round(ranked.files.get(path, 0.0)),
            waited_for_bytes=round(ranked.files_waited_for.get(path, 0.0)),
        )
        for path in first
    ]
    reads = JobReads(
        **_coverage(profiles),
        job=Reads(**_counts(total(files.values()))),
        data=Reads(**_counts(total(files[path] for path in in_windows))),
        windows={kind: _window(sums) for kind, sums in by_kind.items()},
        files=kept,
        over_time=list(map(_over_time, profiles)),
    )
    return changed(reads, source=profiles[0].about.get("source"))


def _in_windows(record: Record, kind: str, profiles: Sequence[Profile], ranks: Sequence[dict[str, Any]]) -> WindowSums:
    sums = WindowSums()
    for hostname, windows in windows_of(record, kind).items():
        if profile := of_node(windows[0], profiles, lambda one: one.about):
            node = hostname, windows[0].boot_id
            of_ranks = [rank[kind] for rank in ranks if rank["node"] == node]
            sums.add(sorted((window.start_s, window.end_s, kind) for window in windows), profile, of_ranks)
    return sums


def _ranks(folder: Path) -> list[dict[str, Any]]:
    """Return the node of each rank, and its host's activity by kind of window; empty without their file.

    Raises JpwrError if the file cannot be read.
    """
    path = folder / TIMES_NAME
    try:
        return [
            {"node": (rank["hostname"], rank["boot_id"]), **{kind: _times(rank["windows"], kind) for kind in KINDS}}
            for rank in json.loads(path.read_text())
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise JpwrError(f"{path} cannot be read ({type(error).__name__}: {error})") from error


def _times(windows: Sequence[dict[str, Any]], kind: str) -> Times:
    return sorted(
        (float(begin_s), float(end_s), str(window["names"][which]))
        for window in windows
        if window["kind"] == kind
        for which, begin_s, end_s in zip(window["which"], window["edges_s"], window["edges_s"][1:], strict=False)
    )


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


def _window(sums: WindowSums) -> WindowReads:
    return WindowReads(
        files=len(sums.files),
        bytes=round(sums.bytes),
        reads=round(sums.reads),
        read_s=sums.read_s,
        reading_s=sums.reading_s,
        by_region={name: round(size) for name, size in sorted(sums.by_region.items())},
    )


def _counts(sums: Sum) -> dict[str, Any]:
    by_size = {name: count for name, count in zip(SIZE_CLASSES, sums.sizes, strict=True) if count}
    return {name: value for name, value in vars(sums).items() if name != "sizes"} | {"reads_by_size": by_size}


def _over_time(profile: Profile) -> ReadsOverTime:
    about: dict[str, Any] = {"hostname": "", "boot_id": "", "begin_s": 0.0, "end_s": 0.0} | profile.about
    part_s, parts = over_time(stretches(profile), about["begin_s"], about["end_s"])
    return ReadsOverTime(
        hostname=about["hostname"],
        boot_id=about["boot_id"],
        begin_s=round(about["begin_s"], DIGITS),
        part_s=round(part_s, DIGITS),
        bytes=[round(size) for size in parts],
    )


def _printable(text: str) -> str:
    """Return a file name with bytes that are not UTF-8 escaped."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
