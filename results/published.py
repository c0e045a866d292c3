"""Figures that others have published, each with its source and caveats: shown next to ours, never ranked with them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from record.files import csv_rows

FIGURES = Path(__file__).with_suffix(".csv")
# Metrics and units of throughputs; a rate per device is multiplied by the devices.
PER_DEVICE = ("throughput_per_gpu", "tokens/s/GPU")
THROUGHPUTS = (
    *(("throughput", f"{unit}/s") for unit in ("tokens", "images", "samples")),
    ("compute_throughput", "inputs/s"),
    PER_DEVICE,
)
ACHIEVABLE = "achievable"  # metric of the fastest dense product of matrices


class Figure(NamedTuple):
    """One published figure as in the file; what was not published is empty."""

    systems: str  # our tags
    like: str  # our tags of systems with the same processor and another memory, for training
    system: str  # name by the publisher
    accelerator: str
    benchmark: str
    workload: str  # ours, if it is the same
    model: str
    our_model: str  # the name of ours begins with it
    data: str
    precision: str
    devices: str
    nodes: str
    global_batch_size: str
    metric: str
    value: str
    unit: str
    software: str
    source: str
    read: str  # the day, of figures of one chip: software moves them more than hardware does
    note: str


class Throughput(NamedTuple):
    """A published throughput of one of our workloads, in its unit per second over all devices."""

    system: str
    devices: int
    global_batch: int
    units_per_s: float
    figure: Figure


@cache
def published() -> tuple[Figure, ...]:
    """Return all published figures, in the order of the file."""
    return tuple(Figure(**row) for row in csv_rows(FIGURES))


def throughputs(benchmark: str, model: str) -> list[Throughput]:
    """Return the published throughputs of a workload; of a point that was published twice, the first."""
    found: dict[tuple[str, int, int], Throughput] = {}
    for figure in published():
        kind = (figure.metric, figure.unit)
        is_ours = figure.workload == benchmark and figure.our_model and model.startswith(figure.our_model)
        if is_ours and kind in THROUGHPUTS and figure.devices and figure.global_batch_size:
            devices, batch = int(figure.devices), int(figure.global_batch_size)
            value = float(figure.value) * (devices if kind == PER_DEVICE else 1)
            found.setdefault((figure.system, devices, batch), Throughput(figure.system, devices, batch, value, figure))
    return list(found.values())
