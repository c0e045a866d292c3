"""Scores of made vendors whose every number is known."""

from __future__ import annotations

import math

import pytest

from results.find.records import RecordError
from results.show.words import headline, not_ranked, scaled_words
from results.tests import builder
from results.tests.builder import of_scope
from results.tests.of_dicts import by_point
from results.verdicts.cost import HOURS_PER_YEAR, Costs, Price, cheapest, crossings
from results.verdicts.scale import Speed, power_at_supply, speed_of
from results.verdicts.score import ranking_of

TWO = """
workloads:
  big: {benchmark: llm_training, model: big, weight: 3}
  small: {benchmark: llm_training, model: small}
reference: A
"""
COSTS = Costs("EUR", 0.2, {"A": Price(10_000, 0), "B": Price(25_000, 50)}, 5, 0.8, 1.25)
SPREAD = (0.99, 1.0, 1.01)


def runs(system, model, speed, devices=1, **changes):
    """Return runs of a model, at a throughput per device."""
    return builder.thrice(system, speed * devices, devices=devices, model=model, **{"spread": SPREAD, **changes})


def vendors(spread=SPREAD):
    """B is twice as fast in the large model and half as fast in the small one, and takes 1.5 times the power."""
    return [
        *runs("A", "big", 100.0, spread=spread),
        *runs("A", "small", 300.0, spread=spread),
        *runs("B", "big", 200.0, power_w=150.0, spread=spread),
        *runs("B", "small", 150.0, power_w=150.0, spread=spread),
    ]


def ranked(folder, text, records, costs=None):
    return ranking_of(by_point(records), builder.needs(folder, text), costs)


def by_system(one):
    return {row.system: row for row in one.scores}


def test_a_score_is_the_weighted_geometric_mean_with_the_errors_of_its_parts(tmp_path):
    found = ranked(tmp_path, TWO, vendors())
    b = by_system(found)["B"]
    assert b.value == pytest.approx(2**0.75 * 0.5**0.25)
    assert [one.system for one in found.scores] == ["B", "A"]
    assert by_system(found)["A"].interval == (1.0, 1.0)
    _, high = b.interval
    # Four errors of 1 % / sqrt(3), of which the weights take their shares; eight or less degrees of freedom.
    error = 0.01 / math.sqrt(3) * math.sqrt(2 * 0.75**2 + 2 * 0.25**2)
    assert 1.96 * error < math.log(high / b.value) < 3.2 * error
    assert found.tied == []


def test_what_turns_a_ranking_is_where_the_scores_are_level(tmp_path):
    found = ranked(tmp_path, TWO, vendors())
    [change] = found.changes
    for name, factor in change.weights.items():
        big, small = {"big": (3 * factor, 1), "small": (3, factor)}[name]
        text = TWO.replace("weight: 3", f"weight: {big}").replace("model: small", f"model: small, weight: {small}")
        level = ranked(tmp_path, text, vendors())
        assert by_system(level)["B"].value == pytest.approx(1.0)
    assert change.weights == pytest.approx({"big": 1 / 3, "small": 3.0})


def test_a_budget_buys_and_feeds_so_many_devices(tmp_path):
    limits = {"devices": "devices: 7", "money": "money: 100000", "power": "power_kw: 2"}
    texts = limits | {"whole": ", ".join(limits.values())}
    found = {
        way: by_system(ranked(tmp_path, TWO + f"budget: {{{text}}}", vendors(), COSTS)) for way, text in texts.items()
    }
    sizes = {way: {system: one.machine.devices for system, one in rows.items()} for way, rows in found.items()}
    assert sizes == {
        "devices": {"A": 7, "B": 7},
        "money": {"A": 10, "B": 4},
        # 100 W x 1.25, and (150 W + 50 W that its sensors do not see) x 1.25
        "power": {"A": 16, "B": 8},
        "whole": {"A": 7, "B": 4},
    }
    assert [one.machine.limit for one in found["whole"].values()] == ["devices", "money"]
    total = found["devices"]["B"].machine
    assert (total.purchase, total.power_kw) == (7 * 25_000, pytest.approx(7 * 0.25))
    assert total.total - total.purchase == pytest.approx(7 * 0.25 * HOURS_PER_YEAR * 5 * 0.8 * 0.2)
    # As far as the power is unsure, so is how much it feeds.
    widths = [found[way]["B"].interval.high / found[way]["B"].interval.low for way in ("power", "devices")]
    assert widths[0] > widths[1]
    # Per device B scores 2^0.75 x 0.5^0.25, and of it there are half as many.
    assert found["power"]["B"].value == pytest.approx(2**0.75 * 0.5**0.25 / 2)


