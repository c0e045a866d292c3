"""Measure a program and its peers in turns, so that other load falls on all, and print a line for each ratio."""

from __future__ import annotations

import importlib
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from operator import truediv
from pathlib import Path
from typing import NamedTuple, TypeVar

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "build" / "peers"
PACKAGES = ("jpwr==0.0.10", "zeus==0.16.0", "dftracer==2.2.0", "nvidia-ml-py")
HEAD = ("what", "ours", "unit", "peer", "theirs", "ratio", "quartiles", "wanted")
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


class Cost(NamedTuple):
    """Time of a command and its processes in seconds, and the peak memory of the largest one in MiB."""

    wall_s: float
    cpu_s: float
    peak_mib: float


def cost(command: Sequence[str], environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> Cost:
    """Run a command and return its cost; exits if it fails."""
    measuring = [sys.executable, "-I", "-S", "-c", COST, *command]
    done = subprocess.run(measuring, env=environ, cwd=cwd, capture_output=True, text=True)
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


class Table:
    """The printed table: medians, our own over the peer's round by round, and whether a wanted figure is missed."""

    def __init__(self, rounds: int | None = None) -> None:
        self.rounds = rounds  # in place of those that a bench names
        self.missed = False

    def in_turns(self, rounds: int, contestants: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
        """Return what each contestant measured, round by round; a first round is warm-up."""
        measured: dict[str, list[T]] = {name: [] for name in contestants}
        for index in range((self.rounds or rounds) + 1):
            for name, measure in contestants.items():
                value = measure()
                if index:
                    measured[name].append(value)
        return measured

    def compare(
        self, what: str, unit: str, rounds: int, pair: Mapping[str, Callable[[], float]], **limits: float
    ) -> None:
        """Measure our own and a peer in turns, and print their line."""
        (_, own), (peer, theirs) = self.in_turns(rounds, pair).items()
        self.add(what, unit, own, peer, theirs, **limits)

    def add(
        self,
        what: str,
        unit: str,
        own: Sequence[float],
        peer: str,
        theirs: Sequence[float],
        *,
        most: float | None = None,
        least_ratio: float | None = None,
    ) -> None:
        """Print a line; `most` limits the median of our own."""
        value, ratios = statistics.median(own), list(map(truediv, own, theirs))
        ratio, quartiles = statistics.median(ratios), ""
        if len(ratios) > 1:
            low, _, high = statistics.quantiles(ratios)
            quartiles = f"{low:.3f}-{high:.3f}"
        wanted, is_met = "", True
        if most is not None:
            wanted, is_met = f"at most {most:g}", value <= most
        elif least_ratio is not None:
            wanted, is_met = f"ratio at least {least_ratio:g}", ratio >= least_ratio
        self.missed |= not is_met
        numbers = f"{value:.4g}", unit, peer, f"{statistics.median(theirs):.4g}", f"{ratio:.3f}", quartiles
        print(ROW(what, *numbers, wanted if is_met else f"{wanted}: MISSED").rstrip(), flush=True)


def run_bench(module: str, name: str, rounds: int | None) -> None:
    """Run one bench; exits with 1 if a wanted figure is missed."""
    table = Table(rounds)
    getattr(importlib.import_module(f"tools.bench.{module}"), name)(table)
    sys.exit(table.missed)
