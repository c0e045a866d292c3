"""Logs of Darshan, as it wrote them, come into our form."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from ioprof.cli import main
from ioprof.darshan_log import from_darshan
from ioprof.folder import load
from ioprof.summary import by_file, reading_s, stretches, total
from jpwr.errors import JpwrError
from tests.needs import not_run


@pytest.fixture(scope="module")
def logs():
    """Logs that come with Darshan's own reader."""
    package = importlib.util.find_spec("darshan")
    if package is None or package.origin is None:
        pytest.fail("PyDarshan is needed: pip install darshan")
    try:
        importlib.import_module("darshan")
    except RuntimeError:
        not_run("the library of PyDarshan: its wheel for x86-64 has it")
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
    with pytest.raises(JpwrError, match=r"cut\.darshan cannot be read as a log of Darshan"):
        from_darshan(path)
    with pytest.raises(JpwrError, match="does not exist"):
        from_darshan(tmp_path / "gone.darshan")
