"""Which of a channel's two witnesses is late, its counter or its power, and by how much; and whether power is smoothed.

Pure arithmetic: no clock, no files, no vendor library. A sensor that is late shows what was a while ago. One by itself
does not give that away; two that tell of the same power do, as soon as it moves.
"""

from __future__ import annotations

import math
from typing import Mapping, NamedTuple, Sequence

from jpwr.counter_curve import CounterCurve
from jpwr.power_curve import PowerCurve

LATEST_S = 0.4  # beyond which nothing is looked for
SMOOTHED_S = tuple(0.02 * 1.25**power for power in range(24))  # time constants that are looked for
SHORTEST_SLOT_S, SAMPLES_OF_A_SLOT = 0.04, 2
STEPS_OF_A_SLOT, STEPS_AT_A_GLANCE = 4, 3
MIN_SLOTS, MOST_SLOTS = 20, 300
# What is so many standard deviations worse than the best, and leaves so many times as much unexplained, is no chance;
# what is fewer worse may be as good.
DOUBT, AS_GOOD = 4.0, 3.0
TIMES_AS_MUCH, TIMES_AS_MUCH_AT_A_GLANCE, AS_MUCH = 1.2, 1.1, 2.0
# Few slots in which power changes much may tell nearly all: then it is no chance that so many times as much is left
# unexplained, and so many times also in all slots but those few.
FAR_MORE, FAR_MORE_ELSEWHERE, FEW_SLOTS = 5.0, 2.5, 4
GAINS = (0.7, 1.3)  # between which counter and power may be scaled


class Lateness(NamedTuple):
    """How late each witness is, in seconds, and half the width of what is not sure of that; one of them is taken to be
    on time. Or over which time power is a mean, in seconds, though it does not say so.
    """

    power_s: float = 0.0
    power_unsure_s: float = 0.0
    counter_s: float = 0.0
    counter_unsure_s: float = 0.0
    averaging_s: float = 0.0

    @property
    def words(self) -> str:
        """For a person; empty where none is late."""
        if self.averaging_s:
            return (
                f"its power is a mean over about {self.averaging_s:.2g} s, as its counter tells: its interval says so"
            )
        late, other = ("power", "counter") if self.power_s else ("counter", "power")
        late_s = self.power_s or self.counter_s
        return f"its {late} is {late_s:.2g} s later than its {other}: that is taken out" if late_s else ""


def find_lateness(power: PowerCurve, counter: CounterCurve, old_s: float) -> Lateness:
    """All 0 where neither is late beyond doubt. Power that is known to be up to `old_s` old is no news: that is in the
    uncertainty of its energy.
    """
    slots = _slots(power, counter)
    if len(slots.edges_s) < MIN_SLOTS:
        return Lateness()
    step_s = _slot_s(power) / STEPS_OF_A_SLOT
    most = math.floor(LATEST_S / step_s)
    now = slots.moved(power, 0.0)
    smoothed = _smoothed(slots, power)
    glance = [slots.moved(power, step * step_s) for step in range(-most, most + 1, STEPS_AT_A_GLANCE)]
    glance += list(smoothed.values())[::STEPS_AT_A_GLANCE]
    if math.fsum(now) <= TIMES_AS_MUCH_AT_A_GLANCE * min(map(math.fsum, glance)):
        return Lateness()
    left_over = {step: slots.moved(power, step * step_s) for step in range(-most, most + 1)}
    best = min(left_over.values(), key=math.fsum)
    averaging_s = _averaging_s(smoothed, now, best, old_s)
    if averaging_s:
        return Lateness(averaging_s=averaging_s)
    worse = {step: _worse(squares, best) for step, squares in left_over.items()}
    as_good = [step for step, deviations in worse.items() if deviations <= AS_GOOD]
    known = range(math.floor(-old_s / step_s), math.ceil(2 * slots.unsure_s / step_s) + 1)
    if math.fsum(now) <= TIMES_AS_MUCH * math.fsum(best) or worse[0] <= DOUBT or any(step in known for step in as_good):
        return Lateness()
    # A load that repeats itself agrees with several, which are of nearly one energy.
    nearest = min(as_good, key=abs)
    by_counter = nearest > 0
    furthest = nearest
    while (further := furthest + (1 if by_counter else -1)) in as_good:
        furthest = further
    # Power that may be old hides as much of how late the counter is, and explains as much of how late it is itself.
    hidden_s = old_s if by_counter else -old_s
    late_s = (abs(nearest + furthest) * step_s + hidden_s) / 2
    unsure_s = ((abs(furthest - nearest) + 1) * step_s + old_s) / 2
    # Where it may as well be the other one that is late, each may be so.
    either_s = late_s if any((step > 0) != by_counter for step in as_good) else 0.0
    if by_counter:
        return Lateness(0.0, either_s, late_s, unsure_s + either_s)
    return Lateness(late_s, unsure_s + either_s, 0.0, either_s)


