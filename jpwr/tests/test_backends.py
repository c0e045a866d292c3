from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import sys
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from jpwr import backends
from jpwr.backends import cray, estimate, files, grace_hopper, graphcore, hwmon, ipmi, nvml, open_methods, rapl, rocm
from jpwr.backends.parts import Lost, seconds_of
from jpwr.backends.visible import narrowed, visible
from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import BackendUnavailable, JpwrError, ReadError
from jpwr.tests.conftest import REPOSITORY, SteppedClock, install_method, run, sampled, wait_until
from jpwr.tests.test_processor import ARM, GRACE, OF_LSCPU, write_processor


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


def write_zone(powercap, zone, name, counter_uj=0, range_uj=262_143_328_850):
    folder = powercap / zone
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "energy_uj").write_text(f"{counter_uj}\n")
    (folder / "max_energy_range_uj").write_text(f"{range_uj}\n")
    return folder / "energy_uj"


def test_rapl_has_packages_and_memory_and_leaves_out_what_is_inside_a_package(stack, tmp_path):
    write_zone(tmp_path, "intel-rapl:0", "package-0")
    write_zone(tmp_path, "intel-rapl:0:0", "core")
    write_zone(tmp_path, "intel-rapl:0:1", "dram")
    write_zone(tmp_path, "intel-rapl:1", "package-1")
    write_zone(tmp_path, "intel-rapl:2", "psys")
    write_zone(tmp_path, "intel-rapl:3", "psys-1")  # the same platform
    found = {channel.info.name: channel.info.scope for channel in rapl.open_channels(stack, tmp_path)}
    assert found == {
        "rapl:package-0": Scope.CPU,
        "rapl:package-0:dram": Scope.DRAM,
        "rapl:package-1": Scope.CPU,
        "rapl:psys": Scope.NODE,
    }


# A package of 300 W is read each 2 s; its counter has 65 kJ.
@pytest.mark.parametrize(
    ("moments_s", "counted_j", "told_j"),
    [
        ([2, 4, 220], [0, 600, 1200, 470], [600, 1200, 0]),  # it may have gone round once or not
        ([2, 4, 20], [0, 600, 1200, 6000], [600, 1200, 6000]),
        ([2, 4, 6], [0, 600, 1200, 20], [600, 1200, 0]),  # set back to 0
        ([2, 4, 6], [63_400, 64_000, 64_600, 200], [600, 1200, 1800]),
    ],
)
def test_a_counter_of_which_nobody_knows_how_far_it_went_falls(stack, tmp_path, moments_s, counted_j, told_j):
    first_uj = counted_j[0] * 1_000_000
    counter = write_zone(tmp_path, "intel-rapl:0", "package-0", first_uj, range_uj=65_000_000_000)
    clock = SteppedClock()
    [channel] = rapl.open_channels(stack, tmp_path, clock)
    found_j = []
    for time_s, joules in zip(moments_s, counted_j[1:], strict=True):
        clock.set(time_s)
        counter.write_text(f"{joules * 1_000_000}\n")
        found_j.append(channel.read_energy_j())
    assert found_j == pytest.approx(told_j)


@pytest.mark.parametrize(
    ("zones", "found"),
    [
        ({}, "virtual machines usually have none"),
        ({"dtpm:0": "soc", "intel-rapl-mmio:0:0": "core"}, "its zones dtpm:0, intel-rapl-mmio:0:0 are others"),
        ({"intel-rapl-mmio:0": "package-0", "intel-rapl-mmio:0:0": "dram"}, ["rapl:package-0", "rapl:package-0:dram"]),
        ({"intel-rapl-mmio:0": "package-0", "intel-rapl:0": "package-0"}, ["rapl:package-0"]),
    ],
)
def test_rapl_by_the_thermal_device_counts_where_the_processors_is_missing(stack, tmp_path, zones, found):
    for zone, name in zones.items():
        write_zone(tmp_path, zone, name)
    if isinstance(found, str):
        with pytest.raises(BackendUnavailable, match=f"no RAPL counter of a package, memory or platform: {found}"):
            rapl.open_channels(stack, tmp_path)
    else:
        assert [channel.info.name for channel in rapl.open_channels(stack, tmp_path)] == found


@pytest.fixture
def refused(monkeypatch):
    """Paths that may not be opened; root may open everything."""
    paths = set()

    def open_others(path, *rest):
        if path in paths:
            raise PermissionError(13, "Permission denied")
        return open(path, *rest)

    monkeypatch.setattr(files, "open", open_others, raising=False)
    return paths