@pytest.mark.parametrize(
    ("devices", "per_device", "words"),
    [
        (1, 100.0, ""),
        (4, 80.0, ""),
        (2, 100.0, "jobs of 1 device"),
        (40, 80.0, "jobs of 4 devices"),
        (6, 160 / 3, "fit, 2 devices idle"),
    ],
)
def test_a_system_is_scaled_as_it_was_measured_and_no_further_without_a_word(devices, per_device, words):
    records = [*runs("A", "big", 100.0), *runs("A", "big", 80.0, devices=4)]
    found = speed_of(by_point(records), devices)
    assert found.estimate.value == pytest.approx(devices * per_device)
    assert words in found.words
    assert bool(found.words) == bool(words)


def test_without_a_run_there_is_no_speed_and_no_power_without_a_price():
    assert speed_of([], 4) == Speed(None, "no good run")
    of_four = by_point(runs("A", "big", 80.0, devices=4))
    assert speed_of(of_four, 2) == Speed(None, "measured on no fewer than 4 devices")
    [one] = by_point(runs("C", "big", 100.0))
    assert power_at_supply(one, COSTS) == "C has no price: add it to the prices file, which has A, B"
    of_two = runs("A", "big", 100.0)
    of_scope("node", of_two[:1])
    [one] = by_point(of_two)
    assert power_at_supply(one, COSTS) == "its runs have energies of different kinds"


@pytest.mark.parametrize(
    ("records", "level", "why_not"),
    [
        (vendors((0.5, 1.0, 1.5)), ["A"], ""),  # the spread is larger than the lead
        (vendors((1.0,)), ["A"], ""),  # one run each
        ([one for one in vendors() if (one["system"], one["model"]) != ("B", "small")], [], "small of B: no good run"),
    ],
)
def test_ties_and_missing_parts(tmp_path, records, level, why_not):
    found = ranked(tmp_path, TWO, records)
    assert found.tied == level
    assert (
        any(why_not in one.why_not for one in found.scores) if why_not else not any(one.why_not for one in found.scores)
    )
    assert found.scores[-1].value is None or not why_not
    words = headline(found)
    assert (" tie " in words) == bool(level)
    assert "is first" not in words


def test_two_precisions_must_be_chosen_from(tmp_path):
    both = [*vendors(), *[one | {"precision": "fp8"} for one in vendors()]]
    with pytest.raises(
        RecordError, match="was run in bf16 and fp8: set 'precision' of the workload in the requirements"
    ):
        ranked(tmp_path, TWO, both)
    found = ranked(tmp_path, TWO.replace("benchmark: llm_training", "benchmark: llm_training, precision: fp8"), both)
    assert found.scores[0].system == "B"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TWO.replace("reference: A", "reference: C"), "the reference 'C' is not among the systems: choose one of A, B"),
        (TWO + "budget: {money: 1}", "give --prices FILE"),
        (TWO.replace("weight: 3", "weight: 0").replace("model: small", "model: small, weight: 0"), "all weights"),
    ],
)
def test_requirements_that_do_not_fit_are_one_sentence(tmp_path, text, message):
    with pytest.raises(RecordError, match=message):
        ranked(tmp_path, text, vendors())


