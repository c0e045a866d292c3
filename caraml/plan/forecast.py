"""Forecast of a sweep before it is submitted: jobs, node-hours and kilowatt-hours.

An estimate from the system's figures: all work at ASSUMED_MFU of the peak, every device of each node at its thermal
design power for the whole time, and START_S of each run before its first step.
"""

from __future__ import annotations

from math import ceil, inf
from typing import NamedTuple

from caraml.plan.points import sweep
from caraml.plan.site import Site
from caraml.plan.workloads import Workload
from results.files.systems import System
from results.record.values import count

ASSUMED_MFU = 0.3
START_S = 90.0
SECONDS_PER_HOUR = 3600.0
WATTS_PER_KW = 1000.0


class Forecast(NamedTuple):
    """Forecast of one run of a workflow on a system without further tags; None: the system's figures are missing."""

    workflow: str
    model: str
    points: int  # and jobs, as the runs of a point share one job
    runs: int
    devices: int  # of the smallest point
    batch: int
    node_hours: float | None
    energy_kwh: float | None  # of the devices

    def __str__(self) -> str:
        if self.node_hours is None:
            cost = "duration unknown: the devices' peak or the work's FLOPs are not known"
        else:
            energy = "" if self.energy_kwh is None else f" and {self.energy_kwh:.2g} kWh of the devices"
            cost = f"about {self.node_hours:.2g} node-hours{energy}"
        model = f"{self.model}: " if self.model else ""
        return f"{model}{count(self.points, 'job')} with {count(self.runs, 'run')}, {cost}"


def forecast(known: Workload, block: System, site: Site) -> Forecast:
    """Return the forecast for all points of a workload's sweep; raises SiteError if it cannot run."""
    facts = known.facts
    model = facts.default_model(block.values)
    per_node, repeats = block.devices_per_node, block.default_repeats
    peak_flops = block.peak_tflops(block.default_precision) * 1e12
    points = [(devices, batch) for devices, batches in sweep(known, block, site, model).items() for batch in batches]
    run_s = [_run_s(known, block, model, *point, peak_flops * ASSUMED_MFU) for point in points] if peak_flops else []
    seconds = [
        ceil(devices / per_node) * repeats * one for (devices, _), one in zip(points, run_s, strict=False) if one
    ]
    node_hours = sum(seconds) / SECONDS_PER_HOUR if len(seconds) == len(points) else None
    tdp_w = block.tdp_w_per_device * per_node
    energy_kwh = node_hours * tdp_w / WATTS_PER_KW if node_hours and tdp_w else None
    return Forecast(facts.workflow, model, len(points), len(points) * repeats, *points[0], node_hours, energy_kwh)


def _run_s(known: Workload, block: System, model: str, devices: int, batch: int, flops_per_s: float) -> float | None:
    """Estimate the time of one run; None: the FLOPs of its work are not known."""
    measured_s = known.run_s(block, model, devices, batch, flops_per_s)
    if measured_s is not None:
        return START_S + measured_s
    step_s = batch * known.flops_per_sample(block, model) / (devices * flops_per_s)
    if not step_s:
        return None
    window_s = max(block.measured_steps * step_s, block.min_measured_s)
    window_s = max(step_s, min(window_s, known.facts.max_measured_s or inf))
    return START_S + block.warmup_steps * step_s + window_s
