"""The program as a job starts it, with a throttled process and a slow link, and on two made nodes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.common.spawn import free_ports
from benchmarks.common.tests.started import read_derived
from jpwr.channel import ChannelInfo, Scope
from jpwr.trace.trace import Row
from jpwr.trace.writers import CsvWriter
from record.model import Record
from results.collect import collect
from results.files.typed_files import stated
from results.tests.of_dicts import contradictions, judge
from results.verdicts.outcome import Outcome
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).resolve().parents[3]
DISTURBED = "benchmarks.node_check.tests.disturbed"
SHORT = "--device cpu --threads 1 --size 64 --products-per-step 4 --array-mb 1 --largest-message-mb 1 --figure-s 0.06"
FLAGS = [*SHORT.split(), "--repeats", "6", "--warmup-steps", "1", "--measured-steps", "4"]


def start(record, processes, *flags, node="n0", **environ):
    spawn = [sys.executable, "-m", "benchmarks.common.spawn", "--nproc-per-node", str(processes), *flags]
    return subprocess.Popen(
        [*spawn, "-m", DISTURBED, *FLAGS, "--record", str(record)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "SLURMD_NODENAME": node, **environ},
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(*started):
    for one in started:
        errors = one.communicate(timeout=PATIENCE_S)[1]
        assert one.returncode == 0, errors[-3000:]


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory):
    """The record of three processes: the second is throttled, and the third has a slow link."""
    folder = tmp_path_factory.mktemp("disturbed")
    ended(start(folder / "record.json", 3, THROTTLED="1", SLOW_LINK="2"))
    return folder


def test_a_throttled_process_and_a_slow_link_are_named(disturbed):
    record = read_derived(disturbed / "record.json")
    slow = {(one.subject.device, one.kind.name) for one in judge([record], [], 50.0) if one.outcome is Outcome.FAILED}
    assert {("1", "matmul_fp32"), ("2", "send_node")} <= slow
    assert not {("0", "matmul_fp32"), ("2", "matmul_fp32"), ("0", "send_node"), ("1", "send_node")} & slow


def test_the_record_has_every_figure_and_is_consistent(disturbed):
    with CsvWriter(
        disturbed / "power" / "n0" / "trace.csv",
        [ChannelInfo("made:0", Scope.NODE, "made up")],
        {"hostname": "n0", "boot_id": json.loads((disturbed / "record.json").read_text())["windows"][0]["boot_id"]},
    ) as writer:
        window = json.loads((disturbed / "record.json").read_text())["windows"][0]
        writer.event("command_started", window["start_s"] - 10)
        writer.extend([Row(window["start_s"] - 20 + 0.01 * row, [100.0], [None]) for row in range(30_000)])
    result = collect(disturbed)
    assert result["status"] == "ok", result["error"]
    assert contradictions(result) == []
    assert stated(Record, result, "result")
    figures = result["node_check"]["figures"]
    names = {one["name"] for one in figures}
    assert names == {
        *(f"matmul_{precision}" for precision in ("fp32", "tf32", "bf16", "fp16", "fp8")),
        *("copy", "triad", "host_to_device", "device_to_host"),
        *("all_reduce_node", "all_gather_node", "send_node"),
    }
    for one in figures:
        assert bool(one.get("reason")) is (one["values"] == [])
    assert sorted(one["bytes"] for one in figures if one["name"] == "send_node" and one["rank"] == 0) == [
        *(8, 512, 32768, 1_000_000)
    ]
    [group] = {one["ranks"] for one in figures if one["name"] == "all_reduce_node"}
    assert group == 3
    assert [one["rank"] for one in result["node_check"]["devices"]] == [0, 1, 2]


@pytest.mark.slow
def test_links_between_nodes_are_measured_for_each_device(tmp_path):
    port = str(free_ports(4))
    record = tmp_path / "record.json"
    place = ("--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", port, "--node-rank")
    ended(*(start(record, 2, *place, str(rank), node=f"n{rank}") for rank in range(2)))
    found = read_derived(record)
    of_all = [one for one in found["node_check"]["figures"] if one.get("bytes") == 1_000_000]
    assert {(one["name"], one["rank"], one["ranks"]) for one in of_all} == {
        *(("all_reduce_node", rank, 2) for rank in (0, 2)),
        *(("all_gather_node", rank, 2) for rank in (0, 2)),
        *((name, 0, 4) for name in ("all_reduce_all", "all_gather_all")),
        *((name, rank, 2) for name in ("send_node", "send_network") for rank in range(4)),
    }
    verdicts = judge([found], [], 95.0)
    assert {str(one.subject) for one in verdicts} == {
        *(f"n{node}, device {device}" for node in range(2) for device in range(2)),
        *("n0", "n1", "all nodes"),
    }
    [of_all_nodes] = [one.outcome for one in verdicts if one.kind.name == "all_reduce_all"]
    assert of_all_nodes is None
