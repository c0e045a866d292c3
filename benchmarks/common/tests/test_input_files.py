from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.common.input_files import identity, own_files, stage, worth_staging
from benchmarks.common.options import ConfigError, DataOptions
from ioprof.folder import save
from ioprof.tests.test_summary import file as reads_of
from ioprof.tests.test_summary import profile


@pytest.fixture
def files(tmp_path):
    made = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for name in ("one", "two"):
            made.append(tmp_path / folder / name)
            made[-1].write_bytes(f"{folder} {name}".encode())
    return made


def test_each_file_is_one_ranks_and_few_are_everybodys():
    files = [Path(str(index)) for index in range(7)]
    shares = [own_files(files, rank, 3) for rank in range(3)]
    assert sorted(file for share in shares for file in share) == files
    assert {len(share) for share in shares} == {2, 3}
    assert own_files(files, 7, 8) == files


def test_copies_are_the_same_bytes_of_files_of_one_name_too(files, tmp_path):
    staged = stage(files, tmp_path / "disk")
    assert [copy.read_bytes() for copy in staged.files] == [file.read_bytes() for file in files]
    assert len(set(staged.files)) == len(files)
    assert [copy.parent.name for copy in staged.files] == ["a", "a", "b", "b"]  # of the classes of images
    assert staged.copied_bytes == sum(len(file.read_bytes()) for file in files)
    assert not list((tmp_path / "disk").rglob("*.part"))


def test_a_copy_that_is_there_stays_and_one_of_another_time_or_size_is_made_anew(files, tmp_path):
    stage(files, tmp_path / "disk")
    assert stage(files, tmp_path / "disk").copied_bytes == 0
    files[0].write_bytes(b"other")
    files[1].write_bytes(b"longer than before")
    os.utime(files[0], (1.0, 1.0))
    staged = stage(files, tmp_path / "disk")
    assert staged.copied_bytes == len(b"other") + len(b"longer than before")
    assert staged.files[0].read_bytes() == b"other"


def test_a_full_disk_is_one_clear_sentence_and_leaves_no_part_of_a_file(files, tmp_path, monkeypatch):
    copy = shutil.copy2

    def full(file, path):
        copy(file, path)
        if Path(file) == files[2]:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copy2", full)
    with pytest.raises(ConfigError, match=r"--stage .*No space left on device\) after 2 of 4 files: make room"):
        stage(files, tmp_path / "disk")
    assert len([path for path in (tmp_path / "disk").rglob("*") if path.is_file()]) == 2


def test_a_data_set_is_identified_by_its_names_and_by_how_prepare_made_it(tmp_path):
    files = [tmp_path / name for name in ("a.h5", "b.h5")]
    (tmp_path / "made.json").write_text('{"seed": 1}')
    of_names, made = identity(files, made=False), identity(files, made=True)
    assert of_names != identity(files[:1], made=False)
    (tmp_path / "made.json").write_text('{"seed": 2}')
    assert made != identity(files, made=True)
    assert of_names == identity(files, made=False)


@pytest.mark.parametrize(("stage_bytes", "chosen"), [(1_000_000_000, [0, 1]), (5, [1]), (4, [])])
def test_files_that_took_longest_in_an_earlier_run_are_staged(files, tmp_path, stage_bytes, chosen):
    reads = [
        reads_of(str(path), len(path.read_bytes()), read_s=read_s) for path, read_s in zip(files, (1, 2), strict=False)
    ]
    for node, of_node in enumerate((reads[:1], reads[1:])):
        save(profile(of_node), tmp_path / "io" / f"n{node}")
    options = DataOptions("images", str(tmp_path), stage="y", stage_bytes=stage_bytes, stage_reads=str(tmp_path / "io"))
    assert worth_staging(files, options) == [files[at] for at in chosen]
    assert worth_staging(files[2:], options) == []  # of a rank that has other files
    with pytest.raises(ConfigError, match=r"has no reads of files below .*/other"):
        worth_staging(files, replace(options, data_dir=str(tmp_path / "other")))
    assert worth_staging(files, DataOptions("images", "x", stage="y")) == files


def test_files_by_an_earlier_runs_reads_need_these_reads():
    stated = {"stage_bytes": 1, "stage": "y"}
    for given in ({"stage_bytes": 1}, stated, {"stage": "y", "stage_reads": "io"}):
        with pytest.raises(ConfigError, match="--stage-bytes needs --stage, and by --stage-reads"):
            DataOptions("images", "x", **given)
