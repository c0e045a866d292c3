"""Start several processes of one module on this node, as torchrun does, where there is no torch.

Usage: python -m benchmarks.common.spawn --nproc-per-node N -m MODULE [ARGUMENT ...]
Each gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT. When one fails, the others are
ended, and its exit code is the launcher's.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks.common.options import ConfigError

POLL_S = 0.1
GRACE_S = 10.0  # to write a record, between being told to end and being killed


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    usage = "spawn: usage: python -m benchmarks.common.spawn --nproc-per-node N -m MODULE [ARGUMENT ...]"
    if len(arguments) < 4 or arguments[0] != "--nproc-per-node" or arguments[2] != "-m":
        print(usage, file=sys.stderr)
        return 2
    if not arguments[1].isdigit() or int(arguments[1]) < 1:
        print(f"spawn: --nproc-per-node must be 1 or more, got {arguments[1]}", file=sys.stderr)
        return 2
    return spawn(int(arguments[1]), arguments[3:])


def spawn(processes: int, command: Sequence[str]) -> int:
    """Run `python -m` with the command in that many ranks; returns 0, or the exit code of the first that failed."""
    port = free_ports(processes)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", *command],
            env={
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(processes),
                "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": str(processes),
                "MASTER_ADDR": "localhost",
                "MASTER_PORT": str(port),
            },
        )
        for rank in range(processes)
    ]

    def end(number: int, frame: object) -> None:
        for rank in ranks:
            rank.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    while True:
        codes = [rank.poll() for rank in ranks]
        failed = [(index, code) for index, code in enumerate(codes) if code]
        if failed:
            _end_all(ranks)
            index, code = failed[0]
            print(f"spawn: error: rank {index} ended with exit code {code}; the others were ended", file=sys.stderr)
            return code if code > 0 else 128 - code
        if all(code == 0 for code in codes):
            return 0
        time.sleep(POLL_S)


def _end_all(ranks: Sequence[subprocess.Popen[bytes]]) -> None:
    for rank in ranks:
        rank.terminate()
    deadline_s = time.monotonic() + GRACE_S
    for rank in ranks:
        try:
            rank.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            rank.kill()
            rank.wait()


def free_ports(count: int) -> int:
    """The first of `count` ports in a row that nothing listens on."""
    for _ in range(100):
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            first: int = probe.getsockname()[1]
        if first + count < 65536 and all(_is_free(port) for port in range(first, first + count)):
            return first
    raise ConfigError(f"no {count} free ports in a row were found on this machine")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("localhost", port)) != 0


if __name__ == "__main__":
    sys.exit(main())
