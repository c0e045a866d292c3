"""Time that steps spend in each region: mark regions, describe them for the record, draw them as a trace."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.common.record import EFFECTIVE, MEASURED
from jpwr.process.cgroup import Periods, quota_periods, throttled_percent
from jpwr.regions import RegionTimer
from jpwr.regions.times import (
    BATCH,
    HOST,
    OTHER,
    Span,
    State,
    chrome_trace,
    describe,
    merge,
    states_of,
    steps_of,
)

# Above this number of marks only every second step is marked, then every fourth, to limit memory.
MANY_MARKS = 100_000
TRACED_STEPS = 20  # of each kind of window, in the trace
TRACED_SPANS = 200_000  # of all ranks
TRACE_SUFFIX = ".trace.json"
TIMES_SUFFIX = ".regions.json"
PARTS = "in parts"  # kind of the window with split steps


class MarkedSteps:
    """Marks of the steps of windows, each as a region Batch; nothing outside of windows is marked."""

    def __init__(self, timer: RegionTimer, many_marks: int = MANY_MARKS) -> None:
        self._timer, self._many_marks = timer, many_marks
        self._every, self._seen = 1, 0
        self._in_window, self._every_step, self._start_s = False, False, 0.0
        self._windows: list[tuple[str, float, float]] = []
        self._at_begin: list[Periods] = []
        self._periods: dict[str, list[tuple[list[Periods], list[Periods]]]] = {}  # at both edges of each window
        timer.recording = False

    def begin_window(self, start_s: float, every_step: bool = False) -> None:
        """Begin a window, by the host's monotonic clock, while the device is idle."""
        self._in_window, self._every_step, self._start_s = True, every_step, start_s
        self._timer.device_at_rest()
        self._at_begin = quota_periods()

    def end_window(self, kind: str, end_s: float) -> None:
        """End the window while the device is idle."""
        self._in_window = self._timer.recording = False
        self._windows.append((kind, self._start_s, end_s))
        self._periods.setdefault(kind, []).append((self._at_begin, quota_periods()))

    def throttled_percent(self, kind: str) -> float:
        """Return the percentage of throttled quota periods in windows of a kind, of the most throttled group."""
        return throttled_percent(self._periods[kind])

    def begin(self) -> None:
        """Begin a Batch: one step, or several steps that the host waits for together."""
        if self._in_window:
            if self._timer.count() > self._many_marks:
                self._every, self._many_marks = 2 * self._every, 2 * self._many_marks
            self._timer.recording = self._every_step or self._seen % self._every == 0
            self._seen += 1
            self._timer.start(BATCH)

    def end(self) -> None:
        """End the Batch."""
        self._timer.end(BATCH)

    def spans(self) -> dict[str, list[Span]]:
        """Return the spans of each kind of window."""
        found: dict[str, list[Span]] = {kind: [] for kind, _, _ in self._windows}
        for span in self._timer.spans():
            middle_s = (span.start_s + span.end_s) / 2  # a device's clock drifts by microseconds
            for kind, start_s, end_s in self._windows:
                if start_s <= middle_s <= end_s:
                    found[kind].append(span)
        return found

    def times(self) -> list[dict[str, Any]]:
        """Return the host's states over time in each window that gives a throughput, as plain data."""
        spans = self.spans()
        return [
            {"kind": kind, **packed(states_of(spans[kind], HOST, start_s, end_s))}
            for kind, start_s, end_s in self._windows
            if kind in (MEASURED, EFFECTIVE)
        ]


