"""Which system a machine is; the vendors' tools are made up, and print what the real ones do."""

from __future__ import annotations

import json
import platform
from types import SimpleNamespace

import pytest

from caraml.cli import main
from caraml.machine import doctor
from caraml.machine.devices import Device, candidates
from results.files.systems import read_systems

HERE = platform.machine()
ELSEWHERE = "riscv64"


def block(words, memory_gb, count, arch=HERE, **values):
    values = {
        "device_words": words,
        "accelerator": f"a {words}",
        "memory_gb_per_device": memory_gb,
        "devices_per_node": count,
        "cpu_arch": arch,
        "submit": "sbatch",
        **values,
    }
    return SimpleNamespace(**values, values=values)


SYSTEMS = {
    "ONLY-CPU": block("", 0, 2, submit="bash"),
    "CPU-NODES": block("", 32, 8),
    "SXM": block("A100 SXM4", 40, 4),
    "PCIE": block("H100 PCIe", 80, 4),
    "LARGE": block("H100 -PCIe -NVL", 94, 4),
    "ONE": block("GH200", 96, 1),
    "FOUR": block("GH200", 96, 4),
    "CARD": block("MI250 -MI250X", 64, 8),
    "APU": block("MI300A", 128, 4),
    "IPU": block("ipu2", 0.9, 4),
    "GDDR": block("L40S", 48, 2),
}


def nvidia_smi(*gpus, mig=(), after=""):
    """A program that prints name, memory and whether MIG is enabled, as it is for those in `mig`."""
    lines = [
        f"{name}, {memory}{'' if memory == '[N/A]' else ' MiB'}, {'Enabled' if index in mig else '[N/A]'}"
        for index, (name, memory) in enumerate(gpus)
    ]
    return f'[ "$1" = --query-gpu=name,memory.total,mig.mode.current ] && echo "{chr(10).join(lines)}"\n{after}'


def rocm_smi(*cards, key="Card Series"):
    """One that answers with the last question's table alone, after a warning."""
    names = {f"card{index}": {key: name, "Card model": "0x0b0c"} for index, (name, _) in enumerate(cards)}
    memories = {f"card{index}": {"VRAM Total Memory (B)": str(memory)} for index, (_, memory) in enumerate(cards)}
    system = {"system": {"Driver version": "6"}}
    return f"""echo 'WARNING: AMD GPU device(s) is/are in a low-power state'
case "$*" in
*product*) echo '{json.dumps(names | system)}' ;;
*) echo '{json.dumps(memories | system)}' ;;
esac"""


@pytest.fixture
def told(monkeypatch, capsys):
    """What `caraml doctor` says among the made-up systems, with its exit code."""
    monkeypatch.setattr(doctor, "read_systems", lambda: SYSTEMS)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)

    def tell():
        code = main(["doctor"])
        return code, capsys.readouterr().out

    return tell


@pytest.mark.parametrize(
    ("gpus", "tag"),
    [
        ([("NVIDIA A100-SXM4-40GB", 40960)] * 4, "SXM"),
        ([("NVIDIA H100", 95830)] * 4, "LARGE"),
        ([("NVIDIA L40S", 46068)] * 2, "GDDR"),
    ],
)
def test_the_one_system_with_these_gpus_is_named(programs, told, gpus, tag):
    programs("nvidia-smi", nvidia_smi(*gpus))
    code, out = told()
    assert code == 0
    assert f"ok    system: {tag}\n      -> caraml doctor --system {tag}:" in out
    assert f"ok    devices: {len(gpus)} x {gpus[0][0]}" in out


@pytest.mark.parametrize(
    ("gpus", "sentences"),
    [
        ([("NVIDIA A100-SXM4-80GB", 81920)] * 4, ["SXM is similar, but its device has 40 GB"]),
        ([("NVIDIA A100-PCIE-40GB", 40960)] * 4, ["SXM is similar, but its device is a A100 SXM4"]),
        (
            [("NVIDIA H100 80GB HBM3", 81559)] * 4,
            ["LARGE is similar, but its device has 94 GB", "PCIE is similar, but its device is a H100 PCIe"],
        ),
        ([("NVIDIA GH200 480GB", 97871)] * 2, ["ONE is similar, but it has 1 on", "FOUR is similar, but it has 4"]),
    ],
)
def test_a_gpu_of_the_same_family_is_not_taken_for_another_and_the_difference_is_said(programs, told, gpus, sentences):
    programs("nvidia-smi", nvidia_smi(*gpus))
    code, out = told()
    assert code == 0
    for sentence in sentences:
        assert sentence in out
    assert "none that is described is like this machine" in out
    assert "docs/howto/add_a_system.md" in out
    assert "ok    system: ONLY-CPU" in out


@pytest.mark.parametrize("name", ["NVIDIA H20", "Orin (nvgpu)"])
def test_a_card_of_another_family_fits_no_system(programs, told, name):
    programs("nvidia-smi", nvidia_smi((name, "[N/A]")))
    code, out = told()
    assert (code, "is similar, but" in out) == (0, False)
    assert f"none is described with {name}" in out
    assert "ok    system: ONLY-CPU" in out


def test_another_processor_is_another_machine():
    for arch, differences in ((ELSEWHERE, [f"its processor is {ELSEWHERE}"]), ("any", [])):
        found = candidates({"X": block("H200", 141, 1, arch=arch)}, [Device("NVIDIA H200", 140.4)])
        assert found == {"X": differences}