def lost_and_heard(channels):
    """Names of the channels that give nothing, and of those that give something; each keeps what it says of itself."""
    lost, heard = [], []
    for channel in channels:
        assert channel.info.has_counter == (channel.read_energy_j is not None)
        try:
            (channel.read_energy_j or channel.read_power_w)()
        except ReadError:
            assert channel.info.lacks.startswith("cannot be read (")
            lost.append(channel.info.name)
        else:
            assert channel.info.lacks == ""
            heard.append(channel.info.name)
    return lost, heard


def test_a_package_whose_counter_may_not_be_read_stays_in_sight_and_loses_no_other(stack, tmp_path, refused):
    refused.add(write_zone(tmp_path, "intel-rapl:0", "package-0"))
    write_zone(tmp_path, "intel-rapl:1", "package-1")
    write_zone(tmp_path, "intel-rapl:2", "psys").write_text("none\n")
    channels = rapl.open_channels(stack, tmp_path)
    assert lost_and_heard(channels) == (["rapl:package-0", "rapl:psys"], ["rapl:package-1"])
    assert "chmod a+r" in channels[0].info.lacks
    assert channels[0].info.scope is Scope.CPU  # so that a sum over the packages is not taken for whole


def write_proc(proc, model="AMD EPYC 7742 64-Core Processor", cores=4, busy=0, idle=0):
    (proc / "cpuinfo").write_text("\n".join(f"processor\t: {i}\nmodel name\t: {model}\n" for i in range(cores)))
    (proc / "stat").write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\n")


@pytest.mark.parametrize(("load", "share"), [(0.0, 0.3), (0.5, 0.65), (1.0, 1.0)])
def test_the_estimate_goes_from_the_idle_share_to_the_cores_thermal_design_power(stack, tmp_path, load, share):
    write_proc(tmp_path)
    [channel] = estimate.open_channels(stack, tmp_path, {}, tmp_path)
    write_proc(tmp_path, busy=int(1000 * load), idle=int(1000 * (1 - load)))
    assert channel.read_power_w() == pytest.approx(225 / 64 * 4 * share)
    assert channel.info.estimated
    assert channel.info.scope is Scope.CPU
    assert channel.info.limit_w == pytest.approx(225 / 64 * 4)
    assert "AMD product page" in channel.info.source


@pytest.mark.parametrize(
    ("cpuinfo", "chip", "core_w", "words"),
    [
        ("processor\t: 0\nmodel name\t: Chip X\n", "", 6.0, "Chip X has no TDP in the table, 6 W per core assumed"),
        (ARM, GRACE, 500 / 144, "500 W per 144 cores"),
        (ARM, "", 2.5, "ARM Neoverse-V2 has no TDP in the table, 2.5 W per core assumed"),
    ],
)
def test_the_estimate_says_which_power_a_core_was_given(stack, tmp_path, monkeypatch, cpuinfo, chip, core_w, words):
    write_proc(tmp_path)
    write_processor(tmp_path, monkeypatch, 10 * f"{cpuinfo}\n", [OF_LSCPU], chip)
    [channel] = estimate.open_channels(stack, tmp_path, {}, tmp_path)
    assert channel.read_power_w() == pytest.approx(core_w * 10 * 0.3)
    assert words in channel.info.source


def test_a_stated_power_is_used_and_nonsense_is_refused(stack, tmp_path):
    write_proc(tmp_path)
    [channel] = estimate.open_channels(stack, tmp_path, {"JPWR_CPU_TDP_W": "100"}, tmp_path)
    assert channel.read_power_w() == pytest.approx(30.0)
    with pytest.raises(BackendUnavailable, match="JPWR_CPU_TDP_W is 'much'"):
        estimate.open_channels(stack, tmp_path, {"JPWR_CPU_TDP_W": "much"}, tmp_path)


GOOD = ChannelInfo("mine:0", Scope.DEVICE, "")


def method(*channels):
    """A method that opens channels, or fails."""

    def open_channels(stack):
        stack.callback(closed.append, "closed")
        if not channels:
            raise BackendUnavailable("there is no device")
        return list(channels)

    closed: list[str] = []
    return type("Method", (), {"open_channels": staticmethod(open_channels), "closed": closed})


def channel(name, scope=Scope.DEVICE):
    return Channel(ChannelInfo(name, scope, ""), lambda: 1.0)


@pytest.fixture
def methods(monkeypatch):
    """Put methods in place of all others."""

    def replace(**table):
        monkeypatch.setattr(backends, "METHODS", {name: name for name in table})
        monkeypatch.setattr(backends.importlib, "import_module", table.__getitem__)
        monkeypatch.setattr(backends, "plug_ins", dict)
        return table

    return replace


def names(opened):
    return [channel.info.name for channel in opened.channels]


