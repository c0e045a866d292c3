"""What every benchmark says of its measured steps."""

from __future__ import annotations

from benchmarks.common.step_timer import percentile


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
    """Throughput over the whole measured window, step times in seconds, rates in 10^12 FLOP/s.

    `unit` is what `work` counts, in the singular, such as `token`. `mfu` is from 0 to 1, and null where the device's
    peak is not known.
    """
    units_per_s = work / measured_s
    tflops_per_device = units_per_s * flops_per_unit / num_devices / 1e12
    return {
        "measured_s": measured_s,
        f"measured_{unit}s": work,
        f"{unit}s_per_s": units_per_s,
        f"{unit}s_per_s_per_device": units_per_s / num_devices,
        "step_time_median_s": percentile(step_times_s, 50),
        "step_time_p5_s": percentile(step_times_s, 5),
        "step_time_p95_s": percentile(step_times_s, 95),
        f"model_flops_per_{unit}": flops_per_unit,
        "model_flops_source": flops_source,
        "tflops_per_device": tflops_per_device,
        "peak_tflops_per_device": peak_tflops_per_device or None,
        "mfu": tflops_per_device / peak_tflops_per_device if peak_tflops_per_device else None,
    }
