"""The readers of the frameworks, as they are."""

from __future__ import annotations

import sys

import pytest

from ioprof.summary import by_file

pytestmark = pytest.mark.long  # TensorFlow and PyTorch start

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


@pytest.mark.slow
def test_tensorflows_records_are_read_as_often_as_they_are_asked_for(ioprof, tmp_path):
    text = f"""
import os
import tensorflow as tf
os.mkdir("records")
names = [f"records/part-{{index}}" for index in range(3)]
for name in names:
    with tf.io.TFRecordWriter(name) as writer:
        for _ in range(30):
            writer.write(bytes({SIZE // 30}))
data = tf.data.TFRecordDataset(names, num_parallel_reads=3)
for _ in range(2):
    assert sum(len(one.numpy()) for one in data) == 3 * {SIZE}
"""
    found = ioprof(*script(tmp_path, text), TF_CPP_MIN_LOG_LEVEL="3")
    assert found.done.returncode == 0, found.said
    size = SIZE + 30 * 16  # each record has a length and two sums
    assert read_of(found, tmp_path / "records") == {f"part-{index}": (2 * size, 2, size) for index in range(3)}
    assert found.profile.coverage.share > 0.95


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
