"""Write TFRecords of ImageNet, or of generated images in its place, and verify each file by reading it.

Generated images can also be files in a folder for each class, as ImageNet is distributed, which PyTorch reads.
"""

from __future__ import annotations

import io
import os
import random
import sys
from collections.abc import Callable
from dataclasses import MISSING, dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common.options import ConfigError, Group, option, run_command
from benchmarks.common.prepare import write_missing
from benchmarks.resnet50.config import NUM_CLASSES
from benchmarks.resnet50.imagenet import Picture, class_labels, find_pictures
from jpwr.process.whole_file import replaced

USUAL_FILES = {"train": 1024, "validation": 128}
QUALITY = 90
PICTURE_SIZES = ((375, 500), (500, 375), (333, 500), (500, 500))  # heights and widths of most of ImageNet
PLAN, CLASSES, LEFT_OUT = "{split}.json", "classes.txt", "{split}.left_out.txt"


@dataclass(frozen=True)
class PrepareOptions(Group):
    """Data to write."""

    out: str = option(MISSING, "folder for the TFRecords, such as data/fake-imagenet")
    imagenet: str = option(
        "", "ImageNet to convert: ILSVRC2012_img_train.tar, or a folder with a folder or tar file for each class"
    )
    split: str = option("train", "part of ImageNet", tuple(USUAL_FILES))
    folders: bool = option(False, "write generated images as JPEGs in a folder for each class, without TensorFlow")
    images: int = option(256, "number of generated images, without --imagenet")
    classes: int = option(NUM_CLASSES, "number of classes of generated images", below=NUM_CLASSES + 1)
    files: int | None = option(None, "number of files; default: 1024 or 128 of ImageNet, 4 of generated images")
    jobs: int | None = option(None, "processes; default: one for each usable core")
    seed: int = option(1234, "seed of the order, and of generated images", least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.folders and self.imagenet:
            raise ConfigError("--folders is for generated images: PyTorch reads ImageNet's own folders")


class MadePicture(NamedTuple):
    """Generated image, which depends on number and seed alone; those of a class share a pattern."""

    number: int
    classes: int
    seed: int

    @property
    def label(self) -> int:
        """Label from 1, as in the usual TFRecords."""
        return 1 + self.number % self.classes

    def read(self) -> bytes:
        """Return the image as a JPEG."""
        from PIL import Image

        height, width = PICTURE_SIZES[self.number % len(PICTURE_SIZES)]
        values, encoded = draw(self.label, height, width, (self.seed, self.number)), io.BytesIO()
        Image.fromarray(values).save(encoded, "JPEG", quality=QUALITY)
        return encoded.getvalue()


Example = tuple[Picture | MadePicture, int]  # an image and its label, from 1


def prepare(options: PrepareOptions) -> None:
    """Write the missing files; raises ConfigError if images or folder cannot be used."""
    if options.folders:
        write_folders(options)
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    folder = Path(options.out)
    count = options.files or (USUAL_FILES[options.split] if options.imagenet else 4)
    of_made = () if options.imagenet else ("images", "classes")
    plan = {name: getattr(options, name) for name in ("imagenet", "split", "seed", *of_made)} | {"files": count}
    paths = [folder / f"{options.split}-{index:05d}-of-{count:05d}" for index in range(count)]

    @cache
    def examples() -> list[Example]:
        found = list_examples(options, folder)
        if len(found) < count:
            raise ConfigError(f"{len(found)} images do not fill {count} files: give fewer by --files")
        return found

    def task(index: int) -> Callable[[], list[str]]:
        return partial(write_file, paths[index], examples()[index::count])

    plan_file, pattern = folder / PLAN.format(split=options.split), f"{options.split}-*-of-*"
    left_out = list(chain.from_iterable(write_missing(plan_file, plan, pattern, paths, task, options.jobs)))
    if left_out:
        path = folder / LEFT_OUT.format(split=options.split)
        with path.open("a", encoding="utf-8", errors="surrogateescape") as file:
            file.writelines(f"{line}\n" for line in left_out)
        print(f"prepare: {len(left_out)} files are not images and were left out: {file.name}", file=sys.stderr)


def write_folders(options: PrepareOptions) -> None:
    """Write the missing images, each in its own file in the folder of its class."""
    folder, made = Path(options.out), made_pictures(options)
    paths = [folder / f"n{picture.label:08d}" / f"made_{picture.number}.JPEG" for picture in made]
    plan = {"images": options.images, "classes": options.classes, "seed": options.seed}

    def task(index: int) -> Callable[[], None]:
        return partial(write_picture, paths[index], made[index])

    write_missing(folder / "made.json", plan, "n*", paths, task, options.jobs)


def write_picture(path: Path, picture: MadePicture) -> None:
    """Write an image."""
    path.parent.mkdir(exist_ok=True)
    with replaced(path) as part:
        part.write_bytes(picture.read())


def made_pictures(options: PrepareOptions) -> list[MadePicture]:
    """Return the generated images."""
    return [MadePicture(number, options.classes, options.seed) for number in range(options.images)]


def list_examples(options: PrepareOptions, folder: Path) -> list[Example]:
    """Return all images, in the order of the files to write."""
    if options.imagenet:
        print(f"{options.imagenet}: looking for images", flush=True)
        pictures: list[Picture] = find_pictures(Path(options.imagenet))
        labels = class_labels(pictures)
        print(f"{options.imagenet}: {len(pictures)} images of {len(labels)} classes", flush=True)
        names = "".join(f"{name}\n" for name in labels)
        (folder / CLASSES).write_text(names, encoding="utf-8", errors="surrogateescape")
        examples: list[Example] = [(picture, labels[picture.class_name]) for picture in pictures]
    else:
        examples = [(picture, picture.label) for picture in made_pictures(options)]
    random.Random(options.seed).shuffle(examples)
    return examples


def write_file(path: Path, examples: list[Example]) -> list[str]:
    """Write one file and verify it by reading it; return the files that are no images. Raises OSError if that fails."""
    import tensorflow as tf

    records, left_out = 0, []
    with replaced(path) as part:
        try:
            with tf.io.TFRecordWriter(str(part)) as writer:
                for picture, label in examples:
                    encoded = as_jpeg(picture.read())
                    if encoded is None:
                        left_out.append(str(picture))
                        continue
                    writer.write(serialise(encoded, label))
                    records += 1
            found = sum(1 for _ in tf.data.TFRecordDataset(str(part)))  # which checks every record's sum
        except tf.errors.OpError as error:
            raise OSError(error.message) from error
        if found != records:
            raise OSError(f"{part} has {found} records instead of {records}: check the disk")
    return left_out


def as_jpeg(encoded: bytes) -> bytes | None:
    """Return an image as a JPEG for the input path, as ImageNet also has a PNG; None if it is not an image."""
    import tensorflow as tf

    try:
        tf.io.decode_and_crop_jpeg(encoded, (0, 0, 1, 1), channels=3)
        tf.io.decode_jpeg(encoded, channels=3)
        return encoded
    except tf.errors.OpError:
        pass
    try:
        again: bytes = tf.io.encode_jpeg(tf.io.decode_image(encoded, channels=3, expand_animations=False)).numpy()
        return again
    except tf.errors.OpError:
        return None


def serialise(encoded: bytes, label: int) -> bytes:
    """Return a record as in the usual TFRecords of ImageNet: the JPEG, and a label from 1 to 1000."""
    import tensorflow as tf

    example = tf.train.Example(
        features=tf.train.Features(
            feature={
                "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[encoded])),
                "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
        )
    )
    serialised: bytes = example.SerializeToString(deterministic=True)
    return serialised


def draw(label: int, height: int, width: int, seed: tuple[int, int]) -> Any:
    """Return an image of shape [height, width, 3] in uint8: waves and a colour of the class, with noise."""
    import numpy as np

    of_class, chance = np.random.default_rng(label), np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32) / 100
    values = np.zeros((height, width, 3), np.float32)
    for _ in range(3):
        (across, down), phase = of_class.uniform(-9, 9, 2), chance.uniform(0, 6.3)
        values += np.sin(across * x + down * y + phase)[:, :, None] * of_class.uniform(10, 40, 3)
    values += of_class.uniform(80, 170, 3) + chance.normal(0, 12, values.shape)
    return np.clip(values, 0, 255).astype(np.uint8)


main = partial(run_command, PrepareOptions, "python -m benchmarks.resnet50.prepare", __doc__, prepare)

if __name__ == "__main__":
    sys.exit(main())
