"""Everything that a workflow asks about a system, the site and a workload."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from caraml.errors import SiteError
from caraml.installation import checkout
from caraml.plan import tags as tag
from caraml.plan.limits import planned_limits
from caraml.plan.points import sweep
from caraml.plan.site import Site, read_site, wrong_path
from caraml.plan.systems import read_system
from caraml.plan.workloads import Workload, refusal, workload_of, workload_on
from results.files.systems import System, read_systems
from results.files.workloads import of_model

# Programs that start one process per device of a node.
PROCESS_STARTERS = {
    "pytorch": "python3 -m torch.distributed.run",
    "tensorflow": "python3 -m benchmarks.common.spawn",
    "vllm": "python3 -m benchmarks.common.spawn",
}
SERVERS = ("sglang", "trtllm")  # tags of servers with images of their own
# Stated, so that no run falls back to the CPU if the framework finds no accelerator.
DEVICES = {"nvidia": "gpu", "amd": "gpu", "graphcore": "ipu", "none": "cpu"}
COPIES_ON = ("nvidia", "amd", "none")  # vendors with a variable that shows a process only some devices
RUNS_TO_LOSS = 5  # the fastest and the slowest are left out, and three give an interval
SETTLING = 3  # times the warm-up, until the temperature at another limit settles
FROM_BLOCK = (
    *("vendor", "devices_per_node", "gres", "kubernetes_resource", "launcher", "launcher_args", "host_suffix"),
    *("network_env", "power_methods"),
)


def check_fill(block: System, site: Site) -> None:
    """Raise SiteError if copies of a point cannot run at once on a system."""
    if block.vendor not in COPIES_ON:
        raise SiteError(f"the tag fill was asked for on {block.accelerator}, whose devices copies cannot share out")
    submit, nodes = site.submit_of(block), int(site.fill_nodes or 1)
    if submit == "bash" and nodes > 1:
        raise SiteError(f"CARAML_FILL_NODES is {nodes}, but jobs by bash use this machine alone: leave it out")


def goal(tags: set[str], known: Workload, site: Site, model: str) -> str:
    """Return the flag with the target loss of the tag to-loss, empty without the tag or if the site's flags have one.

    Raises SiteError if no target is known.
    """
    own_flags, facts = site.flags_of(known.facts.name), known.facts
    if tag.TO_LOSS not in tags or "--to-loss" in own_flags:
        return ""
    target = facts.target_loss.get(model) if "oscar" not in tags else None
    if target is None:
        raise SiteError(
            f"the tag to-loss was asked for, but no target loss is known for {model or facts.title} on this data: "
            f"state one, such as CARAML_{facts.name.upper()}_FLAGS='--to-loss 3.3 --max-measured-s 86400'"
        )
    return f"--to-loss {target:g}"


def meter_of(block: System) -> dict[str, Any]:
    """Return what a system's block states about its meter, as a result has it."""
    stated = {
        "accuracy_percent": block.meter_accuracy_percent,
        "losses": block.meter_losses,
        "measured": block.meter_covers.split(),
        "estimated": block.meter_estimates.split(),
        "machine_nodes": block.machine_nodes,
    }
    return {name: value for name, value in stated.items() if value}


def common_flags(tags: set[str], known: Workload, block: System, site: Site, model: str) -> str:
    """Return the flags of every program that trains."""
    facts, warmup = known.facts, int(of_model(block.warmup_steps, model))
    if tag.TO_LOSS in tags:  # the window begins with the first step
        warmup = 0
    elif {tag.CAPS, tag.CLOCKS} & tags:
        warmup *= SETTLING
    steps, of_gate = of_model(block.measured_steps, model), ""
    if tag.GATE in tags:  # losses are compared with those of a reference: with its steps, batch, data and options
        steps, of_gate = (facts.value(name, block.values, model) for name in ("gate_steps", "gate_flags"))
    # Another seed for each run of a point: node.sh has the number of the run.
    seed = "--seed $((1233 + repeat * run))" if tag.TO_LOSS in tags else ""
    folder = site.checkpoint_folder or "checkpoint"  # in the run's own folder
    flags = [
        f"--device {DEVICES[block.vendor]} --precision {block.default_precision}",
        f"--warmup-steps {warmup} --measured-steps {steps}",
        f"--min-measured-s {block.min_measured_s:g}",
        f"--max-measured-s {facts.max_measured_s:g}" if facts.max_measured_s else "",
        f"--system {block.system_name} --peak-tflops-per-device {block.peak_tflops(block.default_precision):g}",
        goal(tags, known, site, model),
        seed,
        of_gate,
        site.flags_of(facts.name).strip(),
        "--record record.json",
        "--region-times" if tag.IO in tags else "",
        f'--checkpoint "{folder}"' if tag.CHECKPOINT in tags else "",
    ]
    return " ".join(filter(None, flags))


