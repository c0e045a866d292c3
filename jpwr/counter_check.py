"""Where a channel's counter goes another way than the integral of its power, for a part of the time.

Pure arithmetic: no clock, no files, no vendor library. Counter minus integral is followed through the trace in slots of
about a second, and summed over ever longer blocks of them: a counter that stands still, jumps or has another gain for a
while is told by the blocks that hold that time.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Container, Iterator, NamedTuple, Sequence

from jpwr.counter_curve import CounterCurve
from jpwr.power_curve import PowerCurve

SLOT_S = 1.0
MIN_SAMPLES = 4  # of power in a slot; with fewer in a second, slots are longer
DOUBT = 5.0  # so many standard deviations are no chance, in none of many blocks
SUSPICION = 4.0  # so many rarely are
TOLERANCE = 0.05  # power and counter may be scaled differently by so much, which the whole trace tells better
# What is not sure is stated for the worst of loads. How much less it is with this one is told by the scatter of so many
# slots before it, and of as many after it.
AROUND, MIN_SLOTS_TO_TELL, LEAST_SCATTER = 24, 8, 0.3
LEAST_SURE_SCATTER = 0.6  # where the counter is not used any more: among quiet slots there may be wild ones
ANOTHER_LOAD = 2.0  # times the scatter on one side of a slot than on the other: no chance
LOWER, MEAN_OF_LOWER = 0.75, 0.515  # of a normal distribution's absolute values, and their mean in standard deviations


class Apart(NamedTuple):
    """A time in which counter and integral contradict each other."""

    start_s: float
    end_s: float
    off_j: float  # counter minus integral
    deviation_j: float  # of that
    is_certain: bool  # beyond doubt; otherwise the counter may be right


class _Slots(NamedTuple):
    """At nodes the moment, power in watts, and the variance of the counter by when it was renewed, in J^2; from one to
    the next counter minus integral, its standard deviation by sampling with the worst of loads, which share of that is
    seen around, the integral, and how far that may be off where power itself kept readings from being taken, in joules.
    """

    nodes_s: list[float]
    power_w: list[float]
    edge_variance: list[float]
    off_j: list[float]
    deviation_j: list[float]
    scatter: list[float]
    integral_j: list[float]
    missed_j: list[float]


def find_apart(power: PowerCurve, counter: CounterCurve, resolution_j: float) -> list[Apart]:
    """All times in which the two contradict each other, in order; the shortest that tell it. `resolution_j` is the
    counter's smallest step.
    """
    slots = _slots(power, counter, resolution_j)
    if not slots.off_j:
        return []
    found: dict[int, Apart] = {}
    for doubt, tolerance, least, is_certain in (
        (DOUBT, TOLERANCE, LEAST_SURE_SCATTER, True),
        (SUSPICION, 0.0, LEAST_SCATTER, False),
    ):
        deviations_j = [deviation_j * max(least, share) for deviation_j, share in zip(slots.deviation_j, slots.scatter)]
        for first, last in _beyond(slots, deviations_j, found, power, doubt, tolerance, is_certain):
            for slot in range(first, last):
                edges_s = slots.nodes_s[slot], slots.nodes_s[slot + 1]
                found.setdefault(slot, Apart(*edges_s, slots.off_j[slot], deviations_j[slot], is_certain))
    return [found[slot] for slot in sorted(found)]


def _beyond(
    slots: _Slots,
    deviations_j: Sequence[float],
    found: Container[int],
    power: PowerCurve,
    doubt: float,
    tolerance: float,
    excuse_missed: bool,
) -> Iterator[tuple[int, int]]:
    """The blocks of slots, shortest first, that are further off than so many standard deviations, a share of their
    energy and, where that is an excuse, what was missed; without slots that were found.
    """
    number, length = len(slots.off_j), 1
    integrals_j = [0.0, *accumulate(slots.integral_j)]
    missed_j = [0.0, *accumulate(slots.missed_j)]
    while length <= number:
        left = [slot not in found for slot in range(number)]
        sums_j = [0.0, *accumulate(off_j * counts for off_j, counts in zip(slots.off_j, left))]
        squares = [0.0, *accumulate(deviation_j**2 * counts for deviation_j, counts in zip(deviations_j, left))]
        for first in range(0, number - length + 1, max(1, length // 2)):
            last = first + length
            integral_j = integrals_j[last] - integrals_j[first]
            variance = squares[last] - squares[first] + slots.edge_variance[first] + slots.edge_variance[last]
            average_w = integral_j / (slots.nodes_s[last] - slots.nodes_s[first])
            unsure_j = doubt * math.sqrt(variance) + tolerance * abs(integral_j)
            if excuse_missed:
                unsure_j += missed_j[last] - missed_j[first]
            unsure_j += power.lagging_j(slots.power_w[first], slots.power_w[last], average_w)
            if abs(sums_j[last] - sums_j[first]) > unsure_j:
                yield first, last
        length *= 2


def _slots(power: PowerCurve, counter: CounterCurve, resolution_j: float) -> _Slots:
    nodes = [
        node
        for node in counter.values_every(max(SLOT_S, MIN_SAMPLES * power.usual_step_s))
        if power.covers(node.moment_s, node.moment_s)
    ]
    power_w = [power.at_w(node.moment_s) for node in nodes]
    integrals_j, offs_j, deviations_j, missed_j = [], [], [], []
    for before, after in zip(nodes, nodes[1:]):
        integral_j = power.energy_until_j(after.moment_s) - power.energy_until_j(before.moment_s)
        edges_s = before.moment_s, after.moment_s
        is_sound = counter.is_sound(*edges_s) and not power.has_gap(*edges_s)
        integrals_j.append(integral_j)
        offs_j.append(after.value_j - before.value_j - integral_j if is_sound else 0.0)
        deviations_j.append(power.deviation_j(*edges_s) if is_sound else 0.0)
        missed_j.append(power.missed_j(*edges_s) if is_sound else 0.0)
    return _Slots(
        nodes_s=[node.moment_s for node in nodes],
        power_w=power_w,
        # It may have been renewed at any moment of that time, and be cut off by any part of its step.
        edge_variance=[(node.unsure_s * watts) ** 2 / 3 + resolution_j**2 / 12 for node, watts in zip(nodes, power_w)],
        off_j=offs_j,
        deviation_j=deviations_j,
        scatter=_scatter(offs_j, deviations_j),
        integral_j=integrals_j,
        missed_j=missed_j,
    )


def _scatter(offs_j: Sequence[float], deviations_j: Sequence[float]) -> list[float]:
    """How far slots scatter around each one, as a share of what is stated for the worst of loads, by differences of
    neighbours: these have the same gain. Where it is another before than after, as a load begins, the larger one.
    """
    shares = [
        abs(after_j - before_j) / math.hypot(deviation_j, next_deviation_j) if deviation_j and next_deviation_j else 1.0
        for before_j, after_j, deviation_j, next_deviation_j in zip(offs_j, offs_j[1:], deviations_j, deviations_j[1:])
    ]
    found = []
    for slot in range(len(offs_j)):
        sides = shares[max(0, slot - AROUND) : slot], shares[slot : slot + AROUND]
        told = [_share_of_lower(sorted(near)) for near in sides if len(near) >= MIN_SLOTS_TO_TELL]
        share = max(told, default=1.0)
        if told and share <= ANOTHER_LOAD * min(told):
            share = math.fsum(told) / len(told)
        found.append(min(1.0, share))
    return found


def _share_of_lower(near: Sequence[float]) -> float:
    usual = near[: int(LOWER * len(near))]
    return math.fsum(usual) / len(usual) / MEAN_OF_LOWER
