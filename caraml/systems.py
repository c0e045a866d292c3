"""The systems that are described in jube/include/systems.yaml, for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from caraml.errors import SiteError, near
from caraml.installation import REFUSED, SYSTEMS, table_file
from results.tables.table import aligned
from results.workloads import VENDORS, workloads
from results.yaml_files import YamlError, read_yaml

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

# What a block need not state, with what it then is.
OPTIONAL: Mapping[str, Any] = {
    "kubernetes_resource": "",
    "memory_gb_per_s_per_device": 0,
    "link_gb_per_s_per_device": 0,
    "network_gb_per_s_per_device": 0,
}
RUNTIMES = ("apptainer", "podman", "charliecloud", "none")
SUBMITS = ("bash", "sbatch", "kubernetes")
# The values of a key, where they are few.
CHOICES: Mapping[str, tuple[str, ...]] = {
    "vendor": VENDORS,
    "container_runtime": RUNTIMES,
    "submit": SUBMITS,
    "default_precision": ("fp32", "bf16", "fp16", "fp8"),
}
AT_LEAST_ONE = ("devices_per_node", "default_repeats", "measured_steps")  # whole numbers
Block = dict[str, Any]


def read_systems(file: Path | None = None) -> dict[str, Block]:
    """For each system its keys with their values; of a key with several tags, the value without a tag asked for.

    Raises SiteError when the file cannot be read as blocks of systems that all have the same keys.
    """
    file = file or table_file(SYSTEMS)
    found: dict[str, Block] = {}
    try:
        for block in read_yaml(file)["parameterset"]:
            values: Block = {}
            for parameter in block["parameter"]:
                if str(parameter.get("tag", "!")).startswith("!"):
                    values[parameter["name"]] = parameter["_"]
            found[str(block["tag"])] = values | {name: OPTIONAL[name] for name in OPTIONAL if name not in values}
    except YamlError as error:
        raise SiteError(f"{file} cannot be read: {error}") from error
    except KeyError as error:
        raise SiteError(f"{file}: block {len(found) + 1} is not that of a system: it has no key {error}") from error
    except (AttributeError, TypeError) as error:
        words = "it must hold a tag, and parameters with a name each and a value under _"
        raise SiteError(f"{file}: block {len(found) + 1} is not that of a system: {words}") from error
    for name, values in found.items():
        if wrong := _wrong(values, like=found):
            raise SiteError(f"{file}: system {name} {wrong}")
    return found


def _wrong(values: Block, like: Mapping[str, Block]) -> str:
    """What is wrong with a block, in words; its keys are those of the first one, and of the workloads."""
    of_workloads = {parameter for facts in workloads().values() for parameter in facts.parameters}
    first, known = next(iter(like.items()))
    for key in known:
        if key not in values and key not in of_workloads:
            return f"has no '{key}', which {first} has"
    for key in values:
        if key not in known and key not in of_workloads:
            return f"has a key '{key}', which nothing reads: {near(key, {*known, *of_workloads})}"
    for key, choices in CHOICES.items():
        if str(values[key]) not in choices:
            return f"has '{values[key]}' as its {key}: {near(str(values[key]), choices)}"
    for key in AT_LEAST_ONE:
        if not (str(values[key]).isdecimal() and int(values[key]) > 0):
            return f"has '{values[key]}' as its {key}: a whole number from 1 on is wanted"
    return ""


def read_system(name: str, file: Path | None = None) -> Block:
    """One system; raises SiteError when there is none of that name, and when it is known and cannot be run."""
    systems = read_systems(file)
    if name not in systems and name in (reasons := read_refused()):
        raise SiteError(refusal(name, reasons[name]))
    if name not in systems:
        raise SiteError(f"there is no system {name}: the systems are {', '.join(systems)}")
    return systems[name]


def read_refused(file: Path | None = None) -> dict[str, str]:
    """For each system that is known and cannot be run the reason; raises SiteError when the file cannot be used."""
    file = file or table_file(REFUSED)
    try:
        return {
            str(block["tag"]): next(one["_"] for one in block["parameter"] if one["name"] == "refused")
            for block in read_yaml(file)["parameterset"]
        }
    except YamlError as error:
        raise SiteError(f"{file} cannot be read: {error}") from error
    except (AttributeError, KeyError, StopIteration, TypeError) as error:
        raise SiteError(f"{file}: a block is not that of a system that is refused ({error!r})") from error


def refusal(name: str, reason: str) -> str:
    """The sentence for who asked for it."""
    return f"{name} was asked for, but {reason}"


def systems_table(systems: dict[str, Block]) -> str:
    """A table for people; a figure of 0 is not known."""
    rows = [[title for title, _ in COLUMNS]]
    for block in systems.values():
        rows.append(["-" if block[key] in (0, "") else str(block[key]) for _, key in COLUMNS])
    return aligned(rows, str.ljust, "  ", "  ")
