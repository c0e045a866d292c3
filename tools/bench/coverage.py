"""Whether stated intervals of energy hold the truth: print tables in Markdown; exits with 1 if not."""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Sequence

from jpwr.tests.loads import LOADS, Trial
from jpwr.tests.trials import COUNTERS, FAULTS, FAULTY_LOADS, LIMITED, SENSORS, faulted, tried

TRIALS = 100
CALLED = ((LIMITED, "none"), (LIMITED, "0.1 s"), ("25 of 100 ms", "0.1 s"))
CALLS_S = (0.003, 0.03, 0.3, 0.7)
INTERVALS_S, WINDOWS_S = (0.01, 0.049, 0.1, 1.0), (1.0, 8.0, 60.0)
LEAST = 0.0001  # percent; smaller errors are rounding of the arithmetic
HEAD = """# Do the stated intervals of energy hold?

Made-up runs of known energy; docs/explanation/energy.md explains the intervals."""
SUMMARY = """
- Of a sensor and counter together, at least {:.1f} of 100 intervals held the true energy; 95 are required.
- In each cell, at least {:.0f} of 100 held; 85 are required.
- {:.1f} of 100 held where errors are random: instant samples of noise and squares, windows of 8 s and more, no counter.
  At most 99.5 are allowed there, because intervals that never miss are too wide."""
LEGEND = f"""
Each cell of the tables stands for {TRIALS} runs. In `97 (±4.5, 6.2)`, 97 of 100 intervals held the energy, the median
uncertainty was ±4.5 %, and the largest error was 6.2 %; 0 is below {LEAST:g} %. An energy is `refused` without a
counter and a power limit if there are fewer than 59 samples."""
SECTION = f"""
## Sensor: {{}}; counter: {{}}

| sampled every | window | {" | ".join(LOADS)} |
|--:|--:|{len(LOADS) * "---|"}"""
CALLS = f"""
## Readings that take long

A call of the sensor takes some time, and its value may be that of the call's begin, middle or end, the same in a whole
run. Windows of 20 s, sampled every 100 ms or as fast as calls allow.

| sensor | counter | a call takes | {" | ".join(LOADS)} |
|---|---|--:|{len(LOADS) * "---|"}"""
FAULTS_TITLE = f"""
## Faulty counters

How many of 100 intervals held the energy although the counter was at fault, in windows of 22 s. The sensor is instant
and has no power limit; its counter is renewed every 0.1 s. No number of this table is required.

| fault of the counter | {" | ".join(FAULTY_LOADS)} |
|---|{len(FAULTY_LOADS) * "--:|"}"""


def percent(value: float) -> str:
    """Return a number with two significant digits and without an exponent; 0 below LEAST."""
    if value < LEAST:
        return "0"
    return f"{float(f'{value:.2g}'):.6f}".rstrip("0").rstrip(".")


def cell(trials: Sequence[Trial | None]) -> tuple[str, float | None]:
    """Return the text of a cell, and the share of its intervals that held in percent; None if all were refused."""
    stated = [trial for trial in trials if trial]
    if not stated:
        return "refused", None
    held = 100 * statistics.mean(trial.holds for trial in stated)
    width = 100 * statistics.median(trial.width for trial in stated)
    return f"{held:.0f} (±{percent(width)}, {percent(100 * max(trial.error for trial in stated))})", held


def main() -> int:
    """Print the tables; return 1 if a requirement is not met."""
    lines: list[str] = []
    shares: dict[tuple[str, ...], list[float]] = {}  # of intervals that held, by sensor and counter
    random_shares: list[float] = []  # where errors are random: many samples, of which neighbours differ

    def add_row(start: str, key: tuple[str, ...], case: tuple[str, str, float, float], call_s: float = 0.0) -> None:
        cells = []
        for load in LOADS:
            text, held = cell([tried(*case, load, number, call_s) for number in range(TRIALS)])
            cells.append(text)
            if held is not None:
                shares.setdefault(key, []).append(held)
                if key == ("instant", "none") and case[3] > 1 and load in ("noise", "squares"):
                    random_shares.append(held)
        lines.append(f"{start} {' | '.join(cells)} |")

    for sensor, counter in itertools.product(SENSORS, COUNTERS):
        lines.append(SECTION.format(sensor, f"renewed every {counter}" if COUNTERS[counter] else counter))
        for interval_s, window_s in itertools.product(INTERVALS_S, WINDOWS_S):
            start = f"| {1000 * interval_s:g} ms | {window_s:g} s |"
            add_row(start, (sensor, counter), (sensor, counter, interval_s, window_s))
    lines.append(CALLS)
    for (sensor, counter), call_s in itertools.product(CALLED, CALLS_S):
        start = f"| {sensor} | {counter} | {1000 * call_s:g} ms |"
        add_row(start, (sensor, counter, "calls"), (sensor, counter, 0.1, 20.0), call_s)
    lines.append(FAULTS_TITLE)
    for fault in FAULTS:
        held = (
            100 * statistics.mean(faulted(fault, load, number) for number in range(TRIALS)) for load in FAULTY_LOADS
        )
        lines.append(f"| {fault} | " + " | ".join(f"{share:.0f}" for share in held) + " |")
    together, least = min(map(statistics.mean, shares.values())), min(map(min, shares.values()))
    by_chance = statistics.mean(random_shares)
    print(HEAD, SUMMARY.format(together, least, by_chance), LEGEND, *lines, sep="\n")
    return 0 if together >= 95 and least >= 85 and by_chance <= 99.5 else 1


if __name__ == "__main__":
    sys.exit(main())
