"""Container images: write their definitions from one table, and build or pull them into the container folder.

One process at a time builds an image, under another name until it is complete.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from caraml.errors import SiteError
from caraml.installation import IMAGES, checkout
from jpwr.messages import near
from results.files.typed_files import Text, read_file

FORMATS = ("apptainer", "containerfile")
ENDINGS = {"apptainer": ".sif", "podman": ".tar", "charliecloud": ".dir"}
MOVING_TAGS = ("", "latest", "nightly", "main", "dev")
PROGRAMS = {"apptainer": ("apptainer",), "podman": ("podman",), "charliecloud": ("ch-image", "ch-convert")}


@dataclass(frozen=True)
class Image:
    """One image of the table."""

    ADDED = ("name",)
    name: str
    base: Annotated[Text, "base image"]
    arch: Annotated[Text, "as `uname -m` prints it"]
    digest: Annotated[str, "of the base, sha256:...; empty: not known, which the record shows"] = ""
    packages: Annotated[Mapping[str, str], "versions in the base that decide what is run"] = field(default_factory=dict)
    pip: Annotated[tuple[str, ...], "packages added to the base"] = ()
    without_dependencies: Annotated[tuple[str, ...], "packages whose dependencies replace the vendor's builds"] = ()
    environment: Annotated[Mapping[str, str], "set in the image"] = field(default_factory=dict)
    state: Annotated[str, "what has been tested"] = ""

    @property
    def source(self) -> str:
        """Name of the base image, with its digest if that is known."""
        return f"{self.base.rpartition(':')[0]}@{self.digest}" if self.digest else self.base

    @property
    def commands(self) -> list[str]:
        """Return the commands that turn the base image into this image."""
        found = []
        for flags, packages in (("", self.pip), (" --no-deps", self.without_dependencies)):
            if quoted := " ".join(f"'{package}'" for package in packages):
                found.append(f"python3 -m pip install --no-cache-dir{flags} {quoted}")
        return found


def read_images(file: Path | None = None) -> dict[str, Image]:
    """Return the images of the table by name; raises RecordError for a wrong table, and SiteError for a moving tag."""
    images: dict[str, Image] = read_file(Mapping[str, Image], file or checkout() / IMAGES, "images")
    for image in images.values():
        if image.base.rpartition("/")[2].partition(":")[2] in MOVING_TAGS and not image.digest:
            raise SiteError(f"image {image.name} starts from {image.base}, which moves: state a version or a digest")
    return images


def read_image(name: str, file: Path | None = None) -> Image:
    """Return an image of the table; raises SiteError for an unknown name."""
    images = read_images(file)
    if name not in images:
        raise SiteError(f"there is no image {name}: {near(name, images)}")
    return images[name]


def definition(image: Image, form: str) -> str:
    """Return the image as a definition file of Apptainer, or as a Containerfile."""
    if form == "apptainer":
        exports = [f"    export {name}='{value}'" for name, value in image.environment.items()]
        lines = ["Bootstrap: docker", f"From: {image.source}", "", "%environment", *exports]
        lines += ["", "%post", *exports, *(f"    {command}" for command in image.commands)]
        lines += ["", "%labels", f"    caraml.image {image.name}", f"    caraml.base {image.source}"]
    else:
        lines = [f"FROM {image.source}", *(f'ENV {name}="{value}"' for name, value in image.environment.items())]
        lines += [f"RUN {command}" for command in image.commands]
        lines += [f'LABEL caraml.image="{image.name}" caraml.base="{image.source}"']
    return "\n".join(lines) + "\n"


def image_path(folder: Path, name: str, runtime: str) -> Path:
    """Return the path of an image, as containers/run.sh expects it."""
    return folder / f"{name}{ENDINGS[runtime]}"


def make_image(image: Image, runtime: str, folder: Path) -> Path:
    """Build or pull an image unless it exists, and return its path.

    Raises SiteError with the last line of the failed program, or if the machine cannot build the image.
    """
    path = image_path(folder, image.name, runtime)
    for program in PROGRAMS[runtime]:
        if shutil.which(program) is None:
            raise SiteError(f"there is no {program} on this machine: load or install it, or choose another --runtime")
    if image.arch != platform.machine():
        raise SiteError(f"image {image.name} is for {image.arch}, this machine is {platform.machine()}: build it there")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{image.name}.{runtime}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SiteError(f"image {image.name} is being built by another process: wait until that ends") from error
        if path.exists():
            return path
        part = path.with_name(f".{path.name}.part")
        shutil.rmtree(part, ignore_errors=True)  # a folder
        part.unlink(missing_ok=True)  # a file
        with tempfile.TemporaryDirectory() as work:
            _build(image, runtime, part, Path(work))
        (folder / f"{image.name}.{runtime}.digest").write_text(_digest(part) + "\n")
        part.replace(path)
    return path


def _build(image: Image, runtime: str, part: Path, work: Path) -> None:
    tag = f"caraml/{image.name}"
    if runtime == "apptainer":
        (work / "image.def").write_text(definition(image, "apptainer"), encoding="utf-8")
        _run("apptainer", "build", str(part), str(work / "image.def"))
        return
    (work / "Containerfile").write_text(definition(image, "containerfile"), encoding="utf-8")
    recipe = ("--file", str(work / "Containerfile"), str(work))
    if runtime == "podman":
        _run("podman", "build", "--tag", tag, *recipe)
        _run("podman", "save", "--format", "oci-archive", "--output", str(part), tag)
    else:
        _run("ch-image", "build", "--force", "--tag", tag, *recipe)
        _run("ch-convert", "--in-fmt", "ch-image", "--out-fmt", "dir", tag, str(part))


def _run(*command: str) -> None:
    # The system's programs need the system's Python, not that of an environment.
    environ = {**os.environ, "PATH": f"/usr/bin:{os.environ['PATH']}"}
    done = subprocess.run(command, stderr=subprocess.PIPE, encoding="utf-8", errors="replace", env=environ)
    if done.returncode:
        words = done.stderr.strip().splitlines() or ["it printed nothing"]
        raise SiteError(f"'{' '.join(command[:2])}' failed: {words[-1]}")


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and contents of all files of a folder."""
    total = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_symlink() or not file.is_file():
            continue
        if path.is_dir():
            total.update(str(file.relative_to(path)).encode() + b"\0")
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                total.update(block)
    return f"sha256:{total.hexdigest()}"
