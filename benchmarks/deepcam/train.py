"""DeepCAM training, as the frame asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common import session
from benchmarks.common.batch_plan import BatchPlan
from benchmarks.common.input_files import own_files
from benchmarks.common.launch import Launch
from benchmarks.common.options import ConfigError
from benchmarks.common.record import RunRecord
from benchmarks.common.workload import Choice, Flops, Target, Training, Workload
from benchmarks.deepcam.config import CHANNELS, SIZES, Config
from benchmarks.deepcam.metrics import FLOPS_SOURCE, num_parameters, training_flops_per_sample

STATS = "stats.h5"


class DeepCam(Workload):
    """One run of DeepCAM."""

    name = "deepcam"
    unit = "sample"
    description = "Train DeepCAM for some steps with PyTorch and record how fast it went."
    packages = ("torch", "h5py", "numpy")
    options = Config
    without_ipu = "pictures of its size need a program that is split over several of them"
    choices = (Choice("optimizer", "training.optimizer", {"lamb": "LAMB"}),)

    def __init__(self, options: Config, launch: Launch) -> None:
        self.config, self.launch = options, launch
        devices, batch = launch.world_size, options.batch
        self.shares = BatchPlan(
            batch.global_batch_size, batch.micro_batch_size or max(1, batch.global_batch_size // devices), devices
        )
        self.layout = {
            "num_devices": devices,
            "num_nodes": launch.num_nodes,
            "global_batch_size": batch.global_batch_size,
            "micro_batch_size": self.shares.micro_batch_size,
            "data_parallel_size": devices,
            "grad_accum_steps": self.shares.grad_accum_steps,
        }
        height, width = SIZES[options.model.size]
        self.data, self.stage, self.work_per_sample = options.data.data, options.data.stage, 1
        self.sample = f"{height} x {width} x {CHANNELS}"
        self.num_parameters = num_parameters()
        self.flops = Flops(training_flops_per_sample(height, width), FLOPS_SOURCE)
        if options.data.reads_files:
            files, self.stats = find_files(Path(options.data.data_dir), options.data.made_by)
            self.files = own_files(files, launch.rank, launch.world_size)

    @staticmethod
    def model(options: Config) -> str:
        """The size of its pictures."""
        return f"DeepCAM {options.model.size}"

    @contextmanager
    def open(self, record: RunRecord) -> Iterator[Target]:
        """The device, with the process group of all ranks."""
        from benchmarks.on_pytorch.target import choose_target, process_group

        target = choose_target(self.config.compute, self.launch)
        with process_group(target):
            yield target

    def build(self, target: Any) -> Training:
        """Model, optimizer and data of this rank."""
        from benchmarks.deepcam.training import DeepCamTraining

        return DeepCamTraining(self, target)


def find_files(folder: Path, made_by: str) -> tuple[list[Path], Path]:
    """The training set's and its statistics, in a folder or in `train` beside them; raises ConfigError without."""
    for there in (folder, folder / "train"):
        files = sorted(path for path in there.glob("*.h5") if path.name != STATS)
        if files:
            break
    else:
        raise ConfigError(
            f"--data-dir {folder} holds no files *.h5, nor does a folder train in it: make them with '{made_by}'"
        )
    for stats in (there / STATS, there.parent / STATS):
        if stats.is_file():
            return files, stats
    raise ConfigError(f"there is no {STATS} in {there} or in the folder above: copy the data set's own there")


main = partial(session.main, DeepCam)
