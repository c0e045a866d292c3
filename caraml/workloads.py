"""A workload on a system, for the workflow: what its workload.yaml says and, where it has one, its points.py.

    python -m caraml.workloads BENCHMARK SYSTEM [MODEL]

prints, as a Python dictionary, its unit of work, framework, model and parameters.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.common.batch_plan import check_shares
from caraml.errors import CaramlError, SiteError, near
from caraml.installation import missing_package
from caraml.systems import Block, read_system
from results.records import RecordError
from results.workloads import FOLDERS, Facts, workloads

ALONE = {"pytorch": "python3 -m torch.distributed.run", "tensorflow": "python3 -m benchmarks.common.spawn"}


class Workload:
    """What its facts and its points say; without points any number of devices shares any batch that it divides."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        has_points = (FOLDERS / facts.name / "points.py").is_file()
        self._points: Any = importlib.import_module(f"benchmarks.{facts.name}.points") if has_points else None

    def devices_needed(self, model: str) -> int:
        """The number that devices must be a multiple of, for a model's layout."""
        return int(self._ask("devices_needed", model)) if hasattr(self._points, "devices_needed") else 1

    def check_point(self, model: str, num_devices: int, global_batch_size: int, **layout: int | None) -> None:
        """Raise ConfigError unless that many devices can share that batch; what of `layout` is None is the model's."""
        if hasattr(self._points, "check_point"):
            self._ask("check_point", model, num_devices, global_batch_size, **layout)
        else:
            check_shares(num_devices, global_batch_size)

    def flops_per_sample(self, block: Block, model: str) -> float:
        """Model FLOPs of training on one sample; 0: not known."""
        if not hasattr(self._points, "flops_per_sample"):
            return 0.0
        value: Callable[[str], str] = lambda name: self.facts.value(name, block, model)  # noqa: E731
        return float(self._ask("flops_per_sample", value, model))

    def decoder(self, model: str) -> dict[str, int] | None:
        """Shape and layout of a model that is a decoder; None for others."""
        if not hasattr(self._points, "decoder"):
            return None
        try:
            return dict(self._points.decoder(model))
        except KeyError:
            return None

    def memory_bytes(self, model: str, num_devices: int, global_batch_size: int, precision: str) -> float:
        """Estimate of what the fullest device holds; 0: not known."""
        if not hasattr(self._points, "memory_bytes"):
            return 0.0
        return float(self._ask("memory_bytes", model, num_devices, global_batch_size, precision))

    def _ask(self, name: str, *arguments: Any, **layout: Any) -> Any:
        """One of its points' functions; raises SiteError for a model that they do not know."""
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


def on_system(facts: Facts, block: Block, model: str) -> dict[str, str]:
    """What a workflow needs of a workload on a system, each as text; raises SiteError where it does not run."""
    if why := refusal(facts, block):
        raise SiteError(f"{facts.title} was asked for on {block['system_name']}, but {why}")
    model = model or facts.default_model(block)
    return {
        "work_unit": facts.work_unit,
        "framework": facts.framework,
        "start": ALONE[facts.framework],
        "max_measured_s": str(facts.max_measured_s),
        "model": model,
        **{name: facts.value(name, block, model) for name in facts.parameters},
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m caraml.workloads", description="A workload on a system.")
    parser.add_argument("benchmark", help="a folder of benchmarks/")
    parser.add_argument("system")
    parser.add_argument("model", nargs="?", default="", help="its size or variant; default: the system's own")
    options = parser.parse_args(argv)
    try:
        found = on_system(workload(options.benchmark).facts, read_system(options.system), options.model)
    except (CaramlError, RecordError, ImportError) as error:
        sentence = missing_package(error) if isinstance(error, ImportError) else error
        print(f"workload: {sentence}", file=sys.stderr)
        return 2
    print(found, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
