"""Make a small stand-in for ImageNet: TFRecords of real JPEGs with made pictures, of ImageNet's usual sizes.

The pictures of a class have a pattern in common, so that there is something to learn. A file is written under another
name and renamed when it is whole; files that are there stay, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.options import ConfigError, option, parse_config, positive
from benchmarks.resnet50.config import NUM_CLASSES

QUALITY = 90
SIZES = ((375, 500), (500, 375), (333, 500), (500, 500))  # heights and widths that most of ImageNet has


@dataclass(frozen=True)
class PrepareOptions:
    """Data to make."""

    out: str = option("", "folder for the TFRecords")
    images: int = option(512, "number of pictures")
    files: int = option(4, "number of files that they are shared out over")
    seed: int = option(1234, "seed of the pictures")

    def __post_init__(self) -> None:
        positive(self, "images", "files")
        if not self.out:
            raise ConfigError("--out FOLDER is needed: where the TFRecords go, such as data/fake-imagenet")
        if self.images % self.files:
            raise ConfigError(f"images {self.images} is not a multiple of files {self.files}: change one of the two")


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    try:
        [options] = parse_config(
            (PrepareOptions,),
            sys.argv[1:] if argv is None else argv,
            prog="python -m benchmarks.resnet50.prepare",
            description="Make a small stand-in for ImageNet, for --data fake-imagenet.",
        )
        make(options)
    except ConfigError as error:
        print(f"prepare: {error}", file=sys.stderr)
        return 2
    return 0


def make(options: PrepareOptions) -> None:
    """Write what is missing of the files; raises ConfigError where that cannot be."""
    folder = Path(options.out)
    paths = [folder / f"train-{index:05d}-of-{options.files:05d}" for index in range(options.files)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = set(folder.glob("train-*-of-[0-9][0-9][0-9][0-9][0-9]")) - set(paths)
        if others:
            raise ConfigError(f"{folder} holds other TFRecords ({sorted(others)[0].name}): choose another folder")
        missing = [index for index, path in enumerate(paths) if not path.exists()]
        if missing:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        for done, index in enumerate(missing, 1):
            write_file(paths[index], index, options)
            print(f"{folder}: {done} of {len(missing)} files", flush=True)
    except OSError as error:
        raise ConfigError(f"the TFRecords cannot be written to {folder}: {error}") from error
    if not missing:
        print(f"{folder}: is there already")


def write_file(path: Path, index: int, options: PrepareOptions) -> None:
    """One file of examples."""
    import tensorflow as tf

    part = path.with_suffix(f".{os.getpid()}.part")
    per_file = options.images // options.files
    with tf.io.TFRecordWriter(str(part)) as writer:
        for number in range(index * per_file, (index + 1) * per_file):
            label = number % NUM_CLASSES
            height, width = SIZES[number % len(SIZES)]
            encoded = tf.io.encode_jpeg(picture(label, height, width, (options.seed, number)), quality=QUALITY).numpy()
            writer.write(example(encoded, label + 1).SerializeToString())
    part.replace(path)


def example(encoded: bytes, label: int) -> Any:
    """As in the usual ImageNet TFRecords: the JPEG, and a label from 1 to 1000."""
    import tensorflow as tf

    return tf.train.Example(
        features=tf.train.Features(
            feature={
                "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[encoded])),
                "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
        )
    )


def picture(label: int, height: int, width: int, seed: Sequence[int]) -> Any:
    """A picture of shape [height, width, 3] in uint8: waves and a colour of the class, and some noise."""
    import numpy as np

    of_class, chance = np.random.default_rng(label), np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32) / 100
    values = np.zeros((height, width, 3), np.float32)
    for _ in range(3):
        (across, down), phase = of_class.uniform(-9, 9, 2), chance.uniform(0, 6.3)
        values += np.sin(across * x + down * y + phase)[:, :, None] * of_class.uniform(10, 40, 3)
    values += of_class.uniform(80, 170, 3) + chance.normal(0, 12, values.shape)
    return np.clip(values, 0, 255).astype(np.uint8)


if __name__ == "__main__":
    sys.exit(main())
