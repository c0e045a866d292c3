"""Leave behind the channels that do not answer, so that they hold up no other."""

from __future__ import annotations

from typing import Callable, Sequence

from jpwr.sampling.lane import Lane


def hung_channels(lanes: Sequence[Lane]) -> list[str]:
    """Return the names of the channels that did not answer and were left behind."""
    found = [name for lane in list(lanes) if lane.hung for name in lane.names]
    return list(dict.fromkeys(found))  # one may hang in two lanes


def leave_behind(lanes: list[Lane], start: Callable[[Lane], None], warn: Callable[[str], None]) -> None:
    """Keep each channel that does not answer alone in its lane, and start lanes that go on with the others."""
    for lane in list(lanes):
        lane.record_silence()
        known = hung_channels(lanes)
        others = lane.leave_behind()
        if others is None:
            continue
        for other in others:
            lanes.append(other)
            start(other)
        [name] = lane.names
        if name not in known:
            what = "its counter does not answer" if lane.is_beside else "does not answer"
            warn(f"{name}: {what}; it is left behind, and the other channels go on")
