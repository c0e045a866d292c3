"""Formats of others, each read by its own reader from the package index."""

from __future__ import annotations

import json
import re

import pytest

from caraml.cli import main
from results.exchange.ml_energy import write_ml_energy
from results.exchange.mlperf_log import write_mlperf_logs
from results.record.model import Record
from results.record.records import RESULT_NAME
from results.tests.made_up import WINDOW_S, failed, result, store, store_run
from results.tests.test_nodes import check
from results.tests.test_serving import served
from tests.needs import package

LICENCE = "https://creativecommons.org/licenses/by/4.0/"
WH = 3600.0


def export(folder, form, out, *more):
    return main(["export", str(folder), "--format", form, "-o", str(out), *more])


def finding_columns(path):
    header, *lines = (line.split("|") for line in path.read_text().splitlines())
    return [dict(zip(header, line, strict=True)) for line in lines]


def test_openmetrics_has_values_in_base_units_their_interval_and_what_they_are(tmp_path, capsys):
    parser = package("prometheus_client.openmetrics.parser", "prometheus-client")
    good = result("A100", 4, 64, 1000.0, 250.0, variant=['a "quoted" \\ option'])
    estimated = result("CPU", 1, 8, 10.0, 50.0, estimated=True)
    bad = failed("A100", 4, 128, provenance={"created": "2026-01-02T03:04:05+00:00"})
    store(tmp_path / "runs", [good, estimated, bad, failed("A100", 8, 64, status="unfinished")])
    assert export(tmp_path / "runs", "openmetrics", tmp_path / "metrics") == 0
    assert "3 runs of 4; the format has runs that have ended" in capsys.readouterr().out
    families = {one.name: one for one in parser.text_string_to_metric_families((tmp_path / "metrics").read_text())}

    def sample(name, system):
        [found] = [one for one in families[name].samples if one.labels["system"] == system]
        return found

    energy = sample("caraml_energy_joules", "A100")
    assert energy.value == pytest.approx(4 * 250.0 * WINDOW_S)
    assert float(energy.timestamp) == good["windows"][0]["end_epoch_s"]
    assert energy.labels["variant"].endswith('a "quoted" \\ option')
    assert (energy.labels["power_kind"], energy.labels["devices"]) == ("measured", "4")
    half = sample("caraml_energy_half_interval_joules", "A100").value
    assert half == pytest.approx(good["energy"]["uncertainty_wh"] * WH)
    assert sample("caraml_work_per_joule", "A100").value == pytest.approx(1.0)
    assert sample("caraml_energy_joules", "CPU").labels["power_kind"] == "estimated"
    assert families["caraml_energy_joules"].unit == "joules"
    outcomes = {one.labels["global_batch"]: one.value for one in families["caraml_run_succeeded"].samples}
    assert outcomes == {"64": 1, "8": 1, "128": 0}
    assert all(len(one.samples) == 2 for name, one in families.items() if name != "caraml_run_succeeded")


def test_mlperfs_parser_reads_training_runs_alone_as_timed_blocks(tmp_path, capsys):
    parser = package("mlperf_logging.compliance_checker.mlp_parser", "mlperf-logging")
    constants = package("mlperf_logging.mllog.constants", "mlperf-logging")
    known = {one for one in vars(constants).values() if isinstance(one, str)}
    good = result("A100", 1, 64, 1000.0)
    store(tmp_path / "runs", [good, served(), check(), failed("A100", 1, 128)])
    assert export(tmp_path / "runs", "mlperf-log", tmp_path / "logs") == 0
    assert "1 run of 4; the format has good training runs" in capsys.readouterr().out
    [path] = (tmp_path / "logs").rglob("*.txt")
    assert path.relative_to(tmp_path / "logs").parts == ("A100", "llm_training_tiny", "result_0.txt")
    lines, errors = parser.parse_file(path, ruleset="6.1.0")
    assert not errors and "no submission" in path.read_text()
    # These are keys of the checker's rules, which the constants lack.
    assert {one.key for one in lines} - known <= {
        "micro_batch_size",
        "tensor_parallelism",
        "pipeline_parallelism",
    }
    values = {one.key: one.value["value"] for one in lines}
    assert (values["submission_platform"], values["global_batch_size"]) == ("A100", 64)
    [window] = good["windows"]
    times_ms = {one.key: one.timestamp for one in lines}
    assert times_ms["block_start"] == round(1e3 * window["start_epoch_s"])
    assert times_ms["block_stop"] == round(1e3 * window["end_epoch_s"])
    assert not {"run_start", "run_stop", "eval_accuracy"} & values.keys()


