"""This process among all that train together, its node, and its marks for the sampler.

torchrun sets the ranks in the environment; a process that was started alone is a world of one.
"""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.common.options import ConfigError
from benchmarks.common.record import MEASURED, Device, Window
from jpwr.process.cgroup import cpu_quota
from jpwr.process.host import boot_id as boot_id
from jpwr.process.host import node_name as node_name
from jpwr.trace.marks import mark as mark
from record.model import COPIES_VARIABLE as COPIES_VARIABLE

COPY_VARIABLE = "CARAML_COPY"  # number of this one of several copies of a point, from 1; unset: it is alone
CORES_VARIABLE = "CARAML_CORES"  # share of the node's CPUs for one of several copies of a point; unset: all
FOLDER_VARIABLE = "CARAML_COPIES_FOLDER"  # which the copies share
FAILED_COPY = "failed"  # file there with number and exit code of the copy that failed first


@dataclass(frozen=True)
class Launch:
    """One process among `world_size`; ranks are counted from 0."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    node_cores: int = field(default_factory=lambda: usable_cores(), compare=False)  # before this process is bound

    @property
    def own_cores(self) -> int:
        """Number of CPUs of this process: its share of those of the node, of which a binding may have left fewer."""
        return max(1, min(usable_cores(), self.node_cores // self.local_world_size))

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.world_size // self.local_world_size

    @property
    def is_first_on_node(self) -> bool:
        """Whether this is the first process of its node."""
        return self.local_rank == 0


def read_launch(environ: Mapping[str, str] = os.environ) -> Launch:
    """Return the ranks from torchrun's variables; raises ConfigError if only some of them are set."""
    names = {
        "rank": "RANK",
        "world_size": "WORLD_SIZE",
        "local_rank": "LOCAL_RANK",
        "local_world_size": "LOCAL_WORLD_SIZE",
    }
    found = {field: environ[name] for field, name in names.items() if name in environ}
    if not found:
        return Launch()
    if len(found) < len(names):
        missing = ", ".join(name for field, name in names.items() if field not in found)
        raise ConfigError(f"the launcher set some ranks but not {missing}: start with torchrun, or alone")
    return Launch(**{field: int(value) for field, value in found.items()})


def check_gpus(asked: str, shown: int, launch: Launch, framework: str) -> None:
    """Raise ConfigError unless a framework shows a GPU for each process of this node, or none if none was asked for."""
    if asked == "gpu" and not shown:
        raise ConfigError(
            f"--device gpu was asked for, but {framework} shows none: use a build for your GPUs, or --device cpu"
        )
    if 0 < shown < launch.local_world_size:
        raise ConfigError(
            f"{launch.local_world_size} processes were started on a node that shows {shown} GPUs: start one process "
            "per GPU"
        )


def node_window(start_s: float, end_s: float, kind: str = MEASURED) -> Window:
    """Return a window of this node from two times of its monotonic clock, with the same moments on the wall clock."""
    epoch_offset_s = time.time() - time.monotonic()
    edges_s = {"start_s": start_s, "end_s": end_s}
    of_wall_s = {"start_epoch_s": start_s + epoch_offset_s, "end_epoch_s": end_s + epoch_offset_s}
    return Window.of({"hostname": node_name(), "boot_id": boot_id(), **edges_s, **of_wall_s, "kind": kind})


def mark_window(launch: Launch, edge: str, kind: str, time_s: float) -> None:
    """Mark the edge ("begin", "end") of a window of a kind, once on each node."""
    if launch.is_first_on_node:
        copy = os.environ.get(COPY_VARIABLE)
        mark(edge, f"{kind} window" + (f" of copy {copy}" if copy else ""), time_s)


def usable_cores() -> int:
    """Return the number of CPUs that this process can use: those it may run on, within its quota and a copy's share."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = float(os.environ.get(CORES_VARIABLE, math.inf))
    return max(1, int(min(bound, cpu_quota() or math.inf, share)))


def usable_cpus() -> str:
    """Return the CPUs that this process may run on, as the kernel lists them: 0-3,8. Empty if not known."""
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    first = [cpu for cpu in cpus if cpu - 1 not in cpus]
    last = [cpu for cpu in cpus if cpu + 1 not in cpus]
    return ",".join(str(one) if one == end else f"{one}-{end}" for one, end in zip(first, last, strict=True))


def described_device(launch: Launch, name: str, device_id: str = "", peak_memory_bytes: int | None = None) -> Device:
    """Return a device of this process for its record."""
    return Device(
        hostname=node_name(),
        rank=launch.rank,
        name=name,
        device_id=device_id,
        peak_memory_bytes=peak_memory_bytes,
        cpus=usable_cpus(),
    )


def peak_memory_bytes() -> int:
    """Return the peak memory of this process since its program started, in bytes.

    From the kernel's VmHWM, as getrusage also counts the process that this one was forked from.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        status = ""
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024  # in kB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux reports KiB
