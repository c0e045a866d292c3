"""Find the accelerators of this machine, by their vendors' tools, and the systems that have such accelerators."""

from __future__ import annotations

import json
import platform
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from caraml.programs import ProgramError, ask, words
from results.files.systems import System

LIMIT_S = 30  # of one tool; a driver that wakes many devices takes seconds
MIB_PER_GB = 1024  # the gigabytes of a data sheet of memory are 2^30 bytes
SAME_MEMORY = 0.05  # relative difference: the driver reserves some memory


class Device(NamedTuple):
    """One device, by the name that its vendor's tool prints."""

    name: str
    memory_gb: float | None  # None: the tool does not report it
    is_divided: bool = False  # by MIG

    def __str__(self) -> str:
        return self.name + (f", {self.memory_gb:.0f} GB" if self.memory_gb else "")


class Candidate(NamedTuple):
    """System with devices of the same model, and its differences from this machine, in words."""

    system: str
    differences: list[str]


def find_devices() -> tuple[list[Device], list[str]]:
    """Return all devices, and a sentence on each installed tool that reports none."""
    devices, troubles = [], []
    for tools in VENDORS:
        failed = []
        for tool, read in tools.items():
            if shutil.which(tool) is None:
                continue
            try:
                devices += read()
                break
            except ProgramError as error:
                failed.append(str(error))
            except (AttributeError, TypeError):
                failed.append(f"{tool} prints its devices in an unknown form")
        else:
            troubles += failed
    return devices, troubles


def _nvidia() -> list[Device]:
    done = ask("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits", limit_s=LIMIT_S)
    found = re.findall(r"^(.*\S) *, *(\d+|\[.*\]) *$", done.stdout, re.MULTILINE)
    if not found:
        raise ProgramError(f"nvidia-smi shows no device: {words(done)}")
    listed = ask("nvidia-smi", "-L", limit_s=LIMIT_S).stdout
    divided = ["MIG" in lines for lines in re.split(r"^GPU ", listed, flags=re.MULTILINE)[1:]]
    divided += [False] * (len(found) - len(divided))
    return [
        Device(name, int(memory) / MIB_PER_GB if memory.isdigit() else None, is_divided)
        for (name, memory), is_divided in zip(found, divided, strict=False)
    ]


def _rocm_smi() -> list[Device]:
    # Some releases answer two questions with the last one's table alone.
    names, memories = (
        _json("rocm-smi", *question, "--json") for question in (("--showproductname",), ("--showmeminfo", "vram"))
    )
    found = []
    for card, facts in names.items():
        if not card.startswith("card"):
            continue
        lower = {key.lower(): str(value) for key, value in (memories.get(card, {}) | facts).items()}
        named = (lower.get(key, "") for key in ("card series", "card model", "device name"))
        name = next((one for one in named if one and not re.match("0x|N/A", one)), "AMD GPU")
        size_b = lower.get("vram total memory (b)", "")
        found.append(Device(name, int(size_b) / 2**30 if size_b.isdigit() else None))
    if not found:
        raise ProgramError("rocm-smi shows no device: is the amdgpu driver loaded?")
    return found


def _amd_smi() -> list[Device]:
    listed = _json("amd-smi", "static", "--asic", "--vram", "--json")
    gpus = listed.get("gpu_data", []) if isinstance(listed, dict) else listed
    found = []
    for gpu in gpus:
        # 196592, "196592 MB", or {"value": 196592, "unit": "MB"}, by release
        vram = gpu.get("vram")
        sizes = (str(value) for key, value in vram.items() if "size" in key) if isinstance(vram, dict) else ()
        number = re.search(r"\d+", next(iter(sizes), ""))
        name = str(gpu.get("asic", {}).get("market_name", "AMD GPU"))
        found.append(Device(name, int(number[0]) / MIB_PER_GB if number else None))
    if not found:
        raise ProgramError("amd-smi shows no device: is the amdgpu driver loaded?")
    return found


def _gc_info() -> list[Device]:
    done = ask("gc-info", "--list-devices", limit_s=LIMIT_S)
    ids = re.findall(r"Id: *\[(\d+)\], *target: *\[(?!Multi)", done.stdout)
    if not ids:
        raise ProgramError(f"gc-info shows no device: {words(done)}")
    facts = ask("gc-info", "--device-info", "--device-id", ids[0], limit_s=LIMIT_S).stdout
    # A GC200 and a Bow differ in the clock.
    kinds = re.findall(r"^ *(?:board type|clock|ipu architecture): *(.+?) *$", facts, re.MULTILINE)
    return [Device(" ".join(["Graphcore", *kinds]), None)] * len(ids)


def _json(*command: str) -> Any:
    """Return a tool's JSON output, which may follow lines of warnings.

    Raises ProgramError if the tool fails or prints no JSON.
    """
    done = ask(*command, limit_s=LIMIT_S)
    start = re.search(r"^[{\[]", done.stdout, re.MULTILINE)
    try:
        if done.returncode == 0 and start:
            return json.loads(done.stdout[start.start() :])
    except ValueError:
        pass
    raise ProgramError(f"{command[0]} shows no device: {words(done)}")


# Tools of each vendor; the first that answers is used.
VENDORS: tuple[dict[str, Callable[[], list[Device]]], ...] = (
    {"nvidia-smi": _nvidia},
    {"rocm-smi": _rocm_smi, "amd-smi": _amd_smi},
    {"gc-info": _gc_info},
)
TOOLS = [tool for tools in VENDORS for tool in tools]


def candidates(systems: Mapping[str, System], devices: Sequence[Device]) -> list[Candidate]:
    """Return the systems with the model of these devices, which are alike; the best match first."""
    name_words = re.findall(r"[a-z0-9]+", devices[0].name.lower())
    found = []
    for system, block in systems.items():
        wanted = block.device_words.lower().split()
        # H100 matches the word h100pcie, another card of its family; another digit is another family.
        if wanted and any(re.fullmatch(re.escape(wanted[0]) + "[a-z]*", word) for word in name_words):
            found.append(Candidate(system, _differences(block, wanted, name_words, devices)))
    return sorted(found, key=lambda one: len(one.differences))


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
    if block.cpu_arch not in (platform.machine(), "uname -m"):
        found.append(f"its processor is {block.cpu_arch}")
    return found
