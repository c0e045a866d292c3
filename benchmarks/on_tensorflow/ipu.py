"""Graphcore's IPUs, by the TensorFlow of the Poplar SDK. Written from its documentation, never run on hardware.

Source: Graphcore, Targeting the IPU from TensorFlow 2, version 3.4: "Distributed training" (IPUStrategy) and "Training
loops" (steps in one compiled loop).
"""

from __future__ import annotations

from typing import Any

from benchmarks.common.launch import Launch
from benchmarks.common.options import ConfigError
from benchmarks.on_tensorflow.options import ComputeOptions

WITHOUT = "--device ipu needs the TensorFlow of the Poplar SDK, which has tensorflow.python.ipu: use its container"


def open_ipu(options: ComputeOptions, launch: Launch) -> Any:
    """Return a strategy on one IPU; raises ConfigError for unsupported options, and without the SDK."""
    if launch.world_size > 1:
        raise ConfigError("--device ipu trains on one IPU: start one process")
    if options.precision == "bf16":
        raise ConfigError("--precision bf16 was asked for, but IPUs have none: use fp16 or fp32")
    if options.xla == "off":
        raise ConfigError("--xla off was asked for, but IPUs run compiled programs only: leave the flag out")
    try:
        from tensorflow.python import ipu
    except ImportError as error:
        raise ConfigError(WITHOUT) from error
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    return ipu.ipu_strategy.IPUStrategy()
