"""Results of other clients as records, from files that the programs themselves have written, or after their sources.

Each is of 64 requests of 32/24 tokens, 4 in flight, to the mock server of benchmarks/llm_inference with a TTFT of 50 ms
and a TPOT of 20 ms, and shortened; guidellm 0.8.1 has a run of 1 in flight before. vllm bench serve is 0.32.0, aiperf
0.13.0. Files of other versions, and of SGLang's bench_serving, are made of these figures.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from caraml.cli import main
from results.tests.of_dicts import by_point, find_records
from results.tests.words import deviations, why_left_out

FILES = Path(__file__).with_name("of_others")
CLIENTS = {"vllm bench serve": "vllm_bench_serve", "aiperf": "aiperf", "guidellm": "guidellm"}
TTFT_S, TPOT_S, REQUESTS, OUTPUT = 0.05, 0.02, 64, 24


def content(name):
    return json.loads((FILES / f"{name}.json").read_text())


@pytest.fixture
def read(tmp_path):
    """Read a file, or what it shall hold; return the records, those of less concurrency first."""

    def read(file, *flags):
        if not isinstance(file, Path):
            file, text = tmp_path / "theirs.json", file if isinstance(file, str) else json.dumps(file)
            file.write_text(text)
        code = main(["read-bench", str(file), "--system", "A100", "-o", str(tmp_path / "records"), *flags])
        records = find_records([tmp_path / "records"]).records if code == 0 else []
        return sorted(records, key=lambda record: record["layout"]["global_batch_size"])

    return read


@pytest.mark.parametrize("client", CLIENTS)
def test_their_figures_are_of_the_schedule_by_meaning(client, read):
    *_, record = read(FILES / f"{CLIENTS[client]}.json")
    metrics, e2e_s = record["metrics"], TTFT_S + (OUTPUT - 1) * TPOT_S
    assert (record["status"], record["model"], record["sample"]) == ("ok", "model", "32/24 tokens")
    assert record["layout"]["global_batch_size"] == 4
    # A client's own delay is in its times: 1 to 5 ms at the first tokens of four requests that start together.
    assert TTFT_S < metrics["ttft_p50_s"] < metrics["ttft_p99_s"]
    assert metrics["ttft_p50_s"] == pytest.approx(TTFT_S, rel=0.1)
    assert metrics["tpot_p50_s"] == pytest.approx(TPOT_S, rel=0.003)
    assert metrics["tokens_per_s_per_user"] == pytest.approx(1 / TPOT_S, rel=0.003)
    assert metrics.get("e2e_p50_s", e2e_s) == pytest.approx(e2e_s, rel=0.02)
    assert metrics["measured_tokens"] == REQUESTS * OUTPUT
    assert metrics["input_tokens"] == REQUESTS * 32
    assert metrics["tokens_per_s"] == pytest.approx(4 * OUTPUT / e2e_s, rel=0.05)
    assert metrics["tokens_per_s"] * metrics["measured_s"] == pytest.approx(REQUESTS * OUTPUT)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_record_says_whose_definitions_it_has_and_is_never_ranked(client, read, tmp_path, capsys):
    *_, record = read(FILES / f"{CLIENTS[client]}.json", "--server", "vllm", "--devices", "2")
    assert record["serving"]["defined_by"] == client
    assert record["metrics"]["tokens_per_s_per_device"] == record["metrics"]["tokens_per_s"] / 2
    [point] = by_point([record])
    assert client in why_left_out(point)
    assert any(f"by the definitions of {client}" in words for words in deviations(point))
    capsys.readouterr()
    assert main(["table", str(tmp_path / "records")]) == 0
    assert f"vllm, by {client}" in capsys.readouterr().out
    assert main(["table", "--repeats", str(tmp_path / "records")]) == 0
    assert "keep the limits" not in capsys.readouterr().out


def test_each_run_of_a_file_is_a_record(read):
    records = read(FILES / "guidellm.json")
    assert [record["layout"]["global_batch_size"] for record in records] == [1, 4]
    assert len({record["run_id"] for record in records}) == 2


def test_names_that_mislead_are_not_followed():
    [_, run] = content("guidellm")["benchmarks"]
    theirs_ms = run["metrics"]["time_per_output_token_ms"]["successful"]["percentiles"]["p50"]
    assert theirs_ms == pytest.approx(1e3 * (TTFT_S + (OUTPUT - 1) * TPOT_S) / OUTPUT, rel=0.01)  # with the first token


VLLM, AIPERF, GUIDELLM = map(content, CLIENTS.values())
LATENCIES = ("time_to_first_token", "inter_token_latency", "request_latency")


def without(found, *keys):
    return {key: value for key, value in found.items() if key not in keys}


def as_sglang(**changes):
    """A line of SGLang's bench_serving, from its documentation: no model and no failures; with details, errors."""
    line = {"backend": "sglang", "dataset_name": "random", "request_rate": float("inf"), "max_concurrency": None}
    line |= {"total_output_tokens_retokenized": 1530, "concurrency": 3.96, "accept_length": None}
    same = ("duration", "completed", "total_input_tokens", "total_output_tokens", "output_throughput")
    line |= {key: VLLM[key] for key in same}
    line |= {key: value for key, value in VLLM.items() if key.endswith(("ttft_ms", "tpot_ms"))}
    return line | {"mean_e2e_latency_ms": 514.0, "median_e2e_latency_ms": 513.6, "p99_e2e_latency_ms": 516.6} | changes


