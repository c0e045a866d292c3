"""Systems that can be measured, from jube/include/systems.yaml, whose head explains the keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from record.errors import RecordError
from results.files.json_schema import keys_of
from results.files.typed_files import From0, From1, NotNegative, Text, check_key, in_words, like, scalar, value_as
from results.files.workloads import Vendor, workloads
from results.files.yaml_files import YamlError, read_nodes
from results.files.yaml_nodes import entries, read_otherwise, text_of, value_of

ROOT = Path(__file__).resolve().parents[2]
SYSTEMS = Path("jube/include/systems.yaml")
NUMBERS = "[1-9][0-9]*( +[1-9][0-9]*)*"
OF_ONE = rf" *({NUMBERS})? *"
AnyText = Annotated[str, like(r"[\s\S]*", 'a text, or "" for none')]
Sweep = Annotated[str, like(rf" *{NUMBERS} *", "whole numbers from 1 on with spaces between them")]
ByModel = Annotated[str, like(rf"{OF_ONE}(; *[^;:]+:{OF_ONE})*", "whole numbers, such as '8 16; 117M: 2 4'")]
Runtime = Literal["apptainer", "podman", "charliecloud", "none"]
Submit = Literal["bash", "sbatch", "kubernetes"]
Precision = Literal["fp32", "bf16", "fp16", "fp8"]
Losses = Literal["", "upstream", "maker", "offline", "together"]
SUBSYSTEMS = ("network", "storage", "cooling")  # of a machine, besides its nodes
_ONE = "|".join(SUBSYSTEMS)
Subsystems = Annotated[str, like(rf" *(({_ONE})( +({_ONE}))*)? *", f"of {', '.join(SUBSYSTEMS)}, with spaces between")]
SOURCE = "add provisioned_source, such as a data sheet's address"
PEAK = "peak_tflops_"  # prefix of keys; the precision follows
COMMANDS = ("cpu_arch", "cpus_per_task")  # JUBE alone reads their values, which may be commands with `mode: shell`


@dataclass(frozen=True, kw_only=True)
class System:
    """Block of one system."""

    ADDED = ("values",)
    system_name: Text
    vendor: Vendor
    cpu_arch: Text
    accelerator: Text
    device_words: AnyText
    devices_per_node: From1
    devices_sweep: Sweep
    cpus_per_task: From1
    memory_gb_per_device: NotNegative
    tdp_w_per_device: NotNegative
    memory_gb_per_s_per_device: NotNegative = 0
    peak_tflops_fp32: NotNegative
    peak_tflops_fp16: NotNegative
    peak_tflops_bf16: NotNegative
    peak_tflops_fp8: NotNegative
    hardware_source: Text
    power_methods: Text
    image: Text
    container_runtime: Runtime
    submit: Submit
    gres: AnyText
    kubernetes_resource: AnyText = ""
    launcher: AnyText
    launcher_args: AnyText
    host_suffix: AnyText
    network_env: AnyText
    default_precision: Precision
    warmup_steps: From0
    measured_steps: From1
    min_measured_s: NotNegative
    default_repeats: From1
    limit_shares: Sweep = "100 85 70 55"
    highest_clock_mhz: NotNegative = 0
    meter_accuracy_percent: NotNegative = 0
    meter_averaging_s: NotNegative = 0
    meter_refresh_s: NotNegative = 0
    meter_resolution_w: NotNegative = 0
    meter_losses: Losses = ""
    meter_covers: Subsystems = ""
    meter_estimates: Subsystems = ""
    machine_nodes: From0 = 0
    provisioned_w_per_device: NotNegative = 0
    provisioned_source: AnyText = ""
    values: Mapping[str, Any]  # of all keys, with those that override parameters of workloads

    def peak_tflops(self, precision: str) -> float:
        """Return the dense peak of one device in 10^12 FLOP/s; 0: not known, or not supported."""
        return float(getattr(self, f"{PEAK}{precision}"))


KEYS = keys_of(System)
OPTIONAL = {name: key.field.default for name, key in KEYS.items() if not key.is_required}


def table_file(name: Path) -> Path:
    """Return the path of a table of the checkout."""
    return ROOT / name


def read_systems(file: Path | None = None) -> dict[str, System]:
    """Return each system; for a key with several tags, with the value that applies without a tag.

    Raises RecordError if the file cannot be read, and for the first mistake in it.
    """
    file = file or table_file(SYSTEMS)
    try:
        root = read_nodes(file)
    except YamlError as error:
        raise RecordError(f"{file} cannot be read: {error}") from error
    for node, text in find_mistakes(root):
        raise RecordError(f"{file}:{node.start_mark.line + 1}: {text}")
    found = {}
    for block in entries(root, "parameterset"):
        stated = {text_of(one, "name"): _value(one, "") for one in _untagged(block)}
        values = stated | {key: value for key, value in OPTIONAL.items() if key not in stated}
        found[text_of(block, "tag")] = System(**{key: values[key] for key in KEYS}, values=values)
    if not found:
        raise RecordError(f"{file} describes no system: it needs a 'parameterset' with a block for each")
    return found


@cache
def known_systems(file: Path) -> dict[str, System]:
    """Return the systems of a file; none if it cannot be used, which `caraml check` reports."""
    try:
        return read_systems(file)
    except RecordError:
        return {}


def system_of(name: str) -> System | None:
    """Return the block of a system; None without one."""
    return known_systems(table_file(SYSTEMS)).get(name)


@cache
def peaks_in(file: Path) -> dict[tuple[str, str], float]:
    """Return the peaks by system and precision; none if the file cannot be used, which `caraml check` reports."""
    try:
        return {
            (text_of(block, "tag"), text_of(one, "name").removeprefix(PEAK)): float(scalar(NotNegative, text_of(one)))
            for block in entries(read_nodes(file), "parameterset")
            for one in _untagged(block)
            if text_of(one, "name").startswith(PEAK)
        }
    except (YamlError, ValueError):
        return {}


def find_mistakes(root: Any) -> Iterator[tuple[Any, str]]:
    """Yield each mistake in the blocks of systems: its node in the file, and a sentence."""
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
            if wrong := _mistake(parameter, name):
                yield parameter, wrong
        for node, words in read_otherwise(block):
            yield node, f"system {name} {words}"
        stated = {text_of(parameter, "name"): parameter for parameter in _untagged(block)}
        power, source = (stated.get(f"provisioned_{word}") for word in ("w_per_device", "source"))
        if power and not (source and text_of(source).strip()):
            yield power, f"provisioned_w_per_device of system {name} needs its source: {SOURCE}"
        for key, wanted in KEYS.items():
            if key not in stated and wanted.is_required:
                yield block, f"system {name} has no '{key}': add it, with {in_words(wanted.kind)}"


def _mistake(parameter: Any, name: str) -> str:
    """Describe what is wrong with a parameter; empty if nothing is."""
    key, text = text_of(parameter, "name"), text_of(parameter)
    try:
        _value(parameter, f"system {name}")
    except RecordError as error:
        return str(error)
    if key == "system_name" and text != name:
        return f"system {name} has '{text}' as its system_name: write {name}"
    if "," in text and not text_of(parameter, "separator"):
        return f"system {name} has a comma in its {key}, which JUBE takes for two values: add 'separator: \"|\"'"
    return ""


def _value(parameter: Any, where: str) -> Any:
    """Return the value of a parameter, which may be a command for JUBE; raises RecordError for a mistake."""
    key, node, known = text_of(parameter, "name"), value_of(parameter, "_"), known_keys()
    check_key(key, known, where)
    is_text = node is not None and node.tag.rpartition(":")[2] not in ("null", "seq", "map")
    kind = Text if key in COMMANDS and text_of(parameter, "mode") else known[key]
    return value_as(kind, text_of(node) if is_text else None, where, key)


def _untagged(block: Any) -> list[Any]:
    """Return the parameters of a block that apply without a tag."""
    return [one for one in entries(block, "parameter") if (text_of(one, "tag") or "!").startswith("!")]


@cache
def known_keys() -> Mapping[str, Any]:
    """Return the types of a system's keys and of workloads' parameters, which are numbers if their usual value is."""
    parameters = {name: usual for facts in workloads().values() for name, usual in facts.parameters.items()}
    return {name: _of_parameter(usual) for name, usual in parameters.items()} | {
        name: key.kind for name, key in KEYS.items()
    }


def _of_parameter(usual: str) -> Any:
    try:
        scalar(ByModel, usual)
    except ValueError:
        return Text
    return ByModel
