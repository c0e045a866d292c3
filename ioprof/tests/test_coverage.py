"""How much was seen is said, and which way is missing."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from ioprof.counters import read_counters
from ioprof.counts import FileCounts, ProcessCounts, Stretches
from ioprof.coverage import Watched, coverage
from ioprof.library import library
from ioprof.watch import Watcher, rchar
from jpwr.tests.conftest import wait_until
from tests.needs import need_real_processor

SIZE = 2_000_000


@pytest.fixture
def data(tmp_path):
    need_real_processor("the kernel's counts and maps of a process are those of qemu")
    path = tmp_path / "data.bin"
    path.write_bytes(bytes(SIZE))
    return path


@contextmanager
def looked_at(tmp_path, *command, **variables):
    """What is seen from outside of a command that has read all and waits for a line, and its counters."""
    counters = tmp_path / "counters"
    counters.mkdir()
    counting = library()
    environ = {**os.environ, "LD_PRELOAD": str(counting), "IOPROF_COUNTERS": str(counters), **variables}
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: (rchar(Path(f"/proc/{process.pid}")) or 0) >= SIZE, "the program's reads")
            yield Watcher(lambda: process.pid, counting, counters).seen(), counters
        finally:
            process.communicate(b"\n")


def counted(counters):
    return [found for path in counters.iterdir() if (found := read_counters(path))]


def test_a_program_that_is_linked_statically_is_named_with_what_it_read(tmp_path, static_reader, data):
    with looked_at(tmp_path, static_reader, "wait", str(data)) as ([found], counters):
        assert found.is_static
        assert not found.has_library
        covered = coverage(found.kernel_bytes, counted(counters), [found])
    assert covered.share < 0.01
    [sentence] = covered.missing
    assert sentence.startswith("2.0 MB or more in 'static_reader wait")
    assert "linked statically" in sentence


def test_a_program_without_the_library_is_named(tmp_path, reader, data):
    with looked_at(tmp_path, reader, "wait", str(data), LD_PRELOAD="") as ([found], counters):
        covered = coverage(found.kernel_bytes, counted(counters), [found])
    [sentence] = covered.missing
    assert "runs without the library: its environment was cleared" in sentence


def test_a_program_with_the_library_is_covered(tmp_path, reader, data):
    with looked_at(tmp_path, reader, "wait", str(data)) as ([found], counters):
        assert found.has_library
        assert not (found.is_static or found.has_ring or found.is_left)
        covered = coverage(found.kernel_bytes, counted(counters), [found])
    assert covered.share > 0.99
    assert covered.missing == covered.notes == ()


def test_rings_are_named_as_no_count_has_what_goes_through_them(tmp_path, reader, data):
    try:
        with looked_at(tmp_path, reader, "ring", str(data)) as ([found], counters):
            assert found.has_ring
            covered = coverage(found.kernel_bytes, counted(counters), [found])
    except pytest.fail.Exception:
        assert subprocess.run([reader, "ring", str(data)], check=False).returncode == 5  # a kernel without them
        return
    assert covered.share > 0.99
    assert "has rings of io_uring" in covered.notes[0]


def test_direct_system_calls_are_what_is_missing(ioprof, reader, data):
    found = ioprof(reader, "syscall", str(data), "100000")
    assert found.only(data).bytes == 0
    assert found.profile.coverage.share < 0.01
    [sentence] = found.profile.coverage.missing
    assert "2.0 MB" in sentence
    assert "direct system calls" in sentence
    assert "MISSING" in found.said


def test_all_that_children_of_children_read_is_covered(ioprof, reader, data):
    found = ioprof(
        "sh", "-c", f"sh -c '{reader} fork {data} 100000; true'; sh -c '{reader} threads {data} 100000; true'"
    )
    assert sum(one.bytes for one in found.of(data)) == 10 * SIZE
    assert found.profile.coverage.share > 0.99
    assert found.profile.coverage.kernel_bytes >= 10 * SIZE


def test_a_process_that_is_left_behind_is_counted_as_far_as_it_came(ioprof, reader, tmp_path, data):
    os.mkfifo(tmp_path / "go")
    leave = f"({reader} wait {data} 100000 0<>go >/dev/null 2>&1 & echo $! > pid)"
    wait = r"until grep -q '^rchar: [0-9]\{7\}' /proc/$(cat pid)/io; do sleep 0.01; done"
    try:
        found = ioprof("sh", "-c", f"{leave}; {wait}")
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert found.only(data).bytes == SIZE
    assert SIZE <= found.profile.coverage.kernel_bytes < 1.5 * SIZE
    assert found.profile.coverage.share > 0.9


def of(pid, begin_s, seen_bytes, loader_bytes=0):
    file = FileCounts("/data", 1, 1, seen_bytes, 0.1, 0.1, 1, 0, 0, seen_bytes, (0,) * 10)
    return ProcessCounts(pid, 1, begin_s, "reader", loader_bytes, 0, 0, 0.0, 0, 0, [file], Stretches())


def test_what_a_loader_read_is_known_and_counts_once_where_a_process_executes_again():
    first, second = of(7, 1.0, 1_000_000, 5000), of(7, 2.0, 500_000, 1_010_000)  # which had 1,005,000 by then
    assert coverage(1_510_000, [second, first], []).seen_bytes == 1_510_000


def test_little_that_is_missing_is_not_reported_as_loaders_read_too():
    assert coverage(60_000, [of(7, 1.0, 1000)], []).missing == ()
    assert coverage(160_000, [of(7, 1.0, 1000)], []).missing != ()
    assert coverage(2_000_000, [of(7, 1.0, 1_950_000)], []).missing == ()
    assert coverage(0, [], []).share == 1.0


def test_what_nobody_waited_for_is_added_to_what_the_kernel_counted():
    left = Watched(9, "left", 1_000_000, True, False, False, True)
    found = coverage(1_000_000, [of(7, 1.0, 1_000_000), of(9, 1.5, 1_000_000)], [left])
    assert (found.kernel_bytes, found.share) == (2_000_000, 1.0)


def test_a_process_that_got_the_number_of_one_that_has_ended_is_another(tmp_path, reader, data):
    counters = tmp_path / "counters"
    counters.mkdir()
    with subprocess.Popen([reader, "wait", str(data)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        watcher = Watcher(lambda: os.getpid(), library(), counters)
        tree = {one.pid for one in watcher.seen()}
        stranger = os.getppid()
        assert stranger not in tree
        (counters / f"{stranger}-1").touch()  # counted a nanosecond after the kernel's start
        assert stranger not in {one.pid for one in watcher.seen()}
        (counters / f"{stranger}-1").unlink()
        (counters / f"{stranger}-{time.monotonic_ns()}").touch()
        assert [one.is_left for one in watcher.seen() if one.pid == stranger] == [True]
        process.communicate(b"\n")
