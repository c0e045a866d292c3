"""A workload on a system: what its workload.yaml says and, where it has one, its points.py."""

from __future__ import annotations

import importlib
from typing import Any

from benchmarks.common.batch_plan import check_shares
from caraml.errors import SiteError, near
from caraml.plan.systems import Block
from results.workloads import FOLDERS, Facts, workloads


class Workload:
    """Facts and points of a workload; without points any number of devices can share a batch that it divides."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        has_points = (FOLDERS / facts.name / "points.py").is_file()
        self._points: Any = importlib.import_module(f"benchmarks.{facts.name}.points") if has_points else None

    def devices_needed(self, model: str) -> int:
        """Return the number that devices must be a multiple of, for a model's layout."""
        return int(self._ask("devices_needed", 1, model))

    def check_point(self, model: str, num_devices: int, global_batch_size: int, **layout: int | None) -> None:
        """Raise ConfigError unless that many devices can share that batch; what of `layout` is None is the model's."""
        if hasattr(self._points, "check_point"):
            self._ask("check_point", None, model, num_devices, global_batch_size, **layout)
        else:
            check_shares(num_devices, global_batch_size)

    def flops_per_sample(self, block: Block, model: str) -> float:
        """Return the model FLOPs of training on one sample; 0: not known."""
        return float(self._ask("flops_per_sample", 0.0, lambda name: self.facts.value(name, block, model), model))

    def decoder(self, model: str) -> dict[str, int] | None:
        """Return shape and layout of a model that is a decoder; None for others."""
        try:
            return self._ask("decoder", None, model)  # type: ignore[no-any-return]
        except SiteError:
            return None

    def memory_bytes(self, model: str, num_devices: int, global_batch_size: int, precision: str) -> float:
        """Estimate what the fullest device holds; 0: not known."""
        return float(self._ask("memory_bytes", 0.0, model, num_devices, global_batch_size, precision))

    def _ask(self, name: str, otherwise: Any, *arguments: Any, **layout: Any) -> Any:
        """Call one of its points' functions; raises SiteError for a model that they do not know."""
        if not hasattr(self._points, name):
            return otherwise
        try:
            return getattr(self._points, name)(*arguments, **layout)
        except KeyError as error:
            raise SiteError(f"{self.facts.title} has no model {error.args[0]}") from error


def workload(benchmark: str) -> Workload:
    """The workload of that name; raises SiteError when there is none."""
    known = workloads()
    if benchmark not in known:
        raise SiteError(f"there is no workload '{benchmark}': {near(benchmark, known)}")
    return Workload(known[benchmark])


def refusal(facts: Facts, block: Block) -> str:
    """Why a workload does not run on a system, and what to do; empty where it does."""
    vendor = block["vendor"]
    if vendor not in facts.refused:
        return ""
    others = [f"jube/{other.workflow}.yaml" for other in workloads().values() if vendor not in other.refused]
    instead = f", or run {' or '.join(others)} on this one" if others else ""
    return f"it is not there on {block['accelerator']}: {facts.refused[vendor]}; choose another system{instead}"
