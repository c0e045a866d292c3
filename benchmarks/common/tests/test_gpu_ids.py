"""Ids of GPUs, and processes bound to the CPUs near them, with stand-ins for the drivers' libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.common.launch import Launch, usable_cpus
from benchmarks.common.node import gpu_ids as binding
from tests.needs import need

REPOSITORY = Path(__file__).resolve().parents[3]
CUDA = """
#include <stdio.h>
#include <string.h>
int cuInit(unsigned flags) { return flags; }
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceGet(int *device, int index) { *device = index + 40; return 0; }
int cuDeviceGetUuid(unsigned char *uuid, int device) { memset(uuid, device, 16); return 0; }
int cuDeviceGetPCIBusId(char *address, int size, int device) {
    snprintf(address, size, "0000:%02X:00.0", device);
    return 0;
}
"""
HIP = """
#include <stdio.h>
int hipGetDeviceCount(int *count) { *count = 2; return 0; }
int hipDeviceGetPCIBusId(char *address, int size, int device) {
    snprintf(address, size, "0000:%02x:00.0", 0xc1 + 5 * device);
    return 0;
}
"""
BROKEN = "int cuInit(unsigned flags) { return 100; }"
ASK = "from benchmarks.common.node.gpu_ids import gpu_ids; print(gpu_ids())"


@pytest.mark.parametrize(
    ("library", "source", "found"),
    [
        (
            "libcuda.so.1",
            CUDA,
            [
                "GPU-28282828-2828-2828-2828-282828282828 0000:28:00.0",
                "GPU-29292929-2929-2929-2929-292929292929 0000:29:00.0",
            ],
        ),
        ("libamdhip64.so", HIP, ["0000:c1:00.0", "0000:c6:00.0"]),
        ("libcuda.so.1", BROKEN, []),
    ],
)
def test_the_ids_of_gpus_are_those_of_the_driver(tmp_path, library, source, found):
    need("gcc")
    (tmp_path / "driver.c").write_text(source)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / library, tmp_path / "driver.c"], check=True)
    environ = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", ASK], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(found)


MINE = sorted(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("near", "local_rank", "bound"),
    [
        ({"0000:28:00.0": f"{MINE[0]}", "0000:29:00.0": f"{MINE[-1]}"}, 1, {MINE[-1]}),
        ({"0000:28:00.0": f"{MINE[-1]}-{MINE[-1] + 9},10000"}, 0, {MINE[-1]}),
        ({"0000:28:00.0": "10000-10003"}, 0, set(MINE)),  # none of them may be used
        ({"0000:28:00.0": f"{MINE[0]}"}, 1, set(MINE)),  # it does not say where it is
        ({"0000:28:00.0": "all"}, 0, set(MINE)),
        ({}, 5, set(MINE)),
    ],
)
def test_a_process_is_bound_to_the_cpus_near_its_gpu(tmp_path, monkeypatch, near, local_rank, bound):
    for address, cpus in near.items():
        (tmp_path / address).mkdir()
        (tmp_path / address / "local_cpulist").write_text(cpus + "\n")
    bound_to = [set(MINE)]
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, cpus: bound_to.append(cpus))
    monkeypatch.setattr(binding, "PCI_DEVICES", tmp_path)
    monkeypatch.setattr(binding, "gpu_ids", lambda: ["GPU-a 0000:28:00.0", "GPU-b 0000:29:00.0"])
    binding.bind(Launch(local_rank=local_rank))
    assert bound_to[-1] == bound


@pytest.mark.parametrize(("cpus", "listed"), [({3}, "3"), ({0, 1, 2, 3, 8}, "0-3,8"), ({7, 5, 6, 1}, "1,5-7")])
def test_cpus_are_told_as_the_kernel_lists_them(monkeypatch, cpus, listed):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: cpus)
    assert usable_cpus() == listed
    assert binding._cpus(listed) == cpus
