"""Answer everything that a workflow asks about a system, the site and a workload."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from caraml.errors import SiteError
from caraml.installation import checkout
from caraml.plan.limits import planned_limits
from caraml.plan.paths import wrong_path
from caraml.plan.points import sweep
from caraml.plan.site import Site, read_site
from caraml.plan.systems import read_system
from caraml.plan.tags import PRECISIONS, check_tags, tags_of_run
from caraml.plan.workloads import Workload, refusal, workload
from results.files.systems import System

# Programs that start one process per device of a node.
PROCESS_STARTERS = {
    "pytorch": "python3 -m torch.distributed.run",
    "tensorflow": "python3 -m benchmarks.common.spawn",
    "vllm": "python3 -m benchmarks.common.spawn",
}
# Stated, so that no run falls back to the CPU if the framework finds no accelerator.
DEVICES = {"nvidia": "gpu", "amd": "gpu", "graphcore": "ipu", "none": "cpu"}
TO_LOSS = "to-loss"  # tag of a training to a loss
JOB = "job"  # tag with which a workflow only writes the scripts of its jobs
COPIES_ON = ("nvidia", "amd", "none")  # vendors with a variable that shows a process only some devices
GATE = "gate"  # tag with which a run has the steps and the batch of a reference of losses
# Tags that measure something else than one window of training, or share the node.
NOT_FILLED = ("effective", "cold", "io", "checkpoint", "shared", "to-loss", GATE)


def check_fill(tags: set[str], block: System, site: Site) -> None:
    """Raise SiteError if copies of a point cannot run at once on a system, with these tags."""
    if other := sorted(tags & set(NOT_FILLED)):
        raise SiteError(f"the tags fill and {other[0]} were asked for, which exclude each other: leave one out")
    if block.vendor not in COPIES_ON:
        raise SiteError(f"the tag fill was asked for on {block.accelerator}, whose devices copies cannot share out")
    submit, nodes = site.submit_of(block), int(site.fill_nodes or 1)
    if submit == "bash" and nodes > 1:
        raise SiteError(f"CARAML_FILL_NODES is {nodes}, but jobs by bash use this machine alone: leave it out")


def goal(tags: set[str], known: Workload, site: Site, model: str) -> str:
    """Return the flag with the target loss of the tag to-loss, empty without the tag or if the site's flags have one.

    Raises SiteError if no target is known, or if the tag gate states another number of steps.
    """
    own_flags, facts = site.flags_of(known.facts.name), known.facts
    if {TO_LOSS, GATE} <= tags:
        raise SiteError(f"the tags {GATE} and {TO_LOSS} were asked for, which exclude each other: leave one out")
    if TO_LOSS not in tags or "--to-loss" in own_flags:
        return ""
    target = facts.target_loss.get(model) if "oscar" not in tags else None
    if target is None:
        raise SiteError(
            f"the tag to-loss was asked for, but no target loss is known for {model or facts.title} on this data: "
            f"state one, such as CARAML_{facts.name.upper()}_FLAGS='--to-loss 3.3 --max-measured-s 86400'"
        )
    return f"--to-loss {target:g}"


def site_entry(block: System) -> str:
    """Return the entry of a planned result with what a system's block states about its meter; empty for nothing."""
    stated = {
        "accuracy_percent": block.meter_accuracy_percent,
        "losses": block.meter_losses,
        "measured": block.meter_covers.split(),
        "estimated": block.meter_estimates.split(),
        "machine_nodes": block.machine_nodes,
    }
    known = {name: value for name, value in stated.items() if value}
    return f'"site": {json.dumps(known)},' if known else ""


def is_submitted(run: Path | None) -> bool:
    """Return whether a run of JUBE submits its jobs."""
    tags = tags_of_run(run) if run else set()
    return bool(tags) and JOB not in tags


def plan(
    system: str,
    benchmark: str,
    model: str = "",
    run: Path | None = None,
    name: str = "",
    tags: Sequence[str] = (),
) -> dict[str, Any]:
    """Return what a workflow of a benchmark needs on a system, by name.

    `model` is its size or variant, empty for the system's own. `tags` are checked as those of the workflow `name`, by
    default the benchmark's. `run` is the folder of a run of JUBE, whose tags are checked. Raises SiteError for what
    cannot be run.
    """
    repo = checkout()
    if wrong := wrong_path(repo, "the checkout") or (run and wrong_path(run, "the run's folder")):
        raise SiteError(wrong)
    of_run = tags_of_run(run) if run else set()
    check_tags(repo / "jube", name or benchmark, {*tags, *of_run})
    block, known = read_system(system), workload(benchmark)
    facts = known.facts
    if why := refusal(facts, block):
        raise SiteError(f"{facts.title} was asked for on {system}, but {why}")
    site = read_site(system)
    if "fill" in {*tags, *of_run}:
        check_fill({*tags, *of_run}, block, site)
    model = model or facts.default_model(block.values)
    to_loss = goal({*tags, *of_run}, known, site, model)
    for precision in PRECISIONS & {*tags, *of_run}:
        block = replace(block, default_precision=precision)
    batches = "$gate_batch" if GATE in {*tags, *of_run} else facts.batches
    points = sweep(known, block, site, model, batches, {*tags, *of_run})
    submit = site.submit_of(block)
    runtime = site.container_runtime or block.container_runtime
    in_container = site.container_runtime or (runtime if runtime != "none" else "podman")
    is_pod = submit == "kubernetes"  # is a container already
    return {
        "repo": str(repo),
        "submit": submit,
        "runtime": "none" if is_pod else runtime,
        "runtime_in_container": "none" if is_pod else in_container,
        "data_folder": site.data_folder,
        "checkpoint_folder": site.checkpoint_folder or "checkpoint",  # in the run's own folder
        "site_flags": site.flags_of(benchmark),
        "goal": to_loss,
        "site_entry": site_entry(block),
        "work_unit": facts.work_unit,
        "framework": facts.framework,
        "process_starter": PROCESS_STARTERS[facts.framework],
        "device": DEVICES[block.vendor],
        "fill_nodes": site.fill_nodes or "0",
        "max_measured_s": str(facts.max_measured_s),
        "model": model,
        **{parameter: facts.value(parameter, block.values, model) for parameter in facts.parameters},
        **planned_limits({*tags, *of_run}, block, site),
        "devices": ",".join(map(str, points)),
        "batches": {str(devices): ",".join(map(str, batches)) for devices, batches in points.items()},
    }
