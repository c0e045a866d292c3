"""A file is written whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jpwr.messages import near
from jpwr.process.whole_file import replaced, replacing, write_whole


def names(folder):
    return [path.name for path in folder.iterdir()]


def test_a_file_is_replaced_with_its_permissions(tmp_path):
    file = tmp_path / "report.html"
    write_whole(file, "old")
    file.chmod(0o640)
    write_whole(file, "ü")
    assert file.read_bytes() == "ü".encode()
    assert file.stat().st_mode & 0o777 == 0o640
    assert names(tmp_path) == ["report.html"]


def test_a_full_disk_leaves_the_old_file_and_names_it(tmp_path):
    file = tmp_path / "report.html"
    file.write_text("old")
    with pytest.raises(OSError, match="No space left") as caught, replaced(file) as part:
        part.write_bytes(b"half")
        raise OSError(28, "No space left on device")
    assert caught.value.filename == str(file)
    assert (file.read_text(), names(tmp_path)) == ("old", ["report.html"])


def test_a_block_that_fails_for_another_reason_keeps_its_error(tmp_path):
    with pytest.raises(ValueError, match="wrong"), replacing(tmp_path / "a") as file:
        file.write("half")
        raise ValueError("wrong")
    assert names(tmp_path) == []


def test_a_device_is_written_to_and_stays_one(tmp_path):
    link = tmp_path / "null"
    link.symlink_to(os.devnull)
    write_whole(link, "gone")
    assert link.is_symlink()
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tabel", "did you mean 'table'?"),
        ("tab", "did you mean 'table'?"),
        ("", "choose one of table, CPU"),
        ("cpu", "did you mean 'CPU'?"),
        ("xyz", "choose one of table, CPU"),
    ],
)
def test_the_nearest_name_is_found_whatever_its_case(name, hint):
    assert near(name, ["table", "CPU"]) == hint
