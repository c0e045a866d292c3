"""Work of a device in one training step: counts that do not depend on the machine."""

from __future__ import annotations

from typing import NamedTuple

TRAINED, FORWARD = 3.0, 1.0  # in forward passes: training has a backward pass with twice the work
FLOPS_PER_BYTE = 100.0  # of a convolutional network; the fitted factor corrects it
STATE_BYTES = 16.0  # read and written per parameter by the optimizer: weight, gradient, two moments in float32


class Shape(NamedTuple):
    """Shape of a decoder; sizes are numbers of elements, not bytes."""

    layers: int
    hidden: int
    ffn: int
    vocab: int
    sequence_length: int
    parameters: float
    gated: bool = False  # a feed-forward layer of three matrices, not two
    kv_share: float = 1.0  # heads of keys and values over all heads


class Layout(NamedTuple):
    """Division of a step among devices."""

    devices: int
    global_batch: int
    micro_batch: int
    tensor: int = 1
    pipeline: int = 1
    interleaved: int = 1  # stages of the pipeline per device
    shards_weights: bool = False  # weights are sharded, and gathered in each pass
    recompute: bool = False  # of all layers


class Work(NamedTuple):
    """Work of one device in one step."""

    matmul_flops: float
    attention_flops: float
    activation_bytes: float
    layers_started: float
    optimizer_bytes: float
    exchanged_bytes: float  # gradients, and weights that are gathered, between copies of the model
    tensor_bytes: float  # activations between the devices that share a layer
    bubble: float  # relative increase of a step's time by the pipeline


def decoder_work(shape: Shape, layout: Layout) -> Work:
    """Return the work of one device in a training step of a decoder.

    FLOPs are by Narayanan et al. 2021 (arXiv:2104.04473), section 5.1, with the layer's own widths and half of the
    attention masked. Activations are the bytes that elementwise operations move. The pipeline's bubble is
    (p - 1) / (v m), section 2.2 there.
    """
    model = layout.tensor * layout.pipeline
    copies = max(1, layout.devices // model)
    micro_batches = max(1.0, layout.global_batch / (copies * layout.micro_batch))
    mine = layout.global_batch * shape.sequence_length / copies / model  # tokens per device
    passes = TRAINED + (FORWARD if layout.recompute else 0.0)
    h = shape.hidden
    layer_weights = 2 * h * h * (1 + shape.kv_share) + (3 if shape.gated else 2) * h * shape.ffn
    matmul = 2 * passes * shape.layers * layer_weights + 2 * TRAINED * shape.vocab * h
    attention = 2 * passes * shape.layers * h * shape.sequence_length
    gathered = (3 if layout.recompute else 2) if layout.shards_weights else 0
    exchanged = 2 * shape.parameters / model * (2 + gathered * micro_batches) if copies > 1 else 0.0
    between = 4 * 2 * 2 * h * shape.layers * mine * passes / TRAINED if layout.tensor > 1 else 0.0
    return Work(
        matmul * mine,
        attention * mine,
        shape.layers * h * mine * passes,
        shape.layers / layout.pipeline * micro_batches * passes,
        STATE_BYTES * shape.parameters / model / (copies if layout.shards_weights else 1),
        exchanged,
        between,
        (layout.pipeline - 1) / (layout.interleaved * micro_batches),
    )


def image_work(flops_per_sample: float, parameters: float, devices: int, global_batch: int) -> Work:
    """Return the work of a data-parallel step of a convolutional network; activation bytes scale with FLOPs."""
    samples = global_batch / devices
    flops = flops_per_sample * samples
    exchanged = 4 * parameters if devices > 1 else 0.0
    return Work(flops, 0.0, flops / FLOPS_PER_BYTE, 1.0, STATE_BYTES * parameters, exchanged, 0.0, 0.0)
