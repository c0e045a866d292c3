"""Which devices of a node a job may use, by the variables that hide the others from it."""

from __future__ import annotations

from typing import Mapping, Sequence


def visible(environ: Mapping[str, str], filters: Sequence[Sequence[str]], ids: Sequence[Sequence[str]]) -> list[int]:
    """The devices that a job may use, by their indices; `ids` are those of each device of the node.

    `filters` are applied in turn: a number counts what the one before has left. A filter is the first of its variables
    that is set: numbers, or beginnings of ids. It hides what it does not name, and as CUDA does, also what it names
    after an entry that is no device, or one of several.
    """
    left = list(range(len(ids)))
    for variables in filters:
        asked = next((environ[name] for name in variables if name in environ), None)
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


def _named(entry: str, left: Sequence[int], ids: Sequence[Sequence[str]]) -> list[int]:
    if entry.isascii() and entry.isdigit():
        return list(left[int(entry) : int(entry) + 1])
    if not entry[:1].isalpha():
        return []
    return [index for index in left if any(one.lower().startswith(entry.lower()) for one in ids[index])]
