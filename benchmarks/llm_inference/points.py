"""Points of this workload's sweep, and the time of a run for forecasts.

Any number of devices can serve any number of requests in flight.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.common.options import ConfigError
from benchmarks.llm_inference.models import SHAPES
from results.record.served_rules import LEAST_E2E

BYTES_OF_WEIGHT = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
ROUNDS = 4  # of all requests in flight, at least, in a window


def check_point(
    model: str,
    num_devices: int,
    global_batch_size: int,
    micro_batch_size: int | None = None,
    pipeline_parallel_size: int | None = None,
) -> None:
    """Raise ConfigError unless the model's heads can be shared by so many devices."""
    shape = SHAPES.get(model)
    if shape and shape.kv_heads % num_devices:
        raise ConfigError(f"{num_devices} devices cannot share the {shape.kv_heads} key-value heads of {model}")


def run_s(
    value: Callable[[str], str], model: str, num_devices: int, global_batch_size: int, flops_per_s: float
) -> float:
    """Estimate the time of a run: one request of each stream before the window, and the window.

    A token takes 2 FLOPs of each weight. An output token also takes a read of all weights from memory, which all
    requests in flight share.
    """
    weights = SHAPES[model].parameters
    tokens_s = global_batch_size * 2 * weights / (num_devices * flops_per_s)
    bytes_per_s = float(value("memory_gb_per_s_per_device")) * 1e9 * num_devices
    read_s = weights * BYTES_OF_WEIGHT[value("default_precision")] / bytes_per_s if bytes_per_s else 0.0
    request_s = int(value("input_tokens")) * tokens_s + int(value("output_tokens")) * max(tokens_s, read_s)
    rounds = max(LEAST_E2E, ROUNDS, int(value("window_requests")) / global_batch_size)
    return request_s + max(float(value("window_s")), rounds * request_s)
