"""Whatever is written into the file of marks, and whoever hears jpwr, the command runs and its end is told."""

from __future__ import annotations

import os
import select
import stat
import sys
import threading
from pathlib import Path

import pytest

import jpwr
from jpwr.channel import Channel, ChannelInfo, Scope
from jpwr.messages import printable
from jpwr.process.temporary import temporary_file
from jpwr.sampling.monitor import PowerMonitor, active_monitors
from jpwr.tests.conftest import DEADLINE_S, run, wait_until
from jpwr.trace.marks import MAX_LINE_BYTES, POLL_S, PRECAUTION_S, Mark, MarkReader, parse_mark

JPWR = [sys.executable, "-m", "jpwr", "--methods", "estimate"]


class Reader:
    """A reader whose file the test writes, and whose thread is begun at its end alone."""

    def __init__(self):
        self.batches = []
        self.said = []
        self.reader = MarkReader(self.batches.append, self.said.append)

    def write(self, data, mode="ab"):
        with open(self.reader.path, mode) as file:
            file.write(data)
        self.reader._read()

    def stop(self):
        if not self.reader._stop.is_set():
            self.reader.start()
            self.reader.stop()

    @property
    def marks(self):
        return [mark for batch in self.batches for mark in batch]

    @property
    def names(self):
        return [mark.region for mark in self.marks]


@pytest.fixture
def reader(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    made = Reader()
    yield made
    made.stop()


def test_a_character_that_is_cut_between_two_writes_is_whole(reader):
    for half in ("begin ü\n".encode()[:7], "begin ü\n".encode()[7:]):
        reader.write(half)
    assert reader.names == ["ü"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b"begin \xfc\n", r"\xfc"),
        (b"begin a\xff\xfeb\n", r"a\xff\xfeb"),
        (b"begin a\x00b\n", r"a\x00b"),
        (b"begin \x1b[31mred\n", r"\x1b[31mred"),
        (b"begin a\rb\tc\n", r"a\rb\tc"),
        ("begin a\u2028b\n".encode(), r"a\u2028b"),
    ],
)
def test_a_name_of_any_bytes_is_one_that_a_terminal_can_show(reader, line, name):
    reader.write(line)
    assert reader.names == [name]
    assert reader.said == []


def test_lines_that_are_no_marks_are_reported_once_counted_and_left_out(reader):
    reader.write(b"hello\n" + b"begin " + b"x" * 10 * MAX_LINE_BYTES)
    reader.write(b"x" * 10 * MAX_LINE_BYTES + b"\n\n  \nbegin a\nend a @soon\nend a\nend a @nan\nhullo\n")
    assert reader.names == ["a", "a"]
    [first] = reader.said
    assert "'hello'" in first
    reader.stop()
    assert reader.said[1:] == ["5 lines in $JPWR_MARKS were left out"]


def test_a_line_that_is_too_long_takes_no_memory_while_it_comes(reader):
    for _ in range(3):
        reader.write(b"begin " + b"x" * 10 * MAX_LINE_BYTES)
        assert len(reader.reader._rest) <= MAX_LINE_BYTES


def test_a_file_that_is_emptied_is_read_from_its_beginning(reader):
    reader.write(b"begin a long name\n")
    reader.write(b"end a\n", mode="wb")
    assert reader.names == ["a long name", "a"]


def test_a_mark_is_its_kind_its_region_and_its_time():
    assert parse_mark("begin a") == Mark("region_begin", "a", None)
    assert parse_mark("  end  a b \n") == Mark("region_end", "a b", None)
    assert parse_mark("end a @1234.5") == Mark("region_end", "a", 1234.5)
    assert parse_mark("begin a @b @-5") == Mark("region_begin", "a @b", -5.0)


@pytest.mark.parametrize("line", ["begin", "begin ", "end  @5", "start a", "beginning a"])
def test_a_line_that_is_no_mark_is_refused(line):
    with pytest.raises(ValueError, match=f"'{line.strip()}' is not a mark: write 'begin NAME' or 'end NAME'"):
        parse_mark(line)


@pytest.mark.parametrize("split", [0, 5, MAX_LINE_BYTES, MAX_LINE_BYTES + 1])
@pytest.mark.parametrize("length", [MAX_LINE_BYTES, MAX_LINE_BYTES + 1])
def test_a_line_is_too_long_by_one_byte_however_it_comes(reader, split, length):
    line = b"begin " + b"x" * (length - 6)
    for part in (line[:split], line[split:] + b"\nbegin a\n"):
        reader.write(part)
    reader.stop()
    if length > MAX_LINE_BYTES:
        assert reader.names == ["a"]
        reason = f"it is longer than {MAX_LINE_BYTES} bytes: use shorter names"
        assert reader.said == [f"a line in $JPWR_MARKS is left out: {reason}"]
    else:
        assert reader.names == ["x" * (length - 6), "a"]
        assert reader.said == []


