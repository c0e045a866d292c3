"""What ioprof says equals what was done."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from ioprof.counts import SIZE_CLASSES
from ioprof.summary import by_file
from ioprof.tests.conftest import run_ioprof
from jpwr.tests.conftest import DEADLINE_S, environment

LINE = b"seventy-eight characters and an end of line, which fgets and getline stop at...\n"
assert len(LINE) == 80
SIZE = 100_000  # lines and steps of 1000 bytes both divide it


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.bin"
    path.write_bytes(LINE * (SIZE // len(LINE)))
    return path


def python(*lines):
    """A program of the standard library alone."""
    return [sys.executable, "-ISc", "\n".join(lines)]


@pytest.mark.parametrize(
    ("way", "reads", "sequential"),
    [
        ("read", 101, 101),  # the last one returns 0
        ("pread", 101, 101),
        ("backwards", 100, 0),
        ("readv", 101, 101),
        ("preadv", 101, 101),
        ("preadv2", 101, 101),
        ("fread", 101, 101),
        ("fgets", SIZE // len(LINE), SIZE // len(LINE)),
        ("getline", SIZE // len(LINE), SIZE // len(LINE)),
        ("fgetc", 1, 1),  # seen when the file is closed
        ("fdopen", 101, 101),
        ("freopen", 101, 101),
        ("sendfile", 101, 101),
        ("killed", 101, 101),
        ("deleted", 101, 101),
        ("dup", 101, 101),
        ("vfork", 101, 101),
    ],
)
def test_every_byte_is_counted_whatever_function_reads_it(ioprof, reader, data, way, reads, sequential):
    found = ioprof(reader, way, str(data))
    counts = found.only(data)
    assert found.done.stdout == b"%d\n" % SIZE
    assert (counts.opens, counts.reads, counts.bytes, counts.sequential_reads) == (1, reads, SIZE, sequential)
    assert counts.size_bytes == SIZE
    assert counts.maps == 0
    assert sum(counts.sizes) == reads
    [process] = [one for one in found.profile.processes if str(data) in {file.path for file in one.files}]
    own = [one for one in process.stretches if process.files[one.file].path == str(data)]
    assert (sum(one.bytes for one in own), sum(one.reads for one in own)) == (SIZE, reads)
    assert sum(one.busy_s for one in own) == pytest.approx(counts.read_s, abs=1e-6)
    assert all(found.profile.about["begin_s"] < one.begin_s <= one.end_s < found.profile.about["end_s"] for one in own)


def test_reads_are_reported_by_their_sizes(ioprof, reader, data):
    counts = ioprof(reader, "read", str(data), "30000").only(data)
    assert dict(zip(SIZE_CLASSES, counts.sizes)) == {
        **dict.fromkeys(SIZE_CLASSES, 0),
        "0-100": 1,
        "1K-10K": 1,
        "10K-100K": 3,
    }


def test_mapped_bytes_are_distinguished_as_nobody_knows_what_is_read_of_them(ioprof, reader, data):
    found = ioprof(reader, "mmap", str(data))
    counts = found.only(data)
    assert (counts.maps, counts.mapped_bytes, counts.reads, counts.bytes) == (1, SIZE, 0, 0)
    assert "0.1 MB were mapped" in found.said


def test_a_stream_counts_what_the_program_got_of_it(ioprof, reader, data):
    counts = ioprof(reader, "fread_half", str(data)).only(data)
    assert (counts.reads, counts.bytes, counts.sequential_reads) == (1, 1000, 0)


def test_threads_that_read_the_same_file_lose_nothing(ioprof, reader, data):
    counts = ioprof(reader, "threads", str(data)).only(data)
    assert (counts.opens, counts.reads, counts.bytes, counts.sequential_reads) == (8, 808, 8 * SIZE, 808)


def test_a_signal_handler_that_reads_is_counted(ioprof, reader, data):
    counts = ioprof(reader, "handler", str(data)).only(data)
    assert (counts.reads, counts.bytes, counts.sequential_reads) == (200, 200, 200)


def test_a_child_counts_for_itself_also_what_its_parent_has_opened_and_at_an_end_without_destructors(
    ioprof, reader, data
):
    found = ioprof(reader, "fork", str(data))
    parent, child = found.of(data)
    assert (parent.opens, parent.bytes, parent.sequential_reads) == (1, 1000, 1)
    assert (child.opens, child.bytes) == (1, 2 * SIZE - 1000)
    assert child.sequential_reads == child.reads == 201
    assert found.done.stdout == b"%d\n" % (2 * SIZE)


def test_a_program_that_is_executed_goes_on_with_what_is_open(ioprof, reader, data):
    script = f"exec 0<{data}; dd bs=1000 count=1 status=none >/dev/null; exec {reader} stdin none"
    found = ioprof("sh", "-c", script)
    assert found.done.stdout == b"%d\n" % (SIZE - 1000)
    shell, dd, rest = found.of(data)
    assert (shell.opens, shell.bytes) == (1, 0)
    assert (dd.bytes, rest.bytes, rest.sequential_reads) == (1000, SIZE - 1000, 100)


@pytest.mark.parametrize("thousands", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_many_files_are_distinguished(ioprof, tmp_path, thousands):
    folder = tmp_path / "many"
    folder.mkdir()
    for index in range(1000 * thousands):
        (folder / f"{index:05d}").write_bytes(b"x" * (1 + index % 7))
    found = ioprof(*python("import os", "for name in os.listdir('many'): open('many/' + name, 'rb').read()"))
    counts = {path: one for path, one in by_file(found.profile).items() if path.startswith(f"{folder}/")}
    assert len(counts) == 1000 * thousands
    assert all(one.bytes == 1 + int(path[-5:]) % 7 and one.opens == 1 for path, one in counts.items())
    assert re.search(rf"{thousands},0\d\d files are smaller than 64 kB, .* {thousands},0\d\d opens took", found.said)


@pytest.mark.parametrize("name", [b"caf\xe9 \xff.bin", b"line\nbreak, and comma", "größe.bin".encode()])
def test_names_may_be_any_bytes(ioprof, tmp_path, cache, name):
    path = os.fsencode(tmp_path) + b"/" + name
    with open(path, "wb") as file:
        file.write(bytes(5000))
    found = ioprof(*python(f"open({name!r}, 'rb').read()"))
    assert by_file(found.profile)[os.fsdecode(path)].bytes == 5000
    read = run_ioprof("read", "io", cwd=tmp_path, cache=cache)
    assert read.returncode == 0, read.stderr


def test_a_link_and_a_way_round_are_the_file_itself(ioprof, tmp_path, data):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(data)
    ways = ["link", "folder/../data.bin", str(data), "./data.bin"]
    found = ioprof(
        *python(
            "import os", f"for way in {ways}: open(way, 'rb').read()", "os.chdir('folder')", "open('../link').read()"
        )
    )
    assert found.only(data).opens == 5


def test_what_is_only_written_is_not_read(ioprof, tmp_path):
    found = ioprof(*python("open('new', 'w').write('x')", "open('new', 'a').write('x')"))
    assert found.of(tmp_path / "new") == []


def test_pipes_and_devices_are_counted_together_and_are_no_files(ioprof):
    found = ioprof(
        *python("import sys", "sys.stdin.buffer.read()", "open('/dev/zero','rb').read(50000)"), stdin=bytes(123_456)
    )
    [process] = found.profile.processes
    assert process.other_bytes >= 173_456
    assert not [path for path in by_file(found.profile) if path.startswith("/dev/")]


def test_a_program_behaves_byte_for_byte_as_without(tmp_path, cache, reader, data):
    alone = subprocess.run([reader, "odd", str(data)], env=environment(), capture_output=True, timeout=DEADLINE_S)
    beside = run_ioprof("--out", "io", "--", reader, "odd", str(data), cwd=tmp_path, cache=cache)
    assert (beside.returncode, beside.stdout) == (alone.returncode, alone.stdout)
    own = [line for line in beside.stderr.splitlines() if not line.startswith(b"ioprof: ")]
    assert own == alone.stderr.splitlines()


def test_where_there_is_no_room_the_program_goes_on_and_what_was_lost_is_reported(ioprof, reader, tmp_path, data):
    # A file may have 64 blocks of 1024 bytes: the counters' first block has room, and no other.
    found = ioprof("bash", "-c", f"ulimit -f 64; {reader} read {data}; {reader} threads {data}")
    assert found.done.stdout == b"%d\n%d\n" % (SIZE, 8 * SIZE)
    assert found.done.returncode == 0
    assert "opens: make room in TMPDIR" in found.said
