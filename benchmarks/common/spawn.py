"""Start several processes of one module on this node, with torchrun's flags, without needing torch.

Each gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT. If one fails, the launcher ends
the others and exits with its exit code.
"""

from __future__ import annotations

import argparse
import atexit
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from benchmarks.common.options import ConfigError, Parser

POLL_S = 0.1
GRACE_S = 10.0  # from SIGTERM to SIGKILL, to write a record
# Below those that Linux assigns to outgoing connections, and those of jobs of several nodes.
PORTS = range(10000, 20000)
MOST_TRIES = 1000
RESERVED = ExitStack()  # sockets that reserve ports until this process ends
atexit.register(RESERVED.close)


def environs(
    processes: int, port: int, address: str = "localhost", nodes: int = 1, node_rank: int = 0
) -> list[dict[str, str]]:
    """Return the environment variables of each process of a node among those that train together."""
    whole = {
        "WORLD_SIZE": nodes * processes,
        "LOCAL_WORLD_SIZE": processes,
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
    }
    ranks = ({"RANK": node_rank * processes + local_rank, "LOCAL_RANK": local_rank} for local_rank in range(processes))
    return [{name: str(value) for name, value in (whole | rank).items()} for rank in ranks]


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; return 0, or the exit code of the first failed rank."""
    parser = Parser(prog="python -m benchmarks.common.spawn", description=__doc__)
    parser.add_argument("--nproc-per-node", type=int, required=True, metavar="N", help="processes on this node")
    parser.add_argument("--standalone", action="store_true", help="one node, at a free port; the default")
    parser.add_argument("--local-addr", metavar="ADDRESS", help="accepted as torchrun does, and not used")
    parser.add_argument("--nnodes", type=int, default=1, metavar="N", help="nodes that train together")
    parser.add_argument("--node-rank", type=int, default=0, metavar="N", help="rank of this node, from 0")
    parser.add_argument("--master-addr", default="localhost", metavar="HOST", help="the first node")
    parser.add_argument(
        "--master-port", type=int, metavar="PORT", help="of the first rank; each further rank uses the next one"
    )
    parser.add_argument("-m", nargs=argparse.REMAINDER, required=True, dest="command", metavar="MODULE ARGUMENT")
    try:
        options = parser.parse_args(argv)
        if min(options.nproc_per_node, options.nnodes) < 1:
            raise ConfigError("--nproc-per-node and --nnodes must be 1 or more")
        if options.nnodes > 1 and not options.master_port:
            raise ConfigError("--nnodes above 1 needs --master-addr and --master-port, the same on each node")
        if not options.command:
            raise ConfigError("-m needs a module to start")
    except ConfigError as error:
        print(f"spawn: {error}", file=sys.stderr)
        return 2
    port = options.master_port or free_ports(options.nproc_per_node)
    told = environs(options.nproc_per_node, port, options.master_addr, options.nnodes, options.node_rank)

    def start(environ: dict[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-m", *options.command], env={**os.environ, **environ})

    ended = run_all(partial(start, environ) for environ in told)
    if ended is None:
        return 0
    print(
        # results.join.causes reads this line.
        f"spawn: error: rank {told[ended.number]['RANK']} ended with exit code {ended.code}; the others were ended",
        file=sys.stderr,
    )
    return ended.exit_code


class Ended(NamedTuple):
    """The process that failed first."""

    number: int  # from 0, in the order of their starts
    code: int  # negative: ended by this signal
    was_asked: bool  # whether this program got a signal before

    @property
    def exit_code(self) -> int:
        """Exit code as a shell has it: 128 + N for signal N."""
        return self.code if self.code > 0 else 128 - self.code


def run_all(starts: Iterable[Callable[[], subprocess.Popen[bytes]]]) -> Ended | None:
    """Start processes and wait for their end; at the first failure, end the others and return it.

    Signals that end this program are forwarded to all of them.
    """
    pending: list[int] = []  # as one can arrive before the last process is started
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda caught, frame: pending.append(caught))
    started, was_asked = [start() for start in starts], False
    while True:
        while pending:
            caught, was_asked = pending.pop(), True
            for one in started:
                one.send_signal(caught)
        codes = [one.poll() for one in started]
        failed = [(index, code) for index, code in enumerate(codes) if code]
        if failed:
            _end_all(started)
            return Ended(*failed[0], was_asked)
        if all(code == 0 for code in codes):
            return None
        time.sleep(POLL_S)


def _end_all(started: Sequence[subprocess.Popen[bytes]]) -> None:
    for one in started:
        one.terminate()
    deadline_s = time.monotonic() + GRACE_S
    for one in started:
        try:
            one.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()


def free_ports(count: int) -> int:
    """Return the first of `count` consecutive free ports, and reserve them against other processes of this program.

    The ports are bound half a minute later, when the framework has been loaded. Raises ConfigError if there are none.
    """
    firsts = range(PORTS.start, PORTS.stop - count + 1)
    for first in random.SystemRandom().sample(firsts, min(MOST_TRIES, len(firsts))):
        with ExitStack() as reserved:
            if all(_is_free(port) and _reserve(port, reserved) for port in range(first, first + count)):
                RESERVED.push(reserved.pop_all())
                return first
    raise ConfigError(f"no {count} consecutive free ports were found on this machine: give --master-port")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a connection that has just ended does not matter
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def _reserve(port: int, reserved: ExitStack) -> bool:
    """Reserve a port by an abstract socket name, which only one process can bind and which leaves no file."""
    if not sys.platform.startswith("linux"):  # only Linux has abstract names
        return True
    try:
        reserved.enter_context(socket.socket(socket.AF_UNIX)).bind(f"\0caraml port {port}")
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
