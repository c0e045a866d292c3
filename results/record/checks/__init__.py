"""Consistency of a record's numbers: derived ones are computed again, and none exceeds what a machine can do.

Each rule is a function that yields a sentence for each number that breaks it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from results.record.checks import energy, inference, node_check, reads, throughput, windows
from results.record.checks.run import KINDS, TOLERANCE, Relations, Run, Sentences
from results.record.parts import is_number, windows_of
from results.record.stated import statements


def contradictions(record: dict[str, Any]) -> list[str]:
    """Return the inconsistencies of a record, a sentence each; empty for a run that failed.

    A record needs the numbers that its throughput is computed from. Any other number is checked if the record has what
    it is computed from.
    """
    if record["status"] != "ok":
        return []
    run = Run(record)
    by_others = inference.is_by_another_client(run)
    return [sentence for rule in (OF_OTHERS if by_others else RULES) for sentence in rule(run)]


def _throughput_can_be_computed(run: Run) -> Sentences:
    unit, metrics = run.unit, run.metrics
    is_served = inference.is_served(run)
    names = [f"measured_{unit}", "measured_s", f"{unit}_per_s", f"{unit}_per_s_per_device"]
    names += inference.FOLLOWED_FROM if is_served else ["measured_steps"]
    is_effective = is_number(metrics.get(f"effective_{unit}_per_s"))
    names += [f"effective_{unit}", "effective_s"] * is_effective
    relative = ["peak_tflops_per_device", "mfu"]
    if any(is_number(metrics.get(name)) for name in relative):
        names += [f"model_flops_per_{unit[:-1]}", "tflops_per_device", *relative]
    missing = [f"metrics.{name}" for name in names if not is_number(metrics.get(name))]
    missing += ["layout.work_per_sample"] * (not is_number(run.layout.get("work_per_sample")))
    missing += [f"{kind} windows" for kind in KINDS[: 1 + is_effective] if not windows_of(run.record, kind)]
    missing += ["step_times_s"] * (not is_served and not any(map(is_number, run.step_times_s)))
    for name in missing:
        yield f"the record has no {name}, from which its throughput is computed"


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
                yield f"{where}.{name} must be greater than 0, got {value:g}"
    if any(is_number(time_s) and time_s <= 0 for time_s in run.step_times_s):
        yield "each of step_times_s must be greater than 0"


def _derived_numbers_are_right(run: Run) -> Sentences:
    for relations in RELATIONS:
        for name, stored, computed, source in relations(run):
            if is_number(stored) and is_number(computed) and not math.isclose(stored, computed, rel_tol=TOLERANCE):
                yield f"{name} is stored as {stored:.10g}, but {source} give {computed:.10g}"


def _values_are_as_stated_elsewhere(run: Run) -> Sentences:
    for name, stored, value, source in statements(run.record):
        is_close = is_number(stored) and is_number(value) and math.isclose(stored, value, rel_tol=TOLERANCE)
        if stored is not None and stored != value and not is_close:
            yield f"{name} is stored as {stored!r}, but {source} has {value!r}"


RELATIONS: tuple[Callable[[Run], Relations], ...] = (
    *throughput.RELATIONS,
    *energy.RELATIONS,
    inference.rates,
    *node_check.RELATIONS,
)
# Of a record that another client's result was made into, which has no windows, devices and energy.
OF_OTHERS: tuple[Callable[[Run], Sentences], ...] = (_numbers_are_above_0, _derived_numbers_are_right)
RULES: tuple[Callable[[Run], Sentences], ...] = (
    _throughput_can_be_computed,
    _numbers_are_above_0,
    _derived_numbers_are_right,
    _values_are_as_stated_elsewhere,
    *throughput.RULES,
    *windows.RULES,
    *energy.RULES,
    *reads.RULES,
    *inference.RULES,
    *node_check.RULES,
)
