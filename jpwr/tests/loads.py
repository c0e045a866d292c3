"""Made-up loads whose energy is known, and the sensors and counters that show them."""

from __future__ import annotations

import math
import random
import statistics
from bisect import bisect_right
from itertools import accumulate
from operator import sub
from typing import Callable, NamedTuple, Sequence

from jpwr.channel import ChannelInfo, Scope
from jpwr.energy import ChannelEnergy, EnergyEstimate
from jpwr.sampling.pace import PROBES

LOW_W, HIGH_W = 100.0, 500.0
LOOKS_S, LOOKS_EVERY_S = 0.025, 0.1  # A100 and H100, Yang et al. 2023 (arXiv:2312.02741)
LIMIT_W = 700.0


SQUARES_S = (0.003, 0.0097, 0.03, 0.0505, 0.1, 0.11, 0.3, 0.37, 1.0, 3.0)  # periods around those of the samples


class Load(NamedTuple):
    """Power in watts at a moment, and its integral from second 0 in joules."""

    power_w: Callable[[float], float]
    energy_j: Callable[[float], float]

    def between_j(self, start_s: float, end_s: float) -> float:
        return self.energy_j(end_s) - self.energy_j(start_s)


def constant(level_w: float = 300.0) -> Load:
    return Load(lambda _: level_w, lambda time_s: level_w * time_s)


def square(period_s: float, phase_s: float = 0.0, duty: float = 0.5) -> Load:
    """High power for a part of each period, low power for the rest."""
    high_s = duty * period_s

    def power_w(time_s: float) -> float:
        return HIGH_W if (time_s + phase_s) % period_s < high_s else LOW_W

    def energy_j(time_s: float) -> float:
        periods, inside_s = divmod(time_s + phase_s, period_s)
        return LOW_W * (time_s + phase_s) + (HIGH_W - LOW_W) * (periods * high_s + min(inside_s, high_s))

    return Load(power_w, energy_j)


def ramp(slope_w_per_s: float, start_w: float = 350.0) -> Load:
    return Load(
        lambda time_s: start_w + slope_w_per_s * time_s,
        lambda time_s: start_w * time_s + slope_w_per_s * time_s**2 / 2,
    )


def levels(edges_s: Sequence[float], levels_w: Sequence[float]) -> Load:
    """Each level from its edge to the next one, the first from second 0 on."""
    sums_j = [0.0, *accumulate(watts * (end - start) for watts, start, end in zip(levels_w, edges_s, edges_s[1:]))]

    def index(time_s: float) -> int:
        return max(0, min(len(levels_w) - 1, bisect_right(edges_s, time_s) - 1))

    return Load(
        lambda time_s: levels_w[index(time_s)],
        lambda time_s: sums_j[index(time_s)] + (time_s - edges_s[index(time_s)]) * levels_w[index(time_s)],
    )


def noise(chance: random.Random, length_s: float, step_s: float = 0.002) -> Load:
    edges_s = [step * step_s for step in range(int(length_s / step_s) + 2)]
    return levels(edges_s, [max(20.0, chance.gauss(300, 60)) for _ in edges_s[1:]])


def drift(chance: random.Random, length_s: float) -> Load:
    """A square wave whose period changes slowly, as that of training steps does."""
    edges_s, levels_w = [0.0], []
    period_s = chance.uniform(0.1, 1.0)
    while edges_s[-1] < length_s:
        period_s *= chance.uniform(0.99, 1.0102)
        levels_w += [500.0, 150.0]
        edges_s += [edges_s[-1] + 0.6 * period_s, edges_s[-1] + period_s]
    return levels(edges_s, levels_w)


def squares(chance: random.Random, _: float) -> Load:
    period_s = chance.choice(SQUARES_S)
    return square(period_s, chance.random() * period_s)


def bursts(chance: random.Random, _: float) -> Load:
    return square(chance.uniform(0.5, 2.0), 7 * chance.random(), duty=0.05)


def ramps(chance: random.Random, length_s: float) -> Load:
    return ramp(chance.uniform(-300, 300) / length_s)


LOADS: dict[str, Callable[[random.Random, float], Load]] = {
    "noise": noise,
    "squares": squares,
    "bursts": bursts,
    "ramps": ramps,
    "drift": drift,
}


