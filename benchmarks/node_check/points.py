"""Points of this workload's sweep: any number of devices can be checked."""

from __future__ import annotations


def check_point(model: str, num_devices: int, global_batch_size: int, **layout: int | None) -> None:
    """Accept every point: each device works on its own matrices."""
