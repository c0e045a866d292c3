"""Whether stated intervals of energy hold the truth: print a page in Markdown; exits with 1 if not."""

from __future__ import annotations

import itertools
import random
import statistics
import sys

from jpwr.errors import NotEnoughSamples
from jpwr.tests import loads
from jpwr.tests.loads import BLIND, INFO, LOADS, LOOKS_EVERY_S, Trial

TRIALS, AROUND_S = 100, 5.0
SENSORS = {"instant": INFO, "1 s average": INFO._replace(averaging_s=1.0), "25 of 100 ms": BLIND}
COUNTERS = {"none": None, "exact": 0.0, "0.1 s": 0.1, "1 s": 1.0}  # refresh intervals, in seconds
INTERVALS_S, WINDOWS_S = (0.01, 0.049, 0.1, 1.0), (1.0, 8.0, 60.0)
HEAD = f"""# Do the stated intervals of energy hold?

After this page you know how often stated intervals held the true energy; [energy](energy.md) explains them.
`make coverage` writes this page. Each cell stands for {TRIALS} made-up runs of known energy, and has three numbers: how
many of 100 intervals held the energy; median half-width and largest error, in percent. "Refused" is a case without a
counter and a power limit that has fewer than 59 samples.

| sensor | counter | interval [ms] | window [s] | {" | ".join(LOADS)} |
|---|---|--:|--:|{len(LOADS) * "---|"}"""


def tried(sensor: str, counter: str, interval_s: float, window_s: float, load_name: str, number: int) -> Trial | None:
    """Return one made-up run; None where the energy was refused."""
    chance = random.Random(f"{sensor} {counter} {interval_s} {window_s} {load_name} {number}")
    end_s = window_s + 2 * AROUND_S + 2
    load, info, refresh_s = LOADS[load_name](chance, end_s), SENSORS[sensor], COUNTERS[counter]
    power_w = loads.averaged(load, 1.0) if info.averaging_s else load.power_w
    if info.seen_share < 1:
        power_w = loads.looking_now_and_then(load, LOOKS_EVERY_S * chance.random())
    counter_j = None if refresh_s is None else loads.counter_of(load, refresh_s, refresh_s * chance.random())
    curve = loads.channel(loads.moments(chance, 1.0, end_s, interval_s), power_w, counter_j, info)
    start_s = 1.0 + AROUND_S + chance.random()
    try:
        estimate = curve.between(start_s, start_s + window_s)
    except NotEnoughSamples:
        return None
    return Trial(estimate, load.between_j(start_s, start_s + window_s))


def main() -> int:
    """Print the page; returns 1 where a requirement is not met."""
    print(HEAD)
    held: dict[tuple[str, str], list[float]] = {}
    by_chance: list[float] = []  # where chance makes the error: many samples, of which neighbours differ
    for sensor, counter, interval_s, window_s in itertools.product(SENSORS, COUNTERS, INTERVALS_S, WINDOWS_S):
        row = f"| {sensor} | {counter} | {1000 * interval_s:g} | {window_s:g} |"
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
            row += f" {share:.0f}: {100 * width:.2g}, {100 * error:.2g} |"
        print(row, flush=True)
    together, least = min(map(statistics.mean, held.values())), min(map(min, held.values()))
    by_chance_held = statistics.mean(by_chance)
    print(f"\n- Of a sensor and counter together, at least {together:.1f} of 100 intervals held; 95 are required.")
    print(f"- In each cell, at least {least:.0f} of 100 held; 85 are required.")
    print("- Instant samples of noise and squares in 8 s and more, without a counter: there chance makes the error,")
    print(f"  and intervals that never miss are too wide. {by_chance_held:.1f} of 100 held; 99.5 are allowed.")
    return 0 if together >= 95 and least >= 85 and by_chance_held <= 99.5 else 1


if __name__ == "__main__":
    sys.exit(main())
