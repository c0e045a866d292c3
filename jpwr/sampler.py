"""Read every channel at absolute deadlines until told to stop."""

from __future__ import annotations

import enum
import json
import math
import operator
import os
import sys
import threading
import time
from array import array
from collections import deque
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Callable, List, Optional, Protocol, Sequence, Tuple

from jpwr import threads
from jpwr.channel import MOST, MOST_W, Channel, InPlace
from jpwr.clock import Clock, SystemClock
from jpwr.errors import JpwrError, ReadError
from jpwr.sentinels import NO_POWER_W, TIMES_LIMIT, bounds_w
from jpwr.slope import Slope
from jpwr.trace import Row, Trace, storing

# NVML averages over a window of its own, so sampling much faster than it refreshes
# adds rows and no information (Yang et al. 2023, arXiv:2312.02741).
DEFAULT_INTERVAL_S = 0.1
MIN_INTERVAL_S = 0.001  # no sensor has a new value more often, and no machine keeps that up beside a program
STATUS_INTERVAL_S = 1.0
OF_AN_EVENT = ("event", "time_s", "channel")  # which no status may tell
STATUS_HUNG_S = 5.0
# Readings that are no further apart are of one moment: at 1 kW, 0.2 J may pass in between.
SAME_MOMENT_S = 0.0002
# How often a counter is renewed shows in readings that are close together: the first ticks are followed by such ones.
PROBES = tuple(0.3 / 2**power for power in range(8)) * 3  # shares of the interval
# Counters that take a larger share of the interval are read beside power, in a thread of their own, for such a share of
# the time at most.
SLOW_SHARE, COUNTER_SHARE = 0.05, 0.25
# Rounds that take a larger share of the interval would too often keep the next one from its moment.
BUSY_SHARE = 0.1
FEW_ROUNDS = 3.0  # in time for so many there is one: between fewer, no load would be seen at all of its phases
# A reading that takes so long, where others do not, is of no known moment: at 300 W, 15 J may pass meanwhile.
LONG_S = 0.05
# A reading that takes longer than this holds up its neighbours: they go on in another thread.
HUNG_S, MOST_HUNG_S = 0.5, 20.0  # two intervals, within these limits
WATCH_INTERVAL_S = 2.0  # a wake-up takes as much CPU time as five readings
JOIN_S = 2.0
MARK_S = 1.0
# Readings are handed on so many seconds' together: a sleeper that has just woken is slow at all that it does.
HAND_ON_S = 1.0

# A process is forked while no rows are put away: it finds whole columns, and nobody there holds the lock.
os.register_at_fork(before=storing.acquire, after_in_parent=storing.release, after_in_child=storing.release)


class Sink(Protocol):
    """Where rows go, about a second's together: a Trace, a file, running totals."""

    def extend(self, rows: Sequence[Row]) -> None: ...

    def event(self, name: str, time_s: float, /, **details: Any) -> None: ...


call: Callable[[Callable[[], Any]], Any] = getattr(operator, "call", lambda step: step())  # Python 3.11 has it


def _warn(message: str) -> None:
    with suppress(OSError, ValueError):  # stderr is closed or nobody reads it: nothing is lost but the words
        print(f"jpwr: {message}", file=sys.stderr)


def _reason(error: BaseException) -> ReadError:
    """Why a reading failed, without all that an exception holds on to."""
    try:
        return ReadError(str(error) if isinstance(error, ReadError) else f"{type(error).__name__}: {error}")
    except BaseException:
        return ReadError(type(error).__name__)


def _shown(value: object) -> str:
    try:
        return f"{value!r:.40}"
    except (Exception, SystemExit):
        return f"a {type(value).__name__}"


class _Silence(ReadError):
    """Of a reading of a channel that hangs, which is said already."""


# Which readings of a lane; quick ones keep nobody waiting.
ALL, COUNTERS, QUICK_COUNTERS = range(3)


class _Kind(enum.Enum):
    """What a reading is."""

    POWER = "power"
    COUNTER = "counter"
    COUNTER_AND_SLOPE = "counter and slope"  # of which power is the slope
    IN_PLACE = "power and counter"  # which are in a place from where they are copied