FORMULA = """
workloads: {r: {benchmark: llm_training, model: big}, b: {benchmark: llm_training, model: small}}
score:
  better: higher
  formula: 7.19 / R + 9.05 / B
  terms:
    R: {of: r, what: time_to_solution, work: 60000, unit: min, of_runs: 5, without_fastest: 1, without_slowest: 1}
    B: {of: b, what: time_to_solution, work: 60000, unit: min, of_runs: 5, without_fastest: 1, without_slowest: 1}
"""
FIVE = (0.8, 0.99, 1.0, 1.01, 1.2)


def test_a_tenders_own_formula_of_means_without_the_ends(tmp_path):
    found = ranked(tmp_path, FORMULA, vendors(FIVE))
    middle = sum(1 / share for share in FIVE[1:4]) / 3  # of minutes, not of speeds
    wanted = {"A": 7.19 / (10 * middle) + 9.05 / (10 / 3 * middle), "B": 7.19 / (5 * middle) + 9.05 / (20 / 3 * middle)}
    assert {one.system: one.value for one in found.scores} == pytest.approx(wanted)
    assert [one.system for one in found.scores] == sorted(wanted, key=wanted.get, reverse=True)
    low, high = found.scores[0].interval
    assert low < found.scores[0].value < high
    assert found.title == "by 7.19 / R + 9.05 / B, higher is better"
    assert (found.changes, found.reference, {len(one.machine.speeds) for one in found.scores}) == ((), "", {0})
    lower = ranked(tmp_path, FORMULA.replace("better: higher", "better: lower"), vendors(FIVE))
    assert [one.system for one in lower.scores] == [one.system for one in found.scores][::-1]
    assert lower.title.endswith("lower is better")


SUM = """
workloads: {r: {benchmark: llm_training, model: big}, b: {benchmark: llm_training, model: small}}
score:
  formula: R * R + B
  better: higher
  terms: {R: {of: r, what: throughput}, B: {of: b, what: throughput}}
"""


def test_a_formulas_interval_is_made_of_those_of_its_terms(tmp_path):
    records = [*runs("A", "big", 100.0), *runs("A", "small", 1.0, spread=(1.0, 1.0, 1.0))]
    found = ranked(tmp_path, SUM, records)
    plain = ranked(tmp_path, SUM.replace("R * R", "100 * R"), records)
    [(square, of_square), (line, of_line)] = [(one.scores[0].value, one.scores[0].interval) for one in (found, plain)]
    assert square == pytest.approx(line, rel=1e-3)
    assert of_square.high - square == pytest.approx(2 * (of_line.high - line), rel=1e-3)
    assert of_line.high - line == pytest.approx(100 * 4.303 * 1 / math.sqrt(3), rel=0.05)  # two degrees of freedom


ONE = """
workloads: {r: {benchmark: llm_training, model: big}}
score: {formula: R, better: higher, terms: {R: {of: r, what: %s}}}
"""


def test_a_formula_counts_runs_that_failed_before_they_knew_their_precision(tmp_path):
    records = [*runs("A", "big", 100.0), *runs("B", "big", 90.0), *runs("B", "big", 300.0, precision="fp8")]
    bad = [builder.failed("B", 1, batch, model="big") for batch in (64, 128)]
    text = (ONE % "failed_runs").replace("better: higher", "better: lower")
    found = ranked(tmp_path, text, [*records, *bad])
    assert [(one.system, one.value) for one in found.scores] == [("A", 0.0), ("B", 2.0)]
    other = [builder.failed("B", 1, batch, model="big", precision="fp8") for batch in (256, 512)]
    found = ranked(tmp_path, text, [*records, *bad, *other, *runs("B", "big", 80.0, precision="")])
    assert [(one.system, one.value) for one in found.scores] == [("A", 0.0), ("B", 2.0)]
    found = ranked(tmp_path, ONE % "throughput", bad)
    assert by_system(found)["B"].why_not == "R: all 2 runs: failed"
    found = ranked(tmp_path, ONE % "throughput", [*bad, *runs("B", "big", 300.0, precision="fp8"), *records[:3]])
    assert by_system(found)["B"].why_not == "R: no good run in a precision that all systems have"
    found = ranked(tmp_path, ONE % "throughput", [*bad, *records[:3]])
    assert by_system(found)["B"].why_not == "R: all 2 runs: failed"


