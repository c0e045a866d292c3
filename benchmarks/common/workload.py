"""Interface between a workload and the frame that measures it.

A workload is a folder of benchmarks/: `workload.yaml` describes it to the suite, and a class that follows Workload is
all the code that the frame needs from it. This module uses no framework: the framework's part is a Target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from benchmarks.common.launch import Launch
from benchmarks.common.measure.step_timer import Event
from benchmarks.common.options import ComputeOptions, RunOptions, TurnsOptions, WindowOptions
from benchmarks.common.record import Device, RunRecord
from jpwr.regions import RegionTimer


class Options(Protocol):
    """All options of a run: a dataclass of groups of flags, these among them."""

    @property
    def compute(self) -> ComputeOptions: ...

    @property
    def turns(self) -> TurnsOptions: ...

    @property
    def window(self) -> WindowOptions: ...

    @property
    def run(self) -> RunOptions: ...


class Target(Protocol):
    """Devices on which this process computes, as a framework drives them."""

    @property
    def kind(self) -> str:
        """cpu, gpu or ipu."""

    @property
    def precision(self) -> str: ...

    @property
    def record_event(self) -> Callable[[], Event] | None:
        """Function that records an event in the device's own time; None if the host waits for the device."""

    def gather(self, value: Any) -> list[Any]:
        """The value of every rank, in the order of ranks, on every rank. Anything that JSON holds."""

    def describe_devices(self) -> list[Device]:
        """This process's devices and the most memory each held."""

    def software(self) -> Mapping[str, Any]:
        """Return the versions of the libraries that the framework uses."""

    @property
    def profile(self) -> Callable[[Path], AbstractContextManager[object]] | None:
        """The framework's own profiler for as long as a block lasts: files for TensorBoard in that folder."""

    def statistics(self) -> Mapping[str, int | None]:
        """Return the framework's own counts, for the record's metrics."""


class Feed(Protocol):
    """Steps on one kind of data."""

    def call(self) -> None:
        """One call into the framework, which may make several steps; does not wait for the device."""


class BatchFeed(Feed, Protocol):
    """A Feed that takes a batch and steps on it in separate calls."""

    def take(self) -> Any:
        """Return the next batch."""

    def step(self, batch: Any) -> None:
        """Make one optimizer step on the batch."""


class Input(BatchFeed, Protocol):
    """Steps on data that comes through an input path."""

    steps_ahead: int  # so many steps' batches may have been made ahead

    def read_so_far(self) -> dict[str, float]:
        """Return the amounts read, by keys with a unit such as input_bytes, and seconds per part, as input_reading_s.

        The times of parts that run in parallel are all added.
        """

    def copy_batch_s(self) -> float | None:
        """Seconds that a batch takes to the device when nothing else goes on; None where it is there already."""


class Training(Protocol):
    """A model with its optimizer and data, ready to be stepped."""

    @property
    def data(self) -> Feed:
        """Steps on the data that was asked for; an Input with --effective."""

    @property
    def on_device(self) -> BatchFeed | None:
        """With --effective: steps on data that is on the device already."""

    @property
    def steps_per_call(self) -> int: ...

    def synchronize(self) -> None:
        """Wait until the device has done all it was given."""

    def losses(self) -> list[float]:
        """Return the loss of every call, warm-up included, as the mean over all ranks, on every rank."""

    def conclude(self, record: RunRecord) -> str:
        """Complete the record; return why the run is not valid, or an empty string."""


@runtime_checkable
class InParts(Protocol):
    """A Training whose usual step cannot be split into regions, and which has a slower step that can."""

    def step_in_parts(self) -> None:
        """One optimizer step on the data that was asked for, with regions; its loss is not kept."""


class Choice(NamedTuple):
    """An option that changes the speed of the same work: two runs that differ in it are no repeats."""

    title: str
    path: str  # in the record's config
    unusual: Mapping[str, str] = {}  # values in words, where they are not the usual ones


class Flops(NamedTuple):
    """Model FLOPs of training on one unit of work, and where the formula is from."""

    per_unit: float
    source: str


class Workload(ABC):
    """One run of a workload, from its options; raises ConfigError for what does not fit."""

    name: ClassVar[str]  # of its folder
    unit: ClassVar[str]  # of work, in the singular
    description: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]  # whose versions the record has
    options: ClassVar[type]  # Options
    precisions: ClassVar[tuple[str, ...]] = ("fp32", "bf16", "fp16")
    without_ipu: ClassVar[str] = ""  # why it is not there on IPUs
    choices: ClassVar[tuple[Choice, ...]] = ()

    layout: dict[str, int]  # what the record says of devices and batch
    data: str  # that it is trained on
    sample: str  # its size in words
    num_parameters: int
    work_per_sample: int  # in the workload's unit
    flops: Flops
    devices_per_process: int = 1
    files: Sequence[Path] = ()  # that this rank reads; with `stage` the frame puts copies in their place
    stage: str = ""  # folder on the node's own disk
    tells_communication: bool = True  # all of it, where there is any
    regions: RegionTimer  # from the frame, before it calls `open`: where a step's time goes

    @abstractmethod
    def __init__(self, options: Any, launch: Launch) -> None: ...

    @staticmethod
    @abstractmethod
    def model(options: Any) -> str:
        """Return the model's size or variant, as tables show it."""

    def plan(self) -> Iterator[str]:
        """Lines of --dry-run, after the layout."""
        yield f"num_parameters: {self.num_parameters}"

    @abstractmethod
    def open(self, record: RunRecord) -> AbstractContextManager[Target]:
        """The device, for as long as the block lasts; fills in the record's options as they were chosen."""

    @abstractmethod
    def build(self, target: Any) -> Training:
        """Model, optimizer and data of this rank, on the target that was opened."""
