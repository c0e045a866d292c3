"""Experimental: the energy of each state of a step, from steps with pauses and the readings of the devices' sensors.

The power of a state in the steps with pauses, times the time that the window's own steps were in it. The sum over all
states is compared with the window's energy.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jpwr.energy import ChannelEnergy
from jpwr.regions.times import State
from results.join.state_power import Fit, NoPower, fit_states, readings_of
from results.record.parts import JOULES_PER_WH
from results.record.records import Record

STATES_NAME = "record.states.json"
MOST_OFF = 0.02  # of the window's energy
WIDEST = 0.2  # half-width of an interval, relative
LEAST_SHARE = 0.01  # of a step
SHORTEST_S = 0.002  # each time that a step is in a state: several times what a moment is known to
LONGEST_S = 3600.0  # of steps with pauses


class OfRank(NamedTuple):
    """A channel, and the rank whose devices it measures."""

    rank: int
    name: str
    curve: ChannelEnergy
    by_counter: bool


def energy_of_states(record: Record, channels: Sequence[OfRank], folder: Path) -> dict[str, Any]:
    """Return what the record has of its states' energy over the measured window; of a state that is refused, why.

    Raises NoPower where no state's can be told.
    """
    try:
        steps = _Steps(record)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise NoPower("the record does not say what its steps are made of") from error
    states = read_states(folder / STATES_NAME, len(steps.seconds))
    if any(channel.rank >= len(states) for channel in channels):
        raise NoPower(f"the record has {len(states)} processes, and more trained")
    fits = [(channel, _fitted(channel, states[channel.rank])) for channel in channels]
    all_wh = steps.energy(fits, steps.names)[0] / JOULES_PER_WH
    closing = all_wh / record["energy"]["energy_wh"] - 1
    off = f"all states together are {100 * closing:+.1f} % off the window's energy" * (not abs(closing) <= MOST_OFF)
    return {
        "closing_percent": 100 * closing,
        "all_wh": all_wh,
        "states": [steps.row(fits, name, off or steps.refusal(fits, states, name)) for name in steps.names],
        "sensors": [
            {
                "channel": channel.name,
                "rank": channel.rank,
                "by": "counter" if channel.by_counter else "power",
                **{name: getattr(fit, name) for name in ("lag_s", "mean_s", "smoothing_s", "condition", "readings")},
            }
            for channel, fit in fits
        ],
    }


def _fitted(channel: OfRank, states: Sequence[State]) -> Fit:
    try:
        return fit_states(states, readings_of(channel.curve, channel.by_counter, states[0].start_s, states[-1].end_s))
    except NoPower as error:
        raise NoPower(f"channel {channel.name}: {error}") from error
    except (np.linalg.LinAlgError, RuntimeError) as error:
        raise NoPower(f"channel {channel.name}: no power fits its readings ({error})") from error


def read_states(path: Path, ranks: int) -> list[list[State]]:
    """Return the states of each rank in the steps with pauses; raises NoPower for what is no such file."""
    try:
        found = [
            [
                State(str(one["names"][which]), float(start_s), float(end_s))
                for which, start_s, end_s in zip(one["which"], one["edges_s"], one["edges_s"][1:], strict=False)
            ]
            for one in json.loads(path.read_text())
        ]
        if len(found) != ranks or not all(found):
            raise ValueError(f"it has {len(found)} processes, and {ranks} trained")
        if any(not 0 <= state.end_s - state.start_s < math.inf for own in found for state in own):
            raise ValueError("its moments do not follow each other")
        if any(own[-1].end_s - own[0].start_s > LONGEST_S for own in found):
            raise ValueError(f"it has more than {LONGEST_S:g} s")
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise NoPower(f"{path} cannot be used ({error})") from error
    return found


Fits = Sequence[tuple[OfRank, Fit]]


class _Steps:
    """The window's steps: how long each rank was in each state."""

    def __init__(self, record: Record) -> None:
        step_s = record["states"]["step_s"]
        self.steps = record["metrics"]["measured_steps"]
        self.devices = Counter(device["rank"] for device in record["devices"])
        self.names = sorted(step_s)
        ranks = max(map(len, step_s.values()), default=0)
        self.seconds = [{name: self.steps * step_s[name][rank] for name in self.names} for rank in range(ranks)]
        if not self._devices_s(self.names) > 0 or any(time_s < 0 for own in self.seconds for time_s in own.values()):
            raise NoPower("the record's steps take no time")

    def _devices_s(self, names: Collection[str]) -> float:
        """Time in states, summed over all devices."""
        return math.fsum(self.devices[rank] * own[name] for rank, own in enumerate(self.seconds) for name in names)

    def energy(self, fits: Fits, names: Collection[str]) -> list[float]:
        """Energy of states in joules, and the ends of its interval: sensors of one kind err in the same direction."""
        parts = [fit.energy({name: self.seconds[channel.rank][name] for name in names}) for channel, fit in fits]
        return [math.fsum(values) for values in zip(*parts, strict=True)]

    def refusal(self, fits: Fits, states: Sequence[Sequence[State]], name: str) -> str:
        """Return why the energy of a state cannot be told; empty where it can."""
        share = self._devices_s([name]) / self._devices_s(self.names)
        if share < LEAST_SHARE:
            return f"it has {100 * share:.1f} % of the time"
        if any(self.seconds[channel.rank][name] and name not in fit.states for channel, fit in fits):
            return "it was not there in the steps with pauses"
        visits_s = [state.end_s - state.start_s for own in states for state in own if state.name == name]
        if statistics.fmean(visits_s) < SHORTEST_S:
            return f"it lasts less than {1000 * SHORTEST_S:g} ms at a time"
        energy_j, low_j, high_j = self.energy(fits, [name])
        if not low_j <= energy_j <= high_j:
            return "its energy is outside of its own interval"
        half = (high_j - low_j) / 2 / energy_j if energy_j > 0 else math.inf
        return "" if half <= WIDEST else f"its interval is ±{100 * half:.0f} %"

    def row(self, fits: Fits, name: str, refused: str) -> dict[str, Any]:
        """Return what the record has of a state."""
        energy_j, low_j, high_j = self.energy(fits, [name])
        devices_s = self._devices_s([name])
        numbers = {
            "energy_wh": energy_j / JOULES_PER_WH,
            "low_wh": low_j / JOULES_PER_WH,
            "high_wh": high_j / JOULES_PER_WH,
            "avg_power_w": energy_j / devices_s if devices_s else None,
        }
        time_s = devices_s / self.devices.total() / self.steps
        known = dict.fromkeys(numbers) if refused else numbers
        return {"states": [name], "time_s": time_s, **known, "refused": refused}