def test_methods_are_opened_by_name_as_alternatives_or_all_that_measure(methods, stack):
    broken = methods(works=method(channel("works:0")), broken=method(), estimate=method(channel("cpu")))["broken"]
    for asked in (["auto"], ["works"], ["broken/works"], ["works", "auto"]):
        assert names(open_methods(asked, stack)) == ["works:0"]
    assert names(open_methods(["estimate"], stack)) == ["cpu"]
    broken.closed.clear()
    with pytest.raises(BackendUnavailable, match="there is no device"):
        open_methods(["works", "broken"], stack)
    assert broken.closed == ["closed"]  # what it had opened
    with pytest.raises(JpwrError, match="'nvidia'"):
        open_methods(["nvidia"], stack)


def test_auto_takes_a_scope_from_the_first_method_that_shows_it(methods, stack):
    methods(first=method(channel("a:gpu")), second=method(channel("b:gpu"), channel("b:cpu", Scope.CPU)))
    opened = open_methods(["auto"], stack)
    assert names(opened) == ["a:gpu", "b:cpu"]
    assert "b:gpu" in opened.notes[-1]


@pytest.mark.parametrize("asked", [["auto"], ["first", "second"], ["first", "second", "first"]])
def test_of_two_channels_of_one_name_the_first_is_kept(methods, stack, asked):
    methods(first=method(channel("meter", Scope.SUPPLY)), second=method(channel("meter", Scope.NODE)))
    opened = open_methods(asked, stack)
    assert [(one.info.name, one.info.scope) for one in opened.channels] == [("meter", Scope.SUPPLY)]
    assert any("meter" in note and "second" in note for note in opened.notes)


@pytest.mark.parametrize(
    "channels",
    [
        [channel("mine:0"), channel("mine:0")],
        [channel("a,b")],
        [Channel(GOOD._replace(scope="device"), lambda: 1.0)],
        [Channel({"name": "mine:0"}, lambda: 1.0)],
        [Channel(GOOD)],
        [42.0],
    ],
)
def test_a_channel_that_no_trace_can_hold_is_refused_when_it_is_opened(methods, stack, channels):
    methods(mine=method(*channels), good=method(channel("good:0")))
    with pytest.raises(BackendUnavailable):
        open_methods(["mine"], stack)
    assert names(open_methods(["auto"], stack)) == ["good:0"]


@pytest.mark.parametrize(
    "opens",
    [
        "raise KeyError('no such device')",
        "raise SystemExit(3)",
        "raise BaseException('of a library in Rust')",
        "return None",
        "import pathlib, time\nwhile not pathlib.Path('answers').exists():\n    time.sleep(0.01)",
    ],
)
def test_a_method_that_cannot_be_opened_costs_no_other_its_channels(tmp_path, monkeypatch, stack, opens):
    def open_first(stack):
        if "sleep" in opens:  # from now on
            monkeypatch.setattr(backends, "OPEN_S", 0.05)
        return [channel("first:0")]

    first = type("Method", (), {"open_channels": staticmethod(open_first)})
    monkeypatch.setattr(backends, "METHODS", {"first": "first"})
    monkeypatch.setattr(backends.importlib, "import_module", lambda name: first)
    install_method(tmp_path, "odd", opens)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert names(open_methods(["auto"], stack)) == ["first:0"]
    with pytest.raises(BackendUnavailable):
        open_methods(["odd"], stack)
    Path("answers").touch()
    wait_until(lambda: not [each for each in threading.enumerate() if each.name == "jpwr-within"], "their end")


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def write_chip(hwmon_folder, number, name, **files):
    for file, content in {"name": name, **files}.items():
        write(hwmon_folder / f"hwmon{number}" / file, content)


def write_meter(hwmon_folder, number, label, microwatts):
    device = hwmon_folder / f"hwmon{number}" / "device"
    write(device / "power1_oem_info", label)
    write(device / "power1_average", microwatts)
    write(device / "power1_average_interval", 50)


def test_a_module_contains_its_parts_and_each_scope_can_be_summed(stack, tmp_path):
    for number, (label, microwatts) in enumerate(
        [
            ("Module Power Socket 0", 165_627_000),
            ("Grace Power Socket 0", 80_000_000),
            ("CPU Power Socket 0", 50_000_000),
            ("SysIO Power Socket 0", 9_000_000),
        ]
    ):
        write_meter(tmp_path, number, label, microwatts)
    channels = grace_hopper.open_channels(stack, tmp_path)
    found = {channel.info.name: (channel.info.scope, channel.read_power_w()) for channel in channels}
    assert found == {
        "gh:Module Power Socket 0": (Scope.MODULE, pytest.approx(165.627)),
        "gh:Grace Power Socket 0": (Scope.CPU, pytest.approx(80.0)),
    }
    assert {channel.info.averaging_s for channel in channels} == {0.05}
    parts = ["the module: CPU, GPU and memory", "the processor and its memory"]
    assert [channel.info.source for channel in channels] == [f"ACPI power meter by hwmon, of {part}" for part in parts]


