from __future__ import annotations

import json
import math
import re

import pytest

from jpwr.channel import ChannelInfo, Scope
from jpwr.errors import TraceError
from jpwr.frames import ticks
from jpwr.trace import Event
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


HEADER = {"format": 1, "interval_s": 0.1, "channels": [{"name": "a", "scope": "cpu", "source": "b"}]}
TOO_LARGE = 10**400
DEEP = "[" * 100_000


def start_of(value):
    """A name of a test that is no longer than a line."""
    return str(value)[:40]


def header(**changes):
    return json.dumps({**HEADER, **changes})


def channel(**changes):
    return header(channels=[{**HEADER["channels"][0], **changes}])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DEEP, "its JSON cannot be read"),
        (header()[:-1] + f', "x": {DEEP}', "its JSON cannot be read"),
        ("[]", "its JSON is no object"),
        ("1" + 9999 * "0", "its JSON"),
        (header(interval_s=TOO_LARGE), "interval_s is no finite number"),
        (header(interval_s=math.inf), "interval_s is no finite number"),
        (header(interval_s="0.1"), "interval_s is no finite number"),
        (header(channels={}), "its channels are no list"),
        (header(channels=[7]), "without name, scope and source"),
        (channel(num_devices=TOO_LARGE), "the num_devices of a channel is no finite number"),
        (channel(period_s=TOO_LARGE), "the period_s of a channel is no finite number"),
        (channel(name=7), "the name of a channel is not of type str"),
        (channel(scope=["cpu"]), "the scope of a channel is not of type str"),
        (channel(scope="planet"), "'planet' is not a valid Scope"),
        (channel(colour="red"), "a 'colour', which this version does not know"),
    ],
    ids=start_of,
)
def test_a_damaged_header_is_one_clear_sentence(tmp_path, text, message):
    path = tmp_path / "trace.csv"
    path.write_text(f"# jpwr-trace {text}\ntime_s,a.power_w\n1.0,2.0\n")
    with pytest.raises(TraceError, match=f"is damaged in line 1: .*{re.escape(message)}"):
        read_trace(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1.0", "1 columns where 2 are expected"),
        ("1.0,oops", "could not convert"),
        (f"{TOO_LARGE},1.0", "the time of a row is no finite number"),
        ("nan,1.0", "the time of a row is no finite number"),
        (f"1.0,{TOO_LARGE}", "a reading is beyond all numbers"),
        (f"# event {DEEP}", "its JSON cannot be read"),
        ('# event {"event": "x"}', "the time of an event is no finite number"),
        ('# event {"event": "x", "time_s": 1e999}', "the time of an event is no finite number"),
        ('# event {"time_s": 1}', "an event has no name"),
        ('# event {"event": "region_begin", "time_s": 1}', "an event has no name"),
    ],
    ids=start_of,
)
def test_a_damaged_line_is_named_with_what_can_be_read(tmp_path, line, message):
    path = tmp_path / "trace.csv"
    path.write_text(f"# jpwr-trace {header()}\ntime_s,a.power_w\n0.5,1.0\n{line}\n1.5,1.0\n")
    with pytest.raises(TraceError, match=f"is damaged in line 4: {re.escape(message)}.*'head -n 3' of it can be read"):
        read_trace(path)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
    assert times_of(read_trace(path)) == [0.5]


def test_an_event_may_have_details_of_any_name(tmp_path):
    path = tmp_path / "trace.csv"
    details = {"name": "a", "time": 2, "self": 3}
    with CsvWriter(path, CHANNELS, {}) as writer:
        writer.event("status", 1.0, **details)
    assert read_trace(path).events == [Event("status", 1.0, details)]


def test_a_trace_of_a_newer_format_is_told_from_a_damaged_one(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(f"# jpwr-trace {header(format=2)}\ntime_s\n")
    with pytest.raises(TraceError, match="a trace format that this version does not know: use the jpwr that wrote it"):
        read_trace(path)


def test_a_trace_that_was_stopped_in_its_header_has_no_rows(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(f"# jpwr-trace {header()}\ntime_s,")
    with pytest.raises(TraceError, match="has no rows"):
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


def test_rows_of_moments_become_rows_of_ticks():
    rows = [
        (1.0, [5.0, None]),
        (1.1, [None, 6.0]),
        (1.5, [None, None]),
        (2.0, [7.0, 8.0]),
        (3.0, [9.0, None]),
        (4.0, [10.0, None]),
        (4.1, [None, math.nan]),
    ]
    assert [(time_s, str(power_w)) for time_s, power_w in ticks(rows)] == [
        (1.0, "[5.0, 6.0]"),
        (2.0, "[7.0, 8.0]"),
        (3.0, "[9.0, None]"),
        (4.0, "[10.0, nan]"),
    ]
