"""Ids of GPUs, from stand-ins for the drivers' libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
    snprintf(address, size, "0000:c%d:00.0", device);
    return 0;
}
"""
BROKEN = "int cuInit(unsigned flags) { return 100; }"
ASK = "from benchmarks.common.gpu_ids import gpu_ids; print(gpu_ids())"


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
        ("libamdhip64.so", HIP, ["0000:c0:00.0", "0000:c1:00.0"]),
        ("libcuda.so.1", BROKEN, []),
    ],
)
def test_the_ids_of_gpus_are_those_of_the_driver(tmp_path, library, source, found):
    if shutil.which("gcc") is None:
        pytest.fail("gcc is needed: apt-get install gcc libc6-dev")
    (tmp_path / "driver.c").write_text(source)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / library, tmp_path / "driver.c"], check=True)
    environ = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", ASK], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(found)
