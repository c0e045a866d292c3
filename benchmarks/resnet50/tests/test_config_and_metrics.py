from __future__ import annotations

import pytest

from benchmarks.common.launch import Launch
from benchmarks.common.options import ConfigError, RunOptions, WindowOptions
from benchmarks.resnet50.config import (
    BatchOptions,
    ComputeOptions,
    Config,
    DataOptions,
    ModelOptions,
    TrainingOptions,
)
from benchmarks.resnet50.metrics import forward_flops_per_image, num_parameters, training_metrics
from benchmarks.resnet50.train import layout_of, run_problem


def test_parameters_are_those_of_the_literature():
    # torchvision's documentation of resnet50, and timm's of resnetv2_50.
    assert num_parameters("v1.5") == 25_557_032
    assert num_parameters("v2") == 25_549_352


def test_flops_are_those_of_the_literature():
    # torchvision's documentation of resnet50: 4.09 G multiply-adds at 224 pixels.
    assert forward_flops_per_image(224) == pytest.approx(2 * 4.09e9, rel=2e-3)


def test_metrics_of_known_steps():
    metrics = training_metrics(224, 64, 2, [1.0, 3.0], steps_per_call=5, peak_tflops_per_device=312)
    assert metrics["measured_images"] == 2 * 5 * 64
    assert metrics["images_per_s"] == pytest.approx(160)
    assert metrics["images_per_s_per_device"] == pytest.approx(80)
    assert metrics["step_time_median_s"] == pytest.approx(0.4)
    assert metrics["tflops_per_device"] == pytest.approx(80 * 3 * 8.178e9 / 1e12, rel=1e-3)
    assert metrics["mfu"] == pytest.approx(metrics["tflops_per_device"] / 312)
    assert metrics["images_per_epoch"] == 1_281_167
    assert metrics["model_flops_source"] == "2 x multiply-adds of all convolutions and the last layer, x 3 for training"


@pytest.mark.parametrize(
    "make",
    [
        lambda: ModelOptions(image_size=0),
        lambda: BatchOptions(global_batch_size=-1),
        lambda: ComputeOptions(steps_per_call=0),
        lambda: DataOptions(data="imagenet"),
        lambda: DataOptions(data="synthetic", data_dir="x"),
        lambda: TrainingOptions(label_smoothing=1.0),
        lambda: TrainingOptions(learning_rate=0),
    ],
)
def test_options_that_make_no_run_are_refused(make):
    with pytest.raises(ConfigError):
        make()


def config(compute, data, batch=16) -> Config:
    return Config(ModelOptions(), BatchOptions(batch), compute, data, TrainingOptions(), WindowOptions(), RunOptions())


@pytest.mark.parametrize(
    ("compute", "data", "message"),
    [
        (ComputeOptions(device="ipu"), DataOptions("synthetic-host", effective=True), "cannot time single steps"),
        (ComputeOptions(steps_per_call=2, devices_per_process=2), DataOptions("synthetic-host"), "needs --data synth"),
    ],
)
def test_options_that_do_not_go_together_are_refused(compute, data, message):
    with pytest.raises(ConfigError, match=message):
        config(compute, data)


def test_a_batch_that_the_devices_cannot_share_is_refused():
    with pytest.raises(ConfigError, match="global_batch_size 15 is not a multiple of the 2 devices"):
        layout_of(config(ComputeOptions(), DataOptions(), 15), Launch(0, 2, 0, 2))


def test_only_224_pixels_are_comparable_and_odd_sizes_are_warned_about():
    assert ModelOptions().is_comparable
    assert not ModelOptions(image_size=64).is_comparable
    assert ModelOptions(image_size=64).warning == ""
    assert "not a multiple of 32" in ModelOptions(image_size=100).warning


@pytest.mark.parametrize(
    ("losses", "read", "damaged", "problem"),
    [
        ([6.9, 6.8], 10_000, 10, ""),
        ([6.9, 6.8], 0, 0, ""),
        ([6.9, float("nan")], 0, 0, "the loss is nan in call 1"),
        ([6.9, 6.8], 10_000, 11, "11 of 10000 records could not be used"),
    ],
)
def test_a_run_that_diverged_or_read_damaged_data_says_so(losses, read, damaged, problem):
    assert run_problem(losses, read, damaged).startswith(problem)
    assert bool(run_problem(losses, read, damaged)) == bool(problem)
