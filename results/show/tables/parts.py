"""The time of training steps by region, and their file reads with the possible gain of faster storage, as tables."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from ioprof.summary import MB, size, tier_s, what_to_stage
from record.arithmetic import ratio
from record.model import Reads, Region, Regions, WindowReads
from record.part import changed
from record.values import value_at
from results.files.quantities import Quantity, Shown, quantities
from results.find.records import Record
from results.join.reads import WAITING
from results.points.facts import place_of
from results.points.repeats import PointResults
from results.show.tables.cells import Cell, Table
from results.show.tables.table import PLACE, place_cells

# In the order of a step; other regions of a workload follow, and the time outside of all regions is last.
ORDER = ("IO", "Forward", "Forward+Backward", "Backward", "Comm", "Update")
OTHER = "Other"
WINDOWS = ("measured", "effective")
TIMED_BY = {"host": "host's clock", "device": "device's events", "in parts": "split steps"}
ABSENT = Region(median_s=None, share_percent=None)
WINDOW, *REST = (Quantity(title, shown=Shown.DIFFERS) for title in ("window", "imbalance [%]", "timed by"))
TIMES = quantities("region", "median [ms]", "95th percentile [ms]", "share [%]", "whole [ms]")
REGION_COLUMNS = [*PLACE, WINDOW, *TIMES, *REST]
SHOWN_FILES = 8
ENOUGH_PERCENT = 95.0  # of what the kernel counted
READ_COLUMNS = PLACE + quantities(
    *("reads of", "files", "read [MB]", "reads", "kB a read", "reading [s]", "MB/s", "while steps waited [%]"),
    "seen [%]",
)
FILE_COLUMNS = PLACE + quantities(
    *("file", "size [MB]", "opens", "reads", "read [MB]", "in the window [MB]", "while steps waited [MB]"),
    *("sequential [%]", "mapped, not timed [MB]"),
)


def regions_of(records: Sequence[Record]) -> dict[str, Regions]:
    """Return the regions of a point for each kind of window that all of its runs record: medians, of shares the mean.

    The regions are in the order of a step.
    """
    by_window = {}
    for window in WINDOWS:
        runs = [run for record in records if (run := record.regions.get(window)) and run.regions and run.step_s]
        if runs and len(runs) == len(records):
            known = {name for run in runs for name in run.regions}
            names = [*(name for name in ORDER if name in known), *sorted(known - {*ORDER, OTHER}), *known & {OTHER}]
            by_window[window] = changed(
                runs[0],
                step_s=statistics.median(run.step_s or 0.0 for run in runs),
                regions={name: _median([run.regions.get(name, ABSENT) for run in runs]) for name in names},
            )
    return by_window


def _median(regions: Sequence[Region]) -> Region:
    return changed(
        next(region for region in regions if region is not ABSENT),
        median_s=statistics.median(region.median_s or 0.0 for region in regions),
        p95_s=statistics.median(region.p95_s or 0.0 for region in regions),
        share_percent=statistics.fmean(region.share_percent or 0.0 for region in regions),
        whole_s=median_of_all([region.whole_s for region in regions]),
        imbalance_percent=median_of_all([region.imbalance_percent for region in regions]),
    )


def median_of_all(values: Sequence[float | None]) -> float | None:
    """Return the median; None without values, or if one is unknown."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None


def region_table(results: Sequence[PointResults]) -> Table:
    """Return a row for each region of each point whose runs record them."""
    rows: list[list[Cell]] = []
    for one in results:
        for window, steps in regions_of(one.good).items():
            for name, region in steps.regions.items():
                whole_ms = None if region.whole_s is None else 1e3 * region.whole_s
                times_ms = [1e3 * (time_s or 0.0) for time_s in (region.median_s, region.p95_s)]
                shares = [region.share_percent, whole_ms, region.imbalance_percent]
                timed_by = TIMED_BY.get(region.from_ or steps.clock, "")
                rows.append([*place_cells(one), window, name, *times_ms, *shares, timed_by])
    return Table(REGION_COLUMNS, rows)


def split_notes(results: Sequence[PointResults]) -> list[str]:
    """Return a note on how much longer split steps were than the steps that they represent."""
    steps = [of_window for one in results for record in one.good for of_window in record.regions.values()]
    longer = [percent for one in steps if (percent := one.in_parts.number("longer_percent")) is not None]
    words = "Regions by split steps divide the time of the window's steps in the proportions of steps with a wait"
    range_of_all = f"{min(longer, default=0.0):+.0f} to {max(longer, default=0.0):+.0f} %"
    return [f"{words} after each part; those took {range_of_all} longer."] if longer else []


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
    return Table(READ_COLUMNS, rows)


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
        conclusions, most_s = _storage(record, tier)
        if stage_bytes:
            files = {file.path: file for file in record.io.files}
            which = "" if len(files) == record.io.job.files else f"of its {len(files)} most read files, "
            conclusions.append(which + what_to_stage(files, stage_bytes, tier, most_s))
        sentences += [f"{place_of(record)}: {text}" for text in (*conclusions, *_not_seen(record))]
    return list(dict.fromkeys(sentences))


def _storage(record: Record, tier: float | None) -> tuple[list[str], float]:
    """Return the largest gain of a faster storage as sentences and in seconds: infinite if the waits are not known.

    It is at most the time that steps waited for their input.
    """
    window = record.io.windows.get("effective")
    wait_percent, window_s = (value_at(record, f"metrics.{key}") for key in ("input_wait_percent", "effective_s"))
    if not window or wait_percent is None or not window_s or not window.reading_s:
        return [], math.inf
    reading_s, wait_s = window.reading_s, wait_percent / 100 * window_s
    gain_s = min(wait_s, reading_s)
    sentences = [
        f"in {window_s:.3g} s of effective windows {size(window.bytes)} were read in {reading_s:.3g} s "
        f"({window.bytes / MB / reading_s:,.4g} MB/s), and steps waited {wait_s:.3g} s for their input "
        f"({wait_percent:.1f} %): a faster storage saves {gain_s:.3g} s ({100 * gain_s / window_s:.1f} %) at most"
    ]
    if tier is not None:
        faster_s = tier_s(window.bytes, tier)
        gain_s = min(wait_s, max(0.0, reading_s - faster_s))
        saved = f"saves {gain_s:.3g} s ({100 * gain_s / window_s:.1f} %) at most"
        sentences.append(f"storage of {tier:,g} MB/s reads that in {faster_s:.3g} s and {saved}")
    return sentences, gain_s


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
