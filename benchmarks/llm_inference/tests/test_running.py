"""GPUs of a server that runs already: those on which its own processes compute, or none."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from benchmarks.common.options import ConfigError
from benchmarks.llm_inference import devices, run
from benchmarks.llm_inference.devices import processes_of
from benchmarks.llm_inference.servers import free_port
from benchmarks.llm_inference.tests.conftest import MOCK
from jpwr.backends.visible import HIP
from jpwr.tests.conftest import environment
from jpwr.tests.conftest import nvml_folder as nvml_folder
from jpwr.tests.conftest import run as run_program
from results.collect import collect
from results.exchange.archive import verify, write_archive
from results.find.records import RESULT_NAME, read_checked, write_record
from results.tests.of_dicts import contradictions
from tests.conftest import REPOSITORY
from tests.waiting import until

LISTENS = """
import socket, subprocess, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
with socket.socket(family) as server:
    server.bind((sys.argv[1], 0))
    server.listen()
    worker = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    print(server.getsockname()[1], worker.pid, flush=True)
    input()
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_processes_of_a_server_are_the_listener_and_its_children(host):
    command = [sys.executable, "-c", LISTENS, host]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        port, worker = map(int, server.stdout.readline().split())
        assert processes_of(port) == {server.pid, worker}
        server.stdin.close()
    assert processes_of(port) == set()


@pytest.mark.parametrize(
    ("flags", "used", "there", "found"),
    [
        ((), ["GPU-3"], 8, ["GPU-3"]),
        (("--devices", "2"), ["GPU-3", "GPU-5"], 8, ["GPU-3", "GPU-5"]),
        ((), [], 1, ["GPU-0"]),  # the only one
        ((), [], 8, "NVML lists no process of the server on any of the 8 GPUs: set CUDA_VISIBLE_DEVICES"),
        (("--devices", "2"), ["GPU-3"], 8, r"--devices 2 was asked for, but the server uses 1 GPU \(GPU-3\): give"),
        ((), ["GPU-3", "GPU-5"], 8, r"the server uses 2 GPUs \(GPU-3, GPU-5\): give --devices 2"),
        (("--devices", "2"), [], 1, "--devices 2 was asked for, but the node has 1 device"),
        (("--device", "cpu"), ["GPU-3"], 8, [""]),
    ],
)
def test_the_devices_of_a_running_server_are_its_own_or_refused(flags, used, there, found, monkeypatch):
    monkeypatch.setattr(devices, "devices_used_by", lambda processes: used)
    monkeypatch.setattr(devices, "gpu_ids", lambda: [f"GPU-{number}" for number in range(there)])
    config = run.parse(["--url", "http://127.0.0.1:8000", "--device", "gpu", *flags])
    if isinstance(found, str):
        with pytest.raises(ConfigError, match=found):
            devices.devices_of_running(config, free_port())
    else:
        assert [one.device_id for one in devices.devices_of_running(config, free_port())] == found


@pytest.mark.parametrize(("there", "shown"), [(4, ("4,5", "4,5")), (2, ("4,5,6,7", ""))])
def test_a_server_that_is_started_sees_the_devices_that_count(there, shown, monkeypatch):
    monkeypatch.setattr(devices, "gpu_ids", lambda: [f"GPU-{number}" for number in range(there)])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "")
    config = run.parse(["--server", "vllm", "--device", "gpu", "--devices", "2"])
    assert [one.device_id for one in devices.devices_of(config)] == ["GPU-0", "GPU-1"]
    assert tuple(os.environ[name] for name in HIP) == shown[::-1]


