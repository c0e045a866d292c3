"""The processor's name and its cores, from excerpts of /proc/cpuinfo and of what lscpu prints."""

from __future__ import annotations

import json
import os

import pytest

from jpwr.process.processor import read_processor

XEON = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Platinum 8462Y+\n"
ARM = "processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"
POWER9 = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n"


def field(name, data, *children):
    return {"field": f"{name}:", "data": data, **({"children": list(children)} if children else {})}


GRACE = "jep106:036b:0241"
OF_LSCPU = field("Vendor ID", "ARM", field("Model name", "Neoverse-V2"), field("BIOS Model name", "Grace A02"))


def write_processor(folder, monkeypatch, cpuinfo, fields, chip=""):
    """Write the kernel's files, and a program lscpu that prints fields, or no JSON."""
    for path, text in (("cpuinfo", cpuinfo), ("devices/soc0/soc_id", chip)):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"{text}\n")
    answer = "lscpu: failed" if fields is None else json.dumps({"lscpu": fields})
    (folder / "lscpu").write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
    (folder / "lscpu").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("cpuinfo", "fields", "chip", "name"),
    [
        (XEON, [], "", "Intel(R) Xeon(R) Platinum 8462Y+"),
        (ARM, [field("Architecture", "aarch64"), OF_LSCPU], GRACE, "ARM Neoverse-V2 (jep106:036b:0241)"),
        (
            ARM,
            [field("Vendor ID", "ARM"), field("Model name", "Neoverse-N1")],
            "35",
            "ARM Neoverse-N1",
        ),
        (ARM, [field("Vendor ID", "0x99"), field("Model name", "-")], GRACE, ""),
        (POWER9, [field("Model name", "POWER9, altivec supported")], "", "POWER9, altivec supported"),
        (ARM, None, "", ""),  # lscpu fails
    ],
)
def test_a_processor_is_named_by_the_kernel_or_by_lscpu(tmp_path, monkeypatch, cpuinfo, fields, chip, name):
    write_processor(tmp_path, monkeypatch, cpuinfo, fields, chip)
    assert read_processor(tmp_path, tmp_path) == (name, cpuinfo is ARM, 1)


def test_threads_of_one_core_are_one_core(tmp_path):
    for cpu, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        topology = tmp_path / "devices" / "system" / "cpu" / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(siblings)
    assert read_processor(tmp_path, tmp_path).num_cores == 2
