"""Runs as metrics in the text format OpenMetrics 1.0, each sample at the time of its run.

The format has no place for an interval: half of the energy's is a metric of its own. A failed run has one sample, its
failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from jpwr.process.whole_file import write_whole
from results.history.series import identity_of
from results.record.model import Record
from results.record.parts import JOULES_PER_WH, end_epoch_s
from results.record.quantities import QUANTITIES
from results.record.values import epoch_s, value_at

SUCCEEDED = "status"
UNITS = ("joules", "ratio", "seconds", "watts")  # base units, which end a name
# A quantity of the catalogue and what it is multiplied by, for each metric.
METRICS = {
    "run_succeeded": (SUCCEEDED, 1.0),  # 1, or 0 for a failed run
    "work_per_second": ("work_per_s", 1.0),
    "work_per_second_per_device": ("work_per_s_per_device", 1.0),
    "mfu_ratio": ("mfu", 1.0),
    "ttft_p99_seconds": ("ttft_p99", 1.0),
    "tpot_p99_seconds": ("tpot_p99", 1.0),
    "measured_seconds": ("measured_s", 1.0),
    "energy_joules": ("energy_wh", JOULES_PER_WH),
    "energy_half_interval_joules": ("energy_uncertainty_wh", JOULES_PER_WH),
    "power_watts": ("avg_power_w", 1.0),
    "work_per_joule": ("work_per_wh", 1 / JOULES_PER_WH),
}


def write_openmetrics(records: Sequence[Record], path: Path) -> list[Record]:
    """Write one file with the metrics of all runs that have ended and have a time, and return these."""
    times_s = {one: end_epoch_s(one) or epoch_s(one.file.created or one.provenance.created) for one in records}
    timed = {one: time_s for one, time_s in times_s.items() if time_s and one.status != "unfinished"}
    found = dict(sorted(timed.items(), key=lambda one: one[1]))
    write_whole(path, "\n".join([*(line for name in METRICS for line in _lines(name, found)), "# EOF", ""]))
    return list(found)


def _lines(metric: str, timed: dict[Record, float]) -> Iterator[str]:
    name, (quantity, factor) = f"caraml_{metric}", METRICS[metric]
    series: dict[str, dict[float, float]] = {}  # two runs of one point at one time would be a duplicate
    for record, time_s in timed.items():
        value = value_at(record, QUANTITIES[quantity].path) if record.is_good else None
        value = record.is_good if quantity == SUCCEEDED else value
        if value is not None:
            series.setdefault(_labels(record, QUANTITIES[quantity].path), {})[time_s] = float(value) * factor
    if series:
        unit = metric.rpartition("_")[2]
        yield from [f"# TYPE {name} gauge", *([f"# UNIT {name} {unit}"] if unit in UNITS else [])]
    for labels, samples in series.items():
        yield from (f"{name}{{{labels}}} {value!r} {time_s:.3f}" for time_s, value in samples.items())


def _labels(record: Record, path: str) -> str:
    system, point, variant = identity_of(record)
    labels = {"system": system, **point._asdict(), "variant": ", ".join(variant), "work_unit": record.work_unit}
    if record.energy and path.startswith("energy."):
        labels |= {"power_kind": record.energy.power_kind, "power_scope": record.energy.power_scope}
    escapes = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    return ",".join(f'{name}="{str(value).translate(escapes)}"' for name, value in labels.items())
