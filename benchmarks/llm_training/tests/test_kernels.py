"""What a run computes with: on the CPU what can run there, and the path of a GPU on tensors without data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.common.launch import Launch
from benchmarks.common.options import ComputeOptions, ConfigError
from benchmarks.common.session import parse_options
from benchmarks.llm_training.config import Layout
from benchmarks.llm_training.sizes import SIZES
from benchmarks.llm_training.tests.conftest import train_variant
from benchmarks.llm_training.tests.test_train import ENVIRONMENT
from benchmarks.llm_training.train import Gpt
from tests.later import Later
from tests.needs import need, not_run
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS"
torch = Later("torch")
names = ("fp8", "kernels", "model", "optimizer")
fp8, kernels, model, optimizer = (Later(f"benchmarks.llm_training.gpt.{name}") for name in names)
on_pytorch = Later("benchmarks.on_pytorch.target")


@pytest.mark.parametrize(
    ("properties", "ids"),
    [
        ({}, ""),
        ({"uuid": "6e8a3b1c-2d4f-4a6b-8c0d-1e2f3a4b5c6d"}, "GPU-6e8a3b1c-2d4f-4a6b-8c0d-1e2f3a4b5c6d"),
        (
            {"uuid": "30663131-3832-6632-3938-386330613430", "pci_domain_id": 1, "pci_bus_id": 193, "pci_device_id": 0},
            "GPU-30663131-3832-6632-3938-386330613430 0001:c1:00.0",
        ),
    ],
)
def test_a_gpu_is_recorded_with_the_ids_that_pytorch_has(properties, ids):
    assert on_pytorch.device_ids(SimpleNamespace(**properties)) == ids


@pytest.mark.parametrize(
    ("capability", "asked", "precision"),
    [
        (7, "auto", "fp16"),
        (7, "bf16", None),
        (7, "nvfp4", None),
        (7, "fp32", "fp32"),
        (8, "auto", "bf16"),
        (8, "fp16", "fp16"),
    ],
)
def test_bf16_that_pytorch_would_emulate_is_none(monkeypatch, capability, asked, precision):
    """As on a V100, by PyTorch's own rule from what the driver shows."""
    cuda = torch.cuda
    for name, found in (
        ("is_available", True),
        ("device_count", 1),
        ("set_device", None),
        ("current_device", 0),
        ("get_device_name", "Tesla V100"),
        ("get_device_properties", SimpleNamespace(major=capability)),
        ("_check_bf16_tensor_supported", True),
    ):
        monkeypatch.setattr(cuda, name, lambda *_, found=found: found)
    if precision is None:
        with pytest.raises(ConfigError, match=f"--precision {asked} was asked for, but Tesla V100 has no bf16"):
            on_pytorch.choose_target(ComputeOptions(precision=asked), Launch())
    else:
        assert on_pytorch.choose_target(ComputeOptions(precision=asked), Launch()).precision == precision


@pytest.fixture(scope="module")
def plain_losses(imported) -> list[float]:
    return train_variant("plain")[0]["losses"]


def test_without_transformer_engine_fp8_learns_as_bf16_does(plain_losses):
    assert train_variant("fp8-by-torch")[0]["losses"] == pytest.approx(plain_losses, rel=1e-2)


def test_a_product_in_fp8_and_its_gradients_are_near_those_of_float32():
    torch.manual_seed(1)
    x, weight = torch.randn(32, 2, 48, requires_grad=True), torch.randn(64, 48, requires_grad=True)
    near = torch.nn.functional.linear(x, weight)
    asked = torch.randn_like(near)
    wanted = [near.detach(), *torch.autograd.grad(near, (x, weight), asked)]
    out = fp8.linear(x, weight)
    found = [out.detach(), *torch.autograd.grad(out, (x, weight), asked)]
    # Both factors are rounded: to 3 bits of the mantissa, gradients to 2.
    for ours, theirs, error in zip(found, wanted, (0.04, 0.07, 0.07), strict=True):
        assert (ours - theirs).norm() / theirs.norm() < error
    [of_frozen] = torch.autograd.grad(fp8.linear(x, weight.detach()), x, asked)
    assert torch.equal(of_frozen, found[1])


@pytest.mark.parametrize(("variant", "tolerance"), [("parts", 1e-3), ("layers", 1e-5)])
@pytest.mark.slow
def test_compiled_kernels_have_the_losses_of_others(variant, tolerance, plain_losses):
    need("c++")
    [found] = train_variant(variant)
    assert found["losses"] == pytest.approx(plain_losses, rel=tolerance)
    assert found["graph_breaks"] == 0
    if variant == "layers":
        assert found["graphs"] == 1  # all layers share it


