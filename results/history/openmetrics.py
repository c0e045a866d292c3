"""Runs as metrics in the text format OpenMetrics 1.0, each sample at the time of its run.

The format has no place for an interval: the half-width of the energy's is a metric of its own. A failed run has one
sample, which says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from jpwr.process.whole_file import write_whole
from results.history.series import identity_of
from results.record.model import Record
from results.record.parts import JOULES_PER_WH
from results.record.quantities import QUANTITIES
from results.record.values import epoch_s, value_at

SUCCEEDED = "status"


class Family(NamedTuple):
    """One metric: a quantity of the catalogue, times a factor for OpenMetrics' base unit, which ends the name."""

    name: str
    quantity: str
    unit: str = ""
    help: str = ""
    factor: float = 1.0


FAMILIES = (
    Family("run_succeeded", SUCCEEDED, "", "1: the run ended as it should; 0: it failed, and has no other metric"),
    Family("work_per_second", "work_per_s"),
    Family("work_per_second_per_device", "work_per_s_per_device"),
    Family("mfu_ratio", "mfu", "ratio", "Model FLOP/s utilisation, from 0 to 1"),
    Family("ttft_p99_seconds", "ttft_p99", "seconds"),
    Family("tpot_p99_seconds", "tpot_p99", "seconds"),
    Family("measured_seconds", "measured_s", "seconds", "Length of the measured window"),
    Family("energy_joules", "energy_wh", "joules", "Energy over the measured window", JOULES_PER_WH),
    Family(
        "energy_half_interval_joules", "energy_uncertainty_wh", "joules", "Half of its 95 % interval", JOULES_PER_WH
    ),
    Family("power_watts", "avg_power_w", "watts"),
    Family("work_per_joule", "work_per_wh", "", "Work per energy over the measured window", 1 / JOULES_PER_WH),
)


def write_openmetrics(records: Sequence[Record], path: Path) -> list[Record]:
    """Write one file with the metrics of all runs that have ended and have a time, and return these."""
    timed = [(time, one) for one in records if one.status != "unfinished" and (time := _time_s(one))]
    timed.sort(key=lambda one: one[0])
    write_whole(path, "\n".join([*(line for family in FAMILIES for line in _lines(family, timed)), "# EOF", ""]))
    return [record for _, record in timed]


def _time_s(record: Record) -> float | None:
    ends = [one.end_epoch_s for one in record.windows if one.end_epoch_s]
    return max(ends) if ends else epoch_s(record.file.created or record.provenance.created)


def _lines(family: Family, timed: Sequence[tuple[float, Record]]) -> Iterator[str]:
    name, quantity = f"caraml_{family.name}", QUANTITIES[family.quantity]
    series: dict[str, dict[float, float]] = {}  # two runs of one point at one time would be a duplicate
    for time_s, record in timed:
        value = value_at(record, quantity.path) if record.is_good else None
        value = record.is_good if family.quantity == SUCCEEDED else value
        if value is not None:
            series.setdefault(_labels(record, quantity.path), {})[time_s] = float(value) * family.factor
    if series:
        yield f"# TYPE {name} gauge"
        yield from [f"# UNIT {name} {family.unit}"] if family.unit else []
        yield f"# HELP {name} {_escaped(family.help or quantity.help)}"
    for labels, samples in series.items():
        yield from (f"{name}{{{labels}}} {value!r} {time_s:.3f}" for time_s, value in samples.items())


def _labels(record: Record, path: str) -> str:
    system, point, variant = identity_of(record)
    labels = {"system": system, **point._asdict(), "variant": ", ".join(variant), "work_unit": record.work_unit}
    if record.energy and path.startswith("energy."):
        labels |= {"power_kind": record.energy.power_kind, "power_scope": record.energy.power_scope}
    return ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items())


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