def test_a_training_to_a_loss_is_a_whole_run_for_mlperfs_parser(tmp_path):
    parser = package("mlperf_logging.compliance_checker.mlp_parser", "mlperf-logging")
    good = result("A100", 1, 64, 1000.0)
    good["metrics"] |= {"time_to_loss_s": WINDOW_S, "target_loss": 3.0, "reached_loss": 2.9}
    assert write_mlperf_logs([Record.of(good)], tmp_path)
    lines, errors = parser.parse_file(next(tmp_path.rglob("*.txt")), ruleset="6.1.0")
    found = {one.key: one for one in lines}
    assert not errors and found["run_stop"].value["metadata"] == {"status": "success"}
    assert found["run_stop"].timestamp - found["run_start"].timestamp == pytest.approx(1e3 * WINDOW_S)


def test_ml_energys_toolkit_reads_servers_with_measured_energy_of_boards(tmp_path):
    records = package("mlenergy.data.records", "mlenergy-data")
    runs = [served(concurrency=4), served(concurrency=8, estimated=True), failed(benchmark="llm_inference")]
    runs += [served(concurrency=16) | {"choices": {"server": "vllm", "arrivals": "Poisson, 2 requests/s"}}, result()]
    idle = served(concurrency=32)
    idle["metrics"]["mean_in_flight"] = 16
    assert len(write_ml_energy([Record.of(one) for one in (*runs, idle)], tmp_path / "data")) == 2
    [run] = records.LLMRuns.from_directory(tmp_path / "data")
    assert (run.max_num_seqs, run.num_gpus, run.weight_precision) == (4, 1, "bf16")
    assert run.steady_state_duration_seconds == WINDOW_S
    assert run.steady_state_energy_joules == pytest.approx(100.0 * WINDOW_S)
    assert run.output_throughput_tokens_per_sec == pytest.approx(runs[0]["metrics"]["tokens_per_s"])
    assert run.energy_per_token_joules == pytest.approx(100.0 / run.output_throughput_tokens_per_sec)
    assert run.total_params_billions is None and run.p99_itl_ms is None
    [_, unstable] = records.LLMRuns.from_directory(tmp_path / "data", stable_only=False)
    assert (unstable.max_num_seqs, unstable.unstable_reason) == (32, "low_batch_utilization:0.500000")


def test_a_format_without_a_fitting_run_is_refused(tmp_path, capsys):
    store(tmp_path / "runs", [result()])
    assert export(tmp_path / "runs", "ml-energy", tmp_path / "data") == 2
    assert "has good runs of a server" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_reframes_logs_have_what_the_reader_of_excaliburs_tests_needs(tmp_path):
    # perflog_handler.py of ukri-excalibur/excalibur-tests at 2e5607d; it is in no package.
    runs = [result("A100", 2, 16, variant=["50 % of a=b"]), result("CPU", estimated=True)]
    store(tmp_path / "runs", [*runs, failed("B200"), failed("B300", status="unfinished")])
    assert export(tmp_path / "runs", "reframe", tmp_path / "logs") == 0
    [measured], [estimated] = (
        finding_columns(next((tmp_path / "logs" / one).rglob("*.log"))) for one in ("A100", "CPU")
    )
    assert {one.name for one in (tmp_path / "logs").iterdir()} == {"A100", "CPU", "B200"}
    [bad] = finding_columns(next((tmp_path / "logs" / "B200").rglob("*.log")))
    assert (bad["result"], bad["speed_value"], bad["efficiency_value"]) == ("fail", "null", "null")
    for needed in ("job_completion_time", r"\w+_value$", r"\w+_unit$", "display_name"):
        assert any(re.match(needed, column) for column in measured)
    test, *parameters = measured["display_name"].split(" %")
    values = dict(one.split("=") for one in parameters)
    assert (test, values["devices"], values["global_batch"]) == ("caraml", "2", "16")
    assert values["variant"].endswith("50 percent of a:b")
    assert float(measured["efficiency_value"]) > 0 and float(estimated["speed_value"]) > 0
    assert estimated["efficiency_value"] == "null"  # the log has no place for a label


