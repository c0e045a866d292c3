"""Channels that are read one after the other at one rhythm, in one thread."""

from __future__ import annotations

import math
import threading
from typing import Callable, NamedTuple, Sequence

from jpwr.channel import Channel
from jpwr.sampling.pace import COUNTER_SHARE, PROBES, beside, deadlines, rests
from jpwr.sampling.recorder import Recorder
from jpwr.sampling.round import Part, Reading, Silence, Step, reason, steps_of

# Counters that take a larger share of the interval are read in a thread of their own.
SLOW_SHARE = 0.05
# Rounds that take a larger share of the interval would too often keep the next one from its moment.
BUSY_SHARE = 0.1
# A reading that takes longer than this holds up its neighbours: they go on in another thread.
HUNG_S, MOST_HUNG_S = 0.5, 20.0  # two intervals, within these limits
# Readings are handed on so many seconds' together: a sleeper that has just woken is slow at all that it does.
HAND_ON_S = 1.0


class Round(NamedTuple):
    """One that is under way."""

    begin_s: float
    steps: Sequence[Step]
    readings: list[Reading]  # so far


class Lane:
    """`channels` are all that there are, of which those at `indices` are read."""

    def __init__(
        self,
        indices: Sequence[int],
        channels: Sequence[Channel],
        recorder: Recorder,
        chance: Callable[[], float],
        interval_s: float,
        period_s: float,
        is_beside: bool = False,
    ) -> None:
        self._channels = channels
        self._recorder, self._clock, self._chance = recorder, recorder.clock, chance
        self.interval_s = interval_s
        self.period_s = period_s  # of these channels' readings of power
        self.is_beside = is_beside  # counters alone, while another lane reads the power of these channels
        self.lock = threading.Lock()  # held by who reads
        self._moving = threading.Lock()  # held for a moment by who notes an answer, or that there is none
        self._under_way: Round | None = None
        self.thread: threading.Thread | None = None  # that reads it, once there is one
        self._asked_s = math.inf  # since when there is no answer, where that is not recorded yet
        self.begun = threading.Event()  # it has been read once, or will not be
        self.hung = False
        self.keep(indices)

    def keep(self, indices: Sequence[int]) -> None:
        """Read these channels from now on."""
        self.indices = list(indices)
        self.steps = steps_of(self._channels, indices)

    def loop(self, stopped: Callable[[], bool]) -> None:
        """Read until stopped, and once more then, so that the trace covers the whole run."""
        chance, recorder, interval_s = self._chance, self._recorder, self.interval_s
        begin_s = end_s = self._clock.now_s()
        has_deadlines = not self.is_beside
        pace = deadlines(begin_s, interval_s, chance, recorder.skip) if has_deadlines else beside(interval_s, chance)
        probes = list(PROBES) if has_deadlines and self.steps[Part.COUNTERS] else []
        handed_on_s, busy_s = -math.inf, 0.0
        while not stopped():
            before_s = busy_s
            begin_s, end_s = self.read(pace(begin_s, end_s), stopped=stopped)
            busy_s = end_s - begin_s
            self.begun.set()
            if probes:
                self.read(end_s + probes.pop() * interval_s, Part.COUNTERS, stopped)
            if end_s > handed_on_s + HAND_ON_S:
                recorder.hand_on()
                handed_on_s = end_s
                if has_deadlines and min(busy_s, before_s) > BUSY_SHARE * interval_s:
                    has_deadlines, pace = False, rests(interval_s, chance, recorder.skip)
        if not self.hung:
            self.read(end_s)

    @property
    def names(self) -> list[str]:
        """Names of the channels that it reads."""
        return [self._channels[index].info.name for index in self.indices]

    def read(
        self,
        at_s: float,
        part: Part = Part.ALL,
        stopped: Callable[[], bool] = bool,  # which says no
        wait_s: float = -1.0,
    ) -> tuple[float, float]:
        """Read one round at that moment; return when it began and ended.

        Whoever else reads is waited for, where `wait_s` is 0 or more for only so long.
        """
        now_s, moving = self._clock.now_s, self._moving
        self._clock.sleep_until(at_s)
        if stopped() or not self.lock.acquire(True, wait_s):
            return now_s(), now_s()
        try:  # what the lane reads may have changed meanwhile
            readings: list[Reading] = []
            begin_s = end_s = now_s()
            self._under_way = Round(begin_s, self.steps[part], readings)
            for index, kind, read in self._under_way.steps:
                try:
                    value = read()
                except BaseException as error:  # whatever it is, it costs no other sensor its readings
                    value = reason(error)
                asked_s, end_s = end_s, now_s()
                with moving:
                    if self.hung:
                        break
                    readings.append(Reading(index, kind, value, asked_s, end_s))
            if self.hung:
                self._answered()
                return end_s, end_s
            self._recorder.add(readings)
            return begin_s, end_s
        finally:
            self._under_way = None
            self.lock.release()

    def leave_behind(self) -> list[Lane] | None:
        """Keep the channel alone that has not answered for too long, and return lanes of the others; None without one.

        Where one hangs, others may: each goes on by itself.
        """
        limit_s = min(max(HUNG_S, 2 * self.interval_s), MOST_HUNG_S)
        with self._moving:  # it may answer at any moment, and then must not go on to the others
            now = self._under_way
            if self.hung or now is None or len(now.readings) == len(now.steps):
                return None
            asked_s = now.readings[-1].end_s if now.readings else now.begin_s
            silent_s = self._clock.now_s() - asked_s
            if silent_s <= limit_s:
                return None
            self.hung, self._asked_s = True, asked_s
            hung = now.steps[len(now.readings)].channel
            others = [index for index in self.indices if index != hung]
            self.keep([hung])
        self._recorder.add(now.readings)
        self._recorder.failed_reads[self._channels[hung].info.name] += 1
        if others:
            self._recorder.skip(int(silent_s / self.interval_s))
        same = self._channels, self._recorder, self._chance, self.interval_s, self.period_s, self.is_beside
        return [Lane([other], *same) for other in others]

    def _answered(self) -> None:
        """Go on: what came before this reading is old, and it is of no known moment itself."""
        self.record_silence(to_its_end=True)
        self.hung = False
        self._recorder.warn(f"{self.names[0]}: answers again")

    def record_silence(self, to_its_end: bool = False) -> None:
        """Record a missing reading for each one to which a channel that hangs has had no answer until now."""
        with self._moving:  # who looks after it may come at the moment at which it answers
            silent, now_s = Silence("it does not answer"), self._clock.now_s()
            while self._asked_s < now_s:
                at_s = self._asked_s
                self._recorder.add([Reading(*step[:2], silent, at_s, at_s) for step in self.steps[Part.ALL]])
                self._asked_s += self.interval_s
            if to_its_end:
                self._asked_s = math.inf


def lanes_of(
    channels: Sequence[Channel], recorder: Recorder, chance: Callable[[], float], interval_s: float
) -> list[Lane]:
    """Return one lane for each rhythm, the sampling interval's first, and one beside it where counters are slow."""
    rhythms: dict[float, list[int]] = {interval_s: []}
    for index, channel in enumerate(channels):
        rhythms.setdefault(max(interval_s, channel.info.period_s), []).append(index)
    lanes = []
    for period_s, indices in rhythms.items():
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
        rarer_s = max(period_s, takes_s / COUNTER_SHARE)
        lanes.append(Lane(slow, counters, recorder, chance, rarer_s, period_s, is_beside=True))
    return lanes
