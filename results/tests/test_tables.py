from __future__ import annotations

import csv
import io

import pytest

from results.files.quantities import Quantity
from results.find.records import RecordError
from results.points.estimate import Estimate, Interval, Part
from results.show.tables.cells import Table, rendered
from results.tests import builder
from results.tests.builder import make_record
from results.tests.of_dicts import failures, original_table, pivot_table, record_table, select


def good(devices: int, batch: int, tokens_per_s: float) -> dict:
    return builder.result("CPU", devices, batch, tokens_per_s, 10.0, estimated=True)


def failed(batch: int, error: str = "the node burned <down>") -> dict:
    layout = {"num_devices": 1, "num_nodes": 1, "global_batch_size": batch}
    return make_record(status="failed", error=error, layout=layout, metrics={})


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ('=HYPERLINK("a")', '\'=HYPERLINK("a")'),
        ("\r=1", "' =1"),
        ("a\r=1", "a =1"),
        ("a\n=1", "a\n=1"),  # in one cell
        (["=1", "two"], "'=1, two"),
        ("a=1", "a=1"),
        (-1, "-1"),
        (-0.5, "-0.5"),
    ],
)
def test_a_spreadsheet_runs_no_cell(cell, shown):
    table = Table([Quantity("x")], [[cell]])
    assert list(csv.reader(io.StringIO(rendered(table, "csv"), newline=""))) == [["x"], [shown]]


def test_a_failed_run_has_no_numbers_and_says_so():
    header, row = record_table([failed(8)]).filled().texts()
    assert row[header.index("status")] == "failed"
    assert "tokens/s" not in header
    assert "tokens/Wh" not in header
    assert failures([failed(8), good(1, 8, 1)]) == ["CPU, tiny, 1 device, batch 8: failed: the node burned <down>"]


def test_a_table_is_given_in_the_forms_of_a_spreadsheet_and_a_document():
    records = [good(1, 8, 100.123), failed(16)]
    records[0]["system"] = "A_1|<b>"
    header, first, second = csv.reader(io.StringIO(rendered(record_table(records), "csv")))
    assert first[header.index("tokens/s")] == "100.123"
    assert (second[header.index("tokens/s")], second[header.index("status")]) == ("", "failed")
    assert rendered(record_table(records).filled(), "markdown").splitlines()[2].startswith("| A_1\\|<b> |")


@pytest.mark.parametrize(
    ("cell", "form", "text", "for_a_program"),
    [
        (True, "", "yes", "True"),
        (12345, "", "12345", "12345"),
        (1234.567, ".1f", "1234.6", "1234.567"),
        (1234.567, "", "1,235", "1234.567"),
        (
            Estimate(1234.567, (Part(0.005),)),
            ".1f",
            "1,235 ±0.98 %",
            "1,235 ±0.98 %",
        ),  # digits of its interval
        (Interval(0.5, 2.25), "", "0.50 to 2.25", "0.50 to 2.25"),
        (["a", "b"], "", "a, b", "a, b"),
        ("two\nlines", "", "two\nlines", "two\nlines"),
    ],
)
def test_a_cell_is_rendered_for_readers_and_for_programs(cell, form, text, for_a_program):
    table = Table([Quantity("x", form=form)], [[cell]])
    assert table.texts() == [["x"], [text]]
    assert list(csv.reader(io.StringIO(rendered(table, "csv"))))[1:] == [[for_a_program]]
    assert rendered(table, "markdown").splitlines()[2] == f"| {text.replace(chr(10), ' ')} |"


def test_records_are_selected_by_what_stands_in_a_column():
    records = [good(1, 8, 1), good(2, 8, 1), good(2, 16, 1)]
    assert len(select(records, ["devices=2"])) == 2
    assert len(select(records, ["devices=2", "layout.global_batch_size = 16"])) == 1
    for condition, message in (
        ("devices", "is not a condition"),
        ("speed=1", "there is no column 'speed': choose one of .*devices"),
    ):
        with pytest.raises(RecordError, match=message):
            select(records, [condition])

    small = good(1, 8, 123.456)
    small["metrics"]["comparable"] = False
    for condition in ("comparable=NO", "comparable=False", "tokens/s=123.5", "tokens/s=123.456"):
        assert [one.metrics.comparable for one in select([small, good(2, 8, 1)], [condition])] == [False]


