"""AMD GPUs, as their libraries show them on MI250, MI300X and MI300A."""

from __future__ import annotations

import functools
import sys
import types
import uuid
from contextlib import ExitStack

import pytest

from jpwr.backends import hwmon, rocm
from jpwr.backends.parts import Lost
from jpwr.backends.rocm import Device, Sensor, _cards
from jpwr.channel import Scope
from jpwr.errors import ReadError
from jpwr.process.device_ids import same_ids
from jpwr.tests.conftest import HERE, run, sampled
from jpwr.trace.writers import read_trace

IDS = [f"GPU-0f1182f2988c0a{number:02x}" for number in range(0x40, 0x60)]
ADDRESSES = [f"0000:{0xC1 + 5 * number:02x}:00" for number in range(4)]  # of other numbers than the ids
NVIDIA = "6e8a3b1c-2d4f-4a6b-8c0d-1e2f3a4b5c6d"


def hip_uuid(amd_id):
    """The UUID that HIP makes of it, as PyTorch writes one."""
    return str(uuid.UUID(bytes=amd_id.replace("GPU-", "").encode()))


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (hip_uuid(IDS[0]), [IDS[0]]),
        (f"GPU-{hip_uuid(IDS[0])}", [IDS[0]]),
        (f"{IDS[0]} {IDS[1]}", IDS[:2]),
        ("0fff74a1-0000-1000-8011-82f2988c0a40", [IDS[0]]),  # amdsmi's
        (f"GPU-{NVIDIA}", [f"GPU-{NVIDIA}"]),
        (NVIDIA.upper(), [f"GPU-{NVIDIA}"]),
        ("00000000:C1:00.0", ["0000:c1:00"]),
        ("GPU-58580000-0000-0000-0000-000000000000", []),  # HIP's "XX", where there is no id
        ("GPU-00000000-0000-0000-0000-000000000000", []),
        ("", []),
        ("amd_energy.0", ["amd_energy.0"]),
    ],
)
def test_an_id_has_one_form_whoever_shows_it(text, ids):
    assert same_ids(text) == ids


@pytest.fixture
def sample(tmp_path, amdsmi_folder):
    """Sample some rows through the real amdsmi on the stand-in; returns the trace, and what was said."""
    return functools.partial(sampled, tmp_path, "rocm", amdsmi_folder)


def ids_of(*devices, cards=None):
    """The ids of a channel of some devices, and then their addresses, which are those of their cards."""
    return " ".join([*(IDS[one] for one in devices), *(ADDRESSES[one] for one in cards or devices)])


def means_w(trace):
    return [sum(series.power_w) / len(series.power_w) for series in trace.series()]


def test_an_mi250_is_one_channel_of_two_devices(sample):
    trace, _ = sample(STAND_IN_GPU="MI250")
    assert [info.name for info in trace.channels] == ["rocm:0", "rocm:2"]
    assert [info.device_id for info in trace.channels] == [ids_of(0, 1), ids_of(2, 3)]
    assert {info.num_devices for info in trace.channels} == {2}
    assert {info.scope for info in trace.channels} == {Scope.DEVICE}
    assert {info.has_counter for info in trace.channels} == {True}
    assert [info.limit_w for info in trace.channels] == [750, 1500]
    assert means_w(trace) == [300, 600]


def test_an_mi300x_has_the_current_power_of_each_gpu(sample):
    trace, _ = sample(STAND_IN_GPU="MI300X", ROCR_VISIBLE_DEVICES=IDS[1])
    assert [info.device_id for info in trace.channels] == [ids_of(0), ids_of(1)]
    assert [info.mine for info in trace.channels] == [False, True]
    assert {info.num_devices for info in trace.channels} == {1}
    assert means_w(trace) == [300, 600]


def test_the_partitions_of_a_gpu_have_its_power_once(sample):
    trace, _ = sample(STAND_IN_GPU="MI300X", STAND_IN_PARTITIONS="8")
    assert [(info.name, info.num_devices) for info in trace.channels] == [("rocm:0", 8), ("rocm:8", 8)]
    assert trace.channels[1].device_id == ids_of(*range(8, 16), cards=[1])
    assert means_w(trace) == [300, 600]


def test_an_mi300as_power_is_that_of_its_module(sample):
    trace, _ = sample(STAND_IN_GPU="MI300A")
    assert {info.scope for info in trace.channels} == {Scope.MODULE}
    assert "power of the socket, CPU and GPU" in trace.channels[0].source


READS, ZEROS = (lambda: 300.0), Lost("it gives 0")
SENSORS = {
    "m": Sensor(READS, READS, True),
    "0": Sensor(ZEROS, ZEROS, True),
    "x": Sensor(Lost("gone"), Lost("gone"), False),
}


