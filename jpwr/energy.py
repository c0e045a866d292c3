"""Turn readings of power and of an energy counter into energy between two moments, and say how sure it is.

Pure arithmetic: no clock, no files, no vendor library. A channel has up to two witnesses: its power, whose integral is
taken, and its counter. Both are heard, and the counter is believed unless it is at fault.
"""

from __future__ import annotations

import math
from functools import cached_property, reduce
from typing import NamedTuple, Sequence

from jpwr.channel import ChannelInfo
from jpwr.counter_check import Apart, find_apart
from jpwr.counter_curve import CounterCurve, CounterEnergy
from jpwr.errors import NotEnoughSamples
from jpwr.lateness import Lateness, find_lateness
from jpwr.power_curve import DEVIATIONS, PowerCurve, PowerEnergy

# Counter and integral come from one sensor in two ways. Over the whole trace, what is beyond their uncertainties is
# allowed this share; one window can only tell what is beyond doubt.
TOLERANCE_WHOLE, DOUBT_WHOLE = 0.05, 1.6
TOLERANCE_WINDOW, DOUBT_WINDOW = 0.2, 2.5
DOUBT_SCALE = 1.25  # beyond which the interval of a counter that is believed holds the integral, too
# A counter that is so many times off has no part in the interval, where power was never half of what it tells; nor a
# fifth, where readings are means.
BROKEN, PLAUSIBLE, PLAUSIBLE_OF_MEANS = 10.0, 2.0, 5.0
FEWEST = 6  # of fewer samples, none tells how much power there can be


class EnergyEstimate(NamedTuple):
    """The energy of a window, two witnesses side by side, and which of them was believed."""

    energy_j: float
    uncertainty_j: float  # half-width of the interval that holds the truth in at least 95 of 100 windows
    method: str  # "counter" or "integral"
    reason: str  # why the counter was not used; empty where it was, or where there is none
    duration_s: float
    covered_s: float  # of it, time between finite samples
    avg_power_w: float
    samples: int
    missing: int
    largest_gap_s: float  # the longest time of the window without a finite sample
    integral_j: float
    integral_uncertainty_j: float
    counter_j: float  # nan without a sound counter
    difference: float  # (integral - counter) / counter
    lasting_j: float  # of the uncertainty, what may be off in the same direction in every window
    integral_lasting_j: float  # the same of the integral's


class _Whole(NamedTuple):
    """What the whole trace tells of a counter."""

    contradicts: bool = False  # it is of another scale than power beyond doubt
    scale_off: float = 0.0  # by which share of power its scale may be off
    counts_too_little: bool = False  # so much that it tells nothing


