"""Compute and effective throughput in turns: on data that is on the device already, and through the input path.

Both are measured in short alternating blocks, so that other activity of the machine affects both. In each round, the
host waits for the device only at the end of the first two blocks, as in any training: their times give the throughput.
In the other two it waits after each step, which separates a step's own time from its wait for input.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

from benchmarks.common.input_files import drop_from_cache
from benchmarks.common.launch import mark_window, node_window
from benchmarks.common.measure.measured import Measured, Session, epcc_metrics
from benchmarks.common.progress import to_go
from benchmarks.common.record import EFFECTIVE, MEASURED, Window
from benchmarks.common.workload import Feed
from jpwr.median import median_interval, percentile

# More batches are made while the prefetched ones are used up, so that this takes DRAIN times as many calls: enough for
# an input path of up to 1 - 1 / DRAIN of the device's speed.
DRAIN = 4
COPIES = 5  # of a batch to the device, to time one
IO_COUNTERS = Path("/proc/self/io")


@dataclass
class Turns:
    """Measured blocks and steps; every block has the same number of calls."""

    calls_per_block: int
    blocks: list[Window] = field(default_factory=list)  # compute and effective in turns
    compute_steps_s: list[float] = field(default_factory=list)  # timed one by one, on data on the device
    effective_steps_s: list[float] = field(default_factory=list)  # the same on the input path, without waiting for it
    waits_s: list[float] = field(default_factory=list)  # for input, of each effective step

    def durations_s(self, kind: str) -> list[float]:
        """Return the durations of the blocks of a kind, in seconds."""
        return [block.end_s - block.start_s for block in self.blocks if block.kind == kind]


def measure_in_turns(
    compute: Feed,
    effective: Feed,
    turns: Turns,
    rounds: int,
    settling_calls: int,
    now_s: Callable[[], float],
    synchronize: Callable[[], None],
    before_effective: Callable[[], None],
    block_edge: Callable[[str, str, float], None],
) -> Iterator[int]:
    """Fill in `turns`, and yield the number of finished rounds after each.

    Calls that are not measured precede each block, to use up the batches that were prefetched during the block before.
    `before_effective` is called before those of the effective blocks. `block_edge` is called with "begin" or "end", the
    kind, and the time of the edge.
    """

    def settle(feed: Feed) -> None:
        calls = settling_calls
        if feed is effective:
            before_effective()
            calls *= DRAIN
        for _ in range(calls):
            feed.call()
        synchronize()

    for done in range(rounds):
        for kind, feed in ((MEASURED, compute), (EFFECTIVE, effective)):
            settle(feed)
            start_s = now_s()
            block_edge("begin", kind, start_s)
            for _ in range(turns.calls_per_block):
                feed.call()
            synchronize()
            end_s = now_s()
            block_edge("end", kind, end_s)
            turns.blocks.append(node_window(start_s, end_s, kind))
        for feed, steps_s, waits_s in (
            (compute, turns.compute_steps_s, []),
            (effective, turns.effective_steps_s, turns.waits_s),
        ):
            settle(feed)
            for _ in range(turns.calls_per_block):
                begun_s = now_s()
                batch = feed.take()
                taken_s = now_s()
                feed.step(batch)
                synchronize()
                waits_s.append(taken_s - begun_s)
                steps_s.append(now_s() - taken_s)
        yield done + 1


def in_turns(session: Session) -> Measured:
    """Measure compute and effective blocks in turns, with the metrics of the input path."""
    run, training, marked = session.run, session.training, session.marked
    on_device, data = training.on_device, training.data
    assert on_device is not None
    calls, first_calls_s = _calls_per_block(session)
    turns, read, together = Turns(calls), ReadCounts(data.read_so_far), session.host_runs_ahead

    def block_edge(edge: str, kind: str, time_s: float) -> None:
        mark_window(session.launch, edge, kind, time_s)
        if kind == EFFECTIVE:
            read.edge(edge)
        if edge == "begin":
            marked.begin_window(time_s)
        if together:
            (marked.begin if edge == "begin" else marked.end)()
        if edge == "end":
            marked.end_window(kind, time_s)

    def marked_feed(feed: Feed) -> Feed:
        def call() -> None:
            marked.begin()
            feed.call()
            marked.end()

        return feed if together else replace(feed, call=call)

    def before_effective() -> None:
        if session.options.turns.cold_cache:
            drop_from_cache(run.files)

    left, begun_s = session.options.turns.rounds, time.monotonic()
    while left:
        before = len(turns.durations_s(MEASURED))
        for done in measure_in_turns(
            marked_feed(on_device),
            marked_feed(data),
            turns,
            left,
            ceil(data.steps_ahead / training.steps_per_call),
            time.monotonic,
            training.synchronize,
            before_effective,
            block_edge,
        ):
            if session.launch.rank == 0:
                rates = [calls * session.work_per_call / turns.durations_s(kind)[-1] for kind in (MEASURED, EFFECTIVE)]
                compute, effective = (f"{rate:.1f} {run.unit}s/s" for rate in rates)
                number, total = before + done, before + left
                progress = f"round {number} of {total}, {to_go(begun_s, number, total)}"
                print(f"{progress}: compute {compute}, effective {effective}", flush=True)
        host_times_s = turns.durations_s(MEASURED)
        left = session.agree(session.options.window.steps_left(len(host_times_s), sum(host_times_s)))
    steps_each = calls * training.steps_per_call
    return Measured.of(
        session,
        turns.blocks,
        host_times_s,
        [time_s / steps_each for time_s in host_times_s],
        steps_each,
        steps_each if together else training.steps_per_call,
        _input_metrics(session, turns, first_calls_s, data, read.totals),
    )


def _input_metrics(
    session: Session, turns: Turns, first_calls_s: Sequence[float], data: Feed, read: dict[str, float]
) -> dict[str, Any]:
    """Return the metrics of the input path in the effective blocks, and EPCC's speed over all calls on it."""
    run, gather, effective_s = session.run, session.target.gather, turns.durations_s(EFFECTIVE)
    own_share = sum(turns.waits_s) / (sum(turns.waits_s) + sum(turns.effective_steps_s))
    calls = len(effective_s) * turns.calls_per_block
    copies_s = [copy_s for _ in range(COPIES) if (copy_s := data.copy_batch_s()) is not None]
    if copies_s:
        read["input_copying_s"] = percentile(copies_s, 50) * calls * session.training.steps_per_call
    reads = gather(read)
    metrics = effective_metrics(
        run.unit,
        session.work_per_call,
        turns,
        session.longest_s(effective_s),
        max(gather(own_share)),  # all ranks wait for the slowest one
        {key: sum(of_rank[key] for of_rank in reads) for key in read},
    )
    all_calls = len(first_calls_s) + calls
    return metrics | epcc_metrics(run, all_calls * session.work_per_call, sum([*first_calls_s, *effective_s]))


