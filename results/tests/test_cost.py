from __future__ import annotations

from dataclasses import replace

import pytest

from jpwr.intervals import BOUND
from results.files.typed_files import read_file
from results.find.records import RecordError
from results.show.tables.cost import cost_table, crossing_table
from results.show.words import cost_words
from results.tests.builder import failed, result, thrice
from results.tests.of_dicts import by_point
from results.verdicts.cost import (
    Costs,
    Overhead,
    Price,
    cheapest,
    cost,
    cost_of,
    crossings,
    tied_with_cheapest,
    uncovered_w,
)
from results.verdicts.scale import power_at_supply

PRICES = """
currency: EUR
electricity_per_kwh: 0.25
pue: 1.2
co2_g_per_kwh: 400
lifetime_years: 5
utilisation: 0.8
systems:
  A100: {price_per_device: 10000, overhead_w_per_device: 100}
"""


def test_the_cost_of_a_billion_tokens_is_that_of_a_hand_calculation():
    costs = Costs("EUR", 0.25, {"A100": Price(10000, 100)}, 5, 0.8, 1.2, 400)
    # 10^9 tokens at 20,000 tokens/s on 4 devices: 50,000 s. 10^5 tokens/Wh: 10 kWh, and 4 x 100 W beside.
    found = cost(1e9, 20_000, 1e5, 4, costs.systems["A100"], costs, 100)
    hours = 50_000 / 3600
    assert found.energy_kwh == pytest.approx((10 + 0.4 * hours) * 1.2)
    assert found.electricity == pytest.approx(found.energy_kwh * 0.25)
    assert found.co2_kg == pytest.approx(found.energy_kwh * 0.4)
    assert found.machine == pytest.approx(40_000 * hours / (5 * 365.25 * 24 * 0.8))
    assert found.total == found.machine + found.electricity
    assert cost(1e9, 20_000, 1e5, 4, costs.systems["A100"], replace(costs, co2_g_per_kwh=None), 0).co2_kg is None


def test_each_system_is_costed_at_its_cheapest_point(tmp_path):
    (tmp_path / "prices.yaml").write_text(PRICES)
    costs = read_file(Costs, tmp_path / "prices.yaml", "prices")
    header, row = cost_table([by_point([result("A100", 1, batch, 12.5 * batch) for batch in (8, 16)])], costs).texts()
    assert [row[header.index(name)] for name in ("at", "for")] == ["1 device, batch 16", "10⁹ tokens"]


TWO = Costs("EUR", 0.25, {"A": Price(10_000, 50), "B": Price(10_000, 50), "C": Price(10_000, 50)}, 5, 0.8, 1.2)


@pytest.mark.parametrize(
    ("of_b", "power_w", "sensor", "level"),
    [
        ((0.81, 1.01, 1.21), 100.0, 0.01, True),  # a lead within the spread
        ((1.02,), 100.0, 0.01, True),  # a single run
        ((3.0,), 100.0, 0.01, True),
        ((1.1, 1.1, 1.1), 100.0, 0.01, False),
        ((1.0, 1.0, 1.0), 80.0, 0.001, False),
        ((1.0, 1.0, 1.0), 80.0, 0.045, False),
        ((1.0, 1.0, 1.0), 97.0, 0.001, False),
        ((1.0, 1.0, 1.0), 97.0, 0.045, True),  # what is saved is within what the sensors may be off
    ],
)
def test_a_cost_that_is_lower_within_the_intervals_is_no_lead(of_b, power_w, sensor, level):
    costs = replace(TWO, systems={"A": Price(100.0), "B": Price(100.0), "C": Price(100.0)})
    records = [
        *thrice("A", 100.0, spread=(1.0, 1.0, 1.0)),
        *thrice("B", 100.0, power_w=power_w, spread=of_b),
        *thrice("C", 20.0),
    ]
    for record in records:
        record["energy"] |= dict.fromkeys(("uncertainty_wh", "random_wh"), sensor * record["energy"]["energy_wh"])
    results = by_point(records)
    [found] = cheapest(results, costs).values()
    alone = len(of_b) == 1  # then nothing is dearer beyond doubt
    assert tied_with_cheapest(found) == (["B", "A"] if level else ["B"]) + (["C"] if alone else [])
    words = " ".join(cost_words(results, costs))
    assert (f"{'B, A and C' if alone else 'B and A'} tie for the cheapest" in words) == level
    assert ("B is the cheapest." in words) == (not level)
    assert ("one run gives no interval" in words) == alone
    turns = [] if alone else [("C", "B")] if level else [("B", "A"), ("A", "B"), ("C", "B")]
    assert [(one.system, one.against) for one in crossings(found, costs)] == turns
    rows = crossing_table([results], costs).texts()[1:]
    assert [(row[3], row[4], row[6]) for row in rows] == [(system, "100.0", against) for system, against in turns]
    assert crossing_table([results], costs, failed={"B", "C"}).rows == []
    header, *rows = cost_table([results], costs).texts()
    totals = {row[1]: row[header.index("total [EUR]")] for row in rows}
    assert {system for system, text in totals.items() if "±" not in text} == ({"B"} if alone else set())


