"""Parameters and FLOPs in workload.yaml against the frameworks' own counts, published ones, and formulas of papers."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from benchmarks.common.workload import flops_of_sample, flops_of_token, num_parameters
from benchmarks.llm_training.sizes import SIZES
from benchmarks.llm_training.tests.conftest import imported as imported
from benchmarks.llm_training.tests.conftest import train_variant
from results.files.workloads import workloads
from tests.later import Later

keras, tf, torch = Later("keras"), Later("tensorflow"), Later("torch")
# Biases, sinks of attention and biases of the router in each of GPT-OSS-20B's 24 layers, which the size `moe` lacks.
LEFT_OUT = 4096 + 2 * 512 + 2880 + 64 + 32 + 32 * (2 * 2880 + 2880)


@pytest.mark.parametrize(
    ("workload", "model", "parameters"),
    [
        ("resnet50", "ResNet-50 v1.5", 25_557_032),  # torchvision's documentation of resnet50
        ("resnet50", "ResNet-50 v2", 25_549_352),  # timm's of resnetv2_50
        ("llm_training", "llama3-8B", 8_030_261_248),  # safetensors index of Meta-Llama-3-8B
        ("llm_training", "llama3-70B", 70_553_706_496),
        ("llm_training", "moe", 20_914_757_184 - 24 * LEFT_OUT),  # arXiv:2508.10925, table 1: 20.91B
        # Narayanan et al. 2021 (arXiv:2104.04473): 12 l h^2 + v h, and norms and biases.
        ("llm_training", "800M", 12 * 16 * 2048**2 + 50_304 * 2048 + 16 * 13 * 2048 + 2 * 2048),
    ],
)
def test_parameters_are_the_published_ones(workload, model, parameters):
    assert num_parameters(workload, model) == parameters


@pytest.mark.parametrize("size", SIZES)
def test_flops_of_gpt_are_those_of_the_formula_at_every_length(size):
    """6 for each number of a matrix that a token meets, and 12 l w s for attention: arXiv:2204.02311, appendix B.

    Of a frozen matrix 4, as it has no gradient.
    """
    shape, facts = SIZES[size], workloads()["llm_training"]
    width, keys = shape.num_heads * shape.head_width, shape.groups * shape.head_width
    networks = max(1, shape.top_k) * shape.ffn_hidden_size + shape.shared_ffn_size
    matrices = (2 + shape.gated) * networks + 2 * width + 2 * keys + shape.experts
    met = shape.num_layers * shape.hidden_size * matrices + shape.padded_vocab_size * shape.hidden_size
    of_weights = 4 * met + 6 * shape.adapter_parameters if shape.adapted else 6 * met
    for length in (1, 512, shape.sequence_length, 4096):
        attention = 12 * shape.num_layers * width * length
        assert flops_of_token("llm_training", size, length).per_unit == of_weights + attention
    assert list(facts.flops[size]) == [f"{shape.sequence_length} tokens"]


def test_flops_of_llama_are_those_of_a_published_rate():
    """Megatron-Bridge 25.11: 14,451 tokens/s and 744 TFLOP/s of one H100, with half of attention's products."""
    shape = SIZES["llama3-8B"]
    masked = 6 * shape.num_layers * shape.num_heads * shape.head_width * 8192
    per_token = flops_of_token("llm_training", "llama3-8B", 8192).per_unit
    assert 14_451 * (per_token - masked) / 1e12 == pytest.approx(744, rel=0.01)


@pytest.mark.long
@pytest.mark.parametrize("size", ["tiny", "tiny-llama", "tiny-llama-LoRA", "tiny-llama-LoRA-MLP", "tiny-moe"])
def test_gpt_has_the_parameters_and_flops_that_pytorch_counts(imported, size):
    [found] = train_variant("counted", "--size", size, steps=1)
    assert found["parameters"] == num_parameters("llm_training", size)
    assert found["flops"] == pytest.approx(8 * 64 * flops_of_token("llm_training", size, 64).per_unit, rel=1e-6)