@pytest.mark.parametrize(
    ("product", "shown", "cards"),
    [
        ("AMD Instinct MI250X", "m0m0", [[0, 1], [2, 3]]),
        ("AMD Instinct MI250X", "0m0m", [[0, 1], [2, 3]]),
        ("AMD Instinct MI250X", "x0m0", [[0, 1], [2, 3]]),
        ("AMD Instinct MI250X", "0m0", [[0], [1], [2]]),  # one is not shown, and it is not known which
        ("AMD Instinct MI250X", "0mm0", [[0], [1], [2], [3]]),
        ("AMD Radeon RX 7900", "m0", [[0], [1]]),  # two cards, of which one is asleep
        ("", "m0", [[0, 1]]),
        ("", "m0m", [[0], [1], [2]]),
    ],
)
def test_devices_are_one_card_where_that_is_certain(product, shown, cards):
    devices = [
        Device(f"GPU-{number}", f"0000:0{number}:00", product, False, READS, READS, 0.0) for number in range(len(shown))
    ]
    assert _cards(devices, [SENSORS[letter] for letter in shown]) == cards


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("power_info", OSError(5, "Input/output error")),
        ("energy_count", {"energy_accumulator": "N/A", "counter_resolution": 15.3}),
        ("gpu_asic_info", {"market_name": None}),
        ("gpu_device_bdf", KeyError("bdf")),
        ("power_cap_info", {"power_cap": "N/A"}),
    ],
)
def test_what_one_device_shows_oddly_loses_no_other(monkeypatch, name, found):
    """The real library's C cannot make these: another library in its place."""
    shown = {
        "power_info": {"current_socket_power": 300, "average_socket_power": "N/A"},
        "energy_count": {"energy_accumulator": 10**9, "counter_resolution": 15.3},
        "gpu_asic_info": {"market_name": "AMD Instinct MI300X", "asic_serial": "N/A"},
        "gpu_device_bdf": "0000:c{gpu}:00.0",
        "gpu_device_uuid": "00ff74a1-0000-1000-8000-00000000abc{gpu}",
        "power_cap_info": {"power_cap": 750_000_000},
        "processor_handles": [0, 1],
    }

    def answer(asked, gpu=0):
        if gpu and asked == name and isinstance(found, Exception):
            raise found
        value = found if gpu and asked == name else shown[asked]
        return value.format(gpu=gpu) if isinstance(value, str) else value

    library = types.SimpleNamespace(AmdSmiException=ReadError, amdsmi_init=dict, amdsmi_shut_down=dict)
    vars(library).update({f"amdsmi_get_{asked}": functools.partial(answer, asked) for asked in shown})
    monkeypatch.setitem(sys.modules, "amdsmi", library)
    with ExitStack() as stack:
        first, second = rocm.open_channels(stack, {})
    assert (first.info.device_id, first.info.lacks) == ("GPU-000000000000abc0 0000:c0:00", "")
    assert (first.info.limit_w, second.info.limit_w) == (750, 0 if name == "power_cap_info" else 750)
    assert (first.read_power_w(), first.read_energy_j()) == (300.0, pytest.approx(15300.0))
    assert (second.read_power_w is None) == (name == "power_info")
    assert (second.read_energy_j is None) == (name == "energy_count")


@pytest.mark.parametrize("gpu", ["MI250", "MI300X", "MI300A"])
def test_a_gpu_that_is_lost_stays_in_sight_and_takes_no_other_along(sample, gpu):
    trace, said = sample(STAND_IN_GPU=gpu, STAND_IN_DEVICES="4", STAND_IN_FAULT="vanish", STAND_IN_FAULT_DEVICE="2")
    assert len(trace.channels) == 4
    assert len({info.scope for info in trace.channels}) == 1
    [lost] = [info for info in trace.channels if info.lacks]
    assert lost.name == "rocm:2"
    assert "rocm:2: cannot be read (amdsmi: " in said
    if gpu == "MI250":  # the card's other die, which never measures
        assert lost.device_id == ids_of(3)
    heard = [series.samples > 0 for series in trace.series()]
    assert heard == [info is not lost for info in trace.channels]


def test_the_die_that_measures_may_be_the_second(sample):
    trace, _ = sample(STAND_IN_GPU="MI250", STAND_IN_FIRST_DIE="1")
    assert [info.name for info in trace.channels] == ["rocm:1", "rocm:3"]
    assert [info.device_id for info in trace.channels] == [ids_of(0, 1), ids_of(2, 3)]
    assert means_w(trace) == [300, 600]


