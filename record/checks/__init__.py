"""Plausibility of a record: nothing in it exceeds what a machine can do, and its parts are of one run.

Each rule is a function that yields a sentence for each number that breaks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from record.checks import energy, inference, throughput, windows
from record.derivation import KINDS
from record.files import odd_character
from record.model import Record
from record.part import is_number
from record.values import value_at


def contradictions(record: Record) -> list[str]:
    """Return the inconsistencies of a record, a sentence each; empty for a run that failed.

    A record needs the numbers that its throughput is computed from. Any other number is checked if the record has what
    it is computed from.
    """
    if not record.is_good:
        return []
    rules = (*RULES, *inference.RULES) if record.serving else RULES
    return [sentence for rule in rules for sentence in rule(record)]


def _what_a_good_run_has_and_has_not(run: Record) -> Iterator[str]:
    if run.energy is None and not run.serving.elsewhere:
        yield "it has no energy, and its work was done on its own nodes"
    if run.error:
        yield f"its status is ok, but it has the error {run.error!r}"
    for name in ("system", "model", "data", "sample", "precision"):
        # By a letter of another script, one system would be two, or another one.
        if odd := odd_character(text := str(getattr(run, name))):
            yield f"{name} is stored as {text!r}, which has {odd}"


def _throughput_can_be_computed(run: Record) -> Iterator[str]:
    unit, metrics = run.work_unit, run.metrics
    is_served = bool(run.serving)
    names = [f"measured_{unit}"]
    names += inference.FOLLOWED_FROM if is_served else ["measured_steps"]
    is_effective = metrics.number(f"effective_{unit}_per_s") is not None
    names += [f"effective_{unit}"] * is_effective
    relative = ["peak_tflops_per_device", "mfu"]
    if any(metrics.number(name) is not None for name in relative):
        names += [f"model_flops_per_{unit[:-1]}", "peak_tflops_per_device"]
    missing = [f"metrics.{name}" for name in names if metrics.number(name) is None]
    missing += ["layout.work_per_sample"] * (run.layout.work_per_sample is None)
    missing += [f"{kind} windows" for kind in KINDS[: 1 + is_effective] if not run.windows_of(kind)]
    missing += ["step_times_s"] * (not is_served and not any(time_s is not None for time_s in run.step_times_s))
    for name in missing:
        yield f"the record has no {name}, from which its throughput is computed"


def _numbers_are_above_0(run: Record) -> Iterator[str]:
    sizes = (f"layout.{name}" for name in ("num_devices", "num_nodes", "global_batch_size"))
    for path in (*sizes, f"metrics.measured_{run.work_unit}", "metrics.mfu", "energy.energy_wh"):
        if is_number(value := value_at(run, path)) and not value > 0:
            yield f"{path} must be greater than 0, got {value:g}"
    if min([time_s for time_s in run.step_times_s if time_s is not None], default=1.0) <= 0:
        yield "each of step_times_s must be greater than 0"


RULES: tuple[Callable[[Record], Iterator[str]], ...] = (
    _what_a_good_run_has_and_has_not,
    _throughput_can_be_computed,
    _numbers_are_above_0,
    *throughput.RULES,
    *windows.RULES,
    *energy.RULES,
)
