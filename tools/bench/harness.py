"""Measure a program and its peers in turns, so that other load falls on all, and print a line for each ratio."""

from __future__ import annotations

import importlib
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from operator import sub, truediv
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "build" / "peers"
PACKAGES = ("jpwr==0.0.10", "zeus==0.16.0", "dftracer==2.2.0", "nvidia-ml-py")
HEAD = ("what", "ours", "unit", "peer", "theirs", "ratio", "range", "wanted")
ROW = "{:<46} {:>9} {:<11} {:<26} {:>9} {:>7} {:>13}  {}".format
# A program of its own, as Linux counts the memory of whoever starts a command as that of the command.
COST = """
import json, os, subprocess, sys, time
start_s = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(json.dumps((time.perf_counter() - start_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)))
sys.exit(status != 0)
"""
T = TypeVar("T")
Line = tuple[Any, ...]  # arguments of `missed`


class Cost(NamedTuple):
    """Time of a command and its processes in seconds, and the peak memory of the largest one in MiB."""

    wall_s: float
    cpu_s: float
    peak_mib: float

    def beyond(self, other: Cost) -> Cost:
        """Return the cost without that of another command."""
        return Cost(*map(sub, self, other))


def cost(command: Sequence[str], environ: Mapping[str, str] | None = None) -> Cost:
    """Run a command and return its cost; exits if it fails."""
    measuring = [sys.executable, "-I", "-S", "-c", COST, *command]
    done = subprocess.run(measuring, env=environ, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench: {' '.join(command)} failed: {done.stderr.strip()[-500:]}")
    return Cost(*json.loads(done.stdout))


def peer_python() -> str:
    """Return the Python that has other samplers and tracers, installed if they are missing."""
    python = PEERS / "bin" / "python"
    if not (PEERS / "installed").exists():
        print(f"installing {', '.join(PACKAGES)} into {PEERS}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", PEERS], check=True)
        subprocess.run([python, "-m", "pip", "install", "-qq", *PACKAGES], check=True)
        (PEERS / "installed").touch()
    return str(python)


def in_turns(rounds: int, contestants: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
    """Return what each contestant measured, round by round; a first round is warm-up."""
    measured: dict[str, list[T]] = {name: [] for name in contestants}
    for index in range(rounds + 1):
        for name, measure in contestants.items():
            value = measure()
            if index:
                measured[name].append(value)
    return measured


def compared(what: str, field: str, own: Sequence[Cost], peer: str, theirs: Sequence[Cost], *limit: Any) -> Line:
    """Return a line on a field of costs."""
    ours, others = ([getattr(one, field) for one in costs] for costs in (own, theirs))
    return what, "MiB" if field == "peak_mib" else "s", {"ours": ours, peer: others}, *limit


def missed(what: str, unit: str, measured: Mapping[str, Sequence[float]], wanted: str = "", limit: float = 0.0) -> bool:
    """Print a line with medians, and the ratio of our own to a peer round by round; return whether a limit is missed.

    `wanted` is the kind of the limit: "at most" for the median of our own, "ratio at most" or "ratio at least".
    """
    (_, own), (peer, theirs) = measured.items()
    value, ratios = statistics.median(own), list(map(truediv, own, theirs))
    ratio = statistics.median(ratios)
    held = {"": True, "at most": value <= limit, "ratio at most": ratio <= limit, "ratio at least": ratio >= limit}
    numbers = (
        f"{value:.4g}",
        unit,
        peer,
        f"{statistics.median(theirs):.4g}",
        f"{ratio:.3f}",
        f"{min(ratios):.3f}-{max(ratios):.3f}",
    )
    words = f"{wanted} {limit:g}" if limit else ""
    print(ROW(what, *numbers, words if held[wanted] else f"{words}: MISSED").rstrip(), flush=True)
    return not held[wanted]


def run_bench(module: str, function: str, *arguments: str) -> None:
    """Run one bench, which yields the arguments of each line; exits with 1 if a wanted figure is missed."""
    bench = getattr(importlib.import_module(f"tools.bench.{module}"), function)
    sys.exit(sum(missed(*line) for line in bench(*arguments)) > 0)
