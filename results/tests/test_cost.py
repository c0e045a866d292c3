from __future__ import annotations

from dataclasses import replace

import pytest

from results.plots.cost import cost_charts
from results.plots.style import styles_of_systems
from results.points.repeats import by_point
from results.records import RecordError
from results.tables.cost import cost_rows
from results.tests import made_up
from results.verdicts.cost import (
    Costs,
    Price,
    cheapest,
    cost,
    costed_work,
    read_prices,
    sensitivity,
    time_to_report,
    unseen_w,
)

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
    assert found.hours == pytest.approx(hours)
    assert found.energy_kwh == pytest.approx((10 + 0.4 * hours) * 1.2)
    assert found.electricity == pytest.approx(found.energy_kwh * 0.25)
    assert found.co2_kg == pytest.approx(found.energy_kwh * 0.4)
    assert found.machine == pytest.approx(40_000 * hours / (5 * 365.25 * 24 * 0.8))
    assert found.total == found.machine + found.electricity
    assert cost(1e9, 20_000, 1e5, 4, costs.systems["A100"], replace(costs, co2_g_per_kwh=None), 0).co2_kg is None


def test_each_system_is_costed_at_its_cheapest_point_and_one_without_a_price_is_named(tmp_path):
    (tmp_path / "prices.yaml").write_text(PRICES)
    costs = read_prices(tmp_path / "prices.yaml")
    results = by_point([made_up.result("A100", 1, 8, 100.0), made_up.result("A100", 1, 16, 200.0), made_up.result("X")])
    header, first, second = cost_rows([results], costs)
    assert first[header.index("at")] == "1 device, batch 16"
    assert first[header.index("for")] == "10⁹ tokens"
    assert second[header.index("system") :][:2] == ["X", "no price"]


def test_of_points_that_cost_the_same_the_first_is_the_cheapest(tmp_path):
    (tmp_path / "prices.yaml").write_text(PRICES)
    costs = read_prices(tmp_path / "prices.yaml")
    results = by_point([made_up.result("A100", 1, batch, 100.0) for batch in (8, 16)])
    for points in (results, results[::-1]):
        assert cheapest(points, costs)["A100"][0] is points[0]


def test_what_a_cost_depends_on_is_that_of_a_hand_calculation(tmp_path):
    (tmp_path / "prices.yaml").write_text(PRICES)
    costs = read_prices(tmp_path / "prices.yaml")
    results = by_point([made_up.result("A100", 2, 8, 100.0), made_up.result("B", 1, 8, 100.0)])
    speed, per_wh = 100.0, 100.0 * 60 / (2 * 100 * 60 / 3600)
    whole = cost(1e9, speed, per_wh, 2, costs.systems["A100"], costs, 100)
    machine, electricity = (part / whole.total for part in (whole.machine, whole.electricity))
    ends = {
        "electricity price": (-electricity / 2, electricity / 2),
        "lifetime": (machine, -machine / 3),
        "utilisation": (machine, -machine / 5),  # of 0.8: a machine cannot be used for more than all of the time
        "overhead of the site (PUE - 1)": (-electricity / 12, electricity / 12),
        "machine price": (-machine / 2, machine / 2),
    }
    assert sensitivity(results[0], costs) == {name: pytest.approx(pair) for name, pair in ends.items()}
    assert sensitivity(results[1], costs) == {}  # it has no price
    _, drawn = cost_charts(results, costs, styles_of_systems(results))
    assert drawn.words == "; ".join(
        f"A100, {name}: {100 * low:+.0f} % to {100 * high:+.0f} %" for name, (low, high) in ends.items()
    )


def test_what_costs_nothing_hangs_on_nothing():
    costs = Costs("EUR", 0.0, {"A100": Price(0.0)})
    [one] = by_point([made_up.result("A100")])
    assert set(sensitivity(one, costs).values()) == {(0.0, 0.0)}


@pytest.mark.parametrize(
    ("scope", "unseen"), [("device", 100), ("device+cpu", 100), ("node", 0), ("supply", 0), ("cpu+node", 0)]
)
def test_what_the_sensors_of_an_energy_do_not_see(scope, unseen):
    record = made_up.result("A100")
    record["energy"]["power_scope"] = scope
    [one] = by_point([record])
    assert unseen_w(one, Costs("EUR", 0.25, {"A100": Price(10000, 100)})) == unseen


def test_what_a_cost_stands_on_is_said(tmp_path):
    (tmp_path / "prices.yaml").write_text(PRICES)
    assert read_prices(tmp_path / "prices.yaml").assumptions() == [
        "electricity 0.25 EUR/kWh, PUE 1.2",
        "lifetime 5 years, used 80% of the time",
        "400 g CO₂ per kWh",
        "A100: 10,000 EUR per device, 100 W per device beside what is measured",
    ]