def choose(flags: str = "", precision: str = "bf16", tensor: int = 1, context: int = 1) -> kernels.Kernels:
    # A GPU's choice; the sample for attention is the CPU's.
    target = on_pytorch.Target("gpu", torch.device("cpu"), precision)
    return kernels.choose_kernels(
        parse_options(Gpt, flags.split()), target, Layout(tensor * context, tensor, 1, context)
    )


@pytest.mark.parametrize(
    ("flags", "layout", "words"),
    [
        ("", {"tensor": 2}, "--precision fp8 with tensor parallelism needs the layers of TransformerEngine"),
        ("--size tiny-moe", {}, "--precision fp8 with experts needs"),
        ("--sequence-length 36", {"context": 2}, "with micro batches of 72 tokens on a device"),
        ("--sequence-length 30", {}, "with micro batches of 120 tokens on a device, which 16 does not divide, needs"),
    ],
)
def test_fp8_by_torch_is_for_one_device_per_layer(monkeypatch, flags, layout, words):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    assert choose(precision="fp8").fp8 == "torch._scaled_mm, per tensor"
    with pytest.raises(ConfigError, match=words):
        choose(flags, "fp8", **layout)


def test_fp8_with_encodings_of_the_gpus_own_is_refused(monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 5))
    assert choose(precision="fp8").fp8 == "torch._scaled_mm, per tensor"
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 4))
    with pytest.raises(ConfigError, match="fp8 with this GPU's encodings needs the layers of TransformerEngine"):
        choose(precision="fp8")


@pytest.mark.parametrize(
    ("size", "query", "key"),
    [("moe", (64, 64), (8, 64)), ("llama3-8B", (32, 128), (8, 128)), ("tiny", (8, 32), (8, 32))],
)
def test_attention_is_chosen_for_the_models_own_heads(monkeypatch, size, query, key):
    asked = []

    def choice(*tensors, **options):
        asked.append(([(one.shape[1], one.shape[3]) for one in tensors], options["enable_gqa"]))
        return torch.nn.attention.SDPBackend.FLASH_ATTENTION.value

    monkeypatch.setattr(import_module("torch"), "_fused_sdp_choice", choice)
    assert choose(f"--size {size} --sequence-length 16").attention == "flash"
    assert asked == [([query, key, key], query != key)]


def test_attention_without_a_kernel_here_is_refused(monkeypatch):
    def none(*tensors, **options):
        raise RuntimeError("no available kernel")

    monkeypatch.setattr(import_module("torch"), "_fused_sdp_choice", none)
    with pytest.raises(ConfigError, match="--attention auto was asked for, but PyTorch has no such kernel here"):
        choose()


@pytest.fixture
def with_transformer_engine(monkeypatch):
    """As TransformerEngine 2.5.0 on a Hopper with CUDA 12.8."""
    monkeypatch.setattr("benchmarks.llm_training.gpt.kernels.HAVE_TE", True)
    monkeypatch.setattr("benchmarks.llm_training.gpt.kernels.get_te_version", lambda: "2.5.0")
    names = ("DelayedScaling", "Float8CurrentScaling", "Float8BlockScaling", "MXFP8BlockScaling")
    monkeypatch.setitem(sys.modules, "transformer_engine.common.recipe", SimpleNamespace(**dict.fromkeys(names)))
    checks = SimpleNamespace(
        check_fp8_support=lambda: (True, ""),
        check_fp8_block_scaling_support=lambda: (False, "FP8 block scaled GEMM requires Hopper and CUDA >= 12.9."),
        check_mxfp8_support=lambda: (False, "Device compute capability 10.0 or higher required for MXFP8 execution."),
    )
    monkeypatch.setitem(sys.modules, "transformer_engine.pytorch.fp8", checks)
    return checks


@pytest.mark.parametrize(
    ("flags", "precision", "message"),
    [
        ("", "nvfp4", "nvfp4 was asked for, but TransformerEngine 2.5.0 has no NVFP4BlockScaling: use bf16"),
        ("", "mxfp8", "mxfp8 was asked for, but Device compute capability 10.0 .* execution: use bf16"),
        ("--fp8-recipe blockwise", "fp8", "fp8 with --fp8-recipe blockwise was asked for, but FP8 block"),
        ("--layers megatron", "mxfp8", "mxfp8 needs the layers of TransformerEngine: use bf16"),
        ("--fp8-recipe delayed", "bf16", "--fp8-recipe delayed needs --precision fp8"),
        ("--compile layers", "bf16", "--compile layers needs --layers megatron"),
        ("--attention flash", "bf16", "--attention needs --layers megatron"),
        ("--cuda-graph on", "fp8", "fp8 changes its scales"),
        ("--cuda-graph on --recompute full", "bf16", "--cuda-graph on does not work with --recompute full"),
        ("--cuda-graph on --size tiny-moe", "bf16", "--cuda-graph on does not work with experts"),
        ("--cuda-graph on --warmup-steps 1", "bf16", "--cuda-graph on needs --warmup-steps 2 or more"),
    ],
)
def test_choices_that_do_not_go_together_are_refused(flags, precision, message, with_transformer_engine):
    with pytest.raises(ConfigError, match=message):
        choose(flags, precision)


