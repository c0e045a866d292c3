"""The first page answers a buyer's questions, each in one place, or gives the reason why it does not."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from record.findings import note
from results.files.quantities import Quantity
from results.find.records import Skipped
from results.points.estimate import Interval
from results.show.page.answer import decide, of_workload
from results.show.page.columns import grid_of, help_of, points_table, systems_table
from results.show.page.shortcomings import measure_next
from results.show.tables.cells import Amount, Table
from results.show.tables.cost import cost_table
from results.show.tables.summary import sentences
from results.tests import builder as made_up
from results.tests import offered
from results.tests.of_dicts import by_point, limits, write_report
from results.verdicts.cost import Costs, Price


class Sections(HTMLParser):
    """Text of a page by the id of the section that it is in."""

    def __init__(self, text):
        super().__init__()
        self.texts, self._at, self._skips = {}, "", 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self._skips += tag in ("style", "script", "svg")
        self._at = dict(attributes).get("id", self._at) if tag == "section" else self._at

    def handle_endtag(self, tag):
        self._skips -= tag in ("style", "script", "svg")

    def handle_data(self, data):
        if not self._skips:
            self.texts[self._at] = re.sub(r"\s+", " ", self.texts.get(self._at, "") + data + " ")


@pytest.fixture(scope="module")
def sections(tmp_path_factory):
    return Sections(offered.written(tmp_path_factory.mktemp("offers")).read_text()).texts


QUESTIONS = {
    "who is first within all limits": ("answer", r"H200 is first within the whole budget"),
    "did it meet all requirements": ("answer", r"it meets all 2 requirements\."),
    "by how much and how certain": ("answer", r"budget, [\d.]+ % ahead of MI300X \(95 % interval [\d.]+ to [\d.]+ %\)"),
    "which discount or weight": ("cost", r"discount to tie with H200 .* MI300X none: no discount is enough"),
    "purchase first, as the budget is": (
        "answer",
        r"H200 Purchase, EUR 2,048,000 of at most 2,100,000; electricity [\d,]+ in 5 years; total 2,[\d,]+ H200 Power",
    ),
    "power": ("answer", r"H200 Power, kW at the supply [\d.]+ of at most 90\.00"),
    "whole nodes": ("answer", r"H200 Machine, nodes 8 64 devices, 8 in each node"),
    "repeats": ("answer", r"H200 Repeats, runs 3 at \d+ devices, batch 256"),
    "cost of a million tokens": ("answer", r"H200 Cost, EUR per million tokens 0\.0104\d ± [\d.]+ %; electricity 0\.0"),
    "work of each machine": ("cost", r"gpt \[tokens/s\] resnet \[images/s\]"),
    "sizes that were measured": ("cost", r"measured on .* H200 [\d.]+ [\d.]+ to [\d.]+ 64 16 .* runs several jobs"),
    "why a system is not ranked": ("cost", r"Not ranked: A100 within the whole budget: it fails the requirement"),
    "whose records are left out": ("limits", r"Records are left out\. MI300X: .*mfu.* Ask for these results again"),
    "measured where, how accurately": (
        "systems",
        r"H200 bf16 .* Q1, device none ±0\.01 % \(data sheet\) 3",
    ),
    "what to measure next": (
        "limits",
        r"Measure next: Measure on as many devices as would be bought "
        r"\(gpt, resnet: H200 \(64\), MI300X \(64\) scaled from 16 devices\)\.",
    ),
}


def test_a_system_that_only_filled_nodes_is_not_ranked_behind_another_one():
    """The filled one is four times as fast per device; the other one is not first for lack of a competitor."""
    filled = [made_up.result("A", 16, 128, speed, fill={"copies": 2}) for speed in (4000.0, 4010.0)]
    results = by_point([*filled, made_up.result("B", 8, 64, 500.0), made_up.result("B", 8, 64, 501.0)])
    answer = of_workload("GPT", results)
    only = "It is the only one ranked, which does not make it the fastest per device."
    assert answer.sentence == f"GPT: B reaches 62.56 tokens/s per device. {only}"
    why = "Not ranked: A, as all runs filled nodes, and those of others did not."
    assert why in answer.reasons and why in sentences(results)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_first_page_answers_a_question(sections, question):
    section, pattern = QUESTIONS[question]
    assert re.search(pattern, sections[section]), sections[section]


def test_the_first_page_has_its_sections_in_order(sections):
    assert list(sections)[1:6] == ["answer", "requirements", "cost", "limits", "systems"]


def test_a_weight_that_makes_another_first_is_stated(tmp_path):
    found = decide(
        offered.points("H200", "MI300X"), offered.needs(tmp_path, offered.NEEDS.replace("A100", "H200")), offered.COSTS
    )
    [row] = found.changes.rows
    assert row[0] == "MI300X"
    assert re.search(r"weight of resnet times [\d.]+", row[2])


def test_what_the_data_does_not_answer_has_a_reason(tmp_path):
    budget = "budget: {devices: 64}\n"
    text = offered.NEEDS[: offered.NEEDS.index("budget")] + budget
    found = decide(offered.points("A100", "H200"), offered.needs(tmp_path, text.replace("130000", "1")), None)
    cards = {card.name: card for card in found.answer.cards}
    assert "devices_per_node" in cards["Machine"].note
    assert cards["Purchase"].value == "unknown"
    assert "--prices" in cards["Purchase"].note
    assert "--prices" in found.changes.rows[0][1]


def test_a_discount_without_a_budget_of_money_follows_from_the_cost_of_the_work(tmp_path):
    text = "workloads: {gpt: {benchmark: llm_training, model: 800M}}\nreference: H200\n"
    costs = Costs("EUR", 0.0, {"H200": Price(10_000), "MI300X": Price(20_000)})
    points = [one for one in offered.points("H200", "MI300X") if one.point.benchmark == "llm_training"]
    [row] = decide(points, offered.needs(tmp_path, text), costs).changes.rows
    assert row[1].startswith("54.5 % for 800M")  # 30 of 33 tokens/s at twice the price


def test_cards_name_the_system_that_is_first_over_all_workloads():
    gpt = [one for one in offered.points("H200", "MI300X") if one.point.benchmark == "llm_training"]
    answer = of_workload("GPT", gpt, "MI300X", offered.COSTS)
    assert answer.sentence.startswith("GPT: H200 is the fastest")
    assert {card.system for card in answer.cards} == {"MI300X"}
    [cost] = [card for card in answer.cards if card.name == "Cost"]
    alone = of_workload("GPT", gpt, "MI300X", Costs("EUR", 0.25, {"H200": Price(1)}))
    [unknown] = [card for card in alone.cards if card.name == "Cost"]
    assert (cost.unit, unknown.value) == ("EUR per million tokens", "unknown")
    assert "MI300X has no price" in unknown.note


def test_the_money_that_the_budget_limits_seems_not_to_reach_its_limit(tmp_path):
    text = offered.NEEDS[: offered.NEEDS.index("must")] + "budget: {money: 2048001}\n"
    needs = offered.needs(tmp_path, text.replace("A100", "H200"))
    answer = decide(offered.points("H200"), needs, offered.COSTS).answer
    [card] = [card for card in answer.cards if card.name == "Purchase"]
    assert (card.system, card.value) == ("H200", "2,048,000")
    assert re.fullmatch(r"of at most 2,048,001; electricity [\d,]+ in 5 years; total [\d,]+", card.note)


def test_one_cause_is_one_remark_and_a_size_that_was_not_measured_is_the_largest_doubt(tmp_path):
    """Four systems, each with the same three limits; the budget buys more devices than were measured of any."""
    records = [
        made_up.result(system, devices, 8, speed * devices, model="800M")
        for speed, system in enumerate("ABCD", 100)
        for devices in (1, 2)
    ]
    text = "workloads: {gpt: {benchmark: llm_training, model: 800M}}\nbudget: {devices: 9}\n"
    text += "must: [{of: gpt, what: throughput, devices: 4, at_least: 1}]\n"
    results = by_point(records)
    decision = decide(results, offered.needs(tmp_path, text), None)
    found = limits(records, [], [("GPT", results)], [], decision)
    assert len({one.advice for one in found}) == len(found)
    size, undecided, *_ = found
    of = "gpt: D (9, 1 of them idle), C (9, 1 of them idle), "
    assert size.details == [of + "B (9, 1 of them idle), A (9, 1 of them idle) scaled from 2 devices"]
    assert measure_next(found) == f"Measure on as many devices as would be bought ({size.details[0]})."
    [detail] = undecided.details
    assert detail.startswith("A, B, C, D, gpt: throughput on 4 devices at least 1: no run at this point, only at")
    [(_, cells)] = decision.matrix.items
    assert [words for _, words in cells] == ["note 1"] * 4
    assert len(decision.matrix.notes) == 1


@pytest.mark.parametrize(
    ("devices", "slow", "what"),
    [
        ((1, 16), (1, 4), "Of systems that are not first, the size that would be bought was not measured."),
        ((1, 32), (1, 32), "The size that would be bought was not measured."),
    ],
)
def test_a_size_that_decides_less_is_a_smaller_doubt(tmp_path, devices, slow, what):
    made = {"A": (100, devices), "B": (50, slow)}
    records = [
        made_up.result(system, number, 32, speed * number * (1 + 0.001 * repeat), model="800M")
        for system, (speed, numbers) in made.items()
        for number in numbers
        for repeat in (-1, 0, 1)
    ]
    text = "workloads: {gpt: {benchmark: llm_training, model: 800M}}\nbudget: {devices: 16}\n"
    results = by_point(records)
    found = limits(records, [], [("GPT", results)], [], decide(results, offered.needs(tmp_path, text), None))
    assert [one.advice.meaning for one in found if "bought" in one.advice.meaning] == [what]


def test_a_tie_is_stated_and_not_a_lead(tmp_path):
    records = [made_up.result(system, 1, 8, 100 + repeat, model="800M") for system in "AB" for repeat in (0, 1, 2)]
    text = "workloads: {gpt: {benchmark: llm_training, model: 800M}}\n"
    answer = decide(by_point(records), offered.needs(tmp_path, text), None).answer
    assert "A and B tie per device" in answer.sentence
    assert "ahead" not in answer.sentence


def test_one_requirement_is_the_requirement(tmp_path):
    text = "workloads: {gpt: {benchmark: llm_training, model: 800M}}\n"
    for limit, words in ((1, "it meets the requirement."), (1e4, "it meets 0 of 1 requirement.")):
        records = [made_up.result("A", 1, 8, 100 + repeat, model="800M") for repeat in (0, 1, 2)]
        records += [made_up.result("A", 2, 8, 10_000, model="800M")]
        must = f"must: [{{of: gpt, what: throughput, devices: {1 if limit == 1 else 2}, at_least: {limit}}}]\n"
        answer = decide(by_point(records), offered.needs(tmp_path, text + must), None).answer
        assert answer.sentence.endswith(words), answer.sentence


def test_undecided_requirements_with_one_reason_are_one_sentence(tmp_path):
    text = "workloads: {gpt: {benchmark: llm_training, model: 800M}}\n"
    text += "must: [" + ", ".join(f"{{of: gpt, what: throughput, at_least: {limit}}}" for limit in (1, 2)) + "]\n"
    answer = decide(by_point([made_up.result(model="800M")]), offered.needs(tmp_path, text), None).answer
    [sentence] = [one for one in answer.reasons if "Undecided" in one]
    assert sentence.endswith("(one run gives no interval): gpt: throughput at least 1; gpt: throughput at least 2.")


def test_a_formula_has_scores_and_no_weights(tmp_path):
    score = "score: {formula: 1.0e6 / R, better: lower, terms: {R: {of: gpt, what: throughput}}}\n"
    text = "workloads: {gpt: {benchmark: llm_training, model: 800M}}\n" + score
    found = decide(offered.points("A100", "H200"), offered.needs(tmp_path, text), None)
    number = r"[\d.]+ \([\d.]+ to [\d.]+\)"
    pattern = rf"H200 is first by .*, with a score of {number} against {number} of A100\."
    assert re.fullmatch(pattern, found.answer.sentence)
    assert found.changes.rows[0][2] == "none: a formula has no weights"


def test_nobody_is_first_where_all_fail(tmp_path):
    found = decide(offered.points("A100"), offered.needs(tmp_path), offered.COSTS)
    assert found.answer.sentence.startswith("No system has a score within the whole budget")
    assert found.answer.reasons == ["Not ranked: A100, as a requirement is not met."]
    assert not found.changes


def test_one_system_without_prices_has_its_figures_and_no_lead():
    answer = of_workload("GPT", [one for one in offered.points("H200") if one.point.benchmark == "llm_training"])
    assert re.fullmatch(r"GPT: H200 reaches [\d,]+ tokens/s per device and [\d,]+ tokens/Wh\.", answer.sentence)
    assert [card.name for card in answer.cards] == ["Speed", "Efficiency", "Power", "MFU", "Repeats", "Energy grade"]


def test_runs_of_a_smaller_workload_are_no_result_to_compare():
    record = made_up.result("CPU", estimated=True)
    record["metrics"]["comparable"] = False
    answer = of_workload("GPT", by_point([record]))
    assert "energy estimated from load" in answer.sentence
    assert "compare them with no other result" in answer.reasons[0]


def test_runs_that_all_failed_are_the_answer():
    assert of_workload("GPT", by_point([made_up.failed()])).sentence == "GPT: no run succeeded."


def test_the_most_serious_limit_is_first_and_left_out_records_of_any_system_count(tmp_path):
    records = [made_up.result("A"), made_up.failed("B")]
    skipped = [Skipped(note("x is cut"), tmp_path, ()), Skipped(note("y is no record"), tmp_path)]
    found = limits(records, skipped, [("GPT", by_point(records))], ["A differs"], None)
    ranks = [one.advice.seriousness for one in found]
    assert ranks == sorted(ranks)
    assert found[0].details == ["any system: x is cut"]
    assert not any("no record" in detail for one in found for detail in one.details)
    assert measure_next(found).startswith("Run each point three times (1 run")
    assert measure_next([]) == ""


def test_a_table_has_its_status_last_and_an_explanation_of_its_numbers():
    points = [*by_point([made_up.failed("A", 2)]), *offered.points("H200")]
    for table in (points_table(points), systems_table([("GPT", points)])):
        found = grid_of(table)
        assert found.headings[-1].kind == "status"
        assert {row[-1][0] for row, bad in zip(found.rows, found.bad, strict=True) if bad} & {"failed", "1 of 1 failed"}
        assert [one.title for one in found.headings if one.kind == "number" and not one.help] == []


@pytest.mark.parametrize(
    ("cell", "kind", "text", "key"),
    [
        (1234567.0, "number", "1,235,000", "1234567"),
        (Amount(1234.6, 1.0), "number", "1,235", "1234.6"),  # fewer digits than its interval supports
        (Amount(72112.0, 5400.0), "number", "72,100", "72112"),
        (Amount(0.99998, 0.0021), "number", "1.000", "0.99998"),
        (Interval(0.998123, 1.002345), "number", "0.9981 to 1.002", "0.998123"),
        (120300, "number", "120300", "120300"),
        (Amount(12345.0, 10.0, words=" tokens/s"), "text", "12,345 tokens/s", "12345"),
        ("6.1", "text", "6.1", None),
        (["Q1", "device"], "text", "Q1, device", None),
    ],
)
def test_numbers_are_shown_with_four_digits_and_sorted_with_all(cell, kind, text, key):
    [heading], [[found]], _ = grid_of(Table([Quantity("x")], [[cell]]))
    assert (heading.kind, *found) == (kind, text, key)


def test_a_quantity_has_its_explanation_in_every_unit():
    assert help_of("total") != ""
    assert help_of("something else") == ""
    for unit in ("tokens", "images"):
        points = [one for one in offered.points("H200") if one.any.work_unit == unit]
        table = points_table(points)
        explained = {title for title, one in zip(table.titles, table.columns, strict=True) if one.help}
        assert {f"{unit}/s", f"{unit}/s/device", f"{unit}/Wh"} < explained
    assert {"total [EUR]", "CO₂ [kg]"} < {one.heading for one in cost_table([], offered.COSTS).columns if one.help}


def test_eight_systems_have_a_short_title(tmp_path):
    page, *_ = write_report([made_up.result(f"S{index}") for index in range(8)], [], tmp_path / "report.html")
    assert "<title>8 systems compared</title>" in page.read_text()
