"""Sizes with groups of queries, gates and experts: published counts, counts of the built model, and layouts."""

from __future__ import annotations

import json

import pytest

from benchmarks.common.options import ConfigError
from benchmarks.common.tests import forked
from benchmarks.llm_training.config import Layout
from benchmarks.llm_training.sizes import SIZES
from benchmarks.llm_training.tests.test_train import LAYOUT
from benchmarks.llm_training.train import main


@pytest.mark.parametrize(
    ("size", "layout", "message"),
    [
        (
            "tiny-llama",
            Layout(4, 4, 1),
            "tensor_parallel_size 4 does not divide the model's heads of keys and values 2",
        ),
        ("tiny-llama", Layout(2, 1, 1, expert_parallel_size=2), "the model has no experts"),
        (
            "tiny-moe",
            Layout(3, 1, 1, expert_parallel_size=3),
            "3 does not divide the model's experts 8",
        ),
        ("tiny-moe", Layout(6, 1, 1, expert_parallel_size=4), "does not divide the 6 devices of a pipeline stage"),
        ("tiny-llama", Layout(2, 1, 1, context_parallel_size=2), "a sequence length that is a multiple of 4, not 63"),
        ("tiny-llama", Layout(3, 1, 1, context_parallel_size=2), "x context_parallel_size 2 = 2: use a multiple"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(size, layout, message):
    with pytest.raises(ConfigError, match=message):
        layout.check(SIZES[size], 63)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            "--size tiny-llama --sequence-length 33",
            "over 2 devices needs a sequence length that is a multiple of 2, not 33",
        ),
        (
            "--size tiny-moe --expert-parallel-size 2 --sequence-parallel off",
            "off does not work with experts and tensor",
        ),
    ],
)
def test_a_sequence_that_devices_cannot_share_is_refused(flags, message, capsys):
    assert main(["--dry-run", "--devices", "2", "--tensor-parallel-size", "2", *flags.split()]) == 2
    assert message in capsys.readouterr().err


def losses(folder, ranks: int, *flags: str) -> list[float]:
    record = folder / f"{len(list(folder.iterdir()))}.json"
    done = forked.run("benchmarks.llm_training", *LAYOUT, "--record", str(record), *flags, ranks=ranks)
    assert done.returncode == 0, done.stderr
    found = json.loads(record.read_text())
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
