from __future__ import annotations

import fcntl
import json
import math
import os
import subprocess
import sys

import pytest

from jpwr.channel import ChannelInfo, Scope
from jpwr.errors import TraceError
from jpwr.report.frames import ticks
from jpwr.tests.conftest import DEADLINE_S, environment, wait_until
from jpwr.trace import writers
from jpwr.trace.trace import Event, Row, Trace
from jpwr.trace.writers import CsvWriter, read_trace

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
            writer.extend([Row(float(i), [100.0 + i, math.nan if i == 2 else 50.0], [7.0 * i, None])])
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
        writer.extend([Row(1.0, [1.0, 2.0], [3.0, None])])
        assert times_of(read_trace(path)) == [1.0]


@pytest.mark.parametrize("cut", [1, 5, 12])
def test_a_last_line_that_was_cut_short_is_left_out(tmp_path, cut):
    path = write(tmp_path / "trace.csv")
    path.write_bytes(path.read_bytes()[:-cut])
    assert times_of(read_trace(path)) == [0.0, 1.0, 2.0, 3.0]


HEADER = {"format": 1, "interval_s": 0.1, "channels": [{"name": "a", "scope": "cpu", "source": "b"}]}
TOO_LARGE = 10**400


def start_of(value):
    """A name of a test that is no longer than a line."""
    return str(value)[:40]


def header(**changes):
    return json.dumps({**HEADER, **changes})


def channel(**changes):
    return header(channels=[{**HEADER["channels"][0], **changes}])


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        header(interval_s=TOO_LARGE),
        header(interval_s="0.1"),
        header(channels={}),
        channel(held_s=-1.0),
        channel(seen_share=1.5),
        channel(num_devices=TOO_LARGE),
        channel(name=7),
        channel(scope="planet"),
    ],
    ids=start_of,
)
def test_a_damaged_header_is_one_clear_sentence(tmp_path, text):
    path = tmp_path / "trace.csv"
    path.write_text(f"# jpwr-trace {text}\ntime_s,a.power_w\n1.0,2.0\n")
    with pytest.raises(TraceError, match="is damaged in line 1: "):
        read_trace(path)


LONG = [f"{0.1 * row:.6f},,{100 + row % 7},{row % 3 or ''}" for row in range(500)]


@pytest.mark.parametrize("block", [1 << 20, 700])
@pytest.mark.parametrize(
    "line",
    [
        "25.05,,1.0",
        "25.05,,1.0,2.0,3.0",
        "25.05,,oops,2.0",
        ",,1.0,2.0",
        "",
        "24.0,,1.0,2.0",
        "nan,,1.0,2.0",
        "25.05,,inf,2.0",
        "25.05,,1e14,2.0",
        "25.05,,1.0,-1e16",
        "25.05,nan,1.0,2.0",
        '# event {"event": "x"}',
        '# event {"time_s": 1}',
        '# event {"event": "region_begin", "time_s": 1}',
    ],
    ids=start_of,
)
def test_a_damaged_line_among_many_is_named(tmp_path, monkeypatch, line, block):
    monkeypatch.setattr(writers, "BLOCK", block)
    path = tmp_path / "trace.csv"
    counted = channel(has_counter=True).replace('"format": 1', '"format": 2')
    head = [f"# jpwr-trace {counted}", "time_s,half_s,a.power_w,a.energy_j"]
    lines = [*head, *LONG[:250], line, *LONG[250:], ""]
    path.write_text("\n".join(lines))
    with pytest.raises(TraceError, match=r"is damaged in line 253: .*'head -n 252'"):
        read_trace(path)
    path.write_text("\r\n".join([*lines[:252], "25.05,, 1_0.5 ,nan", *LONG[251:], "50.0,,7"]))
    [series] = read_trace(path).series()
    assert len(series.times_s) == len(LONG)
    assert (series.power_w[250], sum(map(math.isnan, series.energy_j))) == (10.5, 1)
    assert list(series.counter_times_s)[:3] == [0.1, 0.2, 0.4]


