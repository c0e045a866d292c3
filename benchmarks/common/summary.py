"""Summary that a run prints at its end, for the person who started it by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from benchmarks.common.record import OK, RunRecord
from jpwr.messages import number_of
from jpwr.trace.marks import MARKS_VARIABLE


def summary(record: RunRecord, path: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return a few lines: model, status, throughput, step times, loss, and where energy and record are."""
    where = record.system
    if layout := record.layout:  # a plan that is refused has none
        batch = layout.get("global_batch_size", 0)
        where += f", {number_of(layout.get('num_devices', 0), 'device')}, "
        where += f"{batch} in flight" if record.serving else f"global batch {batch}"
    lines = [("model", f"{record.model} on {where}: {record.status}")]
    lines += _figures(record)
    if record.status == OK:
        sampled = environ.get(MARKS_VARIABLE)
        lines.append(
            ("energy", "measured by jpwr around this program" if sampled else "not measured: put 'jpwr --' in front")
        )
    lines.append(("record", path or "not stored: --record FILE stores it"))
    return "\n".join(f"{record.benchmark}: {name:<10} {text}" for name, text in lines)


def _figures(record: RunRecord) -> Iterator[tuple[str, str]]:
    unit, metrics = record.work_unit, record.derived().metrics
    number = metrics.number
    speed, per_device = number(f"{unit}_per_s"), number(f"{unit}_per_s_per_device")
    if speed is not None:
        each = f", {per_device:.1f} per device" if per_device not in (None, speed) else ""
        yield "throughput", f"{speed:.1f} {unit}/s over {number('measured_s') or 0:.1f} s{each}"
    effective = number(f"effective_{unit}_per_s")
    if effective is not None:
        wait = number("input_wait_percent") or 0
        yield "effective", f"{effective:.1f} {unit}/s through the input path, which waits {wait:.1f} % of the time"
    write_s, restore_s, saved_bytes = (number(f"checkpoint_{one}") for one in ("write_s", "restore_s", "bytes"))
    if write_s is not None and restore_s is not None:
        where = "storage" if number("checkpoint_cold") else "storage or the node's cache"
        size = f"{(saved_bytes or 0) / 1e6:.1f} MB"
        yield "checkpoint", f"{size} written in {write_s:.2g} s, read in {restore_s:.2g} s from {where}"
    median_s = number("step_time_median_s")
    if median_s is not None:
        low_s, high_s = number("step_time_p5_s"), number("step_time_p95_s")
        yield "step time", f"{median_s:.4g} s (median), {low_s:.4g} to {high_s:.4g} s (5th to 95th percentile)"
    tflops, mfu = number("tflops_per_device"), number("mfu")
    if tflops is not None:
        share = f", {mfu:.1%} of the peak" if mfu is not None else ""
        yield "compute", f"{tflops:.4g} TFLOP/s per device{share}"
    first, last = number("first_loss"), number("last_loss")
    if first is not None and last is not None:
        yield "loss", f"{first:.4g} in the first step, {last:.4g} in the last"
