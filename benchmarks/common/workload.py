"""Interface between a workload and the frame that measures it.

A workload is a folder of benchmarks/ with a `workload.yaml` for the suite and a subclass of Workload for the frame.
This module uses no framework: the framework's part is a Target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from benchmarks.common.facts import Flops as Flops
from benchmarks.common.launch import Launch
from benchmarks.common.options import ComputeOptions, RunOptions, TurnsOptions, WindowOptions
from benchmarks.common.record import Device, RunRecord
from jpwr.regions import RegionTimer


class Event(Protocol):
    """Moment on the device, after all work that was given to it before."""

    def elapsed_s(self, since: Any) -> float:
        """Return the seconds on the device since an earlier event; both must have passed."""
        ...


class Options(Protocol):
    """All options of a run: a dataclass of groups of flags, which include these."""

    @property
    def compute(self) -> ComputeOptions:
        """Options of the devices and the precision."""

    @property
    def turns(self) -> TurnsOptions:
        """Options of compute and effective throughput."""

    @property
    def window(self) -> WindowOptions:
        """Options of the measured window."""

    @property
    def run(self) -> RunOptions:
        """Options of the run and its record."""


class Target(Protocol):
    """Devices of this process, as a framework uses them."""

    @property
    def kind(self) -> str:
        """Kind of the devices: cpu, gpu or ipu."""

    @property
    def precision(self) -> str:
        """Precision of the computation, such as bf16."""

    @property
    def record_event(self) -> Callable[[], Event] | None:
        """Function that records an event on the device; None if the device has no events."""

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in their order, on every rank; a value is anything that JSON can hold."""

    def describe_devices(self) -> list[Device]:
        """Return this process's devices, with the peak memory of each."""

    def software(self) -> Mapping[str, Any]:
        """Return the versions of the libraries that the framework uses."""

    @property
    def profile(self) -> Callable[[Path], AbstractContextManager[object]] | None:
        """The framework's profiler, which writes files for TensorBoard into a folder; None without one."""

    def statistics(self) -> Mapping[str, int | None]:
        """Return the framework's own counts, for the record's metrics."""


class Feed(Protocol):
    """Steps on one kind of data."""

    def call(self) -> None:
        """Make one call into the framework, of one or more steps, without waiting for the device."""


class BatchFeed(Feed, Protocol):
    """A Feed that takes a batch and steps on it in separate calls."""

    def take(self) -> Any:
        """Return the next batch."""

    def step(self, batch: Any) -> None:
        """Make one optimizer step on the batch."""


class Input(BatchFeed, Protocol):
    """Feed from an input path."""

    steps_ahead: int  # number of steps whose batches may be prepared in advance

    def read_so_far(self) -> dict[str, float]:
        """Return the amounts read so far, by keys with a unit such as input_bytes, and seconds such as input_reading_s.

        The times of parallel parts are added.
        """

    def copy_batch_s(self) -> float | None:
        """Return the seconds to copy a batch to an idle device; None if it is there already."""


class Training(Protocol):
    """Model with its optimizer and data, ready for steps."""

    @property
    def data(self) -> Feed:
        """Steps on the requested data; an Input with --effective."""

    @property
    def on_device(self) -> BatchFeed | None:
        """Steps on data that is on the device already, for --effective; None if there are none."""

    @property
    def steps_per_call(self) -> int:
        """Optimizer steps of one call into the framework."""

    def synchronize(self) -> None:
        """Wait until the device is idle."""

    def losses(self, first: int = 0) -> list[float]:
        """Return the losses of all calls from `first` on, warm-up included, as means over all ranks, on every rank."""

    def conclude(self, record: RunRecord) -> str:
        """Complete the record; return why the run is not valid, or an empty string."""


@runtime_checkable
class InParts(Protocol):
    """Training whose usual step has no regions, and which has a slower step that is split into regions."""

    def step_in_parts(self) -> None:
        """Make one optimizer step on the requested data, with regions; its loss is not kept."""


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


@runtime_checkable
class HasState(Protocol):
    """Training that can be written and read."""

    @property
    def state(self) -> State:
        """State of this rank."""


class Choice(NamedTuple):
    """Option that changes the speed of the same work: two runs that differ in it are not repeats."""

    title: str
    path: str  # in the record's config
    unusual: Mapping[str, str] = {}  # unusual values, with their words


class Workload(ABC):
    """One run of a workload; raises ConfigError for options that do not fit together."""

    name: ClassVar[str]  # of its folder
    unit: ClassVar[str]  # of work, in the singular
    description: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]  # whose versions the record has
    options: ClassVar[type]  # Options
    precisions: ClassVar[tuple[str, ...]] = ("fp32", "bf16", "fp16")
    without_ipu: ClassVar[str] = ""  # why it does not run on IPUs; empty: it does
    choices: ClassVar[tuple[Choice, ...]] = ()

    layout: dict[str, int]  # devices and batch, for the record
    data: str  # kind of the training data
    sample: str  # size of a sample in words
    num_parameters: int
    work_per_sample: int  # in the workload's unit
    flops: Flops
    devices_per_process: int = 1
    files: Sequence[Path] = ()  # of this rank; with `stage` the frame replaces them by copies
    stage: str = ""  # folder on the node's own disk
    marks_all_communication: bool = True  # as regions
    regions: RegionTimer  # of a step; set by the frame before it calls `open`

    @abstractmethod
    def __init__(self, options: Any, launch: Launch) -> None: ...

    @staticmethod
    @abstractmethod
    def model(options: Any) -> str:
        """Return the model's size or variant, as tables show it."""

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
