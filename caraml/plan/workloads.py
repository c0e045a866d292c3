"""A workload on a system, from its workload.yaml and, if it has one, its points.py."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from typing import Any

from benchmarks.common.batch_plan import check_shares
from caraml.errors import SiteError
from caraml.plan.tags import TORCH
from jpwr.messages import meant, near
from results.files.systems import System
from results.files.workloads import FOLDERS, Facts, workloads


class Workload:
    """Facts and points of a workload; without a points.py, any number of devices that divides a batch can share it."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        has_points = (FOLDERS / facts.name / "points.py").is_file()
        self._points: Any = importlib.import_module(f"benchmarks.{facts.name}.points") if has_points else None

    def devices_needed(self, model: str) -> int:
        """Return the number that devices must be a multiple of, for a model's layout."""
        return int(self._ask("devices_needed", 1, model))

    def least_devices(self, block: System, model: str, words: Collection[str]) -> int:
        """Return the least number of devices whose memory holds a model; `words` are tags, and flags of the site.

        Raises ConfigError if the devices of a node do not hold it.
        """

        def value(name: str) -> str:
            """Return a parameter of the workload, or a key of the system's block."""
            of_workload = name in self.facts.parameters
            return self.facts.value(name, block.values, model) if of_workload else str(getattr(block, name))

        return int(self._ask("least_devices", 1, value, model, words))

    def check_point(self, model: str, num_devices: int, global_batch_size: int, **layout: int | None) -> None:
        """Raise ConfigError unless that many devices can share the batch; None in `layout` is the model's own value."""
        if hasattr(self._points, "check_point"):
            self._ask("check_point", None, model, num_devices, global_batch_size, **layout)
        else:
            check_shares(num_devices, global_batch_size)

    def _ask(self, name: str, otherwise: Any, *arguments: Any, **layout: Any) -> Any:
        """Call a function of points.py, or return `otherwise` without it; raises SiteError for an unknown model."""
        if not hasattr(self._points, name):
            return otherwise
        try:
            return getattr(self._points, name)(*arguments, **layout)
        except KeyError as error:
            hint = meant(str(error.args[0]), self.facts.flops)
            unknown = f"{self.facts.title} has no model {error.args[0]}"
            raise SiteError(f"{unknown}: {hint}" if hint else unknown) from error


def workload(benchmark: str) -> Workload:
    """Return the workload of a name; raises SiteError for an unknown one."""
    return Workload(workload_of(benchmark))


def workload_of(name: str) -> Facts:
    """Return the facts of a workload, by its name or by that of its workflow; raises SiteError for an unknown one."""
    known = {facts.workflow: facts for facts in workloads().values()} | workloads()
    if name not in known:
        raise SiteError(f"there is no workload '{name}': {near(name, known)}")
    return known[name]


def workload_on(facts: Facts, block: System | None, tags: Collection[str] = ()) -> tuple[Facts, str]:
    """Return the workload that runs where one is asked for, and why, if no tag chose it.

    `block` is the system's, None for an unknown one.
    """
    reason = block.refused.get(facts.framework) if block else ""
    if not facts.instead or not (reason or TORCH in tags):
        return facts, ""
    other = workload_of(facts.instead)
    return other, f"{other.title} runs in place of {facts.title}: {reason}" if TORCH not in tags else ""


def reason_against(facts: Facts, block: System) -> str:
    """Return why a workload does not run on a system; empty if it runs."""
    return facts.refused.get(block.vendor) or block.refused.get(facts.framework) or ""


def refusal(facts: Facts, block: System) -> str:
    """Return why a workload does not run on a system, and what to do; empty if it runs."""
    if not (reason := reason_against(facts, block)):
        return ""
    others = {f"jube/{other.workflow}.yaml" for other in workloads().values() if not reason_against(other, block)}
    instead = f", or run {' or '.join(sorted(others))} on this one" if others else ""
    return f"it does not run on {block.accelerator}: {reason}; choose another system{instead}"
