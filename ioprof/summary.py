"""Summary of a profile as text and as data. Pure arithmetic."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import Any, Iterable, Iterator, Mapping, Sequence

from ioprof.counts import SIZE_CLASSES, FileCounts, Profile, Stretch
from jpwr.messages import number_of

MB = 1e6
SMALL_BYTES = 64 * 1024  # to open a smaller file takes as long as to read it, or longer
MANY = 100
BINS = 200  # of the bandwidth over time
MOMENT = 1e-6  # share of a bin below which a stretch is not split


@dataclass
class Sum:
    """Sum over the reads of some files."""

    files: int = 0
    opens: int = 0
    reads: int = 0
    bytes: int = 0
    read_s: float = 0.0
    open_s: float = 0.0
    sequential_reads: int = 0
    maps: int = 0
    mapped_bytes: int = 0
    size_bytes: int = 0
    sizes: list[int] = field(default_factory=lambda: [0] * len(SIZE_CLASSES))

    def add(self, one: FileCounts | Sum) -> None:
        """Add the reads of a file or sum, without its size."""
        for name in ("opens", "reads", "bytes", "read_s", "open_s", "sequential_reads", "maps", "mapped_bytes"):
            setattr(self, name, getattr(self, name) + getattr(one, name))
        self.sizes = [ours + theirs for ours, theirs in zip(self.sizes, one.sizes)]

    @property
    def sequential_percent(self) -> float | None:
        """Percentage of reads that began where the previous one ended; None if no read is known individually."""
        known = sum(self.sizes)
        return 100 * self.sequential_reads / known if known else None

    @property
    def times_read(self) -> float | None:
        """Mean number of reads of each byte; None if the size is unknown."""
        return self.bytes / self.size_bytes if self.size_bytes else None


def by_file(*profiles: Profile) -> dict[str, Sum]:
    """Return the sum of each file over all processes; a file that several nodes read is one file."""
    sums: dict[str, Sum] = {}
    for one in (one for profile in profiles for process in profile.processes for one in process.files):
        found = sums.setdefault(one.path, Sum(files=1))
        found.add(one)
        found.size_bytes = max(found.size_bytes, one.size_bytes)
    return sums


def by_folder(files: dict[str, Sum]) -> dict[str, Sum]:
    """Return the sum of each folder over its own files."""
    sums: dict[str, Sum] = {}
    for path, one in files.items():
        _include(sums.setdefault(posixpath.dirname(path), Sum()), one)
    return sums


def total(files: Iterable[Sum]) -> Sum:
    """Return the sum over different files."""
    found = Sum()
    for one in files:
        _include(found, one)
    return found


def _include(into: Sum, one: Sum) -> None:
    into.add(one)
    into.files += one.files
    into.size_bytes += one.size_bytes


def stretches(profile: Profile) -> Iterator[Stretch]:
    """Yield the stretches of all processes."""
    for process in profile.processes:
        yield from process.stretches


def reading_s(reads: Iterable[Stretch]) -> float:
    """Return the seconds during which at least one read was in progress.

    That is the time covered by stretches, or the time of all reads if that is less.
    """
    union_s = busy_s = 0.0
    end_s = float("-inf")
    for one in sorted(reads, key=lambda stretch: stretch.begin_s):
        busy_s += one.busy_s
        union_s += max(0.0, one.end_s - max(one.begin_s, end_s))
        end_s = max(end_s, one.end_s)
    return min(union_s, busy_s)


def over_time(reads: Iterable[Stretch], begin_s: float, end_s: float, bins: int = BINS) -> tuple[float, list[float]]:
    """Return the width of a bin in seconds and the bytes in each; those of a stretch are spread evenly over it."""
    width_s = (end_s - begin_s) / bins
    found = [0.0] * bins
    if width_s <= 0:
        return 0.0, found
    for one in reads:
        first, last = ((edge_s - begin_s) / width_s for edge_s in (one.begin_s, one.end_s))
        if last - first < MOMENT:
            if 0 <= first <= bins:
                found[min(int(first), bins - 1)] += one.bytes
            continue
        for at in range(max(0, int(first)), min(bins, int(last) + 1)):
            found[at] += one.bytes * max(0.0, min(last, at + 1) - max(first, at)) / (last - first)
    return width_s, found


def tier_s(size_bytes: float, mb_per_s: float) -> float:
    """Return the seconds to read a number of bytes at a bandwidth in MB/s, without opens."""
    return size_bytes / (mb_per_s * MB)


def to_dict(
    profile: Profile, files: int, tier: float | None = None, stage_bytes: float | None = None
) -> dict[str, Any]:
    """Return the summary as data, with the `files` files and folders of which most was read, for a tier in MB/s."""
    of_files = by_file(profile)
    whole = total(of_files.values())
    busy_s = reading_s(stretches(profile))
    width_s, parts = over_time(stretches(profile), profile.about.get("begin_s", 0.0), profile.about.get("end_s", 0.0))
    found = {
        **profile.about,
        "num_processes": len({process.pid for process in profile.processes}),
        "coverage": profile.coverage and {**profile.coverage._asdict(), "share": profile.coverage.share},
        "total": _dict(whole),
        "other_bytes": sum(process.other_bytes for process in profile.processes),
        "processes_without_room": profile.without_room,
        "lost_opens": sum(process.lost_files for process in profile.processes),
        "lost_stretches": sum(process.lost_stretches for process in profile.processes),
        "reading_s": busy_s,
        "bytes_over_time": {"part_s": width_s, "bytes": parts},
        "folders": [{"path": path, **_dict(one)} for path, one in most(by_folder(of_files), files)],
        "files": [{"path": path, **_dict(one)} for path, one in most(of_files, files)],
        "advice": advice(profile, whole, busy_s, tier, stage_bytes),
    }
    return found


def most(sums: dict[str, Sum], count: int) -> list[tuple[str, Sum]]:
    """Return the `count` names with the most bytes read or mapped."""
    return sorted(sums.items(), key=lambda item: (-max(item[1].bytes, item[1].mapped_bytes), item[0]))[:count]


def _dict(one: Sum) -> dict[str, Any]:
    return {
        **{name: value for name, value in vars(one).items() if name != "sizes"},
        "sequential_percent": one.sequential_percent,
        "reads_by_size": dict(zip(SIZE_CLASSES, one.sizes)),
    }


def lines(profile: Profile, files: int, tier: float | None = None, stage_bytes: float | None = None) -> Iterator[str]:
    """Yield the lines of the summary as text, with `files` files and folders, for a tier in MB/s."""
    of_files = by_file(profile)
    whole = total(of_files.values())
    busy_s = reading_s(stretches(profile))
    processes = len({process.pid for process in profile.processes})
    yield (
        f"read       {size(whole.bytes)} from {number_of(whole.files, 'file')} in {number_of(whole.reads, 'read')} and "
        f"{number_of(whole.opens, 'open')} of {number_of(processes, 'process')}"
    )
    if whole.reads and busy_s > 0:
        yield (
            f"time       {busy_s:.3g} s with a read in progress, {whole.read_s:.3g} s over all threads: "
            f"{whole.bytes / busy_s / MB:,.4g} MB/s; {whole.open_s:.3g} s in opens"
        )
    if whole.sequential_percent is not None:
        yield f"sequential {whole.sequential_percent:.0f} % of reads began where the previous one had ended"
        yield f"sizes      {_sizes(whole)}"
    if whole.maps:
        yield f"mapped     {size(whole.mapped_bytes)} in {number_of(whole.maps, 'map')}: not timed"
    yield from _coverage(profile)
    for title, sums in (("folder", by_folder(of_files)), ("file", of_files)):
        yield from _table(title, most(sums, files))
    for sentence in advice(profile, whole, busy_s, tier, stage_bytes):
        yield f"note       {sentence}"


def _coverage(profile: Profile) -> Iterator[str]:
    found = profile.coverage
    if found is None:
        return
    yield (
        f"coverage   {100 * found.share:.1f} % of the {size(found.kernel_bytes)} that the kernel counted, including "
        "pipes and sockets"
    )
    for sentence in found.missing:
        yield f"MISSING    {sentence}"
    for sentence in found.notes:
        yield f"note       {sentence}"
    if profile.without_room:
        yield f"LOST       counts of {number_of(profile.without_room, 'process')}: make room in TMPDIR"
    lost = sum(process.lost_files for process in profile.processes)
    if lost:
        yield f"LOST       counts of {number_of(lost, 'open')}: make room in TMPDIR"
    if any(process.lost_stretches for process in profile.processes):
        yield "LOST       times of some reads: make room in TMPDIR; totals are complete"


def advice(
    profile: Profile, whole: Sum, busy_s: float, tier: float | None, stage_bytes: float | None = None
) -> list[str]:
    """Return conclusions from the numbers, one sentence each."""
    found, files = [], by_file(profile)
    again = whole.times_read
    if again is not None and again > 1.05 and whole.size_bytes > MB:
        found.append(
            f"the files have {size(whole.size_bytes)}, and {size(whole.bytes)} were read: each byte {again:.1f} times"
        )
    small = [one for one in files.values() if one.opens and 0 < one.size_bytes < SMALL_BYTES]
    opens = sum(one.opens for one in small)
    if len(small) >= MANY and opens * 2 > whole.opens:
        open_s, read_s = (sum(getattr(one, name) for one in small) for name in ("open_s", "read_s"))
        found.append(
            f"{len(small):,} files are smaller than {SMALL_BYTES // 1024} kB, "
            f"{size(sum(one.size_bytes for one in small))} together: {opens:,} opens took {open_s:.3g} s and their "
            f"reads {read_s:.3g} s; fewer and larger files save opens"
        )
    there_s = tier_s(whole.bytes, tier) if tier else 0.0
    if tier is not None and whole.bytes and busy_s > 0:
        gain = (
            f"up to {busy_s - there_s:.3g} s less, if the program waits for its reads"
            if there_s < busy_s
            else "not faster than measured"
        )
        found.append(
            f"{size(whole.bytes)} took {busy_s:.3g} s ({whole.bytes / busy_s / MB:,.4g} MB/s); at {tier:,g} MB/s they "
            f"take {there_s:.3g} s: {gain}"
        )
    return found + ([what_to_stage(files, stage_bytes, tier, busy_s - there_s)] if stage_bytes else [])


def saved_s(one: Any, tier: float | None) -> float:
    """Return the measured time of a file's reads, less that of the same bytes at `tier` MB/s; None: without limit."""
    return float(one.read_s - (tier_s(one.bytes, tier) if tier else 0.0))