def regions_of(
    spans: dict[str, list[Span]],
    lane: str,
    steps_per_batch: int,
    gather: Callable[[Any], list[Any]],
    host_is_ahead: bool = False,
    all_communication: bool = True,
) -> dict[str, Any]:
    """Return the region times that the record holds for each kind of window, over all ranks.

    The times of steps that ran in parts also split Other in the window `measured`. In the block of steps in parts, a
    Batch is one step. If the host runs ahead of a device without events, the regions of a usual step do not show the
    device's time, and only its Batch counts. `all_communication` states that all of it has regions.
    """
    found = {}
    for kind, of_kind in spans.items():
        if host_is_ahead and kind != PARTS:
            of_kind = [span for span in of_kind if span.key == BATCH]
        described = merge(gather(describe(steps_of(of_kind, lane), 1 if kind == PARTS else steps_per_batch)))
        found[kind] = {"clock": lane, "all_communication": all_communication, **described}
    parts = found.pop(PARTS, None)
    if parts and set(parts["regions"]) != {OTHER}:
        found[MEASURED] = with_parts(found[MEASURED], parts)
        found[PARTS] = parts
    return found


def with_parts(usual: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    """Return the usual step's regions with Other split as it was in the steps that ran in parts.

    Each region of the split steps gets its share of the usual step's Other, but no more than its own length. `in_parts`
    then reports how much longer the split regions were, in percent of the usual step's Other.
    """
    split = {key: values for key, values in parts["regions"].items() if key not in (OTHER, *usual["regions"])}
    unknown = usual["regions"].get(OTHER)
    whole_s = sum(values["median_s"] for values in split.values())
    if not (split and unknown and whole_s > 0):
        return usual
    shared = {}
    # If the usual step's Other is longer than the split regions, the rest stays Other.
    of_s = max(whole_s, unknown["median_s"])
    for key, values in split.items():
        share = values["median_s"] / of_s
        by_rank_s = [one * share for one in unknown["by_rank_s"]]
        shared[key] = {
            **{name: unknown[name] * share for name in ("median_s", "p95_s", "share_percent")},
            "whole_s": statistics.fmean(by_rank_s),
            "by_rank_s": by_rank_s,
            "imbalance_percent": values["imbalance_percent"],  # only known from the split steps
            "from": PARTS,
        }
    regions = {key: values for key, values in usual["regions"].items() if key != OTHER} | shared
    if of_s > whole_s:
        left = 1 - whole_s / of_s
        regions[OTHER] = unknown | {name: unknown[name] * left for name in ("median_s", "p95_s", "share_percent")}
        regions[OTHER]["by_rank_s"] = [one * left for one in unknown["by_rank_s"]]
    difference = 100 * (whole_s / unknown["median_s"] - 1)
    return usual | {
        "regions": regions,
        "in_parts": {"steps": parts["steps"], "longer_percent": difference},
    }


def packed(states: Sequence[State]) -> dict[str, Any]:
    """Return states as plain data: their names, their order, and their edges in seconds of the monotonic clock."""
    names = sorted({state.name for state in states})
    edges_s = [state.start_s for state in states] + [state.end_s for state in states[-1:]]
    return {
        "names": names,
        "which": [names.index(state.name) for state in states],
        "edges_s": [round(edge_s, 6) for edge_s in edges_s],
    }


def trace_of(of_ranks: Sequence[Sequence[Sequence[Any]]]) -> str:
    """Return the trace of the first steps of every rank, on the wall clock from the earliest on."""
    first_s = min((row[2] for rows in of_ranks for row in rows), default=0.0)
    processes = {
        f"rank {rank}": [Span(key, lane, start_s - first_s, end_s - first_s) for key, lane, start_s, end_s in rows]
        for rank, rows in enumerate(of_ranks)
    }
    return chrome_trace(processes)


def traced(spans: dict[str, list[Span]], lane: str, ranks: int) -> list[list[Any]]:
    """Return the spans of this rank's first steps in each kind of window, as plain data on the wall clock."""
    offset_s = time.time() - time.monotonic()
    found = []
    for of_kind in spans.values():
        steps = sorted(span.end_s for span in of_kind if span.key == BATCH and span.lane == lane)[:TRACED_STEPS]
        last_s = steps[-1] if steps else 0.0
        first = sorted((span for span in of_kind if span.start_s < last_s), key=lambda span: span.start_s)
        found += [
            [span.key, span.lane, span.start_s + offset_s, span.end_s + offset_s]
            for span in first[: TRACED_SPANS // ranks]
        ]
    return found