def test_the_time_to_report_is_that_of_twenty_million_tokens():
    [one] = by_point([made_up.result(tokens_per_s=14620.74)])
    # JUPITER's baseline: 1367.92 s at that throughput, see reference/published.csv.
    assert time_to_report(one) == "22.8 min for 20 million tokens on 1 device"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (119.0, "119 s"),
        (120.0, "2 min"),
        (7199.0, "120 min"),
        (7200.0, "2 h"),
        (172_800.0, "2 days"),
        (1e6, "11.6 days"),
    ],
)
def test_a_time_to_report_is_in_the_unit_that_fits(seconds, words):
    [one] = by_point([made_up.result(tokens_per_s=20e6 / seconds)])
    assert time_to_report(one) == f"{words} for 20 million tokens on 1 device"


def test_what_is_no_run_of_the_workload_has_no_time_to_report():
    small = made_up.result()
    small["metrics"]["comparable"] = False
    unknown = made_up.result(benchmark="elsewhere")
    for record in (small, unknown, made_up.failed()):
        [one] = by_point([record])
        assert time_to_report(one) == ""
    [one] = by_point([unknown])
    assert costed_work(one) == (0.0, "")


@pytest.mark.parametrize(
    "change",
    [("utilisation: 0.8", "utilisation: 1"), ("pue: 1.2", "pue: 1"), ("lifetime_years: 5", "lifetime_years: 0.5")],
)
def test_assumptions_may_be_at_their_ends(tmp_path, change):
    (tmp_path / "prices.yaml").write_text(PRICES.replace(*change))
    read_prices(tmp_path / "prices.yaml")


@pytest.mark.parametrize(
    "change",
    [
        ("utilisation: 0.8", "utilisation: 0"),
        ("0.8", "1.5"),
        ("pue: 1.2", "pue: 0.5"),
        ("lifetime_years: 5", "lifetime_years: 0"),
    ],
)
def test_assumptions_beyond_their_ends_are_refused(tmp_path, change):
    (tmp_path / "prices.yaml").write_text(PRICES.replace(*change))
    with pytest.raises(RecordError, match="must be above 0"):
        read_prices(tmp_path / "prices.yaml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("electricity_per_kwh", "electricty_per_kwh"), "unknown key 'electricty_per_kwh'"),
        (("currency: EUR\n", ""), "'currency' missing"),
        (("price_per_device: 10000", "price_per_device: ten"), "price_per_device is 'ten', a number"),
        (("utilisation: 0.8", "utilisation: 80"), "utilisation above 0 and at most 1"),
        (("pue: 1.2", "pue: -1"), "pue is -1"),
        (("  A100", "A100"), "names no systems"),
        (("  A100:", "- A100:"), "names no systems"),
        (("currency: EUR", "currency: [EUR"), "cannot be read as prices"),
        (("0.25", ".inf"), "electricity_per_kwh is inf, a number from 0 to below 1e+30"),
        (("0.25", "1.0e+400"), "electricity_per_kwh is inf, a number"),
        (("0.25", "1" + "0" * 400), "electricity_per_kwh is 1000000000"),
        (("0.25", "1" + "0" * 5000), "cannot be read as prices"),
        (("0.25", "[" * 1000 + "]" * 1000), "nested in more than"),
        (("EUR", "\x00"), "cannot be read as prices"),
        (("pue: 1.2", "electricity_per_kwh: 1"), "'electricity_per_kwh' is written twice"),
        ((PRICES, ""), "names no systems"),
        (
            ("  A100: {price_per_device: 10000, overhead_w_per_device: 100}", "  100: 5"),
            "system 100: 5 has no values by their names: price_per_device",
        ),
    ],
)
def test_a_prices_file_with_a_mistake_is_refused_in_one_sentence(tmp_path, change, message):
    path = tmp_path / "prices.yaml"
    assert change[0] in PRICES
    path.write_text(PRICES.replace(*change))
    with pytest.raises(RecordError) as error:
        read_prices(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_prices_that_are_not_in_utf_8_are_refused_in_one_sentence(tmp_path):
    path = tmp_path / "prices.yaml"
    path.write_bytes(PRICES.replace("EUR", "\xa3").encode("latin-1"))
    with pytest.raises(RecordError, match="is not in UTF-8"):
        read_prices(path)


def test_a_system_whose_name_looks_like_a_number_has_its_price(tmp_path):
    path = tmp_path / "prices.yaml"
    path.write_text(PRICES.replace("A100", "100"))
    assert list(read_prices(path).systems) == ["100"]
