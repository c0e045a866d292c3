"""The report as a reader sees it: in a real browser, on a desk and on a phone, by day and by night."""

from __future__ import annotations

import math
import re
import struct
from itertools import pairwise

import pytest

from caraml.cli import main
from jpwr.channel import ChannelInfo, Scope
from jpwr.trace.trace import Row
from jpwr.trace.writers import CsvWriter
from results.find.records import find_records
from results.show.plots.charts import pareto, styles_of_systems
from results.show.plots.workload import charts_of
from results.tests import builder, offered
from results.tests.conftest import LONG_MS
from results.tests.of_dicts import by_point, write_report

PRICES = """
currency: EUR
electricity_per_kwh: 0.25
systems: {A100: {price_per_device: 12000}, H200: {price_per_device: 32000}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two systems with a sweep each, one of them with a trace, one that only estimates, and one with a nasty name."""
    folder = tmp_path_factory.mktemp("results")
    nasty = builder.failed("<b>evil</b>&", error="it said <script>alert(1)</script> & \\textbf{died}", model="800M")
    estimated = builder.result("CPU", 1, 16, 4000, 12, estimated=True, model="800M")
    builder.store(folder / "sweeps", [*builder.many(), estimated, nasty])
    builder.store_run(folder / "run", builder.result("B200", 1, 64, 120e3, 1000, model="800M"), 1000.0)
    (folder / "prices.yaml").write_text(PRICES)
    return folder


@pytest.fixture(scope="module")
def page(folder):
    out = folder / "out" / "report.html"
    out.parent.mkdir()
    arguments = ["report", str(folder / "sweeps"), str(folder / "run"), "-o", str(out)]
    assert main([*arguments, "--prices", str(folder / "prices.yaml")]) == 0
    return out


@pytest.fixture(scope="module")
def opened(browser, page):
    """The page in a window; at the end it must not have complained of anything, nor have asked for more."""
    complaints, windows = [], {}

    def open_page(width=1280, height=900, scheme="light", to_change=False):
        """One window of a kind for all who only read in it."""
        kind = (width, height, scheme)
        if to_change or kind not in windows:
            window = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            window.set_default_timeout(LONG_MS)
            window.on("console", lambda message: complaints.append(message.text))
            window.on("pageerror", lambda error: complaints.append(str(error)))
            window.on(
                "request", lambda request: complaints.append(request.url) if request.url != page.as_uri() else None
            )
            window.goto(page.as_uri())
            if to_change:
                return window
            windows[kind] = window
        return windows[kind]

    yield open_page
    assert complaints == []


def column(window, title):
    table = window.locator("table.sortable", has=window.locator(f"th button:text-is('{title}')")).first
    titles = table.locator("thead th").all_inner_texts()
    index = next(index for index, text in enumerate(titles) if text.strip("▲▼ ") == title)
    return table, index, table.locator(f"tbody tr td:nth-child({index + 1})").all_inner_texts()


def test_the_answer_ranks_what_may_be_ranked(opened):
    text = re.sub(r"\s+", " ", opened().locator("#answer").inner_text())
    assert "tie in tokens/s per device: one run gives no interval" in text
    assert "tie in tokens/Wh (Q1, device): one run gives no interval" in text
    assert "Energy is not ranked: CPU: it is an estimate from load, and no measurement." in text
    assert "2 of 55 runs failed" in text


def test_a_click_on_a_title_sorts_by_numbers(opened):
    window = opened(to_change=True)
    table, index, before = column(window, "tokens/s")
    table.locator("thead th").nth(index).get_by_role("button").click()
    _, _, after = column(window, "tokens/s")
    numbers = [float(text.partition(" ")[0].replace(",", "")) for text in after if text]
    assert numbers == sorted(numbers)
    assert sorted(after) == sorted(before)
    assert table.locator("thead th").nth(index).get_attribute("aria-sort") == "ascending"
    table.locator("thead th").nth(index).get_by_role("button").click()
    _, _, falling = column(window, "tokens/s")
    assert [text for text in falling if text] == [text for text in after if text][::-1]