def test_rows_of_two_channels_may_cross_as_each_is_read_by_itself(tmp_path):
    path = tmp_path / "trace.csv"
    with CsvWriter(path, CHANNELS, {}) as writer:
        writer.extend([Row(2.0, [1.0, None], [3.0, None]), Row(1.5, [None, 2.0], [None, None])])
        writer.extend([Row(2.0, [1.0, None], [3.0, None])])
    assert [list(series.times_s) for series in read_trace(path).series()] == [[2.0, 2.0], [1.5]]


def test_columns_of_other_channels_are_not_taken_for_those_of_the_header(tmp_path):
    path = write(tmp_path / "trace.csv")
    head, names, *rows = path.read_text().splitlines(keepends=True)
    first, *others = names.rstrip().split(",")
    path.write_text("".join([head, ",".join([first, *others[::-1]]) + "\n", *rows]))
    with pytest.raises(TraceError, match=r"is damaged in line 2: its columns do not match its channels"):
        read_trace(path)


def test_an_event_may_have_details_of_any_name(tmp_path):
    path = tmp_path / "trace.csv"
    details = {"name": "a", "time": 2, "self": 3}
    with CsvWriter(path, CHANNELS, {}) as writer:
        writer.event("status", 1.0, **details)
    assert read_trace(path).events == [Event("status", 1.0, details)]


def test_the_time_that_a_reading_took_reads_back_and_format_1_has_none(tmp_path):
    path = tmp_path / "trace.csv"
    with CsvWriter(path, CHANNELS, {}) as writer:
        writer.extend([Row(1.0, [1.0, 2.0], [3.0, None]), Row(2.0, [1.0, None], [3.0, None], 0.015)])
        writer.extend([Row(3.0, [None, 2.0], [None, None], 0.7), Row(4.0, [1.0, 2.0], [3.0, None], 5e-5)])
    rows = path.read_text().splitlines()[1:]
    assert [row.split(",")[:2] for row in rows] == [
        ["time_s", "half_s"],
        ["1.000000", ""],
        ["2.000000", "0.015000"],
        ["3.000000", "0.700000"],
        ["4.000000", ""],
    ]
    gpu, cpu = read_trace(path).series()
    assert (list(gpu.times_s), list(gpu.half_s), list(gpu.counter_half_s)) == ([1, 2, 4], [0, 0.015, 0], [0, 0.015, 0])
    assert (list(cpu.times_s), list(cpu.half_s), list(cpu.counter_half_s)) == ([1, 3, 4], [0, 0.7, 0], [])
    without = [",".join([time_s, *others]) for time_s, _, *others in (row.split(",") for row in rows)]
    head = path.read_text().splitlines()[0].replace('"format": 2', '"format": 1')
    path.write_text("\n".join([head, *without]) + "\n")
    gpu, cpu = read_trace(path).series()
    assert (list(gpu.times_s), list(gpu.half_s), list(gpu.counter_half_s)) == ([1, 2, 4], [0] * 3, [0] * 3)
    assert (list(cpu.times_s), list(cpu.half_s), list(cpu.power_w)) == ([1, 3, 4], [0] * 3, [2] * 3)


