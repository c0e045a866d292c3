"""Experimental: the power of each state of a step, where a step is shorter than a sensor can resolve.

A reading is the mean power of some time before it: the sum over states of power times share of that time. Least squares
over many readings gives the powers. The delay, averaging time and smoothing of the sensor are fitted with them.
Intervals are from a bootstrap over blocks of readings.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize, nnls
from scipy.signal import lfilter

from jpwr.energy import ChannelEnergy
from jpwr.errors import JpwrError
from jpwr.regions.times import State

Array = np.ndarray[Any, np.dtype[np.float64]]
Sensor = tuple[float, float, float]  # its delay, averaging time and smoothing in seconds

GRID_S = 0.0005  # of the states' shares, and the shortest time that a reading covers
LONGEST_SAMPLING_S = 0.035  # between readings; further apart, the moment of a renewal is not known well enough
SKIPPED_S = 3.0  # the first readings depend on what was before the steps, too
MIN_READINGS = 100
HELD = 0.5  # nearly all changes of a sensor that holds its values are further apart than this share of its hold time
EVEN = 0.98  # of all renewals agree with one pace
# Sensors that are tried first, and the limits of those that are fitted from the best of them.
LAGS_S, LAG_STEPS_S, LAGS_OF_A_STATE = (-0.04, 0.6), (0.003, 0.02), 3
MEANS_S, LONGEST_MEAN_S = (GRID_S, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0), 1.5
SMOOTHINGS_S, LONGEST_SMOOTHING_S = (0.0, 0.015, 0.04, 0.1, 0.3), 0.6
FIRST_READINGS = 700  # are enough to tell one kind of sensor from another
REFINED = 3  # averaging times: the one that fits best at first need not be the best
CONDITION_LIMIT = 1e4
RIDGE = 1e-10  # of the equations' trace, so that states that cannot be told apart have some solution
TINY = 1e-12
MOST_ALIKE = 0.99  # correlation of the errors of one reading and the next
SAMPLES = 400  # of the bootstrap
BLOCK_S, BLOCK_MEANS = 1.0, 3.0  # a block has at least this length, and so many averaging times of the sensor
WIDENED = 1.25  # intervals of the bootstrap held 91 of 100 truths in simulations
MODEL_ERROR = 0.01  # standard deviation, relative: the power of a state is not constant
SEED = 20260101


class NoPower(JpwrError):
    """The readings do not give the power of any state: one sentence with the reason."""


class Readings(NamedTuple):
    """Mean powers in watts, and when the time of each began and ended, in seconds.

    The averaging time of a power sensor is not known: `starts_s` is None.
    """

    starts_s: Array | None
    ends_s: Array
    watts: Array

    def part(self, which: Any) -> Readings:
        """Return some of the readings."""
        return Readings(None if self.starts_s is None else self.starts_s[which], self.ends_s[which], self.watts[which])


class Fit(NamedTuple):
    """Power by state, and the sensor that explains the readings best."""

    states: list[str]
    power_w: Array  # (states,)
    samples_w: Array  # (samples, states): draws of the bootstrap, widened
    lag_s: float
    mean_s: float
    smoothing_s: float
    condition: float  # number of the equations: large where states can hardly be told apart
    readings: int

    def energy(self, seconds: dict[str, float]) -> tuple[float, float, float]:
        """Return the energy of times in states in joules, and the ends of its 95 % interval."""
        times_s = np.array([seconds.get(name, 0.0) for name in self.states])
        low_j, high_j = np.quantile(self.samples_w @ times_s, (0.025, 0.975))
        return float(self.power_w @ times_s), max(0.0, float(low_j)), float(high_j)


def readings_of(curve: ChannelEnergy, use_counter: bool, start_s: float, end_s: float) -> Readings:
    """Return a channel's readings within a time; raises NoPower where they are too few or too far apart."""
    power = curve.power
    if power.usual_step_s > LONGEST_SAMPLING_S:
        raise NoPower(
            f"it was read every {1000 * power.usual_step_s:.0f} ms, too seldom to tell states apart: "
            "sample with --interval 20"
        )
    if use_counter and curve.counter is not None:
        found = _of_counter([one for one in curve.counter.renewals() if start_s <= one[0] <= end_s])
    else:
        inside = [both for both in zip(power.times_s, power.power_w, strict=True) if start_s <= both[0] <= end_s]
        times_s, power_w = np.array(inside).reshape(-1, 2).T
        found = _of_power(times_s, power_w, curve.info.held_s)
    _refuse_few(len(found.watts))
    return found


def _refuse_few(count: int) -> None:
    if count < MIN_READINGS:
        raise NoPower(f"{count} of its readings are of the steps, and {MIN_READINGS} are needed: measure longer")


def _of_counter(renewals: Sequence[tuple[float, float, float]]) -> Readings:
    """From moments in seconds, the uncertainty of each, and the value in joules."""
    moments_s, unsure_s, values_j = np.array(renewals).reshape(-1, 3).T
    edges_s = _evened(moments_s, unsure_s)
    last_s = np.diff(edges_s)
    good = (last_s > 0) & (np.diff(values_j) >= 0)
    return Readings(edges_s[:-1][good], edges_s[1:][good], np.diff(values_j)[good] / last_s[good])


