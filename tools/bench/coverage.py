"""Whether stated intervals of energy hold the truth: print tables in Markdown; exits with 1 if not."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from itertools import product

from jpwr.tests.loads import LOADS
from jpwr.tests.trials import COUNTERS, FAULTS, FAULTY_LOADS, LIMITED, SENSORS, faulted, tried

TRIALS = 100
INTERVALS_S, WINDOWS_S = (0.01, 0.049, 0.1, 1.0), (1.0, 8.0, 60.0)
SLOW = ((LIMITED, "none"), (LIMITED, "0.1 s"), ("25 of 100 ms", "0.1 s"))
CALLS_S = (0.003, 0.03, 0.3, 0.7)
CASES = (  # sensor, its counter, seconds between samples, of the window and of a call
    *product(SENSORS, COUNTERS, INTERVALS_S, WINDOWS_S, (0.0,)),
    *((*sensor, 0.1, 20.0, call_s) for sensor, call_s in product(SLOW, CALLS_S)),
)
HEAD = f"""# Do the stated intervals of energy hold?

Made-up runs of known energy; docs/explanation/energy.md explains the intervals.

- Of a sensor and counter together, at least {{:.1f}} of 100 intervals held the true energy; 95 are required.
- In each cell, at least {{:.0f}} of 100 held; 85 are required.
- {{:.1f}} of 100 held where errors are random: instant samples of noise and squares, windows above 1 s, no counter.
  At most 99.5 are allowed there, because intervals that never miss are too wide.

In `97 (±4.5, 6.2)`, 97 of 100 intervals held the energy, the median uncertainty was ±4.5 %, the largest error 6.2 %. An
energy is `refused` without a counter and a power limit if there are fewer than 59 samples. If a call takes long, its
value is that of its begin, middle or end, the same in a whole run.

| sensor | renewal of its counter | sampled every | window | a call takes | {" | ".join(LOADS)} |
|---|---|--:|--:|--:|{len(LOADS) * "---|"}"""
FAULTS_HEAD = f"""
## Faulty counters

How many of 100 intervals held the energy although the counter was at fault, in windows of 22 s. The sensor is instant
and has no power limit; its counter is renewed every 0.1 s. No number of this table is required.

| fault of the counter | {" | ".join(FAULTY_LOADS)} |
|---|{len(FAULTY_LOADS) * "--:|"}"""


def percent(shares: Sequence[float]) -> float:
    """Return the mean of shares; smaller numbers than 0.0001 % are rounding of the arithmetic."""
    return round(100 * statistics.fmean(shares), 4)


def main() -> int:
    """Print the tables; return 1 if a requirement is not met."""
    lines: list[str] = []
    shares: dict[tuple[str, str, bool], list[float]] = {}  # of intervals that held, by sensor, counter, slow calls
    random_shares: list[float] = []  # where errors are random: many samples, of which neighbours differ
    for sensor, counter, interval_s, window_s, call_s in CASES:
        cells = []
        for load in LOADS:
            runs = (tried(sensor, counter, interval_s, window_s, load, number, call_s) for number in range(TRIALS))
            stated = [trial for trial in runs if trial]
            if not stated:
                cells.append("refused")
                continue
            held = percent([trial.holds for trial in stated])
            width, error = statistics.median(trial.width for trial in stated), max(trial.error for trial in stated)
            cells.append(f"{held:.0f} (±{percent([width]):.3g}, {percent([error]):.3g})")
            shares.setdefault((sensor, counter, call_s > 0), []).append(held)
            if (sensor, counter) == ("instant", "none") and window_s > 1 and load in ("noise", "squares"):
                random_shares.append(held)
        times = f"{1000 * interval_s:g} ms | {window_s:g} s | {1000 * call_s:g} ms"
        lines.append(f"| {sensor} | {counter} | {times} | {' | '.join(cells)} |")
    lines.append(FAULTS_HEAD)
    for fault in FAULTS:
        of_loads = ([faulted(fault, load, number) for number in range(TRIALS)] for load in FAULTY_LOADS)
        lines.append(f"| {fault} | {' | '.join(f'{percent(held):.0f}' for held in of_loads)} |")
    together, least = min(map(statistics.mean, shares.values())), min(map(min, shares.values()))
    by_chance = statistics.mean(random_shares)
    print(HEAD.format(together, least, by_chance), *lines, sep="\n")
    return 0 if together >= 95 and least >= 85 and by_chance <= 99.5 else 1


if __name__ == "__main__":
    sys.exit(main())