class ChannelEnergy:
    """Energy of one channel between any two moments of its trace.

    `times_s` and `power_w` are its samples of power, `counter_times_s` and `counter_j` the readings of its counter.
    The counter is judged once, over the whole trace: in a short window chance speaks too loud.
    """

    def __init__(
        self,
        info: ChannelInfo,
        times_s: Sequence[float],
        power_w: Sequence[float],
        counter_times_s: Sequence[float] = (),
        counter_j: Sequence[float] = (),
        random_phase: bool = False,
    ) -> None:
        self.info = info
        self.power = PowerCurve(times_s, power_w, random_phase, info.averaging_s, info.held_s, info.limit_w)
        self.counter = CounterCurve(counter_times_s, counter_j, info, self.power) if info.has_counter else None
        self.lateness = late = self._find_lateness()
        if late.power_s or late.averaging_s:
            info = info._replace(averaging_s=late.averaging_s or info.averaging_s)
            moved_s = [time_s - late.power_s for time_s in times_s]
            self.power = PowerCurve(moved_s, power_w, random_phase, info.averaging_s, info.held_s, info.limit_w)
        if late.power_s or late.counter_s or late.averaging_s:
            counter_times_s = [time_s - late.counter_s for time_s in counter_times_s]
            self.counter = CounterCurve(counter_times_s, counter_j, info, self.power)
        self._whole = self._judge_whole()

    @property
    def _shows_all_loads(self) -> bool:
        """Samples at even times, and a sensor that is blind in between, may all have missed the same."""
        return self.power.random_phase and self.info.seen_share >= 1 and not self.info.from_counter

    @property
    def _most_w(self) -> float:
        """More power than this is none of the sensor's device."""
        plausible = PLAUSIBLE_OF_MEANS if self.info.averaging_s and not self.info.limit_w else PLAUSIBLE
        return max(plausible * self.power.peak_w, self.info.limit_w)

    @property
    def most_unseen_w(self) -> float:
        """The most power in a time of which no reading is; infinite where means do not tell it."""
        peak_w = self.power.peak_w
        if self.info.limit_w:
            return max(peak_w, self.info.limit_w)
        return math.inf if self.info.averaging_s or self.lateness.averaging_s else peak_w

    def _find_lateness(self) -> Lateness:
        if self.counter is None or not self._shows_all_loads:
            return Lateness()
        old_s = self.info.averaging_s + max(self.info.held_s, self.power.held_s)
        return find_lateness(self.power, self.counter, old_s)

    def _late_j(self, unsure_s: float, start_s: float, end_s: float) -> float:
        """What moments that are not sure to so much leave unsure of a window, in joules: one edge gets what the other
        loses.
        """
        if not unsure_s:
            return 0.0
        edges_w = [self.power.range_between_w(edge_s - unsure_s, edge_s + unsure_s) for edge_s in (start_s, end_s)]
        (start_least_w, start_most_w), (end_least_w, end_most_w) = edges_w
        return unsure_s * max(end_most_w - start_least_w, start_most_w - end_least_w)

    def _judge_whole(self) -> _Whole:
        times_s = self.power.times_s
        if self.counter is None or self.info.from_counter or len(times_s) < 2 or not self.counter.readings:
            return _Whole()
        # What power may have been in a gap hides what all the rest tells.
        parts = self.power.without_gaps(*self.counter.longest_sound(times_s[0], times_s[-1]))
        both = [(self.power.between(*part_s), self.counter.between(*part_s)) for part_s in parts]
        known = [(integral, counter) for integral, counter in both if integral is not None]
        if not known:
            return _Whole()
        integral, counter = reduce(_together, known)
        too_little = counter.energy_j < integral.energy_j / BROKEN
        off = abs(relative_difference(counter.energy_j, integral.energy_j))
        is_broken = too_little or counter.energy_j > BROKEN * integral.energy_j
        scale_off = off if integral.energy_j and not is_broken else 0.0
        if _are_apart(integral, counter, DOUBT_WHOLE, TOLERANCE_WHOLE):
            return _Whole(True, scale_off, too_little)
        # Power may itself have kept readings from being taken; more likely it has not.
        missed_j = math.fsum(self.power.missed_j(*part_s) for part_s in parts)
        integral = integral._replace(lasting_j=max(0.0, integral.lasting_j - missed_j))
        if not (scale_off and _are_apart(integral, counter, DOUBT_SCALE, 0.0)):
            return _Whole(counts_too_little=too_little)
        # The truth may be beyond the integral as well.
        unsure = (integral.sampling_j + integral.lasting_j) / abs(integral.energy_j)
        return _Whole(False, scale_off + unsure, too_little)

    @cached_property
    def _apart(self) -> list[Apart]:
        """The times in which counter and integral contradict each other."""
        if self.counter is None or not self._shows_all_loads:
            return []
        return find_apart(self.power, self.counter, self.info.counter_resolution_j)

    def between(self, start_s: float, end_s: float) -> EnergyEstimate:
        """The energy of a window. Its uncertainty is that of sampling alone: the sensor's own calibration is its
        maker's to state. Raises NotEnoughSamples when fewer than two samples tell of it, or fewer than six in all with
        neither a counter nor a limit beside them.
        """
        seen = self.power.between(start_s, end_s)
        duration_s = end_s - start_s
        integral = seen or self._as_elsewhere(start_s, end_s)
        late_j = self._late_j(self.lateness.power_unsure_s, start_s, end_s)
        integral = integral._replace(lasting_j=integral.lasting_j + late_j)
        integral_uncertainty_j = integral.unseen_j + integral.lasting_j
        counter, reason, widened_j = None, "", 0.0
        if self.counter is not None:
            counter = self.counter.between(start_s, end_s)
            late_j = self._late_j(self.lateness.counter_unsure_s, start_s, end_s)
            counter = counter._replace(unsure_j=counter.unsure_j + late_j)
            reason, widened_j = self._judge(integral, counter, start_s, end_s)
        believed = None if reason else counter
        # Where power could not be read, a counter that agrees with it elsewhere tells, if it goes on.
        if not seen and not (believed and self.counter and self.counter.goes_on(start_s, end_s)):
            raise NotEnoughSamples(f"{self.info.name} has no reading of power in these {duration_s:.3f} s")
        if not believed and len(self.power.times_s) < FEWEST and not self.info.limit_w:
            raise NotEnoughSamples(
                f"{self.info.name} has {len(self.power.times_s)} readings of power, and neither a counter that can be "
                f"used nor a power limit: energy needs at least {FEWEST} then, sample faster or run longer"
            )
        if believed:
            energy_j = believed.energy_j
            lasting_j = believed.unsure_j + max(self._whole.scale_off * abs(integral.energy_j), widened_j)
            uncertainty_j = lasting_j
        else:
            unseen_j = self._unseen_j(integral.energy_j, duration_s)
            # Also one that cannot be used here may tell elsewhere that the samples miss something.
            beside_j = widened_j or max(unseen_j, self._whole.scale_off * abs(integral.energy_j))
            energy_j, lasting_j = integral.energy_j, integral.lasting_j + beside_j
            uncertainty_j = integral_uncertainty_j + beside_j
        # More is known by how much power can be, of a short time, and where that is told and no counter tells more.
        is_limited = self.info.limit_w and not (believed or reason)
        if is_limited or duration_s < self.power.usual_step_s:
            most_j = self._most_w * duration_s
            uncertainty_j = min(uncertainty_j, max(energy_j, most_j - energy_j))
            lasting_j = min(lasting_j, uncertainty_j)
        counter_j = counter.energy_j if counter is not None else math.nan
        difference = math.nan if self.info.from_counter else relative_difference(integral.energy_j, counter_j)
        return EnergyEstimate(
            energy_j=energy_j,
            uncertainty_j=uncertainty_j,
            method="counter" if believed else "integral",
            reason=reason,
            duration_s=duration_s,
            covered_s=integral.covered_s,
            avg_power_w=energy_j / duration_s,
            samples=integral.samples,
            missing=integral.missing,
            largest_gap_s=integral.largest_gap_s,
            integral_j=integral.energy_j,
            integral_uncertainty_j=integral_uncertainty_j,
            counter_j=counter_j,
            difference=difference,
            lasting_j=lasting_j,
            integral_lasting_j=integral.lasting_j,
        )

    def _as_elsewhere(self, start_s: float, end_s: float) -> PowerEnergy:
        """What a window that has no reading of power is held against. Raises NotEnoughSamples where none was seen."""
        duration_s = end_s - start_s
        if self.power.times_s and self.power.times_s[0] < self.power.times_s[-1] and duration_s > 0:
            return self.power.unseen(start_s, end_s)
        raise NotEnoughSamples(
            f"energy needs at least 2 samples, got {len(self.power.times_s)} of {self.info.name} around "
            f"{duration_s:.3f} s: sample faster or run longer"
        )

    def _unseen_j(self, energy_j: float, duration_s: float) -> float:
        """How far energy may be off as the sensor looks at a part of the time: in the rest, power was between none and
        the limit, and no reading tells. Raises NotEnoughSamples where there is no limit.
        """
        unseen_s = (1 - self.info.seen_share) * duration_s
        if unseen_s <= 0:
            return 0.0
        if not self.info.limit_w:
            raise NotEnoughSamples(
                f"{self.info.name} sees {self.info.seen_share:.0%} of the time, and has neither a counter that can be "
                "used nor a power limit: there is no energy of it"
            )
        average_w = energy_j / duration_s
        return unseen_s * max(abs(average_w), self.info.limit_w - average_w)

    def _judge(self, integral: PowerEnergy, counter: CounterEnergy, start_s: float, end_s: float) -> tuple[str, float]:
        """Why the counter is not used, empty where it is; and what it adds to the interval all the same, in joules."""
        if counter.fault:
            return f"the counter {counter.fault}", 0.0
        if counter.energy_j == 0:
            return "the counter stood still", 0.0
        if self.info.from_counter:
            return "", 0.0
        apart = [one for one in self._apart if one.start_s < end_s and start_s < one.end_s]
        if self._whole.contradicts or _are_apart(integral, counter, DOUBT_WINDOW, TOLERANCE_WINDOW):
            reason = (
                f"the counter says {counter.energy_j:.4g} J, the integral {integral.energy_j:.4g} J: "
                "more apart than what is not sure"
            )
        elif certain := [one for one in apart if one.is_certain]:
            reason = (
                f"the counter went {math.fsum(one.off_j for one in certain):+.4g} J away from the integral in "
                f"{math.fsum(one.end_s - one.start_s for one in certain):.3g} s: more than what is not sure"
            )
        elif apart:
            off_j = max(math.fsum(abs(one.off_j) for one in apart), abs(counter.energy_j - integral.energy_j))
            return "", off_j + DEVIATIONS * math.hypot(*(one.deviation_j for one in apart))
        else:
            return "", 0.0
        # Power that is late is too high where a load has ended, and a counter that tells less is right there.
        most_j = max(self._most_w * (end_s - start_s), BROKEN * integral.energy_j)
        if self._whole.counts_too_little or counter.energy_j > most_j:
            return reason, 0.0
        apart_j = abs(counter.energy_j - integral.energy_j)
        return f"{reason}, and the interval holds both", apart_j + counter.unsure_j