def as_aiperf(version, **changes):
    """A file of an older aiperf: settings by group; in the first versions metrics are nested, and times in ns."""
    metrics = {key: value for key, value in AIPERF.items() if isinstance(value, dict) and "unit" in value}
    metrics = without(metrics, "effective_concurrency", "request_error_rate", "completed_request_count")
    status = {"was_cancelled": False, "error_summary": [], "error_request_count": None}
    asked = {"endpoint": {"model_names": ["model"]}, "loadgen": {"concurrency": 4, "request_count": 64}}
    if version < "0.2":
        for name in LATENCIES:
            times = {key: 1e6 * value for key, value in metrics[name].items() if key != "unit"}
            metrics[name] = {**times, "unit": "ns"}
        return {"input_config": asked, "records": metrics, "errors_by_type": [], **status, **changes}
    if version < "0.3":
        metrics = without(metrics, "total_isl", "total_osl")
    return {**metrics, "input_config": asked, **status, **changes}


def as_guidellm(version, run=GUIDELLM["benchmarks"][1], **changes):
    """A file of an older guidellm, whose settings and totals were elsewhere."""
    strategy = run["config"]["strategy"]
    run = {**without(run, "config"), "metrics": without(run["metrics"], "request_totals")}
    run["request_totals"] = GUIDELLM["benchmarks"][1]["metrics"]["request_totals"] | changes
    if version == "0.2":
        run |= {"args": {"strategy": strategy}, "worker": {"backend_model": "model"}}
        run = without(run, "duration")
    else:
        run |= {"scheduler": {"strategy": strategy}, "benchmarker": {"backend": {"model": "model"}}}
    return {"benchmarks": [run]}


def changed(found, name, **values):
    """A file with other values of one metric of aiperf."""
    return found | {name: (found.get(name) or {}) | values}


@pytest.mark.parametrize(
    ("file", "model"),
    [
        (without(VLLM, "failed"), "model"),
        (without(VLLM, "failed", "latencies", "label", "endpoint_type"), "model"),
        (without(VLLM, "max_concurrency"), "model"),
        (VLLM | {"max_concurrency": None}, "model"),
        (without(VLLM, "max_concurrency", "latencies"), "model"),
        (VLLM | {"max_concurrency": None, "latencies": [], "mean_e2el_ms": 514.0}, "model"),
        (as_sglang(), "unknown"),
        (as_sglang(max_concurrency=4), "unknown"),
        (as_sglang(max_concurrency=4, server_info={"model_path": "model"}), "model"),
        (as_aiperf("0.1"), "model"),
        (as_aiperf("0.2"), "model"),
        (as_aiperf("0.9"), "model"),
        (as_aiperf("0.9", input_config={"endpoint": {"model_names": ["model"]}}), "model"),
        (as_guidellm("0.2"), "model"),
        (as_guidellm("0.3"), "model"),
        (as_guidellm("0.3", incomplete=3), "model"),
    ],
)
def test_older_and_newer_files_give_the_same_figures(file, model, read):
    [record] = read(file)
    metrics = record["metrics"]
    assert (record["status"], record["model"], record["sample"]) == ("ok", model, "32/24 tokens")
    assert record["layout"]["global_batch_size"] == 4
    assert (metrics["measured_tokens"], metrics["input_tokens"]) == (REQUESTS * OUTPUT, REQUESTS * 32)
    assert metrics["ttft_p50_s"] == pytest.approx(TTFT_S, rel=0.1)
    assert metrics["tpot_p50_s"] == pytest.approx(TPOT_S, rel=0.003)
    assert metrics["tokens_per_s"] == pytest.approx(183, rel=0.02)


def test_a_file_of_windows_may_begin_with_a_mark(read):
    assert len(read("\ufeff" + json.dumps(VLLM))) == 1


