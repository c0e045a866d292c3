"""Devices on which a server computes, and whose energy counts."""

from __future__ import annotations

import os
from collections.abc import Sequence

from benchmarks.common.launch import node_name, usable_cpus
from benchmarks.common.node.gpu_ids import gpu_ids
from benchmarks.common.options import ConfigError
from benchmarks.common.record import Device
from benchmarks.llm_inference.config import Config
from benchmarks.llm_inference.listeners import processes_of
from jpwr.backends.nvml import devices_used_by
from jpwr.backends.visible import narrowed
from jpwr.process.words import number_of


def devices_of(config: Config) -> list[Device]:
    """Return the devices that the server uses; raises ConfigError where there are fewer than asked for."""
    count = config.serve.devices
    if config.device == "cpu":
        return [Device(hostname=node_name(), name="processor", device_id="", cpus=usable_cpus()) for _ in range(count)]
    ids = gpu_ids()
    if len(ids) < count:
        raise ConfigError(f"--devices {count} was asked for, but the node has {number_of(len(ids), 'device')}")
    if len(ids) > count:
        os.environ.update(narrowed(os.environ, 0, count))
    return _gpus(ids[:count])


def devices_of_running(config: Config, port: int) -> list[Device]:
    """Return the devices on which the processes of a server compute that was not started here.

    Raises ConfigError if they are unknown and the node has more than asked for, or if their number is another one.
    """
    count = config.serve.devices
    if config.device == "cpu":
        return devices_of(config)
    used = devices_used_by(processes_of(port))
    if not used and (there := len(gpu_ids())) > count:
        raise ConfigError(
            f"--devices {count} was asked for, but NVML lists no process of the server on any of the {there} GPUs: "
            "set CUDA_VISIBLE_DEVICES to the UUIDs of its GPUs, or on AMD HIP_VISIBLE_DEVICES to their numbers, or "
            "give --device cpu if it uses none"
        )
    if used and len(used) != count:
        raise ConfigError(
            f"--devices {count} was asked for, but the server uses {number_of(len(used), 'GPU')} ({', '.join(used)}): "
            f"give --devices {len(used)}"
        )
    return _gpus(used) if used else devices_of(config)


def _gpus(ids: Sequence[str]) -> list[Device]:
    return [
        Device(hostname=node_name(), rank=rank, name="", device_id=one, cpus=usable_cpus())
        for rank, one in enumerate(ids)
    ]
