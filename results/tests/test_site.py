"""The site over all results: its files, and its pages as a reader sees them in a real browser."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from urllib.parse import unquote, urlsplit

import pytest

from caraml.cli import main
from results.find.records import find_records
from results.show.page.site import FILES, write_site
from results.tests import builder
from results.tests.conftest import LONG_MS

NASTY = "</script><b>evil</b>&\u2028"
PAGE = "gpt_training_800m"
ROWS = "#table tbody tr"


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Two systems with a sweep each, an estimate, a smaller workload, and failed runs, one with a nasty name."""
    folder = tmp_path_factory.mktemp("results")
    energy = {"estimated": True, "model": "800M"}
    nasty = builder.failed(NASTY.rstrip("\u2028"), error=f"it said {NASTY}", model="800M")
    small = builder.result("H200", 1, 8, 90e3, 690.0, model="117M")
    builder.store(folder / "runs", [*builder.many(), builder.result("CPU", 1, 16, 4000, 12, **energy), nasty, small])
    return folder / "runs"


@pytest.fixture(scope="module")
def public(records):
    out = records.parent / "public"
    assert main(["site", str(records), "-o", str(out)]) == 0
    return out


def page_of(public):
    [found] = public.glob(f"{PAGE}*.csv")
    return found.with_suffix(".html")


def test_rows_are_those_of_the_table_in_each_form(public, records, capsys):
    import pyarrow.parquet

    assert main(["table", str(records), "--repeats", "--format", "csv", "--filter", "model=800M"]) == 0
    expected = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    found = list(csv.reader(io.StringIO(page_of(public).with_suffix(".csv").read_text())))
    assert [line[:-2] for line in found] == expected
    assert found[0][-2:] == ["limits", "page"]
    frame = pyarrow.parquet.read_table(page_of(public).with_suffix(".parquet"))
    assert frame.num_rows == len(expected) - 1
    assert len(set(frame.column_names)) == len(found[0])
    for title in ("work_per_s", "work_per_wh", "devices"):
        column = expected[0].index(title)
        values = [line[column] for line in expected[1:]]
        assert frame.column(title).to_pylist() == [float(one) if one else None for one in values]


def links_of(page):
    return re.findall(r'(?:href|src)="([^"]*)"', page.read_text())


def test_each_link_leads_to_a_file_of_the_folder_and_a_number_to_its_record(public, records):
    for page in public.rglob("*.html"):
        for link in links_of(page):
            assert not urlsplit(link).scheme
            assert not urlsplit(link).netloc
            file = page.parent / unquote(urlsplit(link).path or page.name)
            assert file.resolve().is_relative_to(public)
            assert file.is_file()
    copies = {path.read_bytes() for path in public.glob("records/*.json")}
    assert copies == {path.read_bytes() for path in records.rglob("result.json")}
    rows = csv.DictReader(io.StringIO(page_of(public).with_suffix(".csv").read_text()))
    for row in rows:
        runs = {link for link in links_of(public / row["page"]) if link.endswith(".json")}
        of_row = [json.loads((public / "points" / link).read_text()) for link in runs]
        assert {one["system"] for one in of_row} == {row["system"]}
        assert {str(one["layout"]["num_devices"]) for one in of_row} == {row["devices"]}
        assert sum(one["status"] == "ok" for one in of_row) == int(row["runs"])


def test_what_may_not_be_ranked_says_why(public):
    rows = list(csv.DictReader(io.StringIO(page_of(public).with_suffix(".csv").read_text())))
    limits = {row["system"]: row["limits"] for row in rows if row["system"] not in ("A100", "H200")}
    assert limits["CPU"] == "energy not ranked: it is an estimate from load, and no measurement"
    [evil] = [words for system, words in limits.items() if "evil" in system]
    assert evil.startswith("failed: it said")
    [failed] = [row for row in rows if row["status"] == "out_of_memory"]
    assert failed["work_per_s"] == failed["work_per_wh"] == ""
    assert "Points do not fit into memory." in (public / failed["page"]).read_text()


