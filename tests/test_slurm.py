"""The workflow through a real Slurm: two nodes on this machine, and all the ways in which a job can end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from copy import copy
from functools import partial
from pathlib import Path

import pytest

from caraml.schedulers.slurm import TIME_LIMIT
from tests.conftest import (
    REPOSITORY,
    SMALL,
    InCheckout,
    called,
    cells_of,
    made_up_system,
    make_checkout,
    run_in_place_of_training,
)
from tests.needs import need, need_root
from tests.private_slurm import CLUSTERS, PROGRAMS, private_slurm
from tests.waiting import NEVER_S, processes, sleeper, until

pytestmark = pytest.mark.long

NODE_W, OTHER = 200, CLUSTERS[1]
VALUES = {
    "submit": "sbatch",
    "launcher": "srun",
    "launcher_args": "--kill-on-bad-exit=1 --cpu-bind=none",
    "gres": "gpu",
    "devices_per_node": 1,
    "cpus_per_task": 2,
    "network_env": "GLOO_SOCKET_IFNAME=lo",
    "batch_sweep": "8",
    "image_batch_sweep": "8",
    "warmup_steps": 1,
    "measured_steps": 2,
    "min_measured_s": 1,
}
BLOCK = made_up_system(**VALUES)
SITE = """
account: project
sbatch: ['--comment=by the site']
network_interface: lo0
systems: {TESTBED: {partition: batch}, CPU: {partition: none}}
"""

OF_OTHER_JOBS = {
    "SLURM_CLUSTERS": OTHER,
    "SLURM_EXPORT_ENV": "NONE",
    "SLURM_JOB_ID": "1",
    "SLURM_MEM_PER_CPU": "10",
    "SLURM_NTASKS": "7",
    "SLURM_CPU_BIND": "nonsense",
    "SBATCH_ARRAY_INX": "1-3",
    "SBATCH_EXPORT": "NONE",
    "SBATCH_TIMELIMIT": "nonsense",
    "SRUN_EXPORT_ENV": "NONE",
}


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """A Slurm with accounting and, where root lets it have one, a sensor: counters of nodes of constant power."""
    need(*PROGRAMS)
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
        with private_slurm(folder / "slurm", counters) as environ:
            yield environ
    finally:
        stopped.set()
        counting.join()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return make_checkout(tmp_path_factory.mktemp("slurm_checkout") / "caraml", BLOCK, SMALL)


class Sweep(InCheckout):
    """A sweep that is submitted, and what a user asks of it."""

    def __init__(self, jube: str, checkout: Path, environ: dict[str, str], workflow: str, *tags: str) -> None:
        self.environ, self.checkout = {**environ, "JUBE": jube, "PYTHONPATH": str(checkout)}, checkout
        done = self.call(jube, "run", f"jube/{workflow}.yaml", "--tag", "TESTBED", *tags)
        assert done.returncode == 0, done.stdout + done.stderr
        self.out = checkout / "jube" / f"{workflow}_run"
        self.run = sorted(self.out.glob("[0-9]*"))[-1]

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
        return cells_of(self.call(self.environ["JUBE"], "result", str(self.out), "--id", "last", "-a").stdout)[1:]


@pytest.fixture(scope="module")
def trained(jube_command, checkout, slurm):
    """A sweep of which all points are good, from a shell with options for other jobs."""
    sweep = Sweep(jube_command, checkout, {**slurm, **OF_OTHER_JOBS}, "llm", "synthetic", "io")
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
    need_root("as which Slurm reads counters in a place of their own")
    for index, nodes in ((0, 1), (1, 2)):
        found = trained.result(index)["slurm"]
        elapsed = trained.call("sacct", "-X", "-n", "-P", "-o", "ElapsedRaw", "-j", found["job_id"])
        # Times are whole seconds, and the counters are looked at once a second, or later on a busy machine: what is
        # looked for is another node's energy, or another unit.
        expected_j = pytest.approx(NODE_W * int(elapsed.stdout) * nodes, rel=0.4, abs=3 * NODE_W * nodes)
        assert found["consumed_energy_j"] == expected_j
        assert found["consumed_energy_wh"] * 3600 == expected_j
    assert "slurm_wh" in trained.caraml("table", str(trained.run), "--format", "csv").stdout


@pytest.fixture(scope="module")
def slow_checkout(tmp_path_factory):
    """Jobs that never end by themselves, on one node each, and a site with an account and flags of its own."""
    sweep = {"devices_sweep": "1", "batch_sweep": " ".join(str(8 * (index + 1)) for index in range(len(ENDS)))}
    folder = make_checkout(tmp_path_factory.mktemp("slow") / "caraml", made_up_system(**{**VALUES, **sweep}), SITE)
    run_in_place_of_training(folder, f"sleep {NEVER_S}")
    return folder


def cancel(sweep, index):
    number, *cluster = sweep.job_id(index).split(";")
    sweep.call("scancel", *(f"--clusters={name}" for name in cluster), number)


def kill_batch_script(sweep, index):
    point = sweep.points()[index]
    [script] = [pid for pid, command in processes(point).items() if command[-1].endswith("slurm_script")]
    os.kill(script, signal.SIGKILL)


def kill_program(sweep, index):
    os.kill(sleeper(sweep.points()[index]), signal.SIGKILL)


def take_node_down(sweep, index):
    job_id = sweep.job_id(index)
    node = sweep.call("squeue", "-h", "-j", job_id, "-o", "%N").stdout.strip()
    sweep.call("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    shown = ("scontrol", "show", "job", "-o", job_id)
    until(lambda: "JobState=RUNNING" not in sweep.call(*shown).stdout, "the job's end")
    sweep.call("scontrol", "update", f"nodename={node}", "state=resume")


ENDS = {
    "cancelled while it runs": (cancel, "CANCELLED"),
    "program killed": (kill_program, "signal 9"),
    "batch script killed": (kill_batch_script, "Slurm ended the job"),
    "node down": (take_node_down, "NODE_FAIL"),
    "cancelled while it waits": (cancel, "CANCELLED"),  # the last one: others have the nodes
}


@pytest.fixture(scope="module")
def endless(jube_command, slow_checkout, slurm):
    """A sweep with a job for each way to end, of which none has ended."""
    return Sweep(jube_command, slow_checkout, slurm, "llm", "synthetic")


@pytest.fixture(scope="module")
def in_time(endless):
    """What is said of it when it has not ended."""
    return endless.wait("--limit", "1")


@pytest.fixture(scope="module")
def from_elsewhere(endless):
    """The same, on a machine of another cluster."""
    other = copy(endless)
    other.environ = {
        **endless.environ,
        "SLURM_CONF": endless.environ["SLURM_CONF"].replace(f"{CLUSTERS[0]}/slurm", f"{OTHER}/slurm"),
    }
    done = other.wait("--retry-failed", "--limit", "1")
    return done, {endless.result(index)["status"] for index in range(len(ENDS))}


@pytest.fixture(scope="module")
def ended(endless, in_time, from_elsewhere):
    """The same sweep, each job ended in its way, and its table."""
    *running, (end, _) = ENDS.values()
    end(endless, len(running))
    for index, (end, _) in enumerate(running):
        endless.until_it_runs(index)
        end(endless, index)
    done = endless.wait()
    assert done.returncode == 1, done.stdout + done.stderr
    return endless, endless.table()


def test_the_sites_facts_reach_the_scheduler_and_the_job(endless):
    shown = endless.call("scontrol", "show", "job", "-o", endless.job_id(0)).stdout
    assert "Account=project" in shown
    assert "Comment=by the site" in shown
    assert "Partition=batch" in shown
    assert "NCCL_SOCKET_IFNAME=lo0" in (endless.points()[0] / "site.sh").read_text()


def test_a_machine_of_another_cluster_asks_the_one_that_has_the_jobs(from_elsewhere):
    done, statuses = from_elsewhere
    assert done.returncode == 3, done.stdout + done.stderr
    assert "submitted again: 0 points" in done.stdout
    assert statuses == {"unfinished"}


def test_a_sweep_that_does_not_end_in_time_is_said_to_be_open(in_time):
    assert in_time.returncode == 3
    assert "has not ended within 1 s" in in_time.stderr
    assert f"{len(ENDS)} points: " in in_time.stdout


@pytest.mark.parametrize("name", ENDS)
def test_a_job_that_slurm_ends_is_a_failed_row(name, ended):
    sweep, table = ended
    index = list(ENDS).index(name)
    result, (_, words) = sweep.result(index), ENDS[name]
    assert result["status"] == "failed"
    assert words in result["error"]
    assert len(table) == len(ENDS)
    assert table[index][-1] == "failed"


def test_what_failed_on_another_cluster_is_submitted_there_again_and_only_that(jube_command, tmp_path, slurm):
    checkout, told = make_checkout(tmp_path / "caraml", BLOCK), tmp_path / "told"
    program = tmp_path / "program.sh"
    program.write_text(f"until [ -e {told} ]; do sleep 0.1; done; exec python3 {checkout}/tests/quick_run.py")
    run_in_place_of_training(checkout, f"bash {program}")
    sweep = Sweep(jube_command, checkout, {**slurm, "CARAML_SBATCH": f"--clusters={OTHER}"}, "llm", "synthetic")
    submitted = [sweep.job_id(0), sweep.job_id(1)]
    assert all(job_id.endswith(f";{OTHER}") for job_id in submitted)
    assert sweep.wait("--retry-failed", "--limit", "0.01").returncode == 3
    assert [sweep.job_id(0), sweep.job_id(1)] == submitted
    cancel(sweep, 1)
    told.touch()
    assert sweep.wait().returncode == 1
    good = sweep.result(0)
    assert (good["status"], good["slurm"]["job_id"], good["slurm"]["state"]) == ("ok", submitted[0], "COMPLETED")
    assert f"Slurm ended the job {submitted[1]}: CANCELLED" in sweep.result(1)["error"]
    done = sweep.wait("--retry-failed")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "submitted again: 1 point" in done.stdout
    assert sweep.result(0) == good
    assert sweep.job_id(1) not in submitted
    jobs = sweep.call("squeue", f"--clusters={OTHER}", "--states=all", "--format=%A").stdout.split()
    numbers = [job_id.partition(";")[0] for job_id in (*submitted, sweep.job_id(1))]
    assert sorted(filter(str.isdigit, jobs), key=int) == numbers
    assert [row[-1] for row in sweep.table()] == ["ok", "ok"]
    [kept] = sweep.points()[1].glob("attempts/1/result.json")
    assert "CANCELLED" in json.loads(kept.read_text())["error"]


@pytest.mark.slow
def test_a_job_that_runs_out_of_time_is_a_failed_row(jube_command, slow_checkout, slurm):
    environ = {**slurm, "CARAML_SBATCH": "--time=1", "CARAML_BATCHES": "8"}
    sweep = Sweep(jube_command, slow_checkout, environ, "llm", "synthetic")
    assert sweep.wait().returncode == 1
    assert f"TIMEOUT (TimeLimit): {TIME_LIMIT}" in sweep.result(0)["error"]


ENDS_WHEN_KILLED = 'trap "echo TERM >>had" TERM; : >up; while :; do sleep 0.01; done'


def test_what_cancels_a_job_reaches_the_measured_command(slurm, tmp_path):
    environ = {**slurm, "PYTHONPATH": str(REPOSITORY), "SBATCH_ACCOUNT": "project"}
    call = partial(called, cwd=tmp_path, **environ)
    sampler = f"{sys.executable} -m jpwr --methods estimate --df-out power"
    (tmp_path / "job.sh").write_text(f"#!/bin/bash\nsrun {sampler} -- bash -c '{ENDS_WHEN_KILLED}'\n")
    submitted = call("sbatch", "--parsable", "--nodes=1", "--output=job.out", "job.sh")
    assert submitted.returncode == 0, submitted.stderr
    job_id = submitted.stdout.strip()
    until((tmp_path / "up").exists, "the job's program", lambda: call("cat", "job.out").stdout)
    call("scancel", job_id)
    until(lambda: not call("squeue", "-h", "-j", job_id).stdout, "the job's end")
    assert (tmp_path / "had").read_text().startswith("TERM\n")
