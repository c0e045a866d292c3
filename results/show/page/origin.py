"""Origin of the numbers: sensors and rules of each system's energy, software, firmware and command lines."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

from record.values import value_at
from results.files.quantities import QUANTITIES, quantities
from results.find.records import Record
from results.points.repeats import PointResults
from results.show.tables.cells import Table
from results.verdicts.cost import provisioned_sources
from results.verdicts.power_level import lowest_level
from results.verdicts.quality import Rule, energy_kind, energy_rules


class Quality(NamedTuple):
    """Measurement of the energy of one system's runs: its kinds, and the worst case of each rule."""

    system: str
    kinds: str
    sources: list[str]
    rules: list[Rule]


def quality_of(records: Sequence[Record]) -> list[Quality]:
    """Return for each system how its energy was measured."""
    found = []
    good = [record for record in records if record.is_good and record.energy]
    for system in dict.fromkeys(record.system for record in good):
        mine = [record for record in good if record.system == system]
        worst: dict[str, Rule] = {}
        for record in mine:
            for rule in energy_rules(record):
                known = worst.setdefault(rule.finding.topic, rule)
                if known.kept is not False and rule.kept is not True:
                    worst[rule.finding.topic] = rule
        sources = dict.fromkeys(
            f"{channel.name}: {channel.source or 'unknown'}, energy by {channel.method or 'unknown'}"
            for record in mine
            for channel in (record.energy.channels if record.energy else ())
        )
        if level := lowest_level(mine):
            levels = {"power_level": level.words, "next_level": level.lacking_words}
            sources |= {f"{QUANTITIES[name].title}: {words}": None for name, words in levels.items() if words}
        sources |= dict.fromkeys(provisioned_sources(mine))
        kinds = dict.fromkeys(kind for record in mine if (kind := energy_kind(record)))
        found.append(Quality(system, " and ".join(kinds), list(sources), list(worst.values())))
    return found


def origin_table(records: Sequence[Record]) -> Table:
    """Return a row for each combination of software and firmware in the records."""
    found: dict[tuple[str, ...], None] = {}
    for record in records:
        origin = record.provenance
        packages = [f"{name} {version}" for name, version in (origin.packages or {}).items() if version]
        software = ", ".join([f"Python {value_at(record, 'provenance.python') or 'unknown'}", *packages])
        container = " ".join(filter(None, [origin.container, origin.container_digest])) or "none"
        code = str(origin.git_commit or "unknown")[:12] + (" with changes" if origin.git_dirty else "")
        for node in origin.nodes:
            facts = {"hostname": None, "architecture": None, "kernel": None, **vars(node)}
            machine = (facts["hostname"], node.cpu or facts["architecture"], facts["kernel"])
            names = (str(fact or "unknown") for fact in machine)
            found[(record.system, *names, _devices(node.devices), software, container, code)] = None
    columns = ("system", "node", "processor", "kernel", "devices and firmware", "software", "container", "code")
    return Table(quantities(*columns), list(found))


def _devices(devices: Any) -> str:
    facts = ("driver_version", "vbios_version", "power.limit", "clocks.max.sm", "ecc.mode.current", "mig.mode.current")
    texts = [
        ", ".join([str(device.get("name", "")), *(f"{name} {device[name]}" for name in facts if name in device)])
        for device in (devices if isinstance(devices, list) else [])
        if isinstance(device, dict)
    ]
    return "; ".join(f"{texts.count(text)} x {text}" for text in dict.fromkeys(texts) if text)


def commands_of(results: Sequence[PointResults]) -> list[tuple[str, str]]:
    """Return for each point the command line of its first run."""
    found = []
    for one in results:
        command = one.any.provenance.command
        if isinstance(command, list):
            found.append((f"{one.system}: {one.point}", shlex.join(map(str, command))))
    return found
