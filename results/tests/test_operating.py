"""Operating points: made sweeps whose ratios are known, single runs, and who may name a point."""

from __future__ import annotations

import random

import pytest

from results.points.estimate import Outcome
from results.points.repeats import OperatingLimits
from results.show.plots.charts import styles_of_systems
from results.show.plots.workload import charts_of
from results.tests import builder
from results.tests.of_dicts import by_point, contradictions
from results.verdicts.accept import accept
from results.verdicts.cost import Costs, Price, cheapest, cost_of
from results.verdicts.quality import deviations
from results.verdicts.requirements import Item, Requirements, Selection

FULL_W, FULL_MHZ, STANDING_W = 700.0, 1980.0, 150.0
CAPS = (700.0, 595.0, 490.0, 385.0)
CLOCKS = (1980.0, 1680.0, 1380.0, 1080.0)


def modelled(power_limit_w=FULL_W, clock_limit_mhz=None, compute_share=1.0):
    """Speed and power of a stated model: 150 W, and 550 W times the cube of the clock; a cap lowers the clock.

    A share of the time is that of computing, which takes longer at a lower clock; the rest waits for memory.
    """
    x = min((clock_limit_mhz or FULL_MHZ) / FULL_MHZ, ((power_limit_w - STANDING_W) / (FULL_W - STANDING_W)) ** (1 / 3))
    speed = 1 / (compute_share / x + 1 - compute_share)
    return 1000 * speed, STANDING_W + (FULL_W - STANDING_W) * x**3


def run(power_limit_w=FULL_W, clock_limit_mhz=None, noise=0.0, speed_and_power=None, seed=None, **changes):
    """One run at an operating point; `noise` is the relative standard deviation of its speed and its power."""
    speed, power_w = speed_and_power or modelled(power_limit_w, clock_limit_mhz)
    chance = random.Random(seed)
    record = builder.result(
        tokens_per_s=speed * chance.gauss(1, noise), power_w=power_w * chance.gauss(1, noise), **changes
    )
    [channel] = record["energy"]["channels"]
    channel["limits"] = {"power_limit_w": power_limit_w, "clock_limit_mhz": clock_limit_mhz, "limits_set_by": "jpwr"}
    channel["clocks"] = {"throttled": {"power limit": 100.0 * (clock_limit_mhz is None and power_limit_w < FULL_W)}}
    return record


def swept(limits, noise=0.003, repeats=3, model=modelled, **changes):
    """Runs at some limits, each a pair of watts and MHz."""
    return [
        run(*pair, noise=noise, speed_and_power=model(*pair), seed=str((pair, number)), **changes)
        for pair in limits
        for number in range(repeats)
    ]


def test_the_chart_of_speed_against_energy_names_the_limits():
    points = by_point(swept([(FULL_W, mhz) for mhz in CLOCKS]))
    [chart] = (one for one in charts_of(points, styles_of_systems(points)) if one.name == "pareto")
    [axes] = chart.figure.axes
    assert {text.get_text() for text in axes.texts} == {f"{FULL_W:g} W, {mhz:g} MHz" for mhz in CLOCKS}


def test_runs_at_unlike_limits_are_no_repeats():
    points = by_point(swept([(watts, None) for watts in CAPS]))
    assert [len(one.good) for one in points] == [3] * 4
    assert sorted(one.limits.power_w for one in points) == sorted(CAPS)


def with_limits(record, **values):
    """The record with limits over time, in watts, of its one channel."""
    channel = record["energy"]["channels"][0]
    channel["limits"] = channel["limits"] | {f"power_limit_{name}_w": value for name, value in values.items()}
    channel["limits"]["power_limit_w"] = values.get("most", channel["limits"]["power_limit_w"])
    return record


OVER_TIME = {"least": 490.0, "most": 700.0}


@pytest.mark.parametrize(
    ("power_w", "limits", "words"),
    [
        # a limit that was lowered at the end, or put back by another tool
        (650.0, OVER_TIME | {"mean": 665.0}, ""),
        (650.0, OVER_TIME | {"mean": 560.0}, "has 650 W on average, but its board's limit is 560 W"),
        # one that held, as it was set
        (660.0, {"least": 650.0, "most": 650.0, "mean": 650.0}, ""),
        (688.0, {"least": 650.0, "most": 650.0, "mean": 650.0}, "has 688 W on average, but its board's limit is 650 W"),
        (500.0, OVER_TIME | {"mean": 720.0}, "power_limit_mean_w is 720, more than the 700 of"),
        (470.0, OVER_TIME | {"mean": 480.0}, "power_limit_least_w is 490, more than the 480 of"),
    ],
)
def test_the_mean_power_is_compared_with_the_limit_over_the_time(power_w, limits, words):
    found = contradictions(with_limits(run(speed_and_power=(1000.0, power_w)), **limits))
    assert [words in one for one in found] == [True] * bool(words), found


