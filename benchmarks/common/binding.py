"""A process on the CPUs near its GPU: on a node of several NUMA domains, memory of another one is further away."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.common.gpu_ids import gpu_ids
from benchmarks.common.launch import Launch

PCI_DEVICES = Path("/sys/bus/pci/devices")


def bind(launch: Launch, devices_per_process: int = 1) -> None:
    """Bind this process, and all that it starts, to the CPUs near the GPUs of its local rank, as the kernel lists them.

    What a launcher has bound is narrowed and never widened. Nothing happens where no GPU tells where it is, or where
    none of the CPUs near it may be used. Threads that are there already stay where they are.
    """
    first = launch.local_rank * devices_per_process
    near: set[int] = set()
    for ids in gpu_ids()[first : first + devices_per_process]:
        near |= _near(ids)
    if near and (bound := near & os.sched_getaffinity(0)):
        os.sched_setaffinity(0, bound)


def _near(ids: str) -> set[int]:
    """The CPUs near a GPU, from its PCI address among its ids; empty where the kernel does not say."""
    for address in ids.split():
        try:
            return _cpus((PCI_DEVICES / address.lower() / "local_cpulist").read_text())
        except (OSError, ValueError):
            continue
    return set()


def _cpus(listed: str) -> set[int]:
    """CPUs of a list as the kernel writes it, such as 0-3,8."""
    found: set[int] = set()
    for part in filter(None, listed.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
