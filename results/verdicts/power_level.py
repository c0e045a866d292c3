"""Level of the power measurement methodology of the EEHPCWG that an energy reaches, from the facts of its record.

Source: EEHPCWG/PowerMeasurementMethodology at ff1d705, table "Summary of aspects and quality levels". The window is the
core phase: the time that the performance is of.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from record.checks.energy import OUTER
from record.findings import Finding, finding, joined
from record.model import Energy, Record
from record.values import once
from results.join.energy import TENTHS
from results.verdicts.quality import STATED

LEVELS = (1, 2, 3)
MIN_CORE_S, MAX_STEP_S = 60.0, 1.0
# Part of the machine: the largest of a share of its nodes, watts and nodes; all of it, or for level 1 40 kW, will do.
SHARE, LEAST_W, LEAST_NODES, ENOUGH_W = {1: 1 / 10, 2: 1 / 8}, {1: 2e3, 2: 10e3}, 15, 40e3
SUBSYSTEMS = {1: ("network",), 2: ("network", "storage", "cooling"), 3: ("network", "storage", "cooling")}
LOSSES = {1: ("upstream", "maker", "offline", "together"), 2: ("upstream", "offline", "together")}
LOSSES[3] = ("upstream", "together")
ACCURACY = {1: 0.05, 2: 0.02, 3: 0.01}
MOST_OF_SEVERAL = 0.03  # with k equal meters, each may be worse by the root of k, up to this


class PowerLevel(NamedTuple):
    """Level that is reached, 0 for none, and what the next one lacks."""

    level: int
    lacking: tuple[Finding, ...]

    @property
    def words(self) -> str:
        """The level as text."""
        return f"level {self.level}" if self.level else "none"

    @property
    def lacking_words(self) -> str:
        """Text of what is missing for the next level."""
        return joined(self.lacking)


@once
def power_level(record: Record) -> PowerLevel | None:
    """Return the level of a record's energy; None without an energy."""
    if not record.energy:
        return None
    for level in LEVELS:
        if lacking := tuple(finding("level", lacks=words) for words in _lacking(record, record.energy, level)):
            return PowerLevel(level - 1, lacking)
    return PowerLevel(LEVELS[-1], ())


def lowest_level(records: Sequence[Record]) -> PowerLevel | None:
    """Return the lowest level of the records' energies; None without an energy."""
    levels = [level for one in records if (level := power_level(one))]
    return min(levels, key=lambda one: one.level, default=None)


def _lacking(record: Record, energy: Energy, level: int) -> Iterator[str]:
    """Yield what an energy lacks for a level."""
    if energy.power_kind != "measured" or not set(energy.power_scope.split("+")) <= set(OUTER):
        yield f"the power of the node or the supply: the energy is of scope {energy.power_scope}"
        return
    yield from _readings(energy, level)
    window_s, site, num_nodes = energy.window_s or 0.0, energy.site, record.layout.num_nodes or 1
    if window_s < MIN_CORE_S:
        yield f"a window of {MIN_CORE_S:.0f} s: it has {window_s:g} s"
    if level > 1 and not (energy.number("run_wh") and len(energy.tenths or ()) == TENTHS):
        yield "the energy of the whole run, and ten means of power in the window"
    if level > 1 and not (energy.idle_power_w or 0.0) > 0:
        yield "the idle power"
    # Without a statement on the machine, the nodes of the run are the machine.
    measured = len({one.hostname for one in energy.channels})
    machine = max(int(site.number("machine_nodes") or 0), num_nodes)
    power_w = energy.avg_power_w or 0.0
    is_enough = level < 3 and measured >= max(SHARE[level] * machine, LEAST_NODES) and power_w >= LEAST_W[level]
    if measured < machine and not (is_enough or (level == 1 and power_w >= ENOUGH_W)):
        yield f"a larger part of the machine: {measured} of {machine} nodes, {power_w:.0f} W"
    # Besides the nodes; a run on one node uses no network.
    covered = {*site.measured, *site.estimated} - {*(site.estimated if level == 3 else ())}
    needed = [one for one in SUBSYSTEMS[level] if one != "network" or num_nodes > 1]
    if lacking := [one for one in needed if one not in covered]:
        how = "measured" if level == 3 else "in it"
        yield f"{', '.join(lacking)} {how} (meter_covers, meter_estimates of the system's block)"
    # A meter in the supply line is upstream of the conversion; of a node's sensor the site must state it.
    losses = "upstream" if energy.power_scope == "supply" else site.losses
    if losses not in LOSSES[level]:
        wanted = " or ".join(LOSSES[level])
        yield f"conversion losses: {losses or 'not stated'}, {wanted} wanted (meter_losses of the system's block)"
    yield from _accuracy(energy, level)


def _readings(energy: Energy, level: int) -> Iterator[str]:
    """Level 3 needs an energy that the meter itself integrates, the others a reading a second."""
    if level == 3:
        if any(one.method != "counter" for one in energy.channels):
            yield "an energy that the meter integrates itself"
        return
    rates = [(one.samples or 0.0) / energy.window_s if energy.window_s else 0.0 for one in energy.channels]
    # Both edges of a window cut a step: a reading each second is one less than its seconds.
    least = 1 / MAX_STEP_S - (1 / energy.window_s if energy.window_s else 0.0)
    if min(rates) < least:
        yield f"a reading each second: there are {min(rates):.2f} a second"
    # A reading that is lost leaves two steps, and readings are seldom on time.
    elif (gap_s := max(one.largest_gap_s or 0.0 for one in energy.channels)) > 2 * MAX_STEP_S:
        yield f"a reading each second: there is none for {gap_s:.1f} s"


def _accuracy(energy: Energy, level: int) -> Iterator[str]:
    own = energy.accuracy if energy.accuracy_from in STATED else None
    percent = energy.site.number("accuracy_percent")
    accuracy = percent / 100 if percent else own
    most = max(ACCURACY[level], min(ACCURACY[level] * math.sqrt(len(energy.channels)), MOST_OF_SEVERAL))
    if accuracy is None or not accuracy > 0:
        yield f"a meter within {most:.0%}: its accuracy is not stated (meter_accuracy_percent of the system's block)"
    elif accuracy > most:
        yield f"a meter within {most:.0%}: this one is within {accuracy:.1%}"
