"""Rules on the times of checkpoints."""

from __future__ import annotations

from record.arithmetic import product, ratio
from record.checks.run import Sentences, exceeds, rising
from record.model import Record

WRITE_TOLERANCE = 0.01  # relative, between the times of writes and their windows
SLOWEST_TO_READ = 3.0  # times the first rank of a node, which reads as many bytes
WORDS = {"checkpoint": "write", "restore": "restore"}  # in names of metrics, by kind of window


def _slack(run: Record, kind: str) -> float:
    """Return how many times its windows the slowest ranks may take: these are of a node's first rank.

    Ranks wait for each other to have written, and not to have read.
    """
    is_of_all = kind == "checkpoint" or run.layout.num_devices == run.layout.num_nodes
    return 1 + WRITE_TOLERANCE if is_of_all else SLOWEST_TO_READ


def _times_are_those_of_the_windows(run: Record) -> Sentences:
    number = run.metrics.number
    rounds = number("checkpoint_rounds")
    for kind, word in WORDS.items() if rounds else ():
        name, nodes = f"checkpoint_{word}", run.windows_of(kind)
        yield from rising({f"metrics.{one}": number(one) for one in (f"{name}_least_s", f"{name}_s", f"{name}_most_s")})
        windows_s, whole_s = run.longest_s(kind), product(number(f"{name}_s"), rounds)
        if exceeds(windows_s, whole_s) or (nodes and exceeds(whole_s, _slack(run, kind) * windows_s)):
            yield f"metrics.{name}_s gives {whole_s:.4g} s in {rounds:g} rounds, but its windows {windows_s:.4g} s"
        if odd := [host for host in run.windows_of("measured") if len(nodes.get(host, [])) != rounds]:
            yield f"node {odd[0]} must have {rounds:g} windows of the kind {kind}, got {len(nodes.get(odd[0], []))}"
    most = ratio(product(number("checkpoint_bytes"), 1e-9), number("checkpoint_write_least_s"))
    name = "checkpoint_write_gb_per_s"
    yield from rising({f"metrics.{name}": number(name), "its bytes and times": most})


RULES = (_times_are_those_of_the_windows,)
