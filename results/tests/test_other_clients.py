"""Results of other clients as records, from files that the programs themselves have written.

Each is of 64 requests of 32/24 tokens, 4 in flight, to the mock server of benchmarks/llm_inference with a TTFT of 50 ms
and a TPOT of 20 ms, and shortened; guidellm 0.8.1 has a run of 1 in flight before. vllm bench serve is 0.32.0, aiperf
0.13.0.
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


def test_without_a_limit_the_mean_number_in_flight_is_the_concurrency(read):
    vllm, aiperf = content("vllm_bench_serve"), content("aiperf")
    [record] = read(vllm | {"max_concurrency": None})
    assert record["layout"]["global_batch_size"] == 4
    del aiperf["input_config"]["phases"][0]["concurrency"]
    [record] = read(aiperf)
    assert record["layout"]["global_batch_size"] == 4


@pytest.mark.parametrize(
    "changed",
    [content("vllm_bench_serve") | {"failed": 3}, content("aiperf") | {"error_request_count": {"avg": 3.0}}],
    ids=["vllm", "aiperf"],
)
def test_a_run_with_failed_requests_has_failed(changed, read):
    [record] = read(changed)
    assert (record["status"], record["error"]) == ("failed", "3 requests failed")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no JSON", "cannot be read as JSON"),
        ({}, "is no result of vllm bench serve, aiperf, guidellm"),
        (content("vllm_bench_serve") | {"completed": 0}, "has no concurrency, requests, tokens or throughput"),
        (content("vllm_bench_serve") | {"max_concurrency": None, "latencies": []}, "has no concurrency, requests"),
        (content("vllm_bench_serve") | {"max_concurrency": None, "duration": 0}, "lacks a part that vllm bench serve"),
        ({"output_throughput": 1}, "lacks a part that vllm bench serve writes: KeyError('model_id')"),
        ({"output_token_throughput": 1, "input_config": []}, "lacks a part that aiperf writes"),
        ({"benchmarks": None}, "lacks a part that guidellm writes"),
        ({"benchmarks": []}, "holds no run of guidellm"),
    ],
)
def test_a_file_of_no_client_is_one_sentence(text, words, read, capsys):
    assert read(text) == []
    assert words in capsys.readouterr().err


def test_devices_are_1_or_more(read, capsys):
    assert read(FILES / "aiperf.json", "--devices", "0") == []
    assert "--devices 0: write 1 or more" in capsys.readouterr().err
