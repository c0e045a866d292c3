"""The first page answers a buyer's questions, each in one place, or gives the reason why it does not."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from record.findings import finding
from results.files.quantities import Quantity
from results.find.records import Skipped
from results.points.estimate import Estimate, Interval, Part
from results.show.page.first_page import first_page
from results.show.page.report import grid_of, points_table
from results.show.page.shortcomings import measure_next
from results.show.plots.style import styles_of_systems
from results.show.tables.cells import Table
from results.show.words import changes, first_of, not_ranked, of_workload
from results.tests import builder, offered
from results.tests.of_dicts import by_point, limits
from results.verdicts.cost import Costs, Price
from results.verdicts.tender.decision import Decision


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
    "did it meet all requirements": ("answer", r"It meets all 2 requirements\."),
    "by how much and how certain": ("answer", r"budget, [\d.]+ % ahead of MI300X \(95 % interval [\d.]+ to [\d.]+ %\)"),
    "why another one is not ranked": ("answer", r"Not ranked: A100: it fails the requirement"),
    "which discount or weight": ("changes", r"MI300X : weight of gpt .* or weight of resnet .*; no discount is enough"),
    "the limit that binds": (
        "answer",
        r"devices 64 8 nodes; limited by money .* 128 32 nodes; limited by power",
    ),
    "purchase, power and cost": ("answer", r"power [\d.]+ kW EUR in 5 years 2,[\d,]+ purchase 2,048,000"),
    "one point, three figures": (
        "answer",
        r"H200 .* GPT training, 800M, at 4 devices, batch 256 tokens/s/device 31,6\d0 ±0\.5 % tokens/Wh 186,800 ±1 % "
        r"EUR per million tokens 0\.0104\d ±[\d.]+ %",
    ),
    "whose records are left out": (
        "limits",
        r"Records are left out\. MI300X: .*measured_steps.* Ask for these results again",
    ),
    "what to measure next": (
        "limits",
        r"Measure next: Measure on as many devices as would be bought "
        r"\(gpt: H200 \(64\), MI300X \(64\) scaled from 16 devices\)\.",
    ),
}


def words_of(results):
    return of_workload(by_point(results))


def page_of(results, costs=None, decision=None):
    """Return the cells of the first page by system and title."""
    workloads = [("W", [point for point in results if point.point.benchmark == name]) for name in benchmarks(results)]
    found = first_page(workloads, styles_of_systems(results), costs, decision)
    return {
        (row.system, column.title): cell
        for row in found.rows
        for column, cell in zip(found.columns, row.cells, strict=True)
    }


def benchmarks(results):
    return dict.fromkeys(point.point.benchmark for point in results)


def test_a_system_that_only_filled_nodes_is_not_ranked_behind_another_one():
    """The filled one is four times as fast per device; the other one is not first for lack of a competitor."""
    filled = [builder.result("A", 16, 128, speed, fill={"copies": 2}) for speed in (4000.0, 4010.0)]
    sentences = words_of([*filled, builder.result("B", 8, 64, 500.0), builder.result("B", 8, 64, 501.0)])
    assert sentences[0] == "B is the only system that is ranked in tokens/s per device."
    assert "Not ranked: A: all runs filled nodes, and those of others did not." in sentences


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_first_page_answers_a_question(sections, question):
    section, pattern = QUESTIONS[question]
    assert re.search(pattern, sections[section]), sections[section]


def test_speed_and_energy_of_a_row_are_of_one_point():
    """A fast point is not next to the energy of a slow one."""
    fast, frugal = builder.result("A", 1, 64, 12000.0, 395.0), builder.result("A", 1, 8, 8000.0, 260.0)
    cells = page_of(by_point([fast, frugal]))
    assert (cells["A", "tokens/s/device"].value, cells["A", "W/device"].text) == (12000.0, "395.0")
    assert cells["A", "tokens/Wh"].value == pytest.approx(12000 * 3600 / 395)


def test_only_the_best_that_nothing_ties_with_is_marked():
    points = by_point([builder.result(name, tokens_per_s=v) for name in "AB" for v in (100.0, 101.0, 102.0)])
    assert {cell.kind for cell in page_of(points).values()} == {""}
    faster = by_point([builder.result("C", tokens_per_s=v) for v in (200.0, 201.0, 202.0)])
    marked = {place for place, cell in page_of([*points, *faster]).items() if cell.kind == "best"}
    assert marked == {("C", "tokens/s/device"), ("C", "tokens/Wh")}


def test_a_second_precision_has_a_row_of_its_own():
    both = [builder.result("A"), builder.result("A", tokens_per_s=300.0, precision="fp8"), builder.result("B")]
    points = by_point(both)
    found = first_page([("W", points)], styles_of_systems(points))
    assert [(row.system, row.cells[0].text) for row in found.rows] == [("A", "100.0"), ("A", "300.0"), ("B", "100.0")]
    assert [row.cells[0].note.split("; ")[1] for row in found.rows] == ["bf16", "fp8", "bf16"]


@pytest.mark.parametrize(
    ("records", "title", "text", "note"),
    [
        ([builder.failed("A")], "tokens/s/device", "", "no run succeeded"),
        ([builder.result("A", estimated=True)], "tokens/Wh", "3,600", "one run; estimated"),
        (
            [builder.result("A", precision="")],
            "tokens/s/device",
            "100.0",
            "one run; not ranked: ",
        ),
    ],
)
def test_what_a_cell_lacks_has_a_reason(records, title, text, note):
    cell = page_of(by_point([*records, builder.result("B", 2)]))["A", title]
    assert cell.text == text
    assert cell.note.startswith(note)


def test_bars_start_at_zero_and_end_at_the_largest_interval():
    points = by_point([builder.result(name, tokens_per_s=v) for name, v in (("A", 50.0), ("B", 100.0))])
    found = first_page([("W", points)], styles_of_systems(points))
    assert [found.bar(row, 0)[0] for row in found.rows] == [100.0, 50.0]


def test_a_weight_that_makes_another_first_is_stated(tmp_path):
    found = Decision(
        offered.points("H200", "MI300X"), offered.needs(tmp_path, offered.NEEDS.replace("A100", "H200")), offered.COSTS
    )
    [(system, words)] = changes(found.ranked)
    assert system == "MI300X"
    assert re.search(r"weight of resnet times [\d.]+", words)


def test_what_the_data_does_not_answer_has_a_reason(tmp_path):
    budget = "budget: {devices: 64}\n"
    text = offered.NEEDS[: offered.NEEDS.index("budget")] + budget
    points = offered.points("A100", "H200")
    found = Decision(points, offered.needs(tmp_path, text.replace("130000", "1")), None)
    cells = page_of(points, None, found)
    assert (cells["H200", "devices"].text, cells["H200", "devices"].note) == (
        "64",
        "nodes of unknown size; limited by number of devices",
    )
    assert "discount" not in changes(found.ranked)[0][1]


def test_a_cost_is_of_the_point_of_its_row_or_has_a_reason():
    gpt = [one for one in offered.points("H200", "MI300X") if one.point.benchmark == "llm_training"]
    cells = page_of(gpt, Costs("EUR", 0.25, {"H200": Price(1)}))
    assert cells["H200", "EUR per million tokens"].value
    assert cells["MI300X", "EUR per million tokens"].text == "unknown"
    assert "MI300X has no price" in cells["MI300X", "EUR per million tokens"].note


def test_one_cause_is_one_remark_and_a_size_that_was_not_measured_is_the_largest_doubt(tmp_path):
    """Four systems, each with the same three limits; the budget buys more devices than were measured of any."""
    records = [
        builder.result(system, devices, 8, speed * devices, model="800M")
        for speed, system in enumerate("ABCD", 100)
        for devices in (1, 2)
    ]
    text = "workloads: {gpt: {benchmark: llm_training, model: 800M}}\nbudget: {devices: 9}\n"
    text += "must: [{of: gpt, what: throughput, devices: 4, at_least: 1}]\n"
    results = by_point(records)
    decision = Decision(results, offered.needs(tmp_path, text), None)
    found = limits(records, [], [("GPT", results)], [], decision)
    assert len({one.advice for one in found}) == len(found)
    size, undecided, *_ = found
    of = "gpt: D (9, 1 of them idle), C (9, 1 of them idle), "
    assert size.details == [of + "B (9, 1 of them idle), A (9, 1 of them idle) scaled from 2 devices"]
    assert measure_next(found) == f"Measure on as many devices as would be bought ({size.details[0]})."
    [detail] = undecided.details
    assert detail.startswith("A, B, C, D, gpt: throughput on 4 devices at least 1: no run at this point, only at")


def test_a_formula_has_scores_and_no_weights(tmp_path):
    score = "score: {formula: 1.0e6 / R, better: lower, terms: {R: {of: gpt, what: throughput}}}\n"
    text = "workloads: {gpt: {benchmark: llm_training, model: 800M}}\n" + score
    found = Decision(offered.points("A100", "H200"), offered.needs(tmp_path, text), None)
    number = r"[\d.]+ \([\d.]+ to [\d.]+\)"
    pattern = rf"H200 is first by .*, with a score of {number} against {number} of A100\."
    assert re.fullmatch(pattern, first_of(found))
    assert not changes(found.ranked)


def test_nobody_is_first_where_all_fail(tmp_path):
    found = Decision(offered.points("A100"), offered.needs(tmp_path), offered.COSTS)
    assert first_of(found) == "No system has a score within the whole budget."
    [reason] = not_ranked(found.ranked)
    assert reason.startswith("Not ranked: A100: it fails the requirement 'gpt")
    assert not changes(found.ranked)


def test_the_most_serious_limit_is_first_and_left_out_records_of_any_system_count(tmp_path):
    records = [builder.result("A"), builder.failed("B")]
    skipped = [
        Skipped(finding("note", text="x is cut"), tmp_path, ()),
        Skipped(finding("note", text="y is no record"), tmp_path),
    ]
    found = limits(records, skipped, [("GPT", by_point(records))], ["A differs"], None)
    ranks = [one.advice.seriousness for one in found]
    assert ranks == sorted(ranks)
    assert found[0].details == ["any system: x is cut"]
    assert not any("no record" in detail for one in found for detail in one.details)
    assert measure_next(found).startswith("Run each point three times (1 run")
    assert measure_next([]) == ""


def test_a_table_has_its_status_last_and_an_explanation_of_its_numbers():
    points = [*by_point([builder.failed("A", 2)]), *offered.points("H200")]
    found = grid_of(points_table(points))
    assert found.headings[-1].kind == "status"
    assert {row[-1][0] for row, bad in zip(found.rows, found.bad, strict=True) if bad} == {"failed"}
    assert [one.title for one in found.headings if one.kind == "number" and not one.help] == []


@pytest.mark.parametrize(
    ("cell", "kind", "text", "key"),
    [
        (72112.0, "number", "72,110", "72112"),
        (Estimate(72112.0, (Part(0.04),)), "number", "72,100 ±7.8 %", "72112"),
        (Interval(0.998123, 1.002345), "number", "0.9981 to 1.0023", "0.998123"),
        (120300, "number", "120300", "120300"),
        ("6.1", "text", "6.1", None),
        (["Q1", "device"], "text", "Q1, device", None),
    ],
)
def test_numbers_have_the_digits_of_their_interval_and_are_sorted_with_all(cell, kind, text, key):
    [heading], [[found]], _ = grid_of(Table([Quantity("x")], [[cell]]))
    assert (heading.kind, *found) == (kind, text, key)
