"""Devices on which a server computes, and whose energy counts; its processes, by the kernel's tables in /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.common.launch import node_name, usable_cpus
from benchmarks.common.node.gpu_ids import gpu_ids
from benchmarks.common.options import ConfigError
from benchmarks.common.record import Device
from benchmarks.llm_inference.config import Config
from jpwr.backends.nvml import devices_used_by
from jpwr.backends.visible import narrowed
from jpwr.messages import number_of
from jpwr.process.tree import descendants

PROC = Path("/proc")
LISTENS = "0A"  # TCP_LISTEN of the kernel's include/net/tcp_states.h, as /proc/net/tcp writes it


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


def processes_of(port: int) -> set[int]:
    """Return the processes that listen at a TCP port of this node, and all that descend from them.

    Empty if none can be seen: those of other users, and of other PID or network namespaces, cannot.
    """
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    every = [int(path.name) for path in PROC.glob("[0-9]*")]
    found = {pid for pid in every if sockets & set(_files(pid))} if sockets else set()
    return found | descendants(found)


def _listening(port: int) -> Iterator[str]:
    """Yield the inodes of the sockets that listen at a port (Linux, Documentation/networking/proc_net_tcp.rst)."""
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (PROC / "net" / name).read_text().splitlines()[1:]:
                _, local, _, state, *rest = line.split()
                if state == LISTENS and int(local.rpartition(":")[2], 16) == port:
                    yield rest[5]


def _files(pid: int) -> Iterator[str]:
    with suppress(OSError):  # it has ended, or is another user's
        for path in (PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                yield str(path.readlink())
