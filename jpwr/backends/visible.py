"""Which devices of a node a job may use, by the variables that hide the others from it."""

from __future__ import annotations

from typing import Mapping, Sequence


def is_visible(environ: Mapping[str, str], variables: Sequence[str], index: int, device_id: str) -> bool:
    """Whether the first of the variables that is set names the device, by number or by the beginning of its id.

    Without any of them every device is visible; an empty one hides all, and entries after one that is none count not.
    """
    asked = next((environ[name] for name in variables if name in environ), None)
    if asked is None:
        return True
    for entry in (part.strip() for part in asked.split(",")):
        if entry.isdigit():
            if int(entry) == index:
                return True
        elif not entry or entry.startswith("-") or not entry[0].isalpha():
            return False
        elif device_id.lower().startswith(entry.lower()):
            return True
    return False
