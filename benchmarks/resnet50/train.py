"""ResNet-50 training, as the frame asks for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import session
from benchmarks.common.batch_plan import check_shares
from benchmarks.common.launch import Launch, usable_cores
from benchmarks.common.options import TurnsOptions
from benchmarks.common.record import RunRecord
from benchmarks.common.workload import Choice, Flops, Target, Training, Workload
from benchmarks.resnet50.config import NUM_CLASSES, Config, DataOptions
from benchmarks.resnet50.metrics import FLOPS_SOURCE, IMAGES_PER_EPOCH, num_parameters, training_flops_per_image

if TYPE_CHECKING:
    from benchmarks.on_tensorflow.target import Target as TensorFlowTarget
    from benchmarks.on_tensorflow.tfrecords import Batches
    from benchmarks.resnet50.trainer import Trainer

MAX_DAMAGED = 0.001  # of the records that were read


class ResNet50(Workload):
    """One run of ResNet-50."""

    name = "resnet50"
    unit = "image"
    description = "Train ResNet-50 for some steps with TensorFlow and record how fast it went."
    packages = ("tensorflow", "tensorflow-cpu", "tensorflow-rocm", "keras", "numpy")
    options = Config
    choices = (Choice("XLA", "compute.xla", {"on": "XLA"}),)

    def __init__(self, options: Config, launch: Launch) -> None:
        self.config, self.launch = options, launch
        self.devices_per_process = options.compute.devices_per_process
        batch, devices = options.batch.global_batch_size, launch.world_size * self.devices_per_process
        check_shares(devices, batch)
        self.layout = {
            "num_devices": devices,
            "num_nodes": launch.num_nodes,
            "global_batch_size": batch,
            "micro_batch_size": batch // devices,
            "data_parallel_size": devices,
            "image_size": options.model.image_size,
        }
        self.data, self.sample = options.data.data, f"{options.model.image_size} pixels"
        self.num_parameters = num_parameters(options.model.variant)
        self.work_per_sample = 1
        self.flops = Flops(training_flops_per_image(options.model.image_size), FLOPS_SOURCE)
        if launch.rank == 0 and options.model.warning:
            print(f"{self.name}: {options.model.warning}", file=sys.stderr)

    @staticmethod
    def model(options: Config) -> str:
        """The model and its variant."""
        return f"ResNet-50 {options.model.variant}"

    @contextmanager
    def open(self, record: RunRecord) -> Iterator[Target]:
        """The device with TensorFlow's strategy."""
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        # TensorFlow takes seconds to import: only once the options are known to be good.
        from benchmarks.on_tensorflow.target import choose_target

        target = choose_target(self.config.compute, self.launch)
        record.config["compute"] |= {
            "xla": "on" if target.xla else "off",
            "layout": "nchw" if target.data_format == "channels_first" else "nhwc",
        }
        yield target

    def build(self, target: Any) -> Training:
        """Model, optimizer and data of this process."""
        return ResNetTraining(self, target)


main = partial(session.main, ResNet50)


class ResNetTraining:
    """A Training of ResNet-50."""

    def __init__(self, run: ResNet50, target: TensorFlowTarget) -> None:
        from benchmarks.resnet50.data import data_files, open_batches
        from benchmarks.resnet50.trainer import Trainer

        config, launch = run.config, run.launch
        open_own = partial(
            open_batches,
            target=target,
            batch_size=run.layout["micro_batch_size"],
            rank=launch.rank,
            ranks=launch.world_size,
        )
        self.trainer = Trainer(config, target, run.regions)
        self._run, self._target = run, target
        self.steps_per_call = config.compute.steps_per_call
        cores = usable_cores() // launch.local_world_size
        ahead = config.data.prefetch_batches + 1 + cores // config.batch.global_batch_size
        files = [Path(file) for file in data_files(config)]
        self.data = ImageFeed(self.trainer, open_own(config), ahead, files)
        self.on_device = None
        if config.turns.effective:
            self.on_device = ImageFeed(
                self.trainer, open_own(replace(config, data=DataOptions(), turns=TurnsOptions()))
            )

    def synchronize(self) -> None:
        """Wait until the device has done all it was given."""
        self.trainer.synchronize()

    def step_in_parts(self) -> None:
        """One optimizer step, each part of which is waited for; on IPUs, whose steps are one program, none."""
        if not self._target.on_ipu:
            self.trainer.in_parts(*self.data.take())

    def losses(self) -> list[float]:
        """Of the last step of every call, a mean over the global batch."""
        return [float(loss) for loss in self.trainer.losses]

    def conclude(self, record: RunRecord) -> str:
        """Fill in what was read; why the run is not a good one."""
        read, damaged = (sum(counts) for counts in zip(*self._target.gather(self.data.batches.records()), strict=True))
        record.metrics |= {
            "comparable": self._run.config.model.is_comparable,
            "images_per_epoch": IMAGES_PER_EPOCH,
            "records_read": read,
            "records_damaged": damaged,
        }
        return run_problem(self.losses(), read, damaged)


class ImageFeed:
    """An Input: steps on images."""

    def __init__(self, trainer: Trainer, batches: Batches, steps_ahead: int = 0, files: Sequence[Path] = ()) -> None:
        self._trainer, self.batches, self.steps_ahead, self.files = trainer, batches, steps_ahead, files

    def call(self) -> None:
        """One call into TensorFlow, of some optimizer steps."""
        self._trainer.call(self.batches)

    def take(self) -> tuple[Any, Any]:
        """The next batch."""
        return next(self.batches)

    def step(self, batch: tuple[Any, Any]) -> None:
        """One optimizer step on it."""
        self._trainer.step(*batch)

    def read_so_far(self) -> dict[str, int]:
        """What was read from files."""
        images, size_bytes = self.batches.read_so_far()
        return {"input_images": images, "input_bytes": size_bytes}


def run_problem(losses: Sequence[float], read: int, damaged: int) -> str:
    """Why the run is not a good one, or an empty string.

    Random labels cannot be learnt in a few steps: what can be told of the loss is that nothing diverged.
    """
    bad = next((call for call, loss in enumerate(losses) if not abs(loss) < float("inf")), None)
    if bad is not None:
        return f"the loss is {losses[bad]} in call {bad}: the training diverged"
    if damaged > MAX_DAMAGED * read:
        return (
            f"{damaged} of {read} records could not be used (damaged, or a label that is not from 1 to {NUM_CLASSES}), "
            f"more than {MAX_DAMAGED:.1%}: check the data"
        )
    return ""
