"""The energy of a step's states, from records: a table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from results.points.repeats import PointResults
from results.records import Record
from results.tables.points import PLACE, place_of
from results.values import Number, rounded

TOGETHER = " and "  # of names of states that are told as one
NONE = "no energy of states: "  # so a run's note begins that says why
HEADER = (
    *PLACE,
    "state",
    "time [ms]",
    "power [W/device]",
    "energy [%]",
    "± [%]",
    "not told, as",
)


class StateEnergy(NamedTuple):
    """One state of the steps of a point, or those together that cannot be told: the median over its runs."""

    name: str
    time_s: float  # of a step
    power_w: float | None  # of a device in that state
    share_percent: float | None  # of the window's energy
    uncertainty_percent: float | None  # half-width of the widest run's interval
    refused: str


def states_of(records: Sequence[Record]) -> list[StateEnergy]:
    """Of runs of one point, where all of them tell; largest energy first."""
    told = [((record.get("energy") or {}).get("states") or {}).get("states") for record in records]
    if not told or not all(told):
        return []
    windows_wh = [record["energy"]["energy_wh"] for record in records]
    names = dict.fromkeys(TOGETHER.join(one["states"]) for of_run in told for one in of_run or ())
    found = []
    for name in names:
        runs = [next((one for one in of_run or () if TOGETHER.join(one["states"]) == name), None) for of_run in told]
        if None not in runs:
            found.append(_of_runs(name, [one for one in runs if one], windows_wh))
    return sorted(
        found, key=lambda one: (bool(one.refused), TOGETHER in one.name, -(one.share_percent or 0.0), one.name)
    )


def _of_runs(name: str, runs: Sequence[dict[str, Any]], windows_wh: Sequence[float]) -> StateEnergy:
    time_s = statistics.median(one["time_s"] for one in runs)
    refused = next((one["refused"] for one in runs if one["refused"]), "")
    if refused:
        return StateEnergy(name, time_s, None, None, None, refused)
    return StateEnergy(
        name,
        time_s,
        statistics.median(one["avg_power_w"] for one in runs),
        100 * statistics.median(one["energy_wh"] / of_wh for one, of_wh in zip(runs, windows_wh, strict=True)),
        100 * max((one["high_wh"] - one["low_wh"]) / 2 / one["energy_wh"] for one in runs),
        "",
    )


def state_rows(results: Sequence[PointResults], number: Number = rounded) -> list[list[str]]:
    """The header and a row for each state of each point whose runs tell; empty where none does."""
    rows = []
    for one in results:
        for state in states_of(one.good):
            values = [1e3 * state.time_s, state.power_w, state.share_percent, state.uncertainty_percent]
            rows.append([*place_of(one), state.name, *map(number, values), state.refused])
    return [list(HEADER), *rows] if rows else []


def refusals(results: Sequence[PointResults]) -> list[str]:
    """Why good runs tell nothing of their states, each reason once."""
    notes = [note for one in results for record in one.good for note in (record.get("energy") or {}).get("notes") or []]
    return list(dict.fromkeys(note.removeprefix(NONE) for note in notes if note.startswith(NONE)))


def closing_notes(results: Sequence[PointResults]) -> list[str]:
    """How far all states together are off the windows' energy, in words."""
    every = [(record.get("energy") or {}).get("states") or {} for one in results for record in one.good]
    found = [one["closing_percent"] for one in every if one.get("closing_percent") is not None]
    if not found:
        return []
    low, high = f"{min(found):+.1f}", f"{max(found):+.1f}"
    off = low if low == high else f"{low} to {high}"
    return [
        "A state's energy is its power, told from steps with pauses after the window, times its time in the window. "
        f"All states together are {off} % off the windows' own energy."
    ]
