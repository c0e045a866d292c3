"""Comparison with other clients, by a program in their place that writes a file of theirs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.common.options import ConfigError
from benchmarks.llm_inference.tests import bench

FILES = Path(__file__).parent / "of_others"


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Make a program that runs some lines of Python."""
    monkeypatch.setattr(bench, "TTFT_S", 0.02)
    monkeypatch.setattr(bench, "TPOT_S", 0.002)

    def make(lines):
        program = tmp_path / "vllm"
        program.write_text(f"#!{sys.executable}\nimport json, sys\nfrom pathlib import Path\n{lines}\n")
        program.chmod(0o755)
        return str(program)

    return make


ONCE = bench.BenchOptions(runs=1)


def write(**changes):
    content = json.dumps(json.loads((FILES / "vllm_bench_serve.json").read_text()) | changes)
    return (
        "flags = dict(zip(sys.argv[3:], sys.argv[4:]))\n"
        "requests = Path(flags['--dataset-path']).read_text().splitlines()\n"
        "assert len(requests) == int(flags['--num-prompts'])\n"
        "assert Path(flags['--tokenizer'], 'tokenizer.json').exists()\n"
        f"Path(flags['--result-dir'], flags['--result-filename']).write_text({content!r})"
    )


def test_the_medians_of_both_clients_are_compared(stand_in, capsys):
    bench.compare(ONCE, "vllm", stand_in(write(median_ttft_ms=9000.0, p99_ttft_ms=9000.0)))
    *_, ttft, tpot = capsys.readouterr().out.splitlines()  # a slow machine prints progress before
    assert "vllm bench serve 9000.00 ms" in ttft
    assert ttft.endswith("more than 3 % and the ranges do not overlap")
    assert "vllm bench serve 20.01 ms" in tpot


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("sys.exit('no such model')", "vllm bench serve, has failed: no such model"),
        (write(failed=4), "counted 1536 tokens; 4 requests failed"),
        (write(total_output_tokens=421, output_throughput=50.66), "counted 421 tokens"),
    ],
)
def test_a_run_of_theirs_that_failed_is_one_sentence(lines, words, stand_in):
    with pytest.raises(ConfigError, match=words):
        bench.compare(ONCE, "vllm", stand_in(lines))


def test_aiperf_is_compared_by_the_file_in_its_folder(stand_in, capsys):
    content = (FILES / "aiperf.json").read_text()
    lines = (
        "folder = Path(sys.argv[sys.argv.index('--artifact-dir') + 1])\n"
        f"folder.mkdir(exist_ok=True), (folder / 'profile_export_aiperf.json').write_text({content!r})"
    )
    bench.compare(ONCE, "aiperf", stand_in(lines))
    assert capsys.readouterr().out.count("aiperf") == 2


def test_the_start_of_a_client_is_no_cost_of_its_tokens(monkeypatch):

    def theirs(kind, program, asked):
        return {"cpu": 9.0 + 1e-4 * asked.requests * asked.output}

    monkeypatch.setattr(bench, "theirs", theirs)
    assert bench.cost("aiperf", "aiperf") == pytest.approx(1e-4)


def test_errors_are_those_against_the_schedule(monkeypatch):
    monkeypatch.setattr(bench, "measured", lambda *_: {"ttft_p50_s": 0.202, "tpot_p50_s": 0.05, "tokens_per_s": 32.0})
    found = bench.errors(2)
    assert found["ttft_p50_s"] == pytest.approx(1.0)
    assert found["tpot_p50_s"] == pytest.approx(0.0)
    assert found["tokens_per_s"] == pytest.approx(100 * (32 * 1.75 / 64 - 1))  # 0.2 s and 31 steps of 0.05 s
