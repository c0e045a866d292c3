"""Metrics that every benchmark reports for its measured steps and blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.common.record import EFFECTIVE, MEASURED
from jpwr.median import median_interval, percentile
from record.derived import computed, flops, step_times, throughput


@dataclass(frozen=True)
class Block:
    """Block of calls, after which the host waited for the device; times in seconds of a monotonic clock."""

    kind: str
    start_s: float
    end_s: float

    @property
    def duration_s(self) -> float:
        """Duration of the block, in seconds."""
        return self.end_s - self.start_s


@dataclass
class Turns:
    """Measured blocks and steps; every block has the same number of calls."""

    calls_per_block: int
    blocks: list[Block] = field(default_factory=list)  # compute and effective in turns
    compute_steps_s: list[float] = field(default_factory=list)  # timed one by one, on data on the device
    effective_steps_s: list[float] = field(
        default_factory=list
    )  # timed one by one on the input path, without waiting for it
    waits_s: list[float] = field(default_factory=list)  # for input, of each effective step

    def durations_s(self, kind: str) -> list[float]:
        """Return the durations of the blocks of a kind, in seconds."""
        return [block.duration_s for block in self.blocks if block.kind == kind]


def throughput_metrics(
    unit: str,
    work: int,
    measured_s: float,
    step_times_s: list[float],
    num_devices: int,
    flops_per_unit: float,
    flops_source: str,
    peak_tflops_per_device: float,
) -> dict[str, float | int | str | None]:
    """Return throughput over the whole measured window, step times in seconds, and rates in 10^12 FLOP/s.

    `unit` is the unit of `work` in the singular, such as `token`. `mfu` is from 0 to 1, and None if the device's peak
    is not known.
    """
    measured = {
        "measured_s": measured_s,
        f"measured_{unit}s": work,
        f"model_flops_per_{unit}": flops_per_unit,
        "peak_tflops_per_device": peak_tflops_per_device or None,
    }
    formulas = (*throughput(f"{unit}s"), *flops(f"{unit}s"))
    return {
        **measured,
        **computed(formulas, {**measured, "num_devices": num_devices}),
        **step_times(step_times_s),
        "model_flops_source": flops_source,
    }


def effective_metrics(
    unit: str,
    work_per_call: int,
    num_devices: int,
    turns: Turns,
    effective_s: float,
    input_wait_share: float,
    read: Mapping[str, float],
) -> dict[str, float | int | str | None]:
    """Return throughput through the input path over all effective blocks, and its ratio to the compute blocks.

    `unit` is as above; `effective_s` is the time of the blocks in seconds. `effective_over_compute` is the median over
    pairs of blocks, with a 95 % confidence interval; the interval is None with fewer than 6 pairs. `input_wait_share`
    (0 to 1) is a share of the time of the steps that were timed one by one; `step_slowdown` is the ratio of such a
    step's own time to that on data on the device. `read` has the amounts read during the effective blocks, in the units
    of its keys, and is returned per second; seconds of the input path's parts, such as `input_reading_s`, are returned
    as percentages of their sum.
    """
    parts_s = {key: value for key, value in read.items() if key.endswith("_s")}
    all_parts_s = sum(parts_s.values())
    blocks_s = turns.durations_s(EFFECTIVE)
    work = len(blocks_s) * turns.calls_per_block * work_per_call
    ratios = [compute / effective for compute, effective in zip(turns.durations_s(MEASURED), blocks_s, strict=True)]
    low, high = median_interval(ratios)
    measured = {"effective_s": effective_s, f"effective_{unit}s": work}
    return {
        **measured,
        **computed(throughput(f"{unit}s", "effective_"), {**measured, "num_devices": num_devices}),
        "effective_over_compute": percentile(ratios, 50),
        "effective_over_compute_low": low,
        "effective_over_compute_high": high,
        "effective_over_compute_pairs": len(ratios),
        "input_wait_share": input_wait_share,
        "input_wait_percent": 100 * input_wait_share,
        "step_slowdown": percentile(turns.effective_steps_s, 50) / percentile(turns.compute_steps_s, 50),
        **{f"{key}_per_s": value / effective_s for key, value in read.items() if key not in parts_s},
        **{
            f"{key.removesuffix('_s')}_percent": 100 * value / all_parts_s
            for key, value in parts_s.items()
            if all_parts_s
        },
    }
