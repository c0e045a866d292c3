"""Split the steps of a program into times per region, from the spans of its regions.

The own time of a region excludes every region that began later while it was open, so that own times sum up to the
step's; the rest of a step is Other. The whole time is the time in which the region is open in any lane. Pure
arithmetic.
"""

from __future__ import annotations

import json
import statistics
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from jpwr.median import percentile

EPOCH, BATCH, OTHER = "Epoch", "Batch", "Other"
FORWARD, BACKWARD, COMM, IO, UPDATE = "Forward", "Backward", "Comm", "IO", "Update"
HOST, DEVICE = "host", "device"  # lanes of the thread that made the timer, by the two clocks
FRAMES = (EPOCH, BATCH)  # containers of regions: their own time is Other


class Span(NamedTuple):
    """A region from its start to its end; times in seconds of the host's monotonic clock, on a device's lane too."""

    key: str
    lane: str
    start_s: float
    end_s: float


class State(NamedTuple):
    """Activity between two moments, in seconds; states follow each other without a gap."""

    name: str
    start_s: float
    end_s: float


class Step(NamedTuple):
    """Region times of one step (a Batch), in seconds: own times sum up to its duration, whole times may exceed it."""

    start_s: float
    duration_s: float
    own_s: dict[str, float]
    whole_s: dict[str, float]


def steps_of(spans: Sequence[Span], lane: str = HOST) -> list[Step]:
    """Return the region times of each Batch of a lane: own times from it, whole times from all lanes of its clock."""
    spans = _of_clock(spans, lane)
    steps = [
        Step(start_s, end_s - start_s, {}, {})
        for _, _, start_s, end_s in sorted(
            (span for span in spans if span.key == BATCH and span.lane == lane), key=lambda span: span.start_s
        )
    ]
    pieces = _pieces(span for span in spans if span.lane == lane and span.key not in FRAMES)
    for step, parts in zip(steps, _cut(pieces, steps)):
        for seconds, key in parts:
            step.own_s[key] = step.own_s.get(key, 0.0) + seconds
    for key in {span.key for span in spans} - set(FRAMES):
        intervals = _merged((span.start_s, span.end_s) for span in spans if span.key == key)
        for step, parts in zip(steps, _cut(intervals, steps)):
            whole_s = sum(seconds for seconds, _ in parts)
            if whole_s or key in step.own_s:
                step.whole_s[key] = whole_s
    for step in steps:
        step.own_s[OTHER] = step.own_s.get(OTHER, 0.0) + max(0.0, step.duration_s - sum(step.own_s.values()))
    return steps


def _of_clock(spans: Sequence[Span], lane: str) -> list[Span]:
    """Return the spans of one clock, because a host runs ahead of its device."""
    if lane == DEVICE:
        return [span for span in spans if not span.lane.startswith(HOST)]
    return [span for span in spans if span.lane != DEVICE]


def states_of(spans: Sequence[Span], lane: str, start_s: float, end_s: float) -> list[State]:
    """Return the states between two moments: the lane's region, plus communication in other lanes.

    During communication, Other becomes Comm, because no marked region hides the communication.
    """
    spans = _of_clock(spans, lane)
    own = _pieces([span for span in spans if span.lane == lane and span.key not in FRAMES])
    comm = _merged((span.start_s, span.end_s) for span in spans if span.lane != lane and span.key == COMM)
    edges = {start_s, end_s}
    edges.update(time_s for piece in (*own, *comm) for time_s in piece[:2] if start_s < time_s < end_s)
    ordered = sorted(edges)
    found: list[State] = []
    for first_s, last_s, key, other_key in zip(ordered, ordered[1:], _keys(own, ordered), _keys(comm, ordered)):
        name = key or OTHER
        if other_key is not None and name != COMM:
            name = COMM if name == OTHER else f"{name}+{COMM}"
        if found and found[-1].name == name:
            found[-1] = found[-1]._replace(end_s=last_s)
        else:
            found.append(State(name, first_s, last_s))
    return found


def _keys(pieces: Sequence[tuple[float, float, str]], edges_s: Sequence[float]) -> Iterator[str | None]:
    """Yield the key of the open piece from each edge to the next; None if no piece is open."""
    index = 0
    for time_s in edges_s[:-1]:
        while index < len(pieces) and pieces[index][1] <= time_s:
            index += 1
        yield pieces[index][2] if index < len(pieces) and pieces[index][0] <= time_s else None


def _pieces(spans: Iterable[Span]) -> list[tuple[float, float, str]]:
    """Return consecutive pieces of time, each with the key of the open region that began last."""
    # At the same moment, ends come before beginnings, and outer regions before inner ones; empty regions are left out.
    spans = sorted(spans, key=lambda span: (span.start_s, -span.end_s))
    edges = sorted(
        (time_s, starts, index)
        for index, span in enumerate(spans)
        if span.end_s > span.start_s
        for time_s, starts in ((span.start_s, True), (span.end_s, False))
    )
    open_ones: list[int] = []
    pieces = []
    last_s = 0.0
    for time_s, starts, index in edges:
        if open_ones and time_s > last_s:
            pieces.append((last_s, time_s, spans[open_ones[-1]].key))
        last_s = time_s
        if starts:
            open_ones.append(index)
        else:
            open_ones.remove(index)
    return pieces


