"""Sizes with groups of queries, gates and experts: published counts, counts of the built model, and layouts."""

from __future__ import annotations

import pytest

from benchmarks.common.tests import forked
from benchmarks.common.tests.started import read_derived
from benchmarks.llm_training.tests.test_train import LAYOUT


def losses(folder, ranks: int, *flags: str) -> list[float]:
    record = folder / f"{len(list(folder.iterdir()))}.json"
    done = forked.run("benchmarks.llm_training", *LAYOUT, "--record", str(record), *flags, ranks=ranks)
    assert done.returncode == 0, done.stderr
    found = read_derived(record)
    assert (found["status"], found["metrics"]["trained_tokens"]) == ("ok", 5 * 8 * 64)
    return found["losses"]


@pytest.fixture(scope="module")
def alone(imported, tmp_path_factory):
    """Losses of each size on one rank."""
    folder = tmp_path_factory.mktemp("alone")
    return {size: losses(folder, 0, "--size", size) for size in ("tiny", "tiny-llama", "tiny-moe")}


@pytest.mark.long
@pytest.mark.parametrize(
    ("size", "ranks", "flags"),
    [
        ("tiny", 2, "--context-parallel-size 2"),
        ("tiny-llama", 2, ""),
        ("tiny-llama", 2, "--tensor-parallel-size 2"),
        ("tiny-llama", 2, "--pipeline-parallel-size 2"),
        ("tiny-llama", 4, "--context-parallel-size 2 --tensor-parallel-size 2 --sequence-parallel on"),
        ("tiny-moe", 2, ""),
        ("tiny-moe", 2, "--expert-parallel-size 2"),
        ("tiny-moe", 2, "--tensor-parallel-size 2 --expert-parallel-size 2"),
        ("tiny-moe", 2, "--pipeline-parallel-size 2"),
        ("tiny-moe", 4, "--tensor-parallel-size 2 --expert-parallel-size 2"),
    ],
)
def test_every_layout_has_the_losses_of_one_rank(alone, tmp_path, size, ranks, flags):
    assert losses(tmp_path, ranks, "--size", size, *flags.split()) == pytest.approx(alone[size], rel=1e-4)