def test_names_are_never_markup(public):
    for page in public.rglob("*.html"):
        assert "<b>evil" not in page.read_text()
        assert page.read_text().count("<script") == page.read_text().count('<script src="')


def test_a_later_site_removes_the_files_of_the_older_one_and_no_others(public, tmp_path):
    public = tmp_path / "public"
    (public / ".git").mkdir(parents=True)
    first, second = (builder.store(tmp_path / name, [builder.result(name)]) for name in ("A", "B"))
    write_site(*find_records([first]), public)
    mine = public / "points" / "note.txt"
    mine.write_text("mine")
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    (public / FILES).write_text((public / FILES).read_text() + "../outside.txt\n")
    old = set(public.glob("points/*.html"))
    write_site(*find_records([second]), public)
    assert not old & set(public.glob("points/*.html"))
    assert mine.exists()
    assert outside.exists()
    every = {str(path.relative_to(public)) for path in public.rglob("*") if path.is_file()}
    assert every - {"points/note.txt"} == set((public / FILES).read_text().splitlines())


def test_a_folder_with_other_files_is_refused_before_any_work(tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("mine")
    assert main(["site", str(tmp_path / "none"), "-o", str(tmp_path)]) == 2
    assert main(["site", str(tmp_path / "none"), "-o", str(tmp_path / "thesis.tex")]) == 2
    assert capsys.readouterr().err.count("is no empty folder, and no site of caraml: name a new or empty folder") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_record_that_is_left_out_is_named(tmp_path):
    long, never_good = builder.result("A", model="longer than a name of a file" * 10), builder.failed(model="70B")
    runs = builder.store(tmp_path / "runs", [long, never_good])
    (runs / "bad").mkdir()
    (runs / "bad" / "result.json").write_text("{")
    write_site(*find_records([runs]), tmp_path / "public")
    assert "cannot be read as a record" in (tmp_path / "public" / "index.html").read_text()


@pytest.fixture
def opened(browser, public):
    """Return a function that opens a page; at the end it must not have complained, nor asked for more."""
    complaints, contexts = [], []

    def open_page(address="", width=1280):
        context = browser.new_context(viewport={"width": width, "height": 844})
        contexts.append(context)
        window = context.new_page()
        window.set_default_timeout(LONG_MS)
        window.on("console", lambda message: complaints.append(message.text))
        window.on("pageerror", lambda error: complaints.append(str(error)))
        window.on("request", lambda one: None if one.url.startswith(public.as_uri()) else complaints.append(one.url))
        window.goto(address or page_of(public).as_uri())
        return window

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def test_a_number_leads_to_its_limits_and_its_record(opened, public):
    window = opened()
    row = window.locator(ROWS).filter(has_text="CPU")
    number = row.locator("td.number a").last
    text = number.inner_text()
    number.click()
    window.wait_for_url("**/points/*.html")
    assert text in window.locator("#values + .wide").inner_text()
    assert window.inner_text(".next") == "Energy not ranked: it is an estimate from load, and no measurement"
    assert "Energy is estimated from load, not measured." in window.inner_text("table.limits")
    record = window.locator("#runs + .wide a").first.get_attribute("href")
    content = (public / "points" / record).read_bytes()
    assert json.loads(content)["system"] == "CPU"
    assert hashlib.sha256(content).hexdigest().startswith(record.removeprefix("../records/").removesuffix(".json"))


def test_a_choice_hides_rows_and_dots(opened):
    window = opened()
    of_system = window.locator(ROWS).filter(has_text="H200"), window.locator("[data-system='H200']")
    window.get_by_label("H200", exact=True).uncheck()
    assert not any(element.is_visible() for elements in of_system for element in elements.all())
    assert all(elements.count() for elements in of_system)


def test_pages_fit_a_phone(opened, public):
    for page in (page_of(public), public / "index.html", *list(public.glob("points/*.html"))[:2]):
        window = opened(page.as_uri(), width=390)
        assert window.evaluate("document.documentElement.scrollWidth") <= 390
        assert window.locator("b").count() == 0
