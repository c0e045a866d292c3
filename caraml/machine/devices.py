"""Find the accelerators of this machine, by their vendors' tools, and the systems that have such accelerators."""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.common.node.programs import words
from benchmarks.common.node.vendor_tools import Reported, ToolError, amd_smi, nvidia_smi, rocm_smi, run
from results.files.systems import ANY_ARCH, System

GOOD, WARNING, BAD = "ok", "look", "FAIL"  # states of a check
MIB_PER_GB = 1024  # the gigabytes of a data sheet of memory are 2^30 bytes
# Relative difference: ECC takes 1/16 of GDDR, as an L40S shows 46,068 MiB of 48 GB, and the driver reserves up to 1 %.
SAME_MEMORY = 0.08


class Check(NamedTuple):
    """Result of one check: its subject, state, what was found and what to do."""

    what: str
    state: str
    found: str
    to_do: str = ""


class Device(NamedTuple):
    """One device, by the name that its vendor's tool prints."""

    name: str
    memory_gb: float | None  # None: the tool does not report it
    is_divided: bool = False  # by MIG

    def __str__(self) -> str:
        return self.name + (f", {self.memory_gb:.0f} GB" if self.memory_gb else "")


def find_devices() -> tuple[list[Device], list[Check]]:
    """Return all devices, and a finding on each installed tool that reports none of them, or not everything."""
    devices, findings = [], []
    for tools in VENDORS:
        failed = []
        for tool, read in tools.items():
            if shutil.which(tool) is None:
                continue
            try:
                found, missing = read()
            except ToolError as error:
                failed.append(str(error))
            except (AttributeError, TypeError):
                failed.append(f"{tool} prints its devices in an unknown form")
            else:
                devices += found
                findings += [Check("devices", WARNING, words) for words in missing]
                break
        else:
            findings += [Check("devices", BAD, words, "is the driver loaded? Try a compute node") for words in failed]
    return devices, findings


def _nvidia() -> Reported:
    facts, missing = nvidia_smi("name", "memory.total", "mig.mode.current")
    found = []
    for gpu in facts:
        memory = re.fullmatch(r"(\d+) MiB", gpu["memory.total"])
        is_divided = gpu.get("mig.mode.current") == "Enabled"
        found.append(Device(gpu["name"], int(memory[1]) / MIB_PER_GB if memory else None, is_divided))
    return Reported(found, missing)


def _rocm_smi() -> Reported:
    facts, missing = rocm_smi(["--showproductname"], ["--showmeminfo", "vram"])
    found = []
    for card in facts:
        lower = {key.lower(): str(value) for key, value in card.items()}
        named = (lower.get(key, "") for key in ("card series", "card model", "device name"))
        name = next((name for name in named if name and not re.match("0x|N/A", name)), "AMD GPU")
        size_b = lower.get("vram total memory (b)", "")
        found.append(Device(name, int(size_b) / 2**30 if size_b.isdigit() else None))
    return Reported(found, missing)


def _amd_smi() -> Reported:
    facts, missing = amd_smi("--asic", "--vram")
    found = []
    for gpu in facts:
        # 196592, "196592 MB", or {"value": 196592, "unit": "MB"}, by release
        vram = gpu.get("vram")
        sizes = (str(value) for key, value in vram.items() if "size" in key) if isinstance(vram, dict) else ()
        number = re.search(r"\d+", next(iter(sizes), ""))
        name = str(gpu.get("asic", {}).get("market_name", "AMD GPU"))
        found.append(Device(name, int(number[0]) / MIB_PER_GB if number else None))
    return Reported(found, missing)


def _gc_info() -> Reported:
    done = run("gc-info", "--list-devices")
    ids = re.findall(r"Id: *\[(\d+)\], *target: *\[(?!Multi)", done.stdout)
    if not ids:
        raise ToolError(f"gc-info shows no device: {words(done)}")
    facts = run("gc-info", "--device-info", "--device-id", ids[0]).stdout
    # A GC200 and a Bow differ in the clock.
    kinds = re.findall(r"^ *(?:board type|clock|ipu architecture): *(.+?) *$", facts, re.MULTILINE)
    return Reported([Device(" ".join(["Graphcore", *kinds]), None)] * len(ids))


# Tools of each vendor; the first that answers is used.
VENDORS: tuple[dict[str, Callable[[], Reported]], ...] = (
    {"nvidia-smi": _nvidia},
    {"rocm-smi": _rocm_smi, "amd-smi": _amd_smi},
    {"gc-info": _gc_info},
)
TOOLS = [tool for tools in VENDORS for tool in tools]


def candidates(systems: Mapping[str, System], devices: Sequence[Device]) -> dict[str, list[str]]:
    """Return the differences of each system with the model of these devices, which are alike; the best match first."""
    name_words = re.findall(r"[a-z0-9]+", devices[0].name.lower())
    found: dict[str, list[str]] = {}
    for system, block in systems.items():
        wanted = block.device_words.lower().split()
        # H100 matches the word h100pcie, another card of its family; another digit is another family.
        if wanted and any(re.fullmatch(re.escape(wanted[0]) + "[a-z]*", word) for word in name_words):
            found[system] = _differences(block, wanted, name_words, devices)
    return dict(sorted(found.items(), key=lambda item: len(item[1])))


def _differences(
    block: System, wanted: Sequence[str], name_words: Sequence[str], devices: Sequence[Device]
) -> list[str]:
    found = []
    if any((word.lstrip("-") in name_words) == word.startswith("-") for word in wanted):
        found.append(f"its device is {block.accelerator}")
    memory_gb, its_gb = devices[0].memory_gb, block.memory_gb_per_device
    if memory_gb and isinstance(its_gb, int | float) and its_gb and abs(memory_gb / its_gb - 1) > SAME_MEMORY:
        found.append(f"its device has {its_gb:g} GB")
    count = block.devices_per_node
    if isinstance(count, int) and count != len(devices):
        found.append(f"it has {count} on a node")
    if block.cpu_arch not in (platform.machine(), ANY_ARCH):
        found.append(f"its processor is {block.cpu_arch}")
    return found