def test_records_are_sorted_by_any_column_and_what_has_no_value_comes_last():
    table = record_table([good(1, 8, 2), failed(8), good(2, 8, 3), good(4, 8, 1)])
    at = table.at("devices")
    assert [table.rows[number][at] for number in table.order("tokens/s")] == [4, 1, 2, 1]
    assert [table.rows[number][at] for number in table.order("metrics.{unit}_per_s", True)] == [2, 1, 4, 1]


# The columns of its tables: llm_benchmark_nvidia_amd.yaml and image_classification_torch_benchmark.xml of CARAML.
OF_GPT = (
    *("JobID", "System", "Version", "Queue", "JobTime", "Runtime(min)", "Model", "ModelSize", "Dataset", "Nodes"),
    *("Devices", "GlobalBatchSize", "PipelineParallel", "TensorParallel", "DataParallel", "Iterations"),
    *("Time/iteration(s)", "Tokens/second", "Avg_TFLOPs/GPU", "EnergyFile"),
)
OF_IMAGES = (
    *("JobID", "System", "Version", "Queue", "Runtime(s)", "Model", "Dataset", "Nodes", "Devices", "Tasks/Node"),
    *("Threads/Task", "Workers", "GlobalBatchSize", "BatchSize/Device", "Epoch", "Precision", "Compiler"),
    *("CompilerMode", "ChannelLast", "Images/second", "EnergyFile"),
)


@pytest.mark.parametrize(("unit", "titles"), [("tokens", OF_GPT), ("images", OF_IMAGES)])
def test_all_titles_of_the_original_suites_tables_are_there_in_their_order(unit, titles, tmp_path):
    record = builder.in_units(good(2, 8, 100.5), unit)
    record["config"] |= {"data": {"parallel_files": 8}, "kernels": {"compile": "inductor"}}
    record["provenance"] = {"nodes": [{"hostname": "n1", "cpus_usable": 24}]}
    record["energy"]["run_s"] = 90.0
    record["metrics"][f"{unit}_per_epoch"] = record["metrics"][f"measured_{unit}"] * 4
    (tmp_path / "job.sh").write_text("#SBATCH --nodes=1\n#SBATCH --time=02:00:00\n")
    (tmp_path / "energy.csv").write_text("")
    record["file"] = {"path": str(tmp_path / "run_2" / "result.json")}
    header, row = csv.reader(io.StringIO(rendered(original_table([record]), "csv")))
    assert header == [*titles, "Energy/Device(Wh)", "Status"]
    found = {"JobTime": "02:00:00", "Runtime(min)": "1.5", "Runtime(s)": "90", "Tasks/Node": "2", "Workers": "8"}
    found |= {
        "Threads/Task": "12",
        "BatchSize/Device": "4",
        "Epoch": "0.25",
        "Compiler": "inductor",
        "EnergyFile": "",
    }
    assert {title: text for title, text in zip(header, row, strict=True) if title in found} == {
        title: text for title, text in found.items() if title in titles
    }
    assert float(row[header.index("Energy/Device(Wh)")]) == pytest.approx(10 / 60)


def test_one_value_is_laid_out_over_devices_and_batch():
    shown = pivot_table([good(1, 8, 100), good(2, 16, 200), failed(16)], "metrics.{unit}_per_s")
    assert shown.texts() == [["devices", "batch 8", "batch 16"], ["1", "100", "failed"], ["2", "", "200"]]
    assert "<td>failed</td>" in rendered(shown, "html")
    with pytest.raises(RecordError, match="two records have 1 device and batch 8"):
        pivot_table([good(1, 8, 1), good(1, 8, 2)], "metrics.tokens_per_s")
    with pytest.raises(RecordError, match="no such number"):
        pivot_table([good(1, 8, 1)], "metrics.nothing")