def _calls_per_block(session: Session) -> tuple[int, list[float]]:
    """Make warm-up calls, first on the input path and then on data on the device.

    Returns the number of calls per block, from the times of the latter, and the times of the former in seconds.
    """
    window, training = session.options.window, session.training
    of_feeds_s = []
    for feed in (training.data, training.on_device):
        assert feed is not None
        times_s = []
        for _ in range(window.warmup_steps):
            start_s = time.monotonic()
            feed.call()
            training.synchronize()
            times_s.append(time.monotonic() - start_s)
        of_feeds_s.append(times_s)
    return session.agree(ceil(window.steps_to_measure(of_feeds_s[1]) / session.options.turns.rounds)), of_feeds_s[0]


def effective_metrics(
    unit: str,
    work_per_call: int,
    turns: Turns,
    effective_s: float,
    input_wait_share: float,
    read: Mapping[str, float],
) -> dict[str, float | int | str | None]:
    """Return work and time through the input path over all effective blocks, and their ratio to the compute blocks.

    `unit` is the unit of work in the singular; `effective_s` is the time of the blocks in seconds.
    `effective_over_compute` is the median over pairs of blocks, with a 95 % confidence interval; the interval is None
    with fewer than 6 pairs. `input_wait_share` (0 to 1) is a share of the time of the steps that were timed one by one;
    `step_slowdown` is the ratio of such a step's own time to that on data on the device. `read` has the amounts read
    during the effective blocks, in the units of its keys, and is returned per second; seconds of the input path's
    parts, such as `input_reading_s`, are returned as percentages of their sum.
    """
    parts_s = {key: value for key, value in read.items() if key.endswith("_s")}
    all_parts_s = sum(parts_s.values())
    blocks_s = turns.durations_s(EFFECTIVE)
    work = len(blocks_s) * turns.calls_per_block * work_per_call
    ratios = [compute / effective for compute, effective in zip(turns.durations_s(MEASURED), blocks_s, strict=True)]
    low, high = median_interval(ratios)
    return {
        f"effective_{unit}s": work,
        "effective_over_compute": percentile(ratios, 50),
        "effective_over_compute_low": low,
        "effective_over_compute_high": high,
        "effective_over_compute_pairs": len(ratios),
        "input_wait_share": input_wait_share,
        "input_wait_percent": 100 * input_wait_share,
        "step_slowdown": percentile(turns.effective_steps_s, 50) / percentile(turns.compute_steps_s, 50),
        **{f"{key}_per_s": value / effective_s for key, value in read.items() if key not in parts_s},
        **{
            f"{key.removesuffix('_s')}_percent": 100 * value / all_parts_s
            for key, value in parts_s.items()
            if all_parts_s
        },
    }


class ReadCounts:
    """Amounts that this process read between pairs of edges, by the counts of its data set and of the kernel."""

    def __init__(self, read_so_far: Callable[[], Mapping[str, float]], counters: Path = IO_COUNTERS) -> None:
        self._read_so_far, self._counters = read_so_far, counters
        self._begin = self._now()
        self.totals = dict.fromkeys(self._begin, 0.0)

    def _now(self) -> dict[str, float]:
        found = dict(self._read_so_far())
        try:
            lines = dict(line.split(": ") for line in self._counters.read_text().splitlines())
        except OSError:  # the file exists on Linux only
            return found
        # proc(5): requested bytes, and those that came from storage
        return found | {"io_rchar_bytes": int(lines["rchar"]), "io_read_bytes": int(lines["read_bytes"])}

    def edge(self, edge: str) -> None:
        """Begin or end a pair of edges: `edge` is "begin" or "end"."""
        if edge == "begin":
            self._begin = self._now()
        else:
            for key, value in self._now().items():
                self.totals[key] += value - self._begin[key]
