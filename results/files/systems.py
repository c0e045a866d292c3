"""Systems that can be measured, from jube/include/systems.yaml, whose head explains the keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from string import Template
from typing import Annotated, Any, Literal

from record.files import RecordError
from results.files.typed_files import (
    FILLED,
    From0,
    From1,
    NotNegative,
    Text,
    check_key,
    filled,
    keys_of,
    like,
    no_keys,
    read_file,
    reader,
)
from results.files.workloads import Framework, Vendor, workloads

ROOT = Path(__file__).resolve().parents[2]
SYSTEMS = Path("jube/include/systems.yaml")
NUMBERS = "[1-9][0-9]*( +[1-9][0-9]*)*"
OF_ONE = rf" *({NUMBERS})? *"
Sweep = Annotated[str, like(rf" *{NUMBERS} *", "whole numbers from 1 on with spaces between them")]
BY_MODEL = rf"{OF_ONE}(; *[^;:]+:{OF_ONE})*"
ByModel = Annotated[str, like(BY_MODEL, "whole numbers, such as '8 16; 117M: 2 4'")]
Steps = Annotated[str, like(r" *\d+ *(; *[^;:]+: *\d+ *)*", "a whole number from 0 on, or such as '2; 117M: 1'")]
Runtime = Literal["apptainer", "podman", "charliecloud", "none"]
Submit = Literal["bash", "sbatch", "kubernetes"]
Precision = Literal["fp32", "bf16", "fp16", "fp8", "mxfp8", "nvfp4"]
Losses = Literal["", "upstream", "maker", "offline", "together"]
SUBSYSTEMS = ("network", "storage", "cooling")  # of a machine, besides its nodes
_ONE = "|".join(SUBSYSTEMS)
Subsystems = Annotated[str, like(rf" *(({_ONE})( +({_ONE}))*)? *", f"of {', '.join(SUBSYSTEMS)}, with spaces between")]
SOURCE = "add provisioned_source, such as a data sheet's address"
PEAK = "peak_tflops_"  # prefix of keys; the precision follows
ANY_ARCH = "any"
BY_VENDOR: Mapping[str, Mapping[str, str]] = {
    "nvidia": {"power_methods": "pynvml", "gres": "gpu", "kubernetes_resource": "nvidia.com/gpu"},
    "amd": {"power_methods": "rocm", "gres": "gpu", "kubernetes_resource": "amd.com/gpu"},
    "graphcore": {"power_methods": "gc"},
    "none": {"power_methods": "rapl/estimate", "image": "cpu", "container_runtime": "none"},
}


@dataclass(frozen=True, kw_only=True)
class System:
    """Block of one system, with the defaults that do not depend on its vendor."""

    ADDED = ("system_name", "values")
    system_name: str  # its tag
    vendor: Vendor
    cpu_arch: Text = "x86_64"
    accelerator: Text
    device_words: str = ""
    devices_per_node: From1
    devices_sweep: Sweep
    cpus_per_task: From0 = 0
    memory_gb_per_device: NotNegative = 0
    tdp_w_per_device: NotNegative = 0
    memory_gb_per_s_per_device: NotNegative = 0
    peak_tflops_fp32: NotNegative = 0
    peak_tflops_fp16: NotNegative = 0
    peak_tflops_bf16: NotNegative = 0
    peak_tflops_fp8: NotNegative = 0
    peak_tflops_mxfp8: NotNegative = 0
    peak_tflops_nvfp4: NotNegative = 0
    hardware_source: Text
    power_methods: Text
    refused: Mapping[Framework, Text] = no_keys()
    image: Text = "$framework-$vendor-$cpu_arch"
    container_runtime: Runtime = "apptainer"
    submit: Submit = "sbatch"
    gres: str = ""
    kubernetes_resource: str = ""
    launcher: str = "srun"
    launcher_args: str = "--kill-on-bad-exit=1 --cpu-bind=none"
    host_suffix: str = ""
    network_env: str = ""
    default_precision: Precision = "bf16"
    warmup_steps: Steps = "5"
    measured_steps: Steps = "20"
    min_measured_s: NotNegative = 60
    default_repeats: From1 = 3
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
    provisioned_source: str = ""
    values: Mapping[str, Any]  # of all keys, with those that override parameters of workloads

    def check(self, where: str) -> None:
        """Raise RecordError for a stated power without its source."""
        if self.provisioned_w_per_device and not self.provisioned_source.strip():
            raise RecordError(f"{where}: provisioned_w_per_device needs its source: {SOURCE}")

    def peak_tflops(self, precision: str) -> float:
        """Return the dense peak of one device in 10^12 FLOP/s; 0: not known, or not supported."""
        return float(getattr(self, f"{PEAK}{precision}", 0))

    def image_of(self, framework: str) -> str:
        """Return the name of the image with a framework."""
        words = {"framework": framework, "vendor": self.vendor, "cpu_arch": self.cpu_arch}
        return Template(self.image).safe_substitute(words)


KEYS = keys_of(System)


def read_systems(file: Path | None = None) -> dict[str, System]:
    """Return each system by its tag; raises RecordError if the file cannot be read, and for the first mistake in it."""
    file = file or ROOT / SYSTEMS
    blocks = read_file(Annotated[Mapping[str, Mapping[str, Any]], FILLED], file, "systems")
    # Parameters of workloads, which are numbers if their usual value is.
    usual = {name: text for facts in workloads().values() for name, text in facts.parameters.items()}
    parameters = {name: ByModel if re.fullmatch(BY_MODEL, text) else Text for name, text in usual.items()}
    return {name: _system(name, block, f"{file}, system {name}", parameters) for name, block in blocks.items()}


def _system(name: str, block: Mapping[str, Any], where: str, parameters: Mapping[str, Any]) -> System:
    for key in block:
        check_key(key, [*parameters, *KEYS], where)
    values = {**BY_VENDOR.get(str(block.get("vendor")), {}), **{key: block[key] for key in block if key in KEYS}}
    own = {key: reader(parameters[key])(block[key], where, key) for key in block if key not in KEYS}
    if "devices_sweep" not in values and (most := str(values.get("devices_per_node"))).isdecimal():
        values["devices_sweep"] = " ".join(str(2**power) for power in range(int(most).bit_length()))
    system: System = filled(System, values, where, system_name=name, values=own)
    return replace(system, values={key: getattr(system, key) for key in ("system_name", *KEYS)} | own)


@cache
def known_systems(file: Path) -> dict[str, System]:
    """Return the systems of a file; none if it cannot be used, which `caraml check` reports."""
    try:
        return read_systems(file)
    except RecordError:
        return {}


def system_of(name: str) -> System | None:
    """Return the block of a system; None without one."""
    return known_systems(ROOT / SYSTEMS).get(name)


def peak_of(system: str, precision: str) -> float:
    """Return the dense peak of one device in 10^12 FLOP/s; 0: not known, or not supported."""
    block = system_of(system)
    return block.peak_tflops(precision) if block else 0.0
