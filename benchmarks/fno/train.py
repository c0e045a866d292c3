"""Workload FNO."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.common import session
from benchmarks.common.launch import Launch
from benchmarks.common.record import RunRecord
from benchmarks.common.samples import divergence
from benchmarks.common.workload import Target
from benchmarks.fno.config import SIZES, Config
from benchmarks.on_pytorch.workload import PyTorchWorkload

if TYPE_CHECKING:
    from benchmarks.on_pytorch.target import Target as PyTorchTarget
    from benchmarks.on_pytorch.trainer import Trainer


class Fno(PyTorchWorkload):
    """One run of FNO; a sample is the fields at one time, and at the next as its labels."""

    name = "fno"
    unit = "timestep"
    description = "Train or evaluate a Fourier neural operator with PyTorch and record the speed."
    packages = ("torch", "neuraloperator", "numpy")
    options = Config

    def __init__(self, options: Config, launch: Launch) -> None:
        self._shape = SIZES[options.model.size]
        super().__init__(options, launch, (), self._shape.sample)

    @staticmethod
    def model(options: Config) -> str:
        """Return the model with the size of its fields; an evaluation is another one, so that it never ranks here."""
        return f"FNO {'evaluation ' if options.model.evaluation else ''}{options.model.size}"

    def open_trainer(self, target: PyTorchTarget) -> Trainer:
        """Return model and optimizer of this rank."""
        from benchmarks.fno.model import build_trainer

        return build_trainer(self.config, self.shares.grad_accum_steps, target, self.regions)

    def made_sample(self, number: int) -> tuple[Any, Any]:
        """Return random fields, and those one step in time later."""
        from benchmarks.fno.data import made_fields

        return made_fields(self._shape, (self.config.training.seed_of_data, number))

    def conclude(self, record: RunRecord, target: Target, losses: Sequence[float], read: int, damaged: int) -> str:
        """Return why the run is not valid, or an empty string; there are no files."""
        record.metrics["comparable"] = self.config.model.size != "tiny"
        return divergence(losses)


main = partial(session.main, Fno)
