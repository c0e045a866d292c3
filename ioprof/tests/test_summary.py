"""The arithmetic of a summary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioprof.counts import FileCounts, ProcessCounts, Profile, Stretch, Stretches
from ioprof.summary import advice, by_file, by_folder, lines, over_time, reading_s, to_dict, to_stage, total


def file(path, size_bytes=1000, times=1, opens=1, read_s=0.1, open_s=0.0):
    sizes = (0, opens, *(0,) * 8)
    return FileCounts(path, opens, opens, size_bytes * times, read_s, open_s, opens, 0, 0, size_bytes, sizes)


def profile(*of_processes, stretches=()):
    reads = Stretches()
    for one in stretches:
        reads.append(one)
    return Profile(
        {"begin_s": 0.0, "end_s": 10.0},
        [
            ProcessCounts(pid, 1, 0.0, "reader", 0, 0, 0, 0.0, 0, 0, list(files), reads if pid == 0 else Stretches())
            for pid, files in enumerate(of_processes)
        ],
    )


def stretch(begin_s, end_s, size=1000, busy_s=None):
    return Stretch(0, begin_s, end_s, 1, size, end_s - begin_s if busy_s is None else busy_s)


def test_a_file_of_several_processes_is_as_large_as_it_is_and_read_by_all():
    found = by_file(profile([file("/d/a", 1000, times=2)], [file("/d/a", 1000, times=3), file("/d/e/b")]))
    assert (found["/d/a"].bytes, found["/d/a"].size_bytes, found["/d/a"].times_read) == (5000, 1000, 5.0)
    assert {path: (one.files, one.bytes) for path, one in by_folder(found).items()} == {
        "/d": (1, 5000),
        "/d/e": (1, 1000),
    }
    whole = total(found.values())
    assert (whole.files, whole.bytes, whole.size_bytes) == (2, 6000, 2000)


def test_time_in_which_something_is_read_counts_once_however_many_read():
    assert reading_s([stretch(0, 1), stretch(0.5, 2), stretch(5, 6)]) == pytest.approx(3)
    assert reading_s([stretch(0, 1), stretch(0, 1), stretch(0, 1)]) == pytest.approx(1)
    assert reading_s([stretch(0, 0.01, busy_s=0.002), stretch(1, 1.01, busy_s=0.001)]) == pytest.approx(0.003)
    assert reading_s([]) == 0


def test_bytes_over_time_are_spread_over_their_stretch():
    width_s, parts = over_time([stretch(1.0, 3.0, 4000), stretch(9.0, 9.0, 500)], 0.0, 10.0, bins=10)
    assert width_s == 1.0
    assert parts == pytest.approx([0, 2000, 2000, 0, 0, 0, 0, 0, 0, 500])
    assert over_time([stretch(-1.0, 1.0, 1000)], 0.0, 10.0, bins=10)[1][0] == pytest.approx(500)
    assert over_time([], 0.0, 0.0)[0] == 0


@given(
    st.lists(
        st.tuples(st.floats(0, 10), st.floats(0, 10), st.integers(0, 10**9)).map(
            lambda one: stretch(min(one[:2]), max(one[:2]), one[2])
        ),
        max_size=20,
    ),
    st.integers(1, 50),
)
def test_no_byte_within_the_time_is_lost_or_reported_twice(stretches, bins):
    assert sum(over_time(stretches, 0.0, 10.0, bins)[1]) == pytest.approx(sum(one.bytes for one in stretches), rel=1e-6)


def test_advice_is_arithmetic():
    read = profile([file("/d/a", 3_000_000, times=4)], stretches=[stretch(0, 2.0, 12_000_000)])
    [again, tier] = advice(read, total(by_file(read).values()), 2.0, 60)
    assert again == "the files have 3 MB, and 12 MB were read: each byte 4.0 times"
    assert (
        tier
        == "12 MB took 2 s (6 MB/s); at 60 MB/s they take 0.2 s: up to 1.8 s less, if the program waits for its reads"
    )
    assert "not faster" in advice(read, total(by_file(read).values()), 2.0, 5)[1]
    assert to_dict(read, 5)["reading_s"] == 2.0


def test_small_files_are_reported_with_what_their_opens_take():
    few, many = ([file(f"/d/{index}", 2000, open_s=0.01) for index in range(count)] for count in (99, 150))
    assert advice(profile(few), total(by_file(profile(few)).values()), 1.0, None) == []
    [sentence] = advice(profile(many), total(by_file(profile(many)).values()), 1.0, None)
    assert sentence.startswith(
        "150 files are smaller than 64 kB, 300 kB together: 150 opens took 1.5 s and their reads 15 s"
    )


def test_a_command_that_reads_nothing_has_a_summary():
    [line] = lines(profile([]), files=5)
    assert line == "read       0 bytes from 0 files in 0 reads and 0 opens of 1 process"


# Name: bytes of the file, times that it is read, seconds of reads.
READS = {
    "small": (1e6, 1, 0.5),
    "twice": (4e6, 2, 1.0),
    "large": (8e6, 1, 1.2),
    "quick": (2e6, 1, 0.001),
    "pipe": (0, 1, 9),
}
STAGED = by_file(
    profile([file(name, int(size), times, read_s=read_s) for name, (size, times, read_s) in READS.items()])
)


@pytest.mark.parametrize(
    ("room_bytes", "tier", "found"),
    [
        (1e9, None, ["small", "twice", "large", "quick"]),  # by seconds per byte of a copy
        (1e9, 100, ["small", "twice", "large"]),  # a copy of `quick` would take longer to read
        (1e9, 10, ["small", "large", "twice"]),  # 0.4, 0.05 and 0.05 s/MB: by name
        (5e6, 100, ["small", "twice"]),
        (9e6, 100, ["small", "twice"]),  # `large` no longer fits
        (3e6, None, ["small", "quick"]),
        (1e5, None, []),
    ],
)
def test_files_that_gain_most_for_their_bytes_are_staged(room_bytes, tier, found):
    assert to_stage(STAGED, room_bytes, tier) == found


def test_seconds_are_predicted_for_a_stated_bandwidth_alone():
    of = "stage 2 files of 5 MB for 12.8 % of the 11.7 s of all threads' reads; "
    read = profile([file(name, int(size), times, read_s=read_s) for name, (size, times, read_s) in READS.items()])
    for busy_s, less in ((30.0, "1.41"), (1.0, "1"), (0.0, "0")):
        assert advice(read, total([]), busy_s, 100, 5e6) == [f"{of}at 100 MB/s up to {less} s less: small, twice"]
    predicts = "--tier MB/S, the fast storage's bandwidth, predicts the seconds"
    assert to_dict(read, 0, None, 5e6)["advice"][-1] == f"{of}{predicts}: small, twice"
    assert list(lines(read, 0, None, 1e5))[-1].endswith(
        "0.0 % of the 11.7 s of all threads' reads; " + predicts + ": none"
    )
