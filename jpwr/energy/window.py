"""Energy of one channel in windows: by its counter where that is sound, otherwise by the integral of its power.

Also of several windows together, such as the passes of a marked region.
"""

from __future__ import annotations

import math
from functools import reduce
from itertools import chain, islice, repeat, starmap
from typing import Iterable, Iterator, Sequence, Tuple

from jpwr.channel import ChannelInfo
from jpwr.energy.counter import CounterCurve
from jpwr.energy.estimate import EnergyEstimate, add_estimates
from jpwr.energy.power import PowerCurve, frozen_runs
from jpwr.intervals import ASSUMED_ACCURACY, SAMPLES_FOR_A_PEAK, TEST_LEVEL, Numbers
from jpwr.stored import between, kept_as

Window = Tuple[float, float]  # start and end in seconds
# Largest share of failed readings without a power limit: high power itself may be the cause of the failure.
MOST_MISSING = 0.01
NO_COUNTER = "has no counter"
# Fields of an estimate that a counter has of its own, and fields that are those of the source in use.
BY_COUNTER = ("counter_j", "counter_low_j", "counter_high_j")
RESULT = ("energy_j", "uncertainty_j", "systematic_j", "method", "reason", "unknown")


class ChannelEnergy:
    """Energy of one channel between any two moments of its trace.

    `times_s` and `power_w` are samples of power, `counter_times_s` and `counter_j` readings of the counter; nan is a
    reading that failed. A reading is of a moment within `half_s` or `counter_half_s` of its time; an empty sequence
    stands for zeros. With `random_phase`, samples were taken at random moments of their intervals.
    """

    def __init__(
        self,
        info: ChannelInfo,
        times_s: Numbers,
        power_w: Numbers,
        counter_times_s: Numbers = (),
        counter_j: Numbers = (),
        random_phase: bool = False,
        half_s: Numbers = (),
        counter_half_s: Numbers = (),
    ) -> None:
        self.info, self._accuracy = info, info.accuracy or ASSUMED_ACCURACY
        runs = frozen_runs(info, times_s, power_w, counter_times_s, counter_j)
        self.frozen = [(times_s[first], times_s[last], power_w[first]) for first, last in runs]
        live_w = kept_as(power_w, _without(power_w, runs)) if runs else power_w
        self.power = PowerCurve(times_s, live_w, info, random_phase, half_s)
        readings = counter_times_s, counter_j, info, self.power, counter_half_s
        self.counter = CounterCurve(*readings) if info.has_counter else None
        self._inconsistent, self._is_doubted = self._compared()

    def _compared(self) -> tuple[str, bool]:
        """Compare counter and integral over the longest sound part of the trace, which shows a scale best.

        Returns why they are inconsistent, and whether they differ although what the sensor does not see allows for it.
        """
        times_s, counter = self.power.times_s, self.counter
        read = counter.parts(times_s[0], times_s[-1]) if counter and times_s else []
        if counter is None or not read:
            return "", False
        part = max(read, key=lambda one: one.end_s - one.start_s)
        window_s = max(part.start_s, counter.read_s[0]), min(part.end_s, counter.read_s[-1])
        integral = self.power.between(*window_s)
        counted = counter.between(part._replace(start_s=window_s[0], end_s=window_s[1]))
        seen = integral._replace(uncertainty_j=0.0, systematic_j=0.0)
        is_checked = self.info.seen_share < 1 and integral.samples >= SAMPLES_FOR_A_PEAK * self.power.reads
        return self._why_differ(integral, counted, window_s), is_checked and self._differ(seen, counted, window_s)

    def _why_differ(self, integral: EnergyEstimate, counter: EnergyEstimate, window_s: Window) -> str:
        """Return why both are inconsistent, as a part of a sentence; empty if they are not."""
        duration_s, highest_w = window_s[1] - window_s[0], self.power.peak_w
        is_more = counter.counter_low_j > (1 + self._accuracy) * highest_w * duration_s  # nan compares false
        if is_more and integral.samples >= SAMPLES_FOR_A_PEAK * self.power.reads and not self.info.from_counter:
            mean = f"the counter's mean power of {counter.energy_j / duration_s:.4g} W"
            return f"{mean} is above the highest reading of {highest_w:.4g} W, so it counts more than the sensor sees"
        return "they are inconsistent" if self._differ(integral, counter, window_s) else ""

    def _differ(self, integral: EnergyEstimate, counter: EnergyEstimate, window_s: Window) -> bool:
        """Whether both are inconsistent, with the sensor's accuracy as a type B uncertainty (E_n test, ISO 13528)."""
        if integral.unknown or counter.unknown or self.info.from_counter:
            return False
        random_j = max(integral.random_j, self.power.sampled_j(*window_s, TEST_LEVEL))
        allowed_j = math.hypot(random_j, self._accuracy * integral.energy_j) + integral.systematic_j
        return not counter.counter_low_j - allowed_j <= integral.energy_j <= counter.counter_high_j + allowed_j

    def _why_not_integral(self, integral: EnergyEstimate) -> str:
        """Return why samples of power alone determine no energy; empty if they do."""
        if integral.unknown:
            return integral.unknown
        if self.info.from_counter:
            return "has a counter alone, whose slope is its power"
        if self.info.limit_w:
            return ""
        if self.info.seen_share < 1:
            return f"sees {self.info.seen_share:.0%} of the time and has no power limit"
        if self.power.samples < SAMPLES_FOR_A_PEAK:
            return f"has {self.power.samples} readings and no power limit: {SAMPLES_FOR_A_PEAK} are needed"
        if integral.missing > MOST_MISSING * (integral.missing + integral.samples):
            return f"has no power limit, and more than {MOST_MISSING:.0%} of its readings failed or were frozen"
        return ""

    def between(self, start_s: float, end_s: float) -> EnergyEstimate:
        """Estimate the energy of a window; unknown if neither counter nor samples determine it."""
        found = self._between(start_s, end_s)
        reasons = [found.reason]
        if found.method == "counter" and self._is_doubted:
            sensor = f"the integral of a sensor that sees {self.info.seen_share:.0%} of the time"
            reasons.append(f"{sensor} differs by {found.difference:+.0%}: one of both may not cover the whole device")
        for frozen_s, until_s, watts in self.frozen:
            if frozen_s < end_s and start_s < until_s:
                reasons.append(f"readings of power were frozen at {watts:g} W for {until_s - frozen_s:.3g} s")
        return found._replace(reason=", and ".join(filter(None, reasons)))

    def _between(self, start_s: float, end_s: float) -> EnergyEstimate:
        integral = self.power.between(start_s, end_s)
        why_not = self._why_not_integral(integral)
        counter = self._counted(start_s, end_s)
        if counter.unknown or (why_not and self._inconsistent):
            reason = counter.unknown or "the counter is inconsistent with power elsewhere in the trace"
            if why_not:
                return EnergyEstimate(unknown=f"{why_not}, and {reason}: sample faster, or run longer")
            return integral._replace(reason="" if reason == NO_COUNTER else reason)
        is_compared = counter.energy_j and not self.info.from_counter
        difference = (integral.energy_j - counter.energy_j) / counter.energy_j if is_compared else math.nan
        both = integral._replace(difference=difference, **{name: getattr(counter, name) for name in BY_COUNTER})
        why = self._inconsistent or self._why_differ(integral, counter, (start_s, end_s))
        if integral.samples and why:
            # Neither is corrected: the interval of the integral is widened until it contains both.
            furthest_j = max(abs(edge_j - both.energy_j) for edge_j in (both.counter_low_j, both.counter_high_j))
            systematic_j = max(both.systematic_j, furthest_j - both.random_j)
            sources = f"the counter reports {both.counter_j:.4g} J and the integral {both.energy_j:.4g} J"
            reason = f"{sources}: {why}, and the interval contains both"
            return both._replace(reason=reason, uncertainty_j=both.random_j + systematic_j, systematic_j=systematic_j)
        if why_not or (self.counter and self.counter.is_renewed(start_s, end_s)):
            return both._replace(**{name: getattr(counter, name) for name in RESULT})
        return both

    def _counted(self, start_s: float, end_s: float) -> EnergyEstimate:
        """Return the energy by the counter, and for the time of its faults by power."""
        if self.counter is None or end_s <= start_s:
            return EnergyEstimate(unknown=NO_COUNTER)
        parts, fault = self.counter.parts(start_s, end_s), self.counter.fault(start_s, end_s)
        reason = f"the counter {fault or 'was at fault before and after'}"
        edges_s = [start_s, *(edge_s for part in parts for edge_s in (part.start_s, part.end_s)), end_s]
        gaps_s = [gap_s for gap_s in zip(edges_s[::2], edges_s[1::2]) if gap_s[0] < gap_s[1]] if parts else []
        found = [*map(self.counter.between, parts), *(self._by_power(*gap_s) for gap_s in gaps_s)]
        if not all(math.isfinite(one.energy_j) for one in found) or not found:
            return EnergyEstimate(unknown=next((one.unknown for one in found if one.unknown), reason))
        return reduce(add_estimates, found)._replace(reason=reason if gaps_s else "")

    def _by_power(self, start_s: float, end_s: float) -> EnergyEstimate:
        """Return the energy in place of a counter's: the integral, or what the limit allows; it may be infinite."""
        found = self.power.between(start_s, end_s)
        if self._why_not_integral(found):
            half_j = self.power.most_w * (end_s - start_s) / 2
            found = EnergyEstimate(half_j, half_j, half_j, "integral")
        low_j, high_j = found.energy_j - found.uncertainty_j, found.energy_j + found.uncertainty_j
        return found._replace(counter_j=found.energy_j, counter_low_j=low_j, counter_high_j=high_j)