def counted_by_pytorch(model, *shape):
    """Return the parameters of a model, and the FLOPs of its forward pass."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        model.to("meta")(torch.empty(shape, device="meta"))
    parameters = sum(weight.numel() for weight in model.parameters())
    return SimpleNamespace(parameters=parameters, flops=counter.get_total_flops())


@pytest.mark.long
@pytest.mark.parametrize(("height", "width"), [(64, 96), (192, 288), (768, 1152)])
def test_deepcam_has_the_parameters_and_flops_that_pytorch_counts(height, width):
    from benchmarks.deepcam.model import DeepLab

    model, found = f"DeepCAM {height}x{width}", counted_by_pytorch(DeepLab(), 2, 16, height, width)
    assert found.parameters == num_parameters("deepcam", model)
    first = 2 * 3**2 * 16 * 32 * (height // 2) * (width // 2)  # whose input has no gradient
    known = flops_of_sample("deepcam", model, f"{height} x {width} x 16").per_unit
    assert known == pytest.approx(3 * found.flops / 2 - first, rel=2e-4)


@pytest.mark.long
@pytest.mark.parametrize("size", [64, 224])
def test_torchvisions_resnet_has_the_parameters_and_flops_that_pytorch_counts(size):
    from benchmarks.resnet50_torch.model import build_model

    model, found = "ResNet-50 v1.5 torchvision", counted_by_pytorch(build_model(1), 2, 3, size, size)
    assert found.parameters == num_parameters("resnet50_torch", model)
    known = flops_of_sample("resnet50_torch", model, f"{size} pixels").per_unit
    assert known == 3 * found.flops / 2
    assert known == flops_of_sample("resnet50", "ResNet-50 v1.5", f"{size} pixels").per_unit


def counted_by_tensorflow(model, *shapes):
    """Return the parameters of a Keras model, and the FLOPs of its forward pass, with norms and additions."""
    from tensorflow.python.profiler.model_analyzer import profile
    from tensorflow.python.profiler.option_builder import ProfileOptionBuilder

    graph = tf.function(lambda *given: model(list(given) if shapes[1:] else given[0]))
    graph = graph.get_concrete_function(*(tf.TensorSpec((1, *shape)) for shape in shapes)).graph
    options = ProfileOptionBuilder(ProfileOptionBuilder.float_operation()).with_empty_output().build()
    parameters = sum(math.prod(weight.shape) for weight in model.trainable_variables)
    return SimpleNamespace(parameters=parameters, flops=profile(graph, options=options).total_float_ops)


@pytest.mark.long
@pytest.mark.parametrize(("variant", "size"), [("v1.5", 64), ("v2", 64), ("v1.5", 224)])
def test_resnet_has_the_parameters_and_flops_that_keras_counts(variant, size):
    from benchmarks.resnet50.model import build_model

    found, model = counted_by_tensorflow(build_model(variant, size, 1), (size, size, 3)), variant
    assert found.parameters == num_parameters("resnet50", f"ResNet-50 {model}")
    known = flops_of_sample("resnet50", f"ResNet-50 {model}", f"{size} pixels").per_unit
    assert known == pytest.approx(3 * found.flops, rel=0.02)


@pytest.mark.long
@pytest.mark.parametrize("size", [32, 64, 128])
def test_cosmoflow_has_the_parameters_and_flops_that_keras_counts(size):
    from benchmarks.cosmoflow.model import build_model

    model = build_model(size, 1)
    found = counted_by_tensorflow(model, (size, size, size, 4), (128,), (64,))
    assert found.parameters == num_parameters("cosmoflow", f"CosmoFlow {size}")
    first = 2 * 3**3 * 4 * 32 * size**3  # whose input has no gradient
    known = flops_of_sample("cosmoflow", f"CosmoFlow {size}", f"{size} x {size} x {size} x 4").per_unit
    assert known == pytest.approx(3 * found.flops - first, rel=0.02)


def test_flops_of_an_unlisted_size_are_not_known():
    assert flops_of_sample("resnet50", "ResNet-50 v2", "32 pixels").per_unit is None
