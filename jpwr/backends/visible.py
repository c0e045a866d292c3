"""Devices of a node that a job may use, by the environment variables that hide the others."""

from __future__ import annotations

from typing import Mapping, Sequence

# HIP takes CUDA's variable where its own is not set or empty, and counts in what ROCr has left (AMD's HIP runtime).
HIP = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
ROCR = "ROCR_VISIBLE_DEVICES"


def visible(environ: Mapping[str, str], filters: Sequence[Sequence[str]], ids: Sequence[Sequence[str]]) -> list[int]:
    """Return the indices of the devices that a job may use; `ids` has the ids of each device of the node.

    `filters` are applied in turn: a number is an index into what the filter before has left. The value of a filter is
    that of the first of its variables that is not empty, or else of the last: numbers, or beginnings of ids. Devices
    that it does not name are hidden. As in CUDA, so are those after an entry that names no device, or several.
    """
    left = list(range(len(ids)))
    for variables in filters:
        asked = next((environ[name] for name in variables if environ.get(name)), environ.get(variables[-1]))
        if asked is None:
            continue
        found: list[int] = []
        for entry in asked.split(","):
            named = _named(entry.strip(), left, ids)
            if len(named) != 1:
                break
            found += named
        left = list(dict.fromkeys(found))
    return left


def narrowed(environ: Mapping[str, str], first: int, count: int) -> dict[str, str]:
    """Return the variables that show a program `count` of the devices that this one may use, from number `first` on.

    On NVIDIA and on AMD. Both have one value, as vLLM demands on AMD. ROCr's variable stays, as the numbers are indices
    into what it has left. Raises ValueError where the variables name too few devices.
    """
    named = next((name for name in HIP if environ.get(name)), "")
    known = named or (ROCR if environ.get(ROCR) else "")
    entries = environ[known].split(",") if known else [""] * (first + count)
    if len(entries) < first + count:
        raise ValueError(f"{known} has {len(entries)} in all")
    mine = range(first, first + count)
    return dict.fromkeys(HIP, ",".join(entries[index] if named else str(index) for index in mine))


def _named(entry: str, left: Sequence[int], ids: Sequence[Sequence[str]]) -> list[int]:
    if entry.isascii() and entry.isdigit():
        return list(left[int(entry) : int(entry) + 1])
    if not entry[:1].isalpha():
        return []
    return [index for index in left if any(one.lower().startswith(entry.lower()) for one in ids[index])]