def test_a_trace_of_a_newer_format_is_distinguished_from_a_damaged_one(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(f"# jpwr-trace {header(format=3)}\ntime_s\n")
    with pytest.raises(TraceError, match="an unknown trace format: read it with the version of jpwr that wrote it"):
        read_trace(path)


def test_a_trace_that_was_stopped_in_its_header_has_no_rows(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(f"# jpwr-trace {header()}\ntime_s,")
    with pytest.raises(TraceError, match="has no rows"):
        read_trace(path)


def test_earlier_traces_are_all_kept(tmp_path):
    path = tmp_path / "trace.csv"
    for rows in (2, 3, 4, 5):
        write(path, rows)
    kept = [
        len(times_of(read_trace(tmp_path / name))) for name in ("trace.csv.old", "trace.csv.old.2", "trace.csv.old.3")
    ]
    assert kept == [2, 3, 4]
    assert len(times_of(read_trace(path))) == 5


def begun(path, ended=False, **meta):
    """A writer that is at work, with one row."""
    writer = CsvWriter(path, CHANNELS, {"hostname": "n1", "boot_id": "b1", "epoch_offset_s": 0.0, **meta})
    writer.extend([Row(float(len(meta)), [1.0, 2.0], [3.0, None])])
    if ended:
        writer.event("command_ended", 9.0, exit_code=0)
    return writer


@pytest.mark.parametrize("ended", [False, True])
def test_a_trace_that_is_being_written_keeps_its_name_and_the_next_has_one_of_its_own(tmp_path, ended):
    path = tmp_path / "trace.csv"
    own = tmp_path / f"trace.{os.uname().nodename}.{os.getpid()}.csv"
    with begun(path, ended) as first, begun(path) as second, begun(path) as third:
        assert [one.path for one in (first, second, third)] == [path, own, own.with_suffix(".2.csv")]
    assert len(list(tmp_path.iterdir())) == 3


def test_an_unfinished_trace_of_another_node_stays_and_a_finished_one_makes_room(tmp_path):
    path = tmp_path / "trace.csv"
    with begun(path, boot_id="b2", hostname="n2"):
        pass  # locks of another node's processes may be unseen: it may still be at work
    with begun(path) as second:
        assert second.path != path
    with begun(path, ended=True, boot_id="b2", hostname="n2") as third:
        assert third.path == path
    with begun(path) as fourth:
        assert fourth.path == path


@pytest.mark.parametrize("text", ["", "time_s,a\n1,2\n", "# jpwr-trace {"])
def test_a_file_that_is_no_trace_is_left_alone(tmp_path, text):
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with begun(path) as writer:
        assert writer.path != path
    assert path.read_text() == text


def test_samplers_that_begin_at_once_have_each_a_trace_of_its_own(tmp_path):
    program = """
import fcntl, sys, time
from pathlib import Path
from jpwr.tests.test_writers import CHANNELS
from jpwr.trace.trace import Row
from jpwr.trace.writers import CsvWriter
number = int(sys.argv[1])
Path(f"up-{number}").touch()
fcntl.flock(open("gate"), fcntl.LOCK_SH)
with CsvWriter(Path("out/trace.csv"), CHANNELS, {"boot_id": "b1"}) as writer:
    for row in range(50):
        writer.extend([Row(float(row), [number, 0.0], [0.0, None])])
    Path(f"has-{number}").touch()
    while len(list(Path().glob("has-*"))) < 8:
        time.sleep(0.01)
"""
    write(tmp_path / "out" / "trace.csv", rows=1)
    with (tmp_path / "gate").open("w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)  # until all wait for it
        started = [
            subprocess.Popen([sys.executable, "-c", program, str(number)], cwd=tmp_path, env=environment())
            for number in range(8)
        ]
        wait_until(lambda: len(list(tmp_path.glob("up-*"))) == 8, "the samplers")
    assert [process.wait(DEADLINE_S) for process in started] == [0] * 8
    traces = [read_trace(path) for path in (tmp_path / "out").iterdir()]
    written = [tuple(trace.series()[0].power_w) for trace in traces]
    assert sorted(written) == sorted([*[(float(number),) * 50 for number in range(8)], (100.0,)])


def test_what_is_written_goes_to_its_own_file_whatever_became_of_the_name(tmp_path):
    path = tmp_path / "trace.csv"
    with begun(path) as writer:
        path.rename(tmp_path / "moved")
        write(path)
        writer.extend([Row(7.0, [1.0, 2.0], [3.0, None])])
    assert times_of(read_trace(tmp_path / "moved")) == [0.0, 7.0]


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
    trace = Trace([ChannelInfo(name, Scope.DEVICE, "") for name in "ab"])
    for time_s, power_w in rows:
        trace.append(time_s, power_w, [None, None])
    assert [(time_s, str(power_w)) for time_s, power_w in ticks(trace.power())] == [
        (1.0, "[5.0, 6.0]"),
        (2.0, "[7.0, 8.0]"),
        (3.0, "[9.0, None]"),
        (4.0, "[10.0, nan]"),
    ]


def test_a_regions_name_that_no_terminal_can_show_is_escaped(tmp_path):
    path = tmp_path / "trace.csv"
    with CsvWriter(path, [ChannelInfo("a", Scope.DEVICE, "")], {}) as writer:
        writer.extend([Row(0.0, [1.0], [None])])
    path.write_text(path.read_text() + '# event {"event": "region_begin", "time_s": 0.0, "region": "\\ud800"}\n')
    assert read_trace(path).events[0].details["region"] == r"\ud800"
