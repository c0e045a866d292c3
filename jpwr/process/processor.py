"""Name of this node's processor and number of its cores, for records and for the estimate of its power."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Sequence

from jpwr.process.host import text_of

PROC = Path("/proc")
SYS = Path("/sys")
LSCPU = ("lscpu", "--json")
ANSWERS_S = 10.0
# On Arm, the kernel states numbers of vendor and core, for which lscpu has tables. Several vendors build equal cores:
# the firmware's number of the chip, by JEDEC's of its vendor (Linux, Documentation/ABI/testing/sysfs-devices-soc),
# distinguishes them. lscpu's "BIOS Model name" is for root alone.
NAMES = ("Vendor ID", "Model name")
CHIP = "jep106:"
NO_NAME = ("", "-")


class Processor(NamedTuple):
    """Processors of a node."""

    name: str  # empty if unavailable
    is_arm: bool
    num_cores: int  # each with all its hardware threads; at least 1


def read_processor(proc: Path = PROC, sys: Path = SYS) -> Processor:
    """Return this node's processor: on x86-64 as the kernel names it, otherwise as lscpu does."""
    cpuinfo = text_of(proc / "cpuinfo")
    named = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    siblings = (sys / "devices" / "system" / "cpu").glob("cpu[0-9]*/topology/thread_siblings_list")
    cores = len({text_of(path) for path in siblings}) or len(re.findall(r"^processor\s*:", cpuinfo, re.MULTILINE)) or 1
    return Processor(named[1] if named else _name_by_lscpu(sys), "CPU implementer" in cpuinfo, cores)


def _name_by_lscpu(sys: Path) -> str:
    """Return vendor, model and number of the chip; empty without lscpu."""
    environ = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(LSCPU, capture_output=True, text=True, env=environ, timeout=ANSWERS_S)
        fields = dict(_fields(json.loads(done.stdout)["lscpu"]))
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired):
        return ""
    vendor, model = (fields.get(name, "") for name in NAMES)
    if model in NO_NAME:
        return ""
    name = model if vendor in NO_NAME else f"{vendor} {model}"
    chip = text_of(sys / "devices" / "soc0" / "soc_id")
    return f"{name} ({chip})" if chip.startswith(CHIP) else name


def _fields(entries: Sequence[Any]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        yield entry["field"].rstrip(":"), entry["data"] or ""
        yield from _fields(entry.get("children", ()))