def test_prices_at_which_the_order_turns_make_totals_equal():
    points = by_point(vendors())
    results = [one for one in points if one.point.model == "big"]
    [found] = cheapest(results, COSTS).values()
    totals = {system: at.total for system, (_, at) in found.items()}
    assert [(one.system, one.against) for one in crossings(found, COSTS)] == [("A", "B"), ("B", "A")]
    for one in crossings(found, COSTS):
        price = Price(one.price, COSTS.systems[one.system].overhead_w_per_device)
        level = Costs("EUR", 0.2, {**COSTS.systems, one.system: price}, 5, 0.8, 1.25)
        [again] = cheapest(results, level).values()
        assert again[one.system][1].total == pytest.approx(totals[one.against])


def test_a_size_that_was_not_measured_is_named(tmp_path):
    found = ranked(tmp_path, TWO + "budget: {devices: 7}", vendors())
    assert scaled_words(found) == [f"{name}: B (7), A (7) scaled from 1 device" for name in ("big", "small")]


@pytest.mark.parametrize(
    ("price", "limit", "why"),
    [
        (None, "money: 50000", "B has no price: add it to the prices file, which has A"),
        (None, "power_kw: 1", "B has no price: add it to the prices file, which has A"),
        (Price(0.0, 50), "money: 50000", "a device of B has the price 0"),
        (Price(60_000, 50), "money: 50000", "the budget of money is too small for one device"),
        (Price(25_000, 5000), "power_kw: 1", "the budget of power is too small for one device"),
    ],
)
def test_a_system_that_a_budget_says_nothing_of_has_a_reason(tmp_path, price, limit, why):
    costs = Costs("EUR", 0.2, {"A": COSTS.systems["A"], **({"B": price} if price else {})}, 5, 0.8, 1.25)
    for more in ("", ", devices: 4"):
        found = ranked(tmp_path, TWO + f"budget: {{{limit}{more}}}", vendors(), costs)
        b = by_system(found)["B"]
        assert (b.value, b.machine.devices, b.machine.purchase, b.why_not) == (None, None, None, f"big of B: {why}")
        assert [one.system for one in found.scores] == ["A", "B"]


def test_the_workload_that_takes_most_power_decides(tmp_path):
    records = [*runs("A", "big", 100.0, power_w=100.0), *runs("A", "small", 100.0, power_w=160.0)]
    for one in (records, records[::-1]):
        found = ranked(tmp_path, TWO + "budget: {power_kw: 2}", one, COSTS)
        assert by_system(found)["A"].machine.devices == 10


NODES = {"A": 4, "B": 8}


def bought(price, per_node):
    entries = {name: Price(price[name], devices_per_node=per_node.get(name)) for name in "AB"}
    return Costs("EUR", 0.2, entries, 5, 0.8, 1.25)


@pytest.mark.parametrize("per_node", [{}, NODES], ids=["devices", "nodes"])
@pytest.mark.parametrize("money", [1.03e6, 7.7e6])
@pytest.mark.parametrize("more", ["", ", devices: 2000, power_kw: 900"])
def test_a_price_that_turns_the_ranking_does_so_and_a_little_more_does_not(tmp_path, per_node, money, more):
    text = TWO + f"budget: {{money: {money}{more}}}"
    price = {"A": 10_000, "B": 10_000}

    def of(**changed):
        return ranked(tmp_path, text, vendors(), bought(price | changed, per_node))

    found = of()
    first, other = (one.system for one in found.scores)
    [change] = found.changes
    level, behind = (of(**{other: price[other] * change.price * (1 + step)}) for step in (-1e-6, 1e-6))
    ours, theirs = by_system(behind)[first].value, by_system(behind)[other].value
    assert theirs < ours or theirs == pytest.approx(ours, rel=1e-5)
    assert by_system(level)[other].value >= by_system(level)[first].value * (1 - 1e-5)