@pytest.mark.parametrize("between", ["\n", "", "\n\n"])
@pytest.mark.parametrize(("make", "client"), [(dict, "vllm bench serve"), (as_sglang, "SGLang bench_serving")])
def test_each_run_that_was_appended_is_a_record(make, client, between, read):
    one, other = (VLLM if make is dict else {}) | {"max_concurrency": 4}, {"max_concurrency": 8, "median_ttft_ms": 54.5}
    runs = [json.dumps(make(**one)), json.dumps(make(**{**one, **other}))]
    records = read(between.join(runs) + between)
    assert [record["layout"]["global_batch_size"] for record in records] == [4, 8]
    assert {record["serving"]["defined_by"] for record in records} == {client}
    assert len({record["run_id"] for record in records}) == 2


def test_a_run_has_one_id_in_every_file(read):
    [record] = read(VLLM)
    first, second = read(
        "\n".join([json.dumps(VLLM), json.dumps(VLLM | {"max_concurrency": 8, "median_ttft_ms": 54.5})])
    )
    assert record["run_id"] == first["run_id"] != second["run_id"]


def test_failures_that_a_file_does_not_state_are_a_remark(read):
    def kinds(file):
        [record] = read(file)
        return [one["kind"] for one in record["serving"]["findings"]]

    assert kinds(as_sglang()) == ["other_client", "failures_unknown"]
    assert kinds(as_sglang(errors=[""] * REQUESTS)) == ["other_client"]
    assert kinds(without(VLLM, "failed", "num_prompts")) == ["other_client", "failures_unknown"]
    assert kinds(without(VLLM, "failed")) == ["other_client"]


IN_ONE_PIECE = "answers came in one piece, so that no token has its own time"
MANY = {"endpoint": {"model_names": ["model"]}, "loadgen": {"concurrency": 40}}
ERRORS = [{"error_details": {"code": 500}, "count": 2}, {"error_details": {"code": 499}, "count": 1}]


@pytest.mark.parametrize(
    ("file", "error"),
    [
        (VLLM | {"failed": 3}, "3 requests failed"),
        (without(VLLM, "failed") | {"num_prompts": 67}, "3 requests failed"),
        (VLLM | {"failed": 0, "num_prompts": 67}, "3 requests failed"),
        (VLLM | {"failed": 0, "errors": ["", "lost", "lost", "lost"]}, "3 requests failed"),
        (without(VLLM, "failed") | {"errors": ["", "lost", "lost", "lost"]}, "3 requests failed"),
        (as_sglang(errors=["", "lost", "lost", "lost"]), "3 requests failed"),
        (AIPERF | {"error_request_count": {"avg": 3.0}}, "3 requests failed"),
        (as_aiperf("0.9", error_summary=ERRORS), "3 requests failed"),
        (as_aiperf("0.1", error_summary=None, errors_by_type=ERRORS), "3 requests failed"),
        (as_aiperf("0.9", was_cancelled=True), "the run was cancelled before its end"),
        (
            as_aiperf("0.2", execution_metadata={"was_cancelled": True, "error_summary": ERRORS}),
            "the run was cancelled before its end; 3 requests failed",
        ),
        (AIPERF | {"is_complete": False}, "the run was cancelled before its end"),
        (
            as_aiperf("0.9", was_cancelled=True, error_summary=ERRORS),
            "the run was cancelled before its end; 3 requests failed",
        ),
        (as_guidellm("0.2", errored=3), "3 requests failed"),
        (VLLM | {"max_concurrency": 40}, "64 requests in the window, at least 80 wanted: measure longer"),
        (as_aiperf("0.9", input_config=MANY), "64 requests in the window, at least 80 wanted: measure longer"),
        (as_sglang(median_tpot_ms=0.09), f"{IN_ONE_PIECE}: look for a proxy that holds them back"),
        (
            as_sglang(mean_e2e_latency_ms=2e3, median_e2e_latency_ms=2e3, p99_e2e_latency_ms=2e3),
            "the window of 8.3 s is below 5 times that of a request, 2.0 s",
        ),
    ],
)
def test_a_run_that_would_not_count_if_it_were_our_own_has_failed(file, error, read):
    [record] = read(file)
    assert (record["status"], record["error"]) == ("failed", error)


NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("no JSON", "cannot be read as JSON"),
        (json.dumps(VLLM) + '\n{"date": ', "cannot be read as JSON"),
        ("", "holds no run"),
        ({}, "is no result of SGLang bench_serving, vllm bench serve, aiperf, guidellm"),
        ([], "is no result of"),
        (json.dumps(VLLM) + "\n{}", "is no result of"),
        ({"output_throughput": 1}, "lacks a part that vllm bench serve writes: KeyError('completed')"),
        ({"input_config": []}, "lacks a part that aiperf writes"),
        ({"benchmarks": None}, "lacks a part that guidellm writes"),
        ({"benchmarks": []}, "holds no run"),
        (VLLM | {"completed": 0}, "has no requests, tokens, throughput"),
        (VLLM | {"duration": 0}, "has no requests, tokens, throughput"),
        (VLLM | {"duration": None}, "has no requests, tokens, throughput"),
        (VLLM | {"output_throughput": NAN}, "has no requests, tokens, throughput"),
        (VLLM | {"total_output_tokens": -1536}, "has no requests, tokens, throughput"),
        (VLLM | {"completed": "64"}, "lacks a part that vllm bench serve writes"),
        (VLLM | {"completed": -64}, "has no requests, tokens, throughput"),
        (VLLM | {"failed": -1}, "failed -1: it must be a number of 0 or more"),
        (without(VLLM, "failed") | {"num_prompts": 60}, "failed -4: it must be a number of 0 or more"),
        (VLLM | {"num_prompts": 60}, "failed -4: it must be a number of 0 or more"),
        (VLLM | {"request_throughput": 15.4}, "15.4 requests/s, but 64 requests in 8.31 s"),
        (changed(AIPERF, "request_throughput", avg=15.0), "15 requests/s, but 64 requests"),
        (VLLM | {"total_input_tokens": NAN}, "input_tokens nan: it must be"),
        (VLLM | {"max_concurrency": -4}, "concurrency -4: it must be"),
        (VLLM | {"median_ttft_ms": -1.0}, "a ttft of -1.0 as median: it must be"),
        (VLLM | {"p99_tpot_ms": NAN}, "a tpot of nan as p99: it must be"),
        (VLLM | {"p99_ttft_ms": INFINITE}, "a ttft of inf as p99: it must be"),
        (VLLM | {"median_tpot_ms": "20"}, "a tpot of '20' as p50: it must be"),
        (VLLM | {"mean_ttft_ms": -1.0}, "a ttft of -1.0 as mean: it must be"),
        (changed(AIPERF, "inter_token_latency", min=-1.0), "a tpot of -1.0 as min: it must be"),
        (VLLM | {"p99_ttft_ms": 50.0}, "percentiles of its ttft that fall: 0.0544013 s, 0.05 s"),
        (VLLM | {"p90_tpot_ms": 30.0}, "percentiles of its tpot that fall"),
        (VLLM | {"median_tpot_ms": 0.0}, "a tpot of 0 s"),
        (VLLM | {"median_ttft_ms": 0.0}, "a ttft of 0 s"),
        (VLLM | {"output_throughput": 369.7}, "369.7 tokens/s, but 1536 tokens in 8.31 s"),
        (VLLM | {"duration": 4.0}, "tokens/s, but 1536 tokens in 4 s"),
        (VLLM | {"max_concurrency": 2}, "4 requests in flight by its times (Little's law), but a limit of 2"),
        (as_sglang(median_ttft_ms=600.0, p99_ttft_ms=700.0), "a ttft at p50 above the time of the whole request"),
        (as_sglang(p99_e2e_latency_ms=500.0), "percentiles of its e2e that fall"),
        (as_sglang(output_throughput=369.7), "369.7 tokens/s, but 1536 tokens"),
        (as_sglang(mean_tpot_ms=0.0, median_tpot_ms=-0.001), "a tpot of -0.001 as median: it must be"),
        (changed(AIPERF, "time_to_first_token", p50=-5.0), "a ttft of -5.0 as p50: it must be"),
        (changed(AIPERF, "request_latency", p99=500.0), "percentiles of its e2e that fall"),
        (changed(AIPERF, "request_latency", unit="fortnights"), "lacks a part that aiperf writes"),
        (changed(AIPERF, "benchmark_duration", avg=4.2), "tokens/s, but 1536 tokens in 4.2 s"),
        (as_aiperf("0.9", request_count=None), "has no requests, tokens, throughput"),
        (as_aiperf("0.9", output_token_throughput=None), "has no requests, tokens, throughput"),
        (as_aiperf("0.9", request_count={"unit": "requests", "avg": -64.0}), "has no requests, tokens"),
        (as_guidellm("0.2", errored=-1), "failed -1: it must be"),
        (as_guidellm("0.3", successful=0), "has no requests, tokens, throughput"),
    ],
)
def test_a_file_that_is_none_or_contradicts_itself_is_refused_in_one_sentence(file, words, read, capsys):
    assert read(file) == []
    message = capsys.readouterr().err
    assert words in message
    assert message.count("\n") == 1


def test_guidellm_of_twice_the_tokens_per_s_is_refused(read, capsys):
    found = content("guidellm")
    found["benchmarks"][1]["metrics"]["output_tokens_per_second"]["successful"]["mean"] *= 2
    assert read(found) == []
    assert "tokens/s, but 1536 tokens" in capsys.readouterr().err


def test_devices_are_1_or_more(read, capsys):
    assert read(FILES / "aiperf.json", "--devices", "0") == []
    assert "--devices 0: write 1 or more" in capsys.readouterr().err
