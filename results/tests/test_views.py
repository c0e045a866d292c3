"""Every view of the same runs names the same first system, and none names one that is not comparable."""

from __future__ import annotations

import json
from random import Random

import pytest

from caraml.cli import main
from results.record.records import find_records
from results.show.page.answer import of_workload
from results.show.page.site import write_site
from results.show.tables.summary import sentences, summary_table
from results.points.repeats import by_point
from results.tests import made_up
from results.verdicts.compare import compare
from results.verdicts.cost import Costs, Price, cheapest, tied_with_cheapest
from results.verdicts.ranking import fastest, rank
from results.verdicts.requirements import read_requirements
from results.verdicts.score import scores

PER_DEVICE, PER_ENERGY = "metrics.{unit}_per_s_per_device", "energy.{unit}_per_wh"
SLOW, FAST = "A100", "H200"
COSTS = Costs("EUR", 0.25, {SLOW: Price(10_000, 0, 4), FAST: Price(10_000, 0, 4)})
NEEDS = """
workloads: {gpt: {benchmark: llm_training, model: 800M}}
reference: A100
must: [{of: gpt, what: throughput, devices: 4, global_batch: 64, at_least: 30000}]
"""


def runs(system, speed, change=lambda record: None, count=3):
    found = [made_up.result(system, 4, 64, speed * (1 + 0.001 * index), 300.0, model="800M") for index in range(count)]
    for record in found:
        change(record)
    return found


def channels(**values):
    def change(record):
        for channel in record["energy"]["channels"]:
            channel.update(values)

    return change


def placed(place, **values):
    def change(record):
        record[place] = record[place] | values

    return change


def firsts(folder, records):
    """Return the system that each view puts first; None where it names none."""
    made_up.store(folder / "runs", records)
    (folder / "needs.yaml").write_text(NEEDS)
    found = find_records([folder / "runs"])
    points = by_point(found.records)
    needs = read_requirements(folder / "needs.yaml")
    sides = [[record for record in found.records if record.system == system] for system in (SLOW, FAST)]
    ratios = [line.ratios for line in compare(*sides).lines]
    named = {"speed": rank(points, PER_DEVICE), "energy": rank(points, PER_ENERGY)}
    views = {name: ranking and ranking.first.system for name, ranking in named.items()}
    first = fastest(points)
    views["fastest"] = first and first.system
    views["compare"] = next((FAST if each[0].value > 1 else SLOW for each in ratios if each[0]), None)
    views["compare energy"] = next((FAST if each[1].value > 1 else SLOW for each in ratios if each[1]), None)
    try:
        row = scores(points, needs, COSTS)[0].scores[0]
        views["score"] = row.system if row.value is not None else None
    except Exception as error:
        assert "reference" in str(error)
        views["score"] = None
    costed = [tied_with_cheapest(best)[0] for best in cheapest(points, COSTS).values()]
    views["cost"] = costed[0] if len(costed) == 1 else None
    for name, text in {"summary": " ".join(sentences(points)), "page": of_workload("gpt", points).sentence}.items():
        views[name] = next((system for system in (FAST, SLOW) if f"{system} is the fastest" in text), None)
    return views


@pytest.mark.parametrize("seed", [1, 2])
def test_all_views_name_the_same_first_system_in_any_order_of_the_runs(tmp_path, seed):
    records = [*runs(SLOW, 20e3), *runs(FAST, 40e3)]
    Random(seed).shuffle(records)
    assert set(firsts(tmp_path, records).values()) == {FAST}


BAD = {
    "contradicts itself": placed("metrics", mfu=0.99),
    "failed": lambda record: record.update(status="failed", error="the node burned"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_system_whose_runs_are_not_comparable_is_first_in_no_view(tmp_path, kind):
    named = firsts(tmp_path, [*runs(SLOW, 20e3), *runs(FAST, 40e3, BAD[kind])])
    assert {view for view, system in named.items() if system == FAST} == set()
