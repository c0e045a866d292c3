"""Channels with one sampling period, which one thread reads one after the other."""

from __future__ import annotations

import math
import threading
from typing import Any, Callable, Sequence

from jpwr.channel import Channel
from jpwr.sampling.pace import COUNTER_SHARE, PROBES, counter_pace, deadlines, random_pauses
from jpwr.sampling.recorder import NoAnswer, Part, Recorder, Round, read_error, steps_of

# Counters that take a larger share of the interval are read in a thread of their own.
SLOW_SHARE = 0.05
# Rounds that take a larger share of the interval would too often delay the next one.
BUSY_SHARE = 0.1
# A channel that takes longer to answer counts as hung, and the others are read in other threads. Two intervals, within
# these limits.
HUNG_S, MOST_HUNG_S = 0.5, 20.0
# Readings of this time are flushed together: code that runs right after a sleep finds cold caches and is slow.
FLUSH_S = 1.0


class Lane:
    """Reader of the channels at `indices` of `channels`."""

    def __init__(
        self,
        indices: Sequence[int],
        channels: Sequence[Channel],
        recorder: Recorder,
        chance: Callable[[], float],
        interval_s: float,
        period_s: float,
        counters_only: bool = False,
    ) -> None:
        self._channels = channels
        self._recorder, self._clock, self._chance = recorder, recorder.clock, chance
        self.interval_s = interval_s
        self.period_s = period_s  # of these channels' readings of power
        self.counters_only = counters_only  # another lane reads the power of these channels
        self.lock = threading.Lock()  # held during a round
        self._changing = threading.Lock()  # held to decide whether a call hangs, and to record that it does
        self._under_way: Round | None = None
        self.thread: threading.Thread | None = None  # that runs loop() or, after it, end()
        self._has_ended = threading.Lock()  # locked before the last round
        self._unanswered_s = math.inf  # first time without an answer that is not recorded yet
        self.begun = threading.Event()  # set after the first round, or when there will be none
        self.hung = False
        self.keep(indices)

    def keep(self, indices: Sequence[int]) -> None:
        """Read these channels from now on."""
        self.indices = list(indices)
        self.steps = steps_of(self._channels, indices)

    def loop(self, stopped: Callable[[], bool]) -> None:
        """Read until stopped, then once more, so that the trace covers the whole run."""
        chance, recorder, interval_s = self._chance, self._recorder, self.interval_s
        begin_s = end_s = self._clock.now_s()
        has_deadlines = not self.counters_only
        pace = counter_pace(interval_s, chance)
        if has_deadlines:
            pace = deadlines(begin_s, interval_s, chance, recorder.skip)
        probes = list(PROBES) if has_deadlines and self.steps[Part.COUNTERS] else []
        flushed_s, busy_s = -math.inf, 0.0
        while not stopped():
            before_s = busy_s
            begin_s, end_s = self.read(pace(begin_s, end_s), stopped=stopped)
            busy_s = end_s - begin_s
            self.begun.set()
            if probes:
                self.read(end_s + probes.pop() * interval_s, Part.COUNTERS, stopped)
            if end_s > flushed_s + FLUSH_S:
                recorder.flush()
                flushed_s = end_s
                if has_deadlines and min(busy_s, before_s) > BUSY_SHARE * interval_s:
                    has_deadlines, pace = False, random_pauses(interval_s, chance, recorder.skip)
        self.end()

    def end(self) -> None:
        """Read the last round, unless another thread does: that of loop() may be asleep."""
        if not self.hung and self._has_ended.acquire(blocking=False):
            self.read(self._clock.now_s())

    @property
    def names(self) -> list[str]:
        """Names of the channels of this lane."""
        return [self._channels[index].info.name for index in self.indices]

    def read(
        self,
        at_s: float,
        part: Part = Part.ALL,
        stopped: Callable[[], bool] = bool,  # returns False
        wait_s: float = -1.0,
    ) -> tuple[float, float]:
        """Read one round at a moment in seconds; return when it began and ended.

        Wait for a round in another thread to end, for at most `wait_s` seconds unless that is negative.
        """
        now_s = self._clock.now_s
        self._clock.sleep_until(at_s)
        if stopped() or not self.lock.acquire(True, wait_s):
            return now_s(), now_s()
        try:
            steps = self.steps[part]  # they may have changed during the wait
            values: list[Any] = []
            times_s = [now_s()]
            self._under_way = under_way = steps, values, times_s
            for step in steps:
                try:
                    value = step[2]()
                except BaseException as error:  # no exception may stop the readings of other sensors
                    value = read_error(error)
                times_s.append(now_s())
                values.append(value)
                if self.hung and self._is_abandoned():
                    self._resume()
                    return times_s[-1], times_s[-1]
            self._recorder.add(under_way)
            return times_s[0], times_s[-1]
        finally:
            self._under_way = None
            self.lock.release()

    def isolate_hung(self) -> list[Lane] | None:
        """Keep only the channel that does not answer; return new lanes for the others, or None if none hangs.

        Where one channel hangs, others may: each gets a lane of its own.
        """
        limit_s = min(max(HUNG_S, 2 * self.interval_s), MOST_HUNG_S)
        with self._changing:
            if self.hung or self._under_way is None:
                return None
            steps, values, times_s = self._under_way
            answers = len(values)
            asked_s = times_s[answers]
            silent_s = self._clock.now_s() - asked_s
            if answers == len(steps) or silent_s <= limit_s:
                return None
            self.hung = True
            if len(values) > answers:  # it has answered meanwhile, and may be reading the others
                self.hung = False
                return None
            self._unanswered_s = asked_s
            hung = steps[answers].channel
            others = [index for index in self.indices if index != hung]
            self.keep([hung])
        self._recorder.add((steps, values[:answers], times_s))
        self._recorder.failed_reads[self._channels[hung].info.name] += 1
        if others:
            self._recorder.skip(int(silent_s / self.interval_s))
        same = self._channels, self._recorder, self._chance, self.interval_s, self.period_s, self.counters_only
        return [Lane([other], *same) for other in others]

    def _is_abandoned(self) -> bool:
        """Whether isolate_hung() has given up the call that has just answered; wait until it has decided."""
        with self._changing:
            return self.hung

    def _resume(self) -> None:
        """Continue after a late answer, whose value is dropped: missing readings were recorded in its place."""
        self.record_missing(is_over=True)
        self.hung = False
        self._recorder.warn(f"{self.names[0]}: answers again")

    def record_missing(self, is_over: bool = False) -> None:
        """Record a missing reading for each interval in which a hung channel has not answered."""
        if self._unanswered_s == math.inf:
            return
        with self._changing:  # the monitor and this lane's thread may both call this
            missing, now_s = NoAnswer("it does not answer"), self._clock.now_s()
            while self._unanswered_s < now_s:
                at_s = self._unanswered_s
                steps = self.steps[Part.ALL]
                self._recorder.add((steps, [missing] * len(steps), [at_s] * (len(steps) + 1)))
                self._unanswered_s += self.interval_s
            if is_over:
                self._unanswered_s = math.inf


