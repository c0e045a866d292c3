"""Compute and effective throughput in turns: on data that is on the device already, and through the input path.

Both are measured in short blocks, one after the other and again, so that whatever else the machine does falls on both.
In each round the first two blocks are only waited for at their end, as in any training: their times are throughput.
In the other two the device is waited for at each step, so that a step's own time and its wait for input come apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from benchmarks.common.record import EFFECTIVE, MEASURED
from benchmarks.common.workload import BatchFeed

# More batches are made while those made ahead are used up, so that this takes so many times the calls: enough for an
# input path of up to 1 - 1 / DRAIN of the device's speed.
DRAIN = 4


@dataclass(frozen=True)
class Block:
    """Calls that were waited for at their end; times in seconds of the clock that was given."""

    kind: str
    start_s: float
    end_s: float

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s


@dataclass
class Turns:
    """What was measured; every block of one kind has the same number of calls."""

    calls_per_block: int
    blocks: list[Block] = field(default_factory=list)  # compute and effective in turns
    compute_steps_s: list[float] = field(default_factory=list)  # steps that were waited for, on the device's own data
    effective_steps_s: list[float] = field(default_factory=list)  # the same on the input path, without the wait for it
    waits_s: list[float] = field(default_factory=list)  # for input, of each of the latter

    def durations_s(self, kind: str) -> list[float]:
        """How long each block of a kind took."""
        return [block.duration_s for block in self.blocks if block.kind == kind]


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
    """Fill in `turns`; yields the number of rounds done after each.

    Some calls that are not measured come before each block: while the other kind of data was in use, batches were made
    ahead. `before_effective` comes before those of the effective blocks; `block_edge` is told "begin" or "end", the
    kind, and the time at which the block begins or has ended.
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
