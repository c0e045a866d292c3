"""A folder's files as one line of text, from a pod without shared storage to who reads its log. Standard library alone.

The line is a word, the SHA-256 of what follows, and a compressed archive in base64. A log that was cut does not fit.
"""

from __future__ import annotations

import base64
import hashlib
import io
import lzma
import tarfile
from collections.abc import Collection
from pathlib import Path, PurePosixPath

WORD = "caraml-files"
# By default a node keeps 10 MiB of a pod's log: beyond that, its beginning is lost, and this line is its end.
MOST_BYTES = 8 * 1024 * 1024


class ParcelError(Exception):
    """A line is not a whole parcel, or a folder does not go into one."""


def pack(folder: Path, left_out: Collection[str]) -> str:
    """The line with all files of a folder but those named so or in a folder named so; raises ParcelError where they
    are too many.
    """
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if path.is_file() and not path.is_symlink() and not set(name.parts) & set(left_out):
                tar.add(path, str(name), recursive=False)
    packed = base64.b64encode(lzma.compress(archive.getvalue())).decode()
    if len(packed) > MOST_BYTES:
        raise ParcelError(
            f"the files of the run are {len(packed) / 1e6:.0f} MB when packed, and a pod's log takes "
            f"{MOST_BYTES / 1e6:.0f}: give site.yaml a kubernetes_claim"
        )
    return f"{WORD} {hashlib.sha256(packed.encode()).hexdigest()} {packed}"


def find(log: str) -> str:
    """The parcel's line of a log; raises ParcelError when there is none."""
    lines = [line for line in log.splitlines() if line.startswith(f"{WORD} ")]
    if not lines:
        raise ParcelError("the log of the pod does not end with the files of its runs")
    return lines[-1]


def unpack(line: str, folder: Path) -> None:
    """Write a parcel's files into a folder; raises ParcelError, with nothing written, when it is not whole.

    Only plain files inside of the folder are taken, whatever a line holds.
    """
    _, digest, packed = (*line.split(" "), "", "")[:3]
    if hashlib.sha256(packed.encode()).hexdigest() != digest:
        raise ParcelError("the files at the end of the pod's log are not whole: give site.yaml a kubernetes_claim")
    try:
        archive = lzma.decompress(base64.b64decode(packed))
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            members = tar.getmembers()
            for member in members:
                name = PurePosixPath(member.name)
                if not member.isfile() or name.is_absolute() or ".." in name.parts:
                    raise ParcelError(f"the files of the pod's log hold {member.name!r}, which is no file of a run")
            for member in members:
                target = folder / member.name
                target.parent.mkdir(parents=True, exist_ok=True)
                source = tar.extractfile(member)
                target.write_bytes(source.read() if source else b"")
    except (lzma.LZMAError, tarfile.TarError, ValueError) as error:
        raise ParcelError(f"the files at the end of the pod's log cannot be read: {error}") from error