def test_a_gpu_that_gives_nothing_but_zeros_is_no_die_of_its_neighbour(sample):
    trace, _ = sample(STAND_IN_GPU="MI300X", STAND_IN_FAULT="zeros", STAND_IN_FAULT_DEVICE="1")
    assert [(info.name, info.num_devices) for info in trace.channels] == [("rocm:0", 1), ("rocm:1", 1)]
    assert trace.channels[1].lacks == "cannot be read (it gives 0)"


@pytest.mark.parametrize(("fault", "lacks"), [("no-counter", "no counter"), ("no-power", "no power")])
def test_what_a_gpu_does_not_show_is_left_out_and_reported(sample, fault, lacks):
    trace, said = sample(STAND_IN_FAULT=fault, STAND_IN_FAULT_DEVICE="1")
    first, second = trace.channels
    assert (first.lacks, first.has_counter) == ("", True)
    assert second.lacks.startswith(lacks)
    assert second.has_counter == (fault == "no-power")
    assert f"rocm:1: {lacks} (amdsmi: " in said
    assert trace.series()[1].samples


def test_a_power_cap_of_all_bits_is_none(sample):
    trace, _ = sample(STAND_IN_FAULT="no-cap", STAND_IN_FAULT_DEVICE="1")
    assert [info.limit_w for info in trace.channels] == [750, 0]


def test_a_gpu_without_a_serial_has_the_id_in_its_uuid(sample):
    trace, _ = sample(STAND_IN_FAULT="no-serial")
    assert [info.device_id for info in trace.channels] == [ids_of(0), ids_of(1)]


def test_a_gpu_whose_id_the_kernel_does_not_show_has_its_address(sample):
    trace, _ = sample(STAND_IN_FAULT="no-id")
    assert [info.device_id for info in trace.channels] == ["0000:c1:00", "0000:c6:00"]


@pytest.mark.parametrize(("gpu", "version"), [("MI250", "5"), ("MI250", "6"), ("MI300X", "6"), ("MI300A", "6")])
def test_rocm_smi_is_read_where_there_is_no_amdsmi(tmp_path, gpu, version):
    """Both layouts of ROCm's own bindings: a function that hands out the library, and a name."""
    folder = tmp_path / {"5": "rocm_smi/bindings", "6": "libexec/rocm_smi"}[version]
    folder.mkdir(parents=True)
    (folder / "rsmiBindings.py").write_text((HERE / "rocm_smi_stand_in.py").read_text())
    variables = {"ROCM_PATH": str(tmp_path), "ROCM_VERSION": version, "STAND_IN_GPU": gpu}
    command = ("--methods", "rocm", "--df-out", "out", "--", "true")
    done = run(sys.executable, "-m", "jpwr", *command, cwd=tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    trace = read_trace(tmp_path / "out" / "trace.csv")
    if gpu == "MI250":
        assert [info.device_id for info in trace.channels] == [ids_of(0, 1), ids_of(2, 3)]
    else:
        assert [info.device_id for info in trace.channels] == [ids_of(number) for number in range(4)]
    assert {info.scope for info in trace.channels} == {Scope.MODULE if gpu == "MI300A" else Scope.DEVICE}
    assert {info.lacks for info in trace.channels} == {""}
    assert set(means_w(trace)) == {250}
    assert {info.limit_w for info in trace.channels} == {560}
    if (gpu, version) == ("MI300X", "6"):  # all bits of the current power are set: the other one is read
        done = run(sys.executable, "-m", "jpwr", *command, cwd=tmp_path, NO_CURRENT_POWER="1", **variables)
        assert done.returncode == 0, done.stderr
        assert set(means_w(read_trace(tmp_path / "out" / "trace.csv"))) == {250}
    contract = run(sys.executable, "-m", "jpwr.tests.test_contract", "rocm", **variables)
    assert contract.returncode == 0, contract.stderr


def test_the_kernels_power_of_an_mi300a_is_that_of_its_module(tmp_path):
    for number, pci_id in enumerate(("0x74a0", "0x74a1")):
        chip = tmp_path / f"hwmon{number}"
        (chip / "device").mkdir(parents=True)
        (chip / "device" / "device").write_text(f"{pci_id}\n")
        (chip / "name").write_text("amdgpu\n")
        (chip / "power1_input").write_text("90000000\n")
    (tmp_path / "hwmon1" / "power1_cap").write_text("750000000\n")
    with ExitStack() as stack:
        infos = [channel.info for channel in hwmon.open_channels(stack, tmp_path)]
    assert [(info.name, info.scope, info.limit_w) for info in infos] == [
        ("hwmon:amdgpu:1", Scope.MODULE, 0),
        ("hwmon:amdgpu:1#2", Scope.DEVICE, 750),
    ]
