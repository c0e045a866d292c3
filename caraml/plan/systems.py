"""Read and check the systems in jube/include/systems.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from caraml.errors import SiteError
from caraml.installation import REFUSED, SYSTEMS, table_file
from caraml.plan.kinds import ANY_TEXT, FIGURE, FROM_0, FROM_1, RUNTIME, SUBMIT, SWEEP, TEXT, Kind, one_of
from caraml.plan.nodes import entries, read_otherwise, text_of, value_of
from jpwr.messages import near
from results.workloads import VENDORS, workloads
from results.yaml_files import YamlError, read_nodes, read_yaml

COLUMNS = {
    "system": "system_name",
    "accelerator": "accelerator",
    "per node": "devices_per_node",
    "memory [GB]": "memory_gb_per_device",
    "fp8 [TFLOP/s]": "peak_tflops_fp8",
    "bf16 [TFLOP/s]": "peak_tflops_bf16",
    "fp16 [TFLOP/s]": "peak_tflops_fp16",
    "power methods": "power_methods",
    "runs by": "submit",
    "source of the figures": "hardware_source",
}

# Every key of a block; the head of systems.yaml explains them.
KEYS: dict[str, Kind] = {
    "system_name": TEXT,
    "vendor": one_of(*VENDORS),
    "cpu_arch": TEXT,
    "accelerator": TEXT,
    "device_words": ANY_TEXT,
    "devices_per_node": FROM_1,
    "devices_sweep": SWEEP,
    "cpus_per_task": FROM_1,
    "memory_gb_per_device": FIGURE,
    "tdp_w_per_device": FIGURE,
    "memory_gb_per_s_per_device": FIGURE,
    "link_gb_per_s_per_device": FIGURE,
    "network_gb_per_s_per_device": FIGURE,
    "peak_tflops_fp32": FIGURE,
    "peak_tflops_fp16": FIGURE,
    "peak_tflops_bf16": FIGURE,
    "peak_tflops_fp8": FIGURE,
    "hardware_source": TEXT,
    "power_methods": TEXT,
    "image": TEXT,
    "container_runtime": RUNTIME,
    "submit": SUBMIT,
    "gres": ANY_TEXT,
    "kubernetes_resource": ANY_TEXT,
    "launcher": ANY_TEXT,
    "launcher_args": ANY_TEXT,
    "host_suffix": ANY_TEXT,
    "network_env": ANY_TEXT,
    "default_precision": one_of("fp32", "bf16", "fp16", "fp8"),
    "warmup_steps": FROM_0,
    "measured_steps": FROM_1,
    "min_measured_s": FIGURE,
    "default_repeats": FROM_1,
    "limit_shares": SWEEP,
    "highest_clock_mhz": FIGURE,
}
# Keys that a block may omit, with their defaults.
OPTIONAL: Mapping[str, Any] = {
    "kubernetes_resource": "",
    "memory_gb_per_s_per_device": 0,
    "link_gb_per_s_per_device": 0,
    "network_gb_per_s_per_device": 0,
    "limit_shares": "100 85 70 55",
    "highest_clock_mhz": 0,
}
COMMANDS = ("cpu_arch", "cpus_per_task")  # JUBE alone reads their values, which may be commands with `mode: shell`
Block = dict[str, Any]


def read_systems(file: Path | None = None) -> dict[str, Block]:
    """Return the values of each system's keys; for a key with several tags, the value that applies without a tag.

    Raises SiteError if the file cannot be read, and for the first mistake in it.
    """
    file = file or table_file(SYSTEMS)
    try:
        root = read_nodes(file)
    except YamlError as error:
        raise SiteError(f"{file} cannot be read: {error}") from error
    for node, text in find_mistakes(root):
        raise SiteError(f"{file}:{node.start_mark.line + 1}: {text}")
    found: dict[str, Block] = {}
    kinds = _known_keys()
    for block in entries(root, "parameterset"):
        values: Block = {}
        for parameter in _untagged(block):
            key, text = text_of(parameter, "name"), text_of(parameter)
            values[key] = text if text_of(parameter, "mode") else kinds[key].convert(text)
        found[text_of(block, "tag")] = values | {key: OPTIONAL[key] for key in OPTIONAL if key not in values}
    if not found:
        raise SiteError(f"{file} describes no system: it needs a 'parameterset' with a block for each")
    return found


def find_mistakes(root: Any) -> Iterator[tuple[Any, str]]:
    """Yield each mistake in the blocks of systems: its node in the file, and a sentence."""
    known = _known_keys()
    first: dict[str, int] = {}
    for block in entries(root, "parameterset"):
        name, line = text_of(block, "tag"), block.start_mark.line + 1
        if not name or text_of(block, "name") != "system":
            yield block, "the block of a system has 'name: system', and the system's name as its 'tag'"
            continue
        if name in first:
            yield block, f"system {name} is described twice, first in line {first[name]}: give one of them another tag"
        first.setdefault(name, line)
        if not entries(block, "parameter"):
            yield block, f"system {name} has no 'parameter', which holds its keys"
            continue
        for parameter in entries(block, "parameter"):
            key = text_of(parameter, "name")
            if key not in known:
                yield parameter, f"system {name} has a key '{key}', which nothing reads: {near(key, known)}"
            elif wrong := _wrong_value(parameter, key, known[key]):
                yield parameter, f"system {name} {wrong}"
            elif key == "system_name" and text_of(parameter) != name:
                yield parameter, f"system {name} has '{text_of(parameter)}' as its system_name: write {name}"
        for node, words in read_otherwise(block):
            yield node, f"system {name} {words}"
        stated = {text_of(parameter, "name") for parameter in _untagged(block)}
        for key in KEYS:
            if key not in stated and key not in OPTIONAL:
                yield block, f"system {name} has no '{key}': add it, with {KEYS[key].words}"


def _wrong_value(parameter: Any, key: str, kind: Kind) -> str:
    """Describe what is wrong with the value of a key; empty if nothing is."""
    value = value_of(parameter, "_")
    if value is None or value.tag.rpartition(":")[2] in ("null", "seq", "map"):
        return f"has no value for {key}: write {kind.words}"
    text = text_of(value)
    if key in COMMANDS and text_of(parameter, "mode"):
        kind = TEXT
    if not kind.allows(text):
        return f"has '{text}' as its {key}: write {kind.words}"
    if "," in text and not text_of(parameter, "separator"):
        return f"has a comma in its {key}, which JUBE takes for two values: add 'separator: \"|\"'"
    return ""


def _untagged(block: Any) -> list[Any]:
    """Return the parameters of a block that apply without a tag."""
    return [one for one in entries(block, "parameter") if (text_of(one, "tag") or "!").startswith("!")]


@cache
def _known_keys() -> Mapping[str, Kind]:
    """Return the kinds of a system's keys and of workloads' parameters, which are numbers if their usual value is."""
    number = FROM_1.pattern
    of_one = rf" *({number}( +{number})*)? *"
    numbers = Kind("whole numbers, such as '8 16; 117M: 2 4'", rf"{of_one}(; *[^;:]+:{of_one})*")
    parameters = {
        name: numbers if numbers.allows(str(usual)) else TEXT
        for facts in workloads().values()
        for name, usual in facts.parameters.items()
    }
    return parameters | KEYS


def read_system(name: str, file: Path | None = None) -> Block:
    """Return one system; raises SiteError if it is unknown, or known and cannot be run."""
    systems = read_systems(file)
    if name not in systems and name in (reasons := read_refused()):
        raise SiteError(refusal(name, reasons[name]))
    if not name:
        raise SiteError("no system was given: add its tag, such as --tag CPU; 'caraml systems' lists all")
    if name not in systems:
        raise SiteError(f"there is no system '{name}': {near(name, systems)}")
    return systems[name]


def read_refused(file: Path | None = None) -> dict[str, str]:
    """Return the reason for each known system that cannot be run; raises SiteError if the file cannot be used."""
    file = file or table_file(REFUSED)
    try:
        found = read_yaml(file, as_text=True)
    except YamlError as error:
        raise SiteError(f"{file} cannot be read: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(reason, str) for reason in found.values()):
        raise SiteError(f"{file} must hold a reason for each refused system, such as 'CS2: it needs another program'")
    return found


def refusal(name: str, reason: str) -> str:
    """Return the sentence for a user who asked for a refused system."""
    return f"{name} was asked for, but {reason}"


def systems_table(systems: dict[str, Block]) -> str:
    """Return a table of systems; a figure of 0 is not known."""
    from results.record.quantities import Quantity
    from results.show.tables.cells import Table
    from results.show.tables.fit import aligned

    rows = [[block[key] or "-" for key in COLUMNS.values()] for block in systems.values()]
    return aligned(Table([Quantity(title, form="g") for title in COLUMNS], rows).texts(), str.ljust, "  ", "  ")