def test_a_gpu_that_mig_divides_is_said(programs, told):
    programs("nvidia-smi", nvidia_smi(*[("NVIDIA A100-SXM4-40GB", 40960)] * 4, mig=[1]))
    out = told()[1]
    assert "look  devices: MIG divides them" in out
    assert "ok    system: SXM" in out


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'No devices were found'; exit 6", "No devices were found"),
        ("echo garbage; echo", "garbage"),
    ],
)
def test_a_tool_that_fails_is_no_machine_without_a_gpu(programs, told, script, words):
    programs("nvidia-smi", script)
    code, out = told()
    assert code == 1
    [line, to_do, *_] = out.splitlines()
    assert line.startswith("FAIL  devices: nvidia-smi shows no device: ")
    assert words in line
    assert "Try a compute node" in to_do


def test_a_machine_without_any_tool_is_for_trying_the_suite(programs, told):
    code, out = told()
    assert code == 0
    assert "no accelerator is found, as there is none of nvidia-smi, rocm-smi, amd-smi, gc-info" in out
    assert "ok    system: ONLY-CPU, to try" in out


@pytest.mark.parametrize(
    ("key", "name", "count", "words"),
    [
        ("Card series", "AMD INSTINCT MI250 (MCM) OAM AC MBA", 8, "ok    system: CARD"),
        ("Card Series", "AMD Instinct MI250X/MI250", 8, "CARD is similar, but its device is"),
        ("Card Series", "AMD Instinct MI300X", 8, "none is described with AMD Instinct MI300X"),
        ("Card Series", "0x740c", 8, "none is described with AMD GPU"),
    ],
)
def test_amds_gpus_are_recognised_by_rocm_smi(programs, told, key, name, count, words):
    programs("rocm-smi", rocm_smi(*[(name, 68702699520)] * count, key=key))
    code, out = told()
    assert code == 0
    assert words in out


@pytest.mark.parametrize("vram", [{"size": {"value": 131072, "unit": "MB"}}, {"type": "HBM3", "vram_size_mb": 131072}])
@pytest.mark.parametrize("wrap", [lambda gpus: gpus, lambda gpus: {"gpu_data": gpus}])
def test_amd_smi_is_asked_where_rocm_smi_is_not_or_fails(programs, told, vram, wrap):
    gpus = [{"gpu": index, "asic": {"market_name": "AMD Instinct MI300A"}, "vram": vram} for index in range(4)]
    warnings = ("User is missing the following required groups: render", "[WARNING] no permission\n{")
    programs("amd-smi", f"echo '{warnings[1]}'\necho '{json.dumps(wrap(gpus))}'\necho '{warnings[0]}'")
    assert "ok    system: APU" in told()[1]
    programs("rocm-smi", "echo 'ERROR: no driver'; exit 2")
    code, out = told()
    assert (code, "ok    system: APU" in out) == (0, True)


def test_graphcores_devices_are_counted_without_their_groups(programs, told):
    one = "-+- Id:  [{}], target:   [Fabric], IPU-M host:  [10.1.5.1], IPU#: [{}]"
    listed = "\n".join(
        ["Graphcore device listing:", *(one.format(i, i) for i in range(4)), "-+- Id: [4], target: [Multi IPU]"]
    )
    facts = "Device Info:\n  id: 0\n  board type: M2000\n  clock: 1330MHz\n  ipu architecture: ipu2"
    programs("gc-info", f'case "$1" in --list*) echo "{listed}" ;; *) echo "{facts}" ;; esac')
    out = told()[1]
    assert "4 x Graphcore M2000 1330MHz ipu2" in out
    assert "ok    system: IPU" in out


# As the tools of the machines print them, with memory in GB; None: the tool does not say.
NAMES = {
    "A100": ("NVIDIA A100-SXM4-40GB", 40.0),
    "MILA": ("NVIDIA A100-SXM4-80GB", 80.0),
    "HGX-A100": ("NVIDIA A100-SXM4-80GB", 80.0),
    "H100": ("NVIDIA H100 PCIe", 79.6),
    "HGX-H100": ("NVIDIA H100 80GB HBM3", 79.6),
    "WAIH100": ("NVIDIA H100", 93.6),
    "GH200": ("NVIDIA GH200 480GB", 95.6),
    "JEDI": ("NVIDIA GH200 120GB", 95.6),
    "JUPITER": ("NVIDIA GH200 120GB", 95.6),
    "H200": ("NVIDIA H200", 140.4),
    "GB200": ("NVIDIA GB200", 185.0),
    "B200": ("NVIDIA B200", 179.1),
    "B300": ("NVIDIA B300 SXM6 AC", 268.6),
    "GB300": ("NVIDIA GB300", 277.5),
    "MI250": ("AMD INSTINCT MI250 (MCM) OAM AC MBA", 63.98),
    "MI300X": ("AMD Instinct MI300X", 191.98),
    "MI300A": ("AMD Instinct MI300A", 128.0),
    "MI325X": ("AMD Instinct MI325X", 255.98),
    "MI355X": ("AMD Instinct MI355X", 287.98),
    "GC200": ("Graphcore M2000 1330MHz ipu2", None),
    "MI210": ("AMD Instinct MI210", 63.98),
    "V100": ("Tesla V100-SXM2-16GB", 16.0),
    "BOW": ("Graphcore M2000 1850MHz ipu2", None),  # the clock is Argonne's; the rest made up, as that of a GC200
}


@pytest.mark.parametrize("tag", NAMES)
def test_a_system_of_the_suite_is_recognised_by_its_devices_name(tag, monkeypatch):
    systems = read_systems()
    monkeypatch.setattr(platform, "machine", lambda: systems[tag].cpu_arch)
    found = candidates(systems, [Device(*NAMES[tag])] * systems[tag].devices_per_node)
    same = ["JEDI", "JUPITER"]  # nodes of one design, in two machines
    assert [system for system, differences in found.items() if not differences] == (same if tag in same else [tag])
