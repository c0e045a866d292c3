from __future__ import annotations

from contextlib import ExitStack

import pytest

from jpwr import backends
from jpwr.backends import estimate, open_methods, rapl
from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.errors import BackendUnavailable, JpwrError


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
    found = {channel.info.name: channel.info.scope for channel in rapl.open_channels(stack, tmp_path)}
    assert found == {
        "rapl:package-0": Scope.CPU,
        "rapl:package-0:dram": Scope.DRAM,
        "rapl:package-1": Scope.CPU,
        "rapl:psys": Scope.NODE,
    }


def test_a_rapl_counter_goes_on_where_the_kernels_starts_again(stack, tmp_path):
    counter = write_zone(tmp_path, "intel-rapl:0", "package-0", counter_uj=900_000, range_uj=1_000_000)
    [channel] = rapl.open_channels(stack, tmp_path)
    read_j = []
    for value_uj in (950_000, 150_000, 400_000):
        counter.write_text(f"{value_uj}\n")
        read_j.append(channel.read_energy_j())
    assert read_j == pytest.approx([0.05, 0.25, 0.5])


def test_a_machine_without_rapl_says_so(stack, tmp_path):
    with pytest.raises(BackendUnavailable, match="no RAPL counter"):
        rapl.open_channels(stack, tmp_path)


def test_a_rapl_counter_that_may_not_be_read_says_which_and_how(stack, tmp_path, monkeypatch):
    write_zone(tmp_path, "intel-rapl:0", "package-0")

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(rapl, "open", refuse, raising=False)  # root may read everything
    with pytest.raises(BackendUnavailable, match=r"intel-rapl:0/energy_uj may be read by root only.*chmod a\+r"):
        rapl.open_channels(stack, tmp_path)


def write_proc(proc, model="AMD EPYC 7742 64-Core Processor", cores=4, busy=0, idle=0):
    blocks = [f"processor\t: {i}\nmodel name\t: {model}\nphysical id\t: 0\ncore id\t: {i}\n" for i in range(cores)]
    (proc / "cpuinfo").write_text("\n".join(blocks))
    (proc / "stat").write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\n")


@pytest.mark.parametrize(("load", "share"), [(0.0, 0.3), (0.5, 0.65), (1.0, 1.0)])
def test_the_estimate_goes_from_the_idle_share_to_the_cores_thermal_design_power(stack, tmp_path, load, share):
    write_proc(tmp_path)
    [channel] = estimate.open_channels(stack, tmp_path, {})
    write_proc(tmp_path, busy=int(1000 * load), idle=int(1000 * (1 - load)))
    assert channel.read_power_w() == pytest.approx(225 / 64 * 4 * share)
    assert channel.info.estimated
    assert channel.info.scope is Scope.CPU
    assert "AMD product page" in channel.info.source


def test_two_threads_of_a_core_share_its_power(stack, tmp_path):
    write_proc(tmp_path, cores=2)
    (tmp_path / "cpuinfo").write_text((tmp_path / "cpuinfo").read_text() * 2)
    [channel] = estimate.open_channels(stack, tmp_path, {})
    assert channel.read_power_w() == pytest.approx(225 / 64 * 2 * 0.3)


def test_an_unknown_processor_is_assumed_and_said_to_be(stack, tmp_path):
    write_proc(tmp_path, model="Chip X", cores=10)
    [channel] = estimate.open_channels(stack, tmp_path, {})
    assert channel.read_power_w() == pytest.approx(6.0 * 10 * 0.3)
    assert "6 W per core assumed" in channel.info.source


def test_a_stated_power_is_used_and_nonsense_is_refused(stack, tmp_path):
    write_proc(tmp_path)
    [channel] = estimate.open_channels(stack, tmp_path, {"JPWR_CPU_TDP_W": "100"})
    assert channel.read_power_w() == pytest.approx(30.0)
    with pytest.raises(BackendUnavailable, match="JPWR_CPU_TDP_W is 'much'"):
        estimate.open_channels(stack, tmp_path, {"JPWR_CPU_TDP_W": "much"})


@pytest.fixture
def methods(monkeypatch):
    """Three methods: one that works, one that does not, and a model of power."""

    class Works:
        @staticmethod
        def open_channels(stack):
            return [Channel(ChannelInfo("works:0", Scope.DEVICE, ""), lambda: 1.0)]

    class Broken:
        @staticmethod
        def open_channels(stack):
            stack.callback(closed.append, "broken")
            raise BackendUnavailable("there is no device")

    closed: list[str] = []
    table = {"works": Works, "broken": Broken, "estimate": Works}
    monkeypatch.setattr(backends, "METHODS", {name: name for name in table})
    monkeypatch.setattr(backends.importlib, "import_module", table.__getitem__)
    return closed


def names(opened):
    return [channel.info.name for channel in opened.channels]


def test_auto_takes_what_is_there_says_why_the_rest_is_not_and_never_models(methods, stack):
    opened = open_methods(["auto"], stack)
    assert names(opened) == ["works:0"]
    assert opened.notes == ["works: works:0", "broken: not used: there is no device"]


def test_a_method_asked_for_by_name_must_work(methods, stack):
    with pytest.raises(BackendUnavailable, match="method 'broken' was asked for, but there is no device"):
        open_methods(["works", "broken"], stack)
    assert methods == ["broken"]  # what it had opened is closed


def test_of_alternatives_the_first_that_works_is_used_with_a_word_on_the_others(methods, stack):
    opened = open_methods(["broken/works"], stack)
    assert names(opened) == ["works:0"]
    assert opened.notes == ["method 'broken' was asked for, but there is no device; using 'works' instead"]


def test_an_unknown_method_is_refused_with_what_there_is(stack):
    with pytest.raises(JpwrError, match=r"method 'nvidia' is unknown: choose from pynvml, .*auto"):
        open_methods(["nvidia"], stack)