def test_a_gpu_takes_transformer_engines_layers_where_they_are(with_transformer_engine):
    assert choose().layers == "transformer-engine"
    assert choose("--layers megatron").layers == "megatron"


@pytest.mark.parametrize(
    ("precision", "recipe", "settings"),
    [
        ("bf16", None, (None, None)),
        ("fp8", "tensorwise", ("hybrid", None)),
        ("fp8", "delayed", ("hybrid", None)),
        ("mxfp8", "mxfp8", ("e4m3", None)),
        ("nvfp4", "nvfp4", (None, "e2m1")),
    ],
)
def test_megatron_core_gets_the_recipe_that_the_record_states(precision, recipe, settings, with_transformer_engine):
    sys.modules["transformer_engine.common.recipe"].NVFP4BlockScaling = None
    for name in ("mxfp8", "nvfp4"):
        setattr(with_transformer_engine, f"check_{name}_support", lambda: (True, ""))
    found = choose(f"--fp8-recipe {recipe}" if precision == "fp8" else "", precision)
    assert (found.recipe, found.fp8) == (recipe, "transformer-engine" if recipe else "")
    plain = replace(found, layers="megatron")  # what fuses rotary positions is not installed
    config = model.transformer_config(SIZES["tiny"], Layout(1, 1, 1), torch.bfloat16, False, kernels=plain)
    assert (config.fp8, config.fp4) == settings
    assert config.bf16
    assert recipe in (None, config.fp4_recipe if config.fp4 else config.fp8_recipe)


