"""Points of a sweep: the numbers of devices that can run, and the global batch sizes for each.

Points of a system's own sweep that cannot run are left out. CARAML_DEVICES and CARAML_BATCHES, or the same keys of
site.yaml, replace the sweep; a point of theirs that cannot run is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from benchmarks.common.options import ConfigError
from caraml.errors import SiteError
from caraml.plan.site import Site
from caraml.plan.workloads import Workload
from results.files.systems import System


def numbers(text: str, key: str) -> list[int]:
    """Return the numbers of 1 or more in a text, sorted and without duplicates; raises SiteError for other words."""
    words = text.replace(",", " ").split()
    if not all(word.isdecimal() and int(word) for word in words):
        raise SiteError(f"{key} is {text!r}: give numbers of 1 or more, such as '1 2 4'")
    return sorted({int(word) for word in words})


def _text(number: int) -> str:
    from record.values import devices_text  # for messages alone: JUBE plans each step

    return devices_text(number)


def fitting_devices(
    known: Workload,
    model: str,
    sweep: Sequence[int],
    asked: Sequence[int] = (),
    most: int | None = None,
    least: int = 1,
) -> list[int]:
    """Return the numbers of devices to run on: those asked for, or those of a sweep that fit the model's layout.

    `least` devices hold the model. If none of the sweep fits, the smallest that does is returned. Raises ConfigError
    for an asked number that does not fit, and if the smallest exceeds `most`, the available devices.
    """
    needed = known.devices_needed(model)
    for number in asked:
        verb = "was" if number == 1 else "were"
        if number % needed:
            raise ConfigError(f"{_text(number)} {verb} asked for: its layout takes a multiple of {needed}")
        if number < least:
            raise ConfigError(f"{_text(number)} {verb} asked for: its weights and cache take the memory of {least}")
        if most and number > most:
            raise ConfigError(f"{_text(number)} {verb} asked for, and there are {most}")
    fitting = list(asked) or [number for number in sweep if number % needed == 0 and number >= least]
    fitting = fitting or [max(needed, least)]
    if most and fitting[0] > most:
        raise ConfigError(f"its layout takes {needed} devices, and there are {most}: use a smaller model")
    return fitting


def fitting_batches(check: Callable[[int], None], sweep: Sequence[int], asked: Sequence[int] = ()) -> list[int]:
    """Return the global batch sizes to run: those asked for, or those of a sweep that pass `check`.

    Raises ConfigError for an asked one that cannot run, and if none can.
    """
    fitting, reason = [], ConfigError("no global batch size was given")
    for batch in asked or sweep:
        try:
            check(batch)
        except ConfigError as error:
            if asked:
                raise
            reason = error
        else:
            fitting.append(batch)
    if not fitting:
        raise reason
    return fitting


def sweep(
    known: Workload, block: System, site: Site, model: str, batches_of: str = "", tags: Collection[str] = ()
) -> dict[int, list[int]]:
    """Return the global batch sizes to run for each number of devices; raises SiteError if none can run.

    `batches_of` are those of a sweep, in the form of `batches` of workload.yaml, which is the default.
    """
    facts = known.facts
    asked = {key: numbers(getattr(site, key), f"CARAML_{key.upper()}") for key in ("devices", "batches")}
    micro_batch = facts.value("micro_batch_size", block.values, model) if "micro_batch_size" in facts.parameters else ""
    batches = numbers(facts.resolve(batches_of or facts.batches, block.values, model), "the sweep of batches")
    devices_sweep = numbers(facts.resolve(facts.devices, block.values, model) or block.devices_sweep, "devices_sweep")
    most = block.devices_per_node if site.submit_of(block) == "bash" else None
    found: dict[int, list[int]] = {}
    devices = 0
    try:
        least = known.least_devices(block, model, {*tags, *site.flags_of(facts.name).split()})
        for devices in fitting_devices(known, model, devices_sweep, asked["devices"], most, least):
            pipeline = devices if block.vendor == "graphcore" else None  # one pipeline over all IPUs
            check = partial(
                known.check_point,
                model,
                devices,
                micro_batch_size=int(micro_batch) if micro_batch else None,
                pipeline_parallel_size=pipeline,
            )
            found[devices] = fitting_batches(check, batches, asked["batches"])
    except ConfigError as error:
        where = f" on {_text(devices)}" if devices else ""
        raise SiteError(f"{model or facts.title}{where}: {error}") from error  # a node check has no model
    return found
