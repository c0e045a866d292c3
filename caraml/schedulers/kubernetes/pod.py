"""Make the runs of a point, one after the other, in one pod. Uses the standard library alone, as in any image.

The first run is in the current folder, and each further one in its own, run_2 and so on. A run's output is in `job.out`
and `job.err` next to its record, and in the pod's log; its exit code is in `exit_code.NODE`. When all pods have ended,
results are made from these files.

Without shared storage, the files return as one line at the end of the pod's log, the parcel: a word, the SHA-256 of the
rest, and a compressed archive in base64. The SHA-256 detects a log that was cut.

python -m caraml.schedulers.kubernetes.pod [--runs N] [--prepare COMMAND] [--parcel]
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import lzma
import os
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO

EXIT_CODE = "exit_code."  # and the number of the node
NOT_PACKED = ("result.json", "job.sh", "node.sh", "kubernetes")  # exist where the job was submitted
FIRST_PORT = 29500
NAME_LIMIT_S = 600.0  # until the first pod's name resolves
OUTPUT_LIMIT_S = 10.0  # for processes that outlive a run and keep its output open
POLL_S = 1.0
WORD = "caraml-files"
# By default a node keeps the last 10 MiB of a pod's log; the parcel must fit with the output before it.
MOST_BYTES = 8 * 1024 * 1024


def folders(point: Path, runs: int) -> list[Path]:
    """Return the folders of the runs of a point."""
    return [point, *(point / f"run_{number}" for number in range(2, runs + 1))]


def output_names(node: int) -> tuple[str, str]:
    """Return the names of the output and error files of one node's part of a run."""
    return ("job.out", "job.err") if node == 0 else (f"job.{node}.out", f"job.{node}.err")


class Signals:
    """Runs commands, and forwards signals that end the pod to them, so that a run writes its results so far."""

    def __init__(self) -> None:
        self.caught = 0
        self.child: subprocess.Popen[bytes] | None = None
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._catch)

    def _catch(self, number: int, frame: object) -> None:
        self.caught = number
        if self.child is not None:
            self.child.send_signal(number)

    def run(self, command: Sequence[str], folder: Path, node: int, environ: Mapping[str, str]) -> int:
        """Run a command in a folder and return its exit code, 128 + N for signal N.

        Its output is copied to files and to our own output.
        """
        folder.mkdir(parents=True, exist_ok=True)
        child = subprocess.Popen(
            command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        self.child = child
        if self.caught:
            child.send_signal(self.caught)
        out_name, err_name = output_names(node)
        copies = [
            threading.Thread(target=_copy, args=(source, folder / name, target), daemon=True)
            for source, name, target in (
                (child.stdout, out_name, sys.stdout.buffer),
                (child.stderr, err_name, sys.stderr.buffer),
            )
        ]
        for copy in copies:
            copy.start()
        code = child.wait()
        for copy in copies:
            copy.join(OUTPUT_LIMIT_S)
        self.child = None
        return code if code >= 0 else 128 - code


def _copy(source: BinaryIO, file: Path, target: BinaryIO) -> None:
    with file.open("ab") as kept:
        while block := source.read1(65536):  # type: ignore[attr-defined]  # of a buffered stream
            for stream in (kept, target):
                stream.write(block)
                stream.flush()


class ParcelError(Exception):
    """A line is not a complete parcel, or a folder is too large for one."""


def pack(folder: Path, left_out: Collection[str]) -> str:
    """Return the line with all files of a folder, except those with a left-out name in their path.

    Raises ParcelError if they are too large.
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


def parcel_of(log: str) -> str:
    """Return the line of a log that is the parcel; raises ParcelError without one."""
    lines = [line for line in log.splitlines() if line.startswith(f"{WORD} ")]
    if not lines:
        raise ParcelError("the log of the pod does not end with the files of its runs")
    return lines[-1]


def unpack(line: str, folder: Path) -> None:
    """Write a parcel's files into a folder; raises ParcelError, with nothing written, if it is incomplete.

    A file outside of the folder, or a member that is not a plain file, is refused.
    """
    _, digest, packed = (*line.split(" "), "", "")[:3]
    if hashlib.sha256(packed.encode()).hexdigest() != digest:
        raise ParcelError("the files at the end of the pod's log are incomplete: give site.yaml a kubernetes_claim")
    try:
        archive = lzma.decompress(base64.b64decode(packed))
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            members = tar.getmembers()
            for member in members:
                name = PurePosixPath(member.name)
                if not member.isfile() or name.is_absolute() or ".." in name.parts:
                    raise ParcelError(
                        f"the files of the pod's log contain {member.name!r}, which is not a file of a run"
                    )
            for member in members:
                target = folder / member.name
                target.parent.mkdir(parents=True, exist_ok=True)
                source = tar.extractfile(member)
                target.write_bytes(source.read() if source else b"")
    except (lzma.LZMAError, tarfile.TarError, ValueError) as error:
        raise ParcelError(f"the files at the end of the pod's log cannot be read: {error}") from error


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code of the first failed run."""
    parser = argparse.ArgumentParser(prog="python -m caraml.schedulers.kubernetes.pod", description=__doc__)
    parser.add_argument("--runs", type=int, default=1, metavar="N")
    parser.add_argument("--prepare", default="", metavar="COMMAND", help="makes the data first")
    parser.add_argument("--parcel", action="store_true", help="print all files at the end, as one line")
    options = parser.parse_args(argv)
    point, node = Path.cwd(), int(os.environ.get("JOB_COMPLETION_INDEX", "0"))
    if (point / f"{EXIT_CODE}{node}").exists():
        print(f"pod: error: {point} has a run already: submit the point again", file=sys.stderr)
        return 1
    code = _runs(point, node, folders(point, options.runs), options.prepare)
    if options.parcel:
        try:
            line = pack(point, NOT_PACKED)
        except ParcelError as error:
            print(f"pod: error: {error}", file=sys.stderr)
            return code or 1
        print(f"\n{line}", flush=True)
    return code


def _runs(point: Path, node: int, runs: Sequence[Path], prepare: str) -> int:
    signals = Signals()
    first_code = signals.run(["bash", "-c", prepare], point, node, os.environ) if prepare else 0
    if first_code or not _finds_first_pod():
        first_code = first_code or 1
        (point / f"{EXIT_CODE}{node}").write_text(f"{first_code}\n")
        return first_code
    for number, folder in enumerate(runs):
        environ = {**os.environ, "MASTER_PORT": str(FIRST_PORT + number)}
        code = signals.run(["bash", str(point / "node.sh")], folder, node, environ)
        (folder / f"{EXIT_CODE}{node}").write_text(f"{code}\n")
        first_code = first_code or code
        # The other nodes would wait for this one: end the pod, so that Kubernetes ends theirs.
        if signals.caught or (code and "MASTER_ADDR" in os.environ):
            break
    return first_code


def _finds_first_pod() -> bool:
    """Wait until the name of the first pod resolves, which takes a moment after its start."""
    name = os.environ.get("MASTER_ADDR")
    deadline_s = time.monotonic() + NAME_LIMIT_S
    while name:
        try:
            socket.getaddrinfo(name, None)
        except OSError as error:
            if time.monotonic() > deadline_s:
                print(f"pod: error: no address of {name} within {NAME_LIMIT_S:.0f} s: {error}", file=sys.stderr)
                return False
            time.sleep(POLL_S)
        else:
            return True
    return True


if __name__ == "__main__":
    sys.exit(main())
