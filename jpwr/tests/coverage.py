"""Whether the stated intervals hold: every load, sensor, counter, window and interval, many times.

Usage: python -m jpwr.tests.coverage [--trials N] [--table FILE]: one line for each case on stdout, and a table in
Markdown between the two lines of FILE that say so.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
import sys
from pathlib import Path
from typing import NamedTuple, Sequence

from jpwr.errors import NotEnoughSamples
from jpwr.tests import loads
from jpwr.tests.loads import INFO, LIMIT_W, LOOKS_EVERY_S, LOOKS_S, Load

AROUND_S = 5.0
LOADS = ("noise", "squares", "bursts", "ramps", "drift")
SQUARES_S = (0.003, 0.0097, 0.03, 0.0505, 0.1, 0.11, 0.3, 0.37, 1.0, 3.0)
SENSORS = ("instant", "1 s average", "25 of 100 ms")
COUNTERS = {"none": None, "exact": 0.0, "0.1 s": 0.1, "1 s": 1.0}
WINDOWS_S = (1.0, 8.0, 60.0)
INTERVALS_S = (0.01, 0.049, 0.1, 1.0)
BEGIN, END = "<!-- coverage: begin -->", "<!-- coverage: end -->"


class Case(NamedTuple):
    """What is tried many times."""

    sensor: str
    counter: str
    interval_s: float
    window_s: float
    load: str


class Outcome(NamedTuple):
    """One trial, relative to the true energy."""

    covered: bool
    width: float
    error: float


class Cell(NamedTuple):
    """All trials of a case: the share that was covered, the median half-width and the largest error."""

    covered: float
    width: float
    error: float


def load_of(kind: str, chance: random.Random, length_s: float, number: int) -> Load:
    if kind == "noise":
        return loads.noise(chance, length_s)
    if kind == "squares":
        period_s = SQUARES_S[number % len(SQUARES_S)]
        return loads.square(period_s, chance.random() * period_s)
    if kind == "bursts":
        return loads.square(chance.uniform(0.5, 2.0), 7 * chance.random(), duty=0.05)
    if kind == "ramps":
        return loads.ramp(chance.uniform(-300, 300) / length_s)
    return loads.drift(chance, length_s)


def tried(case: Case, number: int) -> Outcome | None:
    """One trial; None where the energy was refused."""
    chance = random.Random(f"{case} {number}")
    end_s = case.window_s + 2 * AROUND_S + 2
    load = load_of(case.load, chance, end_s, number)
    info, power_w = INFO, load.power_w
    if case.sensor == "1 s average":
        info, power_w = INFO._replace(averaging_s=1.0), loads.averaged(load, 1.0)
    elif case.sensor == "25 of 100 ms":
        info = INFO._replace(held_s=LOOKS_EVERY_S, seen_share=LOOKS_S / LOOKS_EVERY_S, limit_w=LIMIT_W)
        power_w = loads.looking_now_and_then(load, LOOKS_EVERY_S * chance.random())
    refresh_s = COUNTERS[case.counter]
    counter_j = None if refresh_s is None else loads.counter_of(load, refresh_s, refresh_s * chance.random())
    times_s = loads.moments(chance, 1.0, end_s, case.interval_s)
    start_s = 1.0 + AROUND_S + chance.random()
    try:
        estimate = loads.channel(times_s, power_w, counter_j, info).between(start_s, start_s + case.window_s)
    except NotEnoughSamples:
        return None
    true_j = load.between_j(start_s, start_s + case.window_s)
    error_j = abs(estimate.energy_j - true_j)
    return Outcome(error_j <= estimate.uncertainty_j, estimate.uncertainty_j / true_j, error_j / true_j)


def cell_of(case: Case, trials: int) -> Cell | None:
    """None where the energy was refused each time."""
    outcomes = [outcome for outcome in (tried(case, number) for number in range(trials)) if outcome]
    if not outcomes:
        return None
    return Cell(
        sum(outcome.covered for outcome in outcomes) / len(outcomes),
        statistics.median(outcome.width for outcome in outcomes),
        max(outcome.error for outcome in outcomes),
    )


def words(cell: Cell | None) -> str:
    if cell is None:
        return "refused"
    return f"{100 * cell.covered:.0f}: {100 * cell.width:.2g}, {100 * cell.error:.2g}"


def main(argv: Sequence[str] | None = None) -> int:
    """Print every case as it is done; returns 1 when one is covered in fewer than 95 of 100 trials."""
    parser = argparse.ArgumentParser(prog="python -m jpwr.tests.coverage")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--sensors", nargs="+", default=SENSORS)
    parser.add_argument("--counters", nargs="+", default=list(COUNTERS))
    parser.add_argument("--intervals", nargs="+", type=float, default=INTERVALS_S)
    parser.add_argument("--windows", nargs="+", type=float, default=WINDOWS_S)
    options = parser.parse_args(argv)
    lines = [
        "| sensor | counter | interval [ms] | window [s] | " + " | ".join(LOADS) + " |",
        "|---|---|--:|--:|" + "---|" * len(LOADS),
    ]
    worst = math.inf
    print(*lines, sep="\n")
    for of_row in itertools.product(options.sensors, options.counters, options.intervals, options.windows):
        cells = [cell_of(Case(*of_row, load), options.trials) for load in LOADS]
        worst = min(worst, *(cell.covered for cell in cells if cell))
        sensor, counter, interval_s, window_s = of_row
        about = f"| {sensor} | {counter} | {1000 * interval_s:g} | {window_s:g} | "
        lines.append(about + " | ".join(map(words, cells)) + " |")
        print(lines[-1], flush=True)
    if options.table:
        before, _, rest = options.table.read_text().partition(BEGIN)
        options.table.write_text("\n".join([before + BEGIN, *lines, END + rest.partition(END)[2]]))
    return 0 if worst >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
