"""Origin of the numbers: sensors and rules of each system's energy, software, firmware and command lines."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from record.values import grouped, value_at
from results.files.quantities import QUANTITIES, quantities
from results.find.records import Record
from results.frames import lacking_words, level_words
from results.points.repeats import PointResults
from results.show.tables.cells import Table
from results.verdicts.cost import provisioned_sources
from results.verdicts.quality import energy_kind, energy_rules


def quality_table(records: Sequence[Record]) -> Table:
    """Return for each system the worst case of each rule of its energies."""
    rows: dict[tuple[str, str], list[str]] = {}
    for record in records:
        for rule in energy_rules(record) if record.is_good else ():
            kept = "unknown" if rule.kept is None else "yes" if rule.kept else "NO"
            row = [record.system, energy_kind(record) or "", rule.finding.topic, kept, rule.finding.words]
            known = rows.setdefault((record.system, rule.finding.topic), row)
            if known[3] != "NO" and kept != "yes":
                rows[record.system, rule.finding.topic] = row
    return Table(quantities("system", "energy is", "rule", "kept", "worst run"), list(rows.values()))


def sources_of(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Return for each system the sensors of its energies, the levels of their measurement, and provisioned power."""
    found = []
    with_energy = [record for record in records if record.is_good and record.energy]
    for system, runs in grouped(with_energy, lambda record: record.system).items():
        channels = [channel for record in runs for channel in (record.energy.channels if record.energy else ())]
        words = [f"{one.name}: {one.source or 'unknown'}, energy by {one.method or 'unknown'}" for one in channels]
        levels = {"power_level": level_words(runs), "next_level": lacking_words(runs)}
        words += [f"{QUANTITIES[name].title}: {level}" for name, level in levels.items() if level]
        found.append((system, "; ".join(dict.fromkeys([*words, *provisioned_sources(runs)]))))
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
    commands = [(f"{one.system}: {one.point}", one.any.provenance.command) for one in results]
    return [(where, shlex.join(map(str, words))) for where, words in commands if isinstance(words, list)]