def means_w(curve: PowerCurve, edges_s: Iterable[float]) -> list[float]:
    """Return the mean powers between neighbouring moments, in ascending order, in watts: in one pass over the samples.

    The curve has two samples or more.
    """
    steps = zip(curve.times_s, islice(curve.times_s, 1, None), curve.power_w, islice(curve.power_w, 1, None))
    (from_s, to_s, from_w, to_w), past_j = next(steps), 0.0
    found_w: list[float] = []
    before: Window | None = None
    for edge_s in edges_s:
        while to_s < edge_s and (step := next(steps, None)):
            past_j += (to_s - from_s) * (from_w + to_w) / 2
            from_s, to_s, from_w, to_w = step
        share = min(1.0, max(0.0, (edge_s - from_s) / (to_s - from_s))) if to_s > from_s else 0.0
        until_j = past_j + (edge_s - from_s) * (2 * from_w + share * (to_w - from_w)) / 2
        if before:
            found_w.append((until_j - before[1]) / (edge_s - before[0]))
        before = edge_s, until_j
    return found_w


def energy_of_passes(curve: ChannelEnergy, windows_s: Iterable[Window]) -> EnergyEstimate:
    """Add up the energy of windows, given as starts and ends in seconds, in the order of their ends.

    Energy that one pass gains at its last edge, the next one loses at its first. So passes are one window if the pause
    between them can use less than the uncertainty of these two edges. Unknown if the energy of one window is.
    """
    windows = list(windows_s)
    if not windows:
        return EnergyEstimate(unknown="has no window longer than 0 s")
    most_w = curve.power.range_w(windows[0][0], windows[-1][1])[1]
    overlap = any(start_s < before_s for (_, before_s), (start_s, _) in zip(windows, windows[1:]))
    total: EnergyEstimate | None = None
    for row in starmap(curve.between, windows) if overlap else _rows(curve, windows, most_w):
        if row.unknown:
            return row
        total = add_estimates(total, row, overlap) if total else row
    assert total is not None
    return total if overlap else _bounded(curve, windows, total, most_w)