def training(chance: random.Random, length_s: float) -> Load:
    """Steps of about a second in four parts, in a hundred seconds' warm-up, with pauses for checkpoints."""
    edges_s, levels_w = [0.0], []
    while edges_s[-1] < length_s:
        parts = [(0.3, 500.0), (0.45, 600.0), (0.15, 270.0), (0.1, 90.0)]
        if chance.random() < 0.05:
            parts.append((chance.uniform(2, 5), 110.0))
        for share, watts in parts:
            levels_w.append(watts * (0.9 + 0.1 * min(1.0, edges_s[-1] / 100)) + chance.gauss(0, 4))
            edges_s.append(edges_s[-1] + share * chance.uniform(0.97, 1.03))
    return levels(edges_s, levels_w)


def renewed(read: Callable[[float], float], refresh_s: float, phase_s: float = 0.0) -> Callable[[float], float]:
    """A sensor that has a new value every so often, and shows it until it has the next."""
    return lambda time_s: read(math.floor((time_s - phase_s) / refresh_s) * refresh_s + phase_s)


def averaged(load: Load, time_s: float) -> Callable[[float], float]:
    """A sensor that shows the mean over the time before."""
    return lambda now_s: load.between_j(now_s - time_s, now_s) / time_s


def looking_now_and_then(load: Load, phase_s: float = 0.0) -> Callable[[float], float]:
    return renewed(averaged(load, LOOKS_S), LOOKS_EVERY_S, phase_s)


def counter_of(load: Load, refresh_s: float = 0.0, phase_s: float = 0.0) -> Callable[[float], float]:
    """A counter of millijoules, renewed at each reading or every so often."""

    def read(time_s: float) -> float:
        return math.floor(1000 * load.energy_j(time_s)) / 1000

    return renewed(read, refresh_s, phase_s) if refresh_s else read


def moments(chance: random.Random, start_s: float, end_s: float, interval_s: float) -> list[float]:
    """When the sampler reads: at the start, at a random moment of each interval, and at the end."""
    ticks = range(1, int((end_s - start_s) / interval_s))
    return [start_s, *(start_s + (tick + chance.random()) * interval_s for tick in ticks), end_s]


def calls(chance: random.Random, start_s: float, end_s: float, interval_s: float, call_s: float) -> list[float]:
    """When calls of that length begin: at random moments of intervals, each after the one before."""
    begins_s = [start_s]
    while begins_s[-1] < end_s:
        ended_s = begins_s[-1] + call_s
        tick = max(1.0, math.ceil((ended_s - start_s) / interval_s))
        begins_s.append(max(ended_s, start_s + (tick + chance.random()) * interval_s))
    return begins_s


INFO = ChannelInfo("made:0", Scope.DEVICE, "made up")
BLIND = INFO._replace(held_s=LOOKS_EVERY_S, seen_share=LOOKS_S / LOOKS_EVERY_S, limit_w=LIMIT_W)


class Trial(NamedTuple):
    """One made-up run: what is stated, and what is true."""

    estimate: EnergyEstimate
    true_j: float

    @property
    def holds(self) -> bool:
        return abs(self.estimate.energy_j - self.true_j) <= self.estimate.uncertainty_j

    @property
    def width(self) -> float:
        """Half-width as a share of the energy."""
        return self.estimate.uncertainty_j / self.true_j

    @property
    def error(self) -> float:
        return abs(self.estimate.energy_j - self.true_j) / self.true_j


def channel(
    times_s: Sequence[float],
    power_w: Callable[[float], float],
    counter_j: Callable[[float], float] | None = None,
    info: ChannelInfo = INFO,
    call_s: float = 0.0,
    share: float = 0.5,
) -> ChannelEnergy:
    """What was read at those moments, made ready for questions; counters also a little after the first ones, as the
    sampler does. With calls of `call_s`, `times_s` are their middles, and values are those after a share of the call.
    """
    later_s = (share - 0.5) * call_s
    samples_w = [power_w(time_s + later_s) for time_s in times_s]
    half_s = [call_s / 2] * len(times_s)
    if counter_j is None:
        return ChannelEnergy(info, times_s, samples_w, random_phase=True, half_s=half_s)
    counted = info._replace(has_counter=True, counter_resolution_j=info.counter_resolution_j or 0.001)
    if call_s:
        read_j = [counter_j(time_s + later_s) for time_s in times_s]
        return ChannelEnergy(counted, times_s, samples_w, times_s, read_j, True, half_s, half_s)
    usual_s = statistics.median(map(sub, times_s[1:], times_s))
    probes_s = [time_s + share * usual_s for time_s, share in zip(times_s, reversed(PROBES))]
    counted_s = sorted([*times_s, *probes_s])
    return ChannelEnergy(counted, times_s, samples_w, counted_s, [counter_j(time_s) for time_s in counted_s], True)