@pytest.mark.parametrize(
    ("changes", "devices", "says"),
    [
        ({"limits_set_by": ""}, {}, ""),  # a board's own limit
        ({"limits_set_by": ""}, {"power.limit": "650.00 W", "power.default_limit": "650.00 W"}, ""),
        ({"limits_set_by": ""}, {"power.limit": "650.00 W", "power.default_limit": "700.00 W"}, "limit is 650 W"),
        ({"limits_set_by": "scheduler"}, {}, "limit is 650 W"),
    ],
)
def test_a_limit_below_the_boards_own_is_kept_more_closely(changes, devices, says):
    record = run(650.0, speed_and_power=(1000.0, 688.0))
    record["energy"]["channels"][0]["limits"] |= changes
    record["provenance"]["nodes"] = [{"devices": [{"uuid": "GPU-1", **devices}]}]
    assert [says in one for one in contradictions(record)] == [True] * bool(says)


def test_a_run_whose_limit_varied_is_noted_and_at_no_operating_point():
    records = swept([(watts, None) for watts in CAPS[:2]])
    varied = with_limits(run(seed="varied"), **OVER_TIME, mean=665.0)
    assert by_point([varied])[0].limits == OperatingLimits(None, None)
    points = by_point([*records, varied])
    found = [dict(each.values) for one in points for each in deviations(one) if each.kind == "limit_changed"]
    assert found == [{"least_w": 490.0, "most_w": 700.0, "mean_w": 665.0}]


def test_devices_with_different_limits_are_at_no_operating_point():
    record = run()
    other = {**record["energy"]["channels"][0], "name": "made:1", "limits": {"power_limit_w": 400.0}}
    record["energy"]["channels"].append(other)
    assert by_point([record])[0].limits == OperatingLimits(None, None)


def test_a_clock_above_its_limit_is_a_contradiction():
    """The sampler cannot check on an idle device whether a scheduler has set a clock."""
    record = run(clock_limit_mhz=1380.0)
    [channel] = record["energy"]["channels"]
    for mean_mhz, words in (
        (1400.0, []),
        (1700.0, ["channel made:0 has 1700 MHz on average, but its clock limit is 1380 MHz"]),
    ):
        channel["clocks"]["mean_mhz"] = mean_mhz
        assert contradictions(record) == words


def test_a_requirement_may_name_an_operating_point():
    points = by_point(swept([(watts, None) for watts in CAPS]))
    wanted = {"gpt": Selection("llm_training")}

    def outcome(**named):
        item = Item("gpt", "work_per_energy", at_least=6000.0, **named)
        [verdict] = accept(points, Requirements(wanted, (item,)))
        return verdict

    # 385 W: 0.75 of the speed at 0.55 of the power. Full speed: 5143 tokens/Wh.
    assert outcome(power_limit_w=385.0).outcome is Outcome.PASSED
    assert outcome(power_limit_w=700.0).outcome is Outcome.FAILED
    missing = outcome(power_limit_w=500.0)
    assert missing.outcome is Outcome.UNDECIDED
    assert "no run at this point, only at" in missing.reason
    assert "490 W" in missing.reason
    item = Item("gpt", "work_per_energy", at_least=1.0, power_limit_w=385.0, clock_limit_mhz=1380.0)
    assert str(item).endswith("work per energy at a power limit of 385 W and a clock limit of 1380 MHz at least 1")


def test_costs_use_the_operating_point_that_is_named_and_no_other():
    points = by_point(swept([(watts, None) for watts in CAPS]))
    for power_limit_w in (595.0, 385.0):
        costs = Costs("EUR", 0.25, {"A100": Price(20000.0, power_limit_w=power_limit_w)})
        [best] = cheapest(points, costs).values()
        assert best["A100"][0].limits.power_w == power_limit_w
    assert [one.limits.are(595.0, None) for one in points].count(True) == 1
    costs = Costs("EUR", 0.25, {"A100": Price(20000.0, power_limit_w=500.0)})
    assert cheapest(points, costs) == {}
    assert {cost_of(one, costs) for one in points} == {"not at the operating point that the prices file names"}
