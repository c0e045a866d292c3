"""Start several processes of one module on this node, with torchrun's flags, where there is no torch.

Each gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT. When one fails, the others are
ended, and its exit code is the launcher's.
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
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.options import ConfigError, Parser

POLL_S = 0.1
GRACE_S = 10.0  # to write a record, between being told to end and being killed
OWN_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
FIRST_PORT, END_PORT = 10000, 20000  # from there on, jobs of several nodes have theirs
LAST_PORT, ENOUGH_PORTS = 65535, 1000
MOST_TRIES = 1000
HELD = ExitStack()  # names, for as long as this process lasts
atexit.register(HELD.close)


@dataclass(frozen=True)
class Place:
    """This node among those that train together."""

    processes: int
    nodes: int
    node_rank: int
    master_addr: str
    master_port: int

    def environ(self, local_rank: int) -> dict[str, str]:
        """Return the environment variables of a rank."""
        return {
            "RANK": str(self.node_rank * self.processes + local_rank),
            "WORLD_SIZE": str(self.nodes * self.processes),
            "LOCAL_RANK": str(local_rank),
            "LOCAL_WORLD_SIZE": str(self.processes),
            "MASTER_ADDR": self.master_addr,
            "MASTER_PORT": str(self.master_port),
        }


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    parser = Parser(prog="python -m benchmarks.common.spawn", description=__doc__)
    parser.add_argument("--nproc-per-node", type=int, required=True, metavar="N", help="processes on this node")
    parser.add_argument("--standalone", action="store_true", help="one node, at a port that is free; the default")
    parser.add_argument("--local-addr", metavar="ADDRESS", help="torchrun's; here the ranks of one node need none")
    parser.add_argument("--nnodes", type=int, default=1, metavar="N", help="nodes that train together")
    parser.add_argument("--node-rank", type=int, default=0, metavar="N", help="this one among them, from 0")
    parser.add_argument("--master-addr", default="localhost", metavar="HOST", help="the first of them")
    parser.add_argument("--master-port", type=int, metavar="PORT", help="of its first rank; the others count on")
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
    place = Place(options.nproc_per_node, options.nnodes, options.node_rank, options.master_addr, port)
    return spawn(place, options.command)


def spawn(place: Place, command: Sequence[str]) -> int:
    """Run `python -m` with the command in each rank; returns 0, or the exit code of the first that failed."""
    asked: list[int] = []  # signals that are still to be passed on: one can come before the last rank is there
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda caught, frame: asked.append(caught))
    ranks = [
        subprocess.Popen([sys.executable, "-m", *command], env={**os.environ, **place.environ(local_rank)})
        for local_rank in range(place.processes)
    ]
    while True:
        while asked:
            caught = asked.pop()
            for rank in ranks:
                rank.send_signal(caught)
        codes = [rank.poll() for rank in ranks]
        failed = [(index, code) for index, code in enumerate(codes) if code]
        if failed:
            _end_all(ranks)
            index, code = failed[0]
            print(
                f"spawn: error: rank {place.environ(index)['RANK']} ended with exit code {code}; the others were ended",
                file=sys.stderr,
            )
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
    """The first of `count` ports in a row that nothing listens on, and that this process holds against others of ours.

    They are bound half a minute later, when a framework has been loaded: until then the kernel may give away any port
    of its own range, to whoever connects to something. Raises ConfigError where there are none.
    """
    ports = _given_to_nobody()
    firsts = list(range(ports.start, ports.stop - count + 1))
    random.SystemRandom().shuffle(firsts)
    for first in firsts[:MOST_TRIES]:
        held: list[socket.socket] = []
        if all(_is_free(port) and _hold(port, held) for port in range(first, first + count)):
            for one in held:
                HELD.enter_context(one)
            return first
        for one in held:
            one.close()
    raise ConfigError(f"no {count} free ports in a row were found on this machine")


def _given_to_nobody(own_range: Path = OWN_RANGE) -> range:
    """Ports that the kernel gives to nobody who does not ask for them, as far as there are enough."""
    try:
        low, high = map(int, own_range.read_text().split())
    except (OSError, ValueError):
        low, high = 32768, 60999  # Linux' own
    below, above = range(FIRST_PORT, min(low, END_PORT)), range(high + 1, LAST_PORT + 1)
    return next((ports for ports in (below, above) if len(ports) >= ENOUGH_PORTS), range(FIRST_PORT, END_PORT))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what has just ended is in nobody's way
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def _hold(port: int, held: list[socket.socket]) -> bool:
    """Hold a name that one process alone can have, as long as it lasts, of a network of its own; no file is left."""
    if not sys.platform.startswith("linux"):  # which has such names
        return True
    name = socket.socket(socket.AF_UNIX)
    held.append(name)
    try:
        name.bind(f"\0caraml port {port}")
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
