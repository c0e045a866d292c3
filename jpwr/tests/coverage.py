"""Whether stated intervals of energy hold the truth: print a page in Markdown; exits with 1 if not."""

from __future__ import annotations

import itertools
import random
import statistics
import sys
from typing import Callable, Mapping, Sequence

from jpwr.tests import loads
from jpwr.tests.loads import BLIND, INFO, LIMIT_W, LOADS, LOOKS_EVERY_S, Trial

TRIALS, AROUND_S = 100, 5.0
LIMITED = "instant, with a limit"  # long calls leave too few samples for a sensor without a power limit
CALLED = ((LIMITED, "none"), (LIMITED, "0.1 s"), ("25 of 100 ms", "0.1 s"))
CALLS_S, SHARES = (0.003, 0.03, 0.3, 0.7), (0.0, 0.5, 1.0)  # shares of a call
SENSORS = {"instant": INFO, "1 s average": INFO._replace(averaging_s=1.0), "25 of 100 ms": BLIND}
COUNTERS = {"none": None, "exact": 0.0, "0.1 s": 0.1, "1 s": 1.0}  # refresh intervals, in seconds
INTERVALS_S, WINDOWS_S = (0.01, 0.049, 0.1, 1.0), (1.0, 8.0, 60.0)
LEAST = 0.0001  # percent; smaller errors are rounding of the arithmetic
FAULTY_LOADS = {"training": loads.training, **{name: LOADS[name] for name in ("noise", "squares", "bursts")}}
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
    curve = loads.channel(times_s, power_w, counter_j, info, call_s, chance.choice(SHARES) if call_s else 0.5)
    start_s = 1.0 + AROUND_S + chance.random()
    estimate = curve.between(start_s, start_s + window_s)
    return None if estimate.unknown else Trial(estimate, load.between_j(start_s, start_s + window_s))


Read = Callable[[float], float]
Faulty = Callable[[Read, float], Read]  # a counter, and when its fault begins: what is read


def scaled(factor: float) -> Faulty:
    return lambda read, _: lambda time_s: factor * read(time_s)


def losing(lost_s: float) -> Faulty:
    """A counter that stands still for a while, and does not count that time later."""
    return lambda read, at_s: (
        lambda time_s: read(min(time_s, at_s)) + read(max(time_s, at_s + lost_s)) - read(at_s + lost_s)
    )


def jumping(joules: float) -> Faulty:
    return lambda read, at_s: lambda time_s: read(time_s) + (joules if time_s > at_s else 0.0)


def reset(read: Read, at_s: float) -> Read:
    return lambda time_s: read(time_s) - (read(at_s) if time_s > at_s else 0.0)


def frozen(read: Read, at_s: float) -> Read:
    return lambda time_s: read(at_s if at_s < time_s < at_s + 12.0 else time_s)


FAULTS: dict[str, Faulty] = {
    **{f"counts {factor:g} times too much": scaled(factor) for factor in (1.5, 1.2, 1.1)},
    "counts a half": scaled(0.5),
    **{f"loses {lost_s:g} s": losing(lost_s) for lost_s in (0.3, 1.0, 5.0)},
    "stands still to the end": losing(1000.0),
    "is reset": reset,
    "jumps by 100 J": jumping(100.0),
    "jumps by 1,000 J": jumping(1000.0),
    "shows old values for 12 s, as power does": frozen,
}


def faulted(fault: str, load_name: str, number: int) -> bool:
    """Whether the interval of a made-up run with a faulty counter holds the energy; a refused energy does."""
    chance = random.Random(f"{fault} {load_name} {number}")
    load = FAULTY_LOADS[load_name](chance, 40.0)
    counter_j, at_s = loads.counter_of(load, 0.1, 0.1 * chance.random()), 8.0 + 4 * chance.random()
    power_w = frozen(load.power_w, at_s) if FAULTS[fault] is frozen else load.power_w
    info = INFO._replace(counter_refresh_s=0.1)
    curve = loads.channel(loads.moments(chance, 1.0, 32.0, 0.1), power_w, FAULTS[fault](counter_j, at_s), info)
    start_s = 5.0 + chance.random()
    estimate = curve.between(start_s, start_s + 22.0)
    return bool(estimate.unknown) or Trial(estimate, load.between_j(start_s, start_s + 22.0)).holds


class Page:
    """Lines of the page, and shares of intervals that held, in percent, by sensor and counter."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.held: dict[tuple[str, ...], list[float]] = {}
        self.by_chance: list[float] = []  # where errors are random: many samples, of which neighbours differ

    def row(self, start: str, key: tuple[str, ...], trials: Mapping[str, Sequence[Trial | None]]) -> None:
        """Add a row of cells, one for the trials of each load."""
        for load, done in trials.items():
            found = [trial for trial in done if trial]
            if not found:
                start += " refused |"
                continue
            share = 100 * statistics.mean(trial.holds for trial in found)
            self.held.setdefault(key, []).append(share)
            if key == ("instant", "none") and "| 1 s |" not in start and load in ("noise", "squares"):
                self.by_chance.append(share)
            width, error = statistics.median(one.width for one in found), max(one.error for one in found)
            start += f" {cell(share, 100 * width, 100 * error)} |"
        self.lines.append(start)


def main() -> int:
    """Print the page; returns 1 where a requirement is not met."""
    page = Page()
    for sensor, counter in itertools.product(SENSORS, COUNTERS):
        page.lines.append(SECTION.format(sensor, TITLES[counter]))
        for interval_s, window_s in itertools.product(INTERVALS_S, WINDOWS_S):
            case = (sensor, counter, interval_s, window_s)
            trials = {load: [tried(*case, load, number) for number in range(TRIALS)] for load in LOADS}
            page.row(f"| {1000 * interval_s:g} ms | {window_s:g} s |", (sensor, counter), trials)
    page.lines.append(CALLS)
    for (sensor, counter), call_s in itertools.product(CALLED, CALLS_S):
        case = (sensor, counter, 0.1, 20.0)
        trials = {load: [tried(*case, load, number, call_s) for number in range(TRIALS)] for load in LOADS}
        page.row(f"| {sensor} | {counter} | {1000 * call_s:g} ms |", (sensor, counter, "calls"), trials)
    page.lines.append(FAULTS_TITLE)
    for fault in FAULTS:
        shares = (100 * statistics.mean(faulted(fault, load, one) for one in range(TRIALS)) for load in FAULTY_LOADS)
        page.lines.append(f"| {fault} | " + " | ".join(f"{share:.0f}" for share in shares) + " |")
    together, least = min(map(statistics.mean, page.held.values())), min(map(min, page.held.values()))
    by_chance = statistics.mean(page.by_chance)
    print(HEAD, SUMMARY.format(together, least, by_chance), LEGEND, *page.lines, sep="\n")
    return 0 if together >= 95 and least >= 85 and by_chance <= 99.5 else 1


if __name__ == "__main__":
    sys.exit(main())