def test_cray_counters_have_node_parts_and_accelerators(stack, tmp_path):
    write(tmp_path / "power", "812 W 1700000000000000 us")
    write(tmp_path / "energy", "123456 J 1700000000000000 us")
    write(tmp_path / "cpu_power", "210 W 1700000000000000 us")
    write(tmp_path / "memory_power", "33 W 1700000000000000 us")
    write(tmp_path / "accel0_power", "401 W 1700000000000000 us")
    write(tmp_path / "accel0_energy", "77 J 1700000000000000 us")
    write(tmp_path / "power_cap", "0 W")
    channels = {channel.info.name: channel for channel in cray.open_channels(stack, tmp_path)}
    assert {name: channel.info.scope for name, channel in channels.items()} == {
        "cray:node": Scope.NODE,
        "cray:cpu": Scope.CPU,
        "cray:memory": Scope.DRAM,
        "cray:accel0": Scope.DEVICE,
    }
    assert channels["cray:node"].read_power_w() == 812
    assert channels["cray:node"].read_energy_j() == 123456
    assert channels["cray:cpu"].read_energy_j is None


@pytest.mark.parametrize(("pci_id", "scope"), [("0x74a0", Scope.MODULE), ("0x740c", Scope.DEVICE)])
def test_an_accelerator_of_a_cray_with_its_own_cpu_is_a_module(stack, tmp_path, pci_id, scope):
    write(tmp_path / "accel0_power", "401 W 1700000000000000 us")
    for address, device in (("0000:00:00.0", "0x1480"), ("0001:01:00.0", pci_id)):
        write(tmp_path / "pci" / address / "device", device)
    [channel] = cray.open_channels(stack, tmp_path, tmp_path / "pci")
    assert channel.info.scope is scope
    assert ("power of the socket, CPU and GPU" in channel.info.source) == (scope is Scope.MODULE)


def test_what_all_processors_of_a_cray_take_is_not_counted_once_more_for_each(stack, tmp_path):
    for part in ("cpu", "cpu0", "cpu1", "memory0", "memory1"):
        write(tmp_path / f"{part}_power", "125 W 1700000000000000 us")
    found = [channel.info.name for channel in cray.open_channels(stack, tmp_path)]
    assert found == ["cray:cpu", "cray:memory0", "cray:memory1"]


@pytest.mark.parametrize(
    ("text", "watts"),
    [
        ("812.5 W 17 us", 812.5),
        ("0.21 kW", 210),
        ("33000 mW", 33),
        ("5 BTU", "the unit 'BTU' is none of W, mW, kW"),
        ("5", "power: "),
    ],
)
def test_a_crays_counters_have_units(stack, tmp_path, text, watts):
    write(tmp_path / "power", "1 W")
    [channel] = cray.open_channels(stack, tmp_path)
    write(tmp_path / "power", text)
    if isinstance(watts, str):
        with pytest.raises(ReadError, match=watts):
            channel.read_power_w()
    else:
        assert channel.read_power_w() == pytest.approx(watts)


def test_a_card_that_cannot_be_read_loses_no_other_and_power_loses_no_counter(stack, tmp_path, refused):
    for number in range(3):
        write_chip(tmp_path, number, "xe", power1_input=90_000_000, energy1_input=5_000_000, energy1_label="card")
    refused |= {tmp_path / "hwmon0" / f"{kind}1_input" for kind in ("power", "energy")}
    write(tmp_path / "hwmon1" / "power1_input", "none")
    first, second, third = hwmon.open_channels(stack, tmp_path)
    assert lost_and_heard([first, third]) == (["hwmon:xe:card"], ["hwmon:xe:card#3"])
    assert second.info.lacks.startswith("no power (")
    assert (second.read_power_w, second.read_energy_j()) == (None, pytest.approx(5.0))


def test_what_sleeps_may_wake(stack, tmp_path):
    write_chip(tmp_path, 0, "xe", power1_input="none", energy1_input="none")
    [channel] = hwmon.open_channels(stack, tmp_path)
    write(tmp_path / "hwmon0" / "power1_input", 90_000_000)
    assert channel.read_power_w() == pytest.approx(90.0)


def test_where_no_sensor_can_be_read_the_method_cannot_be_used(stack, tmp_path, refused):
    for part in ("accel0", "accel1"):
        write(tmp_path / f"{part}_power", "401 W 1700000000000000 us")
        refused.add(tmp_path / f"{part}_power")
    with pytest.raises(
        BackendUnavailable, match=r"none of its sensors can be read: .*accel0_power is readable by root"
    ):
        cray.open_channels(stack, tmp_path)


