"""A full file system: a limit on the size of files stands in for it."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks.common.launch import Launch
from benchmarks.common.options import ConfigError
from benchmarks.common.record import OK, RunRecord
from benchmarks.common.run import EXIT_FAILED, RESULT_PREFIX, check_record_path, run_recorded


@contextmanager
def no_file_above(limit_bytes: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_folder_without_space_is_refused_before_the_run(tmp_path):
    with no_file_above(100), pytest.raises(ConfigError, match=r"cannot be written \(File too large\): choose a folder"):
        check_record_path(str(tmp_path / "record.json"))
    assert not list(tmp_path.iterdir())


def test_a_record_that_finds_no_space_is_in_the_output(tmp_path, capsys):
    def body(record: RunRecord) -> None:
        record.status = OK

    path = tmp_path / "record.json"
    with no_file_above(100):
        code = run_recorded(RunRecord("b", "s", "m", "tokens", {}), str(path), Launch(), body, lambda error: False)
    assert code == EXIT_FAILED
    printed = capsys.readouterr()
    assert json.loads(printed.out.removeprefix(RESULT_PREFIX))["status"] == OK
    assert f"b: the record {path} cannot be written (File too large): it is in the output" in printed.err
    assert not list(tmp_path.iterdir())