def test_an_ro_crate_states_what_made_each_file_and_which_run_failed(tmp_path, capsys):
    reader = package("rocrate.rocrate", "rocrate")
    folder = tmp_path / "a sweep"
    store_run(folder / "good", result("A100"))
    (folder / "good" / "job.sh").write_text("true\n")
    store(folder, [failed("A100", 1, 128), failed("A100", 1, 256, status="unfinished")])
    assert export(folder, "ro-crate", tmp_path / "crate", "--licence", LICENCE) == 0
    assert capsys.readouterr().out.endswith("crate: 3 runs\n")
    crate = reader.ROCrate(tmp_path / "crate")
    assert crate.root_dataset["license"].id == LICENCE
    good, bad = sorted(crate.get_by_type("CreateAction"), key=lambda one: one["actionStatus"])
    assert good["actionStatus"].endswith("/CompletedActionStatus") and good.get("error") is None
    assert bad["actionStatus"].endswith("/FailedActionStatus") and bad["error"] == "the node burned"
    assert good["instrument"]["softwareVersion"] == "0123456789abcdef"
    made = {one.id for one in good["result"]}
    assert {name.rpartition("/")[2] for name in made} == {RESULT_NAME, "record.json", "trace.csv"}
    used = {one.id for one in good["object"]}
    assert "runs/a%20sweep/good/job.sh" in used and "workflow/include/systems.yaml" in used
    files = [one for one in crate.get_entities() if one.type == "File"]
    assert made | used <= {one.id for one in files}
    assert all(
        (tmp_path / "crate" / one.id.replace("%20", " ")).stat().st_size == int(one["contentSize"]) for one in files
    )
    assert "Person" not in (tmp_path / "crate" / "ro-crate-metadata.json").read_text()


def test_a_run_that_counts_nowhere_is_a_failed_action(tmp_path):
    store(tmp_path / "runs", [result(run_id="abc")])
    (tmp_path / "runs" / "wrong_records.yaml").write_text('abc: {reason: miscounted, date: 2026-12-01, version: "1.1"}')
    assert export(tmp_path / "runs", "ro-crate", tmp_path / "crate", "--licence", LICENCE) == 0
    graph = json.loads((tmp_path / "crate" / "ro-crate-metadata.json").read_text())["@graph"]
    [action] = [one for one in graph if one["@type"] == "CreateAction"]
    assert action["actionStatus"].endswith("/FailedActionStatus") and action["error"].endswith("miscounted")


def test_a_damaged_record_leaves_no_half_of_a_crate(tmp_path, capsys):
    store(tmp_path / "runs", [result()])
    (tmp_path / "runs" / "result.json").write_text("{")
    assert export(tmp_path / "runs", "ro-crate", tmp_path / "crate", "--licence", LICENCE) == 2
    assert "cannot be read as a record" in capsys.readouterr().err
    assert not (tmp_path / "crate").exists()


@pytest.mark.parametrize("form", ["reframe", "mlperf-log"])
def test_a_name_longer_than_that_of_a_file_is_cut(tmp_path, form):
    store(tmp_path / "runs", [result("long system" * 30, model="long model" * 30)])
    assert export(tmp_path / "runs", form, tmp_path / "out") == 0


@pytest.mark.parametrize(
    ("form", "more", "words"),
    [
        ("ro-crate", ("--licence", "CC-BY-4.0"), "--licence CC-BY-4.0 is no URL: give the licence's address"),
        ("ro-crate", (), "--licence URL and --format ro-crate need each other"),
        ("openmetrics", ("--licence", LICENCE), "need each other"),
        ("ro-crate", ("--licence", LICENCE), "it has content: name a new folder"),
    ],
)
def test_a_crate_needs_a_licence_and_a_new_folder(tmp_path, capsys, form, more, words):
    store(tmp_path / "runs", [result()])
    assert export(tmp_path / "runs", form, tmp_path, *more) == 2
    assert words in capsys.readouterr().err


def test_a_history_is_exported_in_the_same_formats(tmp_path):
    store(tmp_path / "runs", [result()])
    history = ["--db", str(tmp_path / "db")]
    assert main(["history", "add", str(tmp_path / "runs"), *history]) == 0
    assert main(["history", "export", *history, "--format", "openmetrics", "-o", str(tmp_path / "one")]) == 0
    assert export(tmp_path / "runs", "openmetrics", tmp_path / "other") == 0
    assert (tmp_path / "one").read_text() == (tmp_path / "other").read_text()
