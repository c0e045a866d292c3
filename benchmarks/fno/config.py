"""Shapes of the fields, and options of a run.

Source of shapes and training: CARAML 2026 (github.com/FZJ-JSC/CARAML, operator_benchmark), Rayleigh-Bénard convection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.common import options
from benchmarks.common.options import ConfigError, SampleConfig, option
from benchmarks.on_pytorch import options as on_pytorch


class Shape(NamedTuple):
    """Shape of the fields and of the operator on them."""

    grid: tuple[int, ...]  # points along each axis
    fields: int  # velocities, temperature and pressure
    modes: tuple[int, ...]  # frequencies that a layer keeps along each axis
    width: int  # channels of a layer

    @property
    def sample(self) -> str:
        """Size of the fields at one time, in words."""
        return " x ".join(map(str, (*self.grid, self.fields)))


LAYERS = 2
SIZES = {
    "tiny": Shape((64, 32), 4, (12, 12), 16),
    "RBC2D": Shape((256, 64), 4, (12, 12), 16),
    "RBC3D": Shape((64, 64, 32), 5, (12, 12, 6), 25),
}


@dataclass(frozen=True)
class ModelOptions:
    """Model."""

    size: str = option("RBC2D", "convection in 2D or 3D, or a small one for laptops", tuple(SIZES))
    evaluation: bool = option(False, "only predict, in place of training: no gradients and no optimizer")


@dataclass(frozen=True)
class BatchOptions(on_pytorch.BatchOptions):
    """Batch."""

    global_batch_size: int = option(20, "timesteps per optimizer step, over all devices")


@dataclass(frozen=True)
class DataOptions(options.DataOptions):
    """Data."""

    data: str = option(
        "synthetic",
        "synthetic: one batch that stays on the device; synthetic-host: made on the host and copied",
        ("synthetic", "synthetic-host"),
    )


@dataclass(frozen=True)
class TrainingOptions(on_pytorch.TrainingOptions):
    """Training."""

    learning_rate: float = option(0.0001, "learning rate after its warm-up")
    weight_decay: float = option(0.00001, "factor of the weights in the gradients", least=0)


@dataclass(frozen=True)
class Config(SampleConfig):
    """All options of a run."""

    model: ModelOptions
    batch: BatchOptions
    data: DataOptions
    training: TrainingOptions

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model.evaluation and (self.checkpoint.checkpoint or self.window.to_loss):
            raise ConfigError("--evaluation changes no weights: leave out --checkpoint and --to-loss")