def _of_power(times_s: Array, power_w: Array, held_s: float) -> Readings:
    """From samples; of a sensor that holds each value for a while, the first sample of each.

    Raises NoPower where values hardly ever change: a sensor that keeps step with the load looks like an even load.
    """
    changed = np.flatnonzero(power_w[1:] != power_w[:-1]) + 1
    if len(changed) < MIN_READINGS:
        raise NoPower(
            f"it had a new value {len(changed)} times, and {MIN_READINGS} are needed: the steps are too few, or in "
            "time with the sensor"
        )
    if not held_s or np.quantile(np.diff(times_s[changed]), 0.1) < HELD * held_s:
        return Readings(None, times_s, power_w)
    half_s = (times_s[changed] - times_s[changed - 1]) / 2
    return Readings(None, _evened(times_s[changed] - half_s, half_s), power_w[changed])


def _evened(moments_s: Array, unsure_s: Array) -> Array:
    """Moments that are known to so much, replaced by those of one even pace where nearly all agree with it."""
    if len(moments_s) < MIN_READINGS:
        return moments_s
    unsure_s = np.maximum(unsure_s, GRID_S / 10)
    sure = unsure_s <= np.median(unsure_s)
    period_s, first_s = float(np.median(np.diff(moments_s))), 0.0
    for _ in range(2):  # the first period numbers the moments, the second one is fitted to all of them
        steps = np.append(0.0, np.cumsum(np.round(np.diff(moments_s) / period_s)))
        period_s, first_s = map(float, np.polyfit(steps[sure], moments_s[sure], 1, w=1 / unsure_s[sure]))
    even_s = first_s + period_s * steps
    return even_s if np.mean(np.abs(even_s - moments_s) <= unsure_s + GRID_S) >= EVEN else moments_s


def fit_states(states: Sequence[State], readings: Readings) -> Fit:
    """Return the power in each state; raises NoPower where the readings do not give it.

    `states` follow each other without a gap; readings of other times, and of the first seconds, are left out.
    """
    inside = (readings.ends_s >= states[0].start_s + SKIPPED_S) & (readings.ends_s <= states[-1].end_s + LAGS_S[0])
    readings = readings.part(inside)
    _refuse_few(len(readings.watts))
    model = _Model(states, readings)
    sensor = model.find_sensor()
    model.leave_out_unseen(sensor)
    if not (condition := model.condition(sensor)) <= CONDITION_LIMIT:
        raise NoPower("its readings do not tell the states apart: the steps are in time with the sensor")
    return Fit(model.names, *model.powers(sensor), *sensor, condition, len(readings.watts))