@pytest.mark.parametrize(("price", "per_kwh", "share"), [(0.0, 0.25, 1.0), (1000.0, 0.0, 0.0), (3000.0, 0.25, None)])
def test_a_cost_is_as_unsure_as_its_runs_and_as_much_of_its_sensor_as_is_electricity(price, per_kwh, share):
    costs = replace(TWO, electricity_per_kwh=per_kwh, systems={"A": Price(price)})
    records = thrice("A", 100.0, spread=(1.0, 1.0, 1.0))
    for record in records:
        record["energy"] |= dict.fromkeys(("uncertainty_wh", "random_wh"), 0.03 * record["energy"]["energy_wh"])
    [one] = by_point(records)
    found = cost_of(one, costs)
    share = found.electricity / found.total if share is None else share
    assert found.estimate.value == pytest.approx(found.total)
    assert found.estimate.interval.half / found.total == pytest.approx(0.03 * share, rel=1e-3)
    [one] = by_point(thrice("A", 100.0, spread=(0.9, 1.0, 1.1)))
    found = cost_of(one, replace(costs, electricity_per_kwh=0.0))
    if price:  # of money for the machine alone, which is paid for the time: of the speed's interval
        speed = one.estimate("metrics.tokens_per_s")
        assert found.estimate.interval.half / found.total == pytest.approx(speed.interval.half / speed.value, rel=0.02)


def test_the_price_at_which_the_cheapest_is_overtaken_is_by_the_next_one():
    [found] = cheapest(by_point([*thrice("A", 300.0), *thrice("B", 100.0), *thrice("C", 200.0)]), TWO).values()
    assert [(one.system, one.against) for one in crossings(found, TWO)] == [("A", "C"), ("B", "A"), ("C", "A")]
    [found] = cheapest(by_point(thrice("A", 300.0)), TWO).values()
    assert crossings(found, TWO) == []


@pytest.mark.parametrize("price", [0.0, 1000.0])
def test_what_costs_nothing_is_the_cheapest(price):
    free = replace(TWO, electricity_per_kwh=0.0, systems={"A": Price(0.0), "B": Price(price)})
    [found] = cheapest(by_point([*thrice("A", 100.0), *thrice("B", 100.0)]), free).values()
    assert tied_with_cheapest(found)[0] == "A"
    assert found["A"][1].estimate is None


def test_what_has_no_cost_is_in_the_table_with_a_reason():
    records = [*thrice("A", 100.0), *thrice("C", 90.0, precision=""), *thrice("D", 60.0, energy=None), failed("E")]
    costs = replace(TWO, systems={name: Price(1000.0) for name in "ACDE"})
    points = by_point([*records, *thrice("A", 70.0, metrics={}), *thrice("X", 70.0, benchmark="elsewhere")])
    header, *rows = cost_table([points], costs).texts()
    assert {row[1]: row[header.index("at")] == "1 device, batch 8" for row in rows} == {
        "A": True,
        **dict.fromkeys("CDEX", False),
    }


RANGE = Overhead(100.0, 100.0 / BOUND)
OF_A100 = Costs("EUR", 0.25, {"A100": Price(10_000, 100.0, None, None, None, 50.0, 200.0)})


