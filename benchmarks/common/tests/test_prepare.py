"""Files of a data set that are written if they are missing, by any number of programs at once."""

from __future__ import annotations

import json
import threading
from functools import partial

import pytest

from benchmarks.common.options import ConfigError
from benchmarks.common.prepare import MadeOptions, locked, write_missing

PLAN = {"samples": 3, "seed": 1}


def write(path):
    path.write_text(path.name)
    return path.name


def prepare(folder, plan=PLAN, jobs=1):
    paths = [folder / f"{number}.bin" for number in range(3)]
    task = lambda index: partial(write, paths[index])  # noqa: E731
    return write_missing(folder / "made.json", plan, "*.bin", paths, task, jobs)


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_missing_is_written_and_the_rest_stays(tmp_path, jobs, capsys):
    assert sorted(prepare(tmp_path / "data", jobs=jobs)) == ["0.bin", "1.bin", "2.bin"]
    (tmp_path / "data" / "0.bin").write_text("old")
    (tmp_path / "data" / "1.bin").unlink()
    assert prepare(tmp_path / "data") == ["1.bin"]
    assert (tmp_path / "data" / "0.bin").read_text() == "old"
    assert prepare(tmp_path / "data") == []
    assert "is complete already" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("files", "folder", "message"),
    [
        ({"made.json": json.dumps({**PLAN, "samples": 8})}, "", "has data with samples 8 instead of 3"),
        ({"7.bin": ""}, "", "has files of unknown origin"),
        ({"file": ""}, "file", "cannot be written"),
    ],
)
def test_a_folder_of_other_data_is_left_as_it_is(tmp_path, files, folder, message):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=message):
        prepare(tmp_path / folder)
    assert {path.name: path.read_text() for path in tmp_path.iterdir() if path.name != ".lock"} == files


def test_a_program_waits_for_another_that_writes_into_the_folder(tmp_path):
    ended = threading.Event()
    waiting = threading.Thread(target=lambda: (prepare(tmp_path), ended.set()))
    with locked(tmp_path / ".lock"):
        waiting.start()
        assert not ended.wait(0.2)
        assert not list(tmp_path.glob("*.bin"))
    waiting.join()
    assert len(list(tmp_path.glob("*.bin"))) == 3


def test_options_without_a_sample_are_refused():
    with pytest.raises(ConfigError, match="samples must be above 0"):
        MadeOptions("folder", samples=0)