def test_transformer_engine_that_cannot_be_imported_is_no_reason_to_train_without_it(monkeypatch, tmp_path):
    package = tmp_path / "transformer_engine"
    package.mkdir()
    (package / "__init__.py").write_text("raise OSError('libcudart.so.12: cannot open')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"the installed TransformerEngine \(libcudart.so.12: cannot open\): use"):
        choose()
    assert choose("--layers megatron").layers == "megatron"


def test_nothing_is_compiled_without_a_compiler(monkeypatch):
    monkeypatch.setattr("benchmarks.llm_training.gpt.kernels._missing_compiler", lambda target: "Triton")
    assert choose().compile == "off"
    with pytest.raises(ConfigError, match="--compile parts needs Triton, which is not installed"):
        choose("--compile parts")


@pytest.fixture(scope="module")
def gpu_library(tmp_path_factory) -> str:
    need("c++")
    own = Path(import_module("torch").__file__).parent
    library = tmp_path_factory.mktemp("gpu") / "gpu_without_data.so"
    flags = ["-std=c++20", "-shared", "-fPIC", f"-I{own}/include", f"-L{own}/lib", f"-Wl,-rpath,{own}/lib"]
    source = str(HERE / "gpu_without_data.cpp")
    subprocess.run(["c++", *flags, source, "-o", str(library), "-lc10", "-ltorch_cpu"], check=True)
    return str(library)


GPU_RUNS = (
    (0, 1, "800M", "bf16", ("--global-batch-size", "8")),
    (0, 8, "800M", "bf16", ("--recompute", "selective")),
    (0, 8, "800M", "bf16", ("--compile", "layers")),
    # Tensor and pipeline parallel: the first stage, and the last.
    (0, 8, "13B", "bf16", ("--recompute", "full", "--global-batch-size", "4")),
    (7, 8, "13B", "bf16", ("--global-batch-size", "8")),
    (0, 4, "117M", "fp16", ("--tensor-parallel-size", "4", "--global-batch-size", "8")),
    (0, 1, "117M", "fp32", ("--attention", "flash", "--global-batch-size", "8")),
    (0, 2, "llama3-8B", "bf16", ("--compile", "off", "--global-batch-size", "2")),
)


@pytest.fixture(scope="module")
def gpu_runs(gpu_library):
    """What each of them holds, or why it holds nothing."""
    if torch.backends.cuda.is_built():  # the stand-in for a GPU registers itself in CUDA's place
        not_run("the CPU build of PyTorch: scripts/setup.sh llm installs it where no GPU is found")
    cases = [
        (rank, world_size, ["--size", size, "--precision", precision, *flags])
        for rank, world_size, size, precision, flags in GPU_RUNS
    ]
    command = [sys.executable, "-m", "benchmarks.llm_training.tests.gpu_without_data", gpu_library, json.dumps(cases)]
    limit_s = len(cases) * PATIENCE_S
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=limit_s)
    assert done.returncode == 0, done.stderr
    return dict(zip(GPU_RUNS, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("case", GPU_RUNS, ids=lambda case: " ".join(map(str, (*case[:4], *case[4]))))
@pytest.mark.slow
def test_the_path_of_a_gpu_holds_what_the_plan_says(case, gpu_runs):
    """Every type and shape that megatron-core and PyTorch check on a GPU, at full size."""
    rank, world_size, size, precision, flags = case
    found = gpu_runs[case]
    assert isinstance(found, dict), found
    shape = SIZES[size]
    asked = dict(zip(flags[::2], flags[1::2], strict=True))
    tensor = int(asked.get("--tensor-parallel-size", shape.tensor_parallel_size))
    layout = Layout(world_size, tensor, shape.pipeline_parallel_size)
    assert found["devices"] == ["cuda:0"]
    assert found["weights"] == [str(on_pytorch.DTYPES[precision])]
    stage = rank * layout.pipeline_parallel_size // world_size
    is_last = stage == layout.pipeline_parallel_size - 1  # it alone has losses
    assert found["losses"] == [["torch.float32", "cuda:0"]] * (2 if is_last else 0)
    assert found["fused"]
    several = layout.data_parallel_size > 1
    assert found["overlap"] == [several, several and "layers" not in flags]
    assert set(found["regions"]) == {"Forward", "Backward", "Comm", "Update", "IO"}
    assert found["lanes"] == (["communication"] if several else [])


def test_norm_and_scale_of_all_gradients_are_those_of_megatron():
    from megatron.core.utils import local_multi_tensor_scale

    tensors = [torch.randn(3, 5), torch.randn(7)]
    norm, _ = optimizer.norm_of_all(0, torch.zeros(1), [tensors], False)
    assert norm.tolist() == pytest.approx([torch.cat([tensor.flatten() for tensor in tensors]).norm().item()])
    wanted = [tensor.clone() for tensor in tensors]
    local_multi_tensor_scale(0, None, [wanted, wanted], 0.5)
    copies = [torch.empty_like(tensor) for tensor in tensors]
    optimizer.scale_all(0, torch.zeros(1), [tensors, copies], 0.5)
    optimizer.scale_all(0, torch.zeros(1), [tensors, tensors], 0.5)
    for one in (tensors, copies):
        assert all(map(torch.equal, one, wanted))


@pytest.mark.parametrize("late", [False, True])
def test_weights_that_would_be_gathered_late_are_gathered_before_a_checksum(late):
    from benchmarks.llm_training.gpt.state import State

    gathered = []
    model = SimpleNamespace(
        ddp_config=SimpleNamespace(overlap_param_gather=late),
        start_param_sync=lambda force_sync: gathered.append(force_sync),
        module=SimpleNamespace(parameters=list),
    )
    State(model, SimpleNamespace(tensors=list)).checksum()
    assert gathered == [True] * late


def test_weights_of_experts_in_one_product_begin_as_those_of_single_ones():
    named = model.global_name("decoder.layers.1.mlp.experts.linear_fc2.weight3", 4, 16, tied=False)
    assert named == "decoder.layers.5.mlp.experts.local_experts.19.linear_fc2.weight"
    assert model.global_name("output_layer.weight", 0, 0, tied=True) == "embedding.word_embeddings.weight"


@pytest.mark.parametrize(
    ("capability", "flags", "given", "seen"),
    [
        ((9, 0), ["--tensor-parallel-size", "2"], {}, "1"),
        ((9, 0), ["--context-parallel-size", "2"], {}, "1"),
        ((9, 0), ["--tensor-parallel-size", "2"], {QUEUES: "8"}, "8"),
        ((9, 0), ["--pipeline-parallel-size", "2"], {}, None),
        ((10, 0), ["--tensor-parallel-size", "2"], {}, "32"),
        (None, ["--tensor-parallel-size", "2"], {}, None),  # as on AMD: NVML does not know any
    ],
)
def test_communication_has_queues_of_its_own(monkeypatch, capability, flags, given, seen):
    monkeypatch.setattr(os, "environ", given)
    monkeypatch.setattr("benchmarks.llm_training.train.compute_capability", lambda: capability)
    Gpt(parse_options(Gpt, flags), Launch(world_size=2, local_world_size=2)).set_environment()
    assert given.get(QUEUES) == seen
