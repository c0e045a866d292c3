"""Whether stated intervals of energy hold the truth: print a page in Markdown; exits with 1 if not."""

from __future__ import annotations

import itertools
import random
import statistics
import sys

from jpwr.tests import loads
from jpwr.tests.loads import BLIND, INFO, LIMIT_W, LOADS, LOOKS_EVERY_S, Trial

TRIALS, AROUND_S = 100, 5.0
CALLS_S, SHARES = (0.003, 0.03, 0.3, 0.7), (0.0, 0.5, 1.0)  # shares of a call
LIMITED = "instant, with a limit"  # long calls leave too few samples for a sensor without a power limit
SENSORS = {"instant": INFO, "1 s average": INFO._replace(averaging_s=1.0), "25 of 100 ms": BLIND}
COUNTERS = {"none": None, "exact": 0.0, "0.1 s": 0.1, "1 s": 1.0}  # refresh intervals, in seconds
INTERVALS_S, WINDOWS_S = (0.01, 0.049, 0.1, 1.0), (1.0, 8.0, 60.0)
LEAST = 0.0001  # percent; smaller errors are rounding of the arithmetic
HEAD = """# Do the stated intervals of energy hold?

After this page you know how often stated intervals held the true energy; [energy](energy.md) explains them.
`make coverage` writes this page from made-up runs of known energy."""
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
TITLES = {"none": "none", "exact": "exact", "0.1 s": "renewed every 0.1 s", "1 s": "renewed every 1 s"}


def cell(held: float, width: float, error: float) -> str:
    """Return a cell of the table; all arguments in percent."""
    return f"{held:.0f} (±{percent(width)}, {percent(error)})"


def percent(value: float) -> str:
    """Return a number with two significant digits and without an exponent; 0 below LEAST."""
    if value < LEAST:
        return "0"
    return f"{float(f'{value:.2g}'):.6f}".rstrip("0").rstrip(".")


def tried(
    sensor: str, counter: str, interval_s: float, window_s: float, load_name: str, number: int, call_s: float = 0.0
) -> Trial | None:
    """Return one made-up run; None where the energy was refused.

    With calls of `call_s`, values are those at their begin, middle or end, the same in a whole run.
    """
    chance = random.Random(f"{sensor} {counter} {interval_s} {window_s} {load_name} {number}")
    end_s = window_s + 2 * AROUND_S + 2
    load, refresh_s = LOADS[load_name](chance, end_s + 2 * call_s), COUNTERS[counter]
    info = INFO._replace(limit_w=LIMIT_W) if sensor == LIMITED else SENSORS[sensor]
    power_w = loads.averaged(load, 1.0) if info.averaging_s else load.power_w
    if info.seen_share < 1:
        power_w = loads.looking_now_and_then(load, LOOKS_EVERY_S * chance.random())
    counter_j = None if refresh_s is None else loads.counter_of(load, refresh_s, refresh_s * chance.random())
    times_s = loads.moments(chance, 1.0, end_s, interval_s)
    if call_s:
        times_s = [begin_s + call_s / 2 for begin_s in loads.calls(chance, 1.0, end_s, interval_s, call_s)]
    curve = loads.channel(times_s, power_w, counter_j, info, call_s, chance.choice(SHARES))
    start_s = 1.0 + AROUND_S + chance.random()
    estimate = curve.between(start_s, start_s + window_s)
    return None if estimate.unknown else Trial(estimate, load.between_j(start_s, start_s + window_s))


def main() -> int:
    """Print the page; returns 1 where a requirement is not met."""
    lines: list[str] = []
    held: dict[tuple[str, str], list[float]] = {}
    by_chance: list[float] = []  # where errors are random: many samples, of which neighbours differ
    for sensor, counter in itertools.product(SENSORS, COUNTERS):
        lines.append(SECTION.format(sensor, TITLES[counter]))
        for interval_s, window_s in itertools.product(INTERVALS_S, WINDOWS_S):
            row = f"| {1000 * interval_s:g} ms | {window_s:g} s |"
            for load in LOADS:
                done = [tried(sensor, counter, interval_s, window_s, load, number) for number in range(TRIALS)]
                found = [trial for trial in done if trial]
                if not found:
                    row += " refused |"
                    continue
                share = 100 * statistics.mean(trial.holds for trial in found)
                held.setdefault((sensor, counter), []).append(share)
                if (sensor, counter) == ("instant", "none") and window_s > 1 and load in ("noise", "squares"):
                    by_chance.append(share)
                width, error = statistics.median(one.width for one in found), max(one.error for one in found)
                row += f" {cell(share, 100 * width, 100 * error)} |"
            lines.append(row)
    together, least = min(map(statistics.mean, held.values())), min(map(min, held.values()))
    by_chance_held = statistics.mean(by_chance)
    print(HEAD, SUMMARY.format(together, least, by_chance_held), LEGEND, *lines, sep="\n")
    return 0 if together >= 95 and least >= 85 and by_chance_held <= 99.5 else 1


if __name__ == "__main__":
    sys.exit(main())