def _smoothed(slots: _Slots, power: PowerCurve) -> dict[float, list[float]]:
    """What power that is smoothed exponentially with each time constant leaves unexplained: it keeps back the time
    constant times what it shows.
    """
    average_w = slots.average_w(power)
    slopes = [(power.at_w(end_s) - power.at_w(start_s)) / (end_s - start_s) for start_s, end_s in slots.edges_s]
    return {
        constant_s: slots.left_over([watts + constant_s * slope for watts, slope in zip(average_w, slopes)])
        for constant_s in SMOOTHED_S
    }


def _averaging_s(
    left_over: Mapping[float, Sequence[float]], now: Sequence[float], moved: Sequence[float], old_s: float
) -> float:
    """Over which time power is a mean, at most, where that explains the counter beyond doubt, and better than power
    that is moved; else 0. One that is smoothed exponentially keeps back as much as a mean over two time constants.
    """
    best = min(left_over.values(), key=math.fsum)
    least = math.fsum(best)
    as_good = [
        smoothed_s
        for smoothed_s, squares in left_over.items()
        if _worse(squares, best) <= AS_GOOD and math.fsum(squares) <= AS_MUCH * least
    ]
    is_better = math.fsum(now) > TIMES_AS_MUCH * least and _worse(now, best) > DOUBT
    is_best = math.fsum(moved) > TIMES_AS_MUCH_AT_A_GLANCE * least
    is_news = min(as_good) > old_s
    return 2 * max(as_good) if (is_better or _is_far_worse(now, best)) and is_best and is_news else 0.0


def _is_far_worse(one: Sequence[float], best: Sequence[float]) -> bool:
    """Whether one leaves far more unexplained than the best, and not in a few slots alone."""
    usual = sorted(zip(one, best))[: len(one) - FEW_SLOTS]
    one_elsewhere, best_elsewhere = map(math.fsum, zip(*usual))
    return math.fsum(one) > FAR_MORE * math.fsum(best) and one_elsewhere > FAR_MORE_ELSEWHERE * best_elsewhere


class _Slots(NamedTuple):
    """Times from one renewal of the counter to a later one, its average power then in watts, less the mean of all of
    them, and how far these moments usually are not sure.
    """

    edges_s: list[tuple[float, float]]
    counted_w: list[float]
    unsure_s: float

    def moved(self, power: PowerCurve, late_s: float) -> list[float]:
        """What power of so much earlier leaves unexplained."""
        return self.left_over(self.average_w(power, late_s))

    def average_w(self, power: PowerCurve, late_s: float = 0.0) -> list[float]:
        """Average power in each slot, of so much earlier."""
        return [
            (power.energy_until_j(end_s - late_s) - power.energy_until_j(start_s - late_s)) / (end_s - start_s)
            for start_s, end_s in self.edges_s
        ]

    def left_over(self, average_w: Sequence[float]) -> list[float]:
        """What such power does not explain of each slot, squared; scale and zero may be off."""
        seen_w = _centred(average_w)
        square = math.fsum(watts * watts for watts in seen_w)
        both = math.fsum(seen * counted for seen, counted in zip(seen_w, self.counted_w))
        gain = min(GAINS[1], max(GAINS[0], both / square)) if square else 1.0
        return [(counted - gain * seen) ** 2 for seen, counted in zip(seen_w, self.counted_w)]


def _slot_s(power: PowerCurve) -> float:
    return max(SHORTEST_SLOT_S, SAMPLES_OF_A_SLOT * power.usual_step_s)


def _slots(power: PowerCurve, counter: CounterCurve) -> _Slots:
    nodes = counter.values_every(_slot_s(power))
    pairs = [
        (before, after)
        for before, after in zip(nodes, nodes[1:])
        if power.covers(before.moment_s - LATEST_S, after.moment_s + LATEST_S)
        and counter.is_sound(before.moment_s, after.moment_s)
        and not power.has_gap(before.moment_s - LATEST_S, after.moment_s + LATEST_S)
    ]
    pairs = pairs[:: math.ceil(len(pairs) / MOST_SLOTS) or 1]
    edges_s = [(before.moment_s, after.moment_s) for before, after in pairs]
    average_w = [
        (after.value_j - before.value_j) / (end_s - start_s)
        for (before, after), (start_s, end_s) in zip(pairs, edges_s)
    ]
    unsure_s = sorted(before.unsure_s for before, _ in pairs)
    return _Slots(edges_s, _centred(average_w), unsure_s[len(unsure_s) // 2] if unsure_s else 0.0)


def _centred(values: Sequence[float]) -> list[float]:
    mean = math.fsum(values) / max(1, len(values))
    return [value - mean for value in values]


def _worse(squares: Sequence[float], best: Sequence[float]) -> float:
    """How many standard deviations one is worse than the best."""
    differences = [one - other for one, other in zip(squares, best)]
    deviation = math.sqrt(math.fsum(difference * difference for difference in differences))
    return math.fsum(differences) / deviation if deviation else 0.0
