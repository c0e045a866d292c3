"""Options of every workload on TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.common import options
from benchmarks.common.options import ConfigError, SampleConfig, option


@dataclass(frozen=True)
class ComputeOptions(options.ComputeOptions):
    """Compute."""

    xla: str = option(
        "auto", "compile the step with XLA; auto: on GPUs, as it is slower on CPUs", ("auto", "on", "off")
    )
    steps_per_call: int = option(1, "optimizer steps per call into TensorFlow")


@dataclass(frozen=True)
class TensorFlowConfig(SampleConfig):
    """All options of a run on TensorFlow; raises ConfigError for combinations that TensorFlow cannot run."""

    compute: ComputeOptions

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.turns.effective and self.compute.device == "ipu":
            raise ConfigError("--effective cannot time single steps on an IPU: measure twice, with and without files")
