"""Setup of a run: runs with different setups are not repeats of each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from record.parts import devices_of, sensor_channels
from record.values import count, cpus_in, once
from results.find.records import Record

# Groups of the configuration that do not change what is measured, such as the path of the record, and an option.
NO_OPTIONS = ("run",)
SEED = "training.seed"  # repeats of a training to a loss have different ones
SOFTWARE = ("container", "container_digest", "cuda", "cudnn", "nccl", "rocm", "python")
# Names of nvidia-smi, and of two versions of amd-smi.
DRIVER = ("driver_version", "driver.version", "driver.driver_version")
# Facts of a device that are equal for devices of one model, by the same names; nested facts are included.
OF_A_DEVICE = (
    "name",
    "vbios_version",
    "memory.total",
    "power.limit",
    "clocks.applications.graphics",
    "clocks.max.sm",
    "clocks.max.memory",
    "ecc.mode.current",
    "mig.mode.current",
    "pcie.link.gen.max",
    "pcie.link.width.max",
    "asic.market_name",
    "bus.max_pcie_speed",
    "bus.max_pcie_width",
    "bus.pcie_interface_version",
    "limit",
    "partition.compute_partition",
    "partition.memory_partition",
    "vbios",
    "vram.size",
    "vram.type",
)
OF_A_NODE = ("cpu", "cpus_usable")
FLOPS = "model_flops_per_"  # prefix of the metric with the model FLOPs per unit of work
DEVICE, CPUS, LIMIT, CLOCK_LIMIT = "device", "CPUs bound", "power limit", "clock limit"
# Variables of the environment that belong to one job, or do not change the speed.
OF_A_JOB = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NCCL_DEBUG")
OF_SCHEDULERS = ("SLURM_", "CARAML_")  # prefixes
NODES = "num_nodes"
OPTION = "option "  # prefix of an option with the name of another fact
UNKNOWN = "not known"
LONGEST = 24  # characters of a value, such as a digest

Setup = tuple[tuple[str, str], ...]


@once
def options_of(record: Record) -> Setup:
    """Return the options of a run, as used; empty if the run did not record them.

    The name of an option includes its group if several groups have an option of that name.
    """
    options = dict(flat({name: options for name, options in record.config.items() if name not in NO_OPTIONS}))
    options.pop(SEED, None)
    names = Counter(_own_name(path) for path in options)
    return tuple(
        sorted((name if names[name := _own_name(path)] == 1 else path, value) for path, value in options.items())
    )


def software_of(record: Record) -> dict[str, str]:
    """Return the version of each part of the software and of the drivers; omits what the record lacks."""
    origin = record.provenance
    versions = {name: str(version) for name in SOFTWARE if (version := vars(origin).get(name))}
    return versions | dict(flat(origin.packages or {})) | _of_devices(record, DRIVER)


def platform_of(record: Record) -> Setup:
    """Return the facts about software and devices by name; omits what the record lacks."""
    return tuple(sorted((software_of(record) | _of_devices(record, OF_A_DEVICE)).items()))


@once
def setup_of(record: Record) -> Setup:
    """Return options, layout, software, devices, nodes and environment by name; omits what the record lacks."""
    machine, work = machine_of(record), work_of(record)
    work = {name if name not in machine else f"{OPTION}{name}": value for name, value in work.items()}
    return tuple(sorted((machine | work).items()))


def machine_of(record: Record) -> dict[str, str]:
    """Return software, devices, nodes and environment by name."""
    return dict(platform_of(record)) | _of_nodes(record) | _of_processes(record) | _environment(record)


def work_of(record: Record) -> dict[str, str]:
    """Return layout, model FLOPs and options by name."""
    metrics = vars(record.metrics).items()
    facts = {name: str(value) for name, value in vars(record.layout).items()}
    facts |= {name: str(value) for name, value in metrics if value and name.startswith(FLOPS)}
    options = {name if name not in facts else f"{OPTION}{name}": value for name, value in options_of(record)}
    return facts | options


def _of_devices(record: Record, names: Sequence[str]) -> dict[str, str]:
    """Return the named facts of the devices, different values joined; omits missing facts."""
    return together(
        {path: value for path, value in flat(one) if any(f"{path}.".startswith(f"{name}.") for name in names)}
        for one in devices_of(record)
    )


def _of_nodes(record: Record) -> dict[str, str]:
    """Return the processors of the nodes, different values joined."""
    nodes = map(vars, record.provenance.nodes)
    return together({name: str(node[name]) for name in OF_A_NODE if node.get(name) is not None} for node in nodes)


def _of_processes(record: Record) -> dict[str, str]:
    """Return the facts about devices that the processes and the power sensors record.

    A container may hide these from the vendor's tool.
    """
    limits = [
        {name: "varied" if name == LIMIT and one.limits.varied else f"{limit:g} {unit}"}
        for one in sensor_channels(record)
        for name, limit, unit in (
            (LIMIT, one.limits.power_limit_w, "W"),
            (CLOCK_LIMIT, one.limits.clock_limit_mhz, "MHz"),
        )
        if limit
    ]
    devices = [
        {name: str(value) for name, value in ((DEVICE, one.name), (CPUS, len(cpus_in(one.cpus)))) if value}
        for one in record.devices
    ]
    return together([*devices, *limits])


def _environment(record: Record) -> dict[str, str]:
    """Return the variables of the environment that may change the speed."""
    variables = record.provenance.environment or {}
    return {
        name: value for name, value in variables.items() if name not in OF_A_JOB and not name.startswith(OF_SCHEDULERS)
    }


def together(several: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the values of each name in any of several mappings, different ones joined."""
    by_name: dict[str, set[str]] = {}
    for one in several:
        for name, value in one.items():
            by_name.setdefault(name, set()).add(value)
    return {name: " and ".join(sorted(values)) for name, values in by_name.items()}


def differences(setups: Sequence[Setup]) -> list[tuple[str, ...]]:
    """Return for each of several setups its values where the setups differ, as text."""
    known = [dict(setup) for setup in setups]
    names = sorted(
        name for name in {name for one in known for name in one} if len({one.get(name) for one in known}) > 1
    )
    return [tuple(_words(name, one.get(name)) for name in names) for one in known]


def _words(name: str, value: str | None) -> str:
    if name == NODES and value is not None:
        return count(int(value), "node")
    return f"{name} {UNKNOWN if value is None else value[:LONGEST]}"


def flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield (path, text) of nested values, without missing ones; a quantity is joined with its unit."""
    for name, value in values.items():
        path = f"{above}.{name}" if above else name
        if isinstance(value, Mapping) and value.keys() == {"value", "unit"}:
            yield path, f"{value['value']} {value['unit']}"
        elif isinstance(value, Mapping):
            yield from flat(value, path)
        elif value is not None:
            yield path, str(value)


def _own_name(path: str) -> str:
    return path.rpartition(".")[2]