def lanes_of(
    channels: Sequence[Channel], recorder: Recorder, chance: Callable[[], float], interval_s: float
) -> list[Lane]:
    """Return one lane for each sampling period, that of `interval_s` first, and another one for its slow counters."""
    by_period: dict[float, list[int]] = {interval_s: []}
    for index, channel in enumerate(channels):
        by_period.setdefault(max(interval_s, channel.info.period_s), []).append(index)
    lanes = []
    for period_s, indices in by_period.items():
        slow = [index for index in indices if channels[index].counter_takes_s and channels[index].read_power_w]
        takes_s = sum(channels[index].counter_takes_s for index in slow)
        if takes_s <= SLOW_SHARE * period_s:
            lanes.append(Lane(indices, channels, recorder, chance, period_s, period_s))
            continue
        powers, counters = list(channels), list(channels)
        for index in slow:
            powers[index] = channels[index]._replace(read_energy_j=None)
            counters[index] = channels[index]._replace(read_power_w=None)
        lanes.append(Lane(indices, powers, recorder, chance, period_s, period_s))
        counter_s = max(period_s, takes_s / COUNTER_SHARE)
        lanes.append(Lane(slow, counters, recorder, chance, counter_s, period_s, counters_only=True))
    return lanes


def hung_channels(lanes: Sequence[Lane]) -> list[str]:
    """Return the names of the channels that do not answer."""
    found = [name for lane in list(lanes) if lane.hung for name in lane.names]
    return list(dict.fromkeys(found))  # one may hang in two lanes
