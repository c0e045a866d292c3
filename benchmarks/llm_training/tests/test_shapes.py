"""Sizes with groups of queries, gates and experts: published counts, counts of the built model, and layouts."""

from __future__ import annotations

import json

import pytest

from benchmarks.common.options import ConfigError
from benchmarks.common.tests import forked
from benchmarks.llm_training.config import Layout
from benchmarks.llm_training.plan import stage_parameters
from benchmarks.llm_training.sizes import SIZES
from benchmarks.llm_training.tests.test_plan import count
from benchmarks.llm_training.tests.test_train import LAYOUT
from benchmarks.llm_training.train import main

# Of GPT-OSS-20B in each of its 24 layers, which the size leaves out: biases of queries, keys, values and the output,
# an attention sink for each head, and biases of the router and of 32 experts.
LEFT_OUT = 4096 + 2 * 512 + 2880 + 64 + 32 + 32 * (2 * 2880 + 2880)


@pytest.mark.parametrize(
    ("size", "parameters"),
    [
        ("llama3-8B", 8_030_261_248),  # model card of Meta-Llama-3-8B: 8.03B; safetensors index
        ("llama3-70B", 70_553_706_496),  # of Meta-Llama-3-70B: 70.6B
        ("moe", 20_914_757_184 - 24 * LEFT_OUT),  # of gpt-oss-20b, arXiv:2508.10925, table 1: 20.91B
    ],
)
def test_parameters_are_the_published_ones(size, parameters):
    assert SIZES[size].num_parameters == parameters


def test_active_parameters_are_the_published_ones():
    # arXiv:2508.10925, table 1: 3.61B, without the embedding.
    shape = SIZES["moe"]
    active = shape.num_active_parameters - shape.padded_vocab_size * shape.hidden_size
    assert active / 1e9 == pytest.approx(3.61, abs=0.005)


@pytest.mark.parametrize(("size", "source"), [("llama3-8B", 8192), ("llama3-70B", 8192), ("moe", 4096)])
def test_flops_are_six_for_each_active_parameter_and_those_of_attention(size, source):
    shape = SIZES[size]
    met = shape.num_active_parameters - shape.padded_vocab_size * shape.hidden_size
    attention = 12 * shape.num_layers * shape.query_width * source
    assert shape.flops_per_token(source) == pytest.approx(6 * met + attention, rel=1e-4)  # norms are no matrices


def test_llama_8b_in_published_tokens_and_flops():
    # Megatron-Bridge 25.11, Llama-3 8B at 8192 tokens: 14,451 tokens/s and 744 TFLOP/s of one H100, with half of
    # attention's products, which the mask leaves.
    shape = SIZES["llama3-8B"]
    masked = 6 * shape.num_layers * shape.query_width * 8192
    assert 14_451 * (shape.flops_per_token(8192) - masked) / 1e12 == pytest.approx(744, rel=0.01)


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


@pytest.mark.long
@pytest.mark.parametrize("size", ["tiny-llama", "tiny-moe"])
def test_flops_and_parameters_are_those_that_pytorch_counts(imported, size):
    found, shape = count(size, "1", "1", "flops"), SIZES[size]
    assert found["parameters"] == [shape.num_parameters]
    assert found["flops_per_token"] == pytest.approx(shape.flops_per_token(found["length"]), rel=1e-6)


@pytest.mark.long
def test_the_planned_parameters_of_experts_are_those_of_every_rank(imported):
    found = count("tiny-moe", "2", "1", "2", ranks=2)["parameters"]
    assert found == [stage_parameters(SIZES["tiny-moe"], Layout(2, 2, 1, 1, 2), 0)] * 2


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
