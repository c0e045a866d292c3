"""Write TFRecords of generated volumes in place of simulated ones, and verify each file by reading it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.common.options import ConfigError, option, run_command
from benchmarks.common.prepare import MadeOptions, write_missing
from benchmarks.cosmoflow.config import NATIVE_SIZE, SIZES
from jpwr.process.whole_file import replaced


@dataclass(frozen=True)
class PrepareOptions(MadeOptions):
    """Data to write."""

    example = "data/fake-cosmoflow"
    size: int = option(NATIVE_SIZE, "voxels along a volume's edge: 32, 64 or 128")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size not in SIZES:
            raise ConfigError(f"size must be one of {', '.join(map(str, SIZES))}, got {self.size}")


class Written(NamedTuple):
    """Bytes of a file, before and after compression."""

    raw_bytes: int
    packed_bytes: int


def prepare(options: PrepareOptions) -> None:
    """Write the missing files; raises ConfigError if the folder cannot be used."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    folder = Path(options.out)
    paths = [folder / f"made_{index:06d}.tfrecord" for index in range(options.samples)]

    def tasks(missing: list[int]) -> list[Callable[[], Written]]:
        return [partial(write_file, paths[index], options.size, (options.seed, index)) for index in missing]

    written = write_missing(folder / "made.json", options.plan, "*.tfrecord", paths, tasks, options.jobs)
    if written:
        raw, packed = (sum(sizes) / len(written) / 1e6 for sizes in zip(*written, strict=True))
        print(f"{folder}: {len(written)} volumes of {packed:.2f} MB, packed from {raw:.2f} MB ({raw / packed:.1f} : 1)")


def write_file(path: Path, size: int, seed: tuple[int, int]) -> Written:
    """Write one volume and verify it by reading it; raises OSError if that fails."""
    import tensorflow as tf

    from benchmarks.cosmoflow.fields import sample

    counts, targets = sample(size, seed)
    serialised = tf.train.Example(
        features=tf.train.Features(
            feature={
                "x": tf.train.Feature(bytes_list=tf.train.BytesList(value=[counts.tobytes()])),
                "y": tf.train.Feature(float_list=tf.train.FloatList(value=targets)),
            }
        )
    ).SerializeToString(deterministic=True)
    with replaced(path) as part:
        try:
            with tf.io.TFRecordWriter(str(part), "GZIP") as writer:
                writer.write(serialised)
            [found] = tf.data.TFRecordDataset(str(part), "GZIP").as_numpy_iterator()
        except tf.errors.OpError as error:
            raise OSError(error.message) from error
        if found != serialised:
            raise OSError(f"{part} differs from what was written: check the disk")
    return Written(len(serialised), path.stat().st_size)


main = partial(run_command, PrepareOptions, "python -m benchmarks.cosmoflow.prepare", __doc__, prepare)

if __name__ == "__main__":
    sys.exit(main())
