"""Facts of a run by category: runs are repeats, a series or comparable if the facts of some categories are equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from record.values import count, devices_text, once
from results.files.workloads import facts_about
from results.find.duplicates import cpus_in
from results.find.records import Record

# Groups of the configuration that do not change what is measured, such as the path of the record, and an option.
NO_OPTIONS = ("run",)
SEED = "training.seed"  # repeats of a training to a loss have different ones
SOFTWARE = ("container", "container_digest", "cuda", "cudnn", "nccl", "rocm", "python")
# Names of nvidia-smi, and of two versions of amd-smi.
DRIVER = ("driver_version", "driver.version", "driver.driver_version")
# Facts of a device that are equal for devices of one model, by the same names; nested facts are included.
OF_A_DEVICE = (
    *("name", "vbios_version", "memory.total", "power.limit", "clocks.applications.graphics", "clocks.max.sm"),
    *("clocks.max.memory", "ecc.mode.current", "mig.mode.current", "pcie.link.gen.max", "pcie.link.width.max"),
    *("asic.market_name", "bus.max_pcie_speed", "bus.max_pcie_width", "bus.pcie_interface_version", "limit"),
    *("partition.compute_partition", "partition.memory_partition", "vbios", "vram.size", "vram.type"),
)
OF_A_NODE = ("cpu", "cpus_usable")
FLOPS = "model_flops_per_"  # prefix of the metric with the model FLOPs per unit of work
DEVICE, CPUS = "device", "CPUs bound"
# Variables of the environment that belong to one job, or do not change the speed.
OF_A_JOB = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NCCL_DEBUG")
OF_SCHEDULERS = ("SLURM_", "CARAML_")  # prefixes
PARALLEL = (("TP", "tensor"), ("PP", "pipeline"), ("CP", "context"), ("EP", "expert"))
NODES = "num_nodes"
UNKNOWN = "not known"
LONGEST = 24  # characters of a value, such as a digest

Setup = tuple[tuple[str, str], ...]


class Point(NamedTuple):
    """Workload and size of a measurement: equal for repeats, and for two systems that are compared."""

    benchmark: str
    model: str
    data: str
    sample: str  # its size, such as 2048 tokens
    devices: int
    global_batch: int
    copies: int = 0  # that ran at once to fill the nodes; 0: an ordinary run
    to_loss: float = 0.0  # target of a training to a loss; 0: an ordinary run

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.benchmark, self.model, self.data, self.sample, self._where)))

    @property
    def place(self) -> str:
        """Position of the point in a sweep, as text."""
        return self._where.replace(", global ", ", ")

    @property
    def _where(self) -> str:
        where = f"{devices_text(self.devices)}, {facts_about(self.benchmark).batch.format(self.global_batch)}"
        if self.to_loss:
            return f"{where}, to loss {self.to_loss:g}"
        return f"{where}, {self.copies} {'copy' if self.copies == 1 else 'copies'}" if self.copies else where


class RunFacts(NamedTuple):
    """Facts of a run by category; facts with names omit what the record lacks."""

    system: str
    point: Point
    choices: tuple[str, ...]  # precision, micro batch, parallel sizes and unusual options, as text
    options: dict[str, str]  # as used, by group and name; empty if the run did not record them
    work: dict[str, str]  # layout with the model FLOPs, and the options that neither it nor the choices state
    limits: dict[str, str]  # of power and clock; a container may hide these from the vendor's tool
    platform: dict[str, str]  # software with drivers, devices as the vendor's tool reports them, and the limits
    machine: dict[str, str]  # all that is not of the work: also processes, nodes, and variables of the environment

    @property
    def setup(self) -> Setup:
        """All facts with names: runs with different ones are not repeats of each other."""
        return as_key(self.machine | self.work)


@once
def facts_of(record: Record) -> RunFacts:
    """Return the facts of a run."""
    origin, reported, channels = record.provenance, record.reported_devices, record.sensor_channels
    flops = {name: value for name, value in vars(record.metrics).items() if name.startswith(FLOPS) and value}
    options = dict(flat({name: group for name, group in record.config.items() if name not in NO_OPTIONS}))
    options.pop(SEED, None)
    versions = {name: vars(origin).get(name) or None for name in SOFTWARE}
    work = dict(flat({**vars(record.layout), **flops}))
    stated = {*work, "precision"}
    work |= {name: value for name, value in options.items() if own_name(name) not in stated}
    limits = together(
        {
            "power limit": "varied" if one.limits.varied else _quantity(one.limits.power_limit_w, "W"),
            "clock limit": _quantity(one.limits.clock_limit_mhz, "MHz"),
        }
        for one in channels
    )
    platform = dict(flat({**versions, **(origin.packages or {})})) | _named(reported, (*DRIVER, *OF_A_DEVICE)) | limits
    processes = together({DEVICE: one.name or None, CPUS: len(cpus_in(one.cpus)) or None} for one in record.devices)
    nodes = together({name: vars(node).get(name) for name in OF_A_NODE} for node in origin.nodes)
    environment = {
        name: value
        for name, value in (origin.environment or {}).items()
        if name not in OF_A_JOB and not name.startswith(OF_SCHEDULERS)
    }
    machine = platform | processes | nodes | environment
    return RunFacts(record.system, point_of(record), choices_of(record), options, work, limits, platform, machine)


def point_of(record: Record) -> Point:
    """Return the point that a record is a repeat of."""
    return Point(
        record.benchmark,
        record.model,
        record.data,
        record.sample,
        record.layout.num_devices or 0,
        record.layout.global_batch_size or 0,
        record.fill.copies if record.fill else 0,
        record.option("window.to_loss") or 0.0,
    )


def place_of(record: Record) -> str:
    """Return the system, the model and the place in its sweep of a run, as text."""
    point = point_of(record)
    return ", ".join(filter(None, (record.system, point.model, point.place)))


def choices_of(record: Record, micro_batch: bool = True) -> tuple[str, ...]:
    """Return the choices in which two runs of one point can differ, as text; `micro_batch` includes the micro batch."""
    layout, micro = record.layout, record.layout.micro_batch_size
    sizes = ((name, layout.number(f"{kind}_parallel_size") or 1) for name, kind in PARALLEL)
    parallel = [f"{name}{size:.0f}" for name, size in sizes if size > 1]
    batch = f"micro batch {micro}" if micro and micro_batch else ""
    return tuple(filter(None, [record.precision, batch, *parallel, *record.variant]))


def as_key(facts: Mapping[str, str]) -> Setup:
    """Return facts with names as a key, in their order."""
    return tuple(sorted(facts.items()))


def together(several: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the values of each name in any of several mappings, different ones joined."""
    by_name: dict[str, set[str]] = {}
    for values in several:
        for name, text in flat(values):
            by_name.setdefault(name, set()).add(text)
    return {name: " and ".join(sorted(texts)) for name, texts in by_name.items()}