def test_hwmon_counts_known_devices_once_and_nothing_inside_of_them(stack, tmp_path):
    write_chip(tmp_path, 0, "amdgpu", power1_average=90_000_000, power1_label="PPT")
    write_chip(
        tmp_path, 1, "xe", energy1_input=5_000_000, energy1_label="card", energy2_input=4_000_000, energy2_label="pkg"
    )
    write_chip(tmp_path, 2, "xe", energy1_input=6_000_000, energy1_label="card")
    write_chip(
        tmp_path,
        3,
        "amd_energy",
        energy1_input=1_000_000,
        energy1_label="Ecore000",
        energy65_input=70_000_000,
        energy65_label="Esocket0",
    )
    write_chip(tmp_path, 4, "corsairpsu", power1_input=400_000_000)
    write_chip(tmp_path, 6, "zenpower", power1_input=90_000_000, power1_label="SVI2_P_Core")  # of the same processor
    write_meter(tmp_path, 5, "Module Power Socket 0", 1)
    channels = {channel.info.name: channel for channel in hwmon.open_channels(stack, tmp_path)}
    assert {name: channel.info.scope for name, channel in channels.items()} == {
        "hwmon:amdgpu:PPT": Scope.DEVICE,
        "hwmon:xe:card": Scope.DEVICE,
        "hwmon:xe:card#2": Scope.DEVICE,
        "hwmon:amd_energy:Esocket0": Scope.CPU,
    }
    assert channels["hwmon:amdgpu:PPT"].read_power_w() == pytest.approx(90.0)
    assert channels["hwmon:xe:card#2"].read_energy_j() == pytest.approx(6.0)


def test_hwmon_states_how_long_a_chip_holds_its_readings(stack, tmp_path):
    write_chip(tmp_path, 0, "amdgpu", power1_average=90_000_000, power1_average_interval=250, update_interval=500)
    [channel] = hwmon.open_channels(stack, tmp_path)
    info = channel.info
    assert (info.held_s, info.period_s, info.averaging_s) == (0.5, 0.5, 0.25)
    assert (info.accuracy, info.accuracy_from) == (0.0, "")
    (tmp_path / "hwmon0" / "power1_average_interval").unlink()
    assert hwmon.open_channels(stack, tmp_path)[0].info.averaging_s == hwmon.AVERAGED_S


@pytest.mark.parametrize(
    ("header", "scope"),
    [
        (b"\x78\x00\x01\x03", Scope.DEVICE),  # a card
        (b"\x80\x00\x02\x04", Scope.MODULE),  # a processor with graphics
        (b"\x08\x01\x03\x00", Scope.MODULE),
        (b"", Scope.DEVICE),
        (None, Scope.DEVICE),
    ],
)
def test_the_power_of_a_gpu_with_a_processor_is_that_of_a_module(stack, tmp_path, header, scope):
    write_chip(tmp_path, 0, "amdgpu", power1_input=45_000_000)
    (tmp_path / "hwmon0" / "device").mkdir()
    if header is not None:
        (tmp_path / "hwmon0" / "device" / "gpu_metrics").write_bytes(header)
    assert [channel.info.scope for channel in hwmon.open_channels(stack, tmp_path)] == [scope]


@pytest.mark.parametrize(
    ("stated", "accuracy", "source"),
    [("97.5%", 0.025, "documentation"), ("0.0%", 0.0, ""), ("100%", 0.0, ""), ("?", 0.0, ""), (None, 0.0, "")],
)
def test_a_grace_meter_states_its_accuracy_itself(stack, tmp_path, stated, accuracy, source):
    write_meter(tmp_path, 0, "Module Power Socket 0", 1)
    if stated:
        write(tmp_path / "hwmon0" / "device" / "power1_accuracy", stated)
    [channel] = grace_hopper.open_channels(stack, tmp_path)
    assert (channel.info.accuracy, channel.info.accuracy_from) == (pytest.approx(accuracy), source)
    assert channel.info.held_s == 0.05


@pytest.fixture
def ipmitool(tmp_path, monkeypatch):
    """A program ipmitool that prints what it is told to, and fails on request."""

    def install(output, code=0):
        program = tmp_path / "ipmitool"
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\nexit {code}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return install


def test_the_management_controllers_power_is_the_nodes_at_its_own_pace(stack, ipmitool):
    ipmitool("    Instantaneous power reading:        220 Watts\n    Minimum during sampling period: 18 Watts")
    [channel] = ipmi.open_channels(stack)
    assert channel.read_power_w() == 220
    assert channel.info.scope is Scope.NODE
    assert channel.info.period_s >= 1
    assert (channel.info.averaging_s, channel.info.resolution_w) == (30.0, 1.0)


