"""The workflows of servers under load, with a server of known schedule, and of node checks; with real JUBE."""

from __future__ import annotations

from pathlib import Path

import pytest

from caraml.cli import main
from tests.conftest import called, make_checkout, results, sweep

pytestmark = pytest.mark.long

SITE = "llm_inference_flags: --min-s 2 --min-requests 30\n"
MOCK = """

class Mock(LlamaCpp):
    def command(self, start):
        mock = f"-m benchmarks.llm_inference.tests.mock_server --port {start.port} --ttft-s 0.05 --tpot-s 0.01"
        return [sys.executable, *mock.split()]


SERVERS["xllamacpp"] = Mock()
"""


def with_mock(folder: Path) -> Path:
    """A checkout whose laptop server is the mock server."""
    checkout = make_checkout(folder / "caraml", site=SITE)
    with (checkout / "benchmarks" / "llm_inference" / "servers.py").open("a") as file:
        file.write(MOCK)
    return checkout


def test_a_sweep_has_a_row_for_each_load_and_its_archive_is_verified(tmp_path, jube_command, capsys):
    out = sweep(jube_command, with_mock(tmp_path), "CPU", "once", workflow="inference", CARAML_BATCHES="1 2")
    records = results(out)
    assert [(one["status"], one["layout"]["global_batch_size"]) for one in records] == [("ok", 1), ("ok", 2)]
    for record in records:
        energy, metrics = record["energy"], record["metrics"]
        per_token_j = energy["energy_wh"] * 3600 / metrics["measured_tokens"]
        assert energy["j_per_output_token"] == pytest.approx(per_token_j)
        assert metrics["ttft_p50_s"] > 0.05
    done = called(jube_command, "result", out, "-i", "last", "-a")
    rows = [line.split("|") for line in done.stdout.splitlines() if " tiny " in line]
    assert [tuple(row[index].strip() for index in (2, 3, -2)) for row in rows] == [("1", "1", "ok"), ("1", "2", "ok")]
    assert main(["archive", str(out), "-o", str(tmp_path / "a.zip")]) == 0
    assert main(["verify", str(tmp_path / "a.zip")]) == 0, capsys.readouterr()


@pytest.mark.parametrize(
    "server", ["vllm", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sglang", "trtllm"))]
)
def test_a_server_runs_in_its_own_image(server, jube_command, capsys):
    tags = ["once", "speculative", *([server] if server != "vllm" else [])]
    assert main(["job", "H200", "inference", *tags]) == 0
    job = capsys.readouterr().out
    assert f'"{server}-nvidia-x86_64"' in job
    assert f" --server {server} " in job
    assert " --draft-tokens 3 " in job


SMALL = "--size 64 --products-per-step 64 --array-mb 4 --largest-message-mb 1 --figure-s 0.2 --min-measured-s 1"


@pytest.mark.slow
def test_a_check_has_a_row_a_verdict_and_an_archive(tmp_path, jube_command, capsys):
    checkout = make_checkout(tmp_path / "caraml", site=f"node_check_flags: {SMALL}\n")
    out = sweep(jube_command, checkout, "CPU", workflow="node_check")
    [record] = results(out)
    assert (record["status"], record["error"], record["layout"]["num_devices"]) == ("ok", "", 2)
    done = called(jube_command, "result", out, "-i", "last", "-a")
    [row] = [line.split("|") for line in done.stdout.splitlines() if " matrices of 64 " in line]
    assert (row[2].strip(), row[4].strip(), row[-2].strip()) == ("2", "products", "ok")
    assert float(row[5]) == pytest.approx(record["metrics"]["products_per_s"], rel=1e-3)
    # Which of them is slow depends on the machine.
    assert main(["check-nodes", str(out), "--baseline", str(out)]) in (0, 1, 3)
    assert main(["check-nodes", str(out), "--baseline", str(out), "--threshold", "1"]) == 0
    assert main(["archive", str(out), "-o", str(tmp_path / "a.zip")]) == 0
    assert main(["verify", str(tmp_path / "a.zip")]) == 0, capsys.readouterr()
