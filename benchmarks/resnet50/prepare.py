"""Write TFRecords: of ImageNet, or of made pictures that stand in for it.

A file is written under another name, read back, and renamed when it is whole; files that are there stay, so that what
was interrupted goes on where it was.
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from benchmarks.common.launch import usable_cores
from benchmarks.common.options import ConfigError, option, positive, run_command
from benchmarks.resnet50.config import NUM_CLASSES
from benchmarks.resnet50.imagenet import Picture, class_labels, find_pictures

USUAL_FILES = {"train": 1024, "validation": 128}
PLAN, LOCK, CLASSES, LEFT_OUT = "{split}.json", ".lock", "classes.txt", "{split}.left_out.txt"


@dataclass(frozen=True)
class PrepareOptions:
    """Data to write."""

    out: str = option("", "folder for the TFRecords")
    imagenet: str = option(
        "", "ImageNet to convert: ILSVRC2012_img_train.tar, or a folder with a folder or tar file for each class"
    )
    split: str = option("train", "which part of ImageNet this is", tuple(USUAL_FILES))
    images: int = option(256, "number of made pictures, without --imagenet")
    classes: int = option(NUM_CLASSES, "number of classes of the made pictures")
    files: int | None = option(None, "number of files; default: 1024 or 128 of ImageNet, 4 of made pictures")
    jobs: int | None = option(None, "processes; default: one for each usable core")
    seed: int = option(1234, "seed of the order, and of made pictures")

    def __post_init__(self) -> None:
        positive(self, "images", "classes", "files", "jobs")
        if not self.out:
            raise ConfigError("--out FOLDER is needed: where the TFRecords go, such as data/fake-imagenet")
        if self.classes > NUM_CLASSES:
            raise ConfigError(f"classes must be at most {NUM_CLASSES}, got {self.classes}")


class Source(Protocol):
    """A picture that can be read."""

    def read(self) -> bytes:
        """Its bytes, encoded."""


class Example(NamedTuple):
    """A picture and its label, from 1."""

    picture: Source
    label: int


class Written(NamedTuple):
    """What became of one file."""

    path: Path
    records: int
    left_out: list[str]  # pictures that are none


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    try:
        return run_command(
            PrepareOptions,
            "python -m benchmarks.resnet50.prepare",
            "Write TFRecords for training: of ImageNet, or of made pictures that stand in for it.",
            prepare,
            argv,
        )
    except KeyboardInterrupt:
        print("prepare: interrupted; the same command goes on from here", file=sys.stderr)
        return 130


def prepare(options: PrepareOptions) -> None:
    """Write what is missing of the files; raises ConfigError where that cannot be."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    folder = Path(options.out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ConfigError(f"another prepare is at work in {folder}: let it end first") from error
            _write_missing(folder, options)
    except OSError as error:
        raise ConfigError(f"the TFRecords cannot be written to {folder}: {error}") from error


def _write_missing(folder: Path, options: PrepareOptions) -> None:
    count = options.files or (USUAL_FILES[options.split] if options.imagenet else 4)
    paths = [folder / f"{options.split}-{index:05d}-of-{count:05d}" for index in range(count)]
    _check_plan(folder, options, count)
    missing = [index for index, path in enumerate(paths) if not path.exists()]
    if not missing:
        print(f"{folder}: is there already")
        return
    examples = list_examples(options, folder)
    if len(examples) < count:
        raise ConfigError(f"{len(examples)} pictures do not fill {count} files: ask for fewer with --files")
    jobs = min(options.jobs or usable_cores(), len(missing))
    records, left_out = 0, []
    with _progress(len(missing), folder) as advance:
        for written in _write_all([(paths[index], examples[index::count]) for index in missing], jobs):
            records += written.records
            left_out += written.left_out
            advance()
    if left_out:
        with (folder / LEFT_OUT.format(split=options.split)).open("a") as file:
            file.writelines(f"{line}\n" for line in left_out)
        print(f"prepare: {len(left_out)} files are no pictures and were left out: {file.name}", file=sys.stderr)
    print(f"{folder}: {len(missing)} files with {records} pictures")


def _check_plan(folder: Path, options: PrepareOptions, count: int) -> None:
    """Files of two plans in one folder would be a mixture that nobody can reproduce."""
    plan = {key: value for key, value in asdict(options).items() if key not in ("out", "jobs")} | {"files": count}
    if options.imagenet:
        plan = {key: plan[key] for key in ("imagenet", "split", "files", "seed")}
    path = folder / PLAN.format(split=options.split)
    if path.exists():
        found = json.loads(path.read_text())
        changed = [key for key in sorted({*plan, *found}) if plan.get(key) != found.get(key)]
        if changed:
            key = changed[0]
            raise ConfigError(
                f"{folder} was begun with {key} {found.get(key)} and not {plan.get(key)}: choose another folder, or "
                "remove it"
            )
    elif any(folder.glob(f"{options.split}-*-of-*")):
        raise ConfigError(f"{folder} holds TFRecords of unknown origin: choose another folder")
    path.write_text(json.dumps(plan, indent=1) + "\n")


def list_examples(options: PrepareOptions, folder: Path) -> list[Example]:
    """All pictures in the order in which they are shared out."""
    if options.imagenet:
        print(f"{options.imagenet}: looking for pictures", flush=True)
        pictures: list[Picture] = find_pictures(Path(options.imagenet))
        labels = class_labels(pictures)
        print(f"{options.imagenet}: {len(pictures)} pictures of {len(labels)} classes", flush=True)
        (folder / CLASSES).write_text("".join(f"{name}\n" for name in labels))
        examples = [Example(picture, labels[picture.class_name]) for picture in pictures]
    else:
        from benchmarks.resnet50.pictures import made_pictures

        made = made_pictures(options.images, options.classes, options.seed)
        examples = [Example(picture, picture.label) for picture in made]
    random.Random(options.seed).shuffle(examples)
    return examples


def _write_all(tasks: Sequence[tuple[Path, list[Example]]], jobs: int) -> Iterator[Written]:
    if jobs == 1:
        yield from (write_file(*task) for task in tasks)
        return
    # TensorFlow does not survive a fork.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        running = [pool.submit(write_file, *task) for task in tasks]
        try:
            for one in as_completed(running):
                yield one.result()
        except BrokenProcessPool as error:
            raise OSError("a process was killed, perhaps for its memory: try fewer --jobs") from error
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _progress(total: int, folder: Path) -> Iterator[Callable[[], None]]:
    """A bar on a terminal, nothing elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("files"))
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(str(folder), total=total)
        yield lambda: bar.advance(task)


def write_file(path: Path, examples: list[Example]) -> Written:
    """One file, which is read back before it has its name; raises OSError when it cannot be written."""
    import tensorflow as tf

    part = path.with_suffix(".part")
    records, left_out = 0, []
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
        raise OSError(f"{part} has {found} records and not {records}")
    part.replace(path)
    return Written(path, records, left_out)


def as_jpeg(encoded: bytes) -> bytes | None:
    """The picture as a JPEG that the input path can decode: ImageNet also has a PNG; None where it is no picture."""
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
    """A record as in the usual TFRecords of ImageNet: the JPEG, and a label from 1 to 1000."""
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


if __name__ == "__main__":
    sys.exit(main())