def test_each_plot_has_its_words_and_there_is_one_of_each_kind(opened):
    window = opened()
    charts = window.locator("figure")
    names = [figure.get_attribute("id") for figure in charts.all()]
    kinds = ["throughput", "efficiency", "pareto", "scaling", "heat_map_1", "heat_map_4", "power_2"]
    assert [kind for kind in kinds for name in names if name.endswith(f"_{kind}")] == kinds
    assert len(names) == len(kinds)
    for svg in charts.locator("svg").all():
        assert svg.get_attribute("role") == "img"
        assert len(svg.get_attribute("aria-label")) > 30
    ids = window.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
    assert len(ids) == len(set(ids))


# Labels of a plot that cover each other, and those that its edge cuts.
COVERED = """() => [...document.querySelectorAll("figure")].flatMap((figure) => {
            const texts = [...figure.querySelectorAll("svg text")];
            const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
            const beside = (a, b) => a.left < b.right - 1 && b.left < a.right - 1;
            const cover = (a, b) => beside(a, b) && a.top < b.bottom - 3 && b.top < a.bottom - 3;
            return boxes.flatMap(([name, box], index) => boxes.slice(index + 1).filter(([, other]) => cover(box, other))
                .map(([other]) => `${figure.id}: ${name} over ${other}`));
        })"""
CUT = """() => [...document.querySelectorAll("figure svg")].flatMap((svg) => {
            const frame = svg.getBoundingClientRect();
            return [...svg.querySelectorAll("text")].filter((text) => {
                const box = text.getBoundingClientRect();
                return box.left < frame.left - 2 || box.right > frame.right + 2;
            }).map((text) => `${svg.closest("figure").id}: ${text.textContent}`);
        })"""


def assert_nothing_is_cut_or_covered(window):
    assert window.evaluate(COVERED) == []
    assert window.evaluate(CUT) == []


ORDER = (".answer", "table.first", "#requirements", "#changes", "#limits", "#cost", "#details")


@pytest.fixture(scope="module")
def offers(tmp_path_factory, browser):
    """The page of three offers, one with a record that contradicts itself, in a window of a common size."""
    folder = tmp_path_factory.mktemp("offers")
    page = offered.written(folder)
    window = browser.new_page(viewport={"width": 1366, "height": 768})
    window.set_default_timeout(LONG_MS)
    window.goto(page.as_uri())
    yield window
    window.close()


def test_the_first_screen_has_the_answer_and_the_whole_matrix(offers):
    boxes = [offers.locator(place).first.bounding_box() for place in ORDER]
    tops = [box["y"] for box in boxes]
    assert tops == sorted(tops)
    assert boxes[1]["y"] + boxes[1]["height"] < 768
    assert offers.locator("table.first").evaluate("(one) => one.scrollWidth <= one.parentElement.clientWidth")


def test_nothing_is_cut_or_covered_on_a_desk(opened, offers):
    for window in (opened(), offers):
        assert_nothing_is_cut_or_covered(window)
    wide = "(tables) => tables.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.innerText)"
    assert offers.locator(".wide").evaluate_all(wide) == []


def test_on_a_phone_each_system_is_a_card_and_nothing_is_cut_or_covered(opened, offers):
    assert opened(390, 844).evaluate("document.documentElement.scrollWidth") <= 390
    offers.set_viewport_size({"width": 390, "height": 844})
    try:
        assert_nothing_is_cut_or_covered(offers)
        cards = offers.locator("table.first tbody tr")
        assert [card.locator("th").inner_text() for card in cards.all()] == ["H200", "MI300X", "A100"]
        boxes = [card.bounding_box() for card in cards.all()]
        assert all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)
        assert all(below["y"] >= above["y"] + above["height"] for above, below in pairwise(boxes))
        assert "tokens/s/device" in cards.first.inner_text()
        assert offers.evaluate("document.documentElement.scrollWidth") <= 390
    finally:
        offers.set_viewport_size({"width": 1366, "height": 768})


def test_nothing_is_folded_on_paper(offers):
    offers.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert offers.locator("details:not([open])").count() == 0


def test_limits_are_on_the_first_sheet_of_paper(offers):
    offers.emulate_media(media="print")
    offers.set_viewport_size({"width": 703, "height": 1024})  # A4 without its margins, at 96 pixels an inch
    try:
        assert offers.locator("#limits .next").bounding_box()["y"] < 1024
        assert not offers.locator("header nav").is_visible()
        assert offers.locator("table.first").bounding_box()["width"] <= 703
    finally:
        offers.emulate_media(media="screen")
        offers.set_viewport_size({"width": 1366, "height": 768})


