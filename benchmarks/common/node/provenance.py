"""Provenance of a result: code, software, machine, job. Unavailable facts are null and listed as missing."""

from __future__ import annotations

import datetime
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.common.launch import COPIES_VARIABLE, COPY_VARIABLE, node_name, usable_cores
from benchmarks.common.node.programs import ProgramError, ask
from benchmarks.common.node.vendor_tools import Reported, ToolError, amd_smi, nvidia_smi, nvidia_topology
from jpwr.process.cgroup import cpu_quota, memory_limit_bytes
from jpwr.process.processor import read_processor

REPOSITORY = Path(__file__).resolve().parents[3]
NUMA_NODES = Path("/sys/devices/system/node")
TIMEOUT_S = 20  # of git
# Listed by name, as the whole environment may contain secrets.
ENVIRONMENT = (
    COPY_VARIABLE,
    COPIES_VARIABLE,
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_VISIBLE_DEVICES",
    "GLOO_SOCKET_IFNAME",
    "GOMP_SPINCOUNT",
    "GPU_MAX_HW_QUEUES",
    "HIP_VISIBLE_DEVICES",
    "NCCL_ALGO",
    "NCCL_DEBUG",
    "NCCL_IB_HCA",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_PROTO",
    "NCCL_SOCKET_IFNAME",
    "NVIDIA_TF32_OVERRIDE",
    "NVTE_FUSED_ATTN",
    "OMP_NUM_THREADS",
    "PYTORCH_CUDA_ALLOC_CONF",
    "ROCR_VISIBLE_DEVICES",
    "SLURM_CPUS_PER_TASK",
    "SLURM_JOB_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_JOB_PARTITION",
    "SLURM_NNODES",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_XLA_FLAGS",
    "XLA_FLAGS",
)
# nvidia-smi --help-query-gpu
NVIDIA_FACTS = (
    "name",
    "uuid",
    "driver_version",
    "vbios_version",
    "memory.total",
    "power.limit",
    "power.default_limit",
    "power.max_limit",
    "clocks.max.sm",
    "clocks.max.memory",
    "clocks.applications.graphics",
    "ecc.mode.current",
    "mig.mode.current",
    "persistence_mode",
    "compute_mode",
    "pcie.link.gen.max",
    "pcie.link.width.max",
)
TOOLS: dict[str, Callable[[], Reported]] = {"nvidia-smi": partial(nvidia_smi, *NVIDIA_FACTS), "amd-smi": amd_smi}


def collect_provenance(packages: Sequence[str]) -> dict[str, Any]:
    """Return the origin of this run's results; `packages` are distributions whose versions matter.

    `nodes` has this node alone, until the benchmark gathers the others.
    """
    node = _node_facts()
    found = {
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": sys.orig_argv,
        "git_commit": commit(),
        "git_dirty": has_changes(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in packages},
        "container": os.environ.get("CARAML_IMAGE"),
        "container_digest": os.environ.get("CARAML_IMAGE_DIGEST") or None,
        "exclusive": os.environ.get("CARAML_EXCLUSIVE") or None,
        "environment": environment(),
    }
    return found | {"hostname": node["hostname"], "nodes": [node], "missing": _unknown(found)}


def _node_facts() -> dict[str, Any]:
    """Return the facts on this node: kernel, processors, memory, and devices from the vendor's own tools."""
    devices, missing = _devices()
    found = {
        "hostname": node_name(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu": read_processor().name or None,
        "cpus_usable": usable_cores(),
        "limits": {"cpus": cpu_quota(), "memory_bytes": memory_limit_bytes()},
        "memory_kib": _first_match("/proc/meminfo", r"^MemTotal:\s*(\d+) kB$"),
        "numa_cpus": _numa_cpus(),
        "devices": devices,
        "topology": nvidia_topology(),
    }
    return found | {"missing": [*missing, *_unknown(found)]}


def _unknown(facts: Mapping[str, Any]) -> list[str]:
    return sorted(key for key, value in facts.items() if value is None)


def _numa_cpus() -> dict[str, str] | None:
    """Return the CPUs of each NUMA node, as the kernel lists them."""
    found = {}
    for path in sorted(NUMA_NODES.glob("node[0-9]*/cpulist")):
        try:
            found[path.parent.name] = path.read_text().strip()
        except OSError:
            continue
    return found or None


def _devices() -> Reported:
    """Return the facts on each device from the first vendor's tool that is installed and reports any."""
    missing = []
    for tool, read in TOOLS.items():
        if shutil.which(tool):
            try:
                facts, not_reported = read()
            except ToolError as error:
                missing.append(str(error))
            else:
                return Reported(facts, (*missing, *not_reported))
    return Reported(None, tuple(missing))


def _git(*arguments: str) -> str | None:
    try:
        done = ask("git", "-C", str(REPOSITORY), *arguments, limit_s=TIMEOUT_S)
    except ProgramError:
        return None
    return None if done.returncode else done.stdout.strip() or None


def commit() -> str | None:
    """Return this checkout's commit; in a copy, or without git, the commit that the copy was made from."""
    return _git("rev-parse", "HEAD") or os.environ.get("CARAML_GIT_COMMIT") or None


def has_changes() -> bool | None:
    """Return whether tracked files of this checkout differ from its commit; None if it is not known."""
    if _git("rev-parse", "HEAD") is None:
        return {"True": True, "False": False}.get(os.environ.get("CARAML_GIT_DIRTY", ""))
    return _git("status", "--porcelain", "--untracked-files=no") is not None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _first_match(path: str, pattern: str) -> str | None:
    try:
        found = re.search(pattern, Path(path).read_text(), re.MULTILINE)
    except OSError:
        return None
    return found[1] if found else None


def environment() -> dict[str, str]:
    """Return the current environment variables that can change a run."""
    return {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