# A reading's channel, by its number, what it is, and how to tell what was left in which part of its round's places.
_What = Tuple[int, _Kind, Optional[Callable[[Any, bytes], Any]], slice]


class _Round:
    """Readings, taken one after the other with a look at the clock after each, and the places where they are left."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self.steps: list[Callable[[], Any]] = []
        self.what: list[_What] = []
        self.places: list[bytearray] = []

    def add(self, call: Callable[[], Any], index: int, kind: _Kind) -> None:
        self.steps += call, self._now_s
        self.what.append((index, kind, None, slice(0)))

    def add_in_place(self, reading: InPlace, index: int) -> None:
        self.steps += reading.take, self._now_s
        size = sum(map(len, self.places))
        self.what.append((index, _Kind.IN_PLACE, reading.tell, slice(size, size + len(reading.place))))
        self.places.append(reading.place)

    def copy(self) -> bytes:
        """What is in all places, one after the other."""
        return b"".join(self.places)


# What a round has found: a moment in seconds, the first reading, the moment after it, the second reading, and so on. A
# sleeper that has just woken is slow at all that it does, and slowest at what is new in memory.
_Look = List[Any]


class _Lane:
    """Channels that are read one after the other at one rhythm, in one thread; `channels` are all that there are."""

    def __init__(
        self,
        channels: Sequence[Channel],
        indices: Sequence[int],
        interval_s: float,
        period_s: float,
        is_beside: bool,
        now_s: Callable[[], float],
    ) -> None:
        self.channels = channels
        self.now_s = now_s
        self.keep(indices)
        self.interval_s = interval_s
        self.period_s = period_s  # of these channels' readings of power
        self.is_beside = is_beside  # counters alone, while another lane reads the power of these channels
        self.looks: deque[tuple[Sequence[_What], _Look, bytes]] = deque()  # not handed on yet
        self.lock = threading.Lock()
        self.round = self.rounds[ALL]  # the one that is being read, and what it has found so far
        self.look: _Look | None = None
        self.has_begun = self.hung = False
        self.asked_s = math.inf  # since when there is no answer, where that is not recorded yet
        self.is_heir = False  # of one that hung

    def keep(self, indices: Sequence[int]) -> None:
        """Read these from now on."""
        self.indices = list(indices)
        everything, counters, quick_counters = (_Round(self.now_s) for _ in (ALL, COUNTERS, QUICK_COUNTERS))
        for index in indices:
            _, read_power_w, read_energy_j, _, in_place, counter_takes_s = self.channels[index]
            if read_energy_j is not None:
                counters.add(read_energy_j, index, _Kind.COUNTER)
                if not counter_takes_s:
                    quick_counters.add(read_energy_j, index, _Kind.COUNTER)
            if in_place is not None:
                everything.add_in_place(in_place, index)
                continue
            if read_energy_j is not None:
                everything.add(read_energy_j, index, _Kind.COUNTER if read_power_w else _Kind.COUNTER_AND_SLOPE)
            if read_power_w is not None:
                everything.add(read_power_w, index, _Kind.POWER)
        self.rounds = everything, counters, quick_counters


def _lanes(channels: Sequence[Channel], interval_s: float, now_s: Callable[[], float]) -> list[_Lane]:
    """One for each rhythm, the sampling interval's first, and one beside it where its counters take too long."""
    rhythms: dict[float, list[int]] = {interval_s: []}
    for index, channel in enumerate(channels):
        rhythms.setdefault(max(interval_s, channel.info.period_s), []).append(index)
    lanes = []
    for period_s, indices in rhythms.items():
        slow = [index for index in indices if channels[index].counter_takes_s and channels[index].read_power_w]
        takes_s = sum(channels[index].counter_takes_s for index in slow)
        if takes_s <= SLOW_SHARE * period_s:
            lanes.append(_Lane(channels, indices, period_s, period_s, is_beside=False, now_s=now_s))
            continue
        powers, counters = list(channels), list(channels)
        for index in slow:
            powers[index] = channels[index]._replace(read_energy_j=None, in_place=None)
            counters[index] = channels[index]._replace(read_power_w=None, in_place=None)
        lanes.append(_Lane(powers, indices, period_s, period_s, is_beside=False, now_s=now_s))
        lanes.append(
            _Lane(counters, slow, max(period_s, takes_s / COUNTER_SHARE), period_s, is_beside=True, now_s=now_s)
        )
    return lanes


