"""The program as a user starts it: alone, and with torchrun."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from benchmarks.common.spawn import free_ports
from benchmarks.common.tests.started import derived, read_derived
from benchmarks.llm_training import prepare
from benchmarks.llm_training.tests.conftest import LAYOUT, SHORT, trained
from tests.later import Later
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.long

torch, cpu_stand_ins = Later("torch"), Later("benchmarks.llm_training.gpt.cpu_stand_ins")

REPOSITORY = Path(__file__).resolve().parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
ALONE = [sys.executable, "-m", "benchmarks.llm_training"]
# Not --standalone: its store answers within a minute, which a busy machine may not.
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--rdzv-backend", "static", "--master-addr", "127.0.0.1"]


def torchrun(ranks: int) -> list[str]:
    port = ["--master-port", str(free_ports(1))]
    return [*TORCHRUN, *port, "--nproc-per-node", str(ranks), "-m", "benchmarks.llm_training"]


def start(command: list[str], record: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *SHORT, "--record", str(record), *flags],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Flags for a text that is the same everywhere."""
    folder = tmp_path_factory.mktemp("text")
    words = "energy of a device that trains is power over the time it takes".split()  # noqa: SIM905
    random = Random(1)
    for number in range(20):
        (folder / f"{number}.txt").write_text(" ".join(random.choices(words, k=5000)))
    assert prepare.main(["--out", f"{folder}/text", "--files", str(folder)]) == 0
    return ["--data", "text", "--data-prefix", f"{folder}/text"]


@pytest.fixture(scope="module")
def one_rank(text, tmp_path_factory):
    """What the program printed and recorded, alone."""
    record = tmp_path_factory.mktemp("one") / "record.json"
    done = start(ALONE, record, "--learning-rate", "1e-3", *text)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(record.read_text())


def test_the_record_is_stored_and_its_throughput_printed(one_rank):
    printed, record = one_rank
    assert record["status"] == "ok"
    assert not {"tokens_per_s", "mfu", "step_time_median_s", "last_loss"} & record["metrics"].keys()  # a reader's
    record = derived(record)
    assert f"{record['metrics']['tokens_per_s']:.1f} tokens/s" in printed
    shape = {"num_layers": 4, "hidden_size": 256, "num_heads": 8, "vocab_size": 8192}
    assert shape.items() <= record["config"]["model"].items()
    metrics = record["metrics"]
    assert metrics["measured_tokens"] == 4 * 8 * 64
    assert metrics["tokens_per_s"] == pytest.approx(4 * 8 * 64 / sum(record["step_times_s"]))
    assert len(record["losses"]) == 5


@pytest.mark.parametrize("command", [ALONE, pytest.param(torchrun(2), marks=pytest.mark.slow)], ids=["alone", "two"])
def test_a_training_to_a_loss_ends_on_all_ranks_at_the_same_step(command, tmp_path):
    to_loss = ("--warmup-steps", "0", "--to-loss", "7.2", "--max-measured-s", str(PATIENCE_S))
    done = start(command, tmp_path / "record.json", "--learning-rate", "1e-3", "--micro-batch-size", "2", *to_loss)
    assert done.returncode == 0, done.stderr
    record = read_derived(tmp_path / "record.json")
    metrics, losses = record["metrics"], record["losses"]
    before, last = (sum(part) / 10 for part in (losses[-15:-5], losses[-10:]))
    assert len(losses) == metrics["measured_steps"] > 10
    assert before > 7.2 >= last == pytest.approx(metrics["reached_loss"])
    assert metrics["tokens_to_loss"] == len(losses) * 8 * 64


def test_the_steps_of_the_window_are_told_by_region(one_rank):
    record = derived(one_rank[1])
    found = record["regions"]["measured"]
    assert (found["clock"], found["steps"]) == ("host", 4)
    assert {"Forward", "Backward", "Update", "IO", "Comm", "Other"} == set(found["regions"])
    shares = {key: one["share_percent"] for key, one in found["regions"].items()}
    assert sum(shares.values()) == pytest.approx(100)
    assert shares["Forward"] > 5
    assert shares["Backward"] > 5
    assert 0.5 < found["step_s"] / record["metrics"]["step_time_median_s"] <= 1


def test_steps_after_the_window_are_profiled(imported, tmp_path):
    record = trained(tmp_path / "record.json", *SHORT, "--profile", "2")
    assert len(record["step_times_s"]) == 4
    [profile] = (tmp_path / "record.profile").glob("*.pt.trace.json")
    assert "FusedAdam" in profile.read_text() or "_fused_adam" in profile.read_text()


def test_torchrun_starts_ranks_that_have_the_losses_of_one(one_rank, text, tmp_path):
    record = tmp_path / "record.json"
    done = start(torchrun(2), record, *LAYOUT[len(SHORT) :], "--overlap", "on", "--recompute", "selective", *text)
    assert done.returncode == 0, done.stderr
    found = read_derived(record)
    assert (len(found["devices"]), len(found["losses"])) == (2, 5)
    assert found["losses"] == pytest.approx(one_rank[1]["losses"], rel=1e-4)


@pytest.mark.slow
def test_a_rank_that_is_killed_ends_the_run_and_leaves_no_record_that_looks_good(tmp_path):
    flags = [*SHORT, "--measured-steps", "100000", "--record", str(record := tmp_path / "record.json")]
    with subprocess.Popen([*torchrun(2), *flags], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as process:
        assert "step" in process.stdout.readline()
        ranks = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True)
        os.kill(int(ranks.stdout.split()[1]), signal.SIGKILL)
        process.stdout.read()
        assert process.wait(timeout=PATIENCE_S) != 0  # it would have trained for hours
    assert not record.exists() or json.loads(record.read_text())["status"] == "failed"


def test_the_stand_ins_for_cuda_refuse_a_machine_with_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(RuntimeError, match="must not be installed"):
        cpu_stand_ins.install()
