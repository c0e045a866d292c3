"""Three made-up offers with requirements and prices: what a buyer opens, for tests of the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from results.files.workloads import workloads
from results.find.records import Found, find_records
from results.points.repeats import PointResults
from results.tests import builder
from results.tests.of_dicts import by_point, write_report
from results.verdicts.cost import Costs, Price
from results.verdicts.requirements import Requirements

NEEDS = """
reference: A100
workloads:
  gpt: {benchmark: llm_training, model: 800M, weight: 2}
  resnet: {benchmark: resnet50}
must:
  - {of: gpt, what: throughput, devices: 16, at_least: 90000}
  - {of: gpt, what: work_per_energy, devices: 16, at_least: 130000}
budget: {money: 2100000, power_kw: 90}
"""
COSTS = Costs(
    "EUR",
    0.25,
    {
        "A100": Price(12_000, 200, 4),
        "H200": Price(32_000, 300, 8),
        "MI300X": Price(30_000, 320, 8),
    },
)
# Of a device: tokens/s, images/s and W.
SYSTEMS = {"A100": (11e3, 1300, 380), "H200": (33e3, 2600, 610), "MI300X": (30e3, 2750, 660)}


def records(system: str) -> list[dict[str, Any]]:
    """Three runs of each point of both workloads."""
    tokens_per_s, images_per_s, power_w = SYSTEMS[system]
    found = []
    for devices in (4, 16):
        for repeat in (-1, 0, 1):
            share = devices**0.97 * (1 + 0.002 * repeat)
            found.append(builder.result(system, devices, 256, tokens_per_s * share, power_w, model="800M"))
            images = builder.result(
                system,
                devices,
                256,
                images_per_s * share,
                power_w,
                model="ResNet-50",
                benchmark="resnet50",
                sample=workloads()["resnet50"].comparable,
            )
            found.append(builder.in_units(images, "images"))
    return found


def found_below(folder: Path) -> Found:
    """Store and read all offers; a record of MI300X is damaged."""
    for system in SYSTEMS:
        builder.store(folder / system, records(system))
    bad = folder / "MI300X" / "000000_benchmark" / "work" / "result.json"
    record = json.loads(bad.read_text())
    record["metrics"]["measured_steps"] = "many"
    bad.write_text(json.dumps(record))
    return find_records([folder / system for system in SYSTEMS])


def needs(folder: Path, text: str = NEEDS) -> Requirements:
    """Read requirements."""
    return builder.needs(folder, text)


def written(folder: Path, **options: Any) -> Path:
    """Write the page."""
    records, skipped = found_below(folder)
    page, *_ = write_report(records, skipped, folder / "report.html", COSTS, requirements=needs(folder), **options)
    return page


def points(*systems: str) -> list[PointResults]:
    """Return the points of some of the offers."""
    return by_point([record for system in systems for record in records(system)])
