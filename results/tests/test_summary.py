"""What is said of results, and what is not: only what may be ranked is."""

from __future__ import annotations

import pytest

from record.values import WORK
from results.files.workloads import workloads
from results.show.plots.style import styles_of_systems
from results.show.plots.sweep import scaling
from results.show.tables.cost import cost_table
from results.show.tables.summary import sentences, summary_table
from results.tests import builder as made_up
from results.tests.of_dicts import by_point
from results.verdicts.cost import Costs, Price, cost_of
from results.verdicts.ranking import best_of_systems, devices_of_all, fastest, ranked_points

SPREAD = (0.99, 1.0, 1.01)


def runs(system, tokens_per_s, precision="bf16", **options):
    return [
        made_up.result(system=system, tokens_per_s=tokens_per_s * share, precision=precision, **options)
        for share in SPREAD
    ]


def said(*records):
    return sentences(by_point([record for several in records for record in several]))


def test_speeds_in_different_precisions_are_not_ranked_with_each_other():
    found = said(runs("A", 100.0), runs("B", 300.0, "fp8"))
    assert "Fastest per device in bf16: A with 100.0 ± 2.5 tokens/s (1 device, global batch 8)." in found
    assert "Fastest per device in fp8: B with 300.0 ± 7.5 tokens/s (1 device, global batch 8)." in found
    assert not [sentence for sentence in found if "times" in sentence]


def test_a_lead_beyond_the_spread_is_a_ratio_and_one_within_it_is_none():
    assert "1.20 times A." in said(runs("A", 100.0), runs("B", 120.0))[0]
    [speed, _] = said(runs("A", 100.0), runs("B", 120.0), runs("C", 119.5))
    assert speed.startswith("Fastest per device in bf16: not distinguishable are B with 120.0 ± 3.0 tokens/s")
    assert "; C with 119.5 ± 3.0 tokens/s" in speed
    assert speed.endswith("; B has 1.20 times A.")


def test_one_run_makes_no_winner():
    [speed, _] = said(runs("A", 100.0), [made_up.result(system="B", tokens_per_s=150.0)])
    assert "not distinguishable are B with 150.0 tokens/s" in speed
    assert "one run gives no interval" in speed


def test_an_energy_that_breaks_a_rule_or_leaves_it_open_is_not_ranked():
    broken, silent = runs("B", 120.0), runs("C", 130.0)
    broken[0]["energy"]["channels"][0]["largest_gap_s"] = 30.0
    del silent[1]["energy"]["channels"][0]["largest_gap_s"]
    found = said(runs("A", 100.0), broken, silent)
    assert "Most work per energy in bf16 (Q1, device): A with 3,600 ± 89 tokens/Wh (1 device, global batch 8)." in found
    assert "Energy of B is not ranked: gaps: the longest time without a sample is 30.0 s, at most 2.0 wanted." in found
    assert "Energy of C is not ranked: gaps: the record lacks the data." in found


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"samples": 3}, "samples: 3 samples of the slowest channel, at least 60 wanted"),
        ({"largest_gap_s": 40.0}, "gaps: the longest time without a sample is 40.0 s, at most 2.0 wanted"),
        ({"missing": None}, "missing samples: the record lacks the data"),
    ],
)
def test_an_energy_in_the_summary_that_is_not_ranked_says_why(changes, why):
    broken = runs("B", 150.0)
    for record in broken:
        record["energy"]["channels"][0].update(changes)
        record["energy"]["window_s"] = 3.0 if "samples" in changes else 60.0
        record["metrics"]["measured_tokens"] = record["metrics"]["tokens_per_s"] * record["energy"]["window_s"]
    header, good, bad = summary_table([("GPT", by_point([*runs("A", 100.0), *broken]))]).texts()
    assert good[header.index("energy")] == "Q1, device"
    assert bad[header.index("energy")] == f"Q1, device; not ranked: {why}"
    assert bad[header.index("best work per energy")].endswith("tokens/Wh")
    # One that counts comes before one that does not, however much work that says.
    better = runs("B", 110.0, batch=16)
    header, row = summary_table([("GPT", by_point([*broken, *better]))]).texts()
    assert row[header.index("energy")] == "Q1, device"
    assert row[header.index("best work per energy")].startswith("3,960")


