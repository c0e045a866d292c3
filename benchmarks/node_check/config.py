"""Options of a node check."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.common.options import (
    ComputeOptions,
    ConfigError,
    Group,
    RunOptions,
    TurnsOptions,
    WindowOptions,
    option,
)

LEAST_REPEATS = 6  # that give a 95 % interval of the median


@dataclass(frozen=True)
class ModelOptions(Group):
    """Figures."""

    size: int = option(8192, "rows and columns of the matrices")
    products_per_step: int = option(64, "products of a step of the measured window, on each device")
    array_mb: int = option(1024, "size of each array of the bandwidths in memory, in 10^6 bytes")
    largest_message_mb: int = option(512, "size of the largest message between devices, in 10^6 bytes")
    figure_s: float = option(2.0, "time of each figure, in seconds")
    repeats: int = option(10, "parts of this time, each of which gives one value", least=LEAST_REPEATS)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size % 32:  # a product in fp8 takes multiples of 16
            raise ConfigError(f"size must be a multiple of 32, got {self.size}")


@dataclass(frozen=True)
class Config:
    """All options of a run."""

    model: ModelOptions
    compute: ComputeOptions
    turns: TurnsOptions
    window: WindowOptions
    run: RunOptions
