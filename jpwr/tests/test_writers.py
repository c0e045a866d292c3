from __future__ import annotations

import math

import pytest

from jpwr.channel import ChannelInfo, Scope
from jpwr.errors import TraceError
from jpwr.writers import CsvWriter, read_trace

CHANNELS = [
    ChannelInfo("pynvml:0", Scope.DEVICE, "a board, measured", device_id="GPU-0", has_counter=True),
    ChannelInfo("estimate:cpu", Scope.CPU, "a model", estimated=True),
]


def times_of(trace):
    return list(trace.series()[0].times_s)


def write(path, rows=5):
    with CsvWriter(path, CHANNELS, {"hostname": "n1", "interval_s": 0.1}) as writer:
        writer.event("command_started", 0.5, words="a, b")
        for i in range(rows):
            writer.append(float(i), [100.0 + i, math.nan if i == 2 else 50.0], [7.0 * i, None])
    return path


def test_a_trace_reads_back_whole(tmp_path):
    trace = read_trace(write(tmp_path / "deep" / "trace.csv"))
    assert trace.channels == CHANNELS
    assert trace.meta == {"hostname": "n1", "interval_s": 0.1}
    assert [(event.name, event.time_s, event.details) for event in trace.events] == [
        ("command_started", 0.5, {"words": "a, b"})
    ]
    gpu, cpu = trace.series()
    assert list(gpu.power_w) == [100.0, 101.0, 102.0, 103.0, 104.0]
    assert list(gpu.energy_j) == [0.0, 7.0, 14.0, 21.0, 28.0]
    assert (cpu.samples, cpu.missing) == (4, 1)


def test_rows_are_on_disk_while_the_trace_is_still_written(tmp_path):
    path = tmp_path / "trace.csv"
    with CsvWriter(path, CHANNELS, {}) as writer:
        writer.append(1.0, [1.0, 2.0], [3.0, None])
        assert times_of(read_trace(path)) == [1.0]


@pytest.mark.parametrize("cut", [1, 5, 12])
def test_a_last_line_that_was_cut_short_is_left_out(tmp_path, cut):
    path = write(tmp_path / "trace.csv")
    path.write_bytes(path.read_bytes()[:-cut])
    assert times_of(read_trace(path)) == [0.0, 1.0, 2.0, 3.0]


def test_a_damaged_line_is_named(tmp_path):
    path = write(tmp_path / "trace.csv")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:4], "1.0,oops\n", *lines[5:]]))
    with pytest.raises(TraceError, match="damaged in line 5"):
        read_trace(path)


@pytest.mark.parametrize("text", ["", "time_s,a\n1,2\n", "\x00\x01\n\n\n"])
def test_something_else_is_no_trace(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(TraceError, match="is not a trace"):
        read_trace(tmp_path / "x.csv")


def test_a_file_that_is_not_there_is_one_clear_sentence(tmp_path):
    with pytest.raises(TraceError, match="cannot be read"):
        read_trace(tmp_path / "none.csv")


def test_an_earlier_trace_is_kept(tmp_path):
    path = write(tmp_path / "trace.csv", rows=2)
    write(path, rows=3)
    assert len(times_of(read_trace(path))) == 3
    assert len(times_of(read_trace(tmp_path / "trace.csv.old"))) == 2


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(TraceError, match="cannot be written"):
        write(tmp_path / "file" / "trace.csv")
