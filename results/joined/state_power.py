"""The power of each state of a step, where a step is shorter than a sensor can tell.

What a sensor shows is the mean power of some time before. Over many readings that lie differently in the steps, least
squares tells the states apart: a reading is the sum over states of power x share of the reading's time. How late the
sensor is, and over which time it means, is found with them, as what explains the readings best. Intervals are from a
bootstrap over blocks of readings.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from operator import ne
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize, nnls
from scipy.signal import lfilter

from jpwr.energy import ChannelEnergy
from jpwr.errors import JpwrError
from jpwr.region_times import State

Array = np.ndarray[Any, np.dtype[np.float64]]
Sensor = tuple[float, float, float]  # its lag, averaging and smoothing in seconds

GRID_S = 0.0005  # of the states' shares, and the shortest time that a reading is of
LONGEST_SAMPLING_S = 0.035  # of readings; further apart a renewal's moment is not known well enough
SKIPPED_S = 3.0  # readings of the first seconds tell of what was before, too
LAGS_S = (-0.04, 0.6)
LAG_STEPS_S, FINER = (0.003, 0.02), 3
MEANS_S = (GRID_S, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
LONGEST_MEAN_S = 1.5
SMOOTHINGS_S = (0.0, 0.015, 0.04, 0.1, 0.3)
LONGEST_SMOOTHING_S = 0.6
MIN_READINGS = 100
HELD = 0.5  # nearly all changes of a sensor that holds its values are further apart than this share of its hold time
ENOUGH_READINGS = 700  # to tell one kind of sensor from another
MEANS_REFINED = 3  # times over which a sensor may mean: the one that fits best at first sight need not be the best
CONDITION_LIMIT = 1e4
MOSTLY = 0.98
RIDGE = 1e-10  # of the equations' trace, so that what is not told apart has some solution
PARTS = (2, 4)  # of each state with a power of its own, where that explains the readings much better
FOLDS = 10  # of the readings, each told by the others
SURELY = 2.0  # so many standard errors better
TINY = 1e-12
MOST_ALIKE = 0.99  # one reading and the next
SAMPLES = 400  # of the bootstrap
LAG_SHIFTS = (-0.5, -0.25, 0.0, 0.25, 0.5)  # of the grid, which a reading's moment is not known better than
WIDENED = 1.25  # intervals of the bootstrap held 91 of 100 truths in simulations
UNSURE = 0.01  # standard deviation, relative: a state's power is not one all along, nor a sensor only late and a mean
BLOCK_S, BLOCK_MEANS = 1.0, 3.0  # a block is at least so long, and so many times what the sensor means over
SEED = 20260101


class NoPower(JpwrError):
    """The readings tell of no state's power: one sentence that says why."""


class Readings(NamedTuple):
    """Mean powers in watts, and between which two moments the time of each began and ended, in seconds.

    Of a power sensor's readings it is not known over which time they mean: `starts_s` is None.
    """

    starts_s: Array | None  # (readings, 2)
    ends_s: Array  # (readings, 2)
    watts: Array  # (readings,)

    def every(self, number: int) -> Readings:
        """Each of that number."""
        starts_s = None if self.starts_s is None else self.starts_s[::number]
        return Readings(starts_s, self.ends_s[::number], self.watts[::number])

    @property
    def weights(self) -> Array:
        """Readings whose time is known less well than that of others count for less."""
        unsure_s = np.diff(self.ends_s, axis=1)[:, 0]
        if self.starts_s is not None:
            unsure_s = np.hypot(unsure_s, np.diff(self.starts_s, axis=1)[:, 0])
        usual_s = max(float(np.median(unsure_s)), GRID_S)
        return np.asarray(1 / np.hypot(1, unsure_s / usual_s))


class Fit(NamedTuple):
    """Power by state, and the sensor that explains the readings best."""

    states: list[str]
    together: list[tuple[str, ...]]  # all states, those that cannot be told apart in one
    power_w: Array  # (states,)
    samples_w: Array  # (samples, states): what it might have been, by the bootstrap; widened
    parts: int  # of each state, in which it has a power of its own
    lag_s: float
    mean_s: float  # over which a reading of power is a mean
    smoothing_s: float  # time constant
    condition: float  # number of the equations: large where states can hardly be told apart
    readings: int

    def energy(self, seconds: dict[str, float]) -> tuple[float, float, float]:
        """Of times in states the energy in joules, and the interval that holds the truth in 95 of 100 cases."""
        times_s = np.array([seconds.get(name, 0.0) for name in self.states])
        low_j, high_j = np.quantile(self.samples_w @ times_s, (0.025, 0.975))
        return float(self.power_w @ times_s), max(0.0, float(low_j)), float(high_j)


