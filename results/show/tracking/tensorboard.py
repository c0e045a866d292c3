"""Log runs for TensorBoard by TensorFlow's writer: curves, distributions, and a table of files that were read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from ioprof.errors import IoprofError
from ioprof.folder import load
from ioprof.summary import MB, stretches
from results.join.reads import PROFILES
from results.record.quantities import Quantity, quantities
from results.record.records import Record, RecordError
from results.show.tables.cells import Table, rendered
from results.show.tracking.servers import LoggedRun, logged_run

NOT_IN_FOLDERS = re.compile(r"[^\w\-.]+")
MOST_READS = 1_000_000  # of a distribution
COMPLETE = "all-of-it.json"  # in a run's folder as soon as it is complete
FILE_COLUMNS = (
    "path",
    "bytes",
    "window_bytes",
    "waited_for_bytes",
    "opens",
    "reads",
    "read_s",
    "size_bytes",
    "mapped_bytes",
)


def log_to_tensorboard(records: Sequence[Record], folder: Path) -> list[str]:
    """Write runs and return the names of the new ones; raises RecordError without TensorFlow, or if it cannot write."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow only writes here
    try:
        import tensorflow as tf
    except ImportError as error:
        raise RecordError("--tensorboard needs TensorFlow, which is not installed: pip install '.[resnet]'") from error
    names = []
    for record in records:
        one = logged_run(record)
        place = folder / NOT_IN_FOLDERS.sub("-", f"{one.name}-{one.run_id[:8]}").strip("-")
        if (place / COMPLETE).exists():
            continue
        try:
            _write(tf, record, one, place)
            (place / COMPLETE).write_text(json.dumps({"run_id": one.run_id}) + "\n")
        except (OSError, tf.errors.OpError) as error:
            raise RecordError(f"--tensorboard {folder} cannot be written to: {error}") from error
        names.append(one.name)
    return names


def _write(tf: Any, record: Record, one: LoggedRun, place: Path) -> None:
    writer = tf.summary.create_file_writer(str(place))
    with writer.as_default(), tf.device("CPU:0"):
        for step, loss in enumerate(record.losses):
            tf.summary.scalar("loss", loss, step)
        for step, time_s in enumerate(one.step_times_s):
            tf.summary.scalar("step_time_s", time_s, step)
        if one.step_times_s:
            tf.summary.histogram("step_times_s", one.step_times_s, 0)
        for name, value in one.metrics.items():
            tf.summary.scalar(name, value, 0)
        tf.summary.text("run", rendered(Table(quantities("", ""), list(one.parameters.items())), "markdown"), 0)
        if record.io:
            _write_reads(tf, record)
    writer.close()


def _write_reads(tf: Any, record: Record) -> None:
    """Write the reads: steps of these curves are parts of equal length from the command's start."""
    for node in record.io.over_time:
        for step, size in enumerate(node.bytes):
            if node.part_s:
                tf.summary.scalar(f"read_MB_per_s/{node.hostname}", size / MB / node.part_s, step)
    sizes = list(_read_sizes(Path(record.file.path).parent))
    if sizes:
        tf.summary.histogram("bytes_of_a_read", sizes, 0)
    files = [[vars(file)[column] for column in FILE_COLUMNS] for file in record.io.files]
    tf.summary.text("files", rendered(Table([Quantity(key) for key in FILE_COLUMNS], files), "markdown"), 0)


def _read_sizes(folder: Path) -> Iterator[float]:
    """Yield the size of each read, in bytes, assuming that the reads of a stretch are equal; thinned if too many."""
    every = []
    for path in sorted(folder.glob(PROFILES)):
        try:
            every += [(one.bytes / one.reads, one.reads) for one in stretches(load(path.parent)) if one.reads]
        except IoprofError:
            return
    thinned = 1 + sum(reads for _, reads in every) // MOST_READS
    yield from chain.from_iterable(repeat(size, -(-reads // thinned)) for size, reads in every)
