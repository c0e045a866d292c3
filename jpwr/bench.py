"""What the sampler costs: start-up time and memory, against an empty Python in the same run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

ROUNDS = 21
EMPTY = [sys.executable, "-c", "pass"]
SAMPLER = [sys.executable, "-m", "jpwr", "--methods", "estimate", "--", "true"]


def run(command: list[str]) -> tuple[float, float]:
    """Wall time in seconds and peak memory in MB of one command."""
    start_s = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"bench: {' '.join(command)} ended with exit code {process.returncode}")
    return time.perf_counter() - start_s, usage.ru_maxrss / 1000


def main() -> None:
    """Print times, memory, difference and ratio."""
    run(SAMPLER)
    pairs = [(run(EMPTY), run(SAMPLER)) for _ in range(ROUNDS)]
    (empty_s, empty_mb), (own_s, own_mb) = (
        [statistics.median(pair[which][value] for pair in pairs) for value in (0, 1)] for which in (0, 1)
    )
    print(f"empty Python: {empty_s:.3f} s, {empty_mb:.1f} MB")
    print(f"jpwr --methods estimate -- true: {own_s:.3f} s, {own_mb:.1f} MB")
    print(f"difference {own_s - empty_s:.3f} s, ratio {own_s / empty_s:.2f}; memory ratio {own_mb / empty_mb:.2f}")


if __name__ == "__main__":
    main()