@pytest.mark.parametrize(("limit", "names"), [(16, ["a", "b"]), (15, [])])
def test_at_the_end_no_more_is_read_than_what_takes_some_seconds(reader, monkeypatch, limit, names):
    monkeypatch.setattr("jpwr.trace.marks.MAX_LATE_BYTES", limit)
    reader.write(b"begin early\n")
    reader.reader._stop.set()
    reader.write(b"begin a\nbegin b\n")
    reader.reader._read()  # there is nothing more
    assert reader.names == ["early", *names]
    assert reader.said == ["the last 16 bytes in $JPWR_MARKS are left out: write fewer marks"] * (not names)


def test_a_last_mark_that_ends_with_no_new_line_is_one(reader):
    reader.write(b"begin a\nend a")
    assert reader.names == ["a"]
    reader.stop()
    assert [mark.event for mark in reader.marks] == ["region_begin", "region_end"]


def test_what_goes_wrong_with_marks_is_reported_and_ends_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    def broken(marks):
        raise ZeroDivisionError("a bug")

    said: list[str] = []
    reader = MarkReader(broken, said.append)
    Path(reader.path).write_text("begin a\n")
    reader.start()
    reader.stop()
    assert said == ["marks are no longer read (ZeroDivisionError: a bug)"]
    assert not Path(reader.path).exists()


@pytest.mark.parametrize("inotify", [True, False])
def test_marks_are_seen_as_they_come(monkeypatch, tmp_path, inotify):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    if not inotify:  # as on a system whose C library has none
        monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())
    seen: list[Mark] = []
    waits_s: list[float] = []
    plain = select.poll

    class Patient:
        def __init__(self) -> None:
            self._poll = plain()
            self.register = self._poll.register

        def poll(self, wait_ms):
            # Where the kernel tells, no mark is found by looking again after a while.
            waits_s.append(wait_ms / 1000)
            return self._poll.poll(1000 * DEADLINE_S if inotify else wait_ms)

    monkeypatch.setattr(select, "poll", Patient)
    reader = MarkReader(seen.extend, [].append)
    reader.start()
    try:
        for name in "ab":
            with open(reader.path, "a") as file:
                file.write(f"begin {name}\n")
            wait_until(lambda name=name: name in [mark.region for mark in seen], f"the mark {name}")
    finally:
        reader.stop()
    assert [mark.region for mark in seen] == ["a", "b"]
    assert set(waits_s) == {PRECAUTION_S if inotify else POLL_S}
    assert len(waits_s) < 10 or not inotify


