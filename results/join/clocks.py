"""Clocks of devices in the windows of a run, and the reasons for throttling, as the sampler reads them each second."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from jpwr.trace.trace import Event, Trace
from record.model import Clocks, Window, changed

# NVML's nvmlClocksEventReasons, without idleness and clocks that a user set.
REASONS = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}


def clocks_of(trace: Trace, channel: str, windows: Sequence[Window]) -> Clocks | None:
    """Return clock, temperature and the share of time with each throttle reason of a channel, over its node's windows.

    A reading is valid until the next one that differs. Returns None if the sampler has no reading before the windows'
    end, and omits `throttled` if a reading lacks the reasons.
    """
    held = status_of(trace, channel, windows)
    known_s = math.fsum(seconds for seconds, _ in held)
    if not known_s:
        return None
    clocks = [(seconds, clock) for seconds, status in held if (clock := status.get("sm_clock_mhz")) is not None]
    temperatures = [status["temperature_c"] for _, status in held if status.get("temperature_c") is not None]
    percent: dict[str, float] = {}
    reasons = [(seconds, _reasons(status.get("throttle_reasons"))) for seconds, status in held]
    for seconds, names in reasons:
        for name in names or []:
            percent[name] = percent.get(name, 0.0) + 100 * seconds / known_s
    found = Clocks(
        mean_mhz=mean(clocks) if clocks else None,
        least_mhz=min((clock for _, clock in clocks), default=None),
        hottest_c=max(temperatures, default=None),
        drift_percent=_drift_percent(clocks),
        drift_c=temperatures[-1] - temperatures[0] if temperatures else None,
    )
    return changed(found, throttled=percent) if all(names is not None for _, names in reasons) else found


def status_of(trace: Trace, channel: str, windows: Sequence[Window]) -> list[tuple[float, dict[str, Any]]]:
    """Return each status of a channel in the windows with the seconds for which it held, in the order of time."""
    events = [event for event in trace.events if event.name == "status" and event.details.get("channel") == channel]
    return [(seconds, event.details) for window in windows for seconds, event in _in_window(events, window)]


def _in_window(events: Sequence[Event], window: Window) -> Iterator[tuple[float, Event]]:
    ends = [*events, Event("", math.inf, {})]
    for event, after in pairwise(ends):
        seconds = min(after.time_s, window.end_s) - max(event.time_s, window.start_s)
        if seconds > 0:
            yield seconds, event


def _drift_percent(parts: Sequence[tuple[float, float]]) -> float | None:
    """Return by how much the mean clock of the last half of the time exceeds that of the first half, in percent."""
    half_s = math.fsum(seconds for seconds, _ in parts) / 2
    if not half_s:
        return None
    first, passed_s = 0.0, 0.0
    for seconds, clock in parts:
        first += clock * max(0.0, min(seconds, half_s - passed_s))
        passed_s += seconds
    return 100 * (mean(parts) * 2 * half_s / first - 2) if first else None


def mean(parts: Sequence[tuple[float, float]]) -> float:
    """Return the mean of values, each after the seconds for which it held."""
    return math.fsum(seconds * value for seconds, value in parts) / math.fsum(seconds for seconds, _ in parts)


def _reasons(text: Any) -> list[str] | None:
    try:
        bits = int(str(text), 16)
    except ValueError:
        return None
    return [words for bit, words in REASONS.items() if bits & bit]
