"""Records of servers under load: their table, their rules, and requirements on latency and energy per token."""

from __future__ import annotations

import json

import pytest

from caraml.cli import main
from record.demand import made_trace
from record.derivation import derive
from record.findings import finding
from record.model import Record
from record.part import changed
from results.collect import collect
from results.find.records import RESULT_NAME, RecordError, find_records, read_checked, write_record
from results.load import with_bandwidth
from results.points.estimate import Outcome
from results.predict import groups_of
from results.show.plots.charts import styles_of_systems
from results.show.plots.workload import charts_of
from results.show.tables.table import point_table, within_limits
from results.tests.builder import needs, result, served, store, verdicts
from results.tests.of_dicts import by_point, contradictions, record_table
from results.verdicts.quality import deviations

CHAT = "workloads: {chat: {benchmark: llm_inference}}\n"


# Llama 2 7B in half precision at 14 ms per token: half of the 2 TB/s of an A100 (Databricks, LLM inference performance
# engineering, 2023). The cache of its 1,024 bytes per token, as here, adds little.
READ = {"step_weights_bytes": 14e9, "token_cache_bytes": 1024}


def test_decode_uses_the_bandwidth_that_others_computed():
    record = derive(Record.of(served("HGX-A100", concurrency=1, tpot_s=0.014)))
    found = with_bandwidth(changed(record, metrics=changed(record.metrics, **READ)), "HGX-A100")
    tokens_per_s = record.metrics.number("tokens_per_s")
    read_per_s = 14e9 / 0.014 + tokens_per_s * 1024 * (300 + 50)
    assert found.metrics.number("memory_bandwidth_percent") == pytest.approx(100 * read_per_s / 2039e9)
    assert 49 < 100 * read_per_s / 2039e9 < 50


@pytest.mark.parametrize(
    ("system", "changes"),
    [
        ("elsewhere", {}),
        ("HGX-A100", {"status": "failed"}),
        ("HGX-A100", {"config": {"load": {"length_sigma": 0.5}}}),
        ("HGX-A100", {"metrics": {"tpot_p50_s": 0.014}}),
    ],
)
def test_bandwidth_that_nobody_can_compute_is_missing(system, changes):
    record = served(system, tpot_s=0.014)
    record = derive(Record.of(record | {"metrics": record["metrics"] | READ} | changes))
    found = with_bandwidth(record, system)
    assert "memory_bandwidth_percent" not in vars(found.metrics)


@pytest.mark.parametrize(
    ("trace", "seed", "digest", "is_good"),
    [
        ("small", 1234, made_trace("small", 1234)[0], True),
        ("small", 1234, made_trace("small", 1235)[0], False),
        ("large", 1, made_trace("small", 1)[0], False),
        ("mine/small", 1, "0" * 12, True),  # a file, which is not here
    ],
)
def test_made_conversations_are_made_again_from_their_seed(trace, seed, digest, is_good):
    record = served()
    record["config"]["load"] = {"trace": trace, "seed": seed, "idle_limit_s": 300.0}
    record["sample"] = f"conversations of {trace.rpartition('/')[2]}, SHA-256 {digest}"
    record["config"] |= {"load": record["config"]["load"] | {"rate_per_s": 0.0}, "serve": {"server": "xllamacpp"}}
    assert (derive(Record.of(record)).sample == record["sample"]) is is_good


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"ttft_p50_low_s": 0.5, "ttft_p50_high_s": None}, ""),
        ({"ttft_p50_s": 2.5}, "metrics.ttft_p50_s is 2.5, more than the"),
    ],
)
def test_values_of_a_server_that_contradict_each_other_are_found(values, words):
    record = served()
    record["metrics"] |= values
    found = contradictions(record)
    assert any(words in one for one in found) if words else found == [], found


def test_a_run_is_known_by_its_latencies_though_its_window_was_moved(tmp_path):
    record = served(run_id="one")
    moved = {**record, "run_id": "two", "windows": [{**record["windows"][0], "boot_id": "another boot"}]}
    for number, one in enumerate((record, moved, served(ttft_s=0.51))):
        (tmp_path / "copies" / str(number)).mkdir(parents=True)
        write_record(one, tmp_path / "copies" / str(number) / RESULT_NAME)
    with pytest.raises(RecordError, match="are records of one run with different content"):
        find_records([tmp_path / "copies"])
    (tmp_path / "copies" / "1" / RESULT_NAME).unlink()
    assert len(find_records([tmp_path / "copies"]).records) == 2


def test_a_server_elsewhere_has_no_energy_and_any_other_must_have_one(tmp_path):
    record = served()
    record["serving"]["elsewhere"] = "gpu-7"
    del record["energy"]
    write_record(record, tmp_path / "record.json")
    again = collect(tmp_path)
    assert (again["status"], "energy" in again) == ("ok", False)
    write_record(again, tmp_path / RESULT_NAME)
    assert contradictions(read_checked(tmp_path / RESULT_NAME)) == []
    [point] = by_point([again])
    assert point.value("metrics.ttft_p99_s") == 0.5
    assert not any("energy" in str(one) for one in deviations(point))
    again["serving"]["elsewhere"] = ""
    assert "it has no energy" in contradictions(again)[0]


