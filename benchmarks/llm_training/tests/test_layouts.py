"""Every layout of every kind of size has the losses of one rank, and reads back the state that it wrote."""

from __future__ import annotations

import pytest

from benchmarks.llm_training.tests.conftest import LAYOUT, trained
from tests.needs import need

pytestmark = pytest.mark.long

LORA = "tiny-llama-LoRA-MLP"
WITHOUT_DROPOUT = "benchmarks.llm_training.tests.lora_without_dropout"


def losses(record, size: str, *flags: str, ranks: int = 0) -> list[float]:
    # Adapters alone change the losses within a few steps only at a higher learning rate.
    rate, module = (["--learning-rate", "1e-2"], WITHOUT_DROPOUT) if size == LORA else ([], "")
    found = trained(record, *LAYOUT, "--size", size, *rate, *flags, ranks=ranks, module=module)
    assert (found["model"], len(found["losses"])) == (size, 5)
    assert len(found["devices"]) == max(1, ranks)
    if "--checkpoint" in flags:
        number_bytes = 6 if "bf16" in flags else 12  # of weights, and of the two that Adam has of each
        assert found["metrics"]["checkpoint_bytes"] > number_bytes * found["metrics"]["num_parameters"]
    return found["losses"]  # not that of the step between the write and the read


@pytest.fixture(scope="module")
def alone(imported, tmp_path_factory):
    """Losses of each size on one rank."""
    folder = tmp_path_factory.mktemp("alone")
    return {size: losses(folder / size, size) for size in ("tiny", "tiny-llama", "tiny-moe", LORA)}


def slow(*case: object):
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("size", "ranks", "flags"),
    [
        ("tiny", 2, "--context-parallel-size 2"),
        ("tiny", 2, "--pipeline-parallel-size 2 --precision bf16 --checkpoint"),
        ("tiny", 2, "--tensor-parallel-size 2 --sequence-parallel on --recompute full"),
        ("tiny", 4, "--tensor-parallel-size 2 --pipeline-parallel-size 2"),
        slow("tiny", 2, "--tensor-parallel-size 2 --compile layers --checkpoint"),
        ("tiny-llama", 2, "--checkpoint"),
        ("tiny-llama", 4, "--context-parallel-size 2 --tensor-parallel-size 2 --sequence-parallel on"),
        ("tiny-moe", 2, ""),
        slow("tiny-moe", 2, "--expert-parallel-size 2"),
        slow("tiny-moe", 2, "--pipeline-parallel-size 2"),
        ("tiny-moe", 4, "--tensor-parallel-size 2 --expert-parallel-size 2"),
        (LORA, 2, ""),
        (LORA, 2, "--tensor-parallel-size 2 --sequence-parallel on --recompute full"),
        slow(LORA, 4, "--tensor-parallel-size 2 --pipeline-parallel-size 2"),
    ],
)
def test_every_layout_has_the_losses_of_one_rank(alone, tmp_path, size, ranks, flags):
    if "--compile" in flags:
        need("c++")
    tolerance = 2e-2 if "bf16" in flags else 1e-4
    folder = (str(tmp_path / "kept"), "--checkpoints", "1") if flags.endswith("--checkpoint") else ()
    found = losses(tmp_path / "record.json", size, *flags.split(), *folder, ranks=ranks)
    assert found == pytest.approx(alone[size], rel=tolerance)