@pytest.mark.parametrize(("text", "averaging_s"), [("10", 10.0), ("0.5", 0.5), ("", 30.0), ("ten", None), ("-1", None)])
def test_a_site_states_the_averaging_time_of_its_management_controllers(
    stack, ipmitool, monkeypatch, text, averaging_s
):
    ipmitool("Instantaneous power reading: 220 Watts")
    monkeypatch.setenv(ipmi.AVERAGING_VARIABLE, text)
    if averaging_s is None:
        with pytest.raises(BackendUnavailable, match=f"JPWR_IPMI_AVERAGING_S is '{text}', but must be a number of"):
            ipmi.open_channels(stack)
    else:
        assert ipmi.open_channels(stack)[0].info.averaging_s == averaging_s


@pytest.mark.parametrize(
    ("output", "code", "watts"),
    [
        ("Instantaneous power reading: 8 Watts\nPower reading state is: activated", 0, 8),
        ("Instantaneous power reading: 0 Watts\nPower reading state is: deactivated", 0, None),
        ("DCMI request failed because: Invalid command", 1, None),
    ],
)
def test_a_management_controller_may_have_no_power(stack, ipmitool, output, code, watts):
    ipmitool(output, code)
    if watts is None:
        with pytest.raises(BackendUnavailable, match="returns no power"):
            ipmi.open_channels(stack)
    else:
        assert ipmi.read_power_w() == watts


GCIPUINFO = """
IpuPower = "ipu power"
powers = ["45.12W", "N/A", "47.5W", "48W"]

class gcipuinfo:
    def getDevices(self):
        return ["a", "b", "c", "d"]

    def getNamedAttributeForAll(self, attribute):
        assert attribute == IpuPower
        calls.append(attribute)
        return powers

calls = []
"""


@pytest.fixture
def gcipuinfo(tmp_path, monkeypatch):
    (tmp_path / "gcipuinfo.py").write_text(GCIPUINFO)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "gcipuinfo", raising=False)
    yield importlib.import_module("gcipuinfo")
    del sys.modules["gcipuinfo"]


def test_an_ipu_without_a_reading_is_missing_and_shifts_no_other(stack, gcipuinfo, clock):
    channels = graphcore.open_channels(stack, clock)
    assert [channel.info.name for channel in channels] == ["gc:0", "gc:1", "gc:2", "gc:3"]
    assert channels[0].read_power_w() == pytest.approx(45.12)
    with pytest.raises(ValueError, match="N/A"):
        channels[1].read_power_w()
    assert channels[2].read_power_w() == pytest.approx(47.5)
    assert channels[3].read_power_w() == pytest.approx(48.0)


def test_one_call_reads_the_ipus_that_are_read_together(stack, gcipuinfo, clock):
    first, *_, last = graphcore.open_channels(stack, clock)
    first.read_power_w()
    clock.time_s += graphcore.SHARED_S
    last.read_power_w()
    assert len(gcipuinfo.calls) == 1
    clock.time_s += 0.01
    first.read_power_w()
    assert len(gcipuinfo.calls) == 2


def test_a_list_of_another_length_than_the_devices_is_missing_altogether(stack, gcipuinfo):
    gcipuinfo.powers[:] = ["45.12W", "47.5W", "48W"]
    for channel in graphcore.open_channels(stack):
        with pytest.raises(ReadError, match="3 powers for 4 IPUs"):
            channel.read_power_w()


@pytest.mark.parametrize(
    ("asked", "mine"),
    [
        (None, {0, 1, 2}),
        ("", set()),
        ("-1", set()),
        ("2,0", {0, 2}),
        ("gpu-C, 0", {0, 2}),
        ("0,-1,2", {0}),
        ("1,3,2", {1}),
        ("GPU-z,1", set()),
        ("0,GPU-,2", {0}),
        ("\N{SUPERSCRIPT TWO},0", set()),
        ("MIG-2,MIG-3", {1}),
        ("MIG-GPU-bbb/1/0", {1}),
    ],
)
def test_the_devices_of_a_job_are_those_that_the_environment_shows(asked, mine):
    environ = {} if asked is None else {"CUDA_VISIBLE_DEVICES": asked}
    ids = [["GPU-aaa"], ["GPU-bbb", "MIG-GPU-bbb/1/0", "MIG-2", "MIG-3"], ["GPU-ccc"]]
    assert set(visible(environ, [["CUDA_VISIBLE_DEVICES"]], ids)) == mine


@pytest.mark.parametrize(
    ("environ", "mine"),
    [
        ({}, [2, 3]),
        ({"CUDA_VISIBLE_DEVICES": "3,1,0"}, [0]),
        ({"CUDA_VISIBLE_DEVICES": "0,1,2", "HIP_VISIBLE_DEVICES": "3,2,1"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": "3,2,1"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": "3,2,1", "HIP_VISIBLE_DEVICES": "2,1,0"}, [3]),
        ({"ROCR_VISIBLE_DEVICES": "3,2,1", "HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": "0,2,1"}, [2]),
    ],
)
def test_a_program_is_shown_part_of_what_is_visible(environ, mine):
    ids = [[f"GPU-00000000000000a{index}"] for index in range(4)]
    shown = narrowed(environ, 2, len(mine))
    assert shown["HIP_VISIBLE_DEVICES"] == shown["CUDA_VISIBLE_DEVICES"]
    assert visible({**environ, **shown}, rocm.VISIBLE, ids) == mine
    if "ROCR_VISIBLE_DEVICES" not in environ:
        assert visible({**environ, **shown}, nvml.VISIBLE, ids) == mine