class _Model:
    """Shares of states in readings, for any sensor."""

    def __init__(self, states: Sequence[State], readings: Readings) -> None:
        self._readings, self._origin_s, self._likeness = readings, states[0].start_s, 0.0
        edges_s = np.array([state.start_s for state in states] + [states[-1].end_s]) - self._origin_s
        self._lag_step_s = float(np.clip(edges_s[-1] / len(states) / LAGS_OF_A_STATE, *LAG_STEPS_S))
        self.names = sorted({state.name for state in states})
        self._grid_s = np.arange(0.0, edges_s[-1] + GRID_S, GRID_S)
        until_s = []
        for name in self.names:
            seconds = np.diff(edges_s) * [state.name == name for state in states]
            until_s.append(np.interp(self._grid_s, edges_s, np.append(0.0, np.cumsum(seconds))))
        self._until_s = np.stack(until_s)  # (states, grid): time in each state until each moment
        self._smoothed = lru_cache(maxsize=2)(self._smooth)

    def _smooth(self, smoothing_s: float) -> Array:
        if not smoothing_s > 0:
            return self._until_s
        keep = math.exp(-GRID_S / smoothing_s)
        return np.asarray(lfilter([1 - keep], [1, -keep], self._until_s, axis=1))

    def columns(self, sensor: Sensor) -> Array:
        """Return (readings, states): the share of each reading's time in each state."""
        lag_s, mean_s, smoothing_s = sensor
        ends_s = self._readings.ends_s
        starts_s = ends_s - mean_s if self._readings.starts_s is None else self._readings.starts_s
        moments_s = np.stack([starts_s, ends_s]) - self._origin_s - lag_s
        until_s = np.stack([np.interp(moments_s, self._grid_s, one) for one in self._smoothed(smoothing_s)], axis=2)
        return np.asarray((until_s[1] - until_s[0]) / (ends_s - starts_s)[:, None])

    def find_sensor(self) -> Sensor:
        """Return the sensor that leaves the least of the readings unexplained."""
        means_s = MEANS_S if self._readings.starts_s is None else MEANS_S[:1]
        every = self._readings
        self._readings = every.part(slice(None, None, max(1, len(every.watts) // FIRST_READINGS)))
        lags_s = map(float, np.arange(*LAGS_S, self._lag_step_s))
        best: dict[float, tuple[float, Sensor]] = {}
        for smoothing_s, lag_s, mean_s in itertools.product(SMOOTHINGS_S, list(lags_s), means_s):
            tried = self._unexplained((lag_s, mean_s, smoothing_s)), (lag_s, mean_s, smoothing_s)
            best[mean_s] = min(tried, best.get(mean_s, tried))
        first = min((self._refined(one) for _, one in sorted(best.values())[:REFINED]), key=self._unexplained)
        self._readings = every
        # The error of one reading is in the next, too, where both average over the same time.
        left_w = self._left_w(first)
        alike = float(left_w[1:] @ left_w[:-1]) / max(float(left_w @ left_w), TINY)
        self._likeness = min(max(alike, 0.0), MOST_ALIKE)
        return self._refined(first)

    def _refined(self, first: Sensor) -> Sensor:
        """The sensor near by that leaves the least unexplained."""
        longest_s = LONGEST_MEAN_S if self._readings.starts_s is None else 2 * GRID_S
        away_s = (5 * GRID_S, 0.2 * first[1], max(10 * GRID_S, 0.2 * first[2]))
        best = minimize(
            lambda sensor: self._unexplained(tuple(sensor)),
            first,
            method="Nelder-Mead",
            bounds=[LAGS_S, (GRID_S, longest_s), (0.0, LONGEST_SMOOTHING_S)],
            options={
                "initial_simplex": np.array(first) + np.vstack([np.zeros(3), np.diag(away_s)]),
                "xatol": GRID_S / 10,
                "fatol": math.inf,
                "maxfev": 200,
            },
        )
        lag_s, mean_s, smoothing_s = map(float, best.x)
        return lag_s, mean_s, smoothing_s

    def _alone(self, rows: Array) -> Array:
        """Rows without what they share with the one before."""
        return np.asarray(rows[1:] - self._likeness * rows[:-1])

    def _left_w(self, sensor: Sensor) -> Array:
        """Residuals of the readings after the fit of the states' power, in watts."""
        columns, watts = self._alone(self.columns(sensor)), self._alone(self._readings.watts)
        return np.asarray(watts - columns @ _solved(columns.T @ columns, columns.T @ watts))

    def _unexplained(self, sensor: Sensor) -> float:
        left_w = self._left_w(sensor)
        return float(left_w @ left_w)

    def leave_out_unseen(self, sensor: Sensor) -> None:
        """Drop the states that no reading covers: they have no power."""
        seen = np.linalg.norm(self.columns(sensor), axis=0) > TINY
        self.names, self._until_s = list(itertools.compress(self.names, seen)), self._until_s[seen]
        self._smoothed.cache_clear()

    def condition(self, sensor: Sensor) -> float:
        """Return the condition number of the equations: large where readings do not tell states apart."""
        columns = self.columns(sensor)
        return float(np.linalg.cond(columns / np.linalg.norm(columns, axis=0)))

    def powers(self, sensor: Sensor) -> tuple[Array, Array]:
        """Return the power of each state in watts, and draws of it (samples, states)."""
        watts, columns = self._alone(self._readings.watts), self.columns(sensor)
        power_w, _ = nnls(self._alone(columns), watts)
        # The draws may move the sensor, too: a column for each of its properties.
        moved = sensor + np.diag([GRID_S, 0.1 * sensor[1], max(GRID_S, 0.1 * sensor[2])])
        others = [tuple(one) for one in (moved if self._readings.starts_s is None else moved[::2])]
        slopes = [(self.columns(other) - columns) @ power_w for other in others]
        drawn_w = self._drawn(self._alone(np.column_stack([columns, *slopes])), watts, sum(sensor[1:]))
        chance = np.random.default_rng(SEED + 1)
        samples_w = power_w + WIDENED * (drawn_w[:, : len(power_w)] - power_w)
        return power_w, samples_w + MODEL_ERROR * power_w * chance.standard_normal(samples_w.shape)

    def _drawn(self, equations: Array, watts: Array, mean_s: float) -> Array:
        """Solutions for blocks of readings that are drawn at random."""
        ends_s = self._readings.ends_s[1:]
        blocks = ((ends_s - ends_s[0]) / max(BLOCK_S, BLOCK_MEANS * mean_s)).astype(int)
        members = [np.flatnonzero(blocks == block) for block in np.unique(blocks)]
        scale = np.maximum(np.linalg.norm(equations, axis=0), TINY)
        scaled = equations / scale
        grams = np.stack([scaled[rows].T @ scaled[rows] for rows in members])
        moments = np.stack([scaled[rows].T @ watts[rows] for rows in members])
        drawn = np.random.default_rng(SEED).integers(len(members), size=(SAMPLES, len(members)))
        return np.array([_solved(grams[one].sum(axis=0), moments[one].sum(axis=0)) / scale for one in drawn])


def _solved(gram: Array, moments: Array) -> Array:
    return np.asarray(np.linalg.solve(gram + RIDGE * np.trace(gram) * np.eye(len(gram)), moments))