class Sampler:
    """Deadline loops, one for each rhythm.

    A load with a period of its own can keep step with samples at equal distances, which then see it always at the same
    phase. So each sample is taken at a random moment of its interval (stratified sampling), which makes what is missed
    in between independent errors.

    A read that comes late skips ticks and never bursts; a read that fails, for whatever reason, is `nan`, is counted,
    and is warned about once. A channel with a period of its own has its own loop, slow counters are read in one beside
    power, and a channel that does not answer is left behind in one, so that it holds up no other. `chance()` gives a
    number from 0 to 1: where in its interval a sample is taken.
    """

    def __init__(
        self,
        channels: Sequence[Channel],
        sinks: Sequence[Sink],
        interval_s: float = DEFAULT_INTERVAL_S,
        clock: Clock | None = None,
        warn: Callable[[str], None] = _warn,
        chance: Callable[[], float] = lambda: 0.0,
    ) -> None:
        if not MIN_INTERVAL_S <= interval_s < math.inf:
            raise JpwrError(f"the sampling interval must be {MIN_INTERVAL_S:g} s or more, got {interval_s}")
        self.channels = list(channels)
        self.sinks = list(sinks)
        self.interval_s = interval_s
        self.clock = clock or SystemClock()
        self.skipped_ticks = 0
        self.failed_reads: dict[str, int] = {channel.info.name: 0 for channel in self.channels}
        self._without_status: set[str] = set()  # whose status cannot be had
        self._asking: tuple[str, float, threading.Thread] | None = None  # whose status, since when, and who asks
        self._told: dict[int, dict[_Kind, float]] = {}  # when it was said of a channel's readings that they fail
        self._long_s: dict[tuple[int, _Kind], float] = {}  # when a reading last took long
        self._began_s = math.inf
        self._warn = warn
        self._unsaid: list[str] = []
        self._chance = chance
        self._bounds_w = [bounds_w(channel.info) for channel in self.channels]
        self.counters_j = [math.nan] * len(self.channels)  # as last handed on; nan where there is none
        self._slopes = [
            None if channel.read_power_w else Slope(max(interval_s, channel.info.period_s)) for channel in self.channels
        ]
        self._emitting = threading.RLock()  # a signal may be handled by its owner, who marks a region
        self._is_handing_on = False
        self._lanes = _lanes(self.channels, interval_s, self.clock.now_s)
        self._threads: list[threading.Thread] = []
        self._error: BaseException | None = None
        self.begun = threading.Event()  # all have been read, or nothing more will be

    @property
    def hung(self) -> list[str]:
        """Names of the channels that did not answer and were left behind."""
        found = [self.channels[index].info.name for lane in self._lanes if lane.hung for index in lane.indices]
        return list(dict.fromkeys(found))  # one may hang in two lanes

    def run(self, stopped: Callable[[], bool]) -> None:
        """Sample now, then at every deadline, and once more when stopped, so that the trace covers the whole run."""
        self._began_s = self.clock.now_s()
        for lane in self._lanes[1:]:
            self._start_lane(lane, stopped)
        if any(channel.read_status for channel in self.channels):
            self._start(partial(self._watch_status, stopped))
        try:
            self._loop(self._lanes[0], stopped)
        finally:
            self.begun.set()
            self.finish()
        if self._error is not None:
            raise self._error

    def finish(self) -> None:
        """Wait for the last readings of all rhythms, where channels hang only so long, and hand them on."""
        end_s = time.monotonic() + JOIN_S
        while self._threads:  # who hangs is waited for once
            self._threads.pop().join(max(0.0, end_s - time.monotonic()))
        for lane in list(self._lanes):
            self._record_silence(lane)
        self.hand_on()

    def watch(self, stopped: Callable[[], bool]) -> None:
        """Look after channels that do not answer; for a thread of its own."""
        while not stopped():
            self.look_after(stopped)
            # Until all have been read, those that answer wait behind those that do not.
            self.clock.sleep_until(self.clock.now_s() + (WATCH_INTERVAL_S if self.begun.is_set() else HUNG_S))

    def look_after(self, stopped: Callable[[], bool]) -> None:
        """Leave behind, now, the channels that do not answer."""
        now_s = self.clock.now_s()
        for lane in list(self._lanes):
            limit_s = min(max(HUNG_S, 2 * lane.interval_s), MOST_HUNG_S)
            now, look = lane.round, lane.look
            if lane.hung:
                self._record_silence(lane)
                continue
            if look is None:
                continue
            reading = (len(look) - 1) // 2
            if now_s - look[2 * reading] > limit_s and reading < len(now.what):
                self._leave_behind(lane, now, look, reading, stopped)
        asking = self._asking
        if asking is not None and now_s - asking[1] > STATUS_HUNG_S:
            self._leave_status_behind(asking[0], asking[2], stopped)

    def sample(self, wait_s: float = 1.0) -> None:
        """Read every channel that has no slower rhythm of its own once, now; not one that does not answer.

        What is being read at the moment is waited for, for so long.
        """
        for lane in self._at_hand():
            self._read(lane, [self.clock.now_s()], wait_s=wait_s)
        self.hand_on()

    def sample_counters(self, wait_s: float = 0.1, quick: bool = False) -> None:
        """The same for counters alone, or quick ones: at a moment that the load has chosen, power is no fair sample."""
        part = QUICK_COUNTERS if quick else COUNTERS
        for lane in self._at_hand():
            if lane.rounds[part].steps:  # else nobody waits for its turn
                self._read(lane, [self.clock.now_s()], part=part, wait_s=wait_s)
        self.hand_on()

    def _at_hand(self) -> list[_Lane]:
        """Those that anybody may read at any time."""
        return [lane for lane in list(self._lanes) if lane.period_s == self.interval_s and not lane.hung]

    def event(self, name: str, time_s: float, /, **details: Any) -> None:
        """Hand an event to all sinks, after what was read before it."""
        with self._emitting:
            self._hand_on_looks()
            for sink in self.sinks:
                sink.event(name, time_s, **details)

    def hand_on(self) -> None:
        """Hand what was read until now to all sinks."""
        with self._emitting:
            self._hand_on_looks()
            unsaid, self._unsaid = self._unsaid, []
        for words in unsaid:  # without the lock: saying may take its time, or come back here
            self._warn(words)

    def _hand_on_looks(self) -> None:
        if self._is_handing_on:
            return  # in the midst of it a signal is handled: what was read later must not overtake
        self._is_handing_on = True
        try:
            rows: list[Row] = []
            for lane in list(self._lanes):
                while lane.looks:
                    rows += self._rows(*lane.looks.popleft())
            if len(self._lanes) > 1:
                rows.sort(key=operator.itemgetter(0))
            if rows:
                for sink in self.sinks:
                    sink.extend(rows)
        finally:
            self._is_handing_on = False

    def _rows(self, what: Sequence[_What], look: _Look, copy: bytes) -> list[Row]:
        """What was read at one moment is a row."""
        nothing: list[float | None] = [None] * len(self.channels)
        rows: list[Row] = []
        row_s, watts, joules = -math.inf, nothing, nothing
        before_s = look[0]
        for (index, kind, tell, place), value, after_s in zip(what, look[1::2], look[2::2]):
            time_s, took_s = (before_s + after_s) / 2, after_s - before_s
            before_s = after_s
            if took_s > LONG_S and self._is_out_of_time(index, kind, time_s, took_s):
                self.skipped_ticks += 1
                continue
            if time_s - row_s > SAME_MOMENT_S:
                row_s, watts, joules = time_s, nothing[:], nothing[:]
                rows.append(Row(row_s, watts, joules))
            power = value
            if tell is not None and type(value) is not ReadError:
                try:
                    power, value = tell(value, copy[place])
                except (Exception, SystemExit) as error:
                    power = value = _reason(error)
            if tell is not None or kind is _Kind.POWER:
                least_w, most_w = self._bounds_w[index]
                known = type(power) is float and least_w <= power <= most_w and power not in NO_POWER_W
                watts[index] = power if known else self._number(index, _Kind.POWER, power, time_s)
                if tell is None:
                    continue
            if type(value) is not float or not abs(value) <= MOST:
                value = self._number(index, _Kind.COUNTER, value, time_s)
            self.counters_j[index] = joules[index] = value
            slope = self._slopes[index]
            if slope is not None:  # also readings of the counter alone tell its pace
                slope_w = slope.watts_at(time_s, value)
                if kind is _Kind.COUNTER_AND_SLOPE:
                    watts[index] = slope_w
        return rows

    def _start(self, loop: Callable[[], None]) -> None:
        def run() -> None:
            try:
                loop()
            except BaseException as error:  # handed to the thread that waits in run()
                self._error = error

        thread = threading.Thread(target=run, name="jpwr-lane", daemon=True)
        threads.start(thread)
        self._threads.append(thread)

    def _start_lane(self, lane: _Lane, stopped: Callable[[], bool]) -> None:
        if lane.is_beside:
            self._start(partial(self._loop_without_deadlines, lane, stopped, list(PROBES), self.clock.now_s()))
        else:
            self._start(partial(self._loop, lane, stopped))

    def _loop(self, lane: _Lane, stopped: Callable[[], bool]) -> None:
        interval_s, chance = lane.interval_s, self._chance
        together = max(1, round(HAND_ON_S / interval_s))
        probes = list(PROBES) if lane.rounds[COUNTERS].steps else []
        start_s = self.clock.now_s()
        look = [start_s]
        busy_s = before_s = 0.0  # how long the last two rounds took
        tick, ahead_s = 0, [start_s]  # the next tick, and the deadlines from there on, the last one first
        while not stopped():
            if not ahead_s:
                self.hand_on()
                if min(busy_s, before_s) > BUSY_SHARE * interval_s:
                    self._loop_without_deadlines(lane, stopped, probes, start_s + (tick + chance()) * interval_s)
                    return
                # A deadline depends on its tick alone: what one tick takes does not move the next.
                ahead_s = [start_s + (tick + later + chance()) * interval_s for later in reversed(range(together))]
            ended_s = look[-1]
            late = math.ceil((ended_s - start_s) / interval_s - 1e-9) - tick  # so many ticks have begun since
            if ended_s > ahead_s[-1] and late > (0 if ended_s - look[0] > interval_s else 1):
                self.skipped_ticks += late
                tick += late
                del ahead_s[-late:]
                continue
            # Else two random moments are closer together than a reading takes: the second one is now.
            tick += len(ahead_s)
            look = self._read(lane, [ahead_s.pop()] if probes else ahead_s, stopped)
            busy_s, before_s = look[-1] - look[0], busy_s
            if probes:
                look = self._read(lane, [look[-1] + probes.pop() * interval_s], stopped, COUNTERS)
            tick -= len(ahead_s)
            self._note_begun(lane)
        if not lane.hung:
            self._read(lane, [start_s])

    def _loop_without_deadlines(
        self, lane: _Lane, stopped: Callable[[], bool], probes: list[float], next_s: float
    ) -> None:
        """For rounds that take long: the longer, the less often.

        Where moments have to wait for the rounds before them, they are none of chance: here the next one is by chance
        from the last one on. Counters beside power, which do not need that, leave most of the time to others.
        """
        interval_s = lane.interval_s
        handed_on_s = self.clock.now_s()
        left_out = 0.0  # ticks
        while not stopped():
            look = self._read(lane, [next_s], stopped)
            self._note_begun(lane)
            busy_s = look[-1] - look[0]
            if lane.is_beside:
                next_s = look[0] + busy_s / COUNTER_SHARE
                if probes:
                    next_s += probes.pop() * interval_s
                else:
                    next_s = max(next_s, look[0] + (0.5 + self._chance()) * interval_s)
            else:
                period_s = max(interval_s, FEW_ROUNDS * busy_s)
                next_s = look[-1] + self._chance() * 2 * (period_s - busy_s)
                left_out += period_s / interval_s - 1
                self.skipped_ticks += int(left_out)
                left_out -= int(left_out)
                if probes:
                    self._read(lane, [look[-1] + probes.pop() * interval_s], stopped, COUNTERS)
            if look[-1] > handed_on_s + HAND_ON_S:
                self.hand_on()
                handed_on_s = look[-1]
        if not lane.hung:
            self._read(lane, [handed_on_s])

    def _note_begun(self, lane: _Lane) -> None:
        if not lane.has_begun:
            lane.has_begun = True
            if all(each.has_begun for each in self._lanes):
                self.begun.set()

    def _leave_behind(self, lane: _Lane, now: _Round, look: _Look, reading: int, stopped: Callable[[], bool]) -> None:
        hung = now.what[reading][0]
        others = [index for index in lane.indices if index != hung]
        name = self.channels[hung].info.name
        is_said = name in self.hung
        copy = now.copy()
        asked_s = lane.asked_s = look[2 * reading]
        lane.hung = True  # first: it may answer at any moment, and must not go on to the others
        if lane.look is not look or len(look) != 2 * reading + 1:
            lane.hung, lane.asked_s = False, math.inf  # it has answered meanwhile
            return
        del now.steps[2 * reading + 2 :]
        lane.keep([hung])
        if reading:
            lane.looks.append((now.what[:reading], look[: 2 * reading + 1], copy))
        self.failed_reads[name] += 1
        if others and not lane.is_heir:
            self.skipped_ticks += int((self.clock.now_s() - asked_s) / lane.interval_s)
        # Where one more hangs, others may: then each goes on by itself.
        for indices in [[index] for index in others] if lane.is_heir else [others] if others else []:
            heir = _Lane(lane.channels, indices, lane.interval_s, lane.period_s, lane.is_beside, lane.now_s)
            heir.is_heir = True
            self._lanes.append(heir)
            self._start_lane(heir, stopped)
        if not is_said:
            what = "its counter does not answer" if lane.is_beside else "does not answer"
            self._warn(f"{name}: {what}; it is left behind, and the other channels go on")

    def _read(
        self,
        lane: _Lane,
        ahead_s: list[float],
        stopped: Callable[[], bool] = bool,  # which says no
        part: int = ALL,
        wait_s: float = -1.0,
    ) -> _Look:
        """Read all of a lane at each of these deadlines, the last one first, and take them off, until it is too late
        for one; return what was found last.

        Whoever else reads it is waited for, where `wait_s` is 0 or more for only so long. This is one function, with
        all names at hand, because somebody who has just woken is slow: each call takes ten times what it takes else.
        """
        now_s, sleep_until = self.clock.now_s, self.clock.sleep_until
        acquire, release = lane.lock.acquire, lane.lock.release
        join = b"".join
        look: _Look = [now_s()]
        while True:
            sleep_until(ahead_s.pop())
            if stopped() or not acquire(True, wait_s):
                return look
            try:  # what the lane reads may have changed meanwhile
                lane.round = now = lane.rounds[part]
                lane.look = look = [now_s()]
                steps = map(call, now.steps)  # a loop of the interpreter's own, and each step's result is at once there
                while len(look) <= len(now.steps):
                    try:
                        look.extend(steps)
                        if len(look) <= len(now.steps):
                            raise ReadError("StopIteration")  # of a reading, taken for the steps' own end
                    except BaseException as error:  # whatever it is, it costs no other sensor its readings
                        look.append(_reason(error))
                if lane.hung:
                    look = self._answered(lane, now, look)
                else:
                    lane.looks.append((now.what, look, join(now.places)))
            finally:
                lane.look = None
                release()
            if not ahead_s or ahead_s[-1] < look[-1]:
                return look

    def _answered(self, lane: _Lane, now: _Round, look: _Look) -> _Look:
        """Others have gone on meanwhile: what came before this reading is old, and it is of no known moment itself."""
        self._record_silence(lane, to_its_end=True)
        lane.hung = False
        self._warn(f"{self.channels[now.what[len(look) // 2 - 1][0]].info.name}: answers again")
        return look[-1:]

    def _record_silence(self, lane: _Lane, to_its_end: bool = False) -> None:
        """Each reading for which a channel that hangs has had no answer until now is a missing one."""
        with self._emitting:  # who looks after it may come at the moment at which it answers
            what, silent, now_s = lane.rounds[ALL].what, _Silence("it does not answer"), self.clock.now_s()
            while lane.asked_s < now_s:
                lane.looks.append((what, [lane.asked_s, *[silent, lane.asked_s] * len(what)], b""))
                lane.asked_s += lane.interval_s
            if to_its_end:
                lane.asked_s = math.inf

    def _is_out_of_time(self, index: int, kind: _Kind, time_s: float, took_s: float) -> bool:
        """Whether a reading took so long, and longer than others of it, that its value is of no known moment."""
        period_s = self.channels[index].info.period_s
        around_s = took_s + max(self.interval_s, period_s)
        is_first = time_s - self._began_s <= around_s
        last_s = self._long_s.get((index, kind), -math.inf)
        self._long_s[index, kind] = time_s
        return took_s > period_s and not is_first and time_s - last_s > 2 * FEW_ROUNDS * around_s

    def _number(self, index: int, kind: _Kind, value: Any, time_s: float) -> float:
        """What is recorded for a reading that is not plainly a float of a machine; a ReadError is why it failed."""
        if not isinstance(value, ReadError):
            try:
                number = float(value)
            except (Exception, SystemExit):
                value = ReadError(f"it tells {_shown(value)}, which is no number")
            else:
                least, most = self._bounds_w[index] if kind is _Kind.POWER else (-MOST, MOST)
                if least <= number <= most and not (kind is _Kind.POWER and number in NO_POWER_W):
                    return number
                limit = f"a device with a limit of {most / TIMES_LIMIT:g} W"
                whose = limit if most < number < MOST_W else "any machine"
                value = ReadError(f"it tells {_shown(value)}, which is no {kind.value} of {whose}")
        info = self.channels[index].info
        self.failed_reads[info.name] += 1
        if isinstance(value, _Silence):
            return math.nan
        told_s = self._told.setdefault(index, {})
        if kind in told_s or info.lacks.startswith("cannot be read"):
            return math.nan
        # Power and counter that fail together are told together, and one that fails later by itself.
        together = any(time_s - before_s <= max(self.interval_s, info.period_s) for before_s in told_s.values())
        which = f"{kind.value}: " if told_s else ""
        told_s[kind] = time_s
        if not together:
            self._unsaid.append(f"{info.name}: {which}{value}; readings that fail are recorded as missing")
        return math.nan

    def _watch_status(self, stopped: Callable[[], bool]) -> None:
        """Record what explains the readings, whenever it has changed."""
        last: dict[str, dict[str, Any]] = {}
        while not stopped():
            now_s = self.clock.now_s()
            for channel in self.channels:
                name = channel.info.name
                if channel.read_status is None or name in self._without_status or name in self.hung:
                    continue
                self._asking = asking = name, self.clock.now_s(), threading.current_thread()
                status = self._new_status(name, channel.read_status, last.get(name))
                if self._asking is not asking:
                    return  # it was left behind, and another goes on
                self._asking = None
                if status is not None:
                    last[name] = status
                    self.event("status", now_s, **{**status, "channel": name})
            self.clock.sleep_until(now_s + STATUS_INTERVAL_S)

    def _new_status(
        self, name: str, read: Callable[[], dict[str, Any]], last: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        """A channel's status; None where it is as the last one, or cannot be had."""
        try:
            status = dict(read())
            if odd := [key for key in status if type(key) is not str or key in OF_AN_EVENT]:
                raise ValueError(f"it has the key {_shown(odd[0])}")
            if status == last:
                return None
            json.dumps(status)
        except ReadError:
            return None  # its readings tell that it fails
        except BaseException as error:
            self._without_status.add(name)
            self._warn(f"{name}: its status cannot be read ({type(error).__name__}: {error})")
            return None
        return status

    def _leave_status_behind(self, name: str, who: threading.Thread, stopped: Callable[[], bool]) -> None:
        self._asking = None
        self._without_status.add(name)
        self._warn(f"{name}: its status does not answer; it is not asked for again, and that of others goes on")
        if who in self._threads:
            self._threads.remove(who)
        self._start(partial(self._watch_status, stopped))


class PowerMonitor:
    """Sample in a thread for as long as the `with` block lasts; `trace` is what was seen until it is asked for.

    The block begins when all channels have been read once, where one does not answer after MARK_S.

    >>> with ExitStack() as stack:
    ...     with PowerMonitor(open_methods(["pynvml"], stack).channels) as monitor:
    ...         work()
    ...     monitor.trace.energies(start_s, end_s)
    """

    def __init__(
        self,
        channels: Sequence[Channel],
        interval_s: float = DEFAULT_INTERVAL_S,
        sinks: Sequence[Sink] | None = None,
        clock: Clock | None = None,
        warn: Callable[[str], None] = _warn,
        chance: Callable[[], float] | None = None,
    ) -> None:
        self.clock = clock or SystemClock()
        infos = [channel.sampled_info(interval_s) for channel in channels]
        self._trace = Trace(infos, {"random_phase": True, "interval_s": interval_s})
        self.sampler = Sampler(
            channels, [self._trace] if sinks is None else sinks, interval_s, self.clock, warn, chance or any_moment
        )
        self._stop = threading.Lock()  # held from when it is to stop on: it is asked at each sample
        self._process_id = os.getpid()
        self._error: BaseException | None = None
        self._threads = [threading.Thread(target=run, name="jpwr", daemon=True) for run in (self._run, self._watch)]

    @property
    def trace(self) -> Trace:
        """Within the block whoever keeps it sees what comes later up to a second late; in a process that was forked
        meanwhile, what had been handed on.
        """
        if self.is_of_this_process:
            self.sampler.hand_on()
        return self._trace

    @property
    def is_of_this_process(self) -> bool:
        """Whether its threads are here, and not in a process from which this one was forked."""
        return self._process_id == os.getpid()

    def _run(self) -> None:
        try:
            self.sampler.run(self._stop.locked)
        except BaseException as error:  # handed to the thread that stops the monitor
            self._error = error

    def _watch(self) -> None:
        self.sampler.watch(self._stop.locked)

    def mark(self, event: str, name: str) -> None:
        """Note a region_begin or region_end, and read the quick counters outside of the region and beside it, so that
        its edge is sharp.

        A counter that does not answer keeps the program for at most MARK_S.
        """
        if event == "region_begin":
            self._read_quick_counters()
        self.sampler.event(event, self.clock.now_s(), region=name)
        if event == "region_end":
            self._read_quick_counters()

    def _read_quick_counters(self) -> None:
        with suppress(RuntimeError):  # no more threads: it is less sharp
            threads.within(MARK_S, partial(self.sampler.sample_counters, quick=True))

    def __enter__(self) -> PowerMonitor:
        self._process_id = os.getpid()
        _active.append(self)
        threads.start(*self._threads)
        self.sampler.begun.wait(MARK_S)  # else what the program does first may be before the first reading
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        _active.remove(self)
        if not self.is_of_this_process:
            return
        self._stop.acquire(blocking=False)
        self.clock.wake()
        for thread in self._threads:
            while thread.is_alive() and not self.sampler.hung:
                thread.join(HUNG_S)
                self.sampler.look_after(self._stop.locked)
            thread.join(JOIN_S)
        self.sampler.finish()
        if self._error is not None and error is None:
            raise self._error


_active: list[PowerMonitor] = []


def active_monitors() -> list[PowerMonitor]:
    """The monitors whose block this process is in; those of a process that it was forked from have no thread here."""
    return [monitor for monitor in _active if monitor.is_of_this_process]


_drawn: list[int] = []


def any_moment() -> float:
    """A number from 0 to 1 by chance, without the 5 ms that the module random takes to load."""
    try:
        return _drawn.pop() / 2**32
    except IndexError:
        _drawn.extend(array("I", os.urandom(1024)))
        return any_moment()