@pytest.fixture
def plug_in(tmp_path, monkeypatch):
    """An installed package that adds the method `mine`, and one whose import fails."""
    channel = "return [Channel(ChannelInfo('mine:0', Scope.NODE, 'a wattmeter'), lambda: 42.0)]"
    install_method(tmp_path, "mine", channel, "bad = absent:f\n")
    monkeypatch.syspath_prepend(str(tmp_path))


def test_another_package_adds_a_method_by_an_entry_point(plug_in, stack):
    [channel] = open_methods(["mine"], stack).channels
    assert channel.read_power_w() == 42.0
    opened = open_methods(["auto"], stack)
    assert "mine:0" in names(opened)
    assert any(note.startswith("bad: not used: its package cannot be loaded") for note in opened.notes)


@pytest.fixture
def sampled_nvml(tmp_path, nvml_folder):
    """Sample some rows of the stand-in NVML; returns the trace and the messages."""
    return partial(sampled, tmp_path, "pynvml", nvml_folder, STAND_IN_DEVICES="4")


@pytest.mark.parametrize(("fault", "device_id"), [("lost", ""), ("vanish", "GPU-2"), ("error", "GPU-2")])
def test_a_gpu_that_is_lost_stays_in_sight_and_takes_no_other_along(sampled_nvml, fault, device_id):
    trace, said = sampled_nvml(STAND_IN_FAULT=fault, STAND_IN_FAULT_DEVICE="2")
    assert [info.name for info in trace.channels] == [f"pynvml:{index}" for index in range(4)]
    assert [series.samples > 0 for series in trace.series()] == [True, True, False, True]
    lost = trace.channels[2]
    assert lost.device_id == device_id
    assert lost.lacks.startswith("cannot be read (NVML: ")
    assert f"pynvml:2: {lost.lacks}" in said


@pytest.mark.parametrize("instant", ["0", "1"])
def test_a_gpu_whose_power_is_not_supported_is_read_by_its_counter(sampled_nvml, instant):
    trace, said = sampled_nvml(STAND_IN_FAULT="no-power", STAND_IN_FAULT_DEVICE="1", STAND_IN_INSTANT=instant)
    info, series = trace.channels[1], trace.series()[1]
    assert info.lacks == "no power (NVML: Not Supported)"
    assert "energy of the board by NVML" in info.source
    assert f"pynvml:1: {info.lacks}" in said
    assert series.energy_j[-1] > series.energy_j[0]
    assert series.power_w[-1] > 0  # the counter's slope
    assert [other.lacks for other in trace.channels if other is not info] == [""] * 3


def test_gpus_are_read_through_another_package_named_pynvml_without_the_field(sampled_nvml, tmp_path):
    """As pynvml 8 in vendors' images, whose names are of another variable, too."""
    nvml_py, real = tmp_path / "image" / "pynvml" / "nvml.py", importlib.util.find_spec("pynvml").origin
    write(nvml_py.with_name("__init__.py"), "from pynvml.nvml import *")
    write(nvml_py, f"exec(open({real!r}).read().replace('nvmlLib', 'nvml_lib'))\ndel NVML_FI_DEV_POWER_INSTANT")
    trace, said = sampled_nvml(PYTHONPATH=f"{tmp_path / 'image'}:{REPOSITORY}", STAND_IN_INSTANT="1")
    replace = "'pip uninstall pynvml' and 'pip install --upgrade nvidia-ml-py' replace it"
    lacks = f"no instant power ({nvml_py} has no NVML_FI_DEV_POWER_INSTANT: {replace})"
    assert {info.source for info in trace.channels} == {"Stand-in GPU, averaged power of the board by NVML"}
    assert {info.lacks for info in trace.channels} == {lacks}
    assert lacks in said
    assert [series.power_w[0] for series in trace.series()] == [300, 600, 900, 1200], said


def test_a_counter_that_takes_long_is_known_when_it_is_opened(nvml_folder):
    slow = {"STAND_IN_SHAPE": "constant", "STAND_IN_INSTANT": "1", "STAND_IN_COUNTER_TAKES_S": "0.003"}
    slow["LD_LIBRARY_PATH"] = str(nvml_folder)
    program = (
        "from contextlib import ExitStack\n"
        "from jpwr.backends.nvml import open_channels\n"
        "for channel in open_channels(ExitStack()):\n"
        "    assert channel.read_power_w and channel.read_energy_j\n"
        "    assert channel.counter_takes_s >= 0.003\n"
    )
    done = run(sys.executable, "-c", program, **slow)
    assert done.returncode == 0, done.stderr