def to_stage(files: Mapping[str, Any], stage_bytes: float, tier: float | None = None) -> list[str]:
    """Return the names of files, each a `Sum` or alike, to copy into some bytes: greedily by the time a byte saves.

    A single file that saves more than all of those goes before them.
    """
    gains = {name: saved_s(one, tier) / one.size_bytes for name, one in files.items() if one.size_bytes}
    chosen, left = [], stage_bytes
    for name in sorted(gains, key=lambda name: (-gains[name], name)):
        if gains[name] > 0 and files[name].size_bytes <= left:
            chosen.append(name)
            left -= files[name].size_bytes
    fitting = [[name] for name in gains if files[name].size_bytes <= stage_bytes and gains[name] > 0]
    return max([chosen, *fitting], key=lambda names: sum(saved_s(files[name], tier) for name in names))


def what_to_stage(files: Mapping[str, Any], stage_bytes: float, tier: float | None, most_s: float) -> str:
    """Return what to stage and its gain; without a bandwidth of the fast storage no seconds are predicted.

    most_s: what all files on that storage save, where threads read at the same time.
    """
    names = to_stage(files, stage_bytes, tier)
    read_s, all_s = (sum(files[name].read_s for name in some) for some in (names, files))
    gain = "--tier MB/S, the fast storage's bandwidth, predicts the seconds"
    if tier:
        gain_s = max(0.0, min(most_s, sum(saved_s(files[name], tier) for name in names)))
        gain = f"at {tier:,g} MB/s up to {gain_s:.3g} s less"
    return (
        f"stage {number_of(len(names), 'file')} of {size(sum(files[name].size_bytes for name in names))} for "
        f"{100 * read_s / (all_s or 1):.1f} % of the {all_s:.3g} s of all threads' reads; {gain}: "
        f"{', '.join(names) or 'none'}"
    )


def size(number: float) -> str:
    """Return a number of bytes as text, with units in powers of 10."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(number) < 1000:
            return f"{number:.4g} {unit}"
        number /= 1000
    return f"{number:,.4g} TB"


def _sizes(one: Sum) -> str:
    known = sum(one.sizes)
    shares = [(100 * count / known, name) for name, count in zip(SIZE_CLASSES, one.sizes) if count]
    return ", ".join(f"{share:.0f} % {name}" for share, name in shares) + " bytes"


def _table(title: str, found: Sequence[tuple[str, Sum]]) -> Iterator[str]:
    if not found:
        return
    columns = ("read", "times", "opens", "reads", "seconds", "seq %", "mapped")
    yield ""
    yield "  ".join(f"{name:>9}" for name in columns) + f"  {title}"
    for path, one in found:
        cells = (
            size(one.bytes),
            "" if one.times_read is None else f"{one.times_read:.2f}",
            f"{one.opens:,}",
            f"{one.reads:,}",
            f"{one.read_s:.3g}",
            "" if one.sequential_percent is None else f"{one.sequential_percent:.0f}",
            size(one.mapped_bytes) if one.maps else "",
        )
        yield "  ".join(f"{cell:>9}" for cell in cells) + f"  {path}"
