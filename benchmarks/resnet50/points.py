"""Which points of a sweep can run: what `caraml.points` asks of this workload. Reads no TensorFlow."""

from __future__ import annotations

from benchmarks.common.options import ConfigError


def devices_needed(model: str) -> int:
    """The number that devices must be a multiple of."""
    return 1


def check_point(
    model: str,
    num_devices: int,
    global_batch_size: int,
    micro_batch_size: int | None = None,
    pipeline_parallel_size: int | None = None,
) -> None:
    """Raise ConfigError unless each device gets the same number of images; the last two are not this workload's."""
    if global_batch_size % num_devices:
        raise ConfigError(
            f"global_batch_size {global_batch_size} is not a multiple of the {num_devices} devices: change one of them"
        )