def differences(setups: Sequence[Setup]) -> list[tuple[str, ...]]:
    """Return for each of several setups its values where the setups differ, as text."""
    known = [dict(setup) for setup in setups]
    shared = set.intersection(*map(set, setups)) if setups else set()
    names = sorted({name for setup in setups for name, value in setup if (name, value) not in shared})
    return [tuple(_words(name, setup.get(name, UNKNOWN)) for name in names) for setup in known]


def _words(name: str, text: str) -> str:
    return count(int(text), "node") if name == NODES and text != UNKNOWN else f"{name} {text[:LONGEST]}"


def flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield (path, text) of nested values, without missing ones; a quantity is joined with its unit."""
    for name, value in values.items():
        path = f"{above}.{name}" if above else name
        if isinstance(value, dict) and value.keys() == {"value", "unit"}:
            yield path, f"{value['value']} {value['unit']}"
        elif isinstance(value, dict):
            yield from flat(value, path)
        elif value is not None:
            yield path, f"{value:.12g}" if isinstance(value, float) else str(value)


def own_name(path: str) -> str:
    """Return the name at the end of a path."""
    return path.rpartition(".")[2]


def _named(reported: Iterable[Mapping[str, Any]], names: Sequence[str]) -> dict[str, str]:
    """Return the named facts of the devices, different values joined; omits missing facts."""
    prefixes = tuple(f"{name}." for name in names)
    return {path: text for path, text in together(reported).items() if f"{path}.".startswith(prefixes)}


def _quantity(value: float | None, unit: str) -> str | None:
    return f"{value:g} {unit}" if value else None


def sort_key(record: Record) -> tuple[str, str, str, int, int]:
    """Return the key that sorts records by workload, system and model, then by devices and batch."""
    layout = record.layout
    return record.benchmark, record.system, record.model, layout.num_devices or 0, layout.global_batch_size or 0
