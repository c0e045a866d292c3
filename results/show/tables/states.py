"""Experimental: the energy of a step's states, from records, as a table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from results.points.repeats import PointResults
from results.record.values import Number, rounded
from results.show.tables.points import PLACE, place_of

NONE = "no energy of states: "  # so a run's note begins that says why
HEADER = (*PLACE, "state (experimental)", "time [ms]", "power [W/device]", "energy [%]", "± [%]", "not told, as")


def state_rows(results: Sequence[PointResults], number: Number = rounded) -> list[list[str]]:
    """Return the header and a row for each state of each point of which all runs have them; empty without any."""
    rows = []
    for one in results:
        states = [_of_runs(name, runs) for name, runs in _runs_of_states(one).items()]
        for name, refused, time_s, *values in sorted(states, key=lambda row: (bool(row[1]), -(row[4] or 0.0), row[0])):
            rows.append([*place_of(one), name, *map(number, (1e3 * time_s, *values)), refused])
    return [list(HEADER), *rows] if rows else []


def _runs_of_states(one: PointResults) -> dict[str, list[dict[str, Any]]]:
    """By the state what each run has of it, with the energy of its window; only states that all runs have."""
    found: dict[str, list[dict[str, Any]]] = {}
    for record in one.good:
        energy = record.get("energy") or {}
        for row in (energy.get("states") or {}).get("states") or []:
            found.setdefault(" and ".join(row["states"]), []).append(row | {"of_wh": energy["energy_wh"]})
    return {name: runs for name, runs in found.items() if len(runs) == len(one.good)}


def _of_runs(name: str, runs: Sequence[dict[str, Any]]) -> list[Any]:
    """Name, why it is refused, and medians: time, power, share of the energy; then the widest interval's half."""
    time_s = statistics.median(run["time_s"] for run in runs)
    if refused := next((run["refused"] for run in runs if run["refused"]), ""):
        return [name, refused, time_s, None, None, None]
    return [
        name,
        "",
        time_s,
        statistics.median(run["avg_power_w"] for run in runs),
        100 * statistics.median(run["energy_wh"] / run["of_wh"] for run in runs),
        100 * max((run["high_wh"] - run["low_wh"]) / 2 / run["energy_wh"] for run in runs),
    ]


def refusals(results: Sequence[PointResults]) -> list[str]:
    """Return why good runs have no energy of their states, each reason once."""
    notes = [note for one in results for record in one.good for note in (record.get("energy") or {}).get("notes") or []]
    return list(dict.fromkeys(note.removeprefix(NONE) for note in notes if note.startswith(NONE)))


def closing_notes(results: Sequence[PointResults]) -> list[str]:
    """Return by how much the sum of all states differs from the windows' energy, in words."""
    every = [(record.get("energy") or {}).get("states") or {} for one in results for record in one.good]
    found = [one["closing_percent"] for one in every if one.get("closing_percent") is not None]
    if not found:
        return []
    off = " to ".join(dict.fromkeys(f"{end(found):+.1f}" for end in (min, max)))
    return [
        "Experimental: a state's energy is its power, from steps with pauses after the window, times its time in the "
        f"window. All states together are {off} % off the windows' own energy."
    ]
