"""Name of this node's processor and number of its cores, for records and for the estimate of its power."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from jpwr.process.host import text_of

PROC = Path("/proc")
SYS = Path("/sys")
# Implementer and part of Arm's register MIDR_EL1, for processors of servers and workstations. Source: lscpu's tables
# (util-linux, sys-utils/lscpu-arm.c) and Linux (arch/arm64/include/asm/cputype.h).
VENDORS = {
    0x41: "Arm",
    0x42: "Broadcom",
    0x43: "Cavium",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x51: "Qualcomm",
    0x61: "Apple",
    0x6D: "Microsoft",
    0x70: "Phytium",
    0xC0: "Ampere",
}
CORES = {
    (0x41, 0xD07): "Cortex-A57",
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse N1",
    (0x41, 0xD40): "Neoverse V1",
    (0x41, 0xD42): "Cortex-A78AE",
    (0x41, 0xD49): "Neoverse N2",
    (0x41, 0xD4F): "Neoverse V2",
    (0x41, 0xD83): "Neoverse V3AE",
    (0x41, 0xD84): "Neoverse V3",
    (0x41, 0xD85): "Cortex-X925",
    (0x41, 0xD87): "Cortex-A725",
    (0x41, 0xD8E): "Neoverse N3",
    (0x42, 0x516): "ThunderX2",
    (0x43, 0x0AF): "ThunderX2",
    (0x46, 0x001): "A64FX",
    (0x46, 0x003): "MONAKA",
    (0x48, 0xD01): "TaiShan v110",
    (0x48, 0xD02): "TaiShan v120",
    (0x4E, 0x004): "Carmel",
    (0x4E, 0x010): "Olympus",
    (0x61, 0x022): "M1 Icestorm",
    (0x61, 0x023): "M1 Firestorm",
    (0x61, 0x032): "M2 Blizzard",
    (0x61, 0x033): "M2 Avalanche",
    (0x6D, 0xD49): "Azure Cobalt 100",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1A",
}
# A core alone does not name the product: several vendors build Neoverse cores. The firmware names the chip in soc_id,
# by JEDEC's number of its vendor and a number of its own (Linux, Documentation/ABI/testing/sysfs-devices-soc).
SMCCC = "jep106:"
# Sources: NVIDIA's DCGM (DcgmSystemMonitor); output of sbc-bench on an Altra.
CHIPS = {"jep106:036b:0241": "NVIDIA Grace", "jep106:0a16:0001": "Ampere Altra"}
# Where there is no soc_id. Source: AWS Graviton Technical Guide, C/C++ on Graviton.
AMAZON = "Amazon EC2"  # the machine's vendor in its DMI table
GRAVITONS = {
    "Arm Cortex-A72": "AWS Graviton",
    "Arm Neoverse N1": "AWS Graviton2",
    "Arm Neoverse V1": "AWS Graviton3",
    "Arm Neoverse V2": "AWS Graviton4",
    "Arm Neoverse V3": "AWS Graviton5",
}


class Processor(NamedTuple):
    """Processors of a node."""

    name: str  # on Arm the product, if it is known, and the core; empty if unavailable
    is_arm: bool
    num_cores: int  # each with all its hardware threads; at least 1


def read_processor(proc: Path = PROC, sys: Path = SYS) -> Processor:
    """Return this node's processor; an Arm core without a name in the tables is given by its numbers."""
    cpuinfo = text_of(proc / "cpuinfo")
    arm = " and ".join(dict.fromkeys(_arm_cores(cpuinfo)))
    name = _product(arm, sys) if arm else next(iter(_values(cpuinfo, "model name")), "")
    siblings = (sys / "devices" / "system" / "cpu").glob("cpu[0-9]*/topology/thread_siblings_list")
    cores = len({text_of(path) for path in siblings}) or len(_values(cpuinfo, "processor")) or 1
    return Processor(name, bool(arm), cores)


def _arm_cores(cpuinfo: str) -> list[str]:
    """Return the name of each core that /proc/cpuinfo describes by implementer and part."""
    numbers = [[int(text, 16) for text in _values(cpuinfo, f"CPU {name}")] for name in ("implementer", "part")]
    return [_arm_core(implementer, part) for implementer, part in zip(*numbers)]


def _arm_core(implementer: int, part: int) -> str:
    vendor = VENDORS.get(implementer, f"implementer {implementer:#04x}")
    return f"{vendor} {CORES.get((implementer, part), f'part {part:#05x}')}"


def _product(core: str, sys: Path) -> str:
    """Return the product with its core; the chip's number or nothing for an unknown product."""
    chip = text_of(sys / "devices" / "soc0" / "soc_id")
    product = CHIPS.get(chip) or (chip if chip.startswith(SMCCC) else "")
    if not product and text_of(sys / "class" / "dmi" / "id" / "sys_vendor") == AMAZON:
        product = GRAVITONS.get(core, "")
    return f"{product} ({core})" if product else core


def _values(cpuinfo: str, key: str) -> list[str]:
    return re.findall(rf"^{key}\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