def test_servers_have_a_table_of_their_own():
    records = [served(concurrency=4), served(concurrency=8)]
    assert [one.title for one in record_table(records).columns][:2] == ["system", "server"]
    header, first, *_ = record_table(records).filled().texts()
    assert dict(zip(header, first, strict=True))["TTFT p99 [s]"] == "0.5000"
    assert "server" not in [one.title for one in record_table([*records, result()]).columns]
    points = by_point(records)
    header, *_ = point_table(points).filled().texts()
    assert "J/output token" in header


def test_the_most_load_within_the_limits_is_told():
    records = [served(concurrency=4), served(concurrency=8, ttft_s=1.9), served(concurrency=16, ttft_s=2.1)]
    [words] = within_limits(by_point(records))
    assert words.endswith("up to 8 requests in flight keep the limits of made up (TTFT p99 2 s, TPOT p99 0.1 s)")
    assert "none of its loads keep" in within_limits(by_point(records[2:]))[0]


def test_servers_are_drawn_and_training_is_not():
    records = [served(concurrency=4), served(concurrency=8, ttft_s=1.0), served("H100", power_w=300.0)]
    points = by_point(records)
    charts = {chart.name: chart for chart in charts_of(points, styles_of_systems(points))}
    assert list(charts)[:3] == ["serving_pareto", "serving_energy", "serving_limit"]
    assert "limit of made up" in charts["serving_limit"].svg()
    assert "beyond their limits" not in charts["serving_pareto"].title
    assert not any(chart.name.startswith("serving") for chart in charts_of(by_point([result()]), {}))
    assert groups_of(points) == []


def test_what_limits_a_run_is_in_its_deviations_and_steps_are_not_asked_for():
    [point] = by_point([served(findings=[{"kind": "lock_step", "values": {"share": 0.5}}])])
    found = deviations(point)
    assert finding("lock_step", share=0.5) in found
    assert not {"few_steps", "outliers"} & {one.kind for one in found}


@pytest.mark.parametrize(
    ("requirement", "outcome"),
    [
        ("{of: chat, what: ttft_p99, global_batch: 4, at_most: 2.0}", Outcome.PASSED),
        ("{of: chat, what: tpot_p99, global_batch: 4, at_most: 0.01}", Outcome.FAILED),
        ("{of: chat, what: goodput, at_least: 1.5}", Outcome.PASSED),
        ("{of: chat, what: energy_per_token, at_most: 1.0}", Outcome.PASSED),
        ("{of: chat, what: throughput, within_limits: true, at_least: 200}", Outcome.FAILED),
        ("{of: chat, what: throughput, within_limits: true, at_least: 150}", Outcome.PASSED),
    ],
)
def test_requirements_on_servers_are_judged(requirement, outcome, tmp_path):
    records = [
        served(concurrency=streams, ttft_s=ttft_s * (1 + 0.001 * run))
        for streams, ttft_s in ((4, 0.5), (16, 2.5))
        for run in range(3)
    ]
    [verdict] = verdicts(tmp_path, records, f"{CHAT}must: [{requirement}]")
    assert verdict.outcome == outcome, verdict


@pytest.mark.parametrize(
    ("highs_s", "at_most", "outcome", "why"),
    [
        ((1.95, 1.9, 1.95), 2.0, Outcome.PASSED, ""),
        ((2.6, 2.6, 2.6), 2.0, Outcome.UNDECIDED, "the limit is within the interval, 1.683 to 2.600"),
        ((1.95, None, 1.95), 2.0, Outcome.UNDECIDED, "requests do not bound the 99th percentiles from above"),
        ((None, None, None), "1.500", Outcome.FAILED, ""),
    ],
)
def test_a_limit_of_a_percentile_is_met_by_the_interval_of_each_run(highs_s, at_most, outcome, why, tmp_path, capsys):
    text = f"{CHAT}must: [{{of: chat, what: ttft_p99, global_batch: 4, at_most: {at_most}}}]"
    records = [served(ttft_s=1.7 + 0.001 * run) for run in range(3)]
    for record, high_s in zip(records, highs_s, strict=True):
        record["metrics"]["ttft_p99_high_s"] = high_s
    [verdict] = verdicts(tmp_path, records, text)
    assert (verdict.outcome, bool(verdict.reason)) == (outcome, bool(why))
    assert why in verdict.reason
    runs = store(tmp_path / "runs", records)
    main(["accept", str(runs), "--requirements", str(tmp_path / "requirements.yaml"), "--json"])
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


def test_a_latency_without_its_load_is_refused(tmp_path):
    """At one request in flight any server would pass."""
    with pytest.raises(RecordError, match="must 1: a ttft_p99 is of one load: give its requests in flight"):
        needs(tmp_path, f"{CHAT}must: [{{of: chat, what: ttft_p99, at_most: 2}}]")
