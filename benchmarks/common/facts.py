"""Model FLOPs and parameters of a workload, which its workload.yaml states by model."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common.options import ConfigError

FOLDERS = Path(__file__).resolve().parents[1]


class Flops(NamedTuple):
    """Model FLOPs to train on one unit of work, and the source of the count; None if they are not known."""

    per_unit: float | None
    source: str


@cache
def facts(workload: str) -> dict[str, Any]:
    """Return the content of a workload's workload.yaml; raises ConfigError without PyYAML."""
    try:
        import yaml
    except ImportError as error:
        raise ConfigError("PyYAML is not installed, which reads workload.yaml: install pyyaml") from error
    found: dict[str, Any] = yaml.safe_load((FOLDERS / workload / "workload.yaml").read_text(encoding="utf-8"))
    return found


def num_parameters(workload: str, model: str) -> int:
    """Return the number of parameters of a model."""
    return int(facts(workload)["num_parameters"][model])


def flops_of_sample(workload: str, model: str, sample: str) -> Flops:
    """Return the FLOPs of a model by the size of its samples, which are not known for every size."""
    found = facts(workload)
    return Flops(found["flops"][model].get(sample), found["flops_source"])


def flops_of_token(workload: str, model: str, length: int) -> Flops:
    """Return the FLOPs of a model for each token of a sample of some length; attention's grow with it."""
    found = facts(workload)
    [(sample, per_token)] = found["flops"][model].items()
    return Flops(
        per_token + found["flops_per_length"][model] * (length - int(sample.split()[0])), found["flops_source"]
    )
