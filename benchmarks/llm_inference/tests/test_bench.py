"""Comparison with `vllm bench serve`, by a program in its place that writes a file of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.common.options import ConfigError
from benchmarks.llm_inference.tests import bench

FILE = Path(__file__).parents[3] / "results/tests/of_others/vllm_bench_serve.json"


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Make a program vllm that runs some lines of Python; return the options."""
    monkeypatch.setattr(bench, "TTFT_S", 0.02)
    monkeypatch.setattr(bench, "TPOT_S", 0.002)

    def make(lines):
        program = tmp_path / "vllm"
        program.write_text(f"#!{sys.executable}\nimport json, sys\nfrom pathlib import Path\n{lines}\n")
        program.chmod(0o755)
        return bench.BenchOptions(vllm=str(program), runs=1)

    return make


def write(**changes):
    content = json.dumps(json.loads(FILE.read_text()) | changes)
    return (
        "flags = dict(zip(sys.argv[3:], sys.argv[4:]))\n"
        "requests = Path(flags['--dataset-path']).read_text().splitlines()\n"
        "assert len(requests) == int(flags['--num-prompts'])\n"
        "assert Path(flags['--tokenizer'], 'tokenizer.json').exists()\n"
        f"Path(flags['--result-dir'], flags['--result-filename']).write_text({content!r})"
    )


def test_the_medians_of_both_clients_are_compared(stand_in, capsys):
    bench.compare(stand_in(write(median_ttft_ms=9000.0, p99_ttft_ms=9000.0)), "vllm")
    *_, ttft, tpot = capsys.readouterr().out.splitlines()  # a slow machine prints progress before
    assert "vllm bench serve 9000.00 ms" in ttft
    assert ttft.endswith("more than 3 % and the ranges do not overlap")
    assert "vllm bench serve 20.01 ms" in tpot


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("sys.exit('no such model')", "bench serve has failed: no such model"),
        (write(failed=4), "counted 1536 tokens; 4 requests failed"),
        (write(total_output_tokens=421, output_throughput=50.66), "counted 421 tokens"),
    ],
)
def test_a_run_of_theirs_that_failed_is_one_sentence(lines, words, stand_in):
    with pytest.raises(ConfigError, match=words):
        bench.compare(stand_in(lines))


def test_without_vllm_the_comparison_is_left_out(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nowhere")
    bench.compare(bench.BenchOptions())
    assert "give --vllm PATH" in capsys.readouterr().out
