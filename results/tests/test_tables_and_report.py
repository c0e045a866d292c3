from __future__ import annotations

import csv
import io
import json
import shutil
import struct
import subprocess

import pytest

from results.plots import PLOTS, draw, lines
from results.records import RecordError, find_records, read_record, write_record
from results.report import write_report
from results.table import failures, pivot_table, render, rows, select, text_table
from results.tests.conftest import make_record


def good(devices: int, batch: int, tokens_per_s: float, kind: str = "measured") -> dict:
    layout = {**make_record()["layout"], "num_devices": devices, "global_batch_size": batch}
    energy = {
        "avg_power_w": 10.0,
        "energy_wh_per_device": 0.5,
        "tokens_per_wh": 3600 * tokens_per_s / 10,
        "power_kind": kind,
        "power_source": f"{kind}, cpu",
        "channels": [],
    }
    metrics = {**make_record()["metrics"], "tokens_per_s": tokens_per_s}
    return make_record(layout=layout, energy=energy, metrics=metrics)


def failed(batch: int, error: str = "the node burned <down>") -> dict:
    layout = {"num_devices": 1, "num_nodes": 1, "global_batch_size": batch}
    return make_record(status="failed", error=error, layout=layout, metrics={})


def test_a_record_survives_writing_and_reading(tmp_path):
    write_record(make_record(), tmp_path / "result.json")
    assert read_record(tmp_path / "result.json") == make_record()
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema_version": 1, "status"', "cannot be read as a record"),
        ("[]", "is not a record of this suite"),
        ('{"schema_version": 99}', "schema version 99"),
        ('{"schema_version": 1, "benchmark": "x"}', "no usable 'system'"),
    ],
)
def test_a_file_that_is_no_record_is_named_and_skipped(tmp_path, text, message):
    (tmp_path / "a").mkdir()
    write_record(make_record(), tmp_path / "a" / "result.json")
    (tmp_path / "result.json").write_text(text)
    records, skipped = find_records([tmp_path])
    assert records == [make_record()]
    [sentence] = skipped
    assert message in sentence
    assert str(tmp_path / "result.json") in sentence


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(RecordError, match="does not exist"):
        find_records([tmp_path / "none"])


def test_the_table_has_a_row_per_record_in_the_order_of_devices_and_batch():
    header, *body = rows([good(2, 8, 150), good(1, 16, 120), failed(8), good(1, 8, 100)])
    assert [(row[header.index("devices")], row[header.index("global batch")]) for row in body] == [
        ("1", "8"),
        ("1", "8"),
        ("1", "16"),
        ("2", "8"),
    ]
    assert {row[header.index("tokens/s")] for row in body} == {"", "100.0", "120.0", "150.0"}


def test_a_failed_run_has_no_numbers_and_says_so():
    header, row = rows([failed(8)])
    assert row[header.index("status")] == "failed"
    assert "tokens/s" not in header
    assert "tokens/Wh" not in header
    assert failures([failed(8), good(1, 8, 1)]) == [
        "CPU, tiny, 1 device, global batch 8: failed: the node burned <down>"
    ]


def test_the_text_table_is_aligned():
    text = text_table([good(1, 8, 100), failed(16)])
    assert len({len(line) for line in text.splitlines()}) == 1


def test_a_plot_has_good_runs_only_and_labels_estimates():
    throughput, efficiency = PLOTS
    records = [good(1, 16, 120), good(1, 8, 100), failed(32), good(2, 8, 150, "estimated")]
    assert lines(records, throughput.path) == {
        "CPU, tiny, 1 device": [(8, 100), (16, 120)],
        "CPU, tiny, 2 devices": [(8, 150)],
    }
    assert list(lines(records, efficiency.path)) == ["CPU, tiny, 1 device", "CPU, tiny, 2 devices (ESTIMATED power)"]


def test_a_plot_is_drawn_even_when_nothing_was_good():
    for plot in PLOTS:
        assert draw(plot, [failed(8)], "png").startswith(b"\x89PNG")


