from __future__ import annotations

import json

import pytest

from caraml.cli import main

RECORD = {
    "schema_version": 2,
    "benchmark": "llm_training",
    "system": "CPU",
    "model": "tiny",
    "work_unit": "tokens",
    "status": "ok",
    "error": "",
    "layout": {"num_devices": 1, "global_batch_size": 8},
    "metrics": {"tokens_per_s": 123.4},
}


@pytest.fixture
def sweep(tmp_path):
    """A folder of two runs as JUBE leaves them; the last has one good point."""
    for number in ("000000", "000001"):
        (tmp_path / number).mkdir()
        (tmp_path / number / "workpackages.xml").touch()
    add_point(tmp_path / "000001", "000001_benchmark", RECORD)
    return tmp_path


def add_point(run, name, record=None, marker="done"):
    work = run / name / "work"
    work.mkdir(parents=True)
    if record:
        (work / "result.json").write_text(json.dumps(record))
    if marker:
        (run / name / marker).touch()
    return work


def test_a_good_sweep_passes(sweep):
    assert main(["check", str(sweep)]) == 0


@pytest.mark.parametrize("status", ["failed", "out_of_memory", "unfinished"])
def test_a_point_that_is_not_ok_fails_the_sweep_and_is_named(sweep, capsys, status):
    add_point(sweep / "000001", "000002_benchmark", {**RECORD, "status": status, "error": "why"})
    assert main(["check", str(sweep)]) == 1
    assert f"000002_benchmark: CPU, tiny, 1 device, global batch 8: {status}: why" in capsys.readouterr().err


def test_a_step_that_failed_or_did_not_end_fails_the_sweep(sweep, capsys):
    work = add_point(sweep / "000001", "000003_prepare", marker="error")
    (work / "stderr").write_text("prepare: no text\n")
    add_point(sweep / "000001", "000004_collect", marker=None)
    assert main(["check", str(sweep)]) == 1
    told = capsys.readouterr().err
    assert "000003_prepare: failed; prepare: no text" in told
    assert "000004_collect: not finished" in told


def test_a_sweep_without_any_result_fails(sweep, capsys):
    assert main(["check", str(sweep / "000000")]) == 1
    assert "no point of the sweep has a result" in capsys.readouterr().err


def test_a_folder_that_is_no_run_is_refused(tmp_path, capsys):
    assert main(["check", str(tmp_path)]) == 2
    assert "is not a run of JUBE" in capsys.readouterr().err


def test_the_table_is_of_the_last_run_and_lists_failures_below(sweep, capsys):
    add_point(sweep / "000001", "000002_benchmark", {**RECORD, "status": "failed", "error": "why"})
    assert main(["table", str(sweep)]) == 0
    told = capsys.readouterr().out
    assert "123.4" in told
    assert told.splitlines()[-1].endswith("failed: why")


def test_a_report_of_nothing_is_refused(tmp_path, capsys):
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "report.html")]) == 2
    assert "there is no result" in capsys.readouterr().err