def test_a_reader_that_is_held_up_is_not_waited_for_without_end(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("jpwr.trace.marks.WAIT_S", 0.01)
    hangs, answers = threading.Event(), threading.Event()

    def on_marks(marks):
        hangs.set()
        answers.wait(DEADLINE_S)

    reader = MarkReader(on_marks, [].append)
    Path(reader.path).write_text("begin a\n")
    reader.start()
    try:
        assert hangs.wait(DEADLINE_S)
        patience = iter([True, True, False])
        reader.stop(patience=lambda: next(patience))
        assert not answers.is_set()
    finally:
        answers.set()


def test_a_program_that_has_no_sampler_marks_regions_in_any_locale(tmp_path):
    ascii_alone = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    program = "import jpwr\nwith jpwr.region('\\xfc'): print('ran')"
    done = run(sys.executable, "-c", program, **ascii_alone, JPWR_MARKS=str(tmp_path / "marks"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
    lines = (tmp_path / "marks").read_text("utf-8").splitlines()
    assert [parse_mark(line).region for line in lines] == ["ü", "ü"]


def test_without_a_sampler_a_region_is_nothing_and_a_monitor_has_its_marks_next_to_a_sampler_around(
    monkeypatch, tmp_path
):
    monkeypatch.delenv("JPWR_MARKS", raising=False)
    with monkeypatch.context() as patched:
        patched.delitem(sys.modules, "jpwr.sampling.monitor")  # as where nobody has imported it
        with jpwr.region("a"):
            pass
    monkeypatch.setenv("JPWR_MARKS", str(tmp_path / "marks"))
    channel = Channel(ChannelInfo("a", Scope.DEVICE, "constant"), lambda: 100.0)
    with PowerMonitor([channel]) as monitor, jpwr.region("b"):
        pass
    assert [region.name for region in monitor.trace.regions()] == ["b"]
    lines = (tmp_path / "marks").read_text().splitlines()
    assert [line.split(" @")[0] for line in lines] == ["begin b", "end b"]


def test_a_forked_process_marks_regions_for_the_sampler_around_it_and_not_for_a_monitor_that_it_left(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("JPWR_MARKS", str(tmp_path / "marks"))
    channel = Channel(ChannelInfo("a", Scope.DEVICE, "constant"), lambda: 100.0)
    with PowerMonitor([channel]) as monitor:
        process = os.fork()
        if process == 0:
            with jpwr.region("child"):
                os._exit(bool(active_monitors()))
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert not monitor.trace.regions()
    assert not monitor.trace.faulty_marks()
    assert (tmp_path / "marks").read_text().startswith("begin child @")


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.rename(path.with_name("moved"))])
def test_a_file_that_is_not_in_its_place_any_more_is_reported(reader, harm):
    path = Path(reader.reader.path)
    harm(path)
    reader.stop()
    assert reader.said == ["the command has removed or replaced the file in $JPWR_MARKS: later marks are missing"]


@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf", "1e999", "1.1e15", "-1e300", "soon", "", "0x10", "1 2"])
def test_a_time_that_is_no_number_of_seconds_is_refused(seconds):
    with pytest.raises(ValueError, match="is not a time"):
        parse_mark(f"begin a @{seconds}x" if not seconds else f"end a @{seconds}")


def test_a_name_from_python_stays_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("JPWR_MARKS", str(tmp_path / "marks"))
    with jpwr.region("a\nend b"):
        pass
    lines = (tmp_path / "marks").read_text().splitlines()
    assert [parse_mark(line)._replace(time_s=None) for line in lines] == [
        Mark("region_begin", printable("a\nend b"), None),
        Mark("region_end", printable("a\nend b"), None),
    ]


@pytest.mark.parametrize("path", ["gone/marks", ".", "/dev/full"])
def test_a_region_ends_no_program_where_the_file_cannot_be_written(monkeypatch, tmp_path, path):
    monkeypatch.setenv("JPWR_MARKS", str(tmp_path / path))
    with jpwr.region("a"):
        ran = True
    assert ran


@pytest.mark.parametrize(
    "script",
    [
        "head -c 3000000 /dev/urandom >>$JPWR_MARKS",
        "rm $JPWR_MARKS",
        "rm $JPWR_MARKS; mkfifo $JPWR_MARKS",
        "rm $JPWR_MARKS; ln -s /dev/zero $JPWR_MARKS",
        "truncate -s 1T $JPWR_MARKS",
    ],
)
def test_whatever_becomes_of_the_marks_the_exit_code_is_the_commands_and_the_summary_comes(jpwr, tmp_path, script):
    done = jpwr(*JPWR[3:], "--df-out", "out", "--", "bash", "-c", f"{script}; exit 5", TMPDIR=str(tmp_path))
    assert done.returncode == 5, done.stderr
    assert "Traceback" not in done.stderr
    assert len(list((tmp_path / "out").glob("energy.*.csv"))) == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


def test_a_temporary_file_is_its_owners_alone_in_the_first_folder_that_will_do(tmp_path, monkeypatch):
    for name, mode in (("all", 0o777), ("sticky", 0o1777), ("own", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    for folder, is_used in (("/proc", False), ("all", False), ("sticky", True), ("own", True)):
        monkeypatch.setenv("TMPDIR", str(tmp_path / folder))
        path, file = temporary_file("")
        assert Path(path).parent == (tmp_path / folder if is_used else Path("/tmp"))
        assert stat.S_IMODE(os.fstat(file).st_mode) == 0o600
        Path(path).unlink()
        os.close(file)


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "<&- 1>&- 2>closed"])
def test_a_stderr_that_takes_no_words_changes_no_exit_code(tmp_path, redirection):
    closed = "exec 9> >(:); wait $!; " if "closed" in redirection else ""
    command = " ".join([*JPWR, "--df-out", "out"])
    script = f"{closed}{command} -- bash -c 'exit 5' {redirection.replace('closed', '&9')}"
    done = run("bash", "-c", script, cwd=tmp_path)
    assert done.returncode == 5, done.stderr
    [power] = (tmp_path / "out").glob("power.*.csv")
    text = power.read_text() + (tmp_path / "out" / "trace.csv").read_text()
    assert "ESTIMATE," not in text  # words meant for stderr are in no file of ours