def test_a_column_explains_itself(opened):
    window = opened(390, 844, to_change=True)
    assert window.locator("table.first thead tr:last-child th:not([title])").count() == 0


def contrast(colours):
    """Of two colours such as rgb(1, 2, 3): WCAG 2.1."""

    def luminance(text):
        parts = [int(part) / 255 for part in re.findall(r"\d+", text)[:3]]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted(map(luminance, colours), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_by_day_and_by_night_in_plots_too(opened, scheme):
    window = opened(scheme=scheme)
    page_colour = window.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (page_colour == "rgb(255, 255, 255)") == (scheme == "light")
    for place, style in (("p", "color"), (".quiet", "color"), ("tr.bad td", "color"), ("figure svg text", "fill")):
        colour = window.locator(place).first.evaluate(f"one => getComputedStyle(one).{style}")
        assert contrast((colour, page_colour)) > 4.5, place


def test_names_are_text_and_never_markup(opened, page):
    window = opened()
    assert window.locator("b").count() == 0
    assert "<b>evil</b>&, 800M" in window.locator("body").inner_text()
    assert "<script>alert(1)</script> & \\textbf{died}" in window.locator("#limits").inner_text()


def test_origin_checksums_and_commands_are_there(opened, folder):
    window = opened(to_change=True)
    window.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    text = window.locator("body").inner_text()
    records = find_records([folder]).records
    for record in records:
        assert record.file.sha256 in text
    assert "python -m benchmarks.llm_training --global-batch-size 64" in text
    assert "0123456789ab" in text


def test_power_over_time_is_drawn_from_the_trace_and_missing_where_there_is_none(opened):
    titles = opened().locator("figcaption strong").all_inner_texts()
    assert [title for title in titles if title.startswith("Power over time")] == [
        "Power over time: B200, 1 device, batch 64"
    ]


@pytest.mark.parametrize("power_w", [math.nan, math.inf])
def test_a_channel_without_a_finite_sample_leaves_out_its_chart_alone(power_w, tmp_path):
    record = builder.result("B200")
    builder.store_run(tmp_path / "run", record)
    meta = {"hostname": "n1", "boot_id": record["windows"][0]["boot_id"], "interval_s": 0.1, "jpwr_version": "1"}
    channel, path = ChannelInfo("made:0", Scope.DEVICE, "made up"), tmp_path / "run" / "power" / "n1" / "trace.csv"
    with CsvWriter(path, [channel], meta) as file:
        file.extend([Row(float(time_s), [power_w], [None]) for time_s in range(90)])
    assert main(["report", str(tmp_path / "run"), "-o", str(tmp_path / "report.html")]) == 0
    assert "Power over time" not in (tmp_path / "report.html").read_text()


def test_the_plots_are_png_files_too(page):
    pictures = sorted(page.with_name("report_plots").glob("*.png"))
    assert len(pictures) == 7
    for picture in pictures:
        width, height = struct.unpack(">II", picture.read_bytes()[16:24])
        assert width > 400
        assert height > 150


def test_a_report_without_a_good_run_says_so(tmp_path):
    builder.store(tmp_path / "runs", [builder.failed()])
    [page, *_] = write_report(*find_records([tmp_path / "runs"]), tmp_path / "report.HTML")
    text = page.read_text()
    assert "1 of 1 run failed." in text
    assert "No run has an energy." in text


def charts(results):
    """Return the charts of points by name."""
    return {chart.name: chart for chart in charts_of(results, styles_of_systems(results))}


def series(axes):
    """Return the points of each line by its label."""
    handles, labels = axes.get_legend_handles_labels()
    drawn = zip(labels, handles, strict=True)
    return {label: [*map(tuple, handle.lines[0].get_xydata())] for label, handle in drawn if hasattr(handle, "lines")}


def test_a_plot_has_good_runs_only_and_a_line_for_each_system():
    results = by_point(
        [
            builder.result("A", 1, 16, 120),
            builder.result("A", 1, 8, 100),
            builder.result("A", 1, 8, 90, variant=["slower"]),
            builder.failed("A", 1, 32),
            builder.result("A", 2, 8, 150, estimated=True),
            builder.result("B", 2, 8, 300),
            builder.result("B", 2, 8, 900, precision="fp8"),
        ]
    )
    found = charts(results)
    one, two = (series(axes) for axes in found["throughput"].figure.axes[:2])
    assert (one, two) == ({"A": [(8, 100), (16, 120)]}, {"A": [(8, 75)], "B": [(8, 150)]})
    assert "throughput_1" not in found  # one point in fp8 is no chart
    assert found["efficiency"].title == "Work per energy over batch size: bf16, Q1, device"
    assert "efficiency_1" not in found


@pytest.mark.parametrize("other", ["precision", "energy", "smaller"])
def test_no_chart_joins_what_is_not_alike(other):
    """Speed against energy and scaling, too."""
    unlike = [builder.result("B", devices, batch, 900.0) for devices in (1, 2) for batch in (8, 16)]
    for record in unlike:
        if other == "precision":
            record["precision"] = "fp8"
        if other == "energy":
            builder.of_scope("node", [record])
        if other == "smaller":
            record["metrics"]["comparable"] = False
    usual = [builder.result("A", devices, batch, 100.0) for devices in (1, 2) for batch in (8, 16)]
    found = charts(by_point([*usual, *unlike]))
    kinds = [name for name in found if name.startswith("pareto")]
    assert len(kinds) == 2
    for name in kinds:
        assert len(series(found[name].figure.axes[0]).keys() & {"A", "B"}) == 1


def test_a_system_has_one_colour_in_every_plot_and_no_two_look_alike():
    systems = [f"S{index}" for index in range(24)]
    results = by_point([builder.result(system, devices) for system in systems for devices in (1, 2)])
    styles = styles_of_systems(results)
    looks = [(one["color"], one["marker"], one["linestyle"]) for one in styles.values()]
    assert len(set(looks)) == len(systems)
    assert len({colour for colour, *_ in looks[:12]}) == 12
    assert len({tuple(others) for _, *others in looks[:24]}) == 24  # without its colour
    seen = {}
    for name in ("throughput", "scaling", "pareto"):
        for axes in charts(results)[name].figure.axes:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                if label in styles:
                    seen.setdefault(label, set()).add((handle.lines[0].get_color(), handle.lines[0].get_marker()))
    assert seen == {system: {(style["color"], style["marker"])} for system, style in styles.items()}


def test_a_heat_map_marks_what_failed_and_is_of_one_precision():
    records = [builder.result("A", 1, 8), builder.failed("A", 1, 16, status="out_of_memory")]
    records += [builder.result("A", 2, 8), builder.result("A", 1, 8, 900.0, precision="fp8")]
    chart = charts(by_point(records))["heat_map_0"]
    assert chart.words.startswith("1 devices at global batch size 8: 100; ")
    assert "batch size 16: OOM" in chart.words
    assert "OOM" in chart.svg()


def test_the_front_has_what_nothing_exceeds_in_both():
    places = [(1.0, 5.0), (2.0, 4.0), (1.5, 3.0), (3.0, 1.0), (3.0, 0.5)]
    assert pareto(places) == [(1.0, 5.0), (2.0, 4.0), (3.0, 1.0)]
    assert pareto(places, less_is_better=True) == [(3.0, 0.5)]


def test_what_is_chosen_is_shown_in_tables_and_plots_and_said(opened):
    window = opened(to_change=True)
    said = window.locator("#filtered")
    assert said.inner_text() == ""
    rows = window.locator("table.sortable tbody tr", has=window.locator("td:text-is('A100')"))
    lines_of = window.locator("[data-system='A100']")
    assert rows.first.is_visible()
    assert lines_of.count()
    window.locator("fieldset", has_text="system").get_by_label("A100", exact=True).uncheck()
    assert not any(row.is_visible() for row in rows.all())
    assert not any(line.is_visible() for line in lines_of.all())
    assert said.inner_text().startswith("Tables of runs and lines of plots show only: system ")
    assert "A100" not in said.inner_text()
    window.locator("fieldset", has_text="system").get_by_label("A100", exact=True).check()
    assert rows.first.is_visible()
    assert said.inner_text() == ""
