"""File reads of a run: the profiles of its nodes, joined with its windows and with the host's activity in them.

Standard library, ioprof's and jpwr's core only, as it runs where jobs are collected.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ioprof.counts import Profile, Stretch
from ioprof.folder import load
from ioprof.summary import Sum, by_file, reading_s, total
from jpwr.errors import JpwrError
from record.derivation import KINDS
from record.model import FileReads, JobReads, Reads, Record, WindowReads
from results.join.nodes import of_node

PROFILES = "io/*/profile.json"
TIMES_NAME = "record.regions.json"
WAITING = "IO"  # the region in which a step waits for its input
KEPT = 20  # files with the most bytes
Times = list[tuple[float, float, str]]  # begin, end and name of periods that do not overlap, in the order of time


class InWindows(NamedTuple):
    """Reads in the windows of one kind, over all nodes, and their bytes by file."""

    reads: WindowReads
    files: Mapping[str, float]
    waited_for: Mapping[str, float]  # while a step waited


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
    by_kind = {kind: _in_windows(record, kind, profiles, ranks) for kind in KINDS if record.windows_of(kind)}
    files = by_file(*profiles)
    read = [by_kind[kind] for kind in reversed(KINDS) if kind in by_kind and by_kind[kind].files]
    sizes, waited_for = (read[0].files, read[0].waited_for) if read else ({}, {})
    first = sorted(files, key=lambda path: (-sizes.get(path, 0.0), -files[path].bytes, path))[:KEPT]
    kept = [
        FileReads(
            path=_printable(path),
            **_counts(files[path]),
            window_bytes=round(sizes.get(path, 0.0)),
            waited_for_bytes=round(waited_for.get(path, 0.0)),
        )
        for path in first
    ]
    return JobReads(
        **_coverage(profiles),
        job=Reads(**_counts(total(files.values()))),
        windows={kind: sums.reads for kind, sums in by_kind.items()},
        files=kept,
    )


def _in_windows(record: Record, kind: str, profiles: Sequence[Profile], ranks: Sequence[dict[str, Any]]) -> InWindows:
    """Return the reads of each node in its windows, by the regions that its ranks were in meanwhile."""
    files, waited_for, by_region = (defaultdict[str, float](float) for _ in range(3))
    reads = longest_s = 0.0
    for hostname, windows in record.windows_of(kind).items():
        place = of_node(windows[0], [profile.about for profile in profiles])
        of_ranks = [rank[kind] for rank in ranks if rank["node"] == (hostname, windows[0].boot_id)]
        times, parts = sorted((window.start_s, window.end_s, kind) for window in windows), list[Stretch]()
        processes = () if place is None else profiles[place].processes
        of_files = ((process.files[one.file].path, one) for process in processes for one in process.stretches)
        for path, stretch in of_files:
            for _, begin_s, end_s, share in shares(times, stretch.begin_s, stretch.end_s):
                size = stretch.bytes * share
                parts.append(stretch._replace(begin_s=begin_s, end_s=end_s, busy_s=stretch.busy_s * share))
                files[path] += size
                reads += stretch.reads * share
                for name, _, _, part_share in (one for rank in of_ranks for one in shares(rank, begin_s, end_s)):
                    by_region[name] += size * part_share / len(of_ranks)
                    if name == WAITING:
                        waited_for[path] += size * part_share / len(of_ranks)
        longest_s = max(longest_s, reading_s(parts))
    in_windows = WindowReads(
        files=len(files),
        bytes=round(math.fsum(files.values())),
        reads=round(reads),
        reading_s=longest_s,
        by_region={name: round(size) for name, size in sorted(by_region.items())},
    )
    return InWindows(in_windows, files, waited_for)


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
        "lost_opens": sum(process.lost_files for process in processes) + sum(one.without_room for one in profiles),
        "lost_stretches": sum(process.lost_stretches for process in processes),
    }


def _counts(sums: Sum) -> dict[str, Any]:
    return {name: value for name, value in vars(sums).items() if name not in ("open_s", "sizes")}


def _printable(text: str) -> str:
    """Return a file name with bytes that are not UTF-8 escaped."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