def test_a_discount_fills_whole_jobs_and_nodes_and_stays_within_the_other_limits(tmp_path):
    records = [*runs("A", "big", 100.0), *runs("B", "big", 80.0, devices=6)]
    text = "workloads: {big: {benchmark: llm_training, model: big}}\nreference: A\nbudget: {money: 100000"
    costs = Costs("EUR", 0.2, {"A": Price(1_000), "B": Price(1_000, devices_per_node=4)}, 5, 0.8, 1.25)
    # 100 devices of A do 10,000 tokens/s, as 125 of B would: 132 are full nodes of 4 and full jobs of 6.
    for more, factor in (("}", 100 / 132), (", devices: 131}", None), (", devices: 132}", 100 / 132)):
        [change] = ranked(tmp_path, text + more, records, costs).changes
        assert change.price == pytest.approx(factor)


def test_a_formulas_missing_system_is_last_and_named(tmp_path):
    short = [one | {"system": "0"} for one in vendors() if one["system"] == "A"]
    for better, order in (("higher", ["A", "B", "0"]), ("lower", ["B", "A", "0"])):
        text = FORMULA.replace("better: higher", f"better: {better}")
        found = ranked(tmp_path, text, [*short, *vendors(FIVE)])
        assert ([one.system for one in found.scores], found.tied, found.scores[-1].machine.speeds) == (order, [], {})
        assert found.scores[-1].why_not


def test_a_formula_ranks_no_two_precisions(tmp_path):
    apart = [*runs("A", "big", 100.0), *runs("B", "big", 190.0, precision="fp8")]
    found = ranked(tmp_path, ONE % "throughput", apart)
    assert [one.value for one in found.scores] == [None, None]
    more = [*apart, *runs("B", "big", 90.0)]
    found = ranked(tmp_path, ONE % "throughput", more)
    assert {one.system: one.value for one in found.scores} == pytest.approx({"A": 100.0, "B": 90.0})
    with pytest.raises(RecordError, match="set 'precision' of the workload in the requirements"):
        ranked(tmp_path, ONE % "throughput", [*more, *runs("A", "big", 10.0, precision="fp8")])


@pytest.mark.parametrize(
    ("reference", "left"), [("", ["A", "C"]), ("reference: A", ["A", "C"]), ("reference: B", ["B"])]
)
def test_a_formula_ranks_no_two_kinds_of_energy(tmp_path, reference, left):
    records = [*runs("A", "big", 100.0), *of_scope("node", runs("B", "big", 190.0)), *runs("C", "big", 120.0)]
    found = ranked(tmp_path, ONE % "work_per_energy" + reference, records)
    assert sorted(one.system for one in found.scores if one.value is not None) == left
    # A reference without an energy is none: the others are ranked with the first that has one.
    found = ranked(tmp_path, ONE % "work_per_energy", [*runs("0", "big", 100.0, energy=None), *records])
    assert [one.system for one in found.scores if one.value is not None] == ["C", "A"]


def test_energies_of_unlike_scope_do_not_say_how_much_a_budget_buys(tmp_path):
    records = vendors()
    of_scope("node", [one for one in records if one["system"] == "B"])
    fed = ranked(tmp_path, TWO + "budget: {power_kw: 2}", records, COSTS)
    assert by_system(fed)["B"].value is None
    assert not_ranked(fed) == [f"Not ranked: B: {by_system(fed)['B'].why_not}."]
    for budget in ("", "budget: {money: 200000}"):
        assert by_system(ranked(tmp_path, TWO + budget, records, COSTS))["B"].value is not None  # needs no energy
