"""Arithmetic of batches."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.common.options import ConfigError


@dataclass(frozen=True)
class BatchPlan:
    """Shares of the samples of one optimizer step; raises ConfigError if they do not come out even."""

    global_batch_size: int  # samples per optimizer step, over all devices
    micro_batch_size: int  # samples per forward pass, on one device
    data_parallel_size: int  # replicas of the model

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise ConfigError(f"{name} must be 1 or more, got {value}")
        per_pass = self.micro_batch_size * self.data_parallel_size
        if self.global_batch_size % per_pass:
            raise ConfigError(
                f"global_batch_size {self.global_batch_size} is not a multiple of micro_batch_size x "
                f"data_parallel_size = {self.micro_batch_size} x {self.data_parallel_size} = {per_pass}: "
                "change one of the three"
            )

    @property
    def grad_accum_steps(self) -> int:
        """Number of forward and backward passes of each replica per optimizer step."""
        return self.global_batch_size // (self.micro_batch_size * self.data_parallel_size)

    def sample_indices(self, step: int, pass_index: int, data_parallel_rank: int) -> range:
        """Return the indices of the samples that a replica reads in one pass of a step, both counted from 0.

        A step has the same samples in every layout, so that losses can be compared between layouts.
        """
        per_pass = self.micro_batch_size * self.data_parallel_size
        first = step * self.global_batch_size + pass_index * per_pass + data_parallel_rank * self.micro_batch_size
        return range(first, first + self.micro_batch_size)


def check_shares(num_devices: int, global_batch_size: int) -> None:
    """Raise ConfigError unless each device gets the same number of samples."""
    if global_batch_size % num_devices:
        raise ConfigError(
            f"global_batch_size {global_batch_size} is not a multiple of the {num_devices} devices: change one of them"
        )