def test_reading_takes_no_time_where_a_program_is_busy_in_python():
    stop = threading.Event()
    busy = threading.Thread(target=lambda: all(not stop.is_set() for _ in itertools.repeat(None)))
    busy.start()
    try:
        assert seconds_of(lambda: time.sleep(0.0001) or 1.0) == 0.0
    finally:
        stop.set()
        busy.join()
    assert seconds_of(Lost("gone")) == 0.0


def test_a_gpu_whose_counter_is_not_supported_is_read_by_its_power(sampled_nvml):
    trace, said = sampled_nvml(STAND_IN_FAULT="no-counter", STAND_IN_FAULT_DEVICE="1")
    assert [info.has_counter for info in trace.channels] == [True, False, True, True]
    assert trace.channels[1].lacks == "no counter (NVML: Not Supported)"
    assert set(trace.series()[1].power_w) == {600}
    assert "pynvml:1: no counter (NVML: Not Supported)" in said


@pytest.mark.parametrize(
    ("variables", "seen_share", "part"),
    [
        ({"STAND_IN_CAPABILITY": "8.0", "STAND_IN_MODULE_W": "0"}, 0.25, "the board"),  # a driver without scopes
        ({"STAND_IN_CAPABILITY": "9.0", "STAND_IN_MODULE_W": "90"}, 0.25, "the GPU without its module's CPU, which"),
        ({"STAND_IN_CAPABILITY": "8.9"}, 1.0, "the board"),
        ({"STAND_IN_CAPABILITY": "not known"}, 1.0, "the board"),
    ],
)
def test_what_a_gpus_sensor_sees_is_known_by_chip_and_scope(sampled_nvml, variables, seen_share, part):
    asked = {"STAND_IN_INSTANT": "1", "STAND_IN_FAULT": "no-limit", "STAND_IN_FAULT_DEVICE": "3", **variables}
    trace, _ = sampled_nvml(**asked)
    assert {info.seen_share for info in trace.channels} == {seen_share}
    assert all(f"instant power of {part}" in info.source for info in trace.channels)
    assert [info.limit_w for info in trace.channels] == [400.0, 400.0, 400.0, 0.0]
    assert [series.power_w[0] for series in trace.series()] == [300, 600, 900, 1200]


@pytest.mark.parametrize(
    ("listed", "variables", "found"),
    [
        ("1:{mine} 2:1 3:{mine}", {}, ["GPU-1", "GPU-3"]),
        ("1:1", {}, []),
        ("", {}, []),
        ("1:{mine} 2:{nobody}", {}, []),  # numbers of another PID namespace
        ("1:{mine} 2:{mine}", {"STAND_IN_FAULT": "lost", "STAND_IN_FAULT_DEVICE": "2"}, ["GPU-1"]),
        ("1:{mine}", {"STAND_IN_FAULT": "no-driver"}, []),
        ("1:{mine}", {"STAND_IN_FAULT": "older-driver"}, ["GPU-1"]),
        ("1:{mine}", {"STAND_IN_FAULT": "oldest-driver"}, []),
    ],
)
def test_the_gpus_on_which_a_process_computes_are_listed_by_the_driver(nvml_folder, listed, variables, found):
    mine, nobody = os.getpid(), int(Path("/proc/sys/kernel/pid_max").read_text()) + 1
    program = f"from jpwr.backends.nvml import devices_used_by; print(devices_used_by({{{mine}}}))"
    listed = listed.format(mine=mine, nobody=nobody)
    library = {"LD_LIBRARY_PATH": str(nvml_folder), "STAND_IN_DEVICES": "4", "STAND_IN_PROCESSES": listed}
    done = run(sys.executable, "-c", program, **library, **variables)
    assert done.stdout == f"{found}\n", done.stderr


def test_a_process_that_a_method_starts_can_be_ended(tmp_path):
    install_method(
        tmp_path,
        "helper",
        "import subprocess\n"
        "helper = stack.enter_context(subprocess.Popen(['sleep', '1000']))\n"
        "stack.callback(helper.terminate)\n"
        "return [Channel(ChannelInfo('helper:0', Scope.DEVICE, 'made up'), lambda: 300.0)]",
    )
    command = (sys.executable, "-m", "jpwr", "--methods", "helper", "--", "sh", "-c", "exit 3")
    done = run(*command, cwd=tmp_path, PYTHONPATH=f"{REPOSITORY}:{tmp_path}")
    assert done.returncode == 3, done.stderr
