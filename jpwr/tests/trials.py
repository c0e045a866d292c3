"""Made-up runs of known energy: sensors, counters and their faults, and what was stated of each run."""

from __future__ import annotations

import random
from typing import Callable

from jpwr.tests import loads
from jpwr.tests.loads import BLIND, INFO, LIMIT_W, LOADS, LOOKS_EVERY_S, Trial

AROUND_S = 5.0
LIMITED = "instant, with a limit"  # long calls leave too few samples for a sensor without a power limit
SHARES = (0.0, 0.5, 1.0)  # of a call
SENSORS = {"instant": INFO, "1 s average": INFO._replace(averaging_s=1.0), "25 of 100 ms": BLIND}
COUNTERS = {"none": None, "exact": 0.0, "0.1 s": 0.1, "1 s": 1.0}  # refresh intervals, in seconds
FAULTY_LOADS = {"training": loads.training, **{name: LOADS[name] for name in ("noise", "squares", "bursts")}}


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


def check(trial: Callable[[random.Random], Trial], trials: int = 40, held: float = 0.9) -> list[Trial]:
    """Run a trial with seeds from 0, and fail with all that missed unless the share `held` holds the truth.

    Where 95 of 100 intervals hold, 36 or more of 40 do with a probability of 95 %.
    """
    done = [trial(random.Random(seed)) for seed in range(trials)]
    missed = [
        f"seed {seed}: true {one.true_j:.6g} J, by {one.estimate.method} {one.estimate.energy_j:.6g} ± "
        f"{one.estimate.uncertainty_j:.2g} J"
        for seed, one in enumerate(done)
        if not one.holds
    ]
    assert len(missed) <= round((1 - held) * trials), "\n".join(missed)
    return done


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
