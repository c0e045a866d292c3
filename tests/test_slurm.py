"""The workflow through a real Slurm: two nodes on this machine, and all the ways in which a job can end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.conftest import SMALL, made_up_system, make_checkout, run_in_place_of_training
from tests.private_slurm import missing_programs, private_slurm
from tests.waiting import NEVER_S, PATIENCE_S, processes, sleeper, until

pytestmark = pytest.mark.long

NODE_W = 200
BLOCK = made_up_system(
    submit="sbatch",
    launcher="srun",
    launcher_args="--kill-on-bad-exit=1 --cpu-bind=none",
    gres="gpu",
    devices_per_node=1,
    cpus_per_task=2,
    network_env="GLOO_SOCKET_IFNAME=lo",
    batch_sweep="8",
    image_batch_sweep="8",
    warmup_steps=1,
    measured_steps=2,
    min_measured_s=5,
)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """A Slurm with accounting and, where root lets it have one, a sensor: counters of nodes of constant power."""
    missing = missing_programs()
    if missing:
        pytest.fail(f"Slurm is needed: {missing}")
    folder = tmp_path_factory.mktemp("slurm")
    counters = folder / "pm_counters"
    counters.mkdir()
    (counters / "raw_scan_hz").write_text("10\n")
    stopped = threading.Event()

    def count() -> None:
        while not stopped.wait(0.1):
            stamp = int(time.time() * 1e6)
            for name, text in (("power", f"{NODE_W} W"), ("energy", f"{NODE_W * time.monotonic():.0f} J")):
                part = counters / f"{name}.part"
                part.write_text(f"{text} {stamp} us\n")
                part.replace(counters / name)

    counting = threading.Thread(target=count)
    counting.start()
    try:
        with private_slurm(folder / "private", nodes=2, gpus=1, cpus=4, counters=counters) as environ:
            yield environ
    finally:
        stopped.set()
        counting.join()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return make_checkout(tmp_path_factory.mktemp("slurm_checkout") / "caraml", BLOCK, SMALL)


class Sweep:
    """A sweep that is submitted, and what a user asks of it."""

    def __init__(self, jube: str, checkout: Path, environ: dict[str, str], workflow: str, *tags: str) -> None:
        self.environ, self.checkout = {**environ, "JUBE": jube, "PYTHONPATH": str(checkout)}, checkout
        done = self.call(jube, "run", f"jube/{workflow}.yaml", "--tag", "TESTBED", *tags)
        assert done.returncode == 0, done.stdout + done.stderr
        self.out = checkout / "jube" / f"{workflow}_run"
        self.run = sorted(self.out.glob("[0-9]*"))[-1]

    def call(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.checkout, env=self.environ, capture_output=True, text=True, timeout=PATIENCE_S
        )

    def caraml(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.call(sys.executable, "-m", "caraml", *arguments)

    def wait(self, *flags: str) -> subprocess.CompletedProcess[str]:
        return self.caraml("wait", str(self.run), "--interval", "1", *flags)

    def points(self) -> list[Path]:
        return sorted(path.parent for path in self.run.glob("*_benchmark/work/result.json"))

    def result(self, index: int) -> dict:
        return json.loads((self.points()[index] / "result.json").read_text())

    def job_id(self, index: int) -> str:
        return (self.points()[index] / "job.id").read_text().strip()

    def until_it_runs(self, index: int) -> None:
        point = self.points()[index]
        until(lambda: sleeper(point), "the job's program", (point / "job.err").read_text)

    def table(self) -> list[list[str]]:
        done = self.call(self.environ["JUBE"], "result", str(self.out), "--id", "last", "-a")
        return [
            [field.strip() for field in line.strip("|").split("|")]
            for line in done.stdout.splitlines()
            if line.startswith("| TESTBED")
        ]


@pytest.fixture(scope="module")
def trained(jube_command, checkout, slurm):
    """A sweep of which all points are good."""
    sweep = Sweep(jube_command, checkout, slurm, "llm", "synthetic")
    done = sweep.wait()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 points" in done.stdout
    return sweep


def test_a_sweep_over_one_and_two_nodes_becomes_a_table(trained):
    sweep = trained
    rows = sweep.table()
    assert [row[-1] for row in rows] == ["ok", "ok"]
    one, two = sweep.result(0), sweep.result(1)
    assert (one["layout"]["num_nodes"], two["layout"]["num_nodes"]) == (1, 2)
    # One sampler and one window for each node, and energy of both.
    assert {window["hostname"] for window in two["windows"]} == {"127.0.0.1", "127.0.0.2"}
    assert len(two["energy"]["channels"]) == 2
    assert two["slurm"]["state"] == "COMPLETED"
    assert two["provenance"]["environment"]["SLURM_JOB_ID"] == sweep.job_id(1)
    assert one["provenance"]["environment"]["CUDA_VISIBLE_DEVICES"] == "0"
    assert one["provenance"]["exclusive"] == "yes"


def test_slurms_own_energy_of_a_job_stands_beside_ours(trained):
    if os.getuid():
        pytest.skip("Slurm reads counters in a place of their own only as root: run this test as root")
    for index, nodes in ((0, 1), (1, 2)):
        found = trained.result(index)["slurm"]
        elapsed = trained.call("sacct", "-X", "-n", "-P", "-o", "ElapsedRaw", "-j", found["job_id"])
        # Times are whole seconds, and the counters are looked at once a second, or later on a busy machine: what is
        # looked for is another node's energy, or another unit.
        expected_j = pytest.approx(NODE_W * int(elapsed.stdout) * nodes, rel=0.4, abs=3 * NODE_W * nodes)
        assert found["consumed_energy_j"] == expected_j
        assert found["consumed_energy_wh"] * 3600 == expected_j
    assert "Slurm, whole job [Wh]" in trained.caraml("table", str(trained.run)).stdout


def test_resnet_trains_on_two_nodes(jube_command, checkout, slurm):
    sweep = Sweep(jube_command, checkout, slurm, "resnet50", "synthetic")
    done = sweep.wait()
    assert done.returncode == 0, done.stdout + done.stderr
    assert [row[-1] for row in sweep.table()] == ["ok", "ok"]
    assert sweep.result(1)["layout"]["num_devices"] == 2
    assert len(sweep.result(1)["energy"]["channels"]) == 2


@pytest.fixture
def slow_checkout(tmp_path):
    folder = make_checkout(tmp_path / "caraml", BLOCK)
    run_in_place_of_training(folder, f"sleep {NEVER_S}")
    return folder


def kill_batch_script(sweep, slurm):
    point = sweep.points()[0]
    [script] = [pid for pid, command in processes(point).items() if command[-1].endswith("slurm_script")]
    os.kill(script, signal.SIGKILL)


def kill_program(sweep, slurm):
    os.kill(sleeper(sweep.points()[0]), signal.SIGKILL)


def take_node_down(sweep, slurm):
    job_id = sweep.job_id(0)
    node = sweep.call("squeue", "-h", "-j", job_id, "-o", "%N").stdout.strip()
    sweep.call("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    shown = ("scontrol", "show", "job", "-o", job_id)
    until(lambda: "JobState=RUNNING" not in sweep.call(*shown).stdout, "the job's end")
    sweep.call("scontrol", "update", f"nodename={node}", "state=resume")


ENDS = {
    "cancelled while it runs": (lambda sweep, slurm: sweep.call("scancel", sweep.job_id(0)), "CANCELLED"),
    "program killed": (kill_program, "signal 9"),
    "node down": (take_node_down, "NODE_FAIL"),
    "batch script killed": (kill_batch_script, "Slurm ended the job"),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_job_that_slurm_ends_is_a_failed_row(name, jube_command, slow_checkout, slurm):
    sweep = Sweep(jube_command, slow_checkout, slurm, "llm", "synthetic")
    sweep.call("scancel", sweep.job_id(1))  # it waits for its nodes, and never starts
    sweep.until_it_runs(0)
    end, words = ENDS[name]
    end(sweep, slurm)
    done = sweep.wait()
    assert done.returncode == 1, done.stdout + done.stderr
    assert [sweep.result(index)["status"] for index in (0, 1)] == ["failed", "failed"]
    assert words in sweep.result(0)["error"]
    assert "CANCELLED" in sweep.result(1)["error"]
    assert [row[-1] for row in sweep.table()] == ["failed", "failed"]


def test_what_failed_is_submitted_again_and_only_that(jube_command, tmp_path, slurm):
    checkout = make_checkout(tmp_path / "caraml", BLOCK)
    run_in_place_of_training(checkout, f"python3 {checkout}/tests/quick_run.py")
    sweep = Sweep(jube_command, checkout, slurm, "llm", "synthetic")
    sweep.call("scancel", sweep.job_id(1))
    assert sweep.wait().returncode == 1
    good, cancelled = sweep.result(0), sweep.job_id(1)
    assert (good["status"], sweep.result(1)["status"]) == ("ok", "failed")
    done = sweep.wait("--retry-failed")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 points were submitted again" in done.stdout
    assert sweep.result(0) == good
    assert sweep.job_id(1) != cancelled
    assert [row[-1] for row in sweep.table()] == ["ok", "ok"]
    [kept] = sweep.points()[1].glob("attempts/1/result.json")
    assert "CANCELLED" in json.loads(kept.read_text())["error"]


def test_a_sweep_that_does_not_end_in_time_is_said_to_be_open(jube_command, slow_checkout, slurm):
    sweep = Sweep(jube_command, slow_checkout, slurm, "llm", "synthetic")
    done = sweep.wait("--limit", "3")
    assert done.returncode == 3
    assert "has not ended within 3 s" in done.stderr
    assert "2 points: " in done.stdout
    for index in (0, 1):
        sweep.call("scancel", sweep.job_id(index))
    assert sweep.wait().returncode == 1


def test_the_sites_facts_reach_the_scheduler_and_the_job(jube_command, slow_checkout, slurm):
    (slow_checkout / "site.yaml").write_text(
        "account: project\nsbatch: ['--comment=by the site']\nnetwork_interface: lo0\n"
        "systems: {TESTBED: {partition: batch}, CPU: {partition: none}}\n"
    )
    sweep = Sweep(jube_command, slow_checkout, slurm, "llm", "synthetic")
    shown = sweep.call("scontrol", "show", "job", "-o", sweep.job_id(0)).stdout
    for index in (0, 1):
        sweep.call("scancel", sweep.job_id(index))
    assert "Account=project" in shown
    assert "Comment=by the site" in shown
    assert "Partition=batch" in shown
    assert "NCCL_SOCKET_IFNAME=lo0" in (sweep.points()[0] / "site.sh").read_text()


def test_a_partition_that_slurm_does_not_know_is_a_failed_row(jube_command, slow_checkout, slurm):
    sweep = Sweep(jube_command, slow_checkout, {**slurm, "CARAML_PARTITION": "nowhere"}, "llm", "synthetic")
    assert sweep.wait().returncode == 1
    assert "sbatch refused the job" in sweep.result(0)["error"]
    assert "partition" in sweep.result(0)["error"]


@pytest.mark.slow
def test_a_job_that_runs_out_of_time_is_a_failed_row(jube_command, slow_checkout, slurm):
    sweep = Sweep(jube_command, slow_checkout, {**slurm, "CARAML_SBATCH": "--time=1"}, "llm", "synthetic")
    sweep.call("scancel", sweep.job_id(1))
    assert sweep.wait().returncode == 1
    assert "TIMEOUT" in sweep.result(0)["error"]