@pytest.mark.long
def test_the_energy_of_a_running_server_is_that_of_its_own_gpu(tmp_path, nvml_folder):
    mock = (*MOCK, "--ttft-s", "0.02", "--tpot-s", "0.004")
    quick = ("--min-s", "1", "--min-requests", "30", "--input-tokens", "8", "--output-tokens", "8")
    with subprocess.Popen(mock, stdout=subprocess.PIPE, text=True) as server:
        try:
            client = (sys.executable, "-m", "benchmarks.llm_inference", "--device", "gpu", *quick, "--url")
            sampler = (sys.executable, "-m", "jpwr", "--methods", "pynvml", "--df-out", "power/here", "--", *client)
            done = run_program(
                *(*sampler, f"http://127.0.0.1:{int(server.stdout.readline())}", "--record", "record.json"),
                cwd=tmp_path,
                LD_LIBRARY_PATH=str(nvml_folder),
                STAND_IN_SHAPE="constant",
                STAND_IN_DEVICES="4",
                STAND_IN_PROCESSES=f"0:{os.getpid()} 2:{server.pid}",
            )
        finally:
            server.kill()
    record = json.loads((tmp_path / "record.json").read_text())
    assert [device["device_id"] for device in record["devices"]] == ["GPU-2"], done.stderr
    result = collect(tmp_path)
    assert result["energy"]["avg_power_w"] == pytest.approx(900, rel=0.02)  # the stand-in's third GPU
    assert not [one for one in contradictions(result) if "sensor" in one]


@pytest.mark.long
def test_the_energy_of_a_server_on_two_nodes_is_that_of_each_role(tmp_path, nvml_folder):
    """Two samplers as on two nodes, around the client and around a command that waits for its end."""
    mock = (*MOCK, "--ttft-s", "0.02", "--tpot-s", "0.004")
    quick = ("--min-s", "1", "--min-requests", "30", "--input-tokens", "8", "--output-tokens", "8")
    jpwr = (sys.executable, "-m", "jpwr", "--methods", "pynvml", "--df-out")
    stand_in = {"LD_LIBRARY_PATH": str(nvml_folder), "STAND_IN_SHAPE": "constant", "STAND_IN_LIMIT_W": "700"}
    other = environment(SLURMD_NODENAME="n2", STAND_IN_UUID="n2-", STAND_IN_DEVICES="2", **stand_in)
    hosts = ("--device", "gpu", "--devices", "3", "--nodes", "2", "--hosts", "prefill: n1; decode: n2")
    with (
        subprocess.Popen(mock, stdout=subprocess.PIPE, text=True) as server,
        subprocess.Popen([*jpwr, "power/n2", "--", "cat"], cwd=tmp_path, env=other, stdin=subprocess.PIPE) as sampler,
    ):
        try:
            until((tmp_path / "power/n2/trace.csv").exists, "the trace of the other node")
            url = f"http://127.0.0.1:{int(server.stdout.readline())}"
            client = (sys.executable, "-m", "benchmarks.llm_inference", "--url", url, *hosts, *quick)
            done = run_program(
                *(*jpwr, "power/n1", "--", *client, "--record", "record.json"),
                cwd=tmp_path,
                SLURMD_NODENAME="n1",
                STAND_IN_DEVICES="1",
                **stand_in,
            )
            sampler.stdin.close()
            assert sampler.wait() == 0
        finally:
            server.kill()
            sampler.kill()
    assert done.returncode == 0, done.stderr
    write_record(collect(tmp_path), tmp_path / RESULT_NAME)
    result = read_checked(tmp_path / RESULT_NAME)
    energy, window_s = result.energy, result.windows[0].duration_s
    # The stand-in's first GPU has 300 W, its second one 600 W.
    watts = {"prefill_wh": 300, "decode_wh": 900, "energy_wh": 1200}
    assert {name: energy.number(name) for name in watts} == pytest.approx(
        {name: watts[name] * window_s / 3600 for name in watts}, abs=energy.uncertainty_wh
    )
    read, written = (energy.number(f"j_per_token_{name}") for name in ("read", "written"))
    assert read == pytest.approx(energy.number("prefill_wh") * 3600 / result.metrics.number("input_tokens"))
    assert written == pytest.approx(energy.number("decode_wh") * 3600 / result.metrics.number("measured_tokens"))
    assert result.choices["roles"] == "prefill on 1 node, decode on 1 node"
    (tmp_path / "archived").mkdir()
    write_archive([tmp_path], REPOSITORY / "jube", tmp_path / "archived" / "a.zip")
    assert verify(tmp_path / "archived" / "a.zip").problems == []