def _rows(curve: ChannelEnergy, windows: Sequence[Window], most_w: float) -> Iterator[EnergyEstimate]:
    """Yield the energy of each row of passes that are one window; end with the first pass whose energy is unknown."""
    before, first = curve.between(*windows[0]), 0
    row = before
    for number in range(1, len(windows)):
        if before.unknown:
            break
        after, pause_s = curve.between(*windows[number]), windows[number][0] - windows[number - 1][1]
        open_j = (before.systematic_j + after.systematic_j) / 2
        before = after
        if after.unknown:
            break
        if pause_s == 0 or pause_s * most_w < open_j:
            row = add_estimates(row, after)
        else:
            yield _bounded(curve, windows[first:number], row, most_w)
            row, first = after, number
    yield before if before.unknown else _bounded(curve, windows[first:], row, most_w)


def _bounded(curve: ChannelEnergy, windows: Sequence[Window], total: EnergyEstimate, most_w: float) -> EnergyEstimate:
    """Return the sum of passes with its interval, or with that of the window around them if that is narrower.

    The power of the pauses in that window is between 0 and `most_w`.
    """
    if len(windows) == 1:
        return total
    whole = curve.between(windows[0][0], windows[-1][1])
    if whole.unknown:
        return total
    pauses_s = math.fsum(start_s - before_s for (_, before_s), (start_s, _) in zip(windows, windows[1:]))
    if not pauses_s:
        return whole if whole.uncertainty_j < total.uncertainty_j else total
    low_j = max(0.0, whole.energy_j - whole.uncertainty_j - most_w * pauses_s)
    uncertainty_j = max(total.energy_j - low_j, whole.energy_j + whole.uncertainty_j - total.energy_j)
    if not uncertainty_j < total.uncertainty_j:
        return total
    return total._replace(uncertainty_j=uncertainty_j, systematic_j=max(0.0, uncertainty_j - whole.random_j))


def _without(power_w: Numbers, runs: Sequence[tuple[int, int]]) -> Iterator[float]:
    """Yield readings, and nan for those of some runs but the first of each; runs are indices of first and last."""
    begin = 0
    for first, last in runs:
        yield from chain(between(power_w, begin, first + 1), repeat(math.nan, last - first))
        begin = last + 1
    yield from between(power_w, begin, len(power_w))
