"""Run copies of a program at once on this node, each in a folder and on devices of its own.

Copy N has the folder copy_N, with its output in job.out and job.err; the first copy writes its output to that of this
program. If one fails, this program ends the others, writes the number and exit code of the copy into copies/failed, and
exits with that code.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from benchmarks.common.launch import (
    COPIES_VARIABLE,
    COPY_VARIABLE,
    CORES_VARIABLE,
    FAILED_COPY,
    FOLDER_VARIABLE,
    usable_cores,
)
from benchmarks.common.options import ConfigError, Parser
from benchmarks.common.spawn import run_all
from jpwr.backends.visible import narrowed

SHARED = "copies"  # folder
VENDORS = ("nvidia", "amd")  # with variables that show a process only some devices


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code of the copy that failed first, or 0."""
    parser = Parser(prog="python -m benchmarks.common.node.copies", description=__doc__)
    parser.add_argument("--copies", type=int, required=True, metavar="N", help="copies on all nodes")
    parser.add_argument("--on-node", type=int, required=True, metavar="N", help="copies on this node")
    parser.add_argument("--first", type=int, default=1, metavar="N", help="number of the first copy on this node")
    parser.add_argument("--devices", type=int, required=True, metavar="N", help="devices of a copy on this node")
    parser.add_argument("--vendor", default="none", help="of the devices")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    try:
        options = parser.parse_args(argv)
        shared, cores = Path.cwd() / SHARED, max(1, usable_cores() // options.on_node)
        environs = [
            {
                COPIES_VARIABLE: str(options.copies),
                COPY_VARIABLE: str(options.first + index),
                FOLDER_VARIABLE: str(shared),
                CORES_VARIABLE: str(cores),
                **devices_of_copy(options.vendor, options.devices, index),
            }
            for index in range(options.on_node)
        ]
    except ConfigError as error:
        print(f"copies: error: {error}", file=sys.stderr)
        return 2
    shared.mkdir(exist_ok=True)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    ended = run_all(partial(_start, command, environ) for environ in environs)
    if ended is None:
        return 0
    if not ended.was_asked:
        copy, code = options.first + ended.number, ended.exit_code
        print(f"copies: error: copy {copy} ended with exit code {code}; the others were ended", file=sys.stderr)
        with suppress(FileExistsError), (shared / FAILED_COPY).open("x") as file:
            file.write(f"{copy} {code}\n")
    return ended.exit_code


def devices_of_copy(vendor: str, devices: int, index: int, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that show a copy its devices: its part of those that this process may use.

    `index` counts the copies of this node from 0. Raises ConfigError if there are too few devices.
    """
    if vendor not in VENDORS:
        return {}
    try:
        return narrowed(environ, index * devices, devices)
    except ValueError as error:
        raise ConfigError(
            f"copy {index + 1} of this node needs {devices} devices, but {error}: ask for all devices of the node"
        ) from error


def _start(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a copy in its folder; the output of nodes that share a copy is appended."""
    folder = Path(f"copy_{environ[COPY_VARIABLE]}")
    folder.mkdir(exist_ok=True)
    is_first = environ[COPY_VARIABLE] == "1"
    with (folder / "job.out").open("ab") as out, (folder / "job.err").open("ab") as errors:
        return subprocess.Popen(
            command, cwd=folder, env={**os.environ, **environ}, stdout=None if is_first else out, stderr=errors
        )


if __name__ == "__main__":
    sys.exit(main())