def test_the_report_shows_its_table_and_pictures_in_a_browser(tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.fail("a browser is needed: apt-get install chromium")
    page, *pictures = write_report([good(1, 8, 100), good(1, 16, 120), failed(32)], [], tmp_path / "report.html")
    for picture in pictures:
        width, height = struct.unpack(">II", picture.read_bytes()[16:24])
        assert width > 600
        assert height > 400
    # A script added to a copy tells what the browser made of the page.
    probe = """<script>onload = () => { document.title = JSON.stringify({
        images: [...document.images].map(image => image.naturalWidth),
        cells: [...document.querySelectorAll("tbody td")].map(cell => cell.innerText),
        bad: [...document.querySelectorAll("tr.bad td:last-child")].map(cell => cell.innerText),
        requests: performance.getEntriesByType("resource").filter(entry => !entry.name.startsWith("data:")).length,
    }) }</script>"""
    probed = tmp_path / "probed.html"
    probed.write_text(page.read_text() + probe)
    done = subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path}/browser",
            "--dump-dom",
            probed.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    seen = json.loads(done.stdout.split("<title>")[1].split("</title>")[0])
    assert len(seen["images"]) == 2
    assert all(width > 300 for width in seen["images"])
    assert "120.0" in seen["cells"]
    assert seen["bad"] == ["failed"]
    assert seen["requests"] == 0
    assert "the node burned &lt;down&gt;" in page.read_text()


def test_a_table_is_given_in_the_forms_of_a_spreadsheet_and_a_document():
    records = [good(1, 8, 100.123), failed(16)]
    records[0]["system"] = "A_1|<b>"
    header, first, second = csv.reader(io.StringIO(render(records, "csv")))
    assert first[header.index("tokens/s")] == "100.123"
    assert (second[header.index("tokens/s")], second[header.index("status")]) == ("", "failed")
    assert "A\\_1|<b>" in render(records, "latex")
    assert "&lt;b&gt;" in render(records, "html")
    assert "<b>" not in render(records, "html")
    assert render(records, "markdown").splitlines()[2].startswith("| A_1\\|<b> |")


def test_records_are_selected_by_what_stands_in_a_column():
    records = [good(1, 8, 1), good(2, 8, 1), good(2, 16, 1)]
    assert len(select(records, ["devices=2"])) == 2
    assert len(select(records, ["devices=2", "layout.global_batch_size = 16"])) == 1
    for condition in ("devices", "speed=1"):
        with pytest.raises(RecordError, match="is no condition"):
            select(records, [condition])


def test_one_value_is_laid_out_over_devices_and_batch():
    lines = pivot_table([good(1, 8, 100), good(2, 16, 200), failed(16)], "metrics.{unit}_per_s").splitlines()
    assert [field.strip() for field in lines[0].split("|")] == ["devices", "batch 8", "batch 16"]
    assert [field.strip() for field in lines[2].split("|")] == ["1", "100", "failed"]
    assert [field.strip() for field in lines[3].split("|")] == ["2", "", "200"]
    with pytest.raises(RecordError, match="two records have 1 devices and batch 8"):
        pivot_table([good(1, 8, 1), good(1, 8, 2)], "metrics.tokens_per_s")
    with pytest.raises(RecordError, match="no such number"):
        pivot_table([good(1, 8, 1)], "metrics.nothing")


def test_a_result_that_is_not_comparable_says_so_in_table_and_plots():
    small, usual = good(1, 8, 1), good(2, 8, 1)
    small["layout"]["image_size"], small["metrics"]["comparable"] = 64, False
    usual["layout"]["image_size"], usual["metrics"]["comparable"] = 224, True
    header, first, second = rows([small, usual])
    column = header.index("comparable")
    assert (first[column], second[column]) == ("NO", "yes")
    assert list(lines([small, usual], "metrics.{unit}_per_s")) == [
        "CPU, tiny, 64 pixels, 1 device",
        "CPU, tiny, 2 devices",
    ]
