"""Files to copy to a fast storage of a given size: those whose reads took longest by the bytes that a copy needs.

The model: a copy saves the measured time of a file's reads, less the time of the same bytes at the fast storage's
bandwidth. Times are added over all threads: a program that reads in parallel, or computes meanwhile, gains less.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from ioprof.summary import size, tier_s
from jpwr.messages import number_of


def saved_s(one: Any, tier: float | None) -> float:
    """Return the seconds that a copy of a file saves on a storage of `tier` MB/s; None: of unlimited bandwidth."""
    return float(one.read_s - (tier_s(one.bytes, tier) if tier else 0.0))


def to_stage(files: Mapping[str, Any], room_bytes: float, tier: float | None = None) -> list[str]:
    """Return the names of the files that gain most in some bytes: greedily, by the time that each byte of a copy saves.

    `files` have `read_s`, `bytes` and `size_bytes`, such as `Sum`.
    """
    gains = {name: saved_s(one, tier) / one.size_bytes for name, one in files.items() if one.size_bytes}
    chosen, left = [], room_bytes
    for name in sorted(gains, key=lambda name: (-gains[name], name)):
        if gains[name] > 0 and files[name].size_bytes <= left:
            chosen.append(name)
            left -= files[name].size_bytes
    return chosen


def stage_lines(files: Mapping[str, Any], room_bytes: float, tier: float | None = None) -> Iterator[str]:
    """Yield what to stage in some bytes and its gain; without a bandwidth, the share of read time and no seconds."""
    names = to_stage(files, room_bytes, tier)
    chosen = [files[name] for name in names]
    read_s, all_s = (sum(one.read_s for one in some) for some in (chosen, files.values()))
    share = f"{100 * read_s / all_s:.1f} %" if all_s else "none"
    what = f"{number_of(len(chosen), 'file')} of {size(sum(one.size_bytes for one in chosen))} for {size(room_bytes)}"
    gain = "--tier MB/S, the fast storage's bandwidth, predicts the seconds"
    if tier:
        gain = f"at {tier:,g} MB/s they save up to {sum(saved_s(one, tier) for one in chosen):.3g} s of them"
    yield f"stage {what}: {share} of the {all_s:.3g} s of reads, added over all threads; {gain}"
    yield from (f"  {name}" for name in names)
