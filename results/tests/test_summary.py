"""Sentences on results: only what may be ranked is."""

from __future__ import annotations

import pytest

from record.values import WORK
from results.show.words import of_workload
from results.tests import builder
from results.tests.of_dicts import by_point
from results.verdicts.quality import best_of_systems, fastest, ranked_points

SPREAD = (0.99, 1.0, 1.01)


def runs(system, tokens_per_s, precision="bf16", **options):
    return [
        builder.result(system=system, tokens_per_s=tokens_per_s * share, precision=precision, **options)
        for share in SPREAD
    ]


def said(*records):
    return of_workload(by_point([record for several in records for record in several]))


def test_speeds_in_different_precisions_are_not_ranked_with_each_other():
    found = said(runs("A", 100.0), runs("B", 300.0, "fp8"))
    assert "A is the only system that is ranked in tokens/s per device in bf16." in found
    assert "B is the only system that is ranked in tokens/s per device in fp8." in found


@pytest.mark.parametrize(
    ("others", "speed"),
    [
        ([runs("B", 120.0)], "B is first in tokens/s per device, 20.0 % ahead of A (95 % interval 17.3 to 22.8 %)."),
        ([runs("B", 120.0), runs("C", 119.5)], "B and C tie in tokens/s per device: their intervals overlap."),
        ([[builder.result("B", tokens_per_s=150.0)]], "B and A tie in tokens/s per device: one run gives no interval."),
        ([], "A reaches 100.0 tokens/s per device."),
    ],
)
def test_who_is_first_is_one_sentence(others, speed):
    assert said(runs("A", 100.0), *others)[0] == speed


def test_an_energy_that_breaks_a_rule_or_leaves_it_open_is_not_ranked():
    broken, silent = runs("B", 120.0), runs("C", 130.0)
    broken[0]["energy"]["channels"][0]["largest_gap_s"] = 30.0
    del silent[1]["energy"]["channels"][0]["largest_gap_s"]
    found = said(runs("A", 100.0), broken, silent)
    assert "A is the only system that is ranked in tokens/Wh (Q1, device); A at 1 device, batch 8." in found
    assert "Energy is not ranked: B: gaps: the longest time without a sample is 30.0 s, at most 2.0 wanted." in found
    assert "Energy is not ranked: C: gaps: the record lacks the data." in found


def test_what_is_of_no_known_precision_is_in_no_ranking():
    unknown = runs("B", 700.0, "")
    assert [point.system for point in ranked_points(by_point([*runs("A", 100.0), *unknown]))] == ["A"]
    [speed, _, left_out] = said(runs("A", 100.0), unknown)
    assert speed.startswith("A is the only system")
    assert left_out.startswith("Not ranked: B: ")
    assert said(unknown) == [left_out]


def test_of_points_that_are_level_the_first_is_the_fastest():
    points = by_point([builder.result(batch=8), builder.result(batch=16)])
    for order in (points, points[::-1]):
        assert fastest(order) is order[0]


def test_systems_are_ranked_at_their_best_by_what_is_ranked():
    slow = runs("A", 100.0, power_w=50.0)
    points = by_point([*slow, *runs("A", 200.0, batch=16, power_w=400.0), *runs("B", 150.0)])
    assert [one.point.global_batch for one in best_of_systems(points, WORK)] == [8, 8]
    assert [one.system for one in best_of_systems(points, WORK)] == ["A", "B"]
