"""Write TFRecords of made volumes that stand in for simulated ones. A file is read back before it has its name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.common.options import ConfigError, option, positive, run_command
from benchmarks.common.prepare import write_missing
from benchmarks.cosmoflow.config import NATIVE_SIZE, SIZES


@dataclass(frozen=True)
class PrepareOptions:
    """Data to write."""

    out: str = option("", "folder for the TFRecords")
    size: int = option(NATIVE_SIZE, "voxels along a volume's edge: 32, 64 or 128")
    samples: int = option(64, "number of volumes, each in a file of its own")
    jobs: int | None = option(None, "processes; default: one for each usable core")
    seed: int = option(1234, "seed of the volumes")

    def __post_init__(self) -> None:
        positive(self, "samples", "jobs")
        if not self.out:
            raise ConfigError("--out FOLDER is needed: where the TFRecords go, such as data/fake-cosmoflow")
        if self.size not in SIZES:
            raise ConfigError(f"size must be one of {', '.join(map(str, SIZES))}, got {self.size}")


class Written(NamedTuple):
    """Bytes of a file, before and after it was packed."""

    raw_bytes: int
    packed_bytes: int


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    return run_command(
        PrepareOptions,
        "python -m benchmarks.cosmoflow.prepare",
        "Write TFRecords of made volumes that stand in for simulated ones.",
        prepare,
        argv,
    )


def prepare(options: PrepareOptions) -> None:
    """Write what is missing of the files; raises ConfigError where that cannot be."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    folder = Path(options.out)
    plan = {key: value for key, value in asdict(options).items() if key not in ("out", "jobs")}
    paths = [folder / f"made_{index:06d}.tfrecord" for index in range(options.samples)]

    def tasks(missing: list[int]) -> list[Callable[[], Written]]:
        return [partial(write_file, paths[index], options.size, (options.seed, index)) for index in missing]

    written = write_missing(folder / "made.json", plan, "*.tfrecord", paths, tasks, options.jobs)
    if written:
        raw, packed = (sum(sizes) / len(written) / 1e6 for sizes in zip(*written, strict=True))
        print(f"{folder}: {len(written)} volumes of {packed:.2f} MB, packed from {raw:.2f} MB ({raw / packed:.1f} : 1)")


def write_file(path: Path, size: int, seed: tuple[int, int]) -> Written:
    """One volume, which is read back before it has its name; raises OSError when it cannot be written."""
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
    part = path.with_suffix(".part")
    try:
        with tf.io.TFRecordWriter(str(part), "GZIP") as writer:
            writer.write(serialised)
        [found] = tf.data.TFRecordDataset(str(part), "GZIP").as_numpy_iterator()
    except tf.errors.OpError as error:
        raise OSError(error.message) from error
    if found != serialised:
        raise OSError(f"{part} has another content than was written")
    part.replace(path)
    return Written(len(serialised), path.stat().st_size)


if __name__ == "__main__":
    sys.exit(main())
