"""Points of this workload's sweep, and the time of a run for forecasts: any number of devices can be checked."""

from __future__ import annotations

from collections.abc import Callable

FIGURES = 12  # products of five precisions, two of memory, two of the host's link, three of messages


def check_point(model: str, num_devices: int, global_batch_size: int, **layout: int | None) -> None:
    """Accept every point: each device works on its own matrices."""


def run_s(
    value: Callable[[str], str], model: str, num_devices: int, global_batch_size: int, flops_per_s: float
) -> float:
    """Estimate the time of a run: warm-up and window with their products, and all figures."""
    step_s = int(value("check_products")) * 2 * int(value("check_size")) ** 3 / flops_per_s
    window_s = max(int(value("measured_steps")) * step_s, float(value("min_measured_s")))
    return int(value("warmup_steps")) * step_s + window_s + FIGURES * float(value("check_figure_s"))
