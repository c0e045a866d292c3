"""Find ImageNet's images: in TFRecords, or in folders or tar files as they are distributed.

A tar file is not unpacked: an image is read from its offset.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.common.input_files import find_files
from benchmarks.common.options import ConfigError, DataOptions
from benchmarks.resnet50.config import NUM_CLASSES

TFRECORDS = "train-*-of-[0-9][0-9][0-9][0-9][0-9]"
SUFFIXES = {".jpeg", ".jpg", ".png"}


class Picture(NamedTuple):
    """Image as a range of bytes of a file, with its class."""

    path: str
    offset: int
    size_bytes: int
    class_name: str

    def read(self) -> bytes:
        """Return the encoded image; raises OSError if the file has become shorter."""
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            encoded = file.read(self.size_bytes)
        if len(encoded) < self.size_bytes:
            raise OSError(f"{self.path} has become shorter while it was read")
        return encoded


def find_tfrecords(options: DataOptions) -> list[Path]:
    """Return the files of the training set, none for made data; raises ConfigError if some or all are missing."""
    files = find_files(options, TFRECORDS)
    whole = int(files[0].name.rpartition("-")[2]) if files else 0
    if len(files) != whole:
        raise ConfigError(
            f"--data-dir {files[0].parent} has {len(files)} of {whole} TFRecords: run prepare again, which writes the "
            "rest"
        )
    return files


def find_pictures(source: Path) -> list[Picture]:
    """Return all images of a source, in an order that does not depend on the file system.

    A source is a folder with a folder or a tar file for each class (`n01440764`, `n01440764.tar`), or a tar file of
    either, such as ILSVRC2012_img_train.tar. Raises ConfigError if there are no images.
    """
    try:
        if source.is_dir():
            found = sorted(_in_folder(source))
        else:
            with open(source, "rb"):
                found = sorted(_in_tar(source, 0, ""))
    except (OSError, tarfile.TarError) as error:
        raise ConfigError(
            f"{source} cannot be read as images of ImageNet ({error}): give ILSVRC2012_img_train.tar, or its folder"
        ) from error
    if not found:
        raise ConfigError(
            f"{source} has no images in classes: give ILSVRC2012_img_train.tar, or a folder with a folder or a "
            "tar file for each class, such as n01440764"
        )
    return found


def class_labels(pictures: list[Picture]) -> dict[str, int]:
    """Return labels from 1 by the order of the classes' names, as in the usual TFRecords.

    Raises ConfigError for more classes than the model has.
    """
    names = sorted({picture.class_name for picture in pictures})
    if len(names) > NUM_CLASSES:
        raise ConfigError(f"{len(names)} classes were found, such as {names[0]} and {names[-1]}: at most {NUM_CLASSES}")
    return {name: label for label, name in enumerate(names, 1)}


def _in_folder(folder: Path) -> Iterator[Picture]:
    for entry in folder.iterdir():
        if entry.is_dir():
            for path in entry.iterdir():
                if path.suffix.lower() in SUFFIXES:
                    yield Picture(str(path), 0, path.stat().st_size, entry.name)
        elif entry.suffix == ".tar":
            yield from _in_tar(entry, 0, entry.stem)


def _in_tar(path: Path, start: int, class_name: str) -> Iterator[Picture]:
    """Yield the images of a tar file at an offset of a file: of one class, or of the folders or tar files in it."""
    with open(path, "rb") as file:
        file.seek(start)
        with tarfile.open(fileobj=file, mode="r:") as archive:
            for member in archive:
                name = Path(member.name)
                if not member.isfile():
                    continue
                if name.suffix == ".tar":
                    yield from _in_tar(path, member.offset_data, name.stem)
                elif name.suffix.lower() in SUFFIXES and (class_name or name.parent.name):
                    yield Picture(str(path), member.offset_data, member.size, class_name or name.parent.name)