def _together(
    a: tuple[PowerEnergy, CounterEnergy], b: tuple[PowerEnergy, CounterEnergy]
) -> tuple[PowerEnergy, CounterEnergy]:
    """What both witnesses say of two times, as far as they are compared."""
    (a_integral, a_counter), (b_integral, b_counter) = a, b
    integral = a_integral._replace(
        energy_j=a_integral.energy_j + b_integral.energy_j,
        sampling_j=math.hypot(a_integral.sampling_j, b_integral.sampling_j),
        lasting_j=a_integral.lasting_j + b_integral.lasting_j,
    )
    counter = a_counter._replace(
        energy_j=a_counter.energy_j + b_counter.energy_j,
        unsure_j=a_counter.unsure_j + b_counter.unsure_j,
    )
    return integral, counter


def _are_apart(integral: PowerEnergy, counter: CounterEnergy, doubt: float, tolerance: float) -> bool:
    """Whether the two witnesses cannot both be right, each with so many times the uncertainty that it states."""
    unsure_j = doubt * (integral.sampling_j + integral.lasting_j) + counter.unsure_j
    return not abs(counter.energy_j - integral.energy_j) <= unsure_j + tolerance * abs(integral.energy_j)


def integral_j(times_s: Sequence[float], power_w: Sequence[float]) -> float:
    """Energy in joules under a sampled power curve in watts, by the trapezoidal rule.

    Raises NotEnoughSamples with fewer than two finite samples.
    """
    curve = PowerCurve(times_s, power_w)
    if len(curve.times_s) < 2:
        raise NotEnoughSamples(
            f"energy needs at least 2 samples, got {len(curve.times_s)}: sample faster or run longer"
        )
    return curve.energy_until_j(curve.times_s[-1])


def relative_difference(value: float, reference: float) -> float:
    """(value - reference) / reference, `nan` where there is no reference."""
    return (value - reference) / reference if reference else math.nan