def _cut(pieces: Sequence[tuple[float, float, str]], steps: Sequence[Step]) -> Iterator[list[tuple[float, str]]]:
    """Yield, for each step, the parts of the pieces within it; both are in the order of time."""
    first = 0
    for step in steps:
        end_s = step.start_s + step.duration_s
        while first < len(pieces) and pieces[first][1] <= step.start_s:
            first += 1
        parts = []
        index = first
        while index < len(pieces) and pieces[index][0] < end_s:
            start_s, stop_s, key = pieces[index]
            parts.append((min(stop_s, end_s) - max(start_s, step.start_s), key))
            index += 1
        yield parts


def _merged(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float, str]]:
    found: list[tuple[float, float, str]] = []
    for start_s, end_s in sorted(intervals):
        if found and start_s <= found[-1][1]:
            found[-1] = (found[-1][0], max(end_s, found[-1][1]), "")
        else:
            found.append((start_s, end_s, ""))
    return found


def describe(steps: Sequence[Step], calls_per_batch: int = 1) -> dict[str, Any]:
    """Return the times of one process's regions as plain data, per step if a Batch consists of several."""
    keys = sorted({key for step in steps for key in step.own_s} | {key for step in steps for key in step.whole_s})
    durations_s = [step.duration_s / calls_per_batch for step in steps]
    total_s = sum(durations_s)
    regions = {}
    for key in keys:
        own_s = [step.own_s.get(key, 0.0) / calls_per_batch for step in steps]
        whole_s = [step.whole_s.get(key, 0.0) / calls_per_batch for step in steps]
        regions[key] = {
            "median_s": statistics.median(own_s),
            "p95_s": percentile(own_s, 95),
            "mean_s": sum(own_s) / len(own_s),
            "whole_s": sum(whole_s) / len(whole_s) if key != OTHER else None,
            "share_percent": 100 * sum(own_s) / total_s if total_s else None,
        }
    return {"steps": len(steps), "step_s": statistics.median(durations_s) if steps else None, "regions": regions}


def merge(processes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Merge what `describe` returned in each process: medians of medians, highest 95th percentile, mean shares.

    A region's imbalance is the range of the processes' mean own times, in percent of a step.
    """
    marked = [one for one in processes if one["steps"]]
    if not marked:
        return {"steps": 0, "step_s": None, "regions": {}}
    step_s = statistics.median(one["step_s"] for one in marked)
    regions: dict[str, Any] = {}
    for key in sorted({key for one in marked for key in one["regions"]}):
        of_ranks = [one["regions"].get(key) for one in marked]
        known = [one for one in of_ranks if one]
        means_s = [one["mean_s"] if one else 0.0 for one in of_ranks]
        whole_s = [one["whole_s"] for one in known if one["whole_s"] is not None]
        regions[key] = {
            "median_s": statistics.median(one["median_s"] if one else 0.0 for one in of_ranks),
            "p95_s": max(one["p95_s"] for one in known),
            "share_percent": sum(one["share_percent"] or 0.0 for one in known) / len(marked),
            "whole_s": sum(whole_s) / len(marked) if whole_s else None,
            "imbalance_percent": 100 * (max(means_s) - min(means_s)) / step_s if step_s else None,
            "by_rank_s": means_s,
        }
    return {
        "steps": min(one["steps"] for one in marked),
        "step_s": step_s,
        "regions": regions,
    }


def table(steps: Sequence[Step]) -> str:
    """Return the region times of this process's steps as a table for a person."""
    found = describe(steps)
    if not steps:
        return "no step was marked: put 'with timer.region(\"Batch\"):' around each"
    lines = [f"{found['steps']} steps of {found['step_s']:.6f} s (median)"]
    lines.append(f"{'region':<12} {'median [s]':>12} {'p95 [s]':>12} {'share [%]':>10} {'whole [s]':>12}")
    for key, values in sorted(found["regions"].items(), key=lambda one: (one[0] == OTHER, -one[1]["mean_s"])):
        whole = "" if values["whole_s"] is None else f"{values['whole_s']:.6f}"
        median_s, p95_s, share = values["median_s"], values["p95_s"], values["share_percent"]
        lines.append(f"{key:<12} {median_s:>12.6f} {p95_s:>12.6f} {share:>10.1f} {whole:>12}")
    return "\n".join(lines)


def chrome_trace(processes: Mapping[str, Sequence[Span]]) -> str:
    """Return the spans of processes, by name, in Chrome's trace format, which Perfetto opens; times in microseconds."""
    events: list[dict[str, Any]] = []
    for process, (name, spans) in enumerate(processes.items()):
        events.append({"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}})
        lanes = {lane: number for number, lane in enumerate(dict.fromkeys(span.lane for span in spans))}
        for lane, number in lanes.items():
            events.append({"ph": "M", "name": "thread_name", "pid": process, "tid": number, "args": {"name": lane}})
        # Inner spans have to come after outer ones.
        for span in sorted(spans, key=lambda one: (one.start_s, -one.end_s)):
            events.append(
                {
                    "ph": "X",
                    "name": span.key,
                    "cat": "region",
                    "pid": process,
                    "tid": lanes[span.lane],
                    "ts": round(span.start_s * 1e6, 3),
                    "dur": round((span.end_s - span.start_s) * 1e6, 3),
                }
            )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
