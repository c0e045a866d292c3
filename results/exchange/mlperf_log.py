"""Training runs as log lines that MLPerf's parser of training logs reads. They are no submission.

MLPerf times a run from its start to a target quality, and its checker demands both. A run of a fixed number of steps
has neither: its measured windows are blocks, and the keys run_start, run_stop and eval_accuracy are left out.
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
        place = folder.joinpath(*names)
        place.mkdir(parents=True, exist_ok=True)
        for number, record in enumerate(runs):
            write_whole(place / f"result_{number}.txt", "\n".join([NOT_SUBMITTED, *_lines(record), ""]))
    return trained


def _windows(record: Record) -> list[Window]:
    """Return the measured windows of the first node of a training run; empty without its wall clock or its steps."""
    first = next(iter(windows_of(record, "measured").values()), []) if record.metrics.measured_steps else []
    return first if all(one.start_epoch_s and one.end_epoch_s for one in first) else []


def _lines(record: Record) -> Iterator[str]:
    windows = _windows(record)
    for key, path in KEYS.items():
        if (value := value_at(record, path)) is not None:
            yield _line(windows[0].start_epoch_s, "POINT_IN_TIME", key, value)
    for window in windows:
        yield _line(window.start_epoch_s, "INTERVAL_START", "block_start", None)
        yield _line(window.end_epoch_s, "INTERVAL_END", "block_stop", None)


def _line(time_s: Any, event: str, key: str, value: Any) -> str:
    line = {"namespace": "", "time_ms": round(1e3 * time_s), "event_type": event, "key": key, "value": value}
    return f":::MLLOG {json.dumps(line | {'metadata': {}})}"
