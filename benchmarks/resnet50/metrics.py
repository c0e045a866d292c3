"""What is computed from counts and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb

from benchmarks.common.record import EFFECTIVE, MEASURED
from benchmarks.common.step_timer import percentile
from benchmarks.common.throughput import throughput_metrics
from benchmarks.resnet50.config import EXPANSION, NUM_CLASSES, STAGES, convolutions
from benchmarks.resnet50.turns import Turns

FLOPS_SOURCE = "2 x multiply-adds of all convolutions and the last layer, x 3 for training"
IMAGES_PER_EPOCH = 1_281_167  # of ImageNet's training set


def forward_flops_per_image(image_size: int) -> int:
    """FLOPs of the model's forward pass on one image: convolutions and the last layer, 8.2 GFLOP at 224 pixels."""
    return sum(layer.flops for layer in convolutions(image_size))


def training_flops_per_image(image_size: int) -> int:
    """Forward, and twice as much backward: gradients of activations and of weights."""
    return 3 * forward_flops_per_image(image_size)


def num_parameters(variant: str) -> int:
    """Trainable parameters: kernels, two per channel of each normalisation, and the last layer's biases."""
    kernels = sum(layer.weights for layer in convolutions(32))
    normalised = 64  # v1.5: after every convolution
    width_in = 64
    for blocks, width in STAGES:
        if variant == "v1.5":
            normalised += blocks * (2 * width + EXPANSION * width) + EXPANSION * width
        else:  # v2: before every convolution of a block, and once at the end
            normalised += width_in + (blocks - 1) * EXPANSION * width + blocks * 2 * width
        width_in = EXPANSION * width
    if variant == "v2":
        normalised += width_in - 64  # the first convolution is followed by the first block's own
    return kernels + 2 * normalised + NUM_CLASSES


def training_metrics(
    image_size: int,
    global_batch_size: int,
    num_devices: int,
    call_times_s: list[float],
    steps_per_call: int,
    peak_tflops_per_device: float,
) -> dict[str, float | int | str | None]:
    """Throughput, step times and FLOP rates of calls that made several steps each."""
    return {
        **throughput_metrics(
            "image",
            len(call_times_s) * steps_per_call * global_batch_size,
            sum(call_times_s),
            [time_s / steps_per_call for time_s in call_times_s],
            num_devices,
            training_flops_per_image(image_size),
            FLOPS_SOURCE,
            peak_tflops_per_device,
        ),
        "images_per_epoch": IMAGES_PER_EPOCH,
    }


def effective_metrics(
    global_batch_size: int,
    num_devices: int,
    steps_per_call: int,
    turns: Turns,
    input_wait_share: float,
    read: Mapping[str, float],
) -> dict[str, float | int | str | None]:
    """Throughput through the input path beside that of the same run's compute blocks.

    `effective_over_compute` is the median over pairs of blocks, with an interval that holds the true median in at least
    95 of 100 runs; null with fewer than 6 pairs. `input_wait_share` (0 to 1) is of the time of the steps that were
    waited for; `step_slowdown` is how much longer such a step itself took than one on the device's own data.
    `read` is what was read during the effective blocks, in units of its keys, and comes out per second.
    """
    effective_s = turns.durations_s(EFFECTIVE)
    images = len(effective_s) * turns.calls_per_block * steps_per_call * global_batch_size
    images_per_s = images / sum(effective_s)
    ratios = [compute / effective for compute, effective in zip(turns.durations_s(MEASURED), effective_s, strict=True)]
    low, high = median_interval(ratios)
    return {
        "effective_s": sum(effective_s),
        "effective_images": images,
        "effective_images_per_s": images_per_s,
        "effective_images_per_s_per_device": images_per_s / num_devices,
        "effective_over_compute": percentile(ratios, 50),
        "effective_over_compute_low": low,
        "effective_over_compute_high": high,
        "effective_over_compute_pairs": len(ratios),
        "input_wait_share": input_wait_share,
        "input_wait_percent": 100 * input_wait_share,
        "step_slowdown": percentile(turns.effective_steps_s, 50) / percentile(turns.compute_steps_s, 50),
        **{f"{key}_per_s": value / sum(effective_s) for key, value in read.items()},
    }


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float | None, float | None]:
    """Between which of the values the median lies with that confidence, whatever their distribution.

    (None, None) where there are too few values to say. Conover 1999, Practical Nonparametric Statistics, section 3.2.
    """
    count, ordered = len(values), sorted(values)
    outside, low = 0.0, None
    for index in range(count // 2):
        outside += 2 * comb(count, index) / 2**count  # that the median is beyond the index-th value of either end
        if outside > 1 - confidence:
            break
        low = index
    return (None, None) if low is None else (ordered[low], ordered[count - 1 - low])
