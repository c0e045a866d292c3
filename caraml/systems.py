"""The systems that are described in jube/include/systems.yaml, for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from caraml.site import REPOSITORY, SiteError
from results.table import aligned

SYSTEMS_FILE = REPOSITORY / "jube" / "include" / "systems.yaml"
COLUMNS = (
    ("system", "system_name"),
    ("accelerator", "accelerator"),
    ("per node", "devices_per_node"),
    ("memory [GB]", "memory_gb_per_device"),
    ("fp8 [TFLOP/s]", "peak_tflops_fp8"),
    ("bf16 [TFLOP/s]", "peak_tflops_bf16"),
    ("fp16 [TFLOP/s]", "peak_tflops_fp16"),
    ("power methods", "power_methods"),
    ("runs by", "submit"),
    ("source of the figures", "hardware_source"),
)

Block = dict[str, Any]


def read_systems(file: Path = SYSTEMS_FILE) -> dict[str, Block]:
    """For each system its keys with their values; of a key with several tags, the value without a tag asked for.

    Raises SiteError when the file cannot be read as blocks of systems.
    """
    import yaml

    try:
        blocks = yaml.safe_load(file.read_text())["parameterset"]
        found: dict[str, Block] = {}
        for block in blocks:
            values: Block = {}
            for parameter in block["parameter"]:
                if str(parameter.get("tag", "!")).startswith("!"):
                    values[parameter["name"]] = parameter["_"]
            found[block["tag"]] = values
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise SiteError(f"{file} cannot be read as blocks of systems: {' '.join(str(error).split())}") from error
    return found


def read_system(name: str, file: Path = SYSTEMS_FILE) -> Block:
    """One system; raises SiteError when there is none of that name."""
    systems = read_systems(file)
    if name not in systems:
        raise SiteError(f"there is no system {name}: the systems are {', '.join(systems)}")
    return systems[name]


def systems_table(systems: dict[str, Block]) -> str:
    """A table for people; a figure of 0 is not known."""
    rows = [[title for title, _ in COLUMNS]]
    for block in systems.values():
        rows.append(["-" if block[key] in (0, "") else str(block[key]) for _, key in COLUMNS])
    return aligned(rows, str.ljust, "  ", "  ")