def readings_of(curve: ChannelEnergy, use_counter: bool, start_s: float, end_s: float) -> Readings:
    """A channel's readings within a time; raises NoPower where they are too few or too far apart."""
    times_s, power_w = curve.power.times_s, curve.power.power_w
    if curve.power.usual_step_s > LONGEST_SAMPLING_S:
        raise NoPower(
            f"it was read every {1000 * curve.power.usual_step_s:.0f} ms, too seldom to tell states apart: "
            "sample with --interval 20"
        )
    if use_counter and curve.counter is not None:
        found = _of_counter([one for one in curve.counter.renewals() if start_s <= one[0] <= end_s])
    else:
        inside = [index for index, time_s in enumerate(times_s) if start_s <= time_s <= end_s]
        found = _of_power([times_s[index] for index in inside], [power_w[index] for index in inside], curve.info.held_s)
    if len(found.watts) < MIN_READINGS:
        raise NoPower(f"it has {len(found.watts)} readings of that time, and {MIN_READINGS} are needed: measure longer")
    return found


def _of_counter(renewals: Sequence[tuple[float, float, float]]) -> Readings:
    """From moments in seconds, what is not sure of each, and the value in joules."""
    moments_s, unsure_s, values_j = np.array(renewals).reshape(-1, 3).T
    edges_s = _evened(np.stack([moments_s - unsure_s, moments_s + unsure_s], axis=1))
    last_s = np.diff(edges_s.mean(axis=1))
    good = (last_s > 0) & (np.diff(values_j) >= 0)
    return Readings(edges_s[:-1][good], edges_s[1:][good], np.diff(values_j)[good] / last_s[good])


def _of_power(times_s: Sequence[float], power_w: Sequence[float], held_s: float) -> Readings:
    """From samples; of a sensor that shows each value for a while, those that showed it first.

    Raises NoPower where values hardly ever change: a sensor that keeps step with the load looks like an even load.
    """
    changes = sum(map(ne, power_w[1:], power_w))
    if changes < MIN_READINGS:
        raise NoPower(
            f"it had a new value {changes} times, and {MIN_READINGS} are needed: the steps are too few, or in time "
            "with the sensor"
        )
    changed = [index for index in range(1, len(times_s)) if power_w[index] != power_w[index - 1]]
    if not held_s or np.quantile(np.diff([times_s[index] for index in changed]), 0.1) < HELD * held_s:
        return Readings(None, np.stack([times_s, times_s], axis=1), np.array(power_w))
    moments_s = np.array([(times_s[index - 1], times_s[index]) for index in changed])
    return Readings(None, _evened(moments_s), np.array([power_w[index] for index in changed]))


def _evened(between_s: Array) -> Array:
    """Moments that are known to lie between two each, better known where all of them agree with one even pace."""
    if len(between_s) < MIN_READINGS:
        return between_s
    middle_s, half_s = between_s.mean(axis=1), np.maximum(np.diff(between_s, axis=1)[:, 0] / 2, GRID_S / 10)
    sure = half_s <= np.median(half_s)
    period_s = float(np.median(np.diff(middle_s)))
    first_s = 0.0
    for _ in range(2):  # the first period numbers the moments, the second one is told by all of them
        steps = np.concatenate([[0.0], np.cumsum(np.round(np.diff(middle_s) / period_s))])
        period_s, first_s = map(float, np.polyfit(steps[sure], middle_s[sure], 1, w=1 / half_s[sure]))
    even_s = first_s + period_s * steps
    if np.mean(np.abs(even_s - middle_s) <= half_s + GRID_S) < MOSTLY:
        return between_s
    return np.stack([even_s, even_s], axis=1)


