"""The points of a sweep: the numbers of devices, and for each the global batch sizes, that can run.

A system's own sweep is filtered: what cannot run is left out. What a user asks for, by CARAML_DEVICES and
CARAML_BATCHES or the same keys of site.yaml, takes its place, and is refused where it cannot run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.common.options import ConfigError
from caraml.errors import SiteError
from caraml.plan.site import Site
from caraml.plan.systems import Block
from caraml.plan.workloads import Workload


def numbers(text: str, key: str) -> list[int]:
    """Numbers of 1 or more, in their order and each once; raises SiteError for anything else."""
    words = text.replace(",", " ").split()
    if not all(word.isdecimal() and int(word) for word in words):
        raise SiteError(f"{key} is {text!r}: give numbers of 1 or more, such as '1 2 4'")
    return sorted({int(word) for word in words})


def fitting_devices(
    known: Workload, model: str, sweep: Sequence[int], asked: Sequence[int] = (), most: int | None = None
) -> list[int]:
    """The numbers of devices to run on: those asked for, or those of a sweep that fit the model's layout.

    Where none of the sweep does, the smallest that can. Raises ConfigError for one that was asked for and cannot run,
    and when the smallest is more than `most`, the devices that there are.
    """
    needed = known.devices_needed(model)
    for number in asked:
        if number % needed:
            raise ConfigError(f"{number} devices were asked for: its layout takes a multiple of {needed}")
        if most and number > most:
            raise ConfigError(f"{number} devices were asked for, and there are {most}")
    fitting = list(asked) or [number for number in sweep if number % needed == 0] or [needed]
    if most and fitting[0] > most:
        raise ConfigError(f"its layout takes {needed} devices, and there are {most}: use a smaller model")
    return fitting


def fitting_batches(check: Callable[[int], None], sweep: Sequence[int], asked: Sequence[int] = ()) -> list[int]:
    """The global batch sizes to run: those asked for, or those of a sweep for which `check` raises no ConfigError.

    Raises ConfigError for one that was asked for and cannot run, and when none can.
    """
    for batch in asked:
        check(batch)
    if asked:
        return list(asked)
    fitting, reason = [], ConfigError("no global batch size was given")
    for batch in sweep:
        try:
            check(batch)
        except ConfigError as error:
            reason = error
        else:
            fitting.append(batch)
    if not fitting:
        raise reason
    return fitting


def sweep(known: Workload, block: Block, site: Site, model: str) -> dict[int, list[int]]:
    """Return the global batch sizes to run for each number of devices; raises SiteError where none can run."""
    facts = known.facts
    asked = {key: numbers(getattr(site, key), f"CARAML_{key.upper()}") for key in ("devices", "batches")}
    micro_batch = facts.value("micro_batch_size", block, model) if "micro_batch_size" in facts.parameters else ""
    batches = numbers(facts.resolve(facts.batches, block, model), "the sweep of batches")
    devices_sweep = numbers(str(block["devices_sweep"]), "devices_sweep")
    most = int(block["devices_per_node"]) if site.submit_of(block) == "bash" else None
    found, where = {}, model
    try:
        for devices in fitting_devices(known, model, devices_sweep, asked["devices"], most):
            where = f"{model} on {devices} devices"
            pipeline = devices if block["vendor"] == "graphcore" else None  # one pipeline of all IPUs
            check = partial(
                known.check_point,
                model,
                devices,
                micro_batch_size=int(micro_batch) if micro_batch else None,
                pipeline_parallel_size=pipeline,
            )
            found[devices] = fitting_batches(check, batches, asked["batches"])
    except ConfigError as error:
        raise SiteError(f"{where}: {error}") from error
    return found