@pytest.mark.parametrize(
    ("scope", "sampled", "accuracy", "unseen"),
    [
        ("device", {}, None, RANGE),
        ("device+cpu", {}, None, RANGE),
        ("node", {}, None, Overhead()),
        ("supply", {}, None, Overhead()),
        ("cpu+node", {}, None, Overhead()),
        # A node of four devices of 100 W has 600 W, by its own sensor; an incomplete or impossible one does not count.
        ("device", {"device_wh": 20 / 3, "node_wh": 10.0}, None, Overhead(50.0)),
        ("device", {"device_wh": 20 / 3, "node_wh": 10.0}, 2.0, Overhead(50.0, 3.0 / BOUND)),
        ("device", {"device_wh": 20 / 3, "node_wh": None}, None, RANGE),
        ("device", {"device_wh": 20 / 3, "node_wh": 6.0}, None, RANGE),
    ],
)
def test_what_the_sensors_of_an_energy_do_not_see(scope, sampled, accuracy, unseen):
    record = result("A100", 4)
    record["energy"] |= {"power_scope": scope, "sampled_by_scope": sampled, "site": {"accuracy_percent": accuracy}}
    [one] = by_point([record])
    assert uncovered_w(one, OF_A100) == pytest.approx(unseen)
    if scope == "device":  # a node's sensor counts where all runs of the point have it
        assert uncovered_w(by_point([record, result("A100", 4)])[0], OF_A100) == RANGE


def test_a_range_of_the_overhead_widens_the_intervals_of_cost_and_power():
    [one] = by_point([result("A100", 2, 8, 100.0) for _ in range(3)])  # 100 W, and 50 to 200 W of the node
    assert "100 W (50 W to 200 W) per device" in OF_A100.assumptions()[-1]
    stated = replace(OF_A100, systems={"A100": Price(10_000, 100.0)})
    assert "100 W per device" in stated.assumptions()[-1]
    powers = [power_at_supply(one, costs) for costs in (OF_A100, stated)]
    totals = [cost_of(one, costs).estimate for costs in (OF_A100, stated)]
    for ranged, narrow in (powers, totals):
        assert ranged.value == narrow.value
        assert narrow.interval.half < ranged.interval.half


def test_assumptions_may_be_at_their_ends(tmp_path):
    ends = {"utilisation: 0.8": "utilisation: 1", "pue: 1.2": "pue: 3", "years: 5": "years: 15", "kwh: 400": "kwh: 0"}
    for other in ({"kwh: 0.25": "kwh: 2.0"}, {"EUR": "JPY", "kwh: 0.25": "kwh: 25", "pue: 3": "pue: 1"}):
        text = PRICES
        for change in (ends | other).items():
            assert change[0] in text
            text = text.replace(*change)
        (tmp_path / "prices.yaml").write_text(text)
        read_file(Costs, tmp_path / "prices.yaml", "prices")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("pue: 1.2", "pue: 12"), "pue is 12, but must be a number from 1 to 3; usual are 1.05 to 1.6"),
        (("utilisation: 0.8", "utilisation: 95"), "write 0.95 for 95 %"),
        (("lifetime_years: 5", "lifetime_years: 60"), "must be years above 0 and at most 15; usual are 3 to 8"),
        (("0.25", "25"), "electricity_per_kwh is 25, but usual are 0.03 to 0.5 EUR"),
        (("EUR\nelectricity_per_kwh: 0.25", "chf \nelectricity_per_kwh: 250"), "of 1 kWh, not of 1 MWh"),
        (("co2_g_per_kwh: 400", "co2_g_per_kwh: 0.4"), "usual are 10 to 1,000: write it in grams"),
        (
            ("device: 100}", "device: 100, overhead_low_w_per_device: 120}"),
            "systems, A100: the overhead and its range are 120, 100, 100 W: give them in ascending order",
        ),
        (
            ("device: 100}", "device: 100, provisioned_w_per_device: 900}"),
            "A100: provisioned_w_per_device needs its source: add",
        ),
    ],
)
def test_a_prices_file_with_a_mistake_is_refused_in_one_sentence(tmp_path, change, message):
    path = tmp_path / "prices.yaml"
    assert change[0] in PRICES
    path.write_text(PRICES.replace(*change))
    with pytest.raises(RecordError) as error:
        read_file(Costs, path, "prices")
    assert message in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
