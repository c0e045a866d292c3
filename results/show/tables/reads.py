"""Tables of file reads from records, and the possible gain of faster storage."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ioprof.summary import MB, size, tier_s, what_to_stage
from record.arithmetic import ratio
from record.model import Reads, WindowReads
from record.values import value_at
from results.files.quantities import quantities
from results.find.records import Record
from results.join.reads import WAITING
from results.points.facts import place_of
from results.points.regions import WINDOWS, median_of_all
from results.points.repeats import PointResults
from results.show.tables.cells import Cell, Table
from results.show.tables.table import PLACE, place_cells

SHOWN_FILES = 8
ENOUGH_PERCENT = 95.0  # of what the kernel counted
COLUMNS = PLACE + quantities(
    *("reads of", "files", "read [MB]", "reads", "kB a read", "reading [s]", "MB/s", "while steps waited [%]"),
    "seen [%]",
)
FILE_COLUMNS = PLACE + quantities(
    *("file", "size [MB]", "opens", "reads", "read [MB]", "in the window [MB]", "while steps waited [MB]"),
    *("sequential [%]", "mapped, not timed [MB]"),
)


def counted(results: Sequence[PointResults]) -> list[PointResults]:
    """Return the points whose good runs all record their reads."""
    return [one for one in results if one.good and all(record.io for record in one.good)]


def read_table(results: Sequence[PointResults]) -> Table:
    """Return rows for the windows and the whole job of each point, as medians."""
    rows: list[list[Cell]] = []
    for one in counted(results):
        parts: dict[str, list[Reads | WindowReads | None]] = {
            f"{kind} window": [record.io.windows.get(kind) for record in one.good] for kind in WINDOWS
        }
        parts["whole job"] = [record.io.job for record in one.good]
        seen = median_of_all([record.io.coverage_percent for record in one.good])
        for name, runs in parts.items():
            if all(runs):
                columns = zip(*(_numbers(run) for run in runs if run), strict=True)
                files, size_mb, reads, *others = map(median_of_all, columns)
                rows.append([*place_cells(one), name, round(files or 0), size_mb, round(reads or 0), *others, seen])
    return Table(COLUMNS, rows)


def _numbers(one: Reads | WindowReads) -> list[float | None]:
    """Return the values of the columns from `files` on; only windows have times."""
    sizes = [one.files, one.bytes / MB, one.reads, ratio(one.bytes / 1e3, one.reads)]
    if not isinstance(one, WindowReads):
        return [*sizes, None, None, None]
    waited = ratio(100 * one.by_region.get(WAITING, 0), one.bytes) if one.by_region else None
    return [*sizes, one.reading_s, ratio(one.bytes / MB, one.reading_s), waited]


def file_table(results: Sequence[PointResults]) -> Table:
    """Return the files with the most bytes read in each point's first run, if possible in windows."""
    rows: list[list[Cell]] = []
    for one in counted(results):
        files = one.good[0].io.files
        in_windows = [file for file in files if file.window_bytes]
        for file in (in_windows or files)[:SHOWN_FILES]:
            sequential = ratio(100 * file.sequential_reads, file.reads)
            sizes = [file.window_bytes / MB, file.waited_for_bytes / MB]
            mapped = file.mapped_bytes / MB if file.maps else None
            cells: list[Cell] = [file.path, file.size_bytes / MB, file.opens, file.reads, file.bytes / MB]
            rows.append([*place_cells(one), *cells, *sizes, sequential, mapped])
    return Table(FILE_COLUMNS, rows)


def of_reads(results: Sequence[PointResults], tier: float | None = None, stage_bytes: float | None = None) -> list[str]:
    """Return the conclusions from each point's first run, each sentence once; `tier` is a storage's MB/s."""
    sentences = []
    for one in counted(results):
        record = one.good[0]
        waits = _waits(record)
        conclusions = [*_storage(waits, tier)] if waits else []
        if stage_bytes:
            files = {file.path: file for file in record.io.files}
            which = "" if len(files) == record.io.job.files else f"of its {len(files)} most read files, "
            most_s = waits.gain_s(tier_s(waits.window.bytes, tier) if tier else 0.0) if waits else math.inf
            conclusions.append(which + what_to_stage(files, stage_bytes, tier, most_s))
        sentences += [f"{place_of(record)}: {text}" for text in (*conclusions, *_not_seen(record))]
    return list(dict.fromkeys(sentences))


class _Waits(NamedTuple):
    """Reads of an effective window, its length, and the time that steps waited for their input, in seconds."""

    window: WindowReads
    window_s: float
    wait_s: float

    def gain_s(self, faster_s: float = 0.0) -> float:
        """Return what a storage saves that needs so long for the same bytes: at most the wait for input."""
        return min(self.wait_s, max(0.0, (self.window.reading_s or 0.0) - faster_s))

    def gain(self, faster_s: float = 0.0) -> str:
        """Return that time in words, with its share of the window."""
        return f"{self.gain_s(faster_s):.3g} s ({100 * self.gain_s(faster_s) / self.window_s:.1f} %) at most"


def _waits(record: Record) -> _Waits | None:
    window = record.io.windows.get("effective")
    wait_percent, window_s = (value_at(record, f"metrics.{key}") for key in ("input_wait_percent", "effective_s"))
    if not window or wait_percent is None or not window_s or not window.reading_s:
        return None
    return _Waits(window, window_s, wait_percent / 100 * window_s)


def _storage(waits: _Waits, tier: float | None) -> Iterator[str]:
    """Yield the largest gain of a faster storage."""
    window, window_s, wait_s = waits
    reading_s = window.reading_s or 0.0
    yield (
        f"in {window_s:.3g} s of effective windows {size(window.bytes)} were read in {reading_s:.3g} s "
        f"({window.bytes / MB / reading_s:,.4g} MB/s), and steps waited {wait_s:.3g} s for their input "
        f"({100 * wait_s / window_s:.1f} %): a faster storage saves {waits.gain()}"
    )
    if tier is not None:
        faster_s = tier_s(window.bytes, tier)
        yield f"storage of {tier:,g} MB/s reads that in {faster_s:.3g} s and saves {waits.gain(faster_s)}"


def _not_seen(record: Record) -> Iterator[str]:
    io = record.io
    if io.job.maps:
        mapped = size(io.job.mapped_bytes)
        yield f"{mapped} were mapped into memory: what of them was read is not counted and not timed"
    if io.coverage_percent is not None and io.coverage_percent < ENOUGH_PERCENT:
        why = "; ".join(io.missing) or "little was read"
        yield f"ONLY {io.coverage_percent:.0f} % of the bytes that the kernel counted were seen: {why}"
    if io.lost_opens or io.lost_stretches:
        yield "some counts were lost: make room in TMPDIR"
