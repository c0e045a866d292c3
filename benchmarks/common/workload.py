"""Interface between a workload and the frame that measures it.

A workload is a folder of benchmarks/ with a `workload.yaml` for the suite and a subclass of Workload for the frame.
This module uses no framework: the framework's part is a Target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from benchmarks.common.launch import Launch
from benchmarks.common.options import ConfigError
from benchmarks.common.record import Device, RunRecord
from jpwr.regions import RegionTimer

FOLDERS = Path(__file__).resolve().parents[1]


class Flops(NamedTuple):
    """Model FLOPs to train on one unit of work, and the source of the count; None if they are not known."""

    per_unit: float | None
    source: str


@cache
def facts(workload: str) -> dict[str, Any]:
    """Return the content of a workload's workload.yaml; raises ConfigError without PyYAML."""
    try:
        import yaml
    except ImportError as error:
        raise ConfigError("PyYAML is not installed, which reads workload.yaml: install pyyaml") from error
    found: dict[str, Any] = yaml.safe_load((FOLDERS / workload / "workload.yaml").read_text(encoding="utf-8"))
    return found


def num_parameters(workload: str, model: str) -> int:
    """Return the number of parameters of a model."""
    return int(facts(workload)["num_parameters"][model])


def flops_of_sample(workload: str, model: str, sample: str) -> Flops:
    """Return the FLOPs of a model by the size of its samples, which are not known for every size."""
    found = facts(workload)
    return Flops(found["flops"][model].get(sample), found["flops_source"])


def flops_of_token(workload: str, model: str, length: int) -> Flops:
    """Return the FLOPs of a model for each token of a sample of some length; attention's grow with it."""
    found = facts(workload)
    [(sample, per_token)] = found["flops"][model].items()
    return Flops(
        per_token + found["flops_per_length"][model] * (length - int(sample.split()[0])), found["flops_source"]
    )


class Target(ABC):
    """Devices of this process, as a framework uses them; by default one process with a device that has no events."""

    kind: str  # cpu, gpu or ipu
    precision: str  # of the computation, such as bf16
    has_profiler: ClassVar[bool] = False

    @property
    def record_event(self) -> Callable[[], Any] | None:
        """Function that records an event on the device, which has `elapsed_s`; None if the device has no events."""
        return None

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in their order, on every rank; a value is anything that JSON can hold."""
        return [value]

    @abstractmethod
    def describe_devices(self) -> list[Device]:
        """Return this process's devices, with the peak memory of each."""

    def software(self) -> Mapping[str, Any]:
        """Return the versions of the libraries that the framework uses."""
        return {}

    def profile(self, folder: Path) -> AbstractContextManager[object]:
        """Return the framework's profiler, which writes files for TensorBoard into a folder."""
        raise NotImplementedError

    def statistics(self) -> Mapping[str, int | None]:
        """Return the framework's own counts, for the record's metrics."""
        return {}


@dataclass
class Feed:
    """Steps on one kind of data."""

    call: Callable[[], None]  # makes one call into the framework, of one or more steps; does not wait for the device
    # For an input path: the next batch, and one optimizer step on it.
    take: Callable[[], Any] = lambda: None
    step: Callable[[Any], None] = lambda batch: None
    steps_ahead: int = 0  # number of steps whose batches may be prepared in advance
    # Amounts read so far, by keys with a unit such as input_bytes, and seconds such as input_reading_s, added over
    # parallel parts.
    read_so_far: Callable[[], dict[str, float]] = dict
    copy_batch_s: Callable[[], float | None] = lambda: None  # to an idle device; None if a batch is there already


class State(Protocol):
    """Weights and optimizer of a training, of which the framework writes and reads this rank's part.

    All ranks call each method at the same time.
    """

    @property
    def size_bytes(self) -> int:
        """Bytes of this rank's weights and optimizer."""

    def checksum(self) -> str:
        """Return a checksum of all bits of this rank's weights and optimizer."""

    def save(self, folder: Path) -> None:
        """Write into a new folder."""

    def load(self, folder: Path) -> None:
        """Read from a folder."""


class Training(ABC):
    """Model with its optimizer and data, ready for steps."""

    data: Feed  # steps on the requested data; with an input path for --effective
    on_device: Feed | None = None  # steps on data that is on the device already, for --effective
    steps_per_call: int = 1  # optimizer steps of one call into the framework
    state: State | None = None  # None if it cannot be written and read
    synchronize: Callable[[], None]  # waits until the device is idle
    # One slower step that is split into regions, where the usual step has none; its loss is not kept.
    step_in_parts: Callable[[], None] | None = None

    def losses(self, first: int = 0) -> list[float]:
        """Return the losses of all calls from `first` on, warm-up included, as means over all ranks, on every rank."""
        return []

    @abstractmethod
    def conclude(self, record: RunRecord) -> str:
        """Complete the record; return why the run is not valid, or an empty string."""


class Workload(ABC):
    """One run of a workload; raises ConfigError for options that do not fit together."""

    name: ClassVar[str]  # of its folder
    unit: ClassVar[str]  # of work, in the singular
    description: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]  # whose versions the record has
    options: ClassVar[type]  # groups of flags, among them compute, turns, window and run of common/options.py
    # Words for unusual values of options, by path in the record's config: runs that differ in one are no repeats.
    unusual: ClassVar[Mapping[str, Mapping[str, str]]] = {}

    layout: dict[str, int]  # devices and batch, for the record
    data: str  # kind of the training data
    sample: str  # size of a sample in words
    num_parameters: int
    work_per_sample: int  # in the workload's unit
    flops: Flops
    files: Sequence[Path] = ()  # of this rank; with `stage` the frame replaces them by copies
    stage: str = ""  # folder on the node's own disk
    marks_all_communication: bool = True  # as regions
    regions: RegionTimer  # of a step; set by the frame before it calls `open`

    @abstractmethod
    def __init__(self, options: Any, launch: Launch) -> None: ...

    @classmethod
    def facts(cls) -> Mapping[str, Any]:
        """Return the content of its workload.yaml."""
        return facts(cls.name)

    @staticmethod
    @abstractmethod
    def model(options: Any) -> str:
        """Return the model's size or variant, as tables show it."""

    @property
    def work_per_step(self) -> int:
        """Work of an optimizer step over all devices, in the workload's unit."""
        return self.layout["global_batch_size"] * self.work_per_sample

    def plan(self) -> Iterator[str]:
        """Yield the lines that --dry-run prints after the layout."""
        yield f"num_parameters: {self.num_parameters}"

    def set_environment(self) -> None:  # noqa: B027 - most workloads have none
        """Set variables that the devices' driver reads when it is initialised, which is later."""

    @abstractmethod
    def open(self, record: RunRecord) -> AbstractContextManager[Target]:
        """Open the devices until the end of the block; record the chosen options."""

    @abstractmethod
    def build(self, target: Any) -> Training:
        """Return model, optimizer and data of this rank, on the opened target."""
