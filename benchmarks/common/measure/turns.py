"""Compute and effective throughput in turns: on data that is on the device already, and through the input path.

Both are measured in short alternating blocks, so that other activity of the machine affects both. In each round, the
host waits for the device only at the end of the first two blocks, as in any training: their times give the throughput.
In the other two it waits after each step, which separates a step's own time from its wait for input.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any, cast

from benchmarks.common.input_files import drop_from_cache
from benchmarks.common.launch import mark_window, node_window
from benchmarks.common.measure.measured import Measured, Session, epcc_metrics
from benchmarks.common.measure.regions import MarkedSteps
from benchmarks.common.measure.throughput import Block, Turns, effective_metrics
from benchmarks.common.progress import to_go
from benchmarks.common.record import EFFECTIVE, MEASURED
from benchmarks.common.workload import BatchFeed, Input
from jpwr.median import percentile

# More batches are made while the prefetched ones are used up, so that this takes DRAIN times as many calls: enough for
# an input path of up to 1 - 1 / DRAIN of the device's speed.
DRAIN = 4
COPIES = 5  # of a batch to the device, to time one
IO_COUNTERS = Path("/proc/self/io")


def measure_in_turns(
    compute: BatchFeed,
    effective: BatchFeed,
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

    def settle(feed: BatchFeed) -> None:
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
            turns.blocks.append(Block(kind, start_s, end_s))
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


class MarkedFeed:
    """Feed whose steps are marked."""

    def __init__(self, feed: BatchFeed, marked: MarkedSteps) -> None:
        self._feed, self._marked = feed, marked
        self.take, self.step = feed.take, feed.step

    def call(self) -> None:
        """Make one call into the framework."""
        self._marked.begin()
        self._feed.call()
        self._marked.end()


def in_turns(session: Session) -> Measured:
    """Measure compute and effective blocks in turns, with the metrics of the input path."""
    run, training, marked = session.run, session.training, session.marked
    on_device, data = training.on_device, cast(Input, training.data)
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

    def before_effective() -> None:
        if session.options.turns.cold_cache:
            drop_from_cache(run.files)

    left, begun_s = session.options.turns.rounds, time.monotonic()
    while left:
        before = len(turns.durations_s(MEASURED))
        for done in measure_in_turns(
            on_device if together else MarkedFeed(on_device, marked),
            data if together else MarkedFeed(data, marked),
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
        [node_window(block.start_s, block.end_s, block.kind) for block in turns.blocks],
        host_times_s,
        [time_s / steps_each for time_s in host_times_s],
        steps_each,
        steps_each if together else training.steps_per_call,
        _input_metrics(session, turns, first_calls_s, data, read.totals),
    )


def _input_metrics(
    session: Session, turns: Turns, first_calls_s: Sequence[float], data: Input, read: dict[str, float]
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
        run.layout["num_devices"],
        turns,
        session.longest_s(effective_s),
        max(gather(own_share)),  # all ranks wait for the slowest one
        {key: sum(one[key] for one in reads) for key in read},
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
