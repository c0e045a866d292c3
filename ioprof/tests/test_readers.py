"""The readers of a framework, as they are."""

from __future__ import annotations

import sys

import pytest

from ioprof.summary import by_file

pytestmark = pytest.mark.long  # PyTorch starts

SIZE = 3_000_000


def script(tmp_path, text):
    """A program in a file of its own, with all that is installed."""
    path = tmp_path / "script.py"
    path.write_text(text)
    return [sys.executable, str(path)]


def read_of(found, folder):
    """Of each file in a folder its bytes, opens and size."""
    files = {path: one for path, one in by_file(found.profile).items() if path.startswith(f"{folder}/")}
    return {path.rpartition("/")[2]: (one.bytes, one.opens, one.size_bytes) for path, one in files.items()}


@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_pytorchs_workers_lose_nothing_though_they_end_without_destructors(ioprof, tmp_path, context):
    (tmp_path / "samples").mkdir()
    for index in range(12):
        (tmp_path / "samples" / f"{index}.bin").write_bytes(bytes(SIZE // 10 + index))
    text = f"""
import os
from pathlib import Path
import torch

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 12
    def __getitem__(self, index):
        return torch.frombuffer(bytearray(Path(f"samples/{{index}}.bin").read_bytes()[:100]), dtype=torch.uint8)

if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(Samples(), 2, num_workers=2, multiprocessing_context={context!r})
    assert sum(len(batch) for batch in loader) == 12
"""
    found = ioprof(*script(tmp_path, text))
    assert found.done.returncode == 0, found.said
    sizes = {f"{index}.bin": SIZE // 10 + index for index in range(12)}
    assert read_of(found, tmp_path / "samples") == {name: (size, 1, size) for name, size in sizes.items()}
    readers = {
        process.pid
        for process in found.profile.processes
        for file in process.files
        if "/samples/" in file.path and file.bytes
    }
    assert len(readers) == 2
