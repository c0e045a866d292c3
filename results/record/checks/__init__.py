"""Checks of a record's numbers: those that follow from others are computed again, and none is beyond any machine.

One function for each rule, which yields a sentence for each number that breaks it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from results.record.checks import energy, reads, throughput, windows
from results.record.checks.run import KINDS, TOLERANCE, Relations, Run, Sentences
from results.record.parts import is_number, windows_of
from results.record.stated import statements


def contradictions(record: dict[str, Any]) -> list[str]:
    """Return what cannot be in a record of a good run, a sentence each; empty for one that did not end well.

    What its throughput follows from has to be there; any other number is checked where the record has what it
    follows from.
    """
    if record["status"] != "ok":
        return []
    run = Run(record)
    return [sentence for rule in RULES for sentence in rule(run)]


def _what_throughput_follows_from_is_there(run: Run) -> Sentences:
    unit, metrics = run.unit, run.metrics
    names = [f"measured_{unit}", "measured_s", "measured_steps", f"{unit}_per_s", f"{unit}_per_s_per_device"]
    is_effective = is_number(metrics.get(f"effective_{unit}_per_s"))
    names += [f"effective_{unit}", "effective_s"] * is_effective
    of_peak = ["peak_tflops_per_device", "mfu"]
    if any(is_number(metrics.get(name)) for name in of_peak):
        names += [f"model_flops_per_{unit[:-1]}", "tflops_per_device", *of_peak]
    missing = [f"metrics.{name}" for name in names if not is_number(metrics.get(name))]
    missing += ["layout.work_per_sample"] * (not is_number(run.layout.get("work_per_sample")))
    missing += [f"{kind} windows" for kind in KINDS[: 1 + is_effective] if not windows_of(run.record, kind)]
    missing += ["step_times_s"] * (not any(map(is_number, run.step_times_s)))
    for name in missing:
        yield f"the record does not say {name}, from which its throughput follows"


def _numbers_are_above_0(run: Run) -> Sentences:
    unit, speed = run.unit, f"{run.unit}_per_s"
    for where, values, names in (
        ("layout", run.layout, ("num_devices", "num_nodes", "global_batch_size")),
        ("metrics", run.metrics, (f"measured_{unit}", "measured_s", speed, f"{speed}_per_device")),
        ("metrics", run.metrics, ("tflops_per_device", "mfu", "step_time_median_s")),
        ("energy", run.energies["energy"], ("energy_wh", "avg_power_w", f"{unit}_per_wh", "window_s")),
    ):
        for name in names:
            if is_number(value := values.get(name)) and not value > 0:
                yield f"{where}.{name} is {value:g}, which it cannot be"
    if any(is_number(time_s) and time_s <= 0 for time_s in run.step_times_s):
        yield "a step takes no time, or less"


def _numbers_are_what_others_make(run: Run) -> Sentences:
    for relations in RELATIONS:
        for name, stored, again, of in relations(run):
            if is_number(stored) and is_number(again) and not math.isclose(stored, again, rel_tol=TOLERANCE):
                yield f"{name} is stored as {stored:.10g}, but {of} make {again:.10g}"


def _values_are_as_stated_elsewhere(run: Run) -> Sentences:
    for name, stored, value, source in statements(run.record):
        is_close = is_number(stored) and is_number(value) and math.isclose(stored, value, rel_tol=TOLERANCE)
        if stored is not None and stored != value and not is_close:
            yield f"{name} is stored as {stored!r}, but {source} says {value!r}"


RELATIONS: tuple[Callable[[Run], Relations], ...] = (*throughput.RELATIONS, *energy.RELATIONS)
RULES: tuple[Callable[[Run], Sentences], ...] = (
    _what_throughput_follows_from_is_there,
    _numbers_are_above_0,
    _numbers_are_what_others_make,
    _values_are_as_stated_elsewhere,
    *throughput.RULES,
    *windows.RULES,
    *energy.RULES,
    *reads.RULES,
)
