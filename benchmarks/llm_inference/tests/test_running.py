"""GPUs of a server that runs already: those on which its own processes compute, or none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.common.options import ConfigError
from benchmarks.common.spawn import free_ports
from benchmarks.common.tests.started import read_derived
from benchmarks.llm_inference import devices, run
from benchmarks.llm_inference.devices import processes_of
from benchmarks.llm_inference.tests.conftest import MOCK
from jpwr.backends.visible import HIP
from jpwr.tests.conftest import nvml_folder as nvml_folder
from jpwr.tests.conftest import run as run_program
from results.collect import collect
from results.tests.of_dicts import contradictions

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
            devices.devices_of_running(config, free_ports(1))
    else:
        assert [one.device_id for one in devices.devices_of_running(config, free_ports(1))] == found


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
    record = read_derived(tmp_path / "record.json")
    assert [device["device_id"] for device in record["devices"]] == ["GPU-2"], done.stderr
    result = collect(tmp_path)
    assert result["energy"]["avg_power_w"] == pytest.approx(900, rel=0.02)  # the stand-in's third GPU
    assert not [one for one in contradictions(result) if "sensor" in one]
