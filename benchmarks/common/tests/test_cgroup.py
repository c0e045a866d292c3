"""CPUs, memory and throttling of control groups: on made-up trees of both versions, and on this machine's own."""

import os

import pytest

from benchmarks.common import launch
from benchmarks.common.measure import regions
from jpwr.process.cgroup import Periods, cpu_quota, memory_limit_bytes
from jpwr.regions import RegionTimer


def make_tree(folder, version, own_path, mount_root, files):
    """A process's /proc with one mount of control groups, and the groups' files."""
    proc, mount = folder / "proc", folder / "cgroup"
    for name, text in files.items():
        (mount / name).parent.mkdir(parents=True, exist_ok=True)
        (mount / name).write_text(f"{text}\n")
    proc.mkdir()
    options = {1: "cgroup cgroup rw,cpu,cpuacct,memory", 2: "cgroup2 cgroup2 rw"}[version]
    (proc / "mountinfo").write_text(
        f"22 1 8:1 / / rw - ext4 /dev/sda rw\n33 22 0:29 {mount_root} {mount} rw,relatime shared:9 - {options}\n"
    )
    (proc / "cgroup").write_text(f"3:cpuset:/\n1:cpu,cpuacct,memory:{own_path}\n0::{own_path}\n")
    return proc


@pytest.mark.parametrize(
    ("version", "own_path", "mount_root", "files", "cpus", "memory_bytes"),
    [
        (2, "/a/b", "/", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000"}, 2.0, None),
        (2, "/a/b", "/", {"a/cpu.max": "50000 100000", "a/b/cpu.max": "400000 100000", "memory.max": "max"}, 0.5, None),
        (2, "/", "/", {"cpu.max": "150000 100000", "memory.max": "1000000"}, 1.5, 1000000),  # a pod's own namespace
        (2, "/kubepods/pod1/c", "/kubepods/pod1/c", {"cpu.max": "300000 100000"}, 3.0, None),  # without one
        (2, "/elsewhere", "/docker/c", {"cpu.max": "300000 100000"}, 3.0, None),
        (2, "/a", "/", {"a/cpu.max": "max 100000"}, None, None),
        (1, "/a/b", "/", {"a/cpu.cfs_quota_us": 4, "a/cpu.cfs_period_us": 1, "a/b/cpu.cfs_quota_us": -1}, 4.0, None),
        (1, "/a", "/", {"a/memory.limit_in_bytes": 1 << 30, "memory.limit_in_bytes": 2**63 - 4096}, None, 1 << 30),
        (1, "/a", "/", {"a/cpu.cfs_quota_us": "what"}, None, None),
    ],
)  # fmt: skip
def test_the_tightest_limit_on_the_way_up_counts(tmp_path, version, own_path, mount_root, files, cpus, memory_bytes):
    proc = make_tree(tmp_path, version, own_path, mount_root, files)
    assert (cpu_quota(proc), memory_limit_bytes(proc)) == (cpus, memory_bytes)


@pytest.mark.parametrize(("quota", "cores"), [(0.5, 1), (2.7, 2), (None, 8), (64.0, 8)])
def test_threads_follow_affinity_and_quota(monkeypatch, quota, cores):
    monkeypatch.setattr(launch, "cpu_quota", lambda: quota)
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert launch.usable_cores() == cores


def test_throttling_is_of_the_windows_of_a_kind_and_of_the_group_that_waited_most(monkeypatch):
    edges = iter([[(5, 5), (9, 9)], [(15, 6), (19, 13)], [(50, 50), (50, 50)], [(90, 90), (90, 90)]])
    monkeypatch.setattr(regions, "quota_periods", lambda: [Periods(*one) for one in next(edges)])
    marked = regions.MarkedSteps(RegionTimer())
    for kind in ("measured", "effective"):
        marked.begin_window(0.0)
        marked.end_window(kind, 1.0)
    assert marked.throttled_percent("measured") == pytest.approx(40.0)
