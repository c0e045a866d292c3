"""Figures that others have published, each with its source and caveats: plotted with ours, never ranked with them."""

from __future__ import annotations

from collections.abc import Set
from functools import cache
from pathlib import Path
from typing import NamedTuple

from record.csv_rows import csv_rows

FIGURES = Path(__file__).with_suffix(".csv")
SYSTEMS = FIGURES.with_name("published_systems.csv")
# Our benchmark and the prefix of our model, by theirs.
SAME_WORKLOAD = {
    ("llm_training", "GPT-117M"): ("llm_training", "117M"),
    ("llm_training", "GPT-800M"): ("llm_training", "800M"),
    ("llm_training", "GPT-13B"): ("llm_training", "13B"),
    ("llm_training", "GPT-175B"): ("llm_training", "175B"),
    ("image_classification", "resnet50"): ("resnet50", "ResNet-50"),
    ("image_classification", "resnet50_v2"): ("resnet50", "ResNet-50"),
    ("mlperf", "resnet50"): ("resnet50", "ResNet-50"),
    ("mlperf", "cosmoflow"): ("cosmoflow", "CosmoFlow 128"),
    ("mlperf", "deepcam"): ("deepcam", "DeepCAM 768x1152"),
    ("mlperf_hpc", "cosmoflow"): ("cosmoflow", "CosmoFlow 128"),
    ("mlperf_hpc", "deepcam"): ("deepcam", "DeepCAM 768x1152"),
}
# Their metrics and units; a rate per device is multiplied by the devices.
TOTAL = {
    ("throughput", "tokens/s"),
    ("throughput", "images/s"),
    ("throughput", "samples/s"),
    ("compute_throughput", "inputs/s"),
}
PER_DEVICE = {("throughput_per_gpu", "tokens/s/GPU")}
COMPUTE = frozenset(TOTAL | PER_DEVICE)
EFFECTIVE = frozenset({("effective_throughput", "inputs/s")})  # with reading of files


class Published(NamedTuple):
    """One published figure as in the file; a number that was not published is empty."""

    source: str
    system: str
    accelerator: str
    benchmark: str
    model: str
    dataset: str
    precision: str
    devices: str
    nodes: str
    global_batch_size: str
    metric: str
    value: str
    unit: str
    note: str


class Throughput(NamedTuple):
    """A published throughput of one of our workloads, in its unit per second over all devices."""

    system: str
    devices: int
    global_batch: int
    units_per_s: float
    figure: Published

    @property
    def place(self) -> tuple[str, int, int]:
        """Key that identifies a published point within a workload."""
        return self.system, self.devices, self.global_batch


@cache
def read_published() -> tuple[Published, ...]:
    """Return all published figures, in the order of the file."""
    return tuple(Published(**row) for row in csv_rows(FIGURES))


def system_names() -> dict[str, str]:
    """Return our names of the published systems that systems.yaml describes."""
    return {row["published"]: row["system"] for row in csv_rows(SYSTEMS)}


def throughputs(benchmark: str, model: str, kinds: Set[tuple[str, str]] = COMPUTE) -> list[Throughput]:
    """Return the published throughputs of a workload; of a point that was published twice, the first."""
    by_place: dict[tuple[str, int, int], Throughput] = {}
    for figure in read_published():
        kind = (figure.metric, figure.unit)
        ours = SAME_WORKLOAD.get((figure.benchmark, figure.model))
        if ours is None or ours[0] != benchmark or not model.startswith(ours[1]) or kind not in kinds:
            continue
        if not (figure.devices and figure.global_batch_size):
            continue
        devices, batch = int(figure.devices), int(figure.global_batch_size)
        value = float(figure.value) * (devices if kind in PER_DEVICE else 1)
        one = Throughput(figure.system, devices, batch, value, figure)
        by_place.setdefault(one.place, one)
    return list(by_place.values())
