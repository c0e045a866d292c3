"""Logs of Darshan and traces of DFTracer, as these tools wrote them, come into the same form."""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
from pathlib import Path

import pytest

from ioprof.cli import main
from ioprof.errors import IoprofError
from ioprof.folder import load
from ioprof.other_tools import from_darshan, from_dftracer
from ioprof.summary import by_file, reading_s, stretches, total
from tests.needs import not_run

TRACE = Path(__file__).with_name("dftracer.pfw")  # of a program that reads 5000 bytes in steps of 1000


@pytest.fixture(scope="module")
def logs():
    """Logs that come with Darshan's own reader."""
    package = importlib.util.find_spec("darshan")
    if package is None or package.origin is None:
        pytest.fail("PyDarshan is needed: pip install darshan")
    try:
        importlib.import_module("darshan")
    except RuntimeError:
        not_run("the library of PyDarshan")
    return Path(package.origin).parent / "examples" / "example_logs"


def test_a_log_of_darshan_has_its_counters_and_times(logs):
    found = from_darshan(logs / "ior_hdf5_example.darshan")
    # As darshan-parser shows: POSIX_BYTES_READ, POSIX_READS, POSIX_OPENS and so on of the one file of all ranks.
    [(path, one)] = by_file(found).items()
    assert path == "/global/cscratch1/sd/ssnyder/test123.h5"
    assert (one.bytes, one.reads, one.opens, one.sequential_reads) == (4_202_504, 36, 22, 14)
    assert one.size_bytes == 4_196_352
    assert one.sizes == [3, 17, 0, 0, 16, 0, 0, 0, 0, 0]
    traced = list(stretches(found))
    assert (sum(read.bytes for read in traced), len(traced)) == (4_202_504, 36)
    assert {process.pid for process in found.processes} == {-1, 0, 1, 2, 3}
    assert 0 < reading_s(traced) <= one.read_s
    assert max(read.end_s for read in traced) < found.about["end_s"]
    assert found.about["epoch_offset_s"] == 1_594_155_460
    assert found.coverage is None


@pytest.mark.parametrize("name", ["dxt.darshan", "noposix.darshan", "sample-badost.darshan", "example.darshan"])
def test_logs_of_other_kinds_are_read_and_kept(logs, tmp_path, name):
    assert main(["read", str(logs / name), "--out", str(tmp_path / "io")]) == 0
    again, told = (vars(total(by_file(one).values())) for one in (load(tmp_path / "io"), from_darshan(logs / name)))
    assert again.pop("sizes") == told.pop("sizes")
    assert again == pytest.approx(told, rel=1e-5)


@pytest.mark.parametrize("content", [b"", b"nonsense " * 100])
def test_a_damaged_log_is_refused(logs, tmp_path, content):
    path = tmp_path / "cut.darshan"
    path.write_bytes(content)
    with pytest.raises(IoprofError, match=r"cut\.darshan cannot be read as a log of Darshan"):
        from_darshan(path)
    with pytest.raises(IoprofError, match="does not exist"):
        from_darshan(tmp_path / "gone.darshan")


@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_of_dftracer_has_every_read(tmp_path, packed):
    path = tmp_path / ("trace.pfw.gz" if packed else "trace.pfw")
    path.write_bytes(gzip.compress(TRACE.read_bytes()) if packed else TRACE.read_bytes())
    found = from_dftracer([path])
    [(name, one)] = by_file(found).items()
    assert name == "data"  # as it was opened
    assert (one.opens, one.reads, one.bytes, one.sequential_reads, one.size_bytes) == (1, 6, 5000, 6, 5000)
    assert one.sizes[:2] == [1, 5]
    assert [process.command for process in found.processes] == ["/opt/reader pread data"]
    assert [read.bytes for read in stretches(found)] == [1000] * 5 + [0]


def test_a_trace_that_is_cut_has_what_came_before(tmp_path):
    path = tmp_path / "trace.pfw.gz"
    lines = TRACE.read_bytes().splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(lines[:12]) + lines[12][:50]))
    assert total(by_file(from_dftracer([path])).values()).bytes == 3000
    path.write_bytes(path.read_bytes()[:-9])
    assert from_dftracer([path]).processes


def test_several_traces_are_one_run(tmp_path):
    other = TRACE.read_text().replace('"pid":', '"pid":1')
    (tmp_path / "other.pfw").write_text(other)
    found = from_dftracer([TRACE, tmp_path / "other.pfw"])
    assert len(found.processes) == 2
    assert total(by_file(found).values()).bytes == 10_000


def test_a_trace_without_names_reports_how_to_get_them(tmp_path, capfd):
    path = tmp_path / "trace.pfw"
    events = [json.loads(line) for line in TRACE.read_text().splitlines()]
    path.write_text("".join(json.dumps({**one, "args": {}}) + "\n" for one in events))
    assert main(["read", str(path)]) == 125
    assert "DFTRACER_INC_METADATA=1" in capfd.readouterr().err
    path.write_text("{nonsense}\n")
    assert main(["read", str(path)]) == 125
    assert "line 1, is not an event of DFTracer" in capfd.readouterr().err


def test_folders_are_read_one_at_a_time(tmp_path, capfd):
    with pytest.raises(SystemExit) as end:
        main(["read", str(tmp_path), str(TRACE)])
    assert end.value.code == 125
    assert "DIR must be one folder, got 2" in capfd.readouterr().err


def test_a_reader_of_darshan_without_its_library_is_one_sentence(tmp_path, monkeypatch):
    class Finder:
        def find_spec(self, name, *_):
            if name == "darshan":
                raise RuntimeError("Could not find libdarshan-util.so! ...")

    monkeypatch.setattr("sys.meta_path", [Finder(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "darshan", raising=False)
    with pytest.raises(IoprofError, match=r"PyDarshan does not find its library libdarshan-util\.so: install"):
        from_darshan(tmp_path / "a.darshan")