def test_what_is_of_no_known_precision_is_in_no_ranking_and_in_a_row_of_its_own():
    unknown = runs("B", 700.0, "")
    assert [one.system for one in ranked_points(by_point([*runs("A", 100.0), *unknown]))] == ["A"]
    found = said(runs("A", 100.0), unknown)
    assert found[0] == "Fastest per device in bf16: A with 100.0 ± 2.5 tokens/s (1 device, global batch 8)."
    assert found[-1] == "Runs of B are not ranked: their precision is not known."
    assert not [sentence for sentence in found[:-1] if "B" in sentence]
    assert said(unknown) == ["Runs of B are not ranked: their precision is not known."]
    bad = made_up.failed("A", 1, 64)
    mixed = by_point([*runs("A", 700.0, "", batch=16), *runs("A", 100.0), *runs("A", 300.0, "fp8"), bad])
    header, *rows = summary_table([("GPT", mixed)]).texts()
    columns = [header.index(name) for name in ("precision", "best per device", "runs")]
    assert sorted([row[index] for index in columns] for row in rows) == [
        ["bf16", "100.0 ± 2.5 tokens/s", "3 ok, 1 failed"],
        ["fp8", "300.0 ± 7.5 tokens/s", "3 ok"],
        ["not known", "700 ± 17 tokens/s", "3 ok"],
    ]


def test_a_system_has_a_row_for_each_precision():
    rows = summary_table([("GPT", by_point(runs("A", 100.0) + runs("A", 300.0, "fp8")))]).texts()
    assert [row[1:3] for row in rows[1:]] == [["A", "bf16"], ["A", "fp8"]]


def test_of_points_that_are_level_the_first_is_the_fastest():
    points = by_point([made_up.result(batch=8), made_up.result(batch=16)])
    for order in (points, points[::-1]):
        assert fastest(order) is order[0]


def test_systems_are_ranked_at_their_best_by_what_is_ranked():
    slow = runs("A", 100.0, power_w=50.0)
    points = by_point([*slow, *runs("A", 200.0, batch=16, power_w=400.0), *runs("B", 150.0)])
    assert [one.point.global_batch for one in best_of_systems(points, WORK)] == [8, 8]
    assert [one.system for one in best_of_systems(points, WORK)] == ["A", "B"]


def test_the_devices_of_all_are_those_on_which_each_has_a_good_run():
    points = by_point(runs("A", 100.0, devices=2) + runs("A", 100.0, devices=4) + runs("B", 100.0, devices=2))
    assert devices_of_all(points) == 2
    assert devices_of_all(points + by_point(runs("C", 100.0, devices=4))) is None
    assert devices_of_all(by_point([made_up.failed()])) is None


def test_scaling_is_of_one_precision():
    points = by_point(runs("A", 100.0) + runs("A", 190.0, devices=2) + runs("A", 380.0, "fp8", devices=2))
    [chart] = scaling(points, styles_of_systems(points))
    assert chart.words == "A: 100 % on 1, 95 % on 2"


def test_what_is_not_ranked_has_no_cost():
    assert workloads()["llm_training"].costed.words == "10⁹ tokens"
    costs = Costs("EUR", 0.25, {"A": Price(10_000.0)})
    good, estimated = by_point(runs("A", 100.0)), by_point(runs("A", 100.0, estimated=True))
    small = by_point([{**record, "metrics": {**record["metrics"], "comparable": False}} for record in runs("A", 100.0)])
    assert cost_of(good[0], costs) is not None
    assert cost_of(estimated[0], costs) is None
    assert cost_of(small[0], costs) is None
    header, row = cost_table([estimated], costs).texts()
    assert row[header.index("at")] == "no energy that counts: it is an estimate from load, and no measurement"


def test_the_time_to_report_is_of_one_number_of_devices_for_all():
    few = [made_up.result("A", devices, tokens_per_s=100.0 * devices) for devices in (1, 2, 8)]
    many = [made_up.result("B", devices, tokens_per_s=100.0 * devices) for devices in (2, 4, 16)]
    header, *rows = summary_table([("GPT", by_point([*few, *many]))]).texts()
    times = [row[header.index("time to report")] for row in rows]
    assert all(text.endswith("on 2 devices") for text in times)
    assert len(set(times)) == 1
    header, *rows = summary_table([("GPT", by_point([few[2], many[2]]))]).texts()
    assert [row[header.index("time to report")] for row in rows] == ["", ""]


def test_failed_runs_without_a_precision_are_counted_with_their_system():
    bad = made_up.failed("A", 4, 64)
    del bad["layout"]["num_nodes"]
    header, *rows = summary_table([("GPT", by_point([*runs("A", 100.0), *runs("A", 300.0, "fp8"), bad]))]).texts()
    assert [row[header.index("runs")] for row in rows] == ["3 ok, 1 failed", "3 ok"]
