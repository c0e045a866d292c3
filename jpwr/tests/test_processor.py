"""The processor's name and its cores, from excerpts of /proc/cpuinfo."""

from __future__ import annotations

import pytest

from jpwr.process.processor import read_processor

GRACE = "jep106:036b:0241"
XEON = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Platinum 8462Y+\n"
POWER9 = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n"


def arm(*numbers):
    """Return what Linux on aarch64 lists for a thread of each implementer and part."""
    return "\n".join(
        f"processor\t: {index}\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd sve bf16\nCPU implementer\t: {implementer}\n"
        f"CPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: {part}\nCPU revision\t: 1\n"
        for index, (implementer, part) in enumerate(zip(numbers[::2], numbers[1::2]))
    )


NAMES = {
    "x86": (XEON, "", "", "Intel(R) Xeon(R) Platinum 8462Y+"),
    "Grace": (arm("0x41", "0xd4f"), GRACE, "Supermicro", "NVIDIA Grace (Arm Neoverse V2)"),
    "Grace whose firmware names no chip": (arm("0x41", "0xd4f"), "", "Supermicro", "Arm Neoverse V2"),
    "Vera": (arm("0x4e", "0x010"), "", "NVIDIA", "NVIDIA Olympus"),
    "Graviton2": (arm("0x41", "0xd0c"), "", "Amazon EC2", "AWS Graviton2 (Arm Neoverse N1)"),
    "Graviton3": (arm("0x41", "0xd40"), "", "Amazon EC2", "AWS Graviton3 (Arm Neoverse V1)"),
    "Graviton4": (arm("0x41", "0xd4f"), "", "Amazon EC2", "AWS Graviton4 (Arm Neoverse V2)"),
    "Altra": (arm("0x41", "0xd0c"), "jep106:0a16:0001", "GIGABYTE", "Ampere Altra (Arm Neoverse N1)"),
    "AmpereOne": (arm("0xc0", "0xac3"), "", "", "Ampere Ampere-1"),
    "Cobalt": (arm("0x6d", "0xd49"), "", "Microsoft Corporation", "Microsoft Azure Cobalt 100"),
    "A64FX": (arm("0x46", "0x001"), "", "", "Fujitsu A64FX"),
    "Apple": (
        arm("0x61", "0x022", "0x61", "0x022", "0x61", "0x023"),
        "",
        "",
        "Apple M1 Icestorm and Apple M1 Firestorm",
    ),
    "a chip without a name here": (arm("0x41", "0xd49"), "jep106:0123:0004", "", "jep106:0123:0004 (Arm Neoverse N2)"),
    "a chip of a device tree": (arm("0x41", "0xd42"), "35", "", "Arm Cortex-A78AE"),
    "a part without a name here": (arm("0x41", "0xfff"), "", "", "Arm part 0xfff"),
    "an implementer without a name here": (arm("0x99", "0x001"), "", "", "implementer 0x99 part 0x001"),
    "neither x86 nor Arm": (POWER9, "", "", ""),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_processor_is_named_by_its_product_and_core(tmp_path, case):
    cpuinfo, chip, maker, name = NAMES[case]
    for path, text in (("cpuinfo", cpuinfo), ("devices/soc0/soc_id", chip), ("class/dmi/id/sys_vendor", maker)):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"{text}\n")
    found = read_processor(tmp_path, tmp_path)
    assert (found.name, found.is_arm) == (name, "CPU part" in cpuinfo)


def test_without_the_kernels_files_a_processor_has_no_name_and_one_core(tmp_path):
    assert read_processor(tmp_path, tmp_path) == ("", False, 1)
