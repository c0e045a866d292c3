"""Training runs as log lines that MLPerf's parser of training logs reads. They are no submission.

MLPerf times a run from its start to a target quality, and its checker demands both. Measured windows are blocks here.
Only a training to a loss, whose window is all of it, has run_start and run_stop; no run has eval_accuracy, as its
losses are of training.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jpwr.process.whole_file import write_whole
from results.record.model import Record, Window
from results.record.parts import windows_of
from results.record.values import grouped, plain, value_at

NOT_SUBMITTED = "A run of the suite CARAML, which is no submission to MLPerf: its blocks are the measured windows."
# Keys of mlperf_logging.mllog.constants, and of training_6.1.0/common.yaml of its checker.
KEYS = {
    "submission_benchmark": "benchmark",
    "submission_platform": "system",
    "global_batch_size": "layout.global_batch_size",
    "micro_batch_size": "layout.micro_batch_size",
    "gradient_accumulation_steps": "layout.grad_accum_steps",
    "max_sequence_length": "layout.sequence_length",
    "tensor_parallelism": "layout.tensor_parallel_size",
    "pipeline_parallelism": "layout.pipeline_parallel_size",
    "seed": "config.training.seed",
    "opt_base_learning_rate": "config.training.learning_rate",
}


def write_mlperf_logs(records: Sequence[Record], folder: Path) -> list[Record]:
    """Write SYSTEM/WORKLOAD/result_N.txt for each good training run below a folder, and return these runs."""
    trained = [one for one in records if one.is_good and _windows(one)]
    for names, runs in grouped(trained, lambda one: (plain(one.system), plain(f"{one.benchmark}_{one.model}"))).items():
        folder.joinpath(*names).mkdir(parents=True, exist_ok=True)
        for number, record in enumerate(runs):
            path = folder.joinpath(*names, f"result_{number}.txt")
            write_whole(path, "\n".join([NOT_SUBMITTED, *_lines(record), ""]))
    return trained


def _windows(record: Record) -> list[Window]:
    """Return the measured windows of the first node of a training run; empty without its wall clock or its steps."""
    is_training = record.metrics.measured_steps and not record.node_check
    first = next(iter(windows_of(record, "measured").values()), []) if is_training else []
    return first if all(one.start_epoch_s and one.end_epoch_s for one in first) else []


def _lines(record: Record) -> Iterator[str]:
    windows, is_whole = _windows(record), record.metrics.number("time_to_loss_s") is not None
    start_s = windows[0].start_epoch_s
    settings = {key: value_at(record, path) for key, path in KEYS.items()}
    yield from (_line(start_s, "POINT_IN_TIME", key, value) for key, value in settings.items() if value is not None)
    yield from [_line(start_s, "INTERVAL_START", "run_start")] if is_whole else []
    for one in windows:
        yield _line(one.start_epoch_s, "INTERVAL_START", "block_start")
        yield _line(one.end_epoch_s, "INTERVAL_END", "block_stop")
    if is_whole:
        yield _line(windows[-1].end_epoch_s, "INTERVAL_END", "run_stop", status="success")


def _line(time_s: Any, event: str, key: str, value: Any = None, **metadata: str) -> str:
    line = {"time_ms": round(1e3 * time_s), "event_type": event, "key": key, "value": value, "metadata": metadata}
    return f":::MLLOG {json.dumps({'namespace': ''} | line)}"