def repeats_of(tags: set[str], block: System) -> int:
    """Return the number of runs of a point."""
    if tag.ONCE in tags:
        return 1
    return RUNS_TO_LOSS if tag.TO_LOSS in tags and block.default_repeats > 1 else block.default_repeats


def is_submitted(run: Path | None) -> bool:
    """Return whether a run of JUBE submits its jobs."""
    tags = tag.tags_of_run(run)
    return bool(tags) and not {tag.JOB, tag.IMAGE} & tags


def plan(
    system: str, benchmark: str, model: str = "", run: Path | None = None, tags: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what a workflow of a benchmark, and the jobs of its points, need on a system, by name.

    `model` is its size or variant, empty for the system's own. The given tags are checked, and those of `run`, the
    folder of a run of JUBE. Raises SiteError for what cannot be run.
    """
    repo = checkout()
    if wrong := wrong_path(repo, "the checkout") or (run and wrong_path(run, "the run's folder")):
        raise SiteError(wrong)
    every = {*tags, *tag.tags_of_run(run)}
    facts, note = workload_on(workload_of(benchmark), read_systems().get(system), every)
    tag.check_tags(repo / "jube", facts, every)
    block = read_system(system)
    if why := refusal(facts, block):
        raise SiteError(f"{facts.title} was asked for on {system}, but {why}")
    known, site = Workload(facts), read_site(system)
    if tag.FILL in every:
        check_fill(block, site)
    model = model or facts.default_model(block.values)
    model += "".join(facts.variants[name] for name in facts.variants.keys() & every)
    for precision in tag.PRECISIONS & every:
        block = replace(block, default_precision=precision)
    points = sweep(known, block, site, model, "$gate_batch" if tag.GATE in every else facts.batches, every)
    submit, repeats = site.submit_of(block), repeats_of(every, block)
    runtime = site.container_runtime or block.container_runtime
    if {tag.CONTAINER, tag.IMAGE} & every and runtime == "none" and not site.container_runtime:
        runtime = "podman"
    image = block.image_of(next((name for name in SERVERS if name in every), facts.framework))
    if tag.CONTAINER in every and tag.JOB not in every:
        where = (
            f"the whole sweep runs in a container of {image}, by the tag container; the tag image only makes the image"
        )
        note = "; ".join(filter(None, (note, where)))
    return {
        "repo": str(repo),
        "system": system,
        "benchmark": facts.name,
        "note": note,
        "tags": sorted(every),
        "submit": submit,
        "runtime": "none" if submit == "kubernetes" else runtime,  # a pod is a container already
        "image": image,
        "data_folder": site.data_folder,
        "site_flags": site.flags_of(facts.name),
        "common_flags": common_flags(every, known, block, site, model),
        "device": DEVICES[block.vendor],
        "precision": block.default_precision,
        "work_unit": facts.work_unit,
        "process_starter": PROCESS_STARTERS[facts.framework],
        "cpus_per_task": block.cpus_per_task or os.cpu_count(),
        "meter": meter_of(block),
        "fill_nodes": int(site.fill_nodes or 0),
        "model": model,
        **{key: getattr(block, key) for key in FROM_BLOCK},
        **{parameter: facts.value(parameter, block.values, model) for parameter in facts.parameters},
        "devices_per_node": block.devices_per_node,  # a number, which a node check's parameter is not
        **planned_limits(every, block, site),
        "runs_in_job": 1 if tag.APART in every else repeats,
        "repeats": ",".join(str(number + 1) for number in range(repeats if tag.APART in every else 1)),
        "devices": ",".join(map(str, points)),
        "batches": {str(devices): ",".join(map(str, batches)) for devices, batches in points.items()},
    }