def fit_states(states: Sequence[State], readings: Readings) -> Fit:
    """The power in each state; raises NoPower where that cannot be told.

    `states` follow each other without a gap; readings of other times, and of the first seconds, are left out.
    """
    inside = readings.ends_s[:, 0] >= states[0].start_s + SKIPPED_S
    inside &= readings.ends_s[:, 1] <= states[-1].end_s + LAGS_S[0]
    starts_s = None if readings.starts_s is None else readings.starts_s[inside]
    readings = Readings(starts_s, readings.ends_s[inside], readings.watts[inside])
    count = len(readings.watts)
    if count < MIN_READINGS:
        raise NoPower(f"{count} readings are of the steps, and {MIN_READINGS} are needed: measure longer")
    model = _Model(states, readings, sorted({state.name for state in states}))
    model.find_sensor()
    seen = np.linalg.norm(model.columns(*model.sensor), axis=0) > TINY
    if not seen.all():  # what no reading is of has no power
        model = _Model(states, readings, list(itertools.compress(model.names, seen)), 1, model)
    for parts in PARTS:
        finer = _Model(states, readings, model.names, parts, model)
        better = model.foretold() - finer.foretold()
        if not better.sum() > SURELY * math.sqrt(FOLDS) * better.std():
            break
        model = finer
    groups, condition = _told_apart(model.columns(*model.sensor), model.parts)
    if len(groups) == 1 < len(model.names):
        raise NoPower("its readings have the same share of each state: the steps are in time with the sensor")
    power_w, samples_w = model.powers(groups)
    own = np.arange(len(model.names) * model.parts).reshape(-1, model.parts)
    alike = _joined([{column // model.parts for column in group} for group in groups])
    return Fit(
        model.names,
        [tuple(model.names[index] for index in together) for together in alike],
        power_w[own].mean(axis=1),
        samples_w[:, own].mean(axis=2),
        model.parts,
        *model.sensor,
        condition,
        count,
    )


class _Model:
    """Shares of states in readings, for any sensor: its lag, averaging and smoothing in seconds.

    Each state has as many powers as it has parts of equal length, each in a column of its own.
    """

    def __init__(
        self,
        states: Sequence[State],
        readings: Readings,
        names: list[str],
        parts: int = 1,
        coarser: _Model | None = None,
    ) -> None:
        self.names, self.parts = names, parts
        self._read(readings)
        self._origin_s = states[0].start_s
        edges_s = np.array([state.start_s for state in states] + [states[-1].end_s]) - self._origin_s
        self._mean_state_s = edges_s[-1] / len(states)
        inner_s = edges_s[:-1, None] + np.diff(edges_s)[:, None] * np.arange(parts) / parts
        columns = {name: parts * number for number, name in enumerate(self.names)}
        which = np.array([columns.get(state.name, -parts) for state in states])[:, None] + np.arange(parts)
        edges_s, which = np.append(inner_s.ravel(), edges_s[-1]), which.ravel()
        grid_s = np.arange(0.0, edges_s[-1] + GRID_S, GRID_S)
        open_ones = []
        for column in range(len(self.names) * parts):
            until_s = np.concatenate([[0.0], np.cumsum(np.diff(edges_s) * (which == column))])
            open_ones.append(np.diff(np.interp(grid_s, edges_s, until_s)) / GRID_S)
        self._open = np.stack(open_ones, axis=1)  # (grid, columns): of each point's time the share in a state
        self._integrals = lru_cache(maxsize=2)(self._integrate)
        self.sensor, self.likeness = (0.0, GRID_S, 0.0), 0.0
        if coarser:
            self.likeness = coarser.likeness
            self.sensor = self._refined(coarser.sensor)

    def _read(self, readings: Readings) -> None:
        self._readings, self._weights = readings, readings.weights[:, None]

    def _integrate(self, smoothing_s: float) -> tuple[Array, Array, Array]:
        """The states smoothed, their integral, and that one's."""
        smooth = self._open
        if smoothing_s > 0:
            keep = math.exp(-GRID_S / smoothing_s)
            smooth = lfilter([1 - keep], [1, -keep], smooth, axis=0)
        zero = np.zeros((1, smooth.shape[1]))
        once = np.concatenate([zero, GRID_S * np.cumsum(smooth, axis=0)])
        twice = np.concatenate([zero, np.cumsum(GRID_S * once[:-1] + GRID_S**2 / 2 * smooth, axis=0)])
        return smooth, once, twice

    def columns(self, lag_s: float, mean_s: float, smoothing_s: float) -> Array:
        """(readings, columns): of each reading's time the part in each state's parts."""
        ends_s = self._readings.ends_s - self._origin_s - lag_s
        until = self._mean_until(ends_s, smoothing_s)
        if self._readings.starts_s is None:
            return np.asarray((until - self._mean_until(ends_s - mean_s, smoothing_s)) / mean_s)
        since = self._mean_until(self._readings.starts_s - self._origin_s - lag_s, smoothing_s)
        lengths_s = self._readings.ends_s.mean(axis=1) - self._readings.starts_s.mean(axis=1)
        return np.asarray((until - since) / lengths_s[:, None])

    def _mean_until(self, between_s: Array, smoothing_s: float) -> Array:
        """Time in each state until a moment that is anywhere between two, the mean over these."""
        middle_s = between_s.mean(axis=1)
        half_s = np.maximum(between_s[:, 1] - between_s[:, 0], GRID_S) / 2
        late, early = (self._twice_until(middle_s + side * half_s, smoothing_s) for side in (1, -1))
        return np.asarray((late - early) / (2 * half_s)[:, None])

    def _twice_until(self, times_s: Array, smoothing_s: float) -> Array:
        smooth, once, twice = self._integrals(smoothing_s)
        points = np.clip(times_s, 0.0, GRID_S * (len(smooth) - 1)) / GRID_S
        index = points.astype(int)
        since_s = (GRID_S * (points - index))[:, None]
        return np.asarray(twice[index] + since_s * once[index] + since_s**2 / 2 * smooth[index])

    def find_sensor(self) -> None:
        """The sensor that leaves the least of the readings unexplained."""
        means_s = MEANS_S if self._readings.starts_s is None else MEANS_S[:1]
        all_of_them = self._readings
        self._read(all_of_them.every(max(1, len(all_of_them.watts) // ENOUGH_READINGS)))
        of_means: dict[float, tuple[float, Sensor]] = {}
        for smoothing_s, mean_s in itertools.product(SMOOTHINGS_S, means_s):
            tried = [(lag_s, mean_s, smoothing_s) for lag_s in self._lags_s(mean_s + smoothing_s)]
            best = min((self._unexplained(sensor), sensor) for sensor in tried)
            of_means[mean_s] = min(best, of_means.get(mean_s, best))
        likely = [sensor for _, sensor in sorted(of_means.values())[:MEANS_REFINED]]
        first = min(map(self._refined, likely), key=self._unexplained)
        self._read(all_of_them)
        # What one reading is off by the next one is too, where both mean over the same time.
        left_w = self._left_w(first)
        alike = float(left_w[1:] @ left_w[:-1]) / max(float(left_w @ left_w), TINY)
        self.likeness = min(max(alike, 0.0), MOST_ALIKE)
        self.sensor = self._refined(first)

    def _lags_s(self, mean_s: float) -> list[float]:
        """To be tried: many where readings are of a shorter time than a state, and tell little of others near by."""
        is_short = self._readings.starts_s is None and mean_s < self._mean_state_s
        step_s = self._mean_state_s / (FINER if is_short else 1)
        return list(map(float, np.arange(*LAGS_S, min(max(step_s, LAG_STEPS_S[0]), LAG_STEPS_S[1]))))

    def _refined(self, first: Sensor) -> Sensor:
        """The sensor near by that leaves the least unexplained."""
        longest_s = LONGEST_MEAN_S if self._readings.starts_s is None else 2 * GRID_S
        bounds = [LAGS_S, (GRID_S, longest_s), (0.0, LONGEST_SMOOTHING_S)]
        around = np.array([first] * 4)
        for number, away_s in enumerate((5 * GRID_S, 0.2 * first[1], max(10 * GRID_S, 0.2 * first[2]))):
            around[number + 1, number] += away_s
        best = minimize(
            lambda sensor: self._unexplained(tuple(sensor)),
            around[0],
            method="Nelder-Mead",
            bounds=bounds,
            options={"initial_simplex": around, "xatol": GRID_S / 10, "fatol": math.inf, "maxfev": 200},
        )
        lag_s, mean_s, smoothing_s = map(float, best.x)
        return lag_s, mean_s, smoothing_s

    def _alone(self, rows: Array) -> Array:
        """Rows without what they have of the one before."""
        weighted = rows * self._weights
        return np.asarray(weighted[1:] - self.likeness * weighted[:-1])

    def _left_w(self, sensor: Sensor) -> Array:
        """What the states leave of the readings, in watts."""
        columns, watts = self._alone(self.columns(*sensor)), self._alone(self._readings.watts[:, None])[:, 0]
        return np.asarray(watts - columns @ _solved(columns.T @ columns, columns.T @ watts))

    def _unexplained(self, sensor: Sensor) -> float:
        left_w = self._left_w(sensor)
        return float(left_w @ left_w)

    def foretold(self) -> Array:
        """(folds,): what is left of each fold's readings, squared, by powers that are found from all others."""
        columns, watts = self._alone(self.columns(*self.sensor)), self._alone(self._readings.watts[:, None])[:, 0]
        left = []
        for fold in np.array_split(np.arange(len(watts)), FOLDS):
            others = np.delete(np.arange(len(watts)), fold)
            power_w = _solved(columns[others].T @ columns[others], columns[others].T @ watts[others])
            left.append(float(np.sum((watts[fold] - columns[fold] @ power_w) ** 2)))
        return np.array(left)

    def powers(self, groups: list[list[int]]) -> tuple[Array, Array]:
        """Of each column the power in watts, and what it might have been (samples, columns): the same in a group."""
        watts = self._alone(self._readings.watts[:, None])[:, 0]
        power_w, _ = nnls(self._alone(self._together(groups, self.sensor)), watts)
        lag_s, mean_s, smoothing_s = self.sensor
        tried = [(lag_s + shift * GRID_S, mean_s, smoothing_s) for shift in LAG_SHIFTS]
        drawn_w = self._drawn([self._equations(groups, sensor, power_w) for sensor in tried], watts)[:, : len(groups)]
        # Widened around what was found.
        spread_w = WIDENED * (drawn_w - power_w)
        spread_w += UNSURE * power_w * np.random.default_rng(SEED + 1).standard_normal(spread_w.shape)
        of_column = np.zeros(len(self.names) * self.parts, dtype=int)
        for number, group in enumerate(groups):
            of_column[group] = number
        return power_w[of_column], (power_w + spread_w)[:, of_column]

    def _together(self, groups: list[list[int]], sensor: Sensor) -> Array:
        """(readings, groups): the columns of each group as one."""
        columns = self.columns(*sensor)
        return np.stack([columns[:, group].sum(axis=1) for group in groups], axis=1)

    def _equations(self, groups: list[list[int]], sensor: Sensor, power_w: Array) -> Array:
        """Those of the groups' powers, and of how far each property of the sensor is off."""
        lag_s, mean_s, smoothing_s = sensor
        others = [(lag_s + GRID_S, mean_s, smoothing_s), (lag_s, mean_s, smoothing_s + max(GRID_S, 0.1 * smoothing_s))]
        if self._readings.starts_s is None:
            others.insert(1, (lag_s, mean_s + 0.1 * mean_s, smoothing_s))
        together = self._together(groups, sensor)
        moved = [(self._together(groups, other) - together) @ power_w for other in others]
        return self._alone(np.concatenate([together, np.stack(moved, axis=1)], axis=1))

    def _drawn(self, all_equations: Sequence[Array], watts: Array) -> Array:
        """Solutions for blocks of readings that are drawn at random, of any of the equations."""
        ends_s = self._readings.ends_s.mean(axis=1)[1:]
        block_s = max(BLOCK_S, BLOCK_MEANS * (self.sensor[1] + self.sensor[2]))
        blocks = ((ends_s - ends_s[0]) / block_s).astype(int)
        members = [np.flatnonzero(blocks == block) for block in np.unique(blocks)]
        chance = np.random.default_rng(SEED)
        found = []
        for equations in all_equations:
            scale = np.maximum(np.linalg.norm(equations, axis=0), TINY)
            scaled = equations / scale
            grams = np.stack([scaled[rows].T @ scaled[rows] for rows in members])
            moments = np.stack([scaled[rows].T @ watts[rows] for rows in members])
            for _ in range(SAMPLES // len(all_equations)):
                blocks = chance.integers(len(members), size=len(members))
                found.append(_solved(grams[blocks].sum(axis=0), moments[blocks].sum(axis=0)) / scale)
        return np.asarray(found)


def _solved(gram: Array, moments: Array) -> Array:
    return np.asarray(np.linalg.solve(gram + RIDGE * np.trace(gram) * np.eye(len(gram)), moments))


def _told_apart(columns: Array, parts: int) -> tuple[list[list[int]], float]:
    """Groups of columns that readings tell from each other, and the condition number of their equations.

    A part of a state that no reading is of has the power of another one of it.
    """
    groups: list[list[int]] = []
    norms = np.linalg.norm(columns, axis=0)
    for own in np.arange(columns.shape[1]).reshape(-1, parts).tolist():
        seen = [[index] for index in own if norms[index] > TINY] or [[]]
        seen[0] += [index for index in own if not norms[index] > TINY]
        groups += seen
    while True:
        together = np.stack([columns[:, group].sum(axis=1) for group in groups], axis=1)
        _, sizes, directions = np.linalg.svd(together / np.linalg.norm(together, axis=0), full_matrices=False)
        condition = float(sizes[0] / sizes[-1]) if sizes[-1] > 0 else math.inf
        if len(groups) == 1 or condition <= CONDITION_LIMIT:
            return groups, condition
        # One power can grow here for the other one, and nearly nothing is seen of it.
        least = directions[-1]
        first, second = int(np.argmax(least)), int(np.argmin(least))
        groups[first] += groups[second]
        del groups[second]


def _joined(sets: Sequence[set[int]]) -> list[list[int]]:
    """Those that have a member in common as one, in order."""
    found: list[set[int]] = []
    for one in sets:
        touched = [other for other in found if other & one]
        found = [other for other in found if not other & one] + [set.union(one, *touched)]
    return sorted(sorted(one) for one in found)
