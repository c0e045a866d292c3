"""Columns in a file give what columns in memory give, in little memory."""

from __future__ import annotations

import json
import math
import random
import sys
import tracemalloc
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice

import pytest

from jpwr import stored
from jpwr.channel import ChannelInfo, Scope
from jpwr.report.frames import write_frames
from jpwr.report.summary import Summary
from jpwr.stored import Store, Stored, between, searches
from jpwr.tests.conftest import run
from jpwr.trace.trace import Row
from jpwr.trace.writers import CsvWriter, read_trace

FEW = 8  # numbers in a block of these tests
INFO = ChannelInfo("a:0", Scope.DEVICE, "", has_counter=True, counter_resolution_j=0.001, counter_refresh_s=0.1)
OTHER = INFO._replace(name="a:1", limit_w=700.0, held_s=0.1)
POWER = ChannelInfo("b:0", Scope.CPU, "", limit_w=700.0)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "BLOCK_BYTES", 8 * FEW)
    monkeypatch.setattr(stored, "IN_MEMORY", 2)
    monkeypatch.setattr(stored, "PIECE", 3)
    with open(tmp_path / "store", "w+b") as file:
        yield Store(file.fileno())


@pytest.mark.parametrize("many", [0, 1, FEW - 1, FEW, FEW + 1, 3 * FEW, 5 * FEW + 3])
@pytest.mark.parametrize("kind", ["d", "I"])
def test_a_column_in_a_store_is_read_as_one_in_memory(store, many, kind):
    chance = random.Random(many)
    numbers = array(kind, sorted(chance.randrange(many) for _ in range(many)))
    column = Stored(store, numbers[: many // 2], kind)
    column.extend(iter(numbers[many // 2 :]))
    assert (len(column), bool(column), [*column], [*islice(column, 1, None)]) == (
        *(len(numbers), bool(numbers), [*numbers], [*numbers[1:]]),
    )
    assert [column[index] for index in range(-many, many)] == [*numbers, *numbers]
    for low in range(-1, many + 2):
        for high in (low - 1, low, low + 1, low + FEW, low + 3 * FEW, many):
            assert column[low:high] == numbers[low:high]
            if 0 <= low <= high <= many:
                assert [*between(column, low, high)] == [*numbers[low:high]] == [*between(numbers, low, high)]
    for number in range(-1, many + 1):
        for search, plain in zip(searches(column), (bisect_left, bisect_right)):
            assert search(column, number) == plain(numbers, number)
    for beyond in (many, -many - 1):
        with pytest.raises(IndexError):
            column[beyond]


def test_without_room_on_the_disk_a_column_stays_in_memory(tmp_path):
    (tmp_path / "store").touch()
    with open(tmp_path / "store", "rb") as file:  # nothing can be written to it, as on a full disk
        column = Stored(Store(file.fileno()), range(10_000))
        assert [*column] == [*range(10_000)]
        assert column[5000:5002] == array("d", [5000, 5001])


def write_trace(path, rows, kind="", has_regions=True):
    """A trace of two counters and one other channel, with regions and whatever is wrong in a long run."""
    chance, joules, last_s = random.Random(kind), [0.0, 0.0], 0.0
    with CsvWriter(path, [INFO, OTHER, POWER], {"command": ["a"], "interval_s": 0.1, "random_phase": True}) as file:
        file.event("command_started", 2.0)
        for row in range(rows):
            time_s = (row + chance.random()) * 0.1
            watts = [300.0 + 100 * (int(time_s) % 3) + round(chance.random(), 3) for _ in range(3)]
            if kind == "frozen" and rows // 3 < row < rows // 2:
                watts[:2] = [312.5, 400.0]
            elif kind != "stuck" or row < rows // 2:
                joules = [before_j + one_w * (time_s - last_s) for before_j, one_w in zip(joules, watts)]
            if kind == "fell" and row == rows // 2:
                joules = [0.0, joules[1] + 1e6]
            power_w, last_s = [*watts], time_s
            energy_j = [*joules, None]
            if kind == "failed":
                power_w = [math.nan if chance.random() < 0.1 else one for one in watts]
                energy_j = [math.nan if chance.random() < 0.1 else one for one in joules] + [None]
            if kind == "lanes" and row % 3:
                power_w[1] = energy_j[1] = None
            file.extend([Row(time_s, power_w, energy_j, 0.001 if kind == "lanes" and row % 50 == 40 else 0.0)])
            if has_regions and row % 70 in (20, 60):
                file.event("region_begin" if row % 70 == 20 else "region_end", time_s + 0.01, region="step")
        file.event("command_ended", last_s - 2.0)


@pytest.mark.parametrize("kind", ["", "failed", "frozen", "stuck", "fell", "lanes"])
def test_the_summary_of_a_trace_in_a_store_has_the_same_numbers(store, tmp_path, kind):
    write_trace(tmp_path / "trace.csv", 1500, kind)
    found = []
    for where in (None, store):
        summary = Summary(read_trace(tmp_path / "trace.csv", store=where))
        tables = write_frames(tmp_path, str(where is None), "csv", summary)
        found.append((json.dumps(summary.to_dict()), summary.lines(), [path.read_text() for path in tables]))
    assert found[0] == found[1]
    assert f"x {1500 // 70}" in "\n".join(found[0][1])


def test_the_memory_of_a_summary_does_not_grow_with_the_trace(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "BLOCK_BYTES", 4096)  # so that short traces have more blocks than are in memory
    peaks = []
    for rows in (8_000, 32_000):
        write_trace(tmp_path / f"{rows}.csv", rows, "failed", has_regions=False)
        with open(tmp_path / f"{rows}.store", "w+b") as file:
            tracemalloc.start()
            summary = Summary(read_trace(tmp_path / f"{rows}.csv", store=Store(file.fileno())))
            summary.lines(), summary.to_dict()
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / 24_000 < 2, peaks  # bytes a row; a row has 64 in memory


def test_a_long_run_is_summed_up_from_a_file_next_to_its_trace(tmp_path):
    script = (
        "import sys, jpwr.cli as cli, jpwr.trace.writers as writers\n"
        "cli.MOST_IN_MEMORY = 0\n"
        "read = cli.read_trace\n"
        "def spy(path, **options):\n"
        "    import os; print(os.readlink(f'/proc/self/fd/{options[\"store\"]._file}'))\n"
        "    return read(path, **options)\n"
        "cli.read_trace = spy\n"
        "sys.exit(cli.main(sys.argv[1:]))\n"
    )
    options = ["--methods", "estimate", "--interval", "5", "--df-out", "out", "--json-out", "summary.json"]
    done = run(sys.executable, "-c", script, *options, "--", "sleep", "0.3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path / "out"))
    assert done.stdout.endswith(" (deleted)\n")
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]
    summary = json.loads((tmp_path / "summary.json").read_text())
    again = Summary(read_trace(tmp_path / "out" / "trace.csv")).to_dict()
    assert {name: summary[name] for name in again} == json.loads(json.dumps(again))
