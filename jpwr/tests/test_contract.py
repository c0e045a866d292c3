"""Every back end keeps the same promises, each over its stand-in.

Also run as a program, with a method, where a vendor's library must be loaded afresh.
"""

from __future__ import annotations

import importlib
import math
import sys
from contextlib import ExitStack
from typing import Any

import pytest

from jpwr.backends import METHODS
from jpwr.channel import Scope
from jpwr.tests.conftest import environment, run
from jpwr.tests.test_backends import write, write_chip, write_meter, write_proc, write_zone


def keep_contract(method: str, *places: Any) -> list[str]:
    """Open a method's channels, try every promise, and return the channels' names; raises AssertionError."""
    open_channels = importlib.import_module(METHODS[method]).open_channels
    with ExitStack() as stack:
        channels = open_channels(stack, *places)
        names = [channel.info.name for channel in channels]
        assert channels, "no channels, and no word why"
        assert len(set(names)) == len(names), f"names are not unique: {names}"
        for channel in channels:
            info = channel.info
            assert info.name.split(":")[0] == method, f"{info.name} does not begin with {method}"
            assert isinstance(info.scope, Scope)
            assert info.source, "it does not say where its numbers come from"
            assert info.num_devices >= 1
            assert channel.read_power_w or channel.read_energy_j, "it can be read in no way"
            assert not info.lacks, f"{info.name} {info.lacks}"
            assert info.has_counter == (channel.read_energy_j is not None)
            if channel.read_power_w:
                assert 0 < channel.read_power_w() < 1e6
            if channel.read_energy_j:
                first_j, second_j = channel.read_energy_j(), channel.read_energy_j()
                assert math.isfinite(first_j) and second_j >= first_j
                assert info.counter_resolution_j > 0
            if channel.read_status:
                assert channel.read_status()
    return names


def cray_tree(folder):
    write(folder / "power", "812 W 1700000000000000 us")
    write(folder / "energy", "123456 J 1700000000000000 us")


TREES = {
    "rapl": lambda folder: write_zone(folder, "intel-rapl:0", "package-0", 5_000_000),
    "gh": lambda folder: write_meter(folder, 0, "Module Power Socket 0", 165_627_000),
    "cray": cray_tree,
    "hwmon": lambda folder: write_chip(folder, 0, "amdgpu", power1_average=90_000_000),
    "estimate": lambda folder: write_proc(folder, busy=1000, idle=1000),
}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_keeps_the_contract(method, tmp_path, request):
    if method in TREES:
        TREES[method](tmp_path)
        assert keep_contract(method, tmp_path)
        return
    variables = {}
    if method == "pynvml":
        library = {"LD_LIBRARY_PATH": str(request.getfixturevalue("nvml_folder")), "STAND_IN_INSTANT": "1"}
        variables = {**library, "STAND_IN_TELL_SHUTDOWN": "1"}
    elif method == "rocm":
        variables = {"LD_LIBRARY_PATH": str(request.getfixturevalue("amdsmi_folder"))}
    elif method == "gc":
        module = "class gcipuinfo:\n    getDevices = lambda self: [0, 1]\n"
        module += "    getNamedAttributeForAll = lambda self, attribute: ['45.1W', '46W']\nIpuPower = 1\n"
        (tmp_path / "gcipuinfo.py").write_text(module)
        variables = {"PYTHONPATH": f"{environment()['PYTHONPATH']}:{tmp_path}"}
    elif method == "ipmi":
        program = tmp_path / "ipmitool"
        program.write_text("#!/bin/sh\necho ' Instantaneous power reading:  220 Watts'\n")
        program.chmod(0o755)
        variables = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = run(sys.executable, "-m", "jpwr.tests.test_contract", method, **variables)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0].startswith(f"{method}:")
    if method == "pynvml":
        assert "stand-in: shut down" in done.stderr


@pytest.mark.parametrize("method", [name for name in METHODS if name != "estimate"])
def test_a_method_whose_device_is_missing_reports_so_in_one_sentence(method, jpwr, tmp_path):
    done = jpwr("--methods", method, "--", "true", PATH="/usr/bin:/bin", ROCM_PATH=str(tmp_path))
    assert done.returncode == 125
    [sentence] = done.stderr.splitlines()
    assert sentence.startswith(f"jpwr: method '{method}' was asked for, but ")
    assert len(sentence) > 70


if __name__ == "__main__":
    print(*keep_contract(sys.argv[1]))
